package safetensors

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Slot is a tensor's place in a file that is to be written.
type Slot struct {
	Info
	Bytes  int64 // length; to be given for dtypes this package does not know, computed for the others
	Offset int64 // of the first byte, from the start of the file; set by NewLayout
}

// Layout is a file's plan: every tensor's place and the header's bytes, known
// before the first byte of data is. It is immutable.
type Layout struct {
	slots  []Slot
	byName map[string]int
	header []byte // the eight bytes of length, the JSON and its padding
	size   int64
}

// NewLayout lays out a file as the reference crate's writer does
// (safetensors/src/tensor.rs: prepare): wider dtypes first, in the descending
// order of DTypes, then by name; tensors back to back; the header compact,
// __metadata__ first, padded with spaces to a multiple of eight. Unlike the
// reference, which writes metadata keys in random order, keys are sorted; dtypes
// unknown here come last. A nil metadata writes none.
//
// Errors are *Error: a name that stands twice or is __metadata__, a size that is
// no whole number of bytes or overflows, text that is not UTF-8, a header above
// MaxHeader.
func NewLayout(slots []Slot, metadata map[string]string) (*Layout, error) {
	l := &Layout{slots: slices.Clone(slots), byName: make(map[string]int, len(slots))}
	order := map[DType]int{}
	for i, d := range DTypes() {
		order[d] = i + 1
	}
	slices.SortFunc(l.slots, func(a, b Slot) int {
		return cmp.Or(order[b.DType]-order[a.DType], strings.Compare(string(a.DType), string(b.DType)), strings.Compare(a.Name, b.Name))
	})
	fault := func(s *Slot, class Class, format string, args ...any) error {
		return &Error{Class: class, Offset: -1, Tensor: s.Name, Detail: fmt.Sprintf(format, args...)}
	}
	var data uint64
	for i := range l.slots {
		s := &l.slots[i]
		s.Shape = slices.Clone(s.Shape)
		if _, ok := l.byName[s.Name]; ok {
			return nil, fault(s, DuplicateName, "a file holds each name once")
		}
		if s.Name == "__metadata__" {
			return nil, fault(s, HeaderSyntax, "no reader could open the file; give the tensor another name")
		}
		if !utf8.ValidString(s.Name) || !utf8.ValidString(string(s.DType)) {
			return nil, fault(s, HeaderUTF8, "a header holds only UTF-8")
		}
		l.byName[s.Name] = i
		if len(s.Shape) > MaxRank {
			return nil, fault(s, RankTooLarge, "more than %d", MaxRank)
		}
		elements, ok := s.Elements()
		size, state := s.DType.bytes(elements)
		switch {
		case state == sizeUnknown && s.Bytes >= 0:
			size = uint64(s.Bytes)
		case state == sizeUnknown:
			return nil, fault(s, TensorSize, "%d bytes", s.Bytes)
		case !ok || state == sizeOverflow:
			return nil, fault(s, TensorOverflow, "%s %v", s.DType, s.Shape)
		case state == sizeBits:
			return nil, fault(s, TensorBits, "%s %v", s.DType, s.Shape)
		}
		if data+size < data || data+size > 1<<62 {
			return nil, fault(s, TensorOverflow, "the file would have more than 2^62 bytes")
		}
		s.Offset, s.Bytes = int64(data), int64(size)
		data += size
	}
	for k, v := range metadata {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return nil, &Error{Class: HeaderUTF8, Offset: -1, Detail: fmt.Sprintf("__metadata__ %.80q", k)}
		}
	}
	l.encode(metadata)
	if n := len(l.header) - 8; n > MaxHeader {
		return nil, &Error{Class: HeaderTooLarge, Offset: -1, Detail: fmt.Sprintf(
			"the header would have %d bytes, the limit is %d: write %d files", n, MaxHeader, (n+MaxHeader-1)/MaxHeader)}
	}
	base := int64(len(l.header))
	for i := range l.slots {
		l.slots[i].Offset += base
	}
	l.size = base + int64(data)
	return l, nil
}

// encode writes the header; offsets still count from the data section.
func (l *Layout) encode(metadata map[string]string) {
	b := make([]byte, 8, 8+len(l.slots)*128)
	b = append(b, '{')
	if metadata != nil {
		b = append(b, `"__metadata__":{`...)
		for i, k := range slices.Sorted(maps.Keys(metadata)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(append(appendString(b, k), ':'), metadata[k])
		}
		b = append(b, '}')
	}
	for i, s := range l.slots {
		if i > 0 || metadata != nil {
			b = append(b, ',')
		}
		b = append(appendString(b, s.Name), `:{"dtype":`...)
		b = append(appendString(b, string(s.DType)), `,"shape":[`...)
		for j, d := range s.Shape {
			if j > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendUint(b, d, 10)
		}
		b = append(b, `],"data_offsets":[`...)
		b = strconv.AppendInt(b, s.Offset, 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, s.Offset+s.Bytes, 10)
		b = append(b, "]}"...)
	}
	b = append(b, '}')
	for len(b)%8 != 0 {
		b = append(b, ' ')
	}
	binary.LittleEndian.PutUint64(b, uint64(len(b)-8))
	l.header = b
}

// appendString quotes s as serde_json does: only quotes, backslashes and control
// characters are escaped. s is valid UTF-8.
func appendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}

// Slots returns the tensors in the order of their data.
func (l *Layout) Slots() []Slot { return slices.Clone(l.slots) }

// Slot returns the place of the tensor with that name.
func (l *Layout) Slot(name string) (Slot, bool) {
	i, ok := l.byName[name]
	if !ok {
		return Slot{}, false
	}
	return l.slots[i], true
}

// Header returns the file's first bytes: the length, the JSON and its padding.
func (l *Layout) Header() []byte { return slices.Clone(l.header) }

// Size returns the file's length in bytes.
func (l *Layout) Size() int64 { return l.size }
