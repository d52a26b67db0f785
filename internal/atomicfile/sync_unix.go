//go:build unix

package atomicfile

import (
	"errors"
	"os"
	"syscall"
)

// unsupported reports whether a file system said that it cannot sync.
func unsupported(err error) bool {
	return errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS)
}

func fsyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if err != nil && unsupported(err) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

// renameDir moves a directory to a name that is free or an empty directory's.
// os.Rename would not take the place of an empty one, which the system does in
// one step.
func renameDir(from, to string) error {
	if err := syscall.Rename(from, to); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}
