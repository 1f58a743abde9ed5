package app

import (
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/events/kafka"
)

func TestHorizon(t *testing.T) {
	f := func(stage Stage, want time.Duration, change func(l *analyzer.Limits)) {
		t.Helper()
		l := limitfile.Default()
		change(&l)
		if got := Horizon(stage, &l); got != want+limitsEvery {
			t.Errorf("%v and %v, want %v", got-limitsEvery, limitsEvery, want)
		}
	}
	episode := 2*time.Hour + 10*time.Minute + analyzer.Grace
	f(FlowStage, episode, func(*analyzer.Limits) {})
	f(FlowStage, episode+time.Hour, func(l *analyzer.Limits) { l.Flow.MaxAge += time.Hour })
	f(AgentStage, agentDay, func(*analyzer.Limits) {})
	f(AgentStage, agentDay, func(l *analyzer.Limits) { l.Flow.MaxAge = 100 * time.Hour })
	// Half an hour of silence, and the steps of the ladder.
	f(AgentStage, 40*time.Hour+time.Hour, func(l *analyzer.Limits) { l.Agents.Patience = 40 * time.Hour })
	long := func(mode analyzer.Mode) func(l *analyzer.Limits) {
		return func(l *analyzer.Limits) {
			l.Agents.Rules[analyzer.AgentRuleMessages] = analyzer.Setting{Mode: mode, Warn: analyzer.Off, Stop: 1_000_000, Window: 48 * 3600}
		}
	}
	f(AgentStage, 48*time.Hour, long(analyzer.ModeEnforce))
	f(AgentStage, agentDay, long(analyzer.ModeOff))
}

// TestLanes holds how the partitions of both topics are numbered, and what a record of
// the activity is that weir has not written.
func TestLanes(t *testing.T) {
	flows := &lanes{stage: FlowStage, topic: "events", partitions: []int{0, 1, 2}}
	agents := &lanes{stage: AgentStage, topic: "activity", partitions: []int{0, 1}, first: 3}
	if flows.lane(2) != 2 || agents.lane(1) != 4 || agents.describe(1) != "partition 1 of activity" {
		t.Errorf("%d, %d, %s", flows.lane(2), agents.lane(1), agents.describe(1))
	}
	if GroupOf("weir", FlowStage) != "weir" || GroupOf("weir", AgentStage) != "weir-agents" {
		t.Error("the groups have other names")
	}
	r := kafka.Record{Offset: 7, Appended: 9, Key: []byte("agent:a"), Value: []byte("{}")}
	if got := flows.record(&r); got.Offset != 7 || got.Appended != 9 || got.Key != "" || got.From != (Position{}) {
		t.Errorf("%+v", got)
	}
	if got := agents.record(&r); got.Key != "agent:a" || got.From != (Position{Source: -1}) {
		t.Errorf("%+v", got)
	}
}
