//go:build linux && big

package safetensors_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ckpt-surgery/ckpt/safetensors"
)

// sparse makes a file of one terabyte that begins with head, ends with tail and
// takes next to no room.
func sparse(t *testing.T, head, tail []byte) (path string, size int64) {
	path = filepath.Join(t.TempDir(), "sparse.safetensors")
	size = 1 << 40
	if err := os.WriteFile(path, head, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(tail, size-int64(len(tail))); err != nil {
		t.Fatal(err)
	}
	return path, size
}

func TestTerabyte(t *testing.T) {
	const header = 1000
	text := object(u8("t", 0, 1<<40-8-header))
	for len(text) < header {
		text += " "
	}
	path, size := sparse(t, frame(text, nil), []byte("the end"))
	start := time.Now()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tensor, _ := f.Tensor("t")
	if tensor.Offset != 8+header || tensor.Bytes != size-8-header {
		t.Fatalf("%d bytes at %d", tensor.Bytes, tensor.Offset)
	}
	var p [10]byte
	if n, err := tensor.ReadAt(p[:], tensor.Bytes-8); n != 8 || err != io.EOF || string(p[:n]) != "\x00the end" {
		t.Errorf("%q, %v", p[:n], err)
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("took %v", d)
	}
}

func TestTerabyteOfZeros(t *testing.T) {
	path, _ := sparse(t, nil, nil)
	start := time.Now()
	if _, err := safetensors.Open(path); !errors.Is(err, safetensors.HeaderSyntax) {
		t.Errorf("%v", err)
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("took %v", d)
	}
}
