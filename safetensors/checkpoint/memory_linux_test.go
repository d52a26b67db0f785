//go:build linux && big && !race

package checkpoint_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

const memoryFile = "CHECKPOINT_TEST_MEMORY_FILE"

// indexes are large indexes, with how often their size the process may grow.
var indexes = []struct {
	name  string
	times float64
	text  func() []byte
}{
	{"a million experts in a thousand files", 4, func() []byte {
		return bigIndex(1_000_000, func(b []byte, i int) []byte {
			return fmt.Appendf(b, "    \"model.layers.%d.mlp.experts.%d.down_proj.weight_scale\": \"model-%05d-of-01000.safetensors\"", i/1024, i%1024, i/1000+1)
		})
	}},
	{"a million files", 6, func() []byte {
		return bigIndex(1_000_000, func(b []byte, i int) []byte {
			return fmt.Appendf(b, "    \"model.layers.%d.mlp.experts.%d.down_proj.weight_scale\": \"model-%07d-of-1000000.safetensors\"", i/1024, i%1024, i+1)
		})
	}},
	{"a million keys of one name", 6, func() []byte {
		return bigIndex(1_000_000, func(b []byte, i int) []byte { return append(b, `"a":"b"`...) })
	}},
	{"one name of 100 MB", 6, func() []byte {
		return []byte(`{"weight_map":{"` + strings.Repeat("n", 100_000_000) + `":"x"}}`)
	}},
	{"one number of 100 MB", 6, func() []byte {
		return []byte(`{"metadata":{"total_size":1` + strings.Repeat("0", 100_000_000) + `},"weight_map":{}}`)
	}},
}

func bigIndex(n int, item func(b []byte, i int) []byte) []byte {
	b := []byte("{\n  \"metadata\": {\n    \"total_size\": 1\n  },\n  \"weight_map\": {\n")
	for i := range n {
		if i > 0 {
			b = append(b, ",\n"...)
		}
		b = item(b, i)
	}
	return append(b, "\n  }\n}\n"...)
}

// TestIndexMemory parses each in a process of its own.
func TestIndexMemory(t *testing.T) {
	if path := os.Getenv(memoryFile); path != "" {
		measure(path)
	}
	for _, test := range indexes {
		t.Run(test.name, func(t *testing.T) {
			text := test.text()
			path := filepath.Join(t.TempDir(), indexName)
			if err := os.WriteFile(path, text, 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(os.Args[0], "-test.run=^TestIndexMemory$")
			cmd.Env = append(os.Environ(), memoryFile+"="+path)
			out, err := cmd.CombinedOutput()
			var growth int64
			var took time.Duration
			var n int
			if _, serr := fmt.Sscanf(string(out), "%d %d %d", &growth, &took, &n); err != nil || serr != nil {
				t.Fatalf("%v, %v: %s", err, serr, out)
			}
			t.Logf("%.2f of the text's %d bytes, %d tensors, %v", float64(growth)/float64(len(text)), len(text), n, took.Round(time.Millisecond))
			if most := int64(test.times*float64(len(text))) + 32<<20; growth > most {
				t.Errorf("grew by %d bytes, more than %d", growth, most)
			}
		})
	}
}

// measure parses the index and prints by how much the process grew, how long it
// took and how many tensors there are.
func measure(path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	before, start := status("VmRSS"), time.Now()
	x, err := checkpoint.ParseIndex(text)
	took := time.Since(start)
	if err != nil {
		panic(err)
	}
	growth := status("VmHWM") - before
	fmt.Println(growth, int64(took), x.Len())
	runtime.KeepAlive(text)
	os.Exit(0)
}

// status reads a field of /proc/self/status that is in kB.
func status(field string) int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	_, rest, _ := strings.Cut(string(text), field+":")
	value, _, ok := strings.Cut(strings.TrimSpace(rest), " kB")
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || !ok {
		panic(fmt.Sprint(field, ": ", value))
	}
	return n << 10
}
