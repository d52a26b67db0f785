package checkpoint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ckpt-surgery/ckpt/internal/rawjson"
)

// newIndexName is what engines look for.
const newIndexName = "model.safetensors.index.json"

// extendIndex returns the index as it is to be with the new shards, and, where
// there is none yet, the index of what exists now, which in place comes first.
func (c *Checkpoint) extendIndex(shards []planned) (before, after *file, err error) {
	text, name := []byte(nil), newIndexName
	if c.index != nil {
		name = c.index.Name
		if text, err = c.pool.readFile(name, maxIndex); err != nil {
			return nil, nil, err
		}
	} else {
		text = c.newIndex()
		before = &file{name, text}
	}
	var members []rawjson.Member
	total := c.dataBytes()
	for _, s := range shards {
		for _, slot := range s.layout.Slots() {
			members = append(members, rawjson.Member{Name: slot.Name, Value: rawjson.Quote(s.new.Name)})
			total += slot.Bytes
		}
	}
	if text, err = rawjson.EditMembers(text, members, "weight_map"); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", quote(name), err)
	}
	if text, err = rawjson.Set(text, fmt.Append(nil, total), "metadata", "total_size"); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", quote(name), err)
	}
	return before, &file{name, text}, nil
}

// dataBytes adds up the loaded tensors, each once.
func (c *Checkpoint) dataBytes() int64 {
	total := -c.duplicateBytes
	for _, s := range c.shards {
		total += s.Size() - s.DataOffset()
	}
	return total
}

// newIndex is an index of the loaded files, as huggingface_hub writes it
// (serialization/_torch.py at ee0a451): an indent of two, keys sorted.
func (c *Checkpoint) newIndex() []byte {
	var names []string
	for t := range c.Tensors() {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	var b strings.Builder
	fmt.Fprintf(&b, "{\n  \"metadata\": {\n    \"total_size\": %d\n  },\n  \"weight_map\": {", c.dataBytes())
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		t, _ := c.Tensor(name)
		fmt.Fprintf(&b, "\n    %s: %s", rawjson.Quote(name), rawjson.Quote(t.Shard.Name))
	}
	if len(names) > 0 {
		b.WriteString("\n  ")
	}
	b.WriteString("}\n}\n")
	return []byte(b.String())
}
