package patch_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/patch"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

const (
	oProj  = "model.layers.1.self_attn.o_proj.weight_scale"
	qProj  = "model.layers.0.self_attn.q_proj.weight_scale"
	aShard = "model-00002-of-00002.safetensors"
)

// faulty is field case 32: NaN bytes in one tensor, and a block of zero codes
// under one of them.
func faulty() *vectors.Model {
	m := vectors.NVFP4(vectors.T0(), false)
	s := m.Tensor(oProj).Data
	s[0], s[5], s[77] = 0x7F, 0x7F, 0x7F
	s[130] = 0xFF
	copy(m.Tensor("model.layers.1.self_attn.o_proj.weight_packed").Data[5*8:6*8], []byte{0, 0x80, 0x08, 0x88, 0, 0, 0, 0})
	return m
}

func write(t *testing.T, m interface{ Write(string) error }) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if err := m.Write(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// clamp opens and clamps.
func clamp(t *testing.T, dir string, o patch.ClampOptions) (*patch.ClampResult, error) {
	t.Helper()
	c, err := checkpoint.Open(dir, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return patch.ClampNaN(context.Background(), c, o)
}

// content reads every file below a directory, links followed.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(rel)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// differing returns the bytes at which two files of one length differ.
func differing(a, b string) (at []int) {
	for i := range a {
		if a[i] != b[i] {
			at = append(at, i)
		}
	}
	return at
}

func TestClampInPlace(t *testing.T) {
	for _, keep := range []bool{false, true} {
		dir := write(t, faulty())
		before := content(t, dir)
		r, err := clamp(t, dir, patch.ClampOptions{KeepSign: keep})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Changed) != 1 || r.Changed[0].Count != 4 || r.Changed[0].Exact != 1 || r.Changed[0].Live != 3 || r.Changed[0].Tensor != oProj {
			t.Errorf("changed %+v", r.Changed)
		}
		if len(r.Notes) != 1 || r.Notes[0].Code != "SCALE-LOST" || !strings.Contains(r.Notes[0].Repair, "source") {
			t.Errorf("notes %+v", r.Notes)
		}
		if len(r.Written) != 1 || r.Written[0].Action != checkpoint.Overwrite || r.Written[0].Bytes != 4 {
			t.Errorf("written %+v", r.Written)
		}
		after := content(t, dir)
		at := differing(before[aShard], after[aShard])
		if len(at) != 4 || len(before[aShard]) != len(after[aShard]) {
			t.Fatalf("%d bytes differ", len(at))
		}
		for _, i := range at {
			want := byte(0x7E)
			if keep && before[aShard][i] == 0xFF {
				want = 0xFE
			}
			if before[aShard][i]&0x7F != 0x7F || after[aShard][i] != want {
				t.Errorf("byte %d: %#x became %#x", i, before[aShard][i], after[aShard][i])
			}
		}
		after[aShard] = before[aShard]
		if diff := cmp.Diff(before, after); diff != "" {
			t.Error("other files changed")
		}
		again, err := clamp(t, dir, patch.ClampOptions{KeepSign: keep})
		if err != nil || len(again.Changed)+len(again.Written) != 0 {
			t.Errorf("second run: %+v, %v", again, err)
		}
	}
}

func TestClampRefuses(t *testing.T) {
	for name, plant := range map[string]func(m *vectors.Model){
		"norm":    func(m *vectors.Model) { copy(m.Tensor("model.norm.weight").Data[6:], []byte{0xC0, 0x7F}) },
		"drafter": func(m *vectors.Model) { copy(m.Tensor("mtp.norm.weight").Data, []byte{0xC0, 0x7F}) }, // field case 8
		"weight":  func(m *vectors.Model) { copy(m.Tensor("lm_head.weight").Data[100:], []byte{0x80, 0x7F}) },
		"global scale": func(m *vectors.Model) {
			copy(m.Tensor(strings.Replace(oProj, "scale", "global_scale", 1)).Data, []byte{0, 0, 0x80, 0x7F})
		},
		"input scale": func(m *vectors.Model) {
			copy(m.Tensor(strings.Replace(oProj, "weight_scale", "input_global_scale", 1)).Data, []byte{0, 0, 0xC0, 0x7F})
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := vectors.NVFP4(vectors.T1(), false)
			m.Tensor(oProj).Data[9] = 0x7F
			plant(m)
			dir := write(t, m)
			before := content(t, dir)
			r, err := clamp(t, dir, patch.ClampOptions{})
			var un *patch.UnclampableError
			if !errors.As(err, &un) || len(un.Findings) != 1 || len(r.Refused) != 1 || r.Refused[0].Repair == "" || r.Written != nil {
				t.Fatalf("got %v, %+v", err, r)
			}
			if diff := cmp.Diff(before, content(t, dir)); diff != "" {
				t.Fatal("something was written")
			}
			only := func(tensor, module string) (bool, error) { return tensor == oProj, nil }
			r, err = clamp(t, dir, patch.ClampOptions{Only: only})
			if err != nil || len(r.Changed) != 1 || len(r.Refused) != 1 || r.Written[0].Bytes != 1 {
				t.Fatalf("with only: %v, %+v", err, r)
			}
		})
	}
	m := vectors.INT4(vectors.T0(), 32) // BF16 scales: field case 33
	copy(m.Tensor(qProj).Data, []byte{0xC0, 0x7F})
	if _, err := clamp(t, write(t, m), patch.ClampOptions{}); !errors.As(err, new(*patch.UnclampableError)) {
		t.Errorf("BF16 scales: %v", err)
	}
}

func TestClampOut(t *testing.T) {
	m := faulty()
	m.Files["sub/note.txt"] = []byte("kept")
	m.Files["run.sh"] = []byte("#!/bin/sh\n")
	dir := write(t, m)
	os.Chmod(filepath.Join(dir, "run.sh"), 0o755)
	before := content(t, dir)
	out := filepath.Join(t.TempDir(), "out")
	var done, total int64
	r, err := clamp(t, dir, patch.ClampOptions{Target: checkpoint.Target{Out: out}, Writing: func(d, n int64) { done, total = d, n }})
	if err != nil {
		t.Fatal(err)
	}
	if done != total || total < int64(len(before[aShard])) {
		t.Errorf("progress ends at %d of %d", done, total)
	}
	if diff := cmp.Diff(before, content(t, dir)); diff != "" {
		t.Error("the model changed")
	}
	after := content(t, out)
	if len(differing(before[aShard], after[aShard])) != 4 {
		t.Error("the shard is not clamped")
	}
	after[aShard] = before[aShard]
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error("the copy differs elsewhere")
	}
	if st, _ := os.Stat(filepath.Join(out, "run.sh")); st.Mode()&0o111 == 0 {
		t.Error("the script no longer runs")
	}
	if len(r.Written) != len(before) {
		t.Errorf("%d files written, %d there", len(r.Written), len(before))
	}
	_, err = clamp(t, dir, patch.ClampOptions{Target: checkpoint.Target{Out: out}})
	if !errors.As(err, new(*checkpoint.RefusedError)) {
		t.Errorf("into a full directory: %v", err)
	}
	dry := filepath.Join(t.TempDir(), "dry")
	if _, err := clamp(t, dir, patch.ClampOptions{Target: checkpoint.Target{Out: dry}, DryRun: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dry); err == nil {
		t.Error("a dry run wrote")
	}
}

func TestClampHardLinked(t *testing.T) { // field case 64
	dir := write(t, faulty())
	other := filepath.Join(t.TempDir(), "other.safetensors")
	if err := os.Link(filepath.Join(dir, aShard), other); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(other)
	r, err := clamp(t, dir, patch.ClampOptions{})
	if err != nil || r.Written[0].Action != checkpoint.Replace {
		t.Fatalf("%v, %+v", err, r.Written)
	}
	if after, _ := os.ReadFile(other); !bytes.Equal(before, after) {
		t.Error("the other name's bytes changed")
	}
	if after, _ := os.ReadFile(filepath.Join(dir, aShard)); len(differing(string(before), string(after))) != 4 {
		t.Error("the shard is not clamped")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestClampInHubCache(t *testing.T) {
	root := t.TempDir()
	snapshot, err := vectors.HubCache(faulty(), root)
	if err != nil {
		t.Fatal(err)
	}
	blobs := filepath.Join(filepath.Dir(filepath.Dir(snapshot)), "blobs")
	state := func() (s []string) {
		entries, _ := os.ReadDir(blobs)
		for _, e := range entries {
			st, _ := e.Info()
			b, _ := os.ReadFile(filepath.Join(blobs, e.Name()))
			s = append(s, e.Name()+st.ModTime().String()+string(b))
		}
		return s
	}
	before := state()
	var refused *checkpoint.RefusedError
	if _, err := clamp(t, snapshot, patch.ClampOptions{}); !errors.As(err, &refused) || !strings.Contains(refused.Do, "--out DIR") {
		t.Fatalf("in place: %v", err)
	}
	if _, err := clamp(t, filepath.Join(snapshot, aShard), patch.ClampOptions{}); !errors.As(err, &refused) {
		t.Errorf("the link itself: %v", err)
	}
	blob, _ := filepath.EvalSymlinks(filepath.Join(snapshot, aShard))
	if _, err := clamp(t, blob, patch.ClampOptions{}); !errors.As(err, &refused) {
		t.Errorf("the blob itself: %v", err)
	}
	out := filepath.Join(t.TempDir(), "out")
	if _, err := clamp(t, snapshot, patch.ClampOptions{Target: checkpoint.Target{Out: out}}); err != nil {
		t.Fatal(err)
	}
	for name := range content(t, out) {
		if st, _ := os.Lstat(filepath.Join(out, name)); !st.Mode().IsRegular() {
			t.Errorf("%s is no file of its own", name)
		}
	}
	if !slices.Equal(before, state()) {
		t.Error("--out touched a blob")
	}
	r, err := clamp(t, snapshot, patch.ClampOptions{Target: checkpoint.Target{InCache: true}})
	if err != nil || r.Written[0].Action != checkpoint.Replace {
		t.Fatalf("in cache: %v", err)
	}
	if st, _ := os.Lstat(filepath.Join(snapshot, aShard)); !st.Mode().IsRegular() {
		t.Error("the link was not replaced")
	}
	if !slices.Equal(before, state()) {
		t.Error("--in-cache touched a blob")
	}
}

func TestClampFlagsOldProducer(t *testing.T) {
	for version, want := range map[string]int{"0.43.0": 1, "0.44.0": 1, "0.45.0": 0, "1.0": 0, "": 0, "main": 0} {
		m := vectors.ModelOptNVFP4(vectors.T0())
		m.Files["hf_quant_config.json"] = []byte(`{"producer":{"name":"modelopt","version":"` + version + `"},"quantization":{"quant_algo":"NVFP4"}}`)
		scale := m.Tensor(qProj)
		scale.Data[3] = 0x7F
		clear(m.Tensor("model.layers.0.self_attn.q_proj.weight").Data[3*8 : 4*8])
		r, err := clamp(t, write(t, m), patch.ClampOptions{})
		if err != nil || r.Changed[0].Exact != 1 {
			t.Fatal(err, r)
		}
		if len(r.Notes) != want || want == 1 && r.Notes[0].Code != "PRODUCER-NO-CLAMP" {
			t.Errorf("version %q: notes %+v", version, r.Notes)
		}
	}
}

// TestClampHostile has a tensor twice, with two dtypes that make it two parts,
// and scales over codes of an absurd size.
func TestClampHostile(t *testing.T) {
	m := &vectors.Model{Files: map[string][]byte{}}
	name := "mlp.experts.gate_up_proj_weight_scale"
	m.Add("a.safetensors", vectors.Tensor{Name: name, DType: "F8_E4M3", Shape: []int{1}, Data: []byte{0x7F}})
	m.Add("b.safetensors", vectors.Tensor{Name: name, DType: "I32", Shape: []int{1}, Data: make([]byte, 4)})
	all := func(string, string) (bool, error) { return true, nil }
	if r, err := clamp(t, write(t, m), patch.ClampOptions{DryRun: true, Only: all}); err != nil || len(r.Changed) != 1 || r.Changed[0].Live != 1 {
		t.Errorf("twice: %v, %+v", err, r)
	}
	m = &vectors.Model{Files: map[string][]byte{}}
	m.Add("model.safetensors", vectors.Tensor{Name: "x.weight_scale", DType: "F8_E4M3", Shape: []int{1}, Data: []byte{0x7F}})
	m.Add("model.safetensors", vectors.Tensor{Name: "x.weight_packed", DType: "U8", Shape: []int{1 << 20}, Data: make([]byte, 1<<20)})
	r, err := clamp(t, write(t, m), patch.ClampOptions{DryRun: true})
	if err != nil || len(r.Changed) != 1 || r.Changed[0].Exact != 0 || !strings.Contains(r.Notes[0].Message, "not found") {
		t.Errorf("absurd block: %v, %+v", err, r)
	}
}

// TestClampAllNaN counts over several windows.
func TestClampAllNaN(t *testing.T) {
	const rows, blocks = 700, 256
	scales, codes := bytes.Repeat([]byte{0xFF}, rows*blocks), make([]byte, rows*blocks*8)
	for i := 0; i < len(codes); i += 80 {
		codes[i] = 0x70 // every tenth block is live
	}
	m := &vectors.Model{Files: map[string][]byte{}}
	m.Add("model.safetensors", vectors.Tensor{Name: "x.weight_scale", DType: "F8_E4M3", Shape: []int{rows, blocks}, Data: scales})
	m.Add("model.safetensors", vectors.Tensor{Name: "x.weight_packed", DType: "U8", Shape: []int{rows, blocks * 8}, Data: codes})
	m.Add("model.safetensors", vectors.Tensor{Name: "x.weight_global_scale", DType: "F32", Shape: []int{1}, Data: []byte{0, 0, 0x80, 0x3F}})
	r, err := clamp(t, write(t, m), patch.ClampOptions{})
	if err != nil || r.Changed[0].Count != rows*blocks || r.Changed[0].Live != rows*blocks/10 || r.Changed[0].Exact != rows*blocks*9/10 || r.Written[0].Bytes != rows*blocks {
		t.Errorf("%v, %+v %+v", err, r.Changed, r.Written)
	}
}

func TestClampSelectsNothing(t *testing.T) {
	dir := write(t, faulty())
	before := content(t, dir)
	r, err := clamp(t, dir, patch.ClampOptions{Only: func(string, string) (bool, error) { return false, nil }})
	if !errors.Is(err, patch.ErrOnlyNothing) || len(r.Left) != 1 {
		t.Errorf("%v, %+v", err, r)
	}
	if diff := cmp.Diff(before, content(t, dir)); diff != "" {
		t.Error("something was written")
	}
}
