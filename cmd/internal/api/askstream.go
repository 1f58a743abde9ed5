package api

import (
	"context"
	"fmt"
	"net/http"

	"weir/cmd/internal/admission"
	"weir/cmd/internal/problem"
	"weir/sink/check"
	"weir/sink/prom"
)

// askStreams is POST check.StreamPath. There may be as many streams of asks as followers of
// the verdicts: a dispatcher has one of each. Each ask is let in and charged as if it had
// come in a request of its own, so that a token that was taken out asks no more.
func (a *Server) askStreams() func(http.ResponseWriter, *http.Request) error {
	seats := admission.NewSeats(a.o.Streams)
	ask := check.Handler{Ask: a.timedAsk(prom.RouteCheck), Fail: a.writeError}
	return func(w http.ResponseWriter, r *http.Request) error {
		leave, ok := seats.Take(r)
		if !ok {
			return &problem.Error{Status: http.StatusTooManyRequests, RetryAfter: 5,
				Detail: fmt.Sprintf("too many streams of asks; close some, or ask by /v1/check (there may be %d, three quarters of them from one address)", a.o.Streams)}
		}
		defer leave()
		hold := holdOf(r)
		stream := check.Stream{Handler: ask, Begin: a.beginAsk, Read: func(*http.Request) { hold.Clear() }, End: a.program.Ending()}
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
	return context.WithValue(r.Context(), visitKey{}, &visit{who: who}), admission.Busy(r), nil
}
