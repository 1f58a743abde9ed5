package access

import (
	"strings"
	"sync"
	"time"
)

// Principal is somebody who is known. Its methods may be called by any goroutine, and on
// nil, which is whoever needs no name: it is bound to nothing.
type Principal struct {
	Name string
	// Named tells that the name is one of the access file: what this principal orders is in
	// its name. A token that many share says nothing of who has it.
	Named bool

	roles   Roles
	sources []string // patterns; none: all
	flows   []string
	bucket  *bucket // nil: no bound
}

// May reports whether it has one of the roles.
func (p *Principal) May(one Roles) bool { return p == nil || p.roles&one != 0 }

// Bound reports whether it may see and order about some flows alone.
func (p *Principal) Bound() bool { return p != nil && len(p.flows) > 0 }

// BoundToSources reports whether it may send events of some sources alone.
func (p *Principal) BoundToSources() bool { return p != nil && len(p.sources) > 0 }

// Flow reports whether the flow is one of its own.
func (p *Principal) Flow(id string) bool { return p == nil || matches(p.flows, id) }

// Source reports whether it may send events of the source.
func (p *Principal) Source(name string) bool { return p == nil || matches(p.sources, name) }

// Take charges one request. When the principal has used up what it may do, wait is how
// long that takes to be otherwise, and nothing is charged.
func (p *Principal) Take(now time.Time) (wait time.Duration) {
	if p == nil || p.bucket == nil {
		return 0
	}
	return p.bucket.take(now)
}

// Charge charges what a request turned out to hold beside itself. It is not refused for
// it: who comes next waits the longer.
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
type bucket struct {
	mu   sync.Mutex
	rate float64 // a second
	left float64
	at   time.Time
}

func newBucket(rate float64) *bucket { return &bucket{rate: rate, left: max(1, rate)} }

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
