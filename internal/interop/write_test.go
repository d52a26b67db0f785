//go:build interop

package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/patch"
	"github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// readBack asks the real packages what is in some directories.
func readBack(t *testing.T, dirs ...string) (tensors map[string]readTensor, finite map[string]bool) {
	tensors, finite = map[string]readTensor{}, map[string]bool{}
	for line := range bytes.Lines(script(t, "read_back.py", dirs...)) {
		var l struct {
			readTensor
			Tensor, Module, Model string
			Finite                bool
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		if l.Module != "" {
			finite[l.Model+" "+l.Module] = l.Finite
		} else {
			tensors[l.Model+" "+l.Tensor] = l.readTensor
		}
	}
	return tensors, finite
}

type readTensor struct {
	DType string
	Shape []uint64
	CRC   uint32
}

// TestWrittenFilesAreRead writes models with our Writer and reads them with the
// real safetensors, for torch and for numpy.
func TestWrittenFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	want := map[string]uint32{}
	for name, m := range map[string]*vectors.Model{"nvfp4": vectors.NVFP4(vectors.T1(), false), "fp8": vectors.FP8Block(vectors.T0()),
		"int4": vectors.INT4(vectors.T3u(), 32), "vlm": vectors.T2()} {
		for _, shard := range m.Shards {
			var slots []safetensors.Slot
			data := map[string][]byte{}
			for _, x := range shard.Tensors {
				info := safetensors.Info{Name: x.Name, DType: safetensors.DType(x.DType)}
				for _, d := range x.Shape {
					info.Shape = append(info.Shape, uint64(d))
				}
				slots, data[x.Name] = append(slots, safetensors.Slot{Info: info}), x.Data
			}
			l, err := safetensors.NewLayout(slots, map[string]string{"format": "pt", "a": "b\x01é"})
			if err != nil {
				t.Fatal(err)
			}
			os.MkdirAll(filepath.Join(dir, name), 0o777)
			f, err := os.Create(filepath.Join(dir, name, shard.Name))
			if err != nil {
				t.Fatal(err)
			}
			w := safetensors.NewWriter(f, l)
			for n, b := range data {
				x, err := w.Tensor(n)
				if err == nil {
					_, err = x.Write(b)
				}
				if err != nil {
					t.Fatal(err)
				}
				want[filepath.Join(dir, name)+" "+n] = crc32.ChecksumIEEE(b)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
	}
	var dirs []string
	for _, name := range []string{"nvfp4", "fp8", "int4", "vlm"} {
		dirs = append(dirs, filepath.Join(dir, name))
	}
	got, _ := readBack(t, dirs...)
	if len(got) != len(want) || len(got) < 100 {
		t.Errorf("%d tensors read, %d written", len(got), len(want))
	}
	for name, crc := range want {
		if got[name].CRC != crc {
			t.Errorf("%s differs", name)
		}
	}
}

// TestClampedDecompresses plants NaN scales in a real NVFP4 checkpoint, clamps
// them and decompresses with the real compressed-tensors.
func TestClampedDecompresses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "model")
	if err := os.CopyFS(dir, os.DirFS(model("moe-nvfp4a16"))); err != nil {
		t.Fatal(err)
	}
	clean, finite := readBack(t, dir)
	for module, ok := range finite {
		if !ok {
			t.Fatalf("%s is not finite to begin with", module)
		}
	}
	planted := plant(t, dir, map[string][][]byte{"F8_E4M3": {{0x7F}, {0xFF}}})
	if _, finite = readBack(t, dir); all(finite) {
		t.Fatal("the planted scales make nothing NaN")
	}
	out := filepath.Join(t.TempDir(), "out")
	c := open(t, dir)
	r, err := patch.ClampNaN(context.Background(), c, patch.ClampOptions{Target: checkpoint.Target{Out: out}})
	if err != nil {
		t.Fatal(err)
	}
	var count int64
	for _, x := range r.Changed {
		count += x.Count
	}
	if int(count) != len(planted) {
		t.Errorf("%d bytes clamped, %d planted", count, len(planted))
	}
	clamped, finite := readBack(t, out)
	if !all(finite) || len(finite) == 0 {
		t.Errorf("after clamping not everything is finite: %v", finite)
	}
	changed := 0
	for name, was := range clean {
		if clamped[out+name[len(dir):]].CRC == was.CRC {
			continue
		}
		changed++
	}
	if changed != len(r.Changed) {
		t.Errorf("%d tensors differ from the clean ones, %d were clamped", changed, len(r.Changed))
	}
	// Not one byte but the planted ones.
	for x := range open(t, out).Tensors() {
		y, _ := c.Tensor(x.Name)
		a, _ := io.ReadAll(x.Reader())
		b, _ := io.ReadAll(y.Reader())
		for i := range a {
			if a[i] != b[i] && planted[place{x.Shard.Name, x.Offset + int64(i)}] == "" {
				t.Fatalf("byte %d of %s changed", i, x.Name)
			}
		}
	}
}

func all(m map[string]bool) bool {
	for _, ok := range m {
		if !ok {
			return false
		}
	}
	return true
}
