package wire

import (
	"bytes"
	"net/url"

	"weir/events"
	"weir/events/adapter"
)

// Trace is the W3C trace context of a request.
type Trace struct {
	ID   string // 32 lower-case hex digits, or nothing
	Span string // of the caller, 16 digits
}

// Traceparent reads a traceparent header. What is none gives the zero Trace.
func Traceparent(p []byte) Trace {
	const length = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if len(p) < length || p[2] != '-' || p[35] != '-' || p[52] != '-' || !isID(p[3:35]) || !isID(p[36:52]) {
		return Trace{}
	}
	return Trace{string(p[3:35]), string(p[36:52])}
}

// isID reports whether p is lower-case hex and not zero.
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

// Baggage returns the correlation_id, or weir.correlation_id, of a W3C baggage
// header, or nothing.
func Baggage(p []byte) string {
	for len(p) > 0 {
		var entry []byte
		entry, p, _ = bytes.Cut(p, []byte(","))
		entry, _, _ = bytes.Cut(entry, []byte(";"))
		key, value, _ := bytes.Cut(entry, []byte("="))
		if key = bytes.TrimSpace(key); string(key) != "correlation_id" && string(key) != "weir.correlation_id" {
			continue
		}
		value = bytes.TrimSpace(value)
		if plain, err := url.PathUnescape(string(value)); err == nil {
			return adapter.Word([]byte(plain), events.MaxID)
		}
		return adapter.Word(value, events.MaxID)
	}
	return ""
}
