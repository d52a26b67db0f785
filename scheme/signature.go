package scheme

import (
	"slices"
	"strings"

	st "github.com/ckpt-surgery/ckpt/safetensors"
)

// Part is what a tensor is to its module.
type Part string

// The parts.
const (
	Weight           Part = "weight"             // values, or codes that keep the name weight
	Packed           Part = "packed"             // several codes to an element
	Bias             Part = "bias"               //
	Scale            Part = "scale"              // one a tensor, channel, group or block
	ScaleInv         Part = "scale-inv"          // block-FP8: a multiplier in spite of its name
	GlobalScale      Part = "global-scale"       // compressed-tensors: a divisor
	Scale2           Part = "scale-2"            // ModelOpt: the reciprocal of the divisor
	InputScale       Part = "input-scale"        // static activations
	InputGlobalScale Part = "input-global-scale" // static activations, a divisor
	OutputScale      Part = "output-scale"       //
	KVScale          Part = "kv-scale"           // of the cached keys, values or queries
	ZeroPoint        Part = "zero-point"         //
	GroupIndex       Part = "group-index"        // column to group
	Shape            Part = "shape"              // logical shape of packed codes
	Codebook         Part = "codebook"           // other tools' companions
	Other            Part = "other"              // anything else
)

// IsScale reports whether the part multiplies or divides values: the tensors in
// which one bad byte spoils many weights.
func (p Part) IsScale() bool {
	switch p {
	case Scale, ScaleInv, GlobalScale, Scale2, InputScale, InputGlobalScale, OutputScale, KVScale:
		return true
	}
	return false
}

// signature is a row of the table: a tensor whose name ends in suffix and whose
// dtype is one of dtypes (any, if there are none) is that part of the module
// named by the rest.
type signature struct {
	suffix string
	dtypes []st.DType
	part   Part
}

// stored are the dtypes in which the tools store scales.
var stored = []st.DType{st.F8E4M3, st.F8E8M0, st.U8, st.BF16, st.F16, st.F32, st.F64}

// signatures is the table. The first row that fits counts, so a longer suffix
// stands before a shorter one that ends it. Sources: compressed-tensors 0.19.0
// (compressors/*/base.py, quantization/lifecycle/initialize.py), ModelOpt at
// a2fbac7b (export/unified_export_hf.py, quant_utils.py), transformers 5.17.0
// (integrations/finegrained_fp8.py, mxfp4.py), AutoGPTQ and AutoAWQ.
var signatures = []signature{
	// Linear modules: a suffix after a dot.
	{".weight_packed", nil, Packed},
	{".weight_global_scale", nil, GlobalScale},
	{".weight_scale_inv", nil, ScaleInv},
	{".weight_scale_2", nil, Scale2},
	{".weight_scale", stored, Scale},
	{".weight_zero_point", nil, ZeroPoint},
	{".weight_g_idx", nil, GroupIndex},
	{".weight_shape", nil, Shape},
	{".input_global_scale", nil, InputGlobalScale},
	{".input_scale", nil, InputScale},
	{".input_zero_point", nil, ZeroPoint},
	{".output_scale", nil, OutputScale},
	{".output_zero_point", nil, ZeroPoint},
	{".k_scale", nil, KVScale},
	{".v_scale", nil, KVScale},
	{".q_scale", nil, KVScale},
	{".kv_scale", nil, KVScale},
	{".qweight", []st.DType{st.I32}, Packed},
	{".qzeros", nil, ZeroPoint},
	{".scales", nil, Scale},
	{".g_idx", nil, GroupIndex},
	{".pre_quant_scale", nil, Scale},
	{".scale", []st.DType{st.F8E8M0}, Scale}, // DeepSeek-V4's spelling; a float .scale is a norm's
	{".weight.absmax", nil, Codebook},        // bitsandbytes
	{".weight.quant_map", nil, Codebook},
	{".weight.nested_absmax", nil, Codebook},
	{".weight.nested_quant_map", nil, Codebook},
	{".weight.quant_state.bitsandbytes__nf4", nil, Codebook},
	{".weight.quant_state.bitsandbytes__fp4", nil, Codebook},
	{".SCB", nil, Codebook},
	{".weight_format", nil, Codebook},
	{".weight", nil, Weight},
	{".bias", nil, Bias},
	// Stacked experts: parameters without a module of their own.
	{"_weight_packed", nil, Packed},
	{"_weight_scale_inv", nil, ScaleInv},
	{"_weight_scale_2", nil, Scale2},
	{"_weight_global_scale", nil, GlobalScale},
	{"_weight_scale", stored, Scale},
	{"_input_global_scale", nil, InputGlobalScale},
	{"_input_scale", nil, InputScale},
	{"_scale_inv", nil, ScaleInv},
	{"_blocks", []st.DType{st.U8}, Packed}, // gpt-oss
	{"_scales", []st.DType{st.U8}, Scale},
	{"proj_scale", stored, Scale},
	{"proj_bias", nil, Bias},
}

// PartOf returns the module a tensor belongs to and what part of it the tensor
// is. A stacked parameter of rank 3 or more, such as experts.gate_up_proj, is
// the weight of a module with its own name; a tensor that fits no row belongs to
// the module before its last dot.
func PartOf(t st.Info) (module string, part Part) {
	name := t.Name
	if strings.IndexByte(name, '.') < 0 {
		name = "." + name // the module without a name
	}
	for _, s := range signatures {
		if !strings.HasSuffix(name, s.suffix) || s.dtypes != nil && !slices.Contains(s.dtypes, t.DType) {
			continue
		}
		module = strings.TrimPrefix(strings.TrimSuffix(name, s.suffix), ".")
		if strings.HasPrefix(s.suffix, "proj_") {
			module += "proj"
		}
		return module, s.part
	}
	if strings.HasSuffix(t.Name, "_proj") && len(t.Shape) >= 3 {
		return t.Name, Weight
	}
	if i := strings.LastIndexByte(t.Name, '.'); i >= 0 {
		return t.Name[:i], Other
	}
	return "", Other
}
