package pump

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"weir/events"
)

// Finder tells the records of one flow from others, most of them without decoding.
// It is for one goroutine.
type Finder struct {
	key string
	// The key of a flow without an id is made of a party's name, see events.Event.FlowKey.
	bare  []byte // is in each record of the flow
	plain bool   // JSON writes bare in one way only
	event events.Event
}

// NewFinder returns one for the flow of a key.
func NewFinder(key string) *Finder {
	f := &Finder{key: key, bare: []byte(strings.TrimPrefix(key, "agent:"))}
	// What JSON may write in several ways has to be decoded to be found.
	f.plain = !strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r == '/' || r >= utf8.RuneSelf })
	return f
}

// Has reports whether a record is an event of the flow.
func (f *Finder) Has(record []byte) bool {
	// A record with an escape may hold the key in a form that is not searched for, so it is
	// decoded.
	if f.plain && !bytes.Contains(record, f.bare) && !bytes.Contains(record, []byte(`\u`)) {
		return false
	}
	ev := &f.event
	return events.Decode(record, ev) == nil && ev.Kind != events.Tick && ev.Kind != events.LimitsSet && ev.FlowKey() == f.key
}
