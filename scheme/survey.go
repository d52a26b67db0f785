package scheme

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/ckpt-surgery/ckpt/internal/natural"
	"github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// Survey is what a checkpoint is, as its tensors tell it.
type Survey struct {
	Layers   []LayerSet
	Formats  []string     // distinct schemes of quantized modules, in the order of Layers
	DTypes   []DTypeTotal // most bytes first
	Params   uint64       // before packing, companions of weights not counted
	Bytes    int64        // of tensor data
	Tied     Tied
	Declared Declared
	Problems []checkpoint.Problem // where the configuration disagrees with the tensors
}

// DTypeTotal adds up the tensors of one dtype.
type DTypeTotal struct {
	DType   safetensors.DType `json:"dtype"`
	Tensors int               `json:"tensors"`
	Bytes   int64             `json:"bytes"`
}

// LayerSet is a row of the per-layer scheme map: modules whose names differ only
// in numbers, with siblings of the same scheme drawn together.
type LayerSet struct {
	Modules string `json:"modules"` // model.layers.{0-31}.self_attn.{q_proj,k_proj}
	Scheme  string `json:"scheme"`
	Count   int    `json:"count"`
	Params  uint64 `json:"params"`
	Bytes   int64  `json:"bytes"`
}

// Tied says how the embedding and the output head relate.
type Tied struct {
	Declared  bool   `json:"declared"` // tie_word_embeddings in the configuration
	Embedding string `json:"embedding,omitempty"`
	Head      string `json:"head,omitempty"` // "" if no head is stored
}

// Look surveys a checkpoint. It reads headers and the few bytes in which packed
// codes keep their logical shape.
func Look(c *checkpoint.Checkpoint) *Survey {
	s := &Survey{}
	modules := group(c)
	m := newLayerMap()
	totals := map[safetensors.DType]DTypeTotal{}
	found := map[string]int{} // detected schemes of quantized modules
	for i := range modules {
		mod := &modules[i]
		d := mod.Detect()
		params, bytes := d.params(mod), mod.Bytes()
		s.Params += params
		s.Bytes += bytes
		if d.Quantized() {
			found[containerFormat(d)]++
		}
		m.add(mod, d, params, bytes)
		for _, t := range mod.Members {
			total := totals[t.DType]
			totals[t.DType] = DTypeTotal{t.DType, total.Tensors + 1, total.Bytes + t.Bytes}
		}
	}
	s.DTypes = slices.SortedFunc(maps.Values(totals), func(a, b DTypeTotal) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.DType, b.DType))
	})
	s.Layers = m.rows()
	for _, l := range s.Layers {
		if m.quantized[l.Scheme] && !slices.Contains(s.Formats, l.Scheme) {
			s.Formats = append(s.Formats, l.Scheme)
		}
	}
	s.Tied = tied(c, modules)
	s.Declared = readDeclared(c)
	malformed := func(p checkpoint.Problem) bool { return p.Code == checkpoint.ConfigMalformed }
	if !slices.ContainsFunc(c.Problems(), malformed) { // else nobody knows what is declared
		s.Problems = s.Declared.disagree(found)
	}
	return s
}

// tied looks for the embedding and the head. An MTP head may have its own; the
// first in natural order is the model's.
func tied(c *checkpoint.Checkpoint, modules []Module) Tied {
	var t Tied
	var cfg struct {
		Tie  *bool `json:"tie_word_embeddings"`
		Text struct {
			Tie *bool `json:"tie_word_embeddings"`
		} `json:"text_config"`
	}
	json.Unmarshal(c.Config(), &cfg) // checkpoint reports a config that is not JSON
	if tie := cmp.Or(cfg.Tie, cfg.Text.Tie); tie != nil {
		t.Declared = *tie
	}
	for _, m := range modules {
		base := m.Name[strings.LastIndexByte(m.Name, '.')+1:]
		switch base {
		case "embed_tokens", "wte", "word_embeddings", "tok_embeddings", "embeddings":
			if w := cmp.Or(m.Get(Weight), m.Get(Packed)); w != nil && (t.Embedding == "" || natural.Compare(w.Tensor.Name, t.Embedding) < 0) {
				t.Embedding = w.Tensor.Name
			}
		case "lm_head", "output", "embed_out":
			if base == "output" && strings.Contains(m.Name, ".") {
				continue // a block's output projection
			}
			if w := cmp.Or(m.Get(Weight), m.Get(Packed)); w != nil && (t.Head == "" || natural.Compare(w.Tensor.Name, t.Head) < 0) {
				t.Head = w.Tensor.Name
			}
		}
	}
	return t
}
