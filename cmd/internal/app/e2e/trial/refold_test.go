package main

import (
	"context"
	"math/rand/v2"
	"testing"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/state"
)

// log keeps what a pump publishes.
type log struct{ said []said }

func (l *log) Emit(_ context.Context, verdicts []pump.Emitted) (int64, error) {
	for i := range verdicts {
		v := &verdicts[i].Verdict
		l.said = append(l.said, said{0, verdicts[i].Offset, v.ID, "", string(v.AppendJSON(nil))})
	}
	return int64(len(l.said)), nil
}

func (l *log) Since(_ context.Context, from int64, fn func(id string, trigger int64)) (int64, error) {
	for _, v := range l.said[from:] {
		fn(v.id, v.trigger)
	}
	return int64(len(l.said)), nil
}

// TestRefold holds that the verdicts of the traffic depend neither on how it is cut into
// batches nor on where pumps end and others go on with the state of before.
func TestRefold(t *testing.T) {
	tr := traffic{seed: 3, name: "t", events: 40_000, flows: 2000, from: noon, to: noon + 3_600_000}
	var records []pump.Record
	if err := tr.each(func(r *record) error {
		records = append(records, pump.Record{Offset: int64(len(records)), Appended: r.at, Value: r.value})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var want []said
	p, err := pump.New(t.Context(), pump.Options{Limits: limitfile.Default()})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		var ev events.Event
		if err := events.Decode(r.Value, &ev); err != nil {
			t.Fatal(err)
		}
		ev.Appended = r.Appended
		for _, v := range p.Fold(&ev, r.Offset) {
			want = append(want, said{0, r.Offset, v.ID, "", string(v.AppendJSON(nil))})
		}
	}
	f := func(seed uint64, restarts bool) {
		t.Helper()
		random := rand.New(rand.NewPCG(seed, 4))
		store, err := state.Open(t.TempDir(), state.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		out := &log{}
		begin := func() *pump.Pump {
			p, err := pump.New(t.Context(), pump.Options{Limits: limitfile.Default(), Store: store, Sink: out})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		p := begin()
		for p.Next() < int64(len(records)) {
			from := p.Next()
			to := min(int64(len(records)), from+1+random.Int64N(4000))
			if err := p.Batch(t.Context(), records[from:to]); err != nil {
				t.Fatal(err)
			}
			if restarts && random.IntN(3) == 0 {
				if random.IntN(2) == 0 {
					p.CloseWithoutCheckpoint()
				} else if err := p.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				p = begin()
			}
		}
		p.CloseWithoutCheckpoint()
		different := 0
		for i := range min(len(want), len(out.said)) {
			if want[i] != out.said[i] {
				if different++; different < 4 {
					t.Errorf("seed %d: verdict %d\n got %+v\nwant %+v", seed, i, out.said[i], want[i])
				}
			}
		}
		if len(want) != len(out.said) || different > 0 {
			t.Errorf("seed %d, restarts %v: %d verdicts, %d of them differ, want %d", seed, restarts, len(out.said), different, len(want))
		}
	}
	for seed := range uint64(3) {
		f(seed, false)
		f(seed, true)
	}
}
