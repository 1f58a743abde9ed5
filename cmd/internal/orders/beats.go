package orders

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/events"
)

// forgotten is how long a guard is named that is not heard of any more, and mostGuards how many there
// are at most. Guards beyond that are counted and not named.
const (
	forgotten  = time.Hour
	mostGuards = 10_000
	mostHeld   = MaxOrders
	mostOpen   = 20
)

// Beat is a heartbeat of a guard: what it enforces, and what became of calls that were in flight.
type Beat struct {
	Guard    string   `json:"guard"`    // its name, for people
	Instance string   `json:"instance"` // this process of it
	Language string   `json:"language,omitempty"`
	Version  string   `json:"version,omitempty"`
	Held     []string `json:"held"` // ids of the verdicts of the orders by hand that it enforces
	Stale    bool     `json:"stale,omitempty"`
	InFlight int      `json:"in_flight"` // calls that have begun and not ended, as far as it runs them
	Flights  []Flight `json:"flights,omitempty"`
	Closed   bool     `json:"closed,omitempty"` // it ends in order, and makes no calls any more
}

// Flight is what became of the calls of an order that were in flight when a guard enforced it.
type Flight struct {
	Verdict   string `json:"verdict"`
	Calls     int    `json:"calls"`
	Ended     int    `json:"ended"`
	Cancelled int    `json:"cancelled"` // of those that ended
	// Open names some of those that have not ended.
	Open []OpenCall `json:"open,omitempty"`
}

// OpenCall is a call that has not ended since an order by hand binds it.
type OpenCall struct {
	Flow string `json:"flow,omitempty"`
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	Tool string `json:"tool,omitempty"`
	// Cancel is CancelRequested or CancelFailed; "" where the program gives the guard no way to cancel
	// the call.
	Cancel string `json:"cancel,omitempty"`
	Why    string `json:"why,omitempty"` // of CancelFailed
}

// The values of OpenCall.Cancel.
const (
	CancelRequested = "requested"
	CancelFailed    = "failed"
)

func (c *OpenCall) check() error {
	for _, text := range []string{c.Flow, c.From, c.To, c.Tool, c.Why} {
		if len(text) > events.MaxID {
			return fmt.Errorf("flights: a text in open is longer than %d bytes", events.MaxID)
		}
	}
	if c.Cancel != "" && c.Cancel != CancelRequested && c.Cancel != CancelFailed {
		return fmt.Errorf("flights: cancel is %q; want %s, %s or nothing", c.Cancel, CancelRequested, CancelFailed)
	}
	return nil
}

// Check reports what is wrong with a heartbeat.
func (b *Beat) Check() error {
	switch {
	case b.Guard == "" || b.Instance == "":
		return fmt.Errorf("guard and instance are needed")
	case len(b.Guard) > events.MaxID || len(b.Instance) > events.MaxID || len(b.Language) > 32 || len(b.Version) > 64:
		return fmt.Errorf("guard or instance is longer than %d bytes, language than 32, or version than 64", events.MaxID)
	case len(b.Held) > mostHeld || len(b.Flights) > mostHeld:
		return fmt.Errorf("want at most %d orders in held and in flights", mostHeld)
	}
	for _, f := range b.Flights {
		if f.Calls < f.Ended || f.Ended < f.Cancelled || f.Cancelled < 0 {
			return fmt.Errorf("flights: want calls >= ended >= cancelled >= 0")
		}
		if len(f.Open) > mostOpen {
			return fmt.Errorf("flights: want at most %d calls in open", mostOpen)
		}
		for i := range f.Open {
			if err := f.Open[i].check(); err != nil {
				return err
			}
		}
	}
	return nil
}

// guardState is what is known of one process of a guard.
type guardState struct {
	principal string
	key       string // see keyOf; "" until it is needed
	text      string // of the heartbeat, see Again
	beat      Beat
	seen      events.Stamp
	// since is when the guard was first heard to enforce each order that it holds, by verdict id.
	since map[string]events.Stamp
}

// Guards are those that follow this process. The zero Guards is ready. Any goroutine may use it.
type Guards struct {
	mu      sync.Mutex
	byName  map[string]*guardState
	byText  map[string]*guardState // by their last heartbeat
	changes int64                  // guards that have come or gone
	// full is when a guard found no room last; 0 before. It is not known until it has come in.
	full events.Stamp
	pace pace
}

// nameOf distinguishes processes of guards. The principal is part of it, so that no principal can
// report for the guard of another one.
func nameOf(principal, guard, instance string) string {
	return principal + "\x00" + guard + "\x00" + instance
}

// mostText is how long a heartbeat may be that is recognized by its text.
const mostText = 1 << 10

// Recognizes reports whether a guard sent the text last, so that it is a heartbeat without a fault.
func (g *Guards) Recognizes(text []byte) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.byText[string(text)] != nil
}

// Again takes a heartbeat of a principal whose text is the one that its guard sent last, as nearly all are.
// It returns after what time the next one is due. False says that the text has to be read. Text is not kept.
func (g *Guards) Again(principal string, text []byte, now events.Stamp) (next time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.byText[string(text)]
	if s == nil || s.principal != principal {
		return 0, false
	}
	s.seen = now
	return g.pace.next(now, len(g.byName), len(s.beat.Held) > 0, false), true
}

// Heard takes a heartbeat of a principal at a time.
func (g *Guards) Heard(principal string, b Beat, now events.Stamp) { g.Read(principal, nil, b, now) }

// Read takes a heartbeat that was read from a text, by which Again recognizes the next one. It returns after
// what time the next one is due.
func (g *Guards) Read(principal string, text []byte, b Beat, now events.Stamp) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	anew := g.take(principal, text, b, now)
	return g.pace.next(now, len(g.byName), len(b.Held) > 0, anew)
}

// take takes a heartbeat, and reports whether its guard holds other orders than before. The caller holds mu.
func (g *Guards) take(principal string, text []byte, b Beat, now events.Stamp) (anew bool) {
	name := nameOf(principal, b.Guard, b.Instance)
	if b.Closed {
		g.drop(name)
		return false
	}
	s := g.byName[name]
	if s == nil {
		if g.hasNoRoom(now) {
			g.full = now
			return false
		}
		if g.byName == nil {
			g.byName = make(map[string]*guardState)
		}
		s = &guardState{principal: principal}
		g.byName[name] = s
		g.changes++
	}
	since := make(map[string]events.Stamp, len(b.Held))
	for _, id := range b.Held {
		if since[id] = now; s.since[id] != 0 {
			since[id] = s.since[id]
		}
	}
	anew = !slices.Equal(s.beat.Held, b.Held)
	s.beat, s.seen, s.since = b, now, since
	g.recognize(s, text)
	return anew
}

// recognize has Again know the text as the last one of a guard. The caller holds mu.
func (g *Guards) recognize(s *guardState, text []byte) {
	if g.byText[s.text] == s {
		delete(g.byText, s.text)
	}
	s.text = ""
	if len(text) == 0 || len(text) > mostText {
		return
	}
	if g.byText == nil {
		g.byText = make(map[string]*guardState)
	}
	s.text = string(text)
	g.byText[s.text] = s
}

// Connected notes that a guard follows the verdicts, before it was heard.
func (g *Guards) Connected(principal, guard, instance string, now events.Stamp) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := nameOf(principal, guard, instance)
	if g.byName[name] != nil {
		return
	}
	if g.hasNoRoom(now) {
		g.full = now
		return
	}
	if g.byName == nil {
		g.byName = make(map[string]*guardState)
	}
	g.byName[name] = &guardState{principal: principal, beat: Beat{Guard: guard, Instance: instance}, seen: now}
	g.changes++
}

// drop forgets a guard. The caller holds mu.
func (g *Guards) drop(name string) {
	if s := g.byName[name]; s != nil {
		g.recognize(s, nil)
		delete(g.byName, name)
		g.changes++
	}
}

// hasNoRoom reports whether no further guard can be named. The caller holds mu.
func (g *Guards) hasNoRoom(now events.Stamp) bool {
	if len(g.byName) >= mostGuards { // to look at each of them for each new one takes long
		g.forget(now)
	}
	return len(g.byName) >= mostGuards
}

// forget drops guards that were not heard of for long. The caller holds mu.
func (g *Guards) forget(now events.Stamp) {
	for name, s := range g.byName {
		if now.Sub(s.seen) > forgotten {
			g.drop(name)
		}
	}
}

// GuardSeen is a guard in a receipt.
type GuardSeen struct {
	Guard    string         `json:"guard"`
	Instance string         `json:"instance"`
	Seen     events.RFC3339 `json:"seen"`
	// Why says why the guard has not confirmed: it is silent, or it has not enforced the order.
	Why string `json:"why,omitempty"`
}

// Confirmed is what the guards of one process, or of several, have confirmed of an order.
type Confirmed struct {
	Guards int `json:"guards"` // that have confirmed
	// Last is when the last of them did.
	Last    events.RFC3339 `json:"last,omitzero"`
	Missing []GuardSeen    `json:"missing"` // at most MostMissing, by name
	More    int            `json:"more,omitempty"`
	// Calls that were in flight, as far as guards run them.
	Flights Flights `json:"in_flight"`
}

// Flights are the calls that were in flight when guards enforced an order.
type Flights struct {
	Calls     int `json:"calls"`
	Ended     int `json:"ended"`
	Cancelled int `json:"cancelled"` // of those that ended
	Running   int `json:"running"`
	Unknown   int `json:"unknown"` // of guards that are silent
	// Open names calls that have not ended, at most MostMissing of them.
	Open []OpenSeen `json:"open"`
}

// OpenSeen is a call in a receipt that has not ended.
type OpenSeen struct {
	Guard    string `json:"guard"`
	Instance string `json:"instance"`
	OpenCall
}

// MostMissing is how many guards a receipt names.
const MostMissing = 100

// missing says why a guard has not confirmed; "" when it has. Who is silent has confirmed nothing that
// holds now: it may have been started anew.
func (s *guardState) missing(verdict string, stops bool, now events.Stamp) string {
	order, _, _ := strings.Cut(verdict, "-")
	switch {
	case now.Sub(s.seen) > Silent:
		return "not heard of since " + events.RFC3339(s.seen).String()
	case s.beat.Language == "":
		return "it follows the verdicts and sends no heartbeat"
	case stops && s.since[verdict] == 0:
		return "it does not enforce the order yet"
	case !stops && slices.ContainsFunc(s.beat.Held, func(id string) bool { return strings.HasPrefix(id, order+"-") }):
		return "it still enforces the order"
	}
	return ""
}

// flights returns the calls of an order that were in flight at the guard; nil for none.
func (s *guardState) flights(verdict string, now events.Stamp) *Flights {
	i := slices.IndexFunc(s.beat.Flights, func(f Flight) bool { return f.Verdict == verdict })
	if i < 0 {
		return nil
	}
	one := s.beat.Flights[i]
	f := &Flights{Calls: one.Calls, Ended: one.Ended, Cancelled: one.Cancelled, Running: one.Calls - one.Ended, Open: []OpenSeen{}}
	silent := now.Sub(s.seen) > Silent
	if silent {
		f.Running, f.Unknown = 0, f.Running
	}
	for _, c := range one.Open {
		if silent && c.Cancel != CancelFailed {
			c.Cancel, c.Why = CancelFailed, "not heard of since "+events.RFC3339(s.seen).String()
		}
		f.Open = append(f.Open, OpenSeen{Guard: s.beat.Guard, Instance: s.beat.Instance, OpenCall: c})
	}
	return f
}

func (f *Flights) add(p *Flights) {
	f.Calls, f.Ended, f.Cancelled, f.Running, f.Unknown = f.Calls+p.Calls, f.Ended+p.Ended, f.Cancelled+p.Cancelled, f.Running+p.Running, f.Unknown+p.Unknown
	f.Open = append(f.Open, p.Open...)
}

// cut puts the calls in an order and keeps their list short.
func (f *Flights) cut() {
	slices.SortFunc(f.Open, func(a, b OpenSeen) int {
		return cmp.Or(cmp.Compare(a.Guard, b.Guard), cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Flow, b.Flow), cmp.Compare(a.To, b.To), cmp.Compare(a.Tool, b.Tool))
	})
	f.Open = f.Open[:min(len(f.Open), MostMissing)]
}

// add adds what the guards of a member have confirmed that reports no words.
func (c *Confirmed) add(o Confirmed) {
	c.Guards, c.Last, c.More = c.Guards+o.Guards, max(c.Last, o.Last), c.More+o.More
	c.Missing = append(c.Missing, o.Missing...)
	c.Flights.add(&o.Flights)
	c.cut()
}
