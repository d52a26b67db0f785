//go:build linux && root

package patch_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/patch"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// droppedDir tells a re-executed test the model to clamp as nobody.
const droppedDir = "CKPT_TEST_DROPPED"

// TestClampWithoutPermission clamps as a user who may read the model and write
// one of its two shards: nothing is written, and the advice is to make a copy.
func TestClampWithoutPermission(t *testing.T) {
	if dir := os.Getenv(droppedDir); dir != "" {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(65534), syscall.Setuid(65534)); err != nil {
			t.Fatal(err)
		}
		_, err := clamp(t, dir, patch.ClampOptions{})
		var refused *checkpoint.RefusedError
		if !errors.As(err, &refused) || !errors.Is(err, os.ErrPermission) || !strings.Contains(refused.Do, "--out DIR") {
			t.Fatalf("error %v", err)
		}
		return
	}
	m := vectors.NVFP4(vectors.T0(), false)
	m.Tensor(oProj).Data[0], m.Tensor(qProj).Data[0] = 0x7F, 0x7F
	dir := filepath.Join(t.TempDir(), "model")
	if err := m.Write(dir); err != nil {
		t.Fatal(err)
	}
	for p := dir; strings.HasPrefix(p, os.TempDir()+"/"); p = filepath.Dir(p) {
		os.Chmod(p, 0o755)
	}
	os.Chmod(filepath.Join(dir, "model-00001-of-00002.safetensors"), 0o666)
	before := content(t, dir)
	cmd := exec.Command(os.Args[0], "-test.run=^TestClampWithoutPermission$", "-test.v")
	cmd.Env = append(os.Environ(), droppedDir+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if diff := cmp.Diff(before, content(t, dir)); diff != "" {
		t.Error("something was written")
	}
}
