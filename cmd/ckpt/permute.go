package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// permute puts the arguments into the order that the flag parser wants, which
// stops at the first positional: global flags, the command, its flags, "--" and
// the positionals. Those of a command whose help is asked for are left out: the
// library would look for the help of the first.
func permute(app *cli.App, args []string) ([]string, error) {
	if len(args) == 0 {
		return args, nil
	}
	command := findCommand(app, args)
	var globals, flags, positionals []string
	help := false
	rest := args[1:]
	for len(rest) > 0 {
		arg := rest[0]
		rest = rest[1:]
		if arg == "--" {
			positionals = append(positionals, rest...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			positionals = append(positionals, arg)
			continue
		}
		help = help || lookup([]cli.Flag{cli.HelpFlag}, arg) != nil
		out, takes := &flags, false
		if f := find(command, arg); f != nil {
			takes = takesValue(f, arg)
		} else if f := lookup(app.Flags, arg); f != nil {
			out, takes = &globals, takesValue(f, arg)
		}
		*out = append(*out, arg)
		if takes {
			if len(rest) == 0 {
				return nil, usage("%s needs a value", arg)
			}
			*out = append(*out, rest[0])
			rest = rest[1:]
		}
	}
	out := append([]string{args[0]}, globals...)
	if command != nil && len(positionals) > 0 && positionals[0] == command.Name {
		out = append(append(out, command.Name), flags...)
		positionals = positionals[1:]
		if help {
			return out, nil
		}
	} else {
		out = append(out, flags...)
	}
	if len(positionals) > 0 {
		out = append(out, "--")
	}
	return append(out, positionals...), nil
}

// findCommand returns the command that the first positional names. A flag before
// it may belong to any command, and any of them says whether it takes a value.
func findCommand(app *cli.App, args []string) *cli.Command {
	for i := 1; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			if i+1 == len(args) {
				return nil
			}
			return app.Command(args[i+1])
		case len(arg) < 2 || arg[0] != '-':
			return app.Command(arg)
		}
		f := lookup(app.Flags, arg)
		for _, c := range app.Commands {
			if f == nil {
				f = lookup(c.Flags, arg)
			}
		}
		if f != nil && takesValue(f, arg) {
			i++
		}
	}
	return nil
}

func find(c *cli.Command, arg string) cli.Flag {
	if c == nil {
		return nil
	}
	return lookup(c.Flags, arg)
}

func lookup(flags []cli.Flag, arg string) cli.Flag {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

// takesValue reports whether the flag, written as arg, takes the next argument.
func takesValue(f cli.Flag, arg string) bool {
	_, isBool := f.(*cli.BoolFlag)
	return !isBool && !strings.Contains(arg, "=")
}
