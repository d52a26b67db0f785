package checkpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// readAll reads a tensor.
func readAll(c *checkpoint.Checkpoint, name string) ([]byte, error) {
	tensor, ok := c.Tensor(name)
	if !ok {
		return nil, errors.New("no " + name)
	}
	return io.ReadAll(tensor.Reader())
}

func TestReaders(t *testing.T) {
	m := vectors.T0()
	bothWays(t, m, checkpoint.Options{}, func(t *testing.T, c *checkpoint.Checkpoint, err error) {
		if err != nil {
			t.Fatal(err)
		}
		tensor, _ := c.Tensor(lmHead)
		if err := iotest.TestReader(tensor.Reader(), m.Tensor(lmHead).Data); err != nil {
			t.Error(err)
		}
		if _, ok := c.Tensor("nosuch"); ok {
			t.Error("a tensor that is not there")
		}
		n := 0
		for range c.Tensors() {
			if n++; n == 3 {
				break
			}
		}
		c.Shards()[0] = nil // the caller's own list
		if c.Shards()[0] == nil || c.Shards()[0].Name != shard1 || n != 3 {
			t.Errorf("%d tensors, shards %v", n, shards(c))
		}
	})
}

// TestOrderOfTensors wants them shard by shard, in the order of the data.
func TestOrderOfTensors(t *testing.T) {
	m := many(12)
	m.Add(part(1, 12), vectors.Tensor{Name: "a", DType: "U16", Shape: []int{1}, Data: []byte("xy")}) // before t1: its dtype is larger
	m.Add(part(11, 12), vectors.Tensor{Name: "t0", DType: "U8", Shape: []int{1}, Data: []byte("z")}) // hides the first shard's
	bothWays(t, m, checkpoint.Options{}, func(t *testing.T, c *checkpoint.Checkpoint, err error) {
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for tensor := range c.Tensors() {
			got = append(got, tensor.Name)
		}
		want := strings.Fields("a t1 t2 t3 t4 t5 t6 t7 t8 t9 t10 t0 t11")
		if !slices.Equal(got, want) || c.Len() != len(want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

// TestBytesRead counts by hand: the headers, the index, config.json, and then
// what is read of the tensors.
func TestBytesRead(t *testing.T) {
	m := vectors.T0()
	m.Files["extra.safetensors"] = weights(0) // looked at, not loaded
	want := int64(len(m.Index()) + len(vectors.JSON(m.Config)))
	for _, name := range []string{shard1, shard2, "extra.safetensors"} {
		data := m.FS()[name].Data
		f, err := safetensors.NewFile(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		want += f.DataOffset()
	}
	bothWays(t, m, checkpoint.Options{}, func(t *testing.T, c *checkpoint.Checkpoint, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if got := c.BytesRead(); got != want {
			t.Fatalf("%d bytes after opening, want %d", got, want)
		}
		want := want
		for tensor := range c.Tensors() {
			want += tensor.Bytes
			if n, err := io.Copy(io.Discard, tensor.Reader()); n != tensor.Bytes || err != nil {
				t.Fatalf("%s: %d bytes, %v", tensor.Name, n, err)
			}
		}
		tensor, _ := c.Tensor(lmHead)
		tensor.ReadAt(make([]byte, 10), tensor.Bytes-7)
		tensor.ReadAt(make([]byte, 10), tensor.Bytes)
		if _, err := c.ReadFile("tokenizer.json"); err != nil {
			t.Fatal(err)
		}
		want += 7 + int64(len(m.Files["tokenizer.json"]))
		if got := c.BytesRead(); got != want {
			t.Errorf("%d bytes, want %d", got, want)
		}
	})
}

// TestBytesReadOfDuplicates counts what is compared: up to the first difference,
// in chunks of 256 KiB.
func TestBytesReadOfDuplicates(t *testing.T) {
	data := make([]byte, 1<<20)
	twin := func(at int) vectors.Tensor {
		d := bytes.Clone(data)
		d[at]++
		return vectors.Tensor{Name: "twin", DType: "U8", Shape: []int{len(d)}, Data: d}
	}
	read := func(first, last vectors.Tensor) int64 {
		m := vectors.T0()
		m.Add(shard1, first)
		m.Add(shard2, last)
		c, err := checkpoint.OpenFS(m.FS(), checkpoint.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return closing(t, c).BytesRead()
	}
	if late, early := read(twin(600_000), twin(600_001)), read(twin(100_000), twin(100_001)); late-early != 2*2*256<<10 {
		t.Errorf("a difference two chunks later costs %d bytes", late-early)
	}
}

func TestEmptyTensors(t *testing.T) {
	m := vectors.T0()
	m.Add(shard1, vectors.Tensor{Name: "empty", DType: "F32", Shape: []int{0, 7}})
	m.Add("z.safetensors", vectors.Tensor{Name: "nothing", DType: "U8", Shape: []int{0}})
	m.Add("none.safetensors", vectors.Tensor{})
	m.Shard("none.safetensors").Tensors = nil
	m.Indexed = false
	bothWays(t, m, checkpoint.Options{}, func(t *testing.T, c *checkpoint.Checkpoint, err error) {
		if err != nil {
			t.Fatal(err)
		}
		expect(t, c)
		holds(t, c, m)
		tensor, _ := c.Tensor("empty")
		if n, err := tensor.ReadAt(make([]byte, 1), 0); n != 0 || err != io.EOF {
			t.Errorf("%d, %v", n, err)
		}
	})
}

// TestClose wants reads to fail from then on, and to say of what.
func TestClose(t *testing.T) {
	bothWays(t, vectors.T0(), checkpoint.Options{}, func(t *testing.T, c *checkpoint.Checkpoint, err error) {
		if err != nil {
			t.Fatal(err)
		}
		tensor, _ := c.Tensor(lmHead)
		reader := tensor.Reader()
		if _, err := reader.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		_, err1 := reader.Read(make([]byte, 1))
		_, err2 := tensor.ReadAt(make([]byte, 1), 0)
		for _, err := range []error{err1, err2} {
			if !errors.Is(err, fs.ErrClosed) || !strings.Contains(err.Error(), lmHead) || !strings.Contains(err.Error(), shard2) {
				t.Errorf("after Close: %v", err)
			}
		}
		if _, err := c.ReadFile("config.json"); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("ReadFile after Close: %v", err)
		}
		if c.Len() != 21 {
			t.Error("the headers are gone")
		}
	})
}

// TestFilesThatChange cuts and deletes files under an open checkpoint.
func TestFilesThatChange(t *testing.T) {
	const n = 2 * maxOpen
	m := many(n)
	dir := written(t, m)
	c := mustOpen(t, dir)
	first := filepath.Join(dir, part(0, n))
	st, err := os.Stat(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(first, st.Size()-4); err != nil {
		t.Fatal(err)
	}
	before := c.BytesRead()
	got, err := readAll(c, "t0")
	if n := c.BytesRead() - before; n != int64(len("tensor ")) {
		t.Errorf("cut: %d bytes counted", n)
	}
	var bad *safetensors.Error
	if !errors.As(err, &bad) || bad.Class != safetensors.Shrunk || bad.File != part(0, n) || bad.Tensor != "t0" || string(got) != "tensor " {
		t.Errorf("cut: %q, %v", got, err)
	}
	// Enough reads for the second file to be closed.
	for i := n - maxOpen; i < n; i++ {
		if _, err := readAll(c, fmt.Sprintf("t%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, part(1, n))); err != nil {
		t.Fatal(err)
	}
	if _, err := readAll(c, "t1"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), part(1, n)) || !strings.Contains(err.Error(), `"t1"`) {
		t.Errorf("deleted: %v", err)
	}
	if got, err := readAll(c, "t2"); err != nil || string(got) != "tensor 0002" {
		t.Errorf("others: %q, %v", got, err)
	}
}

// TestDuplicateThatFails blames the file that cannot be read.
func TestDuplicateThatFails(t *testing.T) {
	for _, name := range []string{shard1, shard2} {
		m := vectors.T0()
		twin := vectors.Normal("twin", 100)
		m.Add(shard1, twin)
		m.Add(shard2, twin)
		c, err := checkpoint.OpenFS(failing{m.FS(), func(file string, off int64) error {
			if file == name && off > 4000 { // behind the header
				return errors.New("input/output error")
			}
			return nil
		}}, checkpoint.Options{})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, closing(t, c), want{checkpoint.ShardUnreadable, checkpoint.Fatal, name, nil, errAny, []string{"input/output error", name, `"twin"`}})
	}
}

// failing is a file system whose reads can fail.
type failing struct {
	files fstest.MapFS
	fault func(file string, off int64) error
}

type failingFile struct {
	fs.File
	fault func(file string, off int64) error
	name  string
}

func (f failing) Open(name string) (fs.File, error) {
	file, err := f.files.Open(name)
	if err != nil || name == "." {
		return file, err
	}
	return &failingFile{file, f.fault, name}, nil
}

func (f failing) Stat(name string) (fs.FileInfo, error) { return f.files.Stat(name) }

func (f *failingFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.fault(f.name, off); err != nil {
		return 0, err
	}
	return f.File.(io.ReaderAt).ReadAt(b, off)
}
