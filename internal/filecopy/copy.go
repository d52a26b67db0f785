package filecopy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// Method is how bytes got from one file to the other.
type Method string

const (
	// Reflink shares the source's blocks: nothing is written until one of the
	// files changes.
	Reflink Method = "reflink"
	// CopyFileRange copies inside the kernel, which may share blocks as well.
	CopyFileRange Method = "copy_file_range"
	// ReadWrite reads into a buffer and writes from it.
	ReadWrite Method = "copy"
)

// Options may stay zero.
type Options struct {
	// Progress is told that n more bytes of the source are dealt with: copied,
	// shared, or known to be a hole. After a copy that succeeded the calls add
	// up to its size. It is called by the goroutine that copies, at least once
	// every 8 MiB of data.
	Progress func(n int64)
}

// Copy copies the first size bytes of src, normally all of it, to dst, which
// must be empty. It returns the method that copied the last bytes, ReadWrite if
// there were none, and the number of bytes that were written, which is 0 for
// Reflink and leaves out holes. If src is or becomes shorter than size, the
// error names both sizes and is io.ErrUnexpectedEOF. A context that ends stops
// the copy within 8 MiB; a reflink, which takes moments, is not stopped.
func Copy(ctx context.Context, dst, src *os.File, size int64, o Options) (Method, int64, error) {
	j := job{sys: native{}, dst: dst, src: src, progress: o.Progress}
	err := j.whole(ctx, size)
	return j.method, j.written, err
}

// CopyRange copies the n bytes at srcOff of src to dstOff of dst, replacing what
// is there; dst grows if it has to. It never tries Reflink, else it is as Copy.
// Holes stay holes where dst has no data yet, best if it has its size already,
// and are written as zeros where it has data. Both files may be the same one if
// the ranges do not overlap.
func CopyRange(ctx context.Context, dst *os.File, dstOff int64, src *os.File, srcOff, n int64, o Options) (Method, int64, error) {
	j := job{sys: native{}, dst: dst, src: src, progress: o.Progress}
	err := j.part(ctx, dstOff, srcOff, n)
	return j.method, j.written, err
}

// system is what a copy asks of the operating system. Tests put one in its place
// that fails. Calls that the system or the file systems do not offer return an
// error that unsupported accepts.
type system interface {
	// clone makes dst, which is empty, a copy of all of src.
	clone(dst, src *os.File) error
	// copyRange copies at most n bytes and says how many. No bytes and no error
	// is the end of src, or a file system that does not do what it says.
	copyRange(dst *os.File, dstOff int64, src *os.File, srcOff, n int64) (int64, error)
	// nextData returns the first range of f at or after off that is not a hole,
	// io.EOF if there is none.
	nextData(f *os.File, off int64) (from, to int64, err error)
	// readAt and writeAt are as in io.ReaderAt and io.WriterAt.
	readAt(f *os.File, b []byte, off int64) (int, error)
	writeAt(f *os.File, b []byte, off int64) (int, error)
}

// native is the operating system; copy_*.go have its other methods.
type native struct{}

func (native) readAt(f *os.File, b []byte, off int64) (int, error)  { return f.ReadAt(b, off) }
func (native) writeAt(f *os.File, b []byte, off int64) (int, error) { return f.WriteAt(b, off) }

// whole is Copy.
func (j *job) whole(ctx context.Context, size int64) error {
	j.method = ReadWrite
	if size < 0 {
		return fmt.Errorf("copy %s: negative size %d", j.src.Name(), size)
	}
	if err := ctx.Err(); err != nil {
		return j.stopped(0, err)
	}
	if err := j.checkSource(size); err != nil {
		return err
	}
	switch has, err := regularSize(j.dst); {
	case err != nil:
		return err
	case has != 0:
		return fmt.Errorf("copy %s to %s: the destination has %d bytes; it must be empty", j.src.Name(), j.dst.Name(), has)
	}
	if size == 0 {
		return nil
	}
	switch err := j.clone(ctx, size); {
	case err == nil:
		j.method = Reflink
		j.advance(size)
		return nil
	case !unsupported(err):
		return err
	}
	j.fresh, j.blank = true, true
	return j.span(ctx, 0, 0, size)
}

// clone leaves dst empty if it returns an error that unsupported accepts.
func (j *job) clone(ctx context.Context, size int64) error {
	for {
		err := j.sys.clone(j.dst, j.src)
		if interrupted(err) {
			if err := ctx.Err(); err != nil {
				return j.stopped(0, err)
			}
			continue
		}
		if err != nil && !unsupported(err) {
			return &os.LinkError{Op: "reflink", Old: j.src.Name(), New: j.dst.Name(), Err: err}
		}
		has, serr := regularSize(j.dst)
		switch {
		case serr != nil:
			return serr
		case err != nil && has > 0: // it got some way
			if terr := j.dst.Truncate(0); terr != nil {
				return terr
			}
			return err
		case err != nil:
			return err
		case has < size:
			return j.short(has, size)
		case has > size:
			return j.dst.Truncate(size)
		}
		return nil
	}
}

// part is CopyRange.
func (j *job) part(ctx context.Context, dstOff, srcOff, n int64) error {
	j.method = ReadWrite
	if dstOff < 0 || srcOff < 0 || n < 0 || n > math.MaxInt64-max(dstOff, srcOff) {
		return fmt.Errorf("copy %s: no range of %d bytes from byte %d to byte %d", j.src.Name(), n, srcOff, dstOff)
	}
	if err := ctx.Err(); err != nil {
		return j.stopped(srcOff, err)
	}
	if err := j.checkSource(srcOff + n); err != nil {
		return err
	}
	has, err := regularSize(j.dst)
	if err != nil {
		return err
	}
	if n == 0 {
		return nil
	}
	if same, err := sameFile(j.dst, j.src); err != nil {
		return err
	} else if same && dstOff < srcOff+n && srcOff < dstOff+n {
		return fmt.Errorf("copy %s: bytes %d to %d and %d to %d of one file overlap", j.src.Name(), srcOff, srcOff+n, dstOff, dstOff+n)
	}
	j.blank = has <= dstOff
	if !j.blank {
		from, _, err := j.sys.nextData(j.dst, dstOff)
		j.blank = err == io.EOF || err == nil && from >= dstOff+n
	}
	if err := j.span(ctx, dstOff, srcOff, n); err != nil {
		return err
	}
	// A hole at the end. Truncate would cut off what others wrote behind it
	// meanwhile, so that a byte is written instead.
	if has, err = regularSize(j.dst); err != nil || has >= dstOff+n {
		return err
	}
	return j.put([]byte{0}, dstOff+n-1)
}

// checkSource returns an error if src ends before want.
func (j *job) checkSource(want int64) error {
	has, err := regularSize(j.src)
	if err == nil && has < want {
		err = j.short(has, want)
	}
	return err
}

func (j *job) short(has, want int64) error {
	return fmt.Errorf("copy %s: the file has %d bytes, not the promised %d; something shortened it: %w", j.src.Name(), has, want, io.ErrUnexpectedEOF)
}

func (j *job) stopped(off int64, err error) error {
	return fmt.Errorf("copy %s: stopped at byte %d: %w", j.src.Name(), off, err)
}

func regularSize(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("copy %s: not a regular file but %v", f.Name(), info.Mode())
	}
	return info.Size(), nil
}

func sameFile(a, b *os.File) (bool, error) {
	x, err := a.Stat()
	y, err2 := b.Stat()
	if err := errors.Join(err, err2); err != nil {
		return false, err
	}
	return os.SameFile(x, y), nil
}
