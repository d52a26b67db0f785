package rawjson

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// node is a JSON value that tests write in many styles.
type node struct {
	raw   string   // a scalar as it is spelled, else "{" or "["
	names []string // of an object, as spelled
	kids  []*node
}

// look is how a document is written.
type look struct {
	unit, eol, colon, comma string
	lines                   bool
	noise                   *rand.Rand // if there is one, every container has a look of its own
	mark, tail              string     // around the document
}

func pick[T any](r *rand.Rand, s ...T) T { return s[r.IntN(len(s))] }

// evenLook returns a look as programs write it, the same everywhere.
func evenLook(r *rand.Rand) look {
	l := look{eol: pick(r, "\n", "\n", "\r\n"), colon: ": ", comma: ", ", lines: r.IntN(3) > 0}
	if l.unit = pick(r, "  ", "  ", "    ", " ", "\t", ""); r.IntN(3) == 0 {
		l.colon, l.comma = ":", ","
	}
	l.mark = pick(r, "", "", "", bom)
	l.tail = pick(r, "", l.eol)
	return l
}

// oddLook returns one as people leave it.
func oddLook(r *rand.Rand) look {
	l := evenLook(r)
	l.noise = r
	return l
}

func (l look) document(n *node) string {
	return l.mark + l.write(n, "") + l.tail
}

func (l look) write(n *node, indent string) string {
	if n.raw != "{" && n.raw != "[" {
		return n.raw
	}
	closing := map[string]string{"{": "}", "[": "]"}[n.raw]
	blank := ""
	if r := l.noise; r != nil {
		l.lines = l.lines != (r.IntN(6) == 0)
		l.unit = pick(r, l.unit, l.unit, l.unit, "   ", "\t")
		l.eol = pick(r, l.eol, l.eol, l.eol, "\n", "\r\n", "\n\n", " \n")
		l.colon = pick(r, l.colon, l.colon, l.colon, ":", " :  ", ":\n\t")
		l.comma = pick(r, l.comma, l.comma, l.comma, ",", " , ", " ,\t")
		blank = pick(r, "", "", " ", "\n", "\r\n", l.eol+indent, "\r", "\n\r", " \n\n\t", "  ")
	}
	if len(n.kids) == 0 {
		return n.raw + blank + closing
	}
	inner := indent + l.unit
	first, sep, last := "", l.comma, ""
	if l.lines {
		first, sep, last = l.eol+inner, ","+l.eol+inner, l.eol+indent
	}
	if r := l.noise; r != nil && r.IntN(5) == 0 {
		first, last = pick(r, first, "", " ", "\n\n"), pick(r, last, blank)
	}
	var b strings.Builder
	b.WriteString(n.raw + first)
	for i, k := range n.kids {
		if i > 0 {
			if r := l.noise; r != nil && r.IntN(8) == 0 {
				b.WriteString(pick(r, l.eol, " ", "") + "," + pick(r, l.eol+inner, " ", "", l.eol+l.eol))
			} else {
				b.WriteString(sep)
			}
		}
		if n.raw == "{" {
			b.WriteString(n.names[i] + l.colon)
		}
		b.WriteString(l.write(k, inner))
	}
	return b.String() + last + closing
}

// spelled are names, and one of their spellings, that documents are made of.
var spelled = [][2]string{
	{"a", `"a"`}, {"b", `"b"`}, {"c", `"\u0063"`}, {"é", `"é"`}, {"è", `"\u00e8"`}, {"", `""`}, {"NaN", `"NaN"`}, {"x\"y\\", `"x\"y\\"`},
	{"0", `"0"`}, {"-1", `"-1"`}, {"model.layers.10", `"model.layers.10"`}, {"model.layers.2", `"model.layers.2"`}, {"😀", `"\ud83d\ude00"`}, {", :", `", :"`},
}

func randomScalar(r *rand.Rand) *node {
	return &node{raw: pick(r, "1", "0", "-0", "1e-05", "10000.0", "1E+3", "123456789012345678901234567890", "true", "false", "null",
		"NaN", "Infinity", "-Infinity", `""`, `"x"`, `"\u00e9é"`, `"\"NaN\", [{"`, `"\\"`, `"\/\ud83d\ude00"`)}
}

// randomNode returns a value that is at most depth deep. In one of eight objects
// of an odd document a name stands twice.
func randomNode(r *rand.Rand, depth int, odd bool) *node {
	if depth == 0 || r.IntN(3) == 0 {
		return randomScalar(r)
	}
	n := &node{raw: pick(r, "{", "{", "[")}
	for range r.IntN(4) {
		n.kids = append(n.kids, randomNode(r, depth-1, odd))
	}
	if n.raw == "{" {
		for _, i := range r.Perm(len(spelled))[:len(n.kids)] {
			n.names = append(n.names, spelled[i][1])
		}
		if len(n.kids) > 1 && odd && r.IntN(8) == 0 {
			n.names[0] = n.names[len(n.names)-1]
		}
	}
	return n
}

// name returns what member i is called.
func (n *node) name(i int) string {
	if n.raw == "[" {
		return fmt.Sprint(i)
	}
	at := slices.IndexFunc(spelled, func(s [2]string) bool { return s[1] == n.names[i] })
	if at < 0 {
		return strings.Trim(n.names[i], `"`)
	}
	return spelled[at][0]
}

// last says whether member i is the one its name means.
func (n *node) last(i int) bool {
	return n.raw == "[" || !slices.Contains(n.names[i+1:], n.names[i])
}

// places calls visit for every value that a path leads to.
func (n *node) places(path []string, visit func(path []string, n *node)) {
	visit(path, n)
	for i, k := range n.kids {
		if n.last(i) {
			k.places(append(slices.Clone(path), n.name(i)), visit)
		}
	}
}

// randomPlace returns a path to a value for which ok holds, and whether there is
// one.
func randomPlace(r *rand.Rand, root *node, ok func(path []string, n *node) bool) (path []string, at *node, found bool) {
	seen := 0
	root.places(nil, func(p []string, n *node) {
		if ok(p, n) {
			if seen++; r.IntN(seen) == 0 {
				path, at, found = p, n, true
			}
		}
	})
	return path, at, found
}
