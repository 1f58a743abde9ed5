package main

import (
	"strings"

	"weir/events"
)

// neutral turns live events into what a neutral trace has of them: who called what with which hashes. The
// sizes of results, whether calls failed, how long they took and what they achieved are left out. Times are
// two seconds apart within each flow, as the reader of neutral traces makes them up.
type neutral struct{ last map[string]*events.Stamp }

// apart is the time between two events of a flow, in milliseconds, and begin that of the first.
const (
	apart = 2000
	begin = events.Stamp(1_767_225_600_000)
)

func (n *neutral) strip(ev *events.Event) {
	at := n.last[ev.FlowKey()]
	if at == nil {
		if n.last == nil {
			n.last = map[string]*events.Stamp{}
		}
		at = new(events.Stamp)
		*at = begin - apart
		n.last[strings.Clone(ev.FlowKey())] = at // the key lives as long as the event
	}
	*at += apart
	ev.Time, ev.DurationMS = *at, 0
	ev.Status, ev.ErrorType = events.StatusUnset, ""
	if ev.Tool.Outcome = nil; ev.Tool.ResultSize > 1 {
		ev.Tool.ResultSize = 0 // 1 is an empty result, which neutral traces report, too
	}
}

// results counts how often one call brought one result.
type results struct {
	calls map[string]uint64 // arguments of calls, by their ids
	seen  map[result]int
	most  int
}

type result struct {
	tool          string
	args, content uint64
	size          int64
}

// add counts the result of a call. One of which neither content nor size is known is like no other.
func (r *results) add(ev *events.Event) {
	if r.calls == nil {
		r.calls, r.seen = map[string]uint64{}, map[result]int{}
	}
	switch ev.Kind {
	case events.ToolCall:
		if !ev.Tool.ArgsHash.IsZero() {
			r.calls[strings.Clone(ev.Tool.CallID)] = ev.Tool.ArgsHash.Value
		}
	case events.ToolResult:
		args, ok := r.calls[ev.Tool.CallID]
		if !ok || ev.Content.IsZero() && ev.Tool.ResultSize == 0 {
			return
		}
		key := result{strings.Clone(ev.Tool.Name), args, ev.Content.Value, ev.Tool.ResultSize}
		r.seen[key]++
		r.most = max(r.most, r.seen[key])
	}
}
