package safetensors_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ckpt-surgery/ckpt/safetensors"
)

// mustOpen opens a file made of a header and data.
func mustOpen(t testing.TB, header string, data []byte) *safetensors.File {
	t.Helper()
	b := frame(header, data)
	f, err := safetensors.NewFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// u8 is the header's entry of a one-dimensional U8 tensor.
func u8(name string, begin, end uint64) string {
	return fmt.Sprintf(`%s:{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}`, quoted(name), end-begin, begin, end)
}

func quoted(name string) string {
	b, err := json.Marshal(name)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func object(entries ...string) string { return "{" + strings.Join(entries, ",") + "}" }

func TestTensors(t *testing.T) {
	f := mustOpen(t, object(
		`"last":{"data_offsets":[10,14],"shape":[2,1],"dtype":"F16"}`,
		`"empty b":{"dtype":"F64","shape":[3,0],"data_offsets":[8,8]}`,
		`"first":{"dtype":"F32","shape":[1, 2],"data_offsets":[0,8],"note":[{}]}`,
		`"empty a":{"dtype":"I8","shape":[0],"data_offsets":[8,8]}`,
		`"scalar":{"dtype":"BOOL","shape":[],"data_offsets":[8,9]}`,
		`"future":{"dtype":"F8_E9M9","shape":[18446744073709551615,3],"data_offsets":[9,10]}`,
		`"end":{"dtype":"U8","shape":[0],"data_offsets":[14,14]}`,
	), []byte("firstabcSUlast"))
	want := []struct {
		name  string
		dtype safetensors.DType
		shape []uint64
		at    int64
		bytes string
	}{
		{"first", safetensors.F32, []uint64{1, 2}, 0, "firstabc"},
		{"empty a", safetensors.I8, []uint64{0}, 8, ""},
		{"empty b", safetensors.F64, []uint64{3, 0}, 8, ""},
		{"scalar", safetensors.BOOL, nil, 8, "S"},
		{"future", "F8_E9M9", []uint64{math.MaxUint64, 3}, 9, "U"},
		{"last", safetensors.F16, []uint64{2, 1}, 10, "last"},
		{"end", safetensors.U8, []uint64{0}, 14, ""},
	}
	names := slices.Collect(f.Names())
	i := 0
	for got := range f.Tensors() {
		if i == len(want) {
			t.Fatalf("one more: %+v", got.Info)
		}
		w := want[i]
		if got.Name != w.name || len(names) != len(want) || names[i] != w.name || got.DType != w.dtype || !slices.Equal(got.Shape, w.shape) {
			t.Errorf("%d: %+v, want %+v; names %q", i, got.Info, w, names)
		}
		if got.Offset != f.DataOffset()+w.at || got.Bytes != int64(len(w.bytes)) {
			t.Errorf("%s: %d bytes at %d, want %d at %d", w.name, got.Bytes, got.Offset, len(w.bytes), f.DataOffset()+w.at)
		}
		if b, err := io.ReadAll(got.Reader()); err != nil || string(b) != w.bytes {
			t.Errorf("%s: %q, %v", w.name, b, err)
		}
		i++
	}
	if i != len(want) || f.Len() != len(want) {
		t.Errorf("%d tensors, Len %d, want %d", i, f.Len(), len(want))
	}
	for range f.Tensors() {
		break // must not go on after the caller has stopped: that panics
	}
	for range f.Names() {
		break
	}
	one, _ := f.Tensor("first")
	one.Shape[0] = 99
	if again, _ := f.Tensor("first"); again.Shape[0] != 1 {
		t.Error("a caller's change to a shape reached the file")
	}
}

func TestTensorByName(t *testing.T) {
	names := []string{"", "\x00", "\x00\x00", "a", "A", "a/b", "../../etc/passwd", `quo"te`, `back\slash`, "line\nfeed",
		"\x1b[31m", "<&>\u2028", "é", "e\u0301", "\U0001F600", "\ufffd", "__Metadata__", "dtype", "U8",
		strings.Repeat("x", 64<<10), strings.Repeat("x", 64<<10-1)}
	for i := range 1000 {
		names = append(names, fmt.Sprint("layer.", i))
	}
	var entries []string
	var data []byte
	for i, name := range names {
		begin := uint64(len(data))
		data = append(data, fmt.Sprint(i)...)
		entries = append(entries, u8(name, begin, uint64(len(data))))
	}
	f := mustOpen(t, object(append(entries, `"__metadata__":{"k":"v"}`, `"\u0065scap\u0065d \ud83d\ude00":`+empty)...), data)
	for i, name := range names {
		got, ok := f.Tensor(name)
		if !ok || got.Name != name || !f.Has(name) {
			t.Errorf("%.40q: found %v, %.40q", name, ok, got.Name)
			continue
		}
		if b, _ := io.ReadAll(got.Reader()); string(b) != fmt.Sprint(i) {
			t.Errorf("%.40q has the bytes of %s", name, b)
		}
	}
	if _, ok := f.Tensor("escaped \U0001F600"); !ok {
		t.Error("a name written with escapes is not found")
	}
	for _, name := range []string{"b", "layer.1000", "layer", "LAYER.1", "__metadata__", "k", `\u0065scap\u0065d`, "a\x00", "\xff",
		strings.Repeat("x", 64<<10+1)} {
		if got, ok := f.Tensor(name); ok || f.Has(name) {
			t.Errorf("%.40q finds %.40q", name, got.Name)
		}
	}
	if _, ok := mustOpen(t, `{}`, nil).Tensor(""); ok {
		t.Error("a file without tensors has one")
	}
}

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	data := frame(object(u8("t", 0, 3)), []byte("abc"))
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	tensor, _ := f.Tensor("t")
	if b, err := io.ReadAll(tensor.Reader()); string(b) != "abc" || err != nil || f.Size() != int64(len(data)) {
		t.Errorf("%q, %v, size %d", b, err, f.Size())
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := tensor.ReadAt(make([]byte, 1), 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a read after Close: %v", err)
	}

	// NewFile borrows its file, and takes the name from it.
	r, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if f, err = safetensors.NewFile(r, int64(len(data))); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.ReadAt(make([]byte, 1), 0); err != nil {
		t.Errorf("Close after NewFile closed the caller's file: %v", err)
	}
	var e *safetensors.Error
	if _, err := safetensors.NewFile(r, 5); !errors.As(err, &e) || e.File != path || !strings.Contains(err.Error(), quoted(path)) {
		t.Errorf("%v does not name %s", err, path)
	}
}

// empty is the value of a tensor of no bytes at the start of the data.
const empty = `{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`

func TestMetadata(t *testing.T) {
	for _, test := range []struct {
		header string
		want   map[string]string
	}{
		{`{}`, nil},
		{`{"__metadata__":null}`, nil},
		{`{"__Metadata__":` + empty + `}`, nil},
		{`{"__metadata__":{}}`, map[string]string{}},
		{`{"__metadata__" : { "a" : "b" , "c" : "" } }`, map[string]string{"a": "b", "c": ""}},
		{`{"t":` + empty + `,"__metadata__":{"format":"pt"}}`, map[string]string{"format": "pt"}},
		{`{"__metadat\u0061__":{"a":"b"}}`, map[string]string{"a": "b"}},
		{`{"__metadata__":{"k":"1","k":"2","\u006b":"3"}}`, map[string]string{"k": "3"}},
		{`{"__metadata__":{"\"\\\u0000":"\ud83d\ude00\n\/"}}`, map[string]string{"\"\\\x00": "\U0001F600\n/"}},
		{`{"__metadata__":{"__metadata__":"{\"t\":1}"}}`, map[string]string{"__metadata__": `{"t":1}`}},
	} {
		f := mustOpen(t, test.header, nil)
		got := f.Metadata()
		if !maps.Equal(got, test.want) || (got == nil) != (test.want == nil) {
			t.Errorf("%s: %#v, want %#v", test.header, got, test.want)
		}
		if got != nil {
			got["new"] = "changed by a caller"
			if _, ok := f.Metadata()["new"]; ok {
				t.Errorf("%s: Metadata shares its map", test.header)
			}
		}
	}
}

// TestHeaderText keeps the header as it is stored: order, spaces and padding.
func TestHeaderText(t *testing.T) {
	for _, header := range []string{
		`{}`,
		"{\"b\" : " + empty + ",\n\t\"a\":" + empty + ", \"__metadata__\":null}   \r\n\t ",
		"  \n{\"\\u0061\":" + empty + "}",
	} {
		f := mustOpen(t, header, nil)
		if f.Header() != header {
			t.Errorf("%q, want %q", f.Header(), header)
		}
		if want := int64(8 + len(header)); f.DataOffset() != want || f.Size() != want {
			t.Errorf("%q: data at %d, size %d, want %d", header, f.DataOffset(), f.Size(), want)
		}
	}
}

// giant is a file that begins with head and then has a byte that depends on its
// offset; it has no end.
type giant struct{ head []byte }

func (g giant) at(off int64) byte {
	if off < int64(len(g.head)) {
		return g.head[off]
	}
	return byte(off ^ off>>29 ^ off>>55)
}

func (g giant) ReadAt(p []byte, off int64) (int, error) {
	for i := range p {
		p[i] = g.at(off + int64(i))
	}
	return len(p), nil
}

// TestGiant reads at offsets past 2^62, where 32-bit and wrapping arithmetic
// shows.
func TestGiant(t *testing.T) {
	const each = 1<<61 - 1 // the longest tensor whose bits fit 64 bits
	g := giant{frame(object(u8("a", 0, each), u8("b", each, 2*each), u8("c", 2*each, 3*each)), nil)}
	size := int64(len(g.head)) + 3*each
	f, err := safetensors.NewFile(g, size)
	if err != nil {
		t.Fatal(err)
	}
	last, _ := f.Tensor("c")
	if last.Offset != int64(len(g.head))+2*each || last.Bytes != each || last.Offset < 1<<62 {
		t.Fatalf("%d bytes at %d", last.Bytes, last.Offset)
	}
	for off := range int64(64) {
		var p [3]byte
		n, err := last.ReadAt(p[:], each-64+off)
		if want := min(3, 64-int(off)); n != want || (err == io.EOF) != (want < 3) {
			t.Fatalf("%d bytes before the end: %d, %v", 64-off, n, err)
		}
		if want := g.at(size - 64 + off); p[0] != want {
			t.Fatalf("%d bytes before the end: %x, want %x", 64-off, p[0], want)
		}
	}
}
