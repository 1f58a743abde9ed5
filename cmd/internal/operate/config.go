package operate

import (
	"context"

	"github.com/spf13/pflag"

	"weir/cmd/internal/cli"
	"weir/cmd/internal/client"
	"weir/cmd/internal/config"
)

// Settings is the table of what a configuration file may hold: the flags of weir run.
//
// It is made anew for each use: a table holds flags, and flags hold values. All commands
// that load settings use this one, so a file may hold settings that a command does not know
// without being refused.
func Settings() *config.Table {
	return config.NewTable(func(fs *pflag.FlagSet) { NewRunFlags(fs) })
}

// strangeVariables returns the variables of the environment that no setting reads, misspelled
// ones most likely.
//
// None are found where the environment is not to be listed, as in tests.
func strangeVariables(env *cli.Env) []string {
	if env.Environ == nil {
		return nil
	}
	return Settings().Strange(env.Environ(), client.Variables...)
}

// ConfigCommand is weir config: the settings, where each comes from, and their schema.
//
// It declares the flags of weir run on its own command, so what it prints is what weir run
// would find, flags on this command line included.
func ConfigCommand() cli.Command {
	return cli.Command{Name: "config", Short: "settings: where they come from, and their schema", Commands: []cli.Command{
		{
			Name: "print", Short: "print each setting of weir run with its value and origin",
			Long: `Prints the settings of weir run with the same flags and environment. A setting has one
name: the flag --kafka-user is WEIR_KAFKA_USER in the environment and kafka-user in the
configuration file. A flag overrides the environment, which overrides the file, which
overrides the default.

The file is YAML, with a line for each setting:

  state: /var/lib/weir
  brokers: [kafka-1:9092, kafka-2:9092]
  retention: 72h

An unknown key is an error. Paths are relative to the working folder of weir. Lists in
the environment are written as in the file, [a, b]. Secrets come from named files or the
environment; they are not in the file and are never printed.`,
			Examples: []string{"weir config print", "weir config print --config weir.yaml", "WEIR_LISTEN=:8443 weir config print -o json"},
			Setup: func(fs *pflag.FlagSet) cli.Run {
				// Their values are not looked at here: Load finds out each of them, with
				// where it comes from.
				NewRunFlags(fs)
				return func(_ context.Context, env *cli.Env, _ []string) error { return printConfig(env, fs) }
			},
		},
		{
			Name: "schema", Short: "print the JSON Schema of configuration files, for editors",
			Examples: []string{"weir config schema > config.schema.json", "# yaml-language-server: $schema=config.schema.json"},
			Setup: func(*pflag.FlagSet) cli.Run {
				return func(_ context.Context, env *cli.Env, _ []string) error {
					_, err := env.Out.Write(Settings().Schema())
					return err
				}
			},
		},
	}}
}

// printConfig prints each setting once, in the order of names. A value that comes from a
// secret's file is the name of the file.
func printConfig(env *cli.Env, fs *pflag.FlagSet) error {
	list, err := Settings().Load(fs, env.Getenv)
	if err != nil {
		return err
	}
	lines := cli.NewLines(env, func(s *config.Setting) []cli.Cell {
		value := cli.Cell{Text: s.Value}
		if s.Value == "" {
			value = cli.Cell{Text: "-", Paint: cli.Faint}
		}
		return []cli.Cell{{Text: s.Name}, value, {Text: s.Origin}}
	}, "SETTING", "VALUE", "ORIGIN")
	if err := lines.All(list); err != nil {
		return err
	}
	for _, text := range strangeVariables(env) {
		env.Notice("%s", text)
	}
	return nil
}
