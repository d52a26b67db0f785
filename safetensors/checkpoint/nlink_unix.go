//go:build unix

package checkpoint

import (
	"io/fs"
	"os"
	"syscall"
)

// links returns how many names a file has, 0 if the system does not say.
func links(st fs.FileInfo) uint64 {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return uint64(sys.Nlink)
	}
	return 0
}

// sameDevice reports whether a file and a directory are on one file system, so
// that the file can get a name in it.
func sameDevice(st fs.FileInfo, dir string) bool {
	at, err := os.Stat(dir)
	if err != nil {
		return false
	}
	a, ok1 := st.Sys().(*syscall.Stat_t)
	b, ok2 := at.Sys().(*syscall.Stat_t)
	return ok1 && ok2 && a.Dev == b.Dev
}
