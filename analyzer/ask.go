package analyzer

import (
	"slices"

	"weir/analyzer/activity"
	"weir/analyzer/rules"
	"weir/analyzer/standing"
	"weir/events"
)

// ask judges a call before it is sent. Allowed, it counts as the call. Refused, it counts as an
// attempt: it moves the escalation and does not change the counters.
// The answer is one verdict of the kind that streams carry; where several rows stop the call
// it is that of the first. There is no second evaluator. What no active order refuses is folded,
// and undone when the fold stops it (decision 9).
func (e *Engine) ask(p *Partition, f *Flow, m *moment, fx *Effects) {
	fx.Counts.Asks++
	m.busy = p.busy
	c := e.announce(f, m.ev)
	if o := f.refusing(&f.callStack, &c); o != nil {
		e.refuse(f, o, &c, m, fx)
		return
	}
	// The partition as well: a refused call is no load.
	before, load := &fx.scratch, *p
	// The copy is in memory of the effects, so that not each ask has to allocate one.
	f.copyTo(before)
	given := len(fx.Verdicts)
	// As an event that has happened, with all that comes of it.
	e.see(p, f, m, fx)
	var warning *events.Verdict
	for i := given; i < len(fx.Verdicts); i++ {
		v := &fx.Verdicts[i]
		// A row in shadow mode refuses no call.
		if v.Mode != events.ModeEnforce {
			continue
		}
		if v.Stops() && v.Effective == events.EffectiveNow && !lastLoop(v, m) {
			// The watermark was moved before the copy was made, so time does not run
			// backwards.
			*p = load
			e.undo(f, before, given, i, m, fx)
			return
		}
		// Several rows may warn; the last one is what the answer says.
		if v.Action == events.Warn {
			warning = v
		}
	}
	// Only what was allowed is passed on: for trees and agents a refused call was not made.
	e.repartition(f, m, fx)
	if warning != nil {
		answer := *warning
		fx.Answer = &answer
	} else {
		fx.Answer = e.allowed(f, m)
	}
	e.addRemaining(f, m, fx.Answer)
	e.addAdvice(f, m, fx.Answer)
	if fx.Asked {
		e.addWaiting(f, m, fx.Answer)
	}
}

// lastLoop reports whether the stop is caused by a loop that is the last one allowed. A limit of
// three loops applies after three loops. The loop in the check request counts when it is judged.
func lastLoop(v *events.Verdict, m *moment) bool {
	return v.Unit == events.UnitLoops && (m.ev.Kind == events.TaskLoop || m.ev.Kind == events.TaskReflect) && v.Limit != nil && float64(m.earlier) < *v.Limit
}

// again answers an ask that was folded before, as when the answer was lost on the
// way: by what stands now, counting nothing.
func (e *Engine) again(f *Flow, m *moment) *events.Verdict {
	// Read and not counted, as for an ask that is refused at once.
	c := e.announce(f, m.ev)
	m.from, m.to, m.tool = c.from, c.to, c.tool
	answer := e.allowed(f, m)
	if o := f.refusing(&f.callStack, &c); o != nil && !m.user {
		answer = e.answer(f, o, m)
	}
	if !m.user {
		e.addRemaining(f, m, answer)
	}
	return answer
}

// refusing returns the active order that refuses the call, the widest first.
// The widest gives the caller most information: that the flow is stopped, and not only one call.
func (f *sanctions) refusing(on *callStack, c *announced) *order {
	var best *order
	for i := range f.orders {
		o := &f.orders[i]
		if o.hidden || !on.refuses(o, c) {
			continue // what is hidden refuses nothing that its cover does not
		}
		// Of equally wide ones the oldest in the list, so the same ask gets the same answer.
		if best == nil || o.wide > best.wide {
			best = o
		}
	}
	return best
}

// refuse answers a call that an active order refuses.
func (e *Engine) refuse(f *Flow, o *order, c *announced, m *moment, fx *Effects) {
	fx.Counts.Refused++
	fx.Counts.Attempts++
	fx.Counts.By(Rules[o.rule].Reason.Place()).Refused++
	// For the answer only; the call is not counted, so apply does not run.
	m.from, m.to, m.tool = c.from, c.to, c.tool
	// The call that would go over the limit is the one at which the flow begins to wait.
	if o.BeginsWait() {
		e.hold(f, o, m, fx)
	}
	f.stops(o, fx)
	fx.Answer = e.answer(f, o, m)
	e.addRemaining(f, m, fx.Answer)
	e.tried(f, m)
	// A call that was in flight when the order went out is no attempt (decision 8).
	if _, known := e.broken(f, c, m); known {
		if o.Action != events.Throttle { // a throttled caller may ask whether it is time
			e.noteTry(f, o, m, fx)
		}
		e.attempt(f, o, m, fx)
		// The row about hammering is about asks alone, so it has no kind of event and is
		// judged here.
		e.judgeRow(&Rules[ruleOfTries], f, m, fx)
	}
}

// undo answers a call that the fold has stopped by the verdict at i, and undoes what it counted. The first verdict of
// the call is the one at given.
func (e *Engine) undo(f, before *Flow, given, i int, m *moment, fx *Effects) {
	fx.Counts.Refused++
	fx.Counts.Attempts++
	if r, ok := RuleNamed(fx.Verdicts[i].RuleID); ok {
		fx.Counts.By(Rules[r].Reason.Place()).Refused++
	}
	undone := takeBack(f, before)
	if e.holds && f.Standing() == Held { // the parties are those of before the call
		f.wait(m.at)
	}
	e.tried(f, m)
	// A copy, because what stands in fx.Verdicts may move when more are added.
	answer := fx.Verdicts[i]
	fx.Answer = &answer
	e.addRemaining(f, m, fx.Answer)
	// The call stays counted, and so does all that it brought about.
	if !undone {
		return
	}
	// Effects that the call would have had are not reported: that a budget is used up,
	// that one is near, that an order ends.
	stops := slices.DeleteFunc(fx.Verdicts[given:], func(v events.Verdict) bool { return v.Effective != events.EffectiveNow })
	fx.Verdicts = fx.Verdicts[:given+len(stops)]
}

// takeBack undoes what a refused call counted. It keeps the offences and the orders that refuse
// calls from now on, which the call brought about. It returns false if it cannot undo the call:
// a party or a tool gave way for it, so indices would then mean another one. New parties and
// tools stay, with nothing counted of them, since orders may name them.
func takeBack(f, before *Flow) bool {
	for i := range before.parties {
		if f.parties[i].name != before.parties[i].name {
			return false // a party gave way to a new one
		}
	}
	for i := range before.tools {
		if f.tools[i] != before.tools[i] {
			return false
		}
	}
	tried := *f
	n := len(before.parties)
	*f = *before
	*before = tried // the memory of both stays in use
	for i := n; i < len(tried.parties); i++ {
		p := f.addParty()
		p.name, p.agent, p.parent, p.lastSeen = tried.parties[i].name, tried.parties[i].agent, none, tried.parties[i].lastSeen
	}
	for i := len(f.tools); i < len(tried.tools); i++ {
		f.tools = append(f.tools, tried.tools[i])
	}
	for i := range before.orders {
		o := &before.orders[i]
		if o.Phase != standing.Stop {
			continue // it stands by what was counted
		}
		k := f.orderOf(Rules[o.rule].Reason, o.scope, o.a, o.b, o.subject)
		if k == nil {
			k = f.addOrder()
		}
		*k, *o = *o, *k // no two may share the memory of their slices
	}
	f.offences, before.offences = tried.offences, f.offences
	f.incidents, before.incidents = tried.incidents, f.incidents
	f.revision = tried.revision
	return true
}

// applyAck counts a refusal that a dispatcher reports as an attempt. What is about no
// order of the flow may be about one of an agent.
// The order is found by its id, so an acknowledgement of an order that is gone counts for
// nothing here.
func (e *Engine) applyAck(f *Flow, m *moment, fx *Effects) {
	if m.ev.Ack == nil {
		return
	}
	if !m.ev.From.IsZero() {
		// Found and not added: an acknowledgement does not make a party take part.
		m.from = f.findParty(e.limits.Identity.Of(m.ev.From))
	}
	if !m.ev.To.IsZero() {
		m.to = f.findParty(e.limits.Identity.Of(m.ev.To))
	}
	known := false
	for i := range f.orders {
		o := &f.orders[i]
		if o.orderID(f) != standing.OrderOf(m.ev.Ack.VerdictID) {
			continue
		}
		if !known {
			fx.Counts.Acked(Rules[o.rule].Reason.Place(), m.ev.Ack)
		}
		known = true
		// A dispatcher that says that it did not apply the order has let the call pass: that is
		// no attempt.
		if o.Phase > standing.Warn && m.ev.Ack.Applied {
			fx.Counts.Attempts++
			fx.Counts.By(Rules[o.rule].Reason.Place()).Refused++
			if o.BeginsWait() && !o.Shadow {
				e.hold(f, o, m, fx)
			}
			f.stops(o, fx)
			e.tried(f, m)
			// A caller that waits, or that was refused nothing, ignored no order.
			if o.Action != events.Throttle && !o.Shadow {
				e.noteTry(f, o, m, fx)
			}
			e.attempt(f, o, m, fx)
			break
		}
	}
	if !known {
		e.passAck(m.ev, m.when, fx)
		if e.agents.Trees {
			fx.SayTo(activity.TreePrefix, f.treeOf(), m.ev, m.when).Ack = m.ev.Ack
		}
	}
}

// applyOperator carries out a person's order about the flow.
// Nothing of it is counted or judged: a person's word is no call. What concerns the tree of
// the flow is passed on to it.
func (e *Engine) applyOperator(f *Flow, m *moment, fx *Effects) {
	ev := m.ev
	switch {
	case ev.Kind == events.OperatorStop && ev.Operator != nil:
		e.stopByHand(f, m, fx)
	case ev.Kind == events.OperatorRelease && ev.Operator != nil:
		// clear takes the order out, so the first one is another each time.
		for len(f.orders) > 0 {
			e.clear(f, &f.orders[0], m, fx)
		}
		f.offences, f.incidents = f.offences[:0], f.incidents[:0]
		f.clearPatterns(true)
		f.released = m.at.Add(ev.Operator.For)
		if e.agents.Trees {
			fx.SayTo(activity.TreePrefix, f.treeOf(), ev, m.when).Operator = ev.Operator
		}
	case ev.Kind == events.OverrideSet && ev.Override != nil && ev.Override.Scope == events.ScopeTree:
		if e.agents.Trees {
			fx.SayTo(activity.TreePrefix, f.treeOf(), ev, m.when).Override = ev.Override
		}
	case ev.Kind == events.OverrideSet && ev.Override != nil && ev.Override.Scope == events.ScopeFlow:
		if r, ok := RuleNamed(ev.Override.Rule); ok {
			e.override(f, r, m, fx)
		}
	}
}

// stopByHand gives a person's order to stop the flow.
func (e *Engine) stopByHand(f *Flow, m *moment, fx *Effects) {
	o := f.orderOf(Rules[ruleOfPerson].Reason, events.ScopeFlow, none, none, "")
	if o == nil {
		o = f.addOrder()
		*o = order{Order: standing.Order{Since: m.at, Begun: m.at}, a: none, b: none, edges: o.edges[:0], calls: o.calls[:0]}
	}
	// An order that a person has given before is given again, from now on, with the same id.
	if o.incident == 0 || o.episode != f.episode {
		o.incident = f.incidentOf(ruleOfPerson, m.at)
	}
	o.rule, o.Phase, o.Action, o.scope, o.episode = ruleOfPerson, standing.Stop, events.Halt, events.ScopeFlow, f.episode
	stands := m.ev.Operator.For
	if stands <= 0 {
		stands = events.DefaultStop
	}
	o.Until(m.at, m.at.Add(stands))
	e.emit(f, o, m, fx)
	for i := len(f.orders) - 1; i >= 0; i-- { // a person has decided
		if f.orders[i].holdsFlow() {
			e.clear(f, &f.orders[i], m, fx)
		}
	}
}

// override sets or grants another limit of the rule for the flow.
func (e *Engine) override(f *Flow, r RuleID, m *moment, fx *Effects) {
	ev := m.ev
	mode := e.limits.Rules[r].Mode
	// An override that says no mode leaves the one in force.
	if given, ok := rules.ParseMode(ev.Override.Mode); ok && ev.Override.Mode != "" {
		mode = given
	}
	// A second grant adds up with the first (decision 62).
	limit := e.setting(r, f, m) // with what was granted before
	n := 0
	for _, o := range f.overrides {
		if o.rule != r && o.expires > m.at {
			f.overrides[n] = o
			n++
		}
	}
	// The oldest gives way. Overrides are a person's, so there are few.
	if f.overrides = f.overrides[:n]; n == maxOverrides {
		f.overrides = f.overrides[:copy(f.overrides, f.overrides[1:])]
	}
	f.endIncident(r)
	own := flowOverride{rule: r, mode: mode, warn: ev.Override.Warn, stop: ev.Override.Stop, given: m.at, expires: ev.Override.Expires}
	if ev.Override.Extra > 0 {
		most := e.granted(f, m, r, ev.Override.Extra, limit)
		fx.Counts.By(Rules[r].Reason.Place()).Granted++
		// No warning before it: who was granted twenty calls is not warned at the first.
		own.warn, own.stop, own.more = events.Optional{Set: true, Value: most}, events.Optional{Set: true, Value: most}, true
	}
	f.overrides = append(f.overrides, own)
	// Its deadline is worked out from what it has said.
	if r == ruleOfAge {
		f.aged = agedNot // it has another threshold to pass
	}
	for i := range f.orders {
		if f.orders[i].rule == r {
			// A version that no limits have, so that review does not pass over it.
			f.orders[i].Limits = ^e.version // to be looked at again
		}
	}
	e.review(f, m, fx)
	for i := len(f.orders) - 1; i >= 0; i-- { // what was hammered at is open again
		if f.orders[i].rule == ruleOfTries && mostDefied(f) == 0 {
			e.clear(f, &f.orders[i], m, fx)
		}
	}
}
