package main

import (
	"fmt"
	"io"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// version and revision are stamped by -ldflags "-X main.version=… -X
// main.revision=…" where the build information lacks them.
var version, revision string

type versionReport struct {
	header
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
}

func (r *versionReport) print(w io.Writer) {
	fmt.Fprintf(w, "ckpt %s (revision %s, %s)\n", r.Version, r.Revision, r.Go)
}

func versionCommand(s *session) *cli.Command {
	return &cli.Command{
		Name:        "version",
		Usage:       "print version and revision",
		Description: "Example: ckpt version --json",
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usage("version takes no arguments")
			}
			return s.done(buildVersion(), exitDone, nil)
		},
	}
}

// buildVersion reads what the Go toolchain recorded and what was stamped.
func buildVersion() *versionReport {
	r := &versionReport{Version: version, Revision: revision}
	if info, ok := debug.ReadBuildInfo(); ok {
		r.Go = info.GoVersion
		if r.Version == "" && info.Main.Version != "(devel)" {
			r.Version = info.Main.Version
		}
		for _, setting := range info.Settings {
			if r.Revision == "" && setting.Key == "vcs.revision" {
				r.Revision = setting.Value
			}
		}
	}
	if r.Version == "" {
		r.Version = "unknown"
	}
	if r.Revision == "" {
		r.Revision = "unknown"
	}
	return r
}
