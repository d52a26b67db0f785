package scheme

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	st "github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

var update = flag.Bool("update", false, "write the golden files")

// text is everything that a survey says, for a golden file.
func (s *Survey) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d parameters, %d bytes\n", s.Params, s.Bytes)
	for _, d := range s.DTypes {
		fmt.Fprintf(&b, "dtype %s: %d tensors, %d bytes\n", d.DType, d.Tensors, d.Bytes)
	}
	for _, f := range s.Formats {
		fmt.Fprintf(&b, "format %s\n", f)
	}
	fmt.Fprintf(&b, "tied %t: %q, %q\n", s.Tied.Declared, s.Tied.Embedding, s.Tied.Head)
	fmt.Fprintf(&b, "declared %q: %q %q\n\n", s.Declared.Where, s.Declared.Method, s.Declared.Formats)
	for _, l := range s.Layers {
		fmt.Fprintf(&b, "%s | %s | %d | %d | %d\n", l.Modules, l.Scheme, l.Count, l.Params, l.Bytes)
	}
	return b.String()
}

// golden compares a survey with its file in testdata/layers.
func golden(t *testing.T, name string, s *Survey) {
	t.Helper()
	file := filepath.Join("testdata", "layers", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(s.text()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.text(); got != string(want) {
		t.Errorf("%s:\n%s\nwant:\n%s", name, got, want)
	}
	if len(s.Problems) > 0 {
		t.Errorf("%s: %v", name, s.Problems)
	}
	// The rows hold everything once.
	params, bytes := uint64(0), int64(0)
	for _, l := range s.Layers {
		params, bytes = params+l.Params, bytes+l.Bytes
	}
	if params != s.Params || bytes != s.Bytes {
		t.Errorf("%s: the rows add up to %d parameters, %d bytes", name, params, bytes)
	}
}

func TestLayers(t *testing.T) {
	models := map[string]*vectors.Model{
		"T0": vectors.T0(), "T1-NVFP4": vectors.NVFP4(vectors.T1(), false), "T2": vectors.T2(), "T3": vectors.T3(), "T3u": vectors.T3u(),
		"T4": vectors.T4(), "GPTOSS": vectors.GPTOSS(), "T0-ModelOpt": vectors.ModelOptNVFP4(vectors.T0()), "T3u-mixed": mixed(),
	}
	for name, m := range models {
		golden(t, name, look(t, m))
	}
	dirs, err := os.ReadDir(realDir)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, d := range dirs {
		if !d.IsDir() {
			continue
		}
		n++
		c, err := checkpoint.Open(filepath.Join(realDir, d.Name()), checkpoint.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if len(c.Problems()) > 0 {
			t.Errorf("%s: %v", d.Name(), c.Problems())
		}
		golden(t, d.Name(), Look(c))
	}
	if n < 5 {
		t.Errorf("%d checkpoints in %s", n, realDir)
	}
	files, err := os.ReadDir("testdata/layers")
	if err != nil || len(files) != n+len(models) {
		t.Errorf("%d golden files for %d checkpoints, %v", len(files), n+len(models), err)
	}
}

// realDir holds checkpoints written by the reference tools.
const realDir = "../internal/vectors/real"

// mixed is a mixture of experts in two formats: attention in FP8, experts in
// NVFP4, of which one expert was never quantized and another lost its input
// scale.
func mixed() *vectors.Model {
	attention := func(module string) bool { return strings.Contains(module, "self_attn") }
	m := vectors.FP8Channel(vectors.T3u(), vectors.Only(attention))
	fp8 := m.Quantization()["config_groups"].(map[string]any)["group_0"].(map[string]any)
	fp8["targets"] = []any{`re:.*self_attn\..*_proj$`}
	m = vectors.NVFP4(m, false, vectors.Only(func(module string) bool {
		return strings.Contains(module, ".experts.") && !strings.Contains(module, ".experts.2.")
	}))
	q := m.Quantization()
	q["format"] = "mixed-precision"
	q["config_groups"].(map[string]any)["group_1"] = fp8
	m.Remove("model.layers.0.mlp.experts.1.up_proj.input_global_scale")
	return m
}

// plain is a model of small tensors with those names.
func plain(names ...string) *vectors.Model {
	m := &vectors.Model{Files: map[string][]byte{}}
	for _, name := range names {
		m.Add("model.safetensors", tensor(name, st.BF16, 1, 2))
	}
	return m
}

// How names with numbers become rows.
func TestLayerNames(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  []string
	}{
		{[]string{"m.0.a.weight", "m.1.a.weight", "m.2.a.weight", "m.4.a.weight", "m.10.a.weight", "m.11.a.weight"}, []string{"m.{0-2,4,10-11}.a x6"}},
		{[]string{"m.2.a.weight", "m.10.a.weight"}, []string{"m.{2,10}.a x2"}},
		// Numbers in the last place, behind others.
		{[]string{"m.0.mlp.0.weight", "m.0.mlp.2.weight", "m.1.mlp.0.weight", "m.1.mlp.2.weight"}, []string{"m.{0-1}.mlp.{0,2} x4"}},
		{[]string{"a.0.1.2.weight", "a.0.1.3.weight"}, []string{"a.{0}.{1}.{2-3} x2"}},
		{[]string{"0.weight", "1.weight"}, []string{"{0-1} x2"}},
		// Siblings are drawn together if there are as many of one as of the other.
		{[]string{"m.0.q.weight", "m.0.k.weight", "m.1.q.weight", "m.1.k.weight"}, []string{"m.{0-1}.{k,q} x4"}},
		{[]string{"m.0.q.weight", "m.0.k.weight", "m.1.q.weight"}, []string{"m.{0-1}.q x2", "m.{0}.k x1"}},
		{[]string{"m.0.e.0.k.weight", "m.0.e.1.k.weight", "m.1.e.0.k.weight", "m.1.e.1.k.weight", "m.0.e.0.q.weight", "m.1.e.1.q.weight"},
			[]string{"m.{0-1}.e.{0-1}.k x4", "m.{0-1}.e.{0-1}.q x2"}},
		{[]string{"m.0.mlp.0.weight", "m.1.mlp.0.weight", "m.0.mlp.act.weight", "m.1.mlp.act.weight"}, []string{"m.{0-1}.mlp.act x2", "m.{0-1}.mlp.{0} x2"}},
		// Without numbers every module has a row.
		{[]string{"m.a.weight", "m.b.weight"}, []string{"m.a x1", "m.b x1"}},
		// No numbers.
		{[]string{"m.00.weight", "m.01.weight"}, []string{"m.00 x1", "m.01 x1"}},
		{[]string{"m.-1.weight", "m.99999999999999999999.weight", "m.1e3.weight"}, []string{"m.-1 x1", "m.1e3 x1", "m.99999999999999999999 x1"}},
		{[]string{"weight"}, []string{" x1"}},
	} {
		var got []string
		for _, l := range look(t, plain(c.names...)).Layers {
			got = append(got, fmt.Sprintf("%s x%d", l.Modules, l.Count))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.names, got, c.want)
		}
	}
}

func TestTied(t *testing.T) {
	tie := func(m *vectors.Model, value any) *vectors.Model {
		m.Config["tie_word_embeddings"] = value
		return m
	}
	without := func(m *vectors.Model, name string) *vectors.Model {
		m.Remove(name)
		return m
	}
	inText := func(m *vectors.Model) *vectors.Model {
		delete(m.Config, "tie_word_embeddings")
		m.Config["text_config"].(map[string]any)["tie_word_embeddings"] = true
		return m
	}
	noConfig := func(m *vectors.Model) *vectors.Model {
		m.Config = nil
		return m
	}
	mtp := vectors.T1()
	mtp.Add(mtp.Shards[0].Name, tensor("mtp.embed_tokens.weight", st.BF16, 32, 64))
	mtp.Add(mtp.Shards[0].Name, tensor("mtp.lm_head.weight", st.BF16, 32, 64))
	withBias := vectors.T0()
	withBias.Add(withBias.Shards[1].Name, tensor("lm_head.bias", st.BF16, 32))
	const embed, head = "model.embed_tokens.weight", "lm_head.weight"
	for name, c := range map[string]struct {
		m    *vectors.Model
		want Tied
	}{
		"not tied":                        {vectors.T0(), Tied{false, embed, head}},
		"tied, no head":                   {tie(without(vectors.T0(), head), true), Tied{true, embed, ""}},
		"tied, head stored":               {tie(vectors.T0(), true), Tied{true, embed, head}},
		"not tied, no head":               {without(vectors.T0(), head), Tied{false, embed, ""}},
		"tied in text_config":             {inText(vectors.T2()), Tied{true, "model.language_model.embed_tokens.weight", head}},
		"the top level beats text_config": {tie(inText(vectors.T2()), false), Tied{false, "model.language_model.embed_tokens.weight", head}},
		"null is no answer":               {tie(inText(vectors.T2()), nil), Tied{true, "model.language_model.embed_tokens.weight", head}},
		"not a boolean":                   {tie(vectors.T0(), "true"), Tied{false, embed, head}},
		"no config":                       {noConfig(vectors.T0()), Tied{false, embed, head}},
		"an MTP head with its own":        {mtp, Tied{false, embed, head}},
		"a head with a bias":              {withBias, Tied{false, embed, head}},
		"a quantized head":                {vectors.NVFP4(vectors.T0(), false, vectors.Also("lm_head")), Tied{false, embed, "lm_head.weight_packed"}},
		"a quantized embedding":           {vectors.INT4(vectors.T0(), 32, vectors.Also("model.embed_tokens")), Tied{false, "model.embed_tokens.weight_packed", head}},
		"GPT-2":                           {plain("wte.weight", "h.0.attn.output.weight"), Tied{false, "wte.weight", ""}},
		"Llama's own names":               {plain("tok_embeddings.weight", "output.weight", "layers.0.output.weight"), Tied{false, "tok_embeddings.weight", "output.weight"}},
	} {
		if got := look(t, c.m).Tied; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// Looking reads no more than headers and the shapes of packed codes.
func TestLookReads(t *testing.T) {
	for name, m := range map[string]*vectors.Model{"NVFP4": vectors.NVFP4(vectors.T0(), false), "INT4": vectors.INT4(vectors.T0(), 32)} {
		c := open(t, m.FS())
		before := c.BytesRead()
		Look(c)
		want := int64(0)
		if name == "INT4" {
			want = 14 * 16
		}
		if got := c.BytesRead() - before; got != want {
			t.Errorf("%s: %d bytes, want %d", name, got, want)
		}
	}
}
