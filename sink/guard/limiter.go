package guard

import (
	"hash/maphash"
	"sync"
	"time"

	"weir/events"
)

// Bounds are the limits that the local limiter multiplies; 0 means none. A guard
// learns them from weir.
type Bounds struct {
	Calls     int64         // of agents, in all (max_total_calls)
	ToolCalls int64         // in all (max_tool_calls)
	Rate      int64         // calls of agents in a window (call_rate_per_flow)
	Window    time.Duration // of Rate; 0 is a minute
}

// leeway is how many times over its limits a flow may go while weir is away.
// See decision 36.
const leeway = 3

// defaultBounds are those of weir's default limits.
// Tool calls have no limit by default.
func defaultBounds() Bounds { return Bounds{Calls: 100, Rate: 60, Window: time.Minute} }

// limiter counts calls per flow while the orders are out of date. It forgets the flows
// that were not used for longest when there are too many.
// It is in 64 parts with a lock each, so that flows seldom wait for one another.
type limiter struct {
	most  int // flows per generation of a part
	seed  maphash.Seed
	parts [64]limiterPart
}

// limiterPart is the flows whose keys hash to one place.
type limiterPart struct {
	mu sync.Mutex
	// Two generations: when now is full it becomes old, and what is used moves on. So
	// forgetting costs no lists and no clock.
	now, old map[string]*spent
}

// spent is what a flow has used up since the orders went out of date.
type spent struct {
	calls, tools int64
	begun        time.Time // of the window
	inWindow     int64     // calls in it
	// For a window that slides, see count.
	before int64 // calls in the window before it
}

// newLimiter returns a limiter that remembers about this number of flows.
func newLimiter(flows int) *limiter {
	l := &limiter{seed: maphash.MakeSeed()}
	// Two generations in each part make up the whole.
	l.most = max(1, flows/2/len(l.parts))
	return l
}

// reset forgets everything, because the orders are up to date again.
func (l *limiter) reset() {
	for i := range l.parts {
		p := &l.parts[i]
		p.mu.Lock()
		p.now, p.old = nil, nil
		p.mu.Unlock()
	}
}

// refusal is what a flow that is over its bounds gets.
type refusal struct {
	reason          events.Reason
	limit, observed int64
	retryAfter      time.Duration
}

// count counts the call, or says why it is refused. A refused call counts nothing.
// Calls of tools and of agents are counted apart, as weir's limits are.
func (l *limiter) count(c *Call, b Bounds, now time.Time) (r refusal, over bool) {
	flow := c.flowKey()
	p := &l.parts[maphash.String(l.seed, flow)%uint64(len(l.parts))]
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.of(flow, l.most)
	// Tools have no rate among the limits that a guard learns.
	if c.kind() == events.ToolCall {
		if most := b.ToolCalls * leeway; most > 0 && s.tools >= most {
			return refusal{events.MaxToolCalls, most, s.tools + 1, 0}, true
		}
		s.tools++
		return r, false
	}
	if most := b.Calls * leeway; most > 0 && s.calls >= most {
		return refusal{events.MaxTotalCalls, most, s.calls + 1, 0}, true
	}
	window := b.Window
	if window <= 0 {
		window = time.Minute
	}
	s.turn(now, window)
	// The window slides: of the one before counts the share that is still in it.
	share := 1 - float64(now.Sub(s.begun))/float64(window)
	seen := s.inWindow + int64(float64(s.before)*share)
	if most := b.Rate * leeway; most > 0 && seen >= most {
		// In whole seconds, rounded up. Waiting that long brings the next window.
		wait := (window - now.Sub(s.begun) + time.Second - 1).Truncate(time.Second)
		return refusal{events.CallRate, most, seen + 1, wait}, true
	}
	s.calls++
	s.inWindow++
	return r, false
}

// turn moves the window on. A clock that was set back begins a new one.
func (s *spent) turn(now time.Time, window time.Duration) {
	switch age := now.Sub(s.begun); {
	case age < 0 || age >= 2*window:
		s.begun, s.inWindow, s.before = now, 0, 0
	// It goes on from its end, not from now, so that the windows of a flow join.
	case age >= window:
		s.begun, s.before, s.inWindow = s.begun.Add(window), s.inWindow, 0
	}
}

// of returns what a flow has used up. The caller holds the lock.
func (p *limiterPart) of(flow string, most int) *spent {
	if s := p.now[flow]; s != nil {
		return s
	}
	s := p.old[flow]
	if s == nil {
		s = &spent{}
	}
	if p.now == nil || len(p.now) >= most {
		p.old, p.now = p.now, make(map[string]*spent)
	}
	p.now[flow] = s
	return s
}
