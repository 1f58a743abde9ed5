package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"weir/cmd/internal/app"
	"weir/cmd/internal/cli"
	"weir/events/adapter/registry"
)

func runCommand() cli.Command {
	return cli.Command{
		Name: "run", Short: "take events in and give verdicts out, by HTTP, files and pipes",
		Long: `Takes events by POST /v1/events (one JSON object, or one per line) and from files that
are followed, keeps them in a journal, and gives verdicts by GET /v1/verdicts (as a
stream), into a file and to a webhook. POST /v1/check answers whether one call may be
made, GET /v1/flows tells of the flows. Nothing else has to be installed.

What was acknowledged is in the state folder, also after a crash. Limits files are
read again when they change. SIGHUP reads them at once, SIGINT and SIGTERM end weir in
order within 20 s, and a second one at once.

Each flag may also be given by the environment, as WEIR_LISTEN or WEIR_VERDICT_FILE.`,
		Examples: []string{
			"weir run",
			"weir run --state /var/lib/weir --limits limits.yaml",
			"weir run --follow claudecode=session.jsonl --verdict-file verdicts.jsonl",
			"curl -N http://127.0.0.1:8080/v1/verdicts",
		},
		Setup: func(fs *flag.FlagSet) cli.Run {
			r := newRunFlags(fs)
			return func(ctx context.Context, env *cli.Env, args []string) error {
				if err := cli.Want(args, 0, 0, ""); err != nil {
					return err
				}
				if err := fromEnvironment(fs, env); err != nil {
					return err
				}
				o, err := r.options()
				if err != nil {
					return err
				}
				return serve(ctx, env, o)
			}
		},
	}
}

// defaultState is where weir run keeps its state when nobody says otherwise.
const defaultState = "weir-state"

type runFlags struct {
	judging       *judging
	o             app.Options
	inMemory      bool
	hosts, follow *cli.List
	memoryMiB     int64
}

func newRunFlags(fs *flag.FlagSet) *runFlags {
	r := &runFlags{judging: newJudging(fs)}
	fs.StringVar(&r.o.Listen, "listen", app.DefaultListen, "serve HTTP on this `ADDRESS`")
	r.hosts = cli.NewList(fs, "host", "a `NAME` that clients call this machine by, beside localhost; may be given many times")
	fs.StringVar(&r.o.StateDir, "state", defaultState, "keep journal and state in this `DIR`")
	fs.BoolVar(&r.inMemory, "in-memory", false, "keep everything in memory: nothing is left when weir ends")
	fs.StringVar(&r.o.AdminTokenFile, "admin-token-file", "", "`FILE` with the token for what changes something; without it nobody may")
	fs.StringVar(&r.o.IntakeTokenFile, "intake-token-file", "", "`FILE` with the token for everything else; without it only this machine may")
	r.follow = cli.NewList(fs, "follow", "read events from this `[FORMAT=]FILE` while it grows, - for standard input; may be given many times")
	fs.StringVar(&r.o.VerdictFile, "verdict-file", "", "append verdicts to this `FILE` too")
	fs.StringVar(&r.o.WebhookURL, "webhook", "", "send verdicts to this `URL` too")
	fs.StringVar(&r.o.WebhookSecretFile, "webhook-secret-file", "", "`FILE` with the key that deliveries are signed with")
	fs.DurationVar(&r.o.State.JournalTTL, "retention", app.DefaultRetention, "keep journal and flows for so `LONG`")
	fs.DurationVar(&r.o.CheckpointEvery, "checkpoint-every", app.DefaultCheckpointEvery, "least `TIME` between checkpoints")
	fs.Int64Var(&r.memoryMiB, "memory", app.DefaultMemory>>20, "hold flows in memory up to so many `MIB`")
	return r
}

// options returns what the flags say.
func (r *runFlags) options() (app.Options, error) {
	o := r.o
	o.Hosts = *r.hosts
	o.Memory = r.memoryMiB << 20
	o.State.RecordTTL = o.State.JournalTTL
	if r.inMemory {
		o.StateDir = ""
	}
	for _, s := range *r.follow {
		f := app.Follow{Path: s}
		if format, path, ok := strings.Cut(s, "="); ok && slices.Contains(formatNames(), format) {
			f = app.Follow{Path: path, Format: format}
		} else if _, err := os.Stat(s); ok && err != nil && !strings.ContainsAny(format, "/.") {
			_, err := registry.Lookup(format)
			return o, cli.Usage("--follow %s: %w", s, err)
		}
		o.Follow = append(o.Follow, f)
	}
	// A file alone is watched; profile and single values are as they are said.
	if *r.judging.file != "" {
		if r.judging.profile.Value != "" || len(*r.judging.sets) > 0 {
			return o, cli.Usage("--limits is given beside --profile or --set").Advise("write profile and values into %s: it is watched and would undo them", *r.judging.file)
		}
		o.LimitsFile = *r.judging.file
		return o, nil
	}
	var err error
	o.Limits, err = r.judging.limits()
	return o, err
}

// fromEnvironment sets the flags that were not given and that WEIR_... names.
func fromEnvironment(fs *flag.FlagSet, env *cli.Env) (err error) {
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	fs.VisitAll(func(f *flag.Flag) {
		name := "WEIR_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if v := env.Getenv(name); v != "" && !given[f.Name] && err == nil {
			if serr := f.Value.Set(v); serr != nil {
				err = cli.Usage("%s: %w", name, serr)
			}
		}
	})
	return err
}

// graceful is how long weir may take to end in order.
const graceful = 20 * time.Second

// serve runs the program until a signal ends it.
func serve(ctx context.Context, env *cli.Env, o app.Options) error {
	o.Logger = env.ServerLog()
	signals := make(chan os.Signal, 4)
	if env.Notify != nil {
		defer env.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)()
	}
	a, err := app.New(o)
	if err != nil {
		return err
	}
	if err := a.Start(ctx); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return cli.Failure("%w", err).Advise("is another weir running? choose a port with --listen 127.0.0.1:8081")
		}
		return err
	}
	if env.ErrTerminal {
		env.Notice("weir listens on http://%s, Ctrl-C ends it", a.Addr())
	}
	for ended := false; !ended; {
		select {
		case s := <-signals:
			if ended = s != syscall.SIGHUP; !ended {
				o.Logger.Info("limits are read again")
				if err := a.Reload(); err != nil {
					o.Logger.Error("reload", "error", err)
				}
			}
		case <-a.Done():
			ended = true
		case <-ctx.Done():
			ended = true
		}
	}
	return stop(ctx, signals, o, a)
}

// stop ends the program in order, unless a second signal comes.
func stop(ctx context.Context, signals <-chan os.Signal, o app.Options, a *app.App) error {
	o.Logger.Info("weir ends")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceful)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- a.Stop(ctx) }()
	for {
		select {
		case err := <-stopped:
			return errors.Join(a.Err(), err)
		case s := <-signals:
			if s != syscall.SIGHUP {
				return cli.Failure("ended at once by %s", s).Advise("nothing that was acknowledged is lost; the next start reads the rest from the journal")
			}
		}
	}
}

// urlOf is how a server on the address is called.
func urlOf(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err == nil && (host == "" || net.ParseIP(host).IsUnspecified()) {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	return fmt.Sprintf("http://%s", address)
}
