//go:build interop

package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
	"github.com/ckpt-surgery/ckpt/scheme"
	"github.com/ckpt-surgery/ckpt/scheme/scan"
)

var (
	python string // the reference environment's
	models string // what make_models.py made
)

// TestMain makes the environment and the models once.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		out, err := exec.Command("./setup", "reference").Output()
		if err != nil {
			var e *exec.ExitError
			if errors.As(err, &e) {
				err = fmt.Errorf("%w: %s", err, e.Stderr)
			}
			fmt.Printf("interop reference: NOT RUN: %v\n", err)
			return 1
		}
		python = filepath.Join(strings.TrimSpace(string(out)), "bin", "python")
		dir, err := os.MkdirTemp("", "ckpt-interop-")
		if err != nil {
			fmt.Println(err)
			return 1
		}
		defer os.RemoveAll(dir)
		models = dir
		if out, err := exec.Command(python, "make_models.py", dir).CombinedOutput(); err != nil {
			fmt.Printf("interop reference: make_models.py: %v\n%s", err, out)
			return 1
		}
		code := m.Run()
		fmt.Println("interop reference: ran")
		return code
	}())
}

// script runs one of this folder's scripts and returns what it printed.
func script(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(python, append([]string{name}, args...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, &stderr)
	}
	return out
}

// checkpoints are the directories that make_models.py makes, with the schemes
// that their tensors must show.
var checkpoints = map[string][]string{
	"dense":            nil,
	"hybrid":           nil,
	"moe":              nil,
	"vlm":              nil,
	"single":           nil,
	"tied":             nil,
	"dense-nvfp4a16":   {"compressed-tensors nvfp4-pack-quantized fp4 group 16"},
	"moe-nvfp4a16":     {"compressed-tensors nvfp4-pack-quantized fp4 group 16"},
	"vlm-nvfp4a16":     {"compressed-tensors nvfp4-pack-quantized fp4 group 16"},
	"dense-fp8_block":  {"compressed-tensors float-quantized fp8 block 128x128"},
	"hybrid-fp8_block": {"compressed-tensors float-quantized fp8 block 128x128"},
	// One group a row is one scale a channel.
	"dense-w8a16": {"compressed-tensors pack-quantized int8 group 128", "compressed-tensors pack-quantized int8 channel"},
}

// model returns the directory of a checkpoint.
func model(name string) string { return filepath.Join(models, name) }

// snapshot returns the only snapshot of a hub cache.
func snapshot(t *testing.T, cache string) string {
	found, _ := filepath.Glob(filepath.Join(models, cache, "models--*", "snapshots", "*"))
	if len(found) != 1 {
		t.Fatalf("%s: snapshots %q", cache, found)
	}
	return found[0]
}

func open(t *testing.T, dir string) *checkpoint.Checkpoint {
	t.Helper()
	c, err := checkpoint.Open(dir, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func scanned(t *testing.T, dir string) *scan.Result {
	t.Helper()
	r, err := scan.Scan(context.Background(), open(t, dir), scan.Options{All: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRealCheckpointsAreClean(t *testing.T) {
	dirs := map[string][]string{}
	for name, schemes := range checkpoints {
		dirs[model(name)] = schemes
	}
	dirs[snapshot(t, "hub")] = nil
	dirs[snapshot(t, "hub-shared")] = nil
	for dir, schemes := range dirs {
		c := open(t, dir)
		look := scheme.Look(c)
		if problems := append(c.Problems(), look.Problems...); len(problems) > 0 {
			t.Errorf("%s: problems: %+v", dir, problems)
		}
		if !slices.Equal(look.Formats, schemes) {
			t.Errorf("%s: schemes %q, want %q", dir, look.Formats, schemes)
		}
		if r := scanned(t, dir); len(r.Findings)+len(r.Unread) != 0 || r.Tensors == 0 {
			t.Errorf("%s: %d tensors scanned, findings %+v", dir, r.Tensors, r.Findings)
		}
	}
}

// truth asks torch for the NaN and Inf of every float tensor, by directory and
// name.
func truth(t *testing.T, dirs ...string) map[string]map[string][2]int64 {
	counts := map[string]map[string][2]int64{}
	for line := range bytes.Lines(script(t, "check_clean.py", dirs...)) {
		var l struct {
			Model, Tensor string
			NaN, Inf      int64
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		if counts[l.Model] == nil {
			counts[l.Model] = map[string][2]int64{}
		}
		if l.NaN+l.Inf > 0 {
			counts[l.Model][l.Tensor] = [2]int64{l.NaN, l.Inf}
		}
	}
	return counts
}

// TestPlantedBytesAreFound plants NaN and Inf into real checkpoints and compares
// what is found with what was planted and with what torch counts.
func TestPlantedBytesAreFound(t *testing.T) {
	special := map[string][][]byte{
		"F8_E4M3": {{0x7F}, {0xFF}},
		"BF16":    {{0xC0, 0x7F}, {0x80, 0x7F}, {0x80, 0xFF}, {0x01, 0x7F + 0x80}},
		"F32":     {{0, 0, 0xC0, 0x7F}, {0, 0, 0x80, 0x7F}, {1, 0, 0x80, 0xFF}},
	}
	var dirs []string
	found := map[string]map[string][2]int64{}
	for name := range checkpoints {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.CopyFS(dir, os.DirFS(model(name))); err != nil {
			t.Fatal(err)
		}
		planted := plant(t, dir, special)
		dirs, found[dir] = append(dirs, dir), map[string][2]int64{}
		for _, f := range scanned(t, dir).Findings {
			if f.NaN+f.Inf == 0 {
				continue
			}
			found[dir][f.Tensor] = [2]int64{f.NaN, f.Inf}
			for _, p := range f.First {
				if planted[place{f.File, p.Offset}] != p.Value {
					t.Errorf("%s: found %+v in %s, planted %q there", name, p, f.File, planted[place{f.File, p.Offset}])
				}
			}
		}
		if len(found[dir]) < 5 {
			t.Errorf("%s: only %d tensors planted", name, len(found[dir]))
		}
	}
	if diff := cmp.Diff(truth(t, dirs...), found); diff != "" {
		t.Errorf("torch counts -, ckpt counts +:\n%s", diff)
	}
}

// place is a byte of a file.
type place struct {
	file   string
	offset int64
}

// plant puts special values into a checkpoint's tensors, at random, and returns
// where, with each value in hex.
func plant(t *testing.T, dir string, special map[string][][]byte) map[place]string {
	r := rand.New(rand.NewPCG(1, uint64(len(dir))))
	planted := map[place]string{}
	for tensor := range open(t, dir).Tensors() {
		for _, value := range special[string(tensor.DType)] {
			at := place{tensor.Shard.Name, tensor.Offset + r.Int64N(tensor.Bytes/int64(len(value)))*int64(len(value))}
			if r.IntN(4) > 0 || planted[at] != "" {
				continue
			}
			planted[at] = fmt.Sprintf("%x", value)
			f, err := os.OpenFile(filepath.Join(dir, at.file), os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteAt(value, at.offset)
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return planted
}

// TestFixturesAreReproducible makes the committed fixtures again.
func TestFixturesAreReproducible(t *testing.T) {
	dir := t.TempDir()
	script(t, "make_fixtures.py", dir)
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		want, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		got, err := os.ReadFile(filepath.Join("../..", rel))
		if err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what make_fixtures.py makes", rel)
		}
		n++
		return nil
	})
	if err != nil || n < 20 {
		t.Errorf("%d files compared: %v", n, err)
	}
}
