package main

import (
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/ckpt-surgery/ckpt/internal/atomicfile"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// sample is a tiny NVFP4 checkpoint that the reference tools wrote; see
// internal/interop/make_fixtures.py.
//
//go:embed sample
var sample embed.FS

type demoReport struct {
	header
	Dir     string      `json:"dir"`
	Planted []plantedAt `json:"planted"`
	Scan    scanModel   `json:"scan"`
	Next    []string    `json:"next"`
}

// plantedAt is a fault that the demo put into the sample.
type plantedAt struct {
	Tensor  string `json:"tensor"`
	Element int64  `json:"element"`
	Value   string `json:"value"` // bytes as stored, in hex
}

func demoCommand(s *session) *cli.Command {
	return &cli.Command{
		Name:      "demo",
		Usage:     "write a sample checkpoint with the field's faults, and scan it",
		ArgsUsage: "[DIR]",
		Description: `Writes a small NVFP4 checkpoint to DIR (default ckpt-demo), plants faults in it, scans it and prints
the commands to try. It refuses if DIR exists.

Example: ckpt demo`,
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return usage("demo takes one DIR at most")
			}
			dir := "ckpt-demo"
			if c.Args().Present() {
				dir = filepath.Clean(c.Args().First())
			}
			planted, err := writeSample(dir)
			if err != nil {
				return err
			}
			m, _, err := s.scanModel(c, dir)
			if err != nil {
				return err
			}
			quoted := shellQuote(dir)
			return s.done(&demoReport{Dir: dir, Planted: planted, Scan: m,
				Next: []string{"ckpt scan-nan " + quoted, "ckpt inspect " + quoted,
					"ckpt clamp-nan --only 're:.*weight_scale$' --out " + shellQuote(dir+"-fixed") + " " + quoted}}, exitDone, nil)
		},
	}
}

func (r *demoReport) print(w io.Writer) {
	fmt.Fprintf(w, "wrote %q, a tiny NVFP4 checkpoint with %s in it; this is what ckpt scan-nan finds:\n\n", r.Dir, plural(len(r.Planted), "planted fault"))
	(&scanReport{Models: []scanModel{r.Scan}}).print(w)
	fmt.Fprintf(w, "\nTry:\n")
	for _, cmd := range r.Next {
		fmt.Fprintf(w, "  %s\n", cmd)
	}
}

// writeSample writes the sample to a directory that must not exist, whole or not
// at all, and plants faults in it.
func writeSample(dir string) (planted []plantedAt, err error) {
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = usage("%q exists; give another directory: ckpt demo DIR", dir)
		}
		return nil, err
	}
	files, err := fs.Sub(sample, "sample")
	if err != nil {
		return nil, err
	}
	err = atomicfile.WriteDir(dir, nil, func(temp string) error {
		if err := os.CopyFS(temp, files); err != nil {
			return err
		}
		planted, err = plant(temp)
		return err
	})
	return planted, err
}

// plant puts NaN bytes into the block scales of the last layer's o_proj, as a
// quantizer does that casts without clamping, and a NaN into a norm.
func plant(dir string) ([]plantedAt, error) {
	ck, err := checkpoint.Open(dir, checkpoint.Options{})
	if err != nil {
		return nil, err
	}
	defer ck.Close()
	var scale, norm checkpoint.Tensor
	for t := range ck.Tensors() {
		switch {
		case strings.HasSuffix(t.Name, "self_attn.o_proj.weight_scale") && t.Name > scale.Name:
			scale = t
		case strings.HasSuffix(t.Name, "post_attention_layernorm.weight") && t.Name > norm.Name:
			norm = t
		}
	}
	faults := []struct {
		t       checkpoint.Tensor
		element int64
		value   []byte
	}{
		{scale, 3, []byte{0x7F}}, {scale, 10, []byte{0x7F}}, {scale, 17, []byte{0xFF}}, // E4M3
		{norm, 5, []byte{0xC0, 0x7F}}, // BF16
	}
	var planted []plantedAt
	for _, f := range faults {
		at := f.element * int64(len(f.value))
		if at >= f.t.Bytes {
			return nil, fmt.Errorf("the sample has no tensor for a fault")
		}
		if err := overwrite(filepath.Join(dir, f.t.Shard.Name), f.t.Offset+at, f.value); err != nil {
			return nil, err
		}
		planted = append(planted, plantedAt{f.t.Name, f.element, hex.EncodeToString(f.value)})
	}
	return planted, nil
}

func overwrite(path string, offset int64, value []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(slices.Clone(value), offset)
	return errors.Join(err, f.Close())
}

// shellQuote quotes a path for a line that a person may paste into a shell.
func shellQuote(s string) string {
	if strings.HasPrefix(s, "-") {
		s = "./" + s
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-/+:@%", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
