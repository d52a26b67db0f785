package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// targetFlags are those of every editing command.
func targetFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "in-place", Usage: "change MODEL itself"},
		&cli.StringFlag{Name: "out", Usage: "write a changed copy to the new directory `DIR`"},
		&cli.BoolFlag{Name: "dry-run", Usage: "print what would be done"},
		&cli.BoolFlag{Name: "link", Usage: "with --out: hard links for weight files that do not change"},
		&cli.BoolFlag{Name: "in-cache", Usage: "with --in-place: allow a snapshot of Hugging Face's cache, whose links are replaced by files"},
	}
}

// targetOf reads the target flags. An edit says where it goes; --dry-run tells
// what --in-place would do, its refusals included.
func targetOf(c *cli.Context) (t checkpoint.Target, dryRun bool, err error) {
	n := 0
	for _, name := range []string{"in-place", "out", "dry-run"} {
		if c.IsSet(name) && (name == "out" || c.Bool(name)) {
			n++
		}
	}
	switch {
	case n != 1:
		return t, false, usage("%s needs exactly one of --in-place, --out DIR and --dry-run", c.Command.Name)
	case c.IsSet("out") && c.String("out") == "":
		return t, false, usage("--out needs a directory")
	case c.Bool("link") && !c.IsSet("out"):
		return t, false, usage("--link goes with --out")
	case c.Bool("in-cache") && c.IsSet("out"):
		return t, false, usage("--in-cache goes with --in-place")
	}
	return checkpoint.Target{Out: c.String("out"), Link: c.Bool("link"), InCache: c.Bool("in-cache")}, c.Bool("dry-run"), nil
}

// writePlan is a plan for printing.
type writePlan struct {
	Steps     []checkpoint.Step `json:"steps"`
	Bytes     int64             `json:"bytes"`
	Leftovers []string          `json:"leftovers"`
}

func newWritePlan(p *checkpoint.WritePlan) writePlan {
	if p == nil {
		return writePlan{Steps: []checkpoint.Step{}, Leftovers: []string{}}
	}
	return writePlan{append([]checkpoint.Step{}, p.Steps...), p.Bytes, append([]string{}, p.Leftovers...)}
}

func (p writePlan) print(w io.Writer, dryRun bool) {
	if dryRun {
		for _, s := range p.Steps {
			fmt.Fprintf(w, "  %s %q (%s)\n", s.Action, s.File, size(s.Bytes))
		}
	}
	for _, l := range p.Leftovers {
		fmt.Fprintf(w, "  left by an interrupted run, may be deleted: %q\n", l)
	}
}
