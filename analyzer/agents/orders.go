package agents

import (
	"weir/analyzer/activity"
	"weir/analyzer/rules"
	"weir/analyzer/standing"
	"weir/events"
)

// order is an active order about an agent or a project, for what is counted of it.
// There is at most one for a reason, because dispatchers distinguish orders of one scope by reason.
// There is no scope in it: it is about all calls to the agent, for a halt all calls of it, in
// a project or in a tree (see match).
type order struct {
	standing.Order // whose due is never 0
	rule           RuleID
}

// refuses reports whether the order stands at the time, and is one of the action.
// An order in shadow mode refuses nothing.
func (o *order) refuses(action events.Action, at events.Stamp) bool {
	return o.Binds() && o.Action == action && o.Expires > at
}

// orderFor returns the order that stands for the reason, or nil.
func (a *orderList) orderFor(reason events.Reason) *order {
	for i := range a.orders {
		if Rules[a.orders[i].rule].Reason == reason {
			return &a.orders[i]
		}
	}
	return nil
}

// dropOrder takes the order out; pointers to orders behind it point to the next one
// afterwards.
func (a *orderList) dropOrder(o *order) {
	for i := range a.orders {
		if &a.orders[i] == o {
			a.orders = a.orders[:i+copy(a.orders[i:], a.orders[i+1:])]
			return
		}
	}
}

// earliestOrder returns the order with the earliest deadline; nil for none.
func (a *orderList) earliestOrder() *order {
	var first *order
	for i := range a.orders {
		if o := &a.orders[i]; first == nil || o.Due < first.Due {
			first = o
		}
	}
	return first
}

// judge compares what a row counted with its limit, and gives or tightens the order.
// It does not look at what stands before it has found a phase: most events come nowhere near a
// limit. An order is only ever tightened here; what falls below its limit ends by its own
// time.
func (e *orderWriter) judge(r RuleID, a *Agent, m *moment, t *tally, fx *activity.Effects) {
	rule, set := &Rules[r], e.setting(r, a, m.at)
	if set.Mode == rules.ModeOff {
		return // the agent is exempt: rows that are off are not counted
	}
	action := rule.Action
	if set.Hold {
		action = events.Hold // a tree that waits for a person
	}
	least := set.Stop // from which calls are refused
	if set.Max && rule.Armed {
		least--
	}
	ph := standing.Phase(0)
	// A sample that is counted up, and a flow whose id was guessed, are no proof.
	mayStop := set.Mode != rules.ModeWarn && (!a.ofFlows() || a.figures&provesLittle == 0) && m.ev.SampledRate <= 1 && e.terms.WarnOnly>>m.ev.CorrelationSource&1 == 0
	switch {
	case t.n >= set.Stop && mayStop:
		ph = standing.Stop
	case t.n >= least && t.n > 0 && mayStop:
		ph = standing.Armed
	// Of flows that one agent opened, the agent that they began with is warned of.
	case t.n >= floorOf(rule, &set) && !a.byOpener():
		ph = standing.Warn
	default:
		return
	}
	// Throttles and warnings last until the window holds less than what gave them, and no
	// longer.
	expires := m.at.Add(e.terms.TTL)
	switch {
	case ph == standing.Warn:
		expires = t.below(floorOf(rule, &set))
	case action == events.Throttle:
		expires = t.below(least)
	}
	if expires <= m.at {
		return // over before it could be published: the event was so late
	}
	o := a.orderFor(rule.Reason)
	switch {
	case o == nil:
		// The one that ends soonest anyway gives way.
		if len(a.orders) == maxOrders {
			a.dropOrder(a.earliestOrder())
		}
		a.orders = append(a.orders, order{Order: standing.Order{Since: m.at}})
		o = &a.orders[len(a.orders)-1]
	case o.Phase >= ph:
		// The count is kept up to date without a word, and a warning lasts as long as there is
		// ground for it. Another row of the same reason, and a tree that waits, change
		// nothing.
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
	e.issue(a, o, m, expires, fx)
}

// floorOf is the count from which the row says anything at all: below it an offence is over.
// For a budget that is one below the stop, where its order goes out armed.
func floorOf(rule *Rule, set *rules.Setting) int64 {
	least := min(set.Warn, set.Stop)
	if set.Max && rule.Armed {
		least = min(least, set.Stop-1)
	}
	return least
}

// issue publishes the order as of now. Throttles and warnings end when the window has
// moved on. A halt is looked at before it ends, and renewed while it is ignored.
func (e *orderWriter) issue(a *Agent, o *order, m *moment, expires events.Stamp, fx *activity.Effects) {
	switch {
	// It is looked at when no person has decided, and ends a little later, so that the halt that
	// follows leaves no gap.
	case o.Action == events.Hold && o.Phase == standing.Stop: // see awaitPerson
		o.Until(m.at, m.at.Add(e.terms.Hold))
		o.Expires = o.Due.Add(e.terms.TTL / 5)
	case o.Action == events.Halt, o.Action == events.Hold:
		o.Stand(m.at, e.terms.TTL)
	default:
		o.Until(m.at, expires)
	}
	e.publish(a, m, o.finding(), fx)
	o.Revision = a.revision
}

// orderDue fires the deadline of an order: it ends, or is renewed.
// A throttle that has run out is not lifted by a verdict: dispatchers know when it ends
// (decision 42).
func (e *orderWriter) orderDue(a *Agent, o *order, fx *activity.Effects) {
	at := deadlineOf(o.Due)
	m := &at
	a.clock = max(a.clock, m.at)
	if o.Limits != e.version {
		e.reviewOrders(a, m, fx)
		return // what still stands is due as before
	}
	rule, set := &Rules[o.rule], e.setting(o.rule, a, m.at)
	if o.Action == events.Hold && o.Phase == standing.Stop { // no person has decided
		o.Action = events.Halt
		o.Until(m.at, m.at.Add(e.terms.MaxAge))
		e.publish(a, m, o.finding(), fx)
		o.Revision = a.revision
		return
	}
	if o.Action == events.Halt || o.Action == events.Hold {
		switch {
		case o.lapsed(&e.settings):
			a.dropOrder(o)
			return
		// The tree is over, and its budget whole again.
		case a.isTree() && m.at >= a.treeEnds(&e.settings):
			a.dropOrder(o)
			return
		case o.Tried > 0:
			e.issue(a, o, m, m.at.Add(e.terms.TTL), fx)
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

// Counts a message that was sent although an order about its receiver, or its
// project, refused it.
// It is counted once in the metrics, by the first row of the table whose order was ignored, and
// by each order for itself.
func (e *orderWriter) defied(a *Agent, m *moment, fx *activity.Effects) {
	// RuleCount stands for none.
	leaked, tried := RuleCount, RuleCount // the first row whose order refuses the message
	for i := range a.orders {
		o := &a.orders[i]
		// A call that opens a flow comes a second time as a message: each is counted where
		// the order was given for the like.
		if a.isTree() && o.refuses(events.Hold, m.when) {
			o.Attempt()
			tried = min(tried, o.rule)
			continue
		}
		if !o.refuses(Rules[o.rule].Action, m.when) || o.Action == events.Halt && !a.isTree() || !a.isTree() && (Rules[o.rule].Counts == CountedOpened || a.isWake()) != (m.ev.Kind == events.AgentActivity) {
			continue
		}
		if !o.Early(m.when, false, e.terms.Grace) {
			tried = min(tried, o.rule)
			o.Attempt()
			continue
		}
		leaked = min(leaked, o.rule)
		o.Leak()
	}
	switch {
	case tried < RuleCount:
		fx.Counts.Attempts++
		fx.Counts.By(Rules[tried].Reason.Place()).Defied++
	case leaked < RuleCount:
		fx.Counts.Leaked++
		fx.Counts.By(Rules[leaked].Reason.Place()).Leaked++
	}
}

// refusedBy takes an acknowledgement that a dispatcher refused a call by one of the
// agent's orders; false when it is about something else.
// An acknowledgement that says that the order was not applied is known and counts for nothing.
func (e *orderWriter) refusedBy(a *Agent, m *moment, fx *activity.Effects) bool {
	o := a.orderAcked(m)
	if o != nil && m.ev.Ack.Applied && o.Phase > standing.Warn {
		o.Attempt()
		fx.Counts.Attempts++
		fx.Counts.By(Rules[o.rule].Reason.Place()).Refused++
	}
	return o != nil
}

// orderAcked returns the agent's order that an acknowledgement is about; nil for none.
func (a *Agent) orderAcked(m *moment) *order {
	id := uint64(0)
	if m.ev.Ack != nil {
		id = standing.OrderOf(m.ev.Ack.VerdictID)
	}
	for i := range a.orders {
		if o := &a.orders[i]; id != 0 && a.verdictOrder(string(Rules[o.rule].Reason), o.Since) == id {
			return o
		}
	}
	return nil
}

// reviewOrders takes back the orders that other limits gave and that these would not.
// As with orders about flows (decision 20).
func (e *orderWriter) reviewOrders(a *Agent, m *moment, fx *activity.Effects) {
	for i := len(a.orders) - 1; i >= 0; i-- {
		o := &a.orders[i]
		if o.Limits == e.version {
			continue
		}
		o.Limits = e.version
		rule, set := &Rules[o.rule], e.setting(o.rule, a, m.at)
		if !o.Groundless(&set, floorOf(rule, &set)) {
			continue
		}
		if o.Phase > standing.Warn && o.Expires > m.at {
			o.Action = events.Allow
			e.publish(a, m, o.finding(), fx)
		}
		a.dropOrder(o)
	}
}

// finding is what the order says.
func (o *order) finding() *finding {
	return &finding{rule: o.rule, Order: o.Order}
}
