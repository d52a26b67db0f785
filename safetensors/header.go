package safetensors

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/ckpt-surgery/ckpt/internal/rawjson"
)

const (
	// MaxHeader is the largest header the format allows, in bytes.
	MaxHeader = 100_000_000
	// MaxRank is the largest number of dimensions this package accepts. The
	// reference has no limit, but a header may then spend 100 MB on one shape.
	MaxRank = 64
	// maxDepth is where the reference's JSON parser gives up (serde_json's
	// recursion limit of 128, the header's own object included).
	maxDepth = 127
)

// entry is one tensor as the header states it. A hostile header may hold two
// million of them, so it is compact: the shape stays in the header's text.
type entry struct {
	name       string
	dtype      DType
	begin, end uint64 // from the start of the data section
	shape      uint32 // where in the text the shape's '[' stands
	rank       uint8
	size       sizeOf
}

// header is a parsed header. Strings in it are cut from text, so a header costs
// its own size once plus one entry a tensor.
type header struct {
	text    string
	meta    string // the text of __metadata__, or ""
	entries []entry
}

// minEntry is the shortest text an entry can have; it bounds how many a header
// can hold.
const minEntry = len(`"":{"dtype":"","shape":[],"data_offsets":[0,0]}`)

// parseHeader checks the text as the reference does and collects its entries in
// the order in which they are written. Duplicate names are found later.
func parseHeader(text string) (*header, *Error) {
	p := parser{rawjson.NewTokens(text)}
	h := &header{text: text}
	h.entries = make([]entry, 0, min(strings.Count(text, `"data_offsets"`), len(text)/minEntry))
	if err := p.header(h); err != nil {
		return nil, err
	}
	return h, nil
}

type parser struct{ *rawjson.Tokens }

// fail reports a fault at the current token.
func (p parser) fail(class Class, tensor, format string, args ...any) *Error {
	return &Error{Class: class, Offset: int64(8 + p.Start()), Tensor: tensor, Detail: fmt.Sprintf(format, args...)}
}

// next reads a token and returns its kind.
func (p parser) next() (jsontext.Kind, *Error) {
	kind, err := p.Next()
	if err != nil {
		return 0, p.syntax(err)
	}
	return kind, nil
}

// syntax gives an error of the walk its place in the file.
func (p parser) syntax(err error) *Error {
	at := p.End()
	if s, ok := errors.AsType[*rawjson.SyntaxError](err); ok {
		at = s.Offset
	} else if err == io.EOF {
		err = errors.New("the header is empty")
	}
	return &Error{Class: HeaderSyntax, Offset: int64(8 + at), Err: err}
}

func (p parser) header(h *header) *Error {
	kind, err := p.next()
	if err != nil {
		return err
	}
	if kind != '{' {
		return p.fail(HeaderSyntax, "", "the header must be a JSON object")
	}
	for {
		if kind, err = p.next(); err != nil {
			return err
		}
		if kind == '}' {
			break
		}
		name := p.Text()
		if name == "__metadata__" {
			err = p.metadata(h)
		} else {
			err = p.entry(h, name)
		}
		if err != nil {
			return err
		}
	}
	if err := p.Done(); err != nil {
		return p.syntax(err)
	}
	return nil
}

// metadata checks that __metadata__ maps strings to strings (or is null) and
// keeps its text.
func (p parser) metadata(h *header) *Error {
	if h.meta != "" {
		return p.fail(HeaderSyntax, "", "__metadata__ stands twice")
	}
	kind, err := p.next()
	if err != nil {
		return err
	}
	start := p.Start()
	switch kind {
	case 'n':
	case '{':
		for value := false; ; value = !value {
			if kind, err = p.next(); err != nil {
				return err
			}
			if kind == '}' {
				break
			}
			if value && kind != '"' {
				return p.fail(HeaderSyntax, "", "values in __metadata__ must be strings")
			}
		}
	default:
		return p.fail(HeaderSyntax, "", "__metadata__ must be an object of strings")
	}
	h.meta = h.text[start:p.End()]
	return nil
}

// entry reads one tensor's value.
func (p parser) entry(h *header, name string) *Error {
	kind, err := p.next()
	if err != nil {
		return err
	}
	if kind != '{' {
		return p.fail(HeaderSyntax, name, "an entry must be a JSON object with dtype, shape and data_offsets")
	}
	e := entry{name: name}
	at := p.Start()
	var hasDType, hasShape, hasOffsets bool
	var elements uint64
	for {
		if kind, err = p.next(); err != nil {
			return err
		}
		if kind == '}' {
			break
		}
		var seen *bool
		switch field := p.Text(); field {
		case "dtype":
			seen, err = &hasDType, p.dtype(&e)
		case "shape":
			seen = &hasShape
			elements, err = p.shape(&e)
		case "data_offsets":
			seen, err = &hasOffsets, p.offsets(&e)
		default:
			err = p.junk(name)
		}
		switch {
		case err != nil:
			return err
		case seen == nil:
		case *seen:
			return p.fail(HeaderSyntax, name, "a field stands twice")
		default:
			*seen = true
		}
	}
	if !hasDType || !hasShape || !hasOffsets {
		e := p.fail(HeaderSyntax, name, "dtype, shape and data_offsets are required")
		e.Offset = int64(8 + at)
		return e
	}
	e.checkSize(elements)
	if len(h.entries) == cap(h.entries) { // escapes hid entries from the count: grow once, to the most there can be
		h.entries = slices.Grow(h.entries, max(1, len(h.text)/minEntry-len(h.entries)))
	}
	h.entries = append(h.entries, e)
	return nil
}

// checkSize compares what dtype and shape say with what the offsets hold. The
// verdict is kept for checkLayout, whose faults come in the order of the data.
func (e *entry) checkSize(elements uint64) {
	size, state := e.dtype.bytes(elements)
	switch {
	case state == sizeUnknown, e.size != sizeOverflow:
		e.size = state
	}
	if e.size == sizeOK && size != e.end-e.begin {
		e.size = sizeWrong
	}
}

func (p parser) dtype(e *entry) *Error {
	kind, err := p.next()
	if err != nil {
		return err
	}
	if kind != '"' {
		return p.fail(HeaderSyntax, e.name, "dtype must be a string")
	}
	s := p.Text()
	if e.dtype = known(s); e.dtype == "" {
		e.dtype = DType(s)
	}
	return nil
}

// shape notes where the shape stands and multiplies it up.
func (p parser) shape(e *entry) (elements uint64, err *Error) {
	kind, err := p.next()
	if err != nil {
		return 0, err
	}
	if kind != '[' {
		return 0, p.fail(HeaderSyntax, e.name, "shape must be a list of numbers")
	}
	e.shape, e.rank, elements = uint32(p.Start()), 0, 1
	for {
		d, more, err := p.number(e.name)
		if err != nil || !more {
			return elements, err
		}
		if e.rank == MaxRank {
			return 0, p.fail(RankTooLarge, e.name, "more than %d", MaxRank)
		}
		e.rank++
		hi, lo := bits.Mul64(elements, d)
		if hi != 0 {
			e.size = sizeOverflow
		}
		elements = lo
	}
}

func (p parser) offsets(e *entry) *Error {
	kind, err := p.next()
	if err != nil {
		return err
	}
	if kind != '[' {
		return p.fail(HeaderSyntax, e.name, "data_offsets must be a list of two numbers")
	}
	var v [2]uint64
	for i := 0; ; i++ {
		n, more, err := p.number(e.name)
		switch {
		case err != nil:
			return err
		case more == (i >= 2):
			return p.fail(HeaderSyntax, e.name, "data_offsets must hold two numbers")
		case !more:
			e.begin, e.end = v[0], v[1]
			return nil
		}
		v[i] = n
	}
}

// number reads one item of a list of plain unsigned integers; more is false at
// the list's end.
func (p parser) number(tensor string) (n uint64, more bool, err *Error) {
	kind, err := p.next()
	if err != nil || kind == ']' {
		return 0, false, err
	}
	raw := p.Raw()
	n, perr := strconv.ParseUint(raw, 10, 64)
	if kind != '0' || perr != nil {
		return 0, false, p.fail(HeaderSyntax, tensor, "%.40q is not a whole number from 0 to 2^64-1", raw)
	}
	return n, true, nil
}

// junk skips a field this package does not know, under the reference parser's
// limits.
func (p parser) junk(tensor string) *Error {
	for outer := p.Depth(); ; {
		kind, err := p.next()
		if err != nil {
			return err
		}
		depth := p.Depth()
		if depth > maxDepth {
			return p.fail(HeaderSyntax, tensor, "nested more than %d deep", maxDepth)
		}
		if kind == '0' {
			if f, _ := strconv.ParseFloat(p.Raw(), 64); math.IsInf(f, 0) {
				return p.fail(HeaderSyntax, tensor, "number out of range")
			}
		}
		if depth == outer {
			return nil
		}
	}
}

// shapeOf reads an entry's shape from the header's text, which parseHeader has
// checked.
func (h *header) shapeOf(e *entry) []uint64 {
	shape := make([]uint64, 0, e.rank)
	for i := int(e.shape) + 1; len(shape) < int(e.rank); i++ {
		var n uint64
		digits := 0
		for ; h.text[i] >= '0' && h.text[i] <= '9'; i++ {
			n, digits = n*10+uint64(h.text[i]-'0'), digits+1
		}
		if digits > 0 {
			shape = append(shape, n)
		}
	}
	return shape
}
