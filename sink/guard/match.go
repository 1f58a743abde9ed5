package guard

import (
	"slices"
	"strings"

	"weir/events"
)

// Matches reports whether an order is about the call, whatever it orders and whenever it
// expires. This is the one place where calls and orders are compared.
// c is the call before it is made; both sides of a check must have the same names as in
// the events.
func Matches(v *events.Verdict, c *Call) bool {
	return binds(v, c) && (v.Match == nil || describes(v.Match, c))
}

// binds reports whether the call is within the flow and the scope of the order.
func binds(v *events.Verdict, c *Call) bool {
	// An order with a flow is about this flow alone, whatever its scope is.
	if v.CorrelationID != "" && v.CorrelationID != c.flowKey() {
		return false
	}
	id := v.Scope.ID
	switch v.Scope.Kind {
	case events.ScopeFlow:
		return v.CorrelationID != "" || id == c.flowKey()
	case events.ScopeSession, events.ScopeAgent:
		switch {
		// It is about one conversation of one tenant, also of no tenant.
		case v.Reason == events.RepeatedWakes && c.Tenant != v.TenantID:
			return false
		// Session and agent say who the order is about; the match says on which side of a call
		// they stand.
		case v.Match != nil && (len(v.Match.From) > 0 || len(v.Match.To) > 0 || len(v.Match.Edges) > 0):
			return true // which says whose calls
		// This rule counts what an agent is sent, and refuses the senders.
		case v.Reason == events.AgentMessageRate:
			return called(c.To, c.ToAgent, id)
		}
		return called(c.From, c.FromAgent, id)
	// Without edges both directions of the pair are meant.
	case events.ScopePair:
		if v.Match != nil && len(v.Match.Edges) > 0 {
			return true
		}
		a, b, ok := strings.Cut(id, "|")
		return ok && (called(c.From, c.FromAgent, a) && called(c.To, c.ToAgent, b) || called(c.From, c.FromAgent, b) && called(c.To, c.ToAgent, a))
	case events.ScopeTask:
		return c.Task == id
	case events.ScopeProject:
		return c.Project == id
	case events.ScopeTenant:
		return c.Tenant == id
	case events.ScopeTool:
		return c.Tool == id
	case events.ScopeTree:
		return c.inTree(id)
	}
	// An order that is not understood refuses nothing: better a call too many than all of
	// them.
	return false // a scope that this guard does not know yet
}

// describes reports whether every field that is given fits the call.
// A field that is empty fits every call; one that is given fits no call that leaves it out.
func describes(m *events.Match, c *Call) bool {
	if m.Kind != "" && m.Kind != c.kind().String() || m.Background && !c.Background {
		return false
	}
	if len(m.From) > 0 && !calledAny(c.From, c.FromAgent, m.From) || len(m.To) > 0 && !calledAny(c.To, c.ToAgent, m.To) {
		return false
	}
	// NotFrom and NotTo name who is let through.
	if calledAny(c.From, c.FromAgent, m.NotFrom) || calledAny(c.To, c.ToAgent, m.NotTo) {
		return false
	}
	if len(m.Tool) > 0 && !slices.Contains(m.Tool, c.Tool) {
		return false
	}
	if len(m.ArgsHash) > 0 && !sameAny(c.ArgsHash, m.ArgsHash) || len(m.ContentHash) > 0 && !sameAny(c.ContentHash, m.ContentHash) {
		return false
	}
	if len(m.Edges) > 0 && !along(m.Edges, c) {
		return false
	}
	return (m.TurnID == "" || m.TurnID == c.Turn) &&
		// NotTurnID is about the calls of other turns; a call without a turn may be of that
		// one, and is let through.
		(m.NotTurnID == "" || c.Turn != "" && m.NotTurnID != c.Turn) &&
		(m.TaskID == "" || m.TaskID == c.Task) &&
		(m.ConversationID == "" || m.ConversationID == c.Conversation) &&
		(m.ProjectID == "" || m.ProjectID == c.Project) &&
		(m.RootCorrelationID == "" || c.inTree(m.RootCorrelationID))
}

// inTree reports whether the flow of the call descends from that root, or is it.
func (c *Call) inTree(root string) bool { return root != "" && (c.Root == root || c.flowKey() == root) }

// called reports whether a party is called so, by its session or its agent.
func called(id, agent, name string) bool { return name != "" && (id == name || agent == name) }

// calledAny reports whether a party is called by one of the names.
func calledAny(id, agent string, names []string) bool {
	for _, name := range names {
		if called(id, agent, name) {
			return true
		}
	}
	return false
}

// along reports whether the call goes along one of the edges. An edge has a direction.
func along(edges []events.Edge, c *Call) bool {
	for i := range edges {
		if called(c.From, c.FromAgent, edges[i].From) && called(c.To, c.ToAgent, edges[i].To) {
			return true
		}
	}
	return false
}

// sameAny reports whether a hash equals one of a list.
func sameAny(hash string, list []string) bool {
	for _, h := range list {
		if sameHash(h, hash) {
			return true
		}
	}
	return false
}

// sameHash compares hashes of which one may have been cut.
// Systems shorten hashes for people; the algorithm has to be the same in any case.
func sameHash(a, b string) bool {
	an, av, aok := strings.Cut(a, ":")
	bn, bv, bok := strings.Cut(b, ":")
	return aok && bok && an == bn && av != "" && bv != "" && (strings.HasPrefix(av, bv) || strings.HasPrefix(bv, av))
}
