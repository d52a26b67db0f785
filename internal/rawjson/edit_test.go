package rawjson

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// change is one edit of a table: op is set, replace, append or remove.
type change struct {
	op    string
	path  string // names, separated by /
	value string
}

func (c change) apply(text []byte) ([]byte, error) {
	var path []string
	if c.path != "" {
		path = strings.Split(c.path, "/")
	}
	switch c.op {
	case "set":
		return Set(text, []byte(c.value), path...)
	case "replace":
		return Replace(text, []byte(c.value), path...)
	case "append":
		return Append(text, []byte(c.value), path...)
	case "remove":
		return Remove(text, path...)
	}
	panic(c.op)
}

func TestEdit(t *testing.T) {
	for _, c := range []struct{ name, op, path, value, text, want string }{
		{"value", "set", "a", `2`, `{"a":1}`, `{"a":2}`},
		{"last of a name", "set", "a", `2`, `{"a":0,"a":1,"b":"a"}`, `{"a":0,"a":2,"b":"a"}`},
		{"last of a name, inwards", "set", "a/x", `2`, `{"a":{"x":0},"a":{"x":1}}`, `{"a":{"x":0},"a":{"x":2}}`},
		{"name with an escape", "set", "é", `2`, `{"\u00e9":1}`, `{"\u00e9":2}`},
		{"element", "set", "a/1", `9`, `{"a":[1, 2, 3]}`, `{"a":[1, 9, 3]}`},
		{"member of an element", "set", "a/-1/x", `9`, `{"a":[{"x":1}, {"x":2}]}`, `{"a":[{"x":1}, {"x":9}]}`},
		{"number as a name", "set", "1", `9`, `{"1":0}`, `{"1":9}`},
		{"whole document", "set", "", "[\n]", "\n{} \n", "\n[\n] \n"},
		{"value is trimmed", "set", "a", " 2\r\n\t", `{"a":1}`, `{"a":2}`},

		{"compact", "set", "b", `{"x":[1, 2]}`, `{"a":1}`, `{"a":1,"b":{"x":[1, 2]}}`},
		{"compact, value on lines", "set", "b", "{\n \"x\": [1,\n2]\n}", `{"a":1}`, `{"a":1,"b":{"x":[1,2]}}`},
		{"one line, value on lines", "set", "b", "{\n \"x\":[1,\n2]\n}", `{"a": 1}`, `{"a": 1, "b": {"x": [1, 2]}}`},
		{"padded", "set", "b", `2`, `{ "a" : 1 }`, `{ "a" : 1, "b" : 2 }`},
		{"space before comma", "set", "c", `3`, `{"a":1 ,"b":2 }`, `{"a":1 ,"b":2 ,"c":3 }`},
		{"comma first", "set", "c", `3`, "{ \"a\": 1\n, \"b\": 2\n}", "{ \"a\": 1\n, \"b\": 2\n, \"c\": 3\n}"},
		{"lines", "set", "b", `{"x":[1,{}],"y":1e-05}`, "{\n  \"a\": 1\n}", "{\n  \"a\": 1,\n  \"b\": {\n    \"x\": [\n      1,\n      {}\n    ],\n    \"y\": 1e-05\n  }\n}"},
		{"four spaces", "set", "b", `{"x":1}`, "{\n    \"a\" :1\n}", "{\n    \"a\" :1,\n    \"b\" :{\n        \"x\" :1\n    }\n}"},
		{"value below its name", "set", "b", `2`, "{\"a\":\n 1}", "{\"a\":\n 1, \"b\": 2}"},
		{"new one follows the last", "set", "c", `{"x":1}`, "{\"a\": 1,\n  \"b\": 2\n}", "{\"a\": 1,\n  \"b\": 2,\n  \"c\": {\n    \"x\": 1\n  }\n}"},
		{"old one stays as it was", "set", "a", `{"x":1}`, "{\"a\": 1,\n  \"b\": 2\n}", "{\"a\": {\"x\":1},\n  \"b\": 2\n}"},
		{"far in", "set", "b", `{"x":1}`, "{\n                        \"a\": 1\n}", "{\n                        \"a\": 1,\n                        \"b\": {\n                          \"x\": 1\n                        }\n}"},
		{"one line among lines", "set", "a/y", `{"z":[1]}`, "{\n  \"a\": {\"x\": 1}\n}", "{\n  \"a\": {\"x\": 1, \"y\": {\"z\":[1]}}\n}"},
		{"no indentation", "set", "b", `{"x":1}`, "{\n\"a\": 1\n}", "{\n\"a\": 1,\n\"b\": {\n\"x\": 1\n}\n}"},
		{"blank lines", "set", "c", `3`, "{\n  \"a\": 1,\n\n  \"b\": 2\n\n}", "{\n  \"a\": 1,\n\n  \"b\": 2,\n  \"c\": 3\n\n}"},
		{"list on one line", "set", "a", `[2,3]`, "{\n  \"a\": [1]\n}", "{\n  \"a\": [2,3]\n}"},
		{"list on lines", "set", "a", `[2,3]`, "{\n  \"a\": [\n    1\n  ]\n}", "{\n  \"a\": [\n    2,\n    3\n  ]\n}"},
		{"list for null", "set", "a", "[2,\n3]", "{\n  \"a\": null\n}", "{\n  \"a\": [\n    2,\n    3\n  ]\n}"},
		{"list for an empty one", "set", "a", `[2,3]`, "{\n  \"a\": []\n}", "{\n  \"a\": [\n    2,\n    3\n  ]\n}"},
		{"missing parents, lines", "set", "a/b/c", `1`, "{\n\t\"x\": 0\n}", "{\n\t\"x\": 0,\n\t\"a\": {\n\t\t\"b\": {\n\t\t\t\"c\": 1\n\t\t}\n\t}\n}"},
		{"missing parents, one line", "set", "a/b/c", `1`, `{"x":0}`, `{"x":0,"a":{"b":{"c":1}}}`},
		{"replaced as it is", "replace", "a", "[ 2,\n 3]", "{\n  \"a\": 1\n}", "{\n  \"a\": [ 2,\n 3]\n}"},

		{"empty document", "set", "a", `1`, "{}\n", "{\n  \"a\": 1\n}\n"},
		{"empty document, CRLF", "set", "a", `1`, "{}\r\n", "{\r\n  \"a\": 1\r\n}\r\n"},
		{"empty document, spaced", "set", "a", `1`, "{ }", `{ "a": 1 }`},
		{"empty document, a line break", "set", "a", `1`, "{\n}", "{\n\n  \"a\": 1\n}"},
		{"empty object, lines", "set", "a/b", `1`, "{\n    \"a\": {}\n}", "{\n    \"a\": {\n        \"b\": 1\n    }\n}"},
		{"empty object, tabs", "set", "m/a/b", `1`, "{\n\t\"m\": {\n\t\t\"a\": {}\n\t}\n}", "{\n\t\"m\": {\n\t\t\"a\": {\n\t\t\t\"b\": 1\n\t\t}\n\t}\n}"},
		{"empty object, compact", "set", "a/b", `1`, `{"a":{}}`, `{"a":{"b":1}}`},
		{"empty list", "append", "a", `1`, "{\r\n  \"a\": []\r\n}", "{\r\n  \"a\": [\r\n    1\r\n  ]\r\n}"},

		{"append, one line", "append", "a", `"y"`, `{"a": ["x"], "b": 0}`, `{"a": ["x", "y"], "b": 0}`},
		{"append, compact", "append", "a", `"y"`, `{"a":["x"],"b":0}`, `{"a":["x","y"],"b":0}`},
		{"append, lines", "append", "a", `[]`, "{\n \"a\": [\n  1,\n  2\n ]\n}", "{\n \"a\": [\n  1,\n  2,\n  []\n ]\n}"},
		{"append to none", "append", "a/b", `1`, `{"x": 0}`, `{"x": 0, "a": {"b": [1]}}`},
		{"append to the document", "append", "", `2`, `[1]`, `[1, 2]`},

		{"remove first", "remove", "a", "", "{\n  \"a\": 1,\n  \"b\": 2\n}", "{\n  \"b\": 2\n}"},
		{"remove middle", "remove", "b", "", `{"a":1, "b":2,  "c":3}`, `{"a":1,  "c":3}`},
		{"remove last", "remove", "b", "", "{\n  \"a\": 1,\n  \"b\": 2\n}", "{\n  \"a\": 1\n}"},
		{"remove only", "remove", "a", "", "{\n  \"a\": 1\n}\n", "{}\n"},
		{"remove only, bracket beside it", "remove", "a", "", "{\n  \"a\": 1}", "{}"},
		{"remove all of a name", "remove", "a", "", `{"a":1,"b":2,"a":3}`, `{"b":2}`},
		{"remove element", "remove", "a/0", "", `{"a":[1, 2, 1]}`, `{"a":[2, 1]}`},
		{"remove last element", "remove", "a/-1", "", `{"a":[1, 2, 1]}`, `{"a":[1, 2]}`},
		{"remove only element", "remove", "a/0", "", "{\n  \"a\": [\n    1\n  ]\n}", "{\n  \"a\": []\n}"},

		{"mark and literals", "set", "c", `NaN`, bom + `{"NaN":-Infinity,"a\"NaN":[NaN, Infinity]}`, bom + `{"NaN":-Infinity,"a\"NaN":[NaN, Infinity],"c":NaN}`},
		{"a literal replaced", "set", "a/1", `-Infinity`, `{"a":[NaN, Infinity , 1]}`, `{"a":[NaN, -Infinity , 1]}`},
		{"literals inside a value", "set", "a", `[NaN,{"Infinity":-Infinity}]`, "{\n  \"a\": Infinity\n}", "{\n  \"a\": [\n    NaN,\n    {\n      \"Infinity\": -Infinity\n    }\n  ]\n}"},
	} {
		text := []byte(c.text)
		got, err := change{c.op, c.path, c.value}.apply(text)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n got %q\nwant %q", c.name, err, got, c.want)
		}
		if string(text) != c.text {
			t.Errorf("%s: the text given was changed to %q", c.name, text)
		}
	}
}

func TestGet(t *testing.T) {
	text := []byte(bom + "\r\n{\"a\": {\"b\" : [1e-05, {\"c\":\"\\u00e9\"}, NaN ]}, \"a.b\": null,\"n\":10000.0, \"n\": 123456789012345678901234567890}")
	for _, c := range []struct{ path, want string }{
		{"a/b/0", "1e-05"}, {"a/b/1/c", `"\u00e9"`}, {"a/b/2", "NaN"}, {"a/b/-1", "NaN"}, {"a/b/-3", "1e-05"}, {"a.b", "null"},
		{"n", "123456789012345678901234567890"}, {"a/b", `[1e-05, {"c":"\u00e9"}, NaN ]`},
		{"b", ""}, {"a/b/3", ""}, {"a/b/-4", ""}, {"a/b/-0", ""}, {"a/b/00", ""}, {"a/b/+1", ""}, {"a/b/c", ""}, {"a.b/c", ""}, {"n/x/y", ""},
	} {
		got, ok, err := Get(text, strings.Split(c.path, "/")...)
		if err != nil || ok != (c.want != "") || string(got) != c.want {
			t.Errorf("%s: %q %v %v, want %q", c.path, got, ok, err, c.want)
		}
	}
	if all, ok, err := Get(text); err != nil || !ok || !bytes.HasSuffix(text, all) || all[0] != '{' || cap(all) != len(all) {
		t.Errorf("the document: %q %v %v", all, ok, err)
	}
}

func TestEditErrors(t *testing.T) {
	const text = `{"a": {"n": null, "l": [1, 2], "s": "x"}, "é": true}`
	for _, c := range []struct{ op, path, value, text, want string }{
		{"set", "a/n/x", "1", text, `"a"."n" is null, not an object`},
		{"set", "a/s/x/y", "1", text, `"a"."s" is a string, not an object`},
		{"set", "é/x", "1", text, `"é" is a bool, not an object`},
		{"set", "a/l/x", "1", text, `"a"."l" is a list of 2, without "x": not found`},
		{"set", "a/l/2", "1", text, `"a"."l" is a list of 2, without "2": not found`},
		{"set", "x", "1", `3`, `the document is a number, not an object`},
		{"set", "x\xff", "1", `{}`, `"x\xff": a name must be UTF-8`},
		{"append", "a", "1", text, `"a" is an object, not a list`},
		{"append", "a/n", "1", text, `"a"."n" is null, not a list`},
		{"append", "a/n/x", "1", text, `"a"."n" is null, not an object`},
		{"remove", "a/x", "", text, `"a"."x": not found`},
		{"remove", "x/y/z", "", text, `"x": not found`},
		{"remove", "a/l/2", "", text, `"a"."l" is a list of 2, without "2": not found`},
		{"remove", "a/n/x", "", text, `"a"."n" is null, not an object`},
		{"remove", "", "", text, `the document itself cannot be removed`},
		{"replace", "x", "1", text, `"x": not found`},
		{"set", "a", "tru", text, `"a": the new value: byte 3: not JSON: the text ends too early`},
		{"set", "a/b/c", ` 1}, "x": {`, text, `"a"."b"."c": the new value: byte 2: not JSON: `},
		{"append", "q", `1, 2`, text, `"q": the new value: byte 1: not JSON: `},
		{"replace", "a", " ", text, `"a": the new value: byte 0: not JSON: the text is empty`},
		{"set", "a", bom + "1", text, `"a": the new value: it begins with a byte order mark`},
		{"set", "a", "1", ``, `byte 0: not JSON: the text is empty`},
		{"set", "a", "1", bom, `byte 0: not JSON: the text is empty`},
		{"set", "a", "1", `{"b": {"c": [1,]}}`, `byte 14: not JSON: `},
		{"set", "a", "1", `{"a": 1} x`, `byte 9: not JSON: `},
		{"set", "a", "1", `{"a": 1`, `byte 7: not JSON: the text ends too early`},
		{"set", "a", "1", `{"a": NaN1}`, `byte 6: not JSON: `},
		{"set", "a", "1", `{"a": -NaN}`, `byte 7: not JSON: `},
		{"set", "a", "1", `{NaN: 1}`, `byte 1: not JSON: `},
		{"set", "a", "1", `{"a": 1Infinity}`, `byte 7: not JSON: `},
		{"set", "a", "1", "{\"a\": \"\xff\"}", `byte 7: not JSON: `},
	} {
		got, err := change{c.op, c.path, c.value}.apply([]byte(c.text))
		if err == nil || got != nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s %s %q in %s: %q %v\nwant %s", c.op, c.path, c.value, c.text, got, err, c.want)
			continue
		}
		if absent := strings.Contains(c.want, "not found"); absent != errors.Is(err, ErrNotFound) {
			t.Errorf("%v: is ErrNotFound: %v", err, !absent)
		}
		var s *SyntaxError
		if errors.As(err, &s) != strings.Contains(c.want, "not JSON") || s != nil && !strings.Contains(err.Error(), fmt.Sprintf("byte %d:", s.Offset)) {
			t.Errorf("%v: syntax error %+v", err, s)
		}
	}
	long := strings.Repeat("x", 1000)
	if _, err := Remove([]byte(`{}`), long); err == nil || len(err.Error()) > 300 {
		t.Errorf("a long name: %v", err)
	}
	for name, err := range map[string]error{
		"Replace":     func() error { _, err := Replace([]byte(`{"a":`), []byte("1"), "b"); return err }(),
		"Append":      func() error { _, err := Append([]byte(`{"a":`), []byte("1"), "b"); return err }(),
		"Remove":      func() error { _, err := Remove([]byte(`{"a":`), "b"); return err }(),
		"EditMembers": func() error { _, err := EditMembers([]byte(`{"a":`), nil, "b"); return err }(),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "byte 5: not JSON") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := Get([]byte(`{"a":`), "b"); err == nil || !strings.HasPrefix(err.Error(), "byte 5: not JSON") {
		t.Errorf("Get: %v", err)
	}
}

func TestEditMembers(t *testing.T) {
	set := func(name string) Member { return Member{name, []byte(`"new"`)} }
	gone := func(name string) Member { return Member{name, nil} }
	for _, c := range []struct {
		name, text, want string
		members          []Member
	}{
		{"in order", `{"b":1,"d":2}`, `{"a":"new","b":1,"c":"new","cc":"new","d":2,"e":"new"}`, []Member{set("e"), set("cc"), set("a"), set("c")}},
		{"not in order", `{"d":2, "b":1}`, `{"d":2, "b":1, "e":"new", "a":"new"}`, []Member{set("e"), set("a")}},
		{"bytes, not numbers", `{"l.10":1,"l.2":2}`, `{"l.1":"new","l.10":1,"l.11":"new","l.2":2}`, []Member{set("l.11"), set("l.1")}},
		{"replace and remove", `{"a":1,"b":2,"c":3}`, `{"b":"new","c":3}`, []Member{gone("a"), set("b")}},
		{"all removed", "{\n  \"a\": 1,\n  \"b\": 2\n}", `{}`, []Member{gone("a"), gone("b")}},
		{"all exchanged", "{\n  \"a\": 1,\n  \"b\": 2\n}", "{\n  \"c\": \"new\"\n}", []Member{gone("a"), set("c"), gone("b")}},
		{"twice in the text", `{"a":1,"a":2,"b":3,"b":4}`, `{"a":1,"a":"new"}`, []Member{gone("b"), set("a")}},
		{"empty", "{}", "{\n  \"a\": \"new\",\n  \"b\": \"new\"\n}", []Member{set("b"), set("a")}},
		{"layout", "{\n  \"b\": {\"x\": 1},\n  \"c\": 1\n}", "{\n  \"a\": {\n    \"x\": 2\n  },\n  \"b\": {\"x\": 2},\n  \"c\": {\n    \"x\": 2\n  }\n}",
			[]Member{{"c", []byte(`{"x": 2}`)}, {"a", []byte(`{"x": 2}`)}, {"b", []byte(`{"x": 2}`)}}},
		{"nothing", `{"a":1}`, `{"a":1}`, nil},
	} {
		for _, path := range [][]string{nil, {"metadata"}} {
			text, want := c.text, c.want
			if path != nil {
				text, want = `{"metadata":`+text+`}`, `{"metadata":`+want+`}`
				if c.name == "empty" {
					want = `{"metadata":{"a":"new","b":"new"}}`
				}
			}
			got, err := EditMembers([]byte(text), c.members, path...)
			if err != nil || string(got) != want {
				t.Errorf("%s: %v\n got %q\nwant %q", c.name, err, got, want)
			}
		}
	}
	got, err := EditMembers([]byte(`{"x":1}`), []Member{set("b"), set("a")}, "m", "n")
	if want := `{"x":1,"m":{"n":{"a":"new","b":"new"}}}`; err != nil || string(got) != want {
		t.Errorf("object made: %s %v", got, err)
	}
	if got, err := EditMembers([]byte(`{"x": 1}`), nil, "m"); err != nil || string(got) != `{"x": 1}` {
		t.Errorf("nothing to do: %s %v", got, err)
	}
	for want, members := range map[string][]Member{
		`"m"."a": given twice`:                     {set("a"), set("a")},
		`"m"."a": not found`:                       {gone("a")},
		`"m"."\xff": a name must be UTF-8`:         {set("\xff")},
		`"m"."a": the new value: byte 0: not JSON`: {{"a", []byte{}}},
	} {
		if got, err := EditMembers([]byte(`{}`), members, "m"); got != nil || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q %v, want %s", got, err, want)
		}
	}
	if _, err := EditMembers([]byte(`{"m":[]}`), []Member{set("a")}, "m"); err == nil || err.Error() != `"m" is a list, not an object` {
		t.Error(err)
	}
}

// The wanted spellings are those of Python 3.11's json.dumps.
func TestQuote(t *testing.T) {
	for s, want := range map[string]string{
		"":                      `""`,
		"model.layers.0":        `"model.layers.0"`,
		"a\"b\\c/d":             `"a\"b\\c/d"`,
		"\n\r\t\b\f\x00\x1b":    `"\n\r\t\b\f\u0000\u001b"`,
		" ~\x7f":                `" ~\u007f"`,
		"é<｜begin▁of｜>":         `"\u00e9<\uff5cbegin\u2581of\uff5c>"`,
		"😀\U00010000\U0010ffff": `"\ud83d\ude00\ud800\udc00\udbff\udfff"`,
		"\u2028<&>\ufffd":       `"\u2028<&>\ufffd"`,
		"a\xffb":                `"a\ufffdb"`,
	} {
		if got := string(Quote(s)); got != want {
			t.Errorf("%q: got %s, want %s", s, got, want)
		}
	}
}
