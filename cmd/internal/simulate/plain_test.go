package simulate

import (
	"fmt"
	"slices"
	"strings"

	"weir/analyzer"
	"weir/analyzer/activity"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/events/fingerprint"
)

// said is a verdict as it has to stand in the verdict log.
// The trigger is the offset of the record that brought it about.
type said struct {
	line    string // the verdict as JSON
	trigger int64
}

// activityRecord is a record as it has to stand in the log of activity.
type activityRecord struct {
	key   string // "" for every partition
	at    pump.Position
	value string
}

// version is what a record was from an offset of the log on.
// It is good up to the next one of the same key.
type version struct {
	next   int64
	record string // "" for none
}

// plain folds a log as simply as that can be done, with the one fold: no batches, no
// memory that ends, no checkpoints, and the next deadline found by a look at all.
// It shares with the pump the engine and the encoding of states, which are tried by laws of
// their own, and nothing of what is tried here.
type plain struct {
	engine *analyzer.Engine
	// The states by key, as they are encoded; decoded and encoded for every event, see decision 15.
	records map[string]string
	// When each of them wants to be looked at again; those without a deadline are not in it.
	due map[string]events.Stamp
	// All that a record ever was, since a checkpoint may be of any place behind the end.
	history map[string][]version

	verdicts []said
	source   int // of what is passed on
	// All that was passed on to the agents, in order, with the position that each record must have.
	activity []activityRecord
	last     pump.Position // of the last of it
	// How many records the event at last has been made into so far; with it positions are unique.
	parts       int
	deadLetters []int64
	answers     map[int64]string // by the offset of the ask

	// fx is used again by each step, so what is kept of it is copied.
	fx analyzer.Effects
}

// newPlain has folded nothing. source is the number of its partition in what it passes on.
func newPlain(source int, limits analyzer.Limits) plain {
	return plain{source: source, last: pump.Position{Offset: -1}, engine: analyzer.New(limits), records: make(map[string]string), due: make(map[string]events.Stamp),
		history: make(map[string][]version), answers: make(map[int64]string)}
}

// set makes record the one of key after the record at an offset.
// A record that changes twice at one offset, by an event and then by a deadline, has one version.
func (p *plain) set(key string, offset int64, record []byte, due events.Stamp) {
	p.records[key] = string(record)
	if p.due[key] = due; due == 0 {
		delete(p.due, key)
	}
	h := p.history[key]
	if n := len(h); n > 0 && h[n-1].next == offset+1 {
		h = h[:n-1]
	}
	p.history[key] = append(h, version{offset + 1, string(record)})
}

// at returns the record of key when everything before next was folded.
func (p *plain) at(key string, next int64) string {
	h := p.history[key]
	for i := len(h) - 1; i >= 0; i-- {
		if h[i].next <= next {
			return h[i].record
		}
	}
	return ""
}

// ripe returns the key whose deadline comes first among those up to a time.
// It looks through all of them; the index by which the pump finds them is what is tried.
func (p *plain) ripe(upTo events.Stamp) (key string, at events.Stamp, ok bool) {
	for k, due := range p.due {
		if due <= upTo && (!ok || due < at || due == at && k < key) {
			key, at, ok = k, due, true
		}
	}
	return key, at, ok
}

// collect takes over what the last step gave, and returns what it passes on.
// The activity is good until the next step.
func (p *plain) collect(offset int64) []activity.Activity {
	for i := range p.fx.Verdicts {
		p.verdicts = append(p.verdicts, said{string(p.fx.Verdicts[i].AppendJSON(nil)), offset})
	}
	return p.fx.Activity
}

// limits takes up limits that stand in the log. What cannot be read is a dead letter, and the limits
// of before stay in force.
func (p *plain) limits(document []byte, offset int64) {
	l, err := parseLimits(document)
	if err != nil {
		p.deadLetters = append(p.deadLetters, offset)
		return
	}
	p.engine = analyzer.New(l)
}

// plainFlows folds a partition of the events.
type plainFlows struct {
	plain
	partition analyzer.Partition
	// The last low watermark that was passed on, in steps of lowWatermarkEvery.
	announced int64
	place     func(key string) int // the partition of the activity

	waiting  []activity.Report // the last of each party
	reported events.Stamp      // when they were passed on last
}

// newPlainFlows has folded nothing. place is where the activity about a key goes, as
// producers and pumps have it, too.
func newPlainFlows(source int, limits analyzer.Limits, place func(key string) int) *plainFlows {
	return &plainFlows{plain: newPlain(source, limits), place: place}
}

// lowWatermarkEvery is how often the flows pass their low watermark on, in milliseconds.
const lowWatermarkEvery = 30_000

// fold takes a record, fires what is ripe after it, and reports the time to the agents. The pump uses
// the same order, and the offsets of verdicts depend on it.
func (p *plainFlows) fold(offset int64, appended events.Stamp, value []byte) {
	p.one(offset, appended, value)
	for {
		// Deadlines wait for events that come late by less than the grace.
		// Each deadline that fires may set another one that is ripe, too, so they are
		// looked for anew.
		key, due, ok := p.ripe(p.partition.Watermark.Add(-activity.Grace))
		if !ok {
			break
		}
		p.fx.Reset()
		var f analyzer.Flow
		p.open(&f, key)
		p.engine.Advance(&p.partition, &f, due, &p.fx)
		p.keep(&f, key, offset)
	}
	if step := int64(p.partition.Watermark) / lowWatermarkEvery; step > p.announced {
		p.announced = step
		p.reportDue(offset)
		// The agents can rely on this time: up to it the flows have reported everything, see decision
		// 38.
		at := p.engine.LowWatermark(p.partition.Watermark)
		tick := events.Event{ID: fmt.Sprintf("told:%d", at), Time: at, Kind: events.Tick}
		if p.partition.Reporting {
			tick.Tags = []string{"reporting"}
		}
		p.pass("", offset, &tick)
	}
}

// one folds one record without what time brings.
func (p *plainFlows) one(offset int64, appended events.Stamp, value []byte) {
	p.fx.Reset()
	var ev events.Event
	if events.Decode(value, &ev) != nil {
		p.deadLetters = append(p.deadLetters, offset)
		return
	}
	ev.Appended = appended
	switch ev.Kind {
	case events.LimitsSet:
		p.limits(ev.Limits, offset)
		return
	case events.Tick:
		// A tick by a clock that is ahead counts only up to when the log took it (decision 61).
		p.partition.Watermark = max(p.partition.Watermark, min(ev.Time, appended))
		p.partition.Reporting = p.partition.Reporting || slices.Contains(ev.Tags, "reporting")
		return
	}
	if len(ev.Tool.Args) > 0 && ev.Tool.ArgsHash.IsZero() {
		ev.Tool.ArgsHash = fingerprint.Args(ev.Tool.Args, nil)
	}
	// What belongs to no flow goes to the agents as it is, and no flow state is made.
	if ev.CorrelationID == "" && p.engine.Relay(&p.partition, &ev, &p.fx) {
		for i := range p.fx.Activity {
			p.pass(p.fx.Activity[i].Key, offset, &p.fx.Activity[i].Event)
		}
		return
	}
	key := ev.FlowKey()
	var f analyzer.Flow
	p.open(&f, key)
	p.engine.Step(&p.partition, &f, &ev, &p.fx)
	// An ask that comes again under its id has an offset of its own, and an answer there.
	if p.fx.Answer != nil {
		p.answers[offset] = string(p.fx.Answer.AppendJSON(nil))
	}
	p.keep(&f, key, offset)
}

// open decodes the state of a key; an unknown one is empty.
func (p *plainFlows) open(f *analyzer.Flow, key string) {
	f.Reset(key)
	if r := p.records[key]; r != "" {
		must(f.UnmarshalBinary(key, []byte(r)))
	}
}

// keep encodes a flow that was stepped and takes over all that came of it. The order in which
// activity, then reports, are passed on is part of what is compared.
func (p *plainFlows) keep(f *analyzer.Flow, key string, offset int64) {
	if f.Events() > 0 {
		record, err := f.AppendBinary(nil)
		must(err)
		p.set(strings.Clone(key), offset, record, p.engine.Due(f))
	}
	for _, a := range p.collect(offset) {
		p.pass(a.Key, offset, &a.Event)
	}
	// As in the pump: what waits already may be due, and goes before what this step adds.
	if len(p.fx.Reports) > 0 {
		p.reportDue(offset)
	}
	for _, r := range p.fx.Reports {
		p.wait(r, offset)
	}
	size := 0
	for _, r := range p.waiting {
		size += len(r.Name) + len(r.Agent) + 20
	}
	// So much is passed on at once, whatever the time: the pump bounds what waits by bytes. 20 is
	// the fixed part of a report there.
	if size >= 96<<10 {
		p.report(offset)
	}
}

// reportDue passes on what waits once in the interval of the log's time, see decision 50.
func (p *plainFlows) reportDue(offset int64) {
	if p.engine.ReportsDue(p.reported, p.partition.Watermark) {
		p.report(offset)
		p.reported = p.partition.Watermark
	}
}

// wait keeps a report, instead of one of the same flow about the same party, or passes its tries on
// with those that wait if they must not.
// What a party did and waits for counts as it was last, and all that it tried (see decision 75).
func (p *plainFlows) wait(r activity.Report, offset int64) {
	// Cloned, since names lie in the buffers of the step.
	r.Name, r.Agent = strings.Clone(r.Name), strings.Clone(r.Agent)
	for i := range p.waiting {
		if x := &p.waiting[i]; x.Flow == r.Flow && x.Name == r.Name && x.Agent == r.Agent {
			// The latest report counts, except that the time of its activity never goes back.
			if r.Did != 0 {
				x.Source, x.Did, x.Work = r.Source, max(x.Did, r.Did), r.Work
			}
			if r.Tries > 0 {
				x.Tries, x.Tried, x.Nth = x.Tries+r.Tries, max(x.Tried, r.Tried), r.Nth
			}
			if r.Now {
				r.Tries, r.Tried, r.Nth = x.Tries, x.Tried, x.Nth
				x.Tries, x.Tried, x.Nth = 0, 0, 0
				p.putReports(offset, r)
			}
			return
		}
	}
	if r.Now {
		p.putReports(offset, r)
		return
	}
	p.waiting = append(p.waiting, r)
}

// The number of reports in a record of activity, and the number of those with tries.
const mostReports, mostTried = 256, 64

// report passes on what waits, by the partition of the activity: what parties did, and then what they
// tried. What fills a record goes before what does not.
func (p *plainFlows) report(offset int64) {
	// A record goes to one partition, so reports are gathered by theirs.
	shares, last := map[int][]activity.Report{}, -1
	put := func(n int) {
		if s := shares[n]; len(s) > 0 {
			p.putReports(offset, s...)
			shares[n] = nil
		}
	}
	for _, tries := range []bool{false, true} {
		most, keep := mostReports, (*activity.Report).KeepWork
		if tries {
			most, keep = mostTried, (*activity.Report).KeepTries
		}
		for _, r := range p.waiting {
			keep(&r)
			if r.Did == 0 && r.Tries == 0 {
				continue
			}
			n := p.place(string(r.AppendKey(nil)))
			last = max(last, n)
			if shares[n] = append(shares[n], r); len(shares[n]) == most {
				put(n)
			}
		}
		for n := range last + 1 {
			put(n)
		}
	}
	p.waiting = nil
}

// putReports passes on reports about agents of one partition of the activity, of which the first names
// the partition.
func (p *plainFlows) putReports(offset int64, reports ...activity.Report) {
	p.put(string(reports[0].AppendKey(nil)), offset, string(pump.AppendReports(nil, reports)))
}

// pass appends an event to what is passed on.
// It stands in the activity as JSON, and reports beside it in bytes of their own.
func (p *plain) pass(key string, offset int64, ev *events.Event) {
	p.put(key, offset, string(ev.AppendJSON(nil)))
}

// put gives a record its position: the offset of the event that it is made of, and its number
// among those of that event.
func (p *plain) put(key string, offset int64, value string) {
	if offset != p.last.Offset {
		p.last, p.parts = pump.Position{Offset: offset}, 0
	}
	at := pump.Position{Source: p.source, Offset: offset, Part: p.parts}
	p.parts++
	p.activity = append(p.activity, activityRecord{strings.Clone(key), at, value})
}

// must is for what the simulation has made itself.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
