//go:build !unix

package atomicfile

import (
	"errors"
	"os"
)

// unsupported reports whether a file system said that it cannot sync.
func unsupported(err error) bool { return errors.Is(err, errors.ErrUnsupported) }

// fsyncDir does nothing: Windows cannot sync a directory.
func fsyncDir(string) error { return nil }

// renameDir moves a directory to a name that is free or an empty directory's;
// Windows does not rename over one.
func renameDir(from, to string) error {
	if st, err := os.Lstat(to); err == nil && st.IsDir() {
		if err := os.Remove(to); err != nil { // fails unless it is empty
			return err
		}
	}
	return os.Rename(from, to)
}
