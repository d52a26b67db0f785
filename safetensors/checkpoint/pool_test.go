package checkpoint_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// maxOpen is how many files a Checkpoint may hold open.
const maxOpen = 64

// many is a model of one small tensor a shard; t7 is in the shard part(7).
func many(shards int) *vectors.Model {
	m := vectors.T0()
	m.Shards = nil
	for i := range shards {
		data := []byte(fmt.Sprintf("tensor %04d", i))
		m.Add(part(i, shards), vectors.Tensor{Name: fmt.Sprintf("t%d", i), DType: "U8", Shape: []int{len(data)}, Data: data})
	}
	return m
}

func part(i, shards int) string {
	return fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, shards)
}

// TestConcurrent reads from more files than may be open, out of order.
func TestConcurrent(t *testing.T) {
	const n = 3 * maxOpen
	bothWays(t, many(n), checkpoint.Options{}, func(t *testing.T, c *checkpoint.Checkpoint, err error) {
		if err != nil {
			t.Fatal(err)
		}
		before := c.BytesRead()
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(g), 1))
				for _, i := range r.Perm(n) {
					if got, err := readAll(c, fmt.Sprintf("t%d", i)); err != nil || string(got) != fmt.Sprintf("tensor %04d", i) {
						t.Errorf("t%d: %q, %v", i, got, err)
					}
				}
			})
		}
		wg.Wait()
		if got := c.BytesRead() - before; got != 16*n*int64(len("tensor 0000")) {
			t.Errorf("%d bytes read", got)
		}
	})
}

// TestCloseWhileReading closes the checkpoint under its readers.
func TestCloseWhileReading(t *testing.T) {
	const n = 2 * maxOpen
	bothWays(t, many(n), checkpoint.Options{}, func(t *testing.T, c *checkpoint.Checkpoint, err error) {
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range n {
					got, err := readAll(c, fmt.Sprintf("t%d", i))
					if err == nil && string(got) != fmt.Sprintf("tensor %04d", i) || err != nil && !errors.Is(err, fs.ErrClosed) {
						t.Errorf("t%d: %q, %v", i, got, err)
					}
					if g == 0 && i == n/2 {
						c.Close()
					}
				}
			})
		}
		wg.Wait()
	})
}

// counted is a file system that counts its open files and may hold up reads.
type counted struct {
	files fstest.MapFS
	count *struct{ open, most atomic.Int32 }
	gate  *atomic.Pointer[chan struct{}]
}

func (c counted) Stat(name string) (fs.FileInfo, error)      { return c.files.Stat(name) }
func (c counted) ReadDir(name string) ([]fs.DirEntry, error) { return c.files.ReadDir(name) }

func (c counted) Open(name string) (fs.File, error) {
	f, err := c.files.Open(name)
	if err != nil {
		return nil, err
	}
	now := c.count.open.Add(1)
	for old := c.count.most.Load(); now > old && !c.count.most.CompareAndSwap(old, now); old = c.count.most.Load() {
	}
	return countedFile{f, c}, nil
}

type countedFile struct {
	fs.File
	fsys counted
}

func (f countedFile) Close() error {
	f.fsys.count.open.Add(-1)
	return f.File.Close()
}

func (f countedFile) ReadAt(b []byte, off int64) (int, error) {
	if gate := f.fsys.gate.Load(); gate != nil {
		<-*gate
	}
	return f.File.(io.ReaderAt).ReadAt(b, off)
}

// TestOpenFiles holds up a thousand reads inside their files, to see how many
// files are open by then, and that all come to an end.
func TestOpenFiles(t *testing.T) {
	const n = 1000
	fsys := counted{many(n).FS(), new(struct{ open, most atomic.Int32 }), new(atomic.Pointer[chan struct{}])}
	synctest.Test(t, func(t *testing.T) {
		c, err := checkpoint.OpenFS(fsys, checkpoint.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if most := fsys.count.most.Load(); most != maxOpen {
			t.Errorf("opening held %d files open, want %d", most, maxOpen)
		}
		gate := make(chan struct{})
		fsys.gate.Store(&gate)
		var done atomic.Int32
		for i := range n {
			go func() {
				if got, err := readAll(c, fmt.Sprintf("t%d", i)); err != nil || string(got) != fmt.Sprintf("tensor %04d", i) {
					t.Errorf("t%d: %q, %v", i, got, err)
				}
				done.Add(1)
			}()
		}
		synctest.Wait()
		if open, done := fsys.count.open.Load(), done.Load(); open != maxOpen || done != 0 {
			t.Errorf("%d files are open and %d reads are done", open, done)
		}
		close(gate)
		synctest.Wait()
		if most, done := fsys.count.most.Load(), done.Load(); most != maxOpen || done != n {
			t.Errorf("%d files were open at once, %d reads are done", most, done)
		}
		c.Close()
		if open := fsys.count.open.Load(); open != 0 {
			t.Errorf("%d files are open after Close", open)
		}
	})
}

// TestCloseWaitsForNoOne closes the checkpoint while reads are held up: their
// files are closed when they are done.
func TestCloseWaitsForNoOne(t *testing.T) {
	fsys := counted{vectors.T0().FS(), new(struct{ open, most atomic.Int32 }), new(atomic.Pointer[chan struct{}])}
	synctest.Test(t, func(t *testing.T) {
		c, err := checkpoint.OpenFS(fsys, checkpoint.Options{})
		if err != nil {
			t.Fatal(err)
		}
		gate := make(chan struct{})
		fsys.gate.Store(&gate)
		tensor, _ := c.Tensor(lmHead)
		var reading error
		go func() { _, reading = tensor.ReadAt(make([]byte, 1), 0) }()
		synctest.Wait()
		c.Close()
		if open := fsys.count.open.Load(); open != 1 {
			t.Errorf("%d files are open during the read", open)
		}
		close(gate)
		synctest.Wait()
		if open := fsys.count.open.Load(); open != 0 || reading != nil {
			t.Errorf("%d files are open after the read, %v", open, reading)
		}
	})
}

// TestFailedOpens has a thousand readers of files that are gone by then.
func TestFailedOpens(t *testing.T) {
	const n = 1000
	m := many(n).FS()
	c, err := checkpoint.OpenFS(m, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, c)
	for i := range n - maxOpen {
		delete(m, part(i, n))
	}
	var wg sync.WaitGroup
	var failed atomic.Int32
	for i := range n {
		wg.Go(func() {
			if _, err := readAll(c, fmt.Sprintf("t%d", i)); errors.Is(err, fs.ErrNotExist) {
				failed.Add(1)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	promptly(t, wg.Wait)
	if failed.Load() < n-2*maxOpen {
		t.Errorf("only %d reads failed", failed.Load())
	}
}
