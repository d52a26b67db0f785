package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ckpt-surgery/ckpt/internal/atomicfile"
	"github.com/ckpt-surgery/ckpt/internal/dirlock"
	"github.com/ckpt-surgery/ckpt/internal/filecopy"
	"github.com/ckpt-surgery/ckpt/safetensors"
)

// Hook is called before each step of a write, with the step's name and the file.
// An error ends the write as a failure of that step would. Tests stop and kill a
// writer with it.
type Hook = func(step, path string) error

// stepPatch is the step of overwriting bytes; the others are atomicfile's.
const stepPatch = "patch"

// RunOptions are for carrying out a WritePlan. The zero value does.
type RunOptions struct {
	Hook     Hook
	Progress func(done, total int64) // bytes dealt with, and in all; one call at a time
}

// Written is a file that was written, and how.
type Written struct {
	File   string `json:"file"`
	Action Action `json:"action"`
	// Method is how unchanged bytes got there: reflink, copy_file_range, copy or
	// link; "" where there were none.
	Method string `json:"method,omitempty"`
	Bytes  int64  `json:"bytes"` // written by this process
}

// Run carries the plan out: whole or not at all into a new directory, file by
// file and in the order that keeps the model loadable in place. It returns what
// it did and is still there, also after an error.
func (p *WritePlan) Run(ctx context.Context, o RunOptions) ([]Written, error) {
	r := &writing{plan: p, hook: atomicfile.Hook(o.Hook), progress: o.Progress, ctx: ctx}
	for _, s := range p.Steps {
		r.total += s.Bytes
	}
	if !p.inside {
		err := atomicfile.WriteDir(p.root, r.hook, r.fill)
		if _, taken := errors.AsType[*os.LinkError](err); taken && errors.Is(err, fs.ErrExist) {
			err = &RefusedError{Path: p.root, Why: "somebody else has filled it in the meantime", Do: "give another directory", Err: err}
		}
		if err != nil {
			return nil, err // what was written went with the temporary directory
		}
		return r.written, nil
	}
	unlock, err := dirlock.Lock(p.root)
	switch {
	case errors.Is(err, dirlock.ErrLocked):
		return nil, &RefusedError{Path: p.ck.name, Why: "another run is changing it", Do: "wait for it", Err: err}
	case err == nil:
		defer unlock()
	case !errors.Is(err, dirlock.ErrUnsupported):
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		w, err := r.inPlace(s, filepath.Join(p.root, filepath.FromSlash(s.File)))
		if err == nil || w.Bytes > 0 {
			r.written = append(r.written, w)
		}
		if err != nil {
			return r.written, fmt.Errorf("%s: %w", quote(s.File), err)
		}
	}
	return r.written, nil
}

// writing is a run of a WritePlan.
type writing struct {
	plan        *WritePlan
	hook        atomicfile.Hook
	progress    func(done, total int64)
	ctx         context.Context
	done, total int64
	written     []Written
}

func (r *writing) advance(n int64) {
	if r.done += n; r.progress != nil {
		r.progress(r.done, r.total)
	}
}

// fill writes every file of the new directory.
func (r *writing) fill(temp string) error {
	if err := r.plan.check(); err != nil {
		return err
	}
	for i := range r.plan.Steps {
		s := &r.plan.Steps[i]
		if err := r.ctx.Err(); err != nil {
			return err
		}
		path := filepath.Join(temp, filepath.FromSlash(s.File))
		if err := mkdirs(temp, s.File); err != nil {
			return err
		}
		w, err := r.intoNew(s, path)
		if err != nil {
			return fmt.Errorf("%s: %w", quote(s.File), err)
		}
		r.written = append(r.written, w)
	}
	return nil
}

// mkdirs makes the folders of a file below temp. temp itself must be there: if
// somebody removes it, what was written is gone and the write must fail.
func mkdirs(temp, file string) error {
	for i, c := range file {
		if c != '/' {
			continue
		}
		if err := os.Mkdir(filepath.Join(temp, filepath.FromSlash(file[:i])), 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// intoNew writes one file of the new directory.
func (r *writing) intoNew(s *Step, path string) (Written, error) {
	if s.Action == Link {
		if err := r.hook.At(atomicfile.StepFill, path); err != nil {
			return Written{}, err
		}
		if err := os.Link(s.source, path); err == nil {
			r.advance(s.Bytes)
			return Written{File: s.File, Action: Link, Method: "link"}, nil
		}
		// A file system without links, though it is one: copy.
	}
	if err := r.hook.At(atomicfile.StepCreate, path); err != nil {
		return Written{}, err
	}
	// O_EXCL: on a file system that ignores case, two names may be one file.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, s.mode())
	if err != nil {
		return Written{}, err
	}
	defer f.Close()
	if err := r.hook.At(atomicfile.StepFill, path); err != nil {
		return Written{}, err
	}
	w, err := r.content(s, f)
	if err != nil {
		return w, err
	}
	if err := atomicfile.SyncFile(f, r.hook, path); err != nil {
		return w, err
	}
	return w, f.Close()
}

// mode returns the permissions that a file of the new directory is made with,
// less the umask: the source's, so that private weights stay private and scripts
// run, and the owner's right to write.
func (s *Step) mode() os.FileMode {
	if s.was == nil {
		return 0o666
	}
	return s.was.Mode().Perm() | 0o200
}

// inPlace changes or makes one file of the model itself.
func (r *writing) inPlace(s *Step, path string) (w Written, err error) {
	if s.Action == Overwrite {
		return r.overwrite(s)
	}
	err = atomicfile.WriteFile(path, r.hook, func(f *os.File) (err error) {
		w, err = r.content(s, f)
		return err
	})
	return w, err
}

// overwrite patches a private file where it lies, and reads it back.
func (r *writing) overwrite(s *Step) (Written, error) {
	w := Written{File: s.File, Action: Overwrite}
	f, err := os.OpenFile(s.source, os.O_RDWR, 0)
	if err != nil {
		return w, err
	}
	defer f.Close()
	// The very file whose header was read, and still with one name.
	if st, err := f.Stat(); err != nil || !sameFile(s.was, st) || links(st) != 1 {
		return w, &RefusedError{Path: s.File, Why: "it has changed since the model was opened", Do: "run again when nothing else writes to the model", Err: err}
	}
	for _, p := range s.patches {
		if err := r.hook.At(stepPatch, s.source); err != nil {
			return w, err
		}
		n, err := p.apply(r.ctx, f)
		w.Bytes += n
		if err != nil {
			return w, err
		}
	}
	if err := atomicfile.SyncFile(f, r.hook, s.source); err != nil {
		return w, err
	}
	for _, p := range s.patches {
		if err := p.verify(r.ctx, f); err != nil {
			return w, err
		}
	}
	if err := readBack(f, s.Bytes, s.loaded.Header()); err != nil {
		return w, err
	}
	r.advance(s.Bytes)
	return w, f.Close()
}

// content writes what a file is to hold into f, which is new and empty.
func (r *writing) content(s *Step, f *os.File) (Written, error) {
	w := Written{File: s.File, Action: s.Action}
	switch {
	case s.shard != nil:
		return r.newShard(s, f, w)
	case s.source == "":
		n, err := f.Write(s.content)
		w.Bytes = int64(n)
		r.advance(s.Bytes)
		return w, err
	}
	src, err := os.Open(s.source)
	if err != nil {
		return w, err
	}
	defer src.Close()
	if st, err := src.Stat(); err != nil || !sameFile(s.was, st) {
		return w, &RefusedError{Path: s.File, Why: "it has changed since the model was opened", Do: "run again when nothing else writes to the model", Err: err}
	}
	method, n, err := filecopy.Copy(r.ctx, f, src, s.Bytes, filecopy.Options{Progress: r.advance})
	w.Method, w.Bytes = string(method), n
	if err != nil {
		return w, err
	}
	for _, p := range s.patches {
		if err := r.hook.At(stepPatch, f.Name()); err != nil {
			return w, err
		}
		n, err := p.apply(r.ctx, f)
		w.Bytes += n
		if err != nil {
			return w, err
		}
		if err := p.verify(r.ctx, f); err != nil {
			return w, err
		}
	}
	if s.loaded == nil {
		return w, nil
	}
	return w, readBack(f, s.Bytes, s.loaded.Header())
}

// readBack opens what was written and compares its header.
func readBack(f *os.File, size int64, header string) error {
	back, err := safetensors.NewFile(f, size)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if back.Header() != header {
		return errors.New("read back: the header is not the one that was to be there")
	}
	return nil
}

// newShard fills a new weight file and reads its header back.
func (r *writing) newShard(s *Step, f *os.File, w Written) (Written, error) {
	l := s.shard.layout
	if err := f.Truncate(l.Size()); err != nil {
		return w, err
	}
	to := safetensors.NewWriter(f, l)
	if err := s.shard.new.Fill(r.ctx, to); err != nil {
		return w, err
	}
	if err := to.Close(); err != nil {
		return w, err
	}
	w.Bytes = l.Size()
	r.advance(s.Bytes)
	return w, readBack(f, l.Size(), string(l.Header()[8:]))
}
