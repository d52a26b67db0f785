package scheme

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	st "github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// open opens a checkpoint that has no fault in its files.
func open(t testing.TB, fsys fs.FS) *checkpoint.Checkpoint {
	t.Helper()
	c, err := checkpoint.OpenFS(fsys, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if p := c.Problems(); len(p) > 0 {
		t.Fatalf("the checkpoint has problems: %v", p)
	}
	return c
}

// look surveys a model.
func look(t testing.TB, m *vectors.Model) *Survey {
	t.Helper()
	return Look(open(t, m.FS()))
}

// tensor is a tensor of zeros.
func tensor(name string, dtype st.DType, shape ...int) vectors.Tensor {
	bits := dtype.Bits()
	for _, dim := range shape {
		bits *= dim
	}
	return vectors.Tensor{Name: name, DType: string(dtype), Shape: shape, Data: make([]byte, bits/8)}
}

// module groups tensors that make one module.
func module(t testing.TB, tensors ...vectors.Tensor) *Module {
	t.Helper()
	file := &fstest.MapFile{Data: vectors.Encode(tensors, nil)}
	modules := Modules(open(t, fstest.MapFS{"model.safetensors": file}))
	if len(modules) != 1 || len(modules[0].Members) != len(tensors) {
		t.Fatalf("the tensors make %d modules: %v", len(modules), modules)
	}
	return &modules[0]
}

// form is a way of storing a model.
type form struct {
	name  string
	store func(m *vectors.Model) *vectors.Model
}

// forms are the ways of storing a model that the test vectors have. The short
// names are those of the field cases.
var forms = []form{
	{"N", func(m *vectors.Model) *vectors.Model { return vectors.NVFP4(m, false) }},
	{"N-W4A16", func(m *vectors.Model) *vectors.Model { return vectors.NVFP4(m, true) }},
	{"M", func(m *vectors.Model) *vectors.Model { return vectors.ModelOptNVFP4(m) }},
	{"F", func(m *vectors.Model) *vectors.Model { return vectors.FP8Channel(m) }},
	{"B", func(m *vectors.Model) *vectors.Model { return vectors.FP8Block(m) }},
	{"I8", func(m *vectors.Model) *vectors.Model { return vectors.INT8(m) }},
	{"I4-g16", func(m *vectors.Model) *vectors.Model { return vectors.INT4(m, 16) }},
	{"I4-g64", func(m *vectors.Model) *vectors.Model { return vectors.INT4(m, 64) }},
	{"I4-channel", func(m *vectors.Model) *vectors.Model { return vectors.INT4(m, 0) }},
	{"AWQ", func(m *vectors.Model) *vectors.Model { return vectors.AWQ(m, 32) }},
	{"GPTQ", func(m *vectors.Model) *vectors.Model { return vectors.GPTQ(m, 16) }},
}
