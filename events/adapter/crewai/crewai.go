// Package crewai reads events of CrewAI's event bus, one JSON object per line.
//
// It reads the events by which crews, agents, tools and models begin and end. One flow is one run of a crew:
// the nearest crew_kickoff_started above an event, or, without a crew, the topmost event. An agent is its
// role. A delegation is the use of a tool below which another agent runs. It is emitted as a call of that
// agent, once, however often CrewAI tries again. The events carry the whole crew with the keys of its
// models; only roles, names, times and figures are read.
//
// Agents of one role cannot be distinguished. Tokens are present only with models whose events have them.
// If something fails without an event of its own, only the end of what is above it shows the failure.
package crewai

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/deed"
	"weir/events/adapter/spantree"
	"weir/events/fingerprint"
)

// Format returns the format of CrewAI events.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "crewai",
		Title:   "CrewAI event bus (event.to_json()), JSON lines",
		Framing: adapter.Lines,
		Score:   adapter.CertainWith("event_id", "type", "timestamp", "emission_sequence"),
		New:     newReader,
		// Tokens are there only with models whose events have them.
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Always, Results: adapter.Always, Caller: adapter.Always, Turn: adapter.Never,
			Tokens: adapter.Sometimes, Time: adapter.Always, Starts: adapter.Always, Work: adapter.Always},
	}
}

// maxOpen bounds the events that others may refer to.
const maxOpen = 16384

// reader joins the events that begin and end something; tree determines the caller of each.
type reader struct {
	tree    *spantree.Tree
	ignore  adapter.IgnoreArgs
	repeats *adapter.Repeats
	// starts is by event, so that an end finds what it ends and children find their flow.
	starts *adapter.Recent[start]
	// refused holds, by what they lie below, the tools that an agent asked for and
	// does not have.
	refused *adapter.Recent[string]
	// early are events that came before the one that they refer to, in the order in which
	// they came.
	early []early
	kept  int   // bytes of them and of what they wait for
	read  int64 // records
}

// early is a record that waits for the event that it refers to.
type early struct {
	record []byte
	event  string
	since  int64 // how many records had been read
}

// maxEarly is how many records an event waits for the one that it refers to. The bus calls
// its listeners from threads, so events stand in the log a few places before or after each
// other; what does not come soon was not written down at all.
//
// maxKept bounds what they are together; who waited longest is taken as it is then.
const (
	maxEarly = 32
	maxKept  = 128 << 10
)

// start is what is remembered of an event that begins something.
//
// It is forgotten with its end; what never ends goes when there are too many.
type start struct {
	what string // agent_execution, tool_usage, ...
	// parent is kept beside the tree's own, to climb where an end is missing.
	parent string
	trace  string
	// delegates is of a tool below which an agent runs.
	delegates bool
}

// newReader lets the tree order the names of flows.
func newReader(o adapter.Options) adapter.Adapter {
	most := o.HeldOr(maxOpen)
	return &reader{tree: spantree.New(o, "crewai"), ignore: o.IgnoreArgs, repeats: adapter.NewRepeats(o),
		starts: adapter.NewRecent[start](most), refused: adapter.NewRecent[string](most)}
}

// Decode reads one event. It skips events that do not concern agents, tools and models.
//
// An event that comes again is skipped.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	l, err := read(record)
	if err != nil {
		return err
	}
	if r.repeats.Again(record) {
		return nil
	}
	r.read++
	if event := r.waitsFor(l); event != "" {
		r.early = append(r.early, early{bytes.Clone(record), event, r.read})
		r.kept += len(record) + len(event)
	} else {
		r.take(l)
	}
	err = r.takeEarly(func(e early) bool {
		_, came := r.starts.Get(e.event)
		return came || r.read-e.since >= maxEarly || r.kept > maxKept
	})
	r.tree.Settle(emit)
	return err
}

// waitsFor is the event that is needed to place another one, until it has come.
func (r *reader) waitsFor(l *line) string {
	event := l.parent
	switch what, phase := phaseOf(l.kind); {
	case phase == begins && (what == "crew_kickoff" || what == "agent_logs"):
		return ""
	case phase == ends:
		event = l.started
	case phase != begins:
		return ""
	}
	if _, came := r.starts.Get(event); came {
		return ""
	}
	return event
}

// takeEarly takes those that waited, of which one may be what the next one waits for.
func (r *reader) takeEarly(ready func(early) bool) error {
	for {
		i := slices.IndexFunc(r.early, ready)
		if i < 0 {
			return nil
		}
		l, err := read(r.early[i].record)
		r.kept -= len(r.early[i].record) + len(r.early[i].event)
		r.early = slices.Delete(r.early, i, i+1)
		if err != nil {
			return err
		}
		r.take(l)
	}
}

// take puts an event into the tree.
func (r *reader) take(l *line) {
	what, phase := phaseOf(l.kind)
	// An end without a start cannot be joined with anything.
	switch {
	case phase == begins:
		r.begin(l, what)
	case phase == ends && l.started != "":
		r.end(l, what)
	// The tool is reported again and again before its failure, see refuse.
	case l.kind == "tool_selection_error":
		r.refused.Put(l.parent, l.tool)
	case l.kind == "tool_failure_detected":
		r.refuse(l)
	}
}

// Flush emits everything that was held back.
func (r *reader) Flush(emit func(*events.Event)) error {
	err := r.takeEarly(func(early) bool { return true })
	r.tree.Flush(emit)
	return err
}

// phase is whether an event begins or ends something.
type phase uint8

const (
	neither phase = iota
	begins
	ends
)

// phaseOf splits the type of an event: its subject, and whether that begins or ends.
//
// Several words mark an end. Of them failed and error mark a failure; a member holds its
// cause.
func phaseOf(kind string) (what string, p phase) {
	if what, ok := strings.CutSuffix(kind, "_started"); ok {
		return what, begins
	}
	for _, suffix := range [...]string{"_completed", "_finished", "_failed", "_error"} {
		if what, ok := strings.CutSuffix(kind, suffix); ok {
			return what, ends
		}
	}
	return "", neither
}

// isDelegation is true for the tools by which CrewAI lets agents call each other, in
// both spellings.
func isDelegation(tool string) bool {
	switch strings.ReplaceAll(strings.ToLower(tool), " ", "_") {
	case "delegate_work_to_coworker", "ask_question_to_coworker":
		return true
	}
	return false
}

// trace is the flow of an event: what its parent belongs to.
//
// A parent that was not seen stands for the flow, so that what lies below it stays together.
func (r *reader) trace(l *line) string {
	if l.kind == "crew_kickoff_started" || l.parent == "" {
		return l.id
	}
	if above, ok := r.starts.Get(l.parent); ok {
		return above.trace
	}
	return l.parent
}

// begin adds the beginning of a crew, an agent, a tool or a request to the tree.
func (r *reader) begin(l *line, what string) {
	if what == "agent_logs" { // it does not end
		return
	}
	s := start{what: what, parent: l.parent, trace: r.trace(l), delegates: what == "tool_usage" && isDelegation(l.tool)}
	if what == "crew_kickoff" {
		r.tree.Name(s.trace, spantree.Names{Explicit: l.correlation})
		s.parent = "" // a parent here remains from a crew that failed
	}
	above, _ := r.starts.Get(l.parent)
	r.starts.Put(l.id, s)
	run := spantree.Span{ID: l.id, Parent: s.parent, Start: l.at}
	switch what {
	case "agent_execution", "lite_agent_execution":
		run.Kind, run.Agent = spantree.Agent, l.role
		if !above.delegates { // else its prompt is the argument of the tool
			run.Content, run.Sim = fingerprint.Content(l.prompt), fingerprint.Text(l.prompt)
		}
	case "tool_usage":
		// A delegation is emitted as the call of the agent below it. If none ran, it was tried
		// and is no work.
		run.Kind, run.Agent, run.Known, run.Refused = spantree.Tool, l.role, !s.delegates, s.delegates
		run.Tool = r.tool(l)
		run.Call = deed.CallOf(l.tool, l.args, run.Tool.ArgsHash)
		run.Content, run.Sim = fingerprint.Content(l.args), fingerprint.Text(l.args)
	case "llm_call":
		run.Kind, run.Agent, run.Model = spantree.Inference, l.role, l.model
	}
	r.tree.Add(s.trace, run)
}

// tool is what is called, with the hash of its arguments.
func (r *reader) tool(l *line) events.Tool {
	return events.Tool{Name: cmp.Or(l.tool, "tool"), ArgsHash: fingerprint.Args(l.args, r.ignore.Of(l.tool)), ArgsSize: int64(len(l.args))}
}

// end ends what the event refers to. Where something below failed without an event
// of its own, CrewAI refers to that, and both end.
func (r *reader) end(l *line, what string) {
	// A bound, should the parents of a log go in a circle.
	const maxUp = 64
	id := l.started
	for range maxUp {
		s, ok := r.starts.Get(id)
		if !ok {
			return // it was not seen to begin, or has ended
		}
		r.starts.Delete(id)
		run := spantree.Span{ID: id, Parent: s.parent, End: l.at, Status: events.StatusOK}
		if l.failed {
			run.Status, run.Failure = events.StatusError, l.failure
		}
		// CrewAI skips the end of what failed within: what lies between failed, too.
		if s.what != what {
			run.Status, run.Failure = events.StatusError, cmp.Or(run.Failure, fingerprint.Error(l.output), "error")
			r.tree.Add(s.trace, run)
			id = s.parent
			continue
		}
		switch what {
		case "agent_execution", "lite_agent_execution", "tool_usage":
			run.Answer, run.Near = fingerprint.Result(l.output)
			run.Result = deed.ResultOf(l.output)
		// Tokens come with the end of a request.
		case "llm_call":
			run.Kind, run.Usage, run.Model = spantree.Inference, l.usage, l.model
		}
		r.tree.Add(s.trace, run)
		return
	}
}

// refuse emits a call of a tool that the agent does not have. CrewAI reports several times that
// the tool does not exist, and then, once, the failure.
//
// Its own span is begun and ended at once, since nothing of it ran.
func (r *reader) refuse(l *line) {
	tool, ok := r.refused.Get(l.parent)
	if !ok || tool != l.tool {
		return // the tool ran, and its own events report it
	}
	r.refused.Delete(l.parent)
	r.tree.Add(r.trace(l), spantree.Span{ID: l.id, Parent: l.parent, Kind: spantree.Tool, Start: l.at, End: l.at, Agent: l.role,
		Tool: r.tool(l), Refused: true, Status: events.StatusError, Failure: cmp.Or(l.failure, "error")})
}
