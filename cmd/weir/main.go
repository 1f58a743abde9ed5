// Command weir detects runaway flows of agents and blocks their next call.
package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"weir/cmd/internal/cli"
	"weir/cmd/internal/demo"
	"weir/cmd/internal/operate"
)

func main() {
	// This is the one place that touches the process: its streams, environment, clock and
	// signals. Commands get them from env, so tests run all of program in their own process.
	env := cli.Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Environ: os.Environ, Now: time.Now,
		Notify: func(c chan<- os.Signal, sig ...os.Signal) func() {
			signal.Notify(c, sig...)
			return func() { signal.Stop(c) }
		},
		OutTerminal: cli.IsTerminal(os.Stdout), ErrTerminal: cli.IsTerminal(os.Stderr), Width: cli.Width(os.Stdout),
	}
	// The context never ends by itself. Commands that end in order ask for signals by
	// env.Notify; all others are killed by them.
	os.Exit(program().Main(context.Background(), env, os.Args[1:]))
}

// program is the table of commands.
//
// Help, completion and REFERENCE.md are made of it, in this order. help and completion need
// the program itself, and look at its commands only when they run.
func program() *cli.Program {
	p := &cli.Program{
		Name:  "weir",
		Short: "stops AI agents that run away.",
		Intro: `weir reads the calls that agents make to each other and to their tools. It detects flows
that loop, go too deep, spend too much or run too long, and blocks their next call.
Dispatchers, guards, gateways and hooks act on its orders before they send a call.`,
		Outro: `First steps:
  weir demo                        see real runaways stopped
  weir replay FILE                 judge a log of yours
  weir run                         receive events on http://127.0.0.1:8080`,
	}
	// For a hook a wrong command line must not look like a refusal.
	p.UsageCode = usageCode
	p.Commands = []cli.Command{
		demo.Command(),
		operate.RunCommand(),
		ingestCommand(),
		replayCommand(),
		backtestCommand(),
		costsCommand(),
		reviewCommand(),
		explainCommand(),
		checkCommand(),
		mcpCommand(),
		testCommand(),
		stopScopeCommand(),
		drillCommand(),
		releaseScopeCommand(),
		ordersCommand(),
		approvalsCommand(),
		flowsCommand(),
		agentsCommand(),
		notesCommand(),
		limitsCommand(),
		pricesCommand(),
		budgetsCommand(),
		accessCommand(),
		backupCommand(),
		restoreCommand(),
		operate.TopicsCommand(),
		operate.LagCommand(),
		operate.SizeCommand(),
		operate.DoctorCommand(),
		operate.ConfigCommand(),
		eventsCommand(),
		rulesCommand(),
		versionCommand(),
		cli.HelpCommand(p),
		cli.CompletionCommand(p),
	}
	return p
}

// usageCode is that of a failure for hooks of coding agents, which take CodeUsage for a
// refusal: a flag that is misspelled must not stop their work.
func usageCode(args []string) int {
	if slices.ContainsFunc(args, func(a string) bool { return a == "--hook" || strings.HasPrefix(a, "--hook=") }) {
		return cli.CodeFailure
	}
	return cli.CodeUsage
}
