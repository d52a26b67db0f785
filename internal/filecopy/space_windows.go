package filecopy

import (
	"os"

	"golang.org/x/sys/windows"
)

// Free returns the bytes that the file system of a directory has left for this
// user, its quota included.
func Free(dir string) (uint64, error) {
	name, err := windows.UTF16PtrFromString(dir + `\`) // a network share must end so
	var free uint64
	if err == nil {
		err = windows.GetDiskFreeSpaceEx(name, &free, nil, nil)
	}
	if err != nil {
		return 0, &os.PathError{Op: "GetDiskFreeSpaceEx", Path: dir, Err: err}
	}
	return free, nil
}

// sparse is false: a file that is not marked as sparse takes the room that is
// skipped all the same.
func sparse(*os.File) (bool, error) { return false, nil }
