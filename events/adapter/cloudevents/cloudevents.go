// Package cloudevents reads CloudEvents whose data are weir's own events.
//
// What an event can report is up to its producer, as in weir's own format. Data of other formats is read
// by their own names when it is taken out of its envelope, as weir does with records from Kafka or HTTP.
package cloudevents

import (
	"errors"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/canonical"
	"weir/events/envelope"
)

// Format returns the format of structured CloudEvents.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "cloudevents",
		Title:   "CloudEvents 1.0, structured JSON, with events of weir's own as data",
		Framing: adapter.Documents,
		Score:   adapter.CertainWith("specversion", "type", "source", "id"),
		New:     func(o adapter.Options) adapter.Adapter { return &reader{canonical.Format().New(o)} },
		Gives:   canonical.Format().Gives,
	}
}

// inner reads what was inside.
type reader struct{ inner adapter.Adapter }

// Decode reads one CloudEvent.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	content, err := envelope.Open(envelope.Message{Value: record})
	if errors.Is(err, envelope.ErrEmpty) {
		return &events.DecodeError{Code: events.CodeSyntax, Offset: 0, Reason: "the CloudEvent is empty"}
	}
	if err != nil {
		return err
	}
	// A missing kind has a cause of its own here: the type of the CloudEvent.
	err = r.inner.Decode(content.Bytes, emit)
	if fault, ok := errors.AsType[*events.DecodeError](err); ok && fault.Code == events.CodeMissingField && content.Wrapping != "" {
		for top := range adapter.Tops(content.Bytes) {
			if !top.Has("kind") {
				return adapter.Missing("kind", "the data is no event of weir's: want the type weir.KIND.v1, or kind in the data")
			}
			break
		}
	}
	return err
}

// Flush hands over nothing: nothing is held back.
func (r *reader) Flush(emit func(*events.Event)) error { return r.inner.Flush(emit) }
