package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"weir/cmd/internal/cli"
	"weir/cmd/internal/client"
	"weir/cmd/internal/operate"
	"weir/events"
	"weir/sink/check"
)

// checkCommand is weir check: one check for programs that cannot use HTTP, and the hooks of coding
// agents. Its three forms share flags and nothing else: a check, --hook, and --hook-config.
func checkCommand() cli.Command {
	return cli.Command{
		Name: "check", Short: "check whether a call is allowed",
		Long: `Reads one event of kind agent.call or tool.call from standard input and prints the
answer. The exit code is 0 if the call is allowed and 3 if it is refused.

A running weir is asked by POST /v1/check and counts an allowed call. With --log the
logs are replayed first and the call is judged as the next one. An event without id or
time gets them.

--hook is for hooks of coding agents: Claude Code, Codex, Gemini CLI, Qwen Code, Copilot
CLI and OpenHands. It asks the running weir and refuses in the agent's own form, with a
reason for the model. It answers within 3 s. If weir is unreachable the agent continues.
With --closed tool calls are refused then, but never a person's message. Claude Code,
Codex, Gemini CLI and Qwen Code name their transcript: --hook reads the tokens of the
last model calls from it. Use --no-tokens if they also reach weir by telemetry.

--hook-config prints the settings that make an agent run the hook, merged into its
current file. With --install it shows the change, asks, and writes the file. Nothing
else in it changes, and a second run changes nothing. --plugin FOLDER writes a plugin of
Claude Code or OpenCode, or an extension of Gemini CLI. If the program weir-hook
(cmd/weir-hook) is in the folder of weir, it becomes the hook. It does the same and
starts in half the time.`,
		Examples: []string{
			`echo '{"kind":"agent.call","correlation_id":"f1","from":{"agent":"a"},"to":{"agent":"b"}}' | weir check`,
			"weir check --log events.jsonl < call.json",
			"weir check --hook-config claude-code --install",
			"weir check --hook-config codex --closed --install --yes",
		},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			// Not by newTarget: an ask cannot be put to a state folder, of which the fold does
			// not run, so there is no --state.
			p := &target{ServerFlags: client.NewServerFlags(fs), LimitFlags: operate.NewLimitFlags(fs), reading: newReading(fs), state: new(string)}
			p.logs = cli.NewList(fs, "log", "replay `FILE` first; repeatable")
			hook := fs.Bool("hook", false, "read the input of a hook, and answer in its form")
			closed := fs.Bool("closed", false, "with --hook: refuse tool calls while weir is unreachable")
			noTokens := fs.Bool("no-tokens", false, "with --hook: do not read the tokens of model calls from the transcript")
			setup := hookSetup{
				program:  fs.String("hook-config", "", "print the settings of `PROGRAM` with weir's hooks added: "+strings.Join(check.HookPrograms(), ", ")),
				plugin:   fs.String("plugin", "", "with --hook-config: write the hooks as a plugin or extension into this `FOLDER`: "+strings.Join(check.HookPluginPrograms(), ", ")),
				settings: fs.String("settings", "", "with --hook-config: use the settings in `FILE` instead of the user's own"),
				install:  fs.Bool("install", false, "with --hook-config: show the changes and write them"),
				yes:      fs.Bool("yes", false, "with --install: do not ask"),
			}
			return func(ctx context.Context, env *cli.Env, _ []string) error {
				switch {
				// --closed goes into the settings that are printed, which is why it may be
				// given beside --hook-config.
				case *setup.program != "":
					return setup.run(env, p, *closed, *noTokens)
				// Its failures are no refusals, see usageCode.
				case *hook:
					return runHook(ctx, env, p, *closed, *noTokens)
				}
				return runCheck(ctx, env, p)
			}
		},
	}
}

// runCheck answers one ask. A refusal is an answer, and ends with the code of a finding, 3,
// after it was printed.
func runCheck(ctx context.Context, env *cli.Env, p *target) error {
	// One byte more than an event may have, so that one that is too long is refused as such
	// and not as broken JSON.
	// All of the input is one event, so a second one behind it is a fault.
	body, err := io.ReadAll(io.LimitReader(env.In, events.MaxEventBytes+1))
	if err != nil {
		return err
	}
	var a client.CheckAnswer
	if len(*p.logs) > 0 {
		// Only the flag counts here. A server that the environment names does not forbid
		// --log.
		if p.Given() {
			return cli.Usage("more than one place is named").Advise("give one of --server and --log")
		}
		a, err = checkByLog(ctx, env, p, body)
	} else {
		a, err = checkByServer(ctx, env, p, body)
	}
	if err != nil {
		return err
	}
	if err := printAnswer(env, &a); err != nil {
		return err
	}
	if !a.Allowed {
		return cli.Exit(cli.CodeFinding)
	}
	return nil
}

// checkByServer puts the ask to a running weir, which counts the call when it allows it.
func checkByServer(ctx context.Context, env *cli.Env, p *target, body []byte) (a client.CheckAnswer, err error) {
	var ev events.Event
	// By the clock here: an event of the present is what a running weir is asked about.
	if body, err = asked(body, &ev, events.StampOf(env.Now())); err != nil {
		return a, err
	}
	c, err := p.Client(env)
	if err != nil {
		return a, err
	}
	return c.Check(ctx, body)
}

// checkByLog folds the logs in this process and then the ask as the event that follows, a
// millisecond after the last one if it says no time: by the wall clock an old log would lie
// so far back that silence had forgiven all.
func checkByLog(ctx context.Context, env *cli.Env, p *target, body []byte) (a client.CheckAnswer, err error) {
	// By the limits of the flags, as weir replay would.
	r, err := p.replay(ctx, env)
	if err != nil {
		return a, err
	}
	var ev events.Event
	if _, err = asked(body, &ev, r.last+1); err != nil {
		return a, err
	}
	// The log itself is not written to, so the same ask gets the same answer again.
	v, err := r.ask(&ev)
	if err != nil {
		return a, err
	}
	return client.AnswerOf(v), nil
}

// asked reads the event, fills in what a person would leave out, and makes an ask of it. It returns
// the event as JSON. An event without a time gets now.
func asked(body []byte, ev *events.Event, now events.Stamp) ([]byte, error) {
	err := events.Decode(body, ev)
	if err != nil {
		_, err = check.Complete(ev, err, check.Missing{ID: check.NewID(now), Time: now})
	}
	if err != nil {
		return nil, cli.Failure("the event: %w", err).Advise("weir check --help shows one that can be read")
	}
	if !ev.Kind.Asked() {
		return nil, cli.Failure("the event: only agent.call, tool.call, task.loop and task.reflect can be asked for, not %s", ev.Kind)
	}
	// Whatever was in the event, this is a check, and its answer includes the remaining part of
	// each limit.
	ev.Ask, ev.Tell = true, true
	return ev.AppendJSON(nil), nil
}

// printAnswer prints what was said of a call. A warning allows it and has another colour than
// a plain yes.
func printAnswer(env *cli.Env, a *client.CheckAnswer) error {
	return env.Value(a, func() error {
		action := cli.Cell{Text: string(a.Action), Paint: cli.Good}
		switch {
		case !a.Allowed:
			action.Paint = cli.Bad
		case a.Action == events.Warn:
			action.Paint = cli.Caution
		}
		// Only where a figure decided it.
		figures := ""
		if a.Observed != nil && a.Limit != nil {
			figures = " " + amount(a.Observed) + "/" + amount(a.Limit)
		}
		_, err := cli.Fprintf(env.Out, "%s  %s%s\n", env.Painted(action.Text, action.Paint), ruleAndReason(a.Rule, a.Reason), figures)
		for _, s := range []string{a.Message, a.AgentMessage} {
			if s != "" && err == nil {
				_, err = cli.Fprintf(env.Out, "  %s\n", s)
			}
		}
		// Only where waiting helps.
		if a.RetryAfterS > 0 && err == nil {
			_, err = cli.Fprintf(env.Out, "  try again in %d s\n", a.RetryAfterS)
		}
		if a.HeldUntil != "" && err == nil {
			_, err = cli.Fprintf(env.Out, "  held until %s at the latest\n", a.HeldUntil)
		}
		return err
	})
}
