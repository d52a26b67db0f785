package checkpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// fault plants one fault in T0, which is clean without it.
type fault struct {
	name  string
	plant func(m *vectors.Model)
	// disk plants what a Model cannot hold; the file system is then a folder.
	disk func(t *testing.T, dir string)
	// fsys plants it in OpenFS; nil for the model's own file system.
	fsys     func(fstest.MapFS) fs.FS
	openOnly bool // the fault is one of paths, which a file system keeps to itself
	problem  want
}

// indexed is T0's index with one replacement.
func indexed(m *vectors.Model, old, new string) []byte {
	text := string(m.Index())
	if strings.Count(text, old) != 1 {
		panic(fmt.Sprintf("%q stands %d times in the index", old, strings.Count(text, old)))
	}
	return []byte(strings.Replace(text, old, new, 1))
}

const lmHeadEntry = `"lm_head.weight": "` + shard2 + `"`

// faults are the faults that can be planted on any system.
var faults = []fault{
	{name: "index is cut", problem: want{checkpoint.IndexMalformed, checkpoint.Fatal, indexName, nil, errAny, []string{"ends too early", "write the index again"}},
		plant: func(m *vectors.Model) { m.Files[indexName] = m.Index()[:1000] }},
	{name: "key twice", problem: want{checkpoint.IndexKeyDuplicate, checkpoint.Corrupt, indexName, []string{lmHead}, nil, []string{"1 tensor(s)", "more than once"}},
		plant: func(m *vectors.Model) {
			m.Files[indexName] = indexed(m, lmHeadEntry, lmHeadEntry+", "+lmHeadEntry+", "+lmHeadEntry)
		}},
	{name: "path that is refused", problem: want{checkpoint.IndexPath, checkpoint.Fatal, "../" + shard2, nil, nil, []string{"beside the index"}},
		plant: func(m *vectors.Model) {
			m.Files[indexName] = indexed(m, lmHeadEntry, `"lm_head.weight": "../`+shard2+`"`)
		}},
	{name: "file missing", problem: want{checkpoint.IndexFileMissing, checkpoint.Fatal, shard2, tensorsOf(vectors.T0().Shards[1]), nil, []string{"12 tensor(s)", "fetch"}},
		plant: func(m *vectors.Model) { m.Files[shard2] = nil }},
	{name: "file unlisted", problem: want{checkpoint.IndexFileUnlisted, checkpoint.Degraded, "extra.safetensors", []string{"new"}, nil, []string{"1 of its 2 tensors", "weight_map"}},
		plant: func(m *vectors.Model) {
			m.Files["extra.safetensors"] = vectors.Encode([]vectors.Tensor{vectors.Normal("new", 2), vectors.Normal(lmHead, 32, 64)}, nil)
		}},
	{name: "file unlisted, a copy", problem: want{checkpoint.IndexFileUnlisted, checkpoint.Degraded, "model.safetensors", nil, nil, []string{"0 of its 12 tensors", "delete the file"}},
		plant: func(m *vectors.Model) { m.Files["model.safetensors"] = weights(1) }},
	{name: "file unlisted, not weights", problem: want{checkpoint.IndexFileUnlisted, checkpoint.Degraded, "x.safetensors", nil, nil, []string{"not readable"}},
		plant: func(m *vectors.Model) { m.Files["x.safetensors"] = []byte("x") }},
	{name: "file unlisted, with a dot in its name", problem: want{checkpoint.IndexFileUnlisted, checkpoint.Degraded, "mtp-v1.5.safetensors", []string{"mtp.fc.weight"}, nil, []string{"1 of its 1 tensors"}},
		plant: func(m *vectors.Model) {
			m.Files["mtp-v1.5.safetensors"] = vectors.Encode([]vectors.Tensor{vectors.Normal("mtp.fc.weight", 2)}, nil)
		}},
	{name: "ghost", problem: want{checkpoint.IndexTensorGhost, checkpoint.Corrupt, shard2, []string{"ghost"}, nil, []string{"1 tensor(s)", "fetch"}},
		plant: func(m *vectors.Model) {
			m.Files[indexName] = indexed(m, lmHeadEntry, lmHeadEntry+`, "ghost": "`+shard2+`"`)
		}},
	{name: "elsewhere", problem: want{checkpoint.IndexTensorElsewhere, checkpoint.Degraded, shard1, []string{lmHead}, nil, []string{"1 tensor(s)", shard2}},
		plant: func(m *vectors.Model) { m.Files[indexName] = indexed(m, lmHeadEntry, `"lm_head.weight": "`+shard1+`"`) }},
	{name: "unlisted", problem: want{checkpoint.IndexTensorUnlisted, checkpoint.Note, shard2, []string{lmHead}, nil, []string{"1 tensor(s)"}},
		plant: func(m *vectors.Model) { m.Files[indexName] = indexed(m, lmHeadEntry+",", "") }},
	{name: "total_size", problem: want{checkpoint.IndexTotalSize, checkpoint.Note, indexName, nil, nil, []string{"is 1,", fmt.Sprint(vectors.T0().TotalSize())}},
		plant: func(m *vectors.Model) {
			m.Files[indexName] = indexed(m, fmt.Sprintf(`"total_size": %d`, m.TotalSize()), `"total_size": 1`)
		}},
	{name: "duplicate", problem: want{checkpoint.ShardDuplicate, checkpoint.Note, shard1, []string{lmHead}, nil, []string{shard2, "equal bytes"}},
		plant: func(m *vectors.Model) { m.Add(shard1, vectors.Normal(lmHead, 32, 64)) }},
	{name: "duplicate that differs", problem: want{checkpoint.ShardDuplicate, checkpoint.Corrupt, shard1, []string{lmHead}, nil, []string{shard2, "BF16 [64 32] here, BF16 [32 64] there"}},
		plant: func(m *vectors.Model) { m.Add(shard1, vectors.Normal(lmHead, 64, 32)) }},
	{name: "gap", problem: want{checkpoint.ShardGap, checkpoint.Corrupt, shard1, nil, nil, []string{"fetch the file"}},
		plant: func(m *vectors.Model) { m.Indexed, m.Files[shard1] = false, nil }},
	{name: "shard is cut", problem: want{checkpoint.ShardMalformed, checkpoint.Fatal, shard2, tensorsOf(vectors.T0().Shards[1]), safetensors.WrongLength, []string{"1 missing"}},
		plant: func(m *vectors.Model) { m.Files[shard2] = weights(1)[:len(weights(1))-1] }},
	{name: "folder instead of a file", problem: want{checkpoint.NotRegular, checkpoint.Fatal, shard2, tensorsOf(vectors.T0().Shards[1]), nil, []string{"d---", "replace it"}},
		plant: func(m *vectors.Model) { m.Files[shard2], m.Files[shard2+"/x"] = nil, []byte("x") }},
	{name: "folder among the files", problem: want{checkpoint.NotRegular, checkpoint.Fatal, "x.safetensors", nil, nil, []string{"d---"}},
		plant: func(m *vectors.Model) { m.Indexed, m.Files["x.safetensors/y"] = false, []byte("y") }},
	{name: "Mistral's twin", problem: want{checkpoint.ConsolidatedShadow, checkpoint.Corrupt, "consolidated.safetensors", nil, nil, []string{"params.json"}},
		plant: func(m *vectors.Model) { m.Files["consolidated.safetensors"] = weights(0) }},
	{name: "other variant", problem: want{checkpoint.VariantOther, checkpoint.Note, "model.fp16.safetensors", nil, nil, []string{"another variant"}},
		plant: func(m *vectors.Model) { m.Files["model.fp16.safetensors"] = weights(0) }},
	{name: "config.json", problem: want{checkpoint.ConfigMalformed, checkpoint.Fatal, "config.json", nil, errAny, []string{"restore config.json"}},
		plant: func(m *vectors.Model) { m.Files["config.json"] = []byte(`{"a":`) }},
}

// TestFaults wants each fault's problem and no other.
func TestFaults(t *testing.T) {
	bothWays(t, vectors.T0(), checkpoint.Options{}, func(t *testing.T, c *checkpoint.Checkpoint, err error) {
		if err != nil {
			t.Fatal(err)
		}
		expect(t, c)
		holds(t, c, vectors.T0())
	})
	for _, f := range faults {
		t.Run(f.name, f.test)
	}
}

func (f fault) test(t *testing.T) {
	m := vectors.T0()
	if f.plant != nil {
		f.plant(m)
	}
	dir := written(t, m)
	var fsys fs.FS = m.FS()
	if f.disk != nil {
		f.disk(t, dir)
		fsys = os.DirFS(dir)
	}
	if f.fsys != nil {
		fsys = f.fsys(m.FS())
	}
	check := func(open func() (*checkpoint.Checkpoint, error)) func(*testing.T) {
		return func(t *testing.T) {
			var c *checkpoint.Checkpoint
			var err error
			promptly(t, func() { c, err = open() })
			if err != nil {
				t.Fatal(err)
			}
			expect(t, closing(t, c), f.problem)
		}
	}
	t.Run("Open", check(func() (*checkpoint.Checkpoint, error) { return checkpoint.Open(dir, checkpoint.Options{}) }))
	if !f.openOnly {
		t.Run("OpenFS", check(func() (*checkpoint.Checkpoint, error) { return checkpoint.OpenFS(fsys, checkpoint.Options{}) }))
	}
}

// TestOrder wants problems by severity, code and file.
func TestOrder(t *testing.T) {
	m := vectors.T0()
	m.Files["config.json"] = []byte("{")
	m.Files["consolidated.safetensors"] = weights(0)
	m.Files["b10.safetensors"], m.Files["b9.safetensors"] = weights(0), weights(0)
	m.Files["model.fp16.safetensors"] = weights(0)
	m.Files[shard1] = weights(0)[:100]
	m.Files[indexName] = indexed(m, lmHeadEntry, `"z": "`+shard2+`", "a": "`+shard2+`", "lm_head.weight": "/x"`)
	bothWays(t, m, checkpoint.Options{}, func(t *testing.T, c *checkpoint.Checkpoint, err error) {
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range c.Problems() {
			got = append(got, string(p.Severity)+" "+p.Code+" "+p.File)
		}
		want := []string{"F CONFIG-MALFORMED config.json", "F INDEX-PATH /x", "F SHARD-MALFORMED " + shard1, "C CONSOLIDATED-SHADOW consolidated.safetensors",
			"C INDEX-TENSOR-GHOST " + shard2, "D INDEX-FILE-UNLISTED b9.safetensors", "D INDEX-FILE-UNLISTED b10.safetensors", "I VARIANT-OTHER model.fp16.safetensors"}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		// What Problems returns is the caller's.
		c.Problems()[0].Code = "x"
		if c.Problems()[0].Code != "CONFIG-MALFORMED" {
			t.Error("Problems gives its own list away")
		}
	})
}

func TestSeverity(t *testing.T) {
	for s, bad := range map[checkpoint.Severity]bool{checkpoint.Fatal: true, checkpoint.Corrupt: true, checkpoint.Degraded: false, checkpoint.Note: false} {
		if s.Bad() != bad {
			t.Errorf("%s: Bad is %v", s, s.Bad())
		}
	}
}

// TestDuplicatesAreCompared has twins that differ in one byte, or in length only.
func TestDuplicatesAreCompared(t *testing.T) {
	const chunk = 256 << 10
	long := bytes.Repeat([]byte{7}, 2*chunk+3)
	changed := func(at int) []byte {
		b := bytes.Clone(long)
		b[at] = 0xab
		return b
	}
	for _, test := range []struct {
		name        string
		dtype       string
		first, last []byte
		says        string // of the difference, "" if there is none
	}{
		{"equal", "U8", long, long, ""},
		{"equal, whole chunks", "U8", long[:2*chunk], long[:2*chunk], ""},
		{"both empty", "U8", nil, nil, ""},
		{"first byte", "U8", changed(0), long, "byte 0 is 0xab here, 0x07 there"},
		{"end of the first chunk", "U8", long, changed(chunk - 1), "byte 262143 is 0x07 here, 0xab there"},
		{"begin of the second chunk", "U8", changed(chunk), long, "byte 262144 is 0xab here, 0x07 there"},
		{"last byte", "U8", changed(len(long) - 1), long, "byte 524290 is 0xab here, 0x07 there"},
		{"length", "U8", long, long[1:], "U8 [524291] here, U8 [524290] there"},
		// Any length goes with a dtype that is not known.
		{"unknown dtype, equal", "X9", long, long, ""},
		{"unknown dtype, longer here", "X9", long, long[1:], "524291 bytes here, 524290 there"},
		{"unknown dtype, longer there", "X9", long[:chunk], long, "262144 bytes here, 524291 there"},
		{"unknown dtype, zeros against nothing", "X9", make([]byte, 5), nil, "5 bytes here, 0 there"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := vectors.T0()
			add := func(shard string, data []byte) {
				shape := []int{len(data)}
				if test.dtype == "X9" {
					shape = []int{4}
				}
				m.Add(shard, vectors.Tensor{Name: "twin", DType: test.dtype, Shape: shape, Data: data})
			}
			add(shard1, test.first)
			add(shard2, test.last)
			problem := want{checkpoint.ShardDuplicate, checkpoint.Note, shard1, []string{"twin"}, nil, []string{"equal bytes", shard2}}
			if test.says != "" {
				problem.severity, problem.says = checkpoint.Corrupt, []string{test.says, shard2, `"twin"`}
			}
			bothWays(t, m, checkpoint.Options{}, func(t *testing.T, c *checkpoint.Checkpoint, err error) {
				if err != nil {
					t.Fatal(err)
				}
				expect(t, c, problem)
				holds(t, c, m)
			})
		})
	}
}

// TestDuplicateInThreeFiles reports each superseded copy once.
func TestDuplicateInThreeFiles(t *testing.T) {
	m := vectors.T0()
	twin := vectors.Normal("twin", 8)
	other := vectors.Normal("other", 8)
	other.Name = "twin"
	m.Add(shard1, other)
	m.Add(shard2, twin)
	m.Add("z.safetensors", twin)
	bothWays(t, m, checkpoint.Options{}, func(t *testing.T, c *checkpoint.Checkpoint, err error) {
		if err != nil {
			t.Fatal(err)
		}
		expect(t, c,
			want{checkpoint.ShardDuplicate, checkpoint.Corrupt, shard1, []string{"twin"}, nil, []string{"z.safetensors", "byte 0"}},
			want{checkpoint.ShardDuplicate, checkpoint.Note, shard2, []string{"twin"}, nil, []string{"z.safetensors"}})
		holds(t, c, m)
	})
}

// TestPermission has a file system that refuses one file.
func TestPermission(t *testing.T) {
	for name, problem := range map[string]want{
		shard2:        {checkpoint.ShardUnreadable, checkpoint.Fatal, shard2, tensorsOf(vectors.T0().Shards[1]), fs.ErrPermission, []string{"permission denied"}},
		"config.json": {checkpoint.ConfigMalformed, checkpoint.Fatal, "config.json", nil, fs.ErrPermission, []string{"permission denied"}},
		indexName:     {checkpoint.IndexMalformed, checkpoint.Fatal, indexName, nil, fs.ErrPermission, []string{"permission denied"}},
	} {
		c, err := checkpoint.OpenFS(denying{vectors.T0().FS(), name}, checkpoint.Options{})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, closing(t, c), problem)
	}
	if _, err := checkpoint.OpenFS(denying{vectors.T0().FS(), "."}, checkpoint.Options{}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("folder: %v", err)
	}
}

// denying is a file system that refuses one file.
type denying struct {
	files fstest.MapFS
	name  string
}

func (d denying) Open(name string) (fs.File, error) {
	if name == d.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return d.files.Open(name)
}
