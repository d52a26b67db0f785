package safetensors_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/ckpt-surgery/ckpt/safetensors"
)

// tally counts how often each byte of a file was read.
type tally struct {
	data  []byte
	reads []int
}

func (c *tally) ReadAt(p []byte, off int64) (int, error) {
	n, err := bytes.NewReader(c.data).ReadAt(p, off)
	for i := range n {
		c.reads[off+int64(i)]++
	}
	return n, err
}

// check wants each byte of [begin,end) to have been read once and the others
// never, and starts again.
func (c *tally) check(t *testing.T, what string, begin, end int64) {
	t.Helper()
	for i, n := range c.reads {
		want := 0
		if begin <= int64(i) && int64(i) < end {
			want = 1
		}
		if n != want {
			t.Fatalf("%s: byte %d was read %d times, want %d", what, i, n, want)
		}
	}
	clear(c.reads)
}

// TestReadsWhatIsAskedFor opens a header longer than any buffer and sees that it
// is read once, and nothing after it before it is asked for.
func TestReadsWhatIsAskedFor(t *testing.T) {
	entries := []string{u8("t", 0, 100), u8("u", 100, 200)}
	for i := range 5000 {
		entries = append(entries, u8(fmt.Sprint("empty.", i), 200, 200))
	}
	data := frame(object(entries...), make([]byte, 200))
	c := &tally{data, make([]int, len(data))}
	f, err := safetensors.NewFile(c, int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	c.check(t, "NewFile", 0, f.DataOffset())
	for range f.Tensors() {
	}
	u, _ := f.Tensor("u")
	r := u.Reader()
	c.check(t, "listing", 0, 0)
	if _, err := io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
	c.check(t, "reading u", u.Offset, u.Offset+u.Bytes)
}

// eager gives io.EOF along with the last byte, as an io.ReaderAt may.
type eager struct{ data []byte }

func (e eager) ReadAt(p []byte, off int64) (int, error) {
	n := copy(p, e.data[min(off, int64(len(e.data))):])
	if off+int64(n) == int64(len(e.data)) {
		return n, io.EOF
	}
	return n, nil
}

func TestReadAt(t *testing.T) {
	between := frame(object(u8("before", 0, 4), u8("t", 4, 8), u8("after", 8, 12)), []byte("....abcd...."))
	last := frame(object(u8("before", 0, 4), u8("t", 4, 8)), []byte("....abcd"))
	for name, file := range map[string][]byte{"between others": between, "at the file's end": last} {
		f, err := safetensors.NewFile(eager{file}, int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		tensor, _ := f.Tensor("t")
		for _, test := range []struct {
			off  int64
			len  int
			want string
			err  error
		}{
			{0, 4, "abcd", nil},
			{0, 5, "abcd", io.EOF},
			{0, 1, "a", nil},
			{1, 2, "bc", nil},
			{3, 1, "d", nil},
			{3, 2, "d", io.EOF},
			{2, 0, "", nil},
			{4, 1, "", io.EOF},
			{5, 1, "", io.EOF},
			{math.MaxInt64, 1, "", io.EOF},
		} {
			p := bytes.Repeat([]byte("#"), test.len+1)
			n, err := tensor.ReadAt(p[:test.len], test.off)
			if string(p[:n]) != test.want || err != test.err {
				t.Errorf("%s: ReadAt(%d bytes, %d) = %q, %v; want %q, %v", name, test.len, test.off, p[:n], err, test.want, test.err)
			}
			if strings.Trim(string(p[n:]), "#") != "" {
				t.Errorf("%s: ReadAt(%d bytes, %d) wrote past what it returned: %q", name, test.len, test.off, p)
			}
		}
		for _, off := range []int64{-1, math.MinInt64} {
			if n, err := tensor.ReadAt(make([]byte, 1), off); n != 0 || err == nil || err == io.EOF {
				t.Errorf("%s: ReadAt at %d: %d, %v", name, off, n, err)
			}
		}
	}
}

func TestReader(t *testing.T) {
	content := []byte(strings.Repeat("0123456789", 50))
	f := mustOpen(t, object(u8("before", 0, 3), u8("t", 3, 503), u8("after", 503, 505), u8("empty", 505, 505)),
		append(append([]byte("abc"), content...), "zz"...))
	tensor, _ := f.Tensor("t")
	if err := iotest.TestReader(tensor.Reader(), content); err != nil {
		t.Error(err)
	}
	none, _ := f.Tensor("empty")
	if err := iotest.TestReader(none.Reader(), nil); err != nil {
		t.Error(err)
	}
	a, b := tensor.Reader(), tensor.Reader()
	if _, err := io.CopyN(io.Discard, a, 7); err != nil {
		t.Fatal(err)
	}
	var first [1]byte
	if _, err := io.ReadFull(b, first[:]); err != nil || first[0] != '0' {
		t.Errorf("two readers share a position: %q, %v", first, err)
	}
}

func TestConcurrentReads(t *testing.T) {
	const tensors, each = 100, 1000
	var entries []string
	var data []byte
	for i := range tensors {
		entries = append(entries, u8(fmt.Sprint(i), uint64(i*each), uint64(i+1)*each))
		data = append(data, bytes.Repeat([]byte{byte(i)}, each)...)
	}
	f := mustOpen(t, object(append(entries, `"__metadata__":{"k":"v"}`)...), data)
	shared, _ := f.Tensor("42")
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range tensors {
				i = (i + g*13) % tensors
				tensor, ok := f.Tensor(fmt.Sprint(i))
				b, err := io.ReadAll(tensor.Reader())
				if !ok || err != nil || len(b) != each || bytes.Count(b, []byte{byte(i)}) != each {
					t.Errorf("tensor %d: %v, %d bytes, %v", i, ok, len(b), err)
				}
				var p [10]byte
				if _, err := shared.ReadAt(p[:], int64(i)); err != nil || p != [10]byte{42, 42, 42, 42, 42, 42, 42, 42, 42, 42} {
					t.Errorf("shared tensor: %v, %v", p, err)
				}
				if f.Metadata()["k"] != "v" {
					t.Error("metadata")
				}
			}
			n := 0
			for range f.Tensors() {
				n++
			}
			if n != tensors {
				t.Errorf("%d tensors", n)
			}
		})
	}
	wg.Wait()
}

var errBoom = errors.New("boom")

// failing gives errBoom for every read that touches the byte at.
type failing struct {
	data []byte
	at   int64
}

func (f failing) ReadAt(p []byte, off int64) (int, error) {
	if off <= f.at && f.at < off+int64(len(p)) {
		return copy(p, f.data[off:f.at]), errBoom
	}
	return bytes.NewReader(f.data).ReadAt(p, off)
}

// TestIOErrors hands on what the source says, at each stage.
func TestIOErrors(t *testing.T) {
	data := frame(object(u8("t", 0, 10)), make([]byte, 10))
	size := int64(len(data))
	for _, at := range []int64{0, 7, 8, 20, size - 11} {
		f, err := safetensors.NewFile(failing{data, at}, size)
		if !errors.Is(err, errBoom) || f != nil || errors.Is(err, safetensors.Shrunk) {
			t.Errorf("byte %d: %v", at, err)
		}
	}
	f, err := safetensors.NewFile(failing{data, size - 5}, size)
	if err != nil {
		t.Fatal(err)
	}
	tensor, _ := f.Tensor("t")
	if n, err := tensor.ReadAt(make([]byte, 10), 0); n != 5 || !errors.Is(err, errBoom) || errors.Is(err, safetensors.Shrunk) {
		t.Errorf("in the tensor: %d, %v", n, err)
	}
	if _, err := io.ReadAll(tensor.Reader()); !errors.Is(err, errBoom) {
		t.Errorf("through Reader: %v", err)
	}
	if _, err := tensor.ReadAt(make([]byte, 5), 0); err != nil {
		t.Errorf("before the bad byte: %v", err)
	}
}
