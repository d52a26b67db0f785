package scheme

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	st "github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// object parses a JSON object.
func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// Where the block is looked for, first to last: config.json, then
// hf_quant_config.json, then compression_config, then text_config.
func TestDeclaredPlaces(t *testing.T) {
	block := func(format string) map[string]any {
		return map[string]any{"quant_method": "compressed-tensors", "format": format}
	}
	places := []struct {
		where string
		put   func(m *vectors.Model)
		want  Declared
	}{
		{"quantization_config", func(m *vectors.Model) { m.Config["quantization_config"] = block("dense") },
			Declared{Where: "config.json", Method: CompressedTensors, Formats: []string{"dense"}}},
		{"hf_quant_config.json", func(m *vectors.Model) {
			m.Files["hf_quant_config.json"] = []byte(`{"producer":{"name":"modelopt"},"quantization":{"quant_algo":"FP8","exclude_modules":[]}}`)
		}, Declared{Where: "hf_quant_config.json", Method: ModelOpt, Formats: []string{"FP8"}}},
		{"compression_config", func(m *vectors.Model) { m.Config["compression_config"] = block("int-quantized") },
			Declared{Where: "config.json", Method: CompressedTensors, Formats: []string{"int-quantized"}}},
		{"text_config.quantization_config", func(m *vectors.Model) {
			m.Config["text_config"].(map[string]any)["quantization_config"] = block("pack-quantized")
		}, Declared{Where: "config.json text_config", Method: CompressedTensors, Formats: []string{"pack-quantized"}}},
		{"text_config.compression_config", func(m *vectors.Model) {
			m.Config["text_config"].(map[string]any)["compression_config"] = block("float-quantized")
		}, Declared{Where: "config.json text_config", Method: CompressedTensors, Formats: []string{"float-quantized"}}},
	}
	same := func(a, b Declared) bool {
		return a.Where == b.Where && a.Method == b.Method && slices.Equal(a.Formats, b.Formats)
	}
	for first := range places {
		m := vectors.T2()
		m.Config["quantization_config"] = nil // null is as good as nothing
		for _, p := range places[first:] {
			p.put(m)
		}
		if got := look(t, m).Declared; !same(got, places[first].want) {
			t.Errorf("%s before the rest: %+v, want %+v", places[first].where, got, places[first].want)
		}
	}
	if got := look(t, vectors.T2()).Declared; !same(got, Declared{}) {
		t.Errorf("nothing declared: %+v", got)
	}
}

func TestDeclaredBlocks(t *testing.T) {
	for _, c := range []struct {
		name, block string
		method      string
		formats     string
	}{
		{"one group", `{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"g":{"format":"pack-quantized"}}}`, CompressedTensors, "pack-quantized"},
		{"a group without a format", `{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"g":{"targets":["Linear"]}}}`, CompressedTensors, "pack-quantized"},
		{"a group whose format is null", `{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"g":{"format":null}}}`, CompressedTensors, "pack-quantized"},
		{"two groups", `{"quant_method":"compressed-tensors","format":"mixed-precision","config_groups":{"a":{"format":"pack-quantized"},"b":{"format":"float-quantized"},"c":{"format":"pack-quantized"}}}`, CompressedTensors, "float-quantized pack-quantized"},
		{"the groups beat the block", `{"quant_method":"compressed-tensors","format":"dense","config_groups":{"a":{"format":"pack-quantized"}}}`, CompressedTensors, "pack-quantized"},
		{"a preset with its targets", `{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"W4A16":["Linear"]}}`, CompressedTensors, "pack-quantized"},
		{"no groups", `{"quant_method":"compressed-tensors","format":"int-quantized"}`, CompressedTensors, "int-quantized"},
		{"no format at all", `{"quant_method":"compressed-tensors","config_groups":{"g":{}}}`, CompressedTensors, ""},
		{"an old spelling", `{"quant_method":"Compressed_Tensors","format":"int-quantized"}`, CompressedTensors, "int-quantized"},
		{"ModelOpt, flat", `{"quant_method":"modelopt","quant_algo":"NVFP4","config_groups":{"g":{"weights":{"num_bits":4}}}}`, ModelOpt, "NVFP4"},
		{"ModelOpt, mixed", `{"quant_method":"modelopt_mixed","quant_algo":"MIXED_PRECISION","config_groups":{"g":{"weights":{"num_bits":4}}}}`, "modelopt-mixed", "MIXED_PRECISION"},
		{"ModelOpt without an algorithm", `{"quant_method":"modelopt","quant_algo":null}`, ModelOpt, ""},
		{"block FP8", `{"quant_method":"fp8","fmt":"e4m3","weight_block_size":[128,128]}`, BlockFP8, ""},
		{"bitsandbytes", `{"quant_method":"bitsandbytes","load_in_4bit":true}`, BitsAndBytes, ""},
		{"no method", `{"bits":4,"group_size":64}`, "", ""},
	} {
		m := vectors.T0()
		m.Config["quantization_config"] = object(t, c.block)
		d := look(t, m).Declared
		if d.Where != "config.json" || d.Method != c.method || strings.Join(d.Formats, " ") != c.formats {
			t.Errorf("%s: %+v, want %q %q", c.name, d, c.method, c.formats)
		}
	}
	// What is no block.
	for _, block := range []any{nil, "fp8", 8, true, []any{"fp8"}} {
		m := vectors.T0()
		m.Config["quantization_config"] = block
		if d := look(t, m).Declared; d.Where != "" {
			t.Errorf("%v: %+v", block, d)
		}
	}
	// hf_quant_config.json in its newer, flat form, and one that is not JSON.
	for text, want := range map[string]string{`{"quant_method":"modelopt","quant_algo":"FP8"}`: "modelopt FP8", `{"quant_algo":"FP8"}`: "modelopt FP8", `{"quant`: ""} {
		m := vectors.T0()
		m.Files["hf_quant_config.json"] = []byte(text)
		d := look(t, m).Declared
		if got := strings.TrimSpace(d.Method + " " + strings.Join(d.Formats, " ")); got != want {
			t.Errorf("%s: %+v", text, d)
		}
	}
}

// quantized stores T0 in a form and changes its block.
func quantized(store func(m *vectors.Model) *vectors.Model, change func(q map[string]any)) *vectors.Model {
	m := store(vectors.T0())
	q := m.Quantization()
	change(q)
	return m
}

// setFormat writes a format into the block and its groups.
func setFormat(format string) func(q map[string]any) {
	return func(q map[string]any) {
		q["format"] = format
		for _, g := range q["config_groups"].(map[string]any) {
			g.(map[string]any)["format"] = format
		}
	}
}

// undeclared takes the block out.
func undeclared(m *vectors.Model) *vectors.Model {
	delete(m.Config, "quantization_config")
	return m
}

// declares adds a block to a plain model.
func declares(t *testing.T, block string) *vectors.Model {
	m := vectors.T0()
	m.Config["quantization_config"] = object(t, block)
	return m
}

func fp8(m *vectors.Model) *vectors.Model  { return vectors.FP8Channel(m) }
func int4(m *vectors.Model) *vectors.Model { return vectors.INT4(m, 32) }

func TestProblems(t *testing.T) {
	const looks = "the tensors look like compressed-tensors float-quantized"
	text := vectors.T2()
	text.Config["text_config"].(map[string]any)["quantization_config"] = object(t, `{"quant_method":"fp8"}`)
	scalar := vectors.FP8Channel(vectors.T0())
	for _, name := range scalar.Names() {
		if strings.HasSuffix(name, ".weight_scale") {
			*scalar.Tensor(name) = tensor(name, st.F32)
		}
	}
	for _, c := range []struct {
		name     string
		m        *vectors.Model
		code     string
		severity checkpoint.Severity
		message  string
	}{
		{"field case 48", quantized(fp8, setFormat("float-quantized-x")),
			FormatDisagrees, checkpoint.Fatal, `format "float-quantized-x" is unknown; ` + looks},
		{"another format than is stored", quantized(fp8, setFormat("int-quantized")),
			FormatDisagrees, checkpoint.Fatal, `format "int-quantized" is declared, but no tensor is stored so; ` + looks},
		{"a second group of which nothing is stored", quantized(fp8, func(q map[string]any) {
			q["config_groups"].(map[string]any)["group_1"] = map[string]any{"format": "nvfp4-pack-quantized"}
		}), FormatDisagrees, checkpoint.Fatal, `format "nvfp4-pack-quantized" is declared, but no tensor is stored so; ` + looks},
		{"codes without a block", undeclared(vectors.FP8Channel(vectors.T0())),
			MethodMissing, checkpoint.Fatal, `no quantization_config, but ` + looks + "; engines treat the model as unquantized"},
		{"gpt-oss without a block", undeclared(vectors.GPTOSS()),
			MethodMissing, checkpoint.Fatal, `no quantization_config, but the tensors look like mxfp4; engines treat the model as unquantized`},
		{"two formats without a block", undeclared(mixed()), MethodMissing, checkpoint.Fatal,
			"no quantization_config, but the tensors look like compressed-tensors float-quantized and compressed-tensors nvfp4-pack-quantized; engines treat the model as unquantized"},
		{"a block without a method", quantized(fp8, func(q map[string]any) { delete(q, "quant_method") }),
			MethodMissing, checkpoint.Fatal, `the quantization block names no quant_method, but ` + looks + "; engines treat the model as unquantized"},
		{"a block without codes", declares(t, `{"quant_method":"compressed-tensors","format":"pack-quantized","quantization_status":"compressed"}`),
			MethodMissing, checkpoint.Corrupt, `the configuration says "compressed-tensors", but no tensor is quantized`},
		{"block FP8 without codes", declares(t, `{"quant_method":"fp8"}`),
			MethodMissing, checkpoint.Corrupt, `the configuration says "fp8", but no tensor is quantized`},
		{"a block in text_config without codes", text,
			MethodMissing, checkpoint.Corrupt, `the configuration says "fp8", but no tensor is quantized`},
		{"ModelOpt without codes", declares(t, `{"quant_method":"modelopt_fp4","quant_algo":"NVFP4"}`),
			MethodMissing, checkpoint.Corrupt, `the configuration says "modelopt-fp4", but no tensor is quantized`},
		// No problem.
		{"naive-quantized FP8", quantized(fp8, setFormat("naive-quantized")), "", "", ""},
		{"naive-quantized INT8", quantized(func(m *vectors.Model) *vectors.Model { return vectors.INT8(m) }, setFormat("naive-quantized")), "", "", ""},
		{"mixed formats", mixed(), "", "", ""},
		{"mixed-precision whose groups name no format", quantized(fp8, setFormat("mixed-precision")), "", "", ""},
		{"a preset as a group", quantized(int4, func(q map[string]any) { q["config_groups"] = map[string]any{"W4A16": []any{"Linear"}} }), "", "", ""},
		{"FP8 scales without dimensions", scalar, "", "", ""},
		{"ModelOpt", vectors.ModelOptNVFP4(vectors.T0()), "", "", ""},
		{"gpt-oss", vectors.GPTOSS(), "", "", ""},
		{"GPTQ, its block elsewhere", undeclared(vectors.GPTQ(vectors.T0(), 32)), "", "", ""},
		{"AWQ, its block elsewhere", undeclared(vectors.AWQ(vectors.T0(), 32)), "", "", ""},
		{"saved uncompressed", declares(t, `{"quant_method":"compressed-tensors","format":"dense","quantization_status":"frozen"}`), "", "", ""},
		{"saved uncompressed by an old version", declares(t, `{"quant_method":"compressed-tensors","format":"fakequant","quantization_status":"frozen"}`), "", "", ""},
		{"sparse, which is not detected", declares(t, `{"quant_method":"compressed-tensors","format":"sparse-24-bitmask"}`), "", "", ""},
		{"a method that is not detected", declares(t, `{"quant_method":"quark"}`), "", "", ""},
		{"MLX's block without a method", declares(t, `{"bits":4,"group_size":64}`), "", "", ""},
		{"plain", vectors.T0(), "", "", ""},
	} {
		problems := look(t, c.m).Problems
		if c.code == "" {
			if len(problems) > 0 {
				t.Errorf("%s: %v", c.name, problems)
			}
			continue
		}
		if len(problems) != 1 {
			t.Errorf("%s: %d problems: %v", c.name, len(problems), problems)
			continue
		}
		p := problems[0]
		if p.Code != c.code || p.Severity != c.severity || p.Message != c.message || p.Repair == "" || p.File != "config.json" || p.Unreadable() {
			t.Errorf("%s: %+v, want %s %s %s", c.name, p, c.severity, c.code, c.message)
		}
	}
}

// A format that compressed-tensors has is never called unknown, one that was
// misspelt always is.
func TestFormats(t *testing.T) {
	stored := map[string]*vectors.Model{
		"float-quantized": vectors.FP8Channel(vectors.T0()), "int-quantized": vectors.INT8(vectors.T0()),
		"pack-quantized": vectors.INT4(vectors.T0(), 32), "nvfp4-pack-quantized": vectors.NVFP4(vectors.T0(), false),
	}
	for format, m := range stored {
		if p := look(t, m).Problems; len(p) > 0 {
			t.Errorf("%s: %v", format, p)
		}
		for _, other := range slices.Sorted(maps.Keys(stored)) {
			if other == format {
				continue
			}
			setFormat(other)(m.Quantization())
			if p := look(t, m).Problems; len(p) != 1 || p[0].Code != FormatDisagrees || !strings.Contains(p[0].Message, "no tensor is stored so; the tensors look like compressed-tensors "+format) {
				t.Errorf("%s declared as %s: %v", format, other, p)
			}
		}
		setFormat(format + "s")(m.Quantization())
		if p := look(t, m).Problems; len(p) != 1 || !strings.Contains(p[0].Message, "is unknown; the tensors look like compressed-tensors "+format) {
			t.Errorf("%ss: %v", format, p)
		}
	}
	for _, format := range []string{"dense", "naive-quantized", "mxfp4-pack-quantized", "mxfp8-quantized", "mixed-precision", "sparse-bitmask", "sparse-24-bitmask", "marlin-24"} {
		m := quantized(fp8, setFormat(format))
		for _, p := range look(t, m).Problems {
			if strings.Contains(p.Message, "unknown") {
				t.Errorf("%s: %v", format, p)
			}
		}
	}
}
