package api

import (
	"context"
	"errors"
	"net/http"

	"weir/cmd/internal/gate"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/sink/check"
	"weir/sink/prom"
	"weir/state"
)

// hookRoutes are those of the hooks of coding agents.
func (a *Server) hookRoutes() []route {
	hook := check.NewHook(a.timedAsk(prom.RouteHook), a.appendHooked, func(err error) {
		a.logger.Warn("a hook was not answered as it should be", "error", err)
	}, a.clock.Now)
	return []route{
		{"POST", check.HookPath, asker, limited(a.o.Requests*checksPerRequest, func(w http.ResponseWriter, r *http.Request) error {
			hook.ServeHTTP(w, r)
			return nil
		})},
	}
}

// appendHooked puts what hooks have told into the log.
func (a *Server) appendHooked(ctx context.Context, lines [][]byte) error {
	var entries []state.Entry
	var letters []state.DeadLetter
	for _, line := range lines {
		var ev events.Event
		err := events.Decode(line, &ev)
		if err == nil {
			err = gate.Hook.Admit(&ev)
		}
		if err == nil {
			err = visitOf(ctx).owns(&ev)
		}
		if err == nil && a.trust.Weigh(gate.Hook, &ev) {
			line = ev.AppendJSON(nil)
		}
		if err == nil {
			entries = append(entries, state.Entry{Value: line})
			continue
		}
		code := pump.CodeFormat
		if e, ok := errors.AsType[*events.DecodeError](err); ok {
			code = e.Code
		}
		if a.letters.Keep(&a.letters.HTTP, code, len(line)) {
			letters = append(letters, a.letters.New("http/hook", 0, code, "of the event that was made of it: "+err.Error(), line))
		}
	}
	if len(letters) > 0 {
		if err := a.store.DeadLetter(letters...); err != nil {
			a.logger.Error("what a hook told could not be kept", "count", len(letters), "error", err)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return a.log.Append(ctx, entries)
}
