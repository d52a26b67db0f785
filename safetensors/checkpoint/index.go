package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/ckpt-surgery/ckpt/internal/natural"
	"github.com/ckpt-surgery/ckpt/internal/rawjson"
)

// maxIndex bounds an index file; a million tensors take about 100 MB.
const maxIndex = 512 << 20

// Index is a parsed model.safetensors.index.json. It says what its writer
// believed; nothing in it is trusted.
type Index struct {
	Name      string  // the file's name
	TotalSize float64 // metadata.total_size in bytes, NaN if absent; some writers store a fraction or 0

	files      []string         // distinct weight_map values, as they appear
	tensors    []string         // weight_map keys in the file's order
	where      map[string]int32 // tensor to its place in files
	duplicates []string         // keys that stand more than once
}

// Files returns the weight files the index names, in natural order. The names
// are as written and may be hostile.
func (x *Index) Files() []string { return slices.SortedFunc(slices.Values(x.files), natural.Compare) }

// File returns the weight file in which the index places a tensor.
func (x *Index) File(tensor string) (string, bool) {
	i, ok := x.where[tensor]
	if !ok {
		return "", false
	}
	return x.files[i], true
}

// Len returns the number of tensors in the index.
func (x *Index) Len() int { return len(x.where) }

// Tensors iterates over the tensors in the order in which the index lists them.
func (x *Index) Tensors() iter.Seq[string] { return slices.Values(x.tensors) }

// ParseIndex parses the text of an index. A tensor that stands twice keeps its
// last file, as Python's json.load has it. Errors name the byte.
func ParseIndex(text []byte) (*Index, error) {
	x := &Index{TotalSize: math.NaN(), where: map[string]int32{}}
	p := indexParser{rawjson.NewTokens(string(text)), map[string]int32{}}
	if err := p.index(x); err != nil {
		at := p.End()
		if s, ok := errors.AsType[*rawjson.SyntaxError](err); ok {
			at = s.Offset
		} else if err == io.EOF {
			err = errors.New("the file is empty")
		}
		return nil, fmt.Errorf("byte %d: %w", at, err)
	}
	slices.Sort(x.duplicates)
	x.duplicates = slices.Compact(x.duplicates)
	return x, nil
}

type indexParser struct {
	*rawjson.Tokens
	files map[string]int32
}

func (p *indexParser) index(x *Index) error {
	hasMap := false
	err := p.object("the index", func(key string) error {
		switch key {
		case "metadata":
			if p.Peek() != '{' {
				return p.Skip()
			}
			return p.object(key, func(key string) error {
				if key != "total_size" || p.Peek() != '0' {
					return p.Skip()
				}
				_, err := p.Next()
				if err == nil {
					x.TotalSize, _ = strconv.ParseFloat(p.Raw(), 64)
				}
				return err
			})
		case "weight_map":
			if hasMap {
				return errors.New("weight_map stands twice")
			}
			hasMap = true
			return p.object(key, func(tensor string) error { return p.tensor(x, tensor) })
		}
		return p.Skip()
	})
	switch {
	case err != nil:
		return err
	case !hasMap:
		return errors.New("there is no weight_map")
	}
	return p.Done()
}

// object reads an object and calls member with each name; member reads the
// value.
func (p *indexParser) object(what string, member func(name string) error) error {
	kind, err := p.Next()
	if err != nil {
		return err
	}
	if kind != '{' {
		return fmt.Errorf("%s must be an object", what)
	}
	for {
		if kind, err = p.Next(); err != nil || kind == '}' {
			return err
		}
		if err := member(p.Text()); err != nil {
			return err
		}
	}
}

func (p *indexParser) tensor(x *Index, tensor string) error {
	kind, err := p.Next()
	if err != nil {
		return err
	}
	if kind != '"' {
		return fmt.Errorf("the file of %s must be a string", quote(tensor))
	}
	file := p.Text()
	i, ok := p.files[file]
	if !ok {
		i = int32(len(x.files))
		x.files = append(x.files, file)
		p.files[file] = i
	}
	if _, ok := x.where[tensor]; ok {
		x.duplicates = append(x.duplicates, tensor)
	} else {
		x.tensors = append(x.tensors, tensor)
	}
	x.where[tensor] = i
	return nil
}
