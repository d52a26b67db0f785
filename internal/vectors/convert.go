package vectors

import (
	"slices"
	"strings"
)

// An Option changes which modules a quantizer converts. By default these are the 2-D BF16 projections of the text body: *_proj, in_proj_*,
// w1, w2, w3. Left alone are embeddings, lm_head, norms, routers and their gates, vision and audio towers, mtp.*, eh_proj, convolutions,
// in_proj_a and in_proj_b, and 3-D expert stacks.
type Option func(*selection)

type selection struct {
	only []func(module string) bool
	also []string
}

// Only narrows the conversion to modules for which keep is true. A module is a tensor's name without .weight.
func Only(keep func(module string) bool) Option {
	return func(s *selection) { s.only = append(s.only, keep) }
}

// Also converts 2-D modules that are left alone by default, such as lm_head or mtp.fc. They do not pass through Only. No ignore list names
// them, but the pattern for the rest of an MTP head may match them.
func Also(modules ...string) Option {
	return func(s *selection) { s.also = append(s.also, modules...) }
}

// newSelection applies the options. It panics if Also names a module that m lacks or that cannot be converted.
func newSelection(m *Model, opts []Option) *selection {
	s := &selection{}
	for _, opt := range opts {
		opt(s)
	}
	for _, module := range s.also {
		if w := m.Tensor(module + ".weight"); len(w.Shape) != 2 || w.DType != "BF16" {
			panic("vectors: " + w.Name + " is not a 2-D BF16 tensor")
		}
	}
	return s
}

// takes reports whether t is to be converted, and its module.
func (s *selection) takes(t *Tensor) (module string, ok bool) {
	module, ok = strings.CutSuffix(t.Name, ".weight")
	if !ok || len(t.Shape) != 2 || t.DType != "BF16" {
		return "", false
	}
	if slices.Contains(s.also, module) {
		return module, true
	}
	for _, keep := range s.only {
		if !keep(module) {
			return "", false
		}
	}
	return module, projection(module)
}

func projection(module string) bool {
	parts := strings.Split(module, ".")
	for _, part := range parts {
		switch part {
		case "mtp", "visual", "vision_tower", "vision_model", "audio_tower":
			return false
		}
	}
	switch leaf := parts[len(parts)-1]; leaf {
	case "eh_proj", "in_proj_a", "in_proj_b", "in_proj_ba":
		return false
	case "w1", "w2", "w3":
		return true
	default:
		return strings.HasSuffix(leaf, "_proj") || strings.HasPrefix(leaf, "in_proj_")
	}
}

// converted is a model in the course of conversion.
type converted struct {
	*Model
	left   []string // linear modules that stay float, in file order
	stacks []string // modules of 3-D expert stacks that stay float: ….mlp.experts
}

// convert returns a copy of m in which encode's tensors stand in place of each taken weight. The names that encode gives are relative to
// the module.
func convert(m *Model, opts []Option, encode func(module string, w *Tensor) []Tensor) *converted {
	sel := newSelection(m, opts)
	c := &converted{Model: m.Clone()}
	for _, s := range c.Shards {
		var tensors []Tensor
		for _, t := range s.Tensors {
			if module, ok := sel.takes(&t); ok {
				for _, part := range encode(module, &t) {
					part.Name = module + "." + part.Name
					tensors = append(tensors, part)
				}
				continue
			}
			c.note(&t)
			tensors = append(tensors, t)
		}
		s.Tensors = tensors
	}
	return c
}

// note lists a tensor that stays as it is, if it is a linear module or part of a stack of experts.
func (c *converted) note(t *Tensor) {
	module, isWeight := strings.CutSuffix(t.Name, ".weight")
	if isWeight && len(t.Shape) == 2 && !strings.HasSuffix(module, "embed_tokens") {
		c.left = append(c.left, module)
	}
	stack, _, isStack := strings.Cut(t.Name, ".experts.")
	if stack += ".experts"; isStack && len(t.Shape) == 3 && !slices.Contains(c.stacks, stack) {
		c.stacks = append(c.stacks, stack)
	}
}

// leftNames returns the modules that stay float: the MTP head as the one pattern mtp, a stack of experts as stack spells it, everything
// else by name.
func (c *converted) leftNames(mtp string, stack func(module string) string) []any {
	names, heads := []any{}, 0
	add := func(module, entry string) {
		if strings.HasPrefix(module, "mtp.") {
			heads++
			return
		}
		names = append(names, entry)
	}
	for _, module := range c.left {
		add(module, module)
	}
	for _, module := range c.stacks {
		add(module, stack(module))
	}
	if heads > 0 {
		names = append(names, mtp)
	}
	return names
}

// unconverted returns every module that stays float by name, for formats without patterns.
func (c *converted) unconverted() []any {
	names := []any{}
	for _, module := range slices.Concat(c.left, c.stacks) {
		names = append(names, module)
	}
	return names
}

// fusedSets are the projections that engines fuse; NVFP4 gives each set one global scale.
var fusedSets = [][]string{
	{"q_proj", "k_proj", "v_proj"}, {"gate_proj", "up_proj"}, {"q_a_proj", "kv_a_proj_with_mqa"}, {"w1", "w3"}, {"in_proj_qkv", "in_proj_z"},
}

// fusedSet returns a name shared by the modules that are fused with this one.
func fusedSet(module string) string {
	i := strings.LastIndexByte(module, '.') + 1
	for _, set := range fusedSets {
		if slices.Contains(set, module[i:]) {
			return module[:i] + set[0]
		}
	}
	return module
}
