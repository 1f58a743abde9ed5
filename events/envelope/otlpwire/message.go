package otlpwire

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/events"
	"weir/events/adapter"
)

// form is how a field stands on the wire and in JSON.
//
// It follows the rules of OTLP JSON: ids in hex, times as strings, enumerations as numbers.
type form uint8

const (
	object  form = iota // a message
	text                // a string
	id                  // bytes, in hex digits
	encoded             // bytes, in base64
	whole               // a varint of 64 bits, as a string
	small               // a varint of 32 bits or an enumeration, as a number
	boolean             // a varint
	long                // 8 bytes, as a string
	short               // 4 bytes, as a number
	double              // 8 bytes
)

// wire is the wire type of each form.
//
// A field that comes with another wire type is left out.
var wire = [...]protowire.Type{object: protowire.BytesType, text: protowire.BytesType, id: protowire.BytesType, encoded: protowire.BytesType,
	whole: protowire.VarintType, small: protowire.VarintType, boolean: protowire.VarintType,
	long: protowire.Fixed64Type, short: protowire.Fixed32Type, double: protowire.Fixed64Type}

// field is one field that is carried over; others are left out, as JSON readers do
// with names that they do not know.
//
// of is the message of an object, nil for other forms.
type field struct {
	// A bit for each number marks the fields that are present, see message.append.
	number protowire.Number // below 32
	name   string
	form   form
	list   bool
	of     *message
}

// message is a message as the .proto files of OTLP describe it, its fields in the order
// in which they are written.
type message struct{ fields []field }

// The messages of OTLP 1.x.
//
// It is made once. Values lie in values, so that one is made before its fields.
var tracesData, logsData = func() (traces, logs *message) {
	value := new(message)
	pair := &message{[]field{{1, "key", text, false, nil}, {2, "value", object, false, value}}}
	values := &message{[]field{{1, "values", object, true, value}}}
	pairs := &message{[]field{{1, "values", object, true, pair}}}
	value.fields = []field{{1, "stringValue", text, false, nil}, {2, "boolValue", boolean, false, nil}, {3, "intValue", whole, false, nil},
		{4, "doubleValue", double, false, nil}, {5, "arrayValue", object, false, values}, {6, "kvlistValue", object, false, pairs}, {7, "bytesValue", encoded, false, nil}}

	resource := &message{[]field{{1, "attributes", object, true, pair}, {2, "droppedAttributesCount", small, false, nil}}}
	scope := &message{[]field{{1, "name", text, false, nil}, {2, "version", text, false, nil}, {3, "attributes", object, true, pair},
		{4, "droppedAttributesCount", small, false, nil}}}
	event := &message{[]field{{1, "timeUnixNano", long, false, nil}, {2, "name", text, false, nil}, {3, "attributes", object, true, pair},
		{4, "droppedAttributesCount", small, false, nil}}}
	link := &message{[]field{{1, "traceId", id, false, nil}, {2, "spanId", id, false, nil}, {3, "traceState", text, false, nil},
		{4, "attributes", object, true, pair}, {5, "droppedAttributesCount", small, false, nil}, {6, "flags", short, false, nil}}}
	status := &message{[]field{{2, "message", text, false, nil}, {3, "code", small, false, nil}}}
	span := &message{[]field{{1, "traceId", id, false, nil}, {2, "spanId", id, false, nil}, {3, "traceState", text, false, nil},
		{4, "parentSpanId", id, false, nil}, {16, "flags", short, false, nil}, {5, "name", text, false, nil}, {6, "kind", small, false, nil},
		{7, "startTimeUnixNano", long, false, nil}, {8, "endTimeUnixNano", long, false, nil}, {9, "attributes", object, true, pair},
		{10, "droppedAttributesCount", small, false, nil}, {11, "events", object, true, event}, {12, "droppedEventsCount", small, false, nil},
		{13, "links", object, true, link}, {14, "droppedLinksCount", small, false, nil}, {15, "status", object, false, status}}}
	record := &message{[]field{{1, "timeUnixNano", long, false, nil}, {11, "observedTimeUnixNano", long, false, nil}, {2, "severityNumber", small, false, nil},
		{3, "severityText", text, false, nil}, {12, "eventName", text, false, nil}, {5, "body", object, false, value}, {6, "attributes", object, true, pair},
		{7, "droppedAttributesCount", small, false, nil}, {8, "flags", short, false, nil}, {9, "traceId", id, false, nil}, {10, "spanId", id, false, nil}}}

	// Spans and logs differ in names and items alone.
	batch := func(resources, scopes, items string, item *message) *message {
		inScope := &message{[]field{{1, "scope", object, false, scope}, {2, items, object, true, item}, {3, "schemaUrl", text, false, nil}}}
		inResource := &message{[]field{{1, "resource", object, false, resource}, {2, scopes, object, true, inScope}, {3, "schemaUrl", text, false, nil}}}
		return &message{[]field{{1, resources, object, true, inResource}}}
	}
	return batch("resourceSpans", "scopeSpans", "spans", span), batch("resourceLogs", "scopeLogs", "logRecords", record)
}()

// append appends a message as JSON. Senders write fields in any order, some from the
// last to the first; here they stand in the order of the table, so that a reader knows
// the key of an attribute before its value and the library of a span before the span.
//
// depth is how many messages may still lie inside; p is read once for each of its fields.
func (m *message) append(dst, p []byte, depth int) ([]byte, error) {
	if depth == 0 {
		return dst, fault(events.CodeTooDeep, "values lie too deep inside each other")
	}
	// Small messages make much more JSON than they are long, so it is looked at here, too.
	if len(dst) > adapter.MaxRecord {
		return dst, tooLong()
	}
	// One bit for each number below 32 saves the search for fields that are not there.
	var present uint32
	err := each(p, func(n protowire.Number, _ protowire.Type, _ []byte) bool {
		if n < 32 {
			present |= 1 << n
		}
		return true
	})
	if err != nil {
		return dst, err
	}
	dst = append(dst, '{')
	start := len(dst)
	for i := range m.fields {
		f := &m.fields[i]
		if present&(1<<f.number) == 0 {
			continue
		}
		before := len(dst)
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), f.name...), '"', ':')
		values := len(dst)
		if dst, err = f.append(dst, p, depth); err != nil {
			return dst, err
		}
		if len(dst) == values { // the number is there, with another type
			dst = dst[:before]
		}
	}
	return append(dst, '}'), nil
}

// append appends the values that a message has for the field: all of a list, the last
// of any other.
//
// That the last counts is a rule of protobuf, as is that repeated ones of a list add up.
func (f *field) append(dst, p []byte, depth int) ([]byte, error) {
	var last []byte
	var fault error
	start := len(dst)
	err := each(p, func(n protowire.Number, typ protowire.Type, v []byte) bool {
		switch {
		case n != f.number || typ != wire[f.form]:
		case f.list:
			if len(dst) == start {
				dst = append(dst, '[')
			} else {
				dst = append(dst, ',')
			}
			dst, fault = f.value(dst, v, depth)
		default:
			last = v
		}
		return fault == nil
	})
	switch {
	case err != nil:
		return dst, err
	case fault != nil:
		return dst, fault
	case f.list && len(dst) > start:
		return append(dst, ']'), nil
	case last != nil:
		return f.value(dst, last, depth)
	}
	return dst, nil
}

// value appends one value, of which the wire type is right and the length too.
//
// each has looked at lengths, so nothing here reads beyond v.
func (f *field) value(dst, v []byte, depth int) ([]byte, error) {
	switch f.form {
	case object:
		return f.of.append(dst, inner(v), depth-1)
	case text:
		if dst = appendQuoted(dst, inner(v)); len(dst) > adapter.MaxRecord {
			return dst, tooLong()
		}
		return dst, nil
	case id:
		return append(hex.AppendEncode(append(dst, '"'), inner(v)), '"'), nil
	case encoded:
		return append(base64.StdEncoding.AppendEncode(append(dst, '"'), inner(v)), '"'), nil
	case long:
		return append(strconv.AppendUint(append(dst, '"'), binary.LittleEndian.Uint64(v), 10), '"'), nil
	case short:
		return strconv.AppendUint(dst, uint64(binary.LittleEndian.Uint32(v)), 10), nil
	case double:
		return appendDouble(dst, math.Float64frombits(binary.LittleEndian.Uint64(v))), nil
	}
	// Varints of 64 bits are strings in JSON, for a float64 would lose digits.
	n, _ := protowire.ConsumeVarint(v)
	switch f.form {
	case whole:
		return append(strconv.AppendInt(append(dst, '"'), int64(n), 10), '"'), nil
	case boolean:
		return strconv.AppendBool(dst, n != 0), nil
	}
	return strconv.AppendUint(dst, uint64(uint32(n)), 10), nil
}

// appendDouble writes the three values that JSON has no number for as strings, which is
// protobuf's rule.
func appendDouble(dst []byte, v float64) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(dst, `"-Infinity"`...)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}

// appendQuoted appends a JSON string, or the beginning of one that is too long for a
// record. What is no UTF-8 becomes U+FFFD.
func appendQuoted(dst, p []byte) []byte {
	if !utf8.Valid(p) {
		p = bytes.ToValidUTF8(p, []byte("\ufffd"))
	}
	dst = append(dst, '"')
	start := 0
	// Bytes are looked at and not characters, since all that needs an escape is ASCII.
	for i, c := range p {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, p[start:i]...)
		start = i + 1
		// A text of control characters makes six times its bytes.
		if len(dst) > adapter.MaxRecord {
			return dst
		}
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			const digits = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	return append(append(dst, p[start:]...), '"')
}
