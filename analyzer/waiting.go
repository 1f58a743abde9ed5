package analyzer

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"

	"weir/analyzer/prices"
	"weir/analyzer/record"
	"weir/analyzer/rules"
	"weir/analyzer/standing"
	"weir/events"
)

// What waiting costs: a flow that is held for longer than the provider's prompt cache lives pays for its
// context again. It is kept only where a rule of the limits may hold a flow.

// cache is what the provider's cache keeps of a party, and whether the flow was held since.
type cache struct {
	prices.Cache
	held bool
}

// encode writes the cache.
func (c *cache) encode(b []byte) []byte {
	b = append(b, record.Bit(c.held, 0))
	b = le.AppendUint64(b, uint64(c.Until))
	b = binary.AppendUvarint(b, uint64(c.Tokens))
	return binary.AppendUvarint(b, uint64(c.Dearer))
}

// decode reads what encode has written.
func (c *cache) decode(d *record.Reader) {
	h := d.Take(9)
	c.held, c.Until = h[0] != 0, events.Stamp(le.Uint64(h[1:]))
	c.Tokens, c.Dearer = d.Count(math.MaxUint32), d.Count(math.MaxUint32)
}

// holdsFlows reports whether a rule of the limits may hold a flow.
func holdsFlows(l *Limits) bool {
	return slices.ContainsFunc(l.Rules[:], func(s rules.Setting) bool { return s.Hold }) ||
		slices.ContainsFunc(l.Overrides, func(o Override) bool { return o.Setting.Hold }) ||
		slices.ContainsFunc(l.Subagents, func(k KindLimits) bool { return k.Hold })
}

// rewrote is what a model call paid because its flow was held for longer than the cache lives.
type rewrote struct{ tokens, cost int64 }

// noteCache keeps what the cache has of the party whose model was called, and notes what the call had to
// write again after a hold.
func (e *settings) noteCache(f *Flow, m *moment) {
	if m.ev.Kind != events.LLMCall || m.ev.Usage.Scope != events.UsageDelta || m.from == none {
		return
	}
	c := &f.parties[m.from].cache
	if c.held {
		m.rewrote.tokens, m.rewrote.cost = c.Rewritten(e.limits.Prices, m.ev, m.when)
	}
	*c = cache{Cache: e.limits.Prices.CacheAfter(m.ev, m.at), held: f.held(m.at)}
}

// wait notes for all parties that the flow is held from now on.
func (f *cast) wait(at events.Stamp) {
	for i := range f.parties {
		if c := &f.parties[i].cache; c.Tokens > 0 && c.Until > at {
			c.held = true
		}
	}
}

// waiting is what it costs to wait until the order is decided; nil where no cache is known that forgets
// before that.
func (f *cast) waiting(o *order) *events.Waiting {
	if o.Action != events.Hold || o.Phase != standing.Stop || o.Shadow {
		return nil
	}
	var w events.Waiting
	micro := int64(0)
	for i := range f.parties {
		c := &f.parties[i].cache
		if c.Tokens == 0 || c.Until <= o.Begun || c.Until >= o.Due {
			continue
		}
		w.Tokens, micro = w.Tokens+c.Tokens, micro+c.Dearer
		if w.After.IsZero() || c.Until < events.Stamp(w.After) {
			w.After = events.RFC3339(c.Until)
		}
	}
	if w.Tokens == 0 {
		return nil
	}
	w.CostUSD = float64(micro) / 1e6
	return &w
}

// waitingText says to people what waiting costs.
func waitingText(w *events.Waiting) string {
	at := events.Stamp(w.After).Time().Format("15:04:05")
	if w.CostUSD == 0 {
		return fmt.Sprintf(". After %s UTC the next call writes %s cached tokens again.", at, grouped(w.Tokens))
	}
	return fmt.Sprintf(". After %s UTC the next call costs about $%.2f more, because %s cached tokens are written again.", at, w.CostUSD, grouped(w.Tokens))
}

// grouped writes a number that is not negative with a comma before each three digits.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
