package pump

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"
	"weir/analyzer"
	"weir/cmd/internal/pump/pumptest"
	"weir/events"
	"weir/sink/prom"
	"weir/state"
)

var differentIDs = flag.Int("different-ids", 50_000, "how many flows, agents and tools TestSeriesStay sends")

// TestSeriesStay sends flows, agents and tools that are all different.
func TestSeriesStay(t *testing.T) {
	n := *differentIDs
	store := pumptest.OpenState(t)
	counts := new(Counts)
	var p *Pump
	m := prom.New(prom.Options{Read: func(r *prom.Reading) {
		counts.Read(r)
		r.Limits, _ = p.Limits()
		r.SelfTest.On = true
		for i := range r.Live {
			r.Live[i] = p.meter.standing.Live[i].Load()
		}
	}})
	p = newTestPump(t, Options{Store: store, Sink: &memoryLog{}, Counts: counts, Metrics: m, Memory: 4 << 20})
	p.o.Store = committing{store, func(*state.Checkpoint) error { return nil }} // nothing of this comes back
	series := func() (n int) {
		t.Helper()
		families, err := m.Registry().Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if strings.HasPrefix(f.GetName(), "weir_") {
				n += len(f.Metric)
			}
		}
		return n
	}
	before := series()
	kinds := []events.Kind{events.AgentCall, events.ToolCall, events.AgentCall, events.ToolResult}
	records := make([]Record, 0, 1000)
	for i := range n {
		at := pumptest.Start.Add(time.Duration(i) * time.Millisecond)
		id := fmt.Sprintf("%d-%s", i, strings.Repeat("\u202e<script>", i%3))
		ev := events.Event{ID: id, Time: at, Kind: kinds[i%len(kinds)], CorrelationID: "flow " + id, Source: id,
			From: events.Party{Agent: "agent " + id}, To: events.Party{Agent: "agent " + id}, ErrorType: id, TransferMode: events.ReturnToCaller}
		ev.Tool.Name = "tool " + id
		records = append(records, Record{Offset: int64(i), Appended: at, Value: ev.AppendJSON(nil)})
		if len(records) == cap(records) || i == n-1 {
			if err := p.Batch(context.Background(), records); err != nil {
				t.Fatal(err)
			}
			records = records[:0]
		}
	}
	after := series()
	t.Logf("%d events of different flows, agents, tools: %d families' members before, %d after; %d verdicts", counts.Sum().Fold.Events, before, after, counts.Verdicts(events.Deny))
	if after != before || counts.Sum().Fold.Events != int64(n) || counts.Verdicts(events.Deny) == 0 {
		t.Errorf("%d series before, %d after", before, after)
	}
}

// TestLiveFlows counts flows as they come and go.
func TestLiveFlows(t *testing.T) {
	counts := new(Counts)
	m := prom.New(prom.Options{Read: counts.Read})
	p := newTestPump(t, Options{Store: pumptest.OpenState(t), Sink: &memoryLog{}, Counts: counts, Metrics: m})
	offset := int64(0)
	send := func(after time.Duration, evs ...*events.Event) {
		t.Helper()
		var records []Record
		for _, ev := range evs {
			ev.ID, ev.Time = fmt.Sprint(offset), pumptest.Start.Add(after)
			records = append(records, Record{Offset: offset, Appended: ev.Time, Value: ev.AppendJSON(nil)})
			offset++
		}
		if err := p.Batch(t.Context(), records); err != nil {
			t.Fatal(err)
		}
	}
	want := func(active, warned, stopped, opened int64, closed [prom.ClosingCount]int64) {
		t.Helper()
		got := [3]int64{p.meter.standing.Live[analyzer.Free].Load(), p.meter.standing.Live[analyzer.Warned].Load(), p.meter.standing.Live[analyzer.Stopped].Load()}
		var r prom.Reading
		counts.Read(&r)
		if got != [3]int64{active, warned, stopped} || r.Opened != opened || r.Closed != closed {
			t.Errorf("live %v, opened %d, closed %v", got, r.Opened, r.Closed)
		}
	}
	end := &events.Event{Kind: events.FlowEnd, CorrelationID: "c"}
	send(0, pumptest.Call("a", 0, "x", "y"), pumptest.SelfCall("b", 0), pumptest.Call("c", 0, "x", "y"), end)
	want(2, 0, 1, 3, [prom.ClosingCount]int64{})
	send(9*time.Minute, pumptest.Call("a", 0, "y", "z"))
	want(2, 0, 1, 3, [prom.ClosingCount]int64{})
	send(11*time.Minute, pumptest.Call("d", 0, "x", "y"))
	want(2, 0, 0, 4, [prom.ClosingCount]int64{prom.ClosedEnded: 1, prom.ClosedStopped: 1})
	send(12*time.Minute, pumptest.Call("c", 0, "x", "y")) // it comes back
	want(3, 0, 0, 5, [prom.ClosingCount]int64{prom.ClosedEnded: 1, prom.ClosedStopped: 1})
	send(40*time.Minute, &events.Event{Kind: events.Tick})
	want(0, 0, 0, 5, [prom.ClosingCount]int64{prom.ClosedIdle: 3, prom.ClosedEnded: 1, prom.ClosedStopped: 1})
	if n := counts.longest; n != 2 {
		t.Errorf("the longest flow that was not stopped has %d calls", n)
	}
	p.memory.cache.evict(0, 1<<60) // nothing is live any more
	if p.memory.cache.lost != 0 || p.memory.cache.live != [analyzer.StandingCount]int64{} {
		t.Errorf("evicted %d live flows, %v are left", p.memory.cache.lost, p.memory.cache.live)
	}
}
