// Package reports keeps what flows report about their parties until it is sent to the agent stage. It sends only the
// last report of each party, in an order that depends on the log alone.
package reports

import (
	"unsafe"

	"weir/analyzer/activity"
)

// Waiting holds the reports about parties that were not yet sent to the agent stage: of each party
// of each flow only the last report, in the order in which the parties first came. The zero
// Waiting is empty.
type Waiting struct {
	list    []named
	byParty map[uint64]int32 // places in list
	names   []byte
}

// named is a report whose names are in the memory of all.
type named struct {
	activity.Report
	from, name, agent int // name and agent are one after the other
}

// Add takes over a report, which may stand in the place of an earlier one. It keeps nothing
// of what the report aliases.
func (w *Waiting) Add(r *activity.Report) {
	if r.Party == 0 {
		r.Identify()
	}
	if i, ok := w.byParty[r.Party]; ok {
		x := &w.list[i]
		if r.Did != 0 {
			x.Source, x.Did, x.Work = r.Source, max(x.Did, r.Did), r.Work
		}
		x.addTries(r)
		return
	}
	if w.byParty == nil {
		w.byParty = make(map[uint64]int32)
	}
	w.byParty[r.Party] = int32(len(w.list))
	x := named{Report: *r, from: len(w.names), name: len(r.Name), agent: len(r.Agent)}
	x.Name, x.Agent = "", ""
	w.names = append(append(w.names, r.Name...), r.Agent...)
	w.list = append(w.list, x)
}

// mostTries is up to which the tries of a party are summed up. No rule counts so far.
const mostTries = 1 << 15

// addTries adds the tries of another report about the party.
func (x *named) addTries(r *activity.Report) {
	if r.Tries > 0 {
		x.Tries, x.Tried, x.Nth = uint16(min(int(x.Tries)+int(r.Tries), mostTries)), max(x.Tried, r.Tried), r.Nth
	}
}

// Urge returns the tries of a party that must be sent at once: those of r and those that wait. The latter
// then wait no longer. Nothing of r is added to Waiting. The rest of the party's report stays and keeps
// its place, even if it has nothing more to send.
func (w *Waiting) Urge(r *activity.Report) activity.Report {
	now := *r
	if i, ok := w.byParty[r.Party]; ok {
		x := &w.list[i]
		x.addTries(r)
		now.Tries, now.Tried, now.Nth = x.Tries, x.Tried, x.Nth
		x.KeepWork()
	}
	return now
}

// Len returns how many reports wait.
func (w *Waiting) Len() int { return len(w.list) }

// At returns one of the reports that wait, good until the next Add.
func (w *Waiting) At(i int) activity.Report {
	x := &w.list[i]
	names := ""
	if n := x.name + x.agent; n > 0 {
		names = unsafe.String(&w.names[x.from], n)
	}
	r := x.Report
	r.Name, r.Agent = names[:x.name], names[x.name:]
	return r
}

// sizeReport is about what a report takes beside its names.
const sizeReport = 20

// mostBytes is about how much waits at most. With a third of it three times as much is passed on
// where many flows are at work; with twice as much, no less.
const mostBytes = 96 << 10

// Full reports whether so much waits that it has to be passed on at once, so that a
// checkpoint can hold what waits.
func (w *Waiting) Full() bool { return len(w.names)+sizeReport*len(w.list) >= mostBytes }

// Reset forgets all of them.
func (w *Waiting) Reset() {
	clear(w.byParty)
	w.list, w.names = w.list[:0], w.names[:0]
}
