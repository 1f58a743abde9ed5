package main

import (
	"slices"
	"strings"

	"weir/events"
)

// orders are the standing orders that a dispatcher goes by.
type orders map[orderKey]events.Verdict

type orderKey struct {
	flow   string
	scope  events.Scope
	reason events.Reason
}

// take keeps what a verdict orders, or forgets what it clears.
func (o orders) take(v *events.Verdict) {
	key := orderKey{v.CorrelationID, v.Scope, v.Reason}
	if stops(v) && v.Mode == modeEnforce {
		o[key] = *v
	} else if v.Action == events.Allow.String() {
		delete(o, key)
	}
}

// refusing returns the order that refuses the call; nil when it may be made. A human
// is never refused.
func (o orders) refusing(ev *events.Event) (best *events.Verdict) {
	if !isCall(ev) {
		return nil
	}
	flow := ev.FlowKey()
	for key, v := range o {
		if key.flow != flow || v.ExpiresAt != 0 && events.Stamp(v.ExpiresAt) <= ev.Time || !refuses(&v, ev) {
			continue
		}
		if best == nil || v.Revision < best.Revision || v.Revision == best.Revision && v.ID < best.ID {
			best = &v // the first that was given
		}
	}
	return best
}

// refuses reports whether the order is about the call.
func refuses(v *events.Verdict, ev *events.Event) bool {
	switch v.Scope.Kind {
	case events.ScopeSession.String(), events.ScopeAgent.String():
		if !is(ev.From, v.Scope.ID) {
			return false
		}
	case events.ScopeTask.String():
		if ev.TaskID != v.Scope.ID {
			return false
		}
	}
	m := v.Match
	if m == nil {
		return true
	}
	anyOf := func(list []string, is func(string) bool) bool { return len(list) == 0 || slices.ContainsFunc(list, is) }
	return (m.Kind == "" || m.Kind == ev.Kind.String()) &&
		anyOf(m.From, func(id string) bool { return is(ev.From, id) }) &&
		anyOf(m.To, func(id string) bool { return is(ev.To, id) }) &&
		!slices.ContainsFunc(m.NotFrom, func(id string) bool { return is(ev.From, id) }) &&
		!slices.ContainsFunc(m.NotTo, func(id string) bool { return is(ev.To, id) }) &&
		anyOf(m.Tool, func(name string) bool { return name == ev.Tool.Name }) &&
		anyOf(m.ArgsHash, func(h string) bool { return sameHash(h, ev.Tool.ArgsHash.String()) }) &&
		anyOf(m.ContentHash, func(h string) bool { return sameHash(h, ev.Content.String()) }) &&
		(len(m.Edges) == 0 || slices.ContainsFunc(m.Edges, func(e events.Edge) bool { return is(ev.From, e.From) && is(ev.To, e.To) })) &&
		(m.TurnID == "" || m.TurnID == ev.TurnID) &&
		(m.NotTurnID == "" || ev.TurnID != "" && m.NotTurnID != ev.TurnID) &&
		(m.TaskID == "" || m.TaskID == ev.TaskID) &&
		(m.ConversationID == "" || m.ConversationID == ev.ConversationID)
}

// is reports whether the party is called so, by its session or its agent.
func is(p events.Party, id string) bool { return id != "" && (p.Session == id || p.Agent == id) }

// sameHash compares hashes of which one may have been cut.
func sameHash(a, b string) bool {
	an, av, aok := strings.Cut(a, ":")
	bn, bv, bok := strings.Cut(b, ":")
	return aok && bok && an == bn && av != "" && bv != "" && (strings.HasPrefix(av, bv) || strings.HasPrefix(bv, av))
}
