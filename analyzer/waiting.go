package analyzer

import (
	"encoding/binary"
	"math"
	"slices"

	"weir/analyzer/budgets"
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

// holdsFlows reports whether a rule of the limits, of a tree, or a budget may hold a flow.
func holdsFlows(l *Limits) bool {
	hold := func(s rules.Setting) bool { return s.Hold }
	return slices.ContainsFunc(l.Rules[:], hold) || slices.ContainsFunc(l.Agents.Rules[:], hold) ||
		slices.ContainsFunc(l.Budgets, func(b budgets.Budget) bool { return b.Action == events.Hold }) ||
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
func (o *order) waiting(f *Flow) *events.Waiting {
	if o.Action != events.Hold || o.Phase != standing.Stop || o.Shadow {
		return nil
	}
	return forgets(f.parties, o.Begun, o.Due)
}

// forgets is what it costs to wait from one time to another; nil where no cache is known that forgets in
// between.
func forgets(parties []party, from, to events.Stamp) *events.Waiting {
	var w events.Waiting
	micro := int64(0)
	for i := range parties {
		c := &parties[i].cache
		if c.Tokens == 0 || c.Until <= from || c.Until >= to {
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

// addWaiting adds to the answer of a flow what it would cost to wait, for a tree or a budget that has the
// last word and may hold the call: only the flow knows its caches (see agents.LastWord).
func (e *settings) addWaiting(f *Flow, m *moment, answer *events.Verdict) {
	if e.holds && answer.Action != events.Hold {
		answer.Waiting = f.Waits(m.at)
	}
}

// Waits is what it costs the flow to wait from a time on, until its caches have forgotten its contexts; nil
// where no cache is known.
func (f *cast) Waits(from events.Stamp) *events.Waiting {
	return forgets(f.parties, from, math.MaxInt64)
}
