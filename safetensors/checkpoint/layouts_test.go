package checkpoint_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// renamed gives the shards of m other names, in order.
func renamed(m *vectors.Model, names ...string) *vectors.Model {
	for i, name := range names {
		m.Shards[i].Name = name
	}
	return m
}

// unindexed leaves the index out.
func unindexed(m *vectors.Model) *vectors.Model {
	m.Indexed = false
	return m
}

// with puts files beside the model's own.
func with(m *vectors.Model, files map[string][]byte) *vectors.Model {
	for name, data := range files {
		m.Files[name] = data
	}
	return m
}

// mistral is T0 as Mistral ships it, under the given names.
func mistral(names ...string) *vectors.Model {
	m := renamed(vectors.T0(), names...)
	m.IndexName = "consolidated.safetensors.index.json"
	m.Files["params.json"] = []byte("{}")
	return m
}

// weights encodes a shard of T0 as a file to put elsewhere.
func weights(shard int) []byte { return vectors.Encode(vectors.T0().Shards[shard].Tensors, nil) }

func TestLayouts(t *testing.T) {
	appleDouble := []byte("\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X")
	variant := func(file string) want {
		return want{code: checkpoint.VariantOther, severity: checkpoint.Note, file: file, says: []string{"another variant", "give its index or file"}}
	}
	shadow := func(file, number string) want {
		return want{code: checkpoint.ConsolidatedShadow, severity: checkpoint.Corrupt, file: file, says: []string{number + " consolidated* file(s)", "delete"}}
	}
	for _, test := range []struct {
		name     string
		model    *vectors.Model
		index    string   // the index that is followed
		shards   []string // that are loaded; default: the model's
		problems []want
	}{
		{"shards with an index", vectors.T0(), indexName, nil, nil},
		{"one file", vectors.T0().OneFile(), "", nil, nil},
		{"one file of any name", renamed(vectors.T0().OneFile(), "adapter.safetensors"), "", nil, nil},
		{"shards without an index", unindexed(vectors.T0()), "", nil, nil},
		{"several files without numbers", unindexed(renamed(vectors.T0(), "a.safetensors", "b.safetensors")), "", nil, nil},
		{"shards numbered from 0", vectors.GPTOSS(), indexName, nil, nil},
		{"shards numbered from 0 without an index", unindexed(vectors.GPTOSS()), "", nil, nil},
		{"shards numbered 0 and 1 of 2 without an index",
			unindexed(renamed(vectors.T0(), "model-00000-of-00002.safetensors", "model-00001-of-00002.safetensors")), "", nil, nil},
		{"shards in folders, by the index", renamed(vectors.T0(), "a/x.safetensors", "b/c/x.safetensors"), indexName, nil, nil},
		{"index of another name", func() *vectors.Model {
			m := vectors.T0()
			m.IndexName = "weights.safetensors.index.json"
			return m
		}(), "weights.safetensors.index.json", nil, nil},
		{"weights in a folder below are not the model's",
			with(vectors.T0(), map[string][]byte{"original/consolidated.safetensors": weights(0), "original/model.safetensors": nil}), indexName, nil, nil},
		{"what macOS leaves on foreign disks", with(vectors.T0().OneFile(), map[string][]byte{
			"._model.safetensors": appleDouble, "._model.safetensors.index.json": appleDouble}), "", nil, nil},
		{"one variant alone", unindexed(renamed(vectors.T0(), "model.fp16-00001-of-00002.safetensors", "model.fp16-00002-of-00002.safetensors")), "", nil, nil},
		{"variants beside the plain shards, both spellings", with(unindexed(vectors.T0()), map[string][]byte{
			"model.fp16-00001-of-00001.safetensors": weights(0), "model-00001-of-00001.bf16.safetensors": weights(1), "model.fp8.safetensors": weights(0)}),
			"", nil, []want{variant("model-00001-of-00001.bf16.safetensors"), variant("model.fp8.safetensors"), variant("model.fp16-00001-of-00001.safetensors")}},
		{"variants beside indexed shards", with(vectors.T0(), map[string][]byte{
			"model.fp16-00001-of-00001.safetensors": weights(0), "model-00001-of-00001.bf16.safetensors": weights(1)}),
			indexName, nil, []want{variant("model-00001-of-00001.bf16.safetensors"), variant("model.fp16-00001-of-00001.safetensors")}},
		{"a variant's index beside the plain file", func() *vectors.Model {
			m := renamed(vectors.T0(), "model.fp16-00001-of-00002.safetensors", "model.fp16-00002-of-00002.safetensors")
			m.IndexName = "model.safetensors.index.fp16.json"
			m.Files["model.safetensors"] = weights(0)
			return m
		}(), "", []string{"model.safetensors"},
			[]want{variant("model.fp16-00001-of-00002.safetensors"), variant("model.fp16-00002-of-00002.safetensors")}},
		{"Mistral's file beside shards", with(vectors.T0(), map[string][]byte{"consolidated.safetensors": weights(0), "params.json": []byte("{}")}),
			indexName, nil, []want{shadow("consolidated.safetensors", "1")}},
		{"Mistral's shards and index beside one file", with(vectors.T0().OneFile(), map[string][]byte{
			"consolidated-00001-of-00002.safetensors": weights(0), "consolidated-00002-of-00002.safetensors": weights(1),
			"consolidated.safetensors.index.json": mistral().Index(), "params.json": []byte("{}")}),
			"", nil, []want{shadow("consolidated-00001-of-00002.safetensors", "2")}},
		{"Mistral's file alone", renamed(vectors.T0().OneFile(), "consolidated.safetensors"), "", nil, nil},
		{"Mistral's shards alone", unindexed(mistral("consolidated-00001-of-00002.safetensors", "consolidated-00002-of-00002.safetensors")), "", nil, nil},
		{"Mistral's shards alone with their index", mistral("consolidated-00001-of-00002.safetensors", "consolidated-00002-of-00002.safetensors"),
			"consolidated.safetensors.index.json", nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			bothWays(t, test.model, checkpoint.Options{}, func(t *testing.T, c *checkpoint.Checkpoint, err error) {
				if err != nil {
					t.Fatal(err)
				}
				expect(t, c, test.problems...)
				loaded := test.shards
				if loaded == nil {
					for _, s := range test.model.Shards {
						loaded = append(loaded, s.Name)
					}
					holds(t, c, test.model)
				}
				if got := shards(c); !slices.Equal(got, loaded) {
					t.Errorf("shards %q, want %q", got, loaded)
				}
				index := ""
				if c.Index() != nil {
					index = c.Index().Name
				}
				if index != test.index {
					t.Errorf("index %q, want %q", index, test.index)
				}
				if string(c.Config()) != string(vectors.JSON(test.model.Config)) {
					t.Errorf("config.json is %q", c.Config())
				}
			})
		})
	}
}

// TestByPath gives one file instead of the folder.
func TestByPath(t *testing.T) {
	stray := map[string][]byte{"model.safetensors": []byte("not weights"), "z.safetensors": weights(0)}
	for _, test := range []struct {
		name, path string
		model      *vectors.Model
		shards     []string
		len        int
		problems   []want
	}{
		{"the one file", "model.safetensors", vectors.T0().OneFile(), []string{"model.safetensors"}, 21, nil},
		{"a shard, whose index does not count", shard1, vectors.T0(), []string{shard1}, 9, nil},
		{"a shard among faulty files", shard2, with(vectors.T0(), stray), []string{shard2}, 12, nil},
		{"Mistral's file beside shards", "consolidated.safetensors", with(vectors.T0(), map[string][]byte{"consolidated.safetensors": weights(0)}),
			[]string{"consolidated.safetensors"}, 9, nil},
		{"a file in a folder", "sub/x.safetensors", with(vectors.T0(), map[string][]byte{"sub/x.safetensors": weights(0)}), []string{"x.safetensors"}, 9, nil},
		{"a file of another name", "weights", with(vectors.T0(), map[string][]byte{"weights": weights(0)}), []string{"weights"}, 9, nil},
		{"the index", indexName, vectors.T0(), []string{shard1, shard2}, 21, nil},
		{"an index that was not chosen", "b.safetensors.index.json", with(vectors.T0(), map[string][]byte{
			"b.safetensors.index.json": []byte(`{"weight_map":{"lm_head.weight":"` + shard2 + `"}}`)}), []string{shard2}, 12,
			[]want{{code: checkpoint.IndexTensorUnlisted, severity: checkpoint.Note, file: shard2, tensors: func() []string {
				all := tensorsOf(vectors.T0().Shards[1])
				return slices.DeleteFunc(all, func(s string) bool { return s == lmHead })
			}()}, {code: checkpoint.VariantOther, severity: checkpoint.Note, file: shard1}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(written(t, test.model), test.path)
			c := mustOpen(t, path)
			expect(t, c, test.problems...)
			if got := shards(c); !slices.Equal(got, test.shards) || c.Len() != test.len || c.Name() != path {
				t.Errorf("%d tensors in %q of %q", c.Len(), got, c.Name())
			}
		})
	}
	// From inside the folder, a path has no slash.
	t.Chdir(written(t, vectors.T0()))
	for path, n := range map[string]int{".": 21, shard1: 9, indexName: 21} {
		if c := mustOpen(t, path); c.Len() != n || len(c.Problems()) > 0 {
			t.Errorf("%s: %d tensors, %v", path, c.Len(), c.Problems())
		}
	}
}

// TestNotAModel opens what is none: an error that says so, and what to give
// instead.
func TestNotAModel(t *testing.T) {
	files := func(names ...string) fstest.MapFS {
		m := fstest.MapFS{}
		for _, name := range names {
			m[name] = &fstest.MapFile{Data: []byte("{}"), Mode: 0o644}
		}
		return m
	}
	for _, test := range []struct {
		name  string
		files fstest.MapFS
		err   error
		says  []string
	}{
		{"empty", files(), checkpoint.ErrNoWeights, nil},
		{"only a pickle", files("pytorch_model.bin", "pytorch_model.bin.index.json", "config.json"), checkpoint.ErrNoWeights, nil},
		{"only hidden files", files("._model.safetensors"), checkpoint.ErrNoWeights, nil},
		{"weights one folder down", files("a/model.safetensors", "b/model.safetensors.index.json", "c/config.json"), checkpoint.ErrNoWeights, []string{"in a, b"}},
		{"repository of the hub's cache", files("blobs/1", "refs/main", "snapshots/0123/config.json", "snapshots/4567/config.json"), nil,
			[]string{"hub's cache", "snapshots/0123", "snapshots/4567"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, test.files); err != nil {
				t.Fatal(err)
			}
			_, byPath := checkpoint.Open(dir, checkpoint.Options{})
			_, inMemory := checkpoint.OpenFS(test.files, checkpoint.Options{})
			for _, err := range []error{byPath, inMemory} {
				if err == nil || test.err != nil && !errors.Is(err, test.err) {
					t.Fatalf("%v, want %v", err, test.err)
				}
				for _, s := range test.says {
					if !strings.Contains(err.Error(), s) {
						t.Errorf("%v\ndoes not say %q", err, s)
					}
				}
			}
			if !strings.Contains(byPath.Error(), fmt.Sprintf("%q", dir)) {
				t.Errorf("%v\ndoes not name %s", byPath, dir)
			}
		})
	}
}

// TestOneFileFails opens single files that are not weights: an error, not a
// problem.
func TestOneFileFails(t *testing.T) {
	dir := written(t, with(vectors.T0(), map[string][]byte{
		"short.safetensors": weights(0)[:500], "page.safetensors": []byte("<!DOCTYPE html>"), "x.bin": []byte("\x80\x02}q\x00."),
	}))
	for path, want := range map[string]error{
		"short.safetensors":  safetensors.HeaderLength,
		"page.safetensors":   safetensors.NotSafetensors,
		"x.bin":              safetensors.NotSafetensors,
		"config.json":        safetensors.NotSafetensors,
		"nosuch.safetensors": fs.ErrNotExist,
		"nosuch":             fs.ErrNotExist,
	} {
		c, err := checkpoint.Open(filepath.Join(dir, path), checkpoint.Options{})
		if !errors.Is(err, want) || c != nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}
