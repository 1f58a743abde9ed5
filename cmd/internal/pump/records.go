package pump

import (
	"fmt"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/events"
)

// TickRecord is what a log is given when nothing else comes: it says how late it is.
func TickRecord(now events.Stamp) []byte {
	tick := events.Event{ID: fmt.Sprintf("tick:%d", now), Time: now, Kind: events.Tick}
	return tick.AppendJSON(nil)
}

// TurnBackRecord takes the time of a log back from what a clock that was ahead had told it:
// a tick that says what the time was taken for as well, as its observed_time.
func TurnBackRecord(from, to events.Stamp) []byte {
	tick := events.Event{ID: fmt.Sprintf("tick:%d:back", to), Time: to, Observed: from, Kind: events.Tick}
	return tick.AppendJSON(nil)
}

// LimitsRecord is what sets limits in a log. ParseLimits reads the document in it.
func LimitsRecord(limits analyzer.Limits, now events.Stamp) []byte {
	ev := events.Event{ID: fmt.Sprintf("limits:%s:%d", limits.Version, now), Time: now, Kind: events.LimitsSet, Limits: limitfile.FormatJSON(limits)}
	return ev.AppendJSON(nil)
}

// ParseLimits reads the document of a limits.set, as Options.Parse.
func ParseLimits(document []byte) (analyzer.Limits, error) {
	return limitfile.ParseJSON("limits.set", document)
}

// MaxLag is how many records a pump may be behind its log and still be ready.
const MaxLag = 10_000

// agentShare is the part of the memory that agents are given.
const agentShare = 4

// SplitMemory shares a budget between flows and agents.
func SplitMemory(total int64) (flows, agents int64) {
	agents = total / agentShare
	return total - agents, agents
}
