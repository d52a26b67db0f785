package checkpoint

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/ckpt-surgery/ckpt/internal/atomicfile"
)

// This file is the policy for links and for the hub's cache.
//
// A name inside a checkpoint (a shard named by an index, a sidecar) is untrusted
// input. It is checked as text first: a relative slash path without "..", drive
// letters or backslashes. Then its links are resolved, and what it resolves to
// must lie inside the model, with one exception: Hugging Face's cache keeps
// every file of snapshots/<commit>/ as a link into the blobs/ folder of the same
// repository or of the same cache, and those are followed.
//
// Only the names inside are bound so. MODEL itself is the user's own word and
// may be a link to anywhere.

// checkName checks a slash-separated path as text.
func checkName(name string) error {
	why := ""
	switch {
	case strings.ContainsAny(name, "\\\x00"):
		why = "holds a backslash or a NUL"
	case len(name) > 1 && name[1] == ':':
		why = "begins with a drive letter"
	case strings.HasPrefix(name, "/"):
		why = "is absolute"
	case !fs.ValidPath(name) || name == ".":
		why = "is not a plain path inside the model"
	case !filepath.IsLocal(filepath.FromSlash(name)):
		why = "is no file name on this system"
	}
	if why != "" {
		return &refused{IndexPath, name, why, "name a file beside the index"}
	}
	return nil
}

// dirFS is a directory of the operating system whose links are bound by the
// policy above.
type dirFS struct {
	root    string   // MODEL's directory, or the pipeline's of which dir is a component
	dir     string   // where names begin, as given
	only    string   // the one file opened, "" for a directory
	allowed []string // resolved directories in which a file may really lie
}

// newDirFS binds dir; names may resolve to anything inside root, which is dir
// or a folder above it (a pipeline of which dir is a component).
func newDirFS(root, dir string) (*dirFS, error) {
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, err
	}
	if real, err = filepath.Abs(real); err != nil {
		return nil, err
	}
	d := &dirFS{root: root, dir: dir, allowed: []string{real}}
	if repo, ok := hubRepository(real); ok {
		// Not through a link in place of the folder itself: an unpacked archive
		// could lead anywhere with one.
		d.allowed = append(d.allowed, filepath.Join(repo, "blobs"), filepath.Join(filepath.Dir(repo), "blobs"))
	}
	return d, nil
}

// hubRepository returns the models--org--name folder of a hub cache above a
// resolved snapshots/<commit>[/sub] path.
func hubRepository(real string) (string, bool) {
	for dir := real; ; {
		up := filepath.Dir(dir)
		if up == dir {
			return "", false
		}
		if filepath.Base(up) == "snapshots" {
			repo := filepath.Dir(up)
			if kind, _, ok := strings.Cut(filepath.Base(repo), "--"); ok && (kind == "models" || kind == "datasets" || kind == "spaces") {
				return repo, true
			}
		}
		dir = up
	}
}

// resolve applies the policy to a name and returns the path to open.
func (d *dirFS) resolve(op, name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	path := filepath.Join(d.dir, filepath.FromSlash(name))
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	if real, err = filepath.Abs(real); err != nil {
		return "", err
	}
	for _, dir := range d.allowed {
		if rel, err := filepath.Rel(dir, real); err == nil && filepath.IsLocal(rel) {
			return real, nil
		}
	}
	return "", &refused{LinkOutside, name, "a link that leaves the model, to " + quote(real), "copy the file into the model"}
}

func (d *dirFS) Open(name string) (fs.File, error) {
	path, err := d.resolve("open", name)
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

func (d *dirFS) Stat(name string) (fs.FileInfo, error) {
	path, err := d.resolve("stat", name)
	if err != nil {
		return nil, err
	}
	return os.Stat(path)
}

func (d *dirFS) ReadDir(name string) ([]fs.DirEntry, error) {
	path, err := d.resolve("readdir", name)
	if err != nil {
		return nil, err
	}
	return os.ReadDir(path)
}

// sharedStore marks the cache-wide store of blobs (huggingface_hub 1.33.0,
// utils/_shared_blobs.py).
const sharedStore = ".huggingface-shared-blobs"

// inHubCache reports whether a resolved path lies in a snapshot or among the
// blobs of a hub cache, where files are shared and named by their content.
func inHubCache(real string) bool {
	if _, ok := hubRepository(real); ok {
		return true
	}
	for dir := real; ; {
		up := filepath.Dir(dir)
		if filepath.Base(dir) == "blobs" {
			kind, _, ok := strings.Cut(filepath.Base(up), "--")
			if ok && (kind == "models" || kind == "datasets" || kind == "spaces") {
				return true
			}
			if _, err := os.Lstat(filepath.Join(dir, sharedStore)); err == nil {
				return true
			}
		}
		if up == dir {
			return false
		}
		dir = up
	}
}

// sub returns the component's folder inside the root, "." if there is none.
func (d *dirFS) sub() string {
	rel, err := filepath.Rel(d.root, d.dir)
	if err != nil {
		return "."
	}
	return filepath.ToSlash(rel)
}

// inRoot turns a name inside the component into one inside the root.
func (d *dirFS) inRoot(name string) string { return path.Join(d.sub(), name) }

// walk calls visit for every file of the model with the path that its links lead
// to. Our own leftovers are passed over. A file that is not regular, or a link
// to a folder or out of the model, cannot be copied and is an error.
func (d *dirFS) walk(visit func(name, real string, st fs.FileInfo) error) error {
	whole := &dirFS{dir: d.root, root: d.root, allowed: d.allowed}
	one := func(name string) error {
		real, err := whole.resolve("open", name)
		if errors.Is(err, fs.ErrNotExist) {
			return &RefusedError{Path: name, Why: "a link to a file that is not there", Do: "fetch the file again", Err: err}
		}
		if no, ok := errors.AsType[*refused](err); ok {
			return &RefusedError{Path: name, Why: no.why, Do: no.repair, Err: err}
		}
		if err != nil {
			return err
		}
		st, err := os.Stat(real)
		if err != nil {
			return err
		}
		if !st.Mode().IsRegular() {
			return &RefusedError{Path: name, Why: "it is not a regular file and cannot be copied (" + st.Mode().Type().String() + ")", Do: "remove it from the model"}
		}
		return visit(name, real, st)
	}
	if d.only != "" {
		return one(d.only)
	}
	return fs.WalkDir(os.DirFS(d.root), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case atomicfile.Temporary(e.Name()):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir():
			return nil
		}
		return one(name)
	})
}
