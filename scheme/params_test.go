package scheme

import (
	"testing"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	st "github.com/ckpt-surgery/ckpt/safetensors"
)

// Storing a model otherwise does not change the number of its parameters.
func TestParamsOfForms(t *testing.T) {
	for name, build := range map[string]func() *vectors.Model{"T0": vectors.T0, "T3u": vectors.T3u} {
		plain := map[string]uint64{}
		var total uint64
		for _, m := range Modules(open(t, build().FS())) {
			plain[m.Name] = m.Params()
			total += m.Params()
		}
		if name == "T0" && total != 78144 || name == "T3u" && total != 78336 {
			t.Errorf("%s has %d parameters", name, total)
		}
		for _, form := range forms {
			fsys := form.store(build()).FS()
			s := Look(open(t, fsys))
			if s.Params != total {
				t.Errorf("%s(%s) has %d parameters, want %d", form.name, name, s.Params, total)
			}
			modules := Modules(open(t, fsys))
			if len(modules) != len(plain) {
				t.Errorf("%s(%s) has %d modules, want %d", form.name, name, len(modules), len(plain))
			}
			for _, m := range modules {
				if m.Params() != plain[m.Name] {
					t.Errorf("%s(%s): %s has %d parameters, want %d", form.name, name, m.Name, m.Params(), plain[m.Name])
				}
			}
		}
	}
}

func TestParamsOfModules(t *testing.T) {
	for _, c := range []struct {
		name    string
		want    uint64
		tensors []vectors.Tensor
	}{
		{"a bias counts", 64*32 + 64, []vectors.Tensor{tensor("m.weight", st.BF16, 64, 32), tensor("m.bias", st.BF16, 64)}},
		{"what is no companion counts", 7, []vectors.Tensor{tensor("m.sinks", st.BF16, 7)}},
		{"a scalar counts", 1, []vectors.Tensor{tensor("m.logit_scale", st.BF16)}},
		{"companions do not", 64 * 32, []vectors.Tensor{tensor("m.weight", st.I8, 64, 32), tensor("m.weight_scale", st.BF16, 64, 1),
			tensor("m.weight_zero_point", st.I8, 64, 1), tensor("m.input_scale", st.BF16, 1), tensor("m.input_zero_point", st.I8, 1),
			tensor("m.output_scale", st.BF16, 1), tensor("m.k_scale", st.F32)}},
		{"gpt-oss", 4*64*128 + 4*64, []vectors.Tensor{tensor("experts.up_proj_blocks", st.U8, 4, 64, 4, 16),
			tensor("experts.up_proj_scales", st.U8, 4, 64, 4), tensor("experts.up_proj_bias", st.BF16, 4, 64)}},
		{"FP4 in signed bytes", 64 * 256, []vectors.Tensor{tensor("m.weight", st.I8, 64, 128), tensor("m.scale", st.F8E8M0, 64, 8)}},
		{"bytes that are no codes", 64 * 32, []vectors.Tensor{tensor("m.weight", st.U8, 64, 32)}},
		{"AWQ with act-order's index", 64 * 128, []vectors.Tensor{tensor("m.qweight", st.I32, 64, 16), tensor("m.qzeros", st.I32, 2, 16),
			tensor("m.scales", st.F16, 2, 128), tensor("m.g_idx", st.I32, 64)}},
		{"nothing", 0, []vectors.Tensor{tensor("m.weight", st.BF16, 0, 32)}},
	} {
		if got := module(t, c.tensors...).Params(); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// The members of a module may be in different shards; they come in natural order.
func TestModules(t *testing.T) {
	m := vectors.NVFP4(vectors.T0(), false)
	const name = "model.layers.1.self_attn.o_proj"
	m.Move(name+".weight_scale", m.Shards[0].Name)
	modules := Modules(open(t, m.FS()))
	var before string
	for i, mod := range modules {
		if i > 0 && mod.Name <= before { // no number in T0 has two digits
			t.Errorf("%s stands behind %s", mod.Name, before)
		}
		before = mod.Name
		if mod.Name != name {
			continue
		}
		var got []string
		var bytes int64
		for _, member := range mod.Members {
			got = append(got, member.Name+" "+string(member.Part)+" "+member.Shard.Name)
			bytes += member.Bytes
		}
		want := []string{
			name + ".input_global_scale input-global-scale model-00002-of-00002.safetensors",
			name + ".weight_global_scale global-scale model-00002-of-00002.safetensors",
			name + ".weight_packed packed model-00002-of-00002.safetensors",
			name + ".weight_scale scale model-00001-of-00002.safetensors",
		}
		if len(got) != len(want) {
			t.Fatalf("%s has %q", name, got)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("member %d is %q, want %q", i, got[i], want[i])
			}
		}
		if mod.Bytes() != bytes || bytes != 64*32+64*4+4+4 {
			t.Errorf("%d bytes, want %d", mod.Bytes(), bytes)
		}
		if mod.Get(Scale).Shard.Name != m.Shards[0].Name || mod.Get(Weight) != nil {
			t.Error("Get")
		}
		if d := mod.Detect(); d.Missing != "" {
			t.Errorf("%q", d)
		}
	}
	if len(modules) != 21 {
		t.Errorf("%d modules", len(modules))
	}
}
