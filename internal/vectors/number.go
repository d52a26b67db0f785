package vectors

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
)

// Normal returns a BF16 tensor with N(0, 0.02) values that depend on the name and the size alone.
func Normal(name string, shape ...int) Tensor { return gaussian(name, 0, shape) }

// norm returns a BF16 norm weight: values around 1.
func norm(name string, n int) Tensor { return gaussian(name, 1, []int{n}) }

func gaussian(name string, mean float64, shape []int) Tensor {
	seed := fnv.New64a()
	seed.Write([]byte(name))
	r := rand.New(rand.NewPCG(0x636b7074, seed.Sum64()))
	data := make([]byte, 0, 2*product(shape))
	for range product(shape) {
		data = binary.LittleEndian.AppendUint16(data, bf16Bits(float32(mean+0.02*r.NormFloat64())))
	}
	return Tensor{name, "BF16", shape, data}
}

func product(shape []int) int {
	n := 1
	for _, dim := range shape {
		n *= dim
	}
	return n
}

// BF16 returns values as BF16 data, rounded to nearest even.
func BF16(values ...float32) []byte {
	data := make([]byte, 0, 2*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint16(data, bf16Bits(v))
	}
	return data
}

// F16 returns values as F16 data, rounded to nearest even.
func F16(values ...float32) []byte {
	data := make([]byte, 0, 2*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint16(data, f16Bits(v))
	}
	return data
}

// F32 returns values as F32 data.
func F32(values ...float32) []byte {
	data := make([]byte, 0, 4*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return data
}

// Floats returns the values of a BF16, F16, F32 or F8_E4M3 tensor.
func (t *Tensor) Floats() []float32 {
	var values []float32
	switch t.DType {
	case "BF16":
		values = make([]float32, len(t.Data)/2)
		for i := range values {
			values[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(t.Data[2*i:])) << 16)
		}
	case "F16":
		values = make([]float32, len(t.Data)/2)
		for i := range values {
			values[i] = f16Value(binary.LittleEndian.Uint16(t.Data[2*i:]))
		}
	case "F32":
		values = make([]float32, len(t.Data)/4)
		for i := range values {
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
		}
	case "F8_E4M3":
		values = make([]float32, len(t.Data))
		for i, code := range t.Data {
			values[i] = e4m3Value[code]
		}
	default:
		panic("vectors: no floats in " + t.DType + " tensor " + t.Name)
	}
	return values
}

func bf16Bits(f float32) uint16 {
	b := math.Float32bits(f)
	if f != f {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// bf16 rounds f to the nearest BF16 value.
func bf16(f float32) float32 { return math.Float32frombits(uint32(bf16Bits(f)) << 16) }

func f16Bits(f float32) uint16 {
	b := math.Float32bits(f)
	sign, a := uint16(b>>16&0x8000), b&0x7fffffff
	switch {
	case a > 0x7f800000:
		return sign | 0x7e00
	case a >= 0x477ff000: // 65520 and above round to Inf
		return sign | 0x7c00
	case a < 0x38800000: // below 2^-14: subnormal
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(a))*(1<<24)))
	}
	return sign | uint16((a-0x38000000+0xfff+a>>13&1)>>13)
}

func f16Value(b uint16) float32 {
	exp, mant := int(b>>10&31), float64(b&0x3ff)
	v := math.Ldexp(1024+mant, exp-25)
	switch {
	case exp == 31 && mant != 0:
		v = math.NaN()
	case exp == 31:
		v = math.Inf(1)
	case exp == 0:
		v = math.Ldexp(mant, -24)
	}
	if b&0x8000 != 0 {
		v = -v
	}
	return float32(v)
}

var e4m3Value = func() (t [256]float32) {
	for i := range t {
		exp, mant := i>>3&15, float64(i&7)
		v := math.Ldexp(8+mant, exp-10)
		switch {
		case i&0x7f == 0x7f:
			v = math.NaN()
		case exp == 0:
			v = math.Ldexp(mant, -9)
		}
		if i&0x80 != 0 {
			v = -v
		}
		t[i] = float32(v)
	}
	return t
}()

// e4m3 rounds f to the nearest E4M3 code, clamped to ±448.
func e4m3(f float32) byte {
	b := math.Float32bits(f)
	sign, a := byte(b>>24&0x80), math.Float32frombits(b&0x7fffffff)
	switch {
	case a >= 448:
		return sign | 0x7e
	case a < 1.0/64:
		return sign | byte(math.RoundToEven(float64(a)*512))
	}
	b &= 0x7fffffff
	b += 0x7ffff + b>>20&1
	return sign | byte(b>>20-(127-7)<<3)
}

var e2m1Value = [16]float32{0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6}

// e2m1 rounds f to the nearest E2M1 code, ties to the even mantissa, clamped to ±6; bit 3 is set for every negative f.
func e2m1(f float32) byte {
	var sign byte
	if f < 0 {
		sign, f = 8, -f
	}
	switch {
	case f <= .25:
		return sign
	case f < .75:
		return sign | 1
	case f <= 1.25:
		return sign | 2
	case f < 1.75:
		return sign | 3
	case f <= 2.5:
		return sign | 4
	case f < 3.5:
		return sign | 5
	case f <= 5:
		return sign | 6
	}
	return sign | 7
}

func absMax(values []float32) (m float32) {
	for _, v := range values {
		m = max(m, v, -v)
	}
	return m
}
