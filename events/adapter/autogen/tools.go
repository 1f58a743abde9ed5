package autogen

import (
	"cmp"

	"weir/events"
	"weir/events/adapter/deed"
	"weir/events/fingerprint"
)

// use is a tool call that waits for its result: a handoff is made by a tool.
//
// end is 0 until the result arrives; a use without a result is emitted as a call alone.
type use struct {
	id, tool, by string
	args         events.Hash
	size         int64
	at, end      events.Stamp
	done, failed bool
	result       events.Hash
	near         events.Fingerprint
	failure      string
	came         deed.Result
}

// release emits the tool calls of an agent, or of all agents, when it is known that they
// are no handoffs: the next message would be one.
//
// next is the message that shows it, or nil if something else does. A use that was a
// handoff is dropped, because the handoff was emitted.
func (r *reader) release(f *flow, agent string, next *message, emit func(*events.Event)) {
	var waiting, ready []*use
	for _, u := range f.calls {
		switch {
		// Calls of other agents go on waiting.
		case agent != "" && u.by != agent:
			waiting = append(waiting, u)
		// Either the tool is named after the agent, or its result is the text of the handoff.
		case next != nil && next.kind == "HandoffMessage" && (u.tool == "transfer_to_"+next.target || !u.result.IsZero() && u.result == next.said):
		default:
			ready = append(ready, u)
		}
	}
	f.calls = waiting
	r.use(f, ready, emit)
}

// use emits calls that were made at the same time, and then their results.
//
// All calls precede all results, since the model requested them at once.
func (r *reader) use(f *flow, calls []*use, emit func(*events.Event)) {
	for _, u := range calls {
		f.worked.Note(u.by, events.Yes)
		e := r.begin(f, u.id+"/start", events.ToolCall, u.at)
		e.From, e.Tool = party(u.by), u.event()
		emit(e)
	}
	for _, u := range calls {
		if !u.done {
			continue
		}
		// A result never precedes its call.
		e := r.begin(f, u.id+"/end", events.ToolResult, max(u.end, u.at))
		e.From, e.Tool, e.Content, e.Sim, e.Status = party(u.by), u.event(), u.result, u.near, events.StatusOK
		if u.failed {
			e.Status, e.ErrorType = events.StatusError, u.failure
		}
		e.DurationMS = max(0, float64(u.end-u.at))
		new(deed.Call).End(nil, e, "", "", &u.came)
		emit(e)
	}
}

// event is the tool as events have it.
func (u *use) event() events.Tool {
	return events.Tool{Name: u.tool, CallID: u.id, ArgsHash: u.args, ArgsSize: u.size}
}

// tool reads a ToolCall, which is written when the tool has run.
//
// Such a record has neither an id nor a time of its own, so call and result are of one time.
func (r *reader) tool(f *flow, l *line, emit func(*events.Event)) {
	if f.asks[l.agent.name] {
		return // the messages about it have more detail
	}
	result, near := fingerprint.Result(l.result)
	r.use(f, []*use{{id: f.name(), tool: cmp.Or(l.tool, "tool"), by: cmp.Or(l.agent.name, r.source), at: f.clock, end: f.clock, done: true,
		args: fingerprint.Args(l.args, r.ignore.Of(l.tool)), size: int64(len(l.args)),
		result: result, near: near, came: deed.ResultOf(l.result)}}, emit)
}
