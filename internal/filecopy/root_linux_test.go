//go:build linux && root

package filecopy

import (
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// mounted mounts something until the test ends.
func mounted(t *testing.T, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", append(args, dir)...).CombinedOutput(); err != nil {
		t.Fatalf("the tag root is for root on a system that can mount %v: %v\n%s", args, err, out)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

func TestOtherFileSystem(t *testing.T) {
	otherFileSystem(t, t.TempDir(), mounted(t, "-t", "tmpfs", "none"))
}

// TestFull copies to a file system that has less room than the file.
func TestFull(t *testing.T) {
	const size = 3 << 20
	small := mounted(t, "-t", "tmpfs", "-o", "size=2m", "none")
	if free, err := Free(small); err != nil || free != 2<<20 {
		t.Errorf("%d bytes free, %v", free, err)
	}
	inside, _ := sparseFile(t, small, size, 0)
	if free, err := Free(small); err != nil || free != 1<<20 {
		t.Errorf("%d bytes free, %v", free, err)
	}
	for name, src := range map[string]*os.File{"from another": file(t, noise(40, size)), "from itself": inside} {
		dst := fileIn(t, small, nil)
		_, n, err := Copy(t.Context(), dst, src, size, Options{})
		if src == inside { // its megabyte of data fits, its hole needs no room
			if err != nil || n != 1<<20 {
				t.Errorf("%s: %d bytes, %v", name, n, err)
			}
		} else if !errors.Is(err, syscall.ENOSPC) || n > 2<<20 {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
		os.Remove(dst.Name())
		dst.Close()
	}
}

// TestReflink copies on a btrfs of 16 MiB until the copies are larger than it.
// The image is empty: mkfs.btrfs -M -m single -d single, then gzip.
func TestReflink(t *testing.T) {
	zipped, err := os.Open("testdata/btrfs.img.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer zipped.Close()
	r, err := gzip.NewReader(zipped)
	if err != nil {
		t.Fatal(err)
	}
	image, err := os.Create(filepath.Join(t.TempDir(), "btrfs.img"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(image, r); err != nil {
		t.Fatal(err)
	}
	if err := image.Close(); err != nil {
		t.Fatal(err)
	}
	dir := mounted(t, "-t", "btrfs", "-o", "loop", image.Name())

	const size = 3<<20 + 5
	data := noise(41, size)
	src := fileIn(t, dir, data)
	for range 8 {
		dst := fileIn(t, dir, nil)
		var told int64
		method, n, err := Copy(t.Context(), dst, src, size, Options{Progress: func(n int64) { told += n }})
		if err != nil || method != Reflink || n != 0 || told != size {
			t.Fatalf("%s, %d bytes, progress %d, %v", method, n, told, err)
		}
		holds(t, dst, data)
	}
	// Fewer bytes than the source has, a range, and a file from elsewhere.
	dst := fileIn(t, dir, nil)
	if method, _, err := Copy(t.Context(), dst, src, 1<<20+1, Options{}); err != nil || method != Reflink {
		t.Errorf("%s, %v", method, err)
	}
	holds(t, dst, data[:1<<20+1])
	dst = fileIn(t, dir, nil)
	if method, n, err := CopyRange(t.Context(), dst, 0, src, 1, 5000, Options{}); err != nil || method != CopyFileRange || n != 5000 {
		t.Errorf("%s, %d, %v", method, n, err)
	}
	holds(t, dst, data[1:5001])
	dst = fileIn(t, dir, nil)
	if method, n, err := Copy(t.Context(), dst, file(t, data[:5000]), 5000, Options{}); err != nil || method == Reflink || n != 5000 {
		t.Errorf("%s, %d, %v", method, n, err)
	}
	holds(t, dst, data[:5000])
}
