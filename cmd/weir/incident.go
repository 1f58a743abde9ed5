package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weir/cmd/internal/cli"
	"weir/events"
)

// incident is the active orders of one incident, the strictest first.
type incident struct {
	id, cause string
	orders    []*events.Verdict
}

// incidentsOf groups orders by incident: what refuses most comes first. Orders of an older weir have
// no incident; each of them stands for itself.
func incidentsOf(orders []events.Verdict) (out []incident) {
	for i := range orders {
		o := &orders[i]
		at := slices.IndexFunc(out, func(x incident) bool { return x.id != "" && x.id == o.IncidentID })
		if at < 0 {
			at = len(out)
			out = append(out, incident{id: o.IncidentID, cause: o.Cause})
		}
		out[at].orders = append(out[at].orders, o)
	}
	for _, x := range out {
		slices.SortStableFunc(x.orders, func(a, b *events.Verdict) int { return cmp.Compare(weight(b), weight(a)) })
	}
	slices.SortStableFunc(out, func(a, b incident) int { return cmp.Compare(weight(b.orders[0]), weight(a.orders[0])) })
	return out
}

// weight orders orders by how much they refuse: at once before the next call, then by action, then
// by how wide they are.
func weight(o *events.Verdict) int {
	w := 0
	switch {
	case o.Mode != events.ModeEnforce:
	case o.Stops() && o.Effective == events.EffectiveNow:
		w = 200
	case o.Stops():
		w = 100
	}
	w += 10 * slices.Index([]events.Action{events.Warn, events.Throttle, events.Deny, events.Halt, events.Hold}, o.Action)
	return w + slices.Index([]events.ScopeKind{events.ScopePair, events.ScopeTask, events.ScopeSession, events.ScopeFlow, events.ScopeTree}, o.Scope.Kind)
}

// write describes the incident by its strictest order, and names the others.
func (x *incident) write(env *cli.Env, b *strings.Builder) {
	writeOrder(env, b, x.orders[0])
	if x.id != "" {
		cli.Fprintf(b, "  %-9s %s (%s)\n", "incident", x.id, x.cause)
	}
	for i, o := range x.orders[1:] {
		word := "also"
		if i > 0 {
			word = ""
		}
		cli.Fprintf(b, "  %-9s %s %s%s, for %s\n", word, actionCell(o).Text, ruleAndReason(o.RuleID, o.Reason), measured(o), fmt.Sprint(o.Scope))
	}
}
