package scan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	st "github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/scheme"
)

// A selection says which tensors of a form are scanned: their endings.
type selection struct {
	name   string
	store  func(m *vectors.Model) *vectors.Model
	scales []string // by default, beside the norms
	never  []string // not even with all
}

var selections = []selection{
	{"plain", func(m *vectors.Model) *vectors.Model { return m }, nil, nil},
	{"N", func(m *vectors.Model) *vectors.Model { return vectors.NVFP4(m, false) },
		[]string{".weight_scale", ".weight_global_scale", ".input_global_scale"}, nil},
	{"N-W4A16", func(m *vectors.Model) *vectors.Model { return vectors.NVFP4(m, true) },
		[]string{".weight_scale", ".weight_global_scale"}, nil},
	{"M", func(m *vectors.Model) *vectors.Model { return vectors.ModelOptNVFP4(m) },
		[]string{".weight_scale", ".weight_scale_2", ".input_scale"}, nil},
	{"F", func(m *vectors.Model) *vectors.Model { return vectors.FP8Channel(m) }, []string{".weight_scale"}, nil},
	{"B", func(m *vectors.Model) *vectors.Model { return vectors.FP8Block(m) }, []string{".weight_scale_inv"}, nil},
	{"I8", func(m *vectors.Model) *vectors.Model { return vectors.INT8(m) }, []string{".weight_scale"}, nil},
	{"I4", func(m *vectors.Model) *vectors.Model { return vectors.INT4(m, 32) },
		[]string{".weight_scale"}, []string{".weight_packed", ".weight_shape"}},
	{"AWQ", func(m *vectors.Model) *vectors.Model { return vectors.AWQ(m, 32) }, []string{".scales"}, []string{".qweight", ".qzeros"}},
	{"GPTQ", func(m *vectors.Model) *vectors.Model { return vectors.GPTQ(m, 32) },
		[]string{".scales"}, []string{".qweight", ".qzeros", ".g_idx"}},
	{"GPTOSS", func(*vectors.Model) *vectors.Model { return vectors.GPTOSS() },
		[]string{"_scales", ".bias", ".sinks"}, nil}, // the stacked biases have rank 2
}

func endsIn(name string, endings []string) bool {
	return slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(name, e) })
}

// Exactly these are scanned, and they add up.
func TestSelection(t *testing.T) {
	for _, s := range selections {
		for body, build := range map[string]func() *vectors.Model{"T1": vectors.T1, "T3u": vectors.T3u} {
			m := s.store(build())
			for _, all := range []bool{false, true} {
				label := fmt.Sprintf("%s(%s) all %t", s.name, body, all)
				var want []string
				var bytes, leftBytes int64
				left := 0
				for _, name := range m.Names() {
					tensor := m.Tensor(name)
					switch {
					case strings.Contains(name, "norm") && len(tensor.Shape) == 1, endsIn(name, s.scales), all && !endsIn(name, s.never):
						want = append(want, name)
						bytes += int64(len(tensor.Data))
					case !all && !endsIn(name, s.never) && tensor.DType != "U8" && tensor.DType != "I8":
						left++
						leftBytes += int64(len(tensor.Data))
					}
				}
				targets, planned := plan(open(t, m.FS()), all)
				var got []string
				for _, target := range targets {
					got = append(got, target.Name)
				}
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Errorf("%s: scans %q, want %q", label, got, want)
				}
				r := scanFS(t, m.FS(), Options{All: all})
				if r.Tensors != len(want) || r.Bytes != bytes || planned.Tensors != r.Tensors || planned.Bytes != r.Bytes {
					t.Errorf("%s: %d tensors, %d bytes; want %d, %d", label, r.Tensors, r.Bytes, len(want), bytes)
				}
				if len(r.Findings) > 0 {
					t.Errorf("%s: %+v", label, r.Findings)
				}
				var notChecked []string
				if left > 0 {
					notChecked = []string{fmt.Sprintf("%d float tensors of rank 2 and more (%d bytes); --all scans them", left, leftBytes)}
				}
				if !slices.Equal(r.NotChecked, notChecked) {
					t.Errorf("%s: not checked %q, want %q", label, r.NotChecked, notChecked)
				}
			}
		}
	}
}

// By default whatever is a scale or has fewer than two dimensions is scanned, if
// its bits can be wrong.
func TestSelectionByShape(t *testing.T) {
	for _, c := range []struct {
		name         string
		dtype        st.DType
		shape        []int
		scanned, all bool
	}{
		{"m.weight", st.BF16, []int{2, 2}, false, true},
		{"m.weight", st.BF16, []int{4}, true, true},
		{"m.weight", st.BF16, nil, true, true},
		{"m.weight", st.BF16, []int{1, 4}, false, true},
		{"m.bias", st.F32, []int{4}, true, true},
		{"m.inv_freq", st.F64, []int{4}, true, true},
		{"m.weight_scale", st.F32, []int{2, 2}, true, true},
		{"m.weight_scale_inv", st.BF16, []int{2, 2}, true, true},
		{"m.k_scale", st.BF16, []int{2, 1, 1}, true, true},
		{"experts.gate_up_proj_weight_scale", st.F8E4M3, []int{2, 2, 2}, true, true},
		{"experts.gate_up_proj_scales", st.U8, []int{2, 2, 2}, true, true},
		{"experts.gate_up_proj_blocks", st.U8, []int{2, 2, 1, 16}, false, true},
		{"m.weight", st.F8E4M3, []int{2, 2}, false, true},
		{"m.weight", st.F8E4M3, []int{4}, true, true},
		{"m.weight", st.F8E5M2FNUZ, []int{2, 2}, false, true},
		{"m.weight", st.C64, []int{2}, true, true},
		{"m.weight", st.C64, []int{2, 2}, false, true},
		{"m.weight", st.I8, []int{2, 2}, false, true},
		{"m.weight", st.U8, []int{2, 2}, false, true},
		{"m.weight", st.F4, []int{2, 2}, false, true},
		{"m.weight_packed", st.I32, []int{2, 2}, false, false},
		{"m.weight_shape", st.I64, []int{2}, false, false},
		{"m.weight_zero_point", st.I8, []int{2, 1}, false, false},
		{"m.input_zero_point", st.I8, []int{1}, false, false},
		{"m.weight.absmax", st.U8, []int{4}, false, false},
		{"m.weight", st.I32, []int{2, 2}, false, false},
		{"m.mask", st.BOOL, []int{4}, false, false},
	} {
		files := oneFile(filled(c.name, c.dtype, c.shape, strings.Repeat("00", max(1, c.dtype.Bits()/8))))
		if c.dtype == st.F4 {
			files = oneFile(vectors.Tensor{Name: c.name, DType: "F4", Shape: c.shape, Data: []byte{0x11, 0x11}})
		}
		for all, want := range map[bool]bool{false: c.scanned, true: c.all} {
			r := scanFS(t, files, Options{All: all})
			if r.Tensors > 1 || (r.Tensors == 1) != want {
				t.Errorf("%s %s %v, all %t: %d scanned", c.name, c.dtype, c.shape, all, r.Tensors)
			}
		}
	}
}

// What cannot be scanned is said: unknown dtypes, and files that are not loaded.
func TestNotChecked(t *testing.T) {
	m := vectors.T0()
	for i, dtype := range []string{"F128", "F128", "BF17"} {
		m.Add(m.Shards[i%2].Name, vectors.Tensor{Name: fmt.Sprint("odd.", i, ".weight_scale"), DType: dtype, Shape: []int{2}, Data: make([]byte, 6)})
	}
	for all, want := range map[bool][]string{
		true:  {`1 tensor(s) of the unknown dtype "BF17"`, `2 tensor(s) of the unknown dtype "F128"`},
		false: {`16 float tensors of rank 2 and more (155648 bytes); --all scans them`, `1 tensor(s) of the unknown dtype "BF17"`, `2 tensor(s) of the unknown dtype "F128"`},
	} {
		if r := scanFS(t, m.FS(), Options{All: all}); !slices.Equal(r.NotChecked, want) {
			t.Errorf("all %t: %q, want %q", all, r.NotChecked, want)
		}
	}

	m = vectors.T0()
	first, second := m.Shards[0].Name, m.Shards[1].Name
	for name, c := range map[string]struct {
		change func(files fstest.MapFS)
		want   string
	}{
		"a lost shard":      {func(f fstest.MapFS) { delete(f, second) }, `"` + second + `": INDEX-FILE-MISSING`},
		"a truncated shard": {func(f fstest.MapFS) { f[second].Data = f[second].Data[:len(f[second].Data)-1] }, `"` + second + `": SHARD-MALFORMED`},
		"an unlisted shard": {func(f fstest.MapFS) { f["extra.safetensors"] = f[first] }, `"extra.safetensors": INDEX-FILE-UNLISTED`},
	} {
		files := m.FS()
		c.change(files)
		if r := scanFS(t, files, Options{All: true}); !slices.Contains(r.NotChecked, c.want) {
			t.Errorf("%s: %q, want %q", name, r.NotChecked, c.want)
		}
	}
}

// A tensor that stands in two shards is scanned in both.
func TestDuplicates(t *testing.T) {
	m := vectors.T0()
	for _, s := range m.Shards {
		m.Add(s.Name, vectors.Tensor{Name: "twice.weight_scale", DType: "BF16", Shape: []int{1}, Data: unhex("c07f")})
	}
	r := scanFS(t, m.FS(), Options{})
	if len(r.Findings) != 2 || r.Findings[0].File != m.Shards[0].Name || r.Findings[1].File != m.Shards[1].Name {
		t.Errorf("%+v", r.Findings)
	}
	// The duplicate is a problem of files that are scanned all the same.
	if r := scanFS(t, m.FS(), Options{All: true}); len(r.NotChecked) > 0 {
		t.Errorf("not checked %q", r.NotChecked)
	}
}

// Findings come in the order of shards and data, with what kind of tensor it is.
func TestOrderAndParts(t *testing.T) {
	m := vectors.NVFP4(vectors.T0(), false)
	want := map[string]scheme.Part{
		"model.layers.0.mlp.up_proj.input_global_scale":   scheme.InputGlobalScale,
		"model.layers.0.mlp.up_proj.weight_global_scale":  scheme.GlobalScale,
		"model.layers.0.input_layernorm.weight":           scheme.Weight,
		"model.layers.0.self_attn.k_proj.weight_scale":    scheme.Scale,
		"model.layers.1.mlp.down_proj.input_global_scale": scheme.InputGlobalScale,
		"model.norm.weight":                               scheme.Weight,
		"model.layers.1.self_attn.q_proj.weight_scale":    scheme.Scale,
	}
	codes := map[scheme.Part]string{scheme.InputGlobalScale: GlobalScale, scheme.GlobalScale: GlobalScale, scheme.Weight: TensorNaN, scheme.Scale: ScaleNaN}
	for name := range want {
		data := m.Tensor(name).Data
		data[len(data)-1], data[max(0, len(data)-2)] = 0x7f, 0xff
	}
	r := scanFS(t, m.FS(), Options{})
	if len(r.Findings) != len(want) {
		t.Fatalf("%+v", r.Findings)
	}
	file, offset := "", int64(0)
	for _, f := range r.Findings {
		if f.Part != want[f.Tensor] || f.Code != codes[f.Part] || f.Severity != "C" || f.Message == "" || f.Repair == "" {
			t.Errorf("%+v", f)
		}
		if f.File < file || f.File == file && f.First[0].Offset < offset {
			t.Errorf("%s at %s %d stands behind %s %d", f.Tensor, f.File, f.First[0].Offset, file, offset)
		}
		file, offset = f.File, f.First[0].Offset
	}
}
