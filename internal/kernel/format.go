package kernel

import "math"

// Format says how the stored bits of one element are to be judged: which
// patterns are NaN or Inf, which are outliers, and which are zero. Get one from
// the functions below. Formats are plain values: copy them freely and share
// them between goroutines. The zero Format is [Int].
type Format struct {
	shift  uint8 // an element is 1<<shift bytes
	rule   rule
	noZero bool // no pattern means zero (E8M0)

	// sign has the bits set, in each lane of a 64-bit word, that do not
	// make a zero nonzero.
	sign uint64

	// ordered only, each about the magnitude of one element: from outlier
	// on it is flagged, from inf on it is Inf, from nan on it is NaN.
	// outlier <= inf <= nan; equal neighbours mean that there is no such
	// class.
	outlier, inf, nan uint64
	// ordered only, one lane for each element: what takes outlier, and
	// nothing below it, up to the sign bit.
	add uint64

	// pattern only, one lane for each byte: what turns the low seven bits
	// of the NaN into ones.
	flip uint64
}

// rule is the way to tell that an element is flagged.
type rule uint8

const (
	never   rule = iota // no pattern is flagged
	ordered             // sign bit and magnitude; flagged from some magnitude on
	pattern             // one byte, and it is flagged; its top bit is set
)

// Words of eight byte lanes for the pattern rule.
const (
	topBits = 0x8080808080808080
	lowBits = 0x7F7F7F7F7F7F7F7F
	oneEach = 0x0101010101010101
)

// E4M3 is the 8-bit float F8_E4M3 (E4M3FN elsewhere): S EEEE MMM, bias 7. NaN
// is 0x7F and 0xFF; there is no Inf; zero is 0x00 and 0x80.
func E4M3() Format {
	const nan = 0x7F
	return orderedFormat(0, nan, nan, nan)
}

// E5M2 is the 8-bit float F8_E5M2: S EEEEE MM, bias 15. Inf is 0x7C and 0xFC,
// NaN is 0x7D to 0x7F and 0xFD to 0xFF; zero is 0x00 and 0x80.
func E5M2() Format { return ieeeFormat(0, 2, 0) }

// E8M0 is the 8-bit power of two F8_E8M0: 2^(byte-127). NaN is 0xFF. There is
// no sign, no Inf and no zero, so every element counts as nonzero.
func E8M0() Format { return Format{rule: pattern, noZero: true} }

// FNUZ stands for both F8_E4M3FNUZ and F8_E5M2FNUZ, which differ in nothing
// that matters here. NaN is 0x80, the pattern that would have been the negative
// zero; there is no Inf; zero is 0x00 only.
func FNUZ() Format { return Format{rule: pattern, flip: lowBits} }

// F16 is the IEEE half: S EEEEE and 10 bits. For limit see [F64].
func F16(limit float64) Format { return ieeeFormat(1, 10, limit) }

// BF16 is the upper half of an F32: S EEEEEEEE and 7 bits. For limit see [F64].
func BF16(limit float64) Format { return ieeeFormat(1, 7, limit) }

// F32 is the IEEE single: S EEEEEEEE and 23 bits. For limit see [F64]. A C64
// tensor is a run of F32 pairs and can be scanned as that.
func F32(limit float64) Format { return ieeeFormat(2, 23, limit) }

// F64 is the IEEE double: S, 11 exponent bits and 52 bits.
//
// With limit > 0 an element with |x| > limit is an [Outlier]; |x| == limit is
// not. The comparison is exact, also when the format cannot store limit. Any
// other limit (0, negative, NaN, Inf) means that there are no outliers. The
// 8-bit formats take no limit because their codes say little without the scale
// that belongs to them.
func F64(limit float64) Format { return ieeeFormat(3, 52, limit) }

// F4 is two E2M1 codes a byte: S EE M, twice. There is no NaN and no Inf, and
// 0x0 and 0x8 are zero, so all that Scan tells is whether a code has a
// magnitude. An element of this Format is a byte, not a code.
func F4() Format { return Format{sign: 0x8888888888888888} }

// Int stands for every format in which only the bits 0 are zero and no bits are
// NaN: integers of any width and signedness, bools, and bytes of no known
// meaning. An element of this Format is a byte.
func Int() Format { return Format{} }

// ieeeFormat returns the format of 1<<shift bytes that has the given number of
// bits below the exponent and follows IEEE 754: exponents of all ones are Inf
// and NaN.
func ieeeFormat(shift, mantissa uint8, limit float64) Format {
	exponent := 8<<shift - 1 - mantissa
	inf := uint64(1<<exponent-1) << mantissa
	outlier := inf
	if limit > 0 {
		outlier = min(inf, floorBits(limit, exponent, mantissa)+1)
	}
	return orderedFormat(shift, outlier, inf, inf+1)
}

// floorBits returns the bits of the largest value <= limit of an IEEE format,
// were its exponent range without end at the top. limit is positive; if it is
// above the range of the format, and so if it is Inf, the bits are not below
// those of Inf.
func floorBits(limit float64, exponent, mantissa uint8) uint64 {
	bias := 1<<(exponent-1) - 1
	if limit < math.Ldexp(1, 1-bias) {
		// Subnormal: the bits count units of the smallest value.
		return uint64(math.Ldexp(limit, bias-1+int(mantissa)))
	}
	// Cutting mantissa bits off rounds a positive value down.
	return math.Float64bits(limit)>>(52-mantissa) - uint64(1023-bias)<<mantissa
}

// orderedFormat returns the format of 1<<shift bytes whose top bit is the sign
// and whose other bits grow with the magnitude.
func orderedFormat(shift uint8, outlier, inf, nan uint64) Format {
	sign := uint64(1) << (8<<shift - 1)
	return Format{
		shift:   shift,
		rule:    ordered,
		sign:    lanes(shift, sign),
		outlier: outlier,
		inf:     inf,
		nan:     nan,
		add:     lanes(shift, sign-outlier),
	}
}

// lanes repeats the bits x of one element of 1<<shift bytes through a word.
func lanes(shift uint8, x uint64) uint64 {
	for bits := 8 << shift; bits < 64; bits *= 2 {
		x |= x << bits
	}
	return x
}
