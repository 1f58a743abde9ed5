package pump

import (
	"slices"
	"strings"
	"time"

	"weir/analyzer"
	"weir/events"
)

// heard has the flows whose events are dated more than analyzer.MaxSkew before the log took
// them: the clock of their machine is slow, or an old log is read. The times in their records
// do not say when weir heard of them last. The fold does not use it. It is not kept across a
// restart.
type heard struct {
	flows map[string]hearing
	// began is the first time that is known, latest the last one. pruned is when flows beyond the
	// idle time were dropped.
	began, latest, pruned events.Stamp
	// dropped is when a flow was heard of that found no room.
	dropped events.Stamp
}

// hearing is what is known of one such flow. Times are those of the log but for last.
type hearing struct {
	at    events.Stamp // of the last event
	asked events.Stamp // of the last check; 0 for none
	last  events.Stamp // what the latest event says
}

const (
	mostHeard  = 10_000      // flows at most
	pruneEvery = time.Second // flows beyond the idle time are looked for so often at most

	// slowClock is how far a clock may be behind for a flow to count as live by telemetry.
	// Events that are older count as an old log. A check is never an old log.
	slowClock = time.Hour
)

// note takes in an event of a flow whose latest event is of the time last.
func (h *heard) note(key string, ev *events.Event, last events.Stamp, idle time.Duration) {
	at := ev.Appended
	if at == 0 { // the log has no time of its own
		return
	}
	if h.began == 0 {
		h.began = at
	}
	h.latest = max(h.latest, at)
	if last.Add(analyzer.MaxSkew) >= at {
		delete(h.flows, key)
		return
	}
	was, known := h.flows[key]
	if !known {
		if len(h.flows) >= mostHeard && !h.prune(idle) {
			h.dropped = at
			return
		}
		if h.flows == nil {
			h.flows = make(map[string]hearing)
		}
		key = strings.Clone(key)
	}
	was.at, was.last = at, last
	if ev.Ask {
		was.asked = at
	}
	h.flows[key] = was
}

// prune drops flows of which nothing was heard for the idle time, and reports whether there is
// room.
func (h *heard) prune(idle time.Duration) bool {
	if h.latest.Sub(h.pruned) < pruneEvery {
		return false
	}
	h.pruned = h.latest
	for key, was := range h.flows {
		if was.at.Add(idle) <= h.latest {
			delete(h.flows, key)
		}
	}
	return len(h.flows) < mostHeard
}

// alive reports whether a flow whose latest event is of the time last counts as live though that
// is beyond the idle time.
func (h *heard) alive(key string, last events.Stamp, idle time.Duration) bool {
	if was, known := h.flows[key]; known {
		return h.lives(was, idle)
	}
	// Nothing is known of what came before the start.
	return h.began.Add(idle) > h.latest && last.Add(idle+slowClock) > h.latest
}

func (h *heard) lives(was hearing, idle time.Duration) bool {
	return was.asked.Add(idle) > h.latest || was.at.Add(idle) > h.latest && was.last.Add(idle+slowClock) > h.latest
}

// Doubtful returns the flows that weir heard of within the idle time only by events that are
// much older, in order. Live does not return them. dropped says that there were more than weir
// keeps. Any goroutine may call it.
func (p *Pump) Doubtful() (flows []string, dropped bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, idle := &p.heard, p.engine.Limits().Flow.Idle
	for key, was := range h.flows {
		if was.at.Add(idle) > h.latest && !h.lives(was, idle) {
			flows = append(flows, key)
		}
	}
	slices.Sort(flows)
	return flows, h.dropped != 0 && h.dropped.Add(idle) > h.latest
}
