package vectors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// bodies are the fixtures with the number of projections that a quantizer takes and the ignore entries of compressed-tensors.
var bodies = []struct {
	name   string
	build  func() *Model
	taken  int
	ignore []string
}{
	{"T0", T0, 14, []string{"lm_head"}},
	{"T1", T1, 14, []string{"lm_head", `re:^mtp\..*`}},
	{"T2", T2, 14, []string{
		"lm_head", "model.visual.blocks.0.attn.proj", "model.visual.blocks.0.attn.qkv", "model.visual.blocks.0.mlp.down_proj",
		"model.visual.blocks.0.mlp.gate_proj", "model.visual.blocks.0.mlp.up_proj", "model.visual.blocks.1.attn.proj",
		"model.visual.blocks.1.attn.qkv", "model.visual.blocks.1.mlp.down_proj", "model.visual.blocks.1.mlp.gate_proj",
		"model.visual.blocks.1.mlp.up_proj", "model.visual.merger.mlp.0", "model.visual.merger.mlp.2",
	}},
	{"T3", T3, 7, []string{
		"lm_head", "model.layers.0.mlp.gate", "model.layers.0.mlp.shared_expert_gate", `re:.*layers\.0\.mlp\.experts\..*`,
	}},
	{"T3u", T3u, 19, []string{"lm_head", "model.layers.0.mlp.gate", "model.layers.0.mlp.shared_expert_gate"}},
	{"T4", T4, 13, []string{"lm_head", "model.layers.0.linear_attn.in_proj_a", "model.layers.0.linear_attn.in_proj_b"}},
}

// part is a tensor of one quantized module: name, dtype and shape as a function of rows and columns.
type part struct {
	name, dtype string
	shape       func(r, c int) []int
}

func at(shape ...int) func(r, c int) []int { return func(int, int) []int { return shape } }

var forms = []struct {
	name   string
	build  func(m *Model, opts ...Option) *Model
	parts  []part
	decode func(get func(string) *Tensor, r, c int) []float32
	// expected is the published rel-L2 for Gaussian weights.
	expected float64
}{
	{"NVFP4", func(m *Model, opts ...Option) *Model { return NVFP4(m, false, opts...) }, []part{
		{"weight_packed", "U8", func(r, c int) []int { return []int{r, c / 2} }},
		{"weight_scale", "F8_E4M3", func(r, c int) []int { return []int{r, c / 16} }},
		{"weight_global_scale", "F32", at(1)}, {"input_global_scale", "F32", at(1)},
	}, decodeNVFP4, 0.095},
	{"NVFP4A16", func(m *Model, opts ...Option) *Model { return NVFP4(m, true, opts...) }, []part{
		{"weight_packed", "U8", func(r, c int) []int { return []int{r, c / 2} }},
		{"weight_scale", "F8_E4M3", func(r, c int) []int { return []int{r, c / 16} }},
		{"weight_global_scale", "F32", at(1)},
	}, decodeNVFP4, 0.095},
	{"ModelOptNVFP4", ModelOptNVFP4, []part{
		{"weight", "U8", func(r, c int) []int { return []int{r, c / 2} }},
		{"weight_scale", "F8_E4M3", func(r, c int) []int { return []int{r, c / 16} }},
		{"weight_scale_2", "F32", at()}, {"input_scale", "F32", at()},
	}, func(get func(string) *Tensor, r, c int) []float32 {
		return decodeFP4(get("weight").Data, get("weight_scale").Floats(), 16, get("weight_scale_2").Floats()[0])
	}, 0.095},
	{"FP8Channel", FP8Channel, []part{
		{"weight", "F8_E4M3", func(r, c int) []int { return []int{r, c} }},
		{"weight_scale", "BF16", func(r, c int) []int { return []int{r, 1} }},
	}, func(get func(string) *Tensor, r, c int) []float32 {
		return scaled(get("weight").Floats(), get("weight_scale").Floats(), c)
	}, 0.0263},
	{"FP8Block", FP8Block, []part{
		{"weight", "F8_E4M3", func(r, c int) []int { return []int{r, c} }},
		{"weight_scale_inv", "F32", func(r, c int) []int { return []int{(r + 127) / 128, (c + 127) / 128} }},
	}, func(get func(string) *Tensor, r, c int) []float32 {
		x, scales, width := get("weight").Floats(), get("weight_scale_inv").Floats(), (c+127)/128
		for i := range x {
			x[i] *= scales[i/c/128*width+i%c/128]
		}
		return x
	}, 0.0266},
	{"INT8", INT8, []part{
		{"weight", "I8", func(r, c int) []int { return []int{r, c} }},
		{"weight_scale", "BF16", func(r, c int) []int { return []int{r, 1} }},
	}, func(get func(string) *Tensor, r, c int) []float32 {
		var x []float32
		for _, b := range get("weight").Data {
			x = append(x, float32(int8(b)))
		}
		return scaled(x, get("weight_scale").Floats(), c)
	}, 0.0080},
	{"INT4", func(m *Model, opts ...Option) *Model { return INT4(m, 32, opts...) }, []part{
		{"weight_packed", "I32", func(r, c int) []int { return []int{r, c / 8} }},
		{"weight_scale", "BF16", func(r, c int) []int { return []int{r, c / 32} }},
		{"weight_shape", "I64", at(2)},
	}, func(get func(string) *Tensor, r, c int) []float32 {
		x := make([]float32, r*c)
		for i := range x {
			word := binary.LittleEndian.Uint32(get("weight_packed").Data[4*(i/8):])
			x[i] = float32(word>>(i%8*4)&15) - 8
		}
		return scaled(x, get("weight_scale").Floats(), 32)
	}, 0.094},
	{"AWQ", func(m *Model, opts ...Option) *Model { return AWQ(m, 32, opts...) }, []part{
		{"qweight", "I32", func(r, c int) []int { return []int{c, r / 8} }},
		{"qzeros", "I32", func(r, c int) []int { return []int{c / 32, r / 8} }},
		{"scales", "F16", func(r, c int) []int { return []int{c / 32, r} }},
	}, func(get func(string) *Tensor, r, c int) []float32 {
		nibble := [8]int{0, 4, 1, 5, 2, 6, 3, 7} // the nibble that holds row i of a word
		code := func(name string, line, row int) float32 {
			word := binary.LittleEndian.Uint32(get(name).Data[4*(line*r/8+row/8):])
			return float32(word >> (4 * nibble[row%8]) & 15)
		}
		x, scales := make([]float32, r*c), get("scales").Floats()
		for i := range x {
			row, col := i/c, i%c
			x[i] = (code("qweight", col, row) - code("qzeros", col/32, row)) * scales[col/32*r+row]
		}
		return x
	}, 0.094},
	{"GPTQ", func(m *Model, opts ...Option) *Model { return GPTQ(m, 32, opts...) }, []part{
		{"qweight", "I32", func(r, c int) []int { return []int{c / 8, r} }},
		{"qzeros", "I32", func(r, c int) []int { return []int{c / 32, r / 8} }},
		{"scales", "F16", func(r, c int) []int { return []int{c / 32, r} }},
		{"g_idx", "I32", func(r, c int) []int { return []int{c} }},
	}, func(get func(string) *Tensor, r, c int) []float32 {
		x, scales := make([]float32, r*c), get("scales").Floats()
		for i := range x {
			row, col := i/c, i%c
			group := int(binary.LittleEndian.Uint32(get("g_idx").Data[4*col:]))
			word := binary.LittleEndian.Uint32(get("qweight").Data[4*(col/8*r+row):])
			zero := binary.LittleEndian.Uint32(get("qzeros").Data[4*(group*r/8+row/8):])>>(row%8*4)&15 + 1
			x[i] = (float32(word>>(col%8*4)&15) - float32(zero)) * scales[group*r+row]
		}
		return x
	}, 0.094},
}

func scaled(x, scales []float32, group int) []float32 {
	for i := range x {
		x[i] *= scales[i/group]
	}
	return x
}

func decodeFP4(packed []byte, scales []float32, group int, global float32) []float32 {
	x := make([]float32, 2*len(packed))
	for i := range x {
		x[i] = e2m1Value[packed[i/2]>>(i%2*4)&15] * scales[i/group] * global
	}
	return x
}

func decodeNVFP4(get func(string) *Tensor, r, c int) []float32 {
	return decodeFP4(get("weight_packed").Data, get("weight_scale").Floats(), 16, 1/get("weight_global_scale").Floats()[0])
}

func relL2(got, want []float32) float64 {
	var diff, norm float64
	for i := range want {
		d := float64(got[i] - want[i])
		diff += d * d
		norm += float64(want[i]) * float64(want[i])
	}
	return math.Sqrt(diff / norm)
}

func TestForms(t *testing.T) {
	for _, form := range forms {
		for _, body := range bodies {
			label := form.name + "(" + body.name + ")"
			source := body.build()
			untouched := source.FS()
			m := form.build(source)
			tensors := checkFiles(t, m.FS())
			get := func(name string) *Tensor {
				tensor, ok := tensors[name]
				if !ok {
					t.Fatalf("%s: no %s", label, name)
				}
				return &tensor
			}
			taken, left := 0, len(tensors)
			for _, name := range source.Names() {
				module := strings.TrimSuffix(name, ".weight")
				if _, ok := tensors[module+"."+form.parts[1].name]; !ok {
					if !bytes.Equal(get(name).Data, source.Tensor(name).Data) || get(name).DType != "BF16" {
						t.Errorf("%s: %s changed", label, name)
					}
					left--
					continue
				}
				taken++
				w := source.Tensor(name)
				r, c := w.Shape[0], w.Shape[1]
				for _, p := range form.parts {
					got := get(module + "." + p.name)
					if got.DType != p.dtype || !slices.Equal(got.Shape, p.shape(r, c)) {
						t.Errorf("%s: %s is %s %v, want %s %v", label, got.Name, got.DType, got.Shape, p.dtype, p.shape(r, c))
					}
					if m.ShardOf(got.Name).Name != source.ShardOf(name).Name {
						t.Errorf("%s: %s left its shard", label, got.Name)
					}
					left--
				}
				x := form.decode(func(name string) *Tensor { return get(module + "." + name) }, r, c)
				if e := relL2(x, w.Floats()); !(e < 1.5*form.expected) || e < form.expected/1.5 {
					t.Errorf("%s: %s has rel-L2 %.4f, want about %.4f", label, module, e, form.expected)
				}
			}
			if taken != body.taken || left != 0 {
				t.Errorf("%s: %d modules converted, want %d; %d tensors too many", label, taken, body.taken, left)
			}
			for name, tensor := range tensors {
				if slices.Contains([]string{"BF16", "F16", "F32", "F8_E4M3"}, tensor.DType) {
					for _, v := range tensor.Floats() {
						if v-v != 0 {
							t.Fatalf("%s: %s holds %g", label, name, v)
						}
					}
				}
				if strings.Contains(name, "scale") && tensor.DType == "F32" && tensor.Floats()[0] <= 0 {
					t.Errorf("%s: %s is %v", label, name, tensor.Floats())
				}
			}
			if !reflect.DeepEqual(source.FS(), untouched) {
				t.Errorf("%s: the source changed", label)
			}
		}
	}
}

func TestIgnore(t *testing.T) {
	for _, body := range bodies {
		for _, m := range []*Model{
			NVFP4(body.build(), true), FP8Channel(body.build()), INT8(body.build()), INT4(body.build(), 16),
		} {
			var got []string
			for _, entry := range m.Quantization()["ignore"].([]any) {
				got = append(got, entry.(string))
			}
			slices.Sort(got)
			if !slices.Equal(got, body.ignore) {
				t.Errorf("%s: ignore %q", body.name, got)
			}
		}
	}
	var file struct {
		Quantization struct {
			Algo    string   `json:"quant_algo"`
			Exclude []string `json:"exclude_modules"`
		}
	}
	m := ModelOptNVFP4(T1())
	if err := json.Unmarshal(m.FS()["hf_quant_config.json"].Data, &file); err != nil {
		t.Fatal(err)
	}
	if q := file.Quantization; q.Algo != "NVFP4" || !slices.Equal(q.Exclude, []string{"lm_head", "mtp*"}) {
		t.Errorf("hf_quant_config.json holds %+v", q)
	}
	if _, ok := m.Config["quantization_config"]; ok {
		t.Error("config.json has a block too")
	}
	if got := fmt.Sprint(FP8Block(T3()).Quantization()["modules_to_not_convert"]); got !=
		"[model.layers.0.mlp.gate model.layers.0.mlp.shared_expert_gate lm_head model.layers.0.mlp.experts]" {
		t.Errorf("modules_to_not_convert %s", got)
	}
}

// The block that oneshot writes for NVFP4A16.
func TestConfigBlock(t *testing.T) {
	const want = `{"config_groups":{"group_0":{"format":"nvfp4-pack-quantized","input_activations":null,"output_activations":null,` +
		`"targets":["Linear"],"weights":{"actorder":null,"block_structure":null,"dynamic":false,"group_size":16,"num_bits":4,` +
		`"observer":"memoryless_minmax","observer_kwargs":{},"scale_dtype":"torch.float8_e4m3fn","strategy":"tensor_group",` +
		`"symmetric":true,"type":"float","zp_dtype":null}}},"format":"nvfp4-pack-quantized","global_compression_ratio":null,` +
		`"ignore":["lm_head"],"kv_cache_scheme":null,"quant_method":"compressed-tensors","quantization_status":"compressed",` +
		`"sparsity_config":{},"transform_config":{},"version":"0.18.0"}`
	got, err := json.Marshal(NVFP4(T0(), true).Quantization())
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
	group := NVFP4(T0(), false).Quantization()["config_groups"].(map[string]any)["group_0"].(map[string]any)
	inputs := group["input_activations"].(map[string]any)
	if inputs["dynamic"] != "local" || inputs["strategy"] != "tensor_group" || inputs["group_size"] != 16 {
		t.Errorf("input_activations %v", inputs)
	}
}

func TestFusedScales(t *testing.T) {
	m, o := NVFP4(T4(), false), ModelOptNVFP4(T4())
	for _, set := range [][]string{
		{"model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.k_proj", "model.layers.1.self_attn.v_proj"},
		{"model.layers.0.mlp.gate_proj", "model.layers.0.mlp.up_proj"},
		{"model.layers.0.linear_attn.in_proj_qkv", "model.layers.0.linear_attn.in_proj_z"},
	} {
		var largest float32
		for _, module := range set {
			largest = max(largest, absMax(T4().Tensor(module+".weight").Floats()))
		}
		for _, module := range set {
			global := m.Tensor(module + ".weight_global_scale").Floats()[0]
			if want := 2688 / largest; math.Abs(float64(global/want-1)) > 0.01 {
				t.Errorf("%s has global scale %g, want %g", module, global, want)
			}
			if !bytes.Equal(m.Tensor(module+".input_global_scale").Data, m.Tensor(set[0]+".input_global_scale").Data) {
				t.Errorf("%s has an input scale of its own", module)
			}
			if !bytes.Equal(m.Tensor(module+".weight_packed").Data, o.Tensor(module+".weight").Data) ||
				!bytes.Equal(m.Tensor(module+".weight_scale").Data, o.Tensor(module+".weight_scale").Data) ||
				o.Tensor(module + ".weight_scale_2").Floats()[0] != 1/global {
				t.Errorf("%s: ModelOpt numbers differ", module)
			}
		}
	}
}

func TestOptions(t *testing.T) {
	m := INT8(T1(), Only(func(module string) bool { return strings.HasSuffix(module, "mlp.up_proj") }), Also("lm_head", "mtp.fc"))
	var got []string
	for _, name := range m.Names() {
		if module, ok := strings.CutSuffix(name, ".weight_scale"); ok {
			got = append(got, module)
		}
	}
	if want := []string{"lm_head", "model.layers.0.mlp.up_proj", "model.layers.1.mlp.up_proj", "mtp.fc"}; !slices.Equal(got, want) {
		t.Errorf("converted %q", got)
	}
	ignore := fmt.Sprint(m.Quantization()["ignore"])
	if strings.Contains(ignore, "lm_head") || !strings.Contains(ignore, "model.layers.0.self_attn.q_proj") {
		t.Errorf("ignore %s", ignore)
	}
}

// INT4 takes any group that divides the columns, or whole rows.
func TestINT4Groups(t *testing.T) {
	m := INT4(T0(), -1)
	if got := m.Tensor("model.layers.0.mlp.down_proj.weight_scale").Shape; !slices.Equal(got, []int{64, 1}) {
		t.Errorf("scale %v", got)
	}
	shape := m.Tensor("model.layers.0.mlp.down_proj.weight_shape").Data
	if binary.LittleEndian.Uint64(shape) != 64 || binary.LittleEndian.Uint64(shape[8:]) != 128 {
		t.Errorf("weight_shape % x", shape)
	}
	weights := m.Quantization()["config_groups"].(map[string]any)["group_0"].(map[string]any)["weights"].(map[string]any)
	if weights["strategy"] != "channel" || weights["group_size"] != nil {
		t.Errorf("weights %v", weights)
	}
}

// A block of 576×512 has ragged rows.
func TestFP8BlockRagged(t *testing.T) {
	m := T0()
	m.Add(shard1, Normal("model.layers.0.wide_proj.weight", 576, 512))
	if got := FP8Block(m).Tensor("model.layers.0.wide_proj.weight_scale_inv").Shape; !slices.Equal(got, []int{5, 4}) {
		t.Errorf("scale %v", got)
	}
}

func TestGPTOSS(t *testing.T) {
	m := GPTOSS()
	checkFiles(t, m.FS())
	if m.Shards[0].Name != "model-00000-of-00001.safetensors" {
		t.Errorf("first shard %s", m.Shards[0].Name)
	}
	const p = "model.layers.0.mlp.experts."
	for name, want := range map[string][]int{
		"gate_up_proj_blocks": {4, 128, 2, 16}, "gate_up_proj_scales": {4, 128, 2}, "down_proj_blocks": {4, 64, 2, 16}, "down_proj_scales": {4, 64, 2},
	} {
		if got := m.Tensor(p + name); got.DType != "U8" || !slices.Equal(got.Shape, want) {
			t.Errorf("%s is %s %v", name, got.DType, got.Shape)
		}
	}
	scales := m.Tensor(p + "down_proj_scales")
	var values []float32
	for _, e := range scales.Data {
		values = append(values, float32(math.Ldexp(1, int(e)-127)))
	}
	source := Normal(p+"down_proj", 4, 64, 64)
	got := decodeFP4(m.Tensor(p+"down_proj_blocks").Data, values, 32, 1)
	if e := relL2(got, source.Floats()); e > 0.15 {
		t.Errorf("rel-L2 %.4f", e)
	}
}
