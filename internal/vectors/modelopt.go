package vectors

// ModelOptNVFP4 returns m with the numbers of NVFP4 in ModelOpt's names: weight U8, weight_scale F8_E4M3, and the scalars weight_scale_2
// and input_scale F32, which are the reciprocals of the two global scales. The config is hf_quant_config.json; config.json stays as it is.
func ModelOptNVFP4(m *Model, opts ...Option) *Model {
	globals := nvfp4Globals(m, opts)
	c := convert(m, opts, func(module string, w *Tensor) []Tensor {
		global := globals[fusedSet(module)]
		packed, scales := roundNVFP4(w, global)
		rows, cols := w.Shape[0], w.Shape[1]
		return []Tensor{
			{"weight", "U8", []int{rows, cols / 2}, packed},
			{"weight_scale", "F8_E4M3", []int{rows, cols / 16}, scales},
			{"weight_scale_2", "F32", nil, F32(1 / global)},
			{"input_scale", "F32", nil, F32(1 / inputGlobal(module))},
		}
	})
	c.Files["hf_quant_config.json"] = JSON(map[string]any{
		"producer": map[string]any{"name": "modelopt", "version": "0.46.0"},
		"quantization": map[string]any{
			"quant_algo": "NVFP4", "kv_cache_quant_algo": nil, "group_size": 16,
			"exclude_modules": c.leftNames("mtp*", func(module string) string { return module + "*" }),
		},
	})
	return c.Model
}

// FP8Block returns m in block FP8 as DeepSeek and Qwen publish it: weight F8_E4M3 and weight_scale_inv F32 [ceil(rows/128),
// ceil(cols/128)], a multiplier in spite of its name, under quant_method fp8.
func FP8Block(m *Model, opts ...Option) *Model {
	const block = 128
	c := convert(m, opts, func(_ string, w *Tensor) []Tensor {
		rows, cols := w.Shape[0], w.Shape[1]
		x, width := w.Floats(), (cols+block-1)/block
		scales := make([]float32, (rows+block-1)/block*width)
		at := func(i int) *float32 { return &scales[i/cols/block*width+i%cols/block] }
		for i, v := range x {
			*at(i) = max(*at(i), v, -v)
		}
		for i, absmax := range scales {
			if scales[i] = absmax / 448; absmax == 0 {
				scales[i] = 1
			}
		}
		codes := make([]byte, len(x))
		for i, v := range x {
			codes[i] = e4m3(v / *at(i))
		}
		return []Tensor{
			{"weight", "F8_E4M3", []int{rows, cols}, codes},
			{"weight_scale_inv", "F32", []int{len(scales) / width, width}, F32(scales...)},
		}
	})
	c.Config["quantization_config"] = map[string]any{
		"activation_scheme": "dynamic", "fmt": "e4m3", "modules_to_not_convert": c.unconverted(), "quant_method": "fp8",
		"weight_block_size": []any{block, block},
	}
	return c.Model
}
