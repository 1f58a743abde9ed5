// Package orders keeps the orders that persons give about scopes: it records and enforces them, and appends
// them to the log of verdicts. An order does not go through the fold, so it is in
// force while the fold is behind and while a partition changes hands.
package orders

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/cmd/internal/clock"
	"weir/events"
	"weir/events/byhand"
	"weir/state"
)

// Log is where records are durable. The members of a group share one.
type Log interface {
	// Write returns when a record is durable.
	Write(ctx context.Context, o *byhand.Order) error
	// Follow calls take for each record of the log, and for those that come later, until ctx ends.
	// It calls reached whenever it has taken all that the log holds, and lost when it does not know
	// any more whether it has.
	Follow(ctx context.Context, take func(*byhand.Order), reached func(), lost func(error)) error
}

// Verdicts is the log of verdicts, which streams and sinks read.
type Verdicts interface {
	Append(entries []state.Entry) (int64, error)
}

// MaxOrders is how many orders are kept, those included that were released a short time ago.
const MaxOrders = 256

// Kept is how long an order is remembered at least after its last record, so that a link that was made
// for it cannot be used twice, see Links.
const Kept = 25 * time.Hour

// repeatEvery is how often the verdicts of all orders are appended again: a guard that reads the log
// from its beginning then finds orders that are older than the log keeps verdicts.
const repeatEvery = time.Hour

// writeAgain is how soon a record is written again that the log did not take.
const writeAgain = time.Second

// Book holds the orders. The fields are set before Run. Any goroutine may use it.
type Book struct {
	Log      Log
	Verdicts Verdicts
	// Enforce puts a verdict in force at this process. It is called before anything is written.
	Enforce func(v *events.Verdict)
	Now     func() events.Stamp // the time of the log
	Clock   clock.Clock
	Logger  *slog.Logger
	// Changed, where it is given, is called after each record that was taken.
	Changed func(o *byhand.Order)

	mu       sync.Mutex
	orders   map[string]*byhand.Order        // the newest record of each key, by id; never changed in place
	unsaved  map[string]*byhand.Order        // that the log did not take yet
	unshown  map[string]*byhand.Order        // that the log of verdicts did not take yet
	known    bool                            // all that the log holds was taken
	trouble  error                           // why that is not so any more
	readied  chan struct{}                   // closed when they are; nil while no goroutine waits
	stops    atomic.Pointer[[]*byhand.Order] // of orders
	previous events.Stamp                    // the greatest revision that was given here
}

// ErrFull is the error of an order beyond MaxOrders.
var ErrFull = fmt.Errorf("there are %d orders already; release some, or give one with a pattern", MaxOrders)

// ErrUnsaved is the error of an order that is in force at this process and not durable yet.
var ErrUnsaved = errors.New("the order is in force at this process, but it is not recorded yet; recording is retried")

// Run follows the log until ctx ends.
func (b *Book) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- b.Log.Follow(ctx, func(o *byhand.Order) { b.take(o) }, b.reached, b.lost)
	}()
	repeat := b.Clock.After(repeatEvery)
	for {
		select {
		case err := <-ended:
			if ctx.Err() == nil && err != nil {
				return fmt.Errorf("follow the orders: %w", err)
			}
			return context.Cause(ctx)
		case <-b.Clock.After(writeAgain):
			b.writeAgain(ctx)
		case <-repeat:
			b.forget()
			b.showAll()
			repeat = b.Clock.After(repeatEvery)
		}
	}
}

// Ready reports why this process may not know all orders; nil when it does.
func (b *Book) Ready() (why []string) {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.trouble != nil:
		why = append(why, "orders by hand may be missing: "+b.trouble.Error())
	case !b.known:
		why = append(why, "the orders by hand are not read yet")
	}
	return why
}

func (b *Book) reached() {
	b.mu.Lock()
	first := !b.known
	b.known, b.trouble = true, nil
	if b.readied != nil {
		close(b.readied)
		b.readied = nil
	}
	b.mu.Unlock()
	if first { // a crash may have come between the record and its verdict
		b.showAll()
	}
}

// Wait returns when all orders that the log holds are in force at this process.
func (b *Book) Wait(ctx context.Context) error {
	for {
		b.mu.Lock()
		ready := b.readied
		if b.known && b.trouble == nil {
			b.mu.Unlock()
			return nil
		}
		if ready == nil {
			ready = make(chan struct{})
			b.readied = ready
		}
		b.mu.Unlock()
		select {
		case <-ready:
		case <-ctx.Done():
			return fmt.Errorf("the orders by hand are not read: %w", errors.Join(context.Cause(ctx), b.fault()))
		}
	}
}

func (b *Book) fault() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.trouble
}

func (b *Book) lost(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trouble = err
}

// Give puts an order in force, records it, and returns its record. The order is in force at this
// process when it returns, also with ErrUnsaved. expect, where it is not nil, is the revision that the
// order has to have now, or 0 for none: another revision is ErrOther.
func (b *Book) Give(ctx context.Context, o byhand.Order, expect *int64) (*byhand.Order, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	given, err := b.number(&o, expect)
	if err != nil {
		return nil, err
	}
	if given.IsSelfTest() {
		return given, nil
	}
	if err := b.Log.Write(ctx, given); err != nil {
		b.mu.Lock()
		put(&b.unsaved, given)
		b.mu.Unlock()
		b.Logger.Error("an order by hand is in force here and not recorded yet; it is retried", "order", given.ID(), "scope", given.Scope.String(), "error", err)
		return given, fmt.Errorf("%w: %w", ErrUnsaved, err)
	}
	return given, nil
}

// The errors of Give that the caller can do something about.
var (
	ErrOther = errors.New("the order was changed since")
	ErrNone  = errors.New("there is no such order")
)

// number makes the record of an order and takes it.
func (b *Book) number(o *byhand.Order, expect *int64) (*byhand.Order, error) {
	b.mu.Lock()
	now := b.Now()
	old := b.orders[o.ID()]
	switch {
	case expect != nil && revisionOf(old) != *expect:
		b.mu.Unlock()
		return nil, ErrOther
	case o.Order == byhand.Release && (old == nil || !old.Stops(now)):
		b.mu.Unlock()
		return nil, ErrNone
	case old == nil && len(b.orders) >= MaxOrders && !o.IsSelfTest():
		b.mu.Unlock()
		return nil, ErrFull
	}
	o.SchemaVersion, o.Time = 1, events.RFC3339(now)
	o.Since = o.Time
	if old != nil && old.Stops(now) {
		o.Since = old.Since
	}
	if o.Order == byhand.Release {
		o.Expires = old.Expires
	}
	o.Revision = max(int64(now), revisionOf(old)+1, int64(b.previous)+1)
	b.previous = events.Stamp(o.Revision)
	b.mu.Unlock()
	b.take(o)
	return o, nil
}

func revisionOf(o *byhand.Order) int64 {
	if o == nil {
		return 0
	}
	return o.Revision
}

// take takes a record in, whether it was given here or elsewhere.
func (b *Book) take(o *byhand.Order) {
	b.mu.Lock()
	id := o.ID()
	if old := b.orders[id]; old != nil && !newer(o, old) || !b.remembers(o) {
		if old != nil && newer(old, o) && old.Revision == o.Revision {
			put(&b.unsaved, old) // a compacted log would keep the record that came last
		}
		b.mu.Unlock()
		return
	}
	put(&b.orders, o)
	if o.IsSelfTest() {
		b.Enforce(o.Verdict())
		b.mu.Unlock()
		return
	}
	put(&b.unshown, o)
	stops := slices.DeleteFunc(sorted(b.orders), func(o *byhand.Order) bool { return o.Order != byhand.Stop || o.IsSelfTest() })
	b.stops.Store(&stops)
	// Under the lock, so that two records of a key are enforced in the order of their revisions.
	b.Enforce(o.Verdict())
	b.show()
	b.mu.Unlock()
	b.report(o)
	if b.Changed != nil {
		b.Changed(o)
	}
}

// report logs what a record has changed.
func (b *Book) report(o *byhand.Order) {
	level, what := slog.LevelWarn, "an order by hand is in force"
	switch stops := o.Order == byhand.Stop; {
	case o.IsDrill() && stops:
		level, what = slog.LevelInfo, "a drill began"
	case o.IsDrill():
		level, what = slog.LevelInfo, "a drill ended"
	case !stops:
		level, what = slog.LevelInfo, "an order by hand is lifted"
	}
	b.Logger.Log(context.Background(), level, what, "order", o.ID(), "scope", o.Scope.String(), "by", o.By, "reason", o.Reason, "until", o.Expires.String())
}

// newer reports whether a counts before b of the same key. Two members may give records in the same
// millisecond; each of them then decides alike: a stop counts before a release.
func newer(a, b *byhand.Order) bool {
	return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Order, b.Order), bytes.Compare(a.Encode(), b.Encode())) > 0
}

func put(m *map[string]*byhand.Order, o *byhand.Order) {
	if *m == nil {
		*m = make(map[string]*byhand.Order)
	}
	if old := (*m)[o.ID()]; old == nil || newer(o, old) {
		(*m)[o.ID()] = o
	}
}

// remembers reports whether a record still says something: it refuses calls, or takes back what may
// stand somewhere, or was made a short time ago.
func (b *Book) remembers(o *byhand.Order) bool {
	now := b.Now()
	return o.Expires == 0 || events.Stamp(o.Expires) > now || events.Stamp(o.Time).Add(Kept) > now
}

// show appends verdicts that the log of verdicts lacks. The caller holds mu. A disk without room makes
// it wait for writeAgain: the orders are in force at this process meanwhile.
func (b *Book) show() {
	for _, o := range sorted(b.unshown) {
		if _, err := b.Verdicts.Append([]state.Entry{{Appended: b.Now(), Value: o.Verdict().AppendJSON(nil)}}); err != nil {
			b.Logger.Error("an order by hand is not sent to guards yet; it is retried", "order", o.ID(), "error", err)
			return
		}
		delete(b.unshown, o.ID())
	}
}

// showAll appends the verdicts of all orders again.
func (b *Book) showAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range b.orders {
		if !o.IsSelfTest() {
			put(&b.unshown, o)
		}
	}
	b.show()
}

// forget drops orders that say nothing any more.
func (b *Book) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, o := range b.orders {
		if !b.remembers(o) {
			delete(b.orders, id)
		}
	}
}

// writeAgain records what the log did not take.
func (b *Book) writeAgain(ctx context.Context) {
	b.mu.Lock()
	b.show()
	unsaved := sorted(b.unsaved)
	b.mu.Unlock()
	for _, o := range unsaved {
		if err := b.Log.Write(ctx, o); err != nil {
			return // the next turn tries again
		}
		b.Logger.Info("an order by hand is recorded", "order", o.ID(), "scope", o.Scope.String())
		b.mu.Lock()
		if b.unsaved[o.ID()] == o {
			delete(b.unsaved, o.ID())
		}
		b.mu.Unlock()
	}
}

// sorted returns the records by their revisions.
func sorted(m map[string]*byhand.Order) []*byhand.Order {
	out := make([]*byhand.Order, 0, len(m))
	for _, o := range m {
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b *byhand.Order) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.ID(), b.ID()))
	})
	return out
}

// List returns the orders that refuse calls now, without those of drills, or with all those as well that are remembered, the
// oldest first. They must not be changed.
func (b *Book) List(all bool) []*byhand.Order {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Now()
	return slices.DeleteFunc(sorted(b.orders), func(o *byhand.Order) bool { return o.IsSelfTest() || !all && (!o.Stops(now) || o.IsDrill()) })
}

// active returns the records of stops that are kept. It takes no lock: Observe asks it
// for each event.
func (b *Book) active() []*byhand.Order {
	if list := b.stops.Load(); list != nil {
		return *list
	}
	return nil
}

// Get returns the newest record of an order; nil for none.
func (b *Book) Get(id string) *byhand.Order {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.orders[id]
}

// Saved reports whether the newest record of an order is durable.
func (b *Book) Saved(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.unsaved[id] == nil
}
