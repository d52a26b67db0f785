package checkpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// Files of the fixtures.
const (
	shard1    = "model-00001-of-00002.safetensors"
	shard2    = "model-00002-of-00002.safetensors"
	indexName = "model.safetensors.index.json"
	lmHead    = "lm_head.weight"
)

// model is a vectors.Model or vectors.Pipeline.
type model interface {
	FS() fstest.MapFS
	Write(dir string) error
}

// bothWays opens m as a folder with Open and in memory with OpenFS.
func bothWays(t *testing.T, m model, o checkpoint.Options, check func(*testing.T, *checkpoint.Checkpoint, error)) {
	t.Run("Open", func(t *testing.T) {
		c, err := checkpoint.Open(written(t, m), o)
		check(t, closing(t, c), err)
	})
	t.Run("OpenFS", func(t *testing.T) {
		c, err := checkpoint.OpenFS(m.FS(), o)
		check(t, closing(t, c), err)
	})
}

// written puts m into a new folder.
func written(t *testing.T, m model) string {
	t.Helper()
	dir := t.TempDir()
	if err := m.Write(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func closing(t *testing.T, c *checkpoint.Checkpoint) *checkpoint.Checkpoint {
	if c != nil {
		t.Cleanup(func() { c.Close() })
	}
	return c
}

// mustOpen opens a folder, file or index.
func mustOpen(t *testing.T, path string) *checkpoint.Checkpoint {
	t.Helper()
	c, err := checkpoint.Open(path, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return closing(t, c)
}

// promptly fails the test if f waits for something that never comes.
func promptly(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("it waits")
	}
}

// errAny stands for an Err of no class.
var errAny = errors.New("any error")

// want is an expected problem.
type want struct {
	code     string
	severity checkpoint.Severity
	file     string
	tensors  []string // in natural order
	err      error    // what Err must be, nil for no Err
	says     []string // parts of the message or the repair
}

// expect compares all problems of c with the wanted ones, in order.
func expect(t *testing.T, c *checkpoint.Checkpoint, wants ...want) {
	t.Helper()
	problems := c.Problems()
	for i, p := range problems {
		if i >= len(wants) {
			t.Errorf("unexpected: %s", show(p))
			continue
		}
		w := wants[i]
		if p.Code != w.code || p.Severity != w.severity || p.File != w.file || !slices.Equal(p.Tensors, w.tensors) {
			t.Errorf("problem %d\ngot  %s\nwant %s %s %q %.300q", i, show(p), w.severity, w.code, w.file, w.tensors)
		}
		if w.err != errAny && !errors.Is(p.Err, w.err) || p.Unreadable() != (w.err != nil) {
			t.Errorf("%s: Err is %v, want %v", p.Code, p.Err, w.err)
		}
		for _, s := range w.says {
			if !strings.Contains(p.Message+"\n"+p.Repair, s) {
				t.Errorf("%s: %s\ndoes not say %q", p.Code, p.Message, s)
			}
		}
		if p.Repair == "" && p.Err == nil && p.Code != checkpoint.VariantOther { // where nothing is wrong
			t.Errorf("%s: no repair", p.Code)
		}
		if strings.ContainsFunc(p.Message+p.Repair, func(r rune) bool { return r < ' ' || r == 0x7f }) || len(p.Message) > 4096 {
			t.Errorf("%s: not fit to print: %.4096q", p.Code, p.Message)
		}
	}
	for _, w := range wants[min(len(problems), len(wants)):] {
		t.Errorf("missing: %s %s %q %.300q", w.severity, w.code, w.file, w.tensors)
	}
}

func show(p checkpoint.Problem) string {
	return fmt.Sprintf("%s %s %q %.300q: %.300s (%v)", p.Severity, p.Code, p.File, p.Tensors, p.Message, p.Err)
}

// holds compares the tensors of c with those of m, byte for byte. Of a tensor
// in several shards it wants the last, as vectors gives it.
func holds(t *testing.T, c *checkpoint.Checkpoint, m *vectors.Model) {
	t.Helper()
	names := m.Names()
	if c.Len() != len(names) {
		t.Errorf("%d tensors, want %d", c.Len(), len(names))
	}
	seen := 0
	for tensor := range c.Tensors() {
		seen++
		if twin, ok := c.Tensor(tensor.Name); !ok || twin.Shard != tensor.Shard || twin.Offset != tensor.Offset {
			t.Errorf("%s: Tensors and Tensor disagree", tensor.Name)
		}
	}
	if seen != len(names) {
		t.Errorf("Tensors gives %d tensors, want %d", seen, len(names))
	}
	for _, name := range names {
		want := m.Tensor(name)
		got, ok := c.Tensor(name)
		if !ok {
			t.Errorf("%s is not there", name)
			continue
		}
		data, err := io.ReadAll(got.Reader())
		if err != nil || !bytes.Equal(data, want.Data) {
			t.Errorf("%s: %d bytes, want %d: %v", name, len(data), len(want.Data), err)
		}
		if string(got.DType) != want.DType || fmt.Sprint(got.Shape) != fmt.Sprint(want.Shape) || got.Shard.Name != m.ShardOf(name).Name {
			t.Errorf("%s: %s %v in %s, want %s %v in %s", name, got.DType, got.Shape, got.Shard.Name, want.DType, want.Shape, m.ShardOf(name).Name)
		}
	}
}

// shards returns the names of the loaded files.
func shards(c *checkpoint.Checkpoint) []string {
	var names []string
	for _, s := range c.Shards() {
		names = append(names, s.Name)
	}
	return names
}

// tensorsOf returns the names of a shard's tensors, in natural order for the
// fixtures' names.
func tensorsOf(s *vectors.Shard) []string {
	var names []string
	for _, tensor := range s.Tensors {
		names = append(names, tensor.Name)
	}
	slices.Sort(names)
	return names
}
