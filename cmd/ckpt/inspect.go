package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
	"github.com/ckpt-surgery/ckpt/scheme"
)

type inspectReport struct {
	header
	Model        string               `json:"model"`
	Tensors      []inspectTensor      `json:"tensors"`
	Quantization inspectQuantization  `json:"quantization"`
	DTypes       []scheme.DTypeTotal  `json:"dtypes"`
	Tied         scheme.Tied          `json:"tied"`
	Totals       inspectTotals        `json:"totals"`
	Problems     []checkpoint.Problem `json:"problems"`
	NotChecked   []string             `json:"not_checked"`
}

type inspectTensor struct {
	Name   string            `json:"name"`
	DType  safetensors.DType `json:"dtype"`
	Shape  []uint64          `json:"shape"`
	File   string            `json:"file"`
	Bytes  int64             `json:"bytes"`
	Offset int64             `json:"offset"`
}

type inspectQuantization struct {
	Schemes  []string          `json:"schemes"`
	Declared scheme.Declared   `json:"declared"`
	Layers   []scheme.LayerSet `json:"layers"`
}

type inspectTotals struct {
	Tensors int    `json:"tensors"`
	Bytes   int64  `json:"bytes"`
	Params  uint64 `json:"params"`
	Files   int    `json:"files"`
}

func inspectCommand(s *session) *cli.Command {
	return &cli.Command{
		Name:      "inspect",
		Usage:     "show what a checkpoint is",
		ArgsUsage: "MODEL",
		Description: `Reads headers, the index and config.json, and shows tensors, sizes, the scheme of each layer as its
tensors tell it, and whatever does not fit together.

Example: ckpt inspect ./my-model-NVFP4`,
		Flags: []cli.Flag{componentFlag()},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usage("inspect needs one MODEL; see ckpt inspect --help")
			}
			ck, err := checkpoint.Open(c.Args().First(), checkpoint.Options{Component: c.String("component")})
			if err != nil {
				return err
			}
			defer ck.Close()
			r := newInspectReport(ck, scheme.Look(ck), s.json)
			return s.done(r, problemsCode(r.Problems), nil)
		},
	}
}

func newInspectReport(ck *checkpoint.Checkpoint, look *scheme.Survey, tensors bool) *inspectReport {
	r := &inspectReport{
		Model:        ck.Name(),
		Tensors:      []inspectTensor{},
		Quantization: inspectQuantization{Schemes: append([]string{}, look.Formats...), Declared: look.Declared, Layers: look.Layers},
		DTypes:       append([]scheme.DTypeTotal{}, look.DTypes...),
		Tied:         look.Tied,
		Totals:       inspectTotals{ck.Len(), look.Bytes, look.Params, len(ck.Shards())},
		Problems:     append([]checkpoint.Problem{}, slices.Concat(ck.Problems(), look.Problems, ck.HeaderFormats())...),
		NotChecked:   []string{"the values of the tensors; ckpt scan-nan reads them"},
	}
	if tensors {
		for t := range ck.Tensors() {
			r.Tensors = append(r.Tensors, inspectTensor{t.Name, t.DType, t.Shape, t.Shard.Name, t.Bytes, t.Offset})
		}
	}
	return r
}

func (r *inspectReport) print(w io.Writer) {
	fmt.Fprintf(w, "%q: %s in %s, %s, %d parameters\n", r.Model, plural(r.Totals.Tensors, "tensor"), plural(r.Totals.Files, "file"), size(r.Totals.Bytes), r.Totals.Params)
	var dtypes []string
	for _, d := range r.DTypes {
		dtypes = append(dtypes, fmt.Sprintf("%q %d (%s)", string(d.DType), d.Tensors, size(d.Bytes)))
	}
	fmt.Fprintf(w, "dtypes: %s\n", strings.Join(dtypes, ", "))
	fmt.Fprintf(w, "schemes: %s\n", clean(orNone(r.Quantization.Schemes)))
	if d := r.Quantization.Declared; d.Where != "" {
		fmt.Fprintf(w, "declared: %q %s (%s)\n", d.Method, orNone(quoteAll(d.Formats)), d.Where)
	} else {
		fmt.Fprintf(w, "declared: not quantized\n")
	}
	r.printTied(w)
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "MODULES\tSCHEME\tCOUNT\tPARAMETERS\tSIZE")
	for _, l := range r.Quantization.Layers {
		fmt.Fprintf(tw, "%q\t%s\t%d\t%d\t%s\n", l.Modules, clean(l.Scheme), l.Count, l.Params, size(l.Bytes))
	}
	tw.Flush()
	if len(r.Problems) > 0 {
		fmt.Fprintf(w, "\n%s:\n", plural(len(r.Problems), "problem"))
		printProblems(w, r.Problems)
	}
	for _, n := range r.NotChecked {
		fmt.Fprintf(w, "\nnot checked: %s\n", n)
	}
}

func (r *inspectReport) printTied(w io.Writer) {
	t := r.Tied
	switch {
	case t.Declared && t.Head == "":
		fmt.Fprintf(w, "tied: the output head is %q\n", t.Embedding)
	case t.Declared:
		fmt.Fprintf(w, "tied: declared, yet %q is stored; most engines drop it\n", t.Head)
	case t.Embedding != "" && t.Head != "":
		fmt.Fprintf(w, "tied: no (%q, %q)\n", t.Embedding, t.Head)
	}
}

func quoteAll(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf("%q", n)
	}
	return out
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, "; ")
}
