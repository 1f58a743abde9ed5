package pump

import (
	"testing"
	"time"

	"weir/cmd/internal/pump/pumptest"
	"weir/state"
)

// steady is pumptest.Steady as records.
func steady(flows, n, round int) []Record {
	out := make([]Record, 0, n)
	for _, e := range pumptest.Steady(flows, n, round) {
		out = append(out, Record{Offset: e.Offset, Appended: e.Appended, Value: e.Value})
	}
	return out
}

// BenchmarkPump is the whole path of one event: decode, fold, encode. With a store
// there are checkpoints as well, as fast as they can be written.
func BenchmarkPump(b *testing.B) {
	f := func(name string, flows int, stored bool) {
		b.Run(name, func(b *testing.B) {
			records := steady(flows, 400_000, 0)
			o := Options{Limits: pumptest.Limits()}
			if stored {
				store, err := state.Open(b.TempDir(), state.Options{})
				if err != nil {
					b.Fatal(err)
				}
				defer store.Close()
				o.Store, o.Sink, o.CheckpointEvery = store, &memoryLog{}, time.Second
			}
			p, err := New(b.Context(), o)
			if err != nil {
				b.Fatal(err)
			}
			offset, size := int64(0), int64(0)
			const batch = 1000
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; {
				from := i % len(records)
				if from == 0 && i > 0 {
					b.StopTimer()
					records = steady(flows, len(records), i/len(records))
					b.StartTimer()
				}
				n := min(batch, len(records)-from, b.N-i)
				chunk := records[from : from+n]
				for j := range chunk {
					chunk[j].Offset = offset
					offset++
					size += int64(len(chunk[j].Value))
				}
				if err := p.Batch(b.Context(), chunk); err != nil {
					b.Fatal(err)
				}
				i += n
			}
			if stored {
				if err := p.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(size)/float64(b.N), "B/event")
			b.ReportMetric(float64(p.meter.standing.FlowBytes.Load())/float64(max(1, p.meter.standing.Flows.Load())), "B/flow")
			b.ReportMetric(float64(p.meter.counts.Sum().Checkpoints), "checkpoints")
		})
	}
	f("memory/flows=1000", 1000, false)
	f("memory/flows=100000", 100_000, false)
	f("badger/flows=1000", 1000, true)
	f("badger/flows=100000", 100_000, true)
}
