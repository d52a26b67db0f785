package scan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	st "github.com/ckpt-surgery/ckpt/safetensors"
)

// borders are the bytes around the borders of blocks in a tensor of that length.
func borders(size int) []int {
	var list []int
	for b := 0; b <= size; b += blockSize {
		for _, at := range []int{b - 8, b - 4, b - 2, b - 1, b, b + 1, b + 2, b + 4, b + 8} {
			if 0 <= at && at < size {
				list = append(list, at)
			}
		}
	}
	return append(list, size-1)
}

// large is a model with tensors of many blocks, full of faults around the
// borders, and the number of faults in each.
func large() (*vectors.Model, map[string]int64) {
	m := &vectors.Model{Files: map[string][]byte{}}
	faulty := map[string]int64{}
	for i, c := range []struct {
		name  string
		dtype st.DType
		shape []int
		clean string
		bad   string
	}{
		{"a.weight_scale", st.F8E4M3, []int{3*blockSize/512 + 1, 512}, "38", "7f"},
		{"b.weight_scale", st.BF16, []int{2 * blockSize / 256, 128}, "803f", "807f"}, // ends at a border
		{"c.weight", st.F32, []int{blockSize + 1}, "0000803f", "0000c07f"},           // ends behind one
		{"d.weight", st.F64, []int{blockSize/4 - 1}, "000000000000f03f", "000000000000f0ff"},
		{"e.weight", st.BF16, []int{blockSize}, "803f", "7073"},
		{"f.weight_scale", st.U8, []int{blockSize}, "7f", "ff"},
		{"g.weight_scale", st.U8, []int{1, blockSize + 1}, "7f", "ff"},
	} {
		tensor := filled(c.name, c.dtype, c.shape, c.clean)
		size, numbers := len(c.bad)/2, map[int]bool{}
		for _, b := range borders(len(tensor.Data)) {
			numbers[b/size] = true
		}
		for n := range numbers {
			copy(tensor.Data[n*size:], unhex(c.bad))
		}
		faulty[c.name] = int64(len(numbers))
		m.Add(fmt.Sprintf("model-%05d-of-00002.safetensors", i%2+1), tensor)
	}
	return m, faulty
}

func TestBlockBorders(t *testing.T) {
	m, want := large()
	files := m.FS()
	r := scanFS(t, files, Options{})
	if len(r.Findings) != len(want) {
		t.Errorf("%d findings, want %d", len(r.Findings), len(want))
	}
	for _, f := range r.Findings {
		if got := f.NaN + f.Inf + f.Outliers; got != want[f.Tensor] {
			t.Errorf("%s: %d faults, want %d", f.Tensor, got, want[f.Tensor])
		}
		if len(f.First) != int(min(want[f.Tensor], MaxPositions)) || !slices.IsSortedFunc(f.First, func(a, b Position) int { return cmp.Compare(a.Offset, b.Offset) }) {
			t.Errorf("%s: %+v", f.Tensor, f.First)
		}
		checkPositions(t, open(t, files), files, f)
	}
	// One fault at a time.
	for _, size := range []int{blockSize - 1, blockSize, blockSize + 1, 2*blockSize + 3} {
		tensor := filled("m.weight_scale", st.F8E4M3, []int{size}, "38")
		for _, b := range borders(size) {
			tensor.Data[b] = 0xff
			r := scanFS(t, oneFile(tensor), Options{})
			tensor.Data[b] = 0x38
			if len(r.Findings) != 1 || r.Findings[0].NaN != 1 || at(r.Findings[0].First[0]) != fmt.Sprintf("[%d] ff", b) {
				t.Errorf("byte %d of %d: %+v", b, size, r.Findings)
			}
		}
	}
	// A weight that is not zero only in one of its blocks.
	tensor := filled("m.weight", st.BF16, []int{3, blockSize}, "0000")
	if r := scanFS(t, oneFile(tensor), Options{All: true}); len(r.Findings) != 1 || !r.Findings[0].Zero {
		t.Errorf("all zero: %+v", r.Findings)
	}
	for _, b := range borders(len(tensor.Data)) {
		tensor.Data[b] = 0x3f
		for _, workers := range []int{1, 2} {
			if r := scanFS(t, oneFile(tensor), Options{All: true, Workers: workers}); len(r.Findings) > 0 {
				t.Errorf("all but byte %d zero: %+v", b, r.Findings)
			}
		}
		tensor.Data[b] = 0
	}
}

// The result does not depend on the workers.
func TestWorkers(t *testing.T) {
	big, _ := large()
	models := map[string]fstest.MapFS{"large": big.FS()}
	for name, m := range map[string]*vectors.Model{"N(T1)": vectors.NVFP4(vectors.T1(), false), "many": vectors.Large(3000, 7)} {
		models[name] = m.FS()
		plant(t, models[name], 500, rand.New(rand.NewPCG(7, 7)))
	}
	for name, files := range models {
		for _, all := range []bool{false, true} {
			var want []byte
			for _, workers := range []int{1, 2, 8, 0, 1, 8} {
				got, err := json.Marshal(scanFS(t, files, Options{All: all, Workers: workers}))
				if err != nil {
					t.Fatal(err)
				}
				if want == nil {
					want = got
				}
				if string(got) != string(want) {
					t.Errorf("%s: %d workers: %s, want %s", name, workers, got, want)
				}
			}
		}
	}
	// Nothing is written to a checkpoint that several scans share.
	c := open(t, models["large"])
	results := make([]*Result, 4)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() { results[i], _ = Scan(context.Background(), c, Options{}) })
	}
	wg.Wait()
	for _, r := range results {
		if r == nil || len(r.Findings) != len(results[0].Findings) {
			t.Errorf("%+v", r)
		}
	}
}

// The calls come one at a time, grow, and end at the total.
func TestProgress(t *testing.T) {
	m, _ := large()
	for _, workers := range []int{1, 8} {
		var busy atomic.Bool
		var last, calls, first int64
		r := scanFS(t, m.FS(), Options{Workers: workers, Progress: func(done, total int64) {
			if !busy.CompareAndSwap(false, true) {
				t.Error("two calls at once")
			}
			if done <= last || done > total || first != 0 && total != first {
				t.Errorf("%d of %d after %d", done, total, last)
			}
			last, first = done, total
			calls++
			runtime.Gosched()
			busy.Store(false)
		}})
		if last != r.Bytes || first != r.Bytes || calls < r.Bytes/blockSize {
			t.Errorf("%d workers: ended at %d of %d after %d calls, %d bytes", workers, last, first, calls, r.Bytes)
		}
	}
}

// counting counts the reads of an fs.FS.
type counting struct {
	fstest.MapFS
	reads *atomic.Int64
	wait  func() // before a read of weights
}

type countedFile struct {
	fs.File
	fsys counting
}

func (c counting) Open(name string) (fs.File, error) {
	f, err := c.MapFS.Open(name)
	if err != nil {
		return nil, err
	}
	if _, ok := f.(io.ReaderAt); !ok {
		return f, nil // a folder
	}
	return countedFile{f, c}, nil
}

func (f countedFile) ReadAt(p []byte, off int64) (int, error) {
	f.fsys.reads.Add(1)
	if f.fsys.wait != nil && off > 0 && len(p) == blockSize {
		f.fsys.wait()
	}
	return f.File.(io.ReaderAt).ReadAt(p, off)
}

// A scan that is cancelled returns what the context says, soon: no worker begins
// another block.
func TestCancel(t *testing.T) {
	files := oneFile(filled("m.weight", st.U8, []int{1, 1}, "01"), filled("m.weight_scale", st.F8E4M3, []int{64, blockSize}, "38"))
	cause := errors.New("the reason")
	for _, workers := range []int{1, 2, 8} {
		ctx, cancel := context.WithCancelCause(context.Background())
		fsys := counting{files, new(atomic.Int64), nil}
		c := open(t, fsys)
		opened := fsys.reads.Load()
		var calls atomic.Int64
		r, err := Scan(ctx, c, Options{Workers: workers, Progress: func(int64, int64) {
			if calls.Add(1) == 3 {
				cancel(cause)
			}
		}})
		if !errors.Is(err, context.Canceled) || r != nil {
			t.Errorf("%d workers: %v, %v", workers, r, err)
		}
		if reads := fsys.reads.Load() - opened; reads < 3 || reads > int64(3+workers) {
			t.Errorf("%d workers: %d reads", workers, reads)
		}
		cancel(nil)
	}

	// Before it began.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if r, err := Scan(ctx, open(t, files), Options{All: true}); r != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", r, err)
	}

	// At a deadline, in the middle of slow reads.
	ctx, cancel = context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	slow := counting{files, new(atomic.Int64), func() { time.Sleep(20 * time.Millisecond) }}
	c := open(t, slow)
	start := time.Now()
	r, err := Scan(ctx, c, Options{Workers: 2})
	if r != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, %v", r, err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if reads := slow.reads.Load(); reads > 32 {
		t.Errorf("%d reads", reads)
	}
}

// No goroutine is left behind, whether a scan ends or is cancelled.
func TestGoroutines(t *testing.T) {
	m, _ := large()
	c := open(t, m.FS())
	before := runtime.NumGoroutine()
	for range 20 {
		ctx, cancel := context.WithCancel(context.Background())
		Scan(ctx, c, Options{Workers: 8, Progress: func(int64, int64) { cancel() }})
		cancel()
		if _, err := Scan(context.Background(), c, Options{Workers: 8}); err != nil {
			t.Fatal(err)
		}
	}
	var after []int
	for range 100 {
		after = append(after, runtime.NumGoroutine())
		if slices.Min(after) <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", slices.Min(after), before)
}
