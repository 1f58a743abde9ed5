// Package pumptest makes logs and limits for tests of pumps.
package pumptest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"weir/analyzer"
	"weir/cmd/internal/clock"
	"weir/events"
	"weir/state"
)

// Start is the time at which the logs of tests begin.
// Fixed, so that a test gives the same verdicts on every day.
const Start = events.Stamp(1_795_000_000_000)

// ErrSink is how logs of tests fail.
var ErrSink = errors.New("the sink fails")

// OpenState opens a store in memory that is closed with the test.
func OpenState(t testing.TB) *state.Store {
	t.Helper()
	// The least memtable there may be: checkpoints are full soon.
	s, err := state.Open("", state.Options{MemTableSize: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Limits are those that the pumps of tests begin with.
func Limits() analyzer.Limits {
	l := analyzer.Balanced()
	l.Version = "test:first"
	return l
}

// RandomEvent makes an event of one of a dozen flows.
// Few parties and few arguments, so that loops come about by themselves. i makes its id.
func RandomEvent(r *rand.Rand, at events.Stamp, i int) *events.Event {
	party := func() events.Party { return events.Party{Session: fmt.Sprintf("s%d", r.IntN(4)), Agent: "coder"} }
	ev := &events.Event{ID: fmt.Sprintf("e%d", i), Source: "test", Time: at, CorrelationID: fmt.Sprintf("flow-%d", r.IntN(12)), From: party(), TransferMode: events.ReturnToCaller}
	switch r.IntN(5) {
	case 0, 1:
		ev.Kind, ev.To, ev.HadWork = events.AgentCall, party(), events.No
		ev.Ask = r.IntN(4) == 0
	case 2:
		ev.Kind, ev.Tool = events.ToolCall, events.Tool{Name: "search", CallID: ev.ID, Args: fmt.Appendf(nil, `{"q": %d}`, r.IntN(2))}
	default:
		ev.Kind, ev.Tool, ev.Status = events.ToolResult, events.Tool{Name: "search", Args: fmt.Appendf(nil, `{"q": %d}`, r.IntN(2))}, events.StatusOK
		ev.Content = events.Hash{Algorithm: events.XXH64, Value: uint64(r.IntN(2)) + 1}
	}
	return ev
}

// Tick is a record that says how late it is.
func Tick(at events.Stamp) []byte {
	return (&events.Event{ID: fmt.Sprintf("tick:%d", at), Time: at, Kind: events.Tick}).AppendJSON(nil)
}

// Seeds is how many crash tests are made: WEIR_SEEDS, or a dozen.
// More find more, and take longer.
func Seeds() int {
	if n, err := strconv.Atoi(os.Getenv("WEIR_SEEDS")); err == nil {
		return n
	}
	return 12
}

// Call is a call of one agent by another. Its flow starts anew every second.
// n is its number in the flow: its id, and its time in milliseconds after the start.
func Call(flow string, n int, from, to string) *events.Event {
	return &events.Event{ID: fmt.Sprintf("%s-%d", flow, n), Source: "test", Time: events.StampOf(clock.NewFake().Now()).Add(time.Duration(n) * time.Millisecond),
		Kind: events.AgentCall, CorrelationID: flow, From: events.Party{Session: from}, To: events.Party{Session: to}, HadWork: events.Yes}
}

// SelfCall is a call of an agent by itself, which brings a verdict about at once.
func SelfCall(flow string, n int) *events.Event {
	ev := Call(flow, n, "x", "x")
	ev.TransferMode = events.ReturnToCaller // else it may be a speaker of a group chat
	return ev
}

// Steady makes events of honest flows that call two tools each and get ever new results;
// later rounds go on where earlier ones ended.
// The same arguments give the same events. Their offsets begin at 0 in each round.
func Steady(flows, n, round int) []state.Entry {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([]state.Entry, n)
	at := Start + events.Stamp(round*n)
	id := make([]int, flows)
	for i := range id {
		id[i] = round * n
	}
	for i := range out {
		at++
		f := r.IntN(flows)
		id[f]++
		ev := events.Event{ID: fmt.Sprintf("%08x-%09d", f, id[f]), Source: "urn:agents:bench", Time: at, Kind: events.ToolResult,
			CorrelationID: fmt.Sprintf("3f0c2d9e-7a51-4b6e-9d0e-%012x", f), From: events.Party{Session: "session-1", Agent: "coder"},
			Tool:    events.Tool{Name: "search", CallID: fmt.Sprintf("call-%06d", id[f]), ArgsHash: events.Hash{Algorithm: events.XXH64, Value: r.Uint64()}},
			Status:  events.StatusOK,
			Content: events.Hash{Algorithm: events.XXH64, Value: r.Uint64()}}
		if id[f]%2 == 0 {
			ev.Tool.Name = "edit"
		}
		out[i] = state.Entry{Offset: int64(i), Appended: at, Value: ev.AppendJSON(nil)}
	}
	return out
}

// ByStage puts the verdicts about flows before those about agents: how the two stand
// among each other depends on the batches.
func ByStage(lines []string) []string {
	about := func(line string) bool {
		// An order of a tree about one flow names both, and is of the agent stage.
		return !strings.Contains(line, `"correlation_id":`) || strings.Contains(line, `"root_correlation_id":`)
	}
	agents := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !about(line) })
	return append(slices.DeleteFunc(slices.Clone(lines), about), agents...)
}
