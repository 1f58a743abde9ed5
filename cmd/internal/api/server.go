package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"weir/analyzer"
	"weir/cmd/internal/access"
	"weir/cmd/internal/admission"
	"weir/cmd/internal/approvals"
	"weir/cmd/internal/ask"
	"weir/cmd/internal/budget"
	"weir/cmd/internal/certificates"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/gate"
	"weir/cmd/internal/intake"
	"weir/cmd/internal/limits"
	"weir/cmd/internal/peer"
	"weir/cmd/internal/plainhttp"
	"weir/cmd/internal/pump"
	"weir/cmd/internal/selftest"
	"weir/events"
	"weir/sink/check"
	"weir/sink/prom"
	"weir/state"
)

// Log is the log backend, as requests need it.
// Both embedded and group implement it (see decision 21). A query for one flow or agent may
// find that another process folds it; then the error is a *problem.Error whose detail names
// that process. All methods may be called by many goroutines.
type Log interface {
	// Append puts events into the log and returns when they are safe there. It may be
	// called again after an error: repeats are dropped by their ids.
	//
	// The values of the entries are the caller's again when it returns.
	Append(ctx context.Context, entries []state.Entry) error

	// Pumps are those that fold a stage now.
	//
	// In a group they come and go: callers keep the slice only for one response.
	Pumps(stage pump.Stage) []*pump.Pump

	// PumpOf returns the pump that folds a flow or, in the agent stage, an agent or a project (see
	// activity.AgentKey), or an error that names the member that does.
	PumpOf(stage pump.Stage, key string) (*pump.Pump, error)

	// Follow copies the verdicts of a flow, or with "" those of all, to the log of verdicts
	// until leave is called, whichever process folds it. fromNow skips all earlier verdicts.
	// reached waits until all current verdicts are there, and returns false when ctx ends
	// before. Verdicts for all flows are there without a follower, too.
	Follow(flow string, fromNow bool) (reached func(ctx context.Context) bool, leave func())

	// Events calls fn for the events of a flow that came into the log at or after since, with the
	// time of that, until it returns false. For the flow "" it calls fn for all records, also those
	// that other members fold; ticks and limits are among them. The line is good until fn returns.
	Events(ctx context.Context, flow string, since events.Stamp, fn func(line []byte, appended events.Stamp) bool) error

	// Ready reports what is wrong, how many records the fold is behind, and by how much the clock of
	// the machine and the log differ; "" when they do not.
	Ready() (why []string, lag int64, clock string)

	// Turned is when the loop that folds last turned, of the one that stands still for the
	// longest.
	Turned() time.Time

	// Measure fills in the sources and their reports: how far behind the fold is with each,
	// and which faults there were.
	Measure(r *prom.Reading)
}

// Members are the other processes of a group that folds the log together.
type Members interface {
	// Folds fails when another process folds a flow. The error says what the caller can do.
	Folds(flow string) error

	// TreeHere returns, as JSON, what a tree of flows has said to a check for which another
	// process waits, which request names; nothing when it has not said it yet.
	TreeHere(ctx context.Context, request []byte) ([]byte, error)

	// Others returns the addresses of other processes that fold flows, and lists the partitions
	// that no process folds that could be asked.
	Others(ctx context.Context) (addresses, missed []string)
}

// Checks answers check requests.
type Checks interface {
	// Check answers a batch, see check.Checker.
	Check(batch []*check.Request)
	// CheckHere answers a request of another process, and waits for the answer.
	CheckHere(q *check.Request) (*events.Verdict, error)
}

// Verdicts is the log of verdicts.
// It is a state.Log: positions count from 0 and never come again, and what has expired is
// skipped by reading with state.ReadOn.
type Verdicts interface {
	Read(from int64, max int, dst []state.Entry) ([]state.Entry, error)
	End() int64
	// Ready is closed when there is a verdict at next; it is good for one wait.
	Ready(next int64) <-chan struct{}
}

// Store keeps what could not be read, and says how much room there is.
// Size is in bytes, of the index and of the values. Free says how many bytes the disk has
// left, and below which number nothing is written.
type Store interface {
	DeadLetter(deadLetters ...state.DeadLetter) error
	DeadLetters(from int64, max int, dst []state.DeadLetter) ([]state.DeadLetter, error)
	DeadLetterCount() int64
	MaxValue() int
	Size() (lsm, values int64)
	Free() (free, floor int64)
	Backup(ctx context.Context, w io.Writer) (keys int64, err error)
}

// Limits are those that are wanted, which may not be in force yet.
// In force is what the pumps say, see Server.inForce: limits are in force when the fold has
// come to their record in the log, which may be later.
type Limits interface {
	Current() *analyzer.Limits
	// State returns the version that is wanted, and how the last reading of the file went.
	State() (wanted string, last limits.Status)
	// WithFigures adds the built-in prices for figures in dollars, where no prices were given.
	WithFigures(l *analyzer.Limits) analyzer.Limits
}

// Intake takes what comes in other formats than weir's.
// Both return what may be asked at any time.
type Intake interface {
	// Receiver takes the records that programs send.
	Receiver() *intake.Receiver
	// States says how the following of each file goes.
	States() []intake.Status
}

// Degraded is the mode in which asks do not wait for the fold, because it is behind.
// See decision 73. Its methods may be called at any time by any goroutine.
type Degraded interface {
	// Status says for which partitions the mode is on; nil for none.
	Status() *ask.DegradedStatus
	// Counted returns how often it began, how many calls were allowed and refused in it, and
	// how many are missing from the log.
	Counted() (begun, allowed, refused, unlogged int64)
}

// Program is the program that is served.
// It is the app, which package api does not import.
type Program interface {
	// Err says why the program cannot go on; nil as long as it can.
	Err() error
	// Fail ends the program with an error that it cannot go on from.
	Fail(err error)
	// Reload reads again what people edit. What is refused stays as it was, and the error
	// says why.
	Reload() error
	// Ending is done when the program is asked to stop.
	Ending() context.Context
	// Measure fills in what became of verdicts that are passed on.
	Measure(r *prom.Reading)
}

// Options are what a server is made with. All have to be given that have no default here.
// Times are of the clock in here, but those that guard connections, which are real.
type Options struct {
	Listen string   // address of the server
	Hosts  []string // names, beside localhost and addresses, that a Host header may have

	Access *access.Keeper       // the roles of all principals
	Peer   *peer.Peer           // calls other members of the group, and knows them
	TLS    *certificates.Source // what the listeners show and trust; nil: they speak in the clear

	Trust      gate.Trust                // who is believed that a user has spoken
	Sign       func(order []byte) string // signs orders on their way to streams; "" for none
	LimitsFile string                    // shown in the response to GET /v1/limits

	MarksFile string // what people said of stops; "" keeps nothing

	Authz            bool   // answers gateways that ask by HTTP, at check.AuthzPath
	AuthzGRPC        string // address for Envoy's external authorization by gRPC; "" has none
	Metrics          string // address of the listener for metrics and profiles; "" has none
	NativeHistograms bool   // see prom.Options

	// Beyond this many the one that is silent for the longest gives way, see package
	// admission.
	Connections int // open at most
	Requests    int // for each, checksPerRequest checks may wait at one time
	Streams     int // followers of the verdicts at most

	AnswerTimeout time.Duration // how long the answer to an order waits for the fold
	Heartbeat     time.Duration // of streams that have nothing to say
	Stuck         time.Duration // a pump that has not turned for so long is not healthy

	Budget *budget.Budget // of what is taken in at one time
	Counts *pump.Counts
	Own    func(record []byte, ev *events.Event) // gets each event that is taken in; may be nil
	Clock  clock.Clock
	Logger *slog.Logger
}

// Parts are what requests are answered from: what a program has opened before it listens.
// They are apart from Options because the options are checked when nothing is opened yet.
type Parts struct {
	Program     Program
	Audit       *access.Audit // where orders of persons are logged; nil for nowhere
	Log         Log
	Store       Store
	Verdicts    Verdicts
	VerdictLog  string // the name of the log of verdicts, which a lost state changes
	Limits      Limits
	Intake      Intake
	DeadLetters *intake.DeadLetters
	SelfTest    *selftest.Prober // nil when weir does not test itself

	// Degraded is the mode in which asks do not wait for the fold.
	Degraded Degraded
	Orders   Orders // by hand, about scopes
	// Approvals asks persons about holds; nil when no tier is set.
	Approvals *approvals.Desk

	Checks  Checks
	Members Members // nil when this process is alone

	// Begins returns the answer of the order by hand that refuses work which no check announces; nil
	// for none.
	Begins func(ctx context.Context, ev *events.Event) *events.Verdict
	// Standing returns what Checks would refuse calls of a flow by, or warns of, because of its
	// tree.
	Standing func(ctx context.Context, flow, root string) ([]*events.Verdict, error)
}

// Server serves HTTP. Make it with New, then Listen, then Serve, then Shutdown and Close.
// Between Listen and Serve the kernel accepts connections that weir does not serve yet. A
// client that connects during the catch-up with the log waits instead of being rejected.
type Server struct {
	o      Options
	clock  clock.Clock
	logger *slog.Logger
	// door admits clients of the main port; the port of gateways has one of its own.
	door        door
	trust       gate.Trust
	budget      *budget.Budget
	metrics     *prom.Metrics // nil if metrics are off
	hints       *hints
	transcripts *transcripts
	turns       *turns // of dear answers

	// What the routes share. Serve completes them.
	faults   faults
	grpc     grpcClients
	auditing auditing
	entrance entrance
	folded   folded
	orders   orderLog
	health   health
	meter    meter
	trend    trend

	// What follows is set by Serve and is nil before.
	parts Parts

	listener    net.Listener
	connections *admission.Listener // of the server
	server      *http.Server
	plain       *plainhttp.Listener // of the server
	// gateways is for Envoy by gRPC; that for metrics is in meter. Neither has to be
	// opened.
	gateways port
}

// New checks the options. It has no effects.
// The error says that the address is none, or that other machines reach it and no token
// keeps them out.
func New(o Options) (*Server, error) {
	a := &Server{o: o, clock: o.Clock, logger: o.Logger, trust: o.Trust, budget: o.Budget, turns: newTurns(), transcripts: new(transcripts)}
	a.hints = newHints(func() *analyzer.Limits {
		now, _ := a.folded.inForce()
		return now
	})
	a.faults.logger = o.Logger
	a.grpc = grpcClients{faults: &a.faults, logger: o.Logger}
	a.auditing = auditing{door: &a.door, clock: o.Clock, logger: o.Logger}
	a.entrance = entrance{door: &a.door, clock: o.Clock, auditing: &a.auditing}
	a.orders = orderLog{clock: o.Clock, logger: o.Logger, timeout: o.AnswerTimeout}
	a.health = health{folded: &a.folded, counts: o.Counts, door: &a.door, clock: o.Clock, stuck: o.Stuck, transcripts: a.transcripts}
	a.meter.measures = measures{health: &a.health, faults: &a.faults, budget: o.Budget, counts: o.Counts, clock: o.Clock}
	a.trend.counts, a.trend.begun, a.trend.clock = o.Counts, &a.meter.begun, o.Clock
	var err error
	if a.door, err = newDoor(o.Access, o.Listen, ""); err != nil {
		return nil, err
	}
	a.door.sessions = access.NewSessions(o.Access, o.Clock.Now)
	// prom counts requests by the patterns of routes that it knows from the start, so that
	// an invented path makes no series.
	if o.Metrics != "" {
		p := prom.Options{Read: a.meter.measure, Native: o.NativeHistograms}
		for _, r := range a.routes() {
			p.Requests = append(p.Requests, prom.Request{Method: r.method, Pattern: r.path})
		}
		a.metrics = prom.New(p)
	}
	return a, nil
}

// Metrics are the metrics of the server; nil if metrics are off.
func (a *Server) Metrics() *prom.Metrics { return a.metrics }

// Measure fills in where everything stands, as for each scrape.
func (a *Server) Measure(r *prom.Reading) { a.meter.measure(r) }

// Begin notes that the start begins, of which CaughtUp is the end.
// It is called before anything else of the start, by the goroutine that calls Serve.
func (a *Server) Begin() { a.meter.begun = a.clock.Now() }

// CaughtUp notes that the fold has caught up with the log.
// It may be called again, as in a group for each partition; the first time counts.
func (a *Server) CaughtUp() { a.meter.restored(a.clock.Now()) }

// Listen opens the port, so that a port in use is reported before anything else begins.
// No request is answered before Serve.
func (a *Server) Listen() (err error) {
	if a.listener, err = net.Listen("tcp", a.o.Listen); err != nil {
		return fmt.Errorf("listen on %s: %w; choose another address", a.o.Listen, err)
	}
	return nil
}

// Serve begins to serve requests, and returns.
// The error is about the port of gateways; that of metrics is none to end for. When the
// main port or that of gateways fails later, the program does.
func (a *Server) Serve(p Parts) error {
	a.parts = p
	a.auditing.log = p.Audit
	a.folded = folded{log: p.Log, limits: p.Limits, standing: p.Standing}
	a.orders.log, a.orders.verdicts, a.trend.log = p.Log, p.Verdicts, p.Log
	h := &a.health
	h.program, h.log, h.store, h.limits, h.reading, h.selfTest, h.degraded, h.orders = p.Program, p.Log, p.Store, p.Limits, p.Intake, p.SelfTest, p.Degraded, p.Orders
	a.server = a.newServer()
	go a.trend.watch(p.Program.Ending())
	a.serveMetrics()
	if err := a.listenForGateways(); err != nil {
		return err
	}
	// Connections are bounded below TLS, so that one that never ends its handshake gives
	// way, too.
	places := admission.Places(a.o.Connections)
	if places < a.o.Connections {
		a.logger.Warn("few files may be open, so there are fewer places for connections; ulimit -n, or LimitNOFILE of systemd, lets more be open", "places", places, "of", a.o.Connections)
	}
	a.connections = admission.Listen(a.listener, places, a.crowded("clients"))
	if a.o.TLS != nil {
		a.plain = plainhttp.ListenTLS(a.connections, a.o.TLS.Server(false, "http/1.1"), a.server, isAsk)
	} else {
		a.plain = plainhttp.Listen(a.connections, a.server, isAsk)
	}
	go func() {
		if err := a.server.Serve(a.plain); !errors.Is(err, http.ErrServerClosed) {
			a.parts.Program.Fail(fmt.Errorf("serve http: %w", err))
		}
	}()
	return nil
}

// isAsk reports whether a request is a check or a heartbeat of a guard. These are the most frequent, with
// short responses.
func isAsk(r *http.Request) bool {
	return r.URL.Path == checkPath || r.URL.Path == guardsPath || r.URL.Path == check.HookPath || r.URL.Path == check.EvaluatePath || strings.HasPrefix(r.URL.Path, check.AuthzPath)
}

// Handler serves a request as the port does.
// Tests ask it without a connection. Serve has made it.
func (a *Server) Handler() http.Handler { return a.server.Handler }

// Addr is the address that is listened on, with the port that was chosen.
func (a *Server) Addr() string { return a.listener.Addr().String() }

// Page is where the inspector is.
func (a *Server) Page() string { return a.Scheme() + "://" + a.Addr() + inspectorPath }

// Scheme is the scheme of the address: http, or https.
// It is for addresses that weir reports to others; a request shows its scheme by its
// connection.
func (a *Server) Scheme() string {
	if a.o.TLS != nil {
		return "https"
	}
	return "http"
}

// lastAnswers is how long the end waits for requests that are being answered.
// It is real time, since requests that are under way are.
const lastAnswers = 5 * time.Second

// Shutdown ends the server early enough to leave time for the last checkpoint. Requests
// still under way were not acknowledged; their senders repeat them to the next process.
func (a *Server) Shutdown(ctx context.Context) {
	// Who is not being answered is closed first: Shutdown would wait for new connections
	// that say nothing and for bodies that come in drips.
	a.connections.CloseWaiting()
	ctx, cancel := context.WithTimeout(ctx, lastAnswers)
	defer cancel()
	if err := errors.Join(a.server.Shutdown(ctx), a.plain.Wait(ctx)); err != nil {
		a.logger.Warn("requests were cut off at the end", "error", err)
		_ = a.server.Close()
	}
}

// Close closes all that was opened, whether it was served or not.
func (a *Server) Close() error {
	a.meter.port.close() // metrics are read to the last
	a.gateways.close()   // a gateway goes by its failure mode then
	switch {
	case a.server != nil:
		return a.server.Close()
	case a.listener != nil:
		return a.listener.Close()
	}
	return nil
}

// crowded returns the callback for each connection that finds no room. It logs one line a
// second at most, with the number of connections.
// Otherwise a client that opens connections in a loop would fill the log as well. whose is
// the word for the port in that line.
func (a *Server) crowded(whose string) func(net.Addr) {
	var mu sync.Mutex
	var next time.Time
	closed := 0
	return func(peer net.Addr) {
		mu.Lock()
		defer mu.Unlock()
		closed++
		if now := a.clock.Now(); !now.Before(next) {
			a.logger.Warn("connections were closed at once: there is no room, and all others are at work", "of", whose, "last_peer", peer.String(), "closed", closed)
			next, closed = now.Add(time.Second), 0
		}
	}
}
