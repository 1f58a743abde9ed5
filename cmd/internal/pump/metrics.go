package pump

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer"
	"weir/analyzer/activity"
	"weir/cmd/internal/selftest"
	"weir/events"
	"weir/sink/prom"
)

// metrics is what a pump needs to count.
type metrics struct {
	late, duplicates, expired int64           // of the fold, before the event at hand
	aside                     activity.Counts // of the fold, before an event of the self-test
	idle                      time.Duration   // silence that ends an episode, by the limits in force
	came                      []events.Stamp  // when the log took what brought about each verdict that waits
	scratch                   analyzer.Flow   // one that is live no more
	spent                     spent           // by the flow, before the event at hand
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
	p.counted.Events[ev.Kind][outcome]++
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
		p.counted.Calls[ev.By()]++
		p.counted.Depths[min(s.scratch.Depth(), prom.MaxDepth)]++
	}
	c.idle = p.engine.Limits().Flow.Idle
	r := p.open
	if !r.live {
		r.live, r.standing = true, analyzer.Free
		p.cache.live[r.standing]++
		p.counted.Opened++
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

// tally shows others how the pump stands, and adds what it has counted to what all have.
func (p *Pump) tally(records int64) {
	p.standing.Flows.Store(int64(len(p.cache.byKey)))
	p.standing.FlowBytes.Store(p.cache.bytes)
	p.standing.Watermark.Store(int64(p.stage.seen()))
	p.standing.Next.Store(p.next)
	if p.o.Stage == FlowStage {
		p.tellLoad()
	}
	if p.o.Store == nil { // a replay is asked, see Counted
		return
	}
	p.checkpoints.uncheckpointed += records
	p.counts.uncheckpointed.Add(records)
	n := &p.counted
	n.Fold = p.fx.Counts
	if p.o.Stage == FlowStage {
		n.Records += records
		p.fade()
		for i := range p.cache.live {
			p.standing.Live[i].Store(p.cache.live[i])
		}
	} else { // whose records are those of the flows once more
		n.Bytes, n.Fold.Events, n.Fold.Duplicates, n.Fold.TooLate, n.Fold.Late, n.Fold.Clamped, n.Fold.Asks, n.Fold.Episodes = 0, 0, 0, 0, 0, 0, 0, 0
	}
	p.standing.Unsent.Store(int64(len(p.out)))
	p.counts.Count(func(all *prom.Counters) { all.Add(n) })
	*n, p.fx.Counts = prom.Counters{}, activity.Counts{}
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
			p.counted.Closed[closingOf(r)]++
			if measured++; measured <= mostMeasured && p.o.Metrics != nil {
				p.measure(r)
			}
		}
		if r.stored(p.checkpoints.durable) {
			s.send(r)
		}
	}
	if s.lost > 0 {
		p.counted.Closed[prom.ClosedEvicted] += s.lost
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
		p.counts.unstopped(v.Hops)
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
		p.counted.Deadlines++
		p.o.Metrics.Deadline(p.stage.seen().Sub(due))
	}
}
