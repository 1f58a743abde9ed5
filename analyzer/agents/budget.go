package agents

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer/activity"
	"weir/analyzer/budgets"
	"weir/analyzer/standing"
	"weir/events"
)

// The account of a budget in the stage of agents.

// isBudget reports whether the key is that of an account.
func (a *subject) isBudget() bool { return strings.HasPrefix(a.key, budgets.Prefix) }

// IsAccount reports whether the agent is the account of a budget.
func (a *subject) IsAccount() bool { return a.isBudget() }

// IsAccount reports whether the record is of the account of a budget, without reading all of it.
func IsAccount(record []byte) bool { return len(record) > 0 && record[0] == budgetCodecVersion }

// budgetOf returns the budget of an account; nil where the limits have it no longer.
func (e *settings) budgetOf(a *Agent) *budgets.Budget {
	name, _, _ := budgets.Split(a.key)
	return budgets.Named(e.terms.Budgets, name)
}

// payment is one step of an account.
type payment struct {
	e  *treeJudge
	a  *Agent
	b  *budgets.Budget // nil where the limits have it no longer
	m  *moment
	fx *activity.Effects
	// held says that a call waits for a person because of the account.
	held bool
}

// payment returns the step of an account at a moment.
func (e *treeJudge) payment(a *Agent, m *moment, fx *activity.Effects) *payment {
	return &payment{e: e, a: a, b: e.budgetOf(a), m: m, fx: fx}
}

// chargeOf is how much the event says that the account pays.
func chargeOf(a *Agent, ev *events.Event) int64 {
	for i := range ev.Attributes {
		if ev.Attributes[i].Name == a.key {
			n, _ := strconv.ParseInt(string(ev.Attributes[i].Value), 10, 64)
			return max(0, n)
		}
	}
	return 0
}

// pay folds what a flow has spent, or asks whether it may. All checks that an account pays for come
// here one after the other, which is what makes a budget exact. A report counts whatever stands: it
// happened.
func (p *payment) pay() {
	a, b, ev := p.a, p.b, p.m.ev
	if b == nil {
		p.end()
		if ev.Ask {
			p.next()
		}
		return
	}
	acct, n, flow := &a.budget, chargeOf(a, ev), xxhash.Sum64String(ev.CorrelationID)
	p.roll()
	acct.Last = p.m.at
	if ev.Ask {
		p.ask(n, flow)
		return
	}
	switch work(ev) {
	case activity.WorkWithdrawn:
		if id := slices.Index(a.ids, idOf(ev)); id >= 0 {
			a.ids = slices.Delete(a.ids, id, id+1)
			acct.Withdraw(b, flow, n)
		}
	case activity.WorkSettled:
		acct.Spend(b, flow, n, p.m.when, p.m.at)
		acct.Settle(b, flow)
	case activity.WorkEnded:
		acct.Spend(b, flow, n, p.m.when, p.m.at)
		acct.EndFlow(flow)
	default:
		acct.Spend(b, flow, n, p.m.when, p.m.at)
	}
	beyond := acct.Order.Used && n > 0 && work(ev) != activity.WorkWithdrawn
	if beyond {
		p.fx.Counts.Attempts++
		p.fx.Counts.By(Rules[ruleOfBudget].Reason.Place()).Defied++
		p.tried()
	} else {
		p.judge()
	}
	if acct.Order.Used && n > 0 {
		p.blockFlow(flow)
	}
}

// ask answers a check, or passes it on to what has to allow it as well.
func (p *payment) ask(n int64, flow uint64) {
	a, b := p.a, p.b
	acct := &a.budget
	if a.repeats(p.m.ev) { // it was allowed, and its answer was lost
		p.fx.Counts.Duplicates++
		p.next()
		return
	}
	need := b.Need(n)
	if need > 0 && acct.Room(b) < need {
		a.ids = a.ids[:len(a.ids)-1] // a later check with the id asks anew
		p.refuse(need)
		return
	}
	acct.Allow(b, flow, n, p.m.at, events.Stamp(p.e.terms.Idle.Milliseconds()))
	p.judge()
	p.next()
}

// refuse answers a check for which there is no room, and has the accounts that were asked before take
// the call back.
func (p *payment) refuse(need int64) {
	b, m, fx := p.b, p.m, p.fx
	acct := &p.a.budget
	acct.Refused = min(acct.Refused, 1<<32-2) + 1
	p.tried()
	if acct.Order.Used && acct.Order.Expires <= m.at {
		p.issue()
	}
	action, until := b.Action, acct.FreeAt(b)
	if acct.Limit(b)-acct.Spent >= need { // what others have reserved comes back
		action, until = events.Throttle, m.at+shareAgain
	}
	v := p.verdict(action, standing.Stop)
	v.CorrelationID = strings.Clone(m.ev.CorrelationID)
	v.ExpiresAt = events.RFC3339(until)
	v.TTLS = secondsLeft(until, m.at)
	if action == events.Throttle {
		v.RetryAfterS = v.TTLS
	}
	fx.Answer = &v
	place := Rules[ruleOfBudget].Reason.Place()
	fx.Counts.Refused++
	fx.Counts.Attempts++
	fx.Counts.By(place).Refused++
	withdraw(p.a, m, fx)
}

// withdraw has the accounts that have allowed the call at hand take it back, because what was asked
// after them has refused it.
func withdraw(a *Agent, m *moment, fx *activity.Effects) {
	for i := range m.ev.Attributes {
		key := m.ev.Attributes[i].Name
		if key == a.key || !strings.HasPrefix(key, budgets.Prefix) {
			return // those behind it were not asked
		}
		back := fx.SayTo("", key, m.ev, m.when)
		back.Kind, back.AgentState = events.AgentActivity, fx.State(activity.WorkWithdrawn)
		back.Attributes = m.ev.Attributes[i : i+1]
	}
}

// next passes a check on to the next account or tree in its chain; without one, the check is allowed.
func (p *payment) next() {
	a, m, fx := p.a, p.m, p.fx
	ev := m.ev
	chain := slices.Clone(ev.Attributes)
	if p.b != nil {
		if left, tell := p.left(); tell {
			chain = append(chain, left)
		}
	}
	at := slices.IndexFunc(chain, func(x events.Attribute) bool { return x.Name == a.key })
	if next := at + 1; at >= 0 && next < len(chain) && !strings.HasPrefix(chain[next].Name, leftPrefix) {
		on := fx.SayTo("", chain[next].Name, ev, m.when)
		*on = *ev
		on.Time, on.Attributes = m.when, chain
		fx.Asked = true
		return
	}
	v := &events.Verdict{SchemaVersion: 1, ID: strconv.FormatUint(xxhash.Sum64String(a.key+"\x00"+ev.ID), 16), Time: events.RFC3339(m.at),
		Mode: events.ModeEnforce, Scope: events.Scope{Kind: events.ScopeBudget, ID: strings.Clone(a.name())}, Action: events.Allow,
		Reason: standing.Allowed, ConfigVersion: p.e.terms.Version, CorrelationID: strings.Clone(ev.CorrelationID)}
	told := events.Event{Attributes: chain}
	var few []events.Remaining
	v.Remaining, few = remainingOf(&told)
	if len(few) > 0 {
		v.AgentMessage = standing.WrapUp(few)
	}
	fx.Answer = v
}

// leftPrefix begins the name of an attribute by which an account reports the remaining budget to the answer.
const leftPrefix = "left:"

// left is what remains in the account, as an attribute; false where no answer is to report it.
func (p *payment) left() (events.Attribute, bool) {
	b, m := p.b, p.m
	acct := &p.a.budget
	hint := b.Hint != budgets.Off && acct.Spent >= b.Hint
	if !m.ev.Tell && !hint || b.Hard == budgets.Off {
		return events.Attribute{}, false
	}
	f := func(n int64) string { return strconv.FormatFloat(b.Measure.Figure(n), 'f', -1, 64) }
	text := fmt.Sprintf("%q", fmt.Sprintf("%s %s %s %d %t", f(max(0, acct.Room(b))), f(acct.Limit(b)), b.Measure.Unit(), acct.End, hint))
	return events.Attribute{Name: leftPrefix + b.Name, Value: []byte(text)}, true
}

// remainingOf reads what accounts have reported. few is the part of it that the model receives.
func remainingOf(ev *events.Event) (all, few []events.Remaining) {
	for i := range ev.Attributes {
		name, ok := strings.CutPrefix(ev.Attributes[i].Name, leftPrefix)
		words := strings.Fields(strings.Trim(string(ev.Attributes[i].Value), `"`))
		if !ok || len(words) != 5 {
			continue
		}
		is := events.Remaining{RuleID: budgets.Prefix + strings.Clone(name), Unit: events.Unit(strings.Clone(words[2]))}
		is.Left, _ = strconv.ParseFloat(words[0], 64)
		is.Limit, _ = strconv.ParseFloat(words[1], 64)
		end, _ := strconv.ParseInt(words[3], 10, 64)
		is.Until = events.RFC3339(end)
		all = append(all, is)
		if words[4] == "true" {
			few = append(few, is)
		}
	}
	return all, few
}

// grant gives the account more, if the person may.
func (p *payment) grant() {
	a, b, m := p.a, p.b, p.m
	o := m.ev.Override
	if b == nil || !b.MayGrant(o.By) || o.Extra <= 0 {
		return
	}
	p.roll()
	a.budget.Grant(b, o.Extra, o.Expires, m.at)
	p.fx.Counts.By(Rules[ruleOfBudget].Reason.Place()).Granted++
	p.judge()
}
