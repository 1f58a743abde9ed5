package analyzer

import (
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer/ledger"
	"weir/events"
)

// A tree is a flow and all that descend from it. Each flow of it tells the stage that folds
// agents what it has spent since it told last, under the key of the root; there the sum is
// held against the limits. A call that is asked for is judged there last, after its flow has
// allowed it, because only there all flows of the tree meet.

// TreeKey is the key under which the ledger of a tree is kept; empty for none.
func TreeKey(root string) string {
	if root == "" {
		return ""
	}
	return treePrefix + root
}

// join notes to which tree the flow belongs, the first time that it is told, and what it had
// spent before the event at hand: all that it spends before it is known to belong to a tree
// is told at that moment.
func (e *Engine) join(f *Flow, m *moment) {
	if f.root != "" {
		m.before = f.spent()
		return
	}
	f.root = m.ev.Root()
	if p := m.ev.ParentCorrelationID; p != f.root && p != f.key {
		f.parent = p
	}
}

// spent is what the flow has spent in this episode.
func (f *Flow) spent() ledger.Amount {
	return ledger.Amount{ledger.Calls: int64(f.hops) + int64(f.toolCalls), ledger.Tokens: f.tokens[2], ledger.Cost: f.cost}
}

// passSpent tells the tree what the flow spent by the event, or that it asks, or ended. The
// answer to an ask is given by the tree then.
func (e *Engine) passSpent(f *Flow, m *moment, fx *Effects) {
	ev := m.ev
	if ev.CorrelationSource == events.CorrelationPrincipal {
		return // it is counted in the flow that its caller names
	}
	n := f.spent()
	for i := range n {
		n[i] -= m.before[i]
	}
	status := WorkSpent
	if ev.Kind == events.FlowEnd || ev.Kind == events.AgentReturn && m.to == none {
		status = WorkEnded
	}
	asks := ev.Ask && !m.user && ev.Kind.Asked()
	if n == (ledger.Amount{}) && status == WorkSpent && !asks {
		return
	}
	f.saySpent(ev, m.when, status, n, fx)
	fx.Activity[len(fx.Activity)-1].Event.Ask, fx.Asked = asks, asks
}

// passAgain asks the tree about a call that was asked for before, as when the answer was lost.
func (f *Flow) passAgain(ev *events.Event, fx *Effects) {
	f.saySpent(ev, f.clock, WorkSpent, ledger.Amount{ledger.Calls: 1}, fx)
	fx.Activity[len(fx.Activity)-1].Event.Ask, fx.Asked = true, true
}

func (f *Flow) saySpent(ev *events.Event, when events.Stamp, status string, n ledger.Amount, fx *Effects) {
	a := fx.sayTo(treePrefix, f.root, ev, when)
	a.Kind, a.AgentState = events.AgentActivity, fx.said.state(status)
	a.CorrelationID, a.ParentCorrelationID = f.key, f.parent
	a.SampledRate, a.Tell = ev.SampledRate, ev.Tell
	a.Work = events.Work{Known: n[ledger.Calls] > 0, ToolCalls: n[ledger.Calls]}
	a.Usage = events.Usage{Known: n[ledger.Tokens]+n[ledger.Cost] > 0, Total: n[ledger.Tokens], CostMicroUSD: n[ledger.Cost]}
}

// A tree in the stage of agents.

func (a *Agent) isTree() bool { return strings.HasPrefix(a.key, treePrefix) }

// treeCall is a flow of the tree and what it spends, or asks to spend.
type treeCall struct {
	flow, parent uint64 // hashes; the parent is 0 when it is the root, or nobody told
	root         bool   // it is the flow of the root
	spends       ledger.Amount
}

func (a *Agent) treeCallOf(ev *events.Event) (c treeCall) {
	c.flow, c.root = xxhash.Sum64String(ev.CorrelationID), ev.CorrelationID == a.name()
	if ev.ParentCorrelationID != "" {
		c.parent = xxhash.Sum64String(ev.ParentCorrelationID)
	}
	c.spends = ledger.Amount{ledger.Calls: ev.Work.ToolCalls, ledger.Tokens: ev.Usage.Total, ledger.Cost: ev.Usage.CostMicroUSD}
	return c
}

// heardOfTree begins the tree anew after silence, or at the greatest age: then its budget is
// whole again, as that of a flow is.
func (e *Engine) heardOfTree(a *Agent, m *agentMoment, fx *Effects) {
	l := &a.tree
	idle := events.Stamp(e.limits.Flow.Idle.Milliseconds())
	if !l.Began() || m.at-l.Last > idle || m.at.Sub(l.Start) > e.limits.Flow.MaxAge {
		for len(a.orders) > 0 {
			o := &a.orders[0]
			if o.phase > phaseWarn && o.expires > m.at {
				o.action = events.Allow
				e.tell(a, m, o.finding(), fx)
			}
			a.dropOrder(o)
		}
		l.Begin(m.at)
	}
	l.Last = m.at
	l.Forget(m.at - idle)
}

// spend folds what a flow of the tree spent, or asks whether it may.
func (e *Engine) spend(a *Agent, m *agentMoment, fx *Effects) {
	l, ev := &a.tree, m.ev
	e.heardOfTree(a, m, fx)
	call := a.treeCallOf(ev)
	if ev.Ask {
		if a.repeats(ev) { // it was allowed, and its answer was lost
			fx.Counts.Duplicates++
			fx.Answer = e.treeAllows(a, m)
			return
		}
		if fx.Answer = e.treeRefuses(a, &call, m, fx); fx.Answer != nil {
			a.ids = a.ids[:len(a.ids)-1] // who asks again asks anew
			fx.Counts.Refused++
			fx.Counts.Attempts++
			return
		}
	} else if call.spends[ledger.Calls] > 0 {
		e.defiedAgent(a, m, fx)
	}
	var c *ledger.Child
	if !call.root {
		c = l.Hear(call.flow, call.parent, m.when)
	}
	l.Spend(c, call.spends)
	for r := range AgentRuleCount {
		if AgentRules[r].Counts.OfTree() && e.countsAgents(r) {
			e.judgeTree(r, a, c, &call, m, fx)
		}
	}
	if work(ev) == WorkEnded {
		l.End(call.flow)
	}
	if ev.Ask {
		fx.Answer = e.treeAllows(a, m)
	}
}

// treeValue is what the row measures; of the flow at hand where the row is about one.
func (a *Agent) treeValue(counts Counted, call *treeCall, at events.Stamp) int64 {
	switch counts {
	case CountedTreeCalls, CountedTreeTokens, CountedTreeCost:
		return a.tree.Spent[amountOf(counts)]
	case CountedTreeAge:
		return int64(max(0, at.Sub(a.tree.Start)).Seconds())
	case CountedTreeDepth:
		if call != nil && !call.root {
			return a.tree.Depth(call.flow, call.parent)
		}
		return 0
	}
	return a.tree.Living()
}

// amountOf is the place of what the row counts in a ledger.
func amountOf(counts Counted) int { return int(counts - CountedTreeCalls) }

// judgeTree holds what the row measures against its limit, after the flow was heard of.
func (e *Engine) judgeTree(r AgentRuleID, a *Agent, c *ledger.Child, call *treeCall, m *agentMoment, fx *Effects) {
	rule, set := &AgentRules[r], &e.limits.Agents.Rules[r]
	t := tally{n: a.treeValue(rule.Counts, call, m.at), ends: a.treeEnds(e)}
	if rule.Counts != CountedTreeDepth && rule.Counts != CountedTreeChildren {
		e.judgeAgent(r, a, m, &t, fx)
		return
	}
	// These are about one flow. That the limit is near is told of the tree.
	over := t.n >= set.Stop && c != nil && set.Mode != ModeWarn && e.limits.WarnOnly>>m.ev.CorrelationSource&1 == 0
	if over && rule.Counts == CountedTreeChildren && a.tree.Before(c)+1 < set.Stop {
		over = false // it is one of those for which there was room
	}
	if over && (c.Told == 0 || m.at >= c.Told) {
		x := e.treeFinding(r, a, t.n, m)
		e.tell(a, m, x, fx)
		c.Told = x.expires
	}
	if t.n = min(t.n, set.Stop-1); t.n > 0 {
		e.judgeAgent(r, a, m, &t, fx)
	}
}

// treeEnds is when the tree is over if nothing more comes.
func (a *Agent) treeEnds(e *Engine) events.Stamp { return a.tree.Last.Add(e.limits.Flow.Idle) + 1 }

// shareAgain is after how long a flow for which there was no room may ask again: another may
// have ended by then.
const shareAgain events.Stamp = 10_000

// treeFinding says to one flow that the tree has no room for it.
func (e *Engine) treeFinding(r AgentRuleID, a *Agent, observed int64, m *agentMoment) *finding {
	rule, set := &AgentRules[r], &e.limits.Agents.Rules[r]
	x := &finding{rule: r, flow: m.ev.CorrelationID, group: string(rule.Reason) + "\x00" + m.ev.CorrelationID}
	action := rule.Action
	if rule.Shares {
		action = events.Throttle // what others do not use comes back
	}
	x.give(phaseStop, action, set, observed, m.at)
	x.since = m.at
	end := m.at.Add(e.limits.Order.TTL)
	if action == events.Throttle {
		end = m.at + shareAgain
		if freed := a.tree.Freed(events.Stamp(e.limits.Flow.Idle.Milliseconds())); freed > m.at {
			end = min(end, freed)
		}
	}
	x.until(m.at, end)
	return x
}

// treeRefuses returns why the tree refuses the call that is asked for; nil when it does not.
func (e *Engine) treeRefuses(a *Agent, call *treeCall, m *agentMoment, fx *Effects) *events.Verdict {
	for i := range a.orders {
		o := &a.orders[i]
		if !o.refuses(events.Halt, m.at) {
			continue
		}
		if !o.early(m.when, true, e.limits.Order.Grace) {
			o.attempt()
		}
		told := *o
		if told.phase == phaseArmed {
			told.phase = phaseStop
			if counted(AgentRules[o.rule].Unit) {
				told.observed++
			}
		}
		v := e.agentVerdict(a, m, told.finding())
		return &v
	}
	if e.limits.WarnOnly>>m.ev.CorrelationSource&1 != 0 {
		return nil
	}
	l := &a.tree
	own := l.Child(call.flow)
	for r := range AgentRuleCount {
		rule, set := &AgentRules[r], &e.limits.Agents.Rules[r]
		if !rule.Counts.OfTree() || !e.countsAgents(r) || set.Mode != ModeEnforce || set.Stop == Off {
			continue
		}
		var would int64
		switch rule.Counts {
		case CountedTreeAge:
			continue // an order tells when it is over
		case CountedTreeDepth:
			would = a.treeValue(rule.Counts, call, m.at)
		case CountedTreeChildren:
			if own != nil || call.root {
				continue
			}
			would = l.Living() + 1
		default:
			// What a call will take of tokens and money is not known before it is made: then there
			// has to be something left.
			of := amountOf(rule.Counts)
			needs := max(1, call.spends[of])
			if own != nil && own.Spent[of]+needs <= set.Reserve {
				continue // it was set aside
			}
			if own == nil && !call.root {
				needs = max(needs, set.Reserve)
			}
			would = l.Spent[of] + l.Reserved(of, set.Reserve, call.flow) + needs
		}
		if would >= set.Stop {
			x := e.treeFinding(r, a, would, m)
			e.tell(a, m, x, fx)
			v := fx.Verdicts[len(fx.Verdicts)-1]
			return &v
		}
	}
	return nil
}

// treeAllows is the answer to a call that nothing is said against, with what is left in the
// tree.
func (e *Engine) treeAllows(a *Agent, m *agentMoment) *events.Verdict {
	v := &events.Verdict{SchemaVersion: 1, ID: strconv.FormatUint(xxhash.Sum64String(a.key+"\x00"+m.ev.ID), 16), Time: events.RFC3339(m.at),
		Mode: events.ModeEnforce, Scope: events.Scope{Kind: events.ScopeTree, ID: strings.Clone(a.name())}, Action: events.Allow,
		Reason: Allowed, ConfigVersion: e.limits.Version, CorrelationID: strings.Clone(m.ev.CorrelationID), RootCorrelationID: strings.Clone(a.name())}
	if !m.ev.Tell && !e.agents.tells {
		return v
	}
	var few []events.Remaining
	for r := range AgentRuleCount {
		rule, set := &AgentRules[r], &e.limits.Agents.Rules[r]
		if !rule.Counts.OfTree() || !rule.Tells || !e.countsAgents(r) || set.Mode != ModeEnforce || set.Stop == Off {
			continue
		}
		left := set.Limit() - a.treeValue(rule.Counts, nil, m.at)
		if !set.Max && counted(rule.Unit) {
			left-- // the call that reaches a stop is refused
		}
		left = max(0, left)
		unit := inUnit(rule.Unit)
		is := events.Remaining{RuleID: rule.Name, Left: float64(left) / unit, Limit: float64(set.Limit()) / unit, Unit: rule.Unit}
		v.Remaining = append(v.Remaining, is)
		if left <= set.Tell && set.Tell != 0 {
			few = append(few, is)
		}
	}
	if len(few) > 0 {
		v.AgentMessage = wrapUp(few)
	}
	return v
}

// LastWord is the answer to an ask that the flow has allowed, when its tree has answered as
// well; nil for a tree that said nothing.
func LastWord(flow, tree *events.Verdict) *events.Verdict {
	if tree == nil {
		return flow
	}
	if tree.Stops() {
		v := *tree
		v.CorrelationID = flow.CorrelationID
		return &v
	}
	v := *flow
	v.Remaining = append(v.Remaining[:len(v.Remaining):len(v.Remaining)], tree.Remaining...)
	switch {
	case v.AgentMessage == "":
		v.AgentMessage = tree.AgentMessage
	case tree.AgentMessage != "":
		v.AgentMessage += " " + tree.AgentMessage
	}
	return &v
}
