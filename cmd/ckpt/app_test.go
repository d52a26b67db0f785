package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/ckpt-surgery/ckpt/internal/vectors"
)

// TestExamples runs each command that a help text gives as an example.
func TestExamples(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := vectors.NVFP4(vectors.T0(), false).Write("my-model-NVFP4"); err != nil {
		t.Fatal(err)
	}
	for _, c := range newApp(&session{}).Commands {
		_, text, _ := strings.Cut(c.Description, "Example: ")
		examples, codes, _ := strings.Cut(text, "\n\n")
		if !strings.HasPrefix(examples, "ckpt "+c.Name) {
			t.Errorf("%s: the help lacks an example", c.Name)
		}
		if !strings.Contains(codes, "Exit codes:") {
			t.Errorf("%s: the help lacks the exit codes", c.Name)
		}
		for example := range strings.Lines(examples) {
			args, _, _ := strings.Cut(example, " >")
			var stderr bytes.Buffer
			if code := run(strings.Fields(args), io.Discard, &stderr); code != exitDone {
				t.Errorf("%s: exit code %d: %s", example, code, stderr.String())
			}
		}
	}
}

// TestComma checks that a flag given several times may hold a comma, as regular
// expressions do.
func TestComma(t *testing.T) {
	app := newApp(&session{})
	var got []string
	app.Commands = append(app.Commands, &cli.Command{
		Name:  "try",
		Flags: []cli.Flag{&cli.StringSliceFlag{Name: "only"}},
		Action: func(c *cli.Context) error {
			got = c.StringSlice("only")
			return nil
		},
	})
	args, err := permute(app, words("try m --only a{1,2} --only b"))
	if err == nil {
		err = app.Run(args)
	}
	if want := []string{"a{1,2}", "b"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func TestProgressNeedsTerminal(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, w := range []io.Writer{new(bytes.Buffer), file} {
		s := &session{stderr: w}
		update, stop := s.progress(cli.NewContext(newApp(s), flag.NewFlagSet("", flag.ContinueOnError), nil), "scan")
		if update != nil {
			t.Errorf("progress on a %T", w)
		}
		stop()
	}
}

func TestStampedVersion(t *testing.T) {
	for _, tt := range []struct{ ldflags, want string }{
		{"", "ckpt unknown (revision unknown, go1."},
		{"-X main.version=v1.2.3 -X main.revision=4f5e6d", "ckpt v1.2.3 (revision 4f5e6d, go1."},
	} {
		bin := filepath.Join(t.TempDir(), "ckpt.exe")
		build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags", tt.ldflags, "-o", bin, ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		got, err := exec.Command(bin, "version").Output()
		if err != nil || !strings.HasPrefix(string(got), tt.want) {
			t.Errorf("%q, %v; want %q", got, err, tt.want)
		}
	}
}

func TestShellQuote(t *testing.T) {
	for path, want := range map[string]string{
		"a/b-1.x_y:z@w+%": "a/b-1.x_y:z@w+%",
		"":                "''",
		"a b":             "'a b'",
		"it's":            `'it'\''s'`,
		"$HOME`x`\n*":     "'$HOME`x`\n*'",
		"~":               "'~'",
		"é":               "'é'",
		"-x":              "./-x",
		"--all x":         "'./--all x'",
	} {
		if got := shellQuote(path); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	}
}

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"plain “text” \"é\" 'x' \\": "plain “text” \"é\" 'x' \\",
		"\x1b[31m\x00\n\t\x7f":      `\x1b[31m\x00\n\t\x7f`,
		"\u009b\u202e\ufeff":        `\u009b\u202e\ufeff`,
		"\xff":                      "�",
	} {
		if got := clean(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 40: "5.0 TiB", 1<<63 - 1: "8.0 EiB"} {
		if got := size(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
