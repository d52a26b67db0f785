package vectors

import (
	"fmt"
	"strings"
)

// Sizes shared by all fixtures.
const (
	hidden  = 64
	inter   = 128
	vocab   = 32
	heads   = 4
	kvHeads = 2
	headDim = 16
	experts = 4
)

// T0 is a dense model of two layers, 21 BF16 tensors in two shards: layer 0 in the first, the rest in the second.
func T0() *Model {
	return newModel(denseConfig(), textFiles(), layer(0), append(layer(1), ends()...))
}

// T1 is T0 with an MTP head of 15 mtp.* tensors in the second shard and num_nextn_predict_layers 1.
func T1() *Model {
	m := T0()
	const l = "mtp.layers.0."
	last := m.Shards[1]
	last.Tensors = append(last.Tensors,
		Normal("mtp.fc.weight", hidden, 2*hidden),
		norm("mtp.norm.weight", hidden),
		norm("mtp.pre_fc_norm_embedding.weight", hidden),
		norm("mtp.pre_fc_norm_hidden.weight", hidden),
		norm(l+"self_attn.q_norm.weight", headDim),
		norm(l+"self_attn.k_norm.weight", headDim),
	)
	last.Tensors = append(last.Tensors, attention(l)...)
	last.Tensors = append(last.Tensors, mlp(l+"mlp.", inter)...)
	last.Tensors = append(last.Tensors, norms(l)...)
	m.Config["architectures"] = []any{"Qwen3NextForCausalLM"}
	m.Config["model_type"] = "qwen3_next"
	m.Config["num_nextn_predict_layers"] = 1
	m.Config["layer_types"] = []any{"full_attention", "full_attention"}
	m.Config["mlp_only_layers"] = []any{0, 1}
	return m
}

// T2 is a vision-language model: T0's tensors under model.language_model (lm_head stays where it is), and a vision tower of two blocks
// under model.visual with a merger and a 5-D patch embedding, in the second shard.
func T2() *Model {
	m := T0()
	for _, s := range m.Shards {
		for i, t := range s.Tensors {
			if rest, ok := strings.CutPrefix(t.Name, "model."); ok {
				s.Tensors[i].Name = "model.language_model." + rest
			}
		}
	}
	const width, mid, merge = 32, 64, 4
	last := m.Shards[1]
	for i := range 2 {
		b := fmt.Sprintf("model.visual.blocks.%d.", i)
		last.Tensors = append(last.Tensors,
			Normal(b+"attn.qkv.weight", 3*width, width),
			Normal(b+"attn.proj.weight", width, width),
			Normal(b+"mlp.gate_proj.weight", mid, width),
			Normal(b+"mlp.up_proj.weight", mid, width),
			Normal(b+"mlp.down_proj.weight", width, mid),
		)
	}
	last.Tensors = append(last.Tensors,
		Normal("model.visual.merger.mlp.0.weight", merge*width, merge*width),
		Normal("model.visual.merger.mlp.2.weight", hidden, merge*width),
		Normal("model.visual.patch_embed.proj.weight", width, 3, 2, 4, 4),
	)
	m.Config = visionConfig()
	for name, text := range visionFiles {
		m.Files[name] = []byte(text)
	}
	return m
}

// T3 is a mixture of experts of one layer whose four experts are stacked in 3-D tensors without a .weight suffix, with a router, a shared
// expert and its gate.
func T3() *Model {
	const p = "model.layers.0."
	first := attention(p)
	first = append(first, norms(p)...)
	first = append(first,
		Normal(p+"mlp.experts.gate_up_proj", experts, 2*hidden, hidden),
		Normal(p+"mlp.experts.down_proj", experts, hidden, hidden),
		Normal(p+"mlp.gate.weight", experts, hidden),
		Normal(p+"mlp.shared_expert_gate.weight", 1, hidden),
	)
	first = append(first, mlp(p+"mlp.shared_expert.", hidden)...)
	return newModel(moeConfig(), textFiles(), first, ends())
}

// T3u is T3 with the same bytes as one 2-D tensor per expert and projection: mlp.experts.{e}.{gate,up,down}_proj.weight.
func T3u() *Model {
	m := T3()
	const p, matrix = "model.layers.0.mlp.experts.", 2 * hidden * hidden
	gateUp, down := m.Tensor(p+"gate_up_proj").Data, m.Tensor(p+"down_proj").Data
	m.Remove(p + "gate_up_proj")
	m.Remove(p + "down_proj")
	for e := range experts {
		add := func(proj string, data []byte) {
			name := fmt.Sprintf("%s%d.%s.weight", p, e, proj)
			m.Add(m.Shards[0].Name, Tensor{name, "BF16", []int{hidden, hidden}, data[:matrix:matrix]})
		}
		add("gate_proj", gateUp[2*e*matrix:])
		add("up_proj", gateUp[(2*e+1)*matrix:])
		add("down_proj", down[e*matrix:])
	}
	return m
}

// T4 is T0 with linear attention in layer 0: in_proj_qkv, in_proj_z, in_proj_a, in_proj_b, out_proj and a 3-D conv1d.
func T4() *Model {
	const p = "model.layers.0."
	const l = p + "linear_attn."
	first := []Tensor{
		Normal(l+"in_proj_qkv.weight", 2*hidden, hidden),
		Normal(l+"in_proj_z.weight", hidden, hidden),
		Normal(l+"in_proj_a.weight", heads, hidden),
		Normal(l+"in_proj_b.weight", heads, hidden),
		Normal(l+"out_proj.weight", hidden, hidden),
		Normal(l+"conv1d.weight", 2*hidden, 1, 4),
	}
	first = append(first, mlp(p+"mlp.", inter)...)
	first = append(first, norms(p)...)
	return newModel(hybridConfig(), textFiles(), first, append(layer(1), ends()...))
}

// layer returns the nine tensors of dense layer i.
func layer(i int) []Tensor {
	p := fmt.Sprintf("model.layers.%d.", i)
	tensors := append(attention(p), mlp(p+"mlp.", inter)...)
	return append(tensors, norms(p)...)
}

func attention(p string) []Tensor {
	return []Tensor{
		Normal(p+"self_attn.q_proj.weight", heads*headDim, hidden),
		Normal(p+"self_attn.k_proj.weight", kvHeads*headDim, hidden),
		Normal(p+"self_attn.v_proj.weight", kvHeads*headDim, hidden),
		Normal(p+"self_attn.o_proj.weight", hidden, heads*headDim),
	}
}

func mlp(p string, inter int) []Tensor {
	return []Tensor{
		Normal(p+"gate_proj.weight", inter, hidden),
		Normal(p+"up_proj.weight", inter, hidden),
		Normal(p+"down_proj.weight", hidden, inter),
	}
}

func norms(p string) []Tensor {
	return []Tensor{norm(p+"input_layernorm.weight", hidden), norm(p+"post_attention_layernorm.weight", hidden)}
}

// ends returns what stands before the first layer and behind the last.
func ends() []Tensor {
	return []Tensor{
		Normal("model.embed_tokens.weight", vocab, hidden), norm("model.norm.weight", hidden), Normal("lm_head.weight", vocab, hidden),
	}
}
