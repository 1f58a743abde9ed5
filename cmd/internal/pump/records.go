package pump

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/events"
)

// TickRecord is what a log is given when nothing else comes: it says how late it is.
// The time is in milliseconds.
func TickRecord(now events.Stamp) []byte {
	tick := events.Event{ID: fmt.Sprintf("tick:%d", now), Time: now, Kind: events.Tick}
	return tick.AppendJSON(nil)
}

// TurnBackRecord sets the time of a log back after a clock was ahead. It is a tick whose observed_time
// is the wrong time.
func TurnBackRecord(from, to events.Stamp) []byte {
	tick := events.Event{ID: fmt.Sprintf("tick:%d:back", to), Time: to, Observed: from, Kind: events.Tick}
	return tick.AppendJSON(nil)
}

// ReportingRecord is a tick that says that agents report about themselves in another partition. The
// flows of this partition then report about them, too (see analyzer.Partition). Its time is the time
// that the log has already seen.
func ReportingRecord(seen events.Stamp) []byte {
	tick := events.Event{ID: fmt.Sprintf("tick:%d:reporting", seen), Time: seen, Kind: events.Tick, Tags: []string{reporting}}
	return tick.AppendJSON(nil)
}

// reporting is the tag of ticks which say so.
const reporting = "reporting"

// LimitsRecord is what sets limits in a log. ParseLimits reads the document in it.
// The document is the limits as JSON, whole: what they say does not depend on the version of
// weir's profiles that reads them later.
func LimitsRecord(limits analyzer.Limits, now events.Stamp) []byte {
	ev := events.Event{ID: fmt.Sprintf("limits:%s:%d", limits.Version, now), Time: now, Kind: events.LimitsSet, Limits: limitfile.FormatJSON(limits)}
	return ev.AppendJSON(nil)
}

// ParseLimits reads the document of a limits.set, as Options.Parse.
// Its errors name limits.set in the place of a file.
func ParseLimits(document []byte) (analyzer.Limits, error) {
	return limitfile.ParseJSON("limits.set", document)
}

// LimitsParser returns ParseLimits for all partitions of a process, which are set the same limits: it
// keeps what it has read last. Any goroutine may call what it returns.
func LimitsParser() func(document []byte) (analyzer.Limits, error) {
	var mu sync.Mutex
	var last []byte
	var limits analyzer.Limits
	return func(document []byte) (analyzer.Limits, error) {
		mu.Lock()
		defer mu.Unlock()
		if last != nil && bytes.Equal(document, last) {
			return limits, nil
		}
		l, err := ParseLimits(document)
		if err == nil {
			last, limits = bytes.Clone(document), l
		}
		return l, err
	}
}

// MaxLag is how many records a pump may be behind its log and still be ready.
// Beyond it /readyz says that weir is behind.
const MaxLag = 10_000

// agentShare is the part of the memory that agents are given.
// Each stage has a share of its own, so that neither pushes the other's records out of memory.
const agentShare = 4

// SplitMemory shares a budget between flows and agents.
func SplitMemory(total int64) (flows, agents int64) {
	agents = total / agentShare
	return total - agents, agents
}

// Finder separates the records of one flow from others, most of them without decoding. It is for one
// goroutine.
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

// OfFlow returns fn for the events of a flow alone; "" is all records.
func OfFlow(key string, fn func(line []byte, appended events.Stamp) bool) func(line []byte, appended events.Stamp) bool {
	if key == "" {
		return fn
	}
	find := NewFinder(key)
	return func(line []byte, appended events.Stamp) bool { return !find.Has(line) || fn(line, appended) }
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
