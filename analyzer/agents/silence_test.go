package agents

import (
	"fmt"
	"testing"
	"time"

	"weir/analyzer/activity"
	"weir/analyzer/rules"
	"weir/events"
)

const day = 24 * time.Hour

var healthy = events.AgentState{Status: "active", Margin: "comfortable", Health: "healthy"}

func TestEveryThresholdOfSilence(t *testing.T) {
	f := func(row RuleID, state events.AgentState, seconds int64, want string) {
		t.Helper()
		y := newAgentPlay(t, only(row))
		y.status(0, state)
		limit := time.Duration(seconds) * time.Second
		if got, want := y.e.Due(&y.a), dawn.Add(limit+time.Millisecond); got != want {
			t.Errorf("%s: due %d after dawn, want %d", Rules[row].Name, got-dawn, want-dawn)
		}
		y.advance(limit - time.Millisecond)
		y.want()
		y.advance(limit)
		y.want()
		y.advance(limit + time.Millisecond)
		y.want(fmt.Sprintf("%s %d/%d @%d", want, seconds+1, seconds, seconds*1000+1))
		y.advance(limit + time.Hour/100)
		y.want()
	}
	f(RuleCriticalMargin, events.AgentState{Status: "active", Margin: "critical"}, 300, "notify critical_margin_timeout")
	f(RuleTightMargin, events.AgentState{Status: "active", Margin: "tight"}, 900, "warn tight_margin_timeout")
	f(RuleActivity, events.AgentState{Status: "active"}, 600, "warn activity_timeout")
	f(RuleActivity, events.AgentState{}, 600, "warn activity_timeout")
	f(RuleHealthPoor, events.AgentState{Status: "active", Health: "moderate"}, 300, "notify health_timeout")
	f(RuleHealthPoor, events.AgentState{Status: "active", Health: "critical"}, 300, "notify health_timeout")
	f(RuleHealthGood, events.AgentState{Status: "active", Health: "healthy"}, 1800, "warn health_timeout")
}

func TestRowsOfSilenceSpeakOfTheirAgentsAlone(t *testing.T) {
	f := func(row RuleID, state events.AgentState) {
		t.Helper()
		y := newAgentPlay(t, only(row))
		y.status(0, state)
		y.advance(30 * day)
		y.want()
	}
	f(RuleCriticalMargin, events.AgentState{Status: "active", Margin: "tight", Health: "critical"})
	f(RuleTightMargin, events.AgentState{Status: "active", Margin: "critical"})
	f(RuleHealthPoor, events.AgentState{Status: "active", Margin: "critical", Health: "healthy"})
	f(RuleHealthGood, events.AgentState{Status: "active", Health: "moderate"})
	f(RuleHealthGood, events.AgentState{Status: "active"})
	f(RuleCadence, healthy)
}

func TestActivityWarnsThenCallsStuck(t *testing.T) {
	y := newAgentPlay(t, only(RuleActivity))
	y.status(0, healthy)
	y.advance(30 * day)
	first := y.fx.Verdicts[0]
	second := y.fx.Verdicts[1]
	y.want("warn activity_timeout 601/600 @600001", "notify activity_timeout 1801/1800 @1800001")
	if first.ID[:16] != second.ID[:16] || first.Revision >= second.Revision {
		t.Errorf("both are about one order, the second later: %s %d, %s %d", first.ID, first.Revision, second.ID, second.Revision)
	}
	if first.Recovery.Certainty != "potentially_stuck" || second.Recovery.Certainty != "stuck" {
		t.Errorf("certainty %q, then %q", first.Recovery.Certainty, second.Recovery.Certainty)
	}
	if first.CorrelationID != "" || first.Agent != "probe" || first.Scope != (events.Scope{Kind: "agent", ID: "probe"}) {
		t.Errorf("the verdict is about %+v, agent %q, flow %q; want the agent over all flows", first.Scope, first.Agent, first.CorrelationID)
	}
	y.status(30*day+time.Second, healthy)
	cleared := y.fx.Verdicts[0]
	y.want(fmt.Sprintf("allow activity_timeout @%d", (30*day + time.Second).Milliseconds()))
	if cleared.ID[:16] != first.ID[:16] || cleared.Revision <= second.Revision {
		t.Errorf("the order is taken back as %s %d, was given as %s %d", cleared.ID, cleared.Revision, second.ID, second.Revision)
	}
	y.advance(30*day + time.Second + 600*time.Second)
	y.want()
	y.advance(30*day + time.Second + 600*time.Second + time.Millisecond)
	if next := y.last(); next.ID[:16] == first.ID[:16] {
		t.Error("the next silence is another order; it has the id of the first")
	}
}

func TestStuckComesBeforePotentiallyStuck(t *testing.T) {
	y := newAgentPlay(t, only(RuleCriticalMargin, RuleHealthPoor, RuleActivity), func(l *Limits) {
		l.Rules[RuleActivity].Warn = 300
	})
	y.status(0, events.AgentState{Status: "active", Margin: "critical", Health: "critical"})
	y.advance(day)
	y.want("notify critical_margin_timeout 301/300 @300001") // the first of the table, and nothing after it
}

func TestTellsOnlyWhatChanges(t *testing.T) {
	y := newAgentPlay(t)
	y.status(0, events.AgentState{Status: "active", Margin: "tight", Health: "healthy"})
	y.advance(30 * day)
	// The tight margin at 15 min and the health at 30 min change nothing.
	y.want("warn activity_timeout 601/600 @600001", "notify activity_timeout 1801/1800 @1800001")
}

func TestWhoWaitsIsNotSilent(t *testing.T) {
	patience := (2 * time.Hour).Milliseconds()
	f := func(want string, tell func(y *agentPlay)) {
		t.Helper()
		y := newAgentPlay(t)
		tell(y)
		start := time.Duration(y.a.last-dawn) * time.Millisecond
		if got := y.condition(start + 2*time.Hour); got != want {
			t.Errorf("condition %q, want %q", got, want)
		}
		y.advance(start + 2*time.Hour)
		y.want()
		y.advance(start + 2*time.Hour + time.Millisecond)
		y.want(fmt.Sprintf("notify activity_timeout 7201/1800 @%d", start.Milliseconds()+patience+1))
	}
	own := func(status string) func(*agentPlay) {
		return func(y *agentPlay) { y.status(0, events.AgentState{Status: status}) }
	}
	flow := func(work string) func(*agentPlay) {
		return func(y *agentPlay) {
			y.status(0, healthy)
			y.work(time.Minute, "flow-1", work)
		}
	}
	f("waiting user", own("waiting_input"))
	f("waiting user", own("input_required"))
	f("waiting approval", own("waiting_approval"))
	f("waiting child", own("waiting_child"))
	f("waiting backoff", own("rate_limited"))
	f("in_tool", own("in_tool"))
	f("in_tool", flow(activity.WorkInTool))
	f("waiting child", flow(activity.WorkChild))
	f("waiting backoff", flow(activity.WorkBackOff))
}

func TestNothingIsExpectedOfWhoRests(t *testing.T) {
	f := func(want string, tell func(y *agentPlay)) {
		t.Helper()
		y := newAgentPlay(t, recovers)
		tell(y)
		if got := y.condition(time.Hour); got != want {
			t.Errorf("condition %q, want %q", got, want)
		}
		if due := y.e.Due(&y.a); due != 0 {
			t.Errorf("it is to be looked at %d ms after dawn, want never", due-dawn)
		}
		y.advance(30 * day)
		y.want()
	}
	own := func(status string) func(*agentPlay) {
		return func(y *agentPlay) { y.status(0, events.AgentState{Status: status, Margin: "critical"}) }
	}
	f("waiting user", own("paused"))
	f("waiting work", own("idle"))
	f("waiting work", own("a word that nobody agreed on"))
	f("archived", own("archived"))
	f("archived", own("deleted"))
	f("archived", own("completed"))
	f("waiting work", func(y *agentPlay) { // it returned
		y.status(0, healthy)
		y.work(time.Minute, "flow-1", activity.WorkActive)
		y.work(2*time.Minute, "flow-1", activity.WorkDone)
	})
	f("waiting work", func(y *agentPlay) { // its last word counts, though a tool has not answered
		y.work(0, "flow-1", activity.WorkInTool)
		y.status(time.Minute, events.AgentState{Status: "idle"})
	})
}

func TestLatestWordCounts(t *testing.T) {
	f := func(want string, tell func(y *agentPlay)) {
		t.Helper()
		y := newAgentPlay(t)
		y.status(0, healthy)
		tell(y)
		if got := y.condition(3 * time.Minute); got != want {
			t.Errorf("condition %q, want %q", got, want)
		}
	}
	f("silent", func(y *agentPlay) {})
	f("active", func(y *agentPlay) { y.work(2*time.Minute, "flow-1", activity.WorkActive) })
	f("silent", func(y *agentPlay) { // done in one flow, at work in another
		y.work(time.Minute, "flow-1", activity.WorkActive)
		y.work(90*time.Second, "flow-2", activity.WorkDone)
	})
	f("active", func(y *agentPlay) {
		y.work(time.Minute, "flow-1", activity.WorkDone)
		y.status(2*time.Minute, healthy)
	})
	f("in_tool", func(y *agentPlay) { // a tool in one flow is enough
		y.work(time.Minute, "flow-1", activity.WorkInTool)
		y.work(90*time.Second, "flow-2", activity.WorkActive)
	})
	f("in_tool", func(y *agentPlay) {
		y.work(time.Minute, "flow-1", activity.WorkInTool)
		y.status(2*time.Minute, healthy)
	})
	f("waiting user", func(y *agentPlay) {
		y.work(time.Minute, "flow-1", activity.WorkActive)
		y.status(2*time.Minute, events.AgentState{Status: "waiting_input"})
	})
	f("active", func(y *agentPlay) {
		y.status(time.Minute, events.AgentState{Status: "waiting_input"})
		y.work(2*time.Minute, "flow-1", activity.WorkActive)
	})
	f("in_tool", func(y *agentPlay) { // what comes late does not undo what is known
		y.work(2*time.Minute, "flow-1", activity.WorkInTool)
		y.work(time.Minute, "flow-1", activity.WorkActive)
	})
	f("waiting user", func(y *agentPlay) {
		y.status(2*time.Minute, events.AgentState{Status: "waiting_input"})
		y.status(time.Minute, healthy)
	})
}

func TestToolOfTwentyMinutes(t *testing.T) {
	y := newAgentPlay(t, recovers)
	y.status(0, events.AgentState{Status: "active", Margin: "critical"})
	y.work(time.Minute, "flow-1", activity.WorkInTool)
	y.advance(21 * time.Minute)
	y.want()
	y.work(21*time.Minute, "flow-1", activity.WorkActive) // the tool has answered
	y.advance(26 * time.Minute)
	y.want()
	y.advance(26*time.Minute + time.Millisecond)
	if v := y.last(); events.Stamp(v.Time) != dawn.Add(26*time.Minute+time.Millisecond) {
		t.Errorf("silence is counted from the tool's answer; the verdict is %d ms after dawn", events.Stamp(v.Time)-dawn)
	}
}

func TestManyFlowsAreRememberedByWhatTheyExpect(t *testing.T) {
	y := newAgentPlay(t)
	y.status(0, healthy)
	y.work(time.Second, "slow", activity.WorkInTool)
	for i := range 100 {
		y.work(time.Duration(2+i)*time.Second, fmt.Sprint("flow-", i), activity.WorkDone)
	}
	if got := y.condition(time.Hour); got != "in_tool" {
		t.Errorf("condition %q, want in_tool: a hundred other flows came and went", got)
	}
	if len(y.a.works) != maxFlows {
		t.Errorf("%d flows are remembered, want %d", len(y.a.works), maxFlows)
	}
}

func TestCadence(t *testing.T) {
	f := func(gap time.Duration, reports int, seconds int64) {
		t.Helper()
		y := newAgentPlay(t, only(RuleCadence))
		for i := range reports {
			y.status(time.Duration(i)*gap, healthy)
		}
		last := time.Duration(reports-1) * gap
		limit := time.Duration(seconds) * time.Second
		if seconds == 0 {
			y.advance(last + 30*day)
			y.want()
			return
		}
		y.advance(last + limit)
		y.want()
		y.advance(last + limit + time.Millisecond)
		y.want(fmt.Sprintf("warn cadence_broken %d/%d @%d", seconds+1, seconds, (last+limit).Milliseconds()+1))
	}
	f(time.Minute, 4, 0) // four reports make no cadence
	f(time.Minute, 5, 1800)
	f(5*time.Minute, 5, 1800)                 // six gaps are half an hour
	f(5*time.Minute+time.Second/2, 100, 1803) // and here a little more
	f(20*time.Minute, 10, 7200)               // who reports rarely may be silent for long
	f(2*time.Hour, 5, 12*60*60)               // the slow cron job
	f(time.Duration(1), 5, 0)                 // the same report five times is one report
	f(30*time.Second, maxGaps*3, 30*60+00)    // the last reports count
}

func TestCadenceForgetsOldGaps(t *testing.T) {
	y := newAgentPlay(t, only(RuleCadence))
	at := time.Duration(0)
	for range 20 {
		y.status(at, healthy)
		at += 2 * time.Hour
	}
	for range maxGaps {
		y.status(at, healthy)
		at += time.Minute
	}
	if got := y.a.meanGap(); got != 60 {
		t.Errorf("mean gap %v s, want 60: only the last %d reports count", got, maxGaps)
	}
}

func TestSpeakingInTime(t *testing.T) {
	// What comes before the watermark passes the deadline counts, though it comes late.
	y := newAgentPlay(t)
	y.status(0, healthy)
	y.status(601*time.Second, healthy)
	y.advance(601*time.Second + 600*time.Second)
	y.want()
}

func TestLateWordExcuses(t *testing.T) {
	y := newAgentPlay(t)
	y.status(time.Minute, healthy)
	y.advance(time.Minute + 600*time.Second + time.Millisecond)
	y.want("warn activity_timeout 601/600 @660001")
	y.work(30*time.Second, "flow-1", activity.WorkInTool) // it had been in a tool all the time
	y.want("allow activity_timeout @660001")

	y = newAgentPlay(t)
	y.status(0, healthy)
	y.advance(601 * time.Second)
	y.want("warn activity_timeout 601/600 @600001")
	y.work(300*time.Second, "flow-1", activity.WorkActive) // it had been at work
	y.want("allow activity_timeout @600001")
	y.advance(900 * time.Second)
	y.want()
	y.advance(900*time.Second + time.Millisecond)
	y.want("warn activity_timeout 601/600 @900001")
}

func TestModesOfSilence(t *testing.T) {
	f := func(mode rules.Mode, want ...string) {
		t.Helper()
		y := newAgentPlay(t, recovers, only(RuleActivity), inMode(mode, RuleActivity))
		y.status(0, healthy)
		y.advance(45 * time.Minute)
		y.status(time.Hour, healthy)
		y.want(want...)
	}
	f(rules.ModeOff)
	f(rules.ModeWarn, "warn activity_timeout 601/600 @600001", "warn activity_timeout 1801/1800 @1800001", "allow activity_timeout @3600000")
	f(rules.ModeShadow, "warn activity_timeout 601/600 @600001 shadow", "notify activity_timeout 1801/1800 @1800001 shadow",
		"allow activity_timeout @3600000 shadow")
	f(rules.ModeEnforce, "warn activity_timeout 601/600 @600001", "archive activity_timeout 1801/1800 @1800001",
		"notify activity_timeout 1801/1800 @1800001", "allow activity_timeout @3600000")
}

func TestShadowDoesNotHideOthers(t *testing.T) {
	y := newAgentPlay(t, only(RuleCriticalMargin, RuleActivity), inMode(rules.ModeShadow, RuleCriticalMargin))
	y.status(0, events.AgentState{Status: "active", Margin: "critical"})
	y.advance(day)
	y.want("notify critical_margin_timeout 301/300 @300001 shadow",
		"warn activity_timeout 601/600 @600001", "notify activity_timeout 1801/1800 @1800001")
	if got := y.condition(day); got != "stuck" {
		t.Errorf("condition %q, want stuck", got)
	}
}

func TestRowThatOnlyWarnsDoesNotKeepOthersFromRecovery(t *testing.T) {
	y := newAgentPlay(t, recovers, only(RuleCriticalMargin, RuleActivity), inMode(rules.ModeWarn, RuleCriticalMargin))
	y.status(0, events.AgentState{Status: "active", Margin: "critical"})
	y.advance(day)
	y.want("warn critical_margin_timeout 301/300 @300001",
		"archive activity_timeout 1801/1800 @1800001", "notify activity_timeout 1801/1800 @1800001")
}

func TestWhoNeverReportedIsNotWatched(t *testing.T) {
	y := newAgentPlay(t)
	y.work(0, "flow-1", activity.WorkActive)
	y.advance(30 * day)
	y.want()
	if y.a.Events() != 0 {
		t.Errorf("%d events are remembered of an agent that is not watched, want none", y.a.Events())
	}
	if got := y.condition(time.Hour); got != "unwatched" {
		t.Errorf("condition %q, want unwatched", got)
	}

	y = newAgentPlay(t, func(l *Limits) { l.WatchAll = true })
	y.work(0, "flow-1", activity.WorkActive)
	y.advance(30 * day)
	y.want("warn activity_timeout 601/600 @600001", "notify activity_timeout 1801/1800 @1800001")
}

func TestLastUpdateOfOthers(t *testing.T) {
	// A monitor reports an agent every minute, and when it did something last.
	y := newAgentPlay(t, only(RuleActivity))
	for i := range 20 {
		y.status(time.Duration(i)*time.Minute, events.AgentState{Status: "active", LastUpdate: dawn})
	}
	y.advance(20 * time.Minute)
	y.want("warn activity_timeout 601/600 @600001")
	if y.a.reports != 1 {
		t.Errorf("%d reports, want 1: the same update was told again", y.a.reports)
	}
}

func TestMaxOfSilence(t *testing.T) {
	y := newAgentPlay(t, only(RuleActivity), func(l *Limits) {
		l.Rules[RuleActivity] = rules.Setting{Warn: rules.Off, Stop: 61, Max: true}
	})
	y.status(0, healthy)
	y.advance(time.Minute)
	y.want()
	y.advance(time.Minute + time.Millisecond)
	y.want("notify activity_timeout 61/60 @60001")
}
