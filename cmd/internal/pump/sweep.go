package pump

import (
	"cmp"
	"errors"
	"runtime"
	"slices"
	"sort"
	"time"

	"weir/analyzer"
	"weir/analyzer/activity"
	"weir/cmd/internal/selftest"
	"weir/events"
)

// A sweep folds many records of a backlog flow by flow. Each flow is decoded once, takes all of its
// events while it is in the caches of the processor, and is encoded once. In the order of the log,
// most of the time goes into loading and storing flows.
//
// The effects are the same as in the order of the log, to the byte, and there is no second way to
// judge. The same step folds each record, at the time of the log as it was at that record. Each
// deadline fires where it would have. The effects of flows are kept with their record. They are handed
// on in the order of the log when all flows are done.
type sweep struct {
	fold  *fold
	stage *flowStage

	events []decoded
	// seen is the time of the log after each record.
	seen []events.Stamp
	// next is the place of the next record of the same flow; of the last one, one less than the
	// negative place of its flow; 0 of what is not folded.
	next  []int32
	flows []sweptFlow
	fresh map[string]int32 // places in flows of those that were not in memory
	turn  uint64           // which sweep of the fold this is, see cachedRecord.turn
	// at is one more than the place in brought of the effects of each record. It is 0 for no effects,
	// and unreadable for a record that holds no event. Records are visited more than once, and by then
	// their events are in no cache.
	at      []int32
	brought []brought
	fired   []brought // by deadlines
	records []byte    // of the flows, one after the other
	// Memory of the effects of the fold while it sweeps, which are many times those of a step.
	effects activity.Effects
	ripe    []string // keys of flows whose deadlines become ripe
	planned int      // how many flows have events; deadlines alone follow
	crowded bool     // a checkpoint would not hold more
}

// sweptFlow is a flow of a sweep.
type sweptFlow struct {
	key         string // aliases its first event
	of          *cachedRecord
	first, last int32        // places of its records
	due         events.Stamp // its deadline now
	from, to    int          // its record in records; empty when none is needed
	forgotten   bool         // there was a deadline without a record, which must go
}

// brought is the effects of one record or deadline. The numbers are places in the effects of the fold.
type brought struct {
	at     int32        // of the record, or of the one that made the deadline ripe
	due    events.Stamp // of a deadline
	key    string       // of its flow
	from   effectsEnd
	to     effectsEnd
	answer *events.Verdict
	asked  bool
}

// roomLeft is how much a checkpoint still holds, in bytes and in writes of the store.
type roomLeft struct{ bytes, writes int }

// effectsEnd is how much stands in effects.
type effectsEnd struct{ verdicts, activity, reports int32 }

// unreadable is a mark, see sweep.at.
const unreadable = -1

const (
	// mostSwept bounds the memory of a sweep, of which an event takes a KiB.
	mostSwept = 2048
	// leastSwept is what is not worth a sweep.
	leastSwept = 64
	// mostJump ends a sweep: a record by which the time of the log leaps may fire the deadlines of
	// all flows at once, more than one checkpoint holds.
	mostJump = time.Minute
	// What a sweep counts for what it cannot know before: how far an event lets a record grow, and
	// what a flow takes that is not in memory, or whose deadline fires.
	roomOfEvent = 256
	roomOfFlow  = 1 << 10
	writesOf    = 3 // of one flow, at most
)

// sweeps are shared by all partitions: one for each processor, for more cannot fold at a time.
var sweeps = make(chan *sweep, runtime.GOMAXPROCS(0))

func init() {
	for range cap(sweeps) {
		sweeps <- &sweep{fresh: make(map[string]int32)}
	}
}

// ErrInOrder says that something went wrong in a sweep, which folds many records or none: the pump
// must be thrown away, and the next one fold with Options.InOrder.
var ErrInOrder = errors.New("these records have to be folded one after the other")

// foldSwept is feed with sweeps where that is possible.
func (in *feeder) foldSwept(records []Record) (n int) {
	// Load is counted over all flows as their events come. Without records the deadlines are left
	// that a full checkpoint has interrupted.
	if in.fold.traits.sweeps == nil || len(records) == 0 || in.o.InOrder || in.fold.engine.Limits().Load.High != 0 {
		return in.feed(records)
	}
	g := <-sweeps // who looks at flows meanwhile does not wait for it
	g.fold, g.stage = in.fold, in.fold.traits.sweeps
	defer g.giveBack()
	in.fold.mu.Lock()
	defer in.fold.mu.Unlock()
	for n < len(records) && in.fold.err == nil && !in.fold.full() {
		rest := records[n:]
		in.fold.fire() // what a checkpoint or a crash has interrupted
		in.fold.stage.publishLowWatermark()
		if in.fold.err != nil || in.fold.full() {
			break
		}
		swept := g.plan(rest[:min(len(rest), mostSwept)])
		if swept >= leastSwept {
			if g.run(rest[:swept]); in.fold.err == nil {
				in.tally(int64(swept))
			}
			g.end()
			n, in.swept = n+swept, in.swept+swept
		} else if in.fold.noRoom = g.crowded && len(in.checkpoints.dirty) > 0; !in.fold.noRoom {
			n += in.foldLocked(rest[:min(len(rest), leastSwept)])
		}
		g.reset()
	}
	return n
}

// giveBack lets another partition have it.
func (g *sweep) giveBack() {
	g.fold, g.stage = nil, nil
	sweeps <- g
}

// reset empties it and lets go of what it refers to, but for the events, which the next plan writes
// over.
func (g *sweep) reset() {
	clear(g.flows)
	clear(g.fresh)
	clear(g.brought)
	clear(g.fired)
	g.flows, g.brought, g.fired, g.records, g.crowded = g.flows[:0], g.brought[:0], g.fired[:0], g.records[:0], false
}

// plan decodes records up to the first one that no sweep can have, and finds those of each flow. It
// returns how many they are, and changes nothing that is folded.
func (g *sweep) plan(records []Record) (n int) {
	if cap(g.events) < len(records) {
		g.events = make([]decoded, mostSwept)
		g.seen, g.next, g.at = make([]events.Stamp, mostSwept), make([]int32, mostSwept), make([]int32, mostSwept)
	}
	g.cut(len(records))
	g.fold.sweeps++
	g.turn = g.fold.sweeps
	left := g.roomLeft()
	seen := g.stage.partition.Watermark
	for n < len(records) {
		r, d := &records[n], &g.events[n]
		// What is known already is skipped, in the order of the log.
		if r.Offset < g.fold.at.next {
			break
		}
		g.at[n], g.next[n], g.seen[n] = 0, 0, seen
		if d.err = events.Decode(r.Value, &d.event); d.err != nil {
			g.at[n] = unreadable
			n++
			continue
		}
		d.event.Appended = r.Appended
		when, _ := analyzer.TimeOf(&d.event)
		// After the first report of an agent, all flows report about it.
		first := d.event.Kind == events.AgentStatus && !g.stage.partition.Reporting
		if first || !sweepable(&d.event) || when > seen.Add(mostJump) {
			break
		}
		f := g.flowOf(d.event.FlowKey(), int32(n), &left)
		if left.bytes -= roomOfEvent; left.bytes < 0 || left.writes < 0 {
			g.crowded = true
			break
		}
		seen = max(seen, when)
		g.seen[n], g.next[n], g.flows[f].last = seen, -f-1, int32(n)
		if g.fold.o.Read != nil {
			r.Further = g.flows[f].first != int32(n)
			g.fold.o.Read(r, &d.event)
		}
		g.fold.addHash(&d.event) // here, since when it is folded it is in no cache
		n++
	}
	if n < leastSwept {
		return n
	}
	g.dropAfter(n)
	g.cut(n)
	return g.planDeadlines(min(left.bytes/roomOfFlow, left.writes/writesOf))
}

// cut makes the lists about records n long.
func (g *sweep) cut(n int) {
	g.events, g.seen, g.next, g.at = g.events[:n], g.seen[:n], g.next[:n], g.at[:n]
}

// roomLeft is how much more the checkpoint holds that is gathered.
func (g *sweep) roomLeft() roomLeft {
	bytes, writes := g.fold.o.Store.MaxCheckpoint()
	// An eighth stays free, for what is counted here is a guess.
	return roomLeft{
		bytes:  int(bytes/8*7-g.fold.checkpoints.bytes) - len(g.fold.document) - PartitionRoom,
		writes: writes/8*7 - g.fold.checkpoints.writes,
	}
}

// flowOf links the record at n to the flow of its key, and takes the room of a flow that is new here.
func (g *sweep) flowOf(key string, n int32, left *roomLeft) int32 {
	of := g.fold.memory.cache.byKey[key]
	f, known := g.placeOf(key, of)
	if known {
		g.next[g.flows[f].last] = n
		return f
	}
	f = int32(len(g.flows))
	if of == nil {
		left.bytes -= roomOfFlow
		g.fresh[key] = f
	} else {
		if !of.dirty {
			left.bytes -= len(key) + len(of.record) + recordOverhead
		}
		of.turn, of.place = g.turn, f
	}
	left.writes -= writesOf
	g.flows = append(g.flows, sweptFlow{key: key, of: of, first: n})
	return f
}

// placeOf returns the place of a flow in flows. A flow in memory knows its own, so it is looked up once.
func (g *sweep) placeOf(key string, of *cachedRecord) (f int32, known bool) {
	if of != nil && of.turn == g.turn {
		return of.place, true
	}
	if len(g.fresh) > 0 { // a fresh one may be in memory by now
		f, known = g.fresh[key]
	}
	return f, known
}

// dropAfter ends a plan after n records. The record at which it ended may have begun a flow, or been
// linked to the one before.
func (g *sweep) dropAfter(n int) {
	for f := range g.flows {
		if x := &g.flows[f]; int(x.first) < n {
			g.next[x.last] = int32(-f - 1)
			continue
		}
		if x := &g.flows[f]; x.of != nil {
			x.of.turn = 0
		} else {
			delete(g.fresh, x.key)
		}
		g.flows = g.flows[:f]
		break
	}
}

// planDeadlines finds the deadlines that become ripe in a sweep, and returns how many records it
// has: none if there are too many deadlines.
func (g *sweep) planDeadlines(most int) (n int) {
	d := &g.fold.memory.deadlines
	until := g.seen[len(g.seen)-1].Add(-activity.Grace)
	// All of them have to be held.
	if !d.whole && d.last.due <= until {
		if g.fold.err = g.fold.memory.moreDeadlines(); g.fold.err != nil || !d.whole && d.last.due <= until {
			return 0
		}
	}
	if g.ripe = d.upTo(g.ripe[:0], until, 0, most+1); len(g.ripe) > most {
		g.crowded = true
		return 0
	}
	return len(g.seen)
}

// sweepable reports whether an event changes its flow and the time alone.
func sweepable(ev *events.Event) bool {
	return ev.Kind != events.Tick && ev.Kind != events.LimitsSet && ev.CorrelationID != "" && !selftest.OwnFlow(ev.CorrelationID)
}

// run folds the records of a plan.
func (g *sweep) run(records []Record) {
	g.fold.close()
	g.fold.sweeping = true
	g.swapEffects()
	before := g.stage.partition.Watermark
	for i := range records {
		g.fold.meter.counted.Bytes += int64(len(records[i].Value))
		if g.at[i] != unreadable {
			g.fold.at.limits.since++
		}
	}
	for f := range g.flows {
		if f%prefetched == 0 { // those that are folded next, at one time, as prefetch does
			for i := f; i < min(f+prefetched, len(g.flows)); i++ {
				if r := g.flows[i].of; r != nil {
					g.fold.memory.touch(r)
				}
			}
		}
		if g.foldFlow(&g.flows[f], before); g.fold.err != nil {
			break
		}
	}
	g.planned = len(g.flows)
	for _, key := range g.ripe {
		if _, swept := g.placeOf(key, g.fold.memory.cache.byKey[key]); g.fold.err == nil && !swept {
			g.flows = append(g.flows, sweptFlow{key: key})
			g.fireFlow(&g.flows[len(g.flows)-1])
		}
	}
	g.fold.open = nil
	if g.fold.err == nil {
		g.handOn(records) // before the memory changes that it aliases
		g.putBack()
		last := &records[len(records)-1]
		g.fold.at.last.offset, g.fold.at.last.sum, g.fold.at.last.known = last.Offset, Sum(last.Value), true
	}
}

// end leaves the fold as run found it, with room in memory.
func (g *sweep) end() {
	// Never seen: far more than a flow grows by was left free.
	if g.fold.err == nil && g.fold.checkpoints.gathers(4, len(g.fold.document)) {
		g.fold.err = ErrInOrder
	}
	g.fold.sweeping = false
	clear(g.fold.fx.Verdicts)
	g.fold.fx.Verdicts = g.fold.fx.Verdicts[:0]
	g.fold.fx.ResetActivity()
	g.swapEffects()
	g.fold.memory.evict()
}

// swapEffects gives the effects of the fold other memory, both empty.
func (g *sweep) swapEffects() {
	mine, its := &g.fold.fx, &g.effects
	mine.Verdicts, its.Verdicts = its.Verdicts, mine.Verdicts
	mine.Activity, its.Activity = its.Activity, mine.Activity
	mine.Reports, its.Reports = its.Reports, mine.Reports
}

// foldFlow folds all events of a flow, and fires its deadlines at their places between them. The
// record in memory stays as it was until putBack, for what the flow brings about aliases it.
func (g *sweep) foldFlow(f *sweptFlow, before events.Stamp) {
	if g.fold.err = g.bringIn(f); g.fold.err != nil {
		return
	}
	last := int32(0)
	for at := f.first; at >= 0 && g.fold.err == nil; at = g.next[at] {
		if g.fireBefore(f, last, at); g.fold.err != nil {
			return
		}
		g.stage.partition.Watermark = before
		if at > 0 {
			g.stage.partition.Watermark = g.seen[at-1]
		}
		ev := &g.events[at].event
		from := g.effectsNow()
		if g.fold.step(ev) != nil {
			g.fold.err = ErrInOrder
			return
		}
		if to := g.effectsNow(); to != from || g.fold.fx.Answer != nil {
			g.brought = append(g.brought, brought{from: from, to: to, answer: g.fold.fx.Answer, asked: g.fold.fx.Asked})
			g.at[at] = int32(len(g.brought))
		}
		g.fold.err, last = g.stepped(f), at
	}
	g.finish(f, last)
}

// fireFlow fires the deadlines of a flow that has no events in the sweep.
func (g *sweep) fireFlow(f *sweptFlow) {
	if g.fold.err = g.bringIn(f); g.fold.err == nil {
		g.finish(f, 0)
	}
}

// bringIn brings a flow into scratch.
func (g *sweep) bringIn(f *sweptFlow) (err error) {
	if f.of == nil {
		if f.of, _, err = g.fold.memory.find(f.key); err != nil {
			return err
		}
	}
	f.due = f.of.due
	return g.fold.decode(f.of)
}

// finish fires the deadlines that are left and encodes the flow.
func (g *sweep) finish(f *sweptFlow, last int32) {
	if g.fireBefore(f, last, int32(len(g.seen))); g.fold.err != nil || g.stage.empty() {
		return
	}
	f.from = len(g.records)
	g.records, g.fold.err = g.stage.encode(g.records)
	f.to = len(g.records)
}

// stepped notes the deadline of the flow in scratch, after what a flow forgets in being encoded, see
// keep.
func (g *sweep) stepped(f *sweptFlow) (err error) {
	if g.stage.empty() {
		return nil
	}
	if g.stage.scratch.AtMost() > analyzer.MaxRecord {
		g.fold.encoded, err = g.stage.encode(g.fold.encoded[:0])
	}
	f.due = g.stage.due()
	return err
}

// fireBefore fires the deadlines of the flow in scratch that records before the one at until make
// ripe, at the first of them that does, but after the one at last.
func (g *sweep) fireBefore(f *sweptFlow, last, until int32) {
	for g.fold.err == nil && f.due != 0 && until > 0 && f.due <= g.seen[until-1].Add(-activity.Grace) {
		due := f.due
		last = max(last, int32(sort.Search(int(until), func(i int) bool { return due <= g.seen[i].Add(-activity.Grace) })))
		g.stage.partition.Watermark = g.seen[last]
		if g.stage.due() == due { // or it was postponed
			g.fold.meter.fired(g.fold.open, g.stage.seen().Sub(due))
		}
		f.due = 0
		if g.stage.empty() { // the store has forgotten the flow, and not the deadline, see drop
			f.of.kept, f.forgotten = due, true
			continue
		}
		from := g.effectsNow()
		if g.fold.advance(due) != nil {
			g.fold.err = ErrInOrder
			return
		}
		if to := g.effectsNow(); to != from {
			g.fired = append(g.fired, brought{at: last, due: due, key: f.of.key, from: from, to: to})
		}
		g.fold.err = g.stepped(f)
	}
}

// putBack puts what was encoded into the records of the flows, in the order of their last events.
func (g *sweep) putBack() {
	for _, next := range g.next {
		if next < 0 {
			g.putBackFlow(&g.flows[-next-1])
		}
	}
	for f := g.planned; f < len(g.flows); f++ {
		g.putBackFlow(&g.flows[f])
	}
}

func (g *sweep) putBackFlow(f *sweptFlow) {
	r := f.of
	if record := g.records[f.from:f.to]; len(record) > 0 {
		g.fold.memory.cache.renew(r)
		g.fold.memory.setDue(r, f.due)
		g.fold.memory.note(r, record)
		g.fold.memory.cache.set(r, record)
		return
	}
	switch {
	case f.forgotten:
		g.fold.memory.setDue(r, f.due)
		g.fold.memory.note(r, nil)
	case len(r.record) == 0 && !r.dirty: // it has taken no event
		g.fold.memory.cache.remove(r)
	}
}

// handOn hands on the effects of the sweep, in the order of the log.
func (g *sweep) handOn(records []Record) {
	slices.SortStableFunc(g.fired, func(a, b brought) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.due, b.due), cmp.Compare(a.key, b.key))
	})
	fired := g.fired
	for i := range records {
		r, d := &records[i], &g.events[i]
		g.stage.partition.Watermark, g.fold.at.appended = g.seen[i], r.Appended
		if at := g.at[i]; at == unreadable {
			g.fold.outbox.refuse(r, d.err)
		} else if at > 0 {
			b := &g.brought[at-1]
			g.fold.answer(r, &d.event, b.answer, b.asked, g.fold.fx.Activity[b.from.activity:b.to.activity])
			g.bring(b, r.Offset)
		}
		g.fold.at.next = r.Offset + 1
		for len(fired) > 0 && int(fired[0].at) == i {
			g.bring(&fired[0], r.Offset)
			fired = fired[1:]
		}
		g.stage.publishLowWatermark()
	}
}

// effectsNow is how much the effects hold.
func (g *sweep) effectsNow() effectsEnd {
	return effectsEnd{int32(len(g.fold.fx.Verdicts)), int32(len(g.fold.fx.Activity)), int32(len(g.fold.fx.Reports))}
}

// bring is collect for a part of the effects.
func (g *sweep) bring(b *brought, offset int64) {
	g.fold.outbox.takeOver(g.fold.fx.Verdicts[b.from.verdicts:b.to.verdicts], offset)
	g.fold.passToAgents(g.fold.fx.Activity[b.from.activity:b.to.activity], g.fold.fx.Reports[b.from.reports:b.to.reports], offset)
}
