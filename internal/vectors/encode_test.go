package vectors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// The first three are the byte strings in the reference crate's own tests.
func TestEncodeGolden(t *testing.T) {
	ramp := F32(0, 1, 2, 3, 4, 5)
	for _, tt := range []struct {
		name    string
		tensors []Tensor
		meta    map[string]string
		want    string
	}{
		{"empty", nil, nil, "\x08\x00\x00\x00\x00\x00\x00\x00{}      "},
		{"metadata", nil, map[string]string{"framework": "pt"},
			"\x28\x00\x00\x00\x00\x00\x00\x00" + `{"__metadata__":{"framework":"pt"}}     `},
		{"padding", []Tensor{{"attn0", "F32", []int{1, 1, 2, 3}, ramp}}, nil,
			"\x48\x00\x00\x00\x00\x00\x00\x00" + `{"attn0":{"dtype":"F32","shape":[1,1,2,3],"data_offsets":[0,24]}}       ` + string(ramp)},
		{"order and escapes", []Tensor{
			{"b<&>", "U8", []int{2}, []byte("yz")},
			{"a\"\\\n\x01é", "U8", []int{1}, []byte("x")},
			{"z", "BF16", nil, []byte("BF")},
			{"m", "F8_E4M3", []int{0}, nil},
			{"n", "I64", []int{1}, []byte("12345678")},
		}, map[string]string{"format": "pt", "a": "b"},
			"\x50\x01\x00\x00\x00\x00\x00\x00" + `{"__metadata__":{"a":"b","format":"pt"},` +
				`"n":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},` +
				`"z":{"dtype":"BF16","shape":[],"data_offsets":[8,10]},` +
				`"m":{"dtype":"F8_E4M3","shape":[0],"data_offsets":[10,10]},` +
				`"a\"\\\n\u0001é":{"dtype":"U8","shape":[1],"data_offsets":[10,11]},` +
				`"b<&>":{"dtype":"U8","shape":[2],"data_offsets":[11,13]}}` + "     " + "12345678BFxyz"},
		{"empty metadata", nil, map[string]string{}, "\x18\x00\x00\x00\x00\x00\x00\x00" + `{"__metadata__":{}}     `},
	} {
		if got := Encode(tt.tensors, tt.meta); string(got) != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", tt.name, got, tt.want)
		}
	}
	if got, want := Raw("{}", []byte("x")), "\x02\x00\x00\x00\x00\x00\x00\x00{}x"; string(got) != want {
		t.Errorf("Raw: %q, want %q", got, want)
	}
}

var bits = map[string]int{
	"BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32,
	"F32": 32, "F64": 64, "I64": 64, "U64": 64, "F4": 4,
}

// decode parses a file without the package's help and checks its layout: contiguous data to the end, sizes that fit the shapes, dtype
// width descending, names ascending within a dtype.
func decode(t *testing.T, name string, file []byte) (tensors []Tensor, meta map[string]string) {
	t.Helper()
	n := binary.LittleEndian.Uint64(file)
	if n%8 != 0 {
		t.Errorf("%s: header of %d bytes is not padded", name, n)
	}
	var header map[string]json.RawMessage
	if err := json.Unmarshal(file[8:8+n], &header); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if raw, ok := header["__metadata__"]; ok {
		if err := json.Unmarshal(raw, &meta); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		delete(header, "__metadata__")
	}
	type entry struct {
		DType   string
		Shape   []int
		Offsets [2]int `json:"data_offsets"`
		name    string
	}
	var entries []entry
	for key, raw := range header {
		e := entry{name: key}
		if err := json.Unmarshal(raw, &e); err != nil {
			t.Fatalf("%s: %s: %v", name, key, err)
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b entry) int { return slices.Compare(a.Offsets[:], b.Offsets[:]) })
	data, end := file[8+n:], 0
	for i, e := range entries {
		if e.Offsets[0] != end || e.Offsets[1] < end {
			t.Fatalf("%s: %s starts at %d, not %d", name, e.name, e.Offsets[0], end)
		}
		end = e.Offsets[1]
		if want := product(e.Shape) * bits[e.DType] / 8; end-e.Offsets[0] != want {
			t.Errorf("%s: %s %s %v has %d bytes, want %d", name, e.name, e.DType, e.Shape, end-e.Offsets[0], want)
		}
		if i > 0 {
			before := entries[i-1]
			if bits[before.DType] < bits[e.DType] || before.DType == e.DType && before.name >= e.name {
				t.Errorf("%s: %s stands behind %s", name, e.name, before.name)
			}
		}
		tensors = append(tensors, Tensor{e.name, e.DType, e.Shape, data[e.Offsets[0]:end]})
	}
	if end != len(data) {
		t.Errorf("%s: data has %d bytes, tensors cover %d", name, len(data), end)
	}
	return tensors, meta
}

// checkFiles decodes every shard and compares each folder's indexes with the shards that they name.
func checkFiles(t *testing.T, files fstest.MapFS) map[string]Tensor {
	t.Helper()
	shards := map[string]map[string]Tensor{}
	all := map[string]Tensor{}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".safetensors") {
			return err
		}
		tensors, meta := decode(t, name, files[name].Data)
		if meta["format"] != "pt" {
			t.Errorf("%s: metadata %v", name, meta)
		}
		shards[name] = map[string]Tensor{}
		for _, tensor := range tensors {
			shards[name][tensor.Name] = tensor
			all[tensor.Name] = tensor
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range files {
		if !strings.Contains(name, ".index.") {
			continue
		}
		var index struct {
			Metadata struct {
				TotalSize int `json:"total_size"`
			}
			WeightMap map[string]string `json:"weight_map"`
		}
		if err := json.Unmarshal(file.Data, &index); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		total, named := 0, map[string]bool{}
		for tensor, shard := range index.WeightMap {
			found, ok := shards[path.Join(path.Dir(name), shard)][tensor]
			if !ok {
				t.Errorf("%s: %s is not in %s", name, tensor, shard)
			}
			total += len(found.Data)
			named[shard] = true
		}
		for shard := range named {
			for tensor := range shards[path.Join(path.Dir(name), shard)] {
				if index.WeightMap[tensor] != shard {
					t.Errorf("%s: %s of %s is listed for %q", name, tensor, shard, index.WeightMap[tensor])
				}
			}
		}
		if index.Metadata.TotalSize != total {
			t.Errorf("%s: total_size %d, want %d", name, index.Metadata.TotalSize, total)
		}
		if !bytes.HasPrefix(file.Data, []byte("{\n  \"metadata\": {\n    \"total_size\": ")) {
			t.Errorf("%s is spelt differently: %.60q", name, file.Data)
		}
	}
	return all
}
