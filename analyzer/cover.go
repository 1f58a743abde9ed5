package analyzer

import (
	"slices"

	"weir/analyzer/standing"
	"weir/events"
)

// A verdict has to say something new. An order under a wider one says nothing: whoever is
// bound by it is bound already. It stands, is renewed and counts what is tried against it as
// any other, but nobody is told, until what covers it is gone.

// covers reports whether the order refuses all that the other one is about, as strictly, and
// dispatchers know of it.
// Only orders for a whole flow or a whole agent cover others. A hidden one covers nothing,
// because dispatchers do not know of it.
func (w *order) covers(o *order, at events.Stamp) bool {
	if !w.Binds() || w.hidden || w.Expires <= at || severity(w.Action) < severity(o.Action) {
		return false
	}
	if w.kind != events.KindUnset && w.kind != o.about() {
		return false
	}
	switch w.scope {
	case events.ScopeFlow:
		return w.picks == selectAll
	case events.ScopeSession:
		return (w.picks == selectAll || w.picks == selectCaller) && o.scope == events.ScopeSession && o.a == w.a
	}
	return false
}

// about is the kind of calls that the order can refuse; KindUnset for both.
func (o *order) about() events.Kind {
	if o.scope == events.ScopePair && o.picks == selectAll {
		return events.AgentCall
	}
	return o.kind
}

// covered reports whether a wider order says as much. A person's word is always told, and so
// is what only would have been ordered.
func (f *Flow) covered(o *order, at events.Stamp) bool {
	if o.Shadow || Rules[o.rule].Fixed || Rules[o.rule].AlwaysPublished {
		return false
	}
	for i := range f.orders {
		if w := &f.orders[i]; w != o && w.covers(o, at) {
			return true
		}
	}
	return false
}

// uncover tells of the orders whose cover is gone.
// emit looks once more whether another order covers it. It is called after whatever may have
// taken an order away: an event, a deadline, other limits.
func (e *Engine) uncover(f *Flow, m *moment, fx *Effects) {
	for i := range f.orders {
		if o := &f.orders[i]; o.hidden && o.Expires > m.at {
			e.emit(f, o, m, fx)
		}
	}
}

// forgetUnder ends the orders whose cover has run out because nobody defied it, if nobody
// has defied them either: there is nothing to tell.
func (f *Flow) forgetUnder(at events.Stamp) {
	for i := len(f.orders) - 1; i >= 0; i-- {
		o := &f.orders[i]
		throttles := o.Phase > standing.Warn && o.Action == events.Throttle
		if o.hidden && !throttles && !f.holds(o) && !f.covered(o, at) {
			f.dropOrder(i)
		}
	}
}

// reasons lists the reason of an order and those of the orders under it; nil when there are
// none.
// They are shown in the wider order, so that a person who lifts it knows what else is there.
func (f *Flow) reasons(o *order, at events.Stamp) (out []events.Reason) {
	for i := range f.orders {
		if u := &f.orders[i]; u != o && u.Binds() && o.covers(u, at) {
			if out == nil {
				out = []events.Reason{Rules[o.rule].Reason}
			}
			if r := Rules[u.rule].Reason; !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	if len(out) == 1 {
		return nil // the same in a narrower scope
	}
	return out
}
