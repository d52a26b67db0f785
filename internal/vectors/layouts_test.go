package vectors

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestHubCache(t *testing.T) {
	for _, m := range []interface{ FS() fstest.MapFS }{T0(), Diffusers()} {
		root := t.TempDir()
		snapshot, err := HubCache(m, root)
		if err != nil {
			t.Fatal(err)
		}
		repo := filepath.Join(root, "models--acme--tiny")
		ref, err := os.ReadFile(filepath.Join(repo, "refs", "main"))
		if err != nil || snapshot != filepath.Join(repo, "snapshots", string(ref)) || len(ref) != 40 {
			t.Errorf("refs/main is %q, the snapshot %s, %v", ref, snapshot, err)
		}
		for name, file := range m.FS() {
			link := filepath.Join(snapshot, filepath.FromSlash(name))
			target, err := os.Readlink(link)
			if err != nil {
				t.Fatal(err)
			}
			up := strings.Repeat("../", 2+strings.Count(name, "/"))
			blob, ok := strings.CutPrefix(filepath.ToSlash(target), up+"blobs/")
			if size := len(blob); !ok || size != 40 && size != 64 || (size == 64) != strings.HasSuffix(name, ".safetensors") {
				t.Errorf("%s links to %s", name, target)
			}
			if data, err := os.ReadFile(link); err != nil || !bytes.Equal(data, file.Data) {
				t.Errorf("%s: %d bytes, %v", name, len(data), err)
			}
		}
	}
	// git hash-object of an empty file, and sha256sum of "abc"
	if got := blobName("config.json", nil); got != "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391" {
		t.Errorf("empty blob %s", got)
	}
	if got := blobName("a.safetensors", []byte("abc")); got != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("abc %s", got)
	}
}

func TestDiffusers(t *testing.T) {
	p := Diffusers()
	files := p.FS()
	checkFiles(t, files)
	var names []string
	for name, file := range files {
		names = append(names, name)
		if strings.HasSuffix(name, ".json") && !json.Valid(file.Data) {
			t.Errorf("%s is not JSON", name)
		}
	}
	slices.Sort(names)
	if want := strings.Fields(`
		model_index.json scheduler/scheduler_config.json
		text_encoder/config.json text_encoder/model-00001-of-00002.safetensors text_encoder/model-00002-of-00002.safetensors
		text_encoder/model.safetensors.index.json tokenizer/tokenizer_config.json transformer/config.json
		transformer/diffusion_pytorch_model-00001-of-00003.safetensors transformer/diffusion_pytorch_model-00002-of-00003.safetensors
		transformer/diffusion_pytorch_model-00003-of-00003.safetensors
		transformer/diffusion_pytorch_model.bf16-00001-of-00002.safetensors
		transformer/diffusion_pytorch_model.bf16-00002-of-00002.safetensors
		transformer/diffusion_pytorch_model.safetensors.index.bf16.json transformer/diffusion_pytorch_model.safetensors.index.json
		vae/config.json vae/diffusion_pytorch_model.safetensors`); !slices.Equal(names, want) {
		t.Errorf("files %q", names)
	}
	full, variant := p.Components["transformer"][0], p.Components["transformer"][1]
	if !slices.Equal(full.Names(), variant.Names()) || full.TotalSize() != 2*variant.TotalSize() {
		t.Error("the variant is not the same model in half the bytes")
	}
	for _, name := range full.Names() {
		if !slices.Equal(full.Tensor(name).Floats(), variant.Tensor(name).Floats()) {
			t.Errorf("%s differs", name)
		}
	}
	dir := t.TempDir()
	if err := p.Write(dir); err != nil {
		t.Fatal(err)
	}
	for name, file := range files {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(data, file.Data) {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
	}
}

func TestLarge(t *testing.T) {
	m := Large(5000, 7)
	tensors := checkFiles(t, m.FS())
	if len(tensors) != 5000 || len(m.Shards) != 7 || m.Config["num_hidden_layers"] != 4 {
		t.Errorf("%d tensors, %d shards, %v layers", len(tensors), len(m.Shards), m.Config["num_hidden_layers"])
	}
	for _, name := range []string{
		"model.embed_tokens.weight", "model.layers.2.self_attn.q_proj.weight_scale", "model.layers.2.mlp.experts.127.down_proj.weight_packed",
	} {
		m.Tensor(name)
	}
	if len(Large(3, 3).Names()) != 3 {
		t.Error("Large(3, 3) has another number of tensors")
	}
}

func BenchmarkBuild(b *testing.B) {
	for name, build := range map[string]func() fs.FS{
		"T0":          func() fs.FS { return T0().FS() },
		"T2":          func() fs.FS { return T2().FS() },
		"NVFP4(T1)":   func() fs.FS { return NVFP4(T1(), false).FS() },
		"INT4(T3u)":   func() fs.FS { return INT4(T3u(), 32).FS() },
		"AWQ(T0)":     func() fs.FS { return AWQ(T0(), 32).FS() },
		"Diffusers":   func() fs.FS { return Diffusers().FS() },
		"Large 90000": func() fs.FS { return Large(90_000, 160).FS() },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				build()
			}
		})
	}
}
