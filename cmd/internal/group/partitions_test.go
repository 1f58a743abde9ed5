package group

import (
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/activity"
	"weir/analyzer/agents"
	"weir/analyzer/limitfile"
	"weir/analyzer/rules"
	"weir/cmd/internal/pump"
	"weir/events/kafka"
)

func TestLookback(t *testing.T) {
	f := func(stage pump.Stage, want time.Duration, change func(l *analyzer.Limits)) {
		t.Helper()
		l := limitfile.Default()
		change(&l)
		if got := Lookback(stage, &l); got != want+limitsEvery {
			t.Errorf("%v and %v, want %v", got-limitsEvery, limitsEvery, want)
		}
	}
	episode := 2*time.Hour + 10*time.Minute + activity.Grace
	f(pump.FlowStage, episode, func(*analyzer.Limits) {})
	f(pump.FlowStage, episode+time.Hour, func(l *analyzer.Limits) { l.Flow.MaxAge += time.Hour })
	f(pump.AgentStage, agentDay, func(*analyzer.Limits) {})
	f(pump.AgentStage, agentDay, func(l *analyzer.Limits) { l.Flow.MaxAge = 100 * time.Hour })
	// Half an hour of silence, and the steps of the ladder.
	f(pump.AgentStage, 40*time.Hour+time.Hour, func(l *analyzer.Limits) { l.Agents.Patience = 40 * time.Hour })
	long := func(mode rules.Mode) func(l *analyzer.Limits) {
		return func(l *analyzer.Limits) {
			l.Agents.Rules[agents.RuleMessages] = rules.Setting{Mode: mode, Warn: rules.Off, Stop: 1_000_000, Window: 48 * 3600}
		}
	}
	f(pump.AgentStage, 48*time.Hour, long(rules.ModeEnforce))
	f(pump.AgentStage, agentDay, long(rules.ModeOff))
}

// TestPartitionSets holds how the partitions of both topics are numbered, and what a record of
// the activity is that weir has not written.
func TestPartitionSets(t *testing.T) {
	flows := &partitionSet{stage: pump.FlowStage, topic: "events", partitions: []int{0, 1, 2}}
	agents := &partitionSet{stage: pump.AgentStage, topic: "activity", partitions: []int{0, 1}, first: 3}
	if flows.output(2) != 2 || agents.output(1) != 4 || agents.describe(1) != "partition 1 of activity" {
		t.Errorf("%d, %d, %s", flows.output(2), agents.output(1), agents.describe(1))
	}
	if NameOf("weir", pump.FlowStage) != "weir" || NameOf("weir", pump.AgentStage) != "weir-agents" {
		t.Error("the groups have other names")
	}
	r := kafka.Record{Offset: 7, Time: 9, Key: []byte("agent:a"), Value: []byte("{}")}
	if got := flows.record(&r); got.Offset != 7 || got.Appended != 9 || got.Key != "" || got.From != (pump.Position{}) {
		t.Errorf("%+v", got)
	}
	if got := agents.record(&r); got.Key != "agent:a" || got.From != (pump.Position{Source: -1}) {
		t.Errorf("%+v", got)
	}
}
