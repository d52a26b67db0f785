package safetensors_test

import (
	"bytes"
	"slices"
	"testing"

	second "github.com/nlpodyssey/safetensors"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors"
)

// TestSecondReader writes with our Writer and reads with an independent Go port
// of the reference, which knows no 8-bit floats.
func TestSecondReader(t *testing.T) {
	for name, m := range map[string]*vectors.Model{"dense": vectors.T1(), "vision": vectors.T2(), "experts": vectors.T3(), "int8": vectors.INT8(vectors.T0()), "int4": vectors.INT4(vectors.T0(), 32)} {
		for _, shard := range m.Shards {
			var slots []safetensors.Slot
			for _, x := range shard.Tensors {
				s := safetensors.Slot{Info: safetensors.Info{Name: x.Name, DType: safetensors.DType(x.DType)}}
				for _, d := range x.Shape {
					s.Shape = append(s.Shape, uint64(d))
				}
				slots = append(slots, s)
			}
			out := &buffer{}
			w := safetensors.NewWriter(out, layout(t, slots, map[string]string{"format": "pt"}))
			for _, x := range shard.Tensors {
				to, err := w.Tensor(x.Name)
				if err == nil {
					_, err = to.Write(x.Data)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			read, err := second.Deserialize(out.b)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if read.Len() != len(shard.Tensors) {
				t.Errorf("%s: %d tensors, %d written", name, read.Len(), len(shard.Tensors))
			}
			for _, x := range shard.Tensors {
				got, ok := read.Tensor(x.Name)
				if !ok || !bytes.Equal(got.Data(), x.Data) || got.DType().String() != x.DType {
					t.Errorf("%s: %s differs", name, x.Name)
				}
				var shape []int
				for _, d := range got.Shape() {
					shape = append(shape, int(d))
				}
				if !slices.Equal(shape, x.Shape) {
					t.Errorf("%s: %s has shape %v, want %v", name, x.Name, shape, x.Shape)
				}
			}
		}
	}
}
