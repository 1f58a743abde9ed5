package pump

import "weir/events"

// frontier is how far the log is folded. The goroutine of Batch moves it on.
type frontier struct {
	next     int64        // first offset that is not folded
	appended events.Stamp // of the record at hand

	// An owner uses it to check that the topic is still the one that it folded. A topic that was
	// created again has another record at that offset (decision 23).
	last struct { // record that was folded
		offset int64
		sum    uint64
		known  bool
	}
	// weir repeats the limits on a topic, so that an owner that begins in the middle reads them before
	// the events that they judge. These two fields determine when the next copy is due.
	limits struct { // that were set last
		at    events.Stamp // when the log took them
		since int64        // events after them
	}
}
