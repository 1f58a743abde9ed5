package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"time"

	"weir/analyzer"
	"weir/cmd/internal/access"
	"weir/cmd/internal/admission"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/gate"
	"weir/cmd/internal/intake"
	"weir/cmd/internal/problem"
	"weir/events"
	"weir/events/adapter"
	"weir/sink/check"
	"weir/sink/prom"
	"weir/state"
)

// checking is the group of routes that answer checks: of dispatchers, of hooks and of gateways. Its
// fields are set when the routes are made.
type checking struct {
	checker     Checks
	log         Log
	store       Store
	deadLetters *intake.DeadLetters
	program     Program
	trust       gate.Trust
	door        *door
	hints       *hints
	transcripts *transcripts
	metrics     *prom.Metrics // nil if metrics are off
	clock       clock.Clock
	logger      *slog.Logger

	requests int  // see Options.Requests
	streams  int  // see Options.Streams
	gateways bool // gateways may ask by HTTP

	fail        func(w http.ResponseWriter, r *http.Request, err error)
	paid        func(who *access.Principal) *problem.Error
	byPrincipal func(v *visit) bool
	mayOperate  func(r *http.Request) bool
	begins      func(ctx context.Context, ev *events.Event) *events.Verdict // see Parts
	lookAt      func(flow string) (view *analyzer.View, known bool, err error)
}

// checking returns the group.
func (a *Server) checking() *checking {
	return &checking{checker: a.parts.Checks, log: a.parts.Log, store: a.parts.Store, deadLetters: a.parts.DeadLetters, program: a.parts.Program, trust: a.trust, door: &a.door, hints: a.hints, transcripts: a.transcripts, metrics: a.metrics,
		clock: a.clock, logger: a.logger, requests: a.o.Requests, streams: a.o.Streams, gateways: a.o.Authz,
		fail: a.faults.write, paid: a.entrance.paid, byPrincipal: a.folded.byPrincipal, mayOperate: a.entrance.mayOperate, begins: a.parts.Begins, lookAt: a.folded.lookAt}
}

// routes are those of the group.
func (c *checking) routes() []route {
	// The handlers of package check serve any program that can answer a check. Access is
	// decided here, before they see the request.
	checks := c.handler()
	return append(append(c.hookRoutes(), c.gatewayRoutes()...), []route{
		{"POST", checkPath, asker, limited(c.requests*checksPerRequest, func(w http.ResponseWriter, r *http.Request) error {
			checks.ServeHTTP(w, r)
			return nil
		})},
		{"POST", check.StreamPath, asker, c.askStreams()},
	}...)
}

// hookRoutes are the routes for the hooks of coding agents.
// The reports of a hook are appended as events; its planned actions are checked like any
// call. An agent whose hook weir cannot answer continues, unless the hook is set to close
// (see check.Hook). The fault is therefore a warning in weir's log and not an error
// response.
func (c *checking) hookRoutes() []route {
	hook := check.NewHook(c.timed(prom.RouteHook), c.appendHooked, func(err error) {
		c.logger.Warn("a hook was not answered as it should be", "error", err)
	}, c.clock.Now)
	evaluate := check.NewEvaluate(c.timed(prom.RouteHook), c.appendHooked, c.wholeFlow, c.fail, c.clock.Now)
	hook.Begins, evaluate.Begins = c.begins, c.begins
	hook.Unread = func(source, file, why string) { c.transcripts.unread(c.logger, source, file, why) }
	return []route{
		{"POST", check.HookPath, asker, limited(c.requests*checksPerRequest, func(w http.ResponseWriter, r *http.Request) error {
			visitOf(r.Context()).orders = c.mayOperate(r)
			hook.ServeHTTP(w, r)
			return nil
		})},
		{"POST", check.EvaluatePath, asker, limited(c.requests*checksPerRequest, func(w http.ResponseWriter, r *http.Request) error {
			visitOf(r.Context()).orders = c.mayOperate(r)
			evaluate.ServeHTTP(w, r)
			return nil
		})},
	}
}

// wholeFlow returns an active order that stops all calls of a flow, as far as this process folds it.
func (c *checking) wholeFlow(ctx context.Context, flow string) *events.Verdict {
	view, known, err := c.lookAt(flow)
	if err != nil || !known || view == nil || !visitOf(ctx).who.Flow(flow) {
		return nil
	}
	for i := range view.Orders {
		v := &view.Orders[i]
		if v.Scope.Kind == events.ScopeFlow && (v.Match == nil || reflect.DeepEqual(*v.Match, events.Match{})) && v.Effective != events.EffectiveNext && check.Refuses(v) {
			return v
		}
	}
	return nil
}

// appendHooked appends the reports of hooks to the log.
// Each line is the event that package check made from the hook's request, so a rejected
// line shows a fault of either. It goes to the dead-letter queue and the others continue.
// An error is one of the log, and the caller answers it.
func (c *checking) appendHooked(ctx context.Context, lines [][]byte) error {
	var entries []state.Entry
	var deadLetters []state.DeadLetter
	for _, line := range lines {
		var ev events.Event
		err := events.Decode(line, &ev)
		if err == nil {
			err = gate.Hook.Admit(&ev)
		}
		if err == nil {
			err = visitOf(ctx).owns(&ev)
		}
		// The route takes no more than the right to ask, and the sender names the flow. So a
		// prompt is the user's word only from a principal that may give orders.
		if err == nil {
			v := visitOf(ctx)
			signed := v.sign(c.byPrincipal(v), &ev)
			if !v.orders && c.trust.Weigh(gate.Hook, &ev) || signed {
				line = ev.AppendJSON(nil)
			}
		}
		if err == nil {
			entries = append(entries, state.Entry{Value: line})
			continue
		}
		code := adapter.CodeOf(err)
		// Hooks share the bound of dead letters with the other ways in by HTTP.
		if c.deadLetters.Keep(&c.deadLetters.HTTP, code, len(line)) {
			deadLetters = append(deadLetters, c.deadLetters.New("http/hook", 0, code, "of the event that was made of it: "+err.Error(), line))
		}
	}
	if len(deadLetters) > 0 {
		if err := c.store.DeadLetter(deadLetters...); err != nil {
			c.logger.Error("what a hook told could not be kept", "count", len(deadLetters), "error", err)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return c.log.Append(ctx, entries)
}

// handler answers checks of dispatchers.
func (c *checking) handler() *check.Handler {
	return &check.Handler{Check: c.timed(prom.RouteCheck), Fail: c.fail, Now: c.clock.Now, Hint: c.hints.of}
}

// askStreams is POST check.StreamPath. There may be as many streams of asks as followers of
// the verdicts: a dispatcher has one of each. Each ask is let in and charged as if it had
// come in a request of its own, so that a token that was taken out asks no more.
func (c *checking) askStreams() func(http.ResponseWriter, *http.Request) error {
	// A stream holds one seat for as long as it lasts, while a request for a check holds a
	// place of its gate only until its answer.
	seats := admission.NewSeats(c.streams)
	checks := c.handler()
	return func(w http.ResponseWriter, r *http.Request) error {
		leave, ok := seats.Take(r, visitOf(r.Context()).name())
		if !ok {
			return &problem.Error{Status: http.StatusTooManyRequests, RetryAfter: 5,
				Detail: fmt.Sprintf("too many streams of asks; close some, or ask by /v1/check (there may be %d, three quarters of them from one address)", c.streams)}
		}
		defer leave()
		hold := holdOf(r)
		// The body never ends, so what was read of it is given back as soon as an ask is
		// taken out of it; otherwise a stream would be charged for all that ever came.
		lines := &checkLines{door: c.door, paid: c.paid, request: r, part: admission.PartOf(r)}
		lines.end = lines.part.End
		stream := check.Stream{Handler: *checks, Begin: lines.begin, Read: hold.Clear, Send: lines.part.Together, End: c.program.Ending()}
		stream.ServeHTTP(w, r)
		return nil
	}
}

// timed checks what visitors may ask, and measures how long the answers take.
// All ways of asking pass through it, so that each request is let in, counted as a cost of its
// visitor and marked as a claim in the same way.
func (c *checking) timed(route prom.Route) check.Checker {
	return func(batch []*check.Request) {
		may := check.Sift(batch, func(q *check.Request) bool {
			q.Err = check.Caught(func() error { return c.mayAsk(q) })
			return q.Err == nil
		})
		begun := c.clock.Now()
		c.checker.Check(may)
		for _, q := range may {
			wait := q.Wait
			if wait == nil {
				c.countAsk(route, begun, q.Verdict, q.Err)
				continue
			}
			q.Wait = func() (*events.Verdict, error) {
				v, err := wait()
				c.countAsk(route, begun, v, err)
				return v, err
			}
		}
	}
}

// mayAsk refuses what a visitor may not ask, and sets what goes into the log. Names that weir has
// signed are not the sender's, and are read back from there.
func (c *checking) mayAsk(q *check.Request) error {
	if err := gate.Ask.Admit(q.Event); err != nil {
		return err
	}
	v := visitOf(q.Context)
	if err := v.owns(q.Event); err != nil {
		return err
	}
	v.cost.Add(1)
	signed := v.sign(c.byPrincipal(v), q.Event)
	if c.trust.Weigh(gate.Ask, q.Event) || signed {
		q.Raw, q.Decoded = q.Event.AppendJSON(nil), q.Decoded && !signed
	}
	return nil
}

// countAsk measures how long an ask has taken. What was wrong with the ask is no measure of weir;
// what weir could not do is.
func (c *checking) countAsk(route prom.Route, begun time.Time, v *events.Verdict, err error) {
	if c.metrics != nil && (err == nil || errors.Is(err, check.ErrTimeout) || errors.Is(err, state.ErrDiskLow)) {
		c.metrics.Check(route, v, c.clock.Now().Sub(begun))
	}
}

// gatewayRoutes are those of gateways that ask before they pass a request on.
// They take every method, since a gateway passes on that of its client. When the port does
// not answer gateways, there is none of them.
func (c *checking) gatewayRoutes() []route {
	if !c.gateways {
		return nil
	}
	authz := check.NewAuthz(c.timed(prom.RouteAuthz), c.fail, c.clock.Now)
	origins := http.NewCrossOriginProtection()
	return []route{
		{"", check.AuthzPath + "{gateway}", asker, limited(c.requests*checksPerRequest, func(w http.ResponseWriter, r *http.Request) error {
			// Here a GET counts a call, which pages of other origins may send otherwise: it is
			// looked at as if it were a POST.
			changing := *r
			changing.Method = http.MethodPost
			if origins.Check(&changing) != nil {
				return &problem.Error{Status: http.StatusForbidden, Detail: "a page of another origin may not send this; a gateway whose clients are such pages has to show a token"}
			}
			authz.ServeHTTP(w, r)
			return nil
		})},
	}
}
