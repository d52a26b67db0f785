package checkpoint_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// recorder is a file system that writes down which files are opened and which
// are only asked for.
type recorder struct {
	files  fstest.MapFS
	mu     sync.Mutex
	opened map[string]bool
	asked  map[string]bool
}

func record(files fstest.MapFS) *recorder {
	return &recorder{files: files, opened: map[string]bool{}, asked: map[string]bool{}}
}

func (r *recorder) note(m map[string]bool, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m[name] = true
}

func (r *recorder) Open(name string) (fs.File, error) {
	r.note(r.opened, name)
	return r.files.Open(name)
}

func (r *recorder) Stat(name string) (fs.FileInfo, error) {
	r.note(r.asked, name)
	return r.files.Stat(name)
}

func (r *recorder) ReadDir(name string) ([]fs.DirEntry, error) {
	r.note(r.asked, name)
	return r.files.ReadDir(name)
}

// namely is an index that places lm_head.weight in file.
func namely(m *vectors.Model, file string) []byte {
	name := strings.TrimSpace(string(vectors.JSON(file)))
	return indexed(m, lmHeadEntry, `"lm_head.weight": `+name)
}

// TestHostilePaths has indexes that name what is no file of the model. They are
// refused as text: no such path reaches the file system.
func TestHostilePaths(t *testing.T) {
	for file, says := range map[string]string{
		"../x.safetensors":           "plain path",
		"/etc/passwd":                "absolute",
		"/x.safetensors":             "absolute",
		"//host/share/x.safetensors": "absolute",
		`C:\x.safetensors`:           "backslash",
		`C:x.safetensors`:            "drive letter",
		`C:/x.safetensors`:           "drive letter",
		`\\host\share\x.safetensors`: "backslash",
		`a\..\x.safetensors`:         "backslash",
		"x.bin":                      "no .safetensors file",
		"x":                          "no .safetensors file",
		"x.safetensors.exe":          "no .safetensors file",
		"x.SAFETENSORS":              "no .safetensors file",
		"":                           "plain path",
		".":                          "plain path",
		"..":                         "plain path",
		"x\x00.safetensors":          "NUL",
		"x.safetensors\x00":          "NUL",
		"sub/../../x.safetensors":    "plain path",
		"sub/../x.safetensors":       "plain path",
		"./x.safetensors":            "plain path",
		"sub//x.safetensors":         "plain path",
		"x.safetensors/":             "plain path",
		"\x1b[2J\n/../x.safetensors": "plain path",
	} {
		t.Run(fmt.Sprintf("%q", file), func(t *testing.T) {
			m := vectors.T0()
			m.Files[indexName] = namely(m, file)
			m.Files["sub/y"], m.Files["x.bin"] = []byte("y"), []byte("\x80\x02K\x01.")
			problem := want{checkpoint.IndexPath, checkpoint.Fatal, file, nil, nil, []string{says}}
			dir := filepath.Join(t.TempDir(), "model")
			if err := m.Write(dir); err != nil {
				t.Fatal(err)
			}
			// Were it opened, it would be reported as malformed.
			if err := os.WriteFile(filepath.Join(dir, "..", "x.safetensors"), []byte("secret"), 0o644); err != nil {
				t.Fatal(err)
			}
			c := mustOpen(t, dir)
			expect(t, c, problem)
			if got := shards(c); !slices.Equal(got, []string{shard1, shard2}) {
				t.Errorf("shards %q", got)
			}

			r := record(m.FS())
			c, err := checkpoint.OpenFS(r, checkpoint.Options{})
			if err != nil {
				t.Fatal(err)
			}
			expect(t, closing(t, c), problem)
			for name := range r.opened {
				if !slices.Contains([]string{shard1, shard2, indexName, "config.json", "."}, name) {
					t.Errorf("%q was opened", name)
				}
			}
			for name := range r.asked {
				if !slices.Contains([]string{shard1, shard2, indexName, "config.json", "."}, name) {
					t.Errorf("%q was asked for", name)
				}
			}
			if len(r.opened) < 4 {
				t.Errorf("only %v was opened", r.opened)
			}
		})
	}
}

// TestOddPaths has names that are unusual but inside the model.
func TestOddPaths(t *testing.T) {
	for _, file := range []string{"sub/x.safetensors", "a/b/c/x.safetensors", "...safetensors", "..x/x.safetensors", "é ü.safetensors", ".safetensors"} {
		m := vectors.T0()
		m.Move(lmHead, file)
		fieldCase(t, file, m)
	}
}

// TestNotOpened has files that are asked for but must not be opened.
func TestNotOpened(t *testing.T) {
	for _, test := range []struct {
		name    string
		file    string
		mode    fs.FileMode
		problem want
	}{
		{"pipe", shard2, fs.ModeNamedPipe, want{checkpoint.NotRegular, checkpoint.Fatal, shard2, tensorsOf(vectors.T0().Shards[1]), nil, []string{"p---"}}},
		{"device", shard2, fs.ModeDevice | fs.ModeCharDevice, want{checkpoint.NotRegular, checkpoint.Fatal, shard2, tensorsOf(vectors.T0().Shards[1]), nil, []string{"D"}}},
		{"socket", shard2, fs.ModeSocket, want{checkpoint.NotRegular, checkpoint.Fatal, shard2, tensorsOf(vectors.T0().Shards[1]), nil, []string{"S---"}}},
		{"index", indexName, fs.ModeNamedPipe, want{checkpoint.IndexMalformed, checkpoint.Fatal, indexName, nil, errAny, []string{"p---"}}},
		{"config.json", "config.json", fs.ModeNamedPipe, want{checkpoint.ConfigMalformed, checkpoint.Fatal, "config.json", nil, errAny, []string{"p---"}}},
		{"file that is not listed", "x.safetensors", fs.ModeNamedPipe, want{checkpoint.IndexFileUnlisted, checkpoint.Degraded, "x.safetensors", nil, nil, []string{"not readable"}}},
		{"other index", "other.safetensors.index.json", fs.ModeNamedPipe, want{checkpoint.VariantOther, checkpoint.Note, "model.fp16.safetensors", nil, nil, nil}},
		{"Mistral's twin", "consolidated.safetensors", 0, want{checkpoint.ConsolidatedShadow, checkpoint.Corrupt, "consolidated.safetensors", nil, nil, nil}},
		{"pickle", "pytorch_model.bin", 0, want{}},
		{"code", "modeling_x.py", 0, want{}},
		{"hidden", "._model.safetensors", 0, want{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := vectors.T0()
			if test.problem.code == checkpoint.VariantOther {
				m.Files[test.problem.file] = weights(0)
			}
			// The component stands for file systems below others.
			for component, prefix := range map[string]string{"": "", "transformer": "transformer/"} {
				files := fstest.MapFS{}
				for name, file := range m.FS() {
					files[prefix+name] = file
				}
				files[prefix+test.file] = &fstest.MapFile{Data: []byte("x"), Mode: test.mode | 0o644}
				r := record(files)
				c, err := checkpoint.OpenFS(r, checkpoint.Options{Component: component})
				if err != nil {
					t.Fatal(err)
				}
				closing(t, c)
				if test.problem.code == "" {
					expect(t, c)
				} else {
					expect(t, c, test.problem)
				}
				if r.opened[prefix+test.file] {
					t.Errorf("component %q: %s was opened", component, test.file)
				}
				if !r.opened[prefix+shard1] {
					t.Errorf("component %q: only %v was opened", component, r.opened)
				}
			}
		})
	}
}

// TestReadFile keeps to the same names.
func TestReadFile(t *testing.T) {
	m := with(vectors.T0(), map[string][]byte{"sub/a.json": []byte("[1]"), "empty": {}})
	bothWays(t, m, checkpoint.Options{}, func(t *testing.T, c *checkpoint.Checkpoint, err error) {
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"sub/a.json": "[1]", "empty": "", "tokenizer.json": string(m.Files["tokenizer.json"])} {
			if got, err := c.ReadFile(name); err != nil || string(got) != want {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
		for _, name := range []string{"", ".", "..", "sub", "nosuch", "../x", "/etc/passwd", `sub\a.json`, "sub/../empty", "C:x", "x\x00"} {
			if got, err := c.ReadFile(name); err == nil {
				t.Errorf("%q: %q", name, got)
			}
		}
	})
}

// TestHugeSidecar has files that claim more than there can be: they are refused
// by their size.
func TestHugeSidecar(t *testing.T) {
	for file, code := range map[string]string{"config.json": checkpoint.ConfigMalformed, indexName: checkpoint.IndexMalformed} {
		c, err := checkpoint.OpenFS(huge{vectors.T0().FS(), file}, checkpoint.Options{})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, closing(t, c), want{code, checkpoint.Fatal, file, nil, errAny, []string{"has 1099511627776 bytes", "limit"}})
	}
}

// huge is a file system in which one file claims a terabyte.
type huge struct {
	fstest.MapFS
	name string
}

func (h huge) Stat(name string) (fs.FileInfo, error) {
	st, err := h.MapFS.Stat(name)
	if name == h.name {
		return terabyte{st}, err
	}
	return st, err
}

type terabyte struct{ fs.FileInfo }

func (terabyte) Size() int64 { return 1 << 40 }
