package rawjson

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Get returns the text of the value at path, a part of text, and whether there is
// such a value.
func Get(text []byte, path ...string) (value []byte, ok bool, err error) {
	d, err := find(text, path)
	if err != nil || !d.found {
		return nil, false, err
	}
	return text[d.value.start:d.value.end:d.value.end], true, nil
}

// Set gives the member or element at path a value. A member that is not there is
// added at the end of its object, and objects on the way to it are made. A list
// takes new elements by Append. Without a path, value takes the place of the whole
// document as it is.
func Set(text, value []byte, path ...string) ([]byte, error) {
	d, err := find(text, path)
	if err != nil {
		return nil, err
	}
	if value, err = check(value); err != nil {
		return nil, fmt.Errorf("%s: %w", spell(path), err)
	}
	last := len(d.levels) - 1
	switch {
	case !d.found:
	case last < 0:
		return d.replace(value), nil
	default:
		return d.replace(d.restyle(value, d.levels[last].at)), nil
	}
	c := &d.levels[last].container
	if c.kind != '{' {
		return nil, d.broken("")
	}
	for _, name := range path[last:] {
		if !utf8.ValidString(name) {
			return nil, fmt.Errorf("%s: %w", spell(path), errNotUTF8)
		}
	}
	s := d.style(len(c.items))
	for i := len(path) - 1; i > last; i-- {
		value = slices.Concat([]byte("{"), s.member(path[i], value), []byte("}"))
	}
	return d.rebuild(c, append(all(c), entry{-1, s.member(path[last], s.set(value))}), s), nil
}

// Replace puts value in the place of what stands at path, byte for byte.
func Replace(text, value []byte, path ...string) ([]byte, error) {
	d, err := find(text, path)
	if err != nil {
		return nil, err
	}
	if value, err = check(value); err != nil {
		return nil, fmt.Errorf("%s: %w", spell(path), err)
	}
	if !d.found {
		return nil, d.broken("")
	}
	return d.replace(value), nil
}

// Append adds an element at the end of the list at path. If there is none, the
// list is made.
func Append(text, value []byte, path ...string) ([]byte, error) {
	d, err := find(text, path)
	if err != nil {
		return nil, err
	}
	if value, err = check(value); err != nil {
		return nil, fmt.Errorf("%s: %w", spell(path), err)
	}
	if !d.found {
		return Set(text, slices.Concat([]byte("["), value, []byte("]")), path...)
	}
	c := &d.value
	if c.kind != '[' {
		return nil, d.broken("a list")
	}
	s := d.enter()
	return d.rebuild(c, append(all(c), entry{-1, s.set(value)}), s), nil
}

// Remove removes the member or element at path. Of a name that stands more than
// once, all members go.
func Remove(text []byte, path ...string) ([]byte, error) {
	d, err := find(text, path)
	if err != nil {
		return nil, err
	}
	if !d.found {
		return nil, d.broken("")
	}
	if len(path) == 0 {
		return nil, fmt.Errorf("%s itself cannot be removed", spell(path))
	}
	l := &d.levels[len(path)-1]
	rest := slices.DeleteFunc(all(&l.container), func(e entry) bool {
		return e.old == l.at || l.kind == '{' && l.items[e.old].name == l.items[l.at].name
	})
	return d.rebuild(&l.container, rest, style{}), nil
}

// Quote returns s as a JSON string in the spelling of Python's json.dump, with
// escapes for everything beyond ASCII. It is how transformers writes config.json
// and the index; a tokenizer's files may have such characters as they are, and
// readers do not see the difference. What is not UTF-8 becomes U+FFFD.
func Quote(s string) []byte {
	const short = "\"\\\n\r\t\b\f"
	b := make([]byte, 0, len(s)+2)
	b = append(b, '"')
	for _, r := range s {
		switch {
		case ' ' <= r && r <= '~' && r != '"' && r != '\\':
			b = append(b, byte(r))
		case strings.ContainsRune(short, r):
			b = append(b, '\\', "\"\\nrtbf"[strings.IndexRune(short, r)])
		case r >= 0x10000:
			r -= 0x10000
			b = fmt.Appendf(b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return append(b, '"')
}

func (s *style) member(name string, value []byte) []byte {
	return slices.Concat(Quote(name), []byte(s.colon), value)
}

// enter takes the container that the path leads to as the innermost level, and
// returns the style of new items in it.
func (d *document) enter() style {
	d.levels = append(d.levels, level{d.value, -1})
	return d.style(len(d.value.items))
}

// restyle returns value as it shall stand in the place of item at of the innermost
// level: what had its items on one line keeps them there.
func (d *document) restyle(value []byte, at int) []byte {
	s := d.style(at)
	it := d.levels[len(d.levels)-1].items[at]
	old := d.strict[it.value:it.end]
	if (old[0] == '{' || old[0] == '[') && strings.Trim(old[1:len(old)-1], blanks) != "" && !strings.Contains(old, "\n") {
		s.lines = false
	}
	return s.set(value)
}

// replace returns the text with other text in the place of the value found.
func (d *document) replace(value []byte) []byte {
	return slices.Concat(d.text[:d.value.start], value, d.text[d.value.end:])
}

// entry is an item of a container as it shall be: item old of the text, if text
// is not nil with that as its value, or new text.
type entry struct {
	old  int // -1 for a new one
	text []byte
}

// all returns the items of a container as they are.
func all(c *container) []entry {
	entries := make([]entry, len(c.items), len(c.items)+1)
	for i := range entries {
		entries[i].old = i
	}
	return entries
}

// rebuild returns the text with other entries in a container. Each old item keeps
// what stands before it; s is the style of new ones.
func (d *document) rebuild(c *container, entries []entry, s style) []byte {
	var before, after string
	if n := len(c.items); n > 0 {
		_, before = d.gap(c, 0)
		after = d.strict[c.items[n-1].end : c.end-1]
		if len(entries) == 0 {
			before, after = closed(before), ""
		}
	} else if before = d.strict[c.start+1 : c.end-1]; len(entries) > 0 {
		before, after = s.around(before)
	}
	size := len(d.text)
	for _, e := range entries {
		size += len(s.comma) + len(e.text)
	}
	out := bytes.NewBuffer(make([]byte, 0, size+len(before)+len(after)))
	out.Write(d.text[:c.start+1])
	out.WriteString(before)
	for i, e := range entries {
		switch {
		case i == 0:
		case e.old > 0:
			out.Write(d.text[c.items[e.old-1].end:c.items[e.old].start])
		default:
			out.WriteString(s.comma)
		}
		switch {
		case e.old < 0:
			out.Write(e.text)
		case e.text != nil:
			out.Write(d.text[c.items[e.old].start:c.items[e.old].value])
			out.Write(e.text)
		default:
			out.Write(d.text[c.items[e.old].start:c.items[e.old].end])
		}
	}
	out.WriteString(after)
	out.Write(d.text[c.end-1:])
	return out.Bytes()
}
