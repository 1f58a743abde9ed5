package agents

import (
	"fmt"
	"math"
	"strings"
	"time"

	"weir/analyzer/activity"
	"weir/analyzer/budgets"
	"weir/analyzer/standing"
	"weir/events"
)

// The orders about the account of a budget: warnings, the block while it is used up, and how it ends.

// roll begins the window of the time at hand. Where a block ends with the window before, the
// verdict that clears it says what was spent.
func (p *payment) roll() {
	b, m := p.b, p.m
	acct := &p.a.budget
	idle := m.at - events.Stamp(p.e.terms.Idle.Milliseconds())
	if !acct.Roll(b, m.at, idle) {
		return
	}
	if acct.Order.Used {
		p.clear()
	}
	acct.Order = budgets.Order{Revision: acct.Order.Revision}
}

// judge holds what is spent against the thresholds.
func (p *payment) judge() {
	b, m := p.b, p.m
	acct := &p.a.budget
	limit, o := acct.Limit(b), &acct.Order
	if b.Soft != budgets.Off && acct.Spent >= b.Soft && !o.Warned && acct.Spent < limit {
		o.Warned, o.Since = true, m.at
		p.publish(p.verdict(events.Warn, standing.Warn))
	}
	used := acct.Used(b)
	switch {
	case used && !o.Used:
		o.Used, o.Since = true, m.at
		p.issue()
	case used && o.Expires <= m.at && (o.Due == 0 || o.Limits != p.e.version):
		p.issue()
	case !used && o.Used:
		p.clear()
		o.Used, o.Due, o.Expires = false, 0, 0
		acct.Untell()
	}
}

// tried counts a call that the budget refuses and judges. The first one since a hold was issued is
// published: until then no call waits for a person.
func (p *payment) tried() {
	o := &p.a.budget.Order
	p.held = p.b.Action == events.Hold
	first := p.held && (o.Tried == 0 || !o.Used)
	o.Tried = min(o.Tried, 1<<32-2) + 1
	p.judge()
	if !first || !o.Used {
		return
	}
	if o.Tried > 0 { // judge has issued nothing
		p.issue()
	}
	o.Tried = 1
}

// issue publishes that the budget is used up, as of now. It is renewed while calls are tried.
func (p *payment) issue() {
	b, m := p.b, p.m
	acct := &p.a.budget
	o := &acct.Order
	free := acct.FreeAt(b)
	o.Issued, o.Tried, o.Limits = m.at, 0, p.e.version
	o.Expires = min(m.at.Add(p.e.terms.TTL), max(free, m.at+1))
	o.Due = o.Expires
	if o.Expires < free {
		o.Due = m.at.Add(p.e.terms.TTL - p.e.terms.TTL/5)
	}
	v := p.verdict(b.Action, standing.Stop)
	if acct.Spent <= acct.Limit(b) && !p.held {
		v.Effective = events.EffectiveNext
	}
	if b.Action == events.Warn {
		o.Due, o.Expires = 0, m.at+1<<45 // it is said once in a window
		v.Effective, v.HTTPStatus = "", 0
	} else {
		v.ExpiresAt, v.TTLS = events.RFC3339(o.Expires), secondsLeft(o.Expires, m.at)
		if b.Action == events.Throttle {
			v.RetryAfterS = secondsLeft(free, m.at)
		}
	}
	p.publish(v)
}

// clear publishes that calls are no longer refused.
func (p *payment) clear() {
	if p.b.Action != events.Warn {
		p.publish(p.verdict(events.Allow, 0))
	}
}

// end clears what stands of a budget that the limits have no longer.
func (p *payment) end() {
	a := p.a
	if a.budget.Order.Used && a.budget.Order.Due != 0 {
		name, _, _ := budgets.Split(a.key)
		gone := *p
		gone.b = &budgets.Budget{Name: name, Scope: budgets.Scope{Kind: a.budget.Kind}, Hard: budgets.Off, Measure: a.budget.Measure}
		p.publish(gone.verdict(events.Allow, 0))
	}
	a.budget.Reset()
	a.budget.Began = p.m.at
}

// budgetDue fires the deadline of an account: a window ends, or a block is renewed.
func (e *treeJudge) budgetDue(a *Agent, at events.Stamp, fx *activity.Effects) {
	due := deadlineOf(at)
	p := e.payment(a, &due, fx)
	a.clock = max(a.clock, at)
	b := p.b
	if b == nil {
		p.end()
		return
	}
	p.roll()
	o := &a.budget.Order
	if !o.Used || o.Due == 0 || o.Due > at {
		p.judge() // as when a grant has expired
		return
	}
	o.Due = 0
	if tried := o.Tried > 0; tried && a.budget.Used(b) {
		p.held = b.Action == events.Hold
		p.issue()
		return
	}
	if o.Expires <= at {
		p.judge()
	}
}

// publish adds a verdict about the account to the effects.
func (p *payment) publish(v events.Verdict) {
	a, m, fx := p.a, p.m, p.fx
	a.revision = max(a.revision+1, int64(m.at))
	v.Revision = a.revision
	order := a.verdictOrder("budget\x00"+v.CorrelationID, a.budget.Order.Since)
	v.ID = verdictID(order, a.revision)
	v.IncidentID, v.Cause = standing.IncidentID(order), string(v.Reason)
	a.budget.Order.Revision = a.revision
	fx.Verdicts = append(fx.Verdicts, v)
}

// blockFlow publishes a block of the one flow that has spent beyond the budget, for dispatchers that
// only follow the stream and know no scope of the budget.
func (p *payment) blockFlow(flow uint64) {
	b, m := p.b, p.m
	if b.Action == events.Warn || nativeScope(b.Scope.Kind) != "" || p.e.terms.WarnOnly>>m.ev.CorrelationSource&1 != 0 || m.ev.CorrelationID == "" {
		return
	}
	acct := &p.a.budget
	until := min(acct.FreeAt(b), m.at+boundFor)
	if until <= m.at || !acct.Tell(flow, m.at, until, events.Stamp(p.e.terms.Idle.Milliseconds())) {
		return
	}
	v := p.verdict(b.Action, standing.Stop)
	v.CorrelationID = strings.Clone(m.ev.CorrelationID)
	v.Scope = events.Scope{Kind: events.ScopeFlow, ID: v.CorrelationID}
	v.ExpiresAt, v.TTLS = events.RFC3339(until), secondsLeft(until, m.at)
	if b.Action == events.Throttle {
		v.RetryAfterS = v.TTLS
	}
	p.publish(v)
}

// nativeScope is the scope by which dispatchers compare their calls with the value of an account; ""
// for a kind that they do not know.
func nativeScope(k budgets.Kind) events.ScopeKind {
	switch k {
	case budgets.OfTenant:
		return events.ScopeTenant
	case budgets.OfProject:
		return events.ScopeProject
	case budgets.OfAgent:
		return events.ScopeAgent
	case budgets.OfTool:
		return events.ScopeTool
	}
	return ""
}

// secondsLeft is how many seconds there are until a time, at least one.
func secondsLeft(until, at events.Stamp) int64 {
	return max(1, int64(math.Ceil(until.Sub(at).Seconds())))
}

// verdict is the verdict about the account now. Its id is filled in by publish.
func (p *payment) verdict(action events.Action, ph standing.Phase) events.Verdict {
	a, b, m := p.a, p.b, p.m
	acct := &a.budget
	_, value, _ := budgets.Split(a.key)
	value = strings.Clone(value)
	spent, limit := acct.Spent, acct.Limit(b)
	if action == events.Allow && acct.Before.End != 0 && acct.Start >= acct.Before.End && acct.Order.Since < acct.Start {
		spent, limit = acct.Before.Spent, b.Hard+acct.Before.Granted // the window that has ended
	}
	v := events.Verdict{SchemaVersion: 1, ID: verdictID(a.verdictOrder("budget", acct.Order.Since), acct.Order.Revision), Revision: acct.Order.Revision,
		Time: events.RFC3339(m.at), Mode: events.ModeEnforce, Action: action, ControlledCutoff: action == events.Deny,
		Scope: events.Scope{Kind: events.ScopeBudget, ID: strings.Clone(a.name())}, Reason: Rules[ruleOfBudget].Reason, RuleID: budgets.Prefix + b.Name,
		ConfigVersion: p.e.terms.Version, Confidence: confidenceOf(m.ev), Unit: b.Measure.Unit()}
	if native := nativeScope(b.Scope.Kind); native != "" {
		v.Scope = events.Scope{Kind: native, ID: value}
	}
	switch b.Scope.Kind {
	case budgets.OfTenant:
		v.TenantID = value
	case budgets.OfTeam:
		v.TeamID = value
	case budgets.OfProject:
		v.ProjectID = value
	case budgets.OfAgent:
		v.Agent = value
	case budgets.OfTool:
		v.Tool = value
	}
	// Calls that start no agent go on, also at dispatchers that only follow the stream.
	if ph == standing.Stop && (b.Measure == budgets.Spawns || b.Measure == budgets.BackgroundSpawns) {
		v.Match = &events.Match{Kind: events.AgentCall.String(), Background: b.Measure == budgets.BackgroundSpawns}
	}
	if m.ev != nil {
		v.Trigger = &events.Trigger{EventID: strings.Clone(m.ev.ID), Ordinal: int64(a.events)}
	}
	if limit != budgets.Off {
		most, is := b.Measure.Figure(limit), b.Measure.Figure(spent)
		if ph == standing.Warn {
			most = b.Measure.Figure(b.Soft)
		}
		v.Limit, v.Observed = &most, &is
	}
	v.WindowS = float64(acct.End-acct.Start) / 1000
	if b.Window.Rolling {
		v.WindowS = b.Window.Seconds()
	}
	v.Message = budgetText(acct, b, value, action, ph, spent, limit)
	if ph == standing.Stop {
		v.Effective = events.EffectiveNow
		v.HTTPStatus = budgetStatus(action)
		v.AgentMessage = budgetAdvice(b, action, spent, limit)
	}
	return v
}

// budgetStatus is the status of a refusal.
func budgetStatus(action events.Action) int {
	if action == events.Throttle {
		return 429
	}
	return Rules[ruleOfBudget].Status
}

// budgetText says to people what is spent, reserved and left, and when the budget begins anew.
func budgetText(acct *budgets.Account, b *budgets.Budget, value string, action events.Action, ph standing.Phase, spent, limit int64) string {
	what := "budget " + b.Name
	if b.Scope.Kind != budgets.OfAll {
		what += " of " + b.Scope.String() + " " + standing.Printable(value)
	}
	if limit == budgets.Off {
		return "Cleared: " + what + " is not limited any more."
	}
	figures := b.Measure.Text(spent) + " of " + b.Measure.Text(limit) + " spent in the " + b.Window.Text()
	switch {
	case action == events.Allow && acct.Start >= acct.Before.End && acct.Before.End != 0 && acct.Order.Since < acct.Start:
		return "Cleared: " + what + " begins anew; " + figures + " that ended " + stampText(acct.Before.End) + "."
	case action == events.Allow:
		return "Cleared: " + what + " has room again; " + figures + "."
	case ph == standing.Warn:
		return "Warning: " + what + " is near its limit; " + figures + " from " + stampText(acct.Start) + "."
	}
	if held := acct.Reserved(); held > 0 {
		figures += ", " + b.Measure.Text(held) + " reserved for calls under way"
	}
	if left := limit - spent; left > 0 && left < b.Need(0) && acct.Used(b) {
		figures += ", and what is left is less than the " + b.Measure.Text(b.Reserve) + " that are reserved for a call"
	}
	what, end := "Budget"+strings.TrimPrefix(what, "budget"), "it has room again at "+stampText(acct.FreeAt(b))
	switch {
	case action == events.Warn:
		return "Warning: b" + what[1:] + " is used up; " + figures + "; calls are not refused."
	case action == events.Hold:
		return what + " is used up; " + figures + "; calls wait for a person to grant more, or until " + stampText(acct.FreeAt(b)) + "."
	case action == events.Throttle && limit > spent:
		return what + " has no room now; " + figures + "; try again when calls under way have ended."
	}
	return what + " is used up; " + figures + "; " + end + "."
}

// stampText is a time for people.
func stampText(at events.Stamp) string { return at.Time().Format(time.RFC3339) }

// budgetAdvice says to the model what became of its call: fixed words and numbers alone.
func budgetAdvice(b *budgets.Budget, action events.Action, spent, limit int64) string {
	what := "The call was refused by the flow guard (" + string(Rules[ruleOfBudget].Reason) + ", " + standing.Number(b.Measure.Figure(spent)) + " of " + standing.Number(b.Measure.Figure(limit)) + " " + string(b.Measure.Unit()) + "). "
	switch action {
	case events.Throttle:
		return what + standing.AdviceWait
	case events.Hold:
		return what + standing.AdviceHold
	case events.Warn:
		return ""
	}
	return what + standing.AdviceReport
}

// verdictID is the id of a verdict, by which acknowledgements find the order (see standing.OrderOf).
func verdictID(order uint64, revision int64) string { return fmt.Sprintf("%016x-%x", order, revision) }
