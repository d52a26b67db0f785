//go:build unix

package checkpoint_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// move takes a file out of dir and leaves a link to it.
func move(t *testing.T, dir, name, to string) {
	t.Helper()
	if err := os.Rename(filepath.Join(dir, name), to); err != nil {
		t.Fatal(err)
	}
	symlink(t, to, filepath.Join(dir, name))
}

// TestLinksOfTheUser has links that the user named: they may lead anywhere.
func TestLinksOfTheUser(t *testing.T) {
	dir := written(t, vectors.T0())
	link := filepath.Join(t.TempDir(), "link")
	symlink(t, dir, link)
	openDir(t, link, checkpoint.Options{}, clean(vectors.T0()))

	// One file, through two links.
	file := filepath.Join(t.TempDir(), "mine.safetensors")
	symlink(t, filepath.Join(link, shard1), file)
	if c := mustOpen(t, file); c.Len() != 9 || len(c.Problems()) > 0 || c.Shards()[0].Name != "mine.safetensors" {
		t.Errorf("%d tensors, %v", c.Len(), c.Problems())
	}

	// An index that lies elsewhere places the files beside its link.
	elsewhere := filepath.Join(t.TempDir(), "index")
	move(t, dir, indexName, elsewhere)
	clean(vectors.T0())(t, mustOpen(t, filepath.Join(dir, indexName)), nil)
	if c := mustOpen(t, dir); len(c.Problems()) != 1 || c.Problems()[0].Code != checkpoint.IndexMalformed || !strings.Contains(c.Problems()[0].Message, "leaves the model") {
		t.Errorf("by the folder: %v", c.Problems())
	}

	// The link is the file's, not the folder's: its other files are not free.
	t.Run("only the named file", func(t *testing.T) {
		dir, out := written(t, vectors.T0()), t.TempDir()
		move(t, dir, indexName, filepath.Join(out, "index"))
		move(t, dir, shard2, filepath.Join(out, "w"))
		expect(t, mustOpen(t, filepath.Join(dir, indexName)),
			want{checkpoint.LinkOutside, checkpoint.Fatal, shard2, second, nil, []string{"copy the file"}})
	})
}

// TestLinksInside has links that stay inside the model.
func TestLinksInside(t *testing.T) {
	t.Run("file", func(t *testing.T) {
		dir := written(t, vectors.T0())
		if err := os.Mkdir(filepath.Join(dir, "data"), 0o755); err != nil {
			t.Fatal(err)
		}
		move(t, dir, shard2, filepath.Join(dir, "data", "w"))
		move(t, dir, indexName, filepath.Join(dir, "data", "i"))
		move(t, dir, "config.json", filepath.Join(dir, "data", "c"))
		openDir(t, dir, checkpoint.Options{}, clean(vectors.T0()))
	})
	t.Run("folder", func(t *testing.T) {
		m := renamed(vectors.T0(), "a/x.safetensors", "b/x.safetensors")
		dir := written(t, m)
		move(t, dir, "a", filepath.Join(dir, "real"))
		openDir(t, dir, checkpoint.Options{}, clean(m))
	})
	t.Run("two names of one file", func(t *testing.T) {
		m := vectors.T0().OneFile()
		dir := written(t, m)
		symlink(t, "model.safetensors", filepath.Join(dir, "again.safetensors"))
		openDir(t, dir, checkpoint.Options{}, func(t *testing.T, c *checkpoint.Checkpoint, err error) {
			if err != nil {
				t.Fatal(err)
			}
			expect(t, c, want{checkpoint.ShardDuplicate, checkpoint.Note, "again.safetensors", m.Names(), nil, []string{"equal bytes"}})
		})
	})
}

// TestLinksOutside has links that leave the model, to pipes: whoever opens one
// waits for ever.
func TestLinksOutside(t *testing.T) {
	open := func(t *testing.T, path string, o checkpoint.Options) (c *checkpoint.Checkpoint, err error) {
		promptly(t, func() { c, err = checkpoint.Open(path, o) })
		return closing(t, c), err
	}
	trap := func(t *testing.T) string { return pipe(t, filepath.Join(t.TempDir(), "trap.safetensors")) }
	t.Run("folder", func(t *testing.T) {
		m := vectors.T0()
		m.Move(lmHead, "sub/trap.safetensors")
		dir := written(t, m)
		replace(t, filepath.Join(dir, "sub"), symlinkTo(filepath.Dir(trap(t))))
		c, err := open(t, dir, checkpoint.Options{})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, c, want{checkpoint.LinkOutside, checkpoint.Fatal, "sub/trap.safetensors", []string{lmHead}, nil, []string{"trap"}})
	})
	t.Run("beside the index", func(t *testing.T) {
		dir := written(t, vectors.T0())
		symlink(t, trap(t), filepath.Join(dir, "x.safetensors"))
		c, err := open(t, dir, checkpoint.Options{})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, c, want{checkpoint.IndexFileUnlisted, checkpoint.Degraded, "x.safetensors", nil, nil, []string{"not readable"}})
	})
	t.Run("sidecars", func(t *testing.T) {
		dir := written(t, unindexed(vectors.T0()))
		replace(t, filepath.Join(dir, "config.json"), symlinkTo(trap(t)))
		symlink(t, trap(t), filepath.Join(dir, indexName))
		c, err := open(t, dir, checkpoint.Options{})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, c,
			want{checkpoint.ConfigMalformed, checkpoint.Fatal, "config.json", nil, errAny, []string{"leaves the model"}},
			want{checkpoint.IndexMalformed, checkpoint.Fatal, indexName, nil, errAny, []string{"leaves the model"}})
		promptly(t, func() {
			if _, err := c.ReadFile("config.json"); err == nil || !strings.Contains(err.Error(), "leaves the model") {
				t.Errorf("ReadFile: %v", err)
			}
		})
	})
	t.Run("component", func(t *testing.T) {
		dir := written(t, vectors.Diffusers())
		symlink(t, written(t, vectors.T0()), filepath.Join(dir, "out"))
		symlink(t, "vae", filepath.Join(dir, "in"))
		if c, err := open(t, dir, checkpoint.Options{Component: "out"}); err == nil || c != nil || !strings.Contains(err.Error(), "leaves the model") {
			t.Errorf("outside: %v", err)
		}
		if c, err := open(t, dir, checkpoint.Options{Component: "in"}); err != nil || c.Len() != 4 {
			t.Errorf("inside: %v", err)
		}
	})
	// Components may share files; the pipeline is their bound.
	t.Run("between components", func(t *testing.T) {
		p := vectors.Diffusers()
		dir := written(t, p)
		replace(t, filepath.Join(dir, "vae/config.json"), symlinkTo("../transformer/config.json"))
		if c, err := open(t, dir, checkpoint.Options{Component: "vae"}); err != nil || len(c.Problems()) > 0 || !strings.Contains(string(c.Config()), "Mochi") {
			t.Errorf("%v", err)
		}
		c, err := open(t, filepath.Join(dir, "vae"), checkpoint.Options{})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, c, want{checkpoint.ConfigMalformed, checkpoint.Fatal, "config.json", nil, errAny, []string{"leaves the model"}})
	})
}

// TestPathsOfNoFile gives paths at which no file can be.
func TestPathsOfNoFile(t *testing.T) {
	dir := t.TempDir()
	fifo := pipe(t, filepath.Join(dir, "pipe.safetensors"))
	index := pipe(t, filepath.Join(dir, indexName))
	loop := filepath.Join(dir, "loop")
	symlink(t, loop, loop)
	dangling := filepath.Join(dir, "dangling.safetensors")
	symlink(t, "nosuch", dangling)
	for path, want := range map[string]error{
		fifo: nil, "/dev/zero": nil, loop: syscall.ELOOP, dangling: fs.ErrNotExist, filepath.Join(fifo, "x"): syscall.ENOTDIR,
		strings.Repeat("n", 5000): syscall.ENAMETOOLONG,
	} {
		promptly(t, func() {
			c, err := checkpoint.Open(path, checkpoint.Options{})
			if err == nil || c != nil || want != nil && !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", path, err, want)
			}
			if want == nil && !strings.Contains(err.Error(), "not a regular file") {
				t.Errorf("%s: %v", path, err)
			}
		})
	}
	promptly(t, func() {
		// An index that cannot be read is a problem; the names tell the rest.
		if c, err := checkpoint.Open(index, checkpoint.Options{}); err != nil {
			t.Error(err)
		} else {
			expect(t, closing(t, c),
				want{checkpoint.IndexFileMissing, checkpoint.Fatal, "dangling.safetensors", nil, nil, nil},
				want{checkpoint.IndexMalformed, checkpoint.Fatal, indexName, nil, errAny, []string{"not a regular file"}},
				want{checkpoint.NotRegular, checkpoint.Fatal, "pipe.safetensors", nil, nil, nil})
		}
	})
	if _, err := checkpoint.Open(filepath.Join(dir, "nosuch"), checkpoint.Options{}); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, safetensors.NotSafetensors) {
		t.Error(err)
	}
}
