package rawjson

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// As transformers writes it: json.dumps(indent=2, sort_keys=True).
const configJSON = `{
  "architectures": [
    "GlmMoeForCausalLM"
  ],
  "attention_bias": false,
  "eos_token_id": [
    151329,
    151336
  ],
  "initializer_range": 0.02,
  "model_type": "glm_moe",
  "rms_norm_eps": 1e-05,
  "rope_scaling": null,
  "rope_theta": 10000.0,
  "router_aux": {},
  "sliding_window": Infinity,
  "text_config": {
    "hidden_size": 5120,
    "layer_norm_eps": 1e-06,
    "num_nextn_predict_layers": 1,
    "quantization_config": {
      "ignore": [
        "lm_head"
      ],
      "quant_method": "fp8"
    }
  },
  "time_step_limit": [
    0.0,
    Infinity
  ],
  "tie_word_embeddings": false,
  "transformers_version": "4.54.0",
  "vocab_size": 151552
}
`

const configCompact = `{"architectures":["LlamaForCausalLM"],"rms_norm_eps":1e-05,"rope_theta":10000.0,"rope_scaling":{"rope_type":"llama3","factor":8.0},"x":{},"seed":123456789012345678901234567890}`

const configTabs = "{\n\t\"model_type\": \"t5\",\n\t\"d_kv\": 64,\n\t\"d_kv\": 128,\n\t\"task_specific_params\": {\n\t\t\"summarization\": {\"num_beams\": 4, \"prefix\": \"summarize: \"}\n\t},\n\t\"bad_words_ids\": [],\n\t\"layer_norm_epsilon\": 1E-6\n}"

const tokenizerConfig = `{
  "added_tokens_decoder": {
    "0": {
      "content": "<\uff5cbegin\u2581of\u2581sentence\uff5c>",
      "lstrip": false,
      "special": true
    },
    "1": {
      "content": "<｜end▁of▁sentence｜>",
      "lstrip": false,
      "special": true
    }
  },
  "additional_special_tokens": ["<\u00e9>", "\ud83d\ude00"],
  "bos_token": "<\uff5cbegin\u2581of\u2581sentence\uff5c>",
  "chat_template": "{% for m in messages %}{{ m['content'] }}\n{% endfor %}{\"a\": [",
  "model_max_length": 1000000000000000019884624838656,
  "tokenizer_class": "LlamaTokenizerFast"
}`

func indexJSON(n int) string {
	var b strings.Builder
	b.WriteString("{\n  \"metadata\": {\n    \"total_size\": 1337.0\n  },\n  \"weight_map\": {\n")
	for i := range n {
		fmt.Fprintf(&b, "    \"model.layers.%06d.weight\": \"model-%05d-of-00064.safetensors\"", i, i*64/n+1)
		if i < n-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("  }\n}\n")
	return b.String()
}

// TestGolden edits files as they are published. What is wanted is the file with
// pieces exchanged, so that all else is the file's own.
func TestGolden(t *testing.T) {
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	for _, c := range []struct {
		name, text string
		changes    []change
		pieces     []string // old, new, old, new …
	}{
		{"config.json", configJSON, []change{
			{"set", "text_config/num_nextn_predict_layers", `0`},
			{"append", "text_config/quantization_config/ignore", `"re:.*\\.mlp\\.gate$"`},
			{"set", "rope_scaling", `{"rope_type":"yarn","factor":4.0,"attention_factor":1E0}`},
			{"set", "router_aux/loss", `1e-3`},
			{"set", "quantization_config", `{"format":"nvfp4-pack-quantized","ignore":[],"config_groups":{"group_0":{"targets":["Linear"]}}}`},
			{"remove", "tie_word_embeddings", ""},
			{"remove", "architectures/0", ""},
			{"append", "eos_token_id", "151338"},
		}, []string{
			"\"num_nextn_predict_layers\": 1", "\"num_nextn_predict_layers\": 0",
			"        \"lm_head\"\n", "        \"lm_head\",\n        \"re:.*\\\\.mlp\\\\.gate$\"\n",
			"\"rope_scaling\": null", "\"rope_scaling\": {\n    \"rope_type\": \"yarn\",\n    \"factor\": 4.0,\n    \"attention_factor\": 1E0\n  }",
			"\"router_aux\": {}", "\"router_aux\": {\n    \"loss\": 1e-3\n  }",
			"\"vocab_size\": 151552", `"vocab_size": 151552,
  "quantization_config": {
    "format": "nvfp4-pack-quantized",
    "ignore": [],
    "config_groups": {
      "group_0": {
        "targets": [
          "Linear"
        ]
      }
    }
  }`,
			"  \"tie_word_embeddings\": false,\n", "",
			"[\n    \"GlmMoeForCausalLM\"\n  ]", "[]",
			"    151336\n", "    151336,\n    151338\n",
		}},
		{"config.json, CRLF and a byte order mark", bom + crlf(configJSON), []change{
			{"set", "text_config/num_nextn_predict_layers", `0`},
			{"set", "text_config/mtp", "{\n  \"layers\": []\n}"},
			{"set", "router_aux/loss", `NaN`},
			{"append", "architectures", `"Mtp"`},
			{"remove", "text_config/hidden_size", ""},
		}, []string{
			"\"num_nextn_predict_layers\": 1", "\"num_nextn_predict_layers\": 0",
			"\"fp8\"\r\n    }\r\n", "\"fp8\"\r\n    },\r\n    \"mtp\": {\r\n      \"layers\": []\r\n    }\r\n",
			"\"router_aux\": {}", "\"router_aux\": {\r\n    \"loss\": NaN\r\n  }",
			"\"GlmMoeForCausalLM\"\r\n", "\"GlmMoeForCausalLM\",\r\n    \"Mtp\"\r\n",
			"\r\n    \"hidden_size\": 5120,", "",
		}},
		{"compact", configCompact, []change{
			{"set", "rope_scaling/factor", `16.0`},
			{"append", "architectures", `"B"`},
			{"set", "x/y/z", "[1,\n2]"},
			{"set", "new", `{"a":1}`},
			{"remove", "rms_norm_eps", ""},
		}, []string{
			"8.0", "16.0", "ForCausalLM\"", "ForCausalLM\",\"B\"", "\"x\":{}", "\"x\":{\"y\":{\"z\":[1,2]}}",
			"7890}", "7890,\"new\":{\"a\":1}}", "\"rms_norm_eps\":1e-05,", "",
		}},
		{"tabs", configTabs, []change{
			{"set", "d_kv", `96`},
			{"set", "task_specific_params/summarization/min_length", `30`},
			{"set", "task_specific_params/translation", `{"num_beams": 2}`},
			{"append", "bad_words_ids", "[1, 2]"},
		}, []string{
			"128", "96", "summarize: \"}", "summarize: \", \"min_length\": 30},\n\t\t\"translation\": {\n\t\t\t\"num_beams\": 2\n\t\t}",
			"[]", "[\n\t\t[\n\t\t\t1,\n\t\t\t2\n\t\t]\n\t]",
		}},
		{"tokenizer_config.json", tokenizerConfig, []change{
			{"set", "bos_token", string(Quote("<｜é｜>"))},
			{"set", "added_tokens_decoder/1/special", `false`},
			{"set", "added_tokens_decoder/2", `{"content":"é","lstrip":false}`},
			{"append", "additional_special_tokens", `"é"`},
			{"remove", "additional_special_tokens/0", ""},
			{"set", "pad_token", `null`},
		}, []string{
			`"bos_token": "<\uff5cbegin\u2581of\u2581sentence\uff5c>"`, `"bos_token": "<\uff5c\u00e9\uff5c>"`,
			"true\n    }\n  }", "false\n    },\n    \"2\": {\n      \"content\": \"é\",\n      \"lstrip\": false\n    }\n  }",
			`["<\u00e9>", "\ud83d\ude00"]`, `["\ud83d\ude00", "é"]`,
			"Fast\"", "Fast\",\n  \"pad_token\": null",
		}},
		{"index", indexJSON(3), []change{
			{"set", "metadata/total_size", "1338"},
			{"set", "weight_map/model.norm.weight", `"x"`},
			{"remove", "weight_map/model.layers.000000.weight", ""},
		}, []string{
			"1337.0", "1338", "43-of-00064.safetensors\"", "43-of-00064.safetensors\",\n    \"model.norm.weight\": \"x\"",
			"    \"model.layers.000000.weight\": \"model-00001-of-00064.safetensors\",\n", "",
		}},
	} {
		text, want := []byte(c.text), c.text
		for _, e := range c.changes {
			var err error
			if text, err = e.apply(text); err != nil {
				t.Fatalf("%s: %+v: %v", c.name, e, err)
			}
		}
		for i := 0; i < len(c.pieces); i += 2 {
			if strings.Count(want, c.pieces[i]) != 1 {
				t.Fatalf("%s: %q does not stand there once", c.name, c.pieces[i])
			}
			want = strings.Replace(want, c.pieces[i], c.pieces[i+1], 1)
		}
		if d := cmp.Diff(want, string(text)); d != "" {
			t.Errorf("%s: -want +got\n%s", c.name, d)
		}
	}
}

// manyMembers returns n members that go between, before and after an index's own.
func manyMembers(n int) []Member {
	members := make([]Member, n)
	for i := range members {
		members[i] = Member{fmt.Sprintf("model.layers.%06d.weight_scale", (i*7919)%n), []byte(`"model-mtp.safetensors"`)}
	}
	return members
}

func TestEditMembersOfIndex(t *testing.T) {
	const n = 1000
	text := []byte(indexJSON(n))
	members := manyMembers(n)
	got, err := EditMembers(text, members, "weight_map")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i, line := range strings.SplitAfter(string(text), "\n") {
		const head = 5 // lines before the first tensor
		if i < head || i >= head+n {
			want.WriteString(line)
			continue
		}
		comma := ","
		if i == head+n-1 {
			line, comma = strings.TrimSuffix(line, "\n")+",\n", ""
		}
		fmt.Fprintf(&want, "%s    \"model.layers.%06d.weight_scale\": \"model-mtp.safetensors\"%s\n", line, i-head, comma)
	}
	if d := cmp.Diff(want.String(), string(got)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	for i := range members {
		members[i].Value = nil
	}
	if back, err := EditMembers(got, members, "weight_map"); err != nil || string(back) != string(text) {
		t.Errorf("undone: %v\n%s", err, cmp.Diff(string(text), string(back)))
	}
}

func BenchmarkEditMembers(b *testing.B) {
	text, members := []byte(indexJSON(100_000)), manyMembers(100_000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := EditMembers(text, members, "weight_map"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSet(b *testing.B) {
	text := []byte(indexJSON(100_000))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := Set(text, []byte("1"), "metadata", "total_size"); err != nil {
			b.Fatal(err)
		}
	}
}
