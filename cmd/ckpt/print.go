package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

func componentFlag() cli.Flag {
	return &cli.StringFlag{Name: "component", Usage: "the `FOLDER` of a diffusers pipeline to read, such as transformer"}
}

// problemsCode is the exit code that a checkpoint's problems ask for.
func problemsCode(problems []checkpoint.Problem) int {
	code := exitDone
	for _, p := range problems {
		switch {
		case p.Unreadable():
			return exitIO
		case p.Severity.Bad():
			code = exitFound
		}
	}
	return code
}

// printProblems prints problems with the first few tensors of each.
func printProblems(w io.Writer, problems []checkpoint.Problem) {
	const most = 5
	for _, p := range problems {
		fmt.Fprintf(w, "  %s %s", p.Severity, p.Code)
		if p.File != "" {
			fmt.Fprintf(w, " %q", p.File)
		}
		fmt.Fprintf(w, ": %s\n", clean(p.Message))
		for i, t := range p.Tensors {
			if i == most {
				fmt.Fprintf(w, "      … and %d more\n", len(p.Tensors)-most)
				break
			}
			fmt.Fprintf(w, "      %q\n", t)
		}
		if p.Repair != "" {
			fmt.Fprintf(w, "      repair: %s\n", clean(p.Repair))
		}
	}
}

// clean escapes what must not reach a terminal raw in text that may hold a name
// from a file.
func clean(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// size writes a number of bytes for a person.
func size(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/1024, 0
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[i])
}

// plural writes a number and a noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
