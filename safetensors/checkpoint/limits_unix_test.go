//go:build linux || darwin

package checkpoint_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

const limitsDir = "CHECKPOINT_TEST_LIMITS_DIR"

// TestTenThousandShards opens and reads ten thousand shards in a process that
// may have 256 descriptors.
func TestTenThousandShards(t *testing.T) {
	const n = 10_000
	if dir := os.Getenv(limitsDir); dir != "" {
		limitDescriptors(t, 256)
		readShards(t, dir, n)
		if err := os.Remove(filepath.Join(dir, indexName)); err != nil {
			t.Fatal(err)
		}
		readShards(t, dir, n)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestTenThousandShards$", "-test.v")
	cmd.Env = append(os.Environ(), limitsDir+"="+written(t, many(n)))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// limitDescriptors sets the process's limit and sees that it holds.
func limitDescriptors(t *testing.T, most uint64) {
	t.Helper()
	limit := syscall.Rlimit{Cur: most, Max: most}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	var open []*os.File
	for range most {
		if f, err := os.Open(os.DevNull); err == nil {
			open = append(open, f)
		}
	}
	for _, f := range open {
		f.Close()
	}
	if len(open) == 0 || len(open) == int(most) {
		t.Fatalf("%d files could be opened", len(open))
	}
}

// readShards opens the model of many(n) in dir and reads every shard, most of
// them at the same time as others.
func readShards(t *testing.T, dir string, n int) {
	t.Helper()
	c, err := checkpoint.Open(dir, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	expect(t, c)
	if c.Len() != n || len(c.Shards()) != n {
		t.Fatalf("%d tensors in %d shards", c.Len(), len(c.Shards()))
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			name := fmt.Sprintf("t%d", i)
			if got, err := readAll(c, name); err != nil || string(got) != fmt.Sprintf("tensor %04d", i) {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		})
	}
	wg.Wait()
}
