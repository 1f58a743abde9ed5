package main

import (
	"cmp"
	"context"
	"runtime"
	"runtime/debug"
	"strconv"

	"github.com/spf13/pflag"

	"weir/cmd/internal/cli"
	"weir/state"
)

// version and revision are set by the linker in releases and images, which are built without
// a checkout: -ldflags "-X main.version=v1.2.3 -X main.revision=0123456789ab".
var version, revision string

// build describes the program: its version, the commit, and what compiled it.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"` // of the revision
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	System   string `json:"system"`
	State    int    `json:"state_format"` // of the state folder, see OPERATIONS.md
}

// buildOf reads what Go recorded in the program; ok is false if Go recorded nothing. What the
// linker set wins, because only a release sets it.
func buildOf(info *debug.BuildInfo, ok bool, version, revision string) build {
	b := build{Version: version, Revision: revision, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, State: state.Format}
	if !ok {
		info = &debug.BuildInfo{}
	}
	b.Version = cmp.Or(version, info.Main.Version, "(devel)")
	// Go records these when it builds in a checkout with version control.
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = cmp.Or(revision, s.Value)
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// revision is the commit for people. It names changes that are not committed, because the
// commit alone does not describe what runs then.
func (b build) revision() string {
	if b.Modified {
		return cmp.Or(b.Revision, "unknown") + ", modified"
	}
	return cmp.Or(b.Revision, "unknown")
}

// versionCommand is weir version, and weir --version. It describes this program and contacts no other.
func versionCommand() cli.Command {
	return cli.Command{
		Name: "version", Short: "print version, revision and Go version",
		Setup: func(*pflag.FlagSet) cli.Run {
			return func(_ context.Context, env *cli.Env, _ []string) error {
				info, ok := debug.ReadBuildInfo()
				b := buildOf(info, ok, version, revision)
				return env.Value(b, func() error {
					t := env.Table()
					rows := [][2]string{{"weir", b.Version}, {"revision", b.revision()}, {"go", b.Go}, {"system", b.System}, {"state format", strconv.Itoa(b.State)}}
					for _, r := range rows {
						if err := t.Row(cli.Text(r[0], r[1])...); err != nil {
							return err
						}
					}
					return t.Flush()
				})
			}
		},
	}
}
