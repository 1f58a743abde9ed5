// Package trace reads the neutral trace format: recorded runs with hashes in place of texts.
//
// A line has dataset, trace_id, seq, ts, from, to, kind (call, return, tool, result,
// message, error), tool, args_hash, had_work, tokens_in, tokens_out and sim. The
// flow is dataset/trace_id.
//
// A line does not name the call that a result belongs to: it is the last open one of
// the same party. A line without ts happened two seconds after the line before it, the
// first at an instant that is the same for all traces. Turns, models and kinds of
// errors have no place in the format.
package trace

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"time"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
)

// Format returns the neutral trace format.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "trace",
		Title:   "neutral traces (dataset, trace_id, seq, kind), one fact per line",
		Framing: adapter.Lines,
		Score:   adapter.CertainWith("dataset", "trace_id", "seq", "kind", "from"), // no other format has all
		New:     newReader,
		// Tokens and times are there where the dataset had them.
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Always, Results: adapter.Always, Caller: adapter.Always, Turn: adapter.Never,
			Tokens: adapter.Sometimes, Time: adapter.Sometimes, Starts: adapter.Always, Work: adapter.Always},
	}
}

// maxFlows is the number of traces that are remembered to pair results with their calls. A
// file has one trace after the other, so few are ever open at once.
const maxFlows = 1024

// reader keeps flows, of which the one that was used least recently is forgotten.
type reader struct {
	source string
	flows  *adapter.Recent[*flow]
	event  events.Event
}

// flow is what is remembered of one trace.
type flow struct {
	// It is dataset/trace_id, since two datasets may number their traces alike.
	id     string
	open   map[string][]call // by party: tool calls without a result, the last one last
	worked adapter.Work      // parties that did work since they were called, or called another party
}

// call is a tool call that has no result.
type call struct {
	id, tool string
	args     events.Hash
	// The time of the call, for how long it took.
	at events.Stamp
}

// newReader needs no order of names: a line says its trace, and there is nothing else.
func newReader(o adapter.Options) adapter.Adapter {
	return &reader{source: cmp.Or(o.Source, "trace"), flows: adapter.NewRecent[*flow](o.HeldOr(maxFlows))}
}

// line is one line as it was read.
// Zero is what the line leaves out; seq is -1 then, because 0 is a place.
type line struct {
	dataset, trace string
	// seq is the place of the line in its trace, and makes its id.
	seq                  int64
	ts                   events.Stamp
	from, to, kind, tool string
	hash                 events.Hash
	sim                  events.Fingerprint
	hadWork              events.Tri
	in, out              int64
}

// Decode reads one line.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	l, err := read(record)
	if err != nil {
		return err
	}
	return r.emit(l, emit)
}

// Flush has nothing to do: nothing is held back.
func (r *reader) Flush(func(*events.Event)) error { return nil }

// read reads one line. Names of algorithms are left out in the format, so they are put in
// front of the digits.
func read(record []byte) (*line, error) {
	l := &line{seq: -1}
	c := jsonwalk.New(record)
	for c.Object(); c.Member(); {
		switch key := string(c.Key()); key {
		// A quarter of the bound leaves room for the trace behind it.
		case "dataset":
			l.dataset = adapter.Word(c.Text(), events.MaxID/4)
		case "trace_id":
			l.trace = adapter.ID(c.Scalar())
		// The place makes ids and, without times, the time.
		case "seq":
			l.seq = count(c, key, math.MaxInt32)
		case "ts":
			l.ts = stamp(c)
		case "from":
			l.from = adapter.Word(c.Text(), events.MaxID)
		case "to":
			l.to = adapter.Word(c.Text(), events.MaxID)
		case "kind":
			l.kind = string(c.Text())
		case "tool":
			l.tool = adapter.Word(c.Text(), events.MaxID)
		// Hashes come without the name of the algorithm, which the format sets.
		case "args_hash":
			if p := c.Text(); len(p) > 0 {
				h, err := events.ParseHash("sha256:" + string(p))
				if err != nil {
					c.Fail(events.CodeInvalidValue, key, err.Error())
				}
				l.hash = h
			}
		case "sim":
			if p := c.Text(); len(p) > 0 {
				f, err := events.ParseFingerprint("simhash64:" + string(p))
				if err != nil {
					c.Fail(events.CodeInvalidValue, key, err.Error())
				}
				l.sim = f
			}
		// null, or none, is unknown.
		case "had_work":
			switch c.Peek() {
			case 't':
				l.hadWork = events.Yes
			case 'f':
				l.hadWork = events.No
			}
			c.Skip()
		case "tokens_in":
			l.in = count(c, key, events.MaxNumber)
		case "tokens_out":
			l.out = count(c, key, events.MaxNumber)
		}
	}
	c.End()
	switch {
	// A fault of the line itself goes before: Fail keeps the first.
	case l.trace == "":
		c.Fail(events.CodeMissingField, "trace_id", "want the id of the trace")
	case l.seq < 0:
		c.Fail(events.CodeMissingField, "seq", "want the place of the line in its trace")
	case l.from == "":
		c.Fail(events.CodeMissingField, "from", "want who acts")
	}
	return l, c.Err()
}

// count reads a whole number from 0 to most, or null.
//
// What is anything else fails the line, as its numbers are the facts.
func count(c *jsonwalk.Cursor, field string, most int64) int64 {
	if c.Peek() == 'n' {
		c.Skip()
		return 0
	}
	v, ok := c.Int()
	if !ok || v < 0 || v > most {
		c.Fail(events.CodeOutOfRange, field, fmt.Sprintf("want a whole number from 0 to %d", most))
	}
	return v
}

// stamp reads a time: RFC 3339, or Unix seconds or milliseconds as a number, or null.
func stamp(c *jsonwalk.Cursor) events.Stamp {
	isText := c.Peek() == '"'
	p := c.Scalar()
	// A null is a time that the dataset did not have.
	if p == nil {
		return 0
	}
	if isText {
		at, ok := events.ParseStamp(string(p))
		if !ok {
			c.Fail(events.CodeInvalidValue, "ts", "want an RFC 3339 time, a number of seconds or milliseconds, or null")
		}
		return at
	}
	v, err := strconv.ParseFloat(string(p), 64)
	// Below this it can be no ms of our time, and above no seconds.
	if err == nil && v < 1e11 {
		v *= 1000
	}
	// Before the first second of 1970 and after 9999.
	if err != nil || v < 1 || v > 2.5e14 {
		c.Fail(events.CodeInvalidValue, "ts", "want a time from 1970 to 9999")
		return 0
	}
	return events.Stamp(v)
}

// human is true for the names under which traces speak of people, real or simulated.
//
// Datasets of simulated users call them by a word of their own.
func human(name string) bool { return name == "user" || name == "user_sim" || name == "human" }

// party is zero for a human.
//
// So a call from it is a user's, and an answer to it goes to the user.
func party(name string) events.Party {
	if name == "" || human(name) {
		return events.Party{}
	}
	return events.Party{Agent: name}
}

// emit emits the content of a line, by its kind.
func (r *reader) emit(l *line, emit func(*events.Event)) error {
	f := r.flow(l.dataset + "/" + l.trace)
	r.event = events.Event{
		ID: f.id + "/" + strconv.FormatInt(l.seq, 10), Source: r.source, Time: l.ts, Sequence: l.seq,
		CorrelationID: f.id, From: party(l.from), Sim: l.sim, Content: l.hash,
	}
	// The methods below fill in what their kind needs.
	e := &r.event
	// A line without a time is placed by its number.
	if e.Time == 0 {
		e.Time = adapter.Epoch.Add(time.Duration(l.seq) * adapter.Pace)
	}
	switch l.kind {
	case "message":
		// Two people talk in simulations, and an agent without addressee talks to itself.
		if l.to == "" || human(l.from) && human(l.to) {
			return nil // a thought
		}
		fallthrough
	case "call":
		f.call(l, e)
	case "return":
		f.back(l, e)
	case "tool":
		f.use(l, e)
	case "result":
		f.result(l, e)
	case "error":
		e.Status = events.StatusError
		// An error of a party with an open call is that of the tool, else that of its answer.
		if l.to == "" && len(f.open[l.from]) > 0 {
			f.result(l, e)
		} else {
			f.back(l, e)
		}
	default:
		return &events.DecodeError{Code: events.CodeInvalidValue, Field: "kind", Offset: -1,
			Reason: fmt.Sprintf("%q is not known; want call, return, tool, result, message or error", adapter.Word([]byte(l.kind), 40))}
	}
	// A line may lack what its kind needs, such as the addressee of a call.
	if err := e.Validate(); err != nil {
		return err
	}
	emit(e)
	if l.in > 0 || l.out > 0 {
		r.tokens(l, emit)
	}
	return nil
}

// call is a message to an agent; one to a human is an answer.
func (f *flow) call(l *line, e *events.Event) {
	if human(l.to) && !human(l.from) {
		f.back(l, e)
		return
	}
	// The work of both up to now belongs to the hops before.
	e.Kind, e.To = events.AgentCall, party(l.to)
	if human(l.from) {
		e.Origin = events.OriginUser
	} else {
		e.Origin = events.OriginAgent
		f.setWork(l, e)
		f.worked.Spend(l.from)
	}
	f.worked.Spend(l.to)
}

// back is an answer, or an error that nothing else explains.
func (f *flow) back(l *line, e *events.Event) {
	// A human is no party here: an answer to one has no addressee.
	e.Kind, e.To = events.AgentReturn, party(l.to)
	if e.Status == events.StatusUnset {
		e.Status = events.StatusOK
	}
	f.setWork(l, e)
	// An answer that took work, or may have, is work for its receiver.
	if e.HadWork != events.No && l.to != "" {
		f.worked.Note(l.to, e.HadWork)
	}
}

// setWork records whether a party used a tool since its last hop, if the line does not say so
// itself; a trace reports everything that it knows.
func (f *flow) setWork(l *line, e *events.Event) {
	if e.HadWork = l.hadWork; e.HadWork == events.Unknown {
		f.worked.Set(e, l.from)
	}
}

const (
	maxOpen    = 64  // tool calls of one party that may wait for their results
	maxParties = 256 // parties of one trace that are remembered
)

// use opens a call, which gets the number of its line for an id.
//
// Its content is the arguments, so hash and similarity are theirs.
func (f *flow) use(l *line, e *events.Event) {
	e.Kind, e.Content, e.Sim = events.ToolCall, events.Hash{}, events.Fingerprint{}
	e.Tool = events.Tool{Name: l.tool, CallID: strconv.FormatInt(l.seq, 10), ArgsHash: l.hash, ArgsSim: l.sim}
	if len(f.open) >= maxParties {
		clear(f.open)
	}
	f.worked.Note(l.from, events.Yes)
	open := append(f.open[l.from], call{e.Tool.CallID, l.tool, l.hash, e.Time})
	f.open[l.from] = open[max(0, len(open)-maxOpen):]
}

// result belongs to the last open call of the same party, of the same tool if the
// line names one.
//
// Without an open call it is emitted alone, under the name that the line has.
func (f *flow) result(l *line, e *events.Event) {
	e.Kind, e.Tool.Name = events.ToolResult, l.tool
	if e.Status == events.StatusUnset {
		e.Status = events.StatusOK
	}
	open := f.open[l.from]
	for i := len(open) - 1; i >= 0; i-- {
		// From the end, as the format says.
		if c := open[i]; l.tool == "" || c.tool == l.tool {
			e.Tool = events.Tool{Name: c.tool, CallID: c.id, ArgsHash: c.args}
			// A time that was made up says nothing of how long something took.
			if l.ts != 0 {
				e.DurationMS = max(0, float64(e.Time-c.at))
			}
			f.open[l.from] = append(open[:i], open[i+1:]...)
			return
		}
	}
}

// tokens emits the tokens of a line as an inference of their own, since only those
// are summed.
// The event is the reader's one event, which is used again.
func (r *reader) tokens(l *line, emit func(*events.Event)) {
	// It is copied first, since the new event overwrites it.
	last := r.event
	r.event = events.Event{
		ID: last.ID + "/llm", Source: last.Source, Time: last.Time, Sequence: last.Sequence, Kind: events.LLMCall,
		CorrelationID: last.CorrelationID, From: last.From,
		Usage: events.Usage{Known: true, Input: l.in, Output: l.out},
	}
	emit(&r.event)
}

// flow returns what is remembered of a trace.
func (r *reader) flow(id string) *flow {
	f, ok := r.flows.Get(id)
	if !ok {
		f = &flow{id: id, open: map[string][]call{}, worked: adapter.NewWork(maxParties)}
		r.flows.Put(id, f)
	}
	return f
}
