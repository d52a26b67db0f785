package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ckpt-surgery/ckpt/internal/atomicfile"
	"github.com/ckpt-surgery/ckpt/internal/filecopy"
)

// Target says where a Change goes. The zero Target is the model itself.
type Target struct {
	Out     string // a new directory, which must not exist or be empty
	Link    bool   // with Out: hard links for weight files that do not change
	InCache bool   // in place inside the hub's cache: links are replaced by files
}

// RefusedError is a write that was not begun. Nothing has changed.
type RefusedError struct {
	Path string
	Why  string
	Do   string // what to do instead
}

func (e *RefusedError) Error() string { return fmt.Sprintf("%s: %s; %s", quote(e.Path), e.Why, e.Do) }

// Action is what is done with one file.
type Action string

// The actions.
const (
	Overwrite Action = "overwrite" // bytes of a private file, in place
	Replace   Action = "replace"   // by a new file of the same name
	Create    Action = "create"    // a file that was not there
	Copy      Action = "copy"      // unchanged, into the new directory
	Link      Action = "link"      // unchanged, as a hard link
)

// Step is one file of a WritePlan.
type Step struct {
	Action Action `json:"action"`
	File   string `json:"file"`  // slash-separated, inside the model
	Bytes  int64  `json:"bytes"` // the file's size afterwards, where it is known

	source  string // the path to read, for Copy, Link and a Replace that patches
	size    int64  // of source
	patches []Patch
	shard   *NewShard
	content []byte
}

// WritePlan is a Change that has passed every check that needs no writing.
type WritePlan struct {
	Steps     []Step   // in the order in which they are carried out
	Bytes     int64    // that may have to be written, at most
	Leftovers []string // what interrupted runs left beside the target; harmless, may be deleted

	ck     *Checkpoint
	root   string // the directory that changes: MODEL, or a new one
	inside bool   // in place
	link   bool
}

// Plan checks a Change against a Target and plans it. Errors are *RefusedError
// for what must not be done and those of the file system.
//
// In place, the order of steps keeps the model loadable at each instant: first
// an index that lists what exists, if there is none; patches; new weight files;
// config.json and its like; the index last. In between, a new shard is only an
// unlisted file.
func (c *Checkpoint) Plan(ch Change, to Target) (*WritePlan, error) {
	d, ok := c.pool.fsys.(*dirFS)
	if !ok {
		return nil, errors.New("a model opened from an fs.FS has no place to write to")
	}
	for _, s := range ch.Shards {
		if err := c.newName(s.Name); err != nil {
			return nil, err
		}
	}
	files, err := c.changedFiles(ch)
	if err != nil {
		return nil, err
	}
	p := &WritePlan{ck: c, link: to.Link}
	if to.Out != "" {
		err = p.planCopy(d, ch, files, to)
	} else {
		err = p.planInPlace(d, ch, files, to)
	}
	if err != nil {
		return nil, err
	}
	for _, s := range p.Steps {
		if s.Action != Overwrite && s.Action != Link {
			p.Bytes += s.Bytes
		}
	}
	return p, p.checkSpace()
}

// newName checks the name of a new weight file.
func (c *Checkpoint) newName(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if _, err := fs.Stat(c.pool.fsys, name); !errors.Is(err, fs.ErrNotExist) {
		return &RefusedError{name, "the file exists", "choose another name"}
	}
	return nil
}

// file is content for a file that is not weights.
type file struct {
	name    string
	content []byte
}

// changedFiles returns the files of a change in the order in which they are
// written in place; the index, if it changes, comes first (as it is to be before)
// and last (as it is to be).
func (c *Checkpoint) changedFiles(ch Change) ([]file, error) {
	var files []file
	for name, content := range ch.Files {
		if err := checkName(name); err != nil {
			return nil, err
		}
		files = append(files, file{name, content})
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	if len(ch.Shards) == 0 {
		return files, nil
	}
	before, after, err := c.extendIndex(ch.Shards)
	if err != nil {
		return nil, err
	}
	if before != nil {
		files = slices.Insert(files, 0, *before)
	}
	return append(files, *after), nil
}

// planInPlace plans a change of the model itself.
func (p *WritePlan) planInPlace(d *dirFS, ch Change, files []file, to Target) error {
	p.root, p.inside = d.dir, true
	real := d.allowed[0]
	if inHubCache(real) && !to.InCache {
		return &RefusedError{p.ck.name, "it is in Hugging Face's cache, where a file belongs to every snapshot that links to it",
			"write a copy with --out DIR, or give this snapshot files of its own with --in-cache"}
	}
	p.Leftovers = atomicfile.Leftovers(d.dir, "")
	add := func(f file) error {
		action := Create
		if _, err := os.Lstat(filepath.Join(d.dir, filepath.FromSlash(f.name))); err == nil {
			action = Replace
		}
		p.Steps = append(p.Steps, Step{Action: action, File: f.name, Bytes: int64(len(f.content)), content: f.content})
		return nil
	}
	if len(ch.Shards) > 0 && p.ck.index == nil { // the first of files is the index of what exists
		if err := add(files[0]); err != nil {
			return err
		}
		files = files[1:]
	}
	for _, name := range sortedKeys(ch.Patches) {
		step, err := p.patchInPlace(d, name, ch.Patches[name])
		if err != nil {
			return err
		}
		p.Steps = append(p.Steps, step)
	}
	for i := range ch.Shards {
		s := &ch.Shards[i]
		p.Steps = append(p.Steps, Step{Action: Create, File: s.Name, Bytes: s.Layout.Size(), shard: s})
	}
	for _, f := range files {
		if err := add(f); err != nil {
			return err
		}
	}
	return nil
}

// patchInPlace decides between overwriting bytes and replacing the file. Only a
// private file is overwritten: a regular one with one name, which no link leads
// to. Any other's bytes are somebody else's too.
func (p *WritePlan) patchInPlace(d *dirFS, name string, patches []Patch) (Step, error) {
	real, err := d.resolve("open", name)
	if err != nil {
		return Step{}, err
	}
	st, err := os.Stat(real)
	if err != nil {
		return Step{}, err
	}
	step := Step{Action: Replace, File: name, Bytes: st.Size(), source: real, size: st.Size(), patches: patches}
	if err := p.ck.unchanged(name, st); err != nil {
		return Step{}, err
	}
	own, err := filepath.EvalSymlinks(d.dir)
	if err != nil {
		return Step{}, err
	}
	if own, err = filepath.Abs(own); err != nil {
		return Step{}, err
	}
	if real != filepath.Join(own, filepath.FromSlash(name)) || links(st) != 1 {
		return step, nil
	}
	f, err := os.OpenFile(real, os.O_RDWR, 0) // permission is a refusal that costs nothing to find now
	if err != nil {
		return Step{}, err
	}
	step.Action = Overwrite
	return step, f.Close()
}

// unchanged checks that a weight file is the one whose header was read.
func (c *Checkpoint) unchanged(name string, st fs.FileInfo) error {
	for _, s := range c.shards {
		if s.Name == name && s.Size() != st.Size() {
			return &RefusedError{name, fmt.Sprintf("the file had %d bytes when it was opened and has %d now", s.Size(), st.Size()), "run again when nothing else writes to it"}
		}
	}
	return nil
}

// checkSpace refuses what does not fit. Sharing blocks may need less, but nobody
// can say so beforehand.
func (p *WritePlan) checkSpace() error {
	dir := p.root
	if !p.inside {
		dir = filepath.Dir(p.root)
	}
	free, err := filecopy.Free(dir)
	if err != nil || uint64(p.Bytes) <= free {
		return nil // a file system that does not say may still have room
	}
	return &RefusedError{dir, fmt.Sprintf("%d bytes may be needed and %d are free", p.Bytes, free), "make room, or give another place"}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// planCopy plans a changed copy in a new directory.
func (p *WritePlan) planCopy(d *dirFS, ch Change, files []file, to Target) error {
	root, err := filepath.Abs(filepath.Clean(to.Out))
	if err != nil {
		return err
	}
	p.root = root
	if err := p.checkOut(d, to.Out); err != nil {
		return err
	}
	p.Leftovers = atomicfile.Leftovers(filepath.Dir(root), filepath.Base(root))
	byName := map[string][]byte{}
	for _, f := range files { // of two with one name, the later
		byName[path.Join(d.sub(), f.name)] = f.content
	}
	patches := map[string][]Patch{}
	for name, list := range ch.Patches {
		patches[path.Join(d.sub(), name)] = list
	}
	err = d.walk(func(name, real string, st fs.FileInfo) error {
		step := Step{Action: Copy, File: name, Bytes: st.Size(), source: real, size: st.Size()}
		switch content, ok := byName[name]; {
		case ok:
			step = Step{Action: Replace, File: name, Bytes: int64(len(content)), content: content}
			delete(byName, name)
		case patches[name] != nil:
			step.Action, step.patches = Replace, patches[name]
			delete(patches, name)
		case to.Link && strings.HasSuffix(name, weightSuffix):
			step.Action = Link
		}
		p.Steps = append(p.Steps, step)
		return nil
	})
	if err != nil {
		return err
	}
	for name := range patches {
		return &RefusedError{name, "there is no such file to patch", "open the model again"}
	}
	for i := range ch.Shards {
		s := &ch.Shards[i]
		p.Steps = append(p.Steps, Step{Action: Create, File: path.Join(d.sub(), s.Name), Bytes: s.Layout.Size(), shard: s})
	}
	for _, name := range sortedKeys(byName) {
		p.Steps = append(p.Steps, Step{Action: Create, File: name, Bytes: int64(len(byName[name])), content: byName[name]})
	}
	return nil
}

// checkOut refuses a target that holds something, or that overlaps the model.
func (p *WritePlan) checkOut(d *dirFS, given string) error {
	switch entries, err := os.ReadDir(p.root); {
	case err == nil && len(entries) > 0:
		return &RefusedError{given, "the directory is not empty", "give a new one"}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return &RefusedError{given, "it exists and is no empty directory", "give a new one"}
	}
	if st, err := os.Lstat(p.root); err == nil && st.Mode()&fs.ModeSymlink != 0 {
		return &RefusedError{given, "it is a link", "give the directory itself"}
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(p.root))
	if err != nil {
		return fmt.Errorf("the directory that would hold %s: %w", quote(given), err)
	}
	out, model := filepath.Join(parent, filepath.Base(p.root)), d.allowed[0]
	if d.only != "" {
		model = filepath.Join(model, d.only) // of a single file, its folder is no part of the model
	}
	if within(out, model) || within(model, out) {
		return &RefusedError{given, "it overlaps the model", "give a directory outside " + quote(p.ck.name)}
	}
	return nil
}

// within reports whether path is dir or lies inside it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
