package safetensors_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors"
)

// buffer is a file in memory.
type buffer struct {
	mu sync.Mutex
	b  []byte
}

func (b *buffer) WriteAt(p []byte, off int64) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := int(off) + len(p); n > len(b.b) {
		b.b = append(b.b, make([]byte, n-len(b.b))...)
	}
	return copy(b.b[off:], p), nil
}

func slotsOf(f *safetensors.File) (slots []safetensors.Slot) {
	for t := range f.Tensors() {
		slots = append(slots, safetensors.Slot{Info: t.Info, Bytes: t.Bytes})
	}
	// The order in which they are given must not matter.
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(slots), func(i, j int) { slots[i], slots[j] = slots[j], slots[i] })
	return slots
}

func layout(t testing.TB, slots []safetensors.Slot, meta map[string]string) *safetensors.Layout {
	t.Helper()
	l, err := safetensors.NewLayout(slots, meta)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestLayoutIsTheReferences lays out again what the real package has written,
// and must get the same header.
func TestLayoutIsTheReferences(t *testing.T) {
	files, _ := filepath.Glob("../internal/vectors/real/*/*.safetensors")
	if len(files) < 10 {
		t.Fatalf("only %d real files", len(files))
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := safetensors.NewFile(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		l := layout(t, slotsOf(f), f.Metadata())
		if want := data[:f.DataOffset()]; !bytes.Equal(l.Header(), want) {
			t.Errorf("%s: header\n%q\nwant\n%q", path, l.Header(), want)
		}
		if l.Size() != f.Size() {
			t.Errorf("%s: size %d, want %d", path, l.Size(), f.Size())
		}
	}
}

// TestLayoutOrder has every dtype, names that sort bytewise, and characters that
// encoders disagree on.
func TestLayoutOrder(t *testing.T) {
	var slots []safetensors.Slot
	var tensors []vectors.Tensor
	for i, d := range append(safetensors.DTypes(), "Q4_K") {
		for _, name := range []string{"b", "B", "é", "<&>", "quote\" back\\ nl\n tab\t nul\x00 del\x7f \u2028", ""} {
			name := string(d) + name
			n := []int{2, 4, 2 * (i % 2)}
			shape := []uint64{2, 4, uint64(n[2])}
			size := n[0] * n[1] * n[2] * max(d.Bits(), 8*i%3) / 8
			slots = append(slots, safetensors.Slot{Info: safetensors.Info{Name: name, DType: d, Shape: shape}, Bytes: int64(size)})
			tensors = append(tensors, vectors.Tensor{Name: name, DType: string(d), Shape: n, Data: make([]byte, size)})
		}
	}
	slices.Reverse(slots)
	for _, meta := range []map[string]string{nil, {}, {"format": "pt"}, {"b": "2", "a": "\"\x1f\u00fc", "": ""}} {
		l := layout(t, slots, meta)
		if want := vectors.Encode(tensors, meta)[:len(l.Header())]; !bytes.Equal(l.Header(), want) {
			t.Errorf("header\n%s\nwant\n%s", l.Header()[8:], want[8:])
		}
	}
	empty := layout(t, nil, nil)
	if got := string(empty.Header()); got != "\x08\x00\x00\x00\x00\x00\x00\x00{}      " || empty.Size() != 16 {
		t.Errorf("empty layout: %q", got)
	}
}

func TestLayoutRefuses(t *testing.T) {
	slot := func(name string, d safetensors.DType, shape ...uint64) safetensors.Slot {
		return safetensors.Slot{Info: safetensors.Info{Name: name, DType: d, Shape: shape}}
	}
	for _, c := range []struct {
		class safetensors.Class
		slots []safetensors.Slot
	}{
		{safetensors.DuplicateName, []safetensors.Slot{slot("a", "F32", 1), slot("a", "BF16", 1)}},
		{safetensors.HeaderSyntax, []safetensors.Slot{slot("__metadata__", "F32", 1)}},
		{safetensors.HeaderUTF8, []safetensors.Slot{slot("\xff", "F32", 1)}},
		{safetensors.TensorBits, []safetensors.Slot{slot("a", "F4", 3)}},
		{safetensors.TensorOverflow, []safetensors.Slot{slot("a", "F32", 1<<63, 2)}},
		{safetensors.TensorOverflow, []safetensors.Slot{slot("a", "U8", 1<<60), slot("b", "U8", 1<<61), slot("c", "U8", 1<<60+1<<59), slot("d", "U8", 1<<61-1)}},
		{safetensors.TensorSize, []safetensors.Slot{{Info: safetensors.Info{Name: "a", DType: "Q4_K"}, Bytes: -1}}},
		{safetensors.RankTooLarge, []safetensors.Slot{slot("a", "U8", make([]uint64, 65)...)}},
		{safetensors.HeaderTooLarge, []safetensors.Slot{slot(strings.Repeat("x", safetensors.MaxHeader), "U8", 0)}},
	} {
		_, err := safetensors.NewLayout(c.slots, nil)
		if !errors.Is(err, c.class) {
			t.Errorf("want %q, got %v", c.class, err)
		}
	}
}

// TestWriter fills tensors in pieces, from several goroutines.
func TestWriter(t *testing.T) {
	m := vectors.NVFP4(vectors.T1(), false)
	for _, shard := range m.Shards {
		want := vectors.Encode(shard.Tensors, map[string]string{"format": "pt"})
		f, err := safetensors.NewFile(bytes.NewReader(want), int64(len(want)))
		if err != nil {
			t.Fatal(err)
		}
		l := layout(t, slotsOf(f), f.Metadata())
		out := &buffer{}
		w := safetensors.NewWriter(out, l)
		var wg sync.WaitGroup
		for tensor := range f.Tensors() {
			wg.Go(func() {
				to, err := w.Tensor(tensor.Name)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := io.CopyBuffer(struct{ io.Writer }{to}, tensor.Reader(), make([]byte, 777)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(out.b) >= 8 && !bytes.Equal(out.b[:8], make([]byte, 8)) {
			t.Error("there is a header before Close")
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(out.b, want) {
			t.Errorf("%s: not what was read", shard.Name)
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	l := layout(t, []safetensors.Slot{
		{Info: safetensors.Info{Name: "a", DType: "U8", Shape: []uint64{10}}},
		{Info: safetensors.Info{Name: "empty", DType: "U8", Shape: []uint64{0}}},
	}, nil)
	writeAt := func(t *testing.T, w *safetensors.Writer, off int64, n int) error {
		to, err := w.Tensor("a")
		if err != nil {
			t.Fatal(err)
		}
		_, err = to.WriteAt(make([]byte, n), off)
		return err
	}
	for name, c := range map[string]struct {
		write func(t *testing.T, w *safetensors.Writer) error
		says  string
	}{
		"too much":      {func(t *testing.T, w *safetensors.Writer) error { return writeAt(t, w, 0, 11) }, "too much"},
		"past the end":  {func(t *testing.T, w *safetensors.Writer) error { return writeAt(t, w, 10, 1) }, "too much"},
		"negative":      {func(t *testing.T, w *safetensors.Writer) error { return writeAt(t, w, -1, 1) }, "too much"},
		"huge offset":   {func(t *testing.T, w *safetensors.Writer) error { return writeAt(t, w, 1<<63-1, 2) }, "too much"},
		"twice":         {func(t *testing.T, w *safetensors.Writer) error { writeAt(t, w, 2, 4); return writeAt(t, w, 5, 3) }, "already"},
		"twice, inside": {func(t *testing.T, w *safetensors.Writer) error { writeAt(t, w, 0, 9); return writeAt(t, w, 3, 1) }, "already"},
		"too little":    {func(t *testing.T, w *safetensors.Writer) error { writeAt(t, w, 0, 9); return w.Close() }, "9 of 10 bytes"},
		"a gap": {func(t *testing.T, w *safetensors.Writer) error {
			writeAt(t, w, 0, 4)
			writeAt(t, w, 5, 5)
			return w.Close()
		}, "9 of 10 bytes"},
		"nothing": {func(t *testing.T, w *safetensors.Writer) error { return w.Close() }, "0 of 10 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			out := &buffer{}
			w := safetensors.NewWriter(out, l)
			err := c.write(t, w)
			if !errors.Is(err, safetensors.WrongLength) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), `"a"`) {
				t.Fatalf("got %v", err)
			}
			if again := w.Close(); again == nil {
				t.Error("Close forgets the error")
			}
			if len(out.b) >= 8 && !bytes.Equal(out.b[:8], make([]byte, 8)) {
				t.Error("a header was written")
			}
		})
	}
	w := safetensors.NewWriter(&buffer{}, l)
	if _, err := w.Tensor("b"); err == nil {
		t.Error("a tensor that the layout lacks")
	}
	if err := writeAt(t, w, 0, 10); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := writeAt(t, w, 0, 1); !errors.Is(err, safetensors.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// failingWriter fails at its nth write.
type failingWriter struct {
	buffer
	n   int
	err error
}

func (f *failingWriter) WriteAt(p []byte, off int64) (int, error) {
	if f.n--; f.n < 0 {
		return 0, f.err
	}
	return f.buffer.WriteAt(p, off)
}

func TestWriterErrorsStick(t *testing.T) {
	l := layout(t, []safetensors.Slot{{Info: safetensors.Info{Name: "a", DType: "U8", Shape: []uint64{3}}}}, nil)
	eio := errors.New("EIO")
	for n := range 4 { // three bytes and the header
		out := &failingWriter{n: n, err: eio}
		w := safetensors.NewWriter(out, l)
		to, _ := w.Tensor("a")
		for range 3 {
			to.Write([]byte{7})
		}
		if err := w.Close(); !errors.Is(err, eio) {
			t.Errorf("failure at write %d: Close returns %v", n, err)
		}
		if _, err := safetensors.NewFile(bytes.NewReader(out.b), int64(len(out.b))); err == nil {
			t.Errorf("failure at write %d left a file that opens", n)
		}
	}
}

// FuzzWriter lays out, writes in any split and order, and opens.
func FuzzWriter(f *testing.F) {
	f.Add("a", "b", uint64(3), uint64(5), uint64(1))
	f.Add("", "\x00\"\\\u2028", uint64(0), uint64(1000), uint64(7))
	f.Fuzz(func(t *testing.T, n1, n2 string, d1, d2, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		dtypes := safetensors.DTypes()
		slots := []safetensors.Slot{
			{Info: safetensors.Info{Name: n1, DType: dtypes[r.IntN(len(dtypes))], Shape: []uint64{d1 % 200, 8}}},
			{Info: safetensors.Info{Name: n2, DType: dtypes[r.IntN(len(dtypes))], Shape: []uint64{8, d2 % 200}}},
		}
		meta := map[string]string{"format": "pt"}
		l, err := safetensors.NewLayout(slots, meta)
		if err != nil {
			return
		}
		out := &buffer{b: make([]byte, l.Size())}
		w := safetensors.NewWriter(out, l)
		content := map[string][]byte{}
		for _, s := range l.Slots() {
			data := make([]byte, s.Bytes)
			for i := range data {
				data[i] = byte(r.Uint32())
			}
			content[s.Name] = data
			cuts := []int{0, len(data)}
			for range r.IntN(5) {
				cuts = append(cuts, r.IntN(len(data)+1))
			}
			slices.Sort(cuts)
			to, _ := w.Tensor(s.Name)
			for _, i := range r.Perm(len(cuts) - 1) {
				if _, err := to.WriteAt(data[cuts[i]:cuts[i+1]], int64(cuts[i])); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		file, err := safetensors.NewFile(bytes.NewReader(out.b), int64(len(out.b)))
		if err != nil {
			t.Fatalf("%v\n%q", err, l.Header())
		}
		for _, s := range l.Slots() {
			tensor, ok := file.Tensor(s.Name)
			if !ok {
				t.Fatalf("%q is lost", s.Name)
			}
			got, err := io.ReadAll(tensor.Reader())
			if err != nil || !bytes.Equal(got, content[s.Name]) || tensor.DType != s.DType || !slices.Equal(tensor.Shape, s.Shape) || tensor.Offset != s.Offset {
				t.Fatalf("%q: %v", s.Name, err)
			}
		}
		if again := layout(t, slotsOf(file), file.Metadata()); !bytes.Equal(again.Header(), l.Header()) {
			t.Fatal("laid out again, the header differs")
		}
	})
}
