package pump

import (
	"weir/events"
	"weir/sink/prom"
)

// feeder takes records in: it decodes some at a time, skips those that are known, and gives the others
// to the fold in the order of their offsets.
type feeder struct {
	o           *Options
	at          *frontier
	memory      *memory
	fold        *fold
	outbox      *outbox
	checkpoints *checkpointer
	meter       *meter

	coming []decoded        // the record at hand and those after it, see prefetch
	swept  int              // records that were folded by sweeps
	given  []events.Verdict // what foldOne returned last
}

// prefetched is how many records are decoded before the first of them is folded.
const prefetched = 16

// cacheLine is how many bytes a processor fetches at once, on nearly all that there are.
const cacheLine = 64

// decoded is a record that is to be folded soon.
type decoded struct {
	event events.Event
	err   error         // why there is no event
	of    *cachedRecord // its flow or agent, if that is in memory
}

// feed takes records until there are none or until a checkpoint has to be written. It returns how many
// it took. It holds the lock for all of them, so a query waits for one batch at most.
func (in *feeder) feed(records []Record) (n int) {
	in.fold.mu.Lock()
	defer in.fold.mu.Unlock()
	return in.foldLocked(records)
}

// foldLocked is feed for a caller that holds the lock. A deadline fires between two records, as soon
// as a record has made it ripe. So the effects do not depend on where batches end.
func (in *feeder) foldLocked(records []Record) (n int) {
	in.fold.fire() // what a checkpoint or a crash has interrupted
	in.fold.stage.publishLowWatermark()
	for n < len(records) && in.fold.err == nil && !in.fold.full() {
		if n%prefetched == 0 {
			in.prefetch(records[n:min(n+prefetched, len(records))])
		}
		r, d := &records[n], &in.coming[n%prefetched]
		n++
		if r.Offset < in.at.next {
			continue
		}
		in.record(r, d)
		in.at.next = r.Offset + 1
		in.fold.fire()
		in.fold.stage.publishLowWatermark()
	}
	in.fold.close()
	// A record that was skipped because it is known says nothing of what stands before next.
	if n > 0 && records[n-1].Offset == in.at.next-1 {
		in.at.last.offset, in.at.last.sum, in.at.last.known = in.at.next-1, Sum(records[n-1].Value), true
	}
	in.tally(int64(n))
	return n
}

// record folds one record or makes it a dead letter. err of the fold says afterwards whether the pump has
// to end.
func (in *feeder) record(r *Record, d *decoded) {
	in.meter.counted.Bytes += int64(len(r.Value))
	// Reports are no JSON, so prefetch has not decoded them.
	if in.isReports(r) {
		in.fold.stage.foldReports(r)
		return
	}
	if d.err != nil {
		in.outbox.refuse(r, d.err)
		return
	}
	if in.o.Read != nil {
		in.o.Read(r, &d.event)
	}
	d.event.Appended, in.at.appended = r.Appended, r.Appended
	in.fold.take(&d.event, r)
}

// isReports reports whether the record is a batch of reports.
func (in *feeder) isReports(r *Record) bool { return in.fold.traits.reports && IsReports(r.Value) }

// prefetch decodes records and reads a little of what memory has of their flows or agents, so that
// the processor fetches it for all of them at one time. Most of it is in none of its caches, and
// to wait for the one, fold it, and then wait for the next is a good part of what folding
// takes. It changes nothing.
//
// The records are folded at once after it, up to prefetched of them, so no decoded event
// outlives the next call. The caller holds the lock.
func (in *feeder) prefetch(records []Record) {
	// Made when it is needed first: a replay folds events and never records.
	if in.coming == nil {
		in.coming = make([]decoded, prefetched)
	}
	for i := range records {
		r, d := &records[i], &in.coming[i]
		d.of, d.err = nil, nil
		// What is known already or no event is not decoded; fold skips it by the same tests.
		switch {
		case r.Offset < in.at.next || in.isReports(r):
		case r.Event != nil:
			d.event = *r.Event
		default:
			d.err = events.Decode(r.Value, &d.event)
		}
	}
	for i := range records {
		switch r, d := &records[i], &in.coming[i]; {
		case r.Offset < in.at.next || d.err != nil || in.isReports(r):
		case in.fold.traits.keyed:
			d.of = in.memory.cache.byKey[r.Key]
		default:
			d.of = in.memory.cache.byKey[d.event.FlowKey()]
		}
	}
	for i := range records {
		if r := in.coming[i].of; r != nil {
			in.memory.touch(r)
		}
	}
	for i := range records { // its neighbors are written when it becomes the newest
		if r := in.coming[i].of; r != nil && r.newer.dirty != r.older.dirty {
			in.memory.touched++
		}
	}
}

// foldOne does for one record what foldLocked does for many, in the same order, and returns the
// verdicts that it brought about, those of deadlines included that it has made ripe. What the
// verdict log has since before a crash is not among them.
func (in *feeder) foldOne(r *Record, take func()) []events.Verdict {
	in.fold.mu.Lock()
	defer in.fold.mu.Unlock()
	in.given = in.given[:0]
	if r.Offset < in.at.next || in.fold.err != nil {
		return in.given
	}
	// With a store verdicts may hold what earlier calls have given and the next Batch publishes.
	from := len(in.outbox.verdicts)
	take()
	in.at.next = r.Offset + 1
	in.fold.fire()
	in.fold.stage.publishLowWatermark()
	in.fold.close()
	in.tally(1)
	for i := range in.outbox.verdicts[from:] {
		in.given = append(in.given, in.outbox.verdicts[from+i].Verdict)
	}
	if in.o.Store == nil {
		in.outbox.forget()
	}
	return in.given
}

// tally publishes the state of the pump and adds its counts to the shared ones. The goroutine that has
// folded calls it once for each batch, with the lock held.
func (in *feeder) tally(records int64) {
	in.meter.standing.Flows.Store(int64(len(in.memory.cache.byKey)))
	in.meter.standing.FlowBytes.Store(in.memory.cache.bytes)
	in.meter.standing.Watermark.Store(int64(in.fold.stage.seen()))
	in.meter.standing.Next.Store(in.at.next)
	in.fold.stage.announce()
	// fx.Counts are not reset there: they are the counts of the replay as a whole.
	if in.o.Store == nil { // a replay is asked, see Counted
		return
	}
	in.checkpoints.uncheckpointed += records
	in.meter.counts.uncheckpointed.Add(records)
	n := &in.meter.counted
	n.Fold.Take(&in.fold.fx.Counts)
	in.fold.stage.tally(records)
	in.meter.standing.Unsent.Store(int64(len(in.outbox.verdicts)))
	in.meter.counts.Count(func(all *prom.Counters) { all.Take(n) })
}
