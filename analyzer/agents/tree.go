package agents

import (
	"slices"
	"strconv"
	"strings"
	"weir/analyzer/activity"
	"weir/analyzer/ledger"
	"weir/analyzer/rules"
	"weir/analyzer/standing"
	"weir/events"

	"github.com/cespare/xxhash/v2"
)

// A tree in the stage of agents.

// isTree reports by the key whether it is a tree, of which only the ledger, its orders and its
// grants are used.
func (a *subject) isTree() bool { return strings.HasPrefix(a.key, activity.TreePrefix) }

// treeCall is a flow of the tree and what it spends, or asks to spend.
type treeCall struct {
	flow, parent uint64 // hashes; the parent is 0 when it is the root, or is not reported
	root         bool   // it is the flow of the root
	spends       ledger.Amount
}

// treeCallOf is what a report says of a flow of the tree.
func (a *Agent) treeCallOf(r *activity.TreeReport) (c treeCall) {
	c.flow, c.root, c.spends = xxhash.Sum64String(r.Flow), r.Flow == a.name(), r.Spends
	if r.Parent != "" {
		c.parent = xxhash.Sum64String(r.Parent)
	}
	return c
}

// Spends is what a flow reports to its tree by the event, as spent or as a request to spend. It is
// false for an event that reports neither.
func Spends(ev *events.Event) (ledger.Amount, bool) {
	r := activity.TreeReportOf(ev)
	if ev.Kind != events.AgentActivity || r.Work != activity.WorkSpent && r.Work != activity.WorkEnded {
		return ledger.Amount{}, false
	}
	return r.Spends, true
}

// TreeJudged returns the reasons for which the tree is warned and stopped now; "" for none. It is also
// "" for an agent that is no tree, and for a tree that passes on all reports.
func (a *Agent) TreeJudged() (warned, stopped events.Reason) {
	if !a.isTree() {
		return "", ""
	}
	for i := range a.orders {
		o := &a.orders[i]
		reason := Rules[o.rule].Reason
		switch {
		case o.Shadow:
		case o.Phase == standing.Stop && stopped == "":
			stopped = reason
		case warned == "":
			warned = reason
		}
	}
	return warned, stopped
}

// maxPassed is through how many trees something is passed on.
// It bounds what a circle of names, or a line of thousands,
// can make of one event.
const maxPassed = 16

// belongs notes that the flow of the key belongs to a tree itself. It passes on what was counted
// here before that was known, as spent by that flow. It leaves out what the flow reports to that
// tree itself.
// The ledger here begins anew then, so that nothing counts in two trees.
func (e *treeJudge) belongs(a *Agent, m *moment, fx *activity.Effects) {
	e.heardOfTree(a, m, fx)
	r, l := activity.TreeReportOf(m.ev), &a.tree
	if r.Hops > 0 && a.within != "" && a.within != a.name() {
		a.within = r.Root // further up, see shorten
	}
	if a.within != "" || r.Root == "" || r.Root == a.name() {
		return
	}
	a.within = r.Root
	// What stood here was about sums that the tree above holds now.
	e.clearTree(a, m, fx)
	left := l.Spent
	for i, moved := range r.Spends {
		left[i] = max(0, left[i]-moved)
	}
	if left != (ledger.Amount{}) {
		up := fx.SayTree(r.Root, m.ev, m.when, activity.TreeReport{Work: activity.WorkSpent, Flow: a.name(), First: a.name(), Hops: 1, Spends: left})
		up.SampledRate, up.Tell = m.ev.SampledRate, m.ev.Tell
		up.ID = "before:" + up.ID // the event itself may have spent something as well
	}
	l.Begin(l.Start)
}

// Trees returns a tree and those above it whose orders bind its flows, as many as the fold passes
// on to; none for "". above says which tree the one at hand passes on to, "" for none.
func Trees(root string, above func(tree string) (string, error)) (trees []string, err error) {
	for tree := root; tree != "" && !slices.Contains(trees, tree) && len(trees) < maxPassed; {
		trees = append(trees, tree)
		if tree, err = above(tree); err != nil {
			return nil, err
		}
	}
	return trees, nil
}

// TreeAbove is the root of the tree that the tree passes on to; "" where it is judged itself.
func (a *Agent) TreeAbove() string {
	if a.within == a.name() {
		return ""
	}
	return strings.Clone(a.within)
}

// passUp passes on to the tree above, where there is one, what concerns the tree. The tree above then
// decides about check requests.
// It returns false for a tree that is a root, or where the line is too long: then it is judged
// here.
func (a *Agent) passUp(m *moment, fx *activity.Effects) bool {
	ev, r := m.ev, activity.TreeReportOf(m.ev)
	if r.Hops > 0 && r.First == a.name() {
		a.within = a.name() // it came back: of flows that name each other in a circle the first by name is the root
	}
	if a.within == "" || a.within == a.name() || r.Hops >= maxPassed {
		return false
	}
	up := fx.SayTo(activity.TreePrefix, a.within, ev, m.when)
	*up = *ev
	up.Time = m.when
	r.Hops++
	if r.First == "" || a.name() < r.First {
		r.First = a.name()
	}
	if r.Parent == "" && r.Flow != a.name() {
		r.Parent = a.name()
	}
	r.PutRoute(up)
	// The pump goes on asking until a tree gives an answer.
	fx.Asked = ev.Ask
	return true
}

// shorten asks the tree that the event came through first to pass on directly to this one. In a long
// line of flows each names the one before, as in a run that is begun anew again and again. Without it,
// each further flow would be further away than anything is passed on.
func (a *Agent) shorten(ev *events.Event, r *activity.TreeReport, when events.Stamp, fx *activity.Effects) {
	if r.Hops > 1 && r.Parent != "" && r.Parent != a.name() {
		fx.SayTree(r.Parent, ev, when, activity.TreeReport{Work: activity.WorkBelongs, Flow: r.Flow, Root: a.name(), Hops: r.Hops})
	}
}

// clearTree takes back what stands.
// Each order that bound anybody is lifted by a verdict.
func (e *treeJudge) clearTree(a *Agent, m *moment, fx *activity.Effects) {
	for len(a.orders) > 0 {
		o := &a.orders[0]
		if o.Phase > standing.Warn && o.Expires > m.at {
			o.Action = events.Allow
			e.publish(a, m, o.finding(), fx)
		}
		a.dropOrder(o)
	}
}

// heardOfTree begins the tree anew after silence, or at the greatest age: then its budget is
// whole again, as that of a flow is.
// Children that were silent as long are forgotten with their shares. A tree that waits for a
// person does not begin anew.
func (e *treeJudge) heardOfTree(a *Agent, m *moment, fx *activity.Effects) {
	l := &a.tree
	idle := events.Stamp(e.terms.Idle.Milliseconds())
	if !l.Began() || (m.at-l.Last > idle || m.at.Sub(l.Start) > e.terms.MaxAge) && !e.treeWaits(a, m.at) {
		e.clearTree(a, m, fx)
		l.Begin(m.at)
	}
	l.Last = m.at
	// With them their shares come back.
	l.Forget(m.at - idle)
}

// spend folds what a flow of the tree spent, or asks whether it may.
// Asks of all flows of a tree come here one after the other, which is what makes a budget
// exact (decision 68). What was spent without an ask counts even when an order forbids it: it
// happened.
func (e *treeJudge) spend(a *Agent, m *moment, fx *activity.Effects) {
	l, ev := &a.tree, m.ev
	e.heardOfTree(a, m, fx)
	if a.passUp(m, fx) {
		return
	}
	r := activity.TreeReportOf(ev)
	a.shorten(ev, &r, m.when, fx)
	call := a.treeCallOf(&r)
	if ev.Ask {
		// Only check requests are remembered by id: deltas are reported once by their position in the log.
		if a.repeats(ev) { // it was allowed, and its answer was lost
			fx.Counts.Duplicates++
			fx.Answer = e.treeAllows(a, m)
			return
		}
		if fx.Answer = e.treeRefuses(a, &call, m, fx); fx.Answer != nil {
			a.ids = a.ids[:len(a.ids)-1] // a repeated request is a new one
			fx.Counts.Refused++
			fx.Counts.Attempts++
			withdraw(a, m, fx) // the budgets have allowed it before
			return
		}
	} else if call.spends[ledger.Calls] > 0 {
		e.defied(a, m, fx)
	}
	// Nil for the root itself, which has no share and is not counted as a child.
	var c *ledger.Child
	if !call.root {
		c = l.Hear(call.flow, call.parent, m.when)
	}
	l.Spend(c, call.spends)
	if r.Hops > 0 && !ev.Ask {
		e.bindFlow(a, c, m, fx)
	}
	for rule := range RuleCount {
		if Rules[rule].Counts.OfTree() && e.on(rule) {
			e.judgeTree(rule, a, c, &call, m, fx)
		}
	}
	if r.Work == activity.WorkEnded {
		l.End(call.flow)
	}
	if ev.Ask {
		fx.Answer = e.treeAllows(a, m)
	}
}

// treeValue is what the row measures; of the flow at hand where the row is about one.
// Calls, tokens and millionths of a dollar as the ledger sums them; seconds for the age.
func (a *Agent) treeValue(counts Counted, call *treeCall, at events.Stamp) int64 {
	switch counts {
	case CountedTreeCalls, CountedTreeTokens, CountedTreeCost:
		return a.tree.Spent[amountOf(counts)]
	case CountedTreeAge:
		return int64(max(0, at.Sub(a.tree.Start)).Seconds())
	case CountedTreeSpawns:
		return a.tree.Started
	case CountedTreeDepth:
		if call != nil && !call.root {
			return a.tree.Depth(call.flow, call.parent)
		}
		return 0
	}
	return a.tree.Living()
}

// amountOf is the place of what the row counts in a ledger.
// It relies on the order of Counted and of the places in ledger.Amount.
func amountOf(counts Counted) int { return int(counts - CountedTreeCalls) }

// judgeTree compares what the row measures with its limit, after a report of the flow.
// Rows about the whole tree are judged as any other. Those about one flow notify that flow by an
// order of its own and keep only a warning for the tree.
func (e *treeJudge) judgeTree(r RuleID, a *Agent, c *ledger.Child, call *treeCall, m *moment, fx *activity.Effects) {
	rule, set := &Rules[r], e.setting(r, a, m.at)
	t := tally{n: a.treeValue(rule.Counts, call, m.at), ends: a.treeEnds(&e.settings)}
	if rule.Counts != CountedTreeDepth && rule.Counts != CountedTreeChildren && rule.Counts != CountedTreeSpawns {
		e.judge(r, a, m, &t, fx)
		return
	}
	// These are about one flow. A warning that the limit is near is about the tree.
	over := t.n >= set.Stop && c != nil && set.Mode != rules.ModeWarn && e.terms.WarnOnly>>m.ev.CorrelationSource&1 == 0
	if over && rule.Counts == CountedTreeChildren && a.tree.Before(c)+1 < set.Stop {
		over = false // it is one of those for which there was room
	}
	if over && rule.Counts == CountedTreeSpawns && c.Nth < set.Stop {
		over = false
	}
	// Once while the order stands, or each call of that flow would bring a verdict.
	if over && (c.NotifiedAt == 0 || m.at >= c.NotifiedAt) {
		x := e.treeFinding(r, a, t.n, m)
		e.publish(a, m, x, fx)
		c.NotifiedAt = x.Expires
	}
	if t.n = min(t.n, set.Stop-1); t.n > 0 {
		e.judge(r, a, m, &t, fx)
	}
}

// treeEnds is when the tree is over if nothing more comes.
// The budget of a tree is whole again then, so no order about it has to stand longer.
func (a *Agent) treeEnds(e *settings) events.Stamp { return a.tree.Last.Add(e.terms.Idle) + 1 }

// boundFor is how long an order about the tree above lasts for a flow that names only its parent, in
// milliseconds. Such a flow may not learn that the order was lifted.
const boundFor events.Stamp = 60_000

// bindFlow sends each order that refuses its calls to a flow that came through another tree, and so
// knows nothing of this one. It sends them again when the first has run out.
func (e *treeJudge) bindFlow(a *Agent, c *ledger.Child, m *moment, fx *activity.Effects) {
	if c == nil || c.NotifiedAt > m.at {
		return
	}
	again := events.Stamp(0)
	for i := range a.orders {
		o := &a.orders[i]
		if !o.Binds() || o.Expires <= m.at {
			continue
		}
		x := o.finding()
		// An order of its own for each flow, so that one does not end another's.
		x.flow, x.group = m.ev.CorrelationID, string(Rules[o.rule].Reason)+"\x00"+m.ev.CorrelationID
		if x.Phase == standing.Armed && rules.OneByOne(Rules[o.rule].Unit) {
			x.Observed++ // the call at hand is over the limit
		}
		x.Phase, x.Since, x.Begun = standing.Stop, m.at, m.at
		x.Until(m.at, min(o.Expires, m.at+boundFor))
		e.publish(a, m, x, fx)
		if again == 0 || x.Expires < again {
			again = x.Expires
		}
	}
	if again != 0 {
		c.NotifiedAt = again
	}
}

// shareAgain is after how long a flow for which there was no room may ask again: another may
// have ended by then.
const shareAgain events.Stamp = 10_000

// treeFinding says to one flow that the tree has no room for it.
// What is refused for want of a share is only put off: shares come back when other flows end
// or fall silent.
func (e *settings) treeFinding(r RuleID, a *Agent, observed int64, m *moment) *finding {
	rule, set := &Rules[r], e.setting(r, a, m.at)
	x := &finding{rule: r, flow: m.ev.CorrelationID, group: string(rule.Reason) + "\x00" + m.ev.CorrelationID}
	action := rule.Action
	switch {
	case rule.Shares:
		action = events.Throttle // what others do not use comes back
	case set.Hold && rule.Counts == CountedTreeSpawns: // of the one flow; others go on
		action = events.Hold
	}
	x.Give(standing.Stop, action, &set, observed, m.at)
	x.Since = m.at
	end := m.at.Add(e.terms.TTL)
	if action == events.Hold {
		end = m.at + boundFor // a grant is to the tree, which knows no flow by its name
	}
	if action == events.Throttle {
		end = m.at + shareAgain
		if freed := a.tree.Freed(events.Stamp(e.terms.Idle.Milliseconds())); freed > m.at {
			end = min(end, freed)
		}
	}
	x.Until(m.at, end)
	return x
}

// treeRefuses returns why the tree refuses the call that is asked for; nil when it does not.
// It looks at standing orders first, then at what the call would bring each row to. A refused
// ask spends nothing.
func (e *treeJudge) treeRefuses(a *Agent, call *treeCall, m *moment, fx *activity.Effects) *events.Verdict {
	if v := e.orderRefuses(a, m, fx); v != nil {
		return v
	}
	// Its id was guessed, or stands for more than one piece of work: such a flow is never
	// stopped for a budget.
	if e.terms.WarnOnly>>m.ev.CorrelationSource&1 != 0 {
		return nil
	}
	l := &a.tree
	// nil for one that is not at work in the tree yet, as for the root.
	own := l.Child(call.flow)
	for r := range RuleCount {
		rule, set := &Rules[r], e.setting(r, a, m.at)
		if !rule.Counts.OfTree() || !e.on(r) || set.Mode != rules.ModeEnforce || set.Stop == rules.Off {
			continue
		}
		var would int64
		switch rule.Counts {
		case CountedTreeAge:
			continue // an order ends it
		case CountedTreeDepth:
			would = a.treeValue(rule.Counts, call, m.at)
		case CountedTreeSpawns:
			if own != nil || call.root || l.Known(call.flow) {
				continue // it has started
			}
			would = l.Started + 1
		case CountedTreeChildren:
			// A flow that is at work has its place already.
			if own != nil || call.root {
				continue
			}
			would = l.Living() + 1
		default:
			v, n := e.spentBy(r, a, call, own, &set, m, fx)
			if v != nil {
				return v
			}
			would = n
		}
		if would >= set.Stop {
			x := e.treeFinding(r, a, would, m)
			e.publish(a, m, x, fx)
			// The answer is the verdict that was just sent to the flow.
			v := fx.Verdicts[len(fx.Verdicts)-1]
			return &v
		}
	}
	return nil
}

// orderRefuses returns the verdict of an active order that refuses the call; nil if none does.
func (e *treeJudge) orderRefuses(a *Agent, m *moment, fx *activity.Effects) *events.Verdict {
	for i := range a.orders {
		o := &a.orders[i]
		if !o.refuses(events.Halt, m.at) && !o.refuses(events.Hold, m.at) {
			continue
		}
		if o.BeginsWait() {
			e.holdTree(a, o, m, fx)
		}
		if !o.Early(m.when, true, e.terms.Grace) {
			o.Attempt()
		}
		// A copy as the answer shows it: the call that was refused would have been the one
		// over the limit.
		shown := *o
		if shown.Phase == standing.Armed {
			shown.Phase = standing.Stop
			if rules.OneByOne(Rules[o.rule].Unit) {
				shown.Observed++
			}
		}
		v := e.verdict(a, m, shown.finding())
		return &v
	}
	return nil
}

// spentBy returns what would be spent with the call, in the unit of the row, or why the tree refuses it.
func (e *treeJudge) spentBy(r RuleID, a *Agent, call *treeCall, own *ledger.Child, set *rules.Setting, m *moment, fx *activity.Effects) (*events.Verdict, int64) {
	rule, l := &Rules[r], &a.tree
	// What a call will take of tokens and money is not known before it is made: then there
	// has to be something left.
	of := amountOf(rule.Counts)
	needs := max(1, call.spends[of])
	if spent := l.Spent[of] + needs; spent >= set.Stop { // as after a grant has expired: nothing stands
		e.judge(r, a, m, &tally{n: spent, ends: a.treeEnds(&e.settings)}, fx)
		if o := a.orderFor(rule.Reason); o != nil && o.Binds() {
			v := e.verdict(a, m, o.finding())
			return &v, 0
		}
	}
	if own != nil && own.Spent[of]+needs <= set.Reserve {
		return nil, 0 // it was set aside
	}
	if own == nil && !call.root {
		needs = max(needs, set.Reserve)
	}
	// What others may still count on is as good as spent; a new flow has to find room
	// for a whole share.
	return nil, l.Spent[of] + l.Reserved(of, set.Reserve, call.flow) + needs
}

// treeAllows is the answer to a call that no rule refuses, with the remaining budget of the
// tree.
// Figures are worked out only where the request or the limits want them (decision 60).
func (e *settings) treeAllows(a *Agent, m *moment) *events.Verdict {
	v := &events.Verdict{SchemaVersion: 1, ID: strconv.FormatUint(xxhash.Sum64String(a.key+"\x00"+m.ev.ID), 16), Time: events.RFC3339(m.at),
		Mode: events.ModeEnforce, Scope: events.Scope{Kind: events.ScopeTree, ID: strings.Clone(a.name())}, Action: events.Allow,
		Reason: standing.Allowed, ConfigVersion: e.terms.Version, CorrelationID: strings.Clone(m.ev.CorrelationID), RootCorrelationID: strings.Clone(a.name())}
	if !m.ev.Tell && !e.tells && len(m.ev.Attributes) == 0 {
		return v
	}
	var few []events.Remaining
	v.Remaining, few = remainingOf(m.ev)
	for r := range RuleCount {
		rule, set := &Rules[r], e.setting(r, a, m.at)
		if !m.ev.Tell && !e.tells || !rule.Counts.OfTree() || !rule.Tells || !e.on(r) || set.Mode != rules.ModeEnforce || set.Stop == rules.Off {
			continue
		}
		left := leftOf(rule, &set, a.treeValue(rule.Counts, nil, m.at))
		unit := rules.InUnit(rule.Unit)
		is := events.Remaining{RuleID: rule.Name, Left: float64(left) / unit, Limit: float64(set.Limit()) / unit, Unit: rule.Unit}
		v.Remaining = append(v.Remaining, is)
		// In words from here on, for the model; see decision 60.
		if left <= set.Tell && set.Tell != 0 {
			few = append(few, is)
		}
	}
	if len(few) > 0 {
		v.AgentMessage = standing.WrapUp(few)
	}
	return v
}

// leftOf returns the remaining part of the limit of a row after what was used, as the fold counts it.
func leftOf(rule *Rule, set *rules.Setting, used int64) int64 {
	left := set.Limit() - used
	if !set.Max && rules.OneByOne(rule.Unit) {
		left-- // the call that reaches a stop is refused
	}
	return max(0, left)
}

// A tree that waits for a person, and what one grants it.

// treeGrant is what a person has granted a tree of what a row counts.
// It stands with the tree and not with a flow, since any flow of the tree may use it.
type treeGrant struct {
	rule    RuleID
	most    int64 // as limits say max, or stop where they say that
	expires events.Stamp
}

// maxTreeGrants is how many grants stand at one time: one for each row about trees.
const maxTreeGrants = 7

// setting is the setting of the row, with what a person has granted.
// A row that is off stays off in effect: its events are not judged at all.
func (e *settings) setting(r RuleID, a *Agent, at events.Stamp) rules.Setting {
	set := e.limits.Rules[r]
	set.Mode = e.mode(r, a, at)
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
// Without a limit there is nothing to add to. A second grant adds to the first and takes its
// place (decision 62).
func (e *treeJudge) grantTree(a *Agent, m *moment, fx *activity.Effects) {
	e.heardOfTree(a, m, fx)
	if a.passUp(m, fx) {
		return
	}
	r, ok := RuleNamed(m.ev.Override.Rule)
	if !ok || !Rules[r].Counts.OfTree() || m.ev.Override.Extra <= 0 {
		return
	}
	set := e.setting(r, a, m.at)
	if set.Stop == rules.Off {
		return
	}
	used := a.treeValue(Rules[r].Counts, nil, m.at)
	if !set.Max && rules.OneByOne(Rules[r].Unit) {
		used++
	}
	g := treeGrant{rule: r, most: rules.Off, expires: m.ev.Override.Expires}
	if most := max(set.Limit(), used); most < rules.Off-m.ev.Override.Extra {
		g.most = most + m.ev.Override.Extra
	}
	a.grants = slices.DeleteFunc(a.grants, func(o treeGrant) bool { return o.rule == r || o.expires <= m.at })
	a.grants = append(a.grants, g)
	fx.Counts.By(Rules[r].Reason.Place()).Granted++
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
			e.publish(a, m, o.finding(), fx)
		}
		a.dropOrder(o)
	}
}

// releaseTree takes back what stands against the tree, because a person said so.
// With a time (Operator.For) nothing of the tree is limited for so long; without one it is
// judged again with its next call.
func (e *treeJudge) releaseTree(a *Agent, m *moment, fx *activity.Effects) {
	e.heardOfTree(a, m, fx)
	if a.passUp(m, fx) {
		return
	}
	e.clearTree(a, m, fx)
	a.grants = a.grants[:0]
	if m.ev.Operator.For <= 0 {
		return
	}
	for r := range RuleCount {
		if Rules[r].Counts.OfTree() && !e.limits.Rules[r].Mute() {
			a.grants = append(a.grants, treeGrant{r, rules.Off, m.at.Add(m.ev.Operator.For)})
		}
	}
}

// holdTree has the tree wait from now on because of an order that held it from its next call
// on, which is this one: asked for, it was not made.
func (e *treeJudge) holdTree(a *Agent, o *order, m *moment, fx *activity.Effects) {
	o.Phase, o.Begun = standing.Stop, m.at
	if rules.OneByOne(Rules[o.rule].Unit) {
		o.Observed++
	}
	e.issue(a, o, m, 0, fx)
}

// beginWait has the tree wait from now on if a dispatcher has refused a call by an order that held the tree
// from its next call on.
func (e *treeJudge) beginWait(a *Agent, m *moment, fx *activity.Effects) {
	o := a.orderAcked(m)
	if o != nil && m.ev.Ack.Applied && o.BeginsWait() && !o.Shadow && o.Expires > m.at {
		e.holdTree(a, o, m, fx)
	}
}

// treeWaits reports whether the tree waits for a person, or is halted because no person decided:
// silence brings it no new budget then.
// A shadow order makes no flow wait.
func (e *treeJudge) treeWaits(a *Agent, at events.Stamp) bool {
	for i := range a.orders {
		o := &a.orders[i]
		if o.Phase == standing.Stop && !o.Shadow && o.Expires > at && (o.Action == events.Hold || o.lapsed(&e.settings)) {
			return true
		}
	}
	return false
}

// lapsed reports whether no person has decided in time about a tree that waited.
// The action alone does not show it: a halt by a row that holds has no other cause.
func (o *order) lapsed(e *settings) bool {
	return o.Action == events.Halt && o.Phase == standing.Stop && e.limits.Rules[o.rule].Hold
}

// SayWaiting adds to a hold what it costs the flow to wait; nil for nothing. Other verdicts, and holds that end
// before the cache forgets, stay as they are.
func SayWaiting(v *events.Verdict, w *events.Waiting) {
	if w != nil && v.Action == events.Hold && (v.ExpiresAt.IsZero() || v.ExpiresAt > w.After) {
		v.Waiting, v.Message = w, strings.TrimSuffix(v.Message, ".")+standing.WaitingText(w)
	}
}

// LastWord is the answer to a check request that the flow has allowed and that its tree has answered as
// well. Without an answer of the tree it is the answer of the flow.
// A refusal of the tree is returned as the flow's; otherwise the caller would not find its own id in it.
// A hold of the tree says what it costs the flow to wait.
// The remaining budgets of both are returned together. The given verdicts are not changed.
func LastWord(flow, tree *events.Verdict) *events.Verdict {
	// A caller that is refused does not need the remaining budget.
	if tree != nil && tree.Stops() {
		v := *tree
		v.CorrelationID = flow.CorrelationID
		// The flow allowed the call, and says what it would cost to wait.
		SayWaiting(&v, flow.Waiting)
		return &v
	}
	if tree == nil && flow.Waiting == nil {
		return flow
	}
	v := *flow
	v.Waiting = nil // it does not wait
	if tree == nil {
		return &v
	}
	v.Remaining = append(v.Remaining[:len(v.Remaining):len(v.Remaining)], tree.Remaining...)
	switch {
	case v.AgentMessage == "":
		v.AgentMessage = tree.AgentMessage
	case tree.AgentMessage != "":
		v.AgentMessage += " " + tree.AgentMessage
	}
	return &v
}
