// Package rawjson works on JSON as text.
//
// [Tokens] come with their place, so that callers can cut names from the text
// instead of copying them.
//
// [Set], [Append], [Remove], [Replace] and [EditMembers] change a text and leave
// each byte as it is that they were not asked to change: order, white space, the
// spelling of numbers and strings, members that stand twice, a byte order mark,
// Python's NaN, Infinity and -Infinity. They return new text.
//
// A path leads inwards from the outermost value: to a member of an object by its
// name, to an element of a list by its place in decimal, from the end if negative
// ("-1" is the last). Of members of one name the last one counts, as in Python.
//
// A new item looks like the last one beside it: line break, indentation, space
// around colon and comma. In an empty container it follows what is around that,
// and where nothing is, json.dump(indent=2). A value is spread over lines where the
// items around it stand on lines of their own. Elsewhere it stays as it is, or, if
// it has line breaks, is put on one line. Its tokens keep their spelling.
//
// An edit has a counterpart that restores the text to the byte: Remove for what Set
// and Append added (the outermost of what they made), and Replace, with what [Get]
// gave before, for what Set changed.
package rawjson

import (
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Tokens walks over the tokens of one JSON text. Names that stand twice in an
// object are the caller's business: a table of them would cost more than the
// text. Invalid UTF-8 and unpaired surrogate escapes are errors.
type Tokens struct {
	text       string
	dec        *jsontext.Decoder
	start, end int
}

// NewTokens returns a walk over text.
func NewTokens(text string) *Tokens {
	return &Tokens{text: text, dec: jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowDuplicateNames(true))}
}

// Next moves to the next token and returns its kind. After the last one it
// returns io.EOF. Other errors are a *SyntaxError.
func (t *Tokens) Next() (jsontext.Kind, error) {
	at := t.End()
	tok, err := t.dec.ReadToken()
	if err != nil {
		return 0, t.fault(err)
	}
	t.end = int(t.dec.InputOffset())
	for t.start = at; ; t.start++ {
		switch t.text[t.start] {
		case ' ', '\t', '\r', '\n', ',', ':':
			continue
		}
		return tok.Kind(), nil
	}
}

// Peek returns the kind of the next token without moving, 0 if there is none.
func (t *Tokens) Peek() jsontext.Kind { return t.dec.PeekKind() }

// Skip moves over the next value, whatever it is.
func (t *Tokens) Skip() error {
	if err := t.dec.SkipValue(); err != nil {
		return t.fault(err)
	}
	t.start, t.end = t.End(), t.End()
	return nil
}

// Done checks that nothing but white space is left.
func (t *Tokens) Done() error {
	_, err := t.Next()
	switch err {
	case io.EOF:
		return nil
	case nil:
		return &SyntaxError{t.start, errors.New("something follows the value")}
	}
	return err
}

// Depth returns how many objects and arrays are open.
func (t *Tokens) Depth() int { return t.dec.StackDepth() }

// Start returns where the current token begins in the text.
func (t *Tokens) Start() int { return t.start }

// End returns where the current token ends.
func (t *Tokens) End() int { return int(t.dec.InputOffset()) }

// Raw returns the current token as it stands in the text.
func (t *Tokens) Raw() string { return t.text[t.start:t.end] }

// Text returns the value of the current token, which must be a string. It shares
// the text's memory unless the token holds an escape.
func (t *Tokens) Text() string {
	raw := t.text[t.start+1 : t.end-1]
	if strings.IndexByte(raw, '\\') < 0 {
		return raw
	}
	b, _ := jsontext.AppendUnquote(nil, t.text[t.start:t.end]) // checked by Next
	return string(b)
}

// SyntaxError is a place at which the text stops being JSON.
type SyntaxError struct {
	Offset int // in bytes from the start of the text
	Err    error
}

func (e *SyntaxError) Error() string { return "not JSON: " + e.Err.Error() }

// Unwrap returns what the parser says.
func (e *SyntaxError) Unwrap() error { return e.Err }

// fault gives an error of the decoder its place.
func (t *Tokens) fault(err error) error {
	if err == io.EOF {
		return err
	}
	e := &SyntaxError{t.End(), err}
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		e.Offset, e.Err = int(s.ByteOffset), s.Err
	}
	if errors.Is(e.Err, io.ErrUnexpectedEOF) {
		e.Offset, e.Err = len(t.text), errors.New("the text ends too early")
	}
	return e
}
