package safetensors

import (
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/ckpt-surgery/ckpt/internal/rawjson"
)

// File is an open safetensors file. Its header has been read and checked; its
// tensors have not been touched. It is safe for concurrent use if its ReaderAt
// is (an *os.File is).
type File struct {
	name   string
	src    io.ReaderAt
	closer io.Closer
	size   int64
	base   int64 // where the data section starts
	header *header
	table  table
}

// Open opens the file and checks its header. Errors are *Error for faults of the
// file and *fs.PathError for faults of the file system. A path that is not a
// regular file (a pipe, a device) is refused without opening it.
func Open(path string) (*File, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, &Error{File: path, Class: NotSafetensors, Offset: -1,
			Detail: fmt.Sprintf("not a regular file (%s)", st.Mode().Type())}
	}
	r, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	f, err := newFile(path, r, st.Size())
	if err != nil {
		r.Close()
		return nil, err
	}
	f.closer = r
	return f, nil
}

// NewFile checks the header of a file of the given size behind r, which it
// borrows. Only the header is read. If r has a method Name, as *os.File has,
// errors carry that name.
func NewFile(r io.ReaderAt, size int64) (*File, error) {
	name := ""
	if n, ok := r.(interface{ Name() string }); ok {
		name = n.Name()
	}
	return newFile(name, r, size)
}

func newFile(name string, r io.ReaderAt, size int64) (*File, error) {
	f := &File{name: name, src: r, size: size}
	if err := f.open(); err != nil {
		if e, ok := err.(*Error); ok {
			e.File = name
			// Only a length that cannot be one tells another format from a
			// malformed header. One within the limit has zeros in bytes 4 to 7,
			// where text and pickles have none.
			switch e.Class {
			case HeaderTooSmall, HeaderTooLarge:
				if kind := identify(r, size); kind != "" {
					e.Class, e.Offset, e.Detail = NotSafetensors, -1, kind
				}
			}
		}
		return nil, err
	}
	return f, nil
}

func (f *File) open() error {
	n, err := f.headerLength()
	if err != nil {
		return err
	}
	f.base = 8 + n
	// A Builder hands its buffer over as a string, so the header is held once.
	var text strings.Builder
	text.Grow(int(n))
	got, cerr := io.CopyBuffer(onlyWriter{&text}, io.NewSectionReader(f.src, 8, n), make([]byte, 128<<10))
	switch {
	case cerr != nil:
		return cerr
	case got < n:
		return &Error{Class: Shrunk, Offset: 8 + got, Want: f.size, Have: 8 + got, Detail: "within the header"}
	case !utf8.ValidString(text.String()):
		return &Error{Class: HeaderUTF8, Offset: 8 + int64(firstInvalid(text.String()))}
	}
	h, e := parseHeader(text.String())
	if e != nil {
		return e
	}
	h.sort()
	if f.table, e = h.index(); e != nil {
		return e
	}
	if e := h.checkLayout(f.base, f.size-f.base); e != nil {
		return e
	}
	f.header = h
	return nil
}

// onlyWriter hides a Builder's other methods, so that CopyBuffer uses our buffer.
type onlyWriter struct{ io.Writer }

// headerLength reads the first eight bytes and holds the length in them against
// the format's limit and the file's size, before anything is allocated.
func (f *File) headerLength() (int64, error) {
	var b [8]byte
	if f.size < 8 {
		return 0, &Error{Class: HeaderTooSmall, Offset: 0, Detail: fmt.Sprintf("the file has %d bytes; fetch it again", f.size)}
	}
	if n, err := f.src.ReadAt(b[:], 0); n < 8 {
		if err == io.EOF {
			return 0, &Error{Class: Shrunk, Offset: int64(n), Want: f.size, Have: int64(n)}
		}
		return 0, err
	}
	n := binary.LittleEndian.Uint64(b[:])
	switch {
	case n > MaxHeader:
		advice := "too many tensors for one file: write it as several shards"
		if n > 100*MaxHeader { // no writer got that far
			advice = "not a safetensors file, or a damaged one: fetch it again"
		}
		return 0, &Error{Class: HeaderTooLarge, Offset: 0, Detail: fmt.Sprintf(
			"declares %d bytes, the limit is %d and the file has %d; %s", n, MaxHeader, f.size, advice)}
	case n > uint64(f.size-8):
		return 0, &Error{Class: HeaderLength, Offset: 0, Want: int64(n) + 8, Have: f.size, Detail: fmt.Sprintf(
			"declares %d bytes, the file has %d: truncated; fetch it again", n, f.size)}
	}
	return int64(n), nil
}

func firstInvalid(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return i
			}
		}
	}
	return len(s)
}

// Close closes what Open opened. After NewFile it does nothing.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

// Size returns the file's size in bytes when it was opened.
func (f *File) Size() int64 { return f.size }

// DataOffset returns the byte in the file at which the tensors begin: eight
// more than the header's length.
func (f *File) DataOffset() int64 { return f.base }

// Header returns the header's text as it is stored, padding included.
func (f *File) Header() string { return f.header.text }

// Metadata returns a new map of the header's __metadata__, or nil if the header
// has none. If a key stands twice, the last one counts.
func (f *File) Metadata() map[string]string {
	if f.header.meta == "" || f.header.meta == "null" {
		return nil
	}
	t := rawjson.NewTokens(f.header.meta)
	t.Next() // the header has been checked: none of these can fail
	m := map[string]string{}
	for t.Peek() == '"' {
		t.Next()
		key := t.Text()
		t.Next()
		m[key] = t.Text()
	}
	return m
}

// Len returns the number of tensors.
func (f *File) Len() int { return len(f.header.entries) }

// Tensors iterates over the tensors in the order of their bytes; empty tensors
// at the same place come in the order of their names.
func (f *File) Tensors() iter.Seq[Tensor] {
	return func(yield func(Tensor) bool) {
		for i := range f.header.entries {
			if !yield(f.tensor(i)) {
				return
			}
		}
	}
}

// Tensor returns the tensor with that name.
func (f *File) Tensor(name string) (Tensor, bool) {
	_, i := f.table.find(f.header.entries, name)
	if i < 0 {
		return Tensor{}, false
	}
	return f.tensor(i), true
}

// Names iterates over the tensors' names in the order of their bytes.
func (f *File) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range f.header.entries {
			if !yield(f.header.entries[i].name) {
				return
			}
		}
	}
}

// Has reports whether there is a tensor with that name.
func (f *File) Has(name string) bool {
	_, i := f.table.find(f.header.entries, name)
	return i >= 0
}

func (f *File) tensor(i int) Tensor {
	e := &f.header.entries[i]
	return Tensor{Info: f.header.info(e), Offset: f.base + int64(e.begin), Bytes: int64(e.end - e.begin), file: f}
}

// Tensor is an Info with bytes behind it.
type Tensor struct {
	Info
	Offset int64 // of the first byte, from the start of the file
	Bytes  int64 // length
	file   *File
}

// ReadAt reads from the tensor's bytes, off counting from its first one. It may
// be called from any goroutine. A file that has shrunk since it was opened gives
// an *Error of class Shrunk, never a plain EOF inside the tensor.
func (t Tensor) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("safetensors: negative offset %d", off)
	}
	if off >= t.Bytes {
		return 0, io.EOF
	}
	short := int64(len(p)) > t.Bytes-off
	if short {
		p = p[:t.Bytes-off]
	}
	n, err := t.file.src.ReadAt(p, t.Offset+off)
	switch {
	case n == len(p) && short:
		return n, io.EOF
	case n == len(p):
		return n, nil
	case err == io.EOF || err == nil:
		at := t.Offset + off + int64(n)
		err = &Error{File: t.file.name, Class: Shrunk, Offset: at, Tensor: t.Name, Want: t.file.size, Have: at,
			Detail: fmt.Sprintf("it had %d bytes when it was opened", t.file.size)}
	}
	return n, err
}

// Reader returns a fresh reader over the tensor's bytes.
func (t Tensor) Reader() *io.SectionReader { return io.NewSectionReader(t, 0, t.Bytes) }
