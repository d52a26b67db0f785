package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ckpt-surgery/ckpt/internal/filecopy"
	"github.com/ckpt-surgery/ckpt/safetensors"
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
	Err  error  // cause, or nil
}

func (e *RefusedError) Error() string { return fmt.Sprintf("%s: %s; %s", quote(e.Path), e.Why, e.Do) }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// ErrHubCache is the cause of refusing to write inside Hugging Face's cache.
var ErrHubCache = errors.New("inside Hugging Face's cache")

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
	File   string `json:"file"`  // slash-separated, inside MODEL
	Bytes  int64  `json:"bytes"` // the file's size afterwards

	source  string      // the path to read, for Copy, Link and what is patched
	was     fs.FileInfo // source, or the file to replace, when the plan was made
	patches []Patch
	shard   *planned
	loaded  *Shard // the weight file that source is, if it was opened
	content []byte
}

// planned is a new weight file with its layout.
type planned struct {
	new    *NewShard
	layout *safetensors.Layout
}

// WritePlan is a Change that has passed every check that needs no writing.
type WritePlan struct {
	Steps     []Step   // in the order in which they are carried out
	Bytes     int64    // that may have to be written, at most
	Leftovers []string // what interrupted runs left beside the target; harmless, may be deleted

	ck     *Checkpoint
	root   string // the directory that changes: MODEL, or a new one
	inside bool   // in place
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
		return nil, &RefusedError{Path: c.name, Why: "it was opened from an fs.FS, which has no place to write to", Do: "open its directory"}
	}
	shards, err := c.planShards(d, ch)
	if err != nil {
		return nil, err
	}
	files, err := c.changedFiles(ch, shards)
	if err != nil {
		return nil, err
	}
	if err := c.checkPatches(ch); err != nil {
		return nil, err
	}
	p := &WritePlan{ck: c}
	if to.Out != "" {
		err = p.planCopy(d, ch, shards, files, to)
	} else {
		err = p.planInPlace(d, ch, shards, files, to)
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

// planShards lays out the new weight files. What they add must not stand in the
// model already, and the model must be read whole, since the index that lists
// them lists everything.
func (c *Checkpoint) planShards(d *dirFS, ch Change) ([]planned, error) {
	if len(ch.Shards) == 0 {
		return nil, nil
	}
	if d.only != "" {
		return nil, &RefusedError{Path: c.name, Why: "one file of a model cannot get another beside it", Do: "give the model's directory"}
	}
	for _, p := range c.problems {
		if p.Severity == Fatal {
			return nil, &RefusedError{Path: p.File, Why: p.Message, Do: "mend this first: the index can only be extended when everything in it is there", Err: p.Err}
		}
	}
	var shards []planned
	seen := map[string]bool{}
	for i := range ch.Shards {
		s := &ch.Shards[i]
		l, err := s.layout()
		if err != nil {
			return nil, err
		}
		if err := c.newName(s.Name, l); err != nil {
			return nil, err
		}
		_, clash := ch.Files[s.Name]
		if clash || seen["file "+s.Name] {
			return nil, &RefusedError{Path: s.Name, Why: "two files are to have this name", Do: "choose another"}
		}
		seen["file "+s.Name] = true
		for _, slot := range l.Slots() {
			if _, ok := c.places.find(slot.Name); ok || seen[slot.Name] {
				return nil, &RefusedError{Path: s.Name, Why: "the tensor " + quote(slot.Name) + " is in the model already", Do: "leave it out"}
			}
			seen[slot.Name] = true
		}
		shards = append(shards, planned{s, l})
	}
	return shards, nil
}

// newName checks the name of a new weight file. One that an interrupted run has
// left, unlisted and with the very header, is written again.
func (c *Checkpoint) newName(name string, l *safetensors.Layout) error {
	if err := checkName(name); err != nil {
		return err
	}
	if !strings.HasSuffix(name, weightSuffix) {
		return &RefusedError{Path: name, Why: "a weight file's name ends in " + weightSuffix, Do: "choose another name"}
	}
	if _, err := fs.Stat(c.pool.fsys, name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, s := range c.rest {
		if s.Name == name && s.File != nil && s.Header() == string(l.Header()[8:]) {
			return nil
		}
	}
	return &RefusedError{Path: name, Why: "the file exists", Do: "choose another name"}
}

// checkPatches keeps patches inside the tensors of files that were opened.
func (c *Checkpoint) checkPatches(ch Change) error {
	for _, name := range slices.Sorted(maps.Keys(ch.Patches)) {
		s := c.shard(name)
		if s == nil {
			return &RefusedError{Path: name, Why: "it is no weight file of the model", Do: "open the model again"}
		}
		for _, p := range ch.Patches[name] {
			if p.Offset < s.DataOffset() || p.Length < 0 || p.Length > s.Size()-p.Offset {
				return &RefusedError{Path: name, Why: fmt.Sprintf("bytes %d+%d are not all tensors", p.Offset, p.Length), Do: "patch tensors only"}
			}
		}
	}
	return nil
}

// shard returns the loaded weight file of that name, or nil.
func (c *Checkpoint) shard(name string) *Shard {
	for _, s := range c.shards {
		if s.Name == name {
			return s
		}
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
func (c *Checkpoint) changedFiles(ch Change, shards []planned) ([]file, error) {
	var files []file
	for _, name := range slices.Sorted(maps.Keys(ch.Files)) {
		if err := checkName(name); err != nil {
			return nil, err
		}
		files = append(files, file{name, ch.Files[name]})
	}
	if len(shards) == 0 {
		return files, nil
	}
	before, after, err := c.extendIndex(shards)
	if err != nil {
		return nil, err
	}
	if before != nil {
		files = slices.Insert(files, 0, *before)
	}
	return append(files, *after), nil
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
	return &RefusedError{Path: dir, Why: fmt.Sprintf("up to %d bytes may be needed and %d are free", p.Bytes, free), Do: "make room, or give another place"}
}

// check holds the plan against the files as they are now: what was read to make
// it must not have changed since.
func (p *WritePlan) check() error {
	seen := map[string]bool{}
	for i := range p.Steps {
		s := &p.Steps[i]
		if seen[s.File] {
			continue // an earlier step makes it
		}
		seen[s.File] = true
		path := s.source
		if path == "" {
			if !p.inside {
				continue
			}
			path = filepath.Join(p.root, filepath.FromSlash(s.File))
		}
		now, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) && s.was == nil {
			continue
		}
		if err != nil || s.was == nil || !sameFile(s.was, now) || s.loaded != nil && !sameFile(s.loaded.st, now) {
			return &RefusedError{Path: s.File, Why: "it has changed since the model was opened", Do: "run again when nothing else writes to the model", Err: err}
		}
	}
	return nil
}

// sameFile reports whether two descriptions are of one file that nobody has
// written to in between.
func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
