package analyzer_test

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/analyzer/rules"
	"weir/events"
)

// status is what the agent under test tells of itself.
func status(s events.AgentState) events.Event {
	return events.Event{Kind: events.AgentStatus, From: events.Party{Agent: "coder"}, AgentState: &s}
}

func TestExplainAgent(t *testing.T) {
	c := counting(t, "agent:coder", func(l *analyzer.Limits) {
		row(agents.RuleRate, rules.ModeEnforce)(l)
		row(agents.RuleAttempts, rules.ModeShadow)(l)
		row(agents.RuleTightMargin, rules.ModeEnforce)(l)
	})
	f := func(want ...string) {
		t.Helper()
		if got := c.engine.Agents().Explain(&c.agents, &c.agent); got != strings.Join(want, "\n")+"\n" {
			t.Errorf("explained\n%swant\n%s", got, strings.Join(want, "\n"))
		}
	}
	f("agent=coder state=unwatched events=0")
	for i := range 10 {
		c.at(float64(i), message())
	}
	f("agent=coder state=unwatched events=10 agent_message_rate=10",
		"  throttle agent_message_rate effective=next observed=10 limit=10 until=2023-11-14T22:15:00.000Z")
	c.at(20, status(events.AgentState{Status: "active", Margin: "tight", Health: "healthy"}))
	for range 24 {
		c.at(30, refused())
	}
	c.pass(1000)
	f("agent=coder state=potentially_stuck silent=980s events=35 reports=1 status=active margin=tight health=healthy",
		"  potentially_stuck tight_margin_timeout since=2023-11-14T22:29:20.001Z")
	c.at(1001, status(events.AgentState{Status: "waiting_input\x1b[31m"}))
	c.at(1002, refused())
	f("agent=coder state=waiting waiting=work events=37 reports=2 status=waiting_input?[31m agent_attempts=1")
}

func TestAgentViewIsOfItsOwn(t *testing.T) {
	c := counting(t, "agent:coder", func(l *analyzer.Limits) {
		row(agents.RuleRate, rules.ModeEnforce)(l)
	})
	c.at(1, status(events.AgentState{Status: "active", Health: "healthy", Margin: "tight", Coherence: 0, HasCoherence: true}))
	c.at(2, events.Event{Kind: events.NoteAdded, From: events.Party{Agent: "coder"}, Note: &events.Note{Summary: "look", Tags: []string{"how", "to"}}})
	for i := range 10 {
		c.at(float64(3+i), message())
	}
	record, err := c.agent.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	var a agents.Agent
	if err := a.UnmarshalBinary("agent:coder", record); err != nil {
		t.Fatal(err)
	}
	v := c.engine.Agents().View(&c.agents, &a)
	before, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	for i := range record {
		record[i] = '!'
	}
	after, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if string(before) != string(after) {
		t.Errorf("the view was\n%s\nand is\n%s\nwhen the record is written over", before, after)
	}
	if v.Agent != "coder" || v.Kind != "agent" || v.Coherence == nil || *v.Coherence != 0 || v.Risk != nil || len(v.Orders) != 1 || len(v.Notes) != 1 ||
		len(v.Counters) != 1 || v.Counters[0] != (rules.CounterView{Rule: "agent_message_rate", Unit: "messages", Observed: 10, Warn: 8, Limit: 10, Max: true, Near: 1}) {
		t.Errorf("%s", before)
	}
	if got, want := v.Orders[0].ID, c.last[0].ID; got != want {
		t.Errorf("order %s, want %s as it was given", got, want)
	}
}
