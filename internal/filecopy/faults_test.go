package filecopy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// faulty is the operating system, except that copyRange copies at most step
// bytes a call, clone works only if clones is set, on any file system then, and
// fault is asked before the call'th call, from 0, of each operation. What it
// returns is the call's result, errZero that nothing was done without an error.
type faulty struct {
	native
	step   int64
	clones bool
	fault  func(op string, call int) error
	calls  map[string]int
	log    []string
}

var errZero = errors.New("0 and no error")

const (
	opClone = "clone"
	opRange = "copy_file_range"
	opData  = "look for data"
	opRead  = "read"
	opWrite = "write"
)

func (f *faulty) ask(op string) error {
	if f.calls == nil {
		f.calls = map[string]int{}
	}
	call := f.calls[op]
	f.calls[op]++
	f.log = append(f.log, op)
	if f.fault == nil {
		return nil
	}
	return f.fault(op, call)
}

func (f *faulty) clone(dst, src *os.File) error {
	if err := f.ask(opClone); err != nil {
		return err
	}
	if !f.clones {
		return syscall.EOPNOTSUPP
	}
	b, err := os.ReadFile(src.Name())
	if err == nil {
		_, err = dst.WriteAt(b, 0)
	}
	return err
}

func (f *faulty) copyRange(dst *os.File, dstOff int64, src *os.File, srcOff, n int64) (int64, error) {
	if err := f.ask(opRange); err == errZero {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	n = min(n, f.step)
	k, err := f.native.copyRange(dst, dstOff, src, srcOff, n)
	if unsupported(err) { // here, so do as it would
		b := make([]byte, n)
		got, rerr := src.ReadAt(b, srcOff)
		if rerr != nil && rerr != io.EOF {
			return 0, rerr
		}
		got, err = dst.WriteAt(b[:got], dstOff)
		k = int64(got)
	}
	return k, err
}

func (f *faulty) nextData(file *os.File, off int64) (int64, int64, error) {
	if err := f.ask(opData); err != nil {
		return 0, 0, err
	}
	return f.native.nextData(file, off)
}

func (f *faulty) readAt(file *os.File, b []byte, off int64) (int, error) {
	if err := f.ask(opRead); err != nil {
		return 0, err
	}
	return f.native.readAt(file, b, off)
}

func (f *faulty) writeAt(file *os.File, b []byte, off int64) (int, error) {
	if err := f.ask(opWrite); err != nil {
		k, _ := f.native.writeAt(file, b[:len(b)/3], off) // as a disk that fills up
		return k, err
	}
	return f.native.writeAt(file, b, off)
}

// failAt fails one call.
func failAt(op string, call int, err error) func(string, int) error {
	return func(o string, c int) error {
		if o == op && c == call {
			return err
		}
		return nil
	}
}

const (
	faultSize = 3<<20 + 123
	faultStep = 300_001
	faultLast = faultSize / faultStep // the last call's number
)

// runFaulty copies all of data.
func runFaulty(t *testing.T, sys *faulty, data []byte) (*job, error) {
	t.Helper()
	if sys.step == 0 {
		sys.step = faultStep
	}
	j := &job{sys: sys, dst: file(t, nil), src: file(t, data)}
	return j, j.whole(t.Context(), int64(len(data)))
}

// TestFallsBack fails copy_file_range at its first, a middle and its last call
// with everything that says "not here". The other loop must go on at that byte.
func TestFallsBack(t *testing.T) {
	data := noise(10, faultSize)
	for _, err := range []error{
		errZero, errors.ErrUnsupported, syscall.EXDEV, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.ENOTTY, syscall.EINVAL,
		syscall.EPERM, syscall.EACCES, syscall.EBADF, syscall.ETXTBSY, syscall.ENOENT, os.NewSyscallError("wrapped", syscall.EXDEV),
	} {
		for _, call := range []int{0, 1, 3, faultLast} {
			t.Run(fmt.Sprintf("%v/%d", err, call), func(t *testing.T) {
				sys := &faulty{fault: failAt(opRange, call, err)}
				j, err := runFaulty(t, sys, data)
				if err != nil || j.method != ReadWrite || j.written != faultSize {
					t.Fatalf("%s, %d bytes, %v", j.method, j.written, err)
				}
				holds(t, j.dst, data)
				left := faultSize - call*faultStep
				if want := (left + bufferBytes - 1) / bufferBytes; sys.calls[opRange] != call+1 || sys.calls[opRead] > want+1 || sys.calls[opRead] < want {
					t.Errorf("calls: %v, want %d reads", sys.calls, want)
				}
			})
		}
	}
	j, err := runFaulty(t, &faulty{}, data)
	if err != nil || j.method != CopyFileRange || j.written != faultSize {
		t.Errorf("without a fault: %s, %d bytes, %v", j.method, j.written, err)
	}
	holds(t, j.dst, data)
}

// TestReturns fails each operation at several calls with what must come back,
// and nothing may be called after it.
func TestReturns(t *testing.T) {
	data := noise(11, faultSize)
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EIO, syscall.EDQUOT, syscall.ENOMEM, syscall.EFBIG} {
		for op, calls := range map[string][]int{opClone: {0}, opRange: {0, 3, faultLast}, opData: {0}, opRead: {0, 1, 3}, opWrite: {0, 1, 3}} {
			for _, call := range calls {
				t.Run(fmt.Sprintf("%v/%s/%d", errno, op, call), func(t *testing.T) {
					sys := &faulty{fault: func(o string, c int) error {
						if o == op && c == call {
							return errno
						}
						if o == opRange && (op == opRead || op == opWrite) {
							return syscall.EXDEV
						}
						return nil
					}}
					j, err := runFaulty(t, sys, data)
					if !errors.Is(err, errno) {
						t.Fatalf("%v", err)
					}
					if call > 0 && !strings.Contains(err.Error(), "at byte") {
						t.Errorf("no place: %v", err)
					}
					if sys.calls[op] != call+1 || sys.log[len(sys.log)-1] != op {
						t.Errorf("went on after the error: %v", sys.log)
					}
					got, _ := os.ReadFile(j.dst.Name())
					if j.written != int64(len(got)) || len(got) >= faultSize || !bytes.Equal(got, data[:len(got)]) {
						t.Errorf("says %d bytes, the file has %d", j.written, len(got))
					}
				})
			}
		}
	}
}

func TestInterrupted(t *testing.T) {
	data := noise(12, faultSize)
	for _, clones := range []bool{true, false} {
		sys := &faulty{clones: clones, fault: func(op string, call int) error {
			if (op == opClone || op == opRange) && call%2 == 0 {
				return syscall.EINTR
			}
			return nil
		}}
		j, err := runFaulty(t, sys, data)
		if want := map[bool]Method{true: Reflink, false: CopyFileRange}[clones]; err != nil || j.method != want {
			t.Errorf("%s, %v; want %s", j.method, err, want)
		}
		holds(t, j.dst, data)
	}
	// A signal that does not stop does not keep a copy that was told to.
	for _, op := range []string{opClone, opRange} {
		ctx, cancel := context.WithCancel(t.Context())
		j := &job{dst: file(t, nil), src: file(t, data)}
		j.sys = &faulty{step: faultStep, fault: func(o string, call int) error {
			if o != op {
				return nil
			}
			if call == 5 {
				cancel()
			}
			return syscall.EINTR
		}}
		if err := j.whole(ctx, faultSize); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", op, err)
		}
	}
}

func TestClone(t *testing.T) {
	data := noise(13, faultSize)
	for _, size := range []int64{faultSize, faultSize - 1, 1} {
		var told int64
		j := &job{sys: &faulty{clones: true}, dst: file(t, nil), src: file(t, data), progress: func(n int64) { told += n }}
		if err := j.whole(t.Context(), size); err != nil || j.method != Reflink || j.written != 0 || told != size {
			t.Errorf("%s, %d bytes, progress %d, %v", j.method, j.written, told, err)
		}
		holds(t, j.dst, data[:size])
	}
	// Half a clone must not shine through the holes of the copy after it.
	src := file(t, nil)
	if err := src.Truncate(1 << 20); err != nil {
		t.Fatal(err)
	}
	j := &job{dst: file(t, nil), src: src}
	j.sys = &faulty{step: faultStep, fault: func(op string, call int) error {
		if op == opClone {
			j.dst.WriteAt(data, 0)
			return syscall.EINVAL
		}
		return nil
	}}
	if err := j.whole(t.Context(), 1<<20); err != nil {
		t.Error(err)
	}
	holds(t, j.dst, make([]byte, 1<<20))
}

// TestShrinks cuts the source while it is copied, at each operation.
func TestShrinks(t *testing.T) {
	const left = 1_500_000
	for _, c := range []struct {
		op   string
		call int
	}{{opClone, 0}, {opData, 0}, {opRange, 0}, {opRange, 2}, {opRange, 6}, {opRange, faultLast}, {opRead, 0}, {opRead, 2}, {opWrite, 0}, {opWrite, 3}} {
		for _, clones := range []bool{true, false} {
			if clones && c.op != opClone {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d/%v", c.op, c.call, clones), func(t *testing.T) {
				j := &job{dst: file(t, nil), src: file(t, noise(14, faultSize))}
				cut := false
				j.sys = &faulty{step: faultStep, clones: clones, fault: func(op string, call int) error {
					if op == c.op && call == c.call {
						cut = true
						return j.src.Truncate(left)
					}
					if op == opRange && (c.op == opRead || c.op == opWrite) {
						return syscall.EXDEV
					}
					return nil
				}}
				err := j.whole(t.Context(), faultSize)
				if !cut || !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), fmt.Sprint(left)) || !strings.Contains(err.Error(), fmt.Sprint(faultSize)) {
					t.Errorf("cut %v: %v", cut, err)
				}
			})
		}
	}
}

// liar tells of one range of data, always.
type liar struct {
	*faulty
	from, to int64
}

func (l liar) nextData(*os.File, int64) (int64, int64, error) { return l.from, l.to, nil }

// TestNonsense copies everything if the file system tells nonsense about holes.
func TestNonsense(t *testing.T) {
	data := noise(16, 100_000)
	for _, lie := range [][2]int64{{0, 5000}, {5000, 0}, {0, 0}, {-5, 100}, {0, 1 << 40}} {
		j := &job{sys: liar{&faulty{step: faultStep}, lie[0], lie[1]}, dst: file(t, nil), src: file(t, data)}
		if err := j.whole(t.Context(), 100_000); err != nil || j.written != 100_000 {
			t.Errorf("%v: %d bytes, %v", lie, j.written, err)
		}
		holds(t, j.dst, data)
	}
}

// TestCancel ends the context in the middle: at most the running call finishes.
func TestCancel(t *testing.T) {
	data := noise(15, faultSize)
	for _, op := range []string{opRange, opRead, opWrite, opData} {
		ctx, cancel := context.WithCancel(t.Context())
		j := &job{dst: file(t, nil), src: file(t, data)}
		at := map[string]int{opRange: 1, opRead: 1, opWrite: 1, opData: 0}[op]
		sys := &faulty{step: faultStep, fault: func(o string, call int) error {
			if o == op && call == at {
				cancel()
			}
			if o == opRange && (op == opRead || op == opWrite) {
				return syscall.EXDEV
			}
			return nil
		}}
		j.sys = sys
		err := j.whole(ctx, faultSize)
		if !errors.Is(err, context.Canceled) || sys.calls[op] != at+1 || j.written > 2<<20 {
			t.Errorf("%s: %v; calls %v", op, err, sys.calls)
		}
		cancel()
	}
}

// TestRandomFaults puts "not here" and interruptions anywhere in copies of
// ranges between files with holes.
func TestRandomFaults(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	soft := []error{nil, nil, nil, nil, syscall.EINTR, syscall.EXDEV, errZero}
	for i := range 120 {
		src, have := patchwork(t, rng)
		dst, want := patchwork(t, rng)
		srcOff := rng.IntN(len(have))
		n := rng.IntN(len(have)-srcOff) + 1
		dstOff := rng.IntN(len(want) * 3 / 2)
		noMap := rng.IntN(3) == 0
		j := &job{dst: dst, src: src, sys: &faulty{step: rng.Int64N(200_000) + 1000, fault: func(op string, call int) error {
			switch op {
			case opRange:
				return soft[rng.IntN(len(soft))]
			case opData:
				if noMap {
					return syscall.EINVAL
				}
			}
			return nil
		}}}
		if err := j.part(t.Context(), int64(dstOff), int64(srcOff), int64(n)); err != nil {
			t.Fatal(i, err)
		}
		want = slices.Grow(want, max(0, dstOff+n-len(want)))[:max(len(want), dstOff+n)]
		copy(want[dstOff:], have[srcOff:srcOff+n])
		holds(t, dst, want)
		dst.Close()
		src.Close()
	}
}

// patchwork makes a file of up to 1 MB of data, zeros and holes.
func patchwork(t *testing.T, rng *rand.Rand) (*os.File, []byte) {
	f := file(t, nil)
	var all []byte
	for range rng.IntN(6) + 1 {
		piece := make([]byte, rng.IntN(200_000)+1)
		switch rng.IntN(3) {
		case 0:
			copy(piece, noise(byte(rng.Uint32()), len(piece)))
			fallthrough
		case 1:
			if _, err := f.WriteAt(piece, int64(len(all))); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, piece...)
	}
	if err := f.Truncate(int64(len(all))); err != nil {
		t.Fatal(err)
	}
	return f, all
}
