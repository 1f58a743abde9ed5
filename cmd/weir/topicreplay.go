package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/group"
	"weir/cmd/internal/logs"
	"weir/cmd/internal/operate"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/events/kafka"
)

// offsetRange is the flags that say which part of a topic is read.
//
// Times and ages mean the times at which the brokers took the records, and offsets one and
// the same number in each partition.
type offsetRange struct{ from, until *string }

// newOffsetRange declares the flags. By default all that is there is read.
func newOffsetRange(fs *pflag.FlagSet) *offsetRange {
	return &offsetRange{
		from:  fs.String("from", "beginning", "with --brokers: begin at `POINT`: beginning, an age such as -1h, a time such as @2026-11-20T14:00:00Z, or an offset"),
		until: fs.String("until", "end", "with --brokers: stop before `POINT`: end (as it is now), an age, a time, or an offset"),
	}
}

// given reports whether one of the flags says something else than all.
func (s *offsetRange) given() bool { return *s.from != "beginning" || *s.until != "end" }

// point is a place in every partition of a topic: one of its ends, a time, or an offset.
//
// It is the parsed value of a flag, before any partition is known.
type point struct {
	end    bool // the end, or else the beginning, when there is neither a time nor an offset
	at     time.Time
	offset int64 // less than 0: none
}

// parseAge reads a duration, or days such as 7d or 1.5d.
//
// Days are 24 hours, and at most 65,535 of them.
func parseAge(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err == nil && !(n >= 0 && n <= 1<<16-1) {
			err = strconv.ErrRange
		}
		return time.Duration(n * float64(24*time.Hour)), err
	}
	return time.ParseDuration(text)
}

// parsePoint reads a point; ages are counted back from now.
//
// The error says what could stand there, and not which flag it was.
func parsePoint(text string, now time.Time) (point, error) {
	switch text {
	case "beginning":
		return point{offset: -1}, nil
	case "end":
		return point{end: true, offset: -1}, nil
	}
	if stamp, ok := strings.CutPrefix(text, "@"); ok {
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil {
			return point{}, fmt.Errorf("want a time such as @2026-11-20T14:00:00Z, got %q", text)
		}
		return point{at: at, offset: -1}, nil
	}
	if ago, ok := strings.CutPrefix(text, "-"); ok {
		d, err := parseAge(ago)
		if err != nil || d < 0 {
			return point{}, fmt.Errorf("want an age such as -90s, -1h or -7d, got %q", text)
		}
		return point{at: now.Add(-d), offset: -1}, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return point{}, fmt.Errorf("want beginning, end, an age such as -1h, a time such as @2026-11-20T14:00:00Z, or an offset, got %q", text)
	}
	return point{offset: int64(n)}, nil
}

// in returns the offset of the point in a partition, never outside of its bounds.
//
// first and end are the bounds of what the partition still holds. An offset that is gone
// becomes the first that is there.
func (p point) in(ctx context.Context, c *kafka.Cluster, topic string, partition int, first, end int64) (int64, error) {
	switch {
	case p.offset >= 0:
		return min(max(p.offset, first), end), nil
	case !p.at.IsZero():
		n, err := c.OffsetAt(ctx, topic, partition, p.at)
		return min(max(n, first), end), err
	case p.end:
		return end, nil
	}
	return first, nil
}

// section is what is read of one partition, that begins at first: from an offset to
// before another.
type section struct{ first, from, to int64 }

// sections finds out what is read of each partition. It is done before anything is
// read, so that a topic that grows has an end.
//
// The sections are by partition, and records is how many there are in all, by offsets:
// marks of transactions count, so it may be more than will be read.
func (s *offsetRange) sections(ctx context.Context, c *kafka.Cluster, topic string, now time.Time) (list []section, records int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, operate.LagBound)
	defer cancel()
	from, err := parsePoint(*s.from, now)
	if err != nil {
		return nil, 0, cli.Usage("--from: %w", err)
	}
	until, err := parsePoint(*s.until, now)
	if err != nil {
		return nil, 0, cli.Usage("--until: %w", err)
	}
	// A topic that is not there is an error here, before anything is printed.
	n, err := c.Partitions(ctx, topic)
	if err != nil {
		return nil, 0, err
	}
	// All partitions at once, before any is read: they grow while they are read.
	for p := range n {
		first, end, err := c.Bounds(ctx, topic, p)
		if err != nil {
			return nil, 0, err
		}
		// first is kept for looking back for limits.
		one := section{first: first}
		if one.from, err = from.in(ctx, c, topic, p, first, end); err != nil {
			return nil, 0, err
		}
		if one.to, err = until.in(ctx, c, topic, p, first, end); err != nil {
			return nil, 0, err
		}
		list = append(list, one)
		records += max(0, one.to-one.from)
	}
	return list, records, nil
}

// readTopics folds a part of the topic of events, and of the one of activity that came of
// it, each partition by itself, one after the other. When recorded is true the limits that
// a log says are in force from where it says them; else those of the replay judge
// everything.
func (r *replay) readTopics(ctx context.Context, env *cli.Env, c *kafka.Cluster, t group.Topics, s *offsetRange, recorded bool) (time.Duration, error) {
	flows := &topicReplay{replay: r, env: env, cluster: c, topic: t.Events, recorded: recorded, first: r.limits}
	// Both topics are looked at before one is read, so that the share that is done is one of
	// all.
	if err := flows.look(ctx, s); err != nil {
		return 0, err
	}
	stages := []*topicReplay{flows}
	// sources is how many partitions the events have: records of activity name where they come
	// from, and partitions of agents are numbered behind those.
	agents := &topicReplay{replay: r, env: env, cluster: c, topic: t.Activity, sources: len(flows.list), recorded: recorded, first: r.limits}
	switch err := agents.look(ctx, s); {
	// Flows are still judged: only what cuts across them is left out, and that is said.
	case errors.Is(err, kafka.ErrNoTopic), err == nil && s.byOffset():
		env.Notice("rules about agents are left out: %s", agents.missing(err))
	case err != nil:
		return 0, err
	default:
		stages = append(stages, agents)
	}
	var all int64
	for _, stage := range stages {
		all += stage.records
	}
	r.progress = env.Progress("events")
	defer r.progress.Done()
	r.all = max(all, 1)
	// The agent stage goes second, over what the flows had passed on when it was live; what
	// this replay would pass on is not used.
	for _, stage := range stages {
		if err := stage.run(ctx); err != nil {
			return 0, err
		}
	}
	return r.progress.Elapsed(), nil
}

// byOffset reports whether an end is an offset, which says something of one topic alone.
func (s *offsetRange) byOffset() bool {
	for _, text := range []string{*s.from, *s.until} {
		if p, err := parsePoint(text, time.Time{}); err == nil && p.offset >= 0 {
			return true
		}
	}
	return false
}

// topicReplay folds one topic, as the stage that reads it.
//
// The embedded replay is one for both stages: it has the counts, the flows and the
// progress. first is what the replay began with, since the limits of one partition must not
// judge the next.
type topicReplay struct {
	*replay
	env      *cli.Env
	cluster  *kafka.Cluster
	topic    string
	sources  int // partitions of events, when it is the topic of activity
	recorded bool
	first    analyzer.Limits

	list    []section
	records int64
}

// look finds out what there is to read.
func (t *topicReplay) look(ctx context.Context, s *offsetRange) error {
	return operate.Settled(ctx, func(ctx context.Context) (err error) {
		t.list, t.records, err = s.sections(ctx, t.cluster, t.topic, t.env.Now())
		return err
	})
}

// missing says why the topic of activity is not read.
func (t *topicReplay) missing(err error) string {
	if err != nil {
		return err.Error()
	}
	return "--from and --until name offsets of the events, and say nothing of topic " + t.topic
}

// run folds the sections one after the other, each by a pump of its own: partitions share
// nothing but limits.
func (t *topicReplay) run(ctx context.Context) error {
	var ev events.Event
	for n, part := range t.list {
		o, err := t.options(ctx, n, part)
		if err != nil {
			return err
		}
		fold := t.foldActivity
		if t.sources == 0 {
			fold = t.foldEvent
		}
		// What the pump before this one has counted would be lost with it.
		t.past.Add(t.pump.Counted())
		if t.pump, err = pump.New(ctx, o); err != nil {
			return err
		}
		t.judge = t.pump.Fold
		err = operate.EachRecord(ctx, t.cluster, t.topic, n, part.from, part.to, func(rec *kafka.Record) error {
			if t.done++; t.done%tickEvery == 0 {
				t.progress.At(t.counted().Events, float64(t.done)/float64(t.all))
			}
			// Reports of parties are no JSON, see decision 75.
			if t.sources > 0 && pump.IsReports(rec.Value) {
				return t.foldReports(n, rec)
			}
			if err := events.Decode(rec.Value, &ev); err != nil {
				t.bad.add(badRecordAt(t.topic, n, rec.Offset, err))
				return nil
			}
			// The limits of the command line judge all of it.
			if ev.Kind == events.LimitsSet && !t.recorded {
				return nil
			}
			// The log's own time, as a running weir has it.
			ev.Appended = rec.Time
			return fold(&ev, rec)
		}, func(err error) { t.env.Notice("%v", err) })
		if err != nil {
			return err
		}
	}
	return nil
}

// foldEvent folds an event at the offset that it has in the topic, as a running weir does.
func (t *topicReplay) foldEvent(ev *events.Event, rec *kafka.Record) error {
	t.offset = rec.Offset
	return t.fold(ev)
}

// foldActivity folds what a flow reported about an agent. Calls are not counted here: the flow
// has counted them.
func (t *topicReplay) foldActivity(ev *events.Event, rec *kafka.Record) error {
	one := group.ActivityRecord(rec)
	return t.heard(t.pump.FoldRecord(ev, &one))
}

// foldReports folds what flows reported about their parties, many in one record.
func (t *topicReplay) foldReports(n int, rec *kafka.Record) error {
	one := group.ActivityRecord(rec)
	given, err := t.pump.FoldReports(&one)
	if err != nil {
		t.bad.add(badRecordAt(t.topic, n, rec.Offset, err))
		return nil
	}
	return t.heard(given)
}

// options are those of the pump of a partition.
func (t *topicReplay) options(ctx context.Context, n int, part section) (pump.Options, error) {
	// Without a store: nothing is kept, and what is given is handed back.
	o := pump.Options{Partition: uint16(t.sources + n), Source: t.topic, Limits: t.first, Answer: t.answered}
	if t.sources > 0 {
		o.Stage, o.Sources, o.AgentPartitions = pump.AgentStage, t.sources, len(t.list)
	}
	if !t.recorded {
		return o, nil
	}
	before, err := limitsBefore(ctx, t.cluster, t.topic, n, part)
	if err != nil {
		return o, err
	}
	switch {
	case before.set:
		o.Limits = before.limits
	case before.more && part.from < part.to:
		t.env.Notice("%s/%d: no limits in the %s records before %d: judged by the profile %s until the log says others",
			t.topic, n, cli.Grouped(lookBack), part.from, t.first.Profile)
	}
	// The summary says one profile and version, that of the last limits in force.
	t.limits = o.Limits // for the summary
	o.Parse = func(document []byte) (analyzer.Limits, error) {
		l, err := limitfile.ParseJSON(limitsSetKind, document)
		if err == nil {
			t.limits = l
		}
		return l, err
	}
	return o, nil
}

// lookBack is in how many records before a section limits are looked for. A weir puts
// them into each partition when they change, and every few minutes while events come.
const lookBack = 1_000_000

// recordedLimits are the last limits that a log recorded before a place.
//
// set is false when there were none; more is true if there may be some further back.
type recordedLimits struct {
	limits analyzer.Limits
	set    bool
	more   bool // there are records that were not looked at
}

// limitsBefore looks for the last limits.set before a section, in steps backwards.
func limitsBefore(ctx context.Context, c *kafka.Cluster, topic string, partition int, s section) (found recordedLimits, err error) {
	var ev events.Event
	// Backwards in steps that grow, because limits are mostly near; each step is read
	// forwards, so the last that is found in it is the one that counts.
	for to, step := s.from, int64(4096); to > s.first && !found.set; step *= 4 {
		if s.from-to >= lookBack {
			found.more = true
			break
		}
		from := max(s.first, to-step)
		err := operate.EachRecord(ctx, c, topic, partition, from, to, func(r *kafka.Record) error {
			// Decoding all records would take longer than the replay.
			if !bytes.Contains(r.Value, []byte(limitsSetKind)) || events.Decode(r.Value, &ev) != nil || ev.Kind != events.LimitsSet {
				return nil
			}
			// Limits that cannot be read left those of before in force, and so they do here.
			if l, err := limitfile.ParseJSON(limitsSetKind, ev.Limits); err == nil {
				found.limits, found.set = l, true
			}
			return nil
		}, nil)
		if err != nil {
			return found, err
		}
		to = from
	}
	return found, nil
}

// limitsSetKind is how events of limits are called in the log.
const limitsSetKind = "limits.set"

// tickEvery is the number of records of a topic between two reports of progress.
const tickEvery = 1024

// badRecordAt is a record of a topic that could not be read.
func badRecordAt(topic string, partition int, offset int64, err error) logs.BadRecord {
	b := logs.BadRecord{Source: fmt.Sprintf("%s/%d@%d", topic, partition, offset), Code: "format", Reason: err.Error()}
	if d, ok := errors.AsType[*events.DecodeError](err); ok {
		b.Code = string(d.Code)
	}
	return b
}
