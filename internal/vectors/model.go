package vectors

import (
	"fmt"
	"maps"
	"slices"
)

// A Shard is one weight file of a Model.
type Shard struct {
	Name    string // path inside the model's folder
	Tensors []Tensor
	Meta    map[string]string // __metadata__; nil writes none
}

// A Model is a checkpoint directory that a test may edit before it is written. Shards, index and config.json are derived from the fields
// each time files are asked for. A file in Files wins over a derived one of the same name, so a stale index is
//
//	m.Files[m.IndexName] = m.Index()
//	m.Remove("lm_head.weight")
//
// and a nil entry in Files leaves that file out, so a lost shard is m.Files["model-00002-of-00002.safetensors"] = nil.
type Model struct {
	Shards    []*Shard
	Indexed   bool              // whether an index file is written
	IndexName string            // the index's file name
	Config    map[string]any    // config.json; nil writes none
	Files     map[string][]byte // everything else, byte for byte
}

// newModel shards tensors in the given parts under the usual numbered names, with an index.
func newModel(config map[string]any, files map[string][]byte, parts ...[]Tensor) *Model {
	m := &Model{Indexed: true, IndexName: "model.safetensors.index.json", Config: config, Files: files}
	m.addShards("model", ".safetensors", parts...)
	return m
}

func (m *Model) addShards(prefix, suffix string, parts ...[]Tensor) {
	for i, tensors := range parts {
		name := fmt.Sprintf("%s-%05d-of-%05d%s", prefix, i+1, len(parts), suffix)
		m.Shards = append(m.Shards, &Shard{Name: name, Tensors: tensors, Meta: map[string]string{"format": "pt"}})
	}
}

// Clone returns a deep copy.
func (m *Model) Clone() *Model {
	c := *m
	c.Shards = make([]*Shard, len(m.Shards))
	for i, s := range m.Shards {
		c.Shards[i] = &Shard{Name: s.Name, Tensors: make([]Tensor, len(s.Tensors)), Meta: maps.Clone(s.Meta)}
		for j, t := range s.Tensors {
			c.Shards[i].Tensors[j] = Tensor{t.Name, t.DType, slices.Clone(t.Shape), slices.Clone(t.Data)}
		}
	}
	if m.Config != nil {
		c.Config = cloneJSON(m.Config).(map[string]any)
	}
	c.Files = make(map[string][]byte, len(m.Files))
	for name, data := range m.Files {
		c.Files[name] = slices.Clone(data)
	}
	return &c
}

func cloneJSON(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for key, value := range v {
			c[key] = cloneJSON(value)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, value := range v {
			c[i] = cloneJSON(value)
		}
		return c
	}
	return v
}

// Tensor returns the named tensor, to be read or changed in place; of several of one name, the one in the last shard, as in the index.
// It panics if there is none.
func (m *Model) Tensor(name string) *Tensor {
	s, i := m.find(name)
	return &s.Tensors[i]
}

// Shard returns the shard of that file name. It panics if there is none.
func (m *Model) Shard(name string) *Shard {
	if i := slices.IndexFunc(m.Shards, func(s *Shard) bool { return s.Name == name }); i >= 0 {
		return m.Shards[i]
	}
	panic("vectors: no shard " + name)
}

// ShardOf returns the shard that holds the tensor which Tensor returns.
func (m *Model) ShardOf(tensor string) *Shard {
	s, _ := m.find(tensor)
	return s
}

func (m *Model) find(name string) (*Shard, int) {
	for _, s := range slices.Backward(m.Shards) {
		for i := range s.Tensors {
			if s.Tensors[i].Name == name {
				return s, i
			}
		}
	}
	panic("vectors: no tensor " + name)
}

// Names returns the names of all tensors, sorted, each once.
func (m *Model) Names() []string {
	var names []string
	for _, s := range m.Shards {
		for _, t := range s.Tensors {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Add puts t into the shard of that file name, which is made if there is none. A name that exists elsewhere becomes a duplicate.
func (m *Model) Add(shard string, t Tensor) {
	i := slices.IndexFunc(m.Shards, func(s *Shard) bool { return s.Name == shard })
	if i < 0 {
		i = len(m.Shards)
		m.Shards = append(m.Shards, &Shard{Name: shard, Meta: map[string]string{"format": "pt"}})
	}
	m.Shards[i].Tensors = append(m.Shards[i].Tensors, t)
}

// Remove takes the named tensor out.
func (m *Model) Remove(name string) {
	s, i := m.find(name)
	s.Tensors = slices.Delete(s.Tensors, i, i+1)
}

// Move takes the named tensor into another shard, which is made if there is none.
func (m *Model) Move(name, shard string) {
	t := *m.Tensor(name)
	m.Remove(name)
	m.Add(shard, t)
}

// Rename gives a tensor another name and leaves it where it is.
func (m *Model) Rename(old, new string) { m.Tensor(old).Name = new }

// Quantization returns the quantization_config block of Config, to be changed in place. It panics if there is none.
func (m *Model) Quantization() map[string]any {
	block, ok := m.Config["quantization_config"].(map[string]any)
	if !ok {
		panic("vectors: no quantization_config")
	}
	return block
}

// OneFile returns a copy with all tensors in model.safetensors and no index.
func (m *Model) OneFile() *Model {
	c := m.Clone()
	one := &Shard{Name: "model.safetensors", Meta: map[string]string{"format": "pt"}}
	for _, s := range c.Shards {
		one.Tensors = append(one.Tensors, s.Tensors...)
	}
	c.Shards, c.Indexed = []*Shard{one}, false
	return c
}
