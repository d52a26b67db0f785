package filecopy

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

func (native) clone(dst, src *os.File) error {
	return descriptors(dst, src, func(d, s int) error { return unix.IoctlFileClone(d, s) })
}

func (native) copyRange(dst *os.File, dstOff int64, src *os.File, srcOff, n int64) (int64, error) {
	k := 0
	err := descriptors(dst, src, func(d, s int) (err error) {
		k, err = unix.CopyFileRange(s, &srcOff, d, &dstOff, int(n), 0)
		return err
	})
	return int64(max(k, 0)), err
}

func (native) nextData(f *os.File, off int64) (from, to int64, err error) {
	from, err = f.Seek(off, unix.SEEK_DATA)
	if err == nil {
		to, err = f.Seek(from, unix.SEEK_HOLE)
	}
	if errors.Is(err, unix.ENXIO) {
		return 0, 0, io.EOF
	}
	return from, to, err
}

// descriptors calls do with the numbers of both files, which stay open meanwhile.
func descriptors(dst, src *os.File, do func(dst, src int) error) error {
	d, err := dst.SyscallConn()
	if err != nil {
		return err
	}
	s, err := src.SyscallConn()
	if err != nil {
		return err
	}
	var inner, result error
	err = d.Control(func(dfd uintptr) {
		inner = s.Control(func(sfd uintptr) { result = do(int(dfd), int(sfd)) })
	})
	if err != nil {
		return err
	}
	if inner != nil {
		return inner
	}
	return result
}

// fragment is the unit that st counts in. The block size, which is meant for
// transfers, differs from it on some network file systems.
func fragment(st *unix.Statfs_t) uint64 { return uint64(st.Frsize) }
