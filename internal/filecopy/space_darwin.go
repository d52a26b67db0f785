package filecopy

import "golang.org/x/sys/unix"

// fragment is the unit that st counts in.
func fragment(st *unix.Statfs_t) uint64 { return uint64(st.Bsize) }
