package main

import (
	"encoding/json"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors"
)

// BenchmarkInspect inspects 160 shards with 90,000 tensors beside json.Valid
// over their headers, and prints the ratio of the medians.
func BenchmarkInspect(b *testing.B) {
	dir := b.TempDir()
	if err := vectors.Large(90_000, 160).Write(dir); err != nil {
		b.Fatal(err)
	}
	var headers [][]byte
	files, _ := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	for _, path := range files {
		f, err := safetensors.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		headers = append(headers, []byte(f.Header()))
		f.Close()
	}
	for _, args := range [][]string{{"inspect", dir}, {"inspect", "--json", dir}} {
		b.Run(args[len(args)-2], func(b *testing.B) {
			var ours, theirs []time.Duration
			for b.Loop() {
				start := time.Now()
				if code := run(append([]string{"ckpt"}, args...), io.Discard, io.Discard); code != exitDone {
					b.Fatalf("exit %d", code)
				}
				ours = append(ours, time.Since(start))
				start = time.Now()
				for _, h := range headers {
					if !json.Valid(h) {
						b.Fatal("not JSON")
					}
				}
				theirs = append(theirs, time.Since(start))
			}
			b.ReportMetric(ratio(ours, theirs), "x-json.Valid")
		})
	}
}

// ratio is the ratio of the medians.
func ratio(ours, theirs []time.Duration) float64 {
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2])
	}
	return median(ours) / median(theirs)
}
