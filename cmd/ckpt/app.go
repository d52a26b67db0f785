package main

import (
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
)

// newApp assembles the commands.
func newApp(s *session) *cli.App {
	app := &cli.App{
		Name:  "ckpt",
		Usage: "surgery on model checkpoints stored as safetensors",
		Description: strings.TrimSpace(`
Results go to stdout, everything else to stderr. Flags may stand anywhere; "--" ends them.
MODEL is a directory, one .safetensors file, an index, or a snapshot in Hugging Face's cache.` + exitCodes),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object on stdout"},
			&cli.BoolFlag{Name: "quiet", Usage: "draw no progress"},
		},
		Commands: []*cli.Command{
			inspectCommand(s),
			scanNaNCommand(s),
			clampNaNCommand(s),
			demoCommand(s),
			versionCommand(s),
			completionCommand(s),
		},
		Before: func(c *cli.Context) error {
			s.json = c.Bool("json") // until here it was a guess
			return nil
		},
		Writer:                    &s.help,
		ErrWriter:                 s.stderr,
		HideVersion:               true,
		DisableSliceFlagSeparator: true, // a pattern may hold a comma
		ExitErrHandler:            func(*cli.Context, error) {},
	}
	app.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return usage("%w", err) }
	app.Action = func(c *cli.Context) error {
		if c.Args().Present() {
			return usage("there is no command %q; see ckpt --help", c.Args().First())
		}
		if s.json {
			return usage("no command; see ckpt --help")
		}
		cli.ShowAppHelp(c)
		return usage("no command")
	}
	for _, c := range app.Commands {
		c.Description += exitCodes
		c.OnUsageError = app.OnUsageError
		c.HideHelpCommand = true // "help" may be a model's name
	}
	return app
}

const exitCodes = `

Exit codes: 0 done, nothing found; 1 something was found; 2 wrong usage, or refused;
3 a file could not be read or is malformed; 130 interrupted.`

// wantsJSON looks for --json before the flags are parsed, so that a usage error
// is printed as JSON too.
func wantsJSON(args []string) (wants bool) {
	for _, a := range args[min(1, len(args)):] {
		if a == "--" {
			break
		}
		name, value, given := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if name != "json" || a[0] != '-' {
			continue
		}
		if !given {
			value = "true"
		}
		wants, _ = strconv.ParseBool(value)
	}
	return wants
}
