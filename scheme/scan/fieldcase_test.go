package scan

import (
	"slices"
	"strings"
	"testing"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// plantAt overwrites an element, given in hex as stored, of a tensor.
func plantAt(m *vectors.Model, tensor string, number int, element string) {
	value := unhex(element)
	copy(m.Tensor(tensor).Data[number*len(value):], value)
}

// expected is a finding in short.
type expected struct {
	code          string
	severity      checkpoint.Severity
	tensor        string
	nan, inf, out int64
	first         []string
	message       string
}

// verify wants exactly these findings.
func verify(t *testing.T, m *vectors.Model, want ...expected) {
	t.Helper()
	files := m.FS()
	for _, workers := range []int{1, 2} {
		r := scanFS(t, files, Options{Workers: workers})
		if len(r.Findings) != len(want) {
			t.Fatalf("%d findings, want %d: %+v", len(r.Findings), len(want), r.Findings)
		}
		for i, w := range want {
			f := r.Findings[i]
			var first []string
			for _, p := range f.First {
				first = append(first, at(p))
			}
			if f.Code != w.code || f.Severity != w.severity || f.Tensor != w.tensor || f.NaN != w.nan || f.Inf != w.inf || f.Outliers != w.out {
				t.Errorf("%+v, want %+v", f, w)
			}
			if f.File != m.ShardOf(w.tensor).Name || f.DType != m.Tensor(w.tensor).DType {
				t.Errorf("%s is in %s and %s", f.Tensor, f.File, f.DType)
			}
			if !slices.Equal(first, w.first) {
				t.Errorf("%s: at %q, want %q", f.Tensor, first, w.first)
			}
			// Only E4M3 has a largest value to which a NaN can be clamped.
			clamp := w.code == ScaleNaN && f.DType == "F8_E4M3"
			if f.Message != w.message || f.Repair == "" || strings.Contains(f.Repair, "clamp-nan") != clamp {
				t.Errorf("%s: %q, %q; want %q", f.Tensor, f.Message, f.Repair, w.message)
			}
			checkPositions(t, open(t, files), files, f)
		}
	}
}

// A norm of the MTP head with one NaN: the drafter proposes nothing that is
// accepted.
func TestFieldCase8(t *testing.T) {
	m := vectors.T1()
	plantAt(m, "mtp.norm.weight", 17, "c07f")
	verify(t, m, expected{TensorNaN, checkpoint.Corrupt, "mtp.norm.weight", 1, 0, 0, []string{"[17] c07f"}, "1 NaN of 64 values"})
}

// Block scales that a cast without clamp made NaN: four bytes, one tensor, one
// file.
func TestFieldCase32(t *testing.T) {
	m := vectors.NVFP4(vectors.T0(), false)
	const scale = "model.layers.1.self_attn.o_proj.weight_scale" // [64, 4]
	for number, value := range map[int]string{2: "7f", 7: "7f", 130: "ff", 255: "7f"} {
		plantAt(m, scale, number, value)
	}
	verify(t, m, expected{ScaleNaN, checkpoint.Corrupt, scale, 4, 0, 0,
		[]string{"[0 2] 7f", "[1 3] 7f", "[32 2] ff", "[63 3] 7f"}, "4 NaN of 256 scales"})
}

// 16-bit scales that are Inf and NaN.
func TestFieldCase33(t *testing.T) {
	const a, b = "model.layers.0.mlp.up_proj.weight_scale", "model.layers.1.mlp.up_proj.weight_scale" // [128, 2]
	m := vectors.INT4(vectors.T0(), 32)
	plantAt(m, a, 3, "807f")
	plantAt(m, b, 254, "c07f")
	verify(t, m,
		expected{ScaleNaN, checkpoint.Corrupt, a, 0, 1, 0, []string{"[1 1] 807f"}, "1 Inf of 256 scales"},
		expected{ScaleNaN, checkpoint.Corrupt, b, 1, 0, 0, []string{"[127 0] c07f"}, "1 NaN of 256 scales"})

	// Both in one tensor.
	m = vectors.INT4(vectors.T0(), 32)
	plantAt(m, a, 3, "807f")
	plantAt(m, a, 254, "c07f")
	verify(t, m, expected{ScaleNaN, checkpoint.Corrupt, a, 1, 1, 0, []string{"[1 1] 807f", "[127 0] c07f"}, "1 NaN and 1 Inf of 256 scales"})
}

// The activation scale of an expert that no calibration sample reached.
func TestFieldCase35(t *testing.T) {
	m := vectors.NVFP4(vectors.T3u(), false)
	const scale = "model.layers.0.mlp.experts.2.down_proj.input_global_scale"
	plantAt(m, scale, 0, "0000807f")
	verify(t, m, expected{GlobalScale, checkpoint.Corrupt, scale, 0, 1, 0, []string{"[0] 0000807f"},
		"1 Inf; all that this scale applies to becomes NaN or zero"})

	// ModelOpt's has no dimensions.
	m = vectors.ModelOptNVFP4(vectors.T3u())
	const modelopt = "model.layers.0.mlp.experts.2.down_proj.input_scale"
	plantAt(m, modelopt, 0, "0000c07f")
	verify(t, m, expected{GlobalScale, checkpoint.Corrupt, modelopt, 1, 0, 0, []string{"[] 0000c07f"},
		"1 NaN; all that this scale applies to becomes NaN or zero"})
}

// A parameter that a converter left behind, with a NaN and a huge value.
func TestFieldCase42(t *testing.T) {
	m := vectors.T0()
	junk := vectors.Tensor{Name: "norm_final.weight", DType: "BF16", Shape: []int{64}, Data: vectors.BF16(slices.Repeat([]float32{1}, 64)...)}
	m.Add(m.Shards[1].Name, junk)
	plantAt(m, junk.Name, 5, "c07f")
	copy(m.Tensor(junk.Name).Data[2*9:], vectors.BF16(1.9e31))
	verify(t, m, expected{TensorNaN, checkpoint.Corrupt, junk.Name, 1, 0, 1, []string{"[5] c07f"}, "1 NaN of 64 values"})

	// Without the NaN the value alone is reported.
	plantAt(m, junk.Name, 5, "803f")
	verify(t, m, expected{TensorOutlier, checkpoint.Degraded, junk.Name, 0, 0, 1, []string{"[9] 7073"}, "1 finite value(s) above 10000"})
}
