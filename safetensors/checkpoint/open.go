package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Options narrows what is opened. The zero value opens MODEL as it is.
type Options struct {
	// Component is a folder of a diffusers pipeline, such as transformer.
	Component string
}

// A PipelineError says that MODEL is a diffusers pipeline and no component was
// chosen.
type PipelineError struct {
	Path       string
	Components []string // folders that hold weights, sorted
}

func (e *PipelineError) Error() string {
	return fmt.Sprintf("%s is a diffusers pipeline; choose a component: --component %s", quote(e.Path), strings.Join(e.Components, "|"))
}

// ErrNoWeights is returned for a directory without weight files or index.
var ErrNoWeights = errors.New("no .safetensors files and no index")

// Open opens the model at path: a directory, a .safetensors file or an index.
func Open(path string, o Options) (*Checkpoint, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	root, only := path, ""
	if !st.IsDir() {
		root, only = filepath.Split(path)
		root = filepath.Clean(root)
	}
	if only != "" && o.Component != "" {
		return nil, fmt.Errorf("%s is a file; a component is a folder of a pipeline", quote(path))
	}
	dir, err := componentDir(o.Component)
	if err != nil {
		return nil, err
	}
	fsys, err := newDirFS(root, filepath.Join(root, dir))
	if err != nil {
		return nil, err
	}
	if only != "" {
		// The user named this file; it may be a link to anywhere.
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return nil, err
		}
		if real, err = filepath.Abs(real); err != nil {
			return nil, err
		}
		fsys.allowed = append(fsys.allowed, real)
		if _, index := indexVariant(only); !index {
			fsys.only = only
		}
	}
	return open(path, dir, fsys, only)
}

// OpenFS opens the model in a file system, whose files must be io.ReaderAt. The
// policy for links is the file system's own.
func OpenFS(fsys fs.FS, o Options) (*Checkpoint, error) {
	dir, err := componentDir(o.Component)
	if err != nil {
		return nil, err
	}
	sub, err := fs.Sub(fsys, dir)
	if err != nil {
		return nil, err
	}
	return open(dir, dir, subFS{sub, fsys, dir}, "")
}

// subFS is a folder of a file system. What fs.Sub returns has no Stat of its
// own: it would be asked by opening, and a pipe waits when it is opened.
type subFS struct {
	fs.FS
	whole fs.FS
	dir   string
}

func (s subFS) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(s.FS, name) }
func (s subFS) Stat(name string) (fs.FileInfo, error) {
	return fs.Stat(s.whole, path.Join(s.dir, name))
}

// componentDir returns the folder of a component inside its pipeline.
func componentDir(component string) (string, error) {
	if component == "" {
		return ".", nil
	}
	dir := strings.TrimSuffix(filepath.ToSlash(component), "/")
	if err := checkName(dir); err != nil {
		return "", fmt.Errorf("component %s: %w", quote(component), err)
	}
	return dir, nil
}

func open(name, dir string, fsys fs.FS, only string) (*Checkpoint, error) {
	c := &Checkpoint{name: name, pool: newPool(fsys)}
	if err := c.open(only); err != nil {
		c.Close()
		if dir != "." {
			err = fmt.Errorf("component %s: %w", quote(dir), err)
		}
		return nil, err
	}
	return c, nil
}

// open finds out what there is, reads the headers and compares.
func (c *Checkpoint) open(only string) error {
	entries, err := fs.ReadDir(c.pool.fsys, ".")
	if err != nil && only == "" {
		return err
	}
	var names []string
	for _, e := range entries {
		// A folder named like weights is no folder to look into but a fault.
		if !e.IsDir() || strings.HasSuffix(e.Name(), weightSuffix) {
			names = append(names, e.Name())
		}
	}
	l := planLayout(names)
	single := false
	if _, ok := indexVariant(only); ok {
		l.index = only
	} else if only != "" {
		l, single = layout{weights: []string{only}}, true
	}
	if l.index == "" && len(l.weights) == 0 {
		return c.nothing(entries)
	}
	c.files = names
	ahead := c.openAhead(l)
	loaded, rest := c.choose(l, single)
	c.load(loaded, rest, ahead())
	if single && len(c.shards) == 0 {
		return c.problems[0].asError() // the one file asked for
	}
	c.checkDuplicates()
	switch {
	case c.index != nil:
		c.checkIndex()
	case !single:
		c.checkGaps(loaded)
	}
	c.checkRest()
	c.readConfig()
	sortProblems(c.problems)
	return nil
}

// choose decides which weight files are loaded and which are only looked at.
func (c *Checkpoint) choose(l layout, single bool) (loaded, rest []string) {
	if l.index != "" {
		text, err := c.pool.readFile(l.index, maxIndex)
		if err == nil {
			c.index, err = ParseIndex(text)
		}
		if err != nil {
			c.report(Problem{Code: IndexMalformed, Severity: Fatal, File: l.index, Message: err.Error(), Err: err,
				Repair: "write the index again from the headers"})
		}
	}
	switch {
	case c.index != nil:
		c.index.Name = l.index
		loaded = c.indexedFiles()
		rest = without(l.weights, loaded)
	case single:
		loaded = l.weights
	default:
		rest = otherVariants(l.weights)
		loaded = without(l.weights, rest)
	}
	if shadow := without(l.shadow, loaded); len(shadow) > 0 {
		c.report(Problem{Code: ConsolidatedShadow, Severity: Corrupt, File: shadow[0],
			Message: fmt.Sprintf("%d consolidated* file(s) beside Hugging Face shards; vLLM loads the consolidated ones, other engines the shards; the shards are read here", len(shadow)),
			Repair:  "delete consolidated* and params.json, or the shards"})
	}
	return loaded, rest
}

// without returns the names that are not among others.
func without(names, others []string) []string {
	drop := make(map[string]bool, len(others))
	for _, n := range others {
		drop[n] = true
	}
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return drop[n] })
}

// indexedFiles returns the files the index names that may be opened.
func (c *Checkpoint) indexedFiles() []string {
	var ok []string
	for _, name := range c.index.Files() {
		err := checkName(name)
		if err == nil && !strings.HasSuffix(name, weightSuffix) {
			err = &refused{IndexPath, name, "is no .safetensors file", "only .safetensors files are read"}
		}
		if err != nil {
			c.report(fileProblem(name, err, nil))
			continue
		}
		ok = append(ok, name)
	}
	return ok
}

// nothing explains a directory without weights.
func (c *Checkpoint) nothing(entries []fs.DirEntry) error {
	var components []string
	pipeline, snapshots := false, false
	for _, e := range entries {
		switch {
		case e.Name() == "model_index.json":
			pipeline = true
		case e.Name() == "snapshots":
			snapshots = true
		case e.IsDir():
			sub, _ := fs.ReadDir(c.pool.fsys, e.Name())
			if slices.ContainsFunc(sub, func(s fs.DirEntry) bool { return strings.HasSuffix(s.Name(), weightSuffix) }) {
				components = append(components, e.Name())
			}
			if slices.ContainsFunc(sub, func(s fs.DirEntry) bool { _, ok := indexVariant(s.Name()); return ok }) && !slices.Contains(components, e.Name()) {
				components = append(components, e.Name())
			}
		}
	}
	switch {
	case snapshots:
		return fmt.Errorf("%s is a repository of the hub's cache; give one of its snapshots: %s", quote(c.name), c.snapshots())
	case pipeline:
		return &PipelineError{c.name, components}
	case len(components) > 0:
		return fmt.Errorf("%s: %w; there are some in %s", quote(c.name), ErrNoWeights, strings.Join(components, ", "))
	}
	return fmt.Errorf("%s: %w", quote(c.name), ErrNoWeights)
}

// snapshots lists the snapshots of a hub cache repository as paths to give.
func (c *Checkpoint) snapshots() string {
	sub, _ := fs.ReadDir(c.pool.fsys, "snapshots")
	var paths []string
	for _, s := range sub {
		paths = append(paths, strconv.Quote(path.Join(filepath.ToSlash(c.name), "snapshots", s.Name())))
	}
	return strings.Join(paths, ", ")
}
