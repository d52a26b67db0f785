package scheme

import (
	"slices"

	"github.com/ckpt-surgery/ckpt/internal/natural"
	st "github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// Module is the tensors of one layer's building block: a.b.q_proj is its weight,
// its scales and its bias. The tensors may be in different shards.
type Module struct {
	Name    string
	Members []Member // in natural order of the tensors' names
}

// Member is a tensor and what it is to its module.
type Member struct {
	checkpoint.Tensor
	Part Part
}

// Modules groups the tensors of a checkpoint, in natural order of the modules'
// names.
func Modules(c *checkpoint.Checkpoint) []Module {
	modules := group(c)
	slices.SortFunc(modules, func(a, b Module) int { return natural.Compare(a.Name, b.Name) })
	for _, m := range modules {
		slices.SortFunc(m.Members, func(a, b Member) int { return natural.Compare(a.Tensor.Name, b.Tensor.Name) })
	}
	return modules
}

// group is Modules without the order, which costs more than the rest.
func group(c *checkpoint.Checkpoint) []Module {
	var modules []Module
	place := make(map[string]int, c.Len()/2)
	for t := range c.Tensors() {
		name, part := PartOf(t.Info)
		i, ok := place[name]
		if !ok {
			i = len(modules)
			place[name] = i
			modules = append(modules, Module{Name: name})
		}
		modules[i].Members = append(modules[i].Members, Member{t, part})
	}
	return modules
}

// Get returns the module's first member of that part, or nil.
func (m *Module) Get(part Part) *Member {
	for i := range m.Members {
		if m.Members[i].Part == part {
			return &m.Members[i]
		}
	}
	return nil
}

// Bytes returns what the module takes on disk.
func (m *Module) Bytes() int64 {
	var n int64
	for _, t := range m.Members {
		n += t.Bytes
	}
	return n
}

// Params returns the number of the module's parameters: its weights, counted
// before packing, its biases and whatever else is no companion of a weight.
func (m *Module) Params() uint64 {
	d := m.Detect()
	return d.params(m)
}

func (d *Detected) params(m *Module) uint64 {
	var n uint64
	for _, t := range m.Members {
		e, _ := t.Elements()
		switch t.Part {
		case Packed:
			n += d.unpacked(t.Info, e)
		case Weight:
			if d.Float && d.Bits == 4 { // two codes a byte
				e *= 2
			}
			n += e
		case Bias, Other:
			n += e
		}
	}
	return n
}

// unpacked returns how many weights a packed tensor of e elements holds.
func (d *Detected) unpacked(t st.Info, e uint64) uint64 {
	switch {
	case d.columns > 0 && len(t.Shape) == 2:
		return t.Shape[0] * d.columns
	case d.Bits == 0:
		return e
	}
	return e * uint64(t.DType.Bits()) / uint64(d.Bits)
}
