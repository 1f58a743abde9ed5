package api

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/cmd/internal/admission"
	"weir/cmd/internal/problem"
	"weir/sink/check"
	"weir/sink/prom"
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
	backtests := &backtests{log: a.parts.Log, folded: &a.folded, clock: a.clock}
	streams := &streams{program: a.parts.Program, log: a.parts.Log, verdicts: a.parts.Verdicts, name: a.parts.VerdictLog, orders: &a.orders, byHand: a.parts.Orders, connected: handOrders{a}.connected, door: &a.door, faults: &a.faults,
		catchUp: make(chan struct{}, cap(a.turns.free)), most: a.o.Streams, heartbeat: a.o.Heartbeat, sign: a.o.Sign, clock: a.clock, logger: a.logger}
	events := &eventIntake{log: a.parts.Log, store: a.parts.Store, deadLetters: a.parts.DeadLetters, folded: &a.folded, entrance: &a.entrance, auditing: &a.auditing, trust: a.trust, own: a.o.Own, clock: a.clock, logger: a.logger}
	return slices.Concat(
		(&receivers{reading: a.parts.Intake, logger: a.logger}).routes(),
		a.checking().routes(),
		a.forwarding().routes(),
		(&inspector{log: a.parts.Log, verdicts: a.parts.Verdicts, folded: &a.folded, turns: a.turns}).routes(),
		(&sessions{door: &a.door, logger: a.logger}).routes(),
		(&whoami{door: &a.door}).routes(),
		(&markPages{file: a.o.MarksFile, turns: a.turns, clock: a.clock, logger: a.logger}).routes(),
		(&flowOrders{log: a.parts.Log, folded: &a.folded, orders: &a.orders, clock: a.clock, logger: a.logger}).routes(),
		handOrders{a}.routes(),
		approving{a}.routes(),
		(&agentPages{log: a.parts.Log, orders: &a.orders, door: &a.door, auditing: &a.auditing, health: &a.health, turns: a.turns, clock: a.clock, logger: a.logger}).routes(),
		(&budgetPages{log: a.parts.Log, members: a.parts.Members, folded: &a.folded, turns: a.turns, clock: a.clock, logger: a.logger}).routes(),
		backtests.routes(), flowCosts{backtests}.routes(),
		(&flowPages{log: a.parts.Log, folded: &a.folded, turns: a.turns, logger: a.logger}).routes(),
		(&limitPages{folded: &a.folded, limits: a.parts.Limits, program: a.parts.Program, file: a.o.LimitsFile}).routes(),
		a.health.routes(),
		[]route{
			{"POST", "/v1/events", sender, events.serve},
			{followed.method, followed.path, followed.need, streams.serve()},
			{"GET", BackupPath, reader, limited(1, (&backups{a.parts.Store, a.logger}).serve)},
			{"GET", "/v1/deadletters", reader, a.turns.of((&letterPages{a.parts.Store, a.o.Counts}).serve)},
			{"GET", "/v1/inspect/trend", reader, a.trend.serve},
			{"GET", OpenAPIPath, public, serveOpenAPI},
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
			if err := a.entrance.host(&r, w, req); err != nil {
				a.faults.write(w, req, err)
			}
		})))
	}
	// A browser sends a form of any page to any address that it reaches, loopback included.
	// A GET changes nothing here, but for gateways, whose route looks at this itself.
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.faults.write(w, r, &problem.Error{Status: http.StatusForbidden, Detail: "a page of another origin may not send this"})
	}))
	return &http.Server{
		Handler:           admission.Track(a.fromGateways(a.guarded(origins.Handler(jsonErrors(mux, &a.faults))))),
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
				a.faults.write(w, r, check.PanicOf(p))
			}
		}()
		// Answers hold what agents wrote. No browser may take them for a page, put them
		// into the frame of another, or keep them. The inspector's page sets a policy of
		// its own over this one.
		h := w.Header()
		h["X-Content-Type-Options"], h["Content-Security-Policy"], h["Cache-Control"] = noSniff, noFrames, noStore
		// Not every writer has deadlines; those of the server's connections do.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
		if a.grpc.refuse(w, r) {
			return
		}
		if !a.KnowsHost(r.Host) {
			a.faults.write(w, r, &problem.Error{Status: http.StatusMisdirectedRequest,
				Detail: "weir does not know the host in the Host header; use an address or localhost, or start weir with --host NAME"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Values of headers that all answers have. They are full, so Add copies them, and Set puts another list
// in their place; a handler that wrote into one would change the answers to others.
var (
	noSniff  = []string{"nosniff"}
	noFrames = []string{"default-src 'none'; frame-ancestors 'none'"}
	noStore  = []string{"no-store"}
)

// KnowsHost reports whether requests with the Host header are answered. It refuses names that anybody's DNS may point at this server, by which a
// page in a browser could reach it as its own origin. Addresses cannot be misused so.
// Beyond loopback tokens keep such pages out, unless names were given.
func (a *Server) KnowsHost(host string) bool {
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
func jsonErrors(mux *http.ServeMux, f *faults) http.Handler {
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
			f.write(w, r, &problem.Error{Status: http.StatusNotFound, Detail: "there is nothing at " + r.URL.Path})
			return
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		f.write(w, r, &problem.Error{Status: http.StatusMethodNotAllowed, Detail: "use " + strings.Join(allowed, " or ")})
	})
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
