package checkpoint_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

func TestParseIndex(t *testing.T) {
	for _, test := range []struct {
		text    string
		files   string
		tensors string // in the file's order, each with its file's place
		total   float64
	}{
		{`{"weight_map":{}}`, "", "", math.NaN()},
		{`{"metadata":{"total_size":12},"weight_map":{"b":"y","a":"x"}}`, "x y", "b=y a=x", 12},
		{`{"weight_map":{"b":"x10","a":"x9","c":"x10"},"metadata":{"total_size":1.5e3}}`, "x9 x10", "b=x10 a=x9 c=x10", 1500},
		{" \n{\t\"weight_map\" : {\"a\" :\r\n\"x\"} }\n\n", "x", "a=x", math.NaN()},
		{`{"weight_map":{"\u0061":"\u0078","\"\\\/":"\n"}}`, "\n x", `a=x "\/=` + "\n", math.NaN()},
		{`{"weight_map":{"a":"x","b":"y","a":"z"}}`, "x y z", "a=z b=y", math.NaN()}, // the last counts
		{`{"weight_map":{"":""}}`, "", "=", math.NaN()},
		{`{"Weight_Map":7,"weight_map":{"a":"x"},"else":[{},null,[1]]}`, "x", "a=x", math.NaN()},
		{`{"metadata":{"total_size":"12","x":{"total_size":1}},"weight_map":{}}`, "", "", math.NaN()},
		{`{"metadata":null,"weight_map":{}}`, "", "", math.NaN()},
		{`{"metadata":[12],"total_size":1,"weight_map":{}}`, "", "", math.NaN()},
		{`{"metadata":{"total_size":0},"weight_map":{}}`, "", "", 0},
		{`{"metadata":{"total_size":-1e999},"weight_map":{}}`, "", "", math.Inf(-1)},
	} {
		x, err := checkpoint.ParseIndex([]byte(test.text))
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		var tensors []string
		for tensor := range x.Tensors() {
			file, ok := x.File(tensor)
			if !ok {
				t.Errorf("%s: %q has no file", test.text, tensor)
			}
			tensors = append(tensors, tensor+"="+file)
		}
		if got := strings.Join(tensors, " "); got != test.tensors || x.Len() != len(tensors) {
			t.Errorf("%s: %d tensors %q, want %q", test.text, x.Len(), got, test.tensors)
		}
		if got := strings.Join(x.Files(), " "); got != test.files {
			t.Errorf("%s: files %q, want %q", test.text, got, test.files)
		}
		if x.TotalSize != test.total && !(math.IsNaN(x.TotalSize) && math.IsNaN(test.total)) {
			t.Errorf("%s: total_size %v, want %v", test.text, x.TotalSize, test.total)
		}
		if _, ok := x.File("nosuch"); ok || x.Name != "" {
			t.Errorf("%s: a tensor that is not there, or a name %q", test.text, x.Name)
		}
	}
}

// badIndexes are no indexes; each with the byte and a word of the reason.
var badIndexes = []struct {
	text string
	at   int
	says string
}{
	{"", 0, "empty"},
	{" \n", 0, "empty"},
	{"[]", 1, "must be an object"},
	{`"weight_map"`, 12, "must be an object"},
	{"null", 4, "must be an object"},
	{"{}", 2, "no weight_map"},
	{`{"metadata":{"total_size":1}}`, 29, "no weight_map"},
	{`{"weight_map":null}`, 18, "weight_map must be an object"},
	{`{"weight_map":["a","x"]}`, 15, "weight_map must be an object"},
	{`{"weight_map":{"a":1}}`, 20, `"a" must be a string`},
	{`{"weight_map":{"a":null}}`, 23, `"a" must be a string`},
	{`{"weight_map":{"a":["x"]}}`, 20, `"a" must be a string`},
	{`{"weight_map":{"\u001b[2J\n":1}}`, 30, `"\x1b[2J\n" must be a string`},
	{`{"weight_map":{},"weight_map":{}}`, 29, "stands twice"},
	{`{"weight_map":{"a":"x"}`, 23, "ends too early"},
	{`{"weight_map":{"a":"x`, 21, "ends too early"},
	{`{"weight_map":{"a":"x"}} {}`, 25, "follows"},
	{`{"weight_map":{"a":"x"}}x`, 24, "not JSON"},
	{`{"weight_map":{"a":"x",}}`, 22, "not JSON"},
	{`{"weight_map":{a:"x"}}`, 15, "not JSON"},
	{`{"weight_map":{'a':'x'}}`, 15, "not JSON"},
	{`{"weight_map":{"a":"\ud800"}}`, 20, "not JSON"},
	{"{\"weight_map\":{\"a\":\"\xff\"}}", 20, "not JSON"},
	{"\ufeff{\"weight_map\":{}}", 0, "not JSON"},
	{`{"metadata":{"total_size":NaN},"weight_map":{}}`, 26, "not JSON"},
	{`{"metadata":{"total_size":01},"weight_map":{}}`, 27, "not JSON"},
	{`// index` + "\n" + `{"weight_map":{}}`, 0, "not JSON"},
	{"\x1f\x8b\x08\x00", 0, "not JSON"},
}

func TestParseIndexErrors(t *testing.T) {
	for _, test := range badIndexes {
		x, err := checkpoint.ParseIndex([]byte(test.text))
		if err == nil || x != nil {
			t.Errorf("%q: %v", test.text, x)
			continue
		}
		if at := fmt.Sprintf("byte %d: ", test.at); !strings.HasPrefix(err.Error(), at) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%q: %q\nwant %s… %s", test.text, err, at, test.says)
		}
	}
}

// TestIndexBombs has indexes that are deep, and names that are long.
func TestIndexBombs(t *testing.T) {
	deep := strings.Repeat("[", 1e6)
	for name, text := range map[string]string{
		"deep":              `{"x":` + deep,
		"deep objects":      strings.Repeat(`{"weight_map":`, 1e6),
		"deep metadata":     `{"metadata":{"total_size":` + deep,
		"deep, after a map": `{"weight_map":{"a":"x"},"x":` + deep,
	} {
		if _, err := checkpoint.ParseIndex([]byte(text)); err == nil {
			t.Errorf("%s: parsed", name)
		}
	}
	long := strings.Repeat("n", 10<<20)
	_, err := checkpoint.ParseIndex([]byte(`{"weight_map":{"` + long + `":1}}`))
	if err == nil || len(err.Error()) > 2000 || !strings.Contains(err.Error(), "10485760 bytes") {
		t.Errorf("%.3000s", err)
	}
}

// TestLongNames wants messages that stay short.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("n", 1<<20)
	m := vectors.T0()
	m.Files[indexName] = namely(m, long)
	fieldCase(t, "file", m, want{checkpoint.IndexPath, checkpoint.Fatal, long, nil, nil, []string{"no .safetensors file"}})
	m = vectors.T0()
	m.Add(shard1, vectors.Tensor{Name: long, DType: "U8", Shape: []int{1}, Data: []byte{1}})
	m.Add(shard2, vectors.Tensor{Name: long, DType: "U8", Shape: []int{1}, Data: []byte{2}})
	fieldCase(t, "tensor", m, want{checkpoint.ShardDuplicate, checkpoint.Corrupt, shard1, []string{long}, nil, []string{"0x01 here"}})
}

// TestNamesWithControls has tensors of any name: they are found, read, and
// printed quoted (expect sees to it).
func TestNamesWithControls(t *testing.T) {
	names := []string{"a\x00b", "a\nb", "\x1b]0;title\x07", "\x1b[2J\x1b[31mred", "\u202etxet", "", " ", "é", "\U0001f600", `"`, `\`, "../up", "\x7f", "__metadata"}
	m := vectors.T0()
	for i, name := range names {
		m.Add(shard1, vectors.Tensor{Name: name, DType: "U8", Shape: []int{1}, Data: []byte{byte(i)}})
	}
	fieldCase(t, "clean", m)
	bothWays(t, m, checkpoint.Options{}, func(t *testing.T, c *checkpoint.Checkpoint, err error) {
		if err != nil {
			t.Fatal(err)
		}
		holds(t, c, m)
	})

	ghosts := m.Clone()
	ghosts.Files[indexName] = m.Index()
	before := m.TotalSize()
	for _, name := range names {
		ghosts.Remove(name)
	}
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	fieldCase(t, "ghosts", ghosts, want{checkpoint.IndexTensorGhost, checkpoint.Corrupt, shard1, sorted, nil, nil}, totalSize(before, before-int64(len(names))))

	elsewhere := m.Clone()
	elsewhere.Files[indexName] = m.Index()
	for _, name := range names {
		elsewhere.Move(name, shard2)
	}
	fieldCase(t, "elsewhere", elsewhere, want{checkpoint.IndexTensorElsewhere, checkpoint.Degraded, shard1, sorted, nil, nil})

	twice := m.Clone()
	for _, name := range names {
		twice.Add(shard2, vectors.Tensor{Name: name, DType: "U8", Shape: []int{1}, Data: []byte{0xff}})
	}
	fieldCase(t, "twice", twice, want{checkpoint.ShardDuplicate, checkpoint.Corrupt, shard1, sorted, nil, nil})

	malformed := m.Clone()
	malformed.Files[shard1] = vectors.Encode(m.Shards[0].Tensors, nil)[:5000]
	all := tensorsOf(m.Shards[0])
	fieldCase(t, "cut", malformed, want{checkpoint.ShardMalformed, checkpoint.Fatal, shard1, all, errAny, nil})
}
