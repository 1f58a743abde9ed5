package access

import (
	"slices"
	"strings"
	"sync"
	"time"

	"weir/events/byhand"
)

// Principal is a known sender. Any goroutine may call its methods, also on nil. A nil Principal is a
// sender that needs no name, and has no restrictions. A request keeps the Principal that it was let in
// as, even if the files are read again while it is served. So nothing in it changes but its bucket. A
// stream queries the Keeper again.
type Principal struct {
	Name string
	// Named means that the name is one of the access file: its orders are in its name. A token that
	// many share does not identify its owner.
	Named bool

	// What the roles open, and to what they are narrowed. A pattern may end in a star. The
	// shared tokens, and certificates of which no file says anything, are not narrowed and
	// have no bucket.
	roles   Roles
	sources []string // patterns; none: all
	flows   []string
	orders  []byhand.Scope // that it may give orders about; none: all
	payers  [2][]string    // tenants and teams, in the order of payerKinds
	bucket  *bucket        // nil: no bound
}

// May reports whether it has one of the roles.
// One that is enough is asked for and not all of them: some routes serve two kinds of
// visitors. Whether nil may be here at all is the caller's matter, who knows by which
// listener it came.
func (p *Principal) May(one Roles) bool { return p == nil || p.roles&one != 0 }

// Bound reports whether it may see and order about some flows alone.
// Such a Principal is refused on every route that was not looked at for that (see decision
// 74).
func (p *Principal) Bound() bool { return p != nil && len(p.flows) > 0 }

// BoundToSources reports whether it may send events of some sources alone.
// Intakes of formats whose records name no source of their own are closed to it.
func (p *Principal) BoundToSources() bool { return p != nil && len(p.sources) > 0 }

// Flow reports whether the flow is one of its own.
func (p *Principal) Flow(id string) bool { return p == nil || matches(p.flows, id) }

// Source reports whether it may send events of the source.
func (p *Principal) Source(name string) bool { return p == nil || matches(p.sources, name) }

// SomeSource is a source that it may send events of, as an example; "" where it is not bound to any.
func (p *Principal) SomeSource() string {
	if !p.BoundToSources() {
		return ""
	}
	begin, star := strings.CutSuffix(p.sources[0], "*")
	if star {
		begin += "1"
	}
	return begin
}

// RoleNames are the roles, those included that others give; none for an unknown sender.
func (p *Principal) RoleNames() []string {
	if p == nil {
		return nil
	}
	return p.roles.Names()
}

// Bounds are patterns that narrow what a principal may send and see; none: no bound.
type Bounds struct {
	Flows   []string `json:"flows,omitempty"`
	Sources []string `json:"sources,omitempty"`
	Tenants []string `json:"tenants,omitempty"`
	Teams   []string `json:"teams,omitempty"`
}

// Bounds returns what narrows the principal. The lists must not be changed.
func (p *Principal) Bounds() Bounds {
	if p == nil {
		return Bounds{}
	}
	return Bounds{Flows: p.flows, Sources: p.sources, Tenants: p.payers[0], Teams: p.payers[1]}
}

// Orders are the scopes that its orders have to be within; none: it may give orders about all.
func (p *Principal) Orders() []byhand.Scope {
	if p == nil {
		return nil
	}
	return p.orders
}

// The kinds of those who pay for events, as the access file names them.
const (
	Tenants = "tenants"
	Teams   = "teams"
)

var payerKinds = [...]string{Tenants, Teams}

// BoundToPayers reports whether it may send events of some tenants or teams alone.
func (p *Principal) BoundToPayers() bool {
	return p != nil && len(p.payers[0])+len(p.payers[1]) > 0
}

// Pays reports whether it may send events of the tenant or the team.
func (p *Principal) Pays(kind, name string) bool {
	return p == nil || matches(p.payers[slices.Index(payerKinds[:], kind)], name)
}

// Only returns the one tenant or team that it is bound to; "" when it is bound to none, to several, or
// by a pattern.
func (p *Principal) Only(kind string) string {
	if p == nil {
		return ""
	}
	list := p.payers[slices.Index(payerKinds[:], kind)]
	if len(list) != 1 || strings.HasSuffix(list[0], "*") {
		return ""
	}
	return list[0]
}

// Take charges one request. When the principal has used up what it may do, wait is how
// long that takes to be otherwise, and nothing is charged.
// It is called before anybody has looked at what the request holds; the rest is for Charge.
func (p *Principal) Take(now time.Time) (wait time.Duration) {
	if p == nil || p.bucket == nil {
		return 0
	}
	return p.bucket.take(now)
}

// Charge charges what a request turned out to hold beside itself. It is not refused for
// it: who comes next waits the longer.
// A body that was refused in its middle would have to be sent again, at the same cost.
func (p *Principal) Charge(more int) {
	if p != nil && p.bucket != nil && more > 0 {
		p.bucket.charge(more)
	}
}

// matches reports whether a name is one of the patterns, of which a star at the end stands
// for everything. Without patterns every name is.
func matches(patterns []string, name string) bool {
	for _, p := range patterns {
		if begin, star := strings.CutSuffix(p, "*"); star && strings.HasPrefix(name, begin) || p == name {
			return true
		}
	}
	return len(patterns) == 0
}

// bucket holds what a principal may still do: a second's worth at most, and less than
// nothing after a request that held much.
// It belongs to the name and not to the Principal: when the access file is read again, the
// new Principal of that name takes it over, or each reading would fill it.
type bucket struct {
	mu   sync.Mutex
	rate float64 // a second
	// left is in requests. A request counts as many as the events and check requests in it, and at
	// least as one. Below 1, requests are rejected.
	left float64
	// at is when left was last brought up to date; zero before the first request, so that
	// it is the caller's clock, and no other, by which the bucket fills.
	at time.Time
}

// newBucket returns a full one. It holds at least one request, since of a rate such as 0.1
// a second's worth would never be enough to let anybody in.
func newBucket(rate float64) *bucket { return &bucket{rate: rate, left: max(1, rate)} }

// take fills the bucket by the time that has passed and takes one request out of it. A clock that was
// set back fills nothing and takes nothing away. The wait does not count other waiting clients. So of
// many that come back at once, most have to wait again.
func (b *bucket) take(now time.Time) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.at.IsZero() {
		b.left = min(max(1, b.rate), b.left+max(0, now.Sub(b.at).Seconds())*b.rate)
	}
	b.at = now
	if b.left < 1 {
		return time.Duration((1 - b.left) / b.rate * float64(time.Second))
	}
	b.left--
	return 0
}

// charge takes n more, without a floor: a body of a million events closes the door for as
// long as a million events take at this rate.
func (b *bucket) charge(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left -= float64(n)
}

// change takes another rate and keeps what was used up.
func (b *bucket) change(rate float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rate = rate
}
