// Package otlpwire converts OTLP batches from protobuf to JSON.
//
// It walks the wire format by a table of the fields and builds no tree, so that what a
// sender can make it hold is a small multiple of what he sent: a message of empty spans
// takes 2 bytes each on the wire, and hundreds once it is unpacked into structs.
package otlpwire

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/events"
	"weir/events/adapter"
)

// Signal is what a batch is about. On the wire batches of all signals look alike from
// the outside.
//
// All of them are a list of resources, with scopes in it, with items in these.
type Signal uint8

// The signals.
const (
	Unknown Signal = iota
	Empty          // a batch without content
	Spans
	Logs
	Metrics
)

// String returns the signal in one word.
func (s Signal) String() string {
	return [...]string{"unknown", "empty", "spans", "logs", "metrics"}[min(s, Metrics)]
}

// maxDepth is how many messages may lie inside each other. A value of an attribute
// takes three for each level of its own.
const maxDepth = 120

// AppendJSON appends a batch of spans or logs as OTLP JSON. What is no such batch is a
// *events.DecodeError, and so is one that makes more JSON than a record may have
// (adapter.MaxRecord): it is left there, for small fields take many times their room.
//
// dst may have what stands before; its length counts.
func AppendJSON(dst, batch []byte, s Signal) ([]byte, error) {
	m := tracesData
	switch s {
	case Spans, Empty:
	case Logs:
		m = logsData
	default:
		return dst, fault(events.CodeInvalidValue, "a batch of "+s.String()+"; want spans or logs")
	}
	return m.append(dst, batch, maxDepth)
}

// tooLong is the same fault as of a record of JSON that is too long.
func tooLong() error {
	return fault(events.CodeTooLong, fmt.Sprintf("the batch has more than %d bytes as JSON: lower the batch size of the exporter", adapter.MaxRecord))
}

// fault has no place, since the bytes are not those of a record that anybody sees.
func fault(code events.Code, reason string) *events.DecodeError {
	return &events.DecodeError{Code: code, Offset: -1, Reason: "OTLP protobuf: " + reason}
}

// each calls fn for every field of a message, with its value as it is on the wire.
//
// It ends when fn is false, or at the first field that is no field.
func each(message []byte, fn func(protowire.Number, protowire.Type, []byte) bool) error {
	for at := 0; at < len(message); {
		number, typ, n := protowire.ConsumeTag(message[at:])
		if n < 0 {
			return broken(n)
		}
		at += n
		size := protowire.ConsumeFieldValue(number, typ, message[at:])
		if size < 0 {
			return broken(size)
		}
		if !fn(number, typ, message[at:at+size]) {
			return nil
		}
		at += size
	}
	return nil
}

// broken says it in the words of the library.
func broken(n int) error {
	return fault(events.CodeSyntax, fmt.Sprintf("the message is broken or cut off (%v)", protowire.ParseError(n)))
}

// inner returns the bytes of a field that has a length.
//
// The length was looked at by each, so it cannot fail.
func inner(value []byte) []byte {
	b, _ := protowire.ConsumeBytes(value)
	return b
}

// SignalOf returns the signal of a batch, or Unknown when the message is not a batch. It
// looks at the shape of the first span, log record or metric that it finds.
//
// Text and JSON may begin like a batch, so the whole path down to an item has to fit.
func SignalOf(batch []byte) Signal {
	if len(batch) == 0 {
		return Unknown
	}
	found, ok := Empty, true
	// Batches, resources and scopes have the same numbers for all signals.
	err := each(batch, func(number protowire.Number, typ protowire.Type, v []byte) bool {
		// Anything but field 1 is no batch.
		if ok = number == 1 && typ == protowire.BytesType; ok && found == Empty {
			found = below(inner(v), 2, func(scope []byte) Signal { return below(scope, 2, signalOfItem) })
		}
		return ok && found != Unknown
	})
	if err != nil || !ok {
		return Unknown
	}
	return found
}

// below looks into the fields of one number until one of them identifies the signal.
//
// An empty resource or scope does not identify it; below then looks into the next one.
func below(message []byte, number protowire.Number, look func([]byte) Signal) Signal {
	found := Empty
	err := each(message, func(n protowire.Number, typ protowire.Type, v []byte) bool {
		switch {
		// No field of a resource or a scope has another type or a higher number.
		case typ != protowire.BytesType || n > 3 && n != 1000: // 1000: libraries, of old senders
			found = Unknown
		case n == number:
			found = look(inner(v))
		}
		return found == Empty
	})
	if err != nil {
		return Unknown
	}
	return found
}

// signalOfItem returns the signal of an item, by the fields that only one of the signals has.
func signalOfItem(item []byte) Signal {
	const (
		spanTime    = 1 << iota // field 7 or 8
		logTime                 // field 1 or 11
		logSeverity             // field 2 as a number
		name                    // field 1 as a text
		other
	)
	has := 0
	err := each(item, func(n protowire.Number, typ protowire.Type, _ []byte) bool {
		switch {
		case (n == 7 || n == 8) && typ == protowire.Fixed64Type:
			has |= spanTime
		case (n == 1 || n == 11) && typ == protowire.Fixed64Type:
			has |= logTime
		case n == 2 && typ == protowire.VarintType:
			has |= logSeverity
		case n == 1 && typ == protowire.BytesType:
			has |= name
		default:
			has |= other
		}
		return true
	})
	// Spans have times in 7 and 8, logs in 1 and 11, and a metric has its name where a log has
	// a time.
	switch {
	case err != nil:
		return Unknown
	case has&spanTime != 0 && has&(logTime|logSeverity) == 0:
		return Spans
	// A log may have nothing but a body.
	case has&spanTime == 0 && (has&(logTime|logSeverity) != 0 || has == other):
		return Logs
	case has&name != 0:
		return Metrics
	case has == 0:
		return Empty
	}
	return Unknown
}
