//go:build !linux && !darwin && !windows

package filecopy

import (
	"errors"
	"os"
)

// Free is not known on this system.
func Free(dir string) (uint64, error) {
	return 0, &os.PathError{Op: "free space", Path: dir, Err: errors.ErrUnsupported}
}

func sparse(*os.File) (bool, error) { return false, nil }
