package analyzer

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer/ledger"
	"weir/analyzer/rules"
	"weir/analyzer/standing"
	"weir/events"
)

// A tree is a flow and all that descend from it. Each flow of it tells the stage that folds
// agents what it has spent since it told last, under the key of the root; there the sum is
// held against the limits. A call that is asked for is judged there last, after its flow has
// allowed it, because only there all flows of the tree meet.
//
// A flow that names its parent alone tells that one's tree. Where the parent has a parent in
// turn, it has told so under its own key, and what comes there is passed on to the tree above.

// TreeKey is the key under which the ledger of a tree is kept; empty for none.
func TreeKey(root string) string {
	if root == "" {
		return ""
	}
	return treePrefix + root
}

// join notes to which tree the flow belongs, the first time that it is told, and what it had
// spent before the event at hand: all that it spends before it is known to belong to a tree
// is told at that moment. With each episode the flow tells those that descend from it, under
// its own key, to which tree they belong.
func (e *Engine) join(f *Flow, m *moment, began bool, fx *Effects) {
	if f.root != "" {
		m.before = f.spent()
	} else {
		f.root = m.ev.Root()
		if p := m.ev.ParentCorrelationID; p != f.root && p != f.key {
			f.parent = p
		}
		began, m.joins = f.root != "", f.root != ""
	}
	if !began || f.root == "" || m.ev.CorrelationSource == events.CorrelationPrincipal {
		return
	}
	e.belong(f, f.key, m, fx)
	if m.ev.CorrelationSource == events.CorrelationPrompt {
		e.belong(f, m.ev.ConversationID, m, fx) // of a session that opens another one no more is known there
	}
}

// belong says under a name by which others know the flow to which tree it belongs.
func (e *Engine) belong(f *Flow, name string, m *moment, fx *Effects) {
	if name != "" && name != f.root {
		a := fx.sayTo(treePrefix, name, m.ev, m.when)
		a.Kind, a.AgentState, a.RootCorrelationID = events.AgentActivity, fx.said.state(WorkBelongs), f.root
	}
}

// treeOf is the root of the tree of the flow, which may be the flow itself.
func (f *Flow) treeOf() string {
	if f.root != "" {
		return f.root
	}
	return f.key
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
	if n == (ledger.Amount{}) && status == WorkSpent && !asks && !m.joins {
		return // whoever joins is a child for which a share is set aside, from then on
	}
	f.saySpent(ev, m.when, status, n, asks, fx)
	fx.Asked = asks
}

// passAgain asks the tree about a call that was asked for before, as when the answer was lost.
func (f *Flow) passAgain(ev *events.Event, fx *Effects) {
	f.saySpent(ev, f.clock, WorkSpent, ledger.Amount{ledger.Calls: 1}, true, fx)
	fx.Asked = true
}

func (f *Flow) saySpent(ev *events.Event, when events.Stamp, status string, n ledger.Amount, asks bool, fx *Effects) {
	a := fx.saySpent(f.root, ev, when, status, n)
	a.CorrelationID, a.ParentCorrelationID, a.Ask = f.key, f.parent, asks
}

func (fx *Effects) saySpent(root string, ev *events.Event, when events.Stamp, status string, n ledger.Amount) *events.Event {
	a := fx.sayTo(treePrefix, root, ev, when)
	a.Kind, a.AgentState = events.AgentActivity, fx.said.state(status)
	a.SampledRate, a.Tell = ev.SampledRate, ev.Tell
	a.Work = events.Work{Known: n[ledger.Calls] > 0, ToolCalls: n[ledger.Calls]}
	a.Usage = events.Usage{Known: n[ledger.Tokens]+n[ledger.Cost] > 0, Total: n[ledger.Tokens], CostMicroUSD: n[ledger.Cost]}
	return a
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
	c.spends = spentBy(ev)
	return c
}

func spentBy(ev *events.Event) ledger.Amount {
	return ledger.Amount{ledger.Calls: ev.Work.ToolCalls, ledger.Tokens: ev.Usage.Total, ledger.Cost: ev.Usage.CostMicroUSD}
}

// maxPassed is through how many trees something is passed on.
const maxPassed = 16

// belongs notes that the flow of the key belongs to a tree itself, and passes on what was
// counted here before that was known, as spent by that flow.
func (e *Engine) belongs(a *Agent, m *agentMoment, fx *Effects) {
	e.heardOfTree(a, m, fx)
	root, l := m.ev.RootCorrelationID, &a.tree
	if m.ev.Sequence > 0 && a.within != "" && a.within != a.name() {
		a.within = root // further up, see shorten
	}
	if a.within != "" || root == "" || root == a.name() {
		return
	}
	a.within = root
	e.clearTree(a, m, fx)
	if l.Spent != (ledger.Amount{}) {
		up := fx.saySpent(root, m.ev, m.when, WorkSpent, l.Spent)
		up.CorrelationID, up.TaskID, up.Sequence = a.name(), a.name(), 1
		up.ID = "before:" + up.ID // the event itself may have spent something as well
	}
	l.Begin(l.Start)
}

// passUp passes on to the tree above what concerns the tree, where there is one; that has the
// last word on what is asked for.
func (a *Agent) passUp(m *agentMoment, fx *Effects) bool {
	ev := m.ev
	if ev.Sequence > 0 && ev.TaskID == a.name() {
		a.within = a.name() // it came back: of flows that name each other in a circle the first by name is the root
	}
	if a.within == "" || a.within == a.name() || ev.Sequence >= maxPassed {
		return false
	}
	up := fx.sayTo(treePrefix, a.within, ev, m.when)
	*up = *ev
	up.Time, up.Sequence = m.when, ev.Sequence+1
	if up.TaskID == "" || a.name() < up.TaskID {
		up.TaskID = a.name() // the first by name of those that it was passed on by
	}
	if up.ParentCorrelationID == "" && up.CorrelationID != a.name() {
		up.ParentCorrelationID = a.name()
	}
	fx.Asked = ev.Ask
	return true
}

// shorten tells the tree that what is at hand came through first to pass on directly to this one:
// of a long line of flows, each of which names the one before, as of a run that is begun anew
// again and again, each would else be further away than anything is passed on.
func (a *Agent) shorten(ev *events.Event, when events.Stamp, fx *Effects) {
	if first := ev.ParentCorrelationID; ev.Sequence > 1 && first != "" && first != a.name() {
		to := fx.sayTo(treePrefix, first, ev, when)
		to.Kind, to.AgentState, to.RootCorrelationID, to.Sequence = events.AgentActivity, fx.said.state(WorkBelongs), a.name(), ev.Sequence
	}
}

// clearTree takes back what stands.
func (e *Engine) clearTree(a *Agent, m *agentMoment, fx *Effects) {
	for len(a.orders) > 0 {
		o := &a.orders[0]
		if o.Phase > standing.Warn && o.Expires > m.at {
			o.Action = events.Allow
			e.tell(a, m, o.finding(), fx)
		}
		a.dropOrder(o)
	}
}

// heardOfTree begins the tree anew after silence, or at the greatest age: then its budget is
// whole again, as that of a flow is.
func (e *Engine) heardOfTree(a *Agent, m *agentMoment, fx *Effects) {
	l := &a.tree
	idle := events.Stamp(e.limits.Flow.Idle.Milliseconds())
	if !l.Began() || (m.at-l.Last > idle || m.at.Sub(l.Start) > e.limits.Flow.MaxAge) && !e.treeWaits(a, m.at) {
		e.clearTree(a, m, fx)
		l.Begin(m.at)
	}
	l.Last = m.at
	l.Forget(m.at - idle)
}

// spend folds what a flow of the tree spent, or asks whether it may.
func (e *Engine) spend(a *Agent, m *agentMoment, fx *Effects) {
	l, ev := &a.tree, m.ev
	e.heardOfTree(a, m, fx)
	if a.passUp(m, fx) {
		return
	}
	a.shorten(ev, m.when, fx)
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
	if ev.Sequence > 0 && !ev.Ask {
		e.bindFlow(a, c, m, fx)
	}
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
	rule, set := &AgentRules[r], e.agentSetting(r, a, m.at)
	t := tally{n: a.treeValue(rule.Counts, call, m.at), ends: a.treeEnds(e)}
	if rule.Counts != CountedTreeDepth && rule.Counts != CountedTreeChildren {
		e.judgeAgent(r, a, m, &t, fx)
		return
	}
	// These are about one flow. That the limit is near is told of the tree.
	over := t.n >= set.Stop && c != nil && set.Mode != rules.ModeWarn && e.limits.WarnOnly>>m.ev.CorrelationSource&1 == 0
	if over && rule.Counts == CountedTreeChildren && a.tree.Before(c)+1 < set.Stop {
		over = false // it is one of those for which there was room
	}
	if over && (c.Told == 0 || m.at >= c.Told) {
		x := e.treeFinding(r, a, t.n, m)
		e.tell(a, m, x, fx)
		c.Told = x.Expires
	}
	if t.n = min(t.n, set.Stop-1); t.n > 0 {
		e.judgeAgent(r, a, m, &t, fx)
	}
}

// treeEnds is when the tree is over if nothing more comes.
func (a *Agent) treeEnds(e *Engine) events.Stamp { return a.tree.Last.Add(e.limits.Flow.Idle) + 1 }

// boundFor is for how long a flow that names its parent alone is told of an order about the
// tree above: it may not know that an order which was taken back was about it.
const boundFor events.Stamp = 60_000

// bindFlow tells a flow that came through another tree, and so knows nothing of this one, of
// an order that refuses its calls.
func (e *Engine) bindFlow(a *Agent, c *ledger.Child, m *agentMoment, fx *Effects) {
	for i := range a.orders {
		o := &a.orders[i]
		if c == nil || !o.Binds() || o.Expires <= m.at || c.Told > m.at {
			continue
		}
		x := o.finding()
		x.flow, x.group = m.ev.CorrelationID, string(AgentRules[o.rule].Reason)+"\x00"+m.ev.CorrelationID
		x.Phase, x.Since, x.Begun = standing.Stop, m.at, m.at
		x.Until(m.at, min(o.Expires, m.at+boundFor))
		e.tell(a, m, x, fx)
		c.Told = x.Expires
	}
}

// shareAgain is after how long a flow for which there was no room may ask again: another may
// have ended by then.
const shareAgain events.Stamp = 10_000

// treeFinding says to one flow that the tree has no room for it.
func (e *Engine) treeFinding(r AgentRuleID, a *Agent, observed int64, m *agentMoment) *finding {
	rule, set := &AgentRules[r], e.agentSetting(r, a, m.at)
	x := &finding{rule: r, flow: m.ev.CorrelationID, group: string(rule.Reason) + "\x00" + m.ev.CorrelationID}
	action := rule.Action
	if rule.Shares {
		action = events.Throttle // what others do not use comes back
	}
	x.Give(standing.Stop, action, &set, observed, m.at)
	x.Since = m.at
	end := m.at.Add(e.limits.Order.TTL)
	if action == events.Throttle {
		end = m.at + shareAgain
		if freed := a.tree.Freed(events.Stamp(e.limits.Flow.Idle.Milliseconds())); freed > m.at {
			end = min(end, freed)
		}
	}
	x.Until(m.at, end)
	return x
}

// treeRefuses returns why the tree refuses the call that is asked for; nil when it does not.
func (e *Engine) treeRefuses(a *Agent, call *treeCall, m *agentMoment, fx *Effects) *events.Verdict {
	for i := range a.orders {
		o := &a.orders[i]
		if !o.refuses(events.Halt, m.at) && !o.refuses(events.Hold, m.at) {
			continue
		}
		if o.Action == events.Hold && o.Phase == standing.Armed {
			e.holdTree(a, o, m, fx)
		}
		if !o.Early(m.when, true, e.limits.Order.Grace) {
			o.Attempt()
		}
		told := *o
		if told.Phase == standing.Armed {
			told.Phase = standing.Stop
			if rules.OneByOne(AgentRules[o.rule].Unit) {
				told.Observed++
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
		rule, set := &AgentRules[r], e.agentSetting(r, a, m.at)
		if !rule.Counts.OfTree() || !e.countsAgents(r) || set.Mode != rules.ModeEnforce || set.Stop == rules.Off {
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
			if spent := l.Spent[of] + needs; spent >= set.Stop { // as after a grant has expired: nothing stands
				e.judgeAgent(r, a, m, &tally{n: spent, ends: a.treeEnds(e)}, fx)
				if o := a.orderFor(rule.Reason); o != nil && o.Binds() {
					v := e.agentVerdict(a, m, o.finding())
					return &v
				}
			}
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
		rule, set := &AgentRules[r], e.agentSetting(r, a, m.at)
		if !rule.Counts.OfTree() || !rule.Tells || !e.countsAgents(r) || set.Mode != rules.ModeEnforce || set.Stop == rules.Off {
			continue
		}
		left := set.Limit() - a.treeValue(rule.Counts, nil, m.at)
		if !set.Max && rules.OneByOne(rule.Unit) {
			left-- // the call that reaches a stop is refused
		}
		left = max(0, left)
		unit := rules.InUnit(rule.Unit)
		is := events.Remaining{RuleID: rule.Name, Left: float64(left) / unit, Limit: float64(set.Limit()) / unit, Unit: rule.Unit}
		v.Remaining = append(v.Remaining, is)
		if left <= set.Tell && set.Tell != 0 {
			few = append(few, is)
		}
	}
	if len(few) > 0 {
		v.AgentMessage = standing.WrapUp(few)
	}
	return v
}

// A tree that waits for a person, and what one grants it.

// treeGrant is what a person has granted a tree of what a row counts.
type treeGrant struct {
	rule    AgentRuleID
	most    int64 // as limits say max, or stop where they say that
	expires events.Stamp
}

// maxTreeGrants is how many grants stand at one time: one for each row about trees.
const maxTreeGrants = 6

// agentSetting is the setting of the row, with what a person has granted.
func (e *Engine) agentSetting(r AgentRuleID, a *Agent, at events.Stamp) rules.Setting {
	set := e.limits.Agents.Rules[r]
	for i := range a.grants {
		if g := &a.grants[i]; g.rule == r && at < g.expires {
			set.Warn, set.Stop = g.most, g.most
			if set.Max && g.most != rules.Off {
				set.Stop++
			}
		}
	}
	return set
}

// grantTree gives the tree so much more of what the row counts than its limit, or than what it
// has spent where that is more, and takes back what stands because of it.
func (e *Engine) grantTree(a *Agent, m *agentMoment, fx *Effects) {
	e.heardOfTree(a, m, fx)
	if a.passUp(m, fx) {
		return
	}
	r, ok := agentRuleNamed(m.ev.Override.Rule)
	if !ok || !AgentRules[r].Counts.OfTree() || m.ev.Override.Extra <= 0 {
		return
	}
	set := e.agentSetting(r, a, m.at)
	if set.Stop == rules.Off {
		return
	}
	used := a.treeValue(AgentRules[r].Counts, nil, m.at)
	if !set.Max && rules.OneByOne(AgentRules[r].Unit) {
		used++
	}
	g := treeGrant{rule: r, most: rules.Off, expires: m.ev.Override.Expires}
	if most := max(set.Limit(), used); most < rules.Off-m.ev.Override.Extra {
		g.most = most + m.ev.Override.Extra
	}
	a.grants = slices.DeleteFunc(a.grants, func(o treeGrant) bool { return o.rule == r || o.expires <= m.at })
	a.grants = append(a.grants, g)
	fx.Counts.GrantedAgents[r]++
	for i := len(a.orders) - 1; i >= 0; i-- {
		o := &a.orders[i]
		if o.rule != r {
			continue
		}
		if o.Action == events.Hold && o.Phase == standing.Stop { // time stood still
			a.tree.Start += m.at - o.Begun
		}
		if o.Phase > standing.Warn {
			o.Action = events.Allow
			e.tell(a, m, o.finding(), fx)
		}
		a.dropOrder(o)
	}
}

// releaseTree takes back what stands against the tree, because a person said so.
func (e *Engine) releaseTree(a *Agent, m *agentMoment, fx *Effects) {
	e.heardOfTree(a, m, fx)
	if a.passUp(m, fx) {
		return
	}
	e.clearTree(a, m, fx)
	a.grants = a.grants[:0]
	if m.ev.Operator.For <= 0 {
		return
	}
	for r := range AgentRuleCount {
		if AgentRules[r].Counts.OfTree() && !e.limits.Agents.Rules[r].Mute() {
			a.grants = append(a.grants, treeGrant{r, rules.Off, m.at.Add(m.ev.Operator.For)})
		}
	}
}

// holdTree has the tree wait from now on because of an order that held it from its next call
// on, which is this one: asked for, it was not made.
func (e *Engine) holdTree(a *Agent, o *agentOrder, m *agentMoment, fx *Effects) {
	o.Phase, o.Begun = standing.Stop, m.at
	if rules.OneByOne(AgentRules[o.rule].Unit) {
		o.Observed++
	}
	e.issueAgent(a, o, m, 0, fx)
}

// treeWaits reports whether the tree waits for a person, or is halted because nobody came:
// silence brings it no new budget then.
func (e *Engine) treeWaits(a *Agent, at events.Stamp) bool {
	for i := range a.orders {
		o := &a.orders[i]
		if o.Phase == standing.Stop && !o.Shadow && o.Expires > at && (o.Action == events.Hold || o.lapsed(e)) {
			return true
		}
	}
	return false
}

// lapsed reports whether nobody has decided in time about a tree that waited.
func (o *agentOrder) lapsed(e *Engine) bool {
	return o.Action == events.Halt && o.Phase == standing.Stop && e.limits.Agents.Rules[o.rule].Hold
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
