package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"weir/cmd/internal/app"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/client"
	"weir/cmd/internal/operate"
	"weir/events"
)

// liveFlags are those of the part of the demonstration that goes on.
//
// pace is used by the part with two agents, too, as how long they think.
// It is no load: an event at a time, so that one can watch.
type liveFlags struct {
	listen *string
	pace   *time.Duration
}

// newLiveFlags declares the flags.
func newLiveFlags(fs *pflag.FlagSet) *liveFlags {
	return &liveFlags{
		listen: fs.String("listen", app.DefaultListen, "serve HTTP on this `ADDRESS`, on another port when it is taken"),
		pace:   fs.Duration("pace", 150*time.Millisecond, "send it an event every `DURATION`"),
	}
}

// serve starts a weir in memory and sends it the runs that the default limits are
// for, over and over, until a signal ends it.
//
// It ends without an error when a signal, ctx or the server ends it.
func (l *liveFlags) serve(ctx context.Context, env *cli.Env, runs []Run) (err error) {
	signals := make(chan os.Signal, 2)
	if env.Notify != nil {
		defer env.Notify(signals, syscall.SIGINT, syscall.SIGTERM)()
	}
	// What it opens is closed by the function below, in whatever way this ends.
	a, err := l.start(ctx)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), operate.Graceful)
		defer cancel()
		err = errors.Join(err, a.Err(), a.Stop(end))
	}()
	if err := l.tell(env, client.URLOf(a.Addr())); err != nil {
		return err
	}
	// It is fed by its port, as from outside.
	feed := NewFeed(env, client.URLOf(a.Addr()), runs)
	// A ticker of nothing would panic.
	tick := time.NewTicker(max(*l.pace, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := feed.Send(ctx); err != nil {
				return err
			}
		case <-a.Done():
			return nil
		case <-signals:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// start listens on the configured address, or on any port when another program uses that one.
func (l *liveFlags) start(ctx context.Context) (*app.App, error) {
	for _, address := range []string{*l.listen, "127.0.0.1:0"} {
		// Without a state folder everything is in memory and gone at the end.
		a, err := app.New(app.Options{Listen: address})
		if err != nil {
			return nil, err
		}
		if err = a.Start(ctx); err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			return a, err
		}
	}
	return nil, cli.Failure("no port is free")
}

// Print where to look. The commands are printed with --server only when the port is not
// the one that they use by default.
func (l *liveFlags) tell(env *cli.Env, url string) error {
	server := ""
	if url != client.URLOf(app.DefaultListen) {
		server = " --server " + url
	}
	_, err := io.WriteString(env.Out, strings.NewReplacer("URL", url, "SERVER", server).Replace(`
Now live: a weir listens on URL, all in memory, and such runs
are sent to it slowly. Look at it in a browser, or from another terminal, and end it
with Ctrl-C:
  URL/ui/
  weir flows ls --sort nearSERVER
  weir flows tailSERVER
  weir explain FLOWSERVER
  curl -N -H 'Accept: text/event-stream' URL/v1/verdicts

`))
	return err
}

// Feed is a dispatcher that asks before each call.
//
// It is for one goroutine, which calls Send as often as events should come.
// It reaches weir only by HTTP, as any dispatcher does.
type Feed struct {
	env    *cli.Env
	client *client.Client
	runs   []*liveRun
	turn   int // of the run that is next
	round  int // how often all runs were sent
}

// liveRun is a run on its way.
// next is that of the event that is sent next; calls are those that were asked for.
type liveRun struct {
	*Run
	next  int // event
	calls int64
}

// NewFeed returns a dispatcher of the runs that asks the weir at url.
//
// It takes only runs of the default limits, since the weir that it asks has those for all
// flows. The runs are shared and not changed.
func NewFeed(env *cli.Env, url string, runs []Run) *Feed {
	f := &Feed{env: env, client: &client.Client{Base: url, HTTP: http.DefaultClient}, round: 1}
	for i := range runs {
		if runs[i].limits.Profile == "balanced" {
			f.runs = append(f.runs, &liveRun{Run: &runs[i]})
		}
	}
	return f
}

// Send sends the next event of the next run.
//
// The runs take turns, so that many flows are at work at the same time. When all are over
// it sends nothing once, and the next call begins them anew as other flows.
func (f *Feed) Send(ctx context.Context) error {
	for range f.runs {
		r := f.runs[f.turn]
		f.turn = (f.turn + 1) % len(f.runs)
		if r.next < len(r.events) {
			return f.one(ctx, r)
		}
	}
	f.round++
	for _, r := range f.runs {
		r.next, r.calls = 0, 0
	}
	return nil
}

// one sends an event as one of now. A call is asked for, and a refusal ends the run.
func (f *Feed) one(ctx context.Context, r *liveRun) error {
	ev := r.events[r.next]
	r.next++
	// Ids are new in each round, or they would count as repeats of the round before.
	ev.CorrelationID = fmt.Sprintf("%s-%d", r.name, f.round)
	ev.ID = fmt.Sprintf("%s-%d", ev.CorrelationID, r.next)
	// The times are those of now: recorded ones lie in the past, where rates and silences
	// would be judged by them.
	ev.Source, ev.Time, ev.Ask = "demo", events.StampOf(f.env.Now()), false
	if !ev.Refusable() {
		return f.client.Post(ctx, "/v1/events", ev.AppendJSON(nil))
	}
	r.calls++
	ev.Ask = true
	a, err := f.client.Check(ctx, ev.AppendJSON(nil))
	if err != nil || a.Allowed {
		return err
	}
	// What comes after a refused call would not have happened.
	r.next = len(r.events)
	_, err = cli.Fprintf(f.env.Out, "%s  %s at call %d: %s\n", f.env.Painted("refused", cli.Bad), ev.CorrelationID, r.calls, because(a.Message))
	return err
}
