package guarded

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"weir/sink/guard"
)

// Gateway returns a handler that checks each request as a call before next serves it, such as a
// httputil.ReverseProxy before an agent, a server of tools or a model. call says which call a request is.
// A refused request is answered by 403, 402 or 429 with a JSON object. When an order by hand (weir stop)
// binds a call while it is answered, the context of its request is cancelled: a ReverseProxy then ends
// both connections, so that a stream is cut.
func Gateway(g *guard.Guard, call func(*http.Request) guard.Call, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := g.Begin(r.Context(), call(r))
		if b.Decision.Stopped() {
			refuse(w, &b.Decision)
			return
		}
		ctx := b.Context()
		var err error
		defer func() { b.Finish(guard.Outcome{Err: errors.Join(err, context.Cause(ctx))}) }()
		defer func() {
			if p := recover(); p != nil {
				err = errors.New("the answer was cut")
				panic(p)
			}
		}()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// refuse answers a call that may not be made.
func refuse(w http.ResponseWriter, d *guard.Decision) {
	status := http.StatusForbidden
	if d.Verdict != nil && d.Verdict.HTTPStatus >= http.StatusBadRequest {
		status = d.Verdict.HTTPStatus
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": d.Err().Error(), "reason_code": d.Reason})
}
