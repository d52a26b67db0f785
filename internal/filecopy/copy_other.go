//go:build !linux

package filecopy

import (
	"errors"
	"os"
)

// Other systems clone by name only (macOS) or by block and not on all file
// systems (Windows).
func (native) clone(dst, src *os.File) error { return errors.ErrUnsupported }

func (native) copyRange(dst *os.File, dstOff int64, src *os.File, srcOff, n int64) (int64, error) {
	return 0, errors.ErrUnsupported
}

// macOS has SEEK_DATA, but from inside data it goes to the next range of it.
func (native) nextData(f *os.File, off int64) (from, to int64, err error) {
	return 0, 0, errors.ErrUnsupported
}
