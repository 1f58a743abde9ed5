package guard

import (
	"slices"
	"sync"
	"sync/atomic"

	"weir/events"
	"weir/events/byhand"
)

// handTable holds the orders that persons gave about scopes. They are few, so a call is held against
// each of them. Without any, a check costs one atomic load. The zero handTable is empty.
type handTable struct {
	mu sync.Mutex // of writers
	// A list that is stored is never changed again.
	orders atomic.Pointer[[]*events.Verdict]
}

// load returns the orders, which must not be changed.
func (t *handTable) load() []*events.Verdict {
	if list := t.orders.Load(); list != nil {
		return *list
	}
	return nil
}

// put stores a list. The caller holds the lock.
func (t *handTable) put(list []*events.Verdict) {
	if len(list) == 0 {
		t.orders.Store(nil)
		return
	}
	t.orders.Store(&list)
}

// keep takes an order in place of an earlier revision of it, or forgets the one that v clears. It
// returns by how many orders the table has grown, and whether it has changed.
func (t *handTable) keep(v *events.Verdict) (more int, changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.load()
	at := slices.IndexFunc(list, func(o *events.Verdict) bool { return sameOrder(o, v) })
	clears := v.Action == events.Allow
	switch {
	case at < 0 && clears, at >= 0 && list[at].Revision > v.Revision:
		return 0, false
	case at < 0:
		t.put(append(slices.Clip(list), v))
		return 1, true
	case clears:
		t.put(slices.Delete(slices.Clone(list), at, at+1))
		return -1, true
	}
	list = slices.Clone(list)
	list[at] = v
	t.put(list)
	return 0, true
}

// holds reports whether the table has the order of the verdict, in whatever revision.
func (t *handTable) holds(v *events.Verdict) bool {
	return slices.ContainsFunc(t.load(), func(o *events.Verdict) bool { return sameOrder(o, v) })
}

// sweep forgets what has expired and returns by how many orders the table has grown.
func (t *handTable) sweep(now events.Stamp) (more int) {
	gone := func(v *events.Verdict) bool { return v.ExpiresAt != 0 && events.Stamp(v.ExpiresAt) <= now }
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.load()
	if !slices.ContainsFunc(list, gone) {
		return 0
	}
	rest := slices.DeleteFunc(slices.Clone(list), gone)
	t.put(rest)
	return len(rest) - len(list)
}

// refusing returns the order that refuses the call at a time, the first that was given; nil for none.
func (t *handTable) refusing(c *Call, now *moment) (best *events.Verdict) {
	for _, v := range t.load() {
		if !StopsByHand(v, c) || v.ExpiresAt != 0 && events.Stamp(v.ExpiresAt) <= now.stamp() {
			continue
		}
		if best == nil || v.Revision < best.Revision || v.Revision == best.Revision && v.ID < best.ID {
			best = v
		}
	}
	return best
}

// ByHand returns the order of a person about a scope that refuses the call at a time; nil for none.
// It must not be changed. Unlike other orders it binds a person's call as well.
func (t *Table) ByHand(c *Call, now events.Stamp) *events.Verdict {
	at := moment{at: now}
	return t.hand.refusing(c, &at)
}

// AnyByHand reports whether the table holds an order of a person about a scope.
func (t *Table) AnyByHand() bool { return t.hand.orders.Load() != nil }

// HeldByHand returns the orders of persons about scopes that the table holds. They must not be changed.
func (t *Table) HeldByHand() []*events.Verdict { return t.hand.load() }

// StopsByHand reports whether an order of a person about a scope binds the call, however long it lasts.
func StopsByHand(v *events.Verdict, c *Call) bool {
	h := v.ByHand
	if h == nil || !v.Stops() || !fits(v.Scope, c) {
		return false
	}
	for _, s := range h.Within {
		if !fits(s, c) {
			return false
		}
	}
	return !excepted(h.Except, c)
}

// excepted reports whether the call is one of the exceptions of an order. An exception of agents
// holds for a call of which each party is excepted: a stopped agent does not work because an
// excepted one calls it.
func excepted(except []events.Scope, c *Call) bool {
	for _, s := range except {
		if s.Kind != events.ScopeAgent && fits(s, c) {
			return true
		}
	}
	from, to := c.From != "" || c.FromAgent != "", c.Tool == "" && (c.To != "" || c.ToAgent != "")
	return (from || to) && (!from || exceptedParty(except, c.From, c.FromAgent)) && (!to || exceptedParty(except, c.To, c.ToAgent))
}

func exceptedParty(except []events.Scope, id, agent string) bool {
	return slices.ContainsFunc(except, func(s events.Scope) bool {
		return s.Kind == events.ScopeAgent && (byhand.Glob(s.ID, id) || byhand.Glob(s.ID, agent))
	})
}

// fits reports whether the call is of a scope, whose id is a pattern. A call that does not name what
// the scope is about fits no pattern.
func fits(s events.Scope, c *Call) bool {
	switch s.Kind {
	case events.ScopeAll:
		return true
	case events.ScopeTenant:
		return byhand.Glob(s.ID, c.Tenant)
	case events.ScopeTeam:
		return byhand.Glob(s.ID, c.Team)
	case events.ScopeProject:
		return byhand.Glob(s.ID, c.Project)
	case events.ScopePrincipal:
		return byhand.Glob(s.ID, c.Principal)
	case events.ScopeService:
		return byhand.Glob(s.ID, c.Service)
	case events.ScopeAgent:
		return byhand.Glob(s.ID, c.From) || byhand.Glob(s.ID, c.FromAgent) || byhand.Glob(s.ID, c.To) || byhand.Glob(s.ID, c.ToAgent)
	case events.ScopeTool:
		return byhand.Glob(s.ID, c.Tool)
	case events.ScopeModel:
		return byhand.Glob(s.ID, c.Model)
	case events.ScopeTree:
		return byhand.Glob(s.ID, c.Root) || byhand.Glob(s.ID, c.flowKey())
	case events.ScopeFlow:
		return byhand.Glob(s.ID, c.flowKey())
	}
	return false
}

// understood reports whether the guard can hold a call against an order of a person. Where it cannot,
// as with a scope of a later version, it does not know what is stopped.
func understood(v *events.Verdict) bool {
	h := v.ByHand
	return h == nil || byhand.Known(v.Scope.Kind) && !slices.ContainsFunc(slices.Concat(h.Within, h.Except), func(s events.Scope) bool { return !byhand.Known(s.Kind) })
}
