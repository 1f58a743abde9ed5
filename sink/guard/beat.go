package guard

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/events"
)

// weir answers a heartbeat with the time until the next one. An older weir does not: then a guard that holds
// an order by hand sends one every beatEvery. Without such an order nothing depends on the guard, and it sends
// one every beatIdle.
const (
	beatEvery = 2 * time.Second
	beatIdle  = 20 * time.Second

	// leastBeat and mostBeat are the bounds of a time that weir may set.
	leastBeat = 250 * time.Millisecond
	mostBeat  = time.Minute

	// beatTimeout is how long an answer to a heartbeat may take. Without one the guard sends it again after
	// leastBeat, and then every beatEvery. weir names a guard that was silent for longer than 4.5 s.
	beatTimeout = time.Second
)

// beatAgain is how long a guard waits for the next heartbeat when weir knows none, as an older one.
const beatAgain = time.Minute

// mostFlights is how many calls are watched that have begun and not ended.
const mostFlights = 1 << 16

// flights are the calls that this guard has begun and that have not ended, and for each order by hand
// what became of those that were in flight when it came. Make it with newFlights.
type flights struct {
	mu     sync.Mutex
	open   map[*Begun]struct{}
	orders map[string]*flight // by the id of the verdict
	kick   chan struct{}      // of the heartbeat

	cancels chan struct{} // a value for each function of OnStop that runs
}

func newFlights() flights {
	return flights{kick: make(chan struct{}, 1), cancels: make(chan struct{}, mostCancels)}
}

// flight is what became of the calls of one order.
type flight struct {
	Verdict   string `json:"verdict"`
	Calls     int    `json:"calls"`
	Ended     int    `json:"ended"`
	Cancelled int    `json:"cancelled"`
	// Open names some of the calls that have not ended.
	Open []openCall `json:"open,omitempty"`

	open map[*Begun]struct{}
}

// begin watches a call.
func (f *flights) begin(b *Begun) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = make(map[*Begun]struct{})
	}
	if len(f.open) < mostFlights { // a program that never ends its calls
		f.open[b] = struct{}{}
	}
}

// end notes that a call has ended, and returns what ends its context; nil for none.
func (f *flights) end(b *Begun) context.CancelCauseFunc {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, b)
	for _, o := range f.orders {
		if _, ok := o.open[b]; ok {
			delete(o.open, b)
			if o.Ended++; b.off.cancelled {
				o.Cancelled++
			}
			f.kickBeat()
		}
	}
	return b.off.cancel
}

// kickBeat has a heartbeat sent now.
func (f *flights) kickBeat() {
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

// byHand takes note of an order by hand that the guard enforces from now on, or that was released. It
// cancels the calls that the order binds.
func (f *flights) byHand(g *follower, v *events.Verdict) {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.kickBeat()
	for id := range f.orders {
		if orderID(id) == orderID(v.ID) {
			if v.Action != events.Allow && id == v.ID {
				return // heard again
			}
			delete(f.orders, id)
		}
	}
	if !v.Stops() {
		return
	}
	o := &flight{Verdict: v.ID, open: make(map[*Begun]struct{})}
	for b := range f.open {
		c := b.Call
		g.introduce(&c)
		if !StopsByHand(v, &c) {
			continue
		}
		o.Calls++
		o.open[b] = struct{}{}
		d := refused(v, c.Flow, FromTable, g.stamp())
		b.callOff(d.Err())
	}
	if f.orders == nil {
		f.orders = make(map[string]*flight)
	}
	f.orders[v.ID] = o
}

// beat is a heartbeat, as weir reads it.
type beat struct {
	Guard    string   `json:"guard"`
	Instance string   `json:"instance"`
	Language string   `json:"language"`
	Version  string   `json:"version,omitempty"`
	Held     []string `json:"held"`
	Stale    bool     `json:"stale,omitempty"`
	InFlight int      `json:"in_flight"`
	Flights  []flight `json:"flights,omitempty"`
	Closed   bool     `json:"closed,omitempty"`
}

// version is that of the module that has this guard.
var version = sync.OnceValue(func() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return strings.Trim(info.Main.Version, "()")
	}
	return ""
})

func (g *Guard) beat() beat {
	b := beat{Guard: g.o.Source, Instance: g.word, Language: "go", Version: version(), Held: []string{}, Stale: g.Stale()}
	now := g.stamp()
	for _, v := range g.table.HeldByHand() {
		if v.ExpiresAt == 0 || events.Stamp(v.ExpiresAt) > now {
			b.Held = append(b.Held, v.ID)
		}
	}
	f := &g.flights
	f.mu.Lock()
	defer f.mu.Unlock()
	b.InFlight = len(f.open)
	room := mostOpen
	for _, o := range f.orders {
		told := *o
		told.Open = openCalls(o.open, room)
		room -= len(told.Open)
		b.Flights = append(b.Flights, told)
	}
	slices.SortFunc(b.Flights, func(a, b flight) int { return cmp.Compare(a.Verdict, b.Verdict) })
	return b
}

// beats sends heartbeats, from when the orders are known until ctx ends. It then says that it ends.
func (g *Guard) beats(ctx context.Context) {
	select {
	case <-g.ready:
	case <-ctx.Done():
		return
	}
	for lost := 0; ctx.Err() == nil; {
		wait := beatEvery
		_ = g.caught("beat", func() error {
			var arrived bool
			if wait, arrived = g.sendBeat(ctx, g.beat()); arrived {
				lost = 0
			} else if lost++; lost == 1 {
				wait = leastBeat
			}
			return nil
		})
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-g.flights.kick:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	last := g.beat()
	last.Closed = true
	_ = g.caught("beat", func() error { g.sendBeat(context.WithoutCancel(ctx), last); return nil })
}

// sendBeat sends a heartbeat and returns after what time to send the next one. arrived is false if there was
// no answer.
func (g *Guard) sendBeat(ctx context.Context, b beat) (wait time.Duration, arrived bool) {
	ctx, cancel := context.WithTimeout(ctx, min(g.o.AskTimeout, beatTimeout))
	defer cancel()
	text, err := json.Marshal(b)
	if err != nil {
		return beatAgain, true
	}
	resp, err := g.do(ctx, http.MethodPost, "/v1/guards", text, http.Header{"Content-Type": {"application/json"}})
	if err != nil {
		return beatEvery, false
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusMethodNotAllowed {
		return beatAgain, true
	}
	if wait, ok := nextBeat(answer); ok && resp.StatusCode == http.StatusOK {
		return wait, true
	}
	if len(b.Held) == 0 {
		return beatIdle, true
	}
	return beatEvery, true
}

// nextBeat reads the answer to a heartbeat. It returns false if the answer sets no time within bounds.
func nextBeat(answer []byte) (time.Duration, bool) {
	var a struct {
		NextMS int64 `json:"next_ms"`
	}
	if json.Unmarshal(answer, &a) != nil || a.NextMS < leastBeat.Milliseconds() || a.NextMS > mostBeat.Milliseconds() {
		return 0, false
	}
	return time.Duration(a.NextMS) * time.Millisecond, true
}
