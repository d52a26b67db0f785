package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
)

// permutations are command lines and what the flag parser gets for them.
var permutations = []struct{ line, want string }{
	{"", ""},
	{"--json", "--json"},
	{"version", "version"},
	{"version --json", "--json version"},
	{"inspect m --json", "--json inspect -- m"},
	{"inspect m -json --quiet=false", "-json --quiet=false inspect -- m"},
	{"inspect m --component vae", "inspect --component vae -- m"},
	{"inspect m --component=vae", "inspect --component=vae -- m"},
	{"inspect --component vae m", "inspect --component vae -- m"},
	{"--component vae inspect m", "inspect --component vae -- m"},
	{"--component=vae --json inspect m", "--json inspect --component=vae -- m"},
	{"--component inspect inspect inspect", "inspect --component inspect -- inspect"},
	{"inspect m --component --json", "inspect --component --json -- m"},
	{"inspect m --component --", "inspect --component -- -- m"},
	{"scan-nan a --all b --json c", "--json scan-nan --all -- a b c"},
	{"scan-nan a -- --all -- b", "scan-nan -- a --all -- b"},
	{"scan-nan --all=true a", "scan-nan --all=true -- a"},
	{"-- scan-nan --all", "scan-nan -- --all"},
	{"--all -- scan-nan --json", "scan-nan --all -- --json"},
	{"-- --json version", "-- --json version"},
	{"scan-nan -", "scan-nan -- -"},
	{"inspect inspect", "inspect -- inspect"},
	{"inspect m --frob x", "inspect --frob -- m x"},
	{"--frob inspect m", "inspect --frob -- m"},
	{"--component inspect", "--component -- inspect"},
	{"frobnicate m --json", "--json -- frobnicate m"},
	{"frobnicate --all m", "--all -- frobnicate m"},
	{"help inspect --json", "--json -- help inspect"},
	{"inspect a b --json --help", "--json inspect --help"},
	{"-h inspect", "inspect -h"},
	{"scan-nan -- --help", "scan-nan -- --help"},
	{"--help m", "--help -- m"},
	{"inspect ---component m", "inspect ---component m"},
}

func TestPermute(t *testing.T) {
	app := newApp(&session{})
	for _, tt := range permutations {
		got, err := permute(app, words(tt.line))
		if err != nil {
			t.Errorf("%s: %v", tt.line, err)
		}
		if diff := cmp.Diff(words(tt.want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.line, diff)
		}
	}
	if got, err := permute(app, nil); len(got) != 0 || err != nil {
		t.Errorf("without a program's name: %q, %v", got, err)
	}
	for _, line := range []string{"inspect m --component", "--component vae inspect m -component"} {
		if got, err := permute(app, words(line)); err == nil {
			t.Errorf("%s: a flag lacks its value, yet %q", line, got)
		}
	}
}

// words splits a line and puts the program's name before it.
func words(line string) []string { return append([]string{"ckpt"}, strings.Fields(line)...) }

// FuzzPermute checks that no argument is lost, made up or changed, and that a
// command's arguments that are in order stay as they are.
func FuzzPermute(f *testing.F) {
	for _, tt := range permutations {
		f.Add(tt.line)
	}
	app := newApp(&session{})
	f.Fuzz(func(t *testing.T, line string) {
		args := append([]string{"ckpt"}, strings.Split(line, " ")...)
		before := slices.Clone(args)
		complete(app, args[1:], io.Discard)
		wantsJSON(args)
		got, err := permute(app, args)
		if !slices.Equal(args, before) {
			t.Fatalf("%q became %q", before, args)
		}
		isHelp := func(arg string) bool { return lookup([]cli.Flag{cli.HelpFlag}, arg) != nil }
		if err != nil || slices.ContainsFunc(args, isHelp) {
			return
		}
		if a, b := bag(args), bag(got); !slices.Equal(a, b) {
			t.Fatalf("%q has other arguments than %q", got, args)
		}
		if findCommand(app, args) == nil {
			return
		}
		again, err := permute(app, got)
		if err != nil || !slices.Equal(again, got) {
			t.Fatalf("%q and then %q, %v", got, again, err)
		}
	})
}

// bag returns the arguments sorted, without the "--".
func bag(args []string) []string {
	return slices.DeleteFunc(slices.Sorted(slices.Values(args)), func(a string) bool { return a == "--" })
}

func TestWantsJSON(t *testing.T) {
	for line, want := range map[string]bool{
		"":                       false,
		"--json":                 true,
		"-json":                  true,
		"inspect m --json":       true,
		"inspect --json m":       true,
		"--frob --json":          true,
		"inspect -- --json":      false,
		"inspect json":           false,
		"inspect --jsonl":        false,
		"--json=true":            true,
		"--json=1":               true,
		"--json=false":           false,
		"--json=maybe":           false,
		"--json --json=false":    false,
		"--json=false m -json":   true,
		"inspect - --json":       true,
		"inspect --component=js": false,
	} {
		if got := wantsJSON(words(line)); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
	if wantsJSON(nil) || wantsJSON([]string{"--json"}) || wantsJSON([]string{"ckpt", ""}) {
		t.Error("nothing asks for JSON")
	}
}
