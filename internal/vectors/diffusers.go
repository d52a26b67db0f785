package vectors

import (
	"fmt"
	"testing/fstest"
)

// A Pipeline is a diffusers pipeline: model_index.json and files in its root, and model components in folders.
type Pipeline struct {
	Files map[string][]byte
	// Components holds the weights by folder. A second Model in one folder is a variant beside the first: it has an index of its own and
	// no config.
	Components map[string][]*Model
}

// Diffusers returns a small diffusion transformer pipeline. transformer holds F32 weights in three shards and a bf16 variant of the same
// tensors in two; text_encoder is BF16 in two shards under the usual model names; vae is one F32 file without an index.
func Diffusers() *Pipeline {
	const index = "diffusion_pytorch_model.safetensors.index"
	parts := transformerParts()
	transformer := &Model{Indexed: true, IndexName: index + ".json", Files: map[string][]byte{}, Config: map[string]any{
		"_class_name": "MochiTransformer3DModel", "_diffusers_version": "0.32.0", "activation_fn": "swiglu", "attention_head_dim": 16,
		"in_channels": 4, "num_attention_heads": 4, "num_layers": 2, "out_channels": nil, "patch_size": 2, "qk_norm": "rms_norm",
		"text_embed_dim": hidden, "time_embed_dim": hidden,
	}}
	variant := &Model{Indexed: true, IndexName: index + ".bf16.json", Files: map[string][]byte{}}
	variant.addShards("diffusion_pytorch_model.bf16", ".safetensors", append(parts[0], parts[1]...), parts[2])
	transformer.addShards("diffusion_pytorch_model", ".safetensors", widen(parts[0]), widen(parts[1]), widen(parts[2]))

	const enc = "encoder.block.0.layer."
	textEncoder := newModel(map[string]any{
		"architectures": []any{"T5EncoderModel"}, "d_ff": inter, "d_kv": headDim, "d_model": hidden, "feed_forward_proj": "gated-gelu",
		"model_type": "t5", "num_heads": heads, "num_layers": 1, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": vocab,
	}, map[string][]byte{}, []Tensor{
		Normal("shared.weight", vocab, hidden),
		Normal(enc+"0.SelfAttention.q.weight", hidden, hidden),
		Normal(enc+"0.SelfAttention.k.weight", hidden, hidden),
		Normal(enc+"0.SelfAttention.v.weight", hidden, hidden),
		Normal(enc+"0.SelfAttention.o.weight", hidden, hidden),
		Normal(enc+"0.SelfAttention.relative_attention_bias.weight", 32, heads),
		norm(enc+"0.layer_norm.weight", hidden),
	}, []Tensor{
		Normal(enc+"1.DenseReluDense.wi_0.weight", inter, hidden),
		Normal(enc+"1.DenseReluDense.wi_1.weight", inter, hidden),
		Normal(enc+"1.DenseReluDense.wo.weight", hidden, inter),
		norm(enc+"1.layer_norm.weight", hidden),
		norm("encoder.final_layer_norm.weight", hidden),
	})

	vae := &Model{Files: map[string][]byte{}, Config: map[string]any{
		"_class_name": "AutoencoderKLMochi", "_diffusers_version": "0.32.0", "latent_channels": 4,
	}, Shards: []*Shard{{
		Name: "diffusion_pytorch_model.safetensors",
		Meta: map[string]string{"format": "pt"},
		Tensors: widen([]Tensor{
			Normal("decoder.conv_in.weight", 16, 4, 1, 3, 3), Normal("decoder.conv_in.bias", 16),
			Normal("encoder.proj_in.weight", 16, 12), Normal("encoder.proj_in.bias", 16),
		}),
	}}}

	return &Pipeline{
		Files: map[string][]byte{
			"model_index.json": JSON(map[string]any{
				"_class_name": "MochiPipeline", "_diffusers_version": "0.32.0",
				"scheduler":    []any{"diffusers", "FlowMatchEulerDiscreteScheduler"},
				"text_encoder": []any{"transformers", "T5EncoderModel"},
				"tokenizer":    []any{"transformers", "T5Tokenizer"},
				"transformer":  []any{"diffusers", "MochiTransformer3DModel"},
				"vae":          []any{"diffusers", "AutoencoderKLMochi"},
			}),
			"scheduler/scheduler_config.json": JSON(map[string]any{"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 1}),
			"tokenizer/tokenizer_config.json": JSON(map[string]any{"model_max_length": 256, "tokenizer_class": "T5Tokenizer"}),
		},
		Components: map[string][]*Model{"transformer": {transformer, variant}, "text_encoder": {textEncoder}, "vae": {vae}},
	}
}

// FS returns the pipeline's files.
func (p *Pipeline) FS() fstest.MapFS {
	files := (&Model{Files: p.Files}).FS()
	for folder, models := range p.Components {
		for _, m := range models {
			m.addTo(files, folder)
		}
	}
	return files
}

// Write writes the files of FS into dir, which is made if need be.
func (p *Pipeline) Write(dir string) error { return writeFS(dir, p.FS()) }

// transformerParts returns the transformer's tensors in BF16: what stands before the blocks with block 0, block 1, the output.
func transformerParts() [3][]Tensor {
	linear := func(name string, rows, cols int) []Tensor {
		return []Tensor{Normal(name+".weight", rows, cols), Normal(name+".bias", rows)}
	}
	block := func(i int) (tensors []Tensor) {
		p := fmt.Sprintf("transformer_blocks.%d.", i)
		for _, name := range []string{"to_q", "to_k", "to_v", "add_q_proj", "add_k_proj", "add_v_proj"} {
			tensors = append(tensors, Normal(p+"attn1."+name+".weight", hidden, hidden))
		}
		tensors = append(tensors, linear(p+"attn1.to_out.0", hidden, hidden)...)
		tensors = append(tensors, linear(p+"attn1.to_add_out", hidden, hidden)...)
		for _, name := range []string{"norm_q", "norm_k", "norm_added_q", "norm_added_k"} {
			tensors = append(tensors, norm(p+"attn1."+name+".weight", headDim))
		}
		tensors = append(tensors, Normal(p+"ff.net.0.proj.weight", 2*inter, hidden), Normal(p+"ff.net.2.weight", hidden, inter))
		return append(tensors, linear(p+"norm1.linear", 4*hidden, hidden)...)
	}
	first := []Tensor{Normal("patch_embed.proj.weight", hidden, 4, 2, 2), Normal("patch_embed.proj.bias", hidden), Normal("pos_frequencies", 3, heads, 8)}
	first = append(first, linear("time_embed.timestep_embedder.linear_1", hidden, hidden)...)
	first = append(first, linear("time_embed.timestep_embedder.linear_2", hidden, hidden)...)
	first = append(first, linear("time_embed.caption_proj", hidden, hidden)...)
	last := append(linear("norm_out.linear", 2*hidden, hidden), linear("proj_out", 16, hidden)...)
	return [3][]Tensor{append(first, block(0)...), block(1), last}
}

// widen returns the tensors in F32.
func widen(tensors []Tensor) []Tensor {
	wide := make([]Tensor, len(tensors))
	for i, t := range tensors {
		wide[i] = Tensor{t.Name, "F32", t.Shape, F32(t.Floats()...)}
	}
	return wide
}
