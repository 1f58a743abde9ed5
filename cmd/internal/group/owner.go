package group

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/pump"
	"weir/cmd/internal/retry"
	"weir/events"
	"weir/events/kafka"
	sinkkafka "weir/sink/kafka"
	"weir/sink/prom"
	"weir/state"
)

// partitionOwner is a partition that this process folds during one generation of its group. Its
// goroutine is the one that the group has started for the assignment. The goroutines of requests to
// the member read shown.
type partitionOwner struct {
	member    *Member
	set       *partitionSet
	partition int // of the topic of the set
	output    int // its number among those of both stages
	// What the group has assigned: with it offsets are committed for this generation alone.
	as   kafka.Assignment
	hard context.Context // see foldOnce

	reader      *kafka.Reader
	verdicts    *sinkkafka.Producer
	deadLetters *sinkkafka.Producer
	pump        *pump.Pump
	// What ended the process twice is found by it, see decision 26.
	poison *pump.PoisonRecords

	began   time.Time
	looked  int64         // offset behind the last record that look has seen; guarded by the pump
	strayed bool          // one of them was not in the partition of its key; guarded by the pump
	records []pump.Record // memory of the last ones
	far     bool          // it is one of the member's backlogs, see lags
	// Compared with the reader's, so that one trouble is counted once however often it is tried.
	unread time.Time // since when reading failed last

	own     ownRecords
	commits offsetCommits
	shown   shownState
}

// ownRecords is what an owner knows of the records that it appends to its partition. Times are how long
// the owner had run, measured by the time that the machine was up, so that a clock that is set does not
// tick.
type ownRecords struct {
	appended time.Duration // when the last record came or was appended
	// Version and time of limits that may be on their way through the log still.
	limits      string // version of the limits that was appended last
	limitsAt    time.Duration
	reportingAt time.Duration // when it was last reported that agents report; 0 for never
	ticks       ticks
}

// shownState is what the goroutines of requests read of an owner.
type shownState struct {
	// caughtUp says that the end of the log was reached once since the partition was
	// assigned.
	caughtUp atomic.Bool
	turned   atomic.Int64 // when the loop turned last, Unix milliseconds
	folded   atomic.Int64 // up to where what was read is folded
	newest   atomic.Int64 // when the log took the last record that was read, Unix milliseconds
}

// errAgain makes a partition be opened anew, behind records that are gone.
var errAgain = errors.New("begin again")

// fold is what the group calls for a partition that is assigned to this process.
// It returns when ctx ends, or when nothing is to be hoped for: the group then takes the lost
// partition as given up, and this process joins anew.
func (m *Member) fold(ctx context.Context, l *partitionSet, as kafka.Assignment) {
	m.owners.take(l, as)
	defer m.owners.giveUp(l, as.Partition)
	inOrder := false
	for ctx.Err() == nil {
		err := m.foldOnce(ctx, l, as, inOrder)
		switch {
		// An error of a partition that is given up anyway is no matter.
		case err == nil || ctx.Err() != nil && !m.fatal(err):
			return
		case errors.Is(err, errAgain):
			continue
		case errors.Is(err, pump.ErrInOrder):
			m.logger.Warn("a backlog is folded one record after the other from here on, which takes longer", "topic", l.topic, "partition", as.Partition)
			inOrder = true
			continue
		case errors.Is(err, sinkkafka.ErrFenced):
			m.logger.Warn("the partition has another owner: this process gives up all of its own and joins the group again", "topic", l.topic, "partition", as.Partition, "error", err)
			return
		case m.fatal(err):
			// The whole process ends: who starts it again sees the same sentence.
			m.host.Fail(err)
			return
		}
		m.logger.Error("a partition is not folded for now; it is tried again", "topic", l.topic, "partition", as.Partition, "error", err)
		if retry.Pause(ctx, m.clock, time.Second) != nil {
			return
		}
	}
}

// fatal reports whether only a person can help.
// Beyond the end of the log, another topic, a store that failed: to try again could fold the
// wrong log into the right state.
func (m *Member) fatal(err error) bool {
	if _, ok := errors.AsType[*kafka.BeyondEndError](err); ok {
		return true
	}
	return kafka.Final(err) || errors.Is(err, state.ErrFailed) || errors.Is(err, state.ErrDamaged) || errors.Is(err, errOtherLog)
}

// foldOnce takes a partition over and folds it until ctx ends or something fails.
// nil is that the partition was given up in order; an error decides in fold what comes
// next. inOrder is pump.Options.InOrder.
func (m *Member) foldOnce(ctx context.Context, l *partitionSet, as kafka.Assignment, inOrder bool) error {
	// What is under way when the partition is given up may come to its end.
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		select {
		case <-m.clock.After(drainTime):
			// The group waits for this member meanwhile; after that whatever hangs is cut off.
			cancel()
		case <-hard.Done():
		}
	})()
	p := &partitionOwner{member: m, set: l, partition: as.Partition, output: l.output(as.Partition), as: as, commits: offsetCommits{token: make(chan struct{}, 1)}, hard: hard}
	p.commits.token <- struct{}{}
	defer p.close()
	if err := p.open(ctx, inOrder); err != nil {
		return err
	}
	// From here to the end of run other goroutines may find the owner and ask its pump.
	m.owners.note(l, p.partition, p)
	err := p.run(ctx, hard)
	// This precedes the close of the pump, so that no request reaches a pump that ends.
	m.owners.note(l, p.partition, nil)
	if err != nil {
		p.pump.CloseWithoutCheckpoint()
		return err
	}
	if err := p.pump.Close(hard); err != nil {
		if m.fatal(err) {
			return err
		}
		m.logger.Warn("a partition is given up without a last checkpoint; whoever owns it next folds a little more again", "topic", l.topic, "partition", p.partition, "error", err)
		return nil
	}
	// An end in order is no crash at this record.
	p.poison.Clear()
	p.commitLast(hard)
	return nil
}

// open takes the partition over and finds where to begin.
// It claims the logs that it publishes to before it reads anything: behind the marks nothing of an
// owner before can come, and what is read back is all there is (decision 22).
func (p *partitionOwner) open(ctx context.Context, inOrder bool) (err error) {
	m := p.member
	o := m.o
	// From here on the brokers take nothing more from an owner before.
	p.verdicts, err = sinkkafka.Open(ctx, o.Cluster, o.Group, o.Topics.Verdicts, p.output)
	if err != nil {
		return fmt.Errorf("take over partition %d of %s: %w", p.output, o.Topics.Verdicts, err)
	}
	p.deadLetters, err = sinkkafka.OpenDeadLetters(ctx, o.Cluster, o.Group, o.Topics.DeadLetters, p.output)
	if err != nil {
		return fmt.Errorf("take over partition %d of %s: %w", p.output, o.Topics.DeadLetters, err)
	}
	options := m.host.Pump
	options.Partition, options.Source, options.Stage, options.Sources = uint16(p.output), p.set.topic, p.set.stage, len(m.sets.flows.partitions)
	options.InOrder = inOrder
	options.Limits, options.Store, options.Memory = *m.host.Limits(), m.store, m.memory(p.set)
	options.Sink = &topicVerdicts{topic: sinkkafka.NewVerdicts(p.verdicts, m.clock.Now).Signed(m.host.Sign), own: m.keepOwn}
	options.DeadLetters = &topicDeadLetters{sinkkafka.NewDeadLetters(p.deadLetters, p.set.topic, p.partition, m.clock.Now)}
	// The partitions of the agent stage are sources as well: of what a tree passes on to the one above.
	options.ActivityWaits = true
	options.Activity = &topicActivity{topic: m.activity.Sender(), source: p.output, place: m.sets.agents.partitionOf}
	options.AgentPartitions = len(m.sets.agents.partitions)
	if p.set.stage == pump.FlowStage {
		options.Read = p.look
		// hold starts a goroutine and does not keep the fold waiting.
		options.Held = func(offset int64, ev *events.Event, key string, v *events.Verdict) {
			m.hold(p.partition, offset, ev, key, v)
		}
	} else {
		// Asks and counts of flows are none of the agent stage's.
		options.Answer, options.Metrics = nil, nil
		options.Settled = func(from pump.Position, _ *events.Event, v *events.Verdict) { m.settled(from, v) }
		options.PassedOn = func(from pump.Position, key string, to int64) {
			// The key lies in the pump's buffer.
			m.passedOn(from, TreeAsk{strings.Clone(key), p.output, to})
		}
	}
	if err := p.place(ctx, &options); err != nil {
		return err
	}
	if p.pump, err = pump.New(ctx, options); err != nil {
		return err
	}
	// Nothing was folded yet: a state of another topic must not get a single record more.
	if err := p.verify(ctx); err != nil {
		p.pump.CloseWithoutCheckpoint()
		return err
	}
	if p.poison, err = pump.OpenPoisonRecords(m.store, p.output, p.pump.Next()); err != nil {
		p.pump.CloseWithoutCheckpoint()
		return err
	}
	if p.set.stage == pump.FlowStage {
		p.recall(ctx)
	}
	reading := kafka.ReaderOptions{Ahead: p.ahead}
	if p.set.stage == pump.AgentStage {
		reading.Gather = m.counts.backlog // each batch of flows would wake it otherwise
	}
	p.reader = m.readFrom(p.set.topic, p.partition, p.pump.Next(), reading)
	p.shown.folded.Store(p.reader.Next())
	// The counts begin with this ownership; an earlier one of the same process was another.
	p.began, p.commits.last = m.clock.Now(), p.as.Committed
	p.own.appended = clock.Uptime(m.clock, p.began, p.began)
	p.shown.turned.Store(p.began.UnixMilli())
	m.logger.Info("partition taken over", "topic", p.set.topic, "partition", p.partition, "generation", p.as.Generation, "next", p.pump.Next(), "fresh", options.Start > 0)
	return nil
}

// place finds where to begin without a checkpoint: far enough back that nothing before
// it decides a verdict (see Lookback), and the limits of that time are in the log.
// It fills in where the three logs are begun. With a checkpoint that is good it leaves all
// of them as they are: the pump knows by itself.
func (p *partitionOwner) place(ctx context.Context, o *pump.Options) error {
	m := p.member
	cluster, t := m.o.Cluster, m.o.Topics
	first, end, err := cluster.Bounds(ctx, p.set.topic, p.partition)
	if err != nil {
		return err
	}
	meta, known, err := m.store.Meta(o.Partition)
	switch {
	case err != nil:
		return err
	// The topic was made anew, or lost its end: nothing here is about what stands there.
	case known && meta.Next > end:
		return &kafka.BeyondEndError{Topic: p.set.topic, Partition: p.partition, Next: meta.Next, End: end}
	// The state is good, and the log has all that comes after it.
	case known && meta.Next >= first:
		return nil
	case known:
		// Decision 25: states of before the gap are not gone on with.
		m.host.Pump.Counts.Count(func(n *prom.Counters) { n.Reject(events.CodeLost) })
		m.logger.Error("records have expired before they were folded: what is open begins anew behind them, and what it did before is not counted; keep the topic longer",
			"topic", p.set.topic, "partition", p.partition, "from", meta.Next, "to", first)
	}
	// Also what a crash in the middle of forgetting has left.
	if err := m.store.Forget(o.Partition); err != nil {
		return err
	}
	since, err := p.lookback(ctx, first, end)
	if err != nil {
		return err
	}
	// The three logs are begun as of the same time. Verdicts and letters of the records that are
	// folded again were published then or later, and none of them must be missed.
	for _, x := range []struct {
		topic     string
		partition int
		offset    *int64
	}{{p.set.topic, p.partition, &o.Start}, {t.Verdicts, p.output, &o.Published}, {t.DeadLetters, p.output, &o.DeadLettered}} {
		if *x.offset, err = cluster.OffsetAt(ctx, x.topic, x.partition, since); err != nil {
			return err
		}
	}
	return nil
}

// lookback is the time from which the log has to be folded, as of the record that the
// owner before came to, or else of the last one: the clock of this machine may be ahead.
func (p *partitionOwner) lookback(ctx context.Context, first, end int64) (time.Time, error) {
	m := p.member
	back := Lookback(p.set.stage, m.host.Limits())
	if p.set.stage == pump.FlowStage && m.o.Lookback != 0 {
		back = m.o.Lookback + limitsEvery
	}
	// asOf is the least of what is known: too early only means that more is folded again.
	asOf := m.Now()
	// Without a committed offset, the last record says how late it is.
	at := end - 1
	if committed := p.as.Committed; committed >= first && committed < end {
		at = committed
	}
	last, err := m.timeAt(ctx, p.set.topic, p.partition, first, at, end)
	if err != nil {
		return time.Time{}, err
	}
	if last > 0 {
		asOf = min(asOf, last)
	}
	return asOf.Add(-back).Time(), nil
}

// errOtherLog says that the state does not belong to the topic.
var errOtherLog = errors.New("the topic was created anew, and the state is of the one before: begin with an empty state directory, and with new topics of activity and verdicts, which name its offsets")

// verify compares the last record that was folded with the record of the topic at that offset. The
// error is fatal, because the effects of another topic on the state are unknown.
func (p *partitionOwner) verify(ctx context.Context) error {
	offset, sum, ok := p.pump.Last()
	// A pump that has folded nothing has no last record, and one that has expired cannot be compared.
	if !ok {
		return nil
	}
	first, end, err := p.member.o.Cluster.Bounds(ctx, p.set.topic, p.partition)
	if err != nil || offset < first {
		return err
	}
	r, there, err := p.member.record(ctx, p.set.topic, p.partition, offset, end)
	if err == nil && (!there || r.Offset != offset || pump.Sum(r.Value) != sum) {
		err = fmt.Errorf("%s: the record at offset %d is not the one that was folded: %w", p.set.describe(p.partition), offset, errOtherLog)
	}
	return err
}

// run folds until ctx ends.
// It ends with nil when ctx ends. hard is for what is written: it outlives ctx by drainTime, so
// that a batch that was read is folded and published in full.
func (p *partitionOwner) run(ctx, hard context.Context) error {
	m := p.member
	defer p.lags(false)
	var fetched []kafka.Record
	for ctx.Err() == nil {
		var err error
		next := p.pump.Next()
		// Fetch returns without records from time to time, so that silence is noticed and ticks are sent.
		fetched, err = p.reader.Fetch(ctx, fetched)
		if ctx.Err() != nil {
			return nil
		}
		// nil is no error here, and passes.
		if err := p.past(hard, err); err != nil {
			return err
		}
		if since, err := p.reader.Trouble(); err != nil && since != p.unread {
			p.unread = since
			p.member.counts.troubles[troubleOf(err)].Add(1)
		}
		// With more to come the pump may gather verdicts of several batches into one publication.
		if err := p.poison.Fold(hard, p.pump, p.take(fetched), p.behind() > 0); err != nil {
			return err
		}
		p.lags(p.behind() > pump.MaxLag)
		if p.pump.Standing().Reporting.Load() {
			m.counts.reporting.Store(true)
		}
		now := m.clock.Now()
		p.shown.turned.Store(now.UnixMilli())
		up := clock.Uptime(m.clock, p.began, now)
		p.saw(fetched, up)
		// Only who is at the end speaks: a tick in the middle of a backlog would be of the wrong time,
		// and limits there would judge what was sent under others.
		if p.behind() == 0 {
			if !p.shown.caughtUp.Swap(true) && p.set.stage == pump.FlowStage {
				m.host.CaughtUp() // of the first partition that is
			}
			if err := p.speak(ctx, up); err != nil {
				return err
			}
		}
		if !p.pump.Gathered() { // what is committed for others is published
			p.shown.folded.Store(p.reader.Next())
			p.commit(p.pump.Next() == next)
		}
	}
	return nil
}

// take returns records as the pump folds them, in memory that is used again.
func (p *partitionOwner) take(fetched []kafka.Record) []pump.Record {
	p.records = p.records[:0]
	for i := range fetched {
		p.records = append(p.records, p.set.record(&fetched[i]))
	}
	return p.records
}

// saw notes what was folded: the log is not silent.
func (p *partitionOwner) saw(folded []kafka.Record, up time.Duration) {
	if len(folded) == 0 {
		return
	}
	for i := range folded {
		p.own.ticks.see(&folded[i])
	}
	p.own.appended = up
	p.shown.newest.Store(int64(p.records[len(folded)-1].Appended))
}

// ahead folds the records that come while run waits for it, as far as they have no effects to publish.
// The rest is for run, see kafka.ReaderOptions.
func (p *partitionOwner) ahead(fetched []kafka.Record) (n int, wait bool) {
	n, due := p.poison.Ahead(p.hard, p.pump, p.take(fetched))
	m := p.member
	p.saw(fetched[:n], clock.Uptime(m.clock, p.began, m.clock.Now()))
	if !due {
		p.shown.folded.Store(p.reader.Next())
	}
	return n, !due
}

// behind is how many records are in the topic that are not folded.
func (p *partitionOwner) behind() int64 { return max(0, p.reader.HighWatermark()-p.reader.Next()) }

// lags notes whether the partition is so far behind that no caller waits for its effects.
func (p *partitionOwner) lags(far bool) {
	switch {
	case far == p.far || p.set.stage != pump.FlowStage:
		return
	case far:
		p.member.counts.backlogs.Add(1)
	default:
		p.member.counts.backlogs.Add(-1)
	}
	p.far = far
}

// backlog reports whether flows are so far behind here that what is made of them, for agents and
// readers of verdicts, may take a tenth of a second more.
func (c *memberCounts) backlog() bool { return c.backlogs.Load() > 0 }

// manyBacklogs reports whether enough partitions are far behind that some of them may wait for each
// other. The others still keep all processors busy.
func (c *memberCounts) manyBacklogs() bool { return c.backlogs.Load() > int64(2*runtime.GOMAXPROCS(0)) }

// past goes on behind what cannot be read.
// Expired records make the partition begin anew; a batch that cannot be unpacked becomes one dead
// letter, and the next one is read; other errors are the caller's.
func (p *partitionOwner) past(ctx context.Context, err error) error {
	m := p.member
	// The states are those of before the gap and are thrown away with it (see decision 25).
	if gap, ok := errors.AsType[*kafka.GapError](err); ok {
		m.logger.Error("records have expired while they were waited for", "topic", p.set.topic, "partition", p.partition, "error", gap)
		return errAgain // which finds the gap, and begins behind it
	}
	if bad, ok := errors.AsType[*kafka.BatchError](err); ok {
		m.logger.Error("records cannot be read; they become dead letters without a value", "topic", p.set.topic, "partition", p.partition, "error", bad)
		if err := p.pump.Refuse(ctx, pump.Record{Offset: bad.Offset}, events.CodeUnreadable, bad.Error()); err != nil {
			return err
		}
		p.reader.SkipTo(bad.Next)
		return nil
	}
	return err
}

// speak appends the records that the log needs when it is read to the end. These are a tick if it is
// silent, the report that agents report, and the limits. Limits are appended if the log has none or
// others, or if they are not recent. The activity needs no ticks, because the flows pass their time on
// to it. Appended records come back through the log and are folded like all others. Nothing bypasses
// the log, so folding it again has the same effects.
func (p *partitionOwner) speak(ctx context.Context, up time.Duration) error {
	m, now := p.member, p.member.Now()
	if p.set.stage == pump.FlowStage {
		if err := errors.Join(p.tick(ctx, up, now), p.sayReporting(ctx, up)); err != nil {
			return err
		}
	}
	wanted := m.host.Limits()
	limits, _ := p.pump.Limits()
	since, limitsAppended := p.pump.SinceLimits()
	// Without that every turn of the loop until the record comes back would append one more.
	asked := p.own.limits == wanted.Version && up-p.own.limitsAt < m.host.Tick // and it is on its way
	stale := limitsAppended > 0 && now.Sub(since) >= limitsEvery
	if asked || limits.Version == wanted.Version && since != 0 && !stale {
		return nil
	}
	p.own.limits, p.own.limitsAt = wanted.Version, up
	_, err := m.appendTo(ctx, p.set.topic, p.partition, sinkkafka.Message{Value: pump.LimitsRecord(*wanted, now)})
	return m.later(ctx, err)
}

// sayReporting appends a record to the partition if agents report about themselves in another one.
func (p *partitionOwner) sayReporting(ctx context.Context, up time.Duration) error {
	m, known := p.member, p.pump.Standing()
	seen := events.Stamp(known.Watermark.Load())
	if known.Reporting.Load() || seen == 0 || !m.agentsReport(up) || p.own.reportingAt > 0 && up-p.own.reportingAt < m.host.Tick {
		return nil
	}
	p.own.reportingAt = up
	_, err := m.appendTo(ctx, p.set.topic, p.partition, sinkkafka.Message{Value: pump.ReportingRecord(seen)})
	return m.later(ctx, err)
}

// unheardFor is how long a member that folds no agents takes it that none report.
const unheardFor = time.Minute

// agentsReport reports whether some agent reports about itself. A member that folds agents learns it
// from the fold of that report. A member that folds none assumes it after unheardFor.
func (m *Member) agentsReport(up time.Duration) bool {
	if m.counts.reporting.Load() || up < unheardFor {
		return m.counts.reporting.Load()
	}
	return !slices.ContainsFunc(m.owners.all(), func(p *partitionOwner) bool { return p.set.stage == pump.AgentStage })
}

// trouble is what keeps the brokers from answering; nil when they do. One sender publishes the
// activity of all partitions. Its trouble is reported by the flow stage, also for what the agent stage
// sends to parent trees.
func (p *partitionOwner) trouble() error {
	what := p.set.describe(p.partition)
	if since, err := p.reader.Trouble(); err != nil {
		return fmt.Errorf("%s cannot be read since %s: %w", what, since.UTC().Format(time.RFC3339), err)
	}
	// To read may work while to write does not, as with a broker that has no room.
	troubles := []func() (time.Time, error){p.verdicts.Trouble, p.deadLetters.Trouble}
	if p.set.stage == pump.FlowStage {
		troubles = append(troubles, p.member.activity.Trouble)
	}
	for _, trouble := range troubles {
		if since, err := trouble(); err != nil {
			return fmt.Errorf("nothing of %s can be published since %s: %w", what, since.UTC().Format(time.RFC3339), err)
		}
	}
	return nil
}

// ready says what is wrong with the partition.
// Any goroutine may call it.
func (p *partitionOwner) ready() (why []string) {
	if err := p.trouble(); err != nil {
		why = append(why, err.Error())
	}
	if !p.shown.caughtUp.Load() {
		why = append(why, p.set.describe(p.partition)+" has not been folded to its end since it was assigned")
	} else if p.behind() > pump.MaxLag {
		why = append(why, p.set.describe(p.partition)+" is behind")
	}
	return why
}

// close ends the reader. The caller has closed the pump before, with or without a checkpoint.
func (p *partitionOwner) close() {
	if p.reader != nil {
		_ = p.reader.Close() // nothing is written by it
	}
}

// troubleOf returns the cause of a failed exchange with the brokers.
func troubleOf(err error) prom.Trouble {
	what := pump.TroubleOf(err)
	switch {
	case what != prom.TroubleOther:
	case kafka.Final(err):
		return prom.TroubleAuth
	case errors.Is(err, kafkago.NotLeaderForPartition), errors.Is(err, kafkago.LeaderNotAvailable):
		return prom.TroubleLeader
	}
	return what
}
