//go:build !unix

package checkpoint

import "io/fs"

// links returns 0: the system does not say how many names a file has.
func links(fs.FileInfo) uint64 { return 0 }

// sameDevice returns false: the system does not say.
func sameDevice(fs.FileInfo, string) bool { return false }
