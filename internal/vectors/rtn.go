package vectors

import "math"

// roundGroups quantizes the rows of w in groups of g columns, symmetrically: scale = bf16(absmax/div), code = round(bf16(x/scale)). It
// calls put with row, column and the unrounded quotient, and returns the scales row by row.
func roundGroups(w *Tensor, g int, div float32, put func(r, c int, q float32)) []float32 {
	rows, cols := w.Shape[0], w.Shape[1]
	if cols%g != 0 {
		panic("vectors: the columns of " + w.Name + " do not divide into groups")
	}
	x := w.Floats()
	scales := make([]float32, 0, rows*cols/g)
	for r := range rows {
		for c0 := 0; c0 < cols; c0 += g {
			group := x[r*cols+c0:][:g]
			scale := bf16(absMax(group) / div)
			if scale == 0 {
				scale = 1.0 / 128
			}
			scales = append(scales, scale)
			for i, v := range group {
				put(r, c0+i, bf16(v/scale))
			}
		}
	}
	return scales
}

func roundClamp(q, lo, hi float32) int {
	return int(max(lo, min(hi, float32(math.RoundToEven(float64(q))))))
}

// packInt32 puts the low four bits of the row-major codes into int32 words along each row, low nibble first.
func packInt32(codes []byte, rows, cols int) []byte {
	width := (cols + 7) / 8
	packed := make([]byte, 4*rows*width)
	for r := range rows {
		for c := range cols {
			packed[4*r*width+c/2] |= codes[r*cols+c] << (c % 2 * 4)
		}
	}
	return packed
}

// roundNVFP4 quantizes w against a global scale in the compressed-tensors convention, a divisor.
func roundNVFP4(w *Tensor, global float32) (packed, scales []byte) {
	rows, cols := w.Shape[0], w.Shape[1]
	if cols%16 != 0 {
		panic("vectors: the columns of " + w.Name + " do not divide by 16")
	}
	x := w.Floats()
	packed, scales = make([]byte, rows*cols/2), make([]byte, rows*cols/16)
	for b := range scales {
		block := x[16*b:][:16]
		code := e4m3(global * bf16(absMax(block)/6))
		if code == 0 {
			code = 0x20
		}
		scales[b] = code
		step := e4m3Value[code] / global
		for i, v := range block {
			packed[8*b+i/2] |= e2m1(v/step) << (i % 2 * 4)
		}
	}
	return packed, scales
}

// nvfp4Global is the divisor for weights whose largest magnitude is absmax.
func nvfp4Global(absmax float32) float32 {
	global := bf16(bf16(1/max(absmax, 0x1p-126)) * 2688)
	if math.IsInf(float64(global), 0) {
		return 1
	}
	return global
}

// roundMXFP4 quantizes values in blocks of 32 with E8M0 scales.
func roundMXFP4(values []float32) (packed, scales []byte) {
	packed, scales = make([]byte, len(values)/2), make([]byte, len(values)/32)
	for b := range scales {
		block := values[32*b:][:32]
		exp := max(0, int(bf16Bits(absMax(block))+1<<5)>>7-2)
		scales[b] = byte(exp)
		scale := float32(math.Ldexp(1, exp-127))
		for i, v := range block {
			packed[16*b+i/2] |= e2m1(v/scale) << (i % 2 * 4)
		}
	}
	return packed, scales
}
