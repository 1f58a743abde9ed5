package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"weir/events/kafka"
	sinkkafka "weir/sink/kafka"
	"weir/state"
)

// owned is a partition of the topic of events that this process folds during one
// generation of its group.
type owned struct {
	member *member
	number int
	as     kafka.Assignment

	reader   *kafka.Reader
	verdicts *sinkkafka.Producer
	letters  *sinkkafka.Producer
	pump     *Pump
	suspects *suspects

	appended  time.Time // when the last record came or was appended
	told      string    // version of the limits that was appended last
	toldAt    time.Time
	caughtUp  atomic.Bool
	turned    atomic.Int64 // when the loop turned last, Unix milliseconds
	newest    atomic.Int64 // when the log took the last record that was read, Unix milliseconds
	unread    time.Time    // since when reading failed last
	committed int64
	toldGroup time.Time
	commits   chan struct{} // holds a token while no commit is under way
}

// errAgain makes a partition be opened anew, behind records that are gone.
var errAgain = errors.New("begin again")

// fold is what the group calls for a partition that is assigned to this process.
func (m *member) fold(ctx context.Context, as kafka.Assignment) {
	a := m.app
	m.note(as.Partition, nil)
	m.mu.Lock()
	if m.generation != as.Generation {
		m.generation = as.Generation
		m.generations++
	}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.taking, as.Partition)
	}()
	for ctx.Err() == nil {
		err := m.foldOnce(ctx, as)
		switch {
		case err == nil || ctx.Err() != nil && !m.fatal(err):
			return
		case errors.Is(err, errAgain):
			continue
		case errors.Is(err, sinkkafka.ErrFenced):
			a.logger.Warn("the partition has another owner: this process gives up all of its own and joins the group again", "partition", as.Partition, "error", err)
			return
		case m.fatal(err):
			a.fail(err)
			return
		}
		a.logger.Error("a partition is not folded for now; it is tried again", "partition", as.Partition, "error", err)
		if a.pause(ctx, time.Second) != nil {
			return
		}
	}
}

// note keeps whether a partition is folded, by p, or is being taken over.
func (m *member) note(number int, p *owned) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p != nil {
		m.owned[number] = p
		delete(m.taking, number)
		return
	}
	delete(m.owned, number)
	m.taking[number] = m.app.clock.Now()
}

// fatal reports whether only a person can help.
func (m *member) fatal(err error) bool {
	if _, ok := errors.AsType[*kafka.BeyondEndError](err); ok {
		return true
	}
	return kafka.Final(err) || errors.Is(err, state.ErrFailed) || errors.Is(err, state.ErrDamaged) || errors.Is(err, errOtherLog)
}

func (m *member) foldOnce(ctx context.Context, as kafka.Assignment) error {
	// What is under way when the partition is given up may come to its end.
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		select {
		case <-m.app.clock.After(drainTime):
			cancel()
		case <-hard.Done():
		}
	})()
	p := &owned{member: m, number: as.Partition, as: as, commits: make(chan struct{}, 1)}
	p.commits <- struct{}{}
	defer p.close()
	if err := p.open(ctx); err != nil {
		return err
	}
	m.note(p.number, p)
	err := p.run(ctx, hard)
	m.note(p.number, nil)
	if err != nil {
		p.pump.Abandon()
		return err
	}
	if err := p.pump.Close(hard); err != nil {
		if m.fatal(err) {
			return err
		}
		m.app.logger.Warn("a partition is given up without a last checkpoint; whoever owns it next folds a little more again", "partition", p.number, "error", err)
		return nil
	}
	p.suspects.clear()
	p.commit(hard, true)
	return nil
}

// open takes the partition over and finds where to begin.
func (p *owned) open(ctx context.Context) (err error) {
	m, a := p.member, p.member.app
	o := m.o
	// From here on the brokers take nothing more from an owner before.
	p.verdicts, err = sinkkafka.Open(ctx, o.Cluster, o.Group, o.Topics.Verdicts, p.number)
	if err != nil {
		return fmt.Errorf("take over partition %d of %s: %w", p.number, o.Topics.Verdicts, err)
	}
	p.letters, err = sinkkafka.Open(ctx, o.Cluster, o.Group, o.Topics.DeadLetters, p.number)
	if err != nil {
		return fmt.Errorf("take over partition %d of %s: %w", p.number, o.Topics.DeadLetters, err)
	}
	options := PumpOptions{
		Partition: uint16(p.number), Source: o.Topics.Events, Limits: a.limits.current(), Parse: parseLimits,
		Store: a.store, Sink: sinkkafka.NewVerdicts(p.verdicts, a.clock.Now), Answer: a.answers.deliver,
		Letters:  &topicLetters{sinkkafka.NewDeadLetters(p.letters, o.Topics.Events, a.clock.Now)},
		Activity: &topicActivity{sinkkafka.NewActivity(o.Cluster, o.Topics.Activity, m.activity), p.number},
		Memory:   a.o.Memory / int64(len(m.partitions)), CheckpointEvery: a.o.CheckpointEvery, Counts: &a.counts, Metrics: a.metrics, Clock: a.clock, Logger: a.logger,
	}
	if err := p.place(ctx, &options); err != nil {
		return err
	}
	if p.pump, err = NewPump(ctx, options); err != nil {
		return err
	}
	if err := p.verify(ctx); err != nil {
		p.pump.Abandon()
		return err
	}
	if p.suspects, err = newSuspects(a.store, p.number, p.pump.Next()); err != nil {
		p.pump.Abandon()
		return err
	}
	p.reader = p.readFrom(p.pump.Next())
	p.appended, p.committed = a.clock.Now(), p.as.Committed
	p.turned.Store(p.appended.UnixMilli())
	a.logger.Info("partition taken over", "partition", p.number, "generation", p.as.Generation, "next", p.pump.Next(), "fresh", options.Start > 0)
	return nil
}

func (p *owned) readFrom(offset int64) *kafka.Reader {
	m := p.member
	return kafka.NewReader(m.o.Cluster, m.o.Topics.Events, p.number, offset, kafka.ReaderOptions{Logger: m.app.logger})
}

// place finds where to begin without a checkpoint: far enough back that every episode
// that can still be open began after it, and the limits of that time are in the log.
func (p *owned) place(ctx context.Context, o *PumpOptions) error {
	m, a := p.member, p.member.app
	cluster, t := m.o.Cluster, m.o.Topics
	first, end, err := cluster.Bounds(ctx, t.Events, p.number)
	if err != nil {
		return err
	}
	meta, known, err := a.store.Meta(o.Partition)
	switch {
	case err != nil:
		return err
	case known && meta.Next > end:
		return &kafka.BeyondEndError{Topic: t.Events, Partition: p.number, Next: meta.Next, End: end}
	case known && meta.Next >= first:
		return nil
	case known:
		a.counts.deadLetter(CodeLost)
		a.logger.Error("records have expired before they were folded: flows that were open begin anew behind them, and what they did before is not counted; keep the topic longer",
			"partition", p.number, "from", meta.Next, "to", first)
	}
	// Also what a crash in the middle of forgetting has left.
	if err := a.store.Forget(o.Partition); err != nil {
		return err
	}
	since, err := p.horizon(ctx, first, end)
	if err != nil {
		return err
	}
	for _, x := range []struct {
		topic  string
		offset *int64
	}{{t.Events, &o.Start}, {t.Verdicts, &o.Published}, {t.DeadLetters, &o.Buried}} {
		if *x.offset, err = cluster.OffsetAt(ctx, x.topic, p.number, since); err != nil {
			return err
		}
	}
	return nil
}

// limitsEvery is how often the limits are put into the log again while events come, so
// that who begins in the middle of it need not go far back to learn of them.
const limitsEvery = 10 * time.Minute

// horizon is the time from which the log has to be folded, as of the record that the
// owner before came to, or else as of now.
func (p *owned) horizon(ctx context.Context, first, end int64) (time.Time, error) {
	m, a := p.member, p.member.app
	back := m.o.Horizon
	if back == 0 {
		flow := a.limits.current().Flow
		back = flow.MaxAge + flow.Idle + grace*time.Millisecond
	}
	asOf := a.clock.Now()
	if at := p.as.Committed; at >= first && at < end {
		r, err := p.record(ctx, at)
		if err != nil {
			return asOf, err
		}
		if at := time.UnixMilli(int64(r.Appended)); r.Appended != 0 && at.Before(asOf) {
			asOf = at
		}
	}
	return asOf.Add(-back - limitsEvery), nil
}

// record reads the record at an offset, or the next one that there is.
func (p *owned) record(ctx context.Context, offset int64) (kafka.Record, error) {
	r := p.readFrom(offset)
	defer r.Close()
	for {
		records, err := r.Fetch(ctx, nil)
		if next, ok := kafka.Behind(err); ok {
			r.SkipTo(next)
			continue
		}
		if err != nil {
			return kafka.Record{}, err
		}
		if len(records) > 0 {
			one := records[0]
			one.Value = append([]byte(nil), one.Value...)
			return one, nil
		}
	}
}

// errOtherLog says that the state does not belong to the topic.
var errOtherLog = errors.New("the topic was created anew, and the state is of the one before: begin with an empty state directory")

// verify compares the last record that was folded with what the topic has there.
func (p *owned) verify(ctx context.Context) error {
	offset, sum, ok := p.pump.Last()
	if !ok {
		return nil
	}
	first, _, err := p.member.o.Cluster.Bounds(ctx, p.member.o.Topics.Events, p.number)
	if err != nil || offset < first {
		return err
	}
	r, err := p.record(ctx, offset)
	if err == nil && (r.Offset != offset || recordSum(r.Value) != sum) {
		err = fmt.Errorf("partition %d of %s: the record at offset %d is not the one that was folded: %w", p.number, p.member.o.Topics.Events, offset, errOtherLog)
	}
	return err
}

// run folds until ctx ends.
func (p *owned) run(ctx, hard context.Context) error {
	a := p.member.app
	var fetched []kafka.Record
	var records []Record
	for ctx.Err() == nil {
		var err error
		fetched, err = p.reader.Fetch(ctx, fetched)
		if ctx.Err() != nil {
			return nil
		}
		if err := p.past(hard, err); err != nil {
			return err
		}
		if since, err := p.reader.Trouble(); err != nil && since != p.unread {
			p.unread = since
			p.member.troubles[troubleOf(err)].Add(1)
		}
		records = records[:0]
		for i := range fetched {
			records = append(records, Record{fetched[i].Offset, fetched[i].Appended, fetched[i].Value})
		}
		if err := p.suspects.fold(hard, p.pump, records); err != nil {
			return err
		}
		now := a.clock.Now()
		p.turned.Store(now.UnixMilli())
		if n := len(records); n > 0 {
			p.appended = now
			p.newest.Store(int64(records[n-1].Appended))
		}
		if p.behind() == 0 {
			if !p.caughtUp.Swap(true) {
				a.meter.restored(now) // of the first partition that is
			}
			if err := p.speak(ctx, now); err != nil {
				return err
			}
		}
		p.commit(hard, false)
	}
	return nil
}

// behind is how many records are in the topic that are not folded.
func (p *owned) behind() int64 { return max(0, p.reader.HighWatermark()-p.reader.Next()) }

// past goes on behind what cannot be read.
func (p *owned) past(ctx context.Context, err error) error {
	a := p.member.app
	if gap, ok := errors.AsType[*kafka.GapError](err); ok {
		a.logger.Error("records have expired while they were waited for", "partition", p.number, "error", gap)
		return errAgain // which finds the gap, and begins behind it
	}
	if bad, ok := errors.AsType[*kafka.BatchError](err); ok {
		a.logger.Error("records cannot be read; they become dead letters without a value", "partition", p.number, "error", bad)
		if err := p.pump.Refuse(ctx, Record{Offset: bad.Offset}, CodeUnreadable, bad.Error()); err != nil {
			return err
		}
		p.reader.SkipTo(bad.Next)
		return nil
	}
	return err
}

// speak appends what the log has to be told when it is read to the end: a tick when it
// is silent, and the limits when it has none or others, or has not been told for long.
func (p *owned) speak(ctx context.Context, now time.Time) error {
	m, a := p.member, p.member.app
	if now.Sub(p.appended) >= a.o.Tick {
		p.appended = now
		if err := m.appendTo(ctx, p.number, sinkkafka.Message{Value: tickEvent(a.clock)}); err != nil {
			return m.later(ctx, err)
		}
	}
	version, _ := a.limits.state()
	limits, _ := p.pump.Limits()
	since, events := p.pump.SinceLimits()
	asked := p.told == version && now.Sub(p.toldAt) < a.o.Tick // and it is on its way
	stale := events > 0 && now.Sub(time.UnixMilli(int64(since))) >= limitsEvery
	if asked || limits.Version == version && since != 0 && !stale {
		return nil
	}
	p.told, p.toldAt = version, now
	return m.later(ctx, m.appendTo(ctx, p.number, sinkkafka.Message{Value: limitsEvent(a.limits.current(), a.clock)}))
}

// later logs an error of something that is tried again.
func (m *member) later(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return nil
	}
	if kafka.Final(err) {
		return err
	}
	m.app.logger.Warn("the log could not be told; it is tried again", "error", err)
	return nil
}

// commitEvery is how often the group is told how far the fold is.
const commitEvery = time.Second

// commit tells the group how far the fold is, for those who watch its lag. It is done
// beside the fold unless it is the last time.
func (p *owned) commit(ctx context.Context, last bool) {
	next, now := p.pump.Next(), p.member.app.clock.Now()
	if next == p.committed || !last && now.Sub(p.toldGroup) < commitEvery {
		return
	}
	if last {
		select {
		case <-p.commits:
			p.tell(next)
		case <-ctx.Done():
		}
		return
	}
	select {
	case <-p.commits:
		p.committed, p.toldGroup = next, now
		go func() {
			p.tell(next)
			p.commits <- struct{}{}
		}()
	default:
	}
}

func (p *owned) tell(next int64) {
	m := p.member
	if err := p.as.Commit(next); err == nil {
		m.commits[0].Add(1)
	} else {
		m.commits[1].Add(1)
		m.app.logger.Debug("the group was not told how far the fold is", "partition", p.number, "error", err)
	}
}

// trouble is what keeps the brokers from answering; nil when they do.
func (p *owned) trouble() error {
	if since, err := p.reader.Trouble(); err != nil {
		return fmt.Errorf("partition %d cannot be read since %s: %w", p.number, since.UTC().Format(time.RFC3339), err)
	}
	for _, out := range []*sinkkafka.Producer{p.verdicts, p.letters} {
		if since, err := out.Trouble(); err != nil {
			return fmt.Errorf("nothing of partition %d can be published since %s: %w", p.number, since.UTC().Format(time.RFC3339), err)
		}
	}
	return nil
}

func (p *owned) ready(out *readyAnswer) {
	out.Lag += p.behind()
	if err := p.trouble(); err != nil {
		out.Why = append(out.Why, err.Error())
	}
	if !p.caughtUp.Load() {
		out.Why = append(out.Why, fmt.Sprintf("partition %d has not been folded to its end since it was assigned", p.number))
	} else if p.behind() > maxLag {
		out.Why = append(out.Why, fmt.Sprintf("partition %d is behind", p.number))
	}
}

func (p *owned) close() {
	if p.reader != nil {
		_ = p.reader.Close() // nothing is written by it
	}
}

// topicLetters is a topic of dead letters, for a pump.
type topicLetters struct{ topic *sinkkafka.DeadLetters }

func (l *topicLetters) Bury(ctx context.Context, letters []state.DeadLetter) (int64, error) {
	out := make([]sinkkafka.Letter, len(letters))
	for i := range letters {
		d := &letters[i]
		out[i] = sinkkafka.Letter{Position: d.Position, Code: d.Code, Reason: d.Reason, Appended: d.Appended, Raw: d.Raw}
	}
	return l.topic.Bury(ctx, out)
}

func (l *topicLetters) Since(ctx context.Context, from int64, fn func(offset int64)) (int64, error) {
	return l.topic.Since(ctx, from, fn)
}

// topicActivity is the topic of what concerns agents, for the pump of a partition.
type topicActivity struct {
	topic  *sinkkafka.Activity
	number int
}

func (t *topicActivity) Send(ctx context.Context, activity []Rekeyed) error {
	out := make([]sinkkafka.ActivityRecord, len(activity))
	for i := range activity {
		r := &activity[i]
		out[i] = sinkkafka.ActivityRecord{Key: r.Agent, Value: r.Value, Source: sinkkafka.Position{Partition: t.number, Offset: r.Offset}}
	}
	return t.topic.Send(ctx, out)
}
