package filecopy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// extents are the ranges of a file that are not holes.
func extents(t *testing.T, f *os.File) (list [][2]int64) {
	t.Helper()
	for off := int64(0); ; {
		from, to, err := native{}.nextData(f, off)
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list, off = append(list, [2]int64{from, to}), to
	}
}

// room is what a file takes on its disk.
func room(t *testing.T, f *os.File) int64 {
	t.Helper()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}

// sparseFile makes a file of a size with 1 MiB of data at each offset, which
// ends with the file if the file is shorter.
func sparseFile(t *testing.T, dir string, size int64, offsets ...int64) (f *os.File, data int64) {
	t.Helper()
	f = fileIn(t, dir, nil)
	if err := f.Truncate(size); err != nil { // first, since a file that grows may be given room in advance
		t.Fatal(err)
	}
	for i, off := range offsets {
		n := min(1<<20, size-off)
		if _, err := f.WriteAt(noise(byte(20+i), int(n)), off); err != nil {
			t.Fatal(err)
		}
		data += n
	}
	return f, data
}

var sparseFiles = []struct {
	name    string
	size    int64
	offsets []int64
}{
	{"hole at the start", 8 << 20, []int64{7 << 20}},
	{"hole in the middle", 8 << 20, []int64{0, 7 << 20}},
	{"hole at the end", 8<<20 + 5, []int64{0}},
	{"holes everywhere", 16<<20 + 5, []int64{1 << 20, 4 << 20, 5 << 20, 16 << 20}},
	{"all hole", 8<<20 + 5, nil},
	{"one byte of hole", 1, nil},
	{"no hole", 1 << 20, []int64{0}},
}

// TestHoles copies files with holes by each method but Reflink; the copy has
// data where the source has it and nowhere else.
func TestHoles(t *testing.T) {
	for _, c := range sparseFiles {
		for _, method := range []Method{CopyFileRange, ReadWrite} {
			for _, ranged := range []string{"Copy", "CopyRange", "CopyRange within size"} {
				t.Run(fmt.Sprintf("%s/%s/%s", c.name, method, ranged), func(t *testing.T) {
					src, data := sparseFile(t, t.TempDir(), c.size, c.offsets...)
					sys := &faulty{step: rangeBytes}
					if method == ReadWrite {
						sys.fault = failAt(opRange, 0, syscall.EXDEV)
					}
					var told int64
					j := &job{sys: sys, dst: file(t, nil), src: src, progress: func(n int64) { told += n }}
					var err error
					switch ranged {
					case "Copy":
						err = j.whole(t.Context(), c.size)
					case "CopyRange":
						err = j.part(t.Context(), 0, 0, c.size)
					default:
						err = errors.Join(j.dst.Truncate(c.size), j.part(t.Context(), 0, 0, c.size))
					}
					want := method
					if data == 0 {
						want = ReadWrite // of nothing
					}
					if err != nil || told != c.size || j.method != want {
						t.Fatalf("%s, progress %d, %v", j.method, told, err)
					}
					content, err := os.ReadFile(src.Name())
					if err != nil {
						t.Fatal(err)
					}
					holds(t, j.dst, content)
					// One byte stands for a hole at the end of a range, and a file
					// that grows may be given room that is not asked for.
					if ranged == "CopyRange" {
						if j.written != data && (j.written != data+1 || len(c.offsets) > 1) {
							t.Errorf("%d bytes written of %d", j.written, data)
						}
						return
					}
					if got, want := extents(t, j.dst), extents(t, src); j.written != data || !slices.Equal(got, want) {
						t.Errorf("%d bytes written of %d; data at %v, want %v", j.written, data, got, want)
					}
					if room(t, j.dst) > room(t, src)+64<<10 {
						t.Errorf("takes %d bytes, the source %d", room(t, j.dst), room(t, src))
					}
				})
			}
		}
	}
}

// TestHolesReplaceData copies holes over data, which must become zeros.
func TestHolesReplaceData(t *testing.T) {
	src, _ := sparseFile(t, t.TempDir(), 4<<20, 1<<20)
	old := noise(30, 5<<20)
	for _, fault := range []error{nil, syscall.EXDEV} {
		j := &job{dst: file(t, old), src: src, sys: &faulty{step: rangeBytes, fault: failAt(opRange, 0, fault)}}
		if err := j.part(t.Context(), 100, 0, 4<<20); err != nil {
			t.Fatal(err)
		}
		want := slices.Clone(old)
		if _, err := src.ReadAt(want[100:100+4<<20], 0); err != nil {
			t.Fatal(err)
		}
		holds(t, j.dst, want)
	}
}

// TestHolesBeforeData keeps holes where dst has data only behind the range, and
// right behind it.
func TestHolesBeforeData(t *testing.T) {
	src, data := sparseFile(t, t.TempDir(), 4<<20, 1<<20)
	for _, behind := range []int64{4 << 20, 8 << 20} {
		dst, _ := sparseFile(t, t.TempDir(), 9<<20, behind)
		want := make([]byte, 9<<20)
		_, err1 := dst.ReadAt(want, 0)
		_, err2 := src.ReadAt(want[:4<<20], 0)
		_, n, err := CopyRange(t.Context(), dst, 0, src, 0, 4<<20, Options{})
		if err := errors.Join(err1, err2, err); err != nil || n != data {
			t.Fatalf("%d bytes written of %d, %v", n, data, err)
		}
		holds(t, dst, want)
	}
}

// TestGuessedHoles copies where the file system does not tell holes: zeros are
// left out if the source takes less room than its size, and only then.
func TestGuessedHoles(t *testing.T) {
	dir := t.TempDir()
	written := make([]byte, 4<<20)
	copy(written[1<<20:], noise(31, 100))
	solid := fileIn(t, dir, written)
	holed, _ := sparseFile(t, dir, 8<<20+5, 1<<20, 3<<20+4096)
	for _, dst := range []string{"empty", "with data"} {
		for _, src := range []*os.File{solid, holed} {
			info, err := src.Stat()
			if err != nil {
				t.Fatal(err)
			}
			size := info.Size()
			sys := &faulty{step: rangeBytes, fault: func(op string, call int) error {
				if op == opData || op == opRange {
					return syscall.EINVAL
				}
				return nil
			}}
			j := &job{sys: sys, dst: file(t, nil), src: src}
			if dst == "empty" {
				err = j.whole(t.Context(), size)
			} else {
				j.dst.Write(noise(32, int(size)))
				err = j.part(t.Context(), 0, 0, size)
			}
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(src.Name())
			if err != nil {
				t.Fatal(err)
			}
			holds(t, j.dst, want)
			// The second piece of data covers part of a block at both its ends.
			most := size
			if dst == "empty" && src == holed {
				most = 1<<20 + 1<<20 + zeroBytes + 5
			}
			if j.written != most {
				t.Errorf("%s: %d of %d bytes written, want %d", dst, j.written, size, most)
			}
		}
	}
}

// TestSmallPieceFirst looks that a small piece of data does not set the size of
// the buffer for what follows.
func TestSmallPieceFirst(t *testing.T) {
	src, _ := sparseFile(t, t.TempDir(), 8<<20, 4<<20, 5<<20, 6<<20, 7<<20)
	if _, err := src.WriteAt([]byte("small"), 0); err != nil {
		t.Fatal(err)
	}
	sys := &faulty{step: rangeBytes, fault: failAt(opRange, 0, syscall.EXDEV)}
	j := &job{sys: sys, dst: file(t, nil), src: src}
	if err := j.whole(t.Context(), 8<<20); err != nil || sys.calls[opRead] > 5 {
		t.Errorf("%v, calls %v", err, sys.calls)
	}
}

// TestTerabyte copies a file of 1 TB that is almost all hole.
func TestTerabyte(t *testing.T) {
	const size = 1 << 40
	src, data := sparseFile(t, t.TempDir(), size, 0, size/2+4096, size-1<<20)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // before the disk is full
	defer cancel()
	dst := file(t, nil)
	start := time.Now()
	method, n, err := Copy(ctx, dst, src, size, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, %d bytes in %v", method, n, time.Since(start))
	if info, err := dst.Stat(); err != nil || info.Size() != size {
		t.Errorf("%v, %v", info.Size(), err)
	}
	if method != Reflink && n != data || room(t, dst) > data+256<<10 {
		t.Errorf("%s: %d bytes written, %d allocated, want %d", method, n, room(t, dst), data)
	}
	if got, want := extents(t, dst), extents(t, src); !slices.Equal(got, want) {
		t.Errorf("data at %v, want %v", got, want)
	}
	for _, e := range extents(t, src) {
		want, got := make([]byte, e[1]-e[0]), make([]byte, e[1]-e[0])
		_, err1 := src.ReadAt(want, e[0])
		_, err2 := dst.ReadAt(got, e[0])
		if err1 != nil || err2 != nil || !slices.Equal(got, want) {
			t.Errorf("bytes from %d on differ: %v, %v", e[0], err1, err2)
		}
	}
}

// otherFileSystem copies data and holes between two directories, both ways.
func otherFileSystem(t *testing.T, here, there string) {
	for _, way := range [][2]string{{here, there}, {there, here}} {
		for _, c := range sparseFiles {
			src, data := sparseFile(t, way[0], c.size, c.offsets...)
			dst := fileIn(t, way[1], nil)
			method, n, err := Copy(t.Context(), dst, src, c.size, Options{})
			if err != nil || n != data || method == Reflink {
				t.Fatalf("%s: %s, %d bytes written of %d, %v", c.name, method, n, data, err)
			}
			want, err := os.ReadFile(src.Name())
			if err != nil {
				t.Fatal(err)
			}
			holds(t, dst, want)
			if room(t, dst) > data+256<<10 {
				t.Errorf("%s: takes %d bytes for %d of data", c.name, room(t, dst), data)
			}
			src.Close()
			dst.Close()
		}
	}
}

// TestSharedMemory copies to and from /dev/shm where that is another file system
// in memory; the tag root mounts one in any case.
func TestSharedMemory(t *testing.T) {
	here := t.TempDir()
	var shm unix.Statfs_t
	var a, b unix.Stat_t
	if err := unix.Statfs("/dev/shm", &shm); err != nil || shm.Type != unix.TMPFS_MAGIC {
		return
	}
	if err := errors.Join(unix.Stat(here, &a), unix.Stat("/dev/shm", &b)); err != nil || a.Dev == b.Dev {
		return
	}
	there, err := os.MkdirTemp("/dev/shm", "filecopy")
	if err != nil {
		return // not for us
	}
	defer os.RemoveAll(there)
	otherFileSystem(t, here, there)
}
