package pump

import (
	"context"
	"encoding/binary"
	"fmt"
	"reflect"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/activity"
	"weir/analyzer/limitfile"
	"weir/analyzer/reports"
	"weir/cmd/internal/pump/pumptest"
	"weir/events"
	"weir/state"
)

func TestReportsBatch(t *testing.T) {
	want := []activity.Report{
		{Flow: 1, Name: "a", Did: pumptest.Start, Work: activity.InTool},
		{Flow: 1<<64 - 1, Name: "session", Agent: "b", Did: pumptest.Start - 1, Work: activity.Done, Source: events.CorrelationDerived},
		{Did: 1 << 52},
		{Flow: 2, Name: "a", Tries: 1 << 15, Tried: pumptest.Start + 5, Nth: 24},
		{Flow: 3, Name: "a", Did: pumptest.Start, Work: activity.OnChild, Tries: 1, Tried: pumptest.Start, Nth: 1},
	}
	batch := AppendReports(nil, want)
	var got []activity.Report
	if err := EachReport(batch, func(r *activity.Report) { got = append(got, *r) }); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v", got, err)
	}
	var waiting reports.Waiting // which notes in a report the party that it is about
	if err := EachReport(batch, waiting.Add); err != nil || waiting.Len() != len(want) {
		t.Errorf("%d parties wait, %v; want %d", waiting.Len(), err, len(want))
	}
	if !IsReports(batch) || IsReports([]byte("{}")) || IsReports(nil) {
		t.Error("a batch is not told from JSON")
	}
	ends := map[int]bool{} // where a shorter batch ends
	for n := range len(want) {
		ends[len(AppendReports(nil, want[:n+1]))] = true
	}
	ends[len(AppendReports(nil, want[:1]))] = true
	first := len(binary.AppendVarint([]byte{reportsVersion}, int64(want[0].Did)))
	for n := range batch {
		if err := EachReport(batch[:n], func(*activity.Report) {}); (err == nil) != (ends[n] || n == first) {
			t.Errorf("%d of %d bytes: %v", n, len(batch), err)
		}
	}
	batch[first+8+1] = byte(activity.WorkCount)
	if EachReport(batch, func(*activity.Report) {}) == nil {
		t.Error("a way of being at work that nobody knows is read")
	}
}

// passedOn is an Activity that keeps what it is sent.
type passedOn []Repartitioned

func (l *passedOn) Place(key string) int { return len(key) % 2 }

func (l *passedOn) Send(_ context.Context, list []Repartitioned) error {
	for _, r := range list {
		r.Value = append([]byte(nil), r.Value...)
		*l = append(*l, r)
	}
	return nil
}

// TestReportsAreFew lets two flows of three parties do something each second for ten minutes, one of
// them ten minutes late. Each party is reported once a minute, with its last activity.
func TestReportsAreFew(t *testing.T) {
	var sent passedOn
	p := newTestPump(t, Options{Limits: limitfile.Default(), Store: pumptest.OpenState(t), Sink: &memoryLog{}, Activity: &sent})
	at := pumptest.Start
	if err := p.Batch(t.Context(), []Record{{Appended: at, Value: ReportingRecord(at)}}); err != nil {
		t.Fatal(err)
	}
	for i := range 600 {
		at = at.Add(time.Second)
		for n, flow := range []string{"in time", "late"} {
			ev := events.Event{ID: fmt.Sprint(flow, i), Source: "/test", Time: at.Add(-10 * time.Minute * time.Duration(n)), Kind: events.LLMCall, CorrelationID: flow, From: events.Party{Agent: fmt.Sprint("agent", i%3)}}
			if err := p.Batch(t.Context(), []Record{{Offset: p.Next(), Appended: at, Value: ev.AppendJSON(nil)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	told := map[string]int{}
	last := map[string]events.Stamp{}
	records := 0
	for _, r := range sent {
		if !IsReports(r.Value) {
			continue
		}
		records++
		err := EachReport(r.Value, func(one *activity.Report) {
			who := fmt.Sprint(one.Flow, one.Name)
			told[who]++
			last[who] = max(last[who], one.Did)
			if sent.Place(string(one.AppendKey(nil))) != sent.Place(r.Key) {
				t.Errorf("%s is told where %s belongs", one.Name, r.Key)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(told) != 6 || records < 9 || records > 11 {
		t.Errorf("%d parties in %d records", len(told), records)
	}
	for who, n := range told {
		if n < 9 || n > 11 {
			t.Errorf("%s is told of %d times in ten minutes", who, n)
		}
		if now := max(at-last[who], last[who]-at); now > 70_000 && now < 600_000 || now > 670_000 {
			t.Errorf("the last of %s is %d ms ago", who, now)
		}
	}
}

// TestAheadSendsActivity folds ahead what concerns agents: it is sent at once, or left to the next batch
// where that takes long.
func TestAheadSendsActivity(t *testing.T) {
	for _, waits := range []bool{false, true} {
		var sent passedOn
		p := newTestPump(t, Options{Limits: limitfile.Default(), Store: pumptest.OpenState(t), Sink: &memoryLog{}, Activity: &sent, ActivityWaits: waits})
		ev := events.Event{ID: "1", Source: "/test", Time: pumptest.Start, Kind: events.LLMCall, CorrelationID: "flow", From: events.Party{Agent: "agent"}}
		n, due := p.Ahead(t.Context(), []Record{{Appended: pumptest.Start, Value: ReportingRecord(pumptest.Start)}, {Offset: 1, Appended: pumptest.Start, Value: ev.AppendJSON(nil)}})
		if n != 2 || due != waits || len(sent) > 0 == waits {
			t.Errorf("waits %t: %d folded, due %t, %d sent", waits, n, due, len(sent))
		}
		if err := p.Batch(t.Context(), nil); err != nil || len(sent) == 0 {
			t.Errorf("waits %t: %d sent by the next batch, %v", waits, len(sent), err)
		}
	}
}

// TestStateBeforeReports goes on from the checkpoint of an older weir, whose flows kept the reports
// about their parties themselves.
func TestStateBeforeReports(t *testing.T) {
	store := pumptest.OpenState(t)
	var before analyzer.Partition
	before.Watermark = pumptest.Start
	fold := binary.AppendVarint(binary.AppendVarint(binary.AppendVarint(nil, 11), 6), 2)
	fold, err := before.AppendBinary(fold)
	if err != nil {
		t.Fatal(err)
	}
	b := append(binary.AppendUvarint([]byte{reportsWaited, byte(FlowStage)}, uint64(len(fold))), fold...)
	b = append(binary.AppendVarint(append(b, 0), 0), 0) // no document, no letters, no limits
	if err := store.Commit(&state.Checkpoint{Next: 7, State: b}); err != nil {
		t.Fatal(err)
	}
	p := newTestPump(t, Options{Store: store, Sink: &memoryLog{}})
	if r := p.outbox.activity; p.Next() != 7 || p.fold.stage.seen() != pumptest.Start || r.step != 11 || r.offset != 6 || r.parts != 2 || r.reports.Len() != 0 {
		t.Errorf("next %d, watermark %d, %+v", p.Next(), p.fold.stage.seen(), r)
	}
}
