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
	events []decoded
	// seen is the time of the log after each record.
	seen []events.Stamp
	// next is the place of the next record of the same flow; of the last one, one less than the
	// negative place of its flow; 0 of what is not folded.
	next  []int32
	flows []sweptFlow
	byKey map[string]int32 // places in flows
	// at is one more than the place in brought of the effects of each record. It is 0 for no effects,
	// and unreadable for a record that holds no event. Records are visited more than once, and by then
	// their events are in no cache.
	at      []int32
	brought []brought
	fired   []brought // by deadlines
	records []byte    // of the flows, one after the other
	// Memory of the effects of the pump while it sweeps, which are many times those of a step.
	effects activity.Effects
	ripe    []string // keys of flows whose deadlines become ripe
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

// brought is the effects of one record or deadline. The numbers are places in the effects of the pump.
type brought struct {
	at     int32        // of the record, or of the one that made the deadline ripe
	due    events.Stamp // of a deadline
	key    string       // of its flow
	from   effectsEnd
	to     effectsEnd
	answer *events.Verdict
	asked  bool
}

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
		sweeps <- &sweep{byKey: make(map[string]int32)}
	}
}

// ErrInOrder says that something went wrong in a sweep, which folds many records or none: the pump
// must be thrown away, and the next one fold with Options.InOrder.
var ErrInOrder = errors.New("these records have to be folded one after the other")

// foldSwept is foldAll with sweeps where that is possible.
func (p *Pump) foldSwept(records []Record) (n int) {
	s, ok := p.fold.stage.(*flowStage)
	// Load is counted over all flows as their events come. Without records the deadlines are left
	// that a full checkpoint has interrupted.
	if !ok || len(records) == 0 || p.o.InOrder || p.fold.engine.Limits().Load.High != 0 {
		return p.foldAll(records)
	}
	g := <-sweeps // who looks at flows meanwhile does not wait for it
	defer func() { sweeps <- g }()
	p.mu.Lock()
	defer p.mu.Unlock()
	for n < len(records) && p.fold.err == nil && !p.fold.full() {
		rest := records[n:]
		p.fold.fire() // what a checkpoint or a crash has interrupted
		p.fold.publishLowWatermark()
		if p.fold.err != nil || p.fold.full() {
			break
		}
		swept := s.plan(g, rest[:min(len(rest), mostSwept)])
		if swept >= leastSwept {
			s.sweep(g, rest[:swept])
			n, p.swept = n+swept, p.swept+swept
		} else if p.fold.noRoom = g.crowded && len(p.checkpoints.dirty) > 0; !p.fold.noRoom {
			n += p.foldLocked(rest[:min(len(rest), leastSwept)])
		}
		g.reset()
	}
	return n
}

// reset empties it and lets go of what it refers to, but for the events, which the next plan writes
// over.
func (g *sweep) reset() {
	clear(g.flows)
	clear(g.byKey)
	clear(g.brought)
	clear(g.fired)
	g.flows, g.brought, g.fired, g.records, g.crowded = g.flows[:0], g.brought[:0], g.fired[:0], g.records[:0], false
}

// plan decodes records up to the first one that no sweep can have, and finds those of each flow. It
// returns how many they are, and changes nothing that is folded.
func (s *flowStage) plan(g *sweep, records []Record) (n int) {
	p := s.pump
	if cap(g.events) < len(records) {
		g.events = make([]decoded, mostSwept)
		g.seen, g.next, g.at = make([]events.Stamp, mostSwept), make([]int32, mostSwept), make([]int32, mostSwept)
	}
	g.events, g.seen, g.next, g.at = g.events[:len(records)], g.seen[:len(records)], g.next[:len(records)], g.at[:len(records)]
	bytes, writes := p.o.Store.MaxCheckpoint()
	// An eighth stays free, for what is counted here is a guess.
	room := int(bytes/8*7-p.checkpoints.bytes) - len(p.fold.document) - PartitionRoom
	left := writes/8*7 - p.checkpoints.writes
	seen := s.partition.Watermark
	for n < len(records) {
		r, d := &records[n], &g.events[n]
		// What is known already is skipped, in the order of the log.
		if r.Offset < p.at.next {
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
		first := d.event.Kind == events.AgentStatus && !s.partition.Reporting
		if first || !sweepable(&d.event) || when > seen.Add(mostJump) {
			break
		}
		key := d.event.FlowKey()
		f, known := g.byKey[key]
		if !known {
			of, need := p.memory.cache.byKey[key], roomOfFlow
			if of != nil {
				need = len(key) + len(of.record) + recordOverhead
			}
			if of == nil || !of.dirty {
				room -= need
			}
			left -= writesOf
			f = int32(len(g.flows))
			g.byKey[key] = f
			g.flows = append(g.flows, sweptFlow{key: key, of: of, first: int32(n)})
		} else {
			g.next[g.flows[f].last] = int32(n)
		}
		if room -= roomOfEvent; room < 0 || left < 0 {
			g.crowded = true
			break
		}
		seen = max(seen, when)
		g.seen[n], g.next[n], g.flows[f].last = seen, -f-1, int32(n)
		if p.o.Read != nil {
			p.o.Read(r, &d.event)
		}
		n++
	}
	if n < leastSwept {
		return n
	}
	// The record at which it ended may have begun a flow, or been linked to the one before.
	for f := range g.flows {
		if x := &g.flows[f]; int(x.first) < n {
			g.next[x.last] = int32(-f - 1)
			continue
		}
		delete(g.byKey, g.flows[f].key)
		g.flows = g.flows[:f]
		break
	}
	g.events, g.seen, g.next, g.at = g.events[:n], g.seen[:n], g.next[:n], g.at[:n]
	return s.planDeadlines(g, min(room/roomOfFlow, left/writesOf))
}

// planDeadlines finds the deadlines that become ripe in a sweep, and returns how many records it
// has: none if there are too many deadlines.
func (s *flowStage) planDeadlines(g *sweep, most int) (n int) {
	p, d := s.pump, &s.fold.memory.deadlines
	until := g.seen[len(g.seen)-1].Add(-activity.Grace)
	// All of them have to be held.
	if !d.whole && d.last.due <= until {
		if p.fold.err = p.memory.moreDeadlines(); p.fold.err != nil || !d.whole && d.last.due <= until {
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

// sweep folds the records of a plan.
func (s *flowStage) sweep(g *sweep, records []Record) {
	p := s.pump
	p.fold.close()
	p.fold.sweeping = true
	p.swapEffects(g)
	before := s.partition.Watermark
	for i := range records {
		p.meter.counted.Bytes += int64(len(records[i].Value))
		if g.at[i] != unreadable {
			p.at.limits.since++
		}
	}
	for f := range g.flows {
		if f%prefetched == 0 { // those that are folded next, at one time, as prefetch does
			for i := f; i < min(f+prefetched, len(g.flows)); i++ {
				if r := g.flows[i].of; r != nil {
					p.touch(r)
				}
			}
		}
		if s.foldFlow(g, &g.flows[f], before); p.fold.err != nil {
			break
		}
	}
	for _, key := range g.ripe {
		if _, swept := g.byKey[key]; p.fold.err == nil && !swept {
			g.flows = append(g.flows, sweptFlow{key: key})
			s.fireFlow(g, &g.flows[len(g.flows)-1])
		}
	}
	p.fold.open = nil
	if p.fold.err == nil {
		s.tell(g, records) // before the memory changes that it aliases
		p.putBack(g)
		last := &records[len(records)-1]
		p.at.last.offset, p.at.last.sum, p.at.last.known = last.Offset, Sum(last.Value), true
		p.tally(int64(len(records)))
		// Never seen: far more than a flow grows by was left free.
		if p.checkpoints.gathers(4, len(p.fold.document)) {
			p.fold.err = ErrInOrder
		}
	}
	p.fold.sweeping = false
	clear(p.fold.fx.Verdicts)
	p.fold.fx.Verdicts = p.fold.fx.Verdicts[:0]
	p.fold.fx.ResetActivity()
	p.swapEffects(g)
	p.memory.evict()
}

// swapEffects gives the effects of the pump other memory, both empty.
func (p *Pump) swapEffects(g *sweep) {
	mine, its := &p.fold.fx, &g.effects
	mine.Verdicts, its.Verdicts = its.Verdicts, mine.Verdicts
	mine.Activity, its.Activity = its.Activity, mine.Activity
	mine.Reports, its.Reports = its.Reports, mine.Reports
}

// foldFlow folds all events of a flow, and fires its deadlines at their places between them. The
// record in memory stays as it was until putBack, for what the flow brings about aliases it.
func (s *flowStage) foldFlow(g *sweep, f *sweptFlow, before events.Stamp) {
	p := s.pump
	if p.fold.err = p.bringIn(f); p.fold.err != nil {
		return
	}
	last := int32(0)
	for at := f.first; at >= 0 && p.fold.err == nil; at = g.next[at] {
		if s.fireBefore(g, f, last, at); p.fold.err != nil {
			return
		}
		s.partition.Watermark = before
		if at > 0 {
			s.partition.Watermark = g.seen[at-1]
		}
		ev := &g.events[at].event
		p.fold.addHash(ev)
		from := p.brought()
		if p.fold.step(ev) != nil {
			p.fold.err = ErrInOrder
			return
		}
		if to := p.brought(); to != from || p.fold.fx.Answer != nil {
			g.brought = append(g.brought, brought{from: from, to: to, answer: p.fold.fx.Answer, asked: p.fold.fx.Asked})
			g.at[at] = int32(len(g.brought))
		}
		p.fold.err, last = s.stepped(f), at
	}
	s.finish(g, f, last)
}

// fireFlow fires the deadlines of a flow that has no events in the sweep.
func (s *flowStage) fireFlow(g *sweep, f *sweptFlow) {
	if s.fold.err = s.pump.bringIn(f); s.fold.err == nil {
		s.finish(g, f, 0)
	}
}

// bringIn brings a flow into scratch.
func (p *Pump) bringIn(f *sweptFlow) (err error) {
	if f.of == nil {
		if f.of, _, err = p.memory.find(f.key); err != nil {
			return err
		}
	}
	f.due = f.of.due
	return p.fold.decode(f.of)
}

// finish fires the deadlines that are left and encodes the flow.
func (s *flowStage) finish(g *sweep, f *sweptFlow, last int32) {
	p := s.pump
	if s.fireBefore(g, f, last, int32(len(g.seen))); p.fold.err != nil || s.empty() {
		return
	}
	f.from = len(g.records)
	g.records, p.fold.err = s.encode(g.records)
	f.to = len(g.records)
}

// stepped notes the deadline of the flow in scratch, after what a flow forgets in being encoded, see
// keep.
func (s *flowStage) stepped(f *sweptFlow) (err error) {
	if s.empty() {
		return nil
	}
	if s.scratch.AtMost() > analyzer.MaxRecord {
		s.fold.encoded, err = s.encode(s.fold.encoded[:0])
	}
	f.due = s.due()
	return err
}

// fireBefore fires the deadlines of the flow in scratch that records before the one at until make
// ripe, at the first of them that does, but after the one at last.
func (s *flowStage) fireBefore(g *sweep, f *sweptFlow, last, until int32) {
	p := s.pump
	for p.fold.err == nil && f.due != 0 && until > 0 && f.due <= g.seen[until-1].Add(-activity.Grace) {
		due := f.due
		last = max(last, int32(sort.Search(int(until), func(i int) bool { return due <= g.seen[i].Add(-activity.Grace) })))
		s.partition.Watermark = g.seen[last]
		if s.due() == due { // or it was postponed
			p.meter.fired(p.fold.open, s.seen().Sub(due))
		}
		f.due = 0
		if s.empty() { // the store has forgotten the flow, and not the deadline, see drop
			f.of.kept, f.forgotten = due, true
			continue
		}
		from := p.brought()
		if p.fold.advance(due) != nil {
			p.fold.err = ErrInOrder
			return
		}
		if to := p.brought(); to != from {
			g.fired = append(g.fired, brought{at: last, due: due, key: f.of.key, from: from, to: to})
		}
		p.fold.err = s.stepped(f)
	}
}

// putBack puts what was encoded into the records of the flows, in the order of their last events.
func (p *Pump) putBack(g *sweep) {
	others := len(g.byKey)
	for _, next := range g.next {
		if next < 0 {
			p.putBackFlow(g, &g.flows[-next-1])
		}
	}
	for f := range g.flows[others:] {
		p.putBackFlow(g, &g.flows[others+f])
	}
}

func (p *Pump) putBackFlow(g *sweep, f *sweptFlow) {
	r := f.of
	if record := g.records[f.from:f.to]; len(record) > 0 {
		p.memory.cache.renew(r)
		p.memory.setDue(r, f.due)
		p.memory.note(r, record)
		p.memory.cache.set(r, record)
		return
	}
	switch {
	case f.forgotten:
		p.memory.setDue(r, f.due)
		p.memory.note(r, nil)
	case len(r.record) == 0 && !r.dirty: // it has taken no event
		p.memory.cache.remove(r)
	}
}

// tell hands on the effects of the sweep, in the order of the log.
func (s *flowStage) tell(g *sweep, records []Record) {
	p := s.pump
	slices.SortStableFunc(g.fired, func(a, b brought) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.due, b.due), cmp.Compare(a.key, b.key))
	})
	fired := g.fired
	for i := range records {
		r, d := &records[i], &g.events[i]
		s.partition.Watermark, p.at.appended = g.seen[i], r.Appended
		if at := g.at[i]; at == unreadable {
			p.outbox.refuse(r, d.err)
		} else if at > 0 {
			b := &g.brought[at-1]
			p.fold.answer(r, &d.event, b.answer, b.asked, p.fold.fx.Activity[b.from.activity:b.to.activity])
			p.bring(b, r.Offset)
		}
		p.at.next = r.Offset + 1
		for len(fired) > 0 && int(fired[0].at) == i {
			p.bring(&fired[0], r.Offset)
			fired = fired[1:]
		}
		p.fold.publishLowWatermark()
	}
}

// brought is how much the effects hold.
func (p *Pump) brought() effectsEnd {
	return effectsEnd{int32(len(p.fold.fx.Verdicts)), int32(len(p.fold.fx.Activity)), int32(len(p.fold.fx.Reports))}
}

// bring is collect for a part of the effects.
func (p *Pump) bring(b *brought, offset int64) {
	p.outbox.takeOver(p.fold.fx.Verdicts[b.from.verdicts:b.to.verdicts], offset)
	p.fold.passToAgents(p.fold.fx.Activity[b.from.activity:b.to.activity], p.fold.fx.Reports[b.from.reports:b.to.reports], offset)
}
