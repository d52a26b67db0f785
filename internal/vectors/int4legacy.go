package vectors

import "encoding/binary"

// AWQ returns m in AutoAWQ's gemm layout, 4-bit asymmetric, transposed: qweight I32 [cols, rows/8], qzeros I32 [cols/group, rows/8] and
// scales F16 [cols/group, rows]. The eight rows of a word lie in its nibbles in the order 0 2 4 6 1 3 5 7.
func AWQ(m *Model, group int, opts ...Option) *Model {
	order := [8]int{0, 2, 4, 6, 1, 3, 5, 7}
	c := convert(m, opts, func(_ string, w *Tensor) []Tensor {
		rows, cols := legacyShape(w, group)
		x := w.Floats()
		scales, zeros := make([]float32, cols/group*rows), make([]byte, cols/group*rows)
		codes := make([]byte, cols*rows)
		for r := range rows {
			for g := range cols / group {
				values := x[r*cols+g*group:][:group]
				var lo, hi float32
				for _, v := range values {
					lo, hi = min(lo, v), max(hi, v)
				}
				scale := f16Value(f16Bits((hi - lo) / 15))
				if scale == 0 {
					scale = 1.0 / 1024
				}
				zero := roundClamp(-lo/scale, 0, 15)
				scales[g*rows+r], zeros[g*rows+r] = scale, byte(zero)
				for i, v := range values {
					codes[(g*group+i)*rows+r] = byte(roundClamp(v/scale+float32(zero), 0, 15))
				}
			}
		}
		pack := func(codes []byte) []byte {
			words := make([]uint32, len(codes)/8)
			for i := range words {
				for nibble, row := range order {
					words[i] |= uint32(codes[8*i+row]) << (4 * nibble)
				}
			}
			return int32s(words)
		}
		return []Tensor{
			{"qweight", "I32", []int{cols, rows / 8}, pack(codes)},
			{"qzeros", "I32", []int{cols / group, rows / 8}, pack(zeros)},
			{"scales", "F16", []int{cols / group, rows}, F16(scales...)},
		}
	})
	c.Config["quantization_config"] = map[string]any{
		"bits": 4, "group_size": group, "modules_to_not_convert": c.unconverted(), "quant_method": "awq", "version": "gemm", "zero_point": true,
	}
	return c.Model
}

// GPTQ returns m in GPTQ's first layout, 4-bit symmetric, transposed: qweight I32 [cols/8, rows] with eight columns in a word, low nibble
// first, qzeros I32 [cols/group, rows/8] holding the zero point 8 less one, scales F16 [cols/group, rows] and g_idx I32 [cols].
func GPTQ(m *Model, group int, opts ...Option) *Model {
	c := convert(m, opts, func(_ string, w *Tensor) []Tensor {
		rows, cols := legacyShape(w, group)
		x := w.Floats()
		scales := make([]float32, cols/group*rows)
		words := make([]uint32, cols/8*rows)
		for r := range rows {
			for g := range cols / group {
				values := x[r*cols+g*group:][:group]
				scale := f16Value(f16Bits(absMax(values) / 7.5))
				if scale == 0 {
					scale = 1.0 / 1024
				}
				scales[g*rows+r] = scale
				for i, v := range values {
					c := g*group + i
					words[c/8*rows+r] |= uint32(roundClamp(v/scale+8, 0, 15)) << (c % 8 * 4)
				}
			}
		}
		zeros, index := make([]uint32, cols/group*rows/8), make([]uint32, cols)
		for i := range zeros {
			zeros[i] = 0x77777777
		}
		for c := range index {
			index[c] = uint32(c / group)
		}
		return []Tensor{
			{"qweight", "I32", []int{cols / 8, rows}, int32s(words)},
			{"qzeros", "I32", []int{cols / group, rows / 8}, int32s(zeros)},
			{"scales", "F16", []int{cols / group, rows}, F16(scales...)},
			{"g_idx", "I32", []int{cols}, int32s(index)},
		}
	})
	config := map[string]any{
		"bits": 4, "checkpoint_format": "gptq", "damp_percent": 0.01, "desc_act": false, "group_size": group, "lm_head": false,
		"quant_method": "gptq", "sym": true, "true_sequential": true,
	}
	c.Config["quantization_config"] = config
	c.Files["quantize_config.json"] = JSON(config)
	return c.Model
}

func legacyShape(w *Tensor, group int) (rows, cols int) {
	rows, cols = w.Shape[0], w.Shape[1]
	if rows%8 != 0 || group <= 0 || group%8 != 0 || cols%group != 0 {
		panic("vectors: " + w.Name + " does not divide into words and groups")
	}
	return rows, cols
}

func int32s(values []uint32) []byte {
	data := make([]byte, 0, 4*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, v)
	}
	return data
}
