package checkpoint

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ckpt-surgery/ckpt/internal/natural"
)

// MetaFormat is the code of what HeaderFormats finds.
const MetaFormat = "META-FORMAT"

// HeaderFormats returns a problem if some headers do not name the framework their
// tensors are for. transformers refuses a __metadata__ without it, and some
// loaders a header without __metadata__; engines do not care, and the reference's
// own quantizer writes none, so it is not among Problems.
func (c *Checkpoint) HeaderFormats() []Problem {
	var files []string
	for _, s := range c.shards {
		if s.Metadata()["format"] == "" {
			files = append(files, s.Name)
		}
	}
	if len(files) == 0 {
		return nil
	}
	return []Problem{{Code: MetaFormat, Severity: Note, File: files[0],
		Message: fmt.Sprintf("%d of %d weight files have no format in their header's __metadata__", len(files), len(c.shards)),
		Repair:  "write them with format: pt"}}
}

// checkGaps finds files that the names of the loaded ones promise.
func (c *Checkpoint) checkGaps(loaded []string) {
	for _, name := range gaps(loaded) {
		c.report(Problem{Code: ShardGap, Severity: Corrupt, File: name,
			Message: "the names of the other files promise this one, and it is not there", Repair: "fetch the file"})
	}
}

// checkIndex compares weight_map with the headers, both ways.
func (c *Checkpoint) checkIndex() {
	x := c.index
	if n := len(x.duplicates); n > 0 {
		c.reportTensors(Problem{Code: IndexKeyDuplicate, Severity: Corrupt, File: x.Name, Tensors: x.duplicates,
			Message: fmt.Sprintf("%d tensor(s) stand more than once in weight_map; readers disagree on which line counts", n),
			Repair:  "write the index again from the headers"})
	}
	if c.places.agreed == nil {
		c.checkListed()
		c.checkUnlisted()
	}
	if want, total := x.TotalSize, c.dataBytes(); !math.IsNaN(want) && want != float64(total) && len(c.shards) == len(x.files) {
		c.report(Problem{Code: IndexTotalSize, Severity: Note, File: x.Name,
			Message: fmt.Sprintf("metadata.total_size is %s, the tensors have %d bytes", strconv.FormatFloat(want, 'f', -1, 64), total),
			Repair:  "write the index again from the headers"})
	}
}

// checkListed finds tensors of the index that are not where it says.
func (c *Checkpoint) checkListed() {
	x := c.index
	shardOf := map[string]int{}
	for i, s := range c.shards {
		shardOf[s.Name] = i
	}
	ghosts, elsewhere := map[string][]string{}, map[string][]string{}
	for _, t := range x.tensors {
		file, _ := x.File(t)
		i, loaded := shardOf[file]
		if !loaded {
			continue // the file has its own problem
		}
		switch at, ok := c.places.find(t); {
		case ok && at == i:
		case ok && c.shards[i].Has(t): // a duplicate, with its own problem
		case ok:
			elsewhere[file] = append(elsewhere[file], t)
		default:
			ghosts[file] = append(ghosts[file], t)
		}
	}
	for file, tensors := range ghosts {
		p := Problem{Code: IndexTensorGhost, Severity: Corrupt, File: file, Tensors: tensors,
			Message: fmt.Sprintf("the index places %d tensor(s) in this file that no loaded file holds; engines serve whatever is in memory instead", len(tensors)),
			Repair:  "fetch or export the file again"}
		if other := c.unloadedHolder(tensors[0]); other != "" {
			p.Message += "; " + quote(other) + ", which the index does not name, holds " + quote(tensors[0])
			p.Repair = "name that file in the index"
		}
		c.reportTensors(p)
	}
	for file, tensors := range elsewhere {
		other, _ := c.Tensor(tensors[0])
		c.reportTensors(Problem{Code: IndexTensorElsewhere, Severity: Degraded, File: file, Tensors: tensors,
			Message: fmt.Sprintf("the index places %d tensor(s) in this file that are in another (%s is in %s)", len(tensors), quote(tensors[0]), quote(other.Shard.Name)),
			Repair:  "write the index again from the headers"})
	}
}

// checkUnlisted finds tensors of loaded files that the index lacks.
func (c *Checkpoint) checkUnlisted() {
	for _, s := range c.shards {
		var unlisted []string
		for name := range s.Names() {
			if _, ok := c.index.where[name]; !ok {
				unlisted = append(unlisted, name)
			}
		}
		if len(unlisted) > 0 {
			c.reportTensors(Problem{Code: IndexTensorUnlisted, Severity: Note, File: s.Name, Tensors: unlisted,
				Message: fmt.Sprintf("%d tensor(s) of this file are not in the index; vLLM loads them, others may not", len(unlisted)),
				Repair:  "write the index again from the headers"})
		}
	}
}

// checkRest reports the weight files that are not loaded.
func (c *Checkpoint) checkRest() {
	indexed := c.otherIndexes()
	read := map[string]string{} // variant of the files that are read, by stem
	if c.index != nil {
		for _, f := range c.index.files {
			w := parseWeightName(f)
			read[w.stem] = w.variant
		}
	}
	for _, s := range c.rest {
		w := parseWeightName(s.Name)
		if variant, ok := read[w.stem]; c.index == nil || indexed[s.Name] || ok && variant != w.variant {
			c.report(Problem{Code: VariantOther, Severity: Note, File: s.Name,
				Message: "another variant of the weights beside the ones read; to read it, give its index or file"})
			continue
		}
		p := Problem{Code: IndexFileUnlisted, Severity: Degraded, File: s.Name,
			Message: "the index does not name this file, so engines do not load it",
			Repair:  "add its tensors to weight_map, or delete the file"}
		if s.File != nil {
			for name := range s.Names() {
				if _, ok := c.places.find(name); !ok {
					p.Tensors = append(p.Tensors, name)
				}
			}
			if p.Message += fmt.Sprintf("; %d of its %d tensors are in no loaded file", len(p.Tensors), s.Len()); len(p.Tensors) == 0 {
				p.Repair = "delete the file"
			}
		} else {
			p.Message += "; it is not readable as safetensors"
		}
		c.reportTensors(p)
	}
}

// otherIndexes returns the files named by indexes that were not followed.
func (c *Checkpoint) otherIndexes() map[string]bool {
	named := map[string]bool{}
	for _, name := range c.files {
		if _, ok := indexVariant(name); !ok || len(c.rest) == 0 || c.index == nil || name == c.index.Name {
			continue
		}
		if text, err := c.pool.readFile(name, maxIndex); err == nil {
			if x, err := ParseIndex(text); err == nil {
				for _, f := range x.files {
					named[f] = true
				}
			}
		}
	}
	return named
}

// unloadedHolder returns a weight file that is not loaded but holds the tensor.
func (c *Checkpoint) unloadedHolder(tensor string) string {
	for _, s := range c.rest {
		if s.File != nil && s.Has(tensor) {
			return s.Name
		}
	}
	return ""
}

// checkDuplicates compares the tensors that stand in more than one loaded file:
// by dtype and shape, then byte for byte up to the first difference.
func (c *Checkpoint) checkDuplicates() {
	n := 0
	for _, s := range c.shards {
		n += s.Len()
	}
	if n == c.places.len() {
		return
	}
	type pair struct{ a, b int }
	equal, different := map[pair][]string{}, map[pair][]string{}
	detail := map[pair]string{}
	for i, s := range c.shards {
		for name := range s.Names() {
			last, _ := c.places.find(name)
			if last == i {
				continue
			}
			y, _ := c.Tensor(name)
			t, _ := s.Tensor(name)
			x := Tensor{t, s}
			c.duplicateBytes += x.Bytes
			key := pair{i, last}
			what, failed, err := difference(x, y)
			switch {
			case err != nil:
				c.report(fileProblem(failed.Name, err, nil))
			case what == "":
				equal[key] = append(equal[key], name)
			default:
				different[key] = append(different[key], name)
				detail[key] = cmp.Or(detail[key], quote(name)+": "+what)
			}
		}
	}
	for key, tensors := range equal {
		c.reportTensors(Problem{Code: ShardDuplicate, Severity: Note, File: c.shards[key.a].Name, Tensors: tensors,
			Message: fmt.Sprintf("%d tensor(s) stand in %s too, with equal bytes", len(tensors), quote(c.shards[key.b].Name)),
			Repair:  "write one of the files without them"})
	}
	for key, tensors := range different {
		c.reportTensors(Problem{Code: ShardDuplicate, Severity: Corrupt, File: c.shards[key.a].Name, Tensors: tensors,
			Message: fmt.Sprintf("%d tensor(s) stand in %s too, and differ (%s); which one counts depends on the engine", len(tensors), quote(c.shards[key.b].Name), detail[key]),
			Repair:  "write one of the files without them"})
	}
}

// difference says how two tensors differ, "" if they do not, or which of their
// files could not be read.
func difference(x, y Tensor) (what string, failed *Shard, err error) {
	switch {
	case x.DType != y.DType || !slices.Equal(x.Shape, y.Shape):
		return fmt.Sprintf("%s %v here, %s %v there", x.DType, x.Shape, y.DType, y.Shape), nil, nil
	case x.Bytes != y.Bytes: // of a dtype that is not known
		return fmt.Sprintf("%d bytes here, %d there", x.Bytes, y.Bytes), nil, nil
	}
	p, q := x.Reader(), y.Reader()
	a, b := make([]byte, 256<<10), make([]byte, 256<<10)
	for off := 0; ; {
		n, err := io.ReadFull(p, a)
		if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
			return "", x.Shard, err
		}
		if _, err := io.ReadFull(q, b[:n]); err != nil {
			return "", y.Shard, err
		}
		if !bytes.Equal(a[:n], b[:n]) {
			for i := range n {
				if a[i] != b[i] {
					return fmt.Sprintf("byte %d is %#02x here, %#02x there", off+i, a[i], b[i]), nil, nil
				}
			}
		}
		if off += n; n < len(a) {
			return "", nil, nil
		}
	}
}

// reportTensors reports a problem with its tensors in natural order.
func (c *Checkpoint) reportTensors(p Problem) {
	p.Tensors = slices.Clone(p.Tensors)
	slices.SortFunc(p.Tensors, natural.Compare)
	c.report(p)
}

func sortProblems(ps []Problem) {
	rank := func(p Problem) int { return strings.Index("FCDI", string(p.Severity)) }
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(rank(a)-rank(b), strings.Compare(a.Code, b.Code), natural.Compare(a.File, b.File), strings.Compare(a.Message, b.Message))
	})
}
