package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/ckpt-surgery/ckpt/internal/pyregex"
	"github.com/ckpt-surgery/ckpt/patch"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
	"github.com/ckpt-surgery/ckpt/scheme/scan"
)

type clampReport struct {
	header
	Model      string               `json:"model"`
	DryRun     bool                 `json:"dry_run"`
	Changed    []patch.Clamped      `json:"changed"`
	Refused    []scan.Finding       `json:"refused"`
	Left       []scan.Finding       `json:"left"`
	Findings   []checkpoint.Problem `json:"findings"`
	Plan       writePlan            `json:"plan"`
	Written    []checkpoint.Written `json:"written"`
	NotChecked []string             `json:"not_checked"`
}

func clampNaNCommand(s *session) *cli.Command {
	return &cli.Command{
		Name:      "clamp-nan",
		Usage:     "replace NaN bytes among E4M3 block scales by the largest finite scale",
		ArgsUsage: "MODEL",
		Description: `Writes 0x7E over 0x7F and 0xFF in E4M3 block scales, and nothing else. Every float tensor is scanned
first; NaN or Inf for which no right value is known is listed and nothing is written.

Example: ckpt clamp-nan ./my-model-NVFP4 --out ./my-model-NVFP4-fixed`,
		Flags: append(targetFlags(),
			&cli.BoolFlag{Name: "keep-sign", Usage: "write 0xFE over 0xFF"},
			&cli.StringSliceFlag{Name: "only", Usage: "clamp only tensors or modules of that `NAME`, or re:PATTERN (Python's re.match)"},
			componentFlag(),
		),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usage("clamp-nan needs one MODEL; see ckpt clamp-nan --help")
			}
			target, dryRun, err := targetOf(c)
			if err != nil {
				return err
			}
			only, err := matcher(c.StringSlice("only"))
			if err != nil {
				return err
			}
			ck, err := checkpoint.Open(c.Args().First(), checkpoint.Options{Component: c.String("component")})
			if err != nil {
				return err
			}
			defer ck.Close()
			progress, stop := s.progress(c, "scan")
			writing, stopWriting := s.progress(c, "write")
			got, err := patch.ClampNaN(c.Context, ck, patch.ClampOptions{Target: target, DryRun: dryRun,
				KeepSign: c.Bool("keep-sign"), Only: only, Progress: progress, Writing: writing})
			stop()
			stopWriting()
			return s.clampDone(ck, got, dryRun, err)
		},
	}
}

// clampDone reports what ClampNaN returned.
func (s *session) clampDone(ck *checkpoint.Checkpoint, got *patch.ClampResult, dryRun bool, err error) error {
	if errors.Is(err, checkpoint.ErrHubCache) {
		err = &failure{exitUsage, "refused", fmt.Errorf("%w: ckpt clamp-nan %s --out DIR", err, shellQuote(ck.Name()))}
	}
	// Without a report there is nothing to add to the error.
	if err != nil && (got == nil || len(got.Refused)+len(got.Left)+len(got.Written) == 0) {
		return err
	}
	r := &clampReport{Model: ck.Name(), DryRun: dryRun,
		Changed: append([]patch.Clamped{}, got.Changed...), Refused: append([]scan.Finding{}, got.Refused...), Left: append([]scan.Finding{}, got.Left...),
		Findings: append(append([]checkpoint.Problem{}, ck.Problems()...), got.Notes...), Plan: newWritePlan(got.Plan),
		Written: append([]checkpoint.Written{}, got.Written...), NotChecked: append([]string{}, got.NotChecked...)}
	code := problemsCode(r.Findings)
	if len(r.Refused)+len(r.Left) > 0 || dryRun && len(r.Changed) > 0 {
		code = max(code, exitFound)
	}
	if err != nil {
		f := classify(err)
		if code = f.exit; !s.json {
			s.complain(f)
		}
	}
	return s.done(r, code, err)
}

func (r *clampReport) print(w io.Writer) {
	for _, f := range r.Refused {
		fmt.Fprintf(w, "cannot clamp %q in %q: %s\n      repair: %s\n", f.Tensor, f.File, f.Message, f.Repair)
	}
	verb := "clamped"
	if r.DryRun {
		verb = "would clamp"
	}
	for _, t := range r.Changed {
		fmt.Fprintf(w, "%s %d in %q of %q: %d exact (all codes zero), %d live\n", verb, t.Count, t.Tensor, t.File, t.Exact, t.Live)
	}
	for _, f := range r.Left {
		fmt.Fprintf(w, "left %q in %q: %s, not selected\n", f.Tensor, f.File, f.Message)
	}
	if len(r.Changed)+len(r.Refused)+len(r.Left) == 0 {
		fmt.Fprintf(w, "%q: nothing to clamp, no NaN found\n", r.Model)
	}
	r.Plan.print(w, r.DryRun)
	for _, x := range r.Written {
		fmt.Fprintf(w, "  %s %q\n", past[x.Action], x.File)
	}
	printProblems(w, r.Findings)
	for _, n := range r.NotChecked {
		fmt.Fprintf(w, "  not checked: %s\n", n)
	}
}

// past tells what was done to a file.
var past = map[checkpoint.Action]string{checkpoint.Overwrite: "overwrote bytes of", checkpoint.Replace: "wrote anew", checkpoint.Create: "wrote",
	checkpoint.Copy: "copied", checkpoint.Link: "linked"}

// matcher compiles the patterns of --only and its like; nil if there are none.
func matcher(patterns []string) (func(tensor, module string) (bool, error), error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	exact := map[string]bool{}
	var compiled []*pyregex.Pattern
	for _, p := range patterns {
		re, ok := strings.CutPrefix(p, "re:")
		if !ok {
			exact[p] = true
			continue
		}
		c, err := pyregex.Compile(re)
		if err != nil {
			return nil, usage("%w", err)
		}
		compiled = append(compiled, c)
	}
	return func(tensor, module string) (bool, error) {
		if exact[tensor] || exact[module] {
			return true, nil
		}
		for _, p := range compiled {
			for _, name := range []string{tensor, module} {
				if ok, err := p.Match(name); ok || err != nil {
					return ok, err
				}
			}
		}
		return false, nil
	}, nil
}
