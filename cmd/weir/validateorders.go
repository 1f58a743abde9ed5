package main

import (
	"context"

	"github.com/spf13/pflag"

	"weir/cmd/internal/cli"
	"weir/cmd/internal/switchfile"
)

// validateOrdersCommand is weir orders validate.
func validateOrdersCommand() cli.Command {
	return cli.Command{
		Name: "validate", Args: "FILE...", Wants: cli.Wants(1, -1, "files of settings"), Short: "check files for --switch-file",
		Long: `Reads the settings of weir stop and of approvals, and the files that they name, as weir
run --switch-file does. It connects to no server. weir run also checks that the
principals that the file needs are in --access-file.`,
		Examples: []string{"weir orders validate switch.yaml"},
		Setup: func(*pflag.FlagSet) cli.Run {
			return func(_ context.Context, env *cli.Env, args []string) error {
				for _, path := range args {
					s, err := switchfile.Read(path)
					if err != nil {
						return cli.Failure("%v", err)
					}
					if err := printSettings(env, path, s); err != nil {
						return err
					}
				}
				return nil
			}
		},
	}
}

// validSettings is what weir orders validate prints of a file.
type validSettings struct {
	File     string   `json:"file"`
	Drills   int      `json:"drills"`
	Runtimes int      `json:"runtimes"`
	Tiers    []string `json:"tiers"`
}

func printSettings(env *cli.Env, path string, s *switchfile.Settings) error {
	v := validSettings{File: path, Drills: len(s.Drills), Runtimes: len(s.Runtimes), Tiers: []string{}}
	if s.Approvals != nil {
		for i := range s.Approvals.Tiers {
			v.Tiers = append(v.Tiers, s.Approvals.Tiers[i].Name)
		}
	}
	return env.Value(v, func() error {
		if _, err := cli.Fprintf(env.Out, "%s is valid: %s, %s, %s of approvals\n", path, cli.Count(int64(v.Drills), "drill"), cli.Count(int64(v.Runtimes), "runtime"), cli.Count(int64(len(v.Tiers)), "tier")); err != nil {
			return err
		}
		if s.Approvals == nil {
			return nil
		}
		for i := range s.Approvals.Tiers {
			t := &s.Approvals.Tiers[i]
			if _, err := cli.Fprintf(env.Out, "  %s: %s by %s\n", t.Name, t.Wait, t.Place()); err != nil {
				return err
			}
		}
		_, err := cli.Fprintf(env.Out, "  then: %s\n", s.Approvals.Unanswered)
		return err
	})
}
