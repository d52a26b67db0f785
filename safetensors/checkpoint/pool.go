package checkpoint

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
)

// maxOpen is the number of files a Checkpoint holds open between reads. A model
// may have ten thousand shards and a process a thousand descriptors.
const maxOpen = 64

// pool opens files when they are read and keeps the last few open. It counts
// the bytes it reads.
type pool struct {
	fsys   fs.FS
	read   atomic.Int64
	slots  chan struct{} // one for each read that is under way
	mu     sync.Mutex
	closed bool
	open   map[string]*openFile
	idle   *list.List // of *openFile, least recently used first
}

type openFile struct {
	file  fs.File
	at    io.ReaderAt
	name  string
	users int
	place *list.Element // in idle, when users is 0
}

func newPool(fsys fs.FS) *pool {
	return &pool{fsys: fsys, slots: make(chan struct{}, maxOpen), open: map[string]*openFile{}, idle: list.New()}
}

// stat checks that name is a regular file and returns its size.
func (p *pool) stat(name string) (fs.FileInfo, error) {
	st, err := fs.Stat(p.fsys, name)
	if err != nil {
		return nil, named(name, err)
	}
	if !st.Mode().IsRegular() {
		return nil, &refused{NotRegular, name, fmt.Sprintf("not a regular file (%s)", st.Mode().Type()), "replace it with the file itself"}
	}
	return st, nil
}

// handle returns a ReaderAt over the named file, which is opened on demand, and
// the file's size now.
func (p *pool) handle(name string) (*handle, error) {
	st, err := p.stat(name)
	if err != nil {
		return nil, err
	}
	return &handle{p, name, st}, nil
}

// readFile reads a small file whole; one above limit bytes is an error.
func (p *pool) readFile(name string, limit int64) ([]byte, error) {
	h, err := p.handle(name)
	if err != nil {
		return nil, err
	}
	if h.st.Size() > limit {
		return nil, fmt.Errorf("%s has %d bytes, more than the limit of %d", quote(name), h.st.Size(), limit)
	}
	b := make([]byte, h.st.Size())
	n, err := h.ReadAt(b, 0)
	switch {
	case n == len(b):
		return b, nil
	case err == io.EOF:
		err = fmt.Errorf("%s ended after %d of %d bytes while it was read", quote(name), n, len(b))
	}
	return nil, err
}

func (p *pool) get(name string) (*openFile, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fs.ErrClosed
	}
	o := p.open[name]
	if o == nil {
		for len(p.open) >= maxOpen { // some are idle, as there are no more slots
			p.drop(p.idle.Front().Value.(*openFile))
		}
		f, err := p.fsys.Open(name)
		if err != nil {
			return nil, err
		}
		at, ok := f.(io.ReaderAt)
		if !ok {
			f.Close()
			return nil, errors.New("this file system's files are no io.ReaderAt")
		}
		o = &openFile{file: f, at: at, name: name}
		p.open[name] = o
	}
	if o.place != nil {
		p.idle.Remove(o.place)
		o.place = nil
	}
	o.users++
	return o, nil
}

func (p *pool) put(o *openFile) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.users--; o.users > 0 {
		return
	}
	o.place = p.idle.PushBack(o)
	if p.closed {
		p.drop(o)
	}
}

// drop closes an idle file.
func (p *pool) drop(o *openFile) {
	p.idle.Remove(o.place)
	delete(p.open, o.name)
	o.file.Close() // read only: nothing can be lost
}

// close closes every idle file now and the others when their readers are done.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for p.idle.Len() > 0 {
		p.drop(p.idle.Front().Value.(*openFile))
	}
}

// handle is a file of the pool. It is safe for concurrent use.
type handle struct {
	pool *pool
	name string
	st   fs.FileInfo // when the checkpoint was opened
}

// Name is the file's path inside the model; safetensors puts it into errors.
func (h *handle) Name() string { return h.name }

func (h *handle) ReadAt(b []byte, off int64) (int, error) {
	h.pool.slots <- struct{}{}
	defer func() { <-h.pool.slots }()
	o, err := h.pool.get(h.name)
	if err != nil {
		return 0, named(h.name, err)
	}
	defer h.pool.put(o)
	n, err := o.at.ReadAt(b, off)
	h.pool.read.Add(int64(n))
	if err != nil && err != io.EOF {
		err = named(h.name, err)
	}
	return n, err
}

// named gives an error of the file system the file's name in the model instead
// of a path, which would be printed as it is.
func named(name string, err error) error {
	if _, ok := errors.AsType[*refused](err); ok {
		return err
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return fmt.Errorf("%s: %w", quote(name), err)
}
