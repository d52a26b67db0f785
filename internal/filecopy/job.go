package filecopy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

const (
	// rangeBytes is the most that one call of copy_file_range is asked for. A
	// call does not stop for a signal; this much takes less than a second at
	// 10 MB/s, and larger calls are not measurably faster.
	rangeBytes = 8 << 20
	// bufferBytes is the most that is read and written at once.
	bufferBytes = 1 << 20
	// zeroBytes is the length and alignment of zeros that are left out.
	zeroBytes = 64 << 10
)

// job is one copy.
type job struct {
	sys       system
	dst, src  *os.File
	progress  func(int64)
	method    Method // that copied the last bytes
	noRange   bool   // copy_file_range does not work here
	blank     bool   // the range of dst reads as zeros, so that zeros need no writing
	fresh     bool   // dst is empty and nobody else writes to it
	skipZeros bool   // the read and write loop looks for zeros
	promised  int64  // size that src must at least have
	buf       []byte
	written   int64
}

// span copies n bytes, hole by hole. The holes of a source that shrank look like
// those that it had, so its size is looked at afterwards.
func (j *job) span(ctx context.Context, dstOff, srcOff, n int64) error {
	end := srcOff + n
	j.promised = end
	for off := srcOff; off < end; {
		if err := ctx.Err(); err != nil {
			return j.stopped(off, err)
		}
		from, to, err := j.nextData(off, end)
		if err != nil {
			return fmt.Errorf("copy %s: looking for data from byte %d: %w", j.src.Name(), off, err)
		}
		if j.fresh && off == srcOff && (to-from < n || j.skipZeros) {
			// Some file systems give a file that grows room in advance, which
			// would fill the holes, so that it gets its size first.
			if err := j.dst.Truncate(n); err != nil {
				return err
			}
		}
		j.advance(from - off)
		if err := j.data(ctx, dstOff+from-srcOff, from, to-from); err != nil {
			return err
		}
		off = to
	}
	return j.checkSource(end)
}

// nextData returns the next range of src to copy. It is empty, at end, if only a
// hole is left.
func (j *job) nextData(off, end int64) (from, to int64, err error) {
	if !j.blank {
		return off, end, nil
	}
	from, to, err = j.sys.nextData(j.src, off)
	switch {
	case err == io.EOF || err == nil && from >= end:
		return end, end, nil
	case unsupported(err):
		j.skipZeros, err = sparse(j.src)
		return off, end, err
	case err != nil:
		return 0, 0, err
	case from < off || to <= from: // nonsense
		return off, end, nil
	}
	return from, min(to, end), nil
}

// data copies n bytes without looking for holes.
func (j *job) data(ctx context.Context, dstOff, srcOff, n int64) error {
	for n > 0 {
		if err := ctx.Err(); err != nil {
			return j.stopped(srcOff, err)
		}
		step := j.rangeStep
		if j.noRange {
			step = j.bufferStep
		}
		k, err := step(dstOff, srcOff, n)
		if err != nil {
			return err
		}
		j.advance(k)
		dstOff, srcOff, n = dstOff+k, srcOff+k, n-k
	}
	return nil
}

// rangeStep copies some bytes with copy_file_range. It may copy none, and sets
// noRange if there is no point in calling it again. Some file systems return 0
// before the end: the other loop finds out whether it is.
func (j *job) rangeStep(dstOff, srcOff, n int64) (int64, error) {
	k, err := j.sys.copyRange(j.dst, dstOff, j.src, srcOff, min(n, rangeBytes))
	switch {
	case interrupted(err):
		return 0, nil
	case unsupported(err) || err == nil && k == 0:
		j.noRange = true
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("at byte %d: %w", srcOff, &os.LinkError{Op: "copy_file_range", Old: j.src.Name(), New: j.dst.Name(), Err: err})
	}
	j.method = CopyFileRange
	j.written += k
	return k, nil
}

// bufferStep reads and writes up to a buffer full.
func (j *job) bufferStep(dstOff, srcOff, n int64) (int64, error) {
	if j.buf == nil {
		j.buf = make([]byte, min(j.promised-srcOff, bufferBytes)) // n may be short
	}
	b := j.buf[:min(n, int64(len(j.buf)))]
	if k, err := j.sys.readAt(j.src, b, srcOff); k < len(b) {
		if err == io.EOF {
			has, err := regularSize(j.src)
			if err != nil {
				return 0, err
			}
			return 0, j.short(min(has, srcOff+int64(k)), j.promised)
		}
		return 0, fmt.Errorf("at byte %d: %w", srcOff+int64(k), err)
	}
	j.method = ReadWrite
	if err := j.write(b, dstOff); err != nil {
		return 0, fmt.Errorf("at byte %d: %w", srcOff, err)
	}
	return int64(len(b)), nil
}

// write writes b at off, without its blocks of zeros if the job skips them.
func (j *job) write(b []byte, off int64) error {
	if !j.skipZeros {
		return j.put(b, off)
	}
	start := 0
	for p := 0; p < len(b); {
		q := min(p+zeroBytes-int((off+int64(p))%zeroBytes), len(b))
		if q-p == zeroBytes && allZero(b[p:q]) {
			if err := j.put(b[start:p], off+int64(start)); err != nil {
				return err
			}
			start = q
		}
		p = q
	}
	return j.put(b[start:], off+int64(start))
}

func (j *job) put(b []byte, off int64) error {
	if len(b) == 0 {
		return nil
	}
	k, err := j.sys.writeAt(j.dst, b, off)
	j.written += int64(k)
	if err == nil && k < len(b) {
		err = io.ErrShortWrite
	}
	return err
}

func (j *job) advance(n int64) {
	if n > 0 && j.progress != nil {
		j.progress(n)
	}
}

func allZero(b []byte) bool {
	return b[0] == 0 && bytes.Equal(b[1:], b[:len(b)-1])
}

func interrupted(err error) bool { return errors.Is(err, syscall.EINTR) }

// unsupported reports whether an error says that a call is not for these files,
// so that a simpler one may do. Besides the codes that are meant for this, file
// systems and sandboxes are known to answer with EPERM and EACCES (a filter for
// system calls), EBADF and EINVAL (a kind of file), ETXTBSY (a swap file) and
// ENOENT (network shares). If such a code is the truth, the simpler call fails
// with it too.
func unsupported(err error) bool {
	for _, e := range [...]error{
		errors.ErrUnsupported, syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.ENOTTY, syscall.EXDEV, syscall.EINVAL,
		syscall.EPERM, syscall.EACCES, syscall.EBADF, syscall.ETXTBSY, syscall.ENOENT,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
