package analyzer

import (
	"fmt"
	"strings"
	"time"

	"weir/events"
)

// Bounds of what a setting may say.
const (
	// MaxThreshold leaves room for the factors of pace and load, and is a number that
	// JSON readers hold exactly.
	MaxThreshold = 1_000_000_000_000_000
	// MaxDuration is the longest that anything about a flow or an agent may last.
	MaxDuration = 366 * 24 * time.Hour
	// MaxCount is where the counters of a flow stop counting.
	MaxCount = 1 << 15

	maxPoints      = 1000           // of circling
	maxRateWindow  = 600            // seconds for which the times of hops are kept
	maxAgentWindow = 3600           // seconds for which the times of messages to an agent are kept
	maxCapWindow   = 30 * 24 * 3600 // seconds
	maxGapFactor   = 100            // mean gaps between reports
)

// Row is a row of one of the two tables, of Rules or of AgentRules, as limits files and
// people see them: one list of names, each with a setting.
type Row struct {
	Name        string
	Reason      events.Reason
	Unit        events.Unit
	About       string
	Action      events.Action
	Window      string // what Setting.Window means; "" when the row has none
	From        string
	Status      int // HTTP status of a refusal; 0 when the row refuses nothing
	Armed       bool
	Paced       bool
	Tells       bool // who asks is told what is left
	Holds       bool // the setting may hold the flow where the row would refuse
	Silence     bool // the value is how many seconds an agent was silent
	Needs       Need // what a log has to tell for the rule to say anything
	Shares      bool // the setting may set aside a share for each child of a tree
	Fixed       bool // nothing about the row can be set
	Blind       bool // the setting may say that results do not count
	Delegations bool // the setting may say that calls count that are no delegations
	Returns     bool // the setting may say that turns count again that come back
	Unknown     bool // the setting may say that hops count of which nobody knows whether they brought work
	Newcomers   bool // the setting may say that hops count to whom the talk had not reached
	Default     Setting

	Text      string // what people are told; "" when the row has words of its own for each step
	Smells    int64  // a limit above it is a design smell; 0 for none
	Beginning bool   // the setting may say that only what the episode began with counts

	place  int
	agents bool
	counts Counted
	span   span
	most   reach
}

// Rows lists the rows about flows, then those about agents and projects.
func Rows() []Row {
	out := make([]Row, 0, int(RuleCount)+int(AgentRuleCount))
	for id := range RuleCount {
		out = append(out, FlowRow(id))
	}
	for id := range AgentRuleCount {
		out = append(out, AgentRow(id))
	}
	return out
}

// FlowRow returns a row about flows.
func FlowRow(id RuleID) Row { return rowOf(&Rules[id]) }

// AgentRow returns a row about agents or projects.
func AgentRow(id AgentRuleID) Row {
	r := rowOf(&AgentRules[id])
	r.agents, r.Holds = true, r.counts.OfTree() && r.Action == events.Halt && r.counts != CountedTreeDepth
	return r
}

func rowOf[S any, ID ~uint8](r *Rule[S, ID]) Row {
	return Row{Name: r.Name, Reason: r.Reason, Unit: r.Unit, About: r.About, Action: r.Action, Window: r.Window, From: r.From, Status: r.Status,
		Armed: r.Armed, Tells: r.Tells, Holds: (r.Action == events.Deny || r.Action == events.Halt) && !r.Lifts && !r.Fixed, Paced: r.Paced, Silence: r.Silence, Shares: r.Shares, Needs: r.Needs, Fixed: r.Fixed, Blind: r.Blind, Delegations: r.Delegations, Returns: r.Returns, Unknown: r.Unknown, Newcomers: r.Newcomers, Default: r.Default,
		Text: textOf(r), Smells: r.Smells, Beginning: r.Beginning,
		place: int(r.ID), counts: r.Counts, span: r.Span, most: r.Most}
}

// RowNamed returns the row that limits files call name.
func RowNamed(name string) (Row, bool) {
	if id, ok := RuleNamed(name); ok {
		return FlowRow(id), true
	}
	for id := range AgentRuleCount {
		if AgentRules[id].Name == name {
			return AgentRow(id), true
		}
	}
	return Row{}, false
}

// RowsThat names the rows of which something is true.
func RowsThat(is func(*Row) bool) string {
	var names []string
	for _, r := range Rows() {
		if is(&r) {
			names = append(names, r.Name)
		}
	}
	return strings.Join(names, ", ")
}

// OfAgents tells whether the row is about agents or projects, over all flows.
func (r *Row) OfAgents() bool { return r.agents }

// Flow returns the number of a row about flows; false for one about agents.
func (r *Row) Flow() (RuleID, bool) { return RuleID(r.place), !r.agents }

// ChoosesCount tells whether the setting may say what the row counts.
func (r *Row) ChoosesCount() bool {
	return r.counts == CountedEscaped || r.Delegations || r.Returns || r.Beginning || r.Unknown || r.Newcomers
}

// Counts returns what of the activity a row about agents counts.
func (r *Row) Counts() Counted { return r.counts }

// ModeOnly tells whether the row measures nothing, so that it has a mode alone.
func (r *Row) ModeOnly() bool { return r.Unit == events.UnitNone && !r.Fixed }

// Setting returns the setting of the row in l.
func (r *Row) Setting(l *Limits) *Setting {
	if r.agents {
		return &l.Agents.Rules[r.place]
	}
	return &l.Rules[r.place]
}

// HTTPStatus returns where l holds the status of a refusal; 0 there is the row's own.
func (r *Row) HTTPStatus(l *Limits) *int16 {
	if r.agents {
		return &l.Agents.HTTPStatus[r.place]
	}
	return &l.HTTPStatus[r.place]
}

// TextOf returns where l holds what people are told of the row; "" there is the row's own.
func (r *Row) TextOf(l *Limits) *string {
	if r.agents {
		return &l.Agents.Texts[r.place]
	}
	return &l.Texts[r.place]
}

// Off returns the setting with which the row never speaks.
func (r *Row) Off() Setting {
	if r.ModeOnly() {
		return Setting{Mode: ModeOff}
	}
	return Setting{Warn: Off, Stop: Off, Max: r.Default.Max, Window: r.Default.Window}
}

// Windows returns the least and the greatest window of the row, in the unit that Window
// names, and why they are so; zeros for a row without one.
func (r *Row) Windows() (least, most int64, why string) {
	switch {
	case r.Window == "":
		return 0, 0, "delete the key"
	case r.Window == "calls":
		return 1, maxCalls, fmt.Sprintf("the last %d calls of a party are kept", maxCalls)
	}
	return r.span.least, r.span.most, r.span.why
}

// Reach returns the greatest value that the row can observe with the window of s, and
// why it is not more. A threshold above it would be a limit that does not exist.
func (r *Row) Reach(s *Setting) (most int64, why string) {
	switch {
	case r.most.most != 0:
		return r.most.most, r.most.why
	case r.Window == "calls":
		return s.Window, "so many calls are in the window"
	}
	return MaxThreshold, "write off for no limit"
}
