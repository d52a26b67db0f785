package rawjson

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// style is how the items of one container are set, as its other items and the
// containers around it show it.
type style struct {
	lines  bool   // each item stands on a line of its own
	eol    string // the document's line break
	outer  string // indentation of the line on which the container opens
	indent string // indentation of the line on which the item stands
	unit   string // what one level adds
	colon  string // between name and value
	comma  string // between items
}

// maxUnit is the widest step taken for indentation; beyond it is something else.
const maxUnit = 16

// style returns the style of an item of the innermost level: of the item at, or
// of a new one at the end if at is the number of items. Where nothing shows it,
// it is that of Python's json.dump(indent=2).
func (d *document) style(at int) style {
	s := style{eol: d.eol, unit: "  ", colon: ": "}
	inner := len(d.levels) - 1
	for i := range d.levels {
		c := &d.levels[i].container
		s.outer = s.indent
		if len(c.items) == 0 {
			s.open(d.strict[c.start+1:c.end-1], inner == 0)
			break
		}
		k := d.levels[i].at
		if i == inner {
			k = min(at, len(c.items)-1)
		}
		_, gap := d.gap(c, k)
		if eol, indent, ok := lastLine(gap); ok {
			s.lines, s.eol, s.indent = true, eol, indent
			if step, ok := strings.CutPrefix(indent, s.outer); ok && len(step) <= maxUnit {
				s.unit = step
			}
		} else {
			s.lines = false
		}
		if it := c.items[k]; c.kind == '{' && strings.IndexByte(d.strict[it.colon:it.value], '\n') < 0 {
			s.colon = d.strict[it.colon:it.value]
		}
	}
	s.comma = "," + s.space()
	if s.lines {
		s.comma = "," + s.eol + s.indent
	}
	if c := &d.levels[inner].container; len(c.items) > 1 {
		before, after := d.gap(c, len(c.items)-1)
		if eol, indent, ok := lastLine(after); ok {
			after = eol + indent // without blank lines
		}
		s.comma = before + "," + after
	}
	return s
}

// open sets the style for the first item of a container that holds white space
// only. Between the brackets of {} there is nothing to go by but its parent.
func (s *style) open(blank string, root bool) {
	switch {
	case strings.Contains(blank, "\n"):
		s.lines = true
		if strings.HasSuffix(blank, "\r") {
			s.eol = "\r\n" // or that would become a part of the line break
		}
	case blank != "":
		s.lines = false
	case root:
		s.lines = true
	}
	if s.lines {
		s.indent += s.unit
	}
}

// around returns what stands before the first and after the last item of a
// container that held nothing but blank. closed undoes it.
func (s *style) around(blank string) (before, after string) {
	if s.lines {
		return blank + s.eol + s.indent, s.eol + s.outer
	}
	return blank, blank
}

// closed returns what is left between the brackets when the last item is gone. It
// is nothing, unless around was given more.
func closed(before string) string {
	eol, indent, _ := lastLine(before)
	return strings.TrimSuffix(before, eol+indent)
}

// space is what stands after a comma on one line, as after a colon.
func (s *style) space() string {
	if strings.HasSuffix(s.colon, ":") {
		return ""
	}
	return " "
}

// gap returns what stands between item k and the one before it or the bracket:
// before the comma and after it.
func (d *document) gap(c *container, k int) (before, after string) {
	if k == 0 {
		return "", d.strict[c.start+1 : c.items[0].start]
	}
	before, after, _ = strings.Cut(d.strict[c.items[k-1].end:c.items[k].start], ",")
	return before, after
}

// lastLine returns the last line break in white space, and what follows it.
func lastLine(blank string) (eol, indent string, ok bool) {
	i := strings.LastIndexByte(blank, '\n')
	if i < 0 {
		return "", "", false
	}
	if i > 0 && blank[i-1] == '\r' {
		return "\r\n", blank[i+1:], true
	}
	return "\n", blank[i+1:], true
}

// check returns a value without the white space around it, or says what is wrong
// with it.
func check(value []byte) ([]byte, error) {
	trimmed := bytes.Trim(value, blanks)
	if jsontext.Value(trimmed).IsValid(jsontext.AllowDuplicateNames(true)) {
		return trimmed, nil
	}
	d := &document{strict: Strict(value)}
	c, err := d.container(0, len(value), true)
	if err == nil && c.end-c.start != len(trimmed) {
		err = errors.New("it begins with a byte order mark")
	}
	if err != nil {
		return nil, fmt.Errorf("the new value: %w", err)
	}
	return trimmed, nil
}

// set returns a value, which check has passed, as it stands at a place of this
// style: over several lines if the items around it have lines of their own, else
// as it is or, if it has line breaks, on one line. Its tokens keep their spelling.
func (s *style) set(value []byte) []byte {
	if value[0] != '{' && value[0] != '[' || !s.lines && bytes.IndexByte(value, '\n') < 0 {
		return value
	}
	text := Strict(value)
	l := &setter{style: s, value: value, t: NewTokens(text), out: make([]byte, 0, 2*len(value))}
	l.next()
	l.write(s.indent)
	return l.out
}

type setter struct {
	*style
	value []byte
	t     *Tokens
	kind  jsontext.Kind // of the token reached
	out   []byte
}

func (l *setter) next() { l.kind, _ = l.t.Next() } // no error: check has read all of it

func (l *setter) token() { l.out = append(l.out, l.value[l.t.Start():l.t.End()]...) }

func (l *setter) line(indent string) {
	if l.lines {
		l.out = append(append(l.out, l.eol...), indent...)
	}
}

// write writes the value that begins with the token reached.
func (l *setter) write(indent string) {
	l.token()
	if l.kind != '{' && l.kind != '[' {
		return
	}
	inner, object := indent+l.unit, l.kind == '{'
	for n := 0; ; n++ {
		l.next()
		if l.kind == '}' || l.kind == ']' {
			if n > 0 {
				l.line(indent)
			}
			l.token()
			return
		}
		if n > 0 {
			l.out = append(l.out, ',')
			if !l.lines {
				l.out = append(l.out, l.space()...)
			}
		}
		l.line(inner)
		if object {
			l.token()
			l.out = append(l.out, l.colon...)
			l.next()
		}
		l.write(inner)
	}
}
