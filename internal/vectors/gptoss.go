package vectors

import "fmt"

// GPTOSS returns a one-layer mixture of experts in gpt-oss's own MXFP4 layout: experts stacked as gate_up_proj_blocks U8 [experts, rows,
// cols/32, 16] with gate_up_proj_scales U8 [experts, rows, cols/32] (E8M0) and a bias, the same for down_proj, attention with biases and
// sinks, and shards numbered from 00000.
func GPTOSS() *Model {
	const p = "model.layers.0."
	first := norms(p)
	for _, t := range attention(p) {
		bias := t.Name[:len(t.Name)-len("weight")] + "bias"
		first = append(first, t, Normal(bias, t.Shape[0]))
	}
	first = append(first,
		Normal(p+"self_attn.sinks", heads),
		Normal(p+"mlp.router.weight", experts, hidden),
		Normal(p+"mlp.router.bias", experts),
	)
	for _, proj := range []struct {
		name string
		rows int
	}{{"gate_up_proj", 2 * hidden}, {"down_proj", hidden}} {
		name := p + "mlp.experts." + proj.name
		w := Normal(name, experts, proj.rows, hidden)
		packed, scales := roundMXFP4(w.Floats())
		first = append(first,
			Tensor{name + "_blocks", "U8", []int{experts, proj.rows, hidden / 32, 16}, packed},
			Tensor{name + "_scales", "U8", []int{experts, proj.rows, hidden / 32}, scales},
			Normal(name+"_bias", experts, proj.rows),
		)
	}
	m := newModel(configWith(map[string]any{
		"architectures":       []any{"GptOssForCausalLM"},
		"attention_bias":      true,
		"experts_per_token":   2,
		"intermediate_size":   hidden,
		"layer_types":         []any{"full_attention"},
		"model_type":          "gpt_oss",
		"num_experts_per_tok": 2,
		"num_hidden_layers":   1,
		"num_local_experts":   experts,
		"quantization_config": map[string]any{
			"modules_to_not_convert": []any{"model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"},
			"quant_method":           "mxfp4",
		},
	}), textFiles(), first, ends())
	for i, s := range m.Shards {
		s.Name = fmt.Sprintf("model-%05d-of-%05d.safetensors", i, len(m.Shards)-1)
	}
	return m
}
