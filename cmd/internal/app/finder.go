package app

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"weir/events"
)

// finder tells the records of one flow from others, most of them without decoding.
type finder struct {
	key   string
	bare  []byte // is in each record of the flow
	plain bool   // JSON writes bare in one way only
	event events.Event
}

func newFinder(key string) *finder {
	f := &finder{key: key, bare: []byte(strings.TrimPrefix(key, "agent:"))}
	// What JSON may write in several ways has to be decoded to be found.
	f.plain = !strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r == '/' || r >= utf8.RuneSelf })
	return f
}

func (f *finder) has(record []byte) bool {
	if f.plain && !bytes.Contains(record, f.bare) && !bytes.Contains(record, []byte(`\u`)) {
		return false
	}
	ev := &f.event
	return events.Decode(record, ev) == nil && ev.Kind != events.Tick && ev.Kind != events.LimitsSet && ev.FlowKey() == f.key
}
