package analyzer

import (
	"weir/analyzer/rules"
	"weir/analyzer/standing"
	"weir/events"
)

// agentOrder is a standing order about an agent or a project, for what is counted of it.
// At most one stands for a reason: dispatchers tell orders of one scope apart by that.
type agentOrder struct {
	standing.Order // whose due is never 0
	rule           AgentRuleID
}

// refuses reports whether the order stands at the time, and is one of the action.
func (o *agentOrder) refuses(action events.Action, at events.Stamp) bool {
	return o.Binds() && o.Action == action && o.Expires > at
}

// orderFor returns the order that stands for the reason, or nil.
func (a *Agent) orderFor(reason events.Reason) *agentOrder {
	for i := range a.orders {
		if AgentRules[a.orders[i].rule].Reason == reason {
			return &a.orders[i]
		}
	}
	return nil
}

func (a *Agent) dropOrder(o *agentOrder) {
	for i := range a.orders {
		if &a.orders[i] == o {
			a.orders = a.orders[:i+copy(a.orders[i:], a.orders[i+1:])]
			return
		}
	}
}

// earliestOrder returns the order with the earliest deadline; nil for none.
func (a *Agent) earliestOrder() *agentOrder {
	var first *agentOrder
	for i := range a.orders {
		if o := &a.orders[i]; first == nil || o.Due < first.Due {
			first = o
		}
	}
	return first
}

// judgeAgent compares what a row counted with its limit, and gives or tightens the order.
func (e *Engine) judgeAgent(r AgentRuleID, a *Agent, m *agentMoment, t *tally, fx *Effects) {
	rule, set := &AgentRules[r], e.agentSetting(r, a, m.at)
	action := rule.Action
	if set.Hold {
		action = events.Hold // a tree that waits for a person
	}
	least := set.Stop // from which calls are refused
	if set.Max && rule.Armed {
		least--
	}
	ph := standing.Phase(0)
	mayStop := set.Mode != rules.ModeWarn && m.ev.SampledRate <= 1 && e.limits.WarnOnly>>m.ev.CorrelationSource&1 == 0
	switch {
	case t.n >= set.Stop && mayStop:
		ph = standing.Stop
	case t.n >= least && t.n > 0 && mayStop:
		ph = standing.Armed
	case t.n >= floorOf(rule, &set):
		ph = standing.Warn
	default:
		return
	}
	expires := m.at.Add(e.limits.Order.TTL)
	switch {
	case ph == standing.Warn:
		expires = t.below(floorOf(rule, &set))
	case action == events.Throttle:
		expires = t.below(least)
	}
	if expires <= m.at {
		return // over before anybody could be told: the event was so late
	}
	o := a.orderFor(rule.Reason)
	switch {
	case o == nil:
		if len(a.orders) == maxAgentOrders {
			a.dropOrder(a.earliestOrder())
		}
		a.orders = append(a.orders, agentOrder{Order: standing.Order{Since: m.at}})
		o = &a.orders[len(a.orders)-1]
	case o.Phase >= ph:
		if o.rule == r && !(o.Action == events.Hold && o.Phase == standing.Stop) {
			o.Observed = t.n
			if o.Phase == standing.Warn {
				o.Expires, o.Due = expires, expires
			}
		}
		return
	}
	o.Give(ph, action, &set, t.n, m.at)
	o.rule, o.Limits = r, e.version
	e.issueAgent(a, o, m, expires, fx)
}

// floorOf is the count from which the row says anything at all: below it an offence is over.
func floorOf(rule *AgentRule, set *rules.Setting) int64 {
	least := min(set.Warn, set.Stop)
	if set.Max && rule.Armed {
		least = min(least, set.Stop-1)
	}
	return least
}

// issueAgent publishes the order as of now. Throttles and warnings end when the window has
// moved on; a halt is looked at before it ends, and renewed while it is defied.
func (e *Engine) issueAgent(a *Agent, o *agentOrder, m *agentMoment, expires events.Stamp, fx *Effects) {
	switch {
	case o.Action == events.Hold && o.Phase == standing.Stop: // see awaitPerson
		o.Until(m.at, m.at.Add(e.limits.Order.Hold))
		o.Expires = o.Due.Add(e.limits.Order.TTL / 5)
	case o.Action == events.Halt, o.Action == events.Hold:
		o.Stand(m.at, e.limits.Order.TTL)
	default:
		o.Until(m.at, expires)
	}
	e.tell(a, m, o.finding(), fx)
	o.Revision = a.revision
}

// agentOrderDue fires the deadline of an order: it ends, or is renewed.
func (e *Engine) agentOrderDue(a *Agent, o *agentOrder, fx *Effects) {
	fx.agent = deadlineOf(o.Due)
	m := &fx.agent
	a.clock = max(a.clock, m.at)
	if o.Limits != e.version {
		e.reviewOrders(a, m, fx)
		return // what still stands is due as before
	}
	rule, set := &AgentRules[o.rule], e.agentSetting(o.rule, a, m.at)
	if o.Action == events.Hold && o.Phase == standing.Stop { // nobody has decided
		o.Action = events.Halt
		o.Until(m.at, m.at.Add(e.limits.Flow.MaxAge))
		e.tell(a, m, o.finding(), fx)
		return
	}
	if o.Action == events.Halt || o.Action == events.Hold {
		switch {
		case o.lapsed(e):
			a.dropOrder(o)
			return
		case a.isTree() && m.at >= a.treeEnds(e):
			a.dropOrder(o)
			return
		case o.Tried > 0:
			e.issueAgent(a, o, m, m.at.Add(e.limits.Order.TTL), fx)
			return
		case m.at < o.Expires:
			o.Due = o.Expires
			return
		}
	}
	// An order that has run out leaves the offence behind while the count is still near the
	// limit: what was warned of is not warned of again before it was over.
	if floor := floorOf(rule, &set); set.Mode != rules.ModeOff {
		t := e.tallyAt(o.rule, a, m.at)
		if calm := t.below(floor); t.n >= floor && calm > m.at {
			o.Phase, o.Action, o.Observed, o.Expires, o.Due, o.Tried = standing.Warn, events.Warn, t.n, calm, calm, 0
			return
		}
	}
	a.dropOrder(o)
}

// defiedAgent counts a message that was sent although an order about its receiver, or its
// project, refused it.
func (e *Engine) defiedAgent(a *Agent, m *agentMoment, fx *Effects) {
	leaked, tried := AgentRuleCount, AgentRuleCount // the first row whose order refuses the message
	for i := range a.orders {
		o := &a.orders[i]
		// A call that opens a flow comes a second time as a message: each is counted where
		// the order was given for the like.
		if a.isTree() && o.refuses(events.Hold, m.when) {
			o.Attempt()
			tried = min(tried, o.rule)
			continue
		}
		if !o.refuses(AgentRules[o.rule].Action, m.when) || o.Action == events.Halt && !a.isTree() || !a.isTree() && (AgentRules[o.rule].Counts == CountedOpened) != (m.ev.Kind == events.AgentActivity) {
			continue
		}
		if !o.Early(m.when, false, e.limits.Order.Grace) {
			tried = min(tried, o.rule)
			o.Attempt()
			continue
		}
		leaked = min(leaked, o.rule)
		o.Leak()
	}
	switch {
	case tried < AgentRuleCount:
		fx.Counts.Attempts++
		fx.Counts.DefiedAgents[tried]++
	case leaked < AgentRuleCount:
		fx.Counts.Leaked++
		fx.Counts.LeakedAgents[leaked]++
	}
}

// refusedBy takes an acknowledgement that a dispatcher refused a call by one of the
// agent's orders; false when it is about something else.
func (e *Engine) refusedBy(a *Agent, m *agentMoment, fx *Effects) bool {
	id := uint64(0)
	if m.ev.Ack != nil {
		id = standing.OrderOf(m.ev.Ack.VerdictID)
	}
	for i := range a.orders {
		o := &a.orders[i]
		if id == 0 || a.verdictOrder(string(AgentRules[o.rule].Reason), o.Since) != id {
			continue
		}
		if m.ev.Ack.Applied && o.Phase > standing.Warn {
			o.Attempt()
			fx.Counts.Attempts++
			fx.Counts.RefusedAgents[o.rule]++
		}
		return true
	}
	return false
}

// reviewOrders takes back the orders that other limits gave and that these would not.
func (e *Engine) reviewOrders(a *Agent, m *agentMoment, fx *Effects) {
	for i := len(a.orders) - 1; i >= 0; i-- {
		o := &a.orders[i]
		if o.Limits == e.version {
			continue
		}
		o.Limits = e.version
		rule, set := &AgentRules[o.rule], e.agentSetting(o.rule, a, m.at)
		if !o.Groundless(&set, floorOf(rule, &set)) {
			continue
		}
		if o.Phase > standing.Warn && o.Expires > m.at {
			o.Action = events.Allow
			e.tell(a, m, o.finding(), fx)
		}
		a.dropOrder(o)
	}
}

// finding is what the order says.
func (o *agentOrder) finding() *finding {
	return &finding{rule: o.rule, Order: o.Order}
}
