package analyzer

import (
	"fmt"
	"time"

	"weir/events"
)

// Row is a row of one of the two tables, of Rules or of AgentRules, as limits files and
// people see them: one list of names, each with a setting.
type Row struct {
	Name    string
	Reason  events.Reason
	Unit    events.Unit
	About   string
	Action  events.Action
	Window  string // what Setting.Window means; "" when the row has none
	From    string
	Status  int // HTTP status of a refusal; 0 when the row refuses nothing
	Armed   bool
	Paced   bool
	Silence bool // the value is how many seconds an agent was silent
	Default Setting

	place  int
	agents bool
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
func FlowRow(id RuleID) Row {
	r := &Rules[id]
	return Row{Name: r.Name, Reason: r.Reason, Unit: r.Unit, About: r.About, Action: r.Action, Window: r.Window, From: r.From,
		Status: r.Status, Armed: r.Armed, Paced: r.Paced, Default: r.Default, place: int(id)}
}

// AgentRow returns a row about agents or projects.
func AgentRow(id AgentRuleID) Row {
	r := &AgentRules[id]
	return Row{Name: r.Name, Reason: r.Reason, Unit: r.Unit, About: r.About, Action: r.Action, Window: r.Window, From: r.From,
		Status: r.Status, Armed: r.Armed, Silence: r.Silence, Default: r.Default, place: int(id), agents: true}
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

// OfAgents tells whether the row is about agents or projects, over all flows.
func (r *Row) OfAgents() bool { return r.agents }

// Flow returns the number of a row about flows; false for one about agents.
func (r *Row) Flow() (RuleID, bool) { return RuleID(r.place), !r.agents }

// Agent returns the number of a row about agents; false for one about flows.
func (r *Row) Agent() (AgentRuleID, bool) { return AgentRuleID(r.place), r.agents }

// Fixed tells whether nothing about the row can be set.
func (r *Row) Fixed() bool { return !r.agents && RuleID(r.place) == RuleOperator }

// ModeOnly tells whether the row measures nothing, so that it has a mode alone.
func (r *Row) ModeOnly() bool { return r.Unit == events.UnitNone && !r.Fixed() }

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
	switch r.Window {
	case "":
		return 0, 0, "delete the key"
	case "gaps":
		return 1, maxGapFactor, "it is how many mean gaps between reports may pass"
	case "calls":
		return 1, maxCalls, fmt.Sprintf("the last %d calls of a party are kept", maxCalls)
	}
	switch {
	case !r.agents:
		return 1, maxRateWindow, "times are kept for 10 minutes"
	case AgentRuleID(r.place) == AgentRuleMessages || AgentRuleID(r.place) == AgentRuleProject:
		return capBuckets, maxCapWindow, "a cap is for a long time: agent_message_rate is for a short one"
	}
	return 1, maxAgentWindow, "times are kept for an hour: max_agent_messages counts further"
}

// Reach returns the greatest value that the row can observe with the window of s, and
// why it is not more. A threshold above it would be a limit that does not exist.
func (r *Row) Reach(s *Setting) (most int64, why string) {
	if r.agents {
		switch AgentRuleID(r.place) {
		case AgentRuleRate, AgentRuleMinted:
			return maxAgentStamps, fmt.Sprintf("the times of the last %d are kept; max_agent_messages counts further", maxAgentStamps)
		case AgentRuleAttempts:
			return maxAgentStamps, fmt.Sprintf("the times of the last %d are kept", maxAgentStamps)
		case AgentRuleMessages, AgentRuleProject:
			return maxThreshold, "write off for no limit"
		}
		return int64(maxDuration / time.Second), "nobody waits longer"
	}
	switch RuleID(r.place) {
	case RuleCorrelationID, RuleSelfCall:
		return 1, "a call is one or it is not"
	case RuleStackDepth:
		return maxParties, fmt.Sprintf("at most %d parties of a flow are kept", maxParties)
	case RuleCallerRate, RuleFlowRate:
		return maxRateStamps, fmt.Sprintf("the times of the last %d hops are kept; max_total_calls counts further", maxRateStamps)
	case RuleNoWorkBurst:
		return maxBurst, fmt.Sprintf("the times of the last %d such hops are kept; no_work_hops counts further", maxBurst)
	case RuleStaleDelegation, RuleStaleAnswers:
		return maxRounds, fmt.Sprintf("the last %d rounds of a pair are looked at", maxRounds)
	case RuleCircling:
		return maxPoints, "points stop there"
	case RuleFlowDuration:
		return int64(maxDuration / time.Second), "no episode lasts longer"
	case RuleUniqueSessions, RuleRevisits, RulePingPongSame, RulePingPongOther, RuleRepeatedDelegation, RuleNoWorkHops,
		RuleToolCycle, RuleToolCycleLong, RuleRepeatedError, RuleNoProgress, RuleTurns, RuleReflectLoops, RuleLoops:
		return maxCount, "the counter stops there"
	}
	if r.Window == "calls" {
		return s.Window, "so many calls are in the window"
	}
	return maxThreshold, "write off for no limit"
}
