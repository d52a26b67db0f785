//go:build unix

package safetensors_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ckpt-surgery/ckpt/safetensors"
)

// TestOpenPaths opens what is not a file with bytes in it, and must not wait
// for any to come.
func TestOpenPaths(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o666); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		fifo:                         safetensors.NotSafetensors,
		"/dev/zero":                  safetensors.NotSafetensors,
		dir:                          safetensors.NotSafetensors,
		filepath.Join(dir, "nosuch"): fs.ErrNotExist,
	} {
		done := make(chan error, 1)
		go func() {
			_, err := safetensors.Open(path)
			done <- err
		}()
		select {
		case err := <-done:
			if !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v, want %v", path, err, want)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s: Open waits", path)
		}
	}
}
