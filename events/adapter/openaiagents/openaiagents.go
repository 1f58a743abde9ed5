// Package openaiagents reads traces of the OpenAI Agents SDK.
//
// It reads the spans of agents, handoffs, functions and models, and the turns of newer versions. One trace is
// one flow, unless its metadata has a correlation_id. group_id, which is known from the trace record alone,
// is the conversation. A trace that a tool begins while one is open is a flow that descends from that
// one's. So is a trace whose metadata has a parent_correlation_id.
//
// Spans are exported when they end, or twice by a processor that also writes them at their start. A start has
// neither the arguments of a function nor the target of a handoff. Without the SDK's sensitive data
// arguments and results are unknown. Without spans that have usage, tokens are unknown.
package openaiagents

import (
	"cmp"
	"fmt"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/jsonwalk"
	"weir/events/adapter/spantree"
)

// Format returns the format of OpenAI Agents SDK traces.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "openaiagents",
		Title:   "OpenAI Agents SDK traces and spans (TracingProcessor, or ingest bodies), JSON lines",
		Framing: adapter.Lines,
		Score:   score,
		New:     newReader,
		Gives: adapter.Gives{Tools: adapter.Always, Args: adapter.Sometimes, Results: adapter.Sometimes, Caller: adapter.Always, Turn: adapter.Never,
			Tokens: adapter.Sometimes, Time: adapter.Always, Starts: adapter.Sometimes, Work: adapter.Always},
	}
}

// score knows records by object, and bodies by what is in them.
func score(head *adapter.Head) adapter.Match {
	match := adapter.NoMatch
	for top := range head.Tops() {
		switch {
		case top["object"] == "trace.span" && top.Has("span_data"), top["object"] == "trace" && top.Has("workflow_name"):
			return adapter.Certain
		// data alone is a common name.
		case top["data"] == "[" && len(top) == 1:
			match = scoreBody(head.Bytes)
		}
	}
	return match
}

// scoreBody looks at the first element of an ingest body.
//
// Of a body the head holds only the beginning.
func scoreBody(head []byte) adapter.Match {
	c := jsonwalk.New(head)
	for c.Object(); c.Member(); {
		if string(c.Key()) != "data" {
			continue
		}
		for top := range adapter.Tops(head[c.Offset():]) {
			if top["object"] == "trace" || top["object"] == "trace.span" {
				return adapter.Certain
			}
			return adapter.NoMatch
		}
	}
	return adapter.NoMatch
}

// reader gives spans to the tree, which determines the caller of each.
type reader struct {
	// tree holds back and remembers; the reader itself keeps nothing.
	tree   *spantree.Tree
	ignore adapter.IgnoreArgs
}

// newReader leaves the names of flows to the tree.
func newReader(o adapter.Options) adapter.Adapter {
	return &reader{tree: spantree.New(o, "openai-agents"), ignore: o.IgnoreArgs}
}

// Decode reads a trace, a span or a body with several of them. A body that is not
// well-formed is refused as a whole; spans without id, trace or time are left out
// and reported after the others were read.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	items, err := read(record, r.ignore)
	if err != nil {
		return err
	}
	var fault *events.DecodeError
	refused := 0
	for i := range items {
		// A span that is refused leaves the others as they are.
		if err := r.add(&items[i]); err != nil {
			refused++
			fault = cmp.Or(fault, err)
		}
	}
	// Once per record, so that spans of one body are seen together.
	r.tree.Settle(emit)
	// The error says how many items it is about, since the others were read.
	if fault != nil {
		fault.Reason += fmt.Sprintf(" (%d of %d left out)", refused, len(items))
		return fault
	}
	return nil
}

// Flush emits everything that was held back.
func (r *reader) Flush(emit func(*events.Event)) error {
	r.tree.Flush(emit)
	return nil
}

// add gives the tree a span, or the names of a trace.
func (r *reader) add(it *item) *events.DecodeError {
	switch {
	// The names of a trace may come before its spans.
	case it.object == "trace" && it.id != "":
		r.tree.Name(it.id, spantree.Names{Explicit: it.correlation, Conversation: it.group, Parent: it.parentFlow, Root: it.rootFlow})
		return nil
	case it.object != "trace.span":
		return adapter.Missing("object", `want "trace" or "trace.span"`)
	case it.id == "":
		return adapter.Missing("id", "want the id of the span")
	case it.trace == "":
		return adapter.Missing("trace_id", "want the id of the trace")
	case it.start == 0 && it.end == 0:
		return adapter.Missing("started_at", "want an RFC 3339 time")
	}
	// Its details may come later again, with its end.
	r.tree.Add(it.trace, it.run())
	return nil
}
