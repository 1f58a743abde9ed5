package wire

import (
	"bytes"
	"cmp"
	"net/url"

	"weir/events"
	"weir/events/adapter"
)

// Trace is the W3C trace context of a request.
// An ID without a Span does not occur: both are read or neither.
type Trace struct {
	ID   string // 32 lower-case hex digits, or nothing
	Span string // of the caller, 16 digits
}

// Traceparent reads a traceparent header. What is none gives the zero Trace.
func Traceparent(p []byte) Trace {
	// Only the places of the four parts count; the version is not looked at, as the
	// specification asks of readers of later versions.
	const length = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if len(p) < length || p[2] != '-' || p[35] != '-' || p[52] != '-' || !isID(p[3:35]) || !isID(p[36:52]) {
		return Trace{}
	}
	return Trace{string(p[3:35]), string(p[36:52])}
}

// isID reports whether p is lower-case hex and not zero.
// A byte below '0' or 'a' wraps around and is over the bound, too. Zero is forbidden by the
// specification; some stays '0' only if all digits are.
func isID(p []byte) bool {
	some := byte('0')
	for _, b := range p {
		if b-'0' > 9 && b-'a' > 5 {
			return false
		}
		some |= b
	}
	return some != '0'
}

// Flow is what W3C baggage says of a flow.
// What a member leaves out is "".
type Flow struct {
	ID     string // correlation_id
	Parent string // parent_correlation_id: the flow that opened it
	Root   string // root_correlation_id: the flow whose budget it shares
}

// Baggage returns what a W3C baggage header says; each member may have "weir." before its
// name, and the first of a name counts.
func Baggage(p []byte) (f Flow) {
	for len(p) > 0 {
		var entry []byte
		entry, p, _ = bytes.Cut(p, []byte(","))
		// What stands behind a semicolon are properties of the member, of which none is read.
		entry, _, _ = bytes.Cut(entry, []byte(";"))
		key, value, _ := bytes.Cut(entry, []byte("="))
		// Other members of a baggage are other people's.
		var to *string
		switch string(bytes.TrimPrefix(bytes.TrimSpace(key), []byte("weir."))) {
		case "correlation_id":
			to = &f.ID
		case "parent_correlation_id":
			to = &f.Parent
		case "root_correlation_id":
			to = &f.Root
		default:
			continue
		}
		value = bytes.TrimSpace(value)
		// What is not percent-encoded properly counts as it stands.
		if plain, err := url.PathUnescape(string(value)); err == nil {
			value = []byte(plain)
		}
		if *to == "" {
			*to = adapter.Word(value, events.MaxID)
		}
	}
	return f
}

// Or returns f with what it leaves out as other says it.
// Or fills gaps only: what the message says of itself goes before what the header says.
func (f Flow) Or(other Flow) Flow {
	return Flow{cmp.Or(f.ID, other.ID), cmp.Or(f.Parent, other.Parent), cmp.Or(f.Root, other.Root)}
}
