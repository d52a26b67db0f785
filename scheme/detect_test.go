package scheme

import (
	"strings"
	"testing"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	st "github.com/ckpt-surgery/ckpt/safetensors"
)

// Every quantized module of every way to store a model is detected alike.
func TestDetectForms(t *testing.T) {
	want := map[string]struct {
		Detected
		text string
	}{
		"N": {Detected{Container: CompressedTensors, Format: "nvfp4-pack-quantized", DType: st.U8, Bits: 4, Float: true,
			Strategy: "tensor_group", Group: 16, Static: true}, "compressed-tensors nvfp4-pack-quantized fp4 group 16, static activations"},
		"N-W4A16": {Detected{Container: CompressedTensors, Format: "nvfp4-pack-quantized", DType: st.U8, Bits: 4, Float: true,
			Strategy: "tensor_group", Group: 16}, "compressed-tensors nvfp4-pack-quantized fp4 group 16"},
		"M": {Detected{Container: ModelOpt, Format: "NVFP4", DType: st.U8, Bits: 4, Float: true,
			Strategy: "tensor_group", Group: 16, Static: true}, "modelopt NVFP4 fp4 group 16, static activations"},
		"F": {Detected{Container: CompressedTensors, Format: "float-quantized", DType: st.F8E4M3, Bits: 8, Float: true,
			Strategy: "channel"}, "compressed-tensors float-quantized fp8 channel"},
		"B": {Detected{Container: BlockFP8, DType: st.F8E4M3, Bits: 8, Float: true,
			Strategy: "block", Block: [2]uint64{128, 128}}, "fp8 fp8 block 128x128"},
		"I8": {Detected{Container: CompressedTensors, Format: "int-quantized", DType: st.I8, Bits: 8,
			Strategy: "channel"}, "compressed-tensors int-quantized int8 channel"},
		"I4-g16": {Detected{Container: CompressedTensors, Format: "pack-quantized", DType: st.I32, Bits: 4,
			Strategy: "group", Group: 16}, "compressed-tensors pack-quantized int4 group 16"},
		"I4-g64": {Detected{Container: CompressedTensors, Format: "pack-quantized", DType: st.I32, Bits: 4,
			Strategy: "group", Group: 64}, "compressed-tensors pack-quantized int4 group 64"},
		"I4-channel": {Detected{Container: CompressedTensors, Format: "pack-quantized", DType: st.I32, Bits: 4,
			Strategy: "channel"}, "compressed-tensors pack-quantized int4 channel"},
		"AWQ": {Detected{Container: AWQ, DType: st.I32, Bits: 4,
			Strategy: "group", Group: 32}, "awq int4 group 32"},
		"GPTQ": {Detected{Container: GPTQ, DType: st.I32, Bits: 4,
			Strategy: "group", Group: 16}, "gptq int4 group 16"},
	}
	// Groups as wide as the row of some modules are channels, so keep to the others there.
	wide := func(module string) bool { return strings.HasSuffix(module, "down_proj") }
	for _, form := range forms {
		w, ok := want[form.name]
		if !ok {
			t.Fatalf("%s has no case", form.name)
		}
		quantized := 0
		for _, m := range Modules(open(t, form.store(vectors.T0()).FS())) {
			d := m.Detect()
			if !strings.HasSuffix(m.Name, "_proj") {
				if d != (Detected{DType: st.BF16}) || d.Quantized() || d.String() != "BF16" {
					t.Errorf("%s: %s is %q", form.name, m.Name, d)
				}
				continue
			}
			quantized++
			d.columns = 0
			if form.name == "I4-g64" && !wide(m.Name) {
				if d.Strategy != "channel" || d.Group != 0 {
					t.Errorf("%s: one group a row of %s is %q", form.name, m.Name, d)
				}
				continue
			}
			if d != w.Detected || !d.Quantized() || d.String() != w.text {
				t.Errorf("%s: %s is %q %+v, want %q %+v", form.name, m.Name, d, d, w.text, w.Detected)
			}
		}
		if quantized != 14 {
			t.Errorf("%s: %d projections", form.name, quantized)
		}
	}
}

func TestDetectGPTOSS(t *testing.T) {
	want := Detected{Container: GPTOSS, DType: st.U8, Bits: 4, Float: true, Strategy: "group", Group: 32}
	n := 0
	for _, m := range Modules(open(t, vectors.GPTOSS().FS())) {
		d := m.Detect()
		if !strings.Contains(m.Name, "experts.") {
			if d.Quantized() {
				t.Errorf("%s is %q", m.Name, d)
			}
			continue
		}
		n++
		if d != want || d.String() != "mxfp4 fp4 group 32" {
			t.Errorf("%s is %q", m.Name, d)
		}
	}
	if n != 2 {
		t.Errorf("%d stacks", n)
	}
}

// Modules of the layouts that the vectors lack, as the references describe them.
func TestDetectModules(t *testing.T) {
	for _, c := range []struct {
		name    string
		want    string
		tensors []vectors.Tensor
	}{
		// compressed-tensors.
		{"FP8 per tensor", "compressed-tensors float-quantized fp8 tensor", []vectors.Tensor{
			tensor("m.weight", st.F8E4M3, 64, 128), tensor("m.weight_scale", st.BF16, 1)}},
		{"FP8 per tensor, static", "compressed-tensors float-quantized fp8 tensor, static activations", []vectors.Tensor{
			tensor("m.weight", st.F8E4M3, 64, 128), tensor("m.weight_scale", st.BF16, 1), tensor("m.input_scale", st.BF16, 1)}},
		{"FP8 in ragged blocks", "compressed-tensors float-quantized fp8 block 128x128", []vectors.Tensor{
			tensor("m.weight", st.F8E4M3, 576, 512), tensor("m.weight_scale", st.BF16, 5, 4)}},
		{"FP8 in blocks of another size", "compressed-tensors float-quantized fp8 block 64x32", []vectors.Tensor{
			tensor("m.weight", st.F8E4M3, 128, 128), tensor("m.weight_scale", st.BF16, 2, 4)}},
		{"FP8 in flat blocks", "compressed-tensors float-quantized fp8 block 100x32", []vectors.Tensor{
			tensor("m.weight", st.F8E4M3, 100, 256), tensor("m.weight_scale", st.BF16, 1, 8)}},
		{"FP8 in one block", "compressed-tensors float-quantized fp8 block 128x128", []vectors.Tensor{
			tensor("m.weight", st.F8E4M3, 64, 128), tensor("m.weight_scale", st.BF16, 1, 1)}},
		{"FP8 in blocks of a single row", "compressed-tensors float-quantized fp8 block 128x128", []vectors.Tensor{
			tensor("m.weight", st.F8E4M3, 1, 512), tensor("m.weight_scale", st.BF16, 1, 4)}},
		{"FP8 in groups", "compressed-tensors float-quantized fp8 group 128", []vectors.Tensor{
			tensor("m.weight", st.F8E4M3, 64, 512), tensor("m.weight_scale", st.BF16, 64, 4)}},
		{"FP8 stacked, per channel", "compressed-tensors float-quantized fp8 channel", []vectors.Tensor{
			tensor("experts.up_proj", st.F8E4M3, 4, 64, 128), tensor("experts.up_proj_weight_scale", st.F32, 4, 64, 1)}},
		{"INT8 per tensor, static", "compressed-tensors int-quantized int8 tensor, static activations", []vectors.Tensor{
			tensor("m.weight", st.I8, 64, 128), tensor("m.weight_scale", st.BF16, 1), tensor("m.input_scale", st.BF16, 1),
			tensor("m.input_zero_point", st.I8, 1)}},
		{"INT4 in bytes, with groups", "compressed-tensors int-quantized int8 group 128", []vectors.Tensor{
			tensor("m.weight", st.I8, 64, 512), tensor("m.weight_scale", st.BF16, 64, 4)}},
		{"INT8 with groups, a single row", "compressed-tensors int-quantized int8 group 128", []vectors.Tensor{
			tensor("m.weight", st.I8, 1, 512), tensor("m.weight_scale", st.BF16, 1, 4)}},
		{"MXFP4", "compressed-tensors mxfp4-pack-quantized fp4 group 32", []vectors.Tensor{
			tensor("m.weight_packed", st.U8, 64, 64), tensor("m.weight_scale", st.U8, 64, 4)}},
		{"MXFP4, stacked", "compressed-tensors mxfp4-pack-quantized fp4 group 32", []vectors.Tensor{
			tensor("experts.up_proj_weight_packed", st.U8, 4, 64, 64), tensor("experts.up_proj_weight_scale", st.U8, 4, 64, 4)}},
		{"MXFP8", "compressed-tensors mxfp8-quantized fp8 group 32", []vectors.Tensor{
			tensor("m.weight", st.F8E4M3, 64, 128), tensor("m.weight_scale", st.U8, 64, 4)}},
		{"NVFP4, stacked", "compressed-tensors nvfp4-pack-quantized fp4 group 16", []vectors.Tensor{
			tensor("experts.up_proj_weight_packed", st.U8, 4, 64, 64), tensor("experts.up_proj_weight_scale", st.F8E4M3, 4, 64, 8),
			tensor("experts.up_proj_weight_global_scale", st.F32, 4)}},
		{"NVFP4 with scalars, as converted from ModelOpt", "compressed-tensors nvfp4-pack-quantized fp4 group 16, static activations",
			[]vectors.Tensor{tensor("m.weight_packed", st.U8, 64, 64), tensor("m.weight_scale", st.F8E4M3, 64, 8),
				tensor("m.weight_global_scale", st.F32), tensor("m.input_global_scale", st.F32)}},
		{"FP4 in groups of another size", "compressed-tensors nvfp4-pack-quantized fp4 group 8", []vectors.Tensor{
			tensor("m.weight_packed", st.U8, 64, 64), tensor("m.weight_scale", st.F8E4M3, 64, 16), tensor("m.weight_global_scale", st.F32, 1)}},
		{"without a name", "compressed-tensors nvfp4-pack-quantized fp4 group 16", []vectors.Tensor{
			tensor("weight_packed", st.U8, 64, 64), tensor("weight_scale", st.F8E4M3, 64, 8), tensor("weight_global_scale", st.F32, 1)}},
		// ModelOpt.
		{"ModelOpt FP8", "modelopt FP8 fp8 tensor, static activations", []vectors.Tensor{
			tensor("m.weight", st.F8E4M3, 64, 128), tensor("m.weight_scale", st.F32), tensor("m.input_scale", st.F32)}},
		{"ModelOpt FP8_PER_CHANNEL_PER_TOKEN", "modelopt FP8_PER_CHANNEL_PER_TOKEN fp8 channel", []vectors.Tensor{
			tensor("m.weight", st.F8E4M3, 64, 128), tensor("m.weight_scale", st.F32, 64)}},
		{"ModelOpt FP8_PB_WO", "modelopt FP8_PB_WO fp8 block 128x128", []vectors.Tensor{
			tensor("m.weight", st.F8E4M3, 256, 384), tensor("m.weight_scale", st.F32, 2, 1, 3, 1)}},
		{"ModelOpt W4A16_NVFP4", "modelopt NVFP4 fp4 group 16", []vectors.Tensor{
			tensor("m.weight", st.U8, 64, 64), tensor("m.weight_scale", st.F8E4M3, 64, 8), tensor("m.weight_scale_2", st.F32)}},
		// Block FP8.
		{"ragged block FP8", "fp8 fp8 block 128x128", []vectors.Tensor{
			tensor("m.weight", st.F8E4M3, 576, 512), tensor("m.weight_scale_inv", st.F32, 5, 4)}},
		{"block FP8 with exponents", "fp8 fp8 block 128x128", []vectors.Tensor{
			tensor("m.weight", st.F8E4M3, 1024, 512), tensor("m.scale", st.F8E8M0, 8, 4)}},
		{"FP4 experts beside block FP8", "fp8 fp4 group 32", []vectors.Tensor{
			tensor("m.weight", st.I8, 64, 256), tensor("m.scale", st.F8E8M0, 64, 16)}},
		{"stacked block FP8", "fp8 fp8 block 128x128", []vectors.Tensor{
			tensor("experts.up_proj", st.F8E4M3, 4, 256, 128), tensor("experts.up_proj_scale_inv", st.F32, 4, 2, 1)}},
		// Named, not read.
		{"GPTQ, 8 bits", "gptq int8 group 32", []vectors.Tensor{
			tensor("m.qweight", st.I32, 16, 128), tensor("m.qzeros", st.I32, 2, 32), tensor("m.scales", st.F16, 2, 128),
			tensor("m.g_idx", st.I32, 64)}},
		{"GPTQ, 3 bits", "gptq int3 group 32", []vectors.Tensor{
			tensor("m.qweight", st.I32, 6, 128), tensor("m.qzeros", st.I32, 2, 12), tensor("m.scales", st.F16, 2, 128)}},
		{"GPTQ without zero points", "gptq group", []vectors.Tensor{
			tensor("m.qweight", st.I32, 8, 128), tensor("m.scales", st.F16, 2, 128)}},
		{"AWQ without a name", "awq int4 group 32", []vectors.Tensor{
			tensor("qweight", st.I32, 64, 16), tensor("qzeros", st.I32, 2, 16), tensor("scales", st.F16, 2, 128)}},
		{"bitsandbytes, 4 bits", "bitsandbytes", []vectors.Tensor{
			tensor("m.weight", st.U8, 4096, 1), tensor("m.weight.absmax", st.U8, 128), tensor("m.weight.quant_map", st.F32, 16),
			tensor("m.weight.nested_absmax", st.F32, 1), tensor("m.weight.nested_quant_map", st.F32, 256),
			tensor("m.weight.quant_state.bitsandbytes__nf4", st.U8, 90)}},
		{"bitsandbytes, 8 bits", "bitsandbytes", []vectors.Tensor{
			tensor("m.weight", st.I8, 64, 128), tensor("m.SCB", st.F32, 64), tensor("m.weight_format", st.U8)}},
		// Plain.
		{"BF16", "BF16", []vectors.Tensor{tensor("m.weight", st.BF16, 64, 128), tensor("m.bias", st.BF16, 64)}},
		{"an unknown dtype", "F128", []vectors.Tensor{{Name: "m.weight", DType: "F128", Shape: []int{1}, Data: make([]byte, 16)}}},
		{"a bias alone", "-", []vectors.Tensor{tensor("m.bias", st.BF16, 64)}},
		{"bytes", "U8", []vectors.Tensor{tensor("m.weight", st.U8, 64, 64)}},
		{"a cache scale on a plain module", "BF16", []vectors.Tensor{
			tensor("m.weight", st.BF16, 64, 64), tensor("m.k_scale", st.F32)}},
	} {
		m := module(t, c.tensors...)
		if got := m.Detect().String(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A part without which the codes mean nothing is named.
func TestDetectMissing(t *testing.T) {
	for _, c := range []struct {
		name    string
		missing Part
		want    string
		tensors []vectors.Tensor
	}{
		{"NVFP4 without scale", Scale, "compressed-tensors nvfp4-pack-quantized fp4 group 16, no scale", []vectors.Tensor{
			tensor("m.weight_packed", st.U8, 64, 64), tensor("m.weight_global_scale", st.F32, 1)}},
		{"NVFP4 without global scale", GlobalScale, "compressed-tensors nvfp4-pack-quantized fp4 group 16, no global-scale", []vectors.Tensor{
			tensor("m.weight_packed", st.U8, 64, 64), tensor("m.weight_scale", st.F8E4M3, 64, 8)}},
		{"FP4 without both", Scale, "compressed-tensors mxfp4-pack-quantized fp4 group 32, no scale", []vectors.Tensor{
			tensor("m.weight_packed", st.U8, 64, 64)}},
		{"INT4 without scale", Scale, "compressed-tensors pack-quantized, no scale", []vectors.Tensor{
			tensor("m.weight_packed", st.I32, 64, 16), tensor("m.weight_shape", st.I64, 2)}},
		{"INT4 without shape", Shape, "compressed-tensors pack-quantized, no shape", []vectors.Tensor{
			tensor("m.weight_packed", st.I32, 64, 16), tensor("m.weight_scale", st.BF16, 64, 4)}},
		{"ModelOpt NVFP4 without scale", Scale, "modelopt NVFP4 fp4 group 16, no scale", []vectors.Tensor{
			tensor("m.weight", st.U8, 64, 64), tensor("m.weight_scale_2", st.F32)}},
		{"ModelOpt NVFP4 without its second scale", Scale2, "modelopt NVFP4 fp4 group 16, no scale-2", []vectors.Tensor{
			tensor("m.weight", st.U8, 64, 64), tensor("m.weight_scale", st.F8E4M3, 64, 8)}},
		{"gpt-oss without scales", Scale, "mxfp4 fp4 group 32, no scale", []vectors.Tensor{
			tensor("experts.up_proj_blocks", st.U8, 4, 64, 2, 16)}},
		{"qweight alone", Scale, "awq group, no scale", []vectors.Tensor{tensor("m.qweight", st.I32, 64, 16)}},
		// A cast without scales is no module of a quantizer.
		{"F8_E4M3", Scale, "F8_E4M3 (no scale)", []vectors.Tensor{tensor("m.weight", st.F8E4M3, 64, 64)}},
		{"F8_E5M2", Scale, "F8_E5M2 (no scale)", []vectors.Tensor{tensor("m.weight", st.F8E5M2, 64, 64)}},
		{"I8", Scale, "I8 (no scale)", []vectors.Tensor{tensor("m.weight", st.I8, 64, 64)}},
		{"F8_E5M2 with a scale", "", "F8_E5M2", []vectors.Tensor{
			tensor("m.weight", st.F8E5M2, 64, 64), tensor("m.weight_scale", st.F32, 1)}},
	} {
		d := module(t, c.tensors...).Detect()
		if d.Missing != c.missing || d.String() != c.want {
			t.Errorf("%s: %q lacks %q; want %q, %q", c.name, d, d.Missing, c.want, c.missing)
		}
		if quantized := !strings.HasPrefix(c.name, "F8") && c.name != "I8"; d.Quantized() != quantized {
			t.Errorf("%s: quantized is %t", c.name, d.Quantized())
		}
	}
}

// An 8x8 matrix in AWQ's words, codes 0 to 7 in each row, is named, not mistaken
// for a format that can be read.
func TestFieldCase50(t *testing.T) {
	word := []byte{0x20, 0x64, 0x31, 0x75} // 0 2 4 6 1 3 5 7, low nibble first
	words := tensor("m.qweight", st.I32, 8, 1)
	for i := range words.Data {
		words.Data[i] = word[i%4]
	}
	m := module(t, words, tensor("m.qzeros", st.I32, 1, 1), tensor("m.scales", st.F16, 1, 8))
	if d := m.Detect(); d.Container != AWQ || d.Format != "" || d.Bits != 4 || d.Group != 8 || m.Params() != 64 {
		t.Errorf("%+v, %d parameters", d, m.Params())
	}
}
