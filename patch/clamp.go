package patch

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
	"github.com/ckpt-surgery/ckpt/scheme"
	"github.com/ckpt-surgery/ckpt/scheme/scan"
)

// ClampOptions say what ClampNaN may change, and where the result goes.
type ClampOptions struct {
	Target   checkpoint.Target
	DryRun   bool // plan, write nothing
	KeepSign bool // 0xFF becomes 0xFE instead of 0x7E
	// Only limits the edit to tensors for which it returns true; nil is all of
	// them. What it leaves out does not stand in the way either.
	Only func(tensor, module string) (bool, error)

	Workers  int
	Hook     checkpoint.Hook
	Progress func(done, total int64) // of the scan
}

// ClampResult is what ClampNaN did, or would do.
type ClampResult struct {
	Changed    []Clamped
	Refused    []scan.Finding       // NaN and Inf for which no right value is known
	Notes      []checkpoint.Problem // what to do about live blocks, and about the producer
	Plan       *checkpoint.WritePlan
	Written    []checkpoint.Written
	NotChecked []string
	Unread     []checkpoint.Problem // shards that could not be read to the end
}

// Clamped is a scale tensor whose NaN bytes are replaced.
type Clamped struct {
	Tensor string `json:"tensor"`
	File   string `json:"file"`
	Count  int64  `json:"count"` // bytes replaced
	Exact  int64  `json:"exact"` // of blocks whose codes are all zero: any finite scale is right
	Live   int64  `json:"live"`  // of blocks with other codes: the true scale was above 448 and is lost

	tensor checkpoint.Tensor
	codes  *scheme.Member // packed codes that the scales apply to, nil if they are not there
}

// An UnclampableError says that a model holds NaN or Inf that cannot be clamped;
// nothing was written.
type UnclampableError struct{ Findings []scan.Finding }

func (e *UnclampableError) Error() string {
	return fmt.Sprintf("%d tensor(s) hold NaN or Inf for which no right value is known, such as %q: restore or quantize them again from the source, or clamp the others with --only",
		len(e.Findings), e.Findings[0].Tensor)
}

// Codes of notes.
const (
	liveScale    = "SCALE-LOST"        // a clamped block holds weights whose scale is unknown
	unclampedOld = "PRODUCER-NO-CLAMP" // written by a version that casts without clamping
)

// ClampNaN replaces the NaN bytes among E4M3 block scales, 0x7F and 0xFF, by the
// largest finite value 0x7E, as ModelOpt's and vllm-omni's later versions do
// when they cast (448 is what a larger scale would have been clamped to). Only
// those bytes change.
//
// Every float tensor is scanned first. NaN or Inf anywhere else, in norms,
// biases, weights or wider scales, has no right value to guess: nothing is
// written then, and the error is an *UnclampableError.
func ClampNaN(ctx context.Context, c *checkpoint.Checkpoint, o ClampOptions) (*ClampResult, error) {
	found, err := scan.Scan(ctx, c, scan.Options{All: true, Workers: o.Workers, Progress: o.Progress})
	if err != nil {
		return nil, err
	}
	r := &ClampResult{NotChecked: found.NotChecked, Unread: found.Unread}
	if len(found.Unread) > 0 {
		return r, found.Unread[0].Err
	}
	modules := map[string]*scheme.Module{}
	for _, m := range scheme.Modules(c) {
		modules[m.Name] = &m
	}
	var blocking []scan.Finding
	change := checkpoint.Change{Patches: map[string][]checkpoint.Patch{}}
	for _, f := range found.Findings {
		if f.NaN+f.Inf == 0 {
			continue
		}
		t, module, err := locate(c, modules, f)
		if err != nil {
			return r, err
		}
		selected := true
		if o.Only != nil {
			if selected, err = o.Only(f.Tensor, module.Name); err != nil {
				return r, err
			}
		}
		switch {
		case f.Code != scan.ScaleNaN || t.DType != safetensors.F8E4M3:
			r.Refused = append(r.Refused, f)
			if selected {
				blocking = append(blocking, f)
			}
		case selected:
			clamped := Clamped{Tensor: f.Tensor, File: f.File, tensor: t, codes: codesOf(module, t)}
			if err := clamped.count(ctx); err != nil {
				return r, err
			}
			r.Changed = append(r.Changed, clamped)
			change.Patches[f.File] = append(change.Patches[f.File], checkpoint.Patch{
				Offset: t.Offset, Length: t.Bytes, Edit: clampBytes(o.KeepSign)})
		}
	}
	r.notes(c)
	if len(blocking) > 0 {
		return r, &UnclampableError{blocking}
	}
	if len(r.Changed) == 0 && o.Target.Out == "" {
		return r, nil // a second run changes nothing
	}
	if r.Plan, err = c.Plan(change, o.Target); err != nil || o.DryRun {
		return r, err
	}
	r.Written, err = r.Plan.Run(ctx, checkpoint.RunOptions{Hook: o.Hook})
	return r, err
}

// locate returns the very tensor of a finding, which may stand in several shards,
// and its module.
func locate(c *checkpoint.Checkpoint, modules map[string]*scheme.Module, f scan.Finding) (checkpoint.Tensor, *scheme.Module, error) {
	for _, s := range c.Shards() {
		if s.Name != f.File {
			continue
		}
		if t, ok := s.Tensor(f.Tensor); ok {
			name, _ := scheme.PartOf(t.Info)
			return checkpoint.Tensor{Tensor: t, Shard: s}, modules[name], nil
		}
	}
	return checkpoint.Tensor{}, nil, fmt.Errorf("%q is no longer in %q", f.Tensor, f.File)
}

// codesOf returns the codes that a block scale applies to, if there is a whole
// number of bytes for each scale.
func codesOf(m *scheme.Module, scale checkpoint.Tensor) *scheme.Member {
	codes := m.Get(scheme.Packed)
	if codes == nil {
		codes = m.Get(scheme.Weight)
	}
	if codes == nil || codes.DType != safetensors.U8 || scale.Bytes == 0 || codes.Bytes%scale.Bytes != 0 ||
		len(codes.Shape) == 0 || len(codes.Shape) != len(scale.Shape) {
		return nil
	}
	for i := range len(codes.Shape) - 1 {
		if codes.Shape[i] != scale.Shape[i] {
			return nil
		}
	}
	return codes
}

// clampBytes is the edit.
func clampBytes(keepSign bool) func([]byte, int64) {
	return func(block []byte, _ int64) {
		for i, b := range block {
			switch {
			case b == 0x7F, b == 0xFF && !keepSign:
				block[i] = 0x7E
			case b == 0xFF:
				block[i] = 0xFE
			}
		}
	}
}

// count walks over the scales, and over the codes of each block that is hit.
func (t *Clamped) count(ctx context.Context) error {
	buf := make([]byte, 1<<20)
	for off := int64(0); off < t.tensor.Bytes; off += int64(len(buf)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		block := buf[:min(int64(len(buf)), t.tensor.Bytes-off)]
		if n, err := t.tensor.ReadAt(block, off); n < len(block) {
			return err
		}
		for i, b := range block {
			if b&0x7F != 0x7F {
				continue
			}
			t.Count++
			exact, err := t.zero(off + int64(i))
			if err != nil {
				return err
			}
			if exact {
				t.Exact++
			} else {
				t.Live++
			}
		}
	}
	return nil
}

// zero reports whether every code of a block is a zero of either sign. Scales and
// blocks of codes have the same order, so the block's place follows from its
// number.
func (t *Clamped) zero(block int64) (bool, error) {
	if t.codes == nil {
		return false, nil
	}
	size := t.codes.Bytes / t.tensor.Bytes
	codes := make([]byte, size)
	if n, err := t.codes.ReadAt(codes, block*size); n < len(codes) {
		return false, err
	}
	for _, c := range codes {
		if c&0x77 != 0 { // two E2M1 codes; bits 3 and 7 are signs
			return false, nil
		}
	}
	return true, nil
}

// notes says what clamping leaves to do.
func (r *ClampResult) notes(c *checkpoint.Checkpoint) {
	for _, t := range r.Changed {
		if t.Live > 0 {
			r.Notes = append(r.Notes, checkpoint.Problem{Code: liveScale, Severity: checkpoint.Degraded, File: t.File, Tensors: []string{t.Tensor},
				Message: fmt.Sprintf("%d of %d clamped blocks hold weights; their true scale was above 448 and is lost, so they come out too small", t.Live, t.Count),
				Repair:  "quantize the module again from its source"})
		}
	}
	if name, version := producer(c); name == scheme.ModelOpt && len(r.Changed) > 0 && below(version, 0, 45) {
		r.Notes = append(r.Notes, checkpoint.Problem{Code: unclampedOld, Severity: checkpoint.Note,
			Message: fmt.Sprintf("written by ModelOpt %q; versions below 0.45 cast block scales without clamping", version),
			Repair:  "quantize with ModelOpt 0.45 or later"})
	}
}

// producer returns who wrote a ModelOpt checkpoint.
func producer(c *checkpoint.Checkpoint) (name, version string) {
	type block struct {
		Producer struct{ Name, Version string } `json:"producer"`
	}
	var inline struct {
		Quant block `json:"quantization_config"`
	}
	var legacy block
	json.Unmarshal(c.Config(), &inline) // one that is not JSON has no producer
	if text, err := c.ReadFile("hf_quant_config.json"); err == nil {
		json.Unmarshal(text, &legacy)
	}
	p := inline.Quant.Producer
	if p.Name == "" {
		p = legacy.Producer
	}
	return strings.ToLower(p.Name), p.Version
}

// below compares the first two numbers of a version; one that has none is not
// below anything.
func below(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, err1 := strconv.Atoi(parts[0])
	b, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (a < major || a == major && b < minor)
}
