package pump

import (
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer"
	"weir/analyzer/activity"
	"weir/analyzer/coverage"
	"weir/analyzer/rules"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/selftest"
	"weir/events"
	"weir/sink/prom"
)

// meter counts and logs what a pump does.
// Nothing of it is part of the state: a restart begins to count anew, and what is folded does
// not depend on it. Weir's own flows are left out of all of it (decision 33).
type meter struct {
	o       *Options
	at      *frontier
	counts  *Counts
	counted prom.Counters // since the last tally: what all look at is touched once for each batch
	// standing is read by any goroutine without a lock: neither has a reading of the metrics to wait
	// for a batch, nor a batch for the reading.
	standing Standing
	quota    quota // of lines about verdicts
	refusals quota // of lines about calls that were refused

	// 0 stands for a verdict of a deadline, of which no time to publication is measured.
	came     []events.Stamp      // when the log took what brought about each verdict that waits
	scratch  analyzer.Flow       // one that is live no more
	limits   []rules.CounterView // of that one
	covering covering
}

func newMeter(o *Options, at *frontier) meter {
	return meter{o: o, at: at, counts: o.Counts, covering: covering{by: map[string]*coverage.Coverage{}},
		quota: quota{clock: o.Clock, most: linesPerSecond}, refusals: quota{clock: o.Clock, most: refusedPerSecond}}
}

// flowMeter counts what the events of flows were, and which flows are live.
type flowMeter struct {
	of *flowStage

	late, duplicates, expired, strays int64           // of the fold, before the event at hand
	aside                             activity.Counts // of the fold, before an event of the self-test
	had                               spent           // by the flow, before the event at hand
	idle                              time.Duration   // silence that ends an episode, by the limits in force
}

// before is called before an event is folded.
func (m *flowMeter) before() {
	n := &m.of.fold.fx.Counts
	if m.of.fold.open.own {
		// after resets the counts to this value, as if the event had not been there.
		m.aside = *n
		return
	}
	m.late, m.duplicates, m.expired, m.strays = n.Late, n.Duplicates, n.TooLate, n.Strays
	m.had = m.spent()
}

// after is called when it is folded.
func (m *flowMeter) after(ev *events.Event) {
	f := m.of.fold
	n := &f.fx.Counts
	if f.open.own {
		*n = m.aside
		return
	}
	outcome := prom.Folded
	switch {
	// The counts of the step show the outcome of the event.
	case n.Duplicates != m.duplicates:
		outcome = prom.Duplicate
	case n.TooLate != m.expired:
		outcome = prom.Expired
	case n.Late != m.late:
		outcome = prom.Late
	}
	f.meter.counted.Events[ev.Kind][outcome]++
	// Both were dropped: the flow is what it was.
	if outcome == prom.Duplicate || outcome == prom.Expired {
		return
	}
	if f.o.Store != nil { // a replay counts for itself what it reads
		f.meter.covering.add(ev, f.engine.Limits().Prices, n.Strays-m.strays)
	}
	// A stop in shadow mode refuses no call.
	refused := f.fx.Answer != nil && ev.Ask && f.fx.Answer.Stops() && f.fx.Answer.Mode != events.ModeShadow
	if refused || ev.Kind == events.VerdictAck && ev.Ack != nil && ev.Ack.Applied {
		f.meter.reportRefused(ev, f.fx.Answer)
	}
	m.spend(ev, refused)
	f.open.judged.hear(f.fx.Verdicts[m.of.had.verdicts:])
	if ev.Kind == events.AgentCall && !refused { // what was refused was not called
		f.meter.counted.Calls[ev.By()]++
		f.meter.counted.Depths[min(m.of.scratch.Depth(), prom.MaxDepth)]++
	}
	// Kept for fade, which runs when no flow is at hand.
	m.idle = f.engine.Limits().Flow.Idle
	r := f.open
	if !r.live {
		r.live, r.standing = true, analyzer.Free
		f.memory.cache.live[r.standing]++
		f.meter.counted.Opened++
	}
	r.ended, r.last = ev.Kind == events.FlowEnd, m.of.scratch.Last()
	m.stands()
}

// stands notes how the flow in scratch stands, if it is live.
func (m *flowMeter) stands() {
	r, live := m.of.fold.open, &m.of.fold.memory.cache.live
	if now := m.of.scratch.Standing(); r.live && now != r.standing {
		live[r.standing]--
		live[now]++
		r.standing = now
	}
}

func (s *flowStage) tally(records int64) {
	m := s.fold.meter
	m.counted.Records += records
	s.meter.fade()
	m.covered(s.fold.engine.Limits())
	for i, n := range s.fold.memory.cache.live {
		m.standing.Live[i].Store(n)
	}
}

// The most flows that one tally looks at: how many may stop being live, and how many
// of them are measured, which takes longer than to fold an event.
const (
	// The next tally looks at the rest. So no batch pays for all flows of an hour that fell silent at
	// once.
	mostFading   = 1024
	mostMeasured = 16
)

// fade finds the flows that have fallen silent and takes them out of memory: few of them
// speak again, and the store has them. They stand in the order in which they
// were last used, so only those are looked at.
func (m *flowMeter) fade() {
	f, c, measured := m.of.fold, m.of.fold.memory.cache, 0
	for range mostFading {
		r := c.fading
		if r == &c.ends || r.live && r.last.Add(m.idle) > m.of.seen() {
			break
		}
		// It need not be looked at again before its next event, which makes it the newest.
		c.fading = r.newer
		if r.live && r.standing == analyzer.Held { // which is looked at again when a person, or its deadline, ends that
			continue
		}
		if r.live {
			r.live = false
			c.live[r.standing]--
			f.meter.counted.Closed[closingOf(r)]++
			if measured++; measured <= mostMeasured && f.o.Metrics != nil {
				f.meter.measure(f.engine, r)
			}
		}
		if r.stored(f.checkpoints.durable) {
			c.send(r)
		}
	}
	// Those that had to leave memory while they were live, because the budget was passed.
	if c.lost > 0 {
		f.meter.counted.Closed[prom.ClosedEvicted] += c.lost
		c.lost = 0
	}
}

// closingOf says why a flow is live no more: it was stopped, it ended by itself, or it fell
// silent.
func closingOf(r *cachedRecord) prom.Closing {
	switch {
	case r.standing == analyzer.Stopped:
		return prom.ClosedStopped
	case r.ended:
		return prom.ClosedEnded
	}
	return prom.ClosedIdle
}

// measure reports the figures of a flow that is no longer live.
func (m *meter) measure(engine *analyzer.Engine, r *cachedRecord) {
	defer func() {
		if fault := recover(); fault != nil { // to measure is not worth a record
			m.o.Logger.Error("a flow could not be measured: please report this", "flow", r.key, "panic", fmt.Sprint(fault), "stack", string(debug.Stack()))
		}
	}()
	f := &m.scratch
	if len(r.record) == 0 || f.UnmarshalBinary(r.key, r.record) != nil {
		return
	}
	counters, hops, lasted, offended := engine.Measure(m.limits[:0], f)
	m.limits = counters
	m.o.Metrics.FlowClosed(lasted, hops, counters)
	// The longest flow without an offense shows how near honest flows come to the limit on calls.
	if r.standing != analyzer.Stopped && !offended {
		m.counts.unstopped(hops)
	}
}

// published counts and logs the i-th of the verdicts that waited, which is safe now.
func (m *meter) published(i int, e *Emitted) {
	v := &e.Verdict
	if selftest.OwnFlow(v.CorrelationID) {
		return
	}
	flow, now := uint64(0), m.o.Clock.Now()
	// Examples name a flow by its hash: ids have no bound and would be labels of their own.
	if v.CorrelationID != "" {
		flow = xxhash.Sum64String(v.CorrelationID)
	}
	m.counts.verdict(v, flow, now)
	// Without metrics came is empty.
	if i < len(m.came) && m.came[i] != 0 {
		m.o.Metrics.Published(v.Action, now.Sub(m.came[i].Time()), flow)
	}
	m.report(e)
}

// come notes when the log took the record that brought about a verdict, before which nth others
// wait; a deadline has no record.
func (m *meter) come(offset int64, nth int) {
	if m.o.Metrics == nil {
		return
	}
	at := events.Stamp(0)
	// next is moved on only when the record is folded, see foldLocked.
	if offset == m.at.next { // of the record at hand; what fires comes after it
		at = m.at.appended
	}
	m.came = append(m.came[:nth], at)
}

// timed measures a batch until the function is called that it returns.
func (m *meter) timed(records int) func() {
	if m.o.Metrics == nil || records == 0 {
		return func() {}
	}
	begun := m.o.Clock.Now()
	return func() { m.o.Metrics.Batch(records, m.o.Clock.Now().Sub(begun)) }
}

// fired records how late a deadline of the flow or agent at hand is, in the time of the log. That
// lateness shows how far ticks and events are apart, not how slow weir is.
func (m *meter) fired(r *cachedRecord, late time.Duration) {
	if !r.own {
		m.counted.Deadlines++
		m.o.Metrics.Deadline(late)
	}
}

// report logs a verdict: its message, and attributes by which lines are searched for a flow, an
// agent or a trace.
func (m *meter) report(e *Emitted) {
	if !m.quota.take() {
		return
	}
	v := &e.Verdict
	attrs := []any{"agent", v.Agent, "rule", v.RuleID, "action", v.Action, "mode", v.Mode, "scope", v.Scope.String(),
		"partition", m.o.Partition, "offset", e.Offset}
	if v.CorrelationID != "" {
		attrs = append([]any{"flow", v.CorrelationID}, attrs...)
	}
	if v.Observed != nil && v.Limit != nil {
		attrs = append(attrs, "observed", *v.Observed, "limit", *v.Limit)
	}
	if v.IncidentID != "" {
		attrs = append(attrs, "incident", v.IncidentID, "cause", v.Cause)
	}
	if v.TraceID != "" {
		attrs = append(attrs, "trace_id", v.TraceID)
	}
	// So that a reader knows that these lines are not all.
	if n := m.quota.missed(); n > 0 {
		attrs = append(attrs, "not_logged", n)
	}
	m.o.Logger.Info(v.Message, attrs...)
}

// reportRefused logs a call that weir refused at its check request, or that a dispatcher reports as
// refused: caller, callee and reason. v is the answer of the fold, if it gave one.
func (m *meter) reportRefused(ev *events.Event, v *events.Verdict) {
	if !m.refusals.take() {
		return
	}
	to := ev.To.ID()
	if ev.Tool.Name != "" {
		to = "tool " + ev.Tool.Name
	}
	attrs := []any{"flow", ev.FlowKey(), "from", ev.From.ID(), "to", to, "partition", m.o.Partition}
	why := "by an order, as its dispatcher says"
	if v != nil {
		// The message of an order begins with what the order does; the line has said that.
		_, why, _ = strings.Cut(v.Message, "rejected: ")
		if why == "" {
			why = v.Message
		}
		attrs = append(attrs, "rule", v.RuleID, "verdict", v.ID)
	} else {
		attrs = append(attrs, "verdict", ev.Ack.VerdictID)
	}
	if n := m.refusals.missed(); n > 0 {
		attrs = append(attrs, "not_logged", n)
	}
	m.o.Logger.Info("Rejected call "+ev.From.ID()+"→"+to+": "+why, attrs...)
}

// quota limits the log lines in a second, so that a flood of verdicts does not flood the log of the
// process. The verdicts are in their own log.
type quota struct {
	clock clock.Clock
	most  int
	// second is the Unix second that left is about.
	second int64
	left   int
	// missing is how many lines were left out since missed was called last.
	missing int64
}

const (
	// A flood of verdicts is one condition repeated many times, so a few lines suffice. Operators
	// search for refused calls by name, so more of them are logged.
	linesPerSecond   = 10
	refusedPerSecond = 100
)

// take reports whether one more line may be written.
func (q *quota) take() bool {
	if now := q.clock.Now().Unix(); now != q.second {
		q.second, q.left = now, q.most
	}
	if q.left == 0 {
		q.missing++
		return false
	}
	q.left--
	return true
}

// missed is how many lines were left out since it was called last.
func (q *quota) missed() (n int64) {
	n, q.missing = q.missing, 0
	return n
}
