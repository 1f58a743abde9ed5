package guard

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"weir/events"
)

// Table holds standing orders. Readers never wait: what they see is replaced whole,
// one small part at a time. The zero Table is empty and ready for use.
type Table struct {
	seed  atomic.Pointer[maphash.Seed]
	parts [1024]part // by flow
	wide  part       // orders that bind more than one flow, by the id of their scope
	held  atomic.Int64
}

// part is a piece of the table that is replaced whole.
type part struct {
	mu     sync.Mutex // of writers
	orders atomic.Pointer[map[string][]*events.Verdict]
}

// Len returns how many orders the table holds, those that have expired included.
func (t *Table) Len() int { return int(t.held.Load()) }

// Take keeps what a verdict orders, replaces an earlier one for the same scope and
// reason, or forgets what it clears. The table keeps v, which nobody may change from
// then on. It reports whether the table has changed.
func (t *Table) Take(v *events.Verdict) bool {
	clears := v.Action == actionAllow
	if !clears && (!stops(v) || v.Mode != modeEnforce) {
		return false
	}
	p, key := t.place(v)
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.load()[key]
	at := slices.IndexFunc(list, func(o *events.Verdict) bool { return o.Scope == v.Scope && o.Reason == v.Reason })
	switch {
	case at < 0 && clears, at >= 0 && list[at].Revision > v.Revision:
		return false
	case at < 0:
		list = append(slices.Clip(list), v)
		t.held.Add(1)
	case clears:
		list = slices.Delete(slices.Clone(list), at, at+1)
		t.held.Add(-1)
	default:
		list = slices.Clone(list)
		list[at] = v
	}
	p.put(key, list)
	return true
}

// Sweep forgets the orders that have expired.
func (t *Table) Sweep(now events.Stamp) {
	for i := range t.parts {
		t.parts[i].sweep(t, now)
	}
	t.wide.sweep(t, now)
}

// Refusing returns the order that refuses the call at a time, the first that was given
// when there are many; nil when the call may be made. It must not be changed.
func (t *Table) Refusing(c *Call, now events.Stamp) *events.Verdict {
	at := moment{at: now}
	return t.refusing(c, &at)
}

// refusing is Refusing with a time that is looked at only when it matters.
func (t *Table) refusing(c *Call, now *moment) *events.Verdict {
	if c.byPerson() {
		return nil
	}
	var best *events.Verdict
	flow := c.flowKey()
	if orders := t.part(flow).orders.Load(); orders != nil {
		best = first(best, (*orders)[flow], c, now)
	}
	if orders := t.wide.orders.Load(); orders != nil && len(*orders) > 0 {
		best = first(best, (*orders)[""], c, now)
		for _, id := range [...]string{c.From, c.FromAgent, c.To, c.ToAgent, c.Task, c.Project, c.Tenant, c.Tool} {
			if id != "" {
				best = first(best, (*orders)[id], c, now)
			}
		}
	}
	return best
}

// first returns the order of the list that refuses the call, if it was given before
// best. It takes what it needs one by one, so that the call need not be on the heap.
func first(best *events.Verdict, list []*events.Verdict, c *Call, now *moment) *events.Verdict {
	for _, v := range list {
		if !Matches(v, c) || v.ExpiresAt != 0 && events.Stamp(v.ExpiresAt) <= now.stamp() {
			continue
		}
		if best == nil || v.Revision < best.Revision || v.Revision == best.Revision && v.ID < best.ID {
			best = v
		}
	}
	return best
}

// moment is the time of a decision. To ask for it takes longer than all the rest, so
// that is done once at most.
type moment struct {
	guard *Guard
	at    events.Stamp
}

func (m *moment) stamp() events.Stamp {
	if m.at == 0 {
		m.at = m.guard.about()
	}
	return m.at
}

// place is where an order is kept, and under which key.
func (t *Table) place(v *events.Verdict) (*part, string) {
	switch {
	case v.CorrelationID != "":
		return t.part(v.CorrelationID), v.CorrelationID
	case v.Scope.Kind == scopeFlow:
		return t.part(v.Scope.ID), v.Scope.ID
	case v.Scope.Kind == scopePair:
		return &t.wide, "" // of two names, by which no call is looked up
	}
	return &t.wide, v.Scope.ID
}

func (t *Table) part(flow string) *part {
	seed := t.seed.Load()
	if seed == nil {
		s := maphash.MakeSeed()
		t.seed.CompareAndSwap(nil, &s)
		seed = t.seed.Load()
	}
	return &t.parts[maphash.String(*seed, flow)%uint64(len(t.parts))]
}

func (p *part) load() map[string][]*events.Verdict {
	if m := p.orders.Load(); m != nil {
		return *m
	}
	return nil
}

// put replaces the part by one with another list. The caller holds the lock.
func (p *part) put(key string, list []*events.Verdict) {
	m := maps.Clone(p.load())
	if m == nil {
		m = make(map[string][]*events.Verdict)
	}
	if len(list) == 0 {
		delete(m, key)
	} else {
		m[key] = list
	}
	p.orders.Store(&m)
}

func (p *part) sweep(t *Table, now events.Stamp) {
	p.mu.Lock()
	defer p.mu.Unlock()
	gone := func(v *events.Verdict) bool { return v.ExpiresAt != 0 && events.Stamp(v.ExpiresAt) <= now }
	m, changed := p.load(), false
	for key, list := range m {
		if !slices.ContainsFunc(list, gone) {
			continue
		}
		if !changed {
			m, changed = maps.Clone(m), true
		}
		rest := slices.DeleteFunc(slices.Clone(list), gone)
		t.held.Add(int64(len(rest) - len(list)))
		if m[key] = rest; len(rest) == 0 {
			delete(m, key)
		}
	}
	if changed {
		p.orders.Store(&m)
	}
}

const modeEnforce = "enforce"

// stops reports whether the verdict orders to refuse calls.
func stops(v *events.Verdict) bool {
	return v.Action == actionThrottle || v.Action == actionDeny || v.Action == actionHalt
}
