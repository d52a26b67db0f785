package rawjson

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// FuzzEdit holds for any text, value and path that an edit gives JSON with the
// value at its place, or an error, and that its counterpart restores the text.
func FuzzEdit(f *testing.F) {
	for i, text := range []string{configJSON, configCompact, configTabs, tokenizerConfig, indexJSON(2), bom + "{ }\r\n", "{\n}", "[]", "[ 1 ,2\n]", `{"a":{"a":1},"a":{"a":NaN}}`, `"a"`,
		"{\"a\":\n{\r\n\r}}", "{\"a\" : [\n\n] , \"b\":{}}"} {
		for _, path := range []string{"text_config/quantization_config/ignore", "a/a", "weight_map/new", "rope_scaling", "architectures/-1", "0", "x/y/é"} {
			f.Add([]byte(text), []byte(`{"x":[1, -Infinity],"y":{}}`), path, byte(i))
			f.Add([]byte(text), []byte(" [\n1e5]\n"), path, byte(i+1))
		}
	}
	f.Fuzz(func(t *testing.T, text, value []byte, names string, op byte) {
		if len(text)+len(value)+len(names) > 9000 {
			return // or both together are deeper than the parser goes
		}
		path := strings.Split(names, "/")
		if names == "" {
			path = nil
		}
		before := bytes.Clone(text)
		old, there, err := Get(text, path...)
		if err == nil && there {
			if own, err := Replace(text, old, path...); err != nil || !bytes.Equal(own, text) {
				t.Errorf("replaced by itself: %q %v", own, err)
			}
		}
		var got, back []byte
		switch op % 4 {
		case 0:
			if got, err = Set(text, value, path...); err != nil {
				return
			}
			now, ok, err := Get(got, path...)
			if err != nil || !ok || pressed(now) != pressed(value) {
				t.Errorf("now %q %v", now, err)
			}
			if there {
				back, err = Replace(got, old, path...)
			} else {
				back, err = Remove(got, outermost(text, path)...)
			}
			same(t, text, got, back, err)
		case 1:
			if got, err = Append(text, value, path...); err != nil {
				return
			}
			now, ok, err := Get(got, append(slices.Clone(path), "-1")...)
			if err != nil || !ok || pressed(now) != pressed(value) {
				t.Errorf("now %q %v", now, err)
			}
			if there {
				back, err = Remove(got, append(slices.Clone(path), "-1")...)
			} else {
				back, err = Remove(got, outermost(text, path)...)
			}
			same(t, text, got, back, err)
		case 2:
			if got, err = Remove(text, path...); err != nil {
				return
			}
			if all, ok, err := Get(got); err != nil || !ok || all == nil {
				t.Errorf("left: %q %v", got, err)
			}
		case 3:
			members := []Member{{"new", value}, {"", value}, {"zz", value}, {"a", value}}
			members = slices.DeleteFunc(members, func(m Member) bool {
				_, there, _ := Get(text, append(slices.Clone(path), m.Name)...)
				return there
			})
			if got, err = EditMembers(text, members, path...); err != nil {
				return
			}
			for i := range members {
				members[i].Value = nil
			}
			if there {
				back, err = EditMembers(got, members, path...)
			} else if len(members) > 0 {
				back, err = Remove(got, outermost(text, path)...)
			}
			same(t, text, got, back, err)
		}
		if !bytes.Equal(text, before) {
			t.Error("the text given has changed")
		}
	})
}

func same(t *testing.T, text, got, back []byte, err error) {
	t.Helper()
	if err != nil || !bytes.Equal(back, text) {
		t.Errorf("undone: %v\nbefore %q\nthen   %q\nundone %q", err, text, got, back)
	}
}

// pressed returns JSON without its white space.
func pressed(value []byte) string {
	s, err := check(value)
	if err != nil {
		return err.Error()
	}
	style := style{colon: ":"}
	return string(bytes.TrimSpace(style.set(append(s[:len(s):len(s)], '\n'))))
}

// outermost returns the part of a path up to the first name that is not there.
func outermost(text []byte, path []string) []string {
	for i := range path {
		if _, ok, _ := Get(text, path[:i+1]...); !ok {
			return path[:i+1]
		}
	}
	return path
}
