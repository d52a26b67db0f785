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
