package analyzer

import (
	"time"

	"weir/analyzer/rules"
	"weir/analyzer/standing"
	"weir/events"
)

// addRemaining adds to an answer what remains of each limit that applies to the flow, so that the
// caller can end its work before a limit ends it. It does so if the check request wants it, and
// always for limits that set it (Setting.Tell). When no more than that remains, an answer that
// refuses nothing also says so in words.
// Only limits that would refuse are reported. Rows in shadow mode and flows that are only warned
// have nothing to report (decision 60).
func (e *verdictWriter) addRemaining(f *Flow, m *moment, answer *events.Verdict) {
	if !e.tells && !m.ev.Tell {
		return
	}
	var few []events.Remaining
	for _, r := range telling {
		rule := &Rules[r]
		m.set = e.limits.Rules[r] // in the moment, see judgeRow
		if r.ofJob() || e.varies(f) {
			m.set = e.setting(r, f, m)
		}
		set := &m.set
		if f.offended(f.start, r) && set.Warn < set.Stop {
			set.Stop, set.Max = set.Warn, false // as it is judged
		}
		if set.Mode != rules.ModeEnforce || set.Stop == rules.Off || !e.mayStop(f, m, set) {
			continue
		}
		left := set.Limit() - rule.Value(f, m, set)
		if !set.Max && rules.OneByOne(rule.Unit) {
			left-- // the call that reaches a stop is refused
		}
		left = max(0, left)
		unit := rules.InUnit(rule.Unit)
		is := events.Remaining{RuleID: rule.Name, Left: float64(left) / unit, Limit: float64(set.Limit()) / unit, Unit: rule.Unit}
		if r == ruleOfAge {
			is.Until = events.RFC3339(m.at.Add(time.Duration(left) * time.Second))
		}
		is.Forecast = foresight{&e.settings}.remaining(f, r)
		if answer.Remaining == nil {
			// Only here, for most asks want no figures (decision 60).
			answer.Remaining = make([]events.Remaining, 0, len(telling))
		}
		answer.Remaining = append(answer.Remaining, is)
		// Words begin here, and stay with every call from here on, because a model forgets.
		if left <= set.Tell && set.Tell != 0 {
			few = append(few, is)
		}
	}
	if len(few) > 0 && !answer.Stops() {
		answer.AgentMessage = standing.WrapUp(few)
	}
}

// telling are the rows that report what remains.
var telling = func() (rows []RuleID) {
	for i := range Rules {
		if Rules[i].Tells {
			rows = append(rows, RuleID(i))
		}
	}
	return rows
}()

// granted is the threshold with which the flow may use so much more than the limit that
// stands, or than it has used when that is more: what went over in between is no part of
// the extra. It is as a person's override gives it. Without a limit there is nothing to add to.
// The one more for limits that stop at a value makes room for the call that reaches it.
func (e *Engine) granted(f *Flow, m *moment, r RuleID, extra int64, limit rules.Setting) int64 {
	used, counts := int64(0), true
	switch show := Rules[r].Show; {
	case r.ofJob():
		limit, used = e.jobGranted(r, f, m)
	case show != nil:
		m.set = limit
		used = show(f, &m.set)
	default:
		counts = false
	}
	if limit.Stop == rules.Off {
		return rules.Off
	}
	most := max(limit.Limit(), 0)
	if counts {
		if !limit.Max && rules.OneByOne(Rules[r].Unit) {
			used++
		}
		most = max(most, used)
	}
	if most > rules.Off-1-extra {
		return rules.Off
	}
	return most + extra
}

// addAdvice adds to an answer that refuses nothing what the rows advise by which the caller is warned.
// It says what they measure now: the warning keeps the figure of the event that brought it.
func (e *settings) addAdvice(f *Flow, m *moment, answer *events.Verdict) {
	for i := range f.orders {
		o := &f.orders[i]
		rule := &Rules[o.rule]
		if rule.Hint == "" || o.Phase != standing.Warn || o.Shadow || o.a != m.from && o.scope != events.ScopeFlow || o.Expires <= m.at || answer.Stops() {
			continue
		}
		limit, observed := o.Figures(rule.Unit)
		if rule.On.Has(m.ev.Kind) {
			m.set = e.setting(o.rule, f, m)
			if now := rule.Value(f, m, &m.set); now > 0 {
				observed = float64(now) / rules.InUnit(rule.Unit)
			}
		}
		text := standing.Fill(rule.Hint, func(word string) string { return o.Word(word, o.kind, limit, observed) })
		if answer.AgentMessage != "" {
			text = answer.AgentMessage + " " + text
		}
		answer.AgentMessage = text
	}
}
