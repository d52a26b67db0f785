package vectors

import (
	"encoding/binary"
	"hash/fnv"
)

// NVFP4 returns m in compressed-tensors nvfp4-pack-quantized: weight_packed U8, weight_scale F8_E4M3, weight_global_scale F32 [1] and,
// unless w4a16, input_global_scale F32 [1]. Fused sets share their global scale.
func NVFP4(m *Model, w4a16 bool, opts ...Option) *Model {
	globals := nvfp4Globals(m, opts)
	c := convert(m, opts, func(module string, w *Tensor) []Tensor {
		global := globals[fusedSet(module)]
		packed, scales := roundNVFP4(w, global)
		rows, cols := w.Shape[0], w.Shape[1]
		parts := []Tensor{
			{"weight_packed", "U8", []int{rows, cols / 2}, packed},
			{"weight_scale", "F8_E4M3", []int{rows, cols / 16}, scales},
			{"weight_global_scale", "F32", []int{1}, F32(global)},
		}
		if !w4a16 {
			parts = append(parts, Tensor{"input_global_scale", "F32", []int{1}, F32(inputGlobal(module))})
		}
		return parts
	})
	inputs := nvfp4Inputs()
	if w4a16 {
		inputs = nil
	}
	return c.compressedTensors("nvfp4-pack-quantized", nvfp4Weights(), inputs)
}

// nvfp4Globals returns the global scale of each fused set that a conversion will meet.
func nvfp4Globals(m *Model, opts []Option) map[string]float32 {
	sel, globals := newSelection(m, opts), map[string]float32{}
	for _, s := range m.Shards {
		for _, t := range s.Tensors {
			if module, ok := sel.takes(&t); ok {
				set := fusedSet(module)
				globals[set] = max(globals[set], absMax(t.Floats()))
			}
		}
	}
	for set, absmax := range globals {
		globals[set] = nvfp4Global(absmax)
	}
	return globals
}

// inputGlobal makes up a calibrated activation scale: the largest input, between 4 and 20, depends on the name of the fused set, since its
// members see the same input.
func inputGlobal(module string) float32 {
	h := fnv.New32a()
	h.Write([]byte(fusedSet(module)))
	return 2688 / (4 + float32(h.Sum32()%64)/4)
}

// FP8Channel returns m in compressed-tensors float-quantized, FP8_DYNAMIC: weight F8_E4M3 and weight_scale BF16 [rows, 1].
func FP8Channel(m *Model, opts ...Option) *Model {
	c := convert(m, opts, func(_ string, w *Tensor) []Tensor {
		rows, cols := w.Shape[0], w.Shape[1]
		codes := make([]byte, rows*cols)
		scales := roundGroups(w, cols, 448, func(r, c int, q float32) { codes[r*cols+c] = e4m3(q) })
		return []Tensor{
			{"weight", "F8_E4M3", []int{rows, cols}, codes},
			{"weight_scale", "BF16", []int{rows, 1}, BF16(scales...)},
		}
	})
	return c.compressedTensors("float-quantized", fp8Weights(), fp8Inputs())
}

// INT8 returns m in compressed-tensors int-quantized, W8A8: weight I8 and weight_scale BF16 [rows, 1].
func INT8(m *Model, opts ...Option) *Model {
	c := convert(m, opts, func(_ string, w *Tensor) []Tensor {
		rows, cols := w.Shape[0], w.Shape[1]
		codes := make([]byte, rows*cols)
		scales := roundGroups(w, cols, 127.5, func(r, c int, q float32) { codes[r*cols+c] = byte(roundClamp(q, -128, 127)) })
		return []Tensor{
			{"weight", "I8", []int{rows, cols}, codes},
			{"weight_scale", "BF16", []int{rows, 1}, BF16(scales...)},
		}
	})
	return c.compressedTensors("int-quantized",
		ctArgs(map[string]any{"strategy": "channel"}),
		ctArgs(map[string]any{"strategy": "token", "dynamic": true, "observer": nil}))
}

// INT4 returns m in compressed-tensors pack-quantized, W4A16 symmetric: weight_packed I32 [rows, cols/8], weight_scale BF16
// [rows, cols/group] and weight_shape I64 [2]. A group of 0 or less is one group per row. It panics if a group does not divide the columns.
func INT4(m *Model, group int, opts ...Option) *Model {
	c := convert(m, opts, func(_ string, w *Tensor) []Tensor {
		rows, cols := w.Shape[0], w.Shape[1]
		g := group
		if g <= 0 {
			g = cols
		}
		codes := make([]byte, rows*cols)
		scales := roundGroups(w, g, 7.5, func(r, c int, q float32) { codes[r*cols+c] = byte(roundClamp(q, -8, 7) + 8) })
		shape := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(rows)), uint64(cols))
		return []Tensor{
			{"weight_packed", "I32", []int{rows, (cols + 7) / 8}, packInt32(codes, rows, cols)},
			{"weight_scale", "BF16", []int{rows, cols / g}, BF16(scales...)},
			{"weight_shape", "I64", []int{2}, shape},
		}
	})
	weights := ctArgs(map[string]any{"num_bits": 4, "strategy": "channel"})
	if group > 0 {
		weights["strategy"], weights["group_size"] = "group", group
	}
	return c.compressedTensors("pack-quantized", weights, nil)
}
