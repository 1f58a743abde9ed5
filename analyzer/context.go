package analyzer

import (
	"encoding/binary"
	"math"
	"slices"

	"weir/analyzer/prices"
	"weir/analyzer/record"
	"weir/analyzer/rules"
	"weir/events"
)

// firstCalls is the number of model calls of a party by whose median later ones are compared.
const firstCalls = 5

// course is how the context of a party grows from one model call to the next. It is kept only where a
// rule about it is on.
//
// Prices are in millionths of a US dollar where the model has a price, else in tokens.
type course struct {
	calls  uint8 // model calls, at most firstCalls
	cached uint8 // share of the last context that the cache gave, in percent
	slope  int32 // tokens by which the context grows with each call, a running mean
	next   uint32
	first  [firstCalls]uint32 // what the call after each of the first ones would have cost
	priced bool               // prices are money
}

// note enters a model call whose context was so long before.
func (c *course) note(t prices.Table, ev *events.Event, before uint32) {
	n := prices.Parts(ev)
	now := n.Context()
	c.cached = 0
	if now > 0 {
		c.cached = uint8(n.CacheRead * 100 / now)
	}
	switch grown := now - int64(before); {
	case c.calls == 0, grown < 0: // it was compacted: what comes is seen from here
		c.slope = 0
	default:
		c.slope += int32(max(math.MinInt32, min(math.MaxInt32, (grown-int64(c.slope))/4)))
	}
	var price int64
	price, c.priced = nextPrice(t, ev, n)
	c.next = uint32(min(max(price, 0), math.MaxUint32))
	if c.calls < firstCalls {
		c.first[c.calls] = c.next
		c.calls++
	}
}

// nextPrice is what the next model call would cost: it reads what the last one read, and its answer,
// and answers as much. What was read from the cache or written to it comes from the cache.
func nextPrice(t prices.Table, ev *events.Event, n prices.Tokens) (int64, bool) {
	n.CacheRead, n.CacheWrite, n.CacheHour = n.CacheRead+n.CacheWrite+n.CacheHour, 0, 0
	n.Input += n.Output + n.Reasoning
	if p, ok := t.Find(ev.Provider, ev.Model); ok {
		return p.Of(n), true
	}
	return n.Input + n.Output + n.CacheRead + n.Reasoning, false
}

// encode writes the course.
func (c *course) encode(b []byte) []byte {
	b = append(b, c.calls, c.cached, record.Bit(c.priced, 0))
	b = binary.AppendVarint(b, int64(c.slope))
	b = binary.AppendUvarint(b, uint64(c.next))
	for _, n := range c.first[:c.calls] {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

// decode reads what encode has written.
func (c *course) decode(d *record.Reader) {
	h := d.Take(3)
	c.calls, c.cached, c.priced = h[0], h[1], h[2] != 0
	if c.calls > firstCalls {
		d.Fail()
		c.calls = 0
	}
	c.slope = int32(d.Varint())
	c.next = uint32(d.Count(math.MaxUint32))
	for i := range c.first[:c.calls] {
		c.first[i] = uint32(d.Count(math.MaxUint32))
	}
}

// times is how often the next call costs the median of the first ones, cut to a whole number; 0 while
// there are too few.
func (c *course) times() int64 {
	if c.calls < firstCalls {
		return 0
	}
	sorted := c.first
	slices.Sort(sorted[:])
	return int64(c.next) / int64(max(1, sorted[firstCalls/2]))
}

// keepsContext reports whether a rule measures the contexts of parties.
func (e *settings) keepsContext() bool {
	return e.mayFire(ruleOfContext) || e.mayFire(ruleOfSpawns) || e.mayFire(ruleOfGrowth)
}

// noteContext keeps the context of the party whose model was called.
func (e *settings) noteContext(f *Flow, m *moment) {
	if m.ev.Kind != events.LLMCall || m.ev.Usage.Scope != events.UsageDelta || m.from == none {
		return
	}
	p := &f.parties[m.from]
	p.course.note(e.limits.Prices, m.ev, p.context)
	p.context = uint32(min(prices.Context(m.ev), math.MaxUint32))
}

// contextTokens is the context of the party whose model was called.
func contextTokens(f *Flow, m *moment, _ *rules.Setting) int64 {
	if m.from == none {
		return 0
	}
	return int64(f.parties[m.from].context)
}

// contextGrowth is how often the next call of the party costs what its first calls cost.
func contextGrowth(f *Flow, m *moment, _ *rules.Setting) int64 {
	if m.from == none {
		return 0
	}
	return f.parties[m.from].course.times()
}

// ContextView is the context of a party after its last model call.
type ContextView struct {
	Tokens int64 `json:"tokens"`
	// Slope is by how many tokens it grows with each call.
	Slope  int64   `json:"slope_tokens"`
	Cached float64 `json:"cached_share"` // of it, by the cache
	// Next is what the next call would cost in US dollars; nil without a price for the model.
	Next *float64 `json:"next_call_usd,omitempty"`
	// Times is how often that is the median of the first calls; 0 while there are too few.
	Times int64 `json:"times_first_calls,omitempty"`
}

// contextView returns the context of the party; nil where none is kept.
func (p *party) contextView() *ContextView {
	if p.context == 0 {
		return nil
	}
	c := &p.course
	v := &ContextView{Tokens: int64(p.context), Slope: int64(c.slope), Cached: float64(c.cached) / 100, Times: c.times()}
	if c.priced {
		usd := float64(c.next) / 1e6
		v.Next = &usd
	}
	return v
}
