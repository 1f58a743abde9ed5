package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/cmd/internal/pump"
	"weir/cmd/internal/selftest"
	"weir/events"
)

// said is one verdict, or one dead letter, as it stands in its topic or as an
// undisturbed fold makes it.
// Both sides of a comparison are lists of it, so that one function compares either stage.
type said struct {
	partition int32
	trigger   int64  // offset of the record that brought it about, in the partition of its source
	id        string // of a verdict
	key       string
	value     string
}

// oracle is what an undisturbed fold says of a log.
// It is the yardstick: one process, one pass, no restart. It shares with the members what
// folds an event, and nothing of what may lose or double one.
type oracle struct {
	verdicts    []said
	deadLetters []said
	records     map[int32]int64 // in each partition
	ticks       int64
	repeats     int64 // of activity that stands there more than once
}

// sum is how many records all partitions have.
// Partitions that hold nothing count nothing.
func (o *oracle) sum() (n int64) {
	for _, one := range o.records {
		n += one
	}
	return n
}

// foldLog folds the topic of events from its beginning, each partition by itself.
// Limits come from the log (see decision 30); up to the first of them those of the default
// profile hold.
func foldLog(ctx context.Context, s *server, topic string) (*oracle, error) {
	o := &oracle{}
	pumps := map[int32]*pump.Pump{}
	var failed error
	// Records of one partition come in order; between partitions the order does not matter,
	// since each has a pump of its own.
	ends, err := s.readAll(ctx, topic, func(r *kgo.Record) {
		p := pumps[r.Partition]
		if p == nil {
			// Without a store and a sink it keeps all in memory and returns what it says.
			p, failed = pump.New(ctx, pump.Options{Limits: limitfile.Default(),
				Parse: func(b []byte) (analyzer.Limits, error) { return limitfile.ParseJSON("limits.set", b) }})
			if failed != nil {
				return
			}
			pumps[r.Partition] = p
		}
		var ev events.Event
		// What cannot be decoded has to be a dead letter, once, with these bytes.
		if err := events.Decode(r.Value, &ev); err != nil {
			o.deadLetters = append(o.deadLetters, said{partition: r.Partition, trigger: r.Offset, value: string(r.Value)})
			return
		}
		if ev.Kind == events.Tick {
			o.ticks++
		}
		// The broker's time is a part of what is folded: it bounds clocks that are ahead.
		ev.Appended = events.StampOf(r.Timestamp)
		for _, v := range p.Fold(&ev, r.Offset) {
			o.verdicts = append(o.verdicts, said{r.Partition, r.Offset, v.ID, v.Scope.String(), string(v.AppendJSON(nil))})
		}
	})
	o.records = ends
	if failed != nil {
		return nil, failed
	}
	return o, err
}

// published is what the members wrote, in the order of each partition.
// Of a record it is known that it stands there, not which member wrote it; see owners.
type published struct {
	verdicts    []said
	deadLetters []said
	marks       int      // records by which an owner took a partition over
	former      []string // records of an owner that stand behind the mark of a later one
	strange     []string // unreadable records
}

// owners is the order of owners in one partition of a topic. An owner is known by what
// the broker knows it by: the producer id and the epoch in its batches.
// The broker itself has put them into the batch, so a member cannot claim to be another
// one.
type owners struct {
	now    identity
	former map[identity]bool
}

// An epoch is one more with each takeover of the same partition (see decision 22).
type identity struct {
	id    int64
	epoch int16
}

// lastEpoch is in the marks that shut out an owner whose producer id is no longer
// claimed: they have that owner's id.
const lastEpoch = math.MaxInt16

// late reports whether the record comes from an owner that has been replaced.
// It has to see the records of a partition in their order, marks among them.
func (l *owners) late(r *kgo.Record) bool {
	by := identity{r.ProducerID, r.ProducerEpoch}
	if by == l.now || by.epoch == lastEpoch {
		return false
	}
	// It wrote here, another one did, and now it writes again.
	if l.former[by] {
		return true
	}
	l.former[l.now], l.now = true, by
	return false
}

// stages splits what was published: the output of the events, in the first partitions, and
// the output of the activity in those behind them.
func (p *published) stages(events int32) (flows, agents *published) {
	// Marks, late and unreadable records are counted once, with the flows.
	flows, agents = &published{marks: p.marks, former: p.former, strange: p.strange}, &published{}
	split := func(list []said, a, b *[]said) {
		for _, x := range list {
			if x.partition < events {
				*a = append(*a, x)
			} else {
				*b = append(*b, x)
			}
		}
	}
	split(p.verdicts, &flows.verdicts, &agents.verdicts)
	split(p.deadLetters, &flows.deadLetters, &agents.deadLetters)
	return flows, agents
}

// readPublished reads the topics of verdicts and of dead letters. flows is the number of
// partitions of the events, which come first.
// An unreadable record is noted and does not end the comparison.
func readPublished(ctx context.Context, s *server, t topics, flows int32) (*published, error) {
	out := &published{}
	type place struct {
		topic     string
		partition int32
	}
	of := map[place]*owners{}
	// Both topics are read alike: offset is the header that says which record brought one
	// about.
	take := func(list *[]said, offset string, id func(r *kgo.Record) (string, error)) func(r *kgo.Record) {
		return func(r *kgo.Record) {
			// Owners claim each partition of each topic by itself.
			at := place{r.Topic, r.Partition}
			if of[at] == nil {
				of[at] = &owners{former: map[identity]bool{}}
			}
			if of[at].late(r) {
				out.former = append(out.former, fmt.Sprintf("%s/%d@%d: written by producer %d in epoch %d, which was replaced before", r.Topic, r.Partition, r.Offset, r.ProducerID, r.ProducerEpoch))
			}
			// The mark of an owner: a record by which it took the partition over, without a value or, among
			// dead letters, named as such.
			if r.Value == nil && r.Key == nil && len(r.Headers) == 1 && r.Headers[0].Key == "weir-owner" || header(r, "weir-mark") != "" {
				out.marks++
				return
			}
			// A record without the header is none that a member writes.
			trigger, err := strconv.ParseInt(header(r, offset), 10, 64)
			name := ""
			if err == nil {
				name, err = id(r)
			}
			if err != nil {
				out.strange = append(out.strange, fmt.Sprintf("%s/%d@%d: %v", r.Topic, r.Partition, r.Offset, err))
				return
			}
			*list = append(*list, said{r.Partition, trigger, name, string(r.Key), string(r.Value)})
		}
	}
	_, err := s.readAll(ctx, t.verdicts, take(&out.verdicts, "weir-trigger", func(r *kgo.Record) (string, error) {
		var v events.Verdict
		err := events.DecodeVerdict(r.Value, &v)
		return v.ID, err
	}))
	if err != nil {
		return nil, err
	}
	_, err = s.readAll(ctx, t.deadLetters, take(&out.deadLetters, "weir-source-offset", func(r *kgo.Record) (string, error) {
		// A dead letter stands in the partition that belongs to the one that its record
		// came from, and says so itself.
		topic, first := t.events, int32(0)
		if r.Partition >= flows {
			topic, first = t.activity, flows
		}
		if p := header(r, "weir-source-partition"); p != fmt.Sprint(r.Partition-first) {
			return "", fmt.Errorf("a dead letter of partition %q is in partition %d", p, r.Partition)
		}
		if source := header(r, "weir-source-topic"); source != topic {
			return "", fmt.Errorf("a dead letter of topic %q is in partition %d", source, r.Partition)
		}
		return "", nil
	}))
	return out, err
}

// header is the value of the first header of that name; "" when there is none.
func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// difference is what was published against what should have been; all zero is right.
// Each counter is a promise that was broken. first holds some of them in words.
type difference struct {
	missing, extra, doubled, changed, misplaced            int // verdicts
	backwards                                              int // verdicts whose trigger is before that of one further up in the partition
	former                                                 int // records of owners that had been replaced
	deadLettersMissing, deadLettersExtra, deadLettersTwice int
	strange                                                int // unreadable records
	first                                                  []string
}

// any reports whether a promise was broken.
func (d *difference) any() bool {
	return d.missing+d.extra+d.doubled+d.changed+d.misplaced+d.backwards+d.former+d.deadLettersMissing+d.deadLettersExtra+d.deadLettersTwice+d.strange > 0
}

// One fault in the engine makes thousands of differences, of which the first few say
// enough.
const examples = 12

// note counts one, and keeps it in words while there are few.
func (d *difference) note(counter *int, format string, args ...any) {
	*counter++
	if len(d.first) < examples {
		d.first = append(d.first, fmt.Sprintf(format, args...))
	}
}

// compare holds what was published against the oracle up to the offsets to which the
// members have folded: what stands behind these was appended while they were stopped.
// Whatever was published has to be in the oracle, but only what is due has to be published.
func compare(o *oracle, p *published, folded map[int32]int64) *difference {
	d := &difference{}
	// Partitions without a commit owe nothing.
	due := func(v said) bool { return v.trigger < folded[v.partition] }
	d.verdicts(o, p, due)
	d.letters(o, p, due)
	// Both were found while the topics were read.
	for _, s := range p.former {
		d.note(&d.former, "%s", s)
	}
	for _, s := range p.strange {
		d.note(&d.strange, "%s", s)
	}
	return d
}

// verdicts compares the verdicts.
func (d *difference) verdicts(o *oracle, p *published, due func(said) bool) {
	// An id stands for one verdict of the whole log.
	want := map[string]said{}
	for _, v := range o.verdicts {
		want[v.id] = v
	}
	seen := map[string]bool{}
	last := map[int32]int64{}
	for _, v := range p.verdicts {
		// A reader that follows a partition must be able to take each verdict as newer than
		// the last.
		if v.trigger < last[v.partition] {
			d.note(&d.backwards, "partition %d: verdict %s of offset %d stands after one of offset %d", v.partition, v.id, v.trigger, last[v.partition])
		}
		last[v.partition] = max(last[v.partition], v.trigger)
		// Ids are the same whenever the log is folded (see decision 7), so by them the two
		// sides meet.
		w, known := want[v.id]
		switch {
		case selftest.OwnVerdict([]byte(v.value)):
			d.note(&d.extra, "partition %d: verdict %s of the self-test is in the topic", v.partition, v.id)
		case !known:
			d.note(&d.extra, "partition %d: verdict %s of offset %d is not in the replay: %.200s", v.partition, v.id, v.trigger, v.value)
		// The same verdict twice is counted once as doubled, whatever else is true of it.
		case seen[v.id]:
			d.note(&d.doubled, "partition %d: verdict %s of offset %d is there twice", v.partition, v.id, v.trigger)
		case v.value != w.value:
			d.note(&d.changed, "partition %d: verdict %s of offset %d differs\n  published %s\n  replayed  %s", v.partition, v.id, v.trigger, v.value, w.value)
		case v.partition != w.partition || v.trigger != w.trigger || v.key != w.key:
			d.note(&d.misplaced, "verdict %s: partition %d offset %d key %q, want %d %d %q", v.id, v.partition, v.trigger, v.key, w.partition, w.trigger, w.key)
		}
		seen[v.id] = true
	}
	for _, v := range o.verdicts {
		// What is not due was perhaps published all the same, and was compared above.
		// Verdicts of the self-test are kept from the topic.
		if !seen[v.id] && due(v) && !selftest.OwnVerdict([]byte(v.value)) {
			d.note(&d.missing, "partition %d: verdict %s of offset %d is missing: %.200s", v.partition, v.id, v.trigger, v.value)
		}
	}
}

// letters compares the dead letters.
func (d *difference) letters(o *oracle, p *published, due func(said) bool) {
	// By place the bytes that have to stand there.
	deadLetters := map[place]string{}
	for _, l := range o.deadLetters {
		deadLetters[place{l.partition, l.trigger}] = l.value
	}
	published := map[place]bool{}
	for _, l := range p.deadLetters {
		at := place{l.partition, l.trigger}
		// A dead letter has no id; where its record stood names it.
		value, known := deadLetters[at]
		switch {
		// Also a dead letter of a record that can be read.
		case !known || value != l.value:
			d.note(&d.deadLettersExtra, "partition %d: the dead letter of offset %d is not the bad record: %.200s", l.partition, l.trigger, l.value)
		case published[at]:
			d.note(&d.deadLettersTwice, "partition %d: the dead letter of offset %d is there twice", l.partition, l.trigger)
		}
		published[at] = true
	}
	for _, l := range o.deadLetters {
		if !published[place{l.partition, l.trigger}] && due(l) {
			d.note(&d.deadLettersMissing, "partition %d: the dead letter of offset %d is missing", l.partition, l.trigger)
		}
	}
}

// sameAs compares verdicts with the lines that `weir replay -o jsonl` prints: the same set
// of bytes. It returns how many lines only one side has.
// The order is left out of it, since replay goes through the partitions in one of its own.
func sameAs(verdicts []said, lines string) (onlyFold, onlyReplay int) {
	var a, b []string
	for _, v := range verdicts {
		a = append(a, v.value)
	}
	for line := range strings.Lines(lines) {
		// The last line of replay is about all of it and no verdict.
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, `{"summary"`) {
			b = append(b, line)
		}
	}
	// Both are sorted, so one pass finds what only one of them has.
	slices.Sort(a)
	slices.Sort(b)
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0] < b[0]:
			onlyFold++
			a = a[1:]
		case len(a) == 0 || b[0] < a[0]:
			onlyReplay++
			b = b[1:]
		default:
			a, b = a[1:], b[1:]
		}
	}
	return onlyFold, onlyReplay
}
