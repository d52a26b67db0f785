package vectors

import (
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// want lists a fixture's tensors as the table of fixtures has them.
type want map[string][]int

func (w want) with(p string, more want) want {
	all := maps.Clone(w)
	for name, shape := range more {
		all[p+name] = shape
	}
	return all
}

func (w want) renamed(old, new string) want {
	all := want{}
	for name, shape := range w {
		if rest, ok := strings.CutPrefix(name, old); ok {
			name = new + rest
		}
		all[name] = shape
	}
	return all
}

var (
	wantAttention = want{
		"self_attn.q_proj.weight": {64, 64}, "self_attn.k_proj.weight": {32, 64}, "self_attn.v_proj.weight": {32, 64},
		"self_attn.o_proj.weight": {64, 64},
	}
	wantMLP   = want{"mlp.gate_proj.weight": {128, 64}, "mlp.up_proj.weight": {128, 64}, "mlp.down_proj.weight": {64, 128}}
	wantNorms = want{"input_layernorm.weight": {64}, "post_attention_layernorm.weight": {64}}
	wantLayer = wantAttention.with("", wantMLP).with("", wantNorms)
	wantEnds  = want{"model.embed_tokens.weight": {32, 64}, "model.norm.weight": {64}, "lm_head.weight": {32, 64}}
	wantT0    = wantEnds.with("model.layers.0.", wantLayer).with("model.layers.1.", wantLayer)
	wantBlock = want{
		"attn.qkv.weight": {96, 32}, "attn.proj.weight": {32, 32}, "mlp.gate_proj.weight": {64, 32}, "mlp.up_proj.weight": {64, 32},
		"mlp.down_proj.weight": {32, 64},
	}
	wantT3Rest = wantEnds.with("model.layers.0.", wantAttention).with("model.layers.0.", wantNorms).with("model.layers.0.mlp.", want{
		"gate.weight": {4, 64}, "shared_expert_gate.weight": {1, 64}, "shared_expert.gate_proj.weight": {64, 64},
		"shared_expert.up_proj.weight": {64, 64}, "shared_expert.down_proj.weight": {64, 64},
	})
	wantExpert = want{"gate_proj.weight": {64, 64}, "up_proj.weight": {64, 64}, "down_proj.weight": {64, 64}}
)

var fixtures = []struct {
	name  string
	build func() *Model
	count int
	want  want
}{
	{"T0", T0, 21, wantT0},
	{"T1", T1, 36, wantT0.with("mtp.layers.0.", wantLayer).with("mtp.", want{
		"fc.weight": {64, 128}, "norm.weight": {64}, "pre_fc_norm_embedding.weight": {64}, "pre_fc_norm_hidden.weight": {64},
		"layers.0.self_attn.q_norm.weight": {16}, "layers.0.self_attn.k_norm.weight": {16},
	})},
	{"T2", T2, 34, wantT0.renamed("model.", "model.language_model.").
		with("model.visual.blocks.0.", wantBlock).with("model.visual.blocks.1.", wantBlock).
		with("model.visual.", want{
			"merger.mlp.0.weight": {128, 128}, "merger.mlp.2.weight": {64, 128}, "patch_embed.proj.weight": {32, 3, 2, 4, 4},
		})},
	{"T3", T3, 16, wantT3Rest.with("model.layers.0.mlp.experts.", want{"gate_up_proj": {4, 128, 64}, "down_proj": {4, 64, 64}})},
	{"T3u", T3u, 26, wantT3Rest.
		with("model.layers.0.mlp.experts.0.", wantExpert).with("model.layers.0.mlp.experts.1.", wantExpert).
		with("model.layers.0.mlp.experts.2.", wantExpert).with("model.layers.0.mlp.experts.3.", wantExpert)},
	{"T4", T4, 23, wantEnds.with("model.layers.0.", wantMLP).with("model.layers.0.", wantNorms).with("model.layers.1.", wantLayer).
		with("model.layers.0.linear_attn.", want{
			"in_proj_qkv.weight": {128, 64}, "in_proj_z.weight": {64, 64}, "in_proj_a.weight": {4, 64}, "in_proj_b.weight": {4, 64},
			"out_proj.weight": {64, 64}, "conv1d.weight": {128, 1, 4},
		})},
}

func TestFixtures(t *testing.T) {
	for _, tt := range fixtures {
		m := tt.build()
		files := m.FS()
		got := want{}
		size := 0
		for name, tensor := range checkFiles(t, files) {
			got[name] = tensor.Shape
			size += len(tensor.Data)
			if tensor.DType != "BF16" {
				t.Errorf("%s: %s is %s", tt.name, name, tensor.DType)
			}
			mean, deviation := moments(tensor.Floats())
			center := 0.0
			if strings.HasSuffix(name, "norm.weight") || strings.Contains(name, "pre_fc_norm") {
				center = 1
			}
			if limit := 0.1 / math.Sqrt(float64(product(tensor.Shape))); math.Abs(mean-center) > limit || math.Abs(deviation-0.02) > limit {
				t.Errorf("%s: %s has mean %g and deviation %g", tt.name, name, mean, deviation)
			}
		}
		if !reflect.DeepEqual(got, tt.want) || len(got) != tt.count {
			t.Errorf("%s: %d tensors, want %d: %v", tt.name, len(got), tt.count, got)
		}
		if m.TotalSize() != int64(size) {
			t.Errorf("%s: TotalSize %d, want %d", tt.name, m.TotalSize(), size)
		}
		var names []string
		total := 0
		for name, file := range files {
			names = append(names, name)
			total += len(file.Data)
			if strings.HasSuffix(name, ".json") && !json.Valid(file.Data) {
				t.Errorf("%s: %s is not JSON", tt.name, name)
			}
		}
		slices.Sort(names)
		wantNames := []string{
			"chat_template.jinja", "config.json", "generation_config.json", "model-00001-of-00002.safetensors",
			"model-00002-of-00002.safetensors", "model.safetensors.index.json", "tokenizer.json", "tokenizer_config.json",
		}
		if tt.name == "T2" {
			wantNames = append(wantNames, "preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json")
			slices.Sort(wantNames)
		}
		if !slices.Equal(names, wantNames) || total > 300_000 {
			t.Errorf("%s: %d bytes in %v", tt.name, total, names)
		}
		for _, tensor := range m.Shards[0].Tensors {
			if !strings.Contains(tensor.Name, "layers.0.") {
				t.Errorf("%s: %s is in the first shard", tt.name, tensor.Name)
			}
		}
		for _, tensor := range m.Shards[1].Tensors {
			if strings.HasPrefix(tensor.Name, "model.layers.0.") {
				t.Errorf("%s: %s is in the second shard", tt.name, tensor.Name)
			}
		}
		if again := tt.build(); !reflect.DeepEqual(again.FS(), files) {
			t.Errorf("%s: a second call gives other bytes", tt.name)
		}
	}
}

func moments(values []float32) (mean, deviation float64) {
	for _, v := range values {
		mean += float64(v)
	}
	mean /= float64(len(values))
	for _, v := range values {
		deviation += (float64(v) - mean) * (float64(v) - mean)
	}
	return mean, math.Sqrt(deviation / float64(len(values)))
}

func TestTwins(t *testing.T) {
	stacked, split := T3(), T3u()
	gateUp := stacked.Tensor("model.layers.0.mlp.experts.gate_up_proj").Data
	down := stacked.Tensor("model.layers.0.mlp.experts.down_proj").Data
	var joinedUp, joinedDown []byte
	for _, e := range []string{"0", "1", "2", "3"} {
		p := "model.layers.0.mlp.experts." + e
		joinedUp = slices.Concat(joinedUp, split.Tensor(p+".gate_proj.weight").Data, split.Tensor(p+".up_proj.weight").Data)
		joinedDown = append(joinedDown, split.Tensor(p+".down_proj.weight").Data...)
	}
	if !slices.Equal(joinedUp, gateUp) || !slices.Equal(joinedDown, down) {
		t.Error("T3u does not hold T3's bytes")
	}
	for _, name := range T0().Names() {
		if !slices.Equal(T1().Tensor(name).Data, T0().Tensor(name).Data) {
			t.Errorf("T1 changes %s", name)
		}
		vision := name
		if rest, ok := strings.CutPrefix(name, "model."); ok {
			vision = "model.language_model." + rest
		}
		if !slices.Equal(T2().Tensor(vision).Data, T0().Tensor(name).Data) {
			t.Errorf("T2 changes %s", name)
		}
	}
	if n := T1().Config["num_nextn_predict_layers"]; n != 1 {
		t.Errorf("num_nextn_predict_layers %v", n)
	}
}
