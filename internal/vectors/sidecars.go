package vectors

import (
	"encoding/json"
	"maps"
)

// textConfig holds the keys that all fixtures share. Floats are spelled as Python does.
func textConfig() map[string]any {
	return map[string]any{
		"attention_bias":          false,
		"attention_dropout":       json.Number("0.0"),
		"bos_token_id":            1,
		"eos_token_id":            2,
		"head_dim":                headDim,
		"hidden_act":              "silu",
		"hidden_size":             hidden,
		"initializer_range":       json.Number("0.02"),
		"intermediate_size":       inter,
		"max_position_embeddings": 2048,
		"num_attention_heads":     heads,
		"num_hidden_layers":       2,
		"num_key_value_heads":     kvHeads,
		"pad_token_id":            3,
		"rms_norm_eps":            json.Number("1e-06"),
		"rope_theta":              json.Number("10000.0"),
		"tie_word_embeddings":     false,
		"torch_dtype":             "bfloat16",
		"transformers_version":    "4.57.1",
		"use_cache":               true,
		"vocab_size":              vocab,
	}
}

func configWith(extra map[string]any) map[string]any {
	config := textConfig()
	maps.Copy(config, extra)
	return config
}

func denseConfig() map[string]any {
	return configWith(map[string]any{
		"architectures": []any{"LlamaForCausalLM"},
		"mlp_bias":      false,
		"model_type":    "llama",
	})
}

func visionConfig() map[string]any {
	text := textConfig()
	text["model_type"] = "qwen2_5_vl_text"
	return map[string]any{
		"architectures":        []any{"Qwen2_5_VLForConditionalGeneration"},
		"image_token_id":       30,
		"model_type":           "qwen2_5_vl",
		"text_config":          text,
		"tie_word_embeddings":  false,
		"torch_dtype":          "bfloat16",
		"transformers_version": "4.57.1",
		"video_token_id":       31,
		"vision_config": map[string]any{
			"depth": 2, "hidden_act": "silu", "hidden_size": 32, "in_channels": 3, "intermediate_size": 64, "model_type": "qwen2_5_vl",
			"num_heads": 2, "out_hidden_size": hidden, "patch_size": 4, "spatial_merge_size": 2, "temporal_patch_size": 2,
		},
		"vision_end_token_id":   29,
		"vision_start_token_id": 28,
	}
}

func moeConfig() map[string]any {
	return configWith(map[string]any{
		"architectures":                   []any{"Qwen3_5MoeForCausalLM"},
		"layer_types":                     []any{"full_attention"},
		"mlp_only_layers":                 []any{},
		"model_type":                      "qwen3_5_moe_text",
		"moe_intermediate_size":           hidden,
		"num_experts":                     experts,
		"num_experts_per_tok":             2,
		"num_hidden_layers":               1,
		"shared_expert_intermediate_size": hidden,
	})
}

func hybridConfig() map[string]any {
	return configWith(map[string]any{
		"architectures":           []any{"Qwen3_5ForCausalLM"},
		"full_attention_interval": 2,
		"layer_types":             []any{"linear_attention", "full_attention"},
		"linear_conv_kernel_dim":  4,
		"linear_key_head_dim":     headDim,
		"linear_num_key_heads":    kvHeads,
		"linear_num_value_heads":  heads,
		"linear_value_head_dim":   headDim,
		"model_type":              "qwen3_5_text",
	})
}

// textFiles returns the sidecars of every text model.
func textFiles() map[string][]byte {
	vocabulary := map[string]any{"<unk>": 0, "<s>": 1, "</s>": 2, "<pad>": 3, ".": 30, ",": 31}
	for i := range 26 {
		vocabulary[string(rune('a'+i))] = 4 + i
	}
	return map[string][]byte{
		"generation_config.json": []byte(generationConfig),
		"tokenizer_config.json":  []byte(tokenizerConfig),
		"chat_template.jinja":    []byte(chatTemplate),
		"tokenizer.json": JSON(map[string]any{
			"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": []any{}, "normalizer": nil,
			"pre_tokenizer": map[string]any{"type": "Whitespace"}, "post_processor": nil, "decoder": nil,
			"model": map[string]any{"type": "WordLevel", "unk_token": "<unk>", "vocab": vocabulary},
		}),
	}
}

const generationConfig = `{
  "_from_model_config": true,
  "bos_token_id": 1,
  "eos_token_id": 2,
  "pad_token_id": 3,
  "transformers_version": "4.57.1"
}
`

const tokenizerConfig = `{
  "bos_token": "<s>",
  "clean_up_tokenization_spaces": false,
  "eos_token": "</s>",
  "model_max_length": 2048,
  "pad_token": "<pad>",
  "tokenizer_class": "PreTrainedTokenizerFast",
  "unk_token": "<unk>"
}
`

const chatTemplate = `{%- for message in messages %}
{{- '<s>' + message['role'] + ': ' + message['content'] + '</s>' }}
{%- endfor %}
`

// visionFiles are the sidecars that a vision-language model adds.
var visionFiles = map[string]string{
	"preprocessor_config.json": `{
  "do_normalize": true,
  "image_mean": [
    0.5,
    0.5,
    0.5
  ],
  "image_processor_type": "Qwen2VLImageProcessor",
  "merge_size": 2,
  "patch_size": 4,
  "temporal_patch_size": 2
}
`,
	"processor_config.json": `{
  "processor_class": "Qwen2_5_VLProcessor"
}
`,
	"video_preprocessor_config.json": `{
  "merge_size": 2,
  "patch_size": 4,
  "temporal_patch_size": 2,
  "video_processor_type": "Qwen2VLVideoProcessor"
}
`,
}
