// Package canonical reads weir's own events, one JSON object per line.
//
// All fields are read; a source is put in if the event names none. Nothing is made up, so an event has
// what its producer reports: the rest stays unknown. Kinds that only weir may write are refused.
package canonical

import (
	"slices"

	"weir/events"
	"weir/events/adapter"
)

// Format returns the canonical format.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "canonical",
		Title:   "weir events (schema event.v1.json), one per line",
		Framing: adapter.Lines,
		Score:   score,
		// own receives the record as it is, for callers that look for misnamed fields.
		New: func(o adapter.Options) adapter.Adapter { return &reader{source: o.Source, own: o.Own} },
		Gives: adapter.Gives{Tools: adapter.Sometimes, Args: adapter.Sometimes, Results: adapter.Sometimes, Caller: adapter.Always, Turn: adapter.Sometimes,
			Tokens: adapter.Sometimes, Time: adapter.Always, Starts: adapter.Always, Work: adapter.Sometimes, Tasks: adapter.Sometimes},
	}
}

// score needs no more than a kind of weir's own.
func score(head *adapter.Head) adapter.Match {
	kinds := events.Kinds()
	for top := range head.Tops() {
		kind, ok := top["kind"]
		if ok && slices.ContainsFunc(kinds, func(k events.Kind) bool { return k.String() == kind }) {
			return adapter.Certain
		}
	}
	return adapter.NoMatch
}

// reader uses one event for all records.
type reader struct {
	source string
	own    func(record []byte, ev *events.Event)
	event  events.Event
}

// Decode reads one event. Kinds that only weir may write are refused.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := events.Decode(record, &r.event); err != nil {
		return err
	}
	if err := r.event.FromProducer(); err != nil {
		return err
	}
	if r.own != nil {
		r.own(record, &r.event)
	}
	// Repeats are recognized by source and id, so an event without a source takes that of its input.
	if r.event.Source == "" {
		r.event.Source = r.source
	}
	emit(&r.event)
	return nil
}

// Flush has nothing to do.
func (r *reader) Flush(func(*events.Event)) error { return nil }
