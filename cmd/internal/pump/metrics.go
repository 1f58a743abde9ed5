package pump

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer"
	"weir/cmd/internal/costs"
	"weir/cmd/internal/selftest"
	"weir/events"
	"weir/sink/prom"
)

// metrics counts what the records of one pump are since the last tally, in memory that
// nobody else looks at: what all look at is touched once for each batch.
type metrics struct {
	kinds  [prom.KindCount][prom.OutcomeCount]int64
	calls  [prom.OriginCount]int64
	depths [prom.MaxDepth + 1]int64
	bytes  int64
	opened int64

	late, duplicates, expired int64           // of the fold, before the event at hand
	aside                     analyzer.Counts // of the fold, before an event of the self-test
	idle                      time.Duration   // silence that ends an episode, by the limits in force
	came                      []events.Stamp  // when the log took what brought about each verdict that waits
	scratch                   analyzer.Flow   // one that is live no more
	spent                     spent           // by the flow, before the event at hand

	spending [costs.PhaseCount]costs.Spent

	activity, repeated int64 // records of an agent stage, folded and seen before
}

// before is called before an event is folded.
func (s *flowStage) before() {
	c, n := &s.pump.metrics, &s.pump.fx.Counts
	if s.pump.open.own {
		c.aside = *n
		return
	}
	c.late, c.duplicates, c.expired = n.Late, n.Duplicates, n.TooLate
	c.spent = s.spent()
}

// after is called when it is folded.
func (s *flowStage) after(ev *events.Event) {
	p := s.pump
	c, n := &p.metrics, &p.fx.Counts
	if p.open.own {
		*n = c.aside
		return
	}
	outcome := prom.Folded
	switch {
	case n.Duplicates != c.duplicates:
		outcome = prom.Duplicate
	case n.TooLate != c.expired:
		outcome = prom.Expired
	case n.Late != c.late:
		outcome = prom.Late
	}
	c.kinds[ev.Kind][outcome]++
	if outcome == prom.Duplicate || outcome == prom.Expired {
		return
	}
	p.covers(ev)
	refused := p.fx.Answer != nil && ev.Ask && p.fx.Answer.Stops() && p.fx.Answer.Mode != events.ModeShadow
	if refused || ev.Kind == events.VerdictAck && ev.Ack != nil && ev.Ack.Applied {
		p.reportRefused(ev)
	}
	s.spend(ev, refused)
	p.open.judged.hear(p.fx.Verdicts)
	if ev.Kind == events.AgentCall && !refused { // what was refused was not called
		c.calls[ev.By()]++
		c.depths[min(s.scratch.Depth(), prom.MaxDepth)]++
	}
	c.idle = p.engine.Limits().Flow.Idle
	r := p.open
	if !r.live {
		r.live, r.standing = true, analyzer.Free
		p.cache.live[r.standing]++
		c.opened++
	}
	r.ended, r.last = ev.Kind == events.FlowEnd, s.scratch.Last()
	s.stands()
}

// stands notes how the flow in scratch stands, if it is live.
func (s *flowStage) stands() {
	r, live := s.pump.open, &s.pump.cache.live
	if now := s.scratch.Standing(); r.live && now != r.standing {
		live[r.standing]--
		live[now]++
		r.standing = now
	}
}

// flush moves what was counted to where others read it.
func (p *Pump) flush() {
	if p.o.Store == nil {
		return
	}
	c, to := &p.metrics, p.counts
	for k := range c.kinds {
		move(to.kinds[k][:], c.kinds[k][:])
	}
	move(to.calls[:], c.calls[:])
	move(to.depths[:], c.depths[:])
	to.spending.add(&c.spending)
	to.Bytes.Add(c.bytes)
	to.opened.Add(c.opened)
	c.bytes, c.opened = 0, 0
	p.fade()
	for i := range p.cache.live {
		p.standing.Live[i].Store(p.cache.live[i])
	}
	p.standing.Unsent.Store(int64(len(p.out)))
}

// flushAgents is flush of an agent stage, which counts in figures of its own.
func (p *Pump) flushAgents() {
	c, to := &p.metrics, p.counts
	to.Activity.Add(c.activity)
	to.ActivityRepeated.Add(c.repeated)
	to.addAgents(&p.fx.Counts)
	c.activity, c.repeated, c.bytes = 0, 0, 0
	p.standing.Unsent.Store(int64(len(p.out)))
}

func move(to []atomic.Int64, from []int64) {
	for i, n := range from {
		if n != 0 {
			to[i].Add(n)
			from[i] = 0
		}
	}
}

// The most flows that one tally looks at: how many may stop being live, and how many
// of them are measured, which takes longer than to fold an event.
const (
	mostFading   = 1024
	mostMeasured = 16
)

// fade finds the flows that have fallen silent and takes them out of memory: few of them
// speak again, and the store has them. They stand in the order in which they
// were last used, so only those are looked at.
func (p *Pump) fade() {
	s, measured := p.cache, 0
	for range mostFading {
		r := s.fading
		if r == &s.ends || r.live && r.last.Add(p.metrics.idle) > p.stage.seen() {
			break
		}
		s.fading = r.newer
		if r.live && r.standing == analyzer.Held { // which is looked at again when a person, or its deadline, ends that
			continue
		}
		if r.live {
			r.live = false
			s.live[r.standing]--
			p.counts.closed[closingOf(r)].Add(1)
			if measured++; measured <= mostMeasured && p.o.Metrics != nil {
				p.measure(r)
			}
		}
		if r.stored(p.checkpoints.durable) {
			s.send(r)
		}
	}
	if s.lost > 0 {
		p.counts.closed[prom.ClosedEvicted].Add(s.lost)
		s.lost = 0
	}
}

func closingOf(r *cachedRecord) prom.Closing {
	switch {
	case r.standing == analyzer.Stopped:
		return prom.ClosedStopped
	case r.ended:
		return prom.ClosedEnded
	}
	return prom.ClosedIdle
}

// measure tells of a flow that is live no more.
func (p *Pump) measure(r *cachedRecord) {
	defer func() {
		if fault := recover(); fault != nil { // to measure is not worth a record
			p.o.Logger.Error("a flow could not be measured: please report this", "flow", r.key, "panic", fmt.Sprint(fault), "stack", string(debug.Stack()))
		}
	}()
	f := &p.metrics.scratch
	if len(r.record) == 0 || f.UnmarshalBinary(r.key, r.record) != nil {
		return
	}
	v := p.engine.View(f)
	p.o.Metrics.FlowClosed(events.Stamp(v.Last).Sub(events.Stamp(v.Start)), v.Hops, v.Counters)
	if r.standing != analyzer.Stopped && len(v.Offences) == 0 {
		raise(&p.counts.longest, v.Hops)
	}
}

// raise sets a maximum that pumps share: none of them may lose a greater one of another.
func raise(greatest *atomic.Int64, n int64) {
	for have := greatest.Load(); n > have && !greatest.CompareAndSwap(have, n); have = greatest.Load() {
	}
}

// published counts and logs the i-th verdict, which is safe now.
func (p *Pump) published(i int) {
	e := &p.out[i]
	v := &e.Verdict
	if selftest.OwnFlow(v.CorrelationID) {
		return
	}
	flow, now := uint64(0), p.o.Clock.Now()
	if v.CorrelationID != "" {
		flow = xxhash.Sum64String(v.CorrelationID)
	}
	p.counts.verdict(v, flow, now)
	if i < len(p.metrics.came) && p.metrics.came[i] != 0 {
		p.o.Metrics.Published(v.Action, now.Sub(p.metrics.came[i].Time()), flow)
	}
	p.report(e)
}

// come notes when the log took the record that brought about the verdict that was
// taken over last; a deadline has no record.
func (p *Pump) come(offset int64) {
	if p.o.Metrics == nil {
		return
	}
	at := events.Stamp(0)
	if offset == p.next { // of the record at hand; what fires comes after it
		at = p.appended
	}
	p.metrics.came = append(p.metrics.came[:len(p.out)-1], at)
}

// timed measures a batch until the function is called that it returns.
func (p *Pump) timed(records int) func() {
	if p.o.Metrics == nil || records == 0 {
		return func() {}
	}
	begun := p.o.Clock.Now()
	return func() { p.o.Metrics.Batch(records, p.o.Clock.Now().Sub(begun)) }
}

// fired tells how late a deadline is, in the time of the log.
func (p *Pump) fired(due events.Stamp) {
	if !p.open.own {
		p.counts.Deadlines.Add(1)
		p.o.Metrics.Deadline(p.stage.seen().Sub(due))
	}
}
