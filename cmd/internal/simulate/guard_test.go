package simulate

import (
	"weir/events"
	"weir/sink/guard"
)

// watcher is a guard that follows the verdicts, now and then from a place that it has been
// at before, beside a plain list of all that it has read.
// It reads in the goroutine of the world, at its own pace and late as dispatchers are.
type watcher struct {
	// What is tried: the table as dispatchers hold it.
	table *guard.Table
	// By partition, where it reads on. It may go back, for a stream that breaks off begins again at an
	// event that was shown before.
	next  []int64
	fresh map[string]*events.Verdict // by order, the latest that was read
}

// turn reads on a little in one partition, and then asks the table about the last calls that were made.
// Between the list and the table two things have to hold: what the table refuses is refused by
// an order that stands and matches, and nothing that a fresh order refuses is allowed.
func (g *watcher) turn(w *world) {
	if g.table == nil {
		g.table, g.next, g.fresh = new(guard.Table), make([]int64, len(w.verdicts)), make(map[string]*events.Verdict)
	}
	partition := w.rand.IntN(len(w.verdicts))
	log := w.verdicts[partition]
	if w.rand.IntN(4) == 0 {
		g.next[partition] = max(0, g.next[partition]-int64(w.rand.IntN(6)))
	}
	// A few at a time, so that it mostly knows less than there is.
	for n := w.rand.IntN(12); n > 0 && g.next[partition] < log.end(); n-- {
		e := &log.entries[g.next[partition]]
		g.next[partition]++
		if e.value == "" {
			continue
		}
		v := new(events.Verdict)
		must(events.DecodeVerdict([]byte(e.value), v))
		g.table.Take(v)
		// The first part of an id names the order, the rest is the revision, see decision 45. Verdicts
		// of one order that come again, or late, must not replace a later revision.
		order := v.ID[:16]
		if old := g.fresh[order]; old == nil || old.Revision <= v.Revision {
			g.fresh[order] = v
		}
	}
	now := events.StampOf(w.clock.Now())
	if w.rand.IntN(3) == 0 {
		// Orders that have expired are forgotten by it; nothing else may change.
		g.table.Sweep(now)
	}
	for i := range w.traffic.calls {
		c, ok := guard.CallOf(&w.traffic.calls[i])
		if !ok {
			continue
		}
		refused := g.table.Refusing(&c, now)
		if refused != nil {
			if refused.ExpiresAt != 0 && events.Stamp(refused.ExpiresAt) <= now || !guard.Matches(refused, &c) {
				w.violate("a guard refuses by orders that stand", "%+v is refused at %d by %s", c, now, refused.AppendJSON(nil))
			}
			continue
		}
		// In any order: one that refuses is enough to break it.
		for _, v := range g.fresh {
			if g.refuses(v, &c, now) {
				w.violate("a guard never allows what a fresh order refuses", "%+v is allowed at %d in spite of %s", c, now, v.AppendJSON(nil))
				return
			}
		}
	}
}

// refuses says by the words of a verdict alone whether it refuses a call. It is written a second
// time, so that a fault in the table is not asked whether it is one.
func (g *watcher) refuses(v *events.Verdict, c *guard.Call, now events.Stamp) bool {
	return (v.Action == "throttle" || v.Action == "deny" || v.Action == "hold" || v.Action == "halt") && v.Mode == "enforce" && guard.Matches(v, c) && (v.ExpiresAt == 0 || events.Stamp(v.ExpiresAt) > now)
}
