package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/cmd/internal/admission"
	"weir/cmd/internal/budget"
	"weir/cmd/internal/problem"
	"weir/events"
	"weir/sink/check"
	"weir/sink/prom"
	"weir/state"
)

// The limits of the server that are not options. They are real time, whatever the
// clock of the app says, because they guard real connections.
const (
	headerBytes   = 16 << 10
	headerTimeout = 5 * time.Second
	readTimeout   = 60 * time.Second
	writeTimeout  = 60 * time.Second // of an answer; streams set their own for each write
	viewerTimeout = 5 * time.Second  // of one write to a stream
	idleTimeout   = 120 * time.Second
)

// checksPerRequest is how many checks may be under way for each body that the intake
// takes at one time: they are small, and wait for the fold.
const checksPerRequest = 8

// route is one thing that the server can be asked.
type route struct {
	method, path string
	need         need
	serve        func(w http.ResponseWriter, r *http.Request) error
}

func (a *Server) routes() []route {
	checks := &check.Handler{Ask: a.timedAsk(prom.RouteCheck), Fail: a.writeError}
	return slices.Concat(a.receiverRoutes(), a.gatewayRoutes(), a.hookRoutes(), a.inspectorRoutes(), a.operatorRoutes(), a.agentRoutes(), []route{
		{"POST", "/v1/events", sender, a.serveIntake},
		{"POST", "/v1/check", asker, limited(a.o.Requests*checksPerRequest, func(w http.ResponseWriter, r *http.Request) error {
			checks.ServeHTTP(w, r)
			return nil
		})},
		{"POST", check.StreamPath, asker, a.askStreams()},
		{"POST", check.MemberPath, asker, limited(a.o.Requests*checksPerRequest, a.serveForwarded)},
		{"POST", check.TreePath, asker, limited(a.o.Requests*checksPerRequest, a.serveTreeAsk)},
		{"GET", "/v1/verdicts", follower, a.streams()},
		{"GET", "/v1/costs", reader, limited(1, a.serveCosts)},
		{"GET", "/v1/flows", reader, a.turns.of(a.serveFlows)},
		{"GET", "/v1/flows/{id}", reader, a.serveFlow},
		{"GET", "/v1/flows/{id}/events", reader, a.turns.of(a.serveFlowEvents)},
		{"GET", "/v1/limits", follower, a.serveLimits},
		{"GET", "/v1/deadletters", reader, a.turns.of(a.serveDeadLetters)},
		{"GET", "/healthz", public, a.serveHealth},
		{"GET", "/readyz", public, a.serveReady},
		{"POST", "/-/reload", reloader, a.serveReload},
	})
}

func (a *Server) newServer() *http.Server {
	mux := http.NewServeMux()
	for _, r := range a.routes() {
		mux.HandleFunc(r.method+" "+r.path, a.metrics.Counted(prom.Request{Method: r.method, Pattern: r.path}, a.charged(func(w http.ResponseWriter, req *http.Request) {
			if err := a.host(&r, w, req); err != nil {
				a.writeError(w, req, err)
			}
		})))
	}
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.writeError(w, r, &problem.Error{Status: http.StatusForbidden, Detail: "a page of another origin may not send this"})
	}))
	return &http.Server{
		Handler:           admission.Track(a.fromGateways(a.guarded(origins.Handler(jsonErrors(mux, a))))),
		ConnContext:       admission.ConnContext,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		BaseContext:       func(net.Listener) context.Context { return context.Background() },
		ErrorLog:          slog.NewLogLogger(a.logger.Handler(), slog.LevelDebug),
	}
}

// guarded is what every request passes through first.
func (a *Server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				a.logger.Error("a request panicked: please report this", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				a.writeError(w, r, &problem.Error{Status: http.StatusInternalServerError, Detail: "a fault in weir; its log has more"})
			}
		}()
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cache-Control", "no-store")
		// Not every writer has deadlines; those of the server's connections do.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
		if !a.knownHost(r.Host) {
			a.writeError(w, r, &problem.Error{Status: http.StatusMisdirectedRequest,
				Detail: "the Host header names a host that weir was not told of; use an address or localhost, or start weir with that host"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// knownHost refuses names that anybody's DNS may point at this server, by which a
// page in a browser could reach it as its own origin. Addresses cannot be misused so.
// Beyond loopback tokens keep such pages out, unless names were given.
func (a *Server) knownHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" || slices.Contains(a.o.Hosts, host) {
		return true
	}
	return !a.door.loopback && len(a.o.Hosts) == 0
}

// jsonErrors answers what the mux would refuse with plain text.
func jsonErrors(mux *http.ServeMux, a *Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			probe := r.Clone(r.Context())
			probe.Method = method
			if _, pattern := mux.Handler(probe); pattern != "" {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) == 0 {
			a.writeError(w, r, &problem.Error{Status: http.StatusNotFound, Detail: "there is nothing at " + r.URL.Path})
			return
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		a.writeError(w, r, &problem.Error{Status: http.StatusMethodNotAllowed, Detail: "use " + strings.Join(allowed, " or ")})
	})
}

// writeError answers with a problem (RFC 9457).
func (a *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	e := a.explain(err)
	if e == nil { // the other side is gone
		return
	}
	h := w.Header()
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	if e.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="weir"`)
	}
	if admission.Unread(r) {
		h.Set("Connection", "close")
	}
	if e.Status >= http.StatusInternalServerError {
		a.logger.Warn("a request failed", "method", r.Method, "path", r.URL.Path, "status", e.Status, "error", err)
	}
	writeJSON(w, "application/problem+json", e.Status, struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Code   string `json:"code,omitempty"`
		Field  string `json:"field,omitempty"`
	}{"about:blank", http.StatusText(e.Status), e.Status, e.Detail, e.Code, e.Field})
}

// explain finds the answer to an error; nil when there is nobody to answer.
func (a *Server) explain(err error) *problem.Error {
	if e, ok := errors.AsType[*problem.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*events.DecodeError](err); ok {
		return &problem.Error{Status: http.StatusBadRequest, Code: string(e.Code), Field: e.Field, Detail: e.Error()}
	}
	if e, ok := errors.AsType[*check.Error](err); ok {
		return &problem.Error{Status: e.Status, Detail: e.Detail}
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &problem.Error{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("the body is longer than %d bytes; send it in parts", maxBody)}
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return &problem.Error{Status: http.StatusRequestTimeout, Detail: "the body came too slowly; send it in parts"}
	}
	switch {
	case errors.Is(err, budget.ErrFull):
		return &problem.Error{Status: http.StatusServiceUnavailable, Detail: err.Error(), RetryAfter: 1}
	case errors.Is(err, check.ErrTimeout):
		return &problem.Error{Status: http.StatusServiceUnavailable, Detail: err.Error(), RetryAfter: 1}
	case errors.Is(err, state.ErrDiskLow):
		return &problem.Error{Status: http.StatusServiceUnavailable, Detail: "there is too little free disk space to take anything in; it goes on by itself when there is room", RetryAfter: 5}
	case errors.Is(err, state.ErrTooLarge):
		return &problem.Error{Status: http.StatusRequestEntityTooLarge, Detail: err.Error()}
	case errors.Is(err, state.ErrClosed):
		return &problem.Error{Status: http.StatusServiceUnavailable, Detail: "weir is stopping; send it again", RetryAfter: 1}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &problem.Error{Status: http.StatusBadRequest, Detail: "the body ended before it was whole; send it again"}
	case errors.Is(err, context.Canceled):
		return nil
	}
	return &problem.Error{Status: http.StatusInternalServerError, Detail: err.Error()}
}

func writeJSON(w http.ResponseWriter, contentType string, status int, v any) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // an error means that the other side is gone
}

func answer(w http.ResponseWriter, v any) error {
	writeJSON(w, "application/json", http.StatusOK, v)
	return nil
}

// limited refuses a request when so many are being served.
func limited(most int, serve func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	gate := admission.NewGate(most)
	return func(w http.ResponseWriter, r *http.Request) error {
		leave, ok := gate.Enter(r)
		if !ok {
			return &problem.Error{Status: http.StatusTooManyRequests, Detail: "too many requests at one time; send larger batches, or try again", RetryAfter: 1}
		}
		defer leave()
		return serve(w, r)
	}
}

// intParameter reads a number from the query.
func intParameter(r *http.Request, name string, byDefault, most int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return byDefault, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, &problem.Error{Status: http.StatusBadRequest, Detail: fmt.Sprintf("%s=%q is not a number from 0 on", name, text)}
	}
	return min(n, most), nil
}
