// Package pyregex matches names as Python's re.match does: from the start, and
// not necessarily to the end. The engine is a backtracking one, since published
// patterns use look-around.
package pyregex

import (
	"fmt"
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
	re, err := regexp2.Compile(`\A(?:` + pattern + `)`)
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
