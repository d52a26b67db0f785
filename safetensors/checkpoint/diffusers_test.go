package checkpoint_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

const (
	ditIndex    = "diffusion_pytorch_model.safetensors.index.json"
	ditVariant  = "diffusion_pytorch_model.safetensors.index.bf16.json"
	transformer = "transformer"
)

// variantOther wants a note for each shard of m.
func variantOther(m *vectors.Model) []want {
	var wants []want
	for _, s := range m.Shards {
		wants = append(wants, want{code: checkpoint.VariantOther, severity: checkpoint.Note, file: s.Name})
	}
	return wants
}

func TestComponents(t *testing.T) {
	p := vectors.Diffusers()
	both := p.Components[transformer]
	for _, test := range []struct {
		component, index string
		model            *vectors.Model
		problems         []want
	}{
		{transformer, ditIndex, both[0], variantOther(both[1])},
		{transformer + "/", ditIndex, both[0], variantOther(both[1])},
		{"text_encoder", indexName, p.Components["text_encoder"][0], nil},
		{"vae", "", p.Components["vae"][0], nil},
	} {
		t.Run(strings.ReplaceAll(test.component, "/", "_"), func(t *testing.T) {
			bothWays(t, p, checkpoint.Options{Component: test.component}, func(t *testing.T, c *checkpoint.Checkpoint, err error) {
				if err != nil {
					t.Fatal(err)
				}
				expect(t, c, test.problems...)
				holds(t, c, test.model)
				if x := c.Index(); (x != nil) != (test.index != "") || x != nil && x.Name != test.index {
					t.Errorf("index %v, want %q", x, test.index)
				}
				if string(c.Config()) != string(vectors.JSON(test.model.Config)) {
					t.Errorf("config.json is %q", c.Config())
				}
			})
		})
	}
}

// TestComponentByPath opens a component's folder, and a variant by its index.
func TestComponentByPath(t *testing.T) {
	p := vectors.Diffusers()
	both := p.Components[transformer]
	dir := filepath.Join(written(t, p), transformer)
	for path, test := range map[string]struct {
		model    *vectors.Model
		problems []want
	}{
		dir:                             {both[0], variantOther(both[1])},
		filepath.Join(dir, ditIndex):    {both[0], variantOther(both[1])},
		filepath.Join(dir, ditVariant):  {both[1], variantOther(both[0])},
		filepath.Join(dir, "../vae"):    {p.Components["vae"][0], nil},
		filepath.Join(dir, "../vae/./"): {p.Components["vae"][0], nil},
	} {
		c := mustOpen(t, path)
		expect(t, c, test.problems...)
		holds(t, c, test.model)
	}
}

// TestVariantBesideOneFile opens a variant's index where the plain weights are
// one file that no index names.
func TestVariantBesideOneFile(t *testing.T) {
	p := vectors.Diffusers()
	plain, variant := p.Components[transformer][0], p.Components[transformer][1]
	one := plain.OneFile()
	one.Shards[0].Name = "diffusion_pytorch_model.safetensors"
	p.Components[transformer][0] = one
	c := mustOpen(t, filepath.Join(written(t, p), transformer, ditVariant))
	expect(t, c, variantOther(one)...)
	holds(t, c, variant)
}

func TestPipelineRoot(t *testing.T) {
	p := vectors.Diffusers()
	// A folder whose weights are lost still has its index.
	for _, s := range p.Components["text_encoder"][0].Shards {
		p.Components["text_encoder"][0].Files[s.Name] = nil
	}
	bothWays(t, p, checkpoint.Options{}, func(t *testing.T, c *checkpoint.Checkpoint, err error) {
		var pipeline *checkpoint.PipelineError
		if !errors.As(err, &pipeline) || c != nil {
			t.Fatalf("%v", err)
		}
		if want := []string{"text_encoder", transformer, "vae"}; !slices.Equal(pipeline.Components, want) {
			t.Errorf("components %q, want %q", pipeline.Components, want)
		}
		if !strings.Contains(err.Error(), "--component text_encoder|transformer|vae") {
			t.Error(err)
		}
	})
}

func TestBadComponents(t *testing.T) {
	p := vectors.Diffusers()
	p.Files["file"] = []byte("no folder")
	for component, want := range map[string]error{
		"nosuch":         fs.ErrNotExist,
		"scheduler":      checkpoint.ErrNoWeights,
		"..":             nil,
		"../transformer": nil,
		"vae/../vae":     nil,
		"/etc":           nil,
		`..\vae`:         nil,
		`C:\vae`:         nil,
		"vae\x00":        nil,
		"/":              nil,
		".":              nil,
		"file":           nil,
	} {
		bothWays(t, p, checkpoint.Options{Component: component}, func(t *testing.T, c *checkpoint.Checkpoint, err error) {
			if err == nil || c != nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), strings.Trim(strconv.Quote(component), `"`)) {
				t.Errorf("%q: %v, want %v", component, err, want)
			}
		})
	}
	for _, path := range []string{"vae/diffusion_pytorch_model.safetensors", "transformer/" + ditIndex} {
		c, err := checkpoint.Open(filepath.Join(written(t, p), path), checkpoint.Options{Component: "vae"})
		if err == nil || c != nil || !strings.Contains(err.Error(), "is a file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
