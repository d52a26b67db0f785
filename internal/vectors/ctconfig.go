package vectors

import "strings"

// ctArgs returns a QuantizationArgs object with every key that the package writes.
func ctArgs(set map[string]any) map[string]any {
	args := map[string]any{
		"actorder": nil, "block_structure": nil, "dynamic": false, "group_size": nil, "num_bits": 8, "observer": "memoryless_minmax",
		"observer_kwargs": map[string]any{}, "scale_dtype": nil, "strategy": nil, "symmetric": true, "type": "int", "zp_dtype": nil,
	}
	for key, value := range set {
		args[key] = value
	}
	return args
}

func fp8Weights() map[string]any {
	return ctArgs(map[string]any{"type": "float", "strategy": "channel"})
}

func fp8Inputs() map[string]any {
	return ctArgs(map[string]any{"type": "float", "strategy": "token", "dynamic": true, "observer": nil})
}

func nvfp4Weights() map[string]any {
	return ctArgs(map[string]any{
		"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "scale_dtype": "torch.float8_e4m3fn",
	})
}

func nvfp4Inputs() map[string]any {
	args := nvfp4Weights()
	args["dynamic"], args["observer"] = "local", "static_minmax"
	return args
}

// ctGroup returns a scheme object. Nil inputs are null.
func ctGroup(format, target string, weights, inputs map[string]any) map[string]any {
	group := map[string]any{
		"format": format, "input_activations": nil, "output_activations": nil, "targets": []any{target}, "weights": weights,
	}
	if inputs != nil {
		group["input_activations"] = inputs
	}
	return group
}

// ctConfig returns a quantization_config block.
func ctConfig(format string, groups map[string]any, ignore []any) map[string]any {
	return map[string]any{
		"config_groups":            groups,
		"format":                   format,
		"global_compression_ratio": nil,
		"ignore":                   ignore,
		"kv_cache_scheme":          nil,
		"quant_method":             "compressed-tensors",
		"quantization_status":      "compressed",
		"sparsity_config":          map[string]any{},
		"transform_config":         map[string]any{},
		"version":                  "0.18.0",
	}
}

// compressedTensors adds the block of one group and returns the model.
func (c *converted) compressedTensors(format string, weights, inputs map[string]any) *Model {
	ignore := c.leftNames(`re:^mtp\..*`, func(module string) string {
		i := max(0, strings.Index(module, "layers."))
		return "re:.*" + strings.ReplaceAll(module[i:], ".", `\.`) + `\..*`
	})
	groups := map[string]any{"group_0": ctGroup(format, "Linear", weights, inputs)}
	c.Config["quantization_config"] = ctConfig(format, groups, ignore)
	return c.Model
}
