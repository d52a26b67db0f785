// Package dirlock keeps two runs from changing one directory at a time.
package dirlock

import "errors"

// ErrLocked is returned when another process holds the lock.
var ErrLocked = errors.New("another run is at work in this directory; wait for it")

// ErrUnsupported is returned where the system or the file system has no locks.
var ErrUnsupported = errors.New("this file system has no locks")
