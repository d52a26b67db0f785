package checkpoint_test

import (
	"path/filepath"
	"testing"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// TestCaseNoFormat is field case 65: a header without metadata, with an empty
// one, and with a format; and what a new shard gets.
func TestCaseNoFormat(t *testing.T) {
	for name, c := range map[string]struct {
		meta map[string]string
		want int
	}{
		"none":  {nil, 1},
		"empty": {map[string]string{}, 1},
		"other": {map[string]string{"a": "b"}, 1},
		"pt":    {map[string]string{"format": "pt"}, 0},
	} {
		m := vectors.T0()
		for _, s := range m.Shards {
			s.Meta = c.meta
		}
		bothWays(t, m, checkpoint.Options{}, func(t *testing.T, ck *checkpoint.Checkpoint, err error) {
			if err != nil {
				t.Fatal(err)
			}
			got := ck.HeaderFormats()
			if len(got) != c.want || c.want == 1 && (got[0].Code != "META-FORMAT" || got[0].Severity != checkpoint.Note) {
				t.Errorf("%s: %+v", name, got)
			}
		})
		dir := written(t, m)
		change := func(ck *checkpoint.Checkpoint) checkpoint.Change {
			ch := addHead(ck)
			ch.Shards[0].Metadata = c.meta
			return ch
		}
		p, err := plan(t, dir, change, checkpoint.Target{})
		mustRun(t, p, err)
		f, err := safetensors.Open(filepath.Join(dir, headName))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		meta := f.Metadata()
		if meta["format"] != "pt" || meta["a"] != c.meta["a"] {
			t.Errorf("%s: the new shard has %v", name, meta)
		}
		// Tensors of the shards that were there keep their bytes.
		for _, s := range m.Shards {
			got := tree(t, dir)[s.Name]
			if want := string(vectors.Encode(s.Tensors, s.Meta)); got != want {
				t.Errorf("%s: %s changed", name, s.Name)
			}
		}
	}
}
