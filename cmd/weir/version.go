package main

import (
	"context"
	"runtime"
	"runtime/debug"

	"github.com/spf13/pflag"

	"weir/cmd/internal/cli"
)

// build says what this program was made of.
//
// It comes out of the program itself, as Go puts it there when it builds in a checkout.
// Nothing is set by the linker.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"` // of the revision
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	System   string `json:"system"`
}

// buildOf reads what Go has put into the program; ok is false where it has put nothing, as in
// some test programs. Without a version in it, it was built from a checkout.
func buildOf(info *debug.BuildInfo, ok bool) build {
	b := build{Version: "unknown", Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if !ok {
		return b
	}
	b.Version = info.Main.Version
	// They are there when it was built in a checkout with version control.
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	if b.Version == "" {
		b.Version = "(devel)"
	}
	return b
}

// versionCommand is weir version. It asks no weir: it is about this program.
func versionCommand() cli.Command {
	return cli.Command{
		Name: "version", Short: "print version, revision and Go version",
		Setup: func(*pflag.FlagSet) cli.Run {
			return func(_ context.Context, env *cli.Env, args []string) error {
				if err := cli.Want(args, 0, 0, ""); err != nil {
					return err
				}
				b := buildOf(debug.ReadBuildInfo())
				return env.Value(b, func() error {
					revision := b.Revision
					if revision == "" {
						revision = "unknown"
					}
					// The revision alone would be believed to be what runs.
					if b.Modified {
						revision += ", modified"
					}
					t := env.Table()
					rows := [][2]string{{"weir", b.Version}, {"revision", revision}, {"go", b.Go}, {"system", b.System}}
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
