package scan

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	st "github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
	"github.com/ckpt-surgery/ckpt/scheme"
)

// Beyond 1e4 a finite value is an outlier; at 1e4 it is not. Scales have no
// limit, and 8-bit codes say nothing without theirs.
func TestOutliers(t *testing.T) {
	limits := map[st.DType]struct {
		one, at, above, negative, huge string
	}{
		st.F16:  {"003c", "e270", "e370", "e3f0", "ff7b"},
		st.BF16: {"803f", "1c46", "1d46", "1dc6", "7073"}, // 9984 and 10048, the neighbours of 1e4
		st.F32:  {"0000803f", "00401c46", "01401c46", "01401cc6", "c3d06f73"},
		st.F64:  {"000000000000f03f", "000000000088c340", "010000000088c340", "010000000088c3c0", "ffffffffffffef7f"},
	}
	for dtype, l := range limits {
		for _, name := range []string{"m.weight", "m.bias", "m.sinks", "m.weight_scale", "m.weight_scale_inv", "m.weight_global_scale", "m.input_scale", "m.k_scale"} {
			limited := name == "m.weight" || name == "m.bias" || name == "m.sinks"
			for _, c := range []struct {
				value   string
				outlier bool
			}{{l.one, false}, {l.at, false}, {l.above, limited}, {l.negative, limited}, {l.huge, limited}} {
				tensor := filled(name, dtype, []int{5}, l.one)
				copy(tensor.Data[3*len(unhex(c.value)):], unhex(c.value))
				files := oneFile(tensor)
				r := scanFS(t, files, Options{})
				if !c.outlier {
					if len(r.Findings) > 0 {
						t.Errorf("%s %s of %s: %+v", c.value, dtype, name, r.Findings)
					}
					continue
				}
				if len(r.Findings) != 1 {
					t.Errorf("%s %s of %s: %d findings", c.value, dtype, name, len(r.Findings))
					continue
				}
				f := r.Findings[0]
				if f.Code != TensorOutlier || f.Severity != checkpoint.Degraded || f.Outliers != 1 || f.NaN+f.Inf != 0 ||
					len(f.First) != 1 || at(f.First[0]) != "[3] "+c.value {
					t.Errorf("%s %s of %s: %+v", c.value, dtype, name, f)
				}
				checkPositions(t, open(t, files), files, f)
			}
		}
	}
}

// With a NaN or Inf beside them outliers are counted, but not listed.
func TestOutliersBesideNaN(t *testing.T) {
	tensor := filled("m.weight", st.BF16, []int{32}, "7073")
	copy(tensor.Data[2*30:], unhex("80ff"))
	f := scanFS(t, oneFile(tensor), Options{}).Findings[0]
	if f.Code != TensorNaN || f.Inf != 1 || f.Outliers != 31 || len(f.First) != 1 || at(f.First[0]) != "[30] 80ff" {
		t.Errorf("%+v", f)
	}
	copy(tensor.Data[2*30:], unhex("0000"))
	f = scanFS(t, oneFile(tensor), Options{}).Findings[0]
	if f.Code != TensorOutlier || f.Outliers != 31 || len(f.First) != MaxPositions || at(f.First[7]) != "[7] 7073" {
		t.Errorf("%+v", f)
	}
}

// Weights that are zero throughout are reported with all, and nothing else is
// that may well be zero.
func TestZeros(t *testing.T) {
	for _, c := range []struct {
		name  string
		dtype st.DType
		shape []int
		fill  string
		zero  bool
	}{
		{"m.weight", st.BF16, []int{64, 64}, "0000", true},
		{"m.weight", st.BF16, []int{64, 64}, "0080", true}, // negative zeros
		{"m.weight", st.F32, []int{64, 64}, "00000000", true},
		{"m.weight", st.F8E4M3, []int{64, 64}, "80", true},
		{"m.weight", st.I8, []int{64, 64}, "00", true},
		{"m.weight", st.U8, []int{64, 64}, "00", true},        // ModelOpt's FP4
		{"m.weight_packed", st.U8, []int{64, 64}, "00", true}, // NVFP4
		{"m.weight_packed", st.U8, []int{64, 64}, "80", true}, // with negative zeros
		{"m.weight_packed", st.U8, []int{64, 64}, "88", true},
		{"experts.gate_up_proj", st.BF16, []int{4, 64, 64}, "0000", true},
		{"experts.gate_up_proj_blocks", st.U8, []int{4, 64, 2, 16}, "08", true},
		{"m.weight", st.I8, []int{64, 64}, "80", false},
		{"m.weight_packed", st.U8, []int{64, 64}, "10", false},
		{"m.weight", st.BF16, []int{64}, "0000", false}, // a norm
		{"m.bias", st.BF16, []int{64}, "0000", false},
		{"experts.gate_up_proj_bias", st.BF16, []int{4, 64}, "0000", false},
		{"m.weight_scale", st.F8E4M3, []int{64, 4}, "00", false},
		{"m.weight_zero_point", st.I8, []int{64, 1}, "00", false},
		{"m.cache", st.BF16, []int{64, 64}, "0000", false},
		{"m.weight", st.BF16, []int{0, 64}, "0000", false}, // nothing is not zero
	} {
		label := fmt.Sprintf("%s %s %v of %s", c.name, c.dtype, c.shape, c.fill)
		tensor := filled(c.name, c.dtype, c.shape, c.fill)
		if r := scanFS(t, oneFile(tensor), Options{}); len(r.Findings) > 0 {
			t.Errorf("%s, not asked for: %+v", label, r.Findings)
		}
		r := scanFS(t, oneFile(tensor), Options{All: true})
		switch {
		case !c.zero && len(r.Findings) > 0:
			t.Errorf("%s: %+v", label, r.Findings)
		case c.zero && len(r.Findings) != 1:
			t.Errorf("%s: %d findings", label, len(r.Findings))
		case c.zero:
			f := r.Findings[0]
			if f.Code != WeightZero || f.Severity != checkpoint.Degraded || !f.Zero || f.NaN+f.Inf+f.Outliers != 0 || f.First == nil || len(f.First) > 0 {
				t.Errorf("%s: %+v", label, f)
			}
			// The last bit makes it a weight.
			tensor.Data[len(tensor.Data)-1] ^= 1
			if r := scanFS(t, oneFile(tensor), Options{All: true}); len(r.Findings) > 0 {
				t.Errorf("%s but for a bit: %+v", label, r.Findings)
			}
		}
	}
}

// In quantized models too.
func TestZerosOfForms(t *testing.T) {
	const module = "model.layers.0.mlp.up_proj"
	for _, c := range []struct {
		m     *vectors.Model
		codes string
		part  scheme.Part
	}{
		{vectors.T0(), ".weight", scheme.Weight},
		{vectors.INT8(vectors.T0()), ".weight", scheme.Weight},
		{vectors.ModelOptNVFP4(vectors.T0()), ".weight", scheme.Weight},
		{vectors.NVFP4(vectors.T0(), false), ".weight_packed", scheme.Packed},
	} {
		clear(c.m.Tensor(module + c.codes).Data)
		clear(c.m.Tensor("model.norm.weight").Data)
		r := scanFS(t, c.m.FS(), Options{All: true})
		if len(r.Findings) != 1 || r.Findings[0].Tensor != module+c.codes || r.Findings[0].Part != c.part || r.Findings[0].Code != WeightZero {
			t.Errorf("%s: %+v", c.codes, r.Findings)
		}
	}
}

// The code of a NaN in each kind of scale.
func TestScaleCodes(t *testing.T) {
	for name, code := range map[string]string{
		"m.weight_scale": ScaleNaN, "m.weight_scale_inv": ScaleNaN, "m.scales": ScaleNaN, "experts.up_proj_weight_scale": ScaleNaN,
		"m.weight_scale_2": GlobalScale, "m.weight_global_scale": GlobalScale, "m.input_scale": GlobalScale,
		"m.input_global_scale": GlobalScale, "m.output_scale": GlobalScale, "m.k_scale": GlobalScale, "m.v_scale": GlobalScale,
		"m.bias": TensorNaN, "m.weight": TensorNaN, "m.sinks": TensorNaN, "norm": TensorNaN,
	} {
		f := scanFS(t, oneFile(filled(name, st.F32, []int{2}, "0000803f", "0000c07f")), Options{}).Findings[0]
		if f.Code != code || f.Severity != checkpoint.Corrupt {
			t.Errorf("%s: %s %s, want %s", name, f.Severity, f.Code, code)
		}
	}
}

// The severities that a finding may have, by its code.
func TestFindingsOfCodes(t *testing.T) {
	m := vectors.NVFP4(vectors.T1(), false)
	plantAt(m, "mtp.norm.weight", 0, "c07f")
	plantAt(m, "model.norm.weight", 0, "7073")
	plantAt(m, "model.layers.0.mlp.up_proj.weight_scale", 0, "7f")
	plantAt(m, "model.layers.0.mlp.up_proj.weight_global_scale", 0, "0000c0ff")
	clear(m.Tensor("model.layers.0.mlp.up_proj.weight_packed").Data)
	var got []string
	for _, f := range scanFS(t, m.FS(), Options{All: true}).Findings {
		got = append(got, fmt.Sprint(f.Code, " ", f.Severity, " ", f.Severity.Bad()))
	}
	slices.Sort(got)
	want := []string{"GSCALE-DOMAIN C true", "SCALE-NAN C true", "TENSOR-NAN C true", "TENSOR-OUTLIER D false", "WEIGHT-ZERO D false"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
