package analyzer_test

import (
	"fmt"
	"testing"

	"weir/analyzer"
	"weir/analyzer/rules"
	"weir/events"
)

// ordinary returns the events of one ordinary flow: a user's call, delegations,
// tool calls with results and returns among four agents.
func ordinary(flow string, n int) []events.Event {
	agents := []string{"planner", "researcher", "coder", "reviewer"}
	tools := []string{"search", "read_file", "write_file", "run_tests"}
	at := events.Stamp(1_700_000_000_000)
	out := []events.Event{{ID: flow + "-0", Source: "/bench", Time: at, Kind: events.AgentCall, CorrelationID: flow, Origin: events.OriginUser,
		To: events.Party{Agent: agents[0]}}}
	hash := func(i int) events.Hash {
		return events.Hash{Algorithm: events.XXH64, Value: uint64(i) * 0x9e3779b97f4a7c15}
	}
	for i := 1; len(out) < n; i++ {
		at += 1500
		who := agents[1+i/7%3]
		ev := events.Event{ID: fmt.Sprintf("%s-%d", flow, i), Source: "/bench", Time: at, CorrelationID: flow}
		switch i % 7 {
		case 0:
			ev.Kind, ev.From, ev.To, ev.Content = events.AgentCall, events.Party{Agent: agents[0]}, events.Party{Agent: who}, hash(i)
		case 1, 3:
			ev.Kind, ev.From = events.ToolCall, events.Party{Agent: who}
			ev.Tool = events.Tool{Name: tools[i%4], CallID: fmt.Sprint("c", i), ArgsHash: hash(i)}
		case 2, 4:
			ev.Kind, ev.From, ev.Content = events.ToolResult, events.Party{Agent: who}, hash(i)
			ev.Tool = events.Tool{Name: tools[(i-1)%4], CallID: fmt.Sprint("c", i-1)}
		case 5:
			ev.Kind, ev.From = events.LLMCall, events.Party{Agent: who}
			ev.Usage = events.Usage{Known: true, Input: 900, Output: 80}
		case 6:
			ev.Kind, ev.From, ev.To, ev.Content = events.AgentReturn, events.Party{Agent: who}, events.Party{Agent: agents[0]}, hash(i)
		}
		out = append(out, ev)
	}
	return out
}

func TestStepDoesNotAllocate(t *testing.T) {
	l := analyzer.Balanced()
	l.Rules[analyzer.RuleChainDepth].Mode = rules.ModeOff // a thousand calls in a turn are over it
	e := analyzer.New(l)
	var (
		p      analyzer.Partition
		f      analyzer.Flow
		fx     analyzer.Effects
		record []byte
	)
	evs := ordinary("flow-1", 30)
	for i := range evs {
		e.Step(&p, &f, &evs[i], &fx)
	}
	next := evs[29]
	id := 0
	ids := make([]string, 2000)
	for i := range ids {
		ids[i] = fmt.Sprint("later-", i)
	}
	for i := range 200 { // until every slice has its size
		next.ID, next.Time = ids[i], next.Time+1500
		next.Tool.ArgsHash.Value += 0x9e3779b97f4a7c15
		e.Step(&p, &f, &next, &fx)
		record, _ = f.AppendBinary(record[:0])
	}
	fx.Reset()
	got := testing.AllocsPerRun(1000, func() {
		next.ID, next.Time = ids[200+id], next.Time+1500
		id++
		next.Tool.ArgsHash.Value += 0x9e3779b97f4a7c15
		e.Step(&p, &f, &next, &fx)
		record, _ = f.AppendBinary(record[:0])
		if err := f.UnmarshalBinary("flow-1", record); err != nil {
			t.Fatal(err)
		}
	})
	if got != 0 {
		t.Errorf("step, encode and decode of a known flow allocate %v times, want 0", got)
	}
}

func TestRecordOfThirtyEventsIsSmall(t *testing.T) {
	e := analyzer.New(analyzer.Balanced())
	var (
		p  analyzer.Partition
		f  analyzer.Flow
		fx analyzer.Effects
	)
	for _, ev := range ordinary("flow-1", 30) {
		e.Step(&p, &f, &ev, &fx)
	}
	record, err := f.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(record) > 1024 {
		t.Errorf("the record of a flow of 30 events takes %d bytes, want at most 1024", len(record))
	}
	t.Logf("record of 30 events: %d bytes", len(record))
}

func BenchmarkStep(b *testing.B) {
	e := analyzer.New(analyzer.Balanced())
	evs := ordinary("flow-1", 30)
	var (
		p  analyzer.Partition
		f  analyzer.Flow
		fx analyzer.Effects
	)
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		if i%len(evs) == 0 {
			f.Reset("flow-1")
			fx.Reset()
		}
		e.Step(&p, &f, &evs[i%len(evs)], &fx)
	}
}

func BenchmarkFlowEncode(b *testing.B) {
	f := folded(ordinary("flow-1", 30))
	record, _ := f.AppendBinary(nil)
	b.ReportAllocs()
	for b.Loop() {
		record, _ = f.AppendBinary(record[:0])
	}
	b.ReportMetric(float64(len(record)), "B/flow")
}

func BenchmarkFlowDecode(b *testing.B) {
	record, _ := folded(ordinary("flow-1", 30)).AppendBinary(nil)
	var f analyzer.Flow
	b.ReportAllocs()
	for b.Loop() {
		if err := f.UnmarshalBinary("flow-1", record); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFold is what the pump does for an event of a flow that is not at hand:
// decode the flow, step, encode it again.
func BenchmarkFold(b *testing.B) {
	e := analyzer.New(analyzer.Balanced())
	evs := ordinary("flow-1", 30)
	var (
		p      analyzer.Partition
		f      analyzer.Flow
		fx     analyzer.Effects
		record []byte
		spare  []byte
	)
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		if i%len(evs) == 0 {
			f.Reset("flow-1")
			fx.Reset()
		} else if err := f.UnmarshalBinary("flow-1", record); err != nil {
			b.Fatal(err)
		}
		e.Step(&p, &f, &evs[i%len(evs)], &fx)
		spare, _ = f.AppendBinary(spare[:0])
		record, spare = spare, record
	}
}

func folded(evs []events.Event) *analyzer.Flow {
	e := analyzer.New(analyzer.Balanced())
	var (
		p  analyzer.Partition
		f  analyzer.Flow
		fx analyzer.Effects
	)
	for i := range evs {
		e.Step(&p, &f, &evs[i], &fx)
	}
	return &f
}
