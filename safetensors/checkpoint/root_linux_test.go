//go:build linux && root

package checkpoint_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// Root reads everything, so these tests build the files as root and look at
// them in a process that has given up being it.

const permissionDir = "CHECKPOINT_TEST_PERMISSION_DIR"

var permissions = []struct {
	name     string
	path     string // what is opened, from the model's folder
	denied   string // what gets no permission
	mode     fs.FileMode
	err      error
	problems []want
}{
	{name: "nothing denied"},
	{name: "shard", denied: shard2,
		problems: []want{{checkpoint.ShardUnreadable, checkpoint.Fatal, shard2, tensorsOf(vectors.T0().Shards[1]), fs.ErrPermission, []string{"permission denied"}}}},
	{name: "shard in a folder", denied: "sub",
		problems: []want{{checkpoint.ShardUnreadable, checkpoint.Fatal, "sub/x.safetensors", []string{lmHead}, fs.ErrPermission, []string{"permission denied"}}}},
	{name: "index", denied: indexName,
		problems: []want{{checkpoint.IndexMalformed, checkpoint.Fatal, indexName, nil, fs.ErrPermission, []string{"permission denied"}}}},
	{name: "config.json", denied: "config.json",
		problems: []want{{checkpoint.ConfigMalformed, checkpoint.Fatal, "config.json", nil, fs.ErrPermission, []string{"permission denied"}}}},
	{name: "file that is not listed", denied: "x.safetensors",
		problems: []want{{checkpoint.IndexFileUnlisted, checkpoint.Degraded, "x.safetensors", nil, nil, []string{"not readable"}}}},
	{name: "folder", denied: ".", err: fs.ErrPermission},
	{name: "folder that may be passed, by a file", path: shard1, denied: ".", mode: 0o711},
	{name: "folder that may be passed", denied: ".", mode: 0o711, err: fs.ErrPermission},
	{name: "one file", path: shard1, denied: shard1, err: fs.ErrPermission},
	{name: "folder of one file", path: shard1, denied: ".", err: fs.ErrPermission},
}

func TestPermissions(t *testing.T) {
	if dir := os.Getenv(permissionDir); dir != "" {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(65534), syscall.Setuid(65534)); err != nil {
			t.Fatal(err)
		}
		for _, test := range permissions {
			t.Run(test.name, func(t *testing.T) {
				dir := filepath.Join(dir, test.name)
				c, err := checkpoint.Open(filepath.Join(dir, test.path), checkpoint.Options{})
				if !errors.Is(err, test.err) || (err == nil) != (test.err == nil) {
					t.Fatalf("Open: %v, want %v", err, test.err)
				}
				if err == nil {
					expect(t, closing(t, c), test.problems...)
				}
				if test.path != "" {
					return
				}
				c, err = checkpoint.OpenFS(os.DirFS(dir), checkpoint.Options{})
				if !errors.Is(err, test.err) || (err == nil) != (test.err == nil) {
					t.Fatalf("OpenFS: %v, want %v", err, test.err)
				}
				if err == nil {
					expect(t, closing(t, c), test.problems...)
				}
			})
		}
		return
	}
	if os.Getuid() != 0 {
		t.Fatal("the tag root is for root")
	}
	root, err := os.MkdirTemp("", "permissions") // not below t.TempDir, which others may not enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range permissions {
		m := vectors.T0()
		switch test.denied {
		case "sub":
			m.Move(lmHead, "sub/x.safetensors")
		case "x.safetensors":
			m.Files["x.safetensors"] = weights(0)
		}
		dir := filepath.Join(root, test.name)
		if err := m.Write(dir); err != nil {
			t.Fatal(err)
		}
		if test.denied == "" {
			continue
		}
		if err := os.Chmod(filepath.Join(dir, test.denied), test.mode); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestPermissions$", "-test.v")
	cmd.Env = append(os.Environ(), permissionDir+"="+root)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
