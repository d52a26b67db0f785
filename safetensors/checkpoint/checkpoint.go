package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/ckpt-surgery/ckpt/safetensors"
)

// Checkpoint is an open model. It is safe for concurrent use. Its files are
// opened when they are read and at most a few dozen are held open.
type Checkpoint struct {
	name     string
	pool     *pool
	files    []string // everything in the directory that is not a folder
	index    *Index
	shards   []*Shard // loaded, in natural order
	rest     []*Shard // weight files that are not loaded
	places   places
	problems []Problem
	config   []byte // config.json as strict JSON

	duplicateBytes int64 // size of the tensors that another shard's twin hides
}

// Shard is one weight file of a checkpoint.
type Shard struct {
	Name string // slash-separated path inside the model
	*safetensors.File

	st fs.FileInfo // when it was opened
}

// Tensor is a tensor and the shard it is stored in.
type Tensor struct {
	safetensors.Tensor
	Shard *Shard
}

// ReadAt reads from the tensor's bytes, off counting from its first one. Errors
// name the file and the tensor.
func (t Tensor) ReadAt(p []byte, off int64) (int, error) {
	n, err := t.Tensor.ReadAt(p, off)
	if _, ok := errors.AsType[*safetensors.Error](err); err != nil && err != io.EOF && !ok {
		err = fmt.Errorf("tensor %s: %w", quote(t.Name), err)
	}
	return n, err
}

// Reader returns a fresh reader over the tensor's bytes.
func (t Tensor) Reader() *io.SectionReader { return io.NewSectionReader(t, 0, t.Bytes) }

// Name returns the model's path as it was given.
func (c *Checkpoint) Name() string { return c.name }

// Close closes the files that are open; readers of tensors fail from then on.
func (c *Checkpoint) Close() error {
	c.pool.close()
	return nil
}

// Shards returns the loaded weight files in natural order of their names.
func (c *Checkpoint) Shards() []*Shard { return slices.Clone(c.shards) }

// Index returns the index that was followed, or nil.
func (c *Checkpoint) Index() *Index { return c.index }

// Problems returns what is wrong with the files: sorted by severity, code and
// file.
func (c *Checkpoint) Problems() []Problem { return slices.Clone(c.problems) }

// BytesRead returns how many bytes have been read from the model's files.
func (c *Checkpoint) BytesRead() int64 { return c.pool.read.Load() }

// Len returns the number of distinct tensors.
func (c *Checkpoint) Len() int { return c.places.len() }

// Tensors iterates over every distinct tensor, shard by shard and inside a shard
// in the order of the data. Of a tensor that stands in several shards it gives
// the one that Tensor gives.
func (c *Checkpoint) Tensors() iter.Seq[Tensor] {
	return func(yield func(Tensor) bool) {
		for i, s := range c.shards {
			for t := range s.Tensors() {
				if c.places.is(t.Name, i) && !yield(Tensor{t, s}) {
					return
				}
			}
		}
	}
}

// Tensor returns the tensor with that name. If it stands in several loaded
// shards, it is the one that engines end up with: the last in natural order.
func (c *Checkpoint) Tensor(name string) (Tensor, bool) {
	i, ok := c.places.find(name)
	if !ok {
		return Tensor{}, false
	}
	t, ok := c.shards[i].Tensor(name)
	return Tensor{t, c.shards[i]}, ok
}

// load takes the weight files that have been opened ahead and opens the others.
func (c *Checkpoint) load(loaded, rest []string, ahead map[string]opened) {
	files := c.openShards(append(slices.Clone(loaded), rest...), ahead)
	indexed := map[string][]string{} // tensors by file, for the files that fail
	if c.index != nil && slices.ContainsFunc(files, func(o opened) bool { return o.err != nil }) {
		for _, t := range c.index.tensors {
			f, _ := c.index.File(t)
			indexed[f] = append(indexed[f], t)
		}
	}
	for i, f := range files {
		switch {
		case i < len(loaded) && f.err == nil:
			c.shards = append(c.shards, f.shard)
		case i < len(loaded):
			c.reportTensors(fileProblem(f.shard.Name, f.err, indexed[f.shard.Name]))
		case f.err == nil:
			c.rest = append(c.rest, f.shard)
		default:
			// An engine does not look at it either; check says that it is there.
			c.rest = append(c.rest, &Shard{Name: f.shard.Name})
		}
	}
	c.places = findPlaces(c.index, c.shards)
}

// opened is a weight file that was opened, or why not.
type opened struct {
	shard *Shard
	err   error
}

// openAhead reads the headers of a directory's weight files while its index is
// parsed, which takes as long. The function it returns waits for them.
func (c *Checkpoint) openAhead(l layout) func() map[string]opened {
	files := map[string]opened{}
	if l.index == "" {
		return func() map[string]opened { return files }
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, o := range c.openShards(l.weights, nil) {
			files[o.shard.Name] = o
		}
	}()
	return func() map[string]opened {
		<-done
		return files
	}
}

// openShards opens weight files, several at a time, save those opened before.
func (c *Checkpoint) openShards(names []string, before map[string]opened) []opened {
	files := make([]opened, len(names))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range names {
		if o, ok := before[name]; ok {
			files[i] = o
			continue
		}
		g.Go(func() error {
			s := &Shard{Name: name}
			h, err := c.pool.handle(name)
			if err == nil {
				s.st = h.st
				s.File, err = safetensors.NewFile(h, h.st.Size())
			}
			files[i] = opened{s, err}
			return nil
		})
	}
	g.Wait()
	return files
}

func (c *Checkpoint) report(p Problem) { c.problems = append(c.problems, p) }

// fileProblem turns an error about a file that the model needs into a problem;
// tensors are those that the index places there.
func fileProblem(name string, err error, tensors []string) Problem {
	p := Problem{Severity: Fatal, File: name, Message: err.Error(), Tensors: tensors}
	var bad *safetensors.Error
	var no *refused
	switch {
	case errors.As(err, &no):
		p.Code, p.Message, p.Repair = no.code, no.why, no.repair
	case errors.As(err, &bad):
		p.Code, p.Err = ShardMalformed, err
	case errors.Is(err, fs.ErrNotExist):
		p.Code, p.Repair = IndexFileMissing, "fetch the file; only if the model is whole without it, write the index again from the headers"
		p.Message = fmt.Sprintf("the index places %d tensor(s) in this file, which is not there", len(p.Tensors))
		if len(tensors) == 0 {
			p.Message = "a link to a file that is not there"
		}
	default:
		p.Code, p.Err = ShardUnreadable, err
	}
	return p
}

// quote quotes a name that comes from a file and shortens an absurd one.
func quote(name string) string {
	const most = 1024
	if len(name) > most {
		return strconv.Quote(name[:most]) + fmt.Sprintf("… (%d bytes)", len(name))
	}
	return strconv.Quote(name)
}
