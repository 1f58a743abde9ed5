package analyzer_test

import (
	"fmt"
	"testing"
	"time"

	"weir/analyzer"
	"weir/events"
)

// loopOf returns calls between two agents that repeat without work.
func loopOf(at events.Stamp, n int, ask bool) []events.Event {
	log := make([]events.Event, n)
	for i := range log {
		from, to := "a", "b"
		if i%2 == 1 {
			from, to = to, from
		}
		when := at.Add(time.Duration(i) * time.Millisecond)
		log[i] = events.Event{ID: fmt.Sprint("call-", i), Source: "dispatcher", Time: when, Appended: when, Kind: events.AgentCall, CorrelationID: "f", Ask: ask,
			From: events.Party{Agent: from}, To: events.Party{Agent: to}, HadWork: events.No, Content: events.Hash{Algorithm: events.XXH64, Value: 7}}
	}
	return log
}

// notesAt returns reports of another sender that were appended at one time and are dated ahead
// of it.
func notesAt(at events.Stamp, ahead time.Duration, n int) []events.Event {
	log := make([]events.Event, n)
	for i := range log {
		log[i] = events.Event{ID: fmt.Sprint("note-", i), Source: "other", Time: at.Add(ahead), Appended: at, Kind: events.NoteAdded, CorrelationID: "f",
			From: events.Party{Agent: "z"}, Note: &events.Note{Summary: "x"}}
	}
	return log
}

// checked folds the events and returns how many checks were allowed and how many calls the flow
// counted.
func checked(logs ...[]events.Event) (allowed int, hops int64) {
	var (
		e  = analyzer.New(analyzer.Balanced())
		p  analyzer.Partition
		f  analyzer.Flow
		fx analyzer.Effects
	)
	for _, log := range logs {
		for i := range log {
			fx.Reset()
			e.Step(&p, &f, &log[i], &fx)
			if log[i].Ask && !fx.Answer.Stops() {
				allowed++
			}
		}
	}
	return allowed, e.View(&f).Hops
}

// TestOthersDoNotBlindAFlow puts events of another sender before a loop: as many of its checks
// pass, and as many calls count, as without them.
func TestOthersDoNotBlindAFlow(t *testing.T) {
	const at = events.Stamp(1_795_000_000_000)
	want, hops := checked(loopOf(at, 60, true))
	if want == 60 {
		t.Fatal("nothing stops the loop")
	}
	for _, n := range []int{63, 64, 65, 127, 128, 129, 300} {
		for _, ahead := range []time.Duration{0, time.Second, 58 * time.Second, 10 * time.Minute} {
			if got, counted := checked(notesAt(at, ahead, n), loopOf(at, 60, true)); got != want || counted != hops {
				t.Errorf("after %d notes dated %v ahead: %d checks pass and %d count, want %d and %d", n, ahead, got, counted, want, hops)
			}
			if _, counted := checked(notesAt(at, ahead, n), loopOf(at, 12, false)); counted != 12 {
				t.Errorf("after %d notes dated %v ahead: %d of 12 reported calls count", n, ahead, counted)
			}
		}
	}
}

// TestSlowClockIsChecked gives the dispatcher a clock that is slow while others report with a
// correct one.
func TestSlowClockIsChecked(t *testing.T) {
	const at = events.Stamp(1_795_000_000_000)
	want, hops := checked(loopOf(at, 60, true))
	for _, slow := range []time.Duration{2 * time.Second, time.Minute, 5 * time.Minute, time.Hour} {
		loop := loopOf(at, 60, true)
		for i := range loop {
			loop[i].Time = loop[i].Time.Add(-slow)
		}
		if got, counted := checked(notesAt(at, 0, 130), loop); got != want || counted != hops {
			t.Errorf("clock slow by %v: %d checks pass and %d count, want %d and %d", slow, got, counted, want, hops)
		}
	}
}

// TestOnlyACheckMakesACheckARepeat sends reports with the ids of checks before the checks.
func TestOnlyACheckMakesACheckARepeat(t *testing.T) {
	const at = events.Stamp(1_795_000_000_000)
	loop := loopOf(at, 20, true)
	want, hops := checked(loop)
	for _, claimed := range []bool{false, true} {
		before := notesAt(at, 0, len(loop))
		for i := range before {
			before[i].ID, before[i].Source = loop[i].ID, loop[i].Source
			before[i].Ask, before[i].Claimed = claimed, claimed
			if claimed {
				before[i].Kind, before[i].Origin = events.LLMCall, events.OriginAgent
			}
		}
		asked := 0
		if claimed {
			asked = len(before)
		}
		if got, counted := checked(before, loop); got != want+asked || counted != hops {
			t.Errorf("claimed %v: %d checks pass and %d count, want %d and %d", claimed, got-asked, counted, want, hops)
		}
	}
	// The same check again is a repeat, and so is its report.
	again := loopOf(at, 2, true)
	if _, counted := checked(again, again, loopOf(at, 2, false)); counted != 2 {
		t.Errorf("two checks, sent again and reported, count %d times", counted)
	}
}

// TestWhatACheckSaysOfItselfIsChecked sends a loop of checks that call themselves claims, sampled,
// or set off by a user, after reports with their ids: as many pass and count as of plain ones.
func TestWhatACheckSaysOfItselfIsChecked(t *testing.T) {
	const at = events.Stamp(1_795_000_000_000)
	want, hops := checked(loopOf(at, 60, true))
	for name, say := range map[string]func(*events.Event){
		"claimed":            func(ev *events.Event) { ev.Claimed = true },
		"a claimed sample":   func(ev *events.Event) { ev.Claimed, ev.SampledRate = true, 1000 },
		"a claim of a user":  func(ev *events.Event) { ev.Claimed, ev.Origin = true, events.OriginUser },
		"a sampled user":     func(ev *events.Event) { ev.Claimed, ev.Origin, ev.SampledRate = true, events.OriginUser, 1000 },
		"a claimed schedule": func(ev *events.Event) { ev.Claimed, ev.Origin = true, events.OriginScheduler },
		"a claimed applet":   func(ev *events.Event) { ev.Claimed, ev.Origin = true, events.OriginApplet },
		"a claimed system":   func(ev *events.Event) { ev.Claimed, ev.Origin = true, events.OriginSystem },
	} {
		for _, slow := range []time.Duration{0, time.Minute} {
			loop, before := loopOf(at, 60, true), notesAt(at, 0, 60)
			for i := range loop {
				before[i].ID, before[i].Source = loop[i].ID, loop[i].Source
				loop[i].Time = loop[i].Time.Add(-slow)
				say(&loop[i])
			}
			if got, counted := checked(before, loop); got != want || counted != hops {
				t.Errorf("%s, a clock that is slow by %v: %d pass and %d count, want %d and %d", name, slow, got, counted, want, hops)
			}
		}
	}
}

// TestToolCallOfAUserIsRefused: a person's stop refuses tool calls, whatever they say of their
// origin.
func TestToolCallOfAUserIsRefused(t *testing.T) {
	const at = events.Stamp(1_795_000_000_000)
	stop := events.Event{ID: "stop", Time: at, Kind: events.OperatorStop, CorrelationID: "f", Operator: &events.Operator{Reason: "x", By: "ann"}}
	for _, from := range []events.Party{{Agent: "a"}, {}, {Agent: "ann", Type: events.PartyHuman}} {
		for _, claimed := range []bool{false, true} {
			call := events.Event{ID: "call", Time: at.Add(time.Second), Kind: events.ToolCall, CorrelationID: "f", Ask: true, Claimed: claimed, Origin: events.OriginUser,
				From: from, Tool: events.Tool{Name: "rm"}}
			if allowed, _ := checked([]events.Event{stop, call}); allowed != 0 {
				t.Errorf("a tool call from %+v, claimed %v, passes a stop", from, claimed)
			}
		}
	}
}
