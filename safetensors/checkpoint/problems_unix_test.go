//go:build unix

package checkpoint_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

var second = tensorsOf(vectors.T0().Shards[1])

// unixFaults are faults of links, pipes and devices.
var unixFaults = []fault{
	{name: "link that leaves the model", openOnly: true,
		problem: want{checkpoint.LinkOutside, checkpoint.Fatal, shard2, second, nil, []string{"secret.safetensors", "copy the file"}},
		disk: func(t *testing.T, dir string) {
			// A pipe: whoever opens it waits for ever.
			replace(t, filepath.Join(dir, shard2), symlinkTo(pipe(t, filepath.Join(t.TempDir(), "secret.safetensors"))))
		}},
	{name: "link to a device", openOnly: true, problem: want{checkpoint.LinkOutside, checkpoint.Fatal, shard2, second, nil, []string{"/dev/zero"}},
		disk: func(t *testing.T, dir string) { replace(t, filepath.Join(dir, shard2), symlinkTo("/dev/zero")) }},
	{name: "link to a folder", problem: want{checkpoint.NotRegular, checkpoint.Fatal, shard2, second, nil, []string{"d---"}},
		disk: func(t *testing.T, dir string) { replace(t, filepath.Join(dir, shard2), symlinkTo(".")) }},
	{name: "pipe", problem: want{checkpoint.NotRegular, checkpoint.Fatal, shard2, second, nil, []string{"p---", "replace it"}},
		disk: func(t *testing.T, dir string) {
			replace(t, filepath.Join(dir, shard2), func(path string) error { return syscall.Mkfifo(path, 0o666) })
		}},
	{name: "link to a pipe", problem: want{checkpoint.NotRegular, checkpoint.Fatal, shard2, second, nil, []string{"p---"}},
		disk: func(t *testing.T, dir string) {
			replace(t, filepath.Join(dir, shard2), symlinkTo(filepath.Base(pipe(t, filepath.Join(dir, "pipe")))))
		}},
	{name: "dangling link", problem: want{checkpoint.IndexFileMissing, checkpoint.Fatal, shard2, second, nil, []string{"12 tensor(s)"}},
		disk: func(t *testing.T, dir string) { replace(t, filepath.Join(dir, shard2), symlinkTo("nosuch")) }},
	{name: "dangling link without an index", problem: want{checkpoint.IndexFileMissing, checkpoint.Fatal, shard2, nil, nil, []string{"link to a file that is not there"}},
		plant: func(m *vectors.Model) { m.Indexed = false },
		disk:  func(t *testing.T, dir string) { replace(t, filepath.Join(dir, shard2), symlinkTo("nosuch")) }},
	{name: "link loop", problem: want{checkpoint.ShardUnreadable, checkpoint.Fatal, shard2, second, errAny, []string{"too many"}},
		disk: func(t *testing.T, dir string) { replace(t, filepath.Join(dir, shard2), symlinkTo(shard2)) }},
	{name: "folder in the path is a file", problem: want{checkpoint.ShardUnreadable, checkpoint.Fatal, "config.json/x.safetensors", []string{lmHead}, errAny, []string{"not a directory"}},
		plant: func(m *vectors.Model) {
			m.Files[indexName] = indexed(m, lmHeadEntry, `"lm_head.weight": "config.json/x.safetensors"`)
		},
		disk: func(*testing.T, string) {}},
	{name: "name too long, with escapes", problem: want{checkpoint.ShardUnreadable, checkpoint.Fatal, "\x1b[2J\n" + strings.Repeat("n", 300) + ".safetensors",
		[]string{lmHead}, errAny, []string{"name too long"}},
		plant: func(m *vectors.Model) {
			m.Files[indexName] = indexed(m, lmHeadEntry, `"lm_head.weight": "\u001b[2J\n`+strings.Repeat("n", 300)+`.safetensors"`)
		},
		disk: func(*testing.T, string) {}},
}

func TestUnixFaults(t *testing.T) {
	for _, f := range unixFaults {
		t.Run(f.name, f.test)
	}
	src, err := os.ReadFile("problem.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`(?m)^\t\w+ += "([A-Z-]+)"`).FindAllSubmatch(src, -1)
	if len(codes) < 18 {
		t.Fatalf("%d codes in problem.go", len(codes))
	}
	tested := map[string]bool{}
	for _, f := range append(faults, unixFaults...) {
		tested[f.problem.code] = true
	}
	for _, code := range codes {
		if !tested[string(code[1])] {
			t.Errorf("code %s has no case", code[1])
		}
	}
}

// replace puts something else in the place of a file or folder.
func replace(t *testing.T, path string, with func(path string) error) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := with(path); err != nil {
		t.Fatal(err)
	}
}

func symlinkTo(target string) func(string) error {
	return func(path string) error { return os.Symlink(target, path) }
}

func pipe(t *testing.T, path string) string {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}
