package simulate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/orders"
	"weir/events"
	"weir/events/byhand"
	"weir/sink/guard"
	"weir/state"
)

// switchWorld is a run of orders by hand: members that share a topic, and guards that follow them. Orders,
// books, receipts and tables of guards are those of the program; topic, streams and heartbeats are
// models that lose, delay and repeat. One goroutine owns it.
type switchWorld struct {
	rand    *rand.Rand
	clock   *clock.Fake
	settle  func()
	topic   []string // records
	members []*switchMember
	guards  []*switchGuard
	retired []*switchGuard // instances that have ended
	lives   map[string]*orderLife
	// complete is the verdict of which a receipt was complete, by id of the order.
	complete map[string]string
	born     int
	stats    *SwitchStats
	broken   string
}

// SwitchStats is what happened in runs of the switch.
type SwitchStats struct{ Runs, Orders, Releases, Receipts, Complete, Refused, Lost, Restarts, Moves int }

// switchMember is one weir.
type switchMember struct {
	world *switchWorld
	name  int
	book  *orders.Book
	desk  *orders.Desk
	log   []*events.Verdict // of verdicts
	read  int               // how far it has read the topic
	take  func(*byhand.Order)
	cut   bool // it reaches neither the topic nor other members
	full  bool // its disk takes no verdicts
}

// switchGuard is a guard that follows a member. A restart makes another instance.
type switchGuard struct {
	member   *switchMember
	name     string
	instance string
	table    *guard.Table
	next     int // in the member's log
	beats    []orders.Beat
	silent   bool
	seen     events.Stamp // when its member heard it last
	// took are the verdicts that this instance has enforced.
	took map[string]bool
}

// errCut is the error of a member that is cut off.
var errCut = errors.New("the member is cut off")

// Write appends to the topic.
func (m *switchMember) Write(_ context.Context, o *byhand.Order) error {
	if m.cut {
		return errCut
	}
	m.world.topic = append(m.world.topic, string(o.Encode()))
	return nil
}

// Follow keeps how records are taken, and waits.
func (m *switchMember) Follow(ctx context.Context, take func(*byhand.Order), reached func(), _ func(error)) error {
	m.take = take
	reached()
	<-ctx.Done()
	return ctx.Err()
}

// Append takes verdicts into the member's log.
func (m *switchMember) Append(entries []state.Entry) (int64, error) {
	if m.full {
		return 0, state.ErrDiskLow
	}
	for i := range entries {
		v := new(events.Verdict)
		must(events.DecodeVerdict(entries[i].Value, v))
		m.log = append(m.log, v)
	}
	return int64(len(m.log)), nil
}

// RunSwitch runs a plan of the switch, and returns what was broken; "" for nothing.
func RunSwitch(plan Plan, settle func(), stats *SwitchStats) string {
	w := &switchWorld{rand: rand.New(rand.NewPCG(plan.Seed, 39)), clock: clock.NewFake(), settle: settle, lives: map[string]*orderLife{}, complete: map[string]string{}, stats: stats}
	stats.Runs++
	ctx, end := context.WithCancel(context.Background())
	defer func() { end(); settle() }()
	for n := range 1 + w.rand.IntN(3) {
		m := &switchMember{world: w, name: n}
		m.book = &orders.Book{Log: m, Verdicts: m, Enforce: func(*events.Verdict) {}, Now: w.now, Clock: w.clock, Logger: slog.New(slog.DiscardHandler)}
		m.desk = &orders.Desk{Book: m.book, Guards: new(orders.Guards)}
		m.book.Changed = m.desk.Changed
		w.members = append(w.members, m)
		go func() { _ = m.book.Run(ctx) }()
	}
	settle()
	for range 1 + w.rand.IntN(5) {
		w.newGuard(nil)
	}
	for step := 0; step < plan.Steps && w.broken == ""; step++ {
		w.turn(plan)
		settle()
	}
	return w.broken
}

func (w *switchWorld) now() events.Stamp { return events.StampOf(w.clock.Now()) }

func (w *switchWorld) violate(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

// newGuard starts a guard, or a new instance of one in the place of it.
func (w *switchWorld) newGuard(old *switchGuard) {
	w.born++
	g := &switchGuard{member: w.members[w.rand.IntN(len(w.members))], name: fmt.Sprint("guard-", len(w.guards)), instance: fmt.Sprint(w.born), table: new(guard.Table), took: map[string]bool{}}
	if old != nil {
		g.name = old.name
		w.guards[slices.Index(w.guards, old)] = g
		w.retired = append(w.retired, old)
	} else {
		w.guards = append(w.guards, g)
	}
	g.seen = w.now()
	g.member.desk.Guards.Connected("", g.name, g.instance, w.now())
}

// turn is one step.
func (w *switchWorld) turn(plan Plan) {
	m, g := w.members[w.rand.IntN(len(w.members))], w.guards[w.rand.IntN(len(w.guards))]
	faulty := func(once int) bool { return plan.Without != All && w.rand.IntN(once) == 0 }
	switch w.rand.IntN(12) {
	case 0:
		w.give(m)
	case 1, 2: // a member reads on in the topic
		for n := 1 + w.rand.IntN(3); n > 0 && m.read < len(w.topic) && !m.cut; n-- {
			o, err := byhand.Decode([]byte(w.topic[m.read]))
			must(err)
			m.read++
			m.take(o)
		}
	case 3, 4:
		g.follow(w)
	case 5, 6:
		g.beat(w)
	case 7:
		g.deliver(w, faulty(4))
	case 8:
		w.clock.Advance(time.Duration(w.rand.IntN(2500)) * time.Millisecond)
	case 9:
		w.check(w.members[w.rand.IntN(len(w.members))])
	case 10:
		w.fault(m, g, faulty)
	case 11:
		w.tries(g)
	}
}

// fault lets something fail, or heal.
func (w *switchWorld) fault(m *switchMember, g *switchGuard, faulty func(int) bool) {
	switch {
	case m.cut || m.full:
		m.cut, m.full = false, false
	case faulty(4):
		m.cut = true
	case faulty(4):
		m.full = true
	case faulty(4):
		g.silent = !g.silent
		w.stats.Lost++
	case faulty(6):
		w.stats.Restarts++
		w.newGuard(g)
	case faulty(3):
		g.moves(w)
	case faulty(20):
		w.clock.Advance(time.Duration(w.rand.IntN(7200)) * time.Second)
	}
}

var switchScopes = []byhand.Scope{{Kind: events.ScopeAll, ID: "*"}, {Kind: events.ScopeAgent, ID: "a*"}, {Kind: events.ScopeTool, ID: "shell"}}

// give gives an order, or releases one. Only what the newest record of the topic knows is compared with
// the model: members that are cut off may give an order beside others.
func (w *switchWorld) give(m *switchMember) {
	o := byhand.Order{Order: byhand.Stop, Scope: switchScopes[w.rand.IntN(len(switchScopes))], Reason: "a test", By: "ann"}
	if w.rand.IntN(3) == 0 {
		o.Order = byhand.Release
		w.stats.Releases++
	} else {
		o.Expires = events.RFC3339(w.now().Add(time.Duration(1+w.rand.IntN(3600)) * time.Second))
		w.stats.Orders++
	}
	given, err := m.book.Give(context.Background(), o, nil)
	if err != nil && !errors.Is(err, orders.ErrUnsaved) {
		return
	}
	delete(w.complete, given.ID())
	// Alone, a member sees all records: they have to follow the model.
	if len(w.members) > 1 {
		return
	}
	l := w.lives[given.ID()]
	if l == nil {
		l = new(orderLife)
		w.lives[given.ID()] = l
	}
	if err := l.take(given.Verdict(), w.now()); err != nil {
		w.violate("an order leaves its life: %v", err)
	}
}

// moves has the guard follow another member, or the same one anew. It keeps its orders and reads all of the log.
func (g *switchGuard) moves(w *switchWorld) {
	w.stats.Moves++
	g.member, g.next = w.members[w.rand.IntN(len(w.members))], 0
	g.member.desk.Guards.Connected("", g.name, g.instance, w.now())
}

// follow has the guard read on in the log of verdicts of its member.
func (g *switchGuard) follow(w *switchWorld) {
	if w.rand.IntN(6) == 0 { // a stream that breaks off begins again
		g.next = max(0, g.next-1-w.rand.IntN(3))
	}
	for n := 1 + w.rand.IntN(4); n > 0 && g.next < len(g.member.log); n-- {
		g.table.Take(g.member.log[g.next])
		g.next++
	}
	for _, v := range g.table.HeldByHand() {
		g.took[v.ID] = true
	}
}

// beat makes a heartbeat, which arrives later.
func (g *switchGuard) beat(w *switchWorld) {
	b := orders.Beat{Guard: g.name, Instance: g.instance, Language: "go", Held: []string{}}
	for _, v := range g.table.HeldByHand() {
		if v.ExpiresAt == 0 || events.Stamp(v.ExpiresAt) > w.now() {
			b.Held = append(b.Held, v.ID)
		}
	}
	g.beats = append(g.beats, b)
}

// deliver has a heartbeat arrive, or lost.
func (g *switchGuard) deliver(w *switchWorld, lost bool) {
	if len(g.beats) == 0 {
		return
	}
	b := g.beats[0]
	g.beats = g.beats[1:]
	if lost || g.silent {
		w.stats.Lost++
		return
	}
	g.seen = w.now()
	g.member.desk.Guards.Heard("", b, w.now())
}

// receipt makes the receipt of an order as a member does.
func (w *switchWorld) receipt(m *switchMember, o *byhand.Order) *orders.Receipt {
	r := orders.NewReceipt(o)
	own := m.desk.Part(r.Verdict)
	r.Add("this process", own)
	for _, other := range w.members {
		switch {
		case other == m:
		case other.cut || m.cut:
			r.Miss("cut off")
		default:
			part := other.desk.Part(r.Verdict)
			r.Add(fmt.Sprint(other.name), part)
			m.desk.Guards.Moved(own.Words, part.Words, w.now())
		}
	}
	return r.Close()
}

// check makes the receipts of all orders, and holds each to what the guards have done.
func (w *switchWorld) check(m *switchMember) {
	for _, o := range m.book.List(true) {
		r := w.receipt(m, o)
		w.stats.Receipts++
		stops := o.Order == byhand.Stop
		confirmed := 0
		for _, g := range w.guards {
			if !stops || g.took[r.Verdict] {
				confirmed++
			}
		}
		for _, g := range w.retired { // weir cannot know at once that they have ended
			if !stops || g.took[r.Verdict] {
				confirmed++
			}
		}
		if r.Guards > confirmed {
			w.violate("a receipt says that %d guards have confirmed %s, and %d have", r.Guards, r.Verdict, confirmed)
		}
		if !r.Complete {
			continue
		}
		w.stats.Complete++
		for _, g := range w.guards {
			if stops && !g.took[r.Verdict] && w.now().Sub(g.seen) < time.Hour {
				w.violate("a receipt of %s is complete, and %s has not taken the order", r.Verdict, g.name)
			}
		}
		for _, other := range w.members {
			if own := other.book.Get(o.ID()); other != m && (own == nil || own.Revision < o.Revision) {
				w.violate("a receipt of %s is complete, and member %d does not know the order", r.Verdict, other.name)
			}
		}
		if stops && o.Stops(w.now()) {
			w.complete[o.ID()] = r.Verdict
		}
		if l := w.lives[o.ID()]; l != nil && stops && o.Stops(w.now()) {
			if err := l.confirm(r.Verdict, w.now()); err != nil {
				w.violate("an order leaves its life: %v", err)
			}
		}
	}
}

// tries has a guard decide a call of each order whose receipt was complete.
func (w *switchWorld) tries(g *switchGuard) {
	for id, verdict := range w.complete {
		o := g.member.book.Get(id)
		if o == nil || o.VerdictID() != verdict || !o.Stops(w.now()) || !g.took[verdict] {
			continue
		}
		if v := g.table.Refusing(&guard.Call{Flow: "f", From: "a", To: "b", Tool: "shell"}, w.now()); v == nil {
			w.violate("a guard that has confirmed %s admits a call of its scope", verdict)
		}
		w.stats.Refused++
	}
}
