package analyzer_test

import (
	"fmt"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/analyzer/rules"
	"weir/events"
)

// stuckDisagreements says why weir and a peer differ about silent agents.
var stuckDisagreements = map[string]string{
	"unitares-stuck#2": "the peer waits for three reports before it looks at an agent",
	"unitares-stuck#5": "the peer gives up on an agent after a day; weir has told of it after five minutes and does not take it back",
	"unitares-stuck#7": "the peer gives up on an agent after a day; weir has told of it when its cadence broke and does not take it back",
}

// TestPeerCasesOfSilence runs the cases about stuck agents with the rows that the peer has
// today: it has withdrawn those by which inactivity alone is enough.
func TestPeerCasesOfSilence(t *testing.T) {
	cases, pinned := readPeerCases(t)
	l := analyzer.Balanced()
	for r := agents.RuleCriticalMargin; r <= agents.RuleCadence; r++ {
		if r != agents.RuleCriticalMargin && r != agents.RuleCadence {
			l.Agents.Rules[r].Mode = rules.ModeOff
		}
	}
	e := analyzer.New(l)
	got := map[string]string{}
	judged := 0
	for i := range cases {
		c := &cases[i]
		if c.Scope != "stuck" {
			continue
		}
		judged++
		var run playedCase
		for n, op := range expandOps(c.Events, 0) {
			run.levels = append(run.levels, silenceOf(e, op, n))
		}
		if said := c.disagreement(run); said != "" {
			got[c.key()] = said
		}
	}
	t.Logf("of %d cases about silent agents %d agree", judged, judged-len(got))
	if pinned {
		comparePins(t, got, stuckDisagreements)
	}
}

// silenceOf plays one agent as the case describes it, and says how far weir has gone when
// the peer looks at it.
func silenceOf(e *analyzer.Engine, op peerOp, n int) level {
	var (
		p  agents.Partition
		a  agents.Agent
		fx analyzer.Effects
	)
	minutes := func(field string) time.Duration {
		return time.Duration(fieldOf[float64](op, field) * float64(time.Minute))
	}
	name := fmt.Sprint("agent-", n)
	a.Reset("agent:" + name)
	at := events.Stamp(1_700_000_000_000)
	for i := range max(1, fieldOf[int](op, "reports")) {
		if i > 0 {
			at = at.Add(minutes("avg_gap_min"))
		}
		e.Agents().Step(&p, &a, &events.Event{ID: fmt.Sprint(i), Time: at, Kind: events.AgentStatus, From: events.Party{Agent: name},
			AgentState: &events.AgentState{Status: fieldOf[string](op, "status"), Margin: fieldOf[string](op, "margin")}}, &fx.Effects)
	}
	fx.Reset()
	p.Watermark = at.Add(minutes("idle_min"))
	e.Agents().Advance(&p, &a, p.Watermark, &fx.Effects)
	switch e.Agents().View(&p, &a).State {
	case "stuck":
		return levelStop
	case "potentially_stuck":
		return levelWarn
	}
	return levelOK
}
