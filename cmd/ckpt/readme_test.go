package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
)

// TestReadme runs the commands of the README's console blocks on the demo's
// checkpoint, and compares what they print.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if code := run([]string{"ckpt", "demo"}, io.Discard, io.Discard); code != exitDone {
		t.Fatalf("demo: exit code %d", code)
	}
	blocks := strings.Split(string(text), "```console\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("the README has no console block")
	}
	for _, b := range blocks {
		block, _, _ := strings.Cut(b, "```")
		line, want, _ := strings.Cut(block, "\n")
		var out bytes.Buffer
		run(strings.Fields(strings.TrimPrefix(line, "$ ")), &out, io.Discard)
		if out.String() != want {
			t.Errorf("%s prints\n%s\nthe README says\n%s", line, out.String(), want)
		}
	}
}
