package kernel

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// fill returns n bytes of the elements list, over and over.
func (s subject) fill(n int, list []uint64) []byte {
	p := make([]byte, n)
	for i := range n / s.size {
		s.put(p, i, list[i%len(list)])
	}
	return p
}

// Every pattern of the 8- and 16-bit formats, in every lane of a word in a
// whole stride and of one in the rest.
func TestEveryPattern(t *testing.T) {
	for _, s := range subjects() {
		if s.size > 2 {
			continue
		}
		for _, bg := range s.backgrounds() {
			p := s.fill(stride+12, bg)
			words := []int{0, stride}
			if s.limit != 0 {
				words = words[:1] // there are many limits
			}
			for _, word := range words {
				for i := word / s.size; i < (word+8)/s.size; i++ {
					before := s.element(p, i)
					for bits := range uint64(1) << (8 * s.size) {
						s.put(p, i, bits)
						class := s.class(bits)
						nonzero := s.value(bits) != 0 || len(bg) > 1 || s.value(bg[0]) != 0
						gotSuspect, gotNonzero := s.format.Scan(p)
						if gotSuspect != (class != Clean) || gotNonzero != nonzero {
							t.Fatalf("%s limit %g: %#x at %d among %#x: Scan = %t, %t; want class %d, nonzero %t",
								s.name, s.limit, bits, i, bg, gotSuspect, gotNonzero, class, nonzero)
						}
						if got := s.format.class(bits); got != class {
							t.Fatalf("%s limit %g: class of %#x = %d, want %d", s.name, s.limit, bits, got, class)
						}
					}
					s.put(p, i, before)
				}
			}
		}
	}
}

// Every pair of 8-bit patterns side by side, over all lanes and into the next
// word, through the whole of Scan and through the loops behind the shortcut.
func TestEveryPair(t *testing.T) {
	for _, s := range subjects() {
		if s.size > 1 {
			continue
		}
		flagged, value := [256]bool{}, [256]bool{}
		for b := range 256 {
			flagged[b] = s.class(uint64(b)) != Clean
			value[b] = s.value(uint64(b)) != 0
		}
		rest := value[0] // the other bytes are 0
		p := make([]byte, stride)
		for i := range 9 {
			for pair := range 1 << 16 {
				x, y := byte(pair), byte(pair>>8)
				p[i], p[i+1] = x, y
				suspect := flagged[x] || flagged[y]
				nonzero := value[x] || value[y] || rest
				if s1, n1 := s.format.Scan(p); s1 != suspect || n1 != nonzero {
					t.Fatalf("%s: %#x, %#x at %d: Scan = %t, %t; want %t, %t", s.name, x, y, i, s1, n1, suspect, nonzero)
				}
				if s2 := s.format.holds(p); s2 != suspect {
					t.Fatalf("%s: %#x, %#x at %d: holds = %t, want %t", s.name, x, y, i, s2, suspect)
				}
			}
			p[i], p[i+1] = 0, 0
		}
	}
}

// One flagged element at each place of buffers of every short length and of
// some that end near the edges of blocks, at odd addresses, with a part of an
// element after them.
func TestPlanted(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range subjects() {
		for _, bg := range s.backgrounds() {
			for n := range 201 {
				p := s.fill(n+1, bg)[1:]
				p = append(p[:n/s.size*s.size], bytes.Repeat([]byte{0xFF}, n%s.size)...)
				s.check(t, p)
				for i := range n / s.size {
					before := s.element(p, i)
					for _, bits := range s.flagged() {
						s.put(p, i, bits)
						suspect, nonzero := s.format.Scan(p)
						if !suspect || !nonzero {
							t.Fatalf("%s limit %g: %#x at %d of %d bytes: Scan = %t, %t",
								s.name, s.limit, bits, i, n, suspect, nonzero)
						}
					}
					s.put(p, i, before)
				}
			}
		}
		for _, n := range []int{blockSize - 8, blockSize, blockSize + 8, 2*blockSize + stride, 3*blockSize + stride - 1} {
			p := make([]byte, n)
			for i := range n / s.size {
				s.put(p, i, s.clean(r))
			}
			s.check(t, p)
			for _, bits := range s.flagged() {
				i := r.IntN(n / s.size)
				before := s.element(p, i)
				s.put(p, i, bits)
				s.check(t, p)
				s.put(p, i, before)
			}
		}
	}
}

// A single nonzero element among zeros of both signs, at each place.
func TestNonzero(t *testing.T) {
	for _, s := range subjects() {
		zeros := []uint64{0}
		if s.format.sign != 0 {
			zeros = append(zeros, s.format.sign>>(64-8*s.size))
		}
		for _, n := range []int{0, 1, 7, 8, 9, 63, 64, 65, 200, blockSize, blockSize + 200} {
			p := s.fill(n, zeros)
			s.check(t, p)
			step := max(1, n/300)
			for i := 0; i < n/s.size; i += step {
				before := s.element(p, i)
				s.put(p, i, 1)
				s.check(t, p)
				s.put(p, i, before)
			}
		}
	}
}

// Random elements of the wider formats, alone and in company, with patterns
// that differ from a boundary by little.
func TestRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, s := range subjects() {
		for range 3000 {
			p := make([]byte, r.IntN(3*stride))
			mixed := r.IntN(2) == 0
			for i := range len(p) / s.size {
				switch {
				case mixed && r.IntN(50) == 0:
					s.put(p, i, s.random(r))
				case r.IntN(50) == 0:
					near := s.format.outlier + r.Uint64N(5) - 2
					s.put(p, i, near&^s.format.sign|r.Uint64()&s.format.sign)
				default:
					s.put(p, i, s.clean(r))
				}
			}
			s.check(t, p)
		}
	}
}

// The outlier threshold is the smallest magnitude above the limit.
func TestLimit(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	formats := []struct {
		size  int
		make  func(limit float64) Format
		value func(bits uint64) float64
	}{
		{2, F16, func(b uint64) float64 { return decodeIEEE(b, 5, 10) }},
		{2, BF16, func(b uint64) float64 { return float64(math.Float32frombits(uint32(b) << 16)) }},
		{4, F32, func(b uint64) float64 { return float64(math.Float32frombits(uint32(b))) }},
		{8, F64, math.Float64frombits},
	}
	for _, f := range formats {
		none := f.make(0)
		for _, limit := range []float64{-1, math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), math.MaxFloat64} {
			if got := f.make(limit); got != none {
				t.Errorf("limit %g of %d bytes: %+v, want that of 0, %+v", limit, f.size, got, none)
			}
		}
		check := func(limit float64) {
			if !(limit > 0) || math.IsInf(limit, 0) {
				return
			}
			got := f.make(limit).outlier
			// Below Inf the values grow with the bits, so two suffice.
			if got > none.inf || f.value(got) <= limit || f.value(got-1) > limit {
				t.Fatalf("limit %g of %d bytes: outliers from %#x on", limit, f.size, got)
			}
		}
		around := func(x float64) {
			check(x)
			check(math.Nextafter(x, 0))
			check(math.Nextafter(x, math.Inf(1)))
		}
		for range 1 << 16 {
			around(f.value(r.Uint64N(none.inf)))
			check(math.Float64frombits(r.Uint64() >> 1))
		}
		if f.size == 2 {
			for bits := range none.inf {
				around(f.value(bits))
				around((f.value(bits) + f.value(bits+1)) / 2)
			}
		}
		for e := -1074; e < 1024; e++ {
			around(math.Ldexp(1, e))
		}
	}
}

// The patterns of the wide formats that are easy to get wrong.
func TestBoundaries(t *testing.T) {
	tests := []struct {
		name   string
		format Format
		size   int
		bits   uint64
		want   Class
	}{
		{"F32 largest", F32(0), 4, 0x7F7FFFFF, Clean},
		{"F32 Inf", F32(0), 4, 0x7F800000, Inf},
		{"F32 -Inf", F32(0), 4, 0xFF800000, Inf},
		{"F32 first signalling NaN", F32(0), 4, 0x7F800001, NaN},
		{"F32 quiet NaN", F32(0), 4, 0x7FC00000, NaN},
		{"F32 last NaN", F32(0), 4, 0xFFFFFFFF, NaN},
		{"F32 smallest", F32(0), 4, 1, Clean},
		{"F32 at the limit", F32(1.5), 4, 0x3FC00000, Clean},
		{"F32 above the limit", F32(1.5), 4, 0x3FC00001, Outlier},
		{"F32 below minus the limit", F32(1.5), 4, 0xBFC00001, Outlier},
		{"F32 Inf with a limit", F32(1.5), 4, 0x7F800000, Inf},
		{"F32 NaN with a limit", F32(1.5), 4, 0xFFC00000, NaN},
		{"F64 largest", F64(0), 8, 0x7FEFFFFFFFFFFFFF, Clean},
		{"F64 Inf", F64(0), 8, 0x7FF0000000000000, Inf},
		{"F64 -Inf", F64(0), 8, 0xFFF0000000000000, Inf},
		{"F64 first NaN", F64(0), 8, 0x7FF0000000000001, NaN},
		{"F64 last NaN", F64(0), 8, 0xFFFFFFFFFFFFFFFF, NaN},
		{"F64 NaN of a low word only", F64(0), 8, 0x7FF00000FFFFFFFF, NaN},
		{"F64 clean with a NaN-like low word", F64(0), 8, 0x00000000FFFFFFFF, Clean},
		{"F64 at the limit", F64(1.5), 8, 0x3FF8000000000000, Clean},
		{"F64 above the limit", F64(1.5), 8, 0xBFF8000000000001, Outlier},
		{"BF16 limit between two values", BF16(1.001), 2, 0x3F80, Clean},
		{"BF16 above a limit between two values", BF16(1.001), 2, 0x3F81, Outlier},
		{"F16 largest", F16(0), 2, 0x7BFF, Clean},
		{"F16 largest with a lower limit", F16(65503), 2, 0x7BFF, Outlier},
		{"E4M3 448", E4M3(), 1, 0x7E, Clean},
		{"E4M3 -448", E4M3(), 1, 0xFE, Clean},
		{"E8M0 2^0", E8M0(), 1, 0x7F, Clean},
		{"FNUZ largest negative", FNUZ(), 1, 0xFF, Clean},
		{"Int", Int(), 1, 0xFF, Clean},
		{"zero Format", Format{}, 1, 0x7F, Clean},
	}
	for _, tt := range tests {
		s := subject{name: tt.name, size: tt.size, format: tt.format}
		for n := tt.size; n <= 2*stride; n += tt.size {
			p := make([]byte, n)
			s.put(p, n/tt.size-1, tt.bits)
			var got []find
			tt.format.Classify(p, func(index int, bits uint64, class Class) {
				got = append(got, find{index, bits, class})
			})
			var want []find
			if tt.want != Clean {
				want = []find{{n/tt.size - 1, tt.bits, tt.want}}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: Classify visits %v, want %v", tt.name, got, want)
			}
			if suspect, nonzero := tt.format.Scan(p); suspect != (tt.want != Clean) || !nonzero {
				t.Errorf("%s: Scan of %d bytes = %t, %t", tt.name, n, suspect, nonzero)
			}
		}
	}
}

func TestScanAllocates(t *testing.T) {
	p := make([]byte, 1000)
	for _, s := range subjects() {
		if n := testing.AllocsPerRun(10, func() { s.format.Scan(p) }); n != 0 {
			t.Errorf("%s: Scan allocates %g times", s.name, n)
		}
	}
}
