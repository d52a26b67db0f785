package rawjson

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Member is a member of an object. Without a Value it is one to remove.
type Member struct {
	Name  string
	Value []byte
}

// EditMembers sets and removes many members of the object at path in one pass. If
// the names in the object are in order, as json.dump(sort_keys=True) leaves them,
// each new member goes to its place among them, else to the end, in the order
// given. An object that is not there is made.
func EditMembers(text []byte, members []Member, path ...string) ([]byte, error) {
	d, err := find(text, path)
	if err != nil {
		return nil, err
	}
	if !d.found && len(members) == 0 {
		return bytes.Clone(text), nil
	}
	if !d.found {
		if text, err = Set(text, []byte("{}"), path...); err != nil {
			return nil, err
		}
		if d, err = find(text, path); err != nil {
			return nil, err
		}
	}
	c := &d.value
	if c.kind != '{' {
		return nil, d.broken("an object")
	}
	edits, of, err := gather(c, members, path)
	if err != nil {
		return nil, err
	}

	s := d.enter()
	sorted := slices.IsSortedFunc(c.items, func(a, b item) int { return strings.Compare(a.name, b.name) })
	var fresh []Member
	for i, e := range edits {
		if e.last < 0 {
			fresh = append(fresh, Member{members[i].Name, s.set(e.value)})
		}
	}
	if sorted {
		slices.SortFunc(fresh, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	}
	entries := make([]entry, 0, len(c.items)+len(fresh))
	for i, it := range c.items {
		for ; sorted && len(fresh) > 0 && fresh[0].Name < it.name; fresh = fresh[1:] {
			entries = append(entries, entry{-1, s.member(fresh[0].Name, fresh[0].Value)})
		}
		e := of[i]
		switch {
		case e == nil || e.value != nil && i != e.last:
			entries = append(entries, entry{i, nil})
		case e.value != nil:
			entries = append(entries, entry{i, d.restyle(e.value, i)})
		}
	}
	for _, m := range fresh {
		entries = append(entries, entry{-1, s.member(m.Name, m.Value)})
	}
	return d.rebuild(c, entries, s), nil
}

// edit is what happens to the members of one name.
type edit struct {
	value []byte // nil to remove them
	last  int    // the last of them, -1 if there is none
}

// gather checks the edits and returns one for each member given, and for each item
// of the container the one that is its own, or nil.
func gather(c *container, members []Member, path []string) (edits []edit, of []*edit, err error) {
	edits, of = make([]edit, len(members)), make([]*edit, len(c.items))
	fail := func(i int, err error) ([]edit, []*edit, error) {
		return nil, nil, fmt.Errorf("%s: %w", spell(append(slices.Clone(path), members[i].Name)), err)
	}
	byName := make(map[string]*edit, len(members))
	for i, m := range members {
		if byName[m.Name] != nil {
			return fail(i, errors.New("given twice"))
		}
		edits[i].last = -1
		byName[m.Name] = &edits[i]
		if m.Value != nil {
			if edits[i].value, err = check(m.Value); err != nil {
				return fail(i, err)
			}
		}
	}
	for i, it := range c.items {
		if of[i] = byName[it.name]; of[i] != nil {
			of[i].last = i
		}
	}
	for i, e := range edits {
		switch {
		case e.last >= 0:
		case e.value == nil:
			return fail(i, ErrNotFound)
		case !utf8.ValidString(members[i].Name):
			return fail(i, errNotUTF8)
		}
	}
	return edits, of, nil
}
