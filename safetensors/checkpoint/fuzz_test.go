package checkpoint_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// FuzzIndex parses any bytes. What parses must hold together, and encoding/json
// must read the same weight_map.
func FuzzIndex(f *testing.F) {
	p := vectors.Diffusers()
	for _, m := range []*vectors.Model{vectors.T0(), vectors.T1(), vectors.NVFP4(vectors.T3u(), false), vectors.GPTOSS(), p.Components[transformer][1]} {
		f.Add(m.Index())
	}
	for _, test := range badIndexes {
		f.Add([]byte(test.text))
	}
	for _, text := range []string{
		`{"weight_map":{"a":"x","a":"y","a":"x"}}`, `{"weight_map":{"\u0061":"../x","":"/etc/passwd"},"metadata":{"total_size":1e999}}`,
		`{"weight_map":{"a":"x"},"Weight_map":{"a":"y"}}`, `{"weight_map":{"\ud83d\ude00":"\u0000"}}`, `{"metadata":{"total_size":-0},"weight_map":{}}`,
		`{"weight_map":{"x":"m-10","y":"m-9","z":"m-09"}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		x, err := checkpoint.ParseIndex(text)
		if err != nil {
			if x != nil || !strings.HasPrefix(err.Error(), "byte ") {
				t.Errorf("%v and %q", x, err)
			}
			return
		}
		var whole map[string]json.RawMessage
		if err := json.Unmarshal(text, &whole); err != nil {
			t.Fatalf("encoding/json refuses %q: %v", text, err)
		}
		var want map[string]string
		if err := json.Unmarshal(whole["weight_map"], &want); err != nil {
			t.Fatalf("encoding/json refuses the weight_map of %q: %v", text, err)
		}
		got := map[string]string{}
		listed := map[string]bool{}
		for tensor := range x.Tensors() {
			file, ok := x.File(tensor)
			if _, again := got[tensor]; again || !ok {
				t.Errorf("%q comes twice, or has no file", tensor)
			}
			got[tensor], listed[file] = file, true
		}
		if !maps.Equal(got, want) || x.Len() != len(want) {
			t.Errorf("%q: %d tensors %q, encoding/json reads %q", text, x.Len(), got, want)
		}
		files := x.Files()
		for file := range listed {
			if !slices.Contains(files, file) {
				t.Errorf("%q is not among the files", file)
			}
		}
		if sorted := slices.Sorted(slices.Values(files)); len(slices.Compact(sorted)) != len(files) {
			t.Errorf("a file comes twice in %q", files)
		}
	})
}
