package patch

import (
	"context"
	"encoding/json"
	"errors"
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
	Writing  func(done, total int64) // of what is written after it
}

// ClampResult is what ClampNaN did, or would do.
type ClampResult struct {
	Changed    []Clamped
	Refused    []scan.Finding       // NaN and Inf for which no right value is known
	Left       []scan.Finding       // NaN bytes that could be clamped, and Only left out
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
	Live   int64  `json:"live"`  // of blocks with other codes, or whose codes were not found: the true scale is lost

	tensor checkpoint.Tensor
	codes  *scheme.Member // packed codes that the scales apply to, nil if they are not there
}

// ErrOnlyNothing is returned when Only selects none of the tensors with NaN.
var ErrOnlyNothing = errors.New("the names given select none of the tensors that hold NaN")

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
	wouldRefuse  = "IN-PLACE-REFUSED"  // a dry run's answer
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
	if err := readable(c, o); err != nil {
		return nil, err
	}
	if !o.DryRun { // what the target refuses, it refuses before a long scan
		if _, err := c.Plan(checkpoint.Change{}, o.Target); err != nil {
			return nil, err
		}
	}
	found, err := scan.Scan(ctx, c, scan.Options{All: true, Workers: o.Workers, Progress: o.Progress})
	if err != nil {
		return nil, err
	}
	r := &ClampResult{NotChecked: found.NotChecked, Unread: found.Unread}
	if len(found.Unread) > 0 {
		return r, found.Unread[0].Err
	}
	change, blocking, err := r.sort(ctx, c, o, found.Findings)
	switch {
	case err != nil:
		return r, err
	case len(blocking) > 0:
		r.Changed = nil
		return r, &UnclampableError{blocking}
	case len(r.Changed) == 0 && len(r.Left)+len(r.Refused) > 0:
		return r, ErrOnlyNothing
	}
	r.notes(c)
	if len(r.Changed) == 0 && o.Target.Out == "" {
		return r, nil // a second run changes nothing
	}
	if r.Plan, err = c.Plan(change, o.Target); o.DryRun {
		if err != nil { // told, as the answer to the question
			r.Notes = append(r.Notes, checkpoint.Problem{Code: wouldRefuse, Severity: checkpoint.Note, Message: "in place this is refused: " + err.Error()})
		}
		return r, nil
	}
	if err != nil {
		return r, err
	}
	r.Written, err = r.Plan.Run(ctx, checkpoint.RunOptions{Hook: o.Hook, Progress: o.Writing})
	return r, err
}

// readable refuses a model of which a part cannot be read: nobody knows what is
// in it. With Only, the user has said what to look at.
func readable(c *checkpoint.Checkpoint, o ClampOptions) error {
	for _, p := range c.Problems() {
		switch {
		case o.Only != nil || p.Severity != checkpoint.Fatal:
		case p.Err != nil:
			return p.Err
		default:
			return &checkpoint.RefusedError{Path: p.File, Why: p.Message, Do: "mend this first, or narrow the edit with --only"}
		}
	}
	return nil
}

// sort decides what becomes of each finding.
func (r *ClampResult) sort(ctx context.Context, c *checkpoint.Checkpoint, o ClampOptions, findings []scan.Finding) (change checkpoint.Change, blocking []scan.Finding, err error) {
	modules := map[string]*scheme.Module{}
	for _, m := range scheme.Modules(c) {
		modules[m.Name] = &m
	}
	shards := map[string]*checkpoint.Shard{}
	for _, s := range c.Shards() {
		shards[s.Name] = s
	}
	change.Patches = map[string][]checkpoint.Patch{}
	for _, f := range findings {
		if f.NaN+f.Inf == 0 {
			continue
		}
		t, ok := shards[f.File].Tensor(f.Tensor) // of a tensor that stands twice, the very one
		if !ok {
			return change, nil, fmt.Errorf("%q is no longer in %q", f.Tensor, f.File)
		}
		module, _ := scheme.PartOf(t.Info)
		selected := true
		if o.Only != nil {
			if selected, err = o.Only(f.Tensor, module); err != nil {
				return change, nil, err
			}
		}
		switch {
		case f.Code != scan.ScaleNaN || t.DType != safetensors.F8E4M3:
			r.Refused = append(r.Refused, f)
			if selected {
				blocking = append(blocking, f)
			}
		case !selected:
			r.Left = append(r.Left, f)
		default:
			x := Clamped{Tensor: f.Tensor, File: f.File, tensor: checkpoint.Tensor{Tensor: t, Shard: shards[f.File]}}
			if m := modules[module]; m != nil { // not there if another copy of the tensor has another dtype
				x.codes = codesOf(m, x.tensor)
			}
			if err := x.count(ctx); err != nil {
				return change, nil, err
			}
			r.Changed = append(r.Changed, x)
			change.Patches[f.File] = append(change.Patches[f.File], checkpoint.Patch{Offset: t.Offset, Length: t.Bytes, Edit: clampBytes(o.KeepSign)})
		}
	}
	return change, blocking, nil
}

// maxBlock is the largest block of codes, in bytes: NVFP4's has 8.
const maxBlock = 64

// codesOf returns the codes that a block scale applies to, if there is a whole
// number of bytes for each scale, and no absurd one.
func codesOf(m *scheme.Module, scale checkpoint.Tensor) *scheme.Member {
	codes := m.Get(scheme.Packed)
	if codes == nil {
		codes = m.Get(scheme.Weight)
	}
	if codes == nil || codes.DType != safetensors.U8 || scale.Bytes == 0 || codes.Bytes%scale.Bytes != 0 ||
		codes.Bytes/scale.Bytes > maxBlock || len(codes.Shape) == 0 || len(codes.Shape) != len(scale.Shape) {
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

// count walks over the scales, and over the codes of the blocks that are hit.
func (t *Clamped) count(ctx context.Context) error {
	const window = 64 << 10 // scales at a time, and their codes
	scales := make([]byte, window)
	codes := make([]byte, window*maxBlock)
	for off := int64(0); off < t.tensor.Bytes; off += window {
		if err := ctx.Err(); err != nil {
			return err
		}
		block := scales[:min(window, t.tensor.Bytes-off)]
		if n, err := t.tensor.ReadAt(block, off); n < len(block) {
			return err
		}
		var size int64 // of a block of codes; 0 until they are read, and if they are not known
		for i, b := range block {
			if b&0x7F != 0x7F {
				continue
			}
			if t.Count++; t.codes != nil && size == 0 {
				size = t.codes.Bytes / t.tensor.Bytes
				if n, err := t.codes.ReadAt(codes[:int64(len(block))*size], off*size); int64(n) < int64(len(block))*size {
					return err
				}
			}
			// Scales and blocks of codes have the same order.
			if size > 0 && zero(codes[int64(i)*size:][:size]) {
				t.Exact++
			} else {
				t.Live++
			}
		}
	}
	return nil
}

// zero reports whether every code is a zero of either sign: two E2M1 codes a
// byte, whose bits 3 and 7 are signs.
func zero(codes []byte) bool {
	for _, c := range codes {
		if c&0x77 != 0 {
			return false
		}
	}
	return true
}

// notes says what clamping leaves to do.
func (r *ClampResult) notes(c *checkpoint.Checkpoint) {
	for _, t := range r.Changed {
		if t.Live > 0 {
			what := "hold weights"
			if t.codes == nil {
				what = "may hold weights (their codes were not found)"
			}
			r.Notes = append(r.Notes, checkpoint.Problem{Code: liveScale, Severity: checkpoint.Degraded, File: t.File, Tensors: []string{t.Tensor},
				Message: fmt.Sprintf("%d of %d clamped blocks %s whose scale is lost: above 448 if the quantizer overflowed, anything if a byte was damaged", t.Live, t.Count, what),
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
