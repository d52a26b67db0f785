package filecopy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// noise returns n random bytes, the same for each seed.
func noise(seed byte, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// file makes an open file in a directory of its own.
func file(t testing.TB, content []byte) *os.File { return fileIn(t, t.TempDir(), content) }

func fileIn(t testing.TB, dir string, content []byte) *os.File {
	t.Helper()
	f, err := os.CreateTemp(dir, "f")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	return f
}

// holds checks the bytes of a file.
func holds(t testing.TB, f *os.File, want []byte) {
	t.Helper()
	got, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Fatalf("%d bytes, want %d", len(got), len(want))
	}
	if !bytes.Equal(got, want) {
		at := 0
		for got[at] == want[at] {
			at++
		}
		t.Fatalf("differs from byte %d on", at)
	}
}

var sizes = []int{0, 1, 4095, 4096, 4097, 1<<20 - 1, 1 << 20, 1<<20 + 1, 3 << 20, 20<<20 + 5}

func TestCopy(t *testing.T) {
	for _, size := range sizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			data := noise(1, size)
			src, dst := file(t, data), file(t, nil)
			var told int64
			method, n, err := Copy(t.Context(), dst, src, int64(size), Options{Progress: func(n int64) { told += n }})
			if err != nil {
				t.Fatal(err)
			}
			t.Log(method)
			holds(t, dst, data)
			holds(t, src, data)
			if want := int64(size); told != want || n != want && (n != 0 || method != Reflink) {
				t.Errorf("%s: %d bytes written, progress %d, want %d", method, n, told, want)
			}
			if size == 0 && method != ReadWrite {
				t.Errorf("nothing was copied with %s", method)
			}
		})
	}
}

// TestOnlyThePromise leaves out what a source has beyond the promised size.
func TestOnlyThePromise(t *testing.T) {
	data := noise(2, 3<<20)
	for _, size := range []int{0, 1, 5000, 2<<20 + 1} {
		src, dst := file(t, data), file(t, nil)
		if _, _, err := Copy(t.Context(), dst, src, int64(size), Options{}); err != nil {
			t.Fatal(err)
		}
		holds(t, dst, data[:size])
	}
}

func TestCopyRange(t *testing.T) {
	const have = 2<<20 + 17
	data := noise(3, have)
	old := noise(4, 300_000)
	for _, srcOff := range []int{0, 4096, 1<<20 + 3} {
		for _, dstOff := range []int{0, 4095, 300_000, 1<<20 + 1} {
			for _, n := range []int{0, 1, 4097, 1<<20 - 3} {
				src, dst := file(t, data), file(t, old)
				method, written, err := CopyRange(t.Context(), dst, int64(dstOff), src, int64(srcOff), int64(n), Options{})
				if err != nil || written != int64(n) || method == Reflink {
					t.Fatalf("%d bytes from %d to %d: %s, %d, %v", n, srcOff, dstOff, method, written, err)
				}
				want := bytes.Clone(old)
				if end := dstOff + n; n > 0 && end > len(want) {
					want = append(want, make([]byte, end-len(want))...)
				}
				copy(want[min(dstOff, len(want)):], data[srcOff:srcOff+n])
				holds(t, dst, want)
			}
		}
	}
}

// TestAssemble copies parts into one file at once, the last part first.
func TestAssemble(t *testing.T) {
	const parts, size = 7, 1<<20 + 11
	dst := file(t, nil)
	all := noise(5, parts*size)
	src := file(t, all)
	done := make(chan error)
	for i := parts - 1; i >= 0; i-- {
		go func() {
			_, _, err := CopyRange(t.Context(), dst, int64(i*size), src, int64(i*size), size, Options{})
			done <- err
		}()
	}
	for range parts {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	holds(t, dst, all)
}

func TestWithinOneFile(t *testing.T) {
	data := noise(6, 300_000)
	f := file(t, data)
	if _, _, err := CopyRange(t.Context(), f, 200_000, f, 0, 100_000, Options{}); err != nil {
		t.Fatal(err)
	}
	want := append(bytes.Clone(data[:200_000]), data[:100_000]...)
	holds(t, f, want)
	other, err := os.OpenFile(f.Name(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, off := range []int64{0, 1, 99_999} {
		_, _, err := CopyRange(t.Context(), other, 100_000+off, f, 100_000, 100_000, Options{})
		if err == nil || !strings.Contains(err.Error(), "overlap") {
			t.Errorf("overlap by %d: %v", 100_000-off, err)
		}
	}
	holds(t, f, want)
}

// TestRefuses checks what is refused before a byte is written.
func TestRefuses(t *testing.T) {
	data := noise(7, 1000)
	src, full := file(t, data), file(t, []byte("keep me"))
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ctx := t.Context()
	for _, c := range []struct {
		name string
		is   error
		says []string
		do   func(dst *os.File) (Method, int64, error)
	}{
		{"shorter than promised", io.ErrUnexpectedEOF, []string{"1000", "1001", src.Name()}, func(dst *os.File) (Method, int64, error) { return Copy(ctx, dst, src, 1001, Options{}) }},
		{"range ends behind", io.ErrUnexpectedEOF, []string{"1000", "1001"}, func(dst *os.File) (Method, int64, error) { return CopyRange(ctx, dst, 0, src, 999, 2, Options{}) }},
		{"range starts behind", io.ErrUnexpectedEOF, []string{"1000", "2000"}, func(dst *os.File) (Method, int64, error) { return CopyRange(ctx, dst, 0, src, 2000, 0, Options{}) }},
		{"not empty", nil, []string{"has 7 bytes", "empty"}, func(*os.File) (Method, int64, error) { return Copy(ctx, full, src, 1000, Options{}) }},
		{"onto itself", nil, []string{"empty"}, func(*os.File) (Method, int64, error) { return Copy(ctx, src, src, 1000, Options{}) }},
		{"negative size", nil, []string{"-1"}, func(dst *os.File) (Method, int64, error) { return Copy(ctx, dst, src, -1, Options{}) }},
		{"negative offset", nil, []string{"-1"}, func(dst *os.File) (Method, int64, error) { return CopyRange(ctx, dst, 0, src, -1, 1, Options{}) }},
		{"negative target", nil, []string{"-1"}, func(dst *os.File) (Method, int64, error) { return CopyRange(ctx, dst, -1, src, 0, 1, Options{}) }},
		{"overflow", nil, []string{"no range"}, func(dst *os.File) (Method, int64, error) {
			return CopyRange(ctx, dst, 1, src, 0, math.MaxInt64, Options{})
		}},
		{"from a directory", nil, []string{"regular"}, func(dst *os.File) (Method, int64, error) { return Copy(ctx, dst, dir, 0, Options{}) }},
		{"to a directory", nil, []string{"regular"}, func(*os.File) (Method, int64, error) { return CopyRange(ctx, dir, 0, src, 0, 1, Options{}) }},
		{"ended", context.Canceled, nil, func(dst *os.File) (Method, int64, error) { return Copy(ended, dst, src, 1000, Options{}) }},
		{"ended range", context.Canceled, nil, func(dst *os.File) (Method, int64, error) { return CopyRange(ended, dst, 0, src, 0, 9, Options{}) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dst := file(t, nil)
			_, n, err := c.do(dst)
			if err == nil || n != 0 || c.is != nil && !errors.Is(err, c.is) {
				t.Fatalf("%d bytes, %v", n, err)
			}
			t.Log(err)
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q is not in: %v", s, err)
				}
			}
			holds(t, dst, nil)
			holds(t, full, []byte("keep me"))
			holds(t, src, data)
		})
	}
}

func TestFree(t *testing.T) {
	dir := t.TempDir()
	n, err := Free(dir)
	if err != nil || n == 0 || n > 1<<60 {
		t.Errorf("%d bytes free, %v", n, err)
	}
	missing := filepath.Join(dir, "missing")
	if n, err := Free(missing); n != 0 || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("%d, %v", n, err)
	}
}
