package guard

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"weir/events"
)

// Table holds standing orders. Readers never wait: what they see is replaced whole,
// one small part at a time. The zero Table is empty and ready for use.
// Writers copy what they change, so Take costs as much as a part holds. Weir uses it, too, in
// front of its fold (see decision 44).
type Table struct {
	// The same keys of two tables fall into different parts, so a caller cannot choose flows
	// that all fall into one part.
	seed  atomic.Pointer[maphash.Seed]
	parts [1024]part // by flow
	wide  [256]part  // orders that bind more than one flow, by the id of their scope
	held  atomic.Int64
	// Most calls see from it that nothing but their flow has to be looked up.
	wides atomic.Int64 // of those that are held, in wide
	hand  handTable    // orders of persons about scopes
}

// part is a piece of the table that is replaced whole.
type part struct {
	// A map that is stored is never changed again, nor are its lists.
	mu     sync.Mutex // of writers
	orders atomic.Pointer[map[string][]*events.Verdict]
}

// Len returns how many orders the table holds, those that have expired included.
func (t *Table) Len() int { return int(t.held.Load()) }

// Take keeps what a verdict orders, in place of an earlier revision of the same order,
// or forgets what it clears. The table keeps v, which must not be changed from then on. It
// reports whether the table has changed.
func (t *Table) Take(v *events.Verdict) bool {
	// Warnings and verdicts in shadow mode order nothing.
	if v.Action != events.Allow && !v.Stops() {
		return false
	}
	return t.Keep(v)
}

// Keep is Take of warnings, too, which refuse nothing and are there for Standing.
func (t *Table) Keep(v *events.Verdict) bool {
	clears := v.Action == events.Allow
	if !clears && (!v.Stops() && v.Action != events.Warn || v.Mode != events.ModeEnforce) {
		return false
	}
	if v.ByHand != nil {
		more, changed := t.hand.keep(v)
		t.held.Add(int64(more))
		return changed
	}
	p, key, wide := t.place(v)
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.load()[key]
	at := slices.IndexFunc(list, func(o *events.Verdict) bool { return sameOrder(o, v) })
	switch {
	// An older revision comes late, or again.
	case at < 0 && clears, at >= 0 && list[at].Revision > v.Revision:
		return false
	case at < 0:
		// Clip makes append copy: readers may hold the old list.
		list = append(slices.Clip(list), v)
		t.count(1, wide)
	case clears:
		list = slices.Delete(slices.Clone(list), at, at+1)
		t.count(-1, wide)
	default:
		list = slices.Clone(list)
		list[at] = v
	}
	p.put(key, list)
	return true
}

// holds reports whether the table has the order of the verdict, in whatever revision.
func (t *Table) holds(v *events.Verdict) bool {
	if v.ByHand != nil {
		return t.hand.holds(v)
	}
	p, key, _ := t.place(v)
	return slices.ContainsFunc(p.load()[key], func(o *events.Verdict) bool { return sameOrder(o, v) })
}

// sameOrder reports whether two verdicts are about one order. They are if the first part of
// their ids is equal. One scope and reason may have many orders, as about the conversations
// of a flow, and one order may continue for another reason. If an id has another form, scope
// and reason decide.
func sameOrder(a, b *events.Verdict) bool {
	one, other := orderID(a.ID), orderID(b.ID)
	if one != "" && other != "" {
		return one == other
	}
	return a.Scope == b.Scope && a.Reason == b.Reason
}

// orderDigits is how long the first part of an id is.
const orderDigits = 16

// orderID is the part of a verdict's id, order-revision, that its order keeps; "" when
// the id has another form.
func orderID(id string) string {
	if len(id) <= orderDigits || id[orderDigits] != '-' {
		return ""
	}
	for _, c := range []byte(id[:orderDigits]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
	}
	return id[:orderDigits]
}

// Sweep forgets the orders that have expired.
// Expired orders refuse nothing in any case; Sweep gives back their room.
func (t *Table) Sweep(now events.Stamp) {
	for i := range t.parts {
		t.count(t.parts[i].sweep(now), false)
	}
	for i := range t.wide {
		t.count(t.wide[i].sweep(now), true)
	}
	t.held.Add(int64(t.hand.sweep(now)))
}

// count adds to the number of orders held.
func (t *Table) count(more int, wide bool) {
	t.held.Add(int64(more))
	if wide {
		t.wides.Add(int64(more))
	}
}

// Refusing returns the order that refuses the call at a time, the first that was given
// when there are many; nil when the call may be made. It must not be changed.
func (t *Table) Refusing(c *Call, now events.Stamp) *events.Verdict {
	at := moment{at: now}
	return t.refusing(c, &at)
}

// refusing is Refusing with a time that is looked at only when it matters.
func (t *Table) refusing(c *Call, now *moment) *events.Verdict {
	if v := t.hand.refusing(c, now); v != nil {
		return v
	}
	if c.byPerson() {
		return nil
	}
	var best *events.Verdict
	flow := c.flowKey()
	// An order about the flow is found by it; all others by one of the names that they bind.
	best = first(best, t.part(flow).load()[flow], c, now)
	if t.wides.Load() > 0 {
		// Orders about pairs lie under "", see place.
		best = first(best, t.widePart("").load()[""], c, now)
		for _, id := range [...]string{c.From, c.FromAgent, c.To, c.ToAgent, c.Task, c.Project, c.Tenant, c.Tool, c.Root, flow} {
			if id != "" {
				best = first(best, t.widePart(id).load()[id], c, now)
			}
		}
	}
	return best
}

// Standing returns the orders, and the warnings that were kept, that stand at a time about a
// flow, or about one of the trees of flows, the first that was given first. None of them may be
// changed.
func (t *Table) Standing(flow string, trees []string, now events.Stamp) (out []*events.Verdict) {
	stands := func(v *events.Verdict) bool { return v.ExpiresAt == 0 || events.Stamp(v.ExpiresAt) > now }
	for _, v := range t.part(flow).load()[flow] {
		if stands(v) {
			out = append(out, v)
		}
	}
	for _, tree := range trees {
		for _, v := range t.widePart(tree).load()[tree] {
			if v.Scope.Kind == events.ScopeTree && stands(v) {
				out = append(out, v)
			}
		}
	}
	slices.SortFunc(out, func(a, b *events.Verdict) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// first returns the order of the list that refuses the call, if it was given before
// best. It evaluates lazily, so that the call need not be on the heap.
// The first order given is the one that was reported to people. Of equal revisions the id
// decides, so that all guards return the same.
func first(best *events.Verdict, list []*events.Verdict, c *Call, now *moment) *events.Verdict {
	for _, v := range list {
		if !v.Stops() || !Matches(v, c) || v.ExpiresAt != 0 && events.Stamp(v.ExpiresAt) <= now.stamp() {
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
// It is for one decision of one goroutine. at is 0 until it was asked for.
type moment struct {
	guard *Guard
	at    events.Stamp
}

// stamp is the time of the decision by weir's clock, as near as that is known.
func (m *moment) stamp() events.Stamp {
	if m.at == 0 {
		m.at = m.guard.about()
	}
	return m.at
}

// place is where an order is kept, under which key, and whether that is beyond one flow.
// refusing has to look under the same keys.
func (t *Table) place(v *events.Verdict) (p *part, key string, wide bool) {
	switch {
	case v.CorrelationID != "":
		return t.part(v.CorrelationID), v.CorrelationID, false
	case v.Scope.Kind == events.ScopeFlow:
		return t.part(v.Scope.ID), v.Scope.ID, false
	case v.Scope.Kind == events.ScopePair:
		return t.widePart(""), "", true // of two names, by which no call is looked up
	}
	return t.widePart(v.Scope.ID), v.Scope.ID, true
}

// part holds the orders about one flow, widePart those beyond one; each has a lock of its own.
func (t *Table) part(flow string) *part { return &t.parts[t.hash(flow)%uint64(len(t.parts))] }

func (t *Table) widePart(id string) *part { return &t.wide[t.hash(id)%uint64(len(t.wide))] }

// hash is that of a key in this table. The first caller makes the seed, so that the
// zero Table is ready.
func (t *Table) hash(key string) uint64 {
	seed := t.seed.Load()
	if seed == nil {
		s := maphash.MakeSeed()
		t.seed.CompareAndSwap(nil, &s)
		seed = t.seed.Load()
	}
	return maphash.String(*seed, key)
}

// load returns the orders of the part. It may be nil, and must not be changed.
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

// sweep forgets what has expired and returns by how many orders it has grown.
// The map is only copied if something has expired.
func (p *part) sweep(now events.Stamp) (more int) {
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
		more += len(rest) - len(list)
		if m[key] = rest; len(rest) == 0 {
			delete(m, key)
		}
	}
	if changed {
		p.orders.Store(&m)
	}
	return more
}
