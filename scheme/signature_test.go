package scheme

import (
	"slices"
	"strings"
	"testing"

	st "github.com/ckpt-surgery/ckpt/safetensors"
)

// rowCases has a case for every row of the table, in its order.
var rowCases = []struct {
	suffix, name string
	dtype        st.DType
	module       string
	part         Part
}{
	{".weight_packed", "a.q_proj.weight_packed", st.U8, "a.q_proj", Packed},
	{".weight_global_scale", "a.q_proj.weight_global_scale", st.F32, "a.q_proj", GlobalScale},
	{".weight_scale_inv", "a.q_proj.weight_scale_inv", st.F32, "a.q_proj", ScaleInv},
	{".weight_scale_2", "a.q_proj.weight_scale_2", st.F32, "a.q_proj", Scale2},
	{".weight_scale", "a.q_proj.weight_scale", st.F8E4M3, "a.q_proj", Scale},
	{".weight_zero_point", "a.q_proj.weight_zero_point", st.I32, "a.q_proj", ZeroPoint},
	{".weight_g_idx", "a.q_proj.weight_g_idx", st.I32, "a.q_proj", GroupIndex},
	{".weight_shape", "a.q_proj.weight_shape", st.I64, "a.q_proj", Shape},
	{".input_global_scale", "a.q_proj.input_global_scale", st.F32, "a.q_proj", InputGlobalScale},
	{".input_scale", "a.q_proj.input_scale", st.BF16, "a.q_proj", InputScale},
	{".input_zero_point", "a.q_proj.input_zero_point", st.I8, "a.q_proj", ZeroPoint},
	{".output_scale", "a.q_proj.output_scale", st.BF16, "a.q_proj", OutputScale},
	{".output_zero_point", "a.q_proj.output_zero_point", st.I8, "a.q_proj", ZeroPoint},
	{".k_scale", "a.self_attn.k_scale", st.BF16, "a.self_attn", KVScale},
	{".v_scale", "a.v_proj.v_scale", st.F32, "a.v_proj", KVScale},
	{".q_scale", "a.self_attn.q_scale", st.BF16, "a.self_attn", KVScale},
	{".kv_scale", "a.self_attn.kv_scale", st.F32, "a.self_attn", KVScale},
	{".qweight", "a.q_proj.qweight", st.I32, "a.q_proj", Packed},
	{".qzeros", "a.q_proj.qzeros", st.I32, "a.q_proj", ZeroPoint},
	{".scales", "a.q_proj.scales", st.F16, "a.q_proj", Scale},
	{".g_idx", "a.q_proj.g_idx", st.I32, "a.q_proj", GroupIndex},
	{".pre_quant_scale", "a.q_proj.pre_quant_scale", st.BF16, "a.q_proj", Scale},
	{".scale", "layers.0.attn.wq_a.scale", st.F8E8M0, "layers.0.attn.wq_a", Scale},
	{".weight.absmax", "a.q_proj.weight.absmax", st.U8, "a.q_proj", Codebook},
	{".weight.quant_map", "a.q_proj.weight.quant_map", st.F32, "a.q_proj", Codebook},
	{".weight.nested_absmax", "a.q_proj.weight.nested_absmax", st.F32, "a.q_proj", Codebook},
	{".weight.nested_quant_map", "a.q_proj.weight.nested_quant_map", st.F32, "a.q_proj", Codebook},
	{".weight.quant_state.bitsandbytes__nf4", "a.q_proj.weight.quant_state.bitsandbytes__nf4", st.U8, "a.q_proj", Codebook},
	{".weight.quant_state.bitsandbytes__fp4", "a.q_proj.weight.quant_state.bitsandbytes__fp4", st.U8, "a.q_proj", Codebook},
	{".SCB", "a.q_proj.SCB", st.F32, "a.q_proj", Codebook},
	{".weight_format", "a.q_proj.weight_format", st.U8, "a.q_proj", Codebook},
	{".weight", "a.q_proj.weight", st.BF16, "a.q_proj", Weight},
	{".bias", "a.q_proj.bias", st.BF16, "a.q_proj", Bias},
	{"_weight_packed", "mlp.experts.gate_up_proj_weight_packed", st.U8, "mlp.experts.gate_up_proj", Packed},
	{"_weight_scale_inv", "mlp.experts.gate_up_proj_weight_scale_inv", st.F32, "mlp.experts.gate_up_proj", ScaleInv},
	{"_weight_scale_2", "mlp.experts.gate_up_proj_weight_scale_2", st.F32, "mlp.experts.gate_up_proj", Scale2},
	{"_weight_global_scale", "mlp.experts.gate_up_proj_weight_global_scale", st.F32, "mlp.experts.gate_up_proj", GlobalScale},
	{"_weight_scale", "mlp.experts.gate_up_proj_weight_scale", st.F8E4M3, "mlp.experts.gate_up_proj", Scale},
	{"_input_global_scale", "mlp.experts.down_proj_input_global_scale", st.F32, "mlp.experts.down_proj", InputGlobalScale},
	{"_input_scale", "mlp.experts.down_proj_input_scale", st.F32, "mlp.experts.down_proj", InputScale},
	{"_scale_inv", "mlp.experts.gate_up_proj_scale_inv", st.F32, "mlp.experts.gate_up_proj", ScaleInv},
	{"_blocks", "mlp.experts.gate_up_proj_blocks", st.U8, "mlp.experts.gate_up_proj", Packed},
	{"_scales", "mlp.experts.gate_up_proj_scales", st.U8, "mlp.experts.gate_up_proj", Scale},
	{"proj_scale", "mlp.experts.gate_up_proj_scale", st.F32, "mlp.experts.gate_up_proj", Scale},
	{"proj_bias", "mlp.experts.gate_up_proj_bias", st.BF16, "mlp.experts.gate_up_proj", Bias},
}

func TestEveryRow(t *testing.T) {
	table := signatures
	defer func() { signatures = table }()
	for i, row := range table {
		if i >= len(rowCases) || rowCases[i].suffix != row.suffix {
			t.Fatalf("the row of %q has no case at place %d of rowCases", row.suffix, i)
		}
		c := rowCases[i]
		info := st.Info{Name: c.name, DType: c.dtype}
		signatures = table
		if module, part := PartOf(info); module != c.module || part != c.part {
			t.Errorf("%s: %q %s, want %q %s", c.name, module, part, c.module, c.part)
		}
		// Without its row the answer must be another, or the case is for a
		// row before it.
		signatures = slices.Delete(slices.Clone(table), i, i+1)
		if module, part := PartOf(info); module == c.module && part == c.part {
			t.Errorf("%s does not need the row of %q", c.name, row.suffix)
		}
	}
	if len(rowCases) != len(table) {
		t.Errorf("%d cases for %d rows", len(rowCases), len(table))
	}
}

// A row that stands behind a shorter ending of itself is never reached.
func TestRowOrder(t *testing.T) {
	for i, before := range signatures {
		for _, row := range signatures[i+1:] {
			if strings.HasSuffix(row.suffix, before.suffix) {
				t.Errorf("%q stands behind %q, which ends it", row.suffix, before.suffix)
			}
		}
	}
}

// Exactly the dtypes that a row names make the part.
func TestRowDTypes(t *testing.T) {
	scales := []st.DType{st.F8E4M3, st.F8E8M0, st.U8, st.BF16, st.F16, st.F32, st.F64}
	only := map[string][]st.DType{
		".weight_scale": scales, "_weight_scale": scales, "proj_scale": scales,
		".qweight": {st.I32}, ".scale": {st.F8E8M0}, "_blocks": {st.U8}, "_scales": {st.U8},
	}
	for _, c := range rowCases {
		for _, dtype := range append(st.DTypes(), "F128") {
			want := only[c.suffix] == nil || slices.Contains(only[c.suffix], dtype)
			module, part := PartOf(st.Info{Name: c.name, DType: dtype})
			if got := module == c.module && part == c.part; got != want {
				t.Errorf("%s of %s: %q %s", c.name, dtype, module, part)
			}
			if !want && part != Other {
				t.Errorf("%s of %s is %s, want %s", c.name, dtype, part, Other)
			}
		}
	}
}

func TestPartOf(t *testing.T) {
	for _, c := range []struct {
		name   string
		dtype  st.DType
		shape  []uint64
		module string
		part   Part
	}{
		// A name without dots belongs to the module without a name.
		{"weight", st.BF16, []uint64{4, 4}, "", Weight},
		{"bias", st.BF16, []uint64{4}, "", Bias},
		{"weight_packed", st.U8, []uint64{4, 4}, "", Packed},
		{"weight_scale", st.F8E4M3, []uint64{4, 4}, "", Scale},
		{"qweight", st.I32, []uint64{4, 4}, "", Packed},
		{"embedding", st.F32, []uint64{4, 4}, "", Other},
		{"", st.F32, nil, "", Other},
		{"gate_up_proj", st.BF16, []uint64{4, 4, 4}, "gate_up_proj", Weight},
		{"gate_up_proj_bias", st.BF16, []uint64{4, 4}, "gate_up_proj", Bias},
		// Dots alone.
		{".", st.F32, nil, "", Other},
		{".weight", st.BF16, nil, "", Weight},
		// Stacked experts are modules of their own, whatever the rank of a companion.
		{"mlp.experts.gate_up_proj", st.BF16, []uint64{4, 128, 64}, "mlp.experts.gate_up_proj", Weight},
		{"mlp.experts.gate_up_proj", st.F8E4M3, []uint64{2, 4, 128, 64}, "mlp.experts.gate_up_proj", Weight},
		{"mlp.experts.down_proj", st.BF16, []uint64{4, 64}, "mlp.experts", Other},
		{"mlp.experts.gate_up_proj_bias", st.BF16, []uint64{4, 128}, "mlp.experts.gate_up_proj", Bias},
		{"mlp.experts.down_proj_scales", st.U8, []uint64{4, 64, 2}, "mlp.experts.down_proj", Scale},
		{"mlp.experts.down_proj_scales", st.BF16, []uint64{4, 64, 2}, "mlp.experts", Other},
		{"mlp.experts.w13_weight_packed", st.U8, []uint64{4, 64, 2}, "mlp.experts.w13", Packed},
		// Look-alikes.
		{"norm.scale", st.F32, []uint64{64}, "norm", Other},
		{"attn.logit_scale", st.F32, nil, "attn", Other},
		{"weights.scale_shift_table", st.BF16, []uint64{6, 64}, "weights", Other},
		{"mlp.gate.e_score_correction_bias", st.F32, []uint64{4}, "mlp.gate", Other},
		{"self_attn.sinks", st.BF16, []uint64{4}, "self_attn", Other},
		{"blocks.0.weights", st.BF16, []uint64{4, 4}, "blocks.0", Other},
		{"a.Weight", st.BF16, []uint64{4, 4}, "a", Other},
		{"a.weight_scale.weight", st.BF16, nil, "a.weight_scale", Weight},
	} {
		if module, part := PartOf(st.Info{Name: c.name, DType: c.dtype, Shape: c.shape}); module != c.module || part != c.part {
			t.Errorf("%q %s %v: %q %s, want %q %s", c.name, c.dtype, c.shape, module, part, c.module, c.part)
		}
	}
}

func TestIsScale(t *testing.T) {
	want := map[Part]bool{
		Scale: true, ScaleInv: true, GlobalScale: true, Scale2: true, InputScale: true, InputGlobalScale: true, OutputScale: true,
		KVScale: true, Weight: false, Packed: false, Bias: false, ZeroPoint: false, GroupIndex: false, Shape: false, Codebook: false,
		Other: false, "": false,
	}
	for part, scale := range want {
		if part.IsScale() != scale {
			t.Errorf("%s: %t", part, !scale)
		}
	}
	for _, row := range signatures {
		if _, ok := want[row.part]; !ok {
			t.Errorf("the part %s of %q has no case", row.part, row.suffix)
		}
	}
}
