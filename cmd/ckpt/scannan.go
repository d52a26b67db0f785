package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
	"github.com/ckpt-surgery/ckpt/scheme/scan"
)

type scanReport struct {
	header
	Models []scanModel `json:"models"`
}

type scanModel struct {
	Model      string               `json:"model"`
	Error      *jsonError           `json:"error,omitempty"`
	Scanned    scanTotals           `json:"scanned"`
	BytesRead  int64                `json:"bytes_read"`
	Findings   []scan.Finding       `json:"findings"`
	Problems   []checkpoint.Problem `json:"problems"`
	NotChecked []string             `json:"not_checked"`
}

type scanTotals struct {
	Tensors int   `json:"tensors"`
	Bytes   int64 `json:"bytes"`
}

func scanNaNCommand(s *session) *cli.Command {
	return &cli.Command{
		Name:      "scan-nan",
		Usage:     "find NaN and Inf in scales, norms and biases",
		ArgsUsage: "MODEL...",
		Description: `Reads every scale tensor and every float tensor of rank 0 and 1; with --all every float tensor.
One NaN byte among a model's scales makes it answer only "!!!!".

Example: ckpt scan-nan ./my-model-NVFP4`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Usage: "scan every float tensor, and report weights that are all zero"},
			componentFlag(),
		},
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return usage("scan-nan needs a MODEL; see ckpt scan-nan --help")
			}
			r, code := &scanReport{Models: []scanModel{}}, exitDone
			var first error
			for _, path := range c.Args().Slice() {
				m, exit, err := s.scanModel(c, path)
				if err != nil {
					f := classify(err)
					if f.exit == exitInterrupt {
						return err
					}
					m.Error, exit = &jsonError{f.kind, f.Error()}, f.exit
					if c.NArg() > 1 {
						f.err = fmt.Errorf("%q: %w", path, f.err)
					}
					if !s.json {
						s.complain(f)
					}
					if first == nil {
						first = f
					}
				}
				r.Models = append(r.Models, m)
				code = max(code, exit)
			}
			return s.done(r, code, first)
		},
	}
}

// scanModel scans one model.
func (s *session) scanModel(c *cli.Context, path string) (m scanModel, code int, err error) {
	m = scanModel{Model: path, Findings: []scan.Finding{}, Problems: []checkpoint.Problem{}, NotChecked: []string{}}
	ck, err := checkpoint.Open(path, checkpoint.Options{Component: c.String("component")})
	if err != nil {
		return m, 0, err
	}
	defer ck.Close()
	progress, stop := s.progress(c, "scan")
	r, err := scan.Scan(c.Context, ck, scan.Options{All: c.Bool("all"), Progress: progress})
	stop()
	if err != nil {
		return m, 0, err
	}
	m.Scanned, m.BytesRead = scanTotals{r.Tensors, r.Bytes}, ck.BytesRead()
	m.Findings = append(m.Findings, r.Findings...)
	m.Problems = append(append(m.Problems, ck.Problems()...), r.Unread...)
	m.NotChecked = append(m.NotChecked, r.NotChecked...)
	code = problemsCode(m.Problems)
	for _, f := range m.Findings {
		if f.Severity.Bad() {
			code = max(code, exitFound)
		}
	}
	return m, code, nil
}

func (r *scanReport) print(w io.Writer) {
	for _, m := range r.Models {
		if m.Error != nil {
			continue // said on stderr
		}
		fmt.Fprintf(w, "%q: scanned %s (%s), %s\n", m.Model, plural(m.Scanned.Tensors, "tensor"), size(m.Scanned.Bytes), plural(len(m.Findings), "finding"))
		for _, f := range m.Findings {
			fmt.Fprintf(w, "  %s %s %q %s in %q: %s\n", f.Severity, f.Code, f.Tensor, f.DType, f.File, f.Message)
			for _, p := range f.First {
				fmt.Fprintf(w, "      at %s, byte %d: %s\n", indexText(p.Index), p.Offset, p.Value)
			}
			if more := f.NaN + f.Inf - int64(len(f.First)); more > 0 && len(f.First) > 0 {
				fmt.Fprintf(w, "      … and %d more\n", more)
			}
			fmt.Fprintf(w, "      repair: %s\n", f.Repair)
		}
		printProblems(w, m.Problems)
		for _, n := range m.NotChecked {
			fmt.Fprintf(w, "  not checked: %s\n", clean(n))
		}
	}
}

// indexText writes an index as (row, block).
func indexText(index []uint64) string {
	return "(" + strings.Trim(strings.ReplaceAll(fmt.Sprint(index), " ", ", "), "[]") + ")"
}
