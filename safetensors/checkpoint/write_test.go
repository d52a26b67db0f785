package checkpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

const (
	crashTensor = "model.layers.1.mlp.down_proj.weight"
	headName    = "model_mtp.safetensors"
)

// bump adds one to each byte of a range whose value is even, so that doing it
// again changes nothing.
func bump(block []byte, _ int64) {
	for i := range block {
		block[i] |= 1
	}
}

func bumpTensor(c *checkpoint.Checkpoint) checkpoint.Change {
	t, _ := c.Tensor(crashTensor)
	return checkpoint.Change{Patches: map[string][]checkpoint.Patch{t.Shard.Name: {{Offset: t.Offset, Length: t.Bytes, Edit: bump}}}}
}

// addHead adds a weight file and changes config.json, as a graft does.
func addHead(*checkpoint.Checkpoint) checkpoint.Change {
	sizes := map[string]int{"mtp.fc.weight": 64 * 128 * 2, "mtp.norm.weight": 64 * 2}
	return checkpoint.Change{
		Shards: []checkpoint.NewShard{{Name: headName, Slots: []safetensors.Slot{
			{Info: safetensors.Info{Name: "mtp.fc.weight", DType: "BF16", Shape: []uint64{64, 128}}},
			{Info: safetensors.Info{Name: "mtp.norm.weight", DType: "BF16", Shape: []uint64{64}}},
		}, Fill: func(_ context.Context, w *safetensors.Writer) error {
			for name, size := range sizes {
				t, err := w.Tensor(name)
				if err != nil {
					return err
				}
				if _, err := t.Write(make([]byte, size)); err != nil {
					return err
				}
			}
			return nil
		}}},
		Files: map[string][]byte{"config.json": []byte(`{"new":true}`)},
	}
}

// plan opens a model and plans a change of it.
func plan(t *testing.T, path string, change func(*checkpoint.Checkpoint) checkpoint.Change, to checkpoint.Target) (*checkpoint.WritePlan, error) {
	t.Helper()
	c, err := checkpoint.Open(path, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.Plan(change(c), to)
}

func nothing(*checkpoint.Checkpoint) checkpoint.Change { return checkpoint.Change{} }

func mustRun(t *testing.T, p *checkpoint.WritePlan, err error) []checkpoint.Written {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	w, err := p.Run(context.Background(), checkpoint.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestOutRefuses(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "model")
	if err := vectors.T0().Write(dir); err != nil {
		t.Fatal(err)
	}
	os.Mkdir(filepath.Join(base, "empty"), 0o777)
	os.Symlink("empty", filepath.Join(base, "link"))
	os.Symlink("model", filepath.Join(base, "alias"))
	os.WriteFile(filepath.Join(base, "file"), nil, 0o666)
	before := tree(t, base)
	for _, out := range []string{"model", "model/", "model/sub", "alias", "alias/sub", "file", "link", ".", "nowhere/out", "file/out"} {
		p, err := plan(t, dir, nothing, checkpoint.Target{Out: filepath.Join(base, out)})
		if err == nil {
			t.Errorf("--out %s was planned: %+v", out, p.Steps)
		}
		if out != "nowhere/out" && out != "file/out" && !errors.As(err, new(*checkpoint.RefusedError)) {
			t.Errorf("--out %s: %v", out, err)
		}
	}
	if diff := cmp.Diff(before, tree(t, base)); diff != "" {
		t.Errorf("refusing wrote:\n%s", diff)
	}
	mustRun2 := func(out string) {
		p, err := plan(t, dir, nothing, checkpoint.Target{Out: filepath.Join(base, out)})
		mustRun(t, p, err)
		if diff := cmp.Diff(tree(t, dir), tree(t, filepath.Join(base, out))); diff != "" {
			t.Errorf("--out %s: %s", out, diff)
		}
	}
	mustRun2("empty")
	mustRun2("new")
	// The folder around a single file is no part of the model.
	p, err := plan(t, filepath.Join(dir, shard1), nothing, checkpoint.Target{Out: filepath.Join(dir, "sub")})
	if w := mustRun(t, p, err); len(w) != 1 || w[0].File != shard1 {
		t.Errorf("one file: %+v", w)
	}
}

// tree reads everything below a directory; a link's content is its target.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			all[rel] = "dir"
		case d.Type()&fs.ModeSymlink != 0:
			all[rel], err = os.Readlink(path)
		default:
			var b []byte
			b, err = os.ReadFile(path)
			all[rel] = string(b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestOutLinks(t *testing.T) {
	dir := written(t, vectors.T0())
	out := filepath.Join(t.TempDir(), "out")
	p, err := plan(t, dir, bumpTensor, checkpoint.Target{Out: out, Link: true})
	for _, w := range mustRun(t, p, err) {
		st, err1 := os.Stat(filepath.Join(dir, w.File))
		st2, err2 := os.Stat(filepath.Join(out, w.File))
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if want := w.File == shard1; os.SameFile(st, st2) != want || want != (w.Method == "link" && w.Bytes == 0) {
			t.Errorf("%+v: one file: %v", w, os.SameFile(st, st2))
		}
	}
}

// TestPipelineOut copies the whole pipeline when a component is changed.
func TestPipelineOut(t *testing.T) {
	dir := written(t, vectors.Diffusers())
	c, err := checkpoint.Open(dir, checkpoint.Options{Component: "transformer"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var first checkpoint.Tensor
	for x := range c.Tensors() {
		first = x
		break
	}
	out := filepath.Join(t.TempDir(), "out")
	p, err := c.Plan(checkpoint.Change{Patches: map[string][]checkpoint.Patch{first.Shard.Name: {{Offset: first.Offset, Length: first.Bytes, Edit: bump}}}},
		checkpoint.Target{Out: out})
	mustRun(t, p, err)
	before, after := tree(t, dir), tree(t, out)
	changed := filepath.Join("transformer", first.Shard.Name)
	if before[changed] == after[changed] {
		t.Error("the component did not change")
	}
	after[changed] = before[changed]
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
}

// TestNewShard checks the index that a new weight file gets.
func TestNewShard(t *testing.T) {
	for name, m := range map[string]*vectors.Model{"indexed": vectors.T0(), "one file": vectors.T0().OneFile()} {
		for _, out := range []string{"", filepath.Join(t.TempDir(), "out")} {
			dir := written(t, m)
			p, err := plan(t, dir, addHead, checkpoint.Target{Out: out})
			mustRun(t, p, err)
			if out != "" {
				dir = out
			}
			c, err := checkpoint.Open(dir, checkpoint.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if len(c.Problems()) > 0 || c.Len() != len(m.Names())+2 || c.Index() == nil {
				t.Errorf("%s: %d tensors, problems %+v", name, c.Len(), c.Problems())
			}
			text, _ := os.ReadFile(filepath.Join(dir, indexName))
			var x struct {
				Metadata struct {
					TotalSize int64 `json:"total_size"`
				}
				WeightMap map[string]string `json:"weight_map"`
			}
			if err := json.Unmarshal(text, &x); err != nil {
				t.Fatal(err)
			}
			if want := m.TotalSize() + 64*128*2 + 64*2; x.Metadata.TotalSize != want || x.WeightMap["mtp.norm.weight"] != headName {
				t.Errorf("%s: total_size %d, want %d", name, x.Metadata.TotalSize, want)
			}
			keys := strings.Split(string(text), "\n    \"")[2:]
			if !slices.IsSorted(keys) {
				t.Errorf("%s: weight_map is not sorted:\n%s", name, text)
			}
		}
	}
	dir := written(t, vectors.T0())
	os.WriteFile(filepath.Join(dir, headName), nil, 0o666)
	if _, err := plan(t, dir, addHead, checkpoint.Target{}); !errors.As(err, new(*checkpoint.RefusedError)) {
		t.Errorf("a new shard over an old file: %v", err)
	}
}

func TestTwoRunsAtOnce(t *testing.T) {
	dir := written(t, vectors.T0())
	first, err := plan(t, dir, bumpTensor, checkpoint.Target{})
	if err != nil {
		t.Fatal(err)
	}
	second, err := plan(t, dir, bumpTensor, checkpoint.Target{})
	if err != nil {
		t.Fatal(err)
	}
	var inner error
	_, err = first.Run(context.Background(), checkpoint.RunOptions{Hook: func(string, string) error {
		_, inner = second.Run(context.Background(), checkpoint.RunOptions{})
		return nil
	}})
	if err != nil || !errors.As(inner, new(*checkpoint.RefusedError)) {
		t.Errorf("first %v, second %v", err, inner)
	}
	// Two copies to one place: the second finds it taken.
	out := filepath.Join(t.TempDir(), "out")
	a, _ := plan(t, dir, nothing, checkpoint.Target{Out: out})
	b, _ := plan(t, dir, nothing, checkpoint.Target{Out: out})
	mustRun(t, a, nil)
	want := tree(t, out)
	if _, err := b.Run(context.Background(), checkpoint.RunOptions{}); err == nil {
		t.Error("the second copy replaced the first")
	}
	if diff := cmp.Diff(want, tree(t, out)); diff != "" {
		t.Error(diff)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(out), ".*")); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// TestDisturbed takes things away while a copy runs.
func TestDisturbed(t *testing.T) {
	for name, disturb := range map[string]func(dir, out string) error{
		"the target's parent is removed": func(_, out string) error { return os.RemoveAll(filepath.Dir(out)) },
		"a shard shrinks":                func(dir, _ string) error { return os.Truncate(filepath.Join(dir, shard2), 100) },
		"a shard is removed":             func(dir, _ string) error { return os.Remove(filepath.Join(dir, shard2)) },
		"a name is taken, as where case does not count": func(_, out string) error {
			temp, _ := filepath.Glob(filepath.Join(filepath.Dir(out), ".*"))
			return os.WriteFile(filepath.Join(temp[0], shard2), nil, 0o666)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := written(t, vectors.T0())
			out := filepath.Join(t.TempDir(), "parent", "out")
			os.Mkdir(filepath.Dir(out), 0o777)
			p, err := plan(t, dir, bumpTensor, checkpoint.Target{Out: out})
			if err != nil {
				t.Fatal(err)
			}
			done := false
			w, err := p.Run(context.Background(), checkpoint.RunOptions{Hook: func(step, path string) error {
				if step == "fill" && filepath.Base(path) == shard1 && !done {
					done = true
					return disturb(dir, out)
				}
				return nil
			}})
			if err == nil || !done || len(w) > 0 {
				t.Fatalf("done %v, error %v, said to be written: %+v", done, err, w)
			}
			if entries, _ := os.ReadDir(filepath.Dir(out)); len(entries) > 0 {
				t.Errorf("left %v", entries)
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		dir, out := written(t, vectors.T0()), filepath.Join(t.TempDir(), "out")
		p, err := plan(t, dir, nothing, checkpoint.Target{Out: out})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		_, err = p.Run(ctx, checkpoint.RunOptions{Hook: func(string, string) error { cancel(); return nil }})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if entries, _ := os.ReadDir(filepath.Dir(out)); len(entries) > 0 {
			t.Errorf("left %v", entries)
		}
	})
	t.Run("the model changed since it was opened", func(t *testing.T) {
		dir := written(t, vectors.T0())
		c, err := checkpoint.Open(dir, checkpoint.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		change := bumpTensor(c)
		os.Truncate(filepath.Join(dir, shard2), 1<<20)
		if _, err := c.Plan(change, checkpoint.Target{}); !errors.As(err, new(*checkpoint.RefusedError)) {
			t.Errorf("error %v", err)
		}
	})
}

func TestSidecars(t *testing.T) {
	m := vectors.T2()
	for _, name := range []string{"model.safetensors", "consolidated.safetensors", "params.json", "pytorch_model.bin", "pytorch_model.bin.index.json",
		"a.pt", "b.PTH", "c.gguf", "d.onnx", "original/tokenizer.model", "hf_quant_config.json", "quantize_config.json", "recipe.yaml",
		"ckpt-manifest.json", ".gitattributes", ".git/config", ".cache/x", "modeling_x.py", "sub/code.py", "tokenizer.model", "sub/assets.json", ".x.ckpt-tmp-abcdefghij",
		"README.md", "merges.txt"} {
		m.Files[name] = []byte("x")
	}
	c, err := checkpoint.OpenFS(m.FS(), checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"README.md", "chat_template.jinja", "generation_config.json", "merges.txt", "preprocessor_config.json", "processor_config.json",
		"sub/assets.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "video_preprocessor_config.json"}
	for _, code := range []bool{false, true} {
		travel, skipped, err := c.Sidecars(code)
		if err != nil {
			t.Fatal(err)
		}
		expect := slices.Clone(want)
		if code {
			expect = append(expect, "modeling_x.py", "sub/code.py")
			slices.Sort(expect)
		}
		if diff := cmp.Diff(expect, travel); diff != "" {
			t.Error(diff)
		}
		if len(travel)+len(skipped) != len(m.FS()) {
			t.Errorf("%d travel, %d are skipped, %d are there", len(travel), len(skipped), len(m.FS()))
		}
	}
}
