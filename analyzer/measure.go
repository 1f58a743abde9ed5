package analyzer

import (
	"slices"
	"time"

	"weir/analyzer/rules"
	"weir/events"
)

// The measures of the table that take more than a field of the flow.

// uncorrelated counts calls between agents whose producer names no flow. The flow that it is
// kept under was made up then.
func uncorrelated(_ *Flow, m *moment, _ *rules.Setting) int64 {
	if m.hop && m.ev.CorrelationID == "" {
		return 1
	}
	return 0
}

// selfCall counts calls of which it is known that they give work away. Who speaks twice in
// a row in a group chat looks like a caller of itself and is none.
func selfCall(_ *Flow, m *moment, set *rules.Setting) int64 {
	if m.hop && m.from == m.to && (set.All || m.ev.TransferMode == events.ReturnToCaller) {
		return 1
	}
	return 0
}

// stackDepth is the depth of the collapsed call stack.
func stackDepth(f *Flow, set *rules.Setting) int64 {
	if set.Extends {
		return f.heldDepth()
	}
	return f.depth()
}

// returnedShare is how many parties that returned count as one with Extends: a hub that gives out
// forty briefs one after the other is work, and still not without end.
const returnedShare = 4

// uniqueSessions counts the parties. Those that were sent out together count as the first of
// them. With Extends, returnedShare of those that returned count as one.
func uniqueSessions(f *Flow, set *rules.Setting) int64 {
	n := int64(f.unique)
	returned := int64(0)
	for i := range f.parties {
		switch flags := f.parties[i].flags; {
		case flags&partyBeside != 0:
			n--
		case flags&(partyHanded|partyPlaced) == partyHanded|partyPlaced && !f.onStack(uint8(i)):
			returned++
		}
	}
	if set.Extends {
		n -= returned - returned/returnedShare
	}
	return n
}

// flowDuration is the age of the episode in seconds, or with Extends the time since the last
// progress. The windows are searched only where the age has reached a threshold.
func flowDuration(f *Flow, at events.Stamp, set *rules.Setting) int64 {
	age := int64(f.ageOf(f.begun(), at).Seconds())
	if !set.Extends || age < min(set.Warn, set.Stop) {
		return age
	}
	return min(age, int64(at.Sub(f.progressed(f.begun())).Seconds()))
}

// progressed returns when a call was made last that changed something or brought something new;
// the start of the episode where none is remembered.
func (f *cast) progressed(start events.Stamp) (at events.Stamp) {
	at = start
	for i := range f.parties {
		p := &f.parties[i]
		if c := p.calls.lastProgress(); c >= 0 {
			at = max(at, start+events.Stamp(p.calls[c].at))
		}
	}
	return at
}

// lastProgress returns the last call of the party that changed something or brought something
// new; -1 for none that is remembered. In a full window only the newer half is looked at: what
// the older half has nothing before it to compare with may be old.
func (w window) lastProgress() int {
	oldest := 0
	if len(w) == maxCalls {
		oldest = maxCalls / 2
	}
	for i := len(w) - 1; i >= oldest; i-- {
		if w.progress(i) {
			return i
		}
	}
	return -1
}

// revisits is how often control has come back to the party that it came back to just then.
func revisits(f *Flow, m *moment, _ *rules.Setting) int64 {
	if !m.hop || !m.returned {
		return 0
	}
	return int64(f.parties[m.to].revisits)
}

// calledSoFar is how often agents have called who is called now.
func calledSoFar(f *Flow, m *moment, _ *rules.Setting) int64 {
	if !m.hop {
		return 0
	}
	return int64(f.parties[m.to].called)
}

// callerRate is the rate of who makes the hop at hand.
func callerRate(f *Flow, m *moment, set *rules.Setting) int64 { return f.countRate(m, set, m.from) }

// flowRate counts the hops of the window, or all of an episode that is no older than one.
// The latter is what systems do that count from the first call of a task and not in a sliding
// window.
func flowRate(f *Flow, m *moment, set *rules.Setting) int64 {
	if !set.All {
		return f.countRate(m, set, none)
	}
	// Behind the first window nothing is counted, and the order ends with it.
	end := f.begun().Add(time.Duration(set.Window) * time.Second)
	if !m.hop || m.at >= end {
		return 0
	}
	m.fits = end
	return int64(f.hops)
}

// hopsKept bounds the rates: of so many hops the time is kept, or the number is counted.
func hopsKept(f *Flow) int64 { return max(int64(len(f.rate)), int64(f.hops)) }

// countRate counts the hops of a caller (of all, for none) in the window that ends
// now, and notes when so few of them are left that one more fits.
func (f *rates) countRate(m *moment, set *rules.Setting, caller uint8) (n int64) {
	if !m.hop {
		return 0
	}
	n, m.fits = f.hopsIn(m.at, set.Window, caller, set.Stop-1)
	return n
}

// hopsIn counts the hops of a caller (of all, for none) in the window, which ends at a time and
// is given in seconds. It returns when fewer than most of them remain if no more come.
// It walks from the newest, so below ends as the time at which the hop leaves that is one too
// many.
func (f *rates) hopsIn(at events.Stamp, window int64, caller uint8, most int64) (n int64, below events.Stamp) {
	from := int64(at-f.begun()) - window*1000
	below = at
	for i := len(f.rate) - 1; i >= 0 && int64(f.rate[i].at) > from; i-- {
		if r := &f.rate[i]; caller == none || r.caller == caller {
			if n++; n <= max(1, most) {
				below = f.begun() + events.Stamp(int64(r.at)+window*1000)
			}
		}
	}
	return n, below
}

// repeatedDelegation speaks of the message at hand alone, or one that repeats would stop all
// others.
func repeatedDelegation(f *Flow, m *moment, _ *rules.Setting) int64 {
	if m.delegation < 0 {
		return 0
	}
	return f.repeats(&f.delegations[m.delegation], m)
}

// repeats is how often the message was sent, as far as it is proof. Where the log has neither
// work nor answers, nothing proves that nothing changes. It then takes five times as many, as for
// tool calls without results. Within seconds, in which no caller polls, it takes twice as many.
func (f *rates) repeats(d *delegation, m *moment) int64 {
	n := int64(d.count)
	if m.idle || d.answer != 0 {
		return n
	}
	if made, _ := f.hopsIn(m.at, hurried, d.from, rules.Off); made >= n {
		return n / 2
	}
	return n / 5
}

// hurried is how many seconds a message that is sent again and again has for each to count.
const hurried = 30

// noWorkBurst counts the hops of the streak that lie within the window.
func noWorkBurst(f *Flow, m *moment, set *rules.Setting) (n int64) {
	if !m.hop || !m.idle {
		return 0
	}
	// Times of hops are milliseconds since the episode began.
	from := int64(m.at-f.begun()) - set.Window*1000
	for _, at := range f.streakAt {
		if int64(at) > from {
			n++
		}
	}
	return n
}

// repetition counts the calls like the one at hand, with a result like its own,
// among the party's last.
// Calls that were made before the result of the last one was known count with it: several calls
// sent at once are one attempt.
func repetition(f *Flow, m *moment, set *rules.Setting) (n int64) {
	if m.callAt < 0 || m.retry {
		return 0
	}
	p := &f.parties[m.from]
	c := &p.calls[m.callAt]
	last := uint32(0) // ordinal of the result of the last one that was counted
	for i := max(0, m.callAt+1-int(set.Window)); i <= m.callAt; i++ {
		if c.flags&callTests != 0 && p.calls.changes(i) {
			n = 0 // tests that fail as before after a change are another attempt
		}
		if o := &p.calls[i]; sameOutcome(o, c) && o.flags&callRetry == 0 && p.calls.decided(o) > last {
			n++
			last = o.done
		}
	}
	// A look at what was changed in between may well show the same, such as a test that still
	// fails.
	if n > 1 && p.calls.since(m.callAt, p.calls.changes) {
		n = (n + 1) / 2
	}
	return n
}

// repetitionBlind counts calls like the one at hand that have no result in the
// log; with IgnoreResults whatever their result was.
func repetitionBlind(f *Flow, m *moment, set *rules.Setting) (n int64) {
	if m.callAt < 0 || m.retry {
		return 0
	}
	p := &f.parties[m.from]
	c := &p.calls[m.callAt]
	for i := max(0, m.callAt+1-int(set.Window)); i <= m.callAt; i++ {
		// Calls without known arguments are like no other, see sameCall.
		o := &p.calls[i]
		if sameCall(o, c) && o.flags&callRetry == 0 && (set.IgnoreResults || o.flags&callHashed == 0) {
			n++
		}
	}
	return n
}

// hotPolling counts the calls like the one at hand that the window holds and that rightly come
// again (Tool.RetryOf), and notes when the oldest of them leaves it.
func hotPolling(f *Flow, m *moment, set *rules.Setting) (n int64) {
	if m.callAt < 0 || !m.retry {
		return 0
	}
	p := &f.parties[m.from]
	c := &p.calls[m.callAt]
	window := time.Duration(set.Window) * time.Second
	for i := m.callAt; i >= 0; i-- {
		o := &p.calls[i]
		// A call without a result is no look that the caller could have waited with: it still
		// runs, or its server asked for it to be made once more.
		if !sameCall(o, c) || o.flags&callRetry == 0 || i != m.callAt && o.flags&callResult == 0 {
			continue
		}
		if int64(c.at)-int64(o.at) >= window.Milliseconds() {
			break
		}
		if n++; n <= max(1, set.Stop-1) {
			m.fits = f.begun().Add(time.Duration(o.at)*time.Millisecond + window)
		}
	}
	return n
}

// repetitionAny is repetitionBlind for guards that never look at results. It has a row of its
// own so that both may be on (decision 19).
func repetitionAny(f *Flow, m *moment, set *rules.Setting) int64 {
	any := rules.Setting{Window: set.Window, IgnoreResults: true}
	return repetitionBlind(f, m, &any)
}

// chainDepth is per party, because honest work of five agents would add up to a chain that
// no agent made (decision 18).
//
// With Extends only the calls since the last progress count, as far as the window reaches back.
func chainDepth(f *Flow, m *moment, set *rules.Setting) int64 {
	if m.from == none {
		return 0
	}
	p := &f.parties[m.from]
	n := int64(p.chain)
	if !set.Extends || n < min(set.Warn, set.Stop) {
		return n
	}
	if c := p.calls.lastProgress(); c >= 0 {
		return min(n, int64(len(p.calls)-1-c))
	}
	return n
}

// circling triggers only after a call that made points, so that earlier points do not stop a
// party that does something new.
func circling(f *Flow, m *moment, _ *rules.Setting) int64 {
	if m.callAt < 0 || f.parties[m.from].calls[m.callAt].flags&callScored == 0 {
		return 0
	}
	return int64(f.parties[m.from].points)
}

// toolCycle is the number of rounds of the cycle that the call at hand goes on with, of a
// period from lo to hi.
func (m *moment) toolCycle(f *Flow, lo, hi int) int64 {
	if m.callAt < 0 {
		return 0
	}
	n, _ := rounds(f.parties[m.from].cycleRun[:], lo, hi)
	return n
}

// delegationDepth counts the delegations that a call comes after, as callers do that send
// the figure along: the first has none before it.
func delegationDepth(f *Flow, m *moment, _ *rules.Setting) int64 {
	return max(f.delegated(), m.ev.DelegationDepth)
}

// delegated is how many delegations came before the one that gave control to where it is.
// At a depth of 2 the first delegation was made, which has none before it.
func (f *callStack) delegated() int64 { return max(0, f.depth()-2) }

// The parties that orders of the table are about.

// roundPair is the pair of the round that ended.
func roundPair(f *Flow, m *moment) (events.ScopeKind, uint8, uint8) {
	if m.stalePair >= 0 {
		return events.ScopePair, f.pairs[m.stalePair].from, f.pairs[m.stalePair].to
	}
	a, b := f.ordered(m.from, m.to)
	return events.ScopePair, a, b
}

// ringPair is the pair that calls back and forth; a cycle among three or more has none.
func ringPair(f *Flow, m *moment) (events.ScopeKind, uint8, uint8) {
	_, period := rounds(f.pairRun[:], 2, maxRing)
	// Calls back and forth are a cycle of two with the parties turned round.
	if n := len(f.ring); period != 2 || f.ring[n-1].from != f.ring[n-2].to || f.ring[n-1].to != f.ring[n-2].from {
		return events.ScopeFlow, none, none
	}
	a, b := f.ordered(m.from, m.to)
	return events.ScopePair, a, b
}

// Subjects keep orders of one reason and scope apart: a flow may work at several tasks.
func taskOf(ev *events.Event) string         { return ev.TaskID }
func conversationOf(ev *events.Event) string { return ev.ConversationID }

// What people are shown of a flow, whatever its last event was.

// hopsSoFar is the calls between agents of the episode.
func hopsSoFar(f *Flow, _ *rules.Setting) int64 { return int64(f.hops) }

// mostRepeated is about the message that was sent most, whichever was sent last.
func mostRepeated(f *Flow, _ *rules.Setting) (most int64) {
	for i := range f.delegations {
		most = max(most, int64(f.delegations[i].count))
	}
	return most
}

// widest is the greatest value among the parties.
func widest(value func(*party) int64) func(*Flow, *rules.Setting) int64 {
	return func(f *Flow, _ *rules.Setting) (most int64) {
		for i := range f.parties {
			most = max(most, value(&f.parties[i]))
		}
		return most
	}
}

// longestRun is the longest run of one tool of any party: of errors, or of results that are none
// and of storms.
func longestRun(failed bool) func(*Flow, *rules.Setting) int64 {
	return widest(func(p *party) (n int64) {
		for _, x := range p.runs {
			if (x.failed && !x.storm()) == failed {
				n = max(n, int64(x.n))
			}
		}
		return n
	})
}

// pace widens limits for parties that take their time: ×1 when the median gap of
// the last calls is below 20 s, ×2 below a minute, ×6 beyond. Twenty seconds is
// one ordinary call of a model. A call that itself took long waits for something, and counts as
// ×2 at least, unless it failed: who runs into a timeout again and again waits for nothing.
// A party that makes a call a minute needs longer for as many rounds. For rounds of a pair it
// is the callee whose pace counts, since it does the work.
func (f *Flow) pace(m *moment) int64 {
	var gaps [8]int64
	n := 0
	who := m.from
	if m.stalePair >= 0 && m.stalePair < len(f.pairs) {
		who = f.pairs[m.stalePair].to
	}
	if who == none {
		return 1
	}
	p := &f.parties[who]
	least := int64(1)
	if m.ev != nil && m.ev.Kind == events.ToolResult && who == m.from && m.callAt >= 0 {
		if c := &p.calls[m.callAt]; c.flags&callError == 0 && f.slow(m, c) {
			least = 2
		}
	}
	for i := len(p.calls) - 1; i > 0 && n < len(gaps); i-- {
		// Gaps between calls of tools, which is what a party's work shows itself by.
		gaps[n] = int64(p.calls[i].at) - int64(p.calls[i-1].at)
		n++
	}
	if n == 0 {
		return least
	}
	slices.Sort(gaps[:n])
	switch median := gaps[n/2]; {
	case median < 20_000:
		return least
	case median < 60_000:
		return 2
	}
	return 6
}

// hammering is how often calls were tried against the order with most attempts, of those that
// refuse for good. A throttled caller may ask whether it is time, and a held flow may ask while
// it waits.
func hammering(f *Flow, m *moment, _ *rules.Setting) int64 {
	if m.from == none {
		return 0
	}
	return mostDefied(f)
}

// mostDefied leaves out the order about hammering itself, or it would feed on its own
// refusals.
func mostDefied(f *Flow) (most int64) {
	for i := range f.orders {
		if o := &f.orders[i]; o.Binds() && o.Action != events.Throttle && o.rule != ruleOfTries {
			most = max(most, int64(o.Attempts))
		}
	}
	return most
}
