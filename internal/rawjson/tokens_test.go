package rawjson

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestTokens(t *testing.T) {
	text := " {\"a\" : [1, -2.5e3 ,null],\n\"b\\n\":\"\\u00e9\", \"\":{}} "
	tok := NewTokens(text)
	var got []string
	for {
		kind, err := tok.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		s := tok.Raw()
		if text[tok.Start():tok.End()] != s {
			t.Errorf("Raw %q does not stand at [%d:%d]", s, tok.Start(), tok.End())
		}
		if kind == '"' {
			s = fmt.Sprintf("%q", tok.Text())
		}
		got = append(got, fmt.Sprintf("%d%s", tok.Depth(), s))
	}
	want := `1{ 1"a" 2[ 21 2-2.5e3 2null 1] 1"b\n" 1"é" 1"" 2{ 1} 0}`
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

func TestSkipAndDone(t *testing.T) {
	tok := NewTokens(`{"a":{"x":[1,2]},"a":3} `)
	tok.Next()
	tok.Next()
	if err := tok.Skip(); err != nil {
		t.Fatal(err)
	}
	if k, err := tok.Next(); err != nil || k != '"' || tok.Text() != "a" {
		t.Fatalf("after Skip: %v %v %q", k, err, tok.Raw())
	}
	if tok.Peek() != '0' {
		t.Errorf("Peek = %v", tok.Peek())
	}
	tok.Next()
	tok.Next()
	if err := tok.Done(); err != nil {
		t.Errorf("Done: %v", err)
	}
}

func TestSyntaxError(t *testing.T) {
	for _, c := range []struct {
		text   string
		offset int
	}{
		{`{"a":tru}`, 8}, {`{"a":1`, 6}, {`{"a" 1}`, 5}, {`{"a":"\ud800"}`, 6}, {"{\"a\":\"\xff\"}", 6}, {`{} {}`, 3}, {`[1,]`, 2},
	} {
		tok := NewTokens(c.text)
		err := tok.Skip()
		if err == nil {
			err = tok.Done()
		}
		var s *SyntaxError
		if !errors.As(err, &s) || s.Offset != c.offset {
			t.Errorf("%s: %v at %+v, want byte %d", c.text, err, s, c.offset)
		}
	}
	if _, err := NewTokens("  ").Next(); err != io.EOF {
		t.Errorf("empty text: %v", err)
	}
}
