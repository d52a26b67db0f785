package scan

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	st "github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// realDir holds checkpoints written by the reference tools.
const realDir = "../../internal/vectors/real"

func open(t testing.TB, fsys fs.FS) *checkpoint.Checkpoint {
	t.Helper()
	c, err := checkpoint.OpenFS(fsys, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func scanFS(t testing.TB, fsys fs.FS, o Options) *Result {
	t.Helper()
	r, err := Scan(context.Background(), open(t, fsys), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Unread) > 0 {
		t.Fatalf("not read: %v", r.Unread)
	}
	return r
}

// oneFile is a checkpoint of one file with those tensors.
func oneFile(tensors ...vectors.Tensor) fstest.MapFS {
	return fstest.MapFS{"model.safetensors": {Data: vectors.Encode(tensors, nil)}}
}

// unhex reads bytes written in hex.
func unhex(text string) []byte {
	b, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return b
}

// filled is a tensor that repeats the elements, given in hex as they are stored.
func filled(name string, dtype st.DType, shape []int, elements ...string) vectors.Tensor {
	n := 1
	for _, dim := range shape {
		n *= dim
	}
	once := unhex(strings.Join(elements, ""))
	size := n * (len(once) / len(elements))
	return vectors.Tensor{Name: name, DType: string(dtype), Shape: shape, Data: bytes.Repeat(once, n/len(elements)+1)[:size]}
}

// readDir reads the files of a checkpoint into memory.
func readDir(t testing.TB, dir string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = &fstest.MapFile{Data: data}
	}
	return files
}

// realModels reads the checkpoints of realDir.
func realModels(t testing.TB) map[string]fstest.MapFS {
	t.Helper()
	entries, err := os.ReadDir(realDir)
	if err != nil {
		t.Fatal(err)
	}
	models := map[string]fstest.MapFS{}
	for _, e := range entries {
		if e.IsDir() {
			models["real "+e.Name()] = readDir(t, filepath.Join(realDir, e.Name()))
		}
	}
	if len(models) < 5 {
		t.Fatalf("%d checkpoints in %s", len(models), realDir)
	}
	return models
}

// at is a position for comparison.
func at(p Position) string { return fmt.Sprint(p.Index, " ", p.Value) }

// checkPositions holds the positions of a finding against the file: the bytes at
// the offset are the value, inside the tensor.
func checkPositions(t testing.TB, c *checkpoint.Checkpoint, files fstest.MapFS, f Finding) {
	t.Helper()
	for _, s := range c.Shards() {
		if s.Name != f.File {
			continue
		}
		tensor, ok := s.Tensor(f.Tensor)
		if !ok {
			t.Fatalf("%s is not in %s", f.Tensor, f.File)
		}
		for _, p := range f.First {
			value := unhex(p.Value)
			if p.Offset < tensor.Offset || p.Offset+int64(len(value)) > tensor.Offset+tensor.Bytes {
				t.Errorf("%s: byte %d is outside of the tensor", f.Tensor, p.Offset)
				continue
			}
			if got := files[f.File].Data[p.Offset:][:len(value)]; !slices.Equal(got, value) {
				t.Errorf("%s: the file has % x at byte %d, not % x", f.Tensor, got, p.Offset, value)
			}
			size := int64(tensor.DType.Bits() / 8) // of a complex number's halves both are in it
			number := uint64(0)
			for i, dim := range tensor.Shape {
				if len(p.Index) != len(tensor.Shape) || p.Index[i] >= dim {
					t.Fatalf("%s: index %v for the shape %v", f.Tensor, p.Index, tensor.Shape)
				}
				number = number*dim + p.Index[i]
			}
			if got := uint64((p.Offset - tensor.Offset) / size); got != number {
				t.Errorf("%s: byte %d is element %d, not %v", f.Tensor, p.Offset, got, p.Index)
			}
		}
	}
}
