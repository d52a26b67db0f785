package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// completeCommand is what the scripts for bash and zsh ask the program with: the
// words of the line follow, the last one being written.
const completeCommand = "__complete"

const bashCompletion = `_ckpt() {
  local cur=${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "$cur"))
}
complete -o default -F _ckpt ckpt
`

const zshCompletion = `#compdef ckpt
_ckpt() {
  local -a answers
  answers=(${(f)"$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  compadd -a answers
  _files
}
if [[ $funcstack[1] == _ckpt ]]; then
  _ckpt "$@"
else
  compdef _ckpt ckpt
fi
`

// complete prints what the last of the words may become, file names aside. The
// library's own completion runs a command whose line holds "--".
func complete(app *cli.App, words []string, w io.Writer) {
	if len(words) == 0 {
		return
	}
	before, last := words[:len(words)-1], words[len(words)-1]
	if slices.Contains(before, "--") {
		return
	}
	command := findCommand(app, append([]string{app.Name}, before...))
	switch {
	case strings.HasPrefix(last, "-"):
		flags := append(slices.Clone(app.Flags), cli.HelpFlag)
		if command != nil {
			flags = append(flags, command.Flags...)
		}
		for _, f := range flags {
			fmt.Fprintf(w, "--%s\n", f.Names()[0])
		}
	case command == nil:
		for _, c := range app.Commands {
			fmt.Fprintln(w, c.Name)
		}
		fmt.Fprintln(w, "help")
	case command.Name == "completion":
		fmt.Fprintln(w, strings.Join(shells, "\n"))
	}
}

type completionReport struct {
	header
	Shell  string `json:"shell"`
	Script string `json:"script"`
}

func (r *completionReport) print(w io.Writer) { io.WriteString(w, r.Script) }

var shells = []string{"bash", "zsh", "fish"}

func completionCommand(s *session) *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print a completion script",
		ArgsUsage: strings.Join(shells, "|"),
		Description: `Example: ckpt completion bash > /etc/bash_completion.d/ckpt
         ckpt completion fish > ~/.config/fish/completions/ckpt.fish`,
		Action: func(c *cli.Context) error {
			shell := c.Args().First()
			if c.NArg() != 1 || !slices.Contains(shells, shell) {
				return usage("completion needs bash, zsh or fish")
			}
			script := map[string]string{"bash": bashCompletion, "zsh": zshCompletion}[shell]
			if shell == "fish" {
				var err error
				if script, err = c.App.ToFishCompletion(); err != nil {
					return err
				}
			}
			return s.done(&completionReport{Shell: shell, Script: script}, exitDone, nil)
		},
	}
}
