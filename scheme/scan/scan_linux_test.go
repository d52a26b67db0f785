package scan

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// readsOf names the checkpoint that a child process is to open and scan.
const readsOf = "CKPT_SCAN_TEST_READS_OF"

// rchar returns the bytes that this process has asked the kernel to read.
func rchar(t *testing.T) int64 {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "rchar: ")
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseInt(line, 10, 64)
	if err != nil || !ok {
		t.Fatalf("%q: %v", text, err)
	}
	return n
}

// heavy makes a model of four shards with scales and norms, and weights that are
// many times as large.
func heavy() *vectors.Model {
	m := vectors.Large(4000, 4).Clone() // its shards share their memory
	for i, s := range m.Shards {
		m.Add(s.Name, filled(fmt.Sprintf("model.layers.%d.wide.weight", i), "BF16", []int{1024, 2048}, "003c"))
		m.Add(s.Name, filled(fmt.Sprintf("model.layers.%d.wide.weight_scale_inv", i), "F32", []int{64, 1024}, "0000803c"))
	}
	return m
}

// A default scan reads headers, index, configuration and what it scans, once,
// and says so truly.
func TestBytesRead(t *testing.T) {
	if dir := os.Getenv(readsOf); dir != "" {
		before := rchar(t)
		c, err := checkpoint.Open(dir, checkpoint.Options{})
		if err != nil {
			t.Fatal(err)
		}
		opened := c.BytesRead()
		r, err := Scan(context.Background(), c, Options{})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("\nREADS %d %d %d %d %d\n", rchar(t)-before, opened, c.BytesRead(), r.Bytes, len(r.Findings)+len(c.Problems()))
		return
	}
	models := map[string]func(dir string) error{
		"heavy": heavy().Write, "N(T1)": vectors.NVFP4(vectors.T1(), false).Write, "I4(T0)": vectors.INT4(vectors.T0(), 32).Write,
	}
	for name, write := range models {
		dir := t.TempDir()
		if err := write(dir); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestBytesRead$", "-test.v")
		cmd.Env = append(os.Environ(), readsOf+"="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		var kernel, opened, counted, scanned, faults int64
		_, line, _ := strings.Cut(string(out), "\nREADS ")
		if _, err := fmt.Sscan(line, &kernel, &opened, &counted, &scanned, &faults); err != nil || faults != 0 {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		if d := kernel - counted; d < 0 || d > 256<<10 {
			t.Errorf("%s: the kernel has read %d bytes, %d are counted", name, kernel, counted)
		}
		if got := counted - opened; got != scanned {
			t.Errorf("%s: %d bytes read for %d scanned", name, got, scanned)
		}
		most := mostToOpen(t, dir) + scanned
		if counted > most {
			t.Errorf("%s: %d bytes read, %d would do", name, counted, most)
		}
		if name == "heavy" && counted > 4<<20 {
			t.Errorf("%s: %d bytes read of a model of 16 MiB", name, counted)
		}
		t.Logf("%s: %d counted, %d by the kernel, %d scanned", name, counted, kernel, scanned)
	}
}

// mostToOpen returns what opening the checkpoint may read: headers, index,
// config.json and 128 KiB a shard.
func mostToOpen(t *testing.T, dir string) int64 {
	c, err := checkpoint.Open(dir, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var most int64
	for _, s := range c.Shards() {
		most += s.DataOffset() + 128<<10
	}
	for _, name := range []string{c.Index().Name, "config.json"} {
		st, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		most += st.Size()
	}
	return most
}
