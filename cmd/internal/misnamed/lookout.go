// Package misnamed finds misspelled fields in incoming events.
package misnamed

import (
	"sync/atomic"

	"weir/events"
)

// Lookout looks for misnamed fields at little cost: only an event that lacks what rules need is
// read once more, which takes some ten times as long as the first time, and after many in vain
// few are. A nil *Lookout looks at nothing. Many goroutines may use one.
type Lookout struct {
	Report func(ev *events.Event, near events.Nearby) // of each event with such a name, with the first of them
	Every  bool                                       // look at each event, whatever it lacks

	vain atomic.Int64 // events that lack something, without those that were reported
}

// A producer that leaves fields out, and has others of its own, is not misspelling them. So
// after mostVain in vain only each of seldom is looked at, for there may be another producer; one
// that is found has the next one looked at, too.
const (
	mostVain = 1000
	seldom   = 512
)

// Look looks at an event, of which record is the text.
func (l *Lookout) Look(record []byte, ev *events.Event) {
	if l == nil || !l.Every && (!ev.Lacks() || l.passes()) {
		return
	}
	if near := events.Misnamed(record); len(near) > 0 {
		l.Report(ev, near[0])
	} else {
		l.vain.Add(1)
	}
}

// passes reports whether an event is not looked at, though it lacks something.
func (l *Lookout) passes() bool {
	n := l.vain.Load()
	if n < mostVain || n%seldom == 0 {
		return false
	}
	l.vain.Add(1)
	return true
}
