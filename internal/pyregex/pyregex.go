// Package pyregex matches names as Python's re.match does: from the start, and
// not necessarily to the end. The engine is a backtracking one, since published
// patterns use look-around.
package pyregex

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/dlclark/regexp2/v2"
)

// timeout ends a pattern that backtracks without end. Names are short: any sane
// pattern takes microseconds.
const timeout = time.Second

// Pattern is a compiled pattern. It is safe for concurrent use.
type Pattern struct {
	text string
	re   *regexp2.Regexp
}

// Compile compiles a Python pattern.
func Compile(pattern string) (*Pattern, error) {
	text := translate(pattern)
	_, err := regexp2.Compile(text) // alone first: a stray bracket must not close the one below
	var re *regexp2.Regexp
	if err == nil {
		re, err = regexp2.Compile(`\A(?:` + text + `)`)
	}
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	re.MatchTimeout = timeout
	return &Pattern{pattern, re}, nil
}

// Match reports whether re.match(pattern, name) would find a match. An error
// means that the pattern backtracks without end.
func (p *Pattern) Match(name string) (bool, error) {
	ok, err := p.re.MatchString(name)
	if err != nil {
		return false, fmt.Errorf("pattern %q on %q: %w", p.text, name, err)
	}
	return ok, nil
}

// repeat is a repetition without a lower bound, which the engine takes for text.
var repeat = regexp.MustCompile(`^\{,[0-9]+\}`)

// translate respells what the engine spells differently.
func translate(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		rest := pattern[i:]
		switch {
		case strings.HasPrefix(rest, `\Z`): // the very end; the engine's \Z allows a line break after it
			b.WriteString(`\z`)
			i++
		case rest[0] == '\\' && len(rest) > 1:
			b.WriteString(rest[:2])
			i++
		case repeat.MatchString(rest): // a{,3}
			b.WriteString(`{0,`)
			i++
		case strings.HasPrefix(rest, `(?P<`):
			b.WriteString(`(?<`)
			i += 3
		case strings.HasPrefix(rest, `(?P=`) && strings.Contains(rest, ")"):
			name, _, _ := strings.Cut(rest[4:], ")")
			b.WriteString(`\k<` + name + `>`)
			i += 4 + len(name)
		default:
			b.WriteByte(rest[0])
		}
	}
	return b.String()
}
