package rawjson

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const blanks = " \t\r\n" // JSON's white space

// ErrNotFound says that a path leads nowhere.
var ErrNotFound = errors.New("not found")

var errNotUTF8 = errors.New("a name must be UTF-8")

// item is a member of an object or an element of a list, with its places in the
// text: [start:colon] is the name, [value:end] the value. An element has no name;
// its start and value are the same.
type item struct {
	name                     string
	start, colon, value, end int
}

// container is an object or a list at text[start:end], brackets included. Any
// other value is one without items.
type container struct {
	kind       jsontext.Kind
	start, end int
	items      []item
}

func (c *container) scalar() bool { return c.kind != '{' && c.kind != '[' }

// find returns which item a name of a path means, -1 if there is none. Of members
// of one name the last one counts, as in Python.
func (c *container) find(name string) int {
	if c.kind == '[' {
		i, err := strconv.Atoi(name)
		if err != nil || strconv.Itoa(i) != name || i < -len(c.items) || i >= len(c.items) {
			return -1
		}
		if i < 0 {
			i += len(c.items)
		}
		return i
	}
	for i := len(c.items) - 1; i >= 0; i-- {
		if c.items[i].name == name {
			return i
		}
	}
	return -1
}

// level is a container on a path, and the item at which the path goes on, -1 if
// there is none.
type level struct {
	container
	at int
}

// document is a text and a path in it, as far as it leads.
type document struct {
	text   []byte
	strict string // see strict
	eol    string // the first line break
	path   []string
	levels []level   // outermost first; at the last one the path ends or breaks off
	value  container // what the path leads to, if it leads to anything
	found  bool
}

// find reads all of the text and follows the path.
func find(text []byte, path []string) (*document, error) {
	d := &document{text: text, strict: Strict(text), eol: "\n", path: path}
	if eol, _, ok := lastLine(d.strict[:strings.IndexByte(d.strict, '\n')+1]); ok {
		d.eol = eol
	}
	c, err := d.container(0, len(d.strict), true)
	if err != nil {
		return nil, err
	}
	for _, name := range path {
		at := c.find(name)
		d.levels = append(d.levels, level{c, at})
		if at < 0 {
			return d, nil
		}
		if c, err = d.container(c.items[at].value, c.items[at].end, false); err != nil {
			return nil, err
		}
	}
	d.value, d.found = c, true
	return d, nil
}

// container reads the value in text[from:to], one level deep. If all is set,
// nothing else may stand there.
func (d *document) container(from, to int, all bool) (container, error) {
	t := NewTokens(d.strict[from:to])
	c, err := d.items(t, from)
	if err == nil && all {
		err = t.Done()
	}
	if err != nil {
		return container{}, located(err)
	}
	return c, nil
}

func (d *document) items(t *Tokens, from int) (container, error) {
	kind, err := t.Next()
	if err != nil {
		return container{}, err
	}
	c := container{kind: kind, start: from + t.Start(), end: from + t.End()}
	if c.scalar() {
		return c, nil
	}
	for {
		var it item
		if next := t.Peek(); next == ']' || next == '}' || kind == '{' {
			if next, err = t.Next(); err != nil {
				return c, err
			}
			if next == ']' || next == '}' {
				c.end = from + t.End()
				return c, nil
			}
			it.name, it.start, it.colon = t.Text(), from+t.Start(), from+t.End()
		}
		it.value = from + t.End()
		for it.value < len(d.strict) && strings.IndexByte(blanks+",:", d.strict[it.value]) >= 0 {
			it.value++
		}
		if kind == '[' {
			it.start, it.colon = it.value, it.value
		}
		if err := t.Skip(); err != nil {
			return c, err
		}
		it.end = from + t.End()
		c.items = append(c.items, it)
	}
}

// located puts its byte before an error. There is none past the first reading of
// the whole text, so that bytes count from its start.
func located(err error) error {
	s := &SyntaxError{0, errors.New("the text is empty")}
	if err != io.EOF {
		errors.As(err, &s)
	}
	return fmt.Errorf("byte %d: %w", s.Offset, s)
}

// broken returns the error for a path that does not lead to an item: no such
// item, or no container to look in.
func (d *document) broken(need string) error {
	if d.found {
		return fmt.Errorf("%s is %s, not %s", spell(d.path), what(d.value.kind), need)
	}
	n := len(d.levels) - 1
	if c := d.levels[n]; c.scalar() {
		return fmt.Errorf("%s is %s, not an object", spell(d.path[:n]), what(c.kind))
	} else if c.kind == '[' {
		return fmt.Errorf("%s is a list of %d, without %q: %w", spell(d.path[:n]), len(c.items), d.path[n], ErrNotFound)
	}
	return fmt.Errorf("%s: %w", spell(d.path[:n+1]), ErrNotFound)
}

// spell returns a path for a message.
func spell(path []string) string {
	if len(path) == 0 {
		return "the document"
	}
	names := make([]string, len(path))
	for i, name := range path {
		if len(name) > 200 {
			name = name[:200] + "…"
		}
		names[i] = strconv.Quote(name)
	}
	return strings.Join(names, ".")
}

func what(kind jsontext.Kind) string {
	switch kind {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 'n':
		return "null"
	}
	return "a bool"
}
