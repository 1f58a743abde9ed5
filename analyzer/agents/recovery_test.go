package agents

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/analyzer/activity"
	"weir/analyzer/rules"
	"weir/events"
)

// resumable is an agent that may be resumed without a review, as the recovery system
// reports it.
var resumable = events.AgentState{Status: "active", Margin: "critical", Health: "moderate", Coherence: 0.6, HasCoherence: true, Risk: 0.3, HasRisk: true}

// doubtful is one that may not.
var doubtful = events.AgentState{Status: "active", Margin: "critical", Health: "critical", Coherence: 0.2, HasCoherence: true, Risk: 0.8, HasRisk: true}

const found = 300*time.Second + time.Millisecond // both are stuck then

// stuckPlay is a play in which the agent was silent for five minutes and a millisecond.
func stuckPlay(t *testing.T, state events.AgentState, reviewers ...string) *agentPlay {
	t.Helper()
	y := newAgentPlay(t, recovers)
	for i, name := range reviewers {
		y.peer(time.Duration(i)*time.Second, name, healthy)
	}
	y.status(0, state)
	y.advance(300 * time.Second)
	y.want()
	y.advance(found)
	return y
}

func TestSafeAgentIsResumed(t *testing.T) {
	y := stuckPlay(t, resumable, "reviewer")
	v := y.fx.Verdicts[0]
	y.want("resume critical_margin_timeout 301/300 @300001")
	r := v.Recovery
	if !r.SafeToResume || r.Coherence != 0.6 || r.Risk != 0.3 || r.VoidActive || r.IdleS != 301 || r.Margin != "critical" ||
		r.Health != "moderate" || r.Certainty != "stuck" || r.Reviewer != "" || r.RequestedBy != "" {
		t.Errorf("recovery %+v", r)
	}
	if len(r.Conditions) != 1 || r.Conditions[0] != "Monitor for 1 hour" {
		t.Errorf("conditions %q", r.Conditions)
	}
	if v.TTLS != 600 || events.Stamp(v.ExpiresAt) != dawn.Add(found+10*time.Minute) {
		t.Errorf("it stands for %d s until %v, want 600 s", v.TTLS, v.ExpiresAt)
	}
	if !strings.HasPrefix(v.Message, "Auto-recovery: ") || v.ControlledCutoff || v.Match != nil || v.Trigger != nil {
		t.Errorf("%q, cutoff %v, match %v, trigger %v", v.Message, v.ControlledCutoff, v.Match, v.Trigger)
	}
	notes := y.a.Notes("auto-recovery")
	if len(notes) != 1 || notes[0].Author != "weir" || notes[0].Summary != "Auto-recovered stuck agent probe. Reason: critical_margin_timeout, Action: auto-resume" || notes[0].Agent != "probe" || len(y.a.Notes("stuck-agent")) != 1 {
		t.Errorf("notes %+v, want one with agent, reason and action", notes)
	}
	// It reports again: that is over.
	y.status(8*time.Minute, resumable)
	y.want("allow critical_margin_timeout @480000")
	y.advance(13 * time.Minute)
	y.want()
}

func TestWhatIsSafe(t *testing.T) {
	f := func(want bool, change func(s *events.AgentState)) {
		t.Helper()
		s := resumable
		change(&s)
		y := stuckPlay(t, s, "reviewer")
		if got := y.fx.Verdicts[0].Action == "resume"; got != want || y.fx.Verdicts[0].Recovery.SafeToResume != want {
			t.Errorf("%+v: %s, want safe %v", s, y.told(), want)
		}
	}
	f(true, func(s *events.AgentState) { s.Coherence, s.Risk = 0.41, 0.59 })
	f(false, func(s *events.AgentState) { s.Coherence = 0.40 })
	f(false, func(s *events.AgentState) { s.Risk = 0.60 })
	f(false, func(s *events.AgentState) { s.VoidActive = true })
	f(false, func(s *events.AgentState) { s.HasCoherence = false })
	f(false, func(s *events.AgentState) { s.HasRisk = false })
}

func TestUnsafeAgentIsReviewed(t *testing.T) {
	y := stuckPlay(t, doubtful, "reviewer")
	v := y.fx.Verdicts[0]
	y.want("review critical_margin_timeout 301/300 @300001 by reviewer")
	if v.Recovery.SafeToResume || len(v.Recovery.Conditions) != 0 || !strings.HasPrefix(v.Message, "Auto-recovery: ") || v.TTLS != 600 {
		t.Errorf("%q, %d s, %+v", v.Message, v.TTLS, v.Recovery)
	}
	y.advance(found + 10*time.Minute - time.Millisecond)
	y.want()
	y.advance(found + 10*time.Minute)
	archived := y.fx.Verdicts[0]
	y.want("archive critical_margin_timeout 901/300 @900001", "notify critical_margin_timeout 901/300 @900001")
	if archived.Message != "stuck - auto-archived" || archived.ID[:16] != v.ID[:16] {
		t.Errorf("message %q, id %s after %s", archived.Message, archived.ID, v.ID)
	}
	if got := y.condition(time.Hour); got != "archived" {
		t.Errorf("condition %q, want archived", got)
	}
	y.advance(30 * day)
	y.review(30*day, "reviewer", "resume") // too late
	y.want()
	y.status(30*day+time.Second, healthy)
	y.want(fmt.Sprintf("allow critical_margin_timeout @%d", (30*day + time.Second).Milliseconds()))
	if got := y.condition(30*day + time.Second); got != "active" {
		t.Errorf("condition %q, want active: it reports again", got)
	}
	if n := len(y.a.Notes("auto-recovery")); n != 2 {
		t.Errorf("%d notes of weir's own, want 2: the review and the archive", n)
	}
}

func TestNobodyToReview(t *testing.T) {
	f := func(prepare func(y *agentPlay)) {
		t.Helper()
		y := newAgentPlay(t, recovers)
		prepare(y)
		y.status(40*time.Minute, doubtful)
		y.advance(40*time.Minute + found)
		y.want("archive critical_margin_timeout 301/300 @2700001", "notify critical_margin_timeout 301/300 @2700001")
	}
	f(func(y *agentPlay) {})
	f(func(y *agentPlay) { y.status(30*time.Minute, healthy) }) // never itself
	f(func(y *agentPlay) { y.peer(15*time.Minute, "old", healthy) })
	f(func(y *agentPlay) {
		y.peer(30*time.Minute, "waiting", events.AgentState{Status: "waiting_input", Health: "healthy"})
	})
	f(func(y *agentPlay) {
		y.peer(30*time.Minute, "unwell", events.AgentState{Status: "active", Health: "moderate"})
	})
	f(func(y *agentPlay) {
		y.peer(30*time.Minute, "left", healthy)
		y.peer(31*time.Minute, "left", events.AgentState{Status: "archived"})
	})
}

func TestWhoReviews(t *testing.T) {
	f := func(want string, reviewers ...string) {
		t.Helper()
		y := newAgentPlay(t, recovers)
		for _, r := range reviewers {
			name, at, _ := strings.Cut(r, "@")
			d, err := time.ParseDuration(at)
			if err != nil {
				t.Fatal(err)
			}
			y.peer(d, name, healthy)
		}
		y.status(0, doubtful)
		y.advance(found)
		if got := y.last().Recovery.Reviewer; got != want {
			t.Errorf("of %v %q reviews, want %q", reviewers, got, want)
		}
	}
	f("b", "a@1s", "b@2s", "c@1s") // the latest report
	f("a", "c@1s", "b@1s", "a@1s") // the first name
	f("a", "a@1s", "probe@2s")
	f("a", "a@0s")

	// Who was found to be stuck since is not asked.
	y := newAgentPlay(t)
	y.peer(0, "b", healthy)
	y.status(time.Second, events.AgentState{Status: "active", Margin: "critical", Health: "healthy"})
	if got := y.p.choose("c", dawn.Add(5*time.Minute)); got != "probe" {
		t.Errorf("%q reviews, want probe, of which was heard last", got)
	}
	y.p.offer("a", dawn, true)
	y.advance(time.Second + found)
	for range 4 {
		if got := y.p.choose("c", dawn.Add(6*time.Minute)); got == "probe" {
			t.Errorf("%s reviews, and is stuck itself", got)
		}
	}

	// Reviews go round.
	var p Partition
	p.offer("a", dawn, true)
	p.offer("b", dawn, true)
	p.offer("c", dawn, true)
	var got []string
	for range 7 {
		got = append(got, p.choose("b", dawn))
	}
	if s := strings.Join(got, ""); s != "acacaca" {
		t.Errorf("reviewers %s, want acacaca", s)
	}
	if at := dawn.Add(30 * time.Minute); p.choose("", at) != "b" || p.choose("", at+1) != "" {
		t.Error("who reported half an hour ago may be asked, and not a millisecond later")
	}
}

func TestCandidatesAreBounded(t *testing.T) {
	var p Partition
	for i := range 1000 {
		p.offer(fmt.Sprint("agent-", i), dawn+events.Stamp(i), true)
	}
	if len(p.candidates) != maxCandidates {
		t.Fatalf("%d candidates, want %d", len(p.candidates), maxCandidates)
	}
	for i := range p.candidates {
		if c := &p.candidates[i]; c.at < dawn+1000-maxCandidates {
			t.Errorf("%s of %d stayed; the oldest goes", c.name, c.at-dawn)
		}
	}
	p.offer("late", dawn, true)
	if p.offer("agent-999", dawn+2000, false); p.choose("", dawn+2000) != "agent-998" {
		t.Error("who is not fit any more must not be chosen")
	}
	record, _ := p.AppendBinary(nil)
	var q Partition
	if err := q.UnmarshalBinary(record); err != nil {
		t.Fatal(err)
	}
	again, _ := q.AppendBinary(nil)
	if string(again) != string(record) {
		t.Error("decoded and encoded again the record differs")
	}
	for i := range record {
		if err := new(Partition).UnmarshalBinary(record[:i]); err == nil && i > 0 {
			t.Errorf("a record cut to %d of %d bytes was read", i, len(record))
		}
	}
	if new(Partition).UnmarshalBinary([]byte{99, 0, 0}) == nil {
		t.Error("a record of another version was read")
	}
}

func TestReviewInTime(t *testing.T) {
	review := func() *agentPlay {
		y := stuckPlay(t, doubtful, "reviewer")
		y.want("review critical_margin_timeout 301/300 @300001 by reviewer")
		return y
	}
	y := review()
	y.review(7*time.Minute, "reviewer", "resume")
	v := y.fx.Verdicts[0]
	y.want("resume critical_margin_timeout 420/300 @420000")
	if v.Detail != "looked at it" || v.Recovery.SafeToResume || v.Trigger == nil || v.Recovery.Conditions == nil {
		t.Errorf("detail %q, recovery %+v, trigger %v", v.Detail, v.Recovery, v.Trigger)
	}
	y.advance(17 * time.Minute) // the review has not helped either: there is no second one
	y.want("archive critical_margin_timeout 1020/300 @1020000", "notify critical_margin_timeout 1020/300 @1020000")

	y = review()
	y.review(7*time.Minute, "reviewer", "keep")
	y.want("allow critical_margin_timeout @420000")
	y.advance(12 * time.Minute) // silence is counted anew
	y.want()
	y.advance(12*time.Minute + time.Millisecond)
	y.want("review critical_margin_timeout 301/300 @720001 by reviewer")

	y = review()
	y.review(7*time.Minute, "reviewer", "archive")
	y.want("archive critical_margin_timeout 420/300 @420000", "notify critical_margin_timeout 420/300 @420000")
	y.advance(day)
	y.want()

	y = review()
	y.review(7*time.Minute, "probe", "keep") // no agent reviews itself
	y.review(7*time.Minute, "reviewer", "whatever")
	y.want()

	y = stuckPlay(t, resumable)
	y.want("resume critical_margin_timeout 301/300 @300001")
	y.review(7*time.Minute, "reviewer", "archive") // without a request
	y.want()
}

func TestResumedInVain(t *testing.T) {
	y := stuckPlay(t, resumable, "reviewer")
	y.want("resume critical_margin_timeout 301/300 @300001")
	y.advance(found + 10*time.Minute - time.Millisecond)
	y.want()
	y.advance(found + 10*time.Minute)
	y.want("review critical_margin_timeout 901/300 @900001 by reviewer")
	y.advance(day)
	y.want("archive critical_margin_timeout 1501/300 @1500001", "notify critical_margin_timeout 1501/300 @1500001")
}

func TestAckOfResume(t *testing.T) {
	y := stuckPlay(t, resumable, "reviewer")
	v := y.last()
	y.ack(6*time.Minute, events.Verdict{ID: "0000000000000000-1"}, true) // of another order
	y.ack(6*time.Minute, v, false)                                       // not done
	y.ack(8*time.Minute, v, true)
	y.ack(9*time.Minute, v, true) // the second says nothing new
	if got := y.condition(9 * time.Minute); got != "stuck" {
		t.Errorf("condition %q, want stuck until it reports", got)
	}
	y.advance(13 * time.Minute) // counted anew from the ack
	y.want()
	y.advance(13*time.Minute + time.Millisecond)
	y.want("review critical_margin_timeout 301/300 @780001 by reviewer")

	y = stuckPlay(t, resumable, "reviewer")
	v = y.last()
	y.ack(8*time.Minute, v, true)
	y.status(12*time.Minute, resumable)
	y.want("allow critical_margin_timeout @720000")
}

func TestAckOfReview(t *testing.T) {
	y := stuckPlay(t, doubtful, "reviewer")
	v := y.last()
	y.ack(8*time.Minute, v, true)
	y.ack(9*time.Minute, v, true) // only once
	y.advance(found + 20*time.Minute - time.Millisecond)
	y.want()
	y.advance(found + 20*time.Minute)
	y.want("archive critical_margin_timeout 1501/300 @1500001", "notify critical_margin_timeout 1501/300 @1500001")

	y = stuckPlay(t, doubtful, "reviewer")
	v = y.last()
	y.advance(found + 10*time.Minute)
	archive := y.fx.Verdicts[0]
	y.fx.Reset()
	y.ack(found+11*time.Minute, v, true)
	y.ack(found+11*time.Minute, archive, true)
	y.advance(day)
	y.want()
}

func TestReportsAgainAtEachStep(t *testing.T) {
	f := func(steps string, state events.AgentState, at time.Duration, reviewers ...string) {
		t.Helper()
		y := newAgentPlay(t, recovers)
		for _, r := range reviewers {
			y.peer(0, r, healthy)
		}
		y.status(0, state)
		y.advance(at)
		y.status(at+time.Second, state)
		var actions []string
		id, revision := y.fx.Verdicts[0].ID[:16], int64(0)
		for i := range y.fx.Verdicts {
			v := &y.fx.Verdicts[i]
			actions = append(actions, string(v.Action))
			if v.ID[:16] != id {
				t.Errorf("%s: the id of the order changes from %s to %s", v.Action, id, v.ID)
			}
			if v.Revision <= revision {
				t.Errorf("%s: revision %d after %d", v.Action, v.Revision, revision)
			}
			revision = v.Revision
		}
		if got := strings.Join(actions, " "); got != steps {
			t.Errorf("%s, want %s", got, steps)
		}
		if got := y.condition(at + time.Second); got != "active" {
			t.Errorf("condition %q after it reported, want active", got)
		}
		if y.a.stuck != (stuck{}) {
			t.Errorf("left over: %+v", y.a.stuck)
		}
	}
	plain := events.AgentState{Status: "active", Coherence: 0.6, HasCoherence: true, Risk: 0.3, HasRisk: true}
	f("warn allow", plain, 15*time.Minute)
	f("warn resume allow", plain, 31*time.Minute)
	f("warn resume archive notify allow", plain, 41*time.Minute)
	f("resume allow", resumable, 6*time.Minute)
	f("resume review allow", resumable, 16*time.Minute, "reviewer")
	f("resume review archive notify allow", resumable, 26*time.Minute, "reviewer")
	f("review allow", doubtful, 6*time.Minute, "reviewer")
	f("review archive notify allow", doubtful, 16*time.Minute, "reviewer")
	f("archive notify allow", doubtful, 6*time.Minute)
}

func TestFlowsShowThatItLivesAgain(t *testing.T) {
	y := stuckPlay(t, resumable)
	y.fx.Reset()
	y.work(6*time.Minute, "flow-1", activity.WorkActive)
	y.want("allow critical_margin_timeout @360000")

	y = stuckPlay(t, resumable)
	y.fx.Reset()
	y.note(6*time.Minute, probe, events.Party{}, "thought")
	y.want("allow critical_margin_timeout @360000")
}

func TestRecoverOff(t *testing.T) {
	y := newAgentPlay(t)
	y.peer(0, "reviewer", healthy)
	y.status(0, resumable)
	y.advance(day)
	v := y.fx.Verdicts[0]
	y.want("notify critical_margin_timeout 301/300 @300001")
	if v.ExpiresAt != 0 || len(y.a.Notes("")) != 0 || v.Recovery == nil || v.Recovery.Certainty != "stuck" {
		t.Errorf("people are told, nothing is ordered: %+v, notes %+v", v, y.a.Notes(""))
	}
}

func TestRecoverTurnedOffOnTheWay(t *testing.T) {
	y := stuckPlay(t, resumable, "reviewer")
	y.fx.Reset()
	y.e = New(Balanced(), balancedTerms)
	y.advance(day)
	y.want("notify critical_margin_timeout 901/300 @900001")
}

func TestRescueOfTheStuck(t *testing.T) {
	// Potentially stuck: help comes at once, though weir was configured not to give orders of
	// its own.
	potentially := func() *agentPlay {
		y := newAgentPlay(t)
		y.peer(0, "reviewer", healthy)
		y.status(0, events.AgentState{Status: "active", Coherence: 0.6, HasCoherence: true, Risk: 0.3, HasRisk: true})
		y.advance(11 * time.Minute)
		y.want("warn activity_timeout 601/600 @600001")
		return y
	}
	y := potentially()
	y.rescue(11*time.Minute, "peer", false)
	v := y.fx.Verdicts[0]
	y.want("resume rescue_requested @660000 for peer")
	if v.Recovery.Certainty != "potentially_stuck" || v.Detail != "no answer" || v.Trigger == nil || v.Trigger.EventID == "" || v.Recovery.IdleS != 660 {
		t.Errorf("recovery %+v, detail %q, trigger %+v", v.Recovery, v.Detail, v.Trigger)
	}
	y.rescue(12*time.Minute, "other", false) // help is on its way
	y.want()
	y.advance(21 * time.Minute)
	y.want("review rescue_requested @1260000 by reviewer for peer")
	y.advance(31 * time.Minute)
	y.want("archive rescue_requested @1860000 for peer", "notify rescue_requested @1860000 for peer")
	y.status(32*time.Minute, healthy)
	y.want("allow rescue_requested @1920000")

	y = potentially()
	y.rescue(11*time.Minute, "probe", false) // it asks for itself: that is no sign of life
	y.want("resume rescue_requested @660000 for probe")

	y = potentially()
	y.note(11*time.Minute, probe, events.Party{}, "Stuck", "HELP")
	y.want("resume rescue_requested @660000 for probe")

	y = potentially()
	y.note(11*time.Minute, events.Party{Agent: "peer"}, probe, "help", "stuck", "more")
	y.want("resume rescue_requested @660000 for peer")

	y = potentially()
	y.note(11*time.Minute, events.Party{Agent: "peer"}, probe, "help") // only a note
	y.want()

	y = newAgentPlay(t) // stuck, people were notified
	y.status(0, doubtful)
	y.advance(day)
	y.fx.Reset()
	y.rescue(day, "peer", false)
	y.want("archive rescue_requested @86400000 for peer", "notify rescue_requested @86400000 for peer")
	y.rescue(day+time.Second, "peer", false) // it is archived already, and there is no reviewer for it
	y.want()
	y.peer(day, "reviewer", healthy)
	y.rescue(day+time.Minute, "peer", false)
	y.want("review rescue_requested @86460000 by reviewer for peer")
}

func TestRescueRefused(t *testing.T) {
	f := func(ask func(y *agentPlay)) {
		t.Helper()
		y := newAgentPlay(t, recovers)
		y.status(0, healthy)
		y.advance(5 * time.Minute)
		ask(y)
		if len(y.fx.Verdicts) != 1 {
			t.Fatalf("told\n%s\nwant one refusal", y.told())
		}
		v := y.fx.Verdicts[0]
		if v.Action != "notify" || v.Reason != events.RescueRefusedNotStuck || v.Message != "Agent is not stuck - no rescue needed" ||
			v.ExpiresAt != 0 || v.Recovery.RequestedBy == "" || v.Limit != nil || v.Agent != "probe" {
			t.Errorf("%+v, recovery %+v", v, v.Recovery)
		}
		if y.a.stuck != (stuck{}) || len(y.a.Notes("auto-recovery")) != 0 {
			t.Errorf("something stands: %+v", y.a.stuck)
		}
	}
	f(func(y *agentPlay) { y.rescue(5*time.Minute, "peer", false) })
	f(func(y *agentPlay) { y.rescue(5*time.Minute, "probe", false) })
	f(func(y *agentPlay) { y.note(5*time.Minute, probe, events.Party{}, "stuck", "help") })
	f(func(y *agentPlay) { y.note(5*time.Minute, events.Party{Agent: "peer"}, probe, "stuck", "help") })
}

func TestEachRefusalIsAnother(t *testing.T) {
	y := newAgentPlay(t)
	y.status(0, healthy)
	y.rescue(time.Minute, "peer", false)
	y.rescue(time.Minute, "peer", false)
	if len(y.fx.Verdicts) != 2 || y.fx.Verdicts[0].ID == y.fx.Verdicts[1].ID {
		t.Errorf("two requests, two answers:\n%s", y.told())
	}
}

func TestRescueByAdmin(t *testing.T) {
	y := newAgentPlay(t)
	y.status(0, resumable)
	y.rescue(time.Minute, "", true)
	y.want("resume rescue_requested @60000")
	y.advance(time.Minute + 10*time.Minute)
	y.want("archive rescue_requested @660000", "notify rescue_requested @660000")

	y = newAgentPlay(t) // an agent of which nothing is known
	y.rescue(time.Minute, "operator", true)
	y.want("archive rescue_requested @60000 for operator", "notify rescue_requested @60000 for operator")
}

func TestModesOfRescue(t *testing.T) {
	f := func(mode rules.Mode, want ...string) {
		t.Helper()
		y := newAgentPlay(t, inMode(mode, RuleRescue))
		y.status(0, resumable)
		y.rescue(time.Minute, "peer", false)
		y.advance(found)
		y.rescue(6*time.Minute, "peer", false)
		y.status(7*time.Minute, resumable)
		y.want(want...)
	}
	f(rules.ModeOff, "notify critical_margin_timeout 301/300 @300001", "allow critical_margin_timeout @420000")
	f(rules.ModeEnforce, "notify rescue_refused_not_stuck @60000 for peer", "notify critical_margin_timeout 301/300 @300001",
		"resume rescue_requested @360000 for peer", "allow rescue_requested @420000")
	f(rules.ModeWarn, "notify rescue_refused_not_stuck @60000 for peer", "notify critical_margin_timeout 301/300 @300001",
		"warn rescue_requested @360000 for peer", "allow rescue_requested @420000")
	f(rules.ModeShadow, "notify rescue_refused_not_stuck @60000 for peer shadow", "notify critical_margin_timeout 301/300 @300001",
		"notify rescue_requested @360000 for peer shadow", "allow critical_margin_timeout @420000")
}

func TestDeliveredTwice(t *testing.T) {
	tell := func(times int) *agentPlay {
		y := newAgentPlay(t, recovers)
		y.peer(0, "reviewer", healthy)
		for range times {
			y.step(0, events.Event{ID: "s", Kind: events.AgentStatus, From: probe, AgentState: &doubtful})
		}
		y.advance(found)
		for range times {
			y.step(6*time.Minute, events.Event{ID: "n", Kind: events.NoteAdded, From: events.Party{Agent: "peer"}, To: probe, Note: &events.Note{Summary: "x"}})
			y.step(6*time.Minute, events.Event{ID: "k", Kind: events.ReviewResult, From: events.Party{Agent: "reviewer"}, To: probe, Review: &events.Review{Decision: "keep"}})
			y.step(7*time.Minute, events.Event{ID: "q", Kind: events.RescueRequest, From: events.Party{Agent: "peer"}, To: probe, Rescue: &events.Rescue{}})
		}
		y.advance(time.Hour)
		return y
	}
	once, twice := tell(1), tell(2)
	if a, b := once.told(), twice.told(); a != b {
		t.Errorf("delivered once\n%s\ntwice\n%s", a, b)
	}
	if string(once.record) != string(twice.record) {
		t.Error("the states differ")
	}
}
