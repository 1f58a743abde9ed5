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

// checkPath is where dispatchers ask for a call.
const checkPath = "/v1/check"

// checksPerRequest is how many checks may be under way for each body that the intake
// takes at one time: they are small, and wait for the fold.
const checksPerRequest = 8

// route is one thing that the server can be asked.
// The routes are a table so that metrics, the needs of each and what a refusal says of
// methods follow from one place. A method "" takes all of them.
type route struct {
	method, path string
	// An error that serve returns is answered as a problem (see writeError). After the start
	// of a response serve logs every fault and returns nil.
	need  need
	serve func(w http.ResponseWriter, r *http.Request) error
}

// routes is called once for the metrics, if there are any, and once for the server. What a
// route closes over, such as the seats of streams, is made anew by each call.
//
// A POST that changes nothing, such as a check, is no order; its need says what it takes.
// What reads all flows or the log takes its turn (see turns); what waits for the fold is
// bounded by limited, since each one that waits has a goroutine and its buffers.
func (a *Server) routes() []route {
	return slices.Concat(a.receiverRoutes(), a.checking().routes(), a.forwarding().routes(), a.inspectorRoutes(), a.sessionRoutes(), whoami{a}.routes(), a.markRoutes(), a.operatorRoutes(), handOrders{a}.routes(), a.agentRoutes(), a.budgetRoutes(), flowCosts{a}.routes(), []route{
		{"POST", "/v1/events", sender, a.serveIntake},
		{followed.method, followed.path, followed.need, a.streams()},
		{"GET", BackupPath, reader, limited(1, a.serveBackup)},
		{"GET", "/v1/costs", reader, limited(1, a.serveCosts)},
		{"GET", "/v1/flows", reader, a.turns.of(a.serveFlows)},
		{"GET", "/v1/flows/{id}", reader, a.serveFlow},
		{"GET", "/v1/flows/{id}/events", reader, a.turns.of(a.serveFlowEvents)},
		{"GET", "/v1/limits", follower, a.serveLimits},
		{"GET", "/v1/deadletters", reader, a.turns.of(a.serveDeadLetters)},
		{"GET", OpenAPIPath, public, serveOpenAPI},
		{"GET", "/healthz", public, a.serveHealth},
		{"GET", "/readyz", public, a.serveReady},
		{"POST", "/-/reload", reloader, a.serveReload},
	})
}

// newServer puts the layers together. From the outside in: Track follows the body for the
// bounds of admission, fromGateways sees what gateways pass on as requests to weir, guarded
// looks at the host, origins at pages of other sites, jsonErrors answers what no route
// takes, and each route is counted, its body charged, and its visitor let in.
func (a *Server) newServer() *http.Server {
	mux := http.NewServeMux()
	// A route is counted by its pattern and never by its path, of which there are as many
	// as flows.
	for _, r := range a.routes() {
		mux.HandleFunc(r.method+" "+r.path, a.metrics.Counted(prom.Request{Method: r.method, Pattern: r.path}, a.charged(func(w http.ResponseWriter, req *http.Request) {
			if err := a.host(&r, w, req); err != nil {
				a.writeError(w, req, err)
			}
		})))
	}
	// A browser sends a form of any page to any address that it reaches, loopback included.
	// A GET changes nothing here, but for gateways, whose route looks at this itself.
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
		// There is no WriteTimeout: guarded sets the deadline of each answer, and streams
		// move theirs.
		BaseContext: func(net.Listener) context.Context { return context.Background() },
		ErrorLog:    slog.NewLogLogger(a.logger.Handler(), slog.LevelDebug),
	}
}

// guarded is the first handler of every request.
// It turns a panic into a response, so that only one request fails and not the process.
// It sets the headers of every response, and rejects hosts that weir is not configured for.
func (a *Server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			switch p := recover(); p {
			case nil:
			case http.ErrAbortHandler:
				panic(p) // else the answer would end as if all of it had come
			default:
				a.writeError(w, r, check.PanicOf(p))
			}
		}()
		// Answers hold what agents wrote. No browser may take them for a page, put them
		// into the frame of another, or keep them. The inspector's page sets a policy of
		// its own over this one.
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

// panicked counts a panic of a request and logs it with its stack.
func (a *Server) panicked(request string, fault *check.Panic) {
	a.panics.Add(1)
	a.logger.Error("a request panicked: please report this", "request", request, "panic", fmt.Sprint(fault.Value), "stack", string(fault.Stack))
}

// caught calls fn and returns its error, or its panic as one. Goroutines that work for a request run
// in it: a panic in one of them would end the process.
func (a *Server) caught(request string, fn func() error) error {
	err := check.Caught(fn)
	if fault, ok := errors.AsType[*check.Panic](err); ok {
		a.panicked(request, fault)
	}
	return err
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
// Clients read problems, and one kind of error is less to learn than two.
func jsonErrors(mux *http.ServeMux, a *Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serve, pattern := mux.Handler(r)
		switch {
		case pattern == "":
		case strings.Contains(pattern, "/{"):
			mux.ServeHTTP(w, r) // which fills in what the path says
			return
		default:
			r.Pattern = pattern
			serve.ServeHTTP(w, r)
			return
		}
		// The mux does not say for which methods a path is known; it is asked with each.
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
// Nothing of the answer may have been sent. What is weir's own fault goes to the log as
// well; what a client did wrong does not, for anybody could fill the log by it.
func (a *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	e := a.explain(err)
	if e == nil { // the other side is gone
		return
	}
	h := w.Header()
	// By Retry-After a client knows that the same request may be taken later. Without it,
	// it is not.
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	if e.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="weir"`)
	}
	// Otherwise the server would read the rest of an unused body before the next request,
	// and a slow sender would keep the connection.
	if admission.Unread(r) {
		h.Set("Connection", "close")
	}
	if fault, ok := errors.AsType[*check.Panic](err); ok {
		a.panicked(r.Method+" "+r.URL.Path, fault)
	} else if e.Status >= http.StatusInternalServerError {
		a.logger.Warn("a request failed", "method", r.Method, "path", r.URL.Path, "status", e.Status, "error", err)
	}
	body := struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Code   string `json:"code,omitempty"`
		Field  string `json:"field,omitempty"`
		*notJudged
		// about:blank says that the status has its usual meaning and the detail says the rest.
	}{"about:blank", http.StatusText(e.Status), e.Status, e.Detail, e.Code, e.Field, nil}
	if r.URL.Path == checkPath || r.URL.Path == check.StreamPath {
		body.notJudged = new(notJudged)
	}
	writeJSON(w, "application/problem+json", e.Status, body)
}

// notJudged are the members by which a problem is an answer to a check, see check.Answer.
type notJudged struct {
	Verdict *struct{} `json:"verdict"`
	Allowed bool      `json:"allowed"`
	ID      string    `json:"id"`
}

// explain returns the response to an error; nil if the client is gone.
// Rejections of other packages have their own types and are translated here, so that
// neither the store nor the decoder depends on HTTP. An unforeseen error is a fault of
// weir's.
func (a *Server) explain(err error) *problem.Error {
	if e, ok := errors.AsType[*problem.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*events.DecodeError](err); ok {
		return &problem.Error{Status: http.StatusBadRequest, Code: string(e.Code), Field: e.Field, Detail: e.Error()}
	}
	if _, ok := errors.AsType[*check.Panic](err); ok {
		return &problem.Error{Status: http.StatusInternalServerError, Detail: "a fault in weir; its log has more"}
	}
	if e, ok := errors.AsType[*check.Error](err); ok {
		return &problem.Error{Status: e.Status, Detail: e.Detail}
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &problem.Error{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("the body is longer than %d bytes; send it in parts", maxBody)}
	}
	// The server's own deadline, or admission, which has given the place to another request.
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return &problem.Error{Status: http.StatusRequestTimeout, Detail: "the body came too slowly; send it in parts"}
	}
	switch {
	// What follows heals by itself, and the sender is to come again: in seconds, how soon.
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

// writeJSON answers with one JSON object on a line. Signs of HTML stay as they are, since
// no browser takes the answer for a page (see guarded).
func writeJSON(w http.ResponseWriter, contentType string, status int, v any) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // an error means that the other side is gone
}

// answer is writeJSON for routes that end with a good answer.
func answer(w http.ResponseWriter, v any) error {
	writeJSON(w, "application/json", http.StatusOK, v)
	return nil
}

// limited rejects a request while the given number are being served.
// When all places are taken, a request whose body has been arriving for long gives way
// (see admission.Gate). Requests are not queued, because waiting for a place would also
// mean waiting for the fold.
func limited(most int, serve func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	gate := admission.NewGate(most)
	return func(w http.ResponseWriter, r *http.Request) error {
		leave, ok := gate.Enter(r, visitOf(r.Context()).name())
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
