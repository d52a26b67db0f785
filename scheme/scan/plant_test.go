package scan

import (
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	st "github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// faults are bad elements by dtype, in hex as they are stored, with their class:
// n, i or, where the tensor is no scale, o.
var faults = map[st.DType][]string{
	st.F8E4M3: {"n7f", "nff"},
	st.U8:     {"nff"}, // of MX scales
	st.BF16:   {"nc07f", "n817f", "nffff", "i807f", "i80ff", "o7073", "o1dc6"},
	st.F16:    {"n007e", "n01fc", "i007c", "i00fc", "oe370", "offfb"},
	st.F32:    {"n0000c07f", "n010080ff", "i0000807f", "i000080ff", "o01401c46", "offff7fff"},
}

// scaleEndings tell scales by their names.
var scaleEndings = []string{"_scale", "_scale_inv", "_scale_2", "scales"}

// A planted tensor is what has to be found in it.
type planted struct {
	tensor  checkpoint.Tensor
	scale   bool
	numbers map[int]string // fault by element
}

// plant writes n faults into the files, at random, and returns them by file and
// tensor.
func plant(t *testing.T, files fstest.MapFS, n int, r *rand.Rand) map[string]*planted {
	var candidates []*planted
	for tensor := range open(t, files).Tensors() {
		p := &planted{tensor, endsIn(tensor.Name, scaleEndings), map[int]string{}}
		if faults[tensor.DType] != nil && (tensor.DType != st.U8 || p.scale) && tensor.Bytes > 0 {
			candidates = append(candidates, p)
		}
	}
	done := map[string]*planted{}
	for range n {
		p := candidates[r.IntN(len(candidates))]
		f := faults[p.tensor.DType][r.IntN(len(faults[p.tensor.DType]))]
		if p.scale && f[0] == 'o' {
			continue
		}
		value := unhex(f[1:])
		number := r.IntN(int(p.tensor.Bytes) / len(value))
		p.numbers[number] = f
		copy(files[p.tensor.Shard.Name].Data[p.tensor.Offset+int64(number*len(value)):], value)
		done[p.tensor.Shard.Name+" "+p.tensor.Name] = p
	}
	return done
}

// want is the finding in one line.
func (p *planted) want() string {
	counts := map[byte]int{}
	for _, f := range p.numbers {
		counts[f[0]]++
	}
	var first []string
	for _, number := range slices.Sorted(maps.Keys(p.numbers)) {
		f := p.numbers[number]
		if counts['n']+counts['i'] > 0 && f[0] == 'o' {
			continue
		}
		index, rest := make([]uint64, len(p.tensor.Shape)), uint64(number)
		for i := len(index) - 1; i >= 0; i-- {
			index[i], rest = rest%p.tensor.Shape[i], rest/p.tensor.Shape[i]
		}
		first = append(first, fmt.Sprint(index, " ", f[1:], " ", p.tensor.Offset+int64(number*len(f[1:])/2)))
	}
	return fmt.Sprintf("%d NaN %d Inf %d outliers at %q", counts['n'], counts['i'], counts['o'], first[:min(len(first), MaxPositions)])
}

// holds wants exactly what was planted.
func holds(t *testing.T, label string, files fstest.MapFS, all bool, want map[string]*planted) {
	t.Helper()
	r := scanFS(t, files, Options{All: all})
	found := map[string]bool{}
	for _, f := range r.Findings {
		key := f.File + " " + f.Tensor
		found[key] = true
		p := want[key]
		if p == nil {
			t.Errorf("%s: nothing was planted there: %+v", label, f)
			continue
		}
		var first []string
		for _, pos := range f.First {
			first = append(first, fmt.Sprint(pos.Index, " ", pos.Value, " ", pos.Offset))
		}
		if got := fmt.Sprintf("%d NaN %d Inf %d outliers at %q", f.NaN, f.Inf, f.Outliers, first); got != p.want() {
			t.Errorf("%s: %s:\n%s, want\n%s", label, key, got, p.want())
		}
	}
	for key, p := range want {
		if seen := all || p.scale || len(p.tensor.Shape) < 2; found[key] != seen {
			t.Errorf("%s: %s found %t, want %t: %s", label, key, found[key], seen, p.want())
		}
	}
}

// bodies are models in many forms.
func bodies(t *testing.T) map[string]fstest.MapFS {
	models := realModels(t)
	for name, m := range map[string]*vectors.Model{
		"T0": vectors.T0(), "T1": vectors.T1(), "T2": vectors.T2(), "T3": vectors.T3(), "T4": vectors.T4(), "GPTOSS": vectors.GPTOSS(),
		"N(T1)": vectors.NVFP4(vectors.T1(), false), "N(T3u)": vectors.NVFP4(vectors.T3u(), true), "M(T3u)": vectors.ModelOptNVFP4(vectors.T3u()),
		"F(T4)": vectors.FP8Channel(vectors.T4()), "B(T0)": vectors.FP8Block(vectors.T0()), "I8(T0)": vectors.INT8(vectors.T0()),
		"I4(T2)": vectors.INT4(vectors.T2(), 16), "AWQ(T0)": vectors.AWQ(vectors.T0(), 32), "GPTQ(T0)": vectors.GPTQ(vectors.T0(), 32),
	} {
		models[name] = m.FS()
	}
	return models
}

// What is planted is found, all of it and nothing else.
func TestPlanted(t *testing.T) {
	const seed = 20
	for name, files := range bodies(t) {
		for _, all := range []bool{false, true} {
			holds(t, name+", clean", files, all, nil)
		}
		for round, n := range []int{1, 3, 40, 400} {
			planted := plant(t, files, n, rand.New(rand.NewPCG(seed, uint64(round))))
			if n == 400 && len(planted) < 8 {
				t.Errorf("%s: faults in %d tensors only", name, len(planted))
			}
			for _, all := range []bool{false, true} {
				holds(t, fmt.Sprintf("%s, %d faults, all %t", name, n, all), files, all, planted)
			}
			for _, p := range planted { // mend them, with something that is no fault
				for number, f := range p.numbers {
					clean := unhex(strings.Repeat("01", len(f)/2))
					copy(files[p.tensor.Shard.Name].Data[p.tensor.Offset+int64(number*len(clean)):], clean)
				}
			}
			holds(t, name+", mended", files, true, nil)
		}
	}
}

// A tensor full of faults is counted to the last.
func TestFullOfFaults(t *testing.T) {
	m := vectors.NVFP4(vectors.T0(), false)
	scale := m.Tensor("model.layers.1.mlp.up_proj.weight_scale")
	for i := range scale.Data {
		scale.Data[i] = 0x7f | byte(i)<<7
	}
	f := scanFS(t, m.FS(), Options{}).Findings[0]
	if f.NaN != int64(len(scale.Data)) || f.Message != "512 NaN of 512 scales" || len(f.First) != MaxPositions || hex.EncodeToString(scale.Data[7:8]) != f.First[7].Value {
		t.Errorf("%+v", f)
	}
}
