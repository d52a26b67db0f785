// Package filecopy copies an open regular file, or a range of one, to another
// as cheaply as the system allows and byte for byte.
//
// Three methods are tried, cheapest first: sharing the source's blocks
// (FICLONE), copying inside the kernel (copy_file_range), and reading and
// writing. A method that the file systems do not offer gives way to the next
// one, which goes on at the byte where the other stopped. A full disk, an input
// or output error and the like are returned, not tried again.
//
// Holes stay holes. Linux says where they are. Where the system does not say,
// but the source takes less room than its size, aligned blocks of zeros are left
// out. Where it says neither, as on Windows, everything is written.
//
// The caller opens, syncs, closes, renames and removes the files and sets their
// modes and times; nothing here does. After an error the destination, which
// may have its full size already, holds anything.
//
// Positions are explicit: the files' own offsets are not used, but looking for
// holes may move them. Several ranges may be copied at once, into one file too,
// as long as they do not overlap.
package filecopy
