package analyzer

import (
	"fmt"
	"strings"

	"weir/analyzer/agents"
	"weir/analyzer/rules"
	"weir/events"
)

// Bounds of windows and counters.
const (
	maxPoints     = 1000 // of circling
	maxRateWindow = 600  // seconds for which the times of hops are kept
)

// Row is a row of one of the two tables, of Rules or of agents.Rules, as limits files and
// people see them: one list of names, each with a setting.
// It is a copy for reading; settings are changed in the Limits to which Setting points.
type Row struct {
	rules.Row
	Holds bool // the setting may hold the flow where the row would refuse

	// Its number in the table that it is of: two rows may have one place.
	// place is also where the row's setting stands in the Limits.
	place  int
	agents bool
	counts agents.Counted
}

// Rows lists the rows about flows, then those about agents and projects.
func Rows() []Row {
	out := make([]Row, 0, int(RuleCount)+int(agents.RuleCount))
	for id := range RuleCount {
		out = append(out, FlowRow(id))
	}
	for id := range agents.RuleCount {
		out = append(out, AgentRow(id))
	}
	return out
}

// FlowRow returns a row about flows.
func FlowRow(id RuleID) Row {
	r := &Rules[id]
	// What is lifted by the work going on cannot wait for a person, nor what only delays
	// (decision 66).
	holds := (r.Action == events.Deny || r.Action == events.Halt) && (!r.Lifts || r.HoldsCalls) && !r.Fixed
	out := Row{Row: r.Row, Holds: holds, place: int(id)}
	out.Text = r.Sentence()
	return out
}

// AgentRow returns a row about agents, projects or trees.
// Of these only rows about a whole tree can hold: an agent is no piece of work that could
// wait.
func AgentRow(id agents.RuleID) Row {
	r := &agents.Rules[id]
	holds := r.Counts.OfTree() && r.Action == events.Halt && r.Counts != agents.CountedTreeDepth
	out := Row{Row: r.Row, Holds: holds, place: int(id), agents: true, counts: r.Counts}
	out.Text = r.Sentence()
	return out
}

// RowNamed returns the row that limits files call name.
// It looks at rows about flows first.
func RowNamed(name string) (Row, bool) {
	if id, ok := RuleNamed(name); ok {
		return FlowRow(id), true
	}
	for id := range agents.RuleCount {
		if agents.Rules[id].Name == name {
			return AgentRow(id), true
		}
	}
	return Row{}, false
}

// RowsThat names the rows of which something is true.
// It is for messages that say which rows a key is for.
func RowsThat(is func(*Row) bool) string {
	var names []string
	for _, r := range Rows() {
		if is(&r) {
			names = append(names, r.Name)
		}
	}
	return strings.Join(names, ", ")
}

// OfAgents reports whether the row is about agents or projects, over all flows.
func (r *Row) OfAgents() bool { return r.agents }

// Flow returns the number of a row about flows; false for one about agents, and for a row that does not exist.
func (r *Row) Flow() (RuleID, bool) { return RuleID(r.place), r.exists() && !r.agents }

// exists is false for the zero row, which RowNamed returns for a name without a rule.
func (r *Row) exists() bool { return r.Name != "" }

// HoldsCalls reports whether a hold of the row is about the refused calls alone: the rest of the flow goes on.
func (r *Row) HoldsCalls() bool {
	id, ok := r.Flow()
	return ok && Rules[id].HoldsCalls
}

// at is the place of the row in its table. The zero row has none: 0 is that of the first rule.
func (r *Row) at() int {
	if !r.exists() {
		panic("analyzer: a row that does not exist has no setting")
	}
	return r.place
}

// ChoosesCount reports whether the setting may choose what the row counts.
func (r *Row) ChoosesCount() bool {
	return r.counts == agents.CountedEscaped || r.Delegations || r.Returns || r.Beginning || r.Unknown || r.Newcomers
}

// Counts returns what of the activity a row about agents counts.
func (r *Row) Counts() agents.Counted { return r.counts }

// ModeOnly reports whether the row measures nothing, so that it has only a mode.
func (r *Row) ModeOnly() bool { return r.Unit == events.UnitNone && !r.Fixed }

// Setting returns the setting of the row in l.
// The pointer is into l, so that the reader of a limits file writes through it.
func (r *Row) Setting(l *Limits) *rules.Setting {
	if r.agents {
		return &l.Agents.Rules[r.at()]
	}
	return &l.Rules[r.at()]
}

// OfSubagents reports whether the row is about what one subagent uses, of which kinds may have limits of their own.
func (r *Row) OfSubagents() bool { return r.exists() && !r.agents && RuleID(r.place).ofJob() }

// Limits reports whether the limits say anything by the row: its own setting, or that of a kind of subagents.
func (r *Row) Limits(l *Limits) bool {
	if r.agents {
		return !r.Setting(l).Mute()
	}
	return l.say(RuleID(r.at()))
}

// HTTPStatus returns where l holds the status of a refusal; 0 there is the row's own.
func (r *Row) HTTPStatus(l *Limits) *int16 {
	if r.agents {
		return &l.Agents.HTTPStatus[r.at()]
	}
	return &l.HTTPStatus[r.at()]
}

// TextOf returns where l holds the text for people about the row; "" there is the row's own.
func (r *Row) TextOf(l *Limits) *string {
	if r.agents {
		return &l.Agents.Texts[r.at()]
	}
	return &l.Texts[r.at()]
}

// Off returns the setting with which the row never speaks.
// Window and Max stay as they are by default, so that what a person turns on later has a
// meaning.
func (r *Row) Off() rules.Setting {
	if r.ModeOnly() {
		return rules.Setting{Mode: rules.ModeOff}
	}
	return rules.Setting{Warn: rules.Off, Stop: rules.Off, Max: r.Default.Max, Window: r.Default.Window}
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
	return r.Span.Least, r.Span.Most, r.Span.Why
}

// Reach returns the greatest value that the row can observe with the window of s, and
// why it is not more. A threshold above it would be a limit that does not exist.
func (r *Row) Reach(s *rules.Setting) (most int64, why string) {
	switch {
	case r.Most.Most != 0:
		return r.Most.Most, r.Most.Why
	case r.Window == "calls":
		return s.Window, "so many calls are in the window"
	}
	return rules.MaxThreshold, "write off for no limit"
}
