package safetensors_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/ckpt-surgery/ckpt/safetensors"
)

// FuzzHeader opens any bytes. What opens must hold together, and encoding/json
// must read the same from its header.
//
// Run it with -fuzzminimizetime=20x: without, Go minimizes children of the 64 KiB
// seed for a minute at a time and runs nothing else.
func FuzzHeader(f *testing.F) {
	files, _ := filepath.Glob(filepath.Join(vectorDir, "*.safetensors"))
	if len(files) < 131 {
		f.Fatalf("%d seeds in %s", len(files), vectorDir)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := safetensors.NewFile(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			if file != nil || err.Error() == "" {
				t.Errorf("%v and %q", file, err)
			}
			return
		}
		if file.Header() != string(data[8:file.DataOffset()]) {
			t.Errorf("header %q", file.Header())
		}
		next, n := file.DataOffset(), 0
		stated, metadata := independent(t, file.Header())
		if !maps.Equal(file.Metadata(), metadata) {
			t.Errorf("metadata %q, encoding/json reads %q", file.Metadata(), metadata)
		}
		for got := range file.Tensors() {
			if got.Offset != next || got.Bytes < 0 {
				t.Errorf("%q: %d bytes at %d, want them at %d", got.Name, got.Bytes, got.Offset, next)
			}
			next, n = got.Offset+got.Bytes, n+1
			again, ok := file.Tensor(got.Name)
			if !ok || again.Offset != got.Offset || again.Bytes != got.Bytes {
				t.Errorf("%q is not found by its name", got.Name)
			}
			elements, ok := got.Elements()
			if bits := uint64(got.DType.Bits()); bits != 0 && (!ok || elements*bits != 8*uint64(got.Bytes)) {
				t.Errorf("%q: %d elements of %s in %d bytes", got.Name, elements, got.DType, got.Bytes)
			}
			begin := got.Offset - file.DataOffset()
			if want := fmt.Sprint(got.DType, got.Shape, begin, begin+got.Bytes); stated[got.Name] != want {
				t.Errorf("%q: read %s, encoding/json reads %s", got.Name, want, stated[got.Name])
			}
			if content, err := io.ReadAll(got.Reader()); err != nil || !bytes.Equal(content, data[got.Offset:next]) {
				t.Errorf("%q: %v", got.Name, err)
			}
		}
		if next != int64(len(data)) || n != file.Len() || n != len(stated) {
			t.Errorf("tensors end at %d of %d bytes; %d tensors, Len %d, encoding/json has %d", next, len(data), n, file.Len(), len(stated))
		}
	})
}

// independent reads a header with encoding/json and gives each tensor's dtype,
// shape and offsets as text.
func independent(t *testing.T, header string) (tensors, metadata map[string]string) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(header), &all); err != nil {
		t.Fatalf("encoding/json refuses %q: %v", header, err)
	}
	tensors = map[string]string{}
	for name, raw := range all {
		if name == "__metadata__" {
			if err := json.Unmarshal(raw, &metadata); err != nil {
				t.Errorf("metadata %q: %v", raw, err)
			}
			continue
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		var fields map[string]any // a struct would match names in any case
		if err := dec.Decode(&fields); err != nil {
			t.Errorf("entry %q: %v", raw, err)
		}
		dtype, ok := fields["dtype"].(string)
		shape, ok1 := numbers(fields["shape"])
		offsets, ok2 := numbers(fields["data_offsets"])
		if !ok || !ok1 || !ok2 || len(offsets) != 2 {
			t.Fatalf("entry %q", raw)
		}
		tensors[name] = fmt.Sprint(safetensors.DType(dtype), shape, offsets[0], offsets[1])
	}
	return tensors, metadata
}

// numbers reads a list of plain unsigned integers.
func numbers(v any) ([]uint64, bool) {
	list, ok := v.([]any)
	out := make([]uint64, len(list))
	for i, item := range list {
		number, isNumber := item.(json.Number)
		n, err := strconv.ParseUint(string(number), 10, 64)
		if !isNumber || err != nil {
			return nil, false
		}
		out[i] = n
	}
	return out, ok
}
