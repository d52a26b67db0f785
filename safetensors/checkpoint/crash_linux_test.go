package checkpoint_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// A crashCase is a way of writing, and what must hold when it is cut short.
type crashCase struct {
	name  string
	model func() *vectors.Model
	// prepare changes the directory before the write.
	prepare func(t *testing.T, dir string)
	change  func(c *checkpoint.Checkpoint) checkpoint.Change
	out     bool // into a new directory
}

var crashCases = []crashCase{
	{name: "overwrite", model: vectors.T0, change: bumpTensor},
	{name: "replace", model: vectors.T0, change: bumpTensor, prepare: func(t *testing.T, dir string) {
		for _, shard := range []string{shard1, shard2} {
			if err := os.Link(filepath.Join(dir, shard), filepath.Join(dir, "..", filepath.Base(dir)+shard)); err != nil {
				t.Fatal(err)
			}
		}
	}},
	{name: "copy", model: vectors.T0, change: bumpTensor, out: true},
	{name: "add", model: vectors.T0, change: addHead},
	{name: "add to one file", model: func() *vectors.Model { return vectors.T0().OneFile() }, change: addHead},
}

// target is where a case writes.
func (k crashCase) target(dir string) checkpoint.Target {
	if k.out {
		return checkpoint.Target{Out: dir + "-out"}
	}
	return checkpoint.Target{}
}

// run opens, plans and writes.
func (k crashCase) run(dir string, hook checkpoint.Hook) error {
	c, err := checkpoint.Open(dir, checkpoint.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := c.Plan(k.change(c), k.target(dir))
	if err != nil {
		return err
	}
	_, err = p.Run(context.Background(), checkpoint.RunOptions{Hook: hook})
	return err
}

// set makes a case's model in a fresh directory.
func (k crashCase) set(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if err := k.model().Write(dir); err != nil {
		t.Fatal(err)
	}
	if k.prepare != nil {
		k.prepare(t, dir)
	}
	return dir
}

// steps counts the hook points of a case.
func (k crashCase) steps(t *testing.T) (names []string) {
	if err := k.run(k.set(t), func(step, path string) error {
		names = append(names, step+" "+filepath.Base(path))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

// judge holds a directory against the old and the new state.
func (k crashCase) judge(t *testing.T, dir, when string) (isNew bool) {
	t.Helper()
	if k.out {
		c, err := checkpoint.Open(dir, checkpoint.Options{})
		if err != nil || len(c.Problems()) > 0 {
			t.Fatalf("%s: the source: %v", when, err)
		}
		c.Close()
		if _, err := os.Lstat(dir + "-out"); err != nil {
			return false // all that is left has a name of ours
		}
		dir += "-out"
	}
	c, err := checkpoint.Open(dir, checkpoint.Options{})
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	defer c.Close()
	for _, p := range c.Problems() {
		if p.Code != checkpoint.IndexFileUnlisted || p.File != headName {
			t.Errorf("%s: problem %+v", when, p)
		}
	}
	old := k.model()
	head := 0
	for x := range c.Tensors() {
		got, err := io.ReadAll(x.Reader())
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if x.Shard.Name == headName {
			head++
			continue
		}
		want := old.Tensor(x.Name).Data
		for i := range got {
			if got[i] != want[i] && (x.Name != crashTensor || got[i] != want[i]|1) {
				t.Fatalf("%s: byte %d of %s is %#x, was %#x", when, i, x.Name, got[i], want[i])
			}
		}
		if x.Name == crashTensor {
			isNew = !slices.Equal(got, want)
		}
	}
	if want := len(old.Names()); c.Len() != want+head || head != 0 && head != 2 {
		t.Errorf("%s: %d tensors, %d of them the head's", when, c.Len(), head)
	}
	if head > 0 && string(c.Config()) != `{"new":true}` {
		t.Errorf("%s: the head is listed before config.json tells of it", when)
	}
	return isNew || head > 0
}

// leftovers checks that everything a killed run has left has a name of ours, and
// that the next run names it.
func (k crashCase) leftovers(t *testing.T, dir, when string) {
	t.Helper()
	parent := dir
	if k.out {
		parent = filepath.Dir(dir)
	}
	entries, _ := os.ReadDir(parent)
	n := 0
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			if n++; !strings.Contains(e.Name(), ".ckpt-tmp-") {
				t.Errorf("%s: left %q", when, e.Name())
			}
		}
	}
	c, err := checkpoint.Open(dir, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	to := k.target(dir)
	if k.out {
		os.RemoveAll(to.Out)
	}
	p, err := c.Plan(bumpTensor(c), to)
	if err != nil {
		t.Fatalf("%s: the next run: %v", when, err)
	}
	if len(p.Leftovers) != n {
		t.Errorf("%s: %d leftovers, the next run names %q", when, n, p.Leftovers)
	}
}

// crashEnv tells a re-executed test to be the writer: case, directory and the
// step at which to stop, or -1.
const crashEnv = "CKPT_TEST_CRASH"

// TestKilled kills a child with SIGKILL at every step, and at random moments.
func TestKilled(t *testing.T) {
	if args := os.Getenv(crashEnv); args != "" {
		crashChild(args)
	}
	for i, k := range crashCases {
		t.Run(k.name, func(t *testing.T) {
			steps := k.steps(t)
			if len(steps) < 2 {
				t.Fatalf("steps %q", steps)
			}
			seen := map[bool]int{}
			for n, step := range steps {
				dir := k.set(t)
				kill(t, fmt.Sprintf("%d|%s|%d", i, dir, n), func(out io.Reader) {
					bufio.NewReader(out).ReadString('\n') // it stands at the step
				})
				isNew := k.judge(t, dir, "killed at "+step)
				seen[isNew]++
				k.leftovers(t, dir, "killed at "+step)
				if !isNew { // the next run finishes
					if err := k.run(dir, nil); err != nil || !k.judge(t, dir, "run again after "+step) {
						t.Errorf("run again after being killed at %s: %v", step, err)
					}
				}
			}
			t.Logf("%d steps: %d left the old state, %d the new one", len(steps), seen[false], seen[true])
			if seen[false] == 0 {
				t.Error("no step leaves the old state")
			}
		})
		t.Run(k.name+" at random", func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(i), 5))
			for range 50 / len(crashCases) {
				dir := k.set(t)
				delay := time.Duration(r.Int64N(int64(20 * time.Millisecond)))
				kill(t, fmt.Sprintf("%d|%s|-1", i, dir), func(out io.Reader) {
					bufio.NewReader(out).ReadString('\n') // it has begun
					time.Sleep(delay)
				})
				when := fmt.Sprintf("killed after %v", delay)
				k.judge(t, dir, when)
				k.leftovers(t, dir, when)
			}
		})
	}
}

// kill starts the writer, waits until ready returns, and kills it.
func kill(t *testing.T, args string, ready func(io.Reader)) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), crashEnv+"="+args)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	ready(out)
	cmd.Process.Kill()
	cmd.Wait()
}

// crashChild writes, and at its step says so and waits to be killed.
func crashChild(args string) {
	f := strings.Split(args, "|")
	i, _ := strconv.Atoi(f[0])
	stop, _ := strconv.Atoi(f[2])
	if stop < 0 {
		fmt.Println("begin")
	}
	n := 0
	err := crashCases[i].run(f[1], func(step, path string) error {
		if n == stop {
			fmt.Println(step)
			select {}
		}
		n++
		return nil
	})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// TestStepFails lets every step fail: an error comes back, the model is in its
// old or its new state, and a new directory is not there at all.
func TestStepFails(t *testing.T) {
	broken := errors.New("broken")
	for _, k := range crashCases {
		t.Run(k.name, func(t *testing.T) {
			for n, step := range k.steps(t) {
				dir := k.set(t)
				at := 0
				err := k.run(dir, func(string, string) error {
					if at++; at == n+1 {
						return broken
					}
					return nil
				})
				if !errors.Is(err, broken) {
					t.Fatalf("%s: error %v", step, err)
				}
				k.judge(t, dir, "failed at "+step)
				left, _ := filepath.Glob(filepath.Join(dir, "..", ".*tmp*"))
				inside, _ := filepath.Glob(filepath.Join(dir, ".*tmp*"))
				if len(left)+len(inside) > 0 {
					t.Errorf("failed at %s: left %q %q", step, left, inside)
				}
			}
		})
	}
}
