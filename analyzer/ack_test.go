package analyzer_test

import (
	"testing"

	"weir/analyzer"
	"weir/events"
)

// TestAcksAreCountedByRow acknowledges an order of a flow, one that nobody gave, and one
// without a flow.
func TestAcksAreCountedByRow(t *testing.T) {
	e := analyzer.New(analyzer.Balanced())
	var (
		p    analyzer.Partition
		flow analyzer.Flow
		fx   analyzer.Effects
	)
	s := newStory()
	s.hop("a", "a", "to itself")
	s.events[0].TransferMode = events.ReturnToCaller
	e.Step(&p, &flow, &s.events[0], &fx)
	if len(fx.Verdicts) != 1 || fx.Verdicts[0].Reason != events.SelfCall {
		t.Fatalf("verdicts %v", fx.Verdicts)
	}
	order := fx.Verdicts[0].ID
	fx.Reset()
	acks := func(applied bool, verdicts ...string) {
		for _, id := range verdicts {
			ev := s.add(events.VerdictAck, "a", "a")
			ev.Ack = &events.Ack{VerdictID: id, Applied: applied}
			e.Step(&p, &flow, ev, &fx)
			e.Step(&p, &flow, ev, &fx) // once more, which is not counted
		}
	}
	acks(true, order, order, "0123456789abcdef-1")
	acks(false, order, "")
	loose := s.add(events.VerdictAck, "a", "")
	loose.CorrelationID, loose.Ack = "", &events.Ack{VerdictID: order, Applied: true}
	if !e.Relay(&p, loose, &fx) {
		t.Fatal("an acknowledgement without a flow is not passed on")
	}
	for at := range events.ReasonCount + 1 {
		want := [2]int64{}
		if at == events.SelfCall.Place() || at == events.ReasonCount {
			want = [2]int64{1, 2}
		}
		if got := fx.Counts.Of(at).Acks; got != want {
			t.Errorf("counted %v at %d, want %v", got, at, want)
		}
	}
}
