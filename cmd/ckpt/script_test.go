package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

type errUnknown string

func (e errUnknown) Error() string { return fmt.Sprintf("unknown condition %q", string(e)) }

// scriptCommands are
//
//	model KIND DIR                    write a model of internal/vectors; KIND hub sets $SNAPSHOT
//	plant DIR TENSOR ELEMENT HEX      overwrite an element; HEX is its bytes as stored
//	header FILE HEADER [DATA]         write a safetensors file with any header
//	sparse FILE GIB                   write a file of one huge F32 tensor that takes no room
//	exits CODE PROGRAM [ARG]...       exec, and check the exit code
//	[!] json [PATH VALUE]...          stdout is one JSON object and has these values; see lookupJSON
//	interrupt CODE FILE PROGRAM [ARG]...
//	                                  start, send SIGINT once FILE is open, check the exit code and that it came within
//	                                  a second; output goes to the files out and err (linux)
var scriptCommands = map[string]func(*testscript.TestScript, bool, []string){
	"model":     cmdModel,
	"plant":     cmdPlant,
	"header":    cmdHeader,
	"sparse":    cmdSparse,
	"exits":     cmdExits,
	"json":      cmdJSON,
	"interrupt": cmdInterrupt,
}

// arguments fails the script unless there are at least n of them.
func arguments(ts *testscript.TestScript, neg bool, args []string, n int, usage string) {
	if neg || len(args) < n {
		ts.Fatalf("usage: %s", usage)
	}
}

// writer is a vectors.Model or a vectors.Pipeline.
type writer interface{ Write(dir string) error }

var models = map[string]func() writer{
	"T0":        func() writer { return vectors.T0() },
	"T1":        func() writer { return vectors.T1() },
	"T2":        func() writer { return vectors.T2() },
	"T3":        func() writer { return vectors.T3() },
	"T4":        func() writer { return vectors.T4() },
	"N":         func() writer { return vectors.NVFP4(vectors.T0(), false) },
	"M":         func() writer { return vectors.ModelOptNVFP4(vectors.T0()) },
	"F":         func() writer { return vectors.FP8Channel(vectors.T0()) },
	"B":         func() writer { return vectors.FP8Block(vectors.T0()) },
	"I8":        func() writer { return vectors.INT8(vectors.T0()) },
	"I4":        func() writer { return vectors.INT4(vectors.T0(), 32) },
	"diffusers": func() writer { return vectors.Diffusers() },
}

func cmdModel(ts *testscript.TestScript, neg bool, args []string) {
	arguments(ts, neg, args, 2, "model KIND DIR")
	kind, dir := args[0], ts.MkAbs(args[1])
	if kind == "hub" {
		snapshot, err := vectors.HubCache(vectors.NVFP4(vectors.T0(), false), dir)
		ts.Check(err)
		ts.Setenv("SNAPSHOT", snapshot)
		return
	}
	build := models[kind]
	if build == nil {
		ts.Fatalf("kinds: hub %v", slices.Sorted(maps.Keys(models)))
	}
	ts.Check(build().Write(dir))
}

func cmdPlant(ts *testscript.TestScript, neg bool, args []string) {
	arguments(ts, neg, args, 4, "plant DIR TENSOR ELEMENT HEX")
	dir := ts.MkAbs(args[0])
	ck, err := checkpoint.Open(dir, checkpoint.Options{})
	ts.Check(err)
	defer ck.Close()
	t, ok := ck.Tensor(args[1])
	if !ok {
		ts.Fatalf("no tensor %q", args[1])
	}
	element, err := strconv.ParseInt(args[2], 10, 64)
	ts.Check(err)
	value, err := hex.DecodeString(args[3])
	ts.Check(err)
	path := filepath.Join(dir, t.Shard.Name)
	data, err := os.ReadFile(path)
	ts.Check(err)
	copy(data[t.Offset:][:t.Bytes][element*int64(len(value)):], value)
	ts.Check(os.WriteFile(path, data, 0o666))
}

func cmdHeader(ts *testscript.TestScript, neg bool, args []string) {
	arguments(ts, neg, args, 2, "header FILE HEADER [DATA]")
	path := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(filepath.Dir(path), 0o777))
	ts.Check(os.WriteFile(path, vectors.Raw(args[1], []byte(strings.Join(args[2:], " "))), 0o666))
}

func cmdSparse(ts *testscript.TestScript, neg bool, args []string) {
	arguments(ts, neg, args, 2, "sparse FILE GIB")
	gib, err := strconv.ParseInt(args[1], 10, 32)
	ts.Check(err)
	size := gib << 30
	head := vectors.Raw(fmt.Sprintf(`{"model.norm.weight":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]}}`, size/4, size), nil)
	path := ts.MkAbs(args[0])
	ts.Check(os.WriteFile(path, head, 0o666))
	ts.Check(os.Truncate(path, int64(len(head))+size))
}

func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	arguments(ts, neg, args, 2, "exits CODE PROGRAM [ARG]...")
	checkCode(ts, args[0], ts.Exec(args[1], args[2:]...))
}

// checkCode fails the script unless err is what a program returns that ended with
// the exit code want.
func checkCode(ts *testscript.TestScript, want string, err error) {
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(got) != want {
		ts.Fatalf("exit code %d, want %s", got, want)
	}
}

func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	out := ts.ReadFile("stdout")
	dec := json.NewDecoder(strings.NewReader(out))
	dec.UseNumber()
	var object map[string]any
	ts.Check(dec.Decode(&object))
	if err := dec.Decode(new(any)); err != io.EOF {
		ts.Fatalf("something follows the object on stdout: %v", err)
	}
	if !strings.HasSuffix(out, "}\n") {
		ts.Fatalf("stdout does not end in a newline")
	}
	if neg {
		for _, path := range args {
			if got, err := lookupJSON(object, path); err == nil {
				ts.Fatalf("%s is there: %s", path, got)
			}
		}
		return
	}
	if len(args)%2 != 0 {
		ts.Fatalf("usage: [!] json [PATH VALUE]...")
	}
	for pair := range slices.Chunk(args, 2) {
		got, err := lookupJSON(object, pair[0])
		ts.Check(err)
		if got != pair[1] {
			ts.Fatalf("%s is %s, want %s", pair[0], got, pair[1])
		}
	}
}

// lookupJSON follows a path such as models.0.findings and writes what is there: a
// string as it is, anything else as JSON. A last step len gives the length of a
// list, @ the sorted keys of an object.
func lookupJSON(v any, path string) (string, error) {
	for step := range strings.SplitSeq(path, ".") {
		object, isObject := v.(map[string]any)
		list, isList := v.([]any)
		i, err := strconv.Atoi(step)
		next, ok := object[step]
		switch {
		case step == "len" && isList:
			return strconv.Itoa(len(list)), nil
		case step == "@" && isObject:
			return strings.Join(slices.Sorted(maps.Keys(object)), " "), nil
		case isList && err == nil && i < len(list):
			v = list[i]
		case ok:
			v = next
		default:
			return "", fmt.Errorf("there is no %s of %s", step, path)
		}
	}
	if s, ok := v.(string); ok {
		return s, nil
	}
	text, err := json.Marshal(v)
	return string(text), err
}

func cmdInterrupt(ts *testscript.TestScript, neg bool, args []string) {
	arguments(ts, neg, args, 3, "interrupt CODE FILE PROGRAM [ARG]...")
	bin := ""
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if path := filepath.Join(dir, args[2]); bin == "" {
			if _, err := os.Stat(path); err == nil {
				bin = path
			}
		}
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(bin, args[3:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), &stdout, &stderr
	ts.Check(cmd.Start())
	defer cmd.Process.Kill()
	file, err := filepath.EvalSymlinks(ts.MkAbs(args[1]))
	ts.Check(err)
	for deadline := time.Now().Add(20 * time.Second); !isOpen(cmd.Process.Pid, file); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("%s was not opened", args[1])
		}
	}
	start := time.Now()
	ts.Check(cmd.Process.Signal(os.Interrupt))
	err = cmd.Wait()
	took := time.Since(start)
	ts.Check(os.WriteFile(ts.MkAbs("out"), stdout.Bytes(), 0o666))
	ts.Check(os.WriteFile(ts.MkAbs("err"), stderr.Bytes(), 0o666))
	checkCode(ts, args[0], err)
	if took > time.Second {
		ts.Fatalf("took %v to end", took)
	}
}

// isOpen reports whether a process has a file open.
func isOpen(pid int, path string) bool {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	return slices.ContainsFunc(links, func(link string) bool {
		target, _ := os.Readlink(link)
		return target == path
	})
}
