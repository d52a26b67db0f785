// Package atomicfile writes a file or a directory whole or not at all.
//
// Everything goes into a temporary sibling, is synced to the disk, and takes its
// final name in one rename, after which the directory is synced too. A crash at
// any moment leaves the old state or the new one, and at most a temporary file,
// which [Leftovers] recognises by its name.
package atomicfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Hook is called before each step with the step's name and the path it works
// on. An error ends the write as a failure of that step would. It is how tests
// stop, kill and starve a writer; nil does nothing.
type Hook func(step, path string) error

// The steps, in their order.
const (
	StepCreate  = "create"   // the temporary file or directory
	StepFill    = "fill"     // its content
	StepSync    = "sync"     // content to the disk
	StepRename  = "rename"   // to the final name
	StepSyncDir = "sync-dir" // the rename to the disk
)

// At calls the hook, if there is one.
func (h Hook) At(step, path string) error {
	if h == nil {
		return nil
	}
	if err := h(step, path); err != nil {
		return fmt.Errorf("%s %s: %w", step, path, err)
	}
	return nil
}

// mark is in the name of everything temporary. Such a name begins with a dot and
// does not end as the file's own, so nothing takes it for the file.
const mark = ".ckpt-tmp-"

// tempName returns a new temporary name beside path.
func tempName(path string) string {
	dir, base := filepath.Split(filepath.Clean(path))
	base = base[:min(len(base), 200)] // file systems end names at 255 bytes
	return dir + "." + base + mark + strings.ToLower(rand.Text()[:10])
}

// Leftovers returns the temporary siblings that interrupted writes of base, or
// of anything if base is "", have left in dir, sorted.
func Leftovers(dir, base string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var found []string
	for _, e := range entries {
		if Temporary(e.Name()) && (base == "" || strings.HasPrefix(e.Name(), "."+base[:min(len(base), 200)]+mark)) {
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(found)
	return found
}

// Temporary reports whether a file's name is one of ours.
func Temporary(name string) bool { return temporary.MatchString(name) }

var temporary = regexp.MustCompile(`^\..+` + regexp.QuoteMeta(mark) + `[a-z2-7]{10}$`)

// WriteFile replaces or creates the file at path with what fill writes. A link
// at path is replaced, not followed. A file that is replaced hands on its
// permissions; a new one gets those that the umask leaves of 0666.
func WriteFile(path string, hook Hook, fill func(*os.File) error) (err error) {
	if err := hook.At(StepCreate, path); err != nil {
		return err
	}
	temp := tempName(path)
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close() // an error if it is closed already
			os.Remove(temp)
		}
	}()
	if old, err := os.Stat(path); err == nil && old.Mode().IsRegular() {
		if err := f.Chmod(old.Mode().Perm()); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	if err := hook.At(StepFill, path); err != nil {
		return err
	}
	if err := fill(f); err != nil {
		return err
	}
	if err := SyncFile(f, hook, path); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := hook.At(StepRename, path); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	// From here on the new file is in place: an error must not remove anything.
	return syncDir(filepath.Dir(path), hook)
}

// SyncFile brings a file's content to the disk. A file system that cannot sync
// is no error.
func SyncFile(f *os.File, hook Hook, path string) error {
	if err := hook.At(StepSync, path); err != nil {
		return err
	}
	if err := f.Sync(); err != nil && !unsupported(err) {
		return err
	}
	return nil
}

// WriteDir creates the directory at path, which must not exist or be empty, with
// what fill puts into the temporary directory it is given. fill syncs the files
// it writes; folders are synced here.
func WriteDir(path string, hook Hook, fill func(temp string) error) (err error) {
	path = filepath.Clean(path)
	if err := hook.At(StepCreate, path); err != nil {
		return err
	}
	temp := tempName(path)
	if err := os.Mkdir(temp, 0o777); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(temp)
		}
	}()
	if err := hook.At(StepFill, path); err != nil {
		return err
	}
	if err := fill(temp); err != nil {
		return err
	}
	if err := hook.At(StepSync, path); err != nil {
		return err
	}
	err = filepath.WalkDir(temp, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = syncDir(p, nil)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := hook.At(StepRename, path); err != nil {
		return err
	}
	if err := renameDir(temp, path); err != nil {
		return err
	}
	temp = "" // it is in place
	return syncDir(filepath.Dir(path), hook)
}

// syncDir brings a directory's entries to the disk.
func syncDir(dir string, hook Hook) error {
	if err := hook.At(StepSyncDir, dir); err != nil {
		return err
	}
	return fsyncDir(dir)
}
