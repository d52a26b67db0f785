package checkpoint

import (
	"errors"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/ckpt-surgery/ckpt/internal/atomicfile"
)

// planInPlace plans a change of the model itself.
func (p *WritePlan) planInPlace(d *dirFS, ch Change, shards []planned, files []file, to Target) error {
	p.root, p.inside = d.root, true
	if inHubCache(d.allowed[0]) && !to.InCache {
		return &RefusedError{Path: p.ck.name, Why: "it is in Hugging Face's cache, where a file belongs to every snapshot that links to it",
			Do: "write a copy with --out DIR, or give this snapshot files of its own with --in-cache", Err: ErrHubCache}
	}
	p.Leftovers = atomicfile.Leftovers(d.dir, "")
	add := func(name string, s Step) error {
		at, err := d.place(name)
		if err != nil {
			return err
		}
		s.File, s.Action = d.inRoot(name), Create
		if _, err := os.Lstat(at); err == nil {
			s.Action = Replace
		}
		if st, err := os.Stat(at); err == nil {
			s.was = st
		}
		p.Steps = append(p.Steps, s)
		return nil
	}
	if len(shards) > 0 && p.ck.index == nil { // the first of files is the index of what exists
		if err := add(files[0].name, Step{Bytes: int64(len(files[0].content)), content: files[0].content}); err != nil {
			return err
		}
		files = files[1:]
	}
	for _, name := range slices.Sorted(maps.Keys(ch.Patches)) {
		step, err := p.patchInPlace(d, name, ch.Patches[name])
		if err != nil {
			return err
		}
		p.Steps = append(p.Steps, step)
	}
	for i := range shards {
		if err := add(shards[i].new.Name, Step{Bytes: shards[i].layout.Size(), shard: &shards[i]}); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := add(f.name, Step{Bytes: int64(len(f.content)), content: f.content}); err != nil {
			return err
		}
	}
	return nil
}

// place returns the path at which a file of the model is made or replaced. The
// folder must be the model's own: through a linked one the file would land, or a
// blob be replaced, somewhere else.
func (d *dirFS) place(name string) (string, error) {
	own, err := filepath.EvalSymlinks(d.dir)
	if err != nil {
		return "", err
	}
	folder := filepath.Join(own, filepath.FromSlash(path.Dir(name)))
	real, err := filepath.EvalSymlinks(folder)
	if err != nil || real != folder {
		return "", &RefusedError{Path: name, Why: "a link leads to its folder, or the folder is not there", Do: "write a copy with --out DIR", Err: err}
	}
	return filepath.Join(d.dir, filepath.FromSlash(name)), nil
}

// patchInPlace decides between overwriting bytes and replacing the file. Only a
// private file is overwritten: a regular one with one name, which no link leads
// to. Any other's bytes are somebody else's too.
func (p *WritePlan) patchInPlace(d *dirFS, name string, patches []Patch) (Step, error) {
	at, err := d.place(name)
	if err != nil {
		return Step{}, err
	}
	real, err := d.resolve("open", name)
	if err != nil {
		return Step{}, err
	}
	st, err := os.Stat(real)
	if err != nil {
		return Step{}, err
	}
	s := Step{Action: Replace, File: d.inRoot(name), Bytes: st.Size(), source: real, was: st, patches: patches, loaded: p.ck.shard(name)}
	if !sameFile(s.loaded.st, st) {
		return Step{}, &RefusedError{Path: name, Why: "it has changed since the model was opened", Do: "run again when nothing else writes to the model"}
	}
	if named, err := os.Lstat(at); err != nil || !named.Mode().IsRegular() || links(st) != 1 {
		return s, nil
	}
	f, err := os.OpenFile(real, os.O_RDWR, 0) // costs nothing to find out now
	if err != nil {
		return Step{}, &RefusedError{Path: name, Why: "it cannot be written: " + errors.Unwrap(err).Error(), Do: "write a copy with --out DIR", Err: err}
	}
	s.Action = Overwrite
	return s, f.Close()
}
