//go:build published

package checkpoint

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ckpt-surgery/ckpt/internal/natural"
)

// publishedDir holds config.json and indexes of published models, without their
// weights. It is no part of the repository: without the tag published, nothing
// looks for it, and with the tag it has to be there.
const publishedDir = "../../../shared/published"

// publishedModels are what is known to lie there: each folder with the index to
// follow, and the number of its tensors and files.
var publishedModels = map[string]struct {
	index          string
	tensors, files int
}{
	"qwen3_5-moe-18b":            {"model.safetensors.index.json", 15973, 7},
	"devstral-24b":               {"model.safetensors.index.json", 363, 10},
	"diffusers-dit/text_encoder": {"model.safetensors.index.json", 219, 2},
	"diffusers-dit/transformer":  {"diffusion_pytorch_model.safetensors.index.json", 1071, 5},
}

func TestPublished(t *testing.T) {
	found := map[string]bool{}
	err := filepath.WalkDir(publishedDir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if _, ok := indexVariant(e.Name()); ok {
			dir, _ := filepath.Rel(publishedDir, filepath.Dir(path))
			found[filepath.ToSlash(dir)] = true
			publishedIndex(t, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir := range found {
		if _, ok := publishedModels[dir]; !ok {
			t.Errorf("%s has no entry in this test", dir)
		}
	}
	for dir, model := range publishedModels {
		if !found[dir] {
			t.Errorf("%s is not there", dir)
			continue
		}
		entries, err := os.ReadDir(filepath.Join(publishedDir, dir))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if l := planLayout(names); l.index != model.index || len(l.weights)+len(l.shadow) > 0 {
			t.Errorf("%s: %+v", dir, l)
		}
		c := weightless(t, filepath.Join(publishedDir, dir), model.index, model.files)
		if c.Index().Len() != model.tensors {
			t.Errorf("%s: %d tensors in the index", dir, c.Index().Len())
		}
	}
}

// publishedIndex compares an index with what encoding/json reads, and opens it
// by its path.
func publishedIndex(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	x, err := ParseIndex(text)
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return
	}
	var want struct {
		Metadata struct {
			TotalSize float64 `json:"total_size"`
		} `json:"metadata"`
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	files := map[string]bool{}
	for tensor, file := range want.WeightMap {
		if got, ok := x.File(tensor); !ok || got != file {
			t.Errorf("%s: %s is in %q, want %q", path, tensor, got, file)
		}
		files[file] = true
	}
	if x.Len() != len(want.WeightMap) || len(x.Files()) != len(files) || x.TotalSize != want.Metadata.TotalSize || len(x.duplicates) > 0 {
		t.Errorf("%s: %d tensors in %d files, total_size %v, twice %q", path, x.Len(), len(x.Files()), x.TotalSize, x.duplicates)
	}
	if missing := gaps(x.Files()); len(missing) > 0 || !slices.IsSortedFunc(x.Files(), natural.Compare) {
		t.Errorf("%s: files %q", path, x.Files())
	}
	weightless(t, path, filepath.Base(path), len(files))
}

// weightless opens a model without weights: every file that the index names is
// missing, and nothing else is wrong.
func weightless(t *testing.T, path, index string, files int) *Checkpoint {
	c, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tensors := 0
	for _, p := range c.Problems() {
		if p.Code != IndexFileMissing || p.Severity != Fatal || len(p.Tensors) == 0 || p.Unreadable() {
			t.Errorf("%s: %+v", path, p)
		}
		tensors += len(p.Tensors)
	}
	if len(c.Problems()) != files || tensors != c.Index().Len() || c.Index().Name != index || c.Len() != 0 || c.Config() == nil {
		t.Errorf("%s: %d problems with %d tensors under %s", path, len(c.Problems()), tensors, c.Index().Name)
	}
	return c
}

func TestPublishedPipeline(t *testing.T) {
	root := filepath.Join(publishedDir, "diffusers-dit")
	_, err := Open(root, Options{})
	p, ok := errors.AsType[*PipelineError](err)
	if !ok || !slices.Equal(p.Components, []string{"text_encoder", "transformer"}) {
		t.Fatal(err)
	}
	for _, component := range p.Components {
		c, err := Open(root, Options{Component: component})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		if want := publishedModels["diffusers-dit/"+component]; c.Index().Name != want.index || len(c.Problems()) != want.files {
			t.Errorf("%s: %s, %d problems", component, c.Index().Name, len(c.Problems()))
		}
	}
}
