package analyzer

import (
	"time"

	"weir/analyzer/agents"
	"weir/analyzer/budgets"
	"weir/analyzer/forecast"
	"weir/analyzer/prices"
	"weir/analyzer/rules"
	"weir/events"
)

// FlowLimits says when an episode of a flow ends.
type FlowLimits struct {
	Idle   time.Duration // silence that ends an episode
	MaxAge time.Duration // longest episode; also how long offences are remembered
	// UserStarts lists, as a bit set of 1<<CorrelationSource, where a user's call
	// starts a new episode with clean counters: where the id stands for a whole
	// conversation and not for one action, or for a prompt, in the middle of which a
	// person who watches may speak.
	UserStarts uint16
}

// OrderLimits says how long orders stand.
type OrderLimits struct {
	TTL   time.Duration // of an order; renewed while it holds
	Grace time.Duration // calls seen this soon after an order were in flight, not attempts
	Hold  time.Duration // how long a flow that is held waits for a person; then it is halted
}

// Escalation is after how many attempts against an order it is widened.
// It is widened to the pair (for a tool call: to the tool whatever the arguments), to the agent
// and to the flow. 0 leaves that step out (see decision 8).
type Escalation struct {
	// Each counts attempts since the order was given, not since the last step.
	Pair, Agent, Flow int64
}

// Load shrinks limits while everything together is busy.
// Hops are counted per partition and by event time, so a replay shrinks where the live run did
// (see decision 14). Low is below High so that limits do not flap.
type Load struct {
	High, Low int64   // hops per minute in the partition; High 0 turns it off
	Percent   int64   // remaining share of a scaled limit above High
	Scale     RuleSet // rows that shrink
}

// Degraded is the mode in which calls that are asked for do not wait for a fold that is
// behind: they are judged by what it had folded last.
// It is not folded from the log: the pump decides when it is on, and the fold of such asks is
// thrown away (see decision 73).
type Degraded struct {
	After   time.Duration // the fold is behind for so long when the mode begins; 0 turns it off
	Until   time.Duration // it has kept up for so long again when the mode ends
	Percent int64         // remaining share of a scaled limit meanwhile
	Scale   RuleSet       // rows that shrink
}

// DefaultDegraded has rates shrink and nothing else. A caller that is too fast has to wait, and
// no work under way is ended because weir is slow.
func DefaultDegraded() Degraded {
	d := Degraded{After: time.Second, Until: 10 * time.Second, Percent: 50}
	for i := range Rules {
		if Rules[i].Action == events.Throttle {
			d.Scale = d.Scale.With(RuleID(i))
		}
	}
	return d
}

// WhenBehind returns the limits that hold while the mode for a fold that is behind is on.
// They keep the version of the limits that they are made of: the mode is no other set of
// limits.
func (l *Limits) WhenBehind() Limits {
	out := *l
	for i := range out.Rules {
		if l.Degraded.Scale.Has(RuleID(i)) {
			out.Rules[i] = out.Rules[i].Scale(l.Degraded.Percent)
		}
	}
	return out
}

// ToolLimits is what a tool is exempt from.
type ToolLimits struct {
	Name       string
	IgnoreArgs []string // top-level arguments left out of the hash
	Exempt     bool     // from every rule about repetition
}

// IgnoredArgs returns the top-level arguments of a tool that do not distinguish its calls.
// Code that makes events of foreign logs uses it before it hashes; the fold sees only hashes.
func (l *Limits) IgnoredArgs(tool string) []string {
	for i := range l.Tools {
		if l.Tools[i].Name == tool {
			return l.Tools[i].IgnoreArgs
		}
	}
	return nil
}

// Override changes one row for one scope until it expires.
// It comes from the limits file, for any scope; what a person gives one flow at run time is
// kept in the flow (flowOverride).
type Override struct {
	Scope   events.ScopeKind // project, agent, tool or flow
	ID      string
	Rule    RuleID
	Setting rules.Setting
	Reason  string
	Expires events.Stamp
}

// Identity is what makes two parties the same.
// It matters where a log reports both a session and an agent: two sessions of one agent are two
// parties by session and one by agent. An order's scope carries the name that was chosen.
type Identity uint8

// The identities.
const (
	BySession Identity = iota // the session, else the agent
	ByAgent                   // the agent, else the session
)

// Of returns the identity of p.
func (i Identity) Of(p events.Party) string {
	if i == ByAgent && p.Agent != "" {
		return p.Agent
	}
	return p.ID()
}

// Limits is everything that the fold is judged by. A Limits is a plain value;
// New makes an Engine of it.
type Limits struct {
	Profile   string
	Identity  Identity
	Flow      FlowLimits
	Order     OrderLimits
	Escalate  Escalation
	WarnOnly  uint16 // bit set of 1<<CorrelationSource whose flows are never stopped
	Rules     [RuleCount]rules.Setting
	Load      Load
	Degraded  Degraded
	Tools     []ToolLimits
	Overrides []Override
	Subagents []KindLimits // of single kinds; the first that fits counts
	Exempt    []rules.Exemption
	// Prices are of tokens of which an event reports no cost. A part of the limits, so that a replay
	// has the prices of its time.
	Prices prices.Table
	// An order carries four bytes of it, by which it is seen that other limits gave it
	// (decision 20).
	Version    string // hash of the effective limits, in every verdict
	HTTPStatus [RuleCount]int16
	Texts      [RuleCount]string // what people read about a row's orders, see Words; "" is the row's own
	Agents     agents.Limits
	Budgets    []budgets.Budget // over all flows
	Forecast   forecast.Table   // what good runs spent in the end
}

// RuleSet is a set of rule rows.
// One bit for each row, so there may be 64 rows at most.
type RuleSet uint64

// Has reports whether r is in the set.
func (s RuleSet) Has(r RuleID) bool { return s>>r&1 == 1 }

// With returns the set with r in it.
func (s RuleSet) With(r RuleID) RuleSet { return s | 1<<r }

// DefaultHold is how long a flow that is held waits where the limits file does not say.
const DefaultHold = time.Hour

// Balanced returns the default limits. They are tuned on real traces and must not
// stop honest work; decision 11 says where each figure comes from.
func Balanced() Limits {
	l := Limits{
		Profile:  "balanced",
		Flow:     FlowLimits{Idle: 10 * time.Minute, MaxAge: 2 * time.Hour, UserStarts: 1<<events.CorrelationPrompt | 1<<events.CorrelationConversation | 1<<events.CorrelationSession},
		Order:    OrderLimits{TTL: 15 * time.Minute, Grace: time.Second, Hold: DefaultHold},
		Escalate: Escalation{Pair: 3, Agent: 6, Flow: 12},
		WarnOnly: 1<<events.CorrelationDerived | 1<<events.CorrelationPrincipal,
		Load:     Load{Percent: 50},
		Degraded: DefaultDegraded(),
		Agents:   agents.Balanced(),
	}
	for i := range l.Rules {
		l.Rules[i] = Rules[i].Default
	}
	return l
}

// varies reports whether settings may differ from the file's for some flows or
// events, so that setting has to be asked. Those of rows about subagents always may.
// It is the fast way out: without it every row of every event would copy its setting.
func (e *settings) varies(f *Flow) bool {
	return e.scaled != 0 || len(e.limits.Overrides) > 0 || len(f.overrides) > 0 || e.tagged && len(f.marks) > 0
}

// setting returns the setting of row r for the flow and event at hand.
// What counts later wins: load, the overrides of the limits file, its exemptions, what a person
// gave the flow.
// So a person's grant holds as given, however busy everything is.
func (e *settings) setting(r RuleID, f *Flow, m *moment) rules.Setting {
	s := e.limits.Rules[r]
	if r.ofJob() && m.from != none {
		s = e.limits.jobSetting(r, &f.parties[m.from], m)
	}
	if e.scaled.Has(r) && m.busy {
		s = s.Scale(e.limits.Load.Percent)
	}
	if len(e.limits.Overrides) > 0 {
		for i := range e.limits.Overrides {
			o := &e.limits.Overrides[i]
			if o.Rule == r && m.at < o.Expires && o.covers(f, m) {
				s = o.Setting
			}
		}
	}
	if x := e.byTag[r]; x != nil && len(f.marks) > 0 {
		s.Mode = f.exempted(x, s.Mode, m)
	}
	for i := range f.overrides {
		if o := &f.overrides[i]; o.rule == r && m.at < o.expires {
			s.Mode = o.mode
			before := s
			if o.warn.Set {
				s.Warn = o.warn.Value
			}
			if o.stop.Set {
				s.Stop = o.stop.Value
				if s.Max && s.Stop != rules.Off {
					// A figure is given as the file writes it, the highest that is allowed.
					s.Stop++
				}
			}
			if r.ofJob() && m.from != none && (o.more && s.Stop < before.Stop || f.parties[m.from].job.since == 0) {
				s = before // more for one kind is no less for another
			}
		}
	}
	return s
}

// covers reports whether the override is about what m does. The narrower scope
// wins because limitfile.Validate sorts project before agent before tool before flow.
func (o *Override) covers(f *Flow, m *moment) bool {
	if m.ev == nil { // a deadline: only what is about the flow itself
		return o.Scope == events.ScopeFlow && o.ID == f.key
	}
	switch o.Scope {
	case events.ScopeProject:
		return m.ev.ProjectID == o.ID
	case events.ScopeAgent:
		return m.ev.From.Agent == o.ID || m.ev.From.Session == o.ID
	case events.ScopeTool:
		return m.ev.Tool.Name == o.ID
	case events.ScopeFlow:
		return f.key == o.ID
	}
	return false
}

// spares reports whether the tags of the event's tool keep a row from giving any order about it.
func (e *settings) spares(r RuleID, f *Flow, m *moment) bool {
	if e.byTag[r] == nil || len(f.marks) == 0 {
		return false
	}
	mode := e.byTag[r].Mode(rules.ModeEnforce, m.at, f.marks, rules.OfTool(m.ev.Tool.Name))
	return mode == rules.ModeOff || mode == rules.ModeShadow
}

// exempted returns the mode of a row: mode, lowered by the tags of the flow and of the event's
// agent and tool. At a deadline only the flow's tags apply.
func (f *identity) exempted(x rules.Exempt, mode rules.Mode, m *moment) rules.Mode {
	if m.ev == nil {
		return x.Mode(mode, m.at, f.marks, 0)
	}
	return x.Mode(mode, m.at, f.marks, 0, rules.OfAgent(m.ev.From.Agent), rules.OfAgent(m.ev.From.Session), rules.OfTool(m.ev.Tool.Name))
}

// mark keeps the tags that the event carries, of the flow, its agents and its tool.
func (f *identity) mark(ev *events.Event) {
	if ev.Kind == events.AgentStatus {
		f.marks.Add(rules.OfAgent(ev.From.ID()), ev.Tags)
	} else {
		f.marks.Add(0, ev.Tags)
	}
	f.marks.Add(rules.OfAgent(ev.From.ID()), ev.From.Tags)
	f.marks.Add(rules.OfAgent(ev.To.ID()), ev.To.Tags)
	f.marks.Add(rules.OfTool(ev.Tool.Name), ev.Tool.Tags)
}
