package analyzer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/analyzer/agents"
	"weir/analyzer/budgets"
	"weir/analyzer/rules"
	"weir/analyzer/standing"
	"weir/events"
)

// View is a flow as people and programs look at it: the state, each counter
// against its limit, and what stands.
// It is written as JSON, so its fields are a promise to programs.
type View struct {
	Flow    string         `json:"flow"`
	Root    string         `json:"root_correlation_id,omitempty"` // of the tree that it belongs to
	Service string         `json:"service,omitempty"`             // first source that reported it, cut to 64 bytes
	Episode int            `json:"episode"`
	Start   events.RFC3339 `json:"start"`
	Last    events.RFC3339 `json:"last"`
	Events  int64          `json:"events"`
	// It is a word for people, and more than Standing: it distinguishes expired from ok.
	Status     string              `json:"status"` // ok, expired (was stopped, nothing stands any more), warned, armed, stopped, held
	Incomplete bool                `json:"incomplete,omitempty"`
	Stack      []string            `json:"stack"`
	Parties    []PartyView         `json:"parties"`
	Hops       int64               `json:"hops"`
	ToolCalls  int64               `json:"tool_calls"`
	Turns      int64               `json:"turns,omitempty"`
	Tokens     int64               `json:"tokens,omitempty"`
	CostUSD    float64             `json:"cost_usd,omitempty"`
	Counters   []rules.CounterView `json:"counters"`
	// Forecast is what it is expected to have spent at its end; none without forecasts in the limits.
	Forecast []ForecastView `json:"forecast,omitempty"`
	// Waiting is what it costs to wait, from its last event on; nil where no limit may hold calls, or no cache
	// is known.
	Waiting  *events.Waiting  `json:"waiting,omitempty"`
	Orders   []events.Verdict `json:"orders"`
	Offences []OffenceView    `json:"offences,omitempty"`
	Released events.RFC3339   `json:"released_until,omitzero"`
	// Waited is how many seconds of the episode it was held for a person, up to the last decision. Its age
	// does not count them.
	Waited float64 `json:"waited_s,omitempty"`
	// Grants are the limits that a person set or granted for this flow, and that are in force.
	Grants []rules.GrantView `json:"grants,omitempty"`

	// Exempt lists the rules that say less of the flow because of its own tags.
	Exempt []string `json:"exempt,omitempty"`

	// Payers lists what the flow has named first of each scope of a budget over flows; its events that
	// name none count for these.
	Payers []PayerView `json:"payers,omitempty"`

	// WorkUnknown lists the rules that did not count the last call, because it is unknown
	// whether work was done before it; none where that is known.
	WorkUnknown []string `json:"work_unknown,omitempty"`
	// StrayAnswers is how many agent.return of the episode match no call, because of a wrong name or a missing call.
	StrayAnswers int `json:"stray_answers,omitempty"`
	// OnlyWarn lists the rules that warn late and stop nothing for now, because it is unknown whether agents worked.
	OnlyWarn []string `json:"only_warn,omitempty"`
	// Missing is what no remembered tool call reports, with the rules that cannot judge without it.
	Missing []MissingView `json:"missing,omitempty"`
}

// PayerView is a value of a scope of budgets.
type PayerView struct {
	Scope string `json:"scope"` // such as team
	Value string `json:"value"`
}

// MissingView is what the log of a flow does not report.
type MissingView struct {
	What  string   `json:"what"` // with the name of the field in brackets
	Rules []string `json:"rules"`
}

// PartyView is one party of a flow.
// Only parties that took part in the episode are shown.
type PartyView struct {
	Name   string `json:"name"`
	Parent string `json:"parent,omitempty"`
	Calls  int    `json:"calls_compared"` // tool calls that rules compare
	Points int    `json:"circling_points,omitempty"`
	// Context is nil while no rule about contexts is on.
	Context *ContextView `json:"context,omitempty"`
	// Job is what a subagent has used since it was called; nil for other parties, and while no rule counts it.
	Job *JobView `json:"subagent,omitempty"`
}

// OffenceView is what the flow was stopped for before.
type OffenceView struct {
	Rule  string         `json:"rule"`
	Count int            `json:"count"`
	Last  events.RFC3339 `json:"last"`
}

// RulesThatNeed lists the rules about flows and their trees that are on and cannot judge without one of
// the given needs. It is for messages that list the rules that cannot measure because a log lacks something.
// RulesThatOnlyWarn has the others.
func (l *Limits) RulesThatNeed(what rules.Need) (names []string) {
	for i := range Rules {
		if r := FlowRow(RuleID(i)); r.Needs&^r.OnlyWarns&what != 0 && r.Limits(l) {
			names = append(names, r.Name)
		}
	}
	for i := range agents.Rules {
		if r := &agents.Rules[i]; r.Counts.OfTree() && r.Needs&what != 0 && !l.Agents.Rules[i].Mute() {
			names = append(names, r.Name)
		}
	}
	for i := range l.Budgets {
		if b := &l.Budgets[i]; b.Needs()&what != 0 {
			names = append(names, budgets.Prefix+b.Name)
		}
	}
	return names
}

// RulesThatOnlyWarn lists the rules about flows that are on and stop nothing without one of the given needs,
// though they warn.
func (l *Limits) RulesThatOnlyWarn(what rules.Need) (names []string) {
	for i := range Rules {
		if r := FlowRow(RuleID(i)); r.OnlyWarns&what != 0 && r.Needs&^r.OnlyWarns&what == 0 && r.Limits(l) {
			names = append(names, r.Name)
		}
	}
	return names
}

// onlyWarn lists the rules that only warn for now.
func onlyWarn(e *settings, f *Flow, m *moment) (names []string) {
	for i := range Rules {
		r, row := &Rules[i], FlowRow(RuleID(i))
		switch {
		case r.OnlyWarns == 0 || !row.Limits(&e.limits):
			continue
		case r.Doubts == nil && f.flags&flagWorkUnknown == 0, r.Doubts != nil && !r.Doubts(f, m):
			continue
		}
		names = append(names, r.Name)
	}
	return names
}

// View returns the flow for people and programs. Its strings are its own.
// It shows the flow as of its own clock; what is due by the partition's time has to be fired
// before.
func (e *verdictWriter) View(f *Flow) View {
	v := View{Flow: strings.Clone(f.key), Root: strings.Clone(f.root), Service: strings.Clone(f.service), Episode: int(f.episode) + 1, Start: events.RFC3339(f.start), Last: events.RFC3339(f.last),
		Events: int64(f.events), Status: "ok", Incomplete: f.flags&flagIncomplete != 0, Stack: []string{}, Parties: []PartyView{}, Hops: int64(f.hops),
		ToolCalls: int64(f.toolCalls), Turns: int64(f.turns), Tokens: f.tokens[2], CostUSD: float64(f.cost) / 1e6,
		Released: events.RFC3339(f.released), StrayAnswers: int(f.strays), Waited: time.Duration(f.waited * events.Stamp(time.Millisecond)).Seconds(), Orders: []events.Verdict{}}
	if f.flags&flagWorkUnknown != 0 {
		v.WorkUnknown = e.limits.RulesThatNeed(rules.NeedWork)
	}
	for _, x := range missing(&f.cast) {
		if names := e.limits.RulesThatNeed(x.need); len(names) > 0 {
			v.Missing = append(v.Missing, MissingView{x.what, names})
		}
	}
	var deadline moment // at which only the flow is known
	deadline.begin(f.clock)
	v.OnlyWarn = onlyWarn(&e.settings, f, &deadline)
	for r := range RuleCount {
		if mode := e.limits.Rules[r].Mode; f.exempted(e.byTag[r], mode, &deadline) != mode {
			v.Exempt = append(v.Exempt, Rules[r].Name)
		}
	}
	for _, s := range f.Stack() {
		v.Stack = append(v.Stack, strings.Clone(s))
	}
	for i := range f.parties {
		p := &f.parties[i]
		if p.flags&partyActive != 0 {
			v.Parties = append(v.Parties, PartyView{strings.Clone(p.name), strings.Clone(f.nameOf(p.parent)), len(p.calls), int(p.points), p.contextView(), e.jobView(f, i, f.clock)})
		}
	}
	for i := range f.payers {
		p := &f.payers[i]
		v.Payers = append(v.Payers, PayerView{budgets.Scope{Kind: p.kind, Tag: p.tag}.String(), strings.Clone(p.value)})
	}
	var at moment
	// Not the time of the reader: so the same state always gives the same view.
	at.begin(f.clock)
	m := &at
	status := standing.Phase(0)
	for i := range f.orders {
		o := &f.orders[i]
		v.Orders = append(v.Orders, e.verdict(f, o, m))
		// Also what is hidden under another order stands, and is shown.
		status = max(status, o.Phase)
	}
	// In the order of the phases.
	v.Status = [...]string{"ok", "warned", "armed", "stopped"}[status]
	switch {
	case f.Standing() == Held:
		v.Status = "held"
	case status == 0 && slices.ContainsFunc(f.offences, func(o offence) bool { return !f.overridden(o.rule, m.at) }):
		v.Status = "expired" // and no operator has granted more since
	}
	for i := range f.overrides {
		if o := &f.overrides[i]; m.at < o.expires {
			v.Grants = append(v.Grants, grantView(&e.settings, f, o, m))
		}
	}
	for i := range f.offences {
		o := &f.offences[i]
		v.Offences = append(v.Offences, OffenceView{Rules[o.rule].Name, int(o.count), events.RFC3339(o.last)})
	}
	v.Counters, v.Forecast = e.counters(nil, f, m), foresight{&e.settings}.views(f, m)
	if e.holds {
		v.Waiting = f.Waits(f.clock)
	}
	return v
}

// grantView shows a limit of a person with what it comes to.
func grantView(e *settings, f *Flow, o *flowOverride, m *moment) rules.GrantView {
	v := rules.GrantView{Rule: Rules[o.rule].Name, Unit: Rules[o.rule].Unit, Given: events.RFC3339(o.given), Until: events.RFC3339(o.expires), More: o.more}
	if s := e.setting(o.rule, f, m); s.Mode != rules.ModeOff && s.Stop != rules.Off {
		v.Limit = float64(s.Limit()) / rules.InUnit(Rules[o.rule].Unit)
	}
	return v
}

// Measure appends the counters of the flow to dst, as View shows them but for what is left, and returns how many calls
// it made between agents, how long that took, and whether it was stopped in its time, as far as it
// remembers. It is for what looks at many flows, and builds nothing else of a View.
func (e *settings) Measure(dst []rules.CounterView, f *Flow) (counters []rules.CounterView, hops int64, lasted time.Duration, offended bool) {
	m := new(moment)
	m.begin(f.clock)
	for i := range Rules {
		if rule := &Rules[i]; shows(e, rule, f, m) {
			dst = append(dst, counterOf(rule, f, &m.set))
		}
	}
	return dst, int64(f.hops), f.last.Sub(f.begun()), len(f.offences) > 0
}

// statuses are the words of View.Status, the strictest last.
var statuses = [...]string{"ok", "expired", "warned", "armed", "stopped", "held"}

// Bind adds orders that were given elsewhere than where the flow is folded, as about its tree,
// and makes its status that of the strictest. It keeps copies.
func (v *View) Bind(orders []*events.Verdict) {
	for _, o := range orders {
		status := "stopped"
		switch {
		case !o.Stops():
			status = "warned"
		case o.Effective == events.EffectiveNext:
			status = "armed"
		case o.Action == events.Hold:
			status = "held"
		}
		if slices.Index(statuses[:], status) > slices.Index(statuses[:], v.Status) {
			v.Status = status
		}
		bound := *o
		if bound.Waiting == nil {
			agents.SayWaiting(&bound, v.Waiting)
		}
		v.Orders = append(v.Orders, bound)
	}
}

// overridden reports whether a person's other limit stands for a row.
func (f *sanctions) overridden(r RuleID, at events.Stamp) bool {
	return slices.ContainsFunc(f.overrides, func(o flowOverride) bool { return o.rule == r && at < o.expires })
}

// counters appends what a flow has used up of each budget and how far each
// pattern has come, whatever the last event was.
// Rows without Show have nothing to show between events and are left out.
func (e *settings) counters(out []rules.CounterView, f *Flow, m *moment) []rules.CounterView {
	for i := range Rules {
		if rule := &Rules[i]; shows(e, rule, f, m) {
			c := counterOf(rule, f, &m.set)
			c.Left = leftOf(f, rule, m.set)
			out = append(out, c)
		}
	}
	return out
}

// shows reports whether there is a counter of the row. It leaves the setting of the row in the moment.
func shows(e *settings, rule *FlowRule, f *Flow, m *moment) bool {
	if rule.Show == nil {
		return false
	}
	m.set = e.setting(rule.ID, f, m)
	return m.set.Mode != rules.ModeOff
}

// counterOf is how far a row has come.
func counterOf(rule *FlowRule, f *Flow, s *rules.Setting) rules.CounterView {
	unit := rules.InUnit(rule.Unit)
	c := rules.CounterView{Rule: rule.Name, Unit: rule.Unit, Observed: float64(rule.Show(f, s)) / unit}
	if s.Warn != rules.Off {
		c.Warn = float64(s.Warn) / unit
		c.Near = c.Observed / c.Warn
	}
	if s.Stop != rules.Off {
		c.Limit, c.Max = float64(s.Limit())/unit, s.Max
		// A limit of 0 cannot be divided by; how near the warning is stands then. Otherwise Near is about
		// the stop, and 0 where neither is set.
		if c.Limit > 0 {
			c.Near = c.Observed / c.Limit
		}
	}
	return c
}

// leftOf returns what remains of the limit of a row; nil for one that does not report it. It
// counts as addRemaining does, up to the last event and without a requested call.
func leftOf(f *Flow, rule *FlowRule, s rules.Setting) *float64 {
	if f.offended(f.start, rule.ID) && s.Warn < s.Stop {
		s.Stop, s.Max = s.Warn, false
	}
	if !rule.Tells || s.Mode != rules.ModeEnforce || s.Stop == rules.Off {
		return nil
	}
	left := s.Limit() - rule.Show(f, &s)
	if !s.Max && rules.OneByOne(rule.Unit) {
		left-- // the call that reaches a stop is refused
	}
	in := float64(max(0, left)) / rules.InUnit(rule.Unit)
	return &in
}

// Explain returns the state of a flow as cases of weir test show it, in one line. What stands
// is not in it: a case lists verdicts, which say the same.
// It names no time and no hash, so golden files stay as they are when one of these changes.
func (e *Engine) Explain(f *Flow) string {
	var b strings.Builder
	fmt.Fprintf(&b, "stack=%s calls=%d agents=%d", strings.Join(f.Stack(), ","), f.hops, f.unique)
	// What is 0 is left out: few flows have all of these.
	if f.toolCalls > 0 {
		fmt.Fprintf(&b, " tools=%d", f.toolCalls)
	}
	if f.turns > 0 {
		fmt.Fprintf(&b, " turns=%d", f.turns)
	}
	if f.tokens[2] > 0 {
		fmt.Fprintf(&b, " tokens=%d", f.tokens[2])
	}
	if f.root != "" {
		fmt.Fprintf(&b, " root=%s", standing.Printable(f.root))
	}
	// People count episodes from 1.
	if f.episode > 0 {
		fmt.Fprintf(&b, " episode=%d", f.episode+1)
	}
	b.WriteByte('\n')
	return b.String()
}
