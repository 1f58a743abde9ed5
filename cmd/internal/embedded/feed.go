package embedded

import (
	"context"
	"fmt"

	"weir/cmd/internal/pump"
	"weir/events"
	"weir/sink/check"
	"weir/sink/prom"
	"weir/state"
)

// feed is a log of the store and the pump that folds it. next, entries and records belong to the
// goroutine that has the turn.
type feed struct {
	of   *folder
	name string
	log  *state.Log
	read func(*state.Entry) (pump.Record, error)
	pump *pump.Pump // nil before the start

	next    int64 // what the pump gets next
	entries []state.Entry
	records []pump.Record
}

// started is the pump in a slice, as the other backend has many; empty before the start.
func (f *feed) started() []*pump.Pump {
	if f.pump == nil {
		return nil
	}
	return []*pump.Pump{f.pump}
}

// behind is how many records the pump has not folded.
func (f *feed) behind() int64 { return f.log.End() - f.pump.Next() }

// fold folds the next records of the log, if there are any, and returns how many are left.
// It publishes what they bring about. An error is final, see pump.Batch.
func (f *feed) fold(ctx context.Context) (left int64, err error) {
	if err := f.readOn(); err != nil {
		return 0, err
	}
	if err := f.pump.Batch(ctx, f.records); err != nil {
		return 0, err
	}
	f.next += int64(len(f.records))
	return f.log.End() - f.next, nil
}

// foldAhead folds as much as can be folded without a write, and reports whether there is
// more to do.
// The pump loop has to come before anything more is folded when it is true.
func (f *feed) foldAhead(own *fresh) (more bool) {
	if !f.takeFresh(own) && f.readOn() != nil {
		return true // the pump loop gets the same error again
	}
	n, due := f.pump.Ahead(f.of.folding.Over(), f.records)
	clear(f.records) // the memory of fresh ones is their caller's again
	f.next += int64(n)
	return due
}

// fresh are check requests that their goroutine has just appended, from the offset first on. It has
// decoded their events, so it need not read them back.
type fresh struct {
	first   int64
	entries []state.Entry
	batch   []*check.Request
}

// takeFresh makes records of what was just appended, if the pump has folded all before it.
func (f *feed) takeFresh(own *fresh) bool {
	if own == nil || own.first != f.next || len(own.batch) > batchRecords {
		return false
	}
	f.records = f.records[:0]
	for i, q := range own.batch {
		f.records = append(f.records, pump.Record{Offset: own.first + int64(i), Appended: own.entries[i].Appended, Value: q.Raw, Event: q.Logged()})
	}
	return true
}

// readOn reads the next records of the log.
// What has expired before it was folded is lost to the fold, which is counted and logged:
// the retention is too short for how long weir was away.
func (f *feed) readOn() error {
	first, entries, err := state.ReadOn(f.log.Read, f.next, batchRecords, f.entries[:0])
	if err != nil {
		return fmt.Errorf("read the %s: %w", f.name, err)
	}
	f.entries = entries
	if first > f.next {
		f.of.o.Pump.Counts.Count(func(n *prom.Counters) { n.Reject(events.CodeLost) })
		f.of.o.Pump.Logger.Error("records have expired before they were folded; keep them longer", "log", f.name, "from", f.next, "to", first)
		f.next = first
	}
	f.records = f.records[:0]
	for i := range f.entries {
		// The entries are kept in f, since records point into them.
		r, err := f.read(&f.entries[i])
		if err != nil {
			return err
		}
		f.records = append(f.records, r)
	}
	return nil
}

// measure reports how far behind the pump is, by records and by the age of the oldest one.
func (f *feed) measure(r *prom.Reading, agents bool) {
	if f.pump == nil {
		return
	}
	s := prom.Source{Agents: agents, Topic: f.name, Partition: partition, LagRecords: max(0, f.behind())}
	if s.LagRecords > 0 {
		oldest, err := f.log.Read(f.pump.Next(), 1, nil)
		if err == nil && len(oldest) > 0 {
			s.Lag = max(0, f.of.clock.Now().Sub(oldest[0].Appended.Time()))
		}
	}
	r.Sources = append(r.Sources, s)
}
