package api

import (
	"context"
	"fmt"
	"net/http"
	"reflect"

	"weir/cmd/internal/admission"
	"weir/cmd/internal/gate"
	"weir/cmd/internal/problem"
	"weir/events"
	"weir/events/adapter"
	"weir/sink/check"
	"weir/sink/prom"
	"weir/state"
)

// hookRoutes are those of the hooks of coding agents.
// What a hook tells is appended as events, what it wants to do is asked for like any call.
// An agent whose hook weir cannot answer goes on, unless the hook was told to close (see
// check.Hook), so the fault is a warning in weir's log and no answer with an error.
func (a *Server) hookRoutes() []route {
	hook := check.NewHook(a.timed(prom.RouteHook), a.appendHooked, func(err error) {
		a.logger.Warn("a hook was not answered as it should be", "error", err)
	}, a.clock.Now)
	evaluate := check.NewEvaluate(a.timed(prom.RouteHook), a.appendHooked, a.wholeFlow, a.writeError, a.clock.Now)
	return []route{
		{"POST", check.HookPath, asker, limited(a.o.Requests*checksPerRequest, func(w http.ResponseWriter, r *http.Request) error {
			visitOf(r.Context()).orders = a.mayOperate(r)
			hook.ServeHTTP(w, r)
			return nil
		})},
		{"POST", check.EvaluatePath, asker, limited(a.o.Requests*checksPerRequest, func(w http.ResponseWriter, r *http.Request) error {
			visitOf(r.Context()).orders = a.mayOperate(r)
			evaluate.ServeHTTP(w, r)
			return nil
		})},
	}
}

// wholeFlow returns an active order that stops all calls of a flow, as far as this process folds it.
func (a *Server) wholeFlow(ctx context.Context, flow string) *events.Verdict {
	view, known, err := a.lookAt(flow)
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

// appendHooked puts what hooks have told into the log.
// Each line is the event that package check has made of what the hook sent, so a line that
// is refused shows a fault of either; it becomes a dead letter and the others go on. An
// error is one of the log, and the caller answers it.
func (a *Server) appendHooked(ctx context.Context, lines [][]byte) error {
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
			signed := v.sign(a.byPrincipal(v), &ev)
			if !v.orders && a.trust.Weigh(gate.Hook, &ev) || signed {
				line = ev.AppendJSON(nil)
			}
		}
		if err == nil {
			entries = append(entries, state.Entry{Value: line})
			continue
		}
		code := adapter.CodeOf(err)
		// Hooks share the bound of dead letters with the other ways in by HTTP.
		if a.deadLetters.Keep(&a.deadLetters.HTTP, code, len(line)) {
			deadLetters = append(deadLetters, a.deadLetters.New("http/hook", 0, code, "of the event that was made of it: "+err.Error(), line))
		}
	}
	if len(deadLetters) > 0 {
		if err := a.store.DeadLetter(deadLetters...); err != nil {
			a.logger.Error("what a hook told could not be kept", "count", len(deadLetters), "error", err)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return a.log.Append(ctx, entries)
}

// checks answers checks of dispatchers.
func (a *Server) checks() *check.Handler {
	return &check.Handler{Check: a.timed(prom.RouteCheck), Fail: a.writeError, Now: a.clock.Now, Hint: a.hints.of}
}

// askStreams is POST check.StreamPath. There may be as many streams of asks as followers of
// the verdicts: a dispatcher has one of each. Each ask is let in and charged as if it had
// come in a request of its own, so that a token that was taken out asks no more.
func (a *Server) askStreams() func(http.ResponseWriter, *http.Request) error {
	// A stream holds one seat for as long as it lasts, while a request for a check holds a
	// place of its gate only until its answer.
	seats := admission.NewSeats(a.o.Streams)
	checks := a.checks()
	return func(w http.ResponseWriter, r *http.Request) error {
		leave, ok := seats.Take(r, visitOf(r.Context()).name())
		if !ok {
			return &problem.Error{Status: http.StatusTooManyRequests, RetryAfter: 5,
				Detail: fmt.Sprintf("too many streams of asks; close some, or ask by /v1/check (there may be %d, three quarters of them from one address)", a.o.Streams)}
		}
		defer leave()
		hold := holdOf(r)
		// The body never ends, so what was read of it is given back as soon as an ask is
		// taken out of it; otherwise a stream would be charged for all that ever came.
		stream := check.Stream{Handler: *checks, Begin: a.beginAsk, Read: func(*http.Request) { hold.Clear() }, Send: admission.Together, End: a.program.Ending()}
		stream.ServeHTTP(w, r)
		return nil
	}
}

// beginAsk lets one ask of a stream in.
func (a *Server) beginAsk(r *http.Request) (context.Context, func(), error) {
	who, e := a.door.admit(r, asker)
	if e == nil {
		e = a.paid(who)
	}
	if e != nil {
		return nil, nil, e
	}
	// The function is called when the answer is there: until then the connection counts as
	// at work and gives way to no newcomer. The context carries a visit of its own, since
	// who asks is looked up anew for each line of the stream.
	return context.WithValue(r.Context(), visitKey{}, &visit{who: who}), admission.Busy(r), nil
}
