//go:build big && (linux || darwin)

package filecopy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// BenchmarkCopy copies 1 GiB beside cp, in pairs in turn, and prints the
// ratio of the medians, for the method that the system has and for reading and
// writing.
func BenchmarkCopy(b *testing.B) {
	const size = 1 << 30
	src := file(b, nil)
	block := noise(50, 4<<20)
	for range size / len(block) {
		if _, err := src.Write(block); err != nil {
			b.Fatal(err)
		}
	}
	target := filepath.Join(b.TempDir(), "copy")
	timed := func(do func()) time.Duration {
		os.Remove(target)
		syscall.Sync()
		start := time.Now()
		do()
		return time.Since(start)
	}
	cp := func() {
		if out, err := exec.Command("cp", src.Name(), target).CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
	}
	with := func(sys system) func() {
		return func() {
			dst, err := os.Create(target)
			if err != nil {
				b.Fatal(err)
			}
			j := &job{sys: sys, dst: dst, src: src}
			if err := j.whole(b.Context(), size); err != nil {
				b.Fatal(err)
			}
			if j.method != Reflink && j.written != size {
				b.Fatalf("%s, %d bytes", j.method, j.written)
			}
			if err := dst.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
	plain := &faulty{fault: func(op string, _ int) error {
		if op == opRange {
			return syscall.EXDEV
		}
		return nil
	}}
	for name, ours := range map[string]func(){"native": with(native{}), "read and write": with(plain)} {
		b.Run(name, func(b *testing.B) {
			var a, c []time.Duration
			timed(cp)
			timed(ours)
			for b.Loop() {
				for range 4 {
					// What runs first finds other memory free than what runs second.
					a, c = append(a, timed(ours)), append(c, timed(cp))
					c, a = append(c, timed(cp)), append(a, timed(ours))
				}
			}
			slices.Sort(a)
			slices.Sort(c)
			b.SetBytes(size * 16)
			b.ReportMetric(float64(a[len(a)/2])/float64(c[len(c)/2]), "x-cp")
			b.ReportMetric(float64(a[0])/float64(c[0]), "x-cp-best")
		})
	}
}
