package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func put(text string) func(*os.File) error {
	return func(f *os.File) error {
		_, err := f.WriteString(text)
		return err
	}
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	var steps []string
	hook := func(step, at string) error {
		steps = append(steps, step)
		if b, _ := os.ReadFile(path); string(b) != "" && string(b) != "old" && step != StepSyncDir {
			t.Errorf("at %s the file holds %q", step, b)
		}
		return nil
	}
	if err := WriteFile(path, hook, put("old")); err != nil {
		t.Fatal(err)
	}
	if want := []string{StepCreate, StepFill, StepSync, StepRename, StepSyncDir}; !slices.Equal(steps, want) {
		t.Errorf("steps %q", steps)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, nil, put("new")); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "new" {
		t.Errorf("holds %q", b)
	}
	if st, _ := os.Stat(path); st.Mode().Perm() != 0o640 {
		t.Errorf("mode %v", st.Mode())
	}
	target := filepath.Join(dir, "target")
	os.WriteFile(target, []byte("target"), 0o600)
	link := filepath.Join(dir, "link")
	if err := os.Symlink("target", link); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, nil, put("through")); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(target); string(b) != "target" {
		t.Error("the link was followed")
	}
	if got := names(t, dir); !slices.Equal(got, []string{"f", "link", "target"}) {
		t.Errorf("left %q", got)
	}
}

func TestEveryStepFails(t *testing.T) {
	broken := errors.New("broken")
	for _, step := range []string{StepCreate, StepFill, StepSync, StepRename, StepSyncDir} {
		hook := func(s, _ string) error {
			if s == step {
				return broken
			}
			return nil
		}
		dir := t.TempDir()
		path := filepath.Join(dir, "f")
		os.WriteFile(path, []byte("old"), 0o666)
		if err := WriteFile(path, hook, put("new")); !errors.Is(err, broken) {
			t.Errorf("%s: %v", step, err)
		}
		want := "old"
		if step == StepSyncDir {
			want = "new" // it is in place
		}
		if b, _ := os.ReadFile(path); string(b) != want {
			t.Errorf("%s: holds %q", step, b)
		}
		sub := filepath.Join(dir, "d")
		err := WriteDir(sub, hook, func(temp string) error { return os.WriteFile(filepath.Join(temp, "x"), nil, 0o666) })
		if !errors.Is(err, broken) {
			t.Errorf("%s: %v", step, err)
		}
		left := []string{"f"}
		if step == StepSyncDir {
			left = []string{"d", "f"}
		}
		if got := names(t, dir); !slices.Equal(got, left) {
			t.Errorf("%s: left %q", step, got)
		}
	}
	dir := t.TempDir()
	for _, err := range []error{
		WriteFile(filepath.Join(dir, "f"), nil, func(*os.File) error { return broken }),
		WriteDir(filepath.Join(dir, "d"), nil, func(string) error { return broken }),
	} {
		if !errors.Is(err, broken) || len(names(t, dir)) > 0 {
			t.Errorf("fill fails: %v, left %q", err, names(t, dir))
		}
	}
}

func TestWriteDir(t *testing.T) {
	dir := t.TempDir()
	fill := func(temp string) error { return os.WriteFile(filepath.Join(temp, "x"), []byte("x"), 0o666) }
	for _, name := range []string{"new", "empty", "slash/"} {
		if name == "empty" {
			os.Mkdir(filepath.Join(dir, name), 0o777)
		}
		if err := WriteDir(dir+"/"+name, nil, fill); err != nil {
			t.Fatal(err)
		}
	}
	if err := WriteDir(filepath.Join(dir, "new"), nil, fill); err == nil {
		t.Error("took the place of a full directory")
	}
	if got := names(t, dir); !slices.Equal(got, []string{"empty", "new", "slash"}) {
		t.Errorf("left %q", got)
	}
}

func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	a, b := tempName(filepath.Join(dir, "a.safetensors")), tempName(filepath.Join(dir, "b"))
	for _, p := range []string{a, b, filepath.Join(dir, "other"), filepath.Join(dir, ".hidden")} {
		os.WriteFile(p, nil, 0o666)
	}
	if got := Leftovers(dir, ""); !slices.Equal(got, []string{a, b}) {
		t.Errorf("all: %q", got)
	}
	if got := Leftovers(dir, "b"); !slices.Equal(got, []string{b}) {
		t.Errorf("of b: %q", got)
	}
	if !Temporary(filepath.Base(a)) || Temporary("x.ckpt-tmp-notes.md") || Temporary("a.safetensors") || strings.HasSuffix(a, ".safetensors") {
		t.Errorf("name %q", a)
	}
}
