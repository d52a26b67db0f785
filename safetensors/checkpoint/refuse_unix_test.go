//go:build unix

package checkpoint_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// refusedRun plans, does something behind the plan's back, runs, and expects a
// refusal that leaves the directory as it then was.
func refusedRun(t *testing.T, dir string, change func(*checkpoint.Checkpoint) checkpoint.Change, to checkpoint.Target, between func()) {
	t.Helper()
	p, err := plan(t, dir, change, to)
	if err != nil {
		t.Fatal(err)
	}
	between()
	before := tree(t, dir)
	if _, err = p.Run(context.Background(), checkpoint.RunOptions{}); !errors.As(err, new(*checkpoint.RefusedError)) {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
		t.Errorf("a refused run wrote:\n%s", diff)
	}
}

// TestStalePlan changes the model between planning and writing.
func TestStalePlan(t *testing.T) {
	swap := func(dir string) { // another file of the same size
		path := filepath.Join(dir, shard2)
		b, _ := os.ReadFile(path)
		os.Remove(path)
		os.WriteFile(path, b, 0o666)
	}
	dir := written(t, vectors.T0())
	refusedRun(t, dir, bumpTensor, checkpoint.Target{}, func() { swap(dir) })
	dir = written(t, vectors.T0())
	refusedRun(t, dir, bumpTensor, checkpoint.Target{Out: filepath.Join(t.TempDir(), "out")}, func() { swap(dir) })
	dir = written(t, vectors.T0())
	refusedRun(t, dir, addHead, checkpoint.Target{}, func() {
		os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"somebody":"else"}`), 0o666)
	})
	dir = written(t, vectors.T0())
	refusedRun(t, dir, addHead, checkpoint.Target{}, func() { // a whole run of somebody else's
		p, err := plan(t, dir, addHead, checkpoint.Target{})
		mustRun(t, p, err)
	})
	dir = written(t, vectors.T0())
	refusedRun(t, dir, bumpTensor, checkpoint.Target{}, func() {
		os.Link(filepath.Join(dir, shard2), filepath.Join(t.TempDir(), "second name"))
	})
}

func TestNewShardRefuses(t *testing.T) {
	dir := written(t, vectors.T0())
	for name, c := range map[string]struct {
		path   string
		before func()
	}{
		"one file of a sharded model": {filepath.Join(dir, shard1), func() {}},
		"a malformed index":           {dir, func() { os.WriteFile(filepath.Join(dir, indexName), []byte("{"), 0o666) }},
	} {
		c.before()
		if _, err := plan(t, c.path, addHead, checkpoint.Target{}); !errors.As(err, new(*checkpoint.RefusedError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	twice := func(c *checkpoint.Checkpoint) checkpoint.Change {
		ch := addHead(c)
		ch.Shards[0].Slots[0].Name = crashTensor
		return ch
	}
	if _, err := plan(t, written(t, vectors.T0()), twice, checkpoint.Target{}); err == nil || !strings.Contains(err.Error(), crashTensor) {
		t.Errorf("a tensor that is there: %v", err)
	}
}

// TestLinkedFolder must not write through a folder that is a link.
func TestLinkedFolder(t *testing.T) {
	dir, elsewhere := written(t, vectors.T0()), t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	into := func(c *checkpoint.Checkpoint) checkpoint.Change {
		return checkpoint.Change{Files: map[string][]byte{"sub/new.json": []byte("{}")}}
	}
	if _, err := plan(t, dir, into, checkpoint.Target{}); !errors.As(err, new(*checkpoint.RefusedError)) {
		t.Errorf("error %v", err)
	}
	shard := func(c *checkpoint.Checkpoint) checkpoint.Change {
		ch := addHead(c)
		ch.Shards[0].Name = "sub/head.safetensors"
		return ch
	}
	if _, err := plan(t, dir, shard, checkpoint.Target{}); err == nil {
		t.Error("a shard through a link is planned")
	}
	if entries, _ := os.ReadDir(elsewhere); len(entries) > 0 {
		t.Error("something was written")
	}
}

// TestHubCacheIsRecognised has snapshots below snapshots, and a blobs folder
// that leads somewhere else.
func TestHubCacheIsRecognised(t *testing.T) {
	root := t.TempDir()
	inner := filepath.Join(root, "models--a--b", "snapshots", "c0", "snapshots", "s1")
	if err := vectors.T0().Write(inner); err != nil {
		t.Fatal(err)
	}
	if _, err := plan(t, inner, bumpTensor, checkpoint.Target{}); !errors.Is(err, checkpoint.ErrHubCache) {
		t.Errorf("nested snapshots: %v", err)
	}
	secret := t.TempDir()
	os.WriteFile(filepath.Join(secret, "hostname"), []byte("secret"), 0o600)
	evil := filepath.Join(root, "models--evil--x", "snapshots", "c")
	if err := vectors.T0().Write(evil); err != nil {
		t.Fatal(err)
	}
	os.Symlink(secret, filepath.Join(root, "models--evil--x", "blobs"))
	os.Symlink("../../blobs/hostname", filepath.Join(evil, "notes.txt"))
	if _, err := plan(t, evil, nothing, checkpoint.Target{Out: filepath.Join(t.TempDir(), "out")}); !errors.As(err, new(*checkpoint.RefusedError)) {
		t.Errorf("a linked blobs folder: %v", err)
	}
}

// TestModes checks what a copy's files may be, under two umasks.
func TestModes(t *testing.T) {
	dir := written(t, vectors.T0())
	os.WriteFile(filepath.Join(dir, "x.ckpt-tmp-notes.md"), []byte("mine"), 0o666)
	modes := map[string]os.FileMode{shard1: 0o600, shard2: 0o444, "config.json": 0o664, "tokenizer.json": 0o755, "x.ckpt-tmp-notes.md": 0o666}
	for name, mode := range modes {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, umask := range []int{0o022, 0o077} {
		old := syscall.Umask(umask)
		out := filepath.Join(t.TempDir(), "out")
		p, err := plan(t, dir, bumpTensor, checkpoint.Target{Out: out})
		mustRun(t, p, err)
		syscall.Umask(old)
		for name, mode := range modes {
			st, err := os.Stat(filepath.Join(out, name))
			if want := (mode | 0o200) &^ os.FileMode(umask); err != nil || st.Mode().Perm() != want {
				t.Errorf("umask %03o: %s: %v, %v, want %v", umask, name, st, err, want)
			}
		}
	}
}

// TestComponentInPlace replaces a hard-linked shard of a pipeline's component
// in place.
func TestComponentInPlace(t *testing.T) {
	dir := written(t, vectors.Diffusers())
	c, err := checkpoint.Open(dir, checkpoint.Options{Component: "transformer"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var x checkpoint.Tensor
	for x = range c.Tensors() {
		break
	}
	path := filepath.Join(dir, "transformer", x.Shard.Name)
	other := filepath.Join(t.TempDir(), "other")
	if err := os.Link(path, other); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(other)
	p, err := c.Plan(checkpoint.Change{Patches: map[string][]checkpoint.Patch{x.Shard.Name: {{Offset: x.Offset, Length: x.Bytes, Edit: bump}}}}, checkpoint.Target{})
	if w := mustRun(t, p, err); len(w) != 1 || w[0].Action != checkpoint.Replace || w[0].File != "transformer/"+x.Shard.Name {
		t.Errorf("written %+v", w)
	}
	kept, _ := os.ReadFile(other)
	now, _ := os.ReadFile(path)
	if string(kept) != string(before) || string(now) == string(before) {
		t.Error("the other name changed, or the shard did not")
	}
}
