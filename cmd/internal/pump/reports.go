package pump

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"weir/analyzer/activity"
	"weir/analyzer/record"
	"weir/events"
	"weir/events/adapter"
)

// The reports of flows about their parties wait in the flow stage, the last one of each party alone.
// They then go to the agent stage in batches. One record of the activity holds the reports of all
// flows of a partition about the agents of one partition of the activity.
//
// A batch begins with a byte that begins no JSON, and a time. Each report has the hash of its flow,
// the time before or after that one, work and source, and two names preceded by their lengths. If work
// has the bit hasTries, three fields follow: the number of tries, the time of the last one, and which
// one it was.

// reportsVersion is the first byte of a batch.
const reportsVersion = 1

// hasTries is a bit in the work of a report with tries. A weir version without support for tries
// treats it as an unknown kind of work.
const hasTries = 0x80

// mostReports is how many reports a record holds, so that its effects fit into a checkpoint.
const mostReports = 256

// mostTried is the same for reports with tries. They change every agent that they are about, even one
// with the longest record.
const mostTried = 64

// IsReports reports whether the value of a record of activity is a batch of reports and not
// an event.
func IsReports(value []byte) bool { return len(value) > 0 && value[0] == reportsVersion }

// AppendReports appends a batch of reports to dst.
func AppendReports(dst []byte, reports []activity.Report) []byte {
	b := batch{value: dst}
	if len(reports) == 0 {
		b.begin(0)
	}
	for i := range reports {
		b.add(&reports[i])
	}
	return b.value
}

// batch is what waits for one partition of the activity while it is passed on.
type batch struct {
	value []byte // as it goes into the record
	first events.Stamp
	count int
	key   []byte // of one of the agents, which leads to the partition
}

// begin appends what stands before the reports.
func (b *batch) begin(first events.Stamp) {
	b.first = first
	b.value = binary.AppendVarint(append(b.value, reportsVersion), int64(first))
}

// add appends a report.
func (b *batch) add(r *activity.Report) {
	if b.count++; b.count == 1 {
		b.begin(cmp.Or(r.Did, r.Tried))
	}
	dst := b.value
	// Flow is a hash, whose bits a number of variable length would only make longer.
	dst = binary.LittleEndian.AppendUint64(dst, r.Flow)
	dst = binary.AppendVarint(dst, int64(r.Did-b.first))
	work := byte(r.Work)
	if r.Tries > 0 {
		work |= hasTries
	}
	dst = append(dst, work, byte(r.Source))
	dst = append(binary.AppendUvarint(dst, uint64(len(r.Name))), r.Name...)
	dst = append(binary.AppendUvarint(dst, uint64(len(r.Agent))), r.Agent...)
	if r.Tries > 0 {
		dst = binary.AppendUvarint(dst, uint64(r.Tries))
		dst = binary.AppendUvarint(binary.AppendVarint(dst, int64(r.Tried-b.first)), uint64(r.Nth))
	}
	b.value = dst
}

// Only weir makes batches, so there is no other remedy.
var errReports = &unfit{adapter.CodeFormat, "a batch of reports that is damaged, or of a newer weir: only weir may write to this log"}

// EachReport calls fn for each report of a batch, with one that is good until fn returns.
// Its strings alias the batch.
// It ends with errReports at the first byte that does not fit; fn may have been called for those
// before.
func EachReport(batch []byte, fn func(r *activity.Report)) error {
	if !IsReports(batch) {
		return errReports
	}
	d := record.NewReader(batch[1:])
	first := events.Stamp(d.Varint())
	var r activity.Report
	for !d.Bad() && len(d.Rest()) > 0 {
		r = activity.Report{Flow: binary.LittleEndian.Uint64(d.Take(8)), Did: first + events.Stamp(d.Varint())}
		// Work is an index into tables of the agent stage, so it has to be one that this weir
		// knows.
		how := d.Take(2)
		if how[0]&^hasTries >= byte(activity.WorkCount) {
			return errReports
		}
		r.Work, r.Source = activity.Work(how[0]&^hasTries), events.CorrelationSource(how[1])
		r.Name, r.Agent = aliased(d.Field()), aliased(d.Field())
		if how[0]&hasTries != 0 {
			r.Tries = uint16(d.Uvarint())
			r.Tried, r.Nth = first+events.Stamp(d.Varint()), uint16(d.Uvarint())
		}
		if !d.Bad() {
			fn(&r)
		}
	}
	if d.Bad() {
		return errReports
	}
	return nil
}

// aliased returns b as a string without a copy. The string is valid as long as b is, and as long as b
// does not change.
func aliased(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return unsafe.String(&b[0], len(b))
}

// retain takes over the reports of a step of a flow about its parties. Those from before the time to
// which the step has moved the log were passed on before, see publishReportsDue. Otherwise they would
// hide that a party was silent in between.
func (t *repartitioner) retain(reports []activity.Report, offset int64) {
	for i := range reports {
		r := &reports[i]
		if !r.Now {
			t.reports.Add(r)
		} else if t.agentsFolded() {
			urged := t.reports.Urge(r)
			t.publishBatch(t.share(&urged), offset)
		}
	}
	// So that what waits always fits into a checkpoint beside the flows.
	if t.reports.Full() {
		t.publishReports(offset)
	}
}

// publishReportsDue passes on what waits if it is time to.
// The time is that of the log and the interval a limit, so a replay passes on the same at the
// same place.
func (f *fold) publishReportsDue(offset int64) {
	if seen := f.stage.seen(); f.engine.ReportsDue(f.outbox.activity.reported, seen) {
		f.outbox.activity.publishReports(offset)
		f.outbox.activity.reported = seen
	}
}

// publishReports passes on what waits, as made of the record at an offset.
func (t *repartitioner) publishReports(offset int64) {
	if t.reports.Len() == 0 {
		return
	}
	// No stage folds agents. Without this, the waiting reports would grow until Full.
	if !t.agentsFolded() {
		t.reports.Reset()
		return
	}
	// By partition, and in the order in which they came. Tries go in batches of their own: while the
	// members of a group are exchanged, one that cannot read them loses nothing else.
	for i := range t.reports.Len() {
		r := t.reports.At(i)
		r.KeepWork()
		t.publishPart(&r, mostReports, offset)
	}
	t.publishBatches(offset)
	for i := range t.reports.Len() {
		r := t.reports.At(i)
		r.KeepTries()
		t.publishPart(&r, mostTried, offset)
	}
	t.publishBatches(offset)
	t.reports.Reset()
}

// publishPart passes on a part of a report. It publishes the batch of its partition once that holds
// most reports.
func (t *repartitioner) publishPart(r *activity.Report, most int, offset int64) {
	if r.Did == 0 && r.Tries == 0 { // it has no such part, or it was reported at once
		return
	}
	if n := t.share(r); t.batches[n].count == most {
		t.publishBatch(n, offset)
	}
}

// publishBatches passes on what waits for any partition of the activity.
func (t *repartitioner) publishBatches(offset int64) {
	for n := range t.batches {
		t.publishBatch(n, offset)
	}
}

// agentsFolded reports whether a stage folds agents.
func (t *repartitioner) agentsFolded() bool { return t.o.Activity != nil || t.handReports != nil }

// share adds a report to the batch of its partition of the activity, and returns which that is.
func (t *repartitioner) share(r *activity.Report) (n int) {
	if t.o.Activity != nil {
		t.key = r.AppendKey(t.key[:0])
		n = t.o.Activity.Place(aliased(t.key)) // which keeps nothing of it
	}
	for len(t.batches) <= n {
		t.batches = append(t.batches, batch{})
	}
	b := &t.batches[n]
	if b.count == 0 {
		b.key = append(b.key[:0], t.key...)
	}
	b.add(r)
	return n
}

// publishBatch passes on what waits for one partition of the activity.
func (t *repartitioner) publishBatch(n int, offset int64) {
	b := &t.batches[n]
	if b.count == 0 {
		return
	}
	part := t.part(offset)
	switch {
	case t.handReports != nil:
		t.handReports(Position{Offset: offset, Part: part}, slices.Clone(b.value))
	// It went out before the crash, since a verdict of a later record is published. The part was
	// counted all the same, so that what follows has its number.
	case offset < t.published.upTo:
	default:
		from := len(t.memory)
		t.memory = append(t.memory, b.value...)
		t.waiting = append(t.waiting, Repartitioned{Key: string(b.key), Offset: offset, Part: part, Value: t.memory[from:len(t.memory):len(t.memory)]})
	}
	b.value, b.count = b.value[:0], 0
}

// FoldReports is FoldRecord of a record that holds a batch of reports.
func (p *Pump) FoldReports(r *Record) ([]events.Verdict, error) {
	if err := EachReport(r.Value, func(*activity.Report) {}); err != nil {
		return nil, err
	}
	// It was looked through before, so an error here is one of the caller's record and nothing
	// was folded.
	return p.feeder.foldOne(r, func() { p.fold.stage.foldReports(r) }), nil
}

// foldReports folds a batch of reports.
func (s *agentStage) foldReports(r *Record) {
	f := s.fold
	// The position is taken first: a batch that comes twice is dropped whole, also one that is
	// damaged.
	fresh, err := s.fresh(r)
	s.reports = s.reports[:0]
	if err == nil && fresh { // all of it or nothing
		err = EachReport(r.Value, func(report *activity.Report) { s.reports = append(s.reports, *report) })
	}
	if err != nil {
		f.outbox.refuse(r, err)
		return
	}
	if !fresh {
		return
	}
	f.meter.counted.Activity[0]++
	for i := range s.reports {
		report := &s.reports[i]
		s.key = report.AppendKey(s.key[:0])
		// Most reports end here, with one look into a map.
		if f.err == nil && (report.Tries > 0 || s.mayWatch(s.key)) {
			s.foldReport(aliased(s.key), report, r)
		}
	}
}

// foldReport folds one report into the agent of the key, which aliases s.key.
func (s *agentStage) foldReport(key string, report *activity.Report, r *Record) {
	f := s.fold
	if f.err = f.enter(key); f.err != nil {
		return
	}
	if report.Tries == 0 && !s.empty() && !f.engine.Agents().Watched(&s.scratch) { // known by other things: nothing to write either
		f.open.unwatched = true
		return
	}
	if err := s.report(report); err != nil {
		f.withdraw()
		f.outbox.refuse(r, fmt.Errorf("%s: %w", key, err))
		return
	}
	// Nothing is known of it, in memory or in the store, and the report has changed nothing.
	if s.empty() && len(f.open.record) == 0 {
		s.unknown(key)
	}
	if f.err = f.keep(); f.err == nil {
		f.collect(r.Offset)
	}
	f.fx.ResetActivity()
}

// mostUnknown is how many agents are remembered of which nothing is kept.
// When there are more, all are forgotten and asked for once again.
const mostUnknown = 1 << 16

// mayWatch reports whether a report about the agent of the key can have an effect. Most agents never
// report their own state, and so promise nothing: weir knows nothing of them, or only the calls that
// flows report.
func (s *agentStage) mayWatch(key []byte) bool {
	f := s.fold
	if f.engine.Limits().Agents.WatchAll {
		return true
	}
	if r := f.memory.cache.byKey[string(key)]; r != nil {
		return !r.unwatched
	}
	// It is not in memory. If memory has all agents, nothing is known of it.
	_, unknown := s.nobody[string(key)]
	return f.memory.cache.outside && !unknown
}

// unknown notes that the store has nothing of an agent either.
func (s *agentStage) unknown(key string) {
	if !s.fold.memory.cache.outside {
		return
	}
	if s.nobody == nil || len(s.nobody) >= mostUnknown {
		s.nobody = make(map[string]struct{})
	}
	s.nobody[strings.Clone(key)] = struct{}{}
}

// report folds a report into scratch.
func (s *agentStage) report(r *activity.Report) (err error) {
	defer s.fold.caught(s.fold.open.key, &err)
	s.fold.engine.Agents().StepReport(&s.partition, &s.scratch, r, &s.fold.fx.Effects)
	return nil
}

// appendReports encodes what waits, for a checkpoint.
func (t *repartitioner) appendReports(dst []byte) []byte {
	dst = binary.AppendVarint(dst, int64(t.reported))
	list := make([]activity.Report, t.reports.Len())
	for i := range list {
		list[i] = t.reports.At(i)
	}
	batch := AppendReports(nil, list)
	return append(binary.AppendUvarint(dst, uint64(len(batch))), batch...)
}

// readReports reads what appendReports has written. The order is kept, because what waits is
// passed on in that order.
func (t *repartitioner) readReports(d *record.Reader) {
	t.reported = events.Stamp(d.Varint())
	if batch := d.Field(); !d.Bad() && EachReport(batch, t.reports.Add) != nil {
		d.Fail()
	}
}
