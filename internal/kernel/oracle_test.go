package kernel

import (
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// A subject is a format together with a second opinion on it: value decodes the
// bits of one element by the arithmetic of the format's definition, with none
// of the patterns and masks under test.
type subject struct {
	name   string
	size   int
	limit  float64
	format Format
	value  func(bits uint64) float64
}

// subjects returns every format, the wider ones without and with limits.
func subjects() []subject {
	list := []subject{
		{"E4M3", 1, 0, E4M3(), func(b uint64) float64 {
			if b&0x7F == 0x7F {
				return math.NaN()
			}
			return decode(b, 4, 3, 7)
		}},
		{"E5M2", 1, 0, E5M2(), func(b uint64) float64 { return decodeIEEE(b, 5, 2) }},
		{"E8M0", 1, 0, E8M0(), func(b uint64) float64 {
			if b == 0xFF {
				return math.NaN()
			}
			return math.Ldexp(1, int(b)-127)
		}},
		{"E4M3FNUZ", 1, 0, FNUZ(), func(b uint64) float64 { return decodeFNUZ(b, 4, 3, 8) }},
		{"E5M2FNUZ", 1, 0, FNUZ(), func(b uint64) float64 { return decodeFNUZ(b, 5, 2, 16) }},
		{"F4", 1, 0, F4(), func(b uint64) float64 {
			// A byte is zero if both codes are; its value is of no interest.
			return math.Abs(decode(b&0xF, 2, 1, 1)) + math.Abs(decode(b>>4, 2, 1, 1))
		}},
		{"Int", 1, 0, Int(), func(b uint64) float64 { return float64(b) }},
	}
	for _, limit := range []float64{0, 0x1p-140, 0.7, 6, 65504, 1e30} {
		list = append(list,
			subject{"F16", 2, limit, F16(limit), func(b uint64) float64 { return decodeIEEE(b, 5, 10) }},
			subject{"BF16", 2, limit, BF16(limit), func(b uint64) float64 {
				return float64(math.Float32frombits(uint32(b) << 16))
			}},
			subject{"F32", 4, limit, F32(limit), func(b uint64) float64 {
				return float64(math.Float32frombits(uint32(b)))
			}},
			subject{"F64", 8, limit, F64(limit), math.Float64frombits},
		)
	}
	return list
}

// decode returns the value of a float with the given widths and no special
// patterns.
func decode(bits uint64, exponent, mantissa, bias int) float64 {
	sign := 1.0
	if bits>>(exponent+mantissa) != 0 {
		sign = -1
	}
	e := int(bits>>mantissa) & (1<<exponent - 1)
	m := float64(bits & (1<<mantissa - 1))
	if e == 0 {
		return sign * math.Ldexp(m, 1-bias-mantissa)
	}
	return sign * math.Ldexp(m+math.Ldexp(1, mantissa), e-bias-mantissa)
}

// decodeIEEE is decode with Inf and NaN at the exponent of all ones.
func decodeIEEE(bits uint64, exponent, mantissa int) float64 {
	if int(bits>>mantissa)&(1<<exponent-1) == 1<<exponent-1 {
		switch {
		case bits&(1<<mantissa-1) != 0:
			return math.NaN()
		case bits>>(exponent+mantissa) != 0:
			return math.Inf(-1)
		default:
			return math.Inf(1)
		}
	}
	return decode(bits, exponent, mantissa, 1<<(exponent-1)-1)
}

// decodeFNUZ is decode with NaN in the place of the negative zero.
func decodeFNUZ(bits uint64, exponent, mantissa, bias int) float64 {
	if x := decode(bits, exponent, mantissa, bias); x != 0 || bits == 0 {
		return x
	}
	return math.NaN()
}

// class is the class that the definition gives the element.
func (s subject) class(bits uint64) Class {
	switch x := s.value(bits); {
	case math.IsNaN(x):
		return NaN
	case math.IsInf(x, 0):
		return Inf
	case s.limit > 0 && math.Abs(x) > s.limit:
		return Outlier
	}
	return Clean
}

// element returns the bits of element i of p.
func (s subject) element(p []byte, i int) uint64 {
	var b [8]byte
	copy(b[:], p[i*s.size:(i+1)*s.size])
	return binary.LittleEndian.Uint64(b[:])
}

// put stores element i of p.
func (s subject) put(p []byte, i int, bits uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], bits)
	copy(p[i*s.size:(i+1)*s.size], b[:])
}

// A find is what Classify reports.
type find struct {
	index int
	bits  uint64
	class Class
}

// want returns what Scan and Classify have to say about p.
func (s subject) want(p []byte) (finds []find, nonzero bool) {
	for i := range len(p) / s.size {
		bits := s.element(p, i)
		if class := s.class(bits); class != Clean {
			finds = append(finds, find{i, bits, class})
		}
		nonzero = nonzero || s.value(bits) != 0
	}
	return finds, nonzero
}

// check compares Scan and Classify of p with the second opinion.
func (s subject) check(t testing.TB, p []byte) {
	t.Helper()
	want, nonzero := s.want(p)
	gotSuspect, gotNonzero := s.format.Scan(p)
	if gotSuspect != (len(want) > 0) || gotNonzero != nonzero {
		t.Fatalf("%s limit %g: Scan = %t, %t; want %t, %t (%d bytes, finds %v)",
			s.name, s.limit, gotSuspect, gotNonzero, len(want) > 0, nonzero, len(p), want)
	}
	var got []find
	s.format.Classify(p, func(index int, bits uint64, class Class) {
		got = append(got, find{index, bits, class})
	})
	if len(got) != len(want) {
		t.Fatalf("%s limit %g: Classify visits %v; want %v", s.name, s.limit, got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s limit %g: Classify visits %v; want %v", s.name, s.limit, got[i], want[i])
		}
	}
}

// clean returns a random element that is not flagged, all patterns alike.
func (s subject) clean(r *rand.Rand) uint64 {
	bits := s.random(r)
	if s.format.rule == ordered {
		return bits&s.format.sign | r.Uint64N(s.format.outlier)
	}
	for s.class(bits) != Clean {
		bits = s.random(r)
	}
	return bits
}

// random returns random bits of an element.
func (s subject) random(r *rand.Rand) uint64 { return r.Uint64() >> (64 - 8*s.size) }

// flagged returns an element of each way to be flagged: the first and the last
// pattern of each class, with both signs, and none if there is no class.
func (s subject) flagged() []uint64 {
	f := s.format
	var list []uint64
	switch f.rule {
	case pattern:
		list = []uint64{0x80, 0xFF}
	case ordered:
		sign := uint64(1) << (8*s.size - 1)
		for _, m := range []uint64{f.outlier, f.inf - 1, f.inf, f.nan, sign - 1} {
			list = append(list, m, m|sign)
		}
	}
	var kept []uint64
	for _, bits := range list {
		if s.class(bits) != Clean {
			kept = append(kept, bits)
		}
	}
	return kept
}

// backgrounds returns clean elements to fill a buffer with. The first is zero;
// the last are two whose OR reaches every magnitude, so that Scan has to look
// at each element.
func (s subject) backgrounds() [][]uint64 {
	zero := []uint64{0}
	switch {
	case s.format.rule == never:
		return [][]uint64{zero}
	case s.format.rule == pattern:
		return [][]uint64{zero, {0x7F}, {0x81, 0xFE}, {0x7F, 0xC1}}
	}
	sign := uint64(1) << (8*s.size - 1)
	top := s.format.outlier - 1 // the largest clean magnitude
	if top == 0 {
		return [][]uint64{zero, {sign}}
	}
	return [][]uint64{zero, {sign}, {top}, {top, sign | top>>1}, s.loud()}
}

// loud returns clean magnitudes whose OR is flagged, and zero if there are none.
func (s subject) loud() []uint64 {
	out := s.format.outlier
	high := uint64(1) << (bits.Len64(out) - 1)
	if low := high - 1; high < out && low < out {
		return []uint64{high, low}
	}
	return []uint64{0}
}
