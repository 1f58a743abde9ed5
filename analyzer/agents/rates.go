package agents

import (
	"slices"

	"weir/analyzer/activity"
	"weir/analyzer/rules"
	"weir/events"
)

// count counts the event for every row that counts the like.
func (e *orderWriter) count(a *Agent, m *moment, fx *activity.Effects) {
	for _, r := range e.counting {
		switch {
		case !e.countsEvent(r, a, m.ev):
		case Rules[r].Coarse:
			e.countCap(r, a, m, fx)
		default:
			e.countStamp(r, a, m, fx)
		}
	}
}

// countsEvent reports whether the row, which is on, counts the event, which is about a.
// The key shows what a is, and the event only has its kind: messages count for
// their receiver, refused calls for their caller.
func (e *settings) countsEvent(r RuleID, a *Agent, ev *events.Event) bool {
	switch Rules[r].Counts {
	case CountedEscaped:
		return ev.Kind == events.AgentCall && !a.isProject() && (e.limits.Rules[r].All || escaped(ev))
	case CountedMessages:
		return ev.Kind == events.AgentCall && !a.isProject()
	case CountedProject:
		return ev.Kind == events.AgentCall && a.isProject()
	case CountedOpened:
		return work(ev) == activity.WorkOpened && ev.Kind == events.AgentActivity && !a.isProject()
	case CountedWakes:
		if !a.isWake() || ev.Kind != events.AgentActivity {
			return false
		}
		w := work(ev)
		return w == activity.WorkWoken || w == activity.WorkBegun || w == activity.WorkCame && len(a.notes) > 0
	case CountedRefused:
		return work(ev) == activity.WorkRefused && ev.Kind == events.AgentActivity && !a.isProject()
	}
	return false
}

// escaped reports whether no named flow counts the call.
// A call under a derived id is in a flow, but no other party knows the flow by that id.
func escaped(ev *events.Event) bool {
	return ev.CorrelationID == "" || ev.CorrelationSource == events.CorrelationDerived
}

// countRefusals counts calls of the agent that an order refused: as many as the record
// reports.
// One report stands for all tries of up to a minute (decision 75), all counted at the time
// of the last. More than maxStamps of them change nothing.
func (e *orderWriter) countRefusals(a *Agent, m *moment, fx *activity.Effects) {
	for range min(max(1, m.ev.AgentState.TotalUpdates), maxStamps) {
		for i := range a.orders {
			// The flow whose order refused the call has reported the attempt.
			if o := &a.orders[i]; o.refuses(events.Halt, m.when) && !o.Early(m.when, false, e.terms.Grace) {
				o.Attempt()
			}
		}
		e.count(a, m, fx)
	}
}

// on reports whether the row says anything at all.
func (e *settings) on(r RuleID) bool { return !e.limits.Rules[r].Mute() }

// countStamp counts by true times.
// An event too late to count fills no window, and nothing comes of it.
func (e *orderWriter) countStamp(r RuleID, a *Agent, m *moment, fx *activity.Effects) {
	set := &e.limits.Rules[r]
	width := windowOf(set)
	stamps := a.stampsOf(r)
	all, full := slide(*stamps, m.when, width)
	*stamps = all
	e.judge(r, a, m, &tally{n: int64(len(full)), stamps: full, width: width}, fx)
}

// countCap counts in buckets, for numbers and windows that are too large for stamps.
// The window ends with the newest bucket, also for an event that comes late.
func (e *orderWriter) countCap(r RuleID, a *Agent, m *moment, fx *activity.Effects) {
	if !a.caps.count(m.when, bucketOf(&e.limits.Rules[r])) {
		return
	}
	t := tally{n: a.caps.sum(a.caps.newest), buckets: &a.caps}
	e.judge(r, a, m, &t, fx)
}

// stampsOf is where the row keeps its times. There is one row of each kind, so no two share a
// list.
func (a *Agent) stampsOf(r RuleID) *[]events.Stamp {
	switch Rules[r].Counts {
	case CountedOpened:
		return &a.opened
	case CountedRefused:
		return &a.tries
	}
	return &a.messages
}

// tallyAt is what a row counts in the window that ends at a time, whatever comes after.
// It may put a cap into other buckets, and leaves all else as it is.
func (e *settings) tallyAt(r RuleID, a *Agent, at events.Stamp) tally {
	set := &e.limits.Rules[r]
	if Rules[r].Counts.OfTree() {
		return tally{n: a.treeValue(Rules[r].Counts, nil, at), ends: a.treeEnds(e)}
	}
	if Rules[r].Coarse {
		a.caps.rescale(bucketOf(set))
		return tally{n: a.caps.sum(at / a.caps.width), buckets: &a.caps}
	}
	width := windowOf(set)
	stamps := *a.stampsOf(r)
	for len(stamps) > 0 && stamps[0] <= at-width {
		stamps = stamps[1:]
	}
	return tally{n: int64(len(stamps)), stamps: stamps, width: width}
}

// tally is what one row counts in one window.
// Exactly one of stamps, buckets and ends says when less of it is left.
type tally struct {
	n       int64
	stamps  []events.Stamp // what is counted, or
	width   events.Stamp   // of the window
	buckets *agentCap
	ends    events.Stamp // of what is counted until it is over as a whole
}

// below is when less than k of it is left if nothing comes, for a k of which so much is
// there.
// It is 0 when there is less than k already; who gets that drops the order.
func (t *tally) below(k int64) events.Stamp {
	k = max(k, 1)
	if t.ends != 0 {
		return t.ends
	}
	if t.buckets != nil {
		return t.buckets.below(k)
	}
	if i := t.n - k; i >= 0 && i < int64(len(t.stamps)) {
		return t.stamps[i] + t.width
	}
	return 0
}

// slide puts a time into the stamps, which stay sorted, and returns the part of them that
// is the fullest window with the time in it. In order that is the window which ends
// there; a late event may be the one that was missing in a window that ends after it.
// What is two windows old is forgotten, and the oldest when there are too many.
// All is the whole list, to be kept. Full is a part of it, good until the next call; it is nil
// for a time that is too late to count.
func slide(stamps []events.Stamp, at, width events.Stamp) (all, full []events.Stamp) {
	i := len(stamps)
	for i > 0 && stamps[i-1] > at {
		i--
	}
	newest := at
	if n := len(stamps); n > 0 {
		newest = max(at, stamps[n-1])
	}
	drop := 0
	for drop < len(stamps) && stamps[drop] <= newest-2*width {
		drop++
	}
	if len(stamps)-drop == maxStamps {
		drop++
	}
	if at <= newest-2*width || i < drop {
		return stamps, nil // too late to count
	}
	if drop > 0 {
		stamps = stamps[:copy(stamps, stamps[drop:])]
		i -= drop
	}
	stamps = slices.Insert(stamps, i, at)
	first, best, end := 0, 0, 0
	for last := i; last < len(stamps) && stamps[last] < at+width; last++ {
		for stamps[first] <= stamps[last]-width {
			first++
		}
		// Of windows as full as each other the last one counts, which ends last.
		if last+1-first >= end-best {
			best, end = first, last+1
		}
	}
	return stamps, stamps[best:end]
}

// agentCap counts messages in buckets of a sixtieth of the window: what is counted is
// between fifty-nine sixtieths of the window and all of it.
// It takes a few hundred bytes for any number of messages and any window (decision 41).
type agentCap struct {
	width  events.Stamp // of a bucket; 0 before anything was counted
	newest events.Stamp // number of the newest bucket
	counts [capBuckets]uint32
}

// windowOf is the width of the window of the row, in milliseconds; never 0, as bucketOf is not.
func windowOf(set *rules.Setting) events.Stamp { return max(1, rules.StampOf(set.Window)) }

// bucketOf is the width of a bucket. Times are divided by it.
func bucketOf(set *rules.Setting) events.Stamp { return max(1, windowOf(set)/capBuckets) }

// place is where a bucket is counted; buckets are numbered from 1970 on.
func place(bucket events.Stamp) int { return int(bucket % capBuckets) }

// count counts one message; false when it is too late to be counted.
func (c *agentCap) count(at, width events.Stamp) bool {
	c.rescale(width)
	return c.add(at/width, 1)
}

// add counts n in the bucket; false for one that has left the window. Buckets in between are
// emptied, since they held what is a whole window older.
func (c *agentCap) add(bucket events.Stamp, n uint32) bool {
	if bucket <= c.newest-capBuckets {
		return false
	}
	if bucket-c.newest >= capBuckets {
		c.counts, c.newest = [capBuckets]uint32{}, bucket
	}
	for c.newest < bucket {
		c.newest++
		c.counts[place(c.newest)] = 0
	}
	if have := &c.counts[place(bucket)]; *have < 1<<31 {
		*have += n
	}
	return true
}

// rescale puts what was counted into buckets of another width, after a change of the
// window.
// What was counted goes to where its bucket began, so that it leaves the window early rather
// than late.
func (c *agentCap) rescale(width events.Stamp) {
	if c.width == width {
		return
	}
	old := *c
	*c = agentCap{width: width}
	if old.width == 0 {
		return
	}
	for b := max(0, old.newest-capBuckets+1); b <= old.newest; b++ {
		if n := old.counts[place(b)]; n > 0 {
			c.add(b*old.width/width, n)
		}
	}
}

// sum is what was counted in the window whose last bucket is last.
// What lies in buckets behind last counts, too: the log has come there already.
func (c *agentCap) sum(last events.Stamp) (n int64) {
	for b := max(0, last-capBuckets+1, c.newest-capBuckets+1); b <= c.newest; b++ {
		n += int64(c.counts[place(b)])
	}
	return n
}

// below is when less than k of what was counted is left.
// It is when the bucket leaves the window with which k were still there.
func (c *agentCap) below(k int64) events.Stamp {
	after := int64(0) // counted in newer buckets
	for b := c.newest; b >= 0 && b > c.newest-capBuckets; b-- {
		after += int64(c.counts[place(b)])
		if after >= k {
			return (b + capBuckets) * c.width
		}
	}
	return 0
}
