package checkpoint_test

import (
	"testing"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// TestDottedNameIsNoVariant has a head in a file of its own whose name looks
// like a variant's.
func TestDottedNameIsNoVariant(t *testing.T) {
	for file, loaded := range map[string]bool{"model.mtp.safetensors": true, "model.fp16.safetensors": false, "model.non_ema.safetensors": false} {
		m := vectors.T0().OneFile()
		m.Add(file, vectors.Normal("mtp.norm.weight", 64))
		bothWays(t, m, checkpoint.Options{}, func(t *testing.T, c *checkpoint.Checkpoint, err error) {
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := c.Tensor("mtp.norm.weight"); ok != loaded {
				t.Errorf("%s: loaded %v, want %v", file, ok, loaded)
			}
		})
	}
}
