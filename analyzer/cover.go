package analyzer

import (
	"slices"

	"weir/analyzer/standing"
	"weir/events"
)

// A verdict has to report something new. An order under a wider one adds nothing: the wider one
// already binds the same callers. It stays active, is renewed and counts attempts against it
// like any other. It is not published until its cover is gone.

// covers reports whether the order refuses all that the other one is about, as strictly, and
// dispatchers know of it.
// Orders for a whole flow or a whole agent cover all others, narrower ones those of their own
// incident. A hidden one covers nothing, because dispatchers do not know of it.
func (w *order) covers(o *order, at events.Stamp) bool {
	if w.hidden || w.Expires <= at || w.Shadow {
		return false
	}
	same := w.incident == o.incident && Rules[w.rule].CauseOf() == Rules[o.rule].CauseOf()
	if same && w.warned(o) {
		return true
	}
	if !w.Binds() || severity(w.Action) < severity(o.Action) {
		return false
	}
	if same && w.contains(o) {
		return true
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

// warned reports whether the other order is one more warning of an incident that people, and the
// agent that it is about, were warned of already. A warning refuses nothing, so dispatchers have
// nothing to do by a second one.
func (w *order) warned(o *order) bool {
	return o.Phase == standing.Warn && w.Phase >= standing.Warn &&
		(w.scope != events.ScopeSession || o.scope != events.ScopeSession || w.a == o.a)
}

// contains reports whether the order refuses each call that the other one refuses, by what both
// name. It says no where it cannot know, as of calls in other words.
func (w *order) contains(o *order) bool {
	if w.kind != events.KindUnset && w.kind != o.about() || w.Phase < o.Phase {
		return false
	}
	switch {
	case w.scope == events.ScopeSession && (o.scope != events.ScopeSession || o.a != w.a):
		return false
	case w.picks == selectAll && w.scope == events.ScopePair:
		return w.containsEdges(o, edge{w.a, w.b}, edge{w.b, w.a})
	case w.picks == selectEdges:
		return (w.content.IsZero() || w.content == o.content && o.picks == selectEdges) && w.containsEdges(o, w.edges...)
	case w.picks == selectBrief:
		return o.picks == selectBrief && w.content == o.content
	case w.picks == selectTools:
		return (o.picks == selectTools || o.picks == selectCalls && !Rules[o.rule].Rewords) && !slices.ContainsFunc(o.calls, func(c callRef) bool {
			return !slices.ContainsFunc(w.calls, func(has callRef) bool { return has.tool == c.tool })
		})
	case w.picks == selectCalls:
		return o.picks == selectCalls && !Rules[o.rule].Rewords && !slices.ContainsFunc(o.calls, func(c callRef) bool { return !slices.Contains(w.calls, c) })
	}
	return false
}

// containsEdges reports whether the other order is about calls along these edges alone.
func (w *order) containsEdges(o *order, edges ...edge) bool {
	of := o.edges
	if o.scope == events.ScopePair && o.picks == selectAll {
		of = []edge{{o.a, o.b}, {o.b, o.a}}
	} else if o.picks != selectEdges {
		return false
	}
	return len(of) > 0 && !slices.ContainsFunc(of, func(x edge) bool { return !slices.Contains(edges, x) })
}

// about is the kind of calls that the order can refuse; KindUnset for both.
func (o *order) about() events.Kind {
	if o.scope == events.ScopePair && o.picks == selectAll {
		return events.AgentCall
	}
	return o.kind
}

// covered reports whether a wider order refuses as much. An operator's order is always
// published, and so is one in shadow mode.
func (f *sanctions) covered(o *order, at events.Stamp) bool {
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

// uncover publishes the orders whose cover is gone.
// emit checks once more whether another order covers it. It is called after whatever may have
// removed an order: an event, a deadline, other limits.
func (e *verdictWriter) uncover(f *Flow, m *moment, fx *Effects) {
	for i := range f.orders {
		if o := &f.orders[i]; o.hidden && o.Expires > m.at {
			e.emit(f, o, m, fx)
		}
	}
}

// forgetUnder ends the orders whose cover has expired because no caller ignored it, if no
// caller has ignored them either: there is nothing to publish.
func (f *Flow) forgetUnder(at events.Stamp) {
	for i := len(f.orders) - 1; i >= 0; i-- {
		o := &f.orders[i]
		throttles := o.Phase > standing.Warn && o.Action == events.Throttle
		if o.hidden && !throttles && !o.holds(f) && !f.covered(o, at) {
			f.dropOrder(i)
		}
	}
}

// reasons lists the reason of an order and those of the orders under it; nil when there are
// none.
// They are shown in the wider order, so that a person who lifts it knows what else is there.
func (f *sanctions) reasons(o *order, at events.Stamp) (out []events.Reason) {
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
