package vectors

import (
	"bytes"
	"fmt"
)

// Large returns a mixture of experts with exactly that many tensors, cut evenly into shards in layer order, for speed tests. Names, dtypes
// and scale shapes are those of a mixed compressed-tensors checkpoint: attention in FP8 per channel, 128 experts a layer in NVFP4, the
// rest BF16. Matrices are 16×16 and all tensors of one kind share their bytes, so change none in place. The last layer ends where the
// count does. It panics below 3 tensors or if there are fewer tensors than shards.
func Large(tensors, shards int) *Model {
	if tensors < 3 || shards < 1 || tensors < shards {
		panic("vectors: too few tensors")
	}
	const n, perLayer = 16, 128
	var (
		row    = norm("row", n).Data
		matrix = Normal("matrix", n, n)
		global = nvfp4Global(absMax(matrix.Floats()))
		input  = F32(inputGlobal("input"))
		fp8    = bytes.Repeat([]byte{0x38, 0xb0, 0x7e, 0x28}, n*n/4)
		scales = bytes.Repeat(BF16(1.0/8192), n)
		router = Normal("router", perLayer, n).Data
	)
	packed, blocks := roundNVFP4(&matrix, global)
	divisor := F32(global)

	all := make([]Tensor, 0, tensors)
	add := func(name, dtype string, data []byte, shape ...int) {
		if len(all) < tensors {
			all = append(all, Tensor{name, dtype, shape, data})
		}
	}
	add("lm_head.weight", "BF16", matrix.Data, n, n)
	add("model.embed_tokens.weight", "BF16", matrix.Data, n, n)
	add("model.norm.weight", "BF16", row, n)
	layers := 0
	for ; len(all) < tensors; layers++ {
		p := fmt.Sprintf("model.layers.%d.", layers)
		add(p+"input_layernorm.weight", "BF16", row, n)
		add(p+"post_attention_layernorm.weight", "BF16", row, n)
		add(p+"mlp.gate.weight", "BF16", router, perLayer, n)
		for _, proj := range []string{"q_proj", "k_proj", "v_proj", "o_proj"} {
			add(p+"self_attn."+proj+".weight", "F8_E4M3", fp8, n, n)
			add(p+"self_attn."+proj+".weight_scale", "BF16", scales, n, 1)
		}
		for e := 0; e < perLayer && len(all) < tensors; e++ {
			for _, proj := range []string{"gate_proj", "up_proj", "down_proj"} {
				name := fmt.Sprintf("%smlp.experts.%d.%s.", p, e, proj)
				add(name+"weight_packed", "U8", packed, n, n/2)
				add(name+"weight_scale", "F8_E4M3", blocks, n, n/16)
				add(name+"weight_global_scale", "F32", divisor, 1)
				add(name+"input_global_scale", "F32", input, 1)
			}
		}
	}
	parts := make([][]Tensor, shards)
	for i := range parts {
		parts[i] = all[i*tensors/shards : (i+1)*tensors/shards]
	}
	return newModel(largeConfig(layers, n, perLayer), textFiles(), parts...)
}

func largeConfig(layers, size, experts int) map[string]any {
	config := moeConfig()
	for _, key := range []string{"hidden_size", "intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size", "vocab_size"} {
		config[key] = size
	}
	delete(config, "layer_types")
	delete(config, "shared_expert_intermediate_size")
	config["num_hidden_layers"], config["num_experts"] = layers, experts
	config["num_attention_heads"], config["num_key_value_heads"] = 1, 1
	config["quantization_config"] = ctConfig("mixed-precision", map[string]any{
		"group_0": ctGroup("float-quantized", `re:.*\.self_attn\..*_proj$`, fp8Weights(), fp8Inputs()),
		"group_1": ctGroup("nvfp4-pack-quantized", `re:.*\.mlp\.experts\..*_proj$`, nvfp4Weights(), nvfp4Inputs()),
	}, []any{"lm_head", `re:.*\.mlp\.gate$`})
	return config
}
