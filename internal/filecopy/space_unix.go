//go:build linux || darwin

package filecopy

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Free returns the bytes that the file system of a directory has left for this
// user. Quotas are not looked at.
func Free(dir string) (uint64, error) {
	var st unix.Statfs_t
	for {
		err := unix.Statfs(dir, &st)
		if err == nil {
			return uint64(st.Bavail) * fragment(&st), nil
		}
		if err != unix.EINTR {
			return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
		}
	}
}

// sparse reports whether f takes less room than its size.
func sparse(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Blocks*512 < st.Size, nil
}
