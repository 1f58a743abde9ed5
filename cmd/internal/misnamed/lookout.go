// Package misnamed looks for fields of events that are misspelled, wherever such events come in.
package misnamed

import (
	"sync/atomic"

	"weir/events"
)

// Lookout looks for misnamed fields at little cost: only an event that lacks what rules need is
// read once more, which takes some ten times as long as the first time, and after many in vain
// none is. A nil *Lookout looks at nothing. Many goroutines may use one.
type Lookout struct {
	Report func(ev *events.Event, near events.Nearby) // of each event with such a name, with the first of them
	Every  bool                                       // look at each event, whatever it lacks

	vain atomic.Int64
}

// mostVain is after how many looks in vain nothing is looked at any more: a producer that
// leaves fields out, and has others of its own, is not misspelling them.
const mostVain = 10_000

// Look looks at an event, of which record is the text.
func (l *Lookout) Look(record []byte, ev *events.Event) {
	if l == nil || !l.Every && (!ev.Lacks() || l.vain.Load() >= mostVain) {
		return
	}
	if near := events.Misnamed(record); len(near) > 0 {
		l.Report(ev, near[0])
	} else {
		l.vain.Add(1)
	}
}
