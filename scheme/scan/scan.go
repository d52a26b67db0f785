// Package scan reads the bytes of a checkpoint in which one wrong value spoils
// everything: NaN and Inf in scales, norms and biases, and on request in every
// float tensor.
//
// An 8-bit scale that the quantizer forgot to clamp becomes NaN (E4M3 has no
// infinity), and a model with one such byte answers only "!!!!". No engine looks.
package scan

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/ckpt-surgery/ckpt/internal/kernel"
	"github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
	"github.com/ckpt-surgery/ckpt/scheme"
)

// Options says what to scan and how. The zero value scans scales and tensors of
// rank 0 and 1 with a worker a core.
type Options struct {
	All     bool // every float tensor, and weights that are zero throughout
	Workers int  // 0: one a core

	// Progress, if not nil, is called now and then with the bytes scanned so far
	// and in all. The calls come from the workers, one at a time.
	Progress func(done, total int64)
}

// Result is what a scan found. It is the same whatever the number of workers.
type Result struct {
	Tensors    int       // scanned
	Bytes      int64     // scanned
	Findings   []Finding // in the order of shards and data
	NotChecked []string  // what was left out, and why
	// Unread are the shards that could not be read to the end.
	Unread []checkpoint.Problem
}

// Finding codes.
const (
	ScaleNaN      = "SCALE-NAN"      // NaN or Inf in the scales of blocks, groups, channels or a tensor
	GlobalScale   = "GSCALE-DOMAIN"  // NaN or Inf in a global, activation or cache scale
	TensorNaN     = "TENSOR-NAN"     // NaN or Inf in a norm, bias, weight or other float tensor
	TensorOutlier = "TENSOR-OUTLIER" // finite values beyond OutlierLimit
	WeightZero    = "WEIGHT-ZERO"    // a weight that is zero throughout
)

const (
	// OutlierLimit is the magnitude above which a weight, norm or bias is
	// reported. Trained ones stay far below; what lies above is junk that a
	// converter left behind. Scales may be as large as they like.
	OutlierLimit = 1e4
	// MaxPositions is the number of positions that a Finding lists.
	MaxPositions = 8
	// blockSize is what a worker reads at a time. Smaller blocks stay in a
	// nearer cache, but the system reads larger ones faster: 1 MiB measured best.
	blockSize = 1 << 20
)

// Finding is a tensor with values that it must not have.
type Finding struct {
	Code     string              `json:"code"`
	Severity checkpoint.Severity `json:"severity"`
	Tensor   string              `json:"tensor"`
	File     string              `json:"file"`
	DType    string              `json:"dtype"`
	Part     scheme.Part         `json:"part"`
	NaN      int64               `json:"nan"`
	Inf      int64               `json:"inf"`
	Outliers int64               `json:"outliers,omitempty"` // finite, above OutlierLimit
	Zero     bool                `json:"zero,omitempty"`     // every element is zero
	First    []Position          `json:"first"`              // the first MaxPositions of them
	Message  string              `json:"message"`
	Repair   string              `json:"repair"`
}

// Position is one value.
type Position struct {
	Index  []uint64 `json:"index"`  // one number a dimension: (row, block) for most scales; empty for a scalar
	Offset int64    `json:"offset"` // of its first byte, from the start of the file
	Value  string   `json:"value"`  // its bytes as stored, in hex
	number uint64
}

// job is a block of a tensor.
type job struct {
	t        *target
	off, len int64
}

// Scan scans a checkpoint. A shard that cannot be read to the end is reported in
// Result.Unread and does not stop the others. The error is ctx's.
func Scan(ctx context.Context, c *checkpoint.Checkpoint, o Options) (*Result, error) {
	targets, r := plan(c, o.All)
	workers := cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	s := &scanner{result: r, progress: o.Progress, failed: map[*checkpoint.Shard]error{}}
	jobs := make(chan job, 4*workers)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(jobs)
		for _, t := range targets {
			for off := int64(0); off < t.Bytes; off += blockSize {
				select {
				case jobs <- job{t, off, min(blockSize, t.Bytes-off)}:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		return nil
	})
	for range workers {
		g.Go(func() error {
			buf := make([]byte, blockSize)
			for j := range jobs {
				if ctx.Err() != nil {
					break
				}
				s.scan(j, buf)
			}
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	r.Tensors, r.Bytes = 0, 0 // of a shard that failed not all is scanned
	for _, t := range targets {
		r.Bytes += t.scanned
		if t.scanned == t.Bytes {
			r.Tensors++
		}
		if f, ok := t.finding(o.All); ok {
			r.Findings = append(r.Findings, f)
		}
	}
	s.unread(c)
	return r, nil
}

type scanner struct {
	result   *Result
	progress func(done, total int64)
	mu       sync.Mutex
	done     int64
	failed   map[*checkpoint.Shard]error
}

// scan reads and scans one block.
func (s *scanner) scan(j job, buf []byte) {
	t := j.t
	s.mu.Lock()
	skip := s.failed[t.Shard] != nil
	s.mu.Unlock()
	if skip {
		return
	}
	p := buf[:j.len]
	if n, err := t.ReadAt(p, j.off); n < len(p) {
		s.mu.Lock()
		s.failed[t.Shard] = cmp.Or(s.failed[t.Shard], err)
		s.mu.Unlock()
		return
	}
	suspect, nonzero := t.format.Scan(p)
	t.mu.Lock()
	t.scanned += j.len
	t.nonzero = t.nonzero || nonzero
	if suspect {
		t.classify(p, j.off)
	}
	t.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done += j.len; s.progress != nil {
		s.progress(s.done, s.result.Bytes)
	}
}

// unread reports the shards that failed.
func (s *scanner) unread(c *checkpoint.Checkpoint) {
	for _, shard := range c.Shards() {
		if err := s.failed[shard]; err != nil {
			s.result.Unread = append(s.result.Unread, checkpoint.Problem{Code: checkpoint.ShardUnreadable, Severity: checkpoint.Fatal,
				File: shard.Name, Message: err.Error(), Repair: "scan again when nothing writes to the file, or fetch it again", Err: err})
			s.result.NotChecked = append(s.result.NotChecked, fmt.Sprintf("the rest of %q: it could not be read", shard.Name))
		}
	}
}

// target is a tensor to scan and what was found in it.
type target struct {
	checkpoint.Tensor
	part   scheme.Part
	format kernel.Format
	size   int64 // bytes an element

	mu       sync.Mutex
	scanned  int64 // bytes
	nonzero  bool
	nan, inf int64
	outliers int64
	first    []Position // of the worst class found so far, by element
	clean    []Position // outliers; listed if there is no NaN or Inf
}

// classify looks at each element of a block.
func (t *target) classify(p []byte, off int64) {
	base := uint64(off / t.size)
	t.format.Classify(p, func(i int, bits uint64, class kernel.Class) {
		to := &t.first
		switch class {
		case kernel.NaN:
			t.nan++
		case kernel.Inf:
			t.inf++
		case kernel.Outlier:
			t.outliers++
			to = &t.clean
		}
		keep(to, base+uint64(i), p[int64(i)*t.size:][:t.size], t.Offset+off+int64(i)*t.size)
	})
}

// keep adds a position to the list of the first few, whose order of arrival
// depends on the workers.
func keep(list *[]Position, number uint64, value []byte, offset int64) {
	l := *list
	if len(l) == MaxPositions && number > l[len(l)-1].number {
		return
	}
	at, _ := slices.BinarySearchFunc(l, number, func(p Position, n uint64) int { return cmp.Compare(p.number, n) })
	l = slices.Insert(l, at, Position{Offset: offset, Value: hex.EncodeToString(value), number: number})
	*list = l[:min(len(l), MaxPositions)]
}

// finding turns what was found into a Finding, if it is one.
func (t *target) finding(all bool) (Finding, bool) {
	f := Finding{Severity: checkpoint.Corrupt, Tensor: t.Name, File: t.Shard.Name, DType: string(t.DType), Part: t.part,
		NaN: t.nan, Inf: t.inf, Outliers: t.outliers, First: t.first}
	bad := strings.Join(slices.DeleteFunc([]string{count(t.nan, "NaN"), count(t.inf, "Inf")}, func(s string) bool { return s == "" }), " and ")
	elements, _ := t.Elements()
	switch {
	case bad == "" && t.outliers > 0:
		f.Code, f.Severity, f.First = TensorOutlier, checkpoint.Degraded, t.clean
		f.Message = fmt.Sprintf("%d finite value(s) above %.0f", t.outliers, float64(OutlierLimit))
		f.Repair = "compare the tensor with its source; a tensor that the model class does not know can be dropped"
	case bad == "" && all && !t.nonzero && t.Bytes > 0 && t.scanned == t.Bytes && len(t.Shape) > 1 && (t.part == scheme.Weight || t.part == scheme.Packed):
		f.Code, f.Severity, f.Zero = WeightZero, checkpoint.Degraded, true
		f.Message, f.Repair = "every element is zero", "compare the tensor with its source; some layers begin as zero, a damaged file ends so"
	case bad == "":
		return f, false
	case t.part == scheme.Scale || t.part == scheme.ScaleInv:
		f.Code, f.Message = ScaleNaN, fmt.Sprintf("%s of %d scales", bad, elements)
		f.Repair = "quantize the module again from its source"
		if t.DType == safetensors.F8E4M3 {
			f.Repair = "ckpt clamp-nan, which is exact where a block's codes are all zero; else " + f.Repair
		}
	case t.part.IsScale():
		f.Code, f.Message = GlobalScale, fmt.Sprintf("%s; all that this scale applies to becomes NaN or zero", bad)
		f.Repair = "calibrate again, or take the value from a sibling; a dead expert's scale may be 1.0"
	default:
		f.Code, f.Message = TensorNaN, fmt.Sprintf("%s of %d values", bad, elements)
		f.Repair = "no right value can be guessed: restore the tensor from its source"
	}
	perElement := uint64(1)
	if t.DType == "C64" {
		perElement = 2
	}
	for i := range f.First {
		f.First[i].Index = index(t.Shape, f.First[i].number/perElement)
	}
	if f.First == nil {
		f.First = []Position{}
	}
	return f, true
}

func count(n int64, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", n, what)
}

// index turns an element's number into one index a dimension.
func index(shape []uint64, n uint64) []uint64 {
	at := make([]uint64, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] == 0 {
			return at
		}
		at[i], n = n%shape[i], n/shape[i]
	}
	return at
}
