//go:build linux && root

package checkpoint_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// mountTmpfs mounts a file system of its own.
func mountTmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// TestDiskFull fills a small file system before each step in turn. Whatever
// comes of it, the model is in its old or its new state and nothing else is left.
func TestDiskFull(t *testing.T) {
	for _, k := range crashCases {
		t.Run(k.name, func(t *testing.T) {
			full := 0
			for n, step := range k.steps(t) {
				disk := mountTmpfs(t, "size=4m")
				dir := filepath.Join(disk, "model")
				if err := k.model().Write(dir); err != nil {
					t.Fatal(err)
				}
				if k.prepare != nil {
					k.prepare(t, dir)
				}
				at := 0
				err := k.run(dir, func(string, string) error {
					if at++; at == n+1 {
						fill(t, filepath.Join(disk, "filler"))
					}
					return nil
				})
				if err != nil && !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("full at %s: %v", step, err)
				}
				if err != nil {
					full++
				}
				k.judge(t, dir, "full at "+step)
				left, _ := filepath.Glob(filepath.Join(disk, ".*tmp*"))
				inside, _ := filepath.Glob(filepath.Join(dir, ".*tmp*"))
				if len(left)+len(inside) > 0 {
					t.Errorf("full at %s: left %q %q", step, left, inside)
				}
			}
			if full == 0 && k.name != "overwrite" {
				t.Error("the disk was never full")
			}
		})
	}
}

// fill takes what room there is.
func fill(t *testing.T, path string) {
	f, err := os.Create(path)
	if err != nil {
		return // not even a name fits
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}

func TestNoRoomIsRefused(t *testing.T) {
	disk := mountTmpfs(t, "size=64k")
	dir := written(t, vectors.T0())
	_, err := plan(t, dir, nothing, checkpoint.Target{Out: filepath.Join(disk, "out")})
	if !errors.As(err, new(*checkpoint.RefusedError)) {
		t.Fatalf("error %v", err)
	}
	if entries, _ := os.ReadDir(disk); len(entries) > 0 {
		t.Error("something was written")
	}
}

func TestOtherFileSystem(t *testing.T) {
	disk := mountTmpfs(t, "size=64m")
	dir := written(t, vectors.T0())
	out := filepath.Join(disk, "out")
	p, err := plan(t, dir, bumpTensor, checkpoint.Target{Out: out, Link: true})
	for _, w := range mustRun(t, p, err) {
		if w.Method == "link" || w.Method == "reflink" {
			t.Errorf("%+v between file systems", w)
		}
	}
	if before, after := tree(t, dir), tree(t, out); before[shard1] != after[shard1] || before[shard2] == after[shard2] {
		t.Error("the copy is wrong")
	}
}

func TestReadOnlyMount(t *testing.T) {
	disk := mountTmpfs(t, "size=16m")
	dir := filepath.Join(disk, "model")
	if err := vectors.T0().Write(dir); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*checkpoint.Checkpoint) checkpoint.Change{bumpTensor, addHead} {
		p, err := plan(t, dir, change, checkpoint.Target{})
		if err == nil {
			_, err = p.Run(context.Background(), checkpoint.RunOptions{})
		}
		if !errors.Is(err, syscall.EROFS) {
			t.Errorf("error %v", err)
		}
	}
	p, err := plan(t, dir, nothing, checkpoint.Target{Out: filepath.Join(disk, "out")})
	if err == nil {
		_, err = p.Run(context.Background(), checkpoint.RunOptions{})
	}
	if !errors.Is(err, syscall.EROFS) {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
		t.Error(diff)
	}
}
