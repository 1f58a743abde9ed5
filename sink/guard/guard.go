package guard

import (
	"context"
	"crypto/rand"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/events"
	"weir/sink/sign"
)

// Options are how a guard is connected. Only URL is required.
type Options struct {
	// URL is that of weir, for example http://127.0.0.1:8080. Of a group it may be those of several
	// members, with commas between them: the guard uses the next one when one does not answer.
	URL    string
	Token  string       // of the intake, where weir wants one
	Client *http.Client // default: one of its own; a Timeout of it would cut the stream

	// FailClosed refuses calls while the orders may be out of date, instead of letting
	// them through up to the local limiter. It is for flows that spend money.
	FailClosed bool
	// Bounds are those of the local limiter until weir has sent its limits;
	// default: those of weir's default limits.
	// The zero Bounds count as none given.
	Bounds Bounds

	// Keys, where they are given, are those that weir signs orders with: others are then
	// ignored and counted, and so are replays. A signature says nothing of what Ask is
	// answered.
	Keys sign.Keys

	Source     string        // of the events that the guard sends; default "guard/" and a random word
	Quiet      bool          // send no acknowledgements
	StaleAfter time.Duration // without a sign of life the orders may be out of date; default 5 s
	AskTimeout time.Duration // of one Ask; default 3 s
	MostFlows  int           // that the local limiter counts at one time; default 65,536
	// MostOrders bounds the orders that are held; default 2,000,000. Orders beyond it are counted
	// as left out, and the guard is stale until there is room and all orders were read again.
	// Stops by an operator have the same room once more.
	MostOrders int

	// Follow, where it is given, delivers verdicts to the guard instead of weir's stream. It
	// runs until ctx ends, and is called again after a panic. Package kafkaguard has one.
	Follow func(ctx context.Context, feed Feed)

	Logger *slog.Logger // default: drops everything
	// Observe is called with every decision that refuses, or that was made while the
	// orders may be out of date, by the goroutine that asked. It must be quick.
	// A panic of it is counted as a fault and changes nothing.
	Observe func(Call, Decision)
}

// mostIdle is how many connections to weir a guard keeps for its next asks.
const mostIdle = 64

// Guard answers whether calls may be made. Any goroutine may use it.
// Check reads state, table and clock by atomics; only the local limiter takes a lock.
type Guard struct {
	follower
	unseen *unseen
	asks   asks
	warned atomic.Bool // that a call was decided before the orders were known
	// What goes wrong often is logged once, until it has gone well.
	unasked   atomic.Bool
	end       context.CancelFunc
	closeIdle func() // connections that only this guard has
}

// base is what all of a guard needs: its options, its clocks and its counts.
type base struct {
	o         Options
	addresses *addresses
	logger    *slog.Logger
	now       func() time.Time
	// It is replaced whole with each connection.
	heard  atomic.Pointer[timeOfWeir] // of weir's clock; nil before it said anything
	ticked atomic.Int64               // the time as of the last tick; 0 when nothing ticks
	counts Counts
	// As weir says with each connection; nil before.
	principal atomic.Pointer[string]
	// Of the ids that it gives to events, together with the time. The word is this guard's alone:
	// guards of one Source would else give one id to two asks, and the second would be taken for
	// the first sent again.
	serial atomic.Int64
	word   string
	// Everything that Close waits for.
	working sync.WaitGroup
}

// reporter sends acknowledgements and reports to weir.
type reporter struct {
	base
	// It has room for 1,024; see acknowledge.
	acks    chan ack
	pending pending
}

// follower reads the stream of verdicts into the table of orders.
type follower struct {
	reporter
	table   Table
	signed  *signed
	state   atomic.Uint32 // of the table
	full    atomic.Bool   // orders were left out and not read again; keeps state from being fresh
	limits  *limiter
	bounds  atomic.Pointer[Bounds]
	flights flights
	// Of the stream, for the follower alone: the last message, the one before the first order that
	// was left out, and when orders were read again last.
	lastID, leftAfter string
	logName           string // the log that lastID is of; "" if weir does not say
	reread            time.Time
	followed          int64 // the turn of the address that is followed
	// It is closed once, when the orders were known for the first time.
	ready chan struct{}
	once  sync.Once
	// It is logged once that weir is unreachable, until it was reached.
	unreached atomic.Bool
}

// The states of the table.
const (
	never uint32 = iota // it was not read yet
	fresh
	stale
)

// Counts is what a guard has done and seen. Any goroutine may read it.
type Counts struct {
	Allowed      atomic.Int64 // by fresh orders, or by weir
	Refused      atomic.Int64 // by an order, or by weir
	StaleAllowed atomic.Int64 // while the orders may have been out of date
	StaleRefused atomic.Int64 // by FailClosed
	LocalLimited atomic.Int64
	Faults       atomic.Int64 // of the guard itself, that let a call through, and of Observe, which change nothing
	Panics       atomic.Int64 // of the guard itself, after which it goes on as if weir were unreachable
	AskFailures  atomic.Int64 // asks that were answered from memory
	AskRejected  atomic.Int64 // asks that weir could not read, which refuses the call

	Orders      atomic.Int64 // verdicts that changed the table
	LeftOut     atomic.Int64 // orders that there was no room for
	Unreadable  atomic.Int64 // messages of the stream that are no verdicts
	Unsigned    atomic.Int64 // verdicts that were ignored because they have no signature
	Forged      atomic.Int64 // because the signature is wrong, or of no key that is known
	Replayed    atomic.Int64 // because a later revision of the order was heard before
	Connections atomic.Int64 // times that the stream was opened
	Stales      atomic.Int64 // times that the orders went out of date
	Acked       atomic.Int64 // refusals that were reported to weir
	AcksDropped atomic.Int64

	Reported       atomic.Int64 // calls and outcomes, see Begin
	ReportsDropped atomic.Int64
}

// Dial follows the weir at the URL. It returns at once: until the orders are known,
// calls are decided as when weir is away. The error is about the URL.
func Dial(weir string) (*Guard, error) { return New(Options{URL: weir}) }

// New is Dial with options. Close ends what it starts.
func New(o Options) (*Guard, error) {
	g, err := newGuard(o)
	if err != nil {
		return nil, err
	}
	// Not the caller's context: a guard lives until Close.
	ctx, cancel := context.WithCancel(context.Background())
	g.end, g.asks.ctx = cancel, ctx
	g.start("follow", func() {
		if o.Follow == nil {
			g.follow(ctx)
			return
		}
		// A feed brings verdicts alone; limits are always asked for.
		g.start("learn", func() { g.learn(ctx) })
		g.feed(ctx)
	})
	g.start("housekeep", func() { g.housekeep(ctx) })
	g.start("report", func() { g.report(ctx) })
	g.start("beats", func() { g.beats(ctx) })
	g.start("lookUp", func() { g.lookUp(ctx) })
	return g, nil
}

// newGuard makes a guard that does nothing by itself.
func newGuard(o Options) (*Guard, error) {
	at, err := parseAddresses(o.URL)
	if err != nil {
		return nil, err
	}
	closeIdle := func() {}
	if o.Client == nil {
		o.Client = &http.Client{}
		if t, ok := http.DefaultTransport.(*http.Transport); ok {
			t = t.Clone() // of its own, so that Close can close its connections
			// Asks that go by requests of their own come as many at a time as the program has
			// calls, and a connection is dear, by TLS above all.
			t.MaxIdleConnsPerHost = max(t.MaxIdleConnsPerHost, mostIdle)
			o.Client.Transport, closeIdle = t, t.CloseIdleConnections
		}
	}
	if o.Client.CheckRedirect == nil {
		// A copy, because the client is the caller's.
		client := *o.Client
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // orders come from weir, and from nowhere else
		o.Client = &client
	}
	if o.Source == "" {
		o.Source = "guard/" + strings.ToLower(rand.Text()[:10])
	}
	if o.StaleAfter <= 0 {
		o.StaleAfter = 5 * time.Second
	}
	if o.AskTimeout <= 0 {
		o.AskTimeout = 3 * time.Second
	}
	if o.MostFlows <= 0 {
		o.MostFlows = 1 << 16
	}
	if o.MostOrders <= 0 {
		o.MostOrders = 2_000_000
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Bounds == (Bounds{}) {
		o.Bounds = defaultBounds()
	}
	g := &Guard{closeIdle: closeIdle, unseen: newUnseen(), asks: asks{requests: make(chan struct{}, mostRequests)}}
	g.o, g.addresses, g.logger, g.now, g.word = o, at, o.Logger, time.Now, strings.ToLower(rand.Text()[:10])
	g.limits, g.signed, g.acks = newLimiter(o.MostFlows), newSigned(o.Keys, o.MostOrders), make(chan ack, 1024)
	g.flights, g.ready = newFlights(), make(chan struct{})
	g.bounds.Store(&o.Bounds)
	return g, nil
}

// Close ends the guard: it tries once more to send its pending acknowledgements, and
// waits for its goroutines. Check still answers after that, as when weir is unreachable.
// Call it once no more calls are checked; a check after it finds the orders stale.
func (g *Guard) Close() {
	g.asks.close()
	g.end()
	g.working.Wait()
	g.closeIdle()
}

// Wait waits until the orders that stand are known, or for the end of ctx. A
// dispatcher that starts with it never decides without knowing them.
func (g *Guard) Wait(ctx context.Context) error {
	select {
	case <-g.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stale reports whether the orders may be out of date.
func (g *Guard) Stale() bool { return g.state.Load() != fresh }

// Counts returns the counters of the guard.
func (g *Guard) Counts() *Counts { return &g.counts }

// Orders returns how many standing orders are known.
func (g *Guard) Orders() int { return g.table.Len() }

// Check decides from memory whether the call may be made. It never waits, allocates
// nothing, and reports a refusal to weir in the background. A flow or a caller that the call
// does not name is taken from the work of the context, see Dispatch.
func (g *Guard) Check(ctx context.Context, c Call) (d Decision) {
	// A fault in the guard must not stop the program that it guards, and must not refuse its
	// work.
	defer func() {
		if p := recover(); p != nil {
			d = g.failOpen(p)
		}
	}()
	c.take(ctx)
	c.clip()
	return g.check(&c)
}

// failOpen counts a panic of a decision, logs the first with its stack, and lets the call through.
func (g *base) failOpen(p any) Decision {
	if g.counts.Faults.Add(1) == 1 {
		g.logFault("the guard failed and let a call through: please report this; more faults are only counted", "check", p)
	}
	return allowed(ErrorOpen)
}

// check decides by what is known here, without asking anybody: it is on the way of each call.
func (g *Guard) check(c *Call) Decision {
	state := g.state.Load()
	now := moment{guard: g}
	if g.table.AnyByHand() {
		g.introduce(c)
	}
	// The clock is read only when an order matches.
	if v := g.table.refusing(c, &now); v != nil {
		d := refused(v, c.Flow, FromTable, now.stamp())
		// A known order counts, however old the knowledge is: it expires by itself.
		d.Stale = state != fresh
		g.counts.Refused.Add(1)
		if !g.o.Quiet {
			g.acknowledge(c, v, now.stamp())
		}
		g.observe(c, &d)
		return d
	}
	if state == fresh {
		g.counts.Allowed.Add(1)
		if c.Flow != "" && g.unseen.open.Load() {
			g.unseen.note(c.Flow, g.now())
		}
		d := allowed(FromTable)
		d.Flow = c.Flow
		return d
	}
	return g.withoutOrders(c, state)
}

// introduce fills in what orders of persons may name and a call seldom says: the program that calls and
// the principal that weir knows it by.
func (g *base) introduce(c *Call) {
	if c.Service == "" {
		c.Service = g.o.Source
	}
	if p := g.principal.Load(); p != nil && c.Principal == "" {
		c.Principal = *p
	}
}

// withoutOrders decides about a call that no known order refuses while the orders may
// be out of date.
func (g *Guard) withoutOrders(c *Call, state uint32) Decision {
	// Said once, since every call until then would say it.
	if state == never && !g.warned.Swap(true) {
		g.logger.Warn("weir was not reached yet; a call is decided without its active orders", "weir", g.o.URL)
	}
	d := allowed(StaleOpen)
	d.Flow = c.Flow
	switch {
	// A person is never refused, also with FailClosed.
	case c.byPerson():
		g.counts.StaleAllowed.Add(1)
	case g.o.FailClosed:
		d.Action, d.Source, d.Reason = events.Deny, StaleClosed, ReasonStale
		d.Limit, d.Observed, d.RetryAfter = math.NaN(), math.NaN(), g.o.StaleAfter
		g.counts.StaleRefused.Add(1)
	default:
		r, over := g.limits.count(c, *g.bounds.Load(), g.now())
		if !over {
			g.counts.StaleAllowed.Add(1)
			break
		}
		d.Action, d.Source, d.Reason = events.Deny, LocalLimit, r.reason
		d.Limit, d.Observed, d.RetryAfter = float64(r.limit), float64(r.observed), r.retryAfter
		if r.retryAfter > 0 {
			d.Action = events.Throttle
		}
		g.counts.LocalLimited.Add(1)
	}
	d.Stale = true
	g.observe(c, &d)
	return d
}

// observe passes a decision to Options.Observe. The function cannot change the decision:
// it gets copies, and a panic in it is only counted.
func (g *base) observe(c *Call, d *Decision) {
	if g.o.Observe == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			// Said once: it fails as often as calls are refused.
			if g.counts.Faults.Add(1) == 1 {
				g.logFault("Options.Observe panicked; more faults are only counted", "observe", p)
			}
		}
	}()
	g.o.Observe(*c, *d)
}

// stamp is the time by which orders end. Where the clock of this machine and weir's are
// clocksApart, weir's counts, which goes on as time passes here: by one that is ahead no order
// would stand.
func (g *base) stamp() events.Stamp {
	now := g.now()
	// A monotonic difference, which no change of this machine's clock touches.
	if h := g.heard.Load(); h != nil {
		if weirs := h.weirs.Add(time.Since(h.here)); now.Sub(weirs).Abs() > clocksApart {
			now = weirs
		}
	}
	return events.StampOf(now)
}

// clocksApart is more than what the time in an answer leaves out and what it takes to come.
// The header Date has whole seconds.
const clocksApart = 5 * time.Second

// timeOfWeir is what weir's clock said at a time here.
type timeOfWeir struct{ weirs, here time.Time }

// hearTime takes in what an answer says of weir's clock, if it does.
func (g *base) hearTime(date string) {
	weirs, err := http.ParseTime(date)
	if err != nil {
		return
	}
	h := &timeOfWeir{weirs, time.Now()}
	// Said at the first answer only; the clock may be set right later.
	if before := g.heard.Swap(h); before == nil && h.here.Sub(weirs).Abs() > clocksApart {
		g.logger.Warn("the clock of this machine differs from weir's, by which orders end and which counts here, too", "weir", g.o.URL, "differs", h.here.Sub(weirs).Round(time.Second))
	}
}

// about is the time to within a tick: to ask for it exactly takes as long as all the
// rest of a Check. An order may stand a tick longer by that.
func (g *base) about() events.Stamp {
	if at := g.ticked.Load(); at != 0 {
		return events.Stamp(at)
	}
	return g.stamp()
}

// tick is how old the time may be that orders are held against.
const tick = 100 * time.Millisecond

// becomeFresh is called when every order that stood at the beginning of the stream is
// in the table.
// What the limiter counted meanwhile is forgotten: the orders count again.
func (g *follower) becomeFresh() {
	if g.full.Load() {
		g.state.CompareAndSwap(never, stale)
		g.once.Do(func() { close(g.ready) }) // what there is room for is known
		return
	}
	if g.state.Swap(fresh) == fresh {
		return
	}
	g.limits.reset()
	g.flights.kickBeat() // the member that it follows now has not heard what it enforces
	g.once.Do(func() { close(g.ready) })
	g.logger.Info("weir is followed", "weir", g.o.URL, "orders", g.table.Len())
	// A feed may take orders in meanwhile.
	if g.full.Load() {
		g.becomeStale(errFull)
	}
}

// becomeStale is called when orders may be missing. It does nothing before the orders were
// known once, so the state stays never.
func (g *follower) becomeStale(why error) {
	if g.state.CompareAndSwap(fresh, stale) {
		g.counts.Stales.Add(1)
		g.logger.Warn("orders may be missing; those that are known stay in force", "weir", g.o.URL, "error", why)
	}
}

// housekeep keeps the time, and once a minute forgets what has expired and learns the
// limits.
// Its first turn comes at once, so that about is exact enough from the beginning.
func (g *Guard) housekeep(ctx context.Context) {
	// 0 makes about look at the clock: nothing keeps the time after Close.
	defer g.ticked.Store(0)
	next := time.NewTicker(tick)
	defer next.Stop()
	for n := 1; ; n++ {
		_ = g.caught("housekeep", func() error { g.keep(ctx, n); return nil })
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
	}
}

// keep is the n-th turn of housekeep.
func (g *Guard) keep(ctx context.Context, n int) {
	g.ticked.Store(int64(g.stamp()))
	if n%int(time.Minute/tick) > 0 {
		return
	}
	g.table.Sweep(g.stamp())
	g.signed.sweep(g.stamp())
	if !g.Stale() {
		g.start("learn", func() { g.learn(ctx) }) // the time goes on meanwhile
	}
}
