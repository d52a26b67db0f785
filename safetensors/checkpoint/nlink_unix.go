//go:build unix

package checkpoint

import (
	"io/fs"
	"syscall"
)

// links returns how many names a file has, 0 if the system does not say.
func links(st fs.FileInfo) uint64 {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return uint64(sys.Nlink)
	}
	return 0
}
