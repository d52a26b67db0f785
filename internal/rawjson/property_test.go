package rawjson

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const rounds = 2000

var literal = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?Infinity|NaN`)

// decode decodes a text by other means: encoding/json, with a string for what it
// does not take.
func decode(t *testing.T, text []byte) any {
	t.Helper()
	text = literal.ReplaceAllFunc(bytes.TrimPrefix(text, []byte(bom)), func(b []byte) []byte {
		if b[0] == '"' {
			return b
		}
		return []byte(`"literal ` + string(b) + `"`)
	})
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return v
}

// put returns a decoded value in which change has been applied to what stands at
// path; objects that are not there are made.
func put(v any, path []string, change func(v any) any) any {
	if len(path) == 0 {
		return change(v)
	}
	switch v := v.(type) {
	case nil:
		return map[string]any{path[0]: put(nil, path[1:], change)}
	case map[string]any:
		if _, ok := v[path[0]]; !ok && len(path) > 1 {
			v[path[0]] = map[string]any{}
		}
		v[path[0]] = put(v[path[0]], path[1:], change)
		return v
	case []any:
		i, _ := strconv.Atoi(path[0])
		v[i] = put(v[i], path[1:], change)
		return v
	}
	panic("no container")
}

// shared returns how many bytes two texts share at their ends.
func shared(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for i < n && a[i] == b[i] {
		i++
	}
	j := 0
	for j < n-i && a[len(a)-1-j] == b[len(b)-1-j] {
		j++
	}
	return i + j
}

// trial is one random document.
type trial struct {
	*testing.T
	r    *rand.Rand
	root *node
	text []byte
	even *look // if the document has one look
}

func trials(t *testing.T, run func(t *trial)) {
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := &trial{T: t, r: r}
		l := oddLook(r)
		if odd := seed%2 == 0; !odd {
			l = evenLook(r)
			c.even = &l
		}
		for c.root == nil || c.root.raw != "{" || c.even != nil && len(c.root.kids) == 0 {
			c.root = randomNode(r, 4, c.even == nil)
		}
		c.text = []byte(l.document(c.root))
		run(c)
		if t.Failed() {
			t.Fatalf("seed %d: %q", seed, c.text)
		}
	}
}

// value returns a new value and its text in some style; where the document has one
// look on one line, in that one.
func (t *trial) value() (*node, []byte) {
	n := randomNode(t.r, 3, t.even == nil)
	l := oddLook(t.r)
	l.mark = ""
	if t.even != nil && !t.even.lines {
		l = look{colon: t.even.colon, comma: t.even.comma}
	}
	return n, []byte(l.document(n))
}

// check holds the text after an edit against what is expected: the decoded value,
// how much of the old text is left, and, in a document of one look, all of it.
func (t *trial) check(got []byte, err error, want any, kept int) {
	t.Helper()
	if err != nil {
		t.Error(err)
		return
	}
	if d := decode(t.T, got); !reflect.DeepEqual(d, want) {
		t.Errorf("got %q\nwhich is %v\n    want %v", got, d, want)
	}
	if n := shared(t.text, got); n < kept {
		t.Errorf("got %q, with %d bytes of the old text, want %d", got, n, kept)
	}
	if t.even != nil {
		if want := t.even.document(t.root); string(got) != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

func (t *trial) undone(got []byte, err error) {
	t.Helper()
	if err != nil || !bytes.Equal(got, t.text) {
		t.Errorf("undone: %v\n got %q\nwant %q", err, got, t.text)
	}
}

func object(path []string, n *node) bool { return n.raw == "{" }
func list(path []string, n *node) bool   { return n.raw == "[" }
func inside(path []string, n *node) bool { return len(path) > 0 }

// fresh returns a path to a member that is not there, and adds it to the document's
// node.
func (t *trial) fresh(n *node) (names []string) {
	path, at, _ := randomPlace(t.r, t.root, object)
	path = append(slices.Clone(path), "new é")
	at.names = append(at.names, `"new \u00e9"`)
	for range t.r.IntN(3) {
		made := &node{raw: "{"}
		at.kids = append(at.kids, made)
		path, at = append(path, "more"), made
		at.names = append(at.names, `"more"`)
	}
	at.kids = append(at.kids, n)
	return path
}

func made(path []string) []string { return path[:slices.Index(path, "new é")+1] }

func TestSetNew(t *testing.T) {
	trials(t, func(t *trial) {
		n, value := t.value()
		path := t.fresh(n)
		got, err := Set(t.text, value, path...)
		t.check(got, err, put(decode(t.T, t.text), path, func(any) any { return decode(t.T, value) }), len(t.text))
		t.undone(Remove(got, made(path)...))
	})
}

func TestSetThere(t *testing.T) {
	trials(t, func(t *trial) {
		path, at, ok := randomPlace(t.r, t.root, inside)
		if !ok {
			return
		}
		n, value := t.value()
		*at = *n
		old, _, _ := Get(t.text, path...)
		got, err := Set(t.text, value, path...)
		t.check(got, err, put(decode(t.T, t.text), path, func(any) any { return decode(t.T, value) }), len(t.text)-len(old))
		t.undone(Replace(got, old, path...))
	})
}

func TestSetOwn(t *testing.T) {
	trials(t, func(t *trial) {
		if path, _, ok := randomPlace(t.r, t.root, inside); ok && t.even != nil {
			old, _, _ := Get(t.text, path...)
			t.undone(Set(t.text, old, path...))
		}
	})
}

func TestAppend(t *testing.T) {
	trials(t, func(t *trial) {
		n, value := t.value()
		if path, at, ok := randomPlace(t.r, t.root, list); ok && t.r.IntN(4) > 0 {
			at.kids = append(at.kids, n)
			got, err := Append(t.text, value, path...)
			want := put(decode(t.T, t.text), path, func(v any) any { return append(v.([]any), decode(t.T, value)) })
			t.check(got, err, want, len(t.text))
			t.undone(Remove(got, append(path, "-1")...))
			return
		}
		path := t.fresh(&node{raw: "[", kids: []*node{n}})
		got, err := Append(t.text, value, path...)
		t.check(got, err, put(decode(t.T, t.text), path, func(any) any { return []any{decode(t.T, value)} }), len(t.text))
		t.undone(Remove(got, made(path)...))
	})
}

func TestRemove(t *testing.T) {
	trials(t, func(t *trial) {
		path, _, ok := randomPlace(t.r, t.root, inside)
		if !ok {
			return
		}
		got, err := Remove(t.text, path...)
		if err != nil {
			t.Fatal(err)
		}
		name := path[len(path)-1]
		want := put(decode(t.T, t.text), path[:len(path)-1], func(v any) any {
			if l, ok := v.([]any); ok {
				i, _ := strconv.Atoi(name)
				return slices.Delete(l, i, i+1)
			}
			delete(v.(map[string]any), name)
			return v
		})
		_, parent, _ := randomPlace(t.r, t.root, func(p []string, n *node) bool { return slices.Equal(p, path[:len(path)-1]) })
		gone := 0
		for i := len(parent.kids) - 1; i >= 0; i-- {
			if parent.name(i) == name {
				parent.kids = slices.Delete(parent.kids, i, i+1)
				if parent.raw == "{" {
					parent.names = slices.Delete(parent.names, i, i+1)
				}
				gone++
				if parent.raw == "[" {
					break
				}
			}
		}
		kept := 0
		if gone == 1 {
			kept = len(got)
		}
		t.check(got, nil, want, kept)
	})
}

func TestEditMembersRandomly(t *testing.T) {
	trials(t, func(t *trial) {
		path, at, _ := randomPlace(t.r, t.root, object)
		order := slices.IsSorted(names(at))
		want := decode(t.T, t.text)
		var sets, undo []Member
		for _, i := range t.r.Perm(len(spelled))[:t.r.IntN(6)] {
			name := spelled[i][0]
			n, value := t.value()
			want = put(want, append(slices.Clone(path), name), func(any) any { return decode(t.T, value) })
			sets = append(sets, Member{name, value})
			k := -1
			for j := range at.kids {
				if at.name(j) == name {
					k = j
				}
			}
			if k >= 0 {
				*at.kids[k] = *n
				continue
			}
			undo = append(undo, Member{name, nil})
		}
		had, _, _ := Get(t.text, path...)
		got, err := EditMembers(t.text, sets, path...)
		even := t.even
		t.even = nil
		t.check(got, err, want, len(t.text)-len(had))
		now, _, _ := Get(got, path...)
		d, err := find(now, nil)
		if err != nil {
			t.Fatal(err)
		}
		var have []string
		for _, it := range d.value.items {
			have = append(have, it.name)
		}
		if order && !slices.IsSorted(have) {
			t.Errorf("the order of names is lost: %q", have)
		}
		if even != nil && even.lines && len(have) > 0 && !strings.HasPrefix(string(now), "{"+even.eol) {
			t.Errorf("the lines are lost: %q", now)
		}
		if len(undo) == len(sets) {
			t.undone(EditMembers(got, undo, path...))
		}
	})
}

func names(n *node) []string {
	var s []string
	for i := range n.names {
		s = append(s, n.name(i))
	}
	return s
}
