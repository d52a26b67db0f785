//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package dirlock

// Lock returns ErrUnsupported.
func Lock(dir string) (unlock func(), err error) { return nil, ErrUnsupported }
