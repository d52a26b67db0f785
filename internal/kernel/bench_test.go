package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Sizes of a buffer that comes from memory and of one that stays in the
// second-level cache.
var benchSizes = []struct {
	name  string
	bytes int
}{
	{"64MiB", 64 << 20},
	{"128KiB", 128 << 10},
}

// A sample is a tensor as it is found in checkpoints, without a flagged element.
type sample struct {
	name    string
	format  Format
	element func(r *rand.Rand) uint64
	size    int
}

func samples() []sample {
	bf16 := func(sigma float64) func(r *rand.Rand) uint64 {
		return func(r *rand.Rand) uint64 {
			return uint64(math.Float32bits(float32(sigma*r.NormFloat64())) >> 16)
		}
	}
	return []sample{
		// Scaled to the largest code, as weights are.
		{"E4M3", E4M3(), func(r *rand.Rand) uint64 { return r.Uint64N(0x7F) | r.Uint64N(2)<<7 }, 1},
		{"E5M2", E5M2(), func(r *rand.Rand) uint64 { return r.Uint64N(0x7C) | r.Uint64N(2)<<7 }, 1},
		{"E8M0", E8M0(), func(r *rand.Rand) uint64 { return 110 + r.Uint64N(12) }, 1},
		{"FNUZ", FNUZ(), func(r *rand.Rand) uint64 { return 1 + r.Uint64N(0x7F) | r.Uint64N(2)<<7 }, 1},
		{"F4", F4(), func(r *rand.Rand) uint64 { return 0x80 }, 1},
		{"F16", F16(1000), func(r *rand.Rand) uint64 { return r.Uint64N(0x3C00) | r.Uint64N(2)<<15 }, 2},
		{"BF16", BF16(1000), bf16(0.02), 2},
		// Magnitudes from 2 on: the OR of a block passes no test.
		{"BF16-large", BF16(1000), bf16(20), 2},
		{"F32", F32(1000), func(r *rand.Rand) uint64 {
			return uint64(math.Float32bits(float32(0.02 * r.NormFloat64())))
		}, 4},
		{"F64", F64(1000), func(r *rand.Rand) uint64 { return math.Float64bits(0.02 * r.NormFloat64()) }, 8},
	}
}

// buffer returns n bytes of elements; they repeat after a while.
func (s sample) buffer(n int) []byte {
	r := rand.New(rand.NewPCG(7, 8))
	p := make([]byte, n)
	once := p[:min(n, 1<<20)]
	for i := 0; i < len(once); i += s.size {
		bits := s.element(r)
		for k := range s.size {
			once[i+k] = byte(bits >> (8 * k))
		}
	}
	for done := len(once); done < n; done *= 2 {
		copy(p[done:], p[:done])
	}
	return p
}

// scan scans p the way a caller does, in blocks of at most 1 MiB.
func (s sample) scan(p []byte) (suspect bool) {
	for ; len(p) > 0; p = p[min(len(p), 1<<20):] {
		found, _ := s.format.Scan(p[:min(len(p), 1<<20)])
		suspect = suspect || found
	}
	return suspect
}

// readSum is the fastest way known to read memory in plain Go: the yardstick.
//
//go:noinline
func readSum(p []byte) uint64 {
	var a0, a1, a2, a3, a4, a5, a6, a7 uint64
	for i := 0; i <= len(p)-128; i += 128 {
		w := (*[128]byte)(p[i : i+128])
		a0 += binary.LittleEndian.Uint64(w[0:])
		a1 += binary.LittleEndian.Uint64(w[8:])
		a2 += binary.LittleEndian.Uint64(w[16:])
		a3 += binary.LittleEndian.Uint64(w[24:])
		a4 += binary.LittleEndian.Uint64(w[32:])
		a5 += binary.LittleEndian.Uint64(w[40:])
		a6 += binary.LittleEndian.Uint64(w[48:])
		a7 += binary.LittleEndian.Uint64(w[56:])
		a0 += binary.LittleEndian.Uint64(w[64:])
		a1 += binary.LittleEndian.Uint64(w[72:])
		a2 += binary.LittleEndian.Uint64(w[80:])
		a3 += binary.LittleEndian.Uint64(w[88:])
		a4 += binary.LittleEndian.Uint64(w[96:])
		a5 += binary.LittleEndian.Uint64(w[104:])
		a6 += binary.LittleEndian.Uint64(w[112:])
		a7 += binary.LittleEndian.Uint64(w[120:])
	}
	return a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7
}

func BenchmarkReadSum(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(size.name, func(b *testing.B) {
			p := samples()[0].buffer(size.bytes)
			b.SetBytes(int64(len(p)))
			for b.Loop() {
				readSum(p)
			}
		})
	}
}

func BenchmarkScan(b *testing.B) {
	for _, s := range samples() {
		for _, size := range benchSizes {
			b.Run(s.name+"/"+size.name, func(b *testing.B) {
				p := s.buffer(size.bytes)
				b.SetBytes(int64(len(p)))
				for b.Loop() {
					if s.scan(p) {
						b.Fatal("suspect")
					}
				}
			})
		}
	}
}

// BenchmarkClassify is the price of a block that Scan flagged.
func BenchmarkClassify(b *testing.B) {
	for _, s := range samples() {
		b.Run(s.name, func(b *testing.B) {
			p := s.buffer(128 << 10)
			b.SetBytes(int64(len(p)))
			for b.Loop() {
				s.format.Classify(p, func(int, uint64, Class) { b.Fatal("flagged") })
			}
		})
	}
}

// BenchmarkScanPerRead reports how fast a scan is as a part of the speed of
// reading the same buffer. The two take turns, so that other work on the
// machine meets both, and the medians of the pairs are what is reported. Run it
// with a fixed count, such as -benchtime 51x.
func BenchmarkScanPerRead(b *testing.B) {
	for _, s := range samples() {
		for _, size := range benchSizes {
			b.Run(fmt.Sprintf("%s/%s", s.name, size.name), func(b *testing.B) {
				p := s.buffer(size.bytes)
				turns := max(1, (16<<20)/len(p))
				var ratios, reads []float64
				for b.Loop() {
					start := time.Now()
					for range turns {
						readSum(p)
					}
					read := time.Since(start)
					start = time.Now()
					for range turns {
						s.scan(p)
					}
					ratios = append(ratios, float64(read)/float64(time.Since(start)))
					reads = append(reads, float64(turns*len(p))/float64(read.Nanoseconds()))
				}
				b.ReportMetric(median(ratios), "scan/read")
				b.ReportMetric(median(reads), "read-GB/s")
			})
		}
	}
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}
