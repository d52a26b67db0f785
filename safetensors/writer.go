package safetensors

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

// Writer fills the places of a Layout in any order, from any goroutine. The
// header is written last, by Close, when every tensor has proved complete: until
// then the bytes are no safetensors file, and nobody can take them for one.
type Writer struct {
	w      io.WriterAt
	layout *Layout
	mu     sync.Mutex
	spans  [][]span // by slot: what has been written, sorted and merged
	err    error    // the first error; it sticks
	closed bool
	busy   sync.WaitGroup // writes under way
}

// span is a range of a tensor's bytes.
type span struct{ from, to int64 }

// ErrClosed is returned for writes after Close.
var ErrClosed = errors.New("safetensors: the writer is closed")

// NewWriter returns a Writer that writes a file of the given layout to w, which
// it borrows.
func NewWriter(w io.WriterAt, l *Layout) *Writer {
	return &Writer{w: w, layout: l, spans: make([][]span, len(l.slots))}
}

// Tensor returns a writer for the tensor with that name.
func (w *Writer) Tensor(name string) (*TensorWriter, error) {
	i, ok := w.layout.byName[name]
	if !ok {
		return nil, &Error{Class: HeaderSyntax, Offset: -1, Tensor: name, Detail: "the layout has no such tensor"}
	}
	return &TensorWriter{w: w, slot: i}, nil
}

// TensorWriter writes one tensor. WriteAt may be called from any goroutine, Write
// from one.
type TensorWriter struct {
	w    *Writer
	slot int
	next int64
}

// Write appends to what this TensorWriter has written.
func (t *TensorWriter) Write(p []byte) (int, error) {
	n, err := t.WriteAt(p, t.next)
	t.next += int64(n)
	return n, err
}

// WriteAt writes at an offset from the tensor's first byte. Bytes past the
// tensor's end, or written before, are an error: nothing is written then.
func (t *TensorWriter) WriteAt(p []byte, off int64) (int, error) {
	if err := t.w.claim(t.slot, off, int64(len(p))); err != nil {
		return 0, err
	}
	defer t.w.busy.Done()
	n, err := t.w.w.WriteAt(p, t.w.layout.slots[t.slot].Offset+off)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		err = fmt.Errorf("tensor %s: %w", quoteName(t.w.layout.slots[t.slot].Name), err)
		t.w.mu.Lock()
		t.w.fail(err)
		t.w.mu.Unlock()
	}
	return n, err
}

// fail makes err stick. The caller holds the lock.
func (w *Writer) fail(err error) error {
	if w.err == nil {
		w.err = err
	}
	return err
}

// claim notes that a range is being written; the caller then says busy.Done.
func (w *Writer) claim(slot int, off, n int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.layout.slots[slot]
	switch {
	case w.closed:
		return ErrClosed
	case w.err != nil:
		return w.err
	case off < 0 || n > s.Bytes-off:
		return w.fail(&Error{Class: WrongLength, Offset: -1, Tensor: s.Name, Want: s.Bytes, Have: off + n,
			Detail: fmt.Sprintf("%d bytes at %d: too much, the layout has %d", n, off, s.Bytes)})
	case n == 0:
		w.busy.Add(1)
		return nil
	}
	spans := w.spans[slot]
	i, _ := slices.BinarySearchFunc(spans, off, func(x span, off int64) int {
		if x.to <= off {
			return -1
		}
		return 1
	})
	if i < len(spans) && spans[i].from < off+n {
		return w.fail(&Error{Class: WrongLength, Offset: -1, Tensor: s.Name, Want: s.Bytes,
			Detail: fmt.Sprintf("%d bytes at %d: some of them are written already", n, off)})
	}
	joinsLeft := i > 0 && spans[i-1].to == off
	joinsRight := i < len(spans) && spans[i].from == off+n
	switch {
	case joinsLeft && joinsRight:
		spans[i-1].to = spans[i].to
		spans = slices.Delete(spans, i, i+1)
	case joinsLeft:
		spans[i-1].to = off + n
	case joinsRight:
		spans[i].from = off
	default:
		spans = slices.Insert(spans, i, span{off, off + n})
	}
	w.spans[slot] = spans
	w.busy.Add(1) // under the lock, and not after Close
	return nil
}

// Close waits for writes that are under way, proves that every tensor is complete
// and writes the header. It does not close the underlying writer. Close again
// returns the first result.
func (w *Writer) Close() error {
	w.mu.Lock()
	again := w.closed
	w.closed = true
	w.mu.Unlock()
	w.busy.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if again || w.err != nil {
		return w.err
	}
	for i, s := range w.layout.slots {
		var have int64
		for _, x := range w.spans[i] {
			have += x.to - x.from
		}
		if have != s.Bytes {
			return w.fail(&Error{Class: WrongLength, Offset: -1, Tensor: s.Name, Want: s.Bytes, Have: have,
				Detail: fmt.Sprintf("%d of %d bytes were written", have, s.Bytes)})
		}
	}
	if _, err := w.w.WriteAt(w.layout.header, 0); err != nil {
		return w.fail(fmt.Errorf("header: %w", err))
	}
	return nil
}
