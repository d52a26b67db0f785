package pyregex

import (
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{`visual.*`, "model.visual.blocks.0", false}, // anchored at the start
		{`.*visual.*`, "model.visual.blocks.0", true},
		{`.*mlp.gate`, "model.layers.0.mlp.gate_proj", true}, // not at the end
		{`.*mlp.gate$`, "model.layers.0.mlp.gate_proj", false},
		{`model.layers.1`, "model.layers.10", true},
		{`model\.layers\.1\.`, "model.layers.10.x", false},
		{`^(?!.*experts).*$`, "mlp.experts.0", false},
		{`^(?!.*experts).*$`, "mlp.gate", true},
		{`a|b`, "bx", true}, // the alternation is not torn apart by the anchor
		{`b|a`, "xa", false},
		{``, "anything", true},
		{`(?P<n>model)\.\d+\.(?P=n)\Z`, "model.12.model", true},
		{`(?P<n>model)\.\d+\.(?P=n)\Z`, "model.12.modelx", false},
		{`a\Z`, "a\n", false},
		{`a{,2}b`, "aab", true},
		{`a{,2}b`, "aaab", false},
		{`a\\Z`, `a\Z`, true},
		{`(q|k)_proj.*\1`, "q_proj.q", true},
	} {
		p, err := Compile(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Match(c.name); err != nil || got != c.want {
			t.Errorf("re.match(%q, %q) = %v, %v", c.pattern, c.name, got, err)
		}
	}
}

func TestErrors(t *testing.T) {
	if _, err := Compile(`a)|(?:b`); err == nil {
		t.Error("unbalanced brackets are taken")
	}
	if _, err := Compile(`a(`); err == nil || !strings.Contains(err.Error(), `"a("`) {
		t.Errorf("bad pattern: %v", err)
	}
	p, err := Compile(`(a+)+b\1c$`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Match(strings.Repeat("a", 200)); err == nil || !strings.Contains(err.Error(), "(a+)+b") {
		t.Errorf("catastrophic pattern: %v", err)
	}
}
