package vectors

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const (
	shard1 = "model-00001-of-00002.safetensors"
	shard2 = "model-00002-of-00002.safetensors"
)

func TestEdits(t *testing.T) {
	m := T0()
	before := m.FS()
	c := m.Clone()
	c.Remove("model.norm.weight")
	c.Move("lm_head.weight", "extra.safetensors")
	c.Rename("model.layers.0.mlp.up_proj.weight", "up")
	c.Add(shard1, Normal("new", 2, 3))
	c.Tensor("new").Data[0] ^= 1
	c.Tensor("model.layers.1.mlp.up_proj.weight").Data[0] ^= 1
	c.Shard(shard1).Meta["format"] = "other"
	c.Config["rope_scaling"] = map[string]any{"type": "none"}
	c.Files["tokenizer.json"][0] = ' '
	if !reflect.DeepEqual(m.FS(), before) {
		t.Error("editing a clone changed the original")
	}
	if got := c.ShardOf("lm_head.weight").Name; got != "extra.safetensors" {
		t.Errorf("lm_head.weight is in %s", got)
	}
	if got := c.ShardOf("up").Name; got != shard1 {
		t.Errorf("up is in %s", got)
	}
	if got := len(c.Names()); got != 21 {
		t.Errorf("%d names", got)
	}
	if !bytes.Contains(c.FS()["config.json"].Data, []byte("rope_scaling")) {
		t.Error("config.json does not follow Config")
	}
	for name, f := range map[string]func(){
		"Tensor": func() { m.Tensor("no.such") },
		"Remove": func() { m.Remove("no.such") },
		"Shard":  func() { m.Shard("no.such") },
		"Also":   func() { NVFP4(m, true, Also("no.such")) },
		"INT4":   func() { INT4(m, 48) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s does not panic", name)
				}
			}()
			f()
		}()
	}
}

func TestFilesWin(t *testing.T) {
	m := T1()
	index := m.Index()
	m.Files[m.IndexName] = index
	m.Files[shard1] = nil
	m.Files["empty"] = []byte{}
	m.Remove("mtp.fc.weight")
	files := m.Clone().FS()
	if !bytes.Equal(files[m.IndexName].Data, index) || !bytes.Contains(index, []byte("mtp.fc.weight")) {
		t.Error("the index is not the stale one")
	}
	if files[shard1] != nil {
		t.Error("the first shard is there")
	}
	if files["empty"] == nil {
		t.Error("the empty file is not there")
	}
}

func TestDuplicate(t *testing.T) {
	m := T1()
	size := m.TotalSize()
	stale := Normal("mtp.fc.weight", 64, 128)
	stale.DType, stale.Data = "I8", stale.Data[:64*128]
	m.Add(shard1, stale)
	if got := m.Tensor("mtp.fc.weight").DType; got != "BF16" {
		t.Errorf("Tensor gives the %s copy", got)
	}
	if !bytes.Contains(m.Index(), []byte(`"mtp.fc.weight": "`+shard2+`"`)) || m.TotalSize() != size {
		t.Error("the index does not list the copy in the last shard alone")
	}
}

func TestOneFileAndWrite(t *testing.T) {
	m := T0().OneFile()
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := m.Write(dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := "chat_template.jinja config.json generation_config.json model.safetensors tokenizer.json tokenizer_config.json"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("files %s", got)
	}
	data, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if tensors, _ := decode(t, "model.safetensors", data); len(tensors) != 21 {
		t.Errorf("%d tensors", len(tensors))
	}
}
