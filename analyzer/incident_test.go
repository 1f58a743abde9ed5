package analyzer_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/analyzer"
	"weir/events"
)

const loopBegins events.Stamp = 1_700_000_000_000

// pong is the n-th call of two agents that say the same to each other, two seconds apart.
func pong(n int) events.Event {
	from, to := "a", "b"
	if n%2 == 1 {
		from, to = to, from
	}
	return events.Event{ID: fmt.Sprint("m", n), Time: loopBegins + events.Stamp(2000*n), Kind: events.AgentCall, CorrelationID: "f",
		From: events.Party{Agent: from}, To: events.Party{Agent: to}, Content: events.Hash{Algorithm: events.XXH64, Value: uint64(1 + n%2)}, Work: events.Work{Known: true}}
}

// stopsIn adds up the stops that steps count.
type stopsIn struct {
	*fold
	stops int64
}

func (s *stopsIn) step(t *testing.T, ev events.Event) {
	t.Helper()
	s.fold.step(t, ev)
	for at := range events.ReasonCount {
		s.stops += s.fx.Counts.Of(at).Stops
	}
}

// ids lists the incidents of the verdicts, each once.
func ids(said []events.Verdict) (out []string) {
	for _, v := range said {
		if !slices.Contains(out, v.IncidentID) {
			out = append(out, v.IncidentID)
		}
	}
	return out
}

// TestOneLoopIsOneIncident plays a loop of 24 calls that three rules find and no dispatcher stops:
// it is one incident and one stop, and each verdict refuses calls that the ones before did not.
func TestOneLoopIsOneIncident(t *testing.T) {
	w := &stopsIn{fold: newFold(analyzer.Balanced())}
	for n := range 24 {
		w.step(t, pong(n))
	}
	var said []string
	for _, v := range w.verdicts["f"] {
		said = append(said, fmt.Sprintf("%s %s %s", v.Action, v.RuleID, v.Scope))
		if v.Cause != "loop" || len(v.IncidentID) != 16 {
			t.Errorf("incident %q of cause %q", v.IncidentID, v.Cause)
		}
	}
	want := []string{"warn ping_pong_same pair:a|b", "deny ping_pong_same pair:a|b", "halt ping_pong_same session:b",
		"deny no_work_hops flow:f", "halt ping_pong_same flow:f"}
	if !slices.Equal(said, want) {
		t.Errorf("said\n%s\nwant\n%s", strings.Join(said, "\n"), strings.Join(want, "\n"))
	}
	if got := ids(w.verdicts["f"]); len(got) != 1 || w.stops != 1 {
		t.Errorf("incidents %q, %d stops", got, w.stops)
	}
}

// TestIncidentOutlivesItsOrders follows an incident through expiry, and ends it by a new episode
// and by a person.
func TestIncidentOutlivesItsOrders(t *testing.T) {
	w := &stopsIn{fold: newFold(analyzer.Balanced())}
	n, late := 0, events.Stamp(0)
	loop := func() []string {
		t.Helper()
		had := len(w.verdicts["f"])
		for range 8 {
			ev := pong(n)
			ev.Time += late
			w.step(t, ev)
			n++
		}
		return ids(w.verdicts["f"][had:])
	}
	first := loop()
	if len(first) != 1 {
		t.Fatalf("incidents %q", first)
	}
	// The orders have run out after 15 minutes. The episode goes on, since something else happens.
	late += events.Stamp(8 * time.Minute / time.Millisecond)
	w.step(t, events.Event{ID: "model", Time: pong(n).Time + late, Kind: events.LLMCall, CorrelationID: "f", From: events.Party{Agent: "c"}})
	late += events.Stamp(8 * time.Minute / time.Millisecond)
	if again := loop(); !slices.Equal(again, first) || w.stops != 1 {
		t.Errorf("after the orders ran out %q, %d stops; want %q, 1 stop", again, w.stops, first)
	}
	release := events.Event{ID: "release", Time: pong(n).Time + late, Kind: events.OperatorRelease, CorrelationID: "f", Operator: &events.Operator{Reason: "go on"}}
	w.step(t, release)
	late += 1000
	second := loop()
	if len(second) != 1 || second[0] == first[0] || w.stops != 2 {
		t.Errorf("after a release %q, %d stops; before %q", second, w.stops, first)
	}
	late += events.Stamp(time.Hour / time.Millisecond)
	third := loop() // after the last renewal of what stood
	if third[len(third)-1] == second[0] || w.stops != 3 {
		t.Errorf("in a new episode %q, %d stops; before %q", third, w.stops, second)
	}
}

// TestIncidentHasOneCause has a budget and a loop stop one flow: two things for a person to
// decide.
func TestIncidentHasOneCause(t *testing.T) {
	l := analyzer.Balanced()
	l.Rules[analyzer.RuleTotalCalls].Warn, l.Rules[analyzer.RuleTotalCalls].Stop = 5, 9
	w := &stopsIn{fold: newFold(l)}
	for n := range 10 {
		w.step(t, pong(n))
	}
	causes := map[string]string{}
	for _, v := range w.verdicts["f"] {
		causes[v.Cause] = v.IncidentID
	}
	if len(causes) != 2 || causes["loop"] == causes["max_total_calls_exceeded"] || w.stops != 2 {
		t.Errorf("incidents %v, %d stops", causes, w.stops)
	}
}

// TestRefusedCheckStopsOnce counts the stop of a budget at the first call that is refused by it:
// its order refuses the next call, which is never made.
func TestRefusedCheckStopsOnce(t *testing.T) {
	l := analyzer.Balanced()
	l.Rules[analyzer.RuleTotalCalls].Warn, l.Rules[analyzer.RuleTotalCalls].Stop = 3, 5
	w := &stopsIn{fold: newFold(l)}
	for n := range 4 {
		w.step(t, pong(n))
	}
	if w.stops != 0 {
		t.Fatalf("%d stops before a call was refused", w.stops)
	}
	for n := range 3 {
		ev := pong(4 + n)
		ev.Ask = true
		w.step(t, ev)
	}
	if w.stops != 1 {
		t.Errorf("%d stops", w.stops)
	}
}

// loopOfOlderWeir is the record of a flow after eight such calls, as weir wrote it before it knew
// incidents: warned, stopped, and warned by a second rule.
const loopOfOlderWeir = "040440000000080002080808020200000003010000b09ee5cf8b010000b09ee5cf8b0100000068e5cf8b010000e096e5cf8b010000b09ee5cf8b01000008000000080000000000000000000200000008002a000600040002002a000600040002007a73a86eeaff4b56dc84b702ce60ab91a01052c7b45e80db1ce0086274eaceae6094b27b94128550cc4064797366ed641e89b72eaf98d0988acfbfcc0732cf7c0100ff1100000000080000000400000000000000000061010000510000000008000000000000000000000000006204040000000000d007000001a00f0000007017000001401f0000001027000001e02e000000b0360000010001010000000000000001000000010002000000000000000200000000010100000000000000030000000100020000000000000004000000000101000000000000000500000001000200000000000000060000000001010000000000000007000000010002000000000000000800000000000000d0070000a00f000070170000401f000010270000e02e0000b03600000001010000000000000000000700000001000100000000000000000008000000000101010000000000000000000000000000000400010000000000000001000102000000000000000000000000000000040002000000000000000903040400000001020101000200000000000200020000000400000000707fe5cf8b010000108fe5cf8b010000b04af3cf8b010000908bf0cf8b010000108fe5cf8b01000003000000000000000300000000000000af329ebe0000000000000000000000000000000000000000000101000b010204000000010001010101000000000000000000000005000000004087e5cf8b0100004087e5cf8b010000e042f3cf8b010000e042f3cf8b0100004087e5cf8b01000003000000000000000300000000000000af329ebe000000000000000000000000010000000000000000010e0102010000ffff000100000000000000000000000000000700000000e096e5cf8b010000e096e5cf8b0100008052f3cf8b0100008052f3cf8b010000e096e5cf8b01000007000000000000000700000000000000af329ebe0000000000000000000000000000000000000000090100108fe5cf8b010000"

// TestIncidentOfOlderRecord goes on with the incident of a flow whose record names none.
func TestIncidentOfOlderRecord(t *testing.T) {
	record, err := hex.DecodeString(loopOfOlderWeir)
	if err != nil {
		t.Fatal(err)
	}
	old := &stopsIn{fold: newFold(analyzer.Balanced())}
	old.flows["f"] = new(analyzer.Flow)
	if err := old.flows["f"].UnmarshalBinary("f", record); err != nil {
		t.Fatal(err)
	}
	fresh := newFold(analyzer.Balanced())
	for n := range 24 {
		fresh.step(t, pong(n))
		if n >= 8 {
			old.step(t, pong(n))
		}
	}
	if got, want := ids(old.verdicts["f"]), ids(fresh.verdicts["f"]); len(got) != 1 || !slices.Equal(got, want) || old.stops != 0 {
		t.Errorf("incidents %q and %d stops; want %q, whose stop was counted", got, old.stops, want)
	}
}
