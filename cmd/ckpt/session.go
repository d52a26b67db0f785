package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v2"

	"github.com/ckpt-surgery/ckpt/patch"
	"github.com/ckpt-surgery/ckpt/safetensors"
	"github.com/ckpt-surgery/ckpt/safetensors/checkpoint"
)

// Exit codes. A higher one beats a lower one when several models are given.
const (
	exitDone      = 0
	exitFound     = 1
	exitUsage     = 2
	exitIO        = 3
	exitInterrupt = 130
)

// session is one run of the program: where it prints and how it ended.
type session struct {
	stdout, stderr io.Writer
	json           bool
	command        string
	help           bytes.Buffer // what the library prints: help
	code           int          // set by a report
	printed        bool         // a report has been printed
}

// failure is an error with its exit code and the word that names it in JSON.
type failure struct {
	exit int
	kind string
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// usage is an error of how the program was called.
func usage(format string, args ...any) error {
	return &failure{exitUsage, "usage", fmt.Errorf(format, args...)}
}

// classify gives any error its exit code.
func classify(err error) *failure {
	var f *failure
	var pipeline *checkpoint.PipelineError
	var refused *checkpoint.RefusedError
	var unclampable *patch.UnclampableError
	var malformed *safetensors.Error
	var path *fs.PathError
	var noTopic cli.ExitCoder // from "ckpt help NAME"
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &noTopic):
		return &failure{exitUsage, "usage", err}
	case errors.Is(err, context.Canceled):
		return &failure{exitInterrupt, "interrupted", errors.New("interrupted")}
	case errors.As(err, &pipeline):
		return &failure{exitUsage, "usage", err}
	case errors.As(err, &refused), errors.As(err, &unclampable), errors.Is(err, patch.ErrOnlyNothing):
		return &failure{exitUsage, "refused", err}
	case errors.As(err, &malformed):
		return &failure{exitIO, "malformed", err}
	case errors.As(err, &path):
		return &failure{exitIO, "io", err}
	}
	return &failure{exitIO, "io", err}
}

// jsonError is an error in JSON.
type jsonError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// header begins every JSON object that the program prints.
type header struct {
	Command string     `json:"command"`
	OK      bool       `json:"ok"`
	Error   *jsonError `json:"error,omitempty"`
}

func (h *header) setHeader(to header) { *h = to }

// report is what a command found: it prints itself for a person, and is printed
// as it is for a machine.
type report interface {
	setHeader(header)
	print(w io.Writer)
}

// done prints a command's report and notes the exit code; err is what kept it
// from being complete, if anything did.
func (s *session) done(r report, code int, err error) error {
	s.printed, s.code = true, code
	h := header{Command: s.command, OK: code == exitDone}
	if err != nil {
		h.Error = &jsonError{classify(err).kind, err.Error()}
	}
	if !s.json {
		var text bytes.Buffer
		r.print(&text)
		_, err := s.stdout.Write(text.Bytes())
		return err
	}
	r.setHeader(h)
	return s.encode(r)
}

func (s *session) encode(v any) error {
	enc := json.NewEncoder(s.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// helpReport is the help of a command or, without one, of the program.
type helpReport struct {
	header
	Help string `json:"help"`
}

func (r *helpReport) print(w io.Writer) { io.WriteString(w, r.Help) }

// finish prints what a command that did not report ended with, and returns the
// exit code.
func (s *session) finish(err error) int {
	if err == nil && !s.printed {
		s.command = cmp.Or(s.command, "help")
		err = s.done(&helpReport{Help: s.help.String()}, exitDone, nil)
	}
	if err == nil {
		return s.code
	}
	f := classify(err)
	if s.json && !s.printed {
		s.encode(header{Command: s.command, Error: &jsonError{f.kind, f.Error()}})
		return f.exit
	}
	if !s.printed {
		s.stderr.Write(s.help.Bytes())
	}
	s.complain(f)
	return f.exit
}

// complain prints an error for a person.
func (s *session) complain(f *failure) { fmt.Fprintf(s.stderr, "ckpt: %s\n", clean(f.Error())) }

// progress returns a callback that draws a bar on stderr once the work has taken
// a second, and a function that clears it. Without a terminal it is nil.
func (s *session) progress(c *cli.Context, what string) (update func(done, total int64), stop func()) {
	f, ok := s.stderr.(*os.File)
	if !ok || c.Bool("quiet") {
		return nil, func() {}
	}
	if st, err := f.Stat(); err != nil || st.Mode()&os.ModeCharDevice == 0 {
		return nil, func() {}
	}
	var mu sync.Mutex // workers call at the same time, and overtake one another
	var bar *progressbar.ProgressBar
	w, furthest := delayed{s.stderr, time.Now().Add(time.Second)}, int64(0)
	return func(done, total int64) {
			mu.Lock()
			defer mu.Unlock()
			if bar == nil {
				bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
					progressbar.OptionShowBytes(true), progressbar.OptionShowCount(), progressbar.OptionUseIECUnits(true),
					progressbar.OptionSetWidth(20), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
			}
			furthest = max(furthest, done)
			bar.Set64(furthest)
		}, func() {
			if bar != nil {
				bar.Clear()
			}
		}
}

// delayed drops what is written too early.
type delayed struct {
	w    io.Writer
	from time.Time
}

func (d delayed) Write(p []byte) (int, error) {
	if time.Now().Before(d.from) {
		return len(p), nil
	}
	return d.w.Write(p)
}
