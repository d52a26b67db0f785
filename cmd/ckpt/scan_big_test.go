//go:build linux && big

package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// bigFile writes a file with one BF16 tensor of the given size, of weights
// around zero.
func bigFile(tb testing.TB, size int64) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "model.safetensors")
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	header := fmt.Sprintf(`{"w.weight":{"dtype":"BF16","shape":[%d,4096],"data_offsets":[0,%d]}}`, size/8192, size)
	f.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(header))))
	f.WriteString(header)
	block := make([]byte, 4<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := 0; i < len(block); i += 2 {
		binary.LittleEndian.PutUint16(block[i:], uint16(0x3C00+r.UintN(0x0180))|uint16(r.UintN(2))<<15)
	}
	for done := int64(0); done < size; done += int64(len(block)) {
		if _, err := f.Write(block); err != nil {
			tb.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		tb.Fatal(err)
	}
	return path
}

// command builds the program once.
func command(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "ckpt")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		tb.Fatalf("%v\n%s", err, out)
	}
	return path
}

// BenchmarkScanAll runs scan-nan --all on a warm 2 GiB file beside cat, in
// interleaved pairs, and prints the ratio of the medians.
func BenchmarkScanAll(b *testing.B) {
	ckpt, file := command(b), bigFile(b, 2<<30)
	timed := func(name string, args ...string) time.Duration {
		start := time.Now()
		if err := exec.Command(name, args...).Run(); err != nil {
			b.Fatalf("%s: %v", name, err)
		}
		return time.Since(start)
	}
	var ours, theirs []time.Duration
	pair := func(keep bool) {
		o, t := timed(ckpt, "scan-nan", "--all", file), timed("sh", "-c", `cat "$0" > /dev/null`, file)
		if keep {
			ours, theirs = append(ours, o), append(theirs, t)
		}
	}
	pair(false)
	for b.Loop() {
		for range 5 {
			pair(true)
		}
	}
	b.SetBytes(2 << 30 * 5)
	b.ReportMetric(ratio(ours, theirs), "x-cat")
}

// TestPeakMemory scans 4 GiB and holds the peak resident size against the
// promise: 256 MiB, 64 MiB a worker and 2 KiB a tensor.
func TestPeakMemory(t *testing.T) {
	cmd := exec.Command(command(t), "scan-nan", "--all", bigFile(t, 4<<30))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	limit := int64(256<<20 + 64<<20*runtime.NumCPU() + 2<<10)
	t.Logf("peak resident size %d MiB, limit %d MiB", peak>>20, limit>>20)
	if peak > limit {
		t.Errorf("peak resident size %d, limit %d", peak, limit)
	}
}
