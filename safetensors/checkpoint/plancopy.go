package checkpoint

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ckpt-surgery/ckpt/internal/atomicfile"
)

// planCopy plans a changed copy in a new directory: every file of MODEL, links
// as files.
func (p *WritePlan) planCopy(d *dirFS, ch Change, shards []planned, files []file, to Target) error {
	root, err := filepath.Abs(filepath.Clean(to.Out))
	if err != nil {
		return err
	}
	p.root = root
	if err := p.checkOut(d, to.Out); err != nil {
		return err
	}
	p.Leftovers = atomicfile.Leftovers(filepath.Dir(root), filepath.Base(root))
	content := map[string][]byte{}
	for _, f := range files { // of two with one name, the later
		content[d.inRoot(f.name)] = f.content
	}
	made := map[string]bool{} // new shards, over what an interrupted run may have left
	for _, s := range shards {
		made[d.inRoot(s.new.Name)] = true
	}
	opened := map[string]*Shard{}
	patches := map[string][]Patch{}
	for _, s := range p.ck.shards {
		opened[d.inRoot(s.Name)] = s
		patches[d.inRoot(s.Name)] = ch.Patches[s.Name]
	}
	err = d.walk(func(name, real string, st fs.FileInfo) error {
		s := Step{Action: Copy, File: name, Bytes: st.Size(), source: real, was: st, patches: patches[name], loaded: opened[name]}
		text, edited := content[name]
		switch {
		case made[name]:
			return nil
		case edited:
			s = Step{Action: Replace, File: name, Bytes: int64(len(text)), content: text}
			delete(content, name)
		case len(s.patches) > 0:
			s.Action = Replace
		case to.Link && strings.HasSuffix(name, weightSuffix) && sameDevice(st, filepath.Dir(root)) && !inHubCache(real):
			s.Action = Link // a blob gets no second name
		}
		p.Steps = append(p.Steps, s)
		return nil
	})
	if err != nil {
		return err
	}
	for i := range shards {
		p.Steps = append(p.Steps, Step{Action: Create, File: d.inRoot(shards[i].new.Name), Bytes: shards[i].layout.Size(), shard: &shards[i]})
	}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		p.Steps = append(p.Steps, Step{Action: Create, File: name, Bytes: int64(len(content[name])), content: content[name]})
	}
	return nil
}

// checkOut refuses a target that holds something, or that overlaps the model.
func (p *WritePlan) checkOut(d *dirFS, given string) error {
	switch entries, err := os.ReadDir(p.root); {
	case err == nil && len(entries) > 0:
		return &RefusedError{Path: given, Why: "the directory is not empty", Do: "give a new one"}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return &RefusedError{Path: given, Why: "it is no empty directory: " + err.Error(), Do: "give a new one", Err: err}
	}
	if st, err := os.Lstat(p.root); err == nil && st.Mode()&fs.ModeSymlink != 0 {
		return &RefusedError{Path: given, Why: "it is a link", Do: "give the directory itself"}
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(p.root))
	if err != nil {
		return &RefusedError{Path: given, Why: "the directory that would hold it: " + err.Error(), Do: "make that first", Err: err}
	}
	out, model := filepath.Join(parent, filepath.Base(p.root)), d.allowed[0]
	if d.only != "" {
		model = filepath.Join(model, d.only) // of a single file, its folder is no part of the model
	}
	if within(out, model) || within(model, out) {
		return &RefusedError{Path: given, Why: "it overlaps the model", Do: "give a directory outside " + quote(p.ck.name)}
	}
	return nil
}

// within reports whether path is dir or lies inside it, by name or, where two
// names lead to one folder, by what the names lead to.
func within(path, dir string) bool {
	if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
		return true
	}
	of, err := os.Stat(dir)
	if err != nil {
		return false
	}
	for {
		if st, err := os.Stat(path); err == nil && os.SameFile(st, of) {
			return true
		}
		up := filepath.Dir(path)
		if up == path {
			return false
		}
		path = up
	}
}
