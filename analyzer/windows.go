package analyzer

import (
	"math/bits"
	"slices"
	"strings"

	"weir/events"
)

// Windows of tool calls. They are kept per party: windows over the whole flow are
// diluted by interleaving and find no loop at all on real traces.

// pushCall remembers the call and returns its index.
// The windows of all parties together are bounded, too: the longest one then gives up its
// oldest call, so one busy party cannot push the others out.
func (f *cast) pushCall(p *party, c call) int {
	total := 0
	largest := p
	for i := range f.parties {
		n := len(f.parties[i].calls)
		total += n
		if n > len(largest.calls) {
			largest = &f.parties[i]
		}
	}
	// Its own oldest goes first, so the other parties keep theirs.
	if len(p.calls) == maxCalls {
		dropCall(p)
	} else if total >= maxWindowCalls {
		dropCall(largest)
	}
	p.calls = append(p.calls, c)
	return len(p.calls) - 1
}

// dropCall forgets the oldest call of the party. Indices into its calls are off by one after
// it, so it is called only before a call is pushed.
func dropCall(p *party) {
	n := copy(p.calls, p.calls[1:])
	p.calls = p.calls[:n]
}

// findCall returns the call that a result belongs to: the one with its call id,
// else the oldest of that tool that has no result yet; -1 when it is forgotten.
// A result with an id that no call has belongs to none: a guess would give one call the result
// of another.
func findCall(p *party, tool uint8, id string) int {
	if id != "" {
		// Ids are compared by their hashes, which is what the record keeps.
		h := shortHash(id)
		for i := len(p.calls) - 1; i >= 0; i-- {
			if p.calls[i].id == h {
				if p.calls[i].flags&callResult != 0 {
					return -1 // a second result of one call says nothing new
				}
				return i
			}
		}
		return -1
	}
	for i := range p.calls {
		// Only calls without an id: one that has an id is answered by it.
		if c := &p.calls[i]; c.tool == tool && c.id == 0 && c.flags&callResult == 0 {
			return i
		}
	}
	return -1
}

// sameCall requires known arguments of both: two calls with unknown arguments are not alike.
func sameCall(a, b *call) bool {
	return a.tool == b.tool && a.tool != none && a.flags&b.flags&callArgs != 0 && a.args == b.args
}

// sameResult asks for known results of both, and that both failed or neither did.
func sameResult(a, b *call) bool {
	return a.flags&b.flags&callHashed != 0 && a.result == b.result && (a.flags^b.flags)&callError == 0
}

// sameOutcome reports whether the calls are the same and brought the same, as far as the log says:
// where it has no results, by their size.
func sameOutcome(a, b *call) bool {
	return sameCall(a, b) && (sameResult(a, b) || (a.flags|b.flags)&(callHashed|callError) == 0 && a.result != 0 && a.result == b.result)
}

// known reports whether something is known of the result to compare.
func (c *call) known() bool { return c.flags&callHashed != 0 || c.result != 0 }

// nearResult goes by fingerprints: texts that differ by a counter or a date are a few bits
// apart (events.NearBits).
func nearResult(a, b *call) bool {
	return a.flags&b.flags&callSim != 0 && bits.OnesCount64(a.sim^b.sim) <= events.NearBits && (a.flags^b.flags)&callError == 0
}

// callKey distinguishes new calls from old ones.
// 32 bits, because it is kept for up to 128 calls of a flow; a collision makes one new call
// look old, and a round is stale only if all of its calls do.
func callKey(c *call) uint32 {
	v := c.args*0x9e3779b97f4a7c15 + uint64(c.tool)*0xff51afd7ed558ccd
	return uint32(v>>32) ^ uint32(v)
}

// noteCall follows what stale_delegation asks: whether the party ever made this
// call before.
// A call without known arguments, a retry and an exempt tool count as new, because unknown is
// never taken for a loop.
func (f *Flow) noteCall(m *moment, p *party, c call) {
	key := callKey(&c)
	fresh := c.flags&callArgs == 0 || !slices.Contains(p.seen, key)
	if fresh && c.flags&callArgs != 0 {
		f.pushSeen(p, key)
	}
	for i := range f.pairs {
		r := &f.pairs[i]
		// Rounds are about the callee: it is the one at work here.
		if r.to == m.from {
			if r.open {
				r.used = true
				r.fresh = r.fresh || fresh || m.retry || m.exempt
			}
		} else if fresh {
			// Another party did something new: what stood still begins again.
			r.stale = 0
		}
	}
}

// pushSeen remembers the key. As with windows of calls, the party with most of them gives way
// when all are full.
func (f *cast) pushSeen(p *party, key uint32) {
	total := 0
	largest := p
	for i := range f.parties {
		n := len(f.parties[i].seen)
		total += n
		if n > len(largest.seen) {
			largest = &f.parties[i]
		}
	}
	if len(p.seen) == maxSeen {
		p.seen = p.seen[:copy(p.seen, p.seen[1:])]
	} else if total >= maxSeenTotal {
		largest.seen = largest.seen[:copy(largest.seen, largest.seen[1:])]
	}
	p.seen = append(p.seen, key)
}

// openRound begins a round of the pair; a round of the callee that was still open
// ends here without an answer.
// One party is in one round at a time: a new caller takes it from the caller before.
func (f *talk) openRound(m *moment, n uint32, from, to uint8) {
	for i := range f.pairs {
		if r := &f.pairs[i]; r.to == to && r.open {
			// No answer is neither old nor new, so such a round can be stale and never the same.
			f.endRound(m, i, answer{})
		}
	}
	i := 0
	for i < len(f.pairs) && (f.pairs[i].from != from || f.pairs[i].to != to) {
		i++
	}
	if i == len(f.pairs) {
		if i == maxPairs {
			oldest := 0
			for j := range f.pairs {
				if f.pairs[j].lastSeen < f.pairs[oldest].lastSeen {
					oldest = j
				}
			}
			// The pair keeps the memory of its answers, as all that give way do.
			i = oldest
			f.pairs[i] = pair{answers: f.pairs[i].answers[:0]}
		} else {
			f.addPair()
		}
		f.pairs[i].from, f.pairs[i].to = from, to
	}
	r := &f.pairs[i]
	// Nothing is known of the new round yet; what earlier rounds came to stays.
	r.open, r.used, r.fresh, r.lastSeen = true, false, false, n
}

// closeRound ends the round of the callee that its return answers. It is the last one begun by
// the party that it returns to, by a person, or by any party when it returns to a person. Without
// such a round it does nothing.
func (f *talk) closeRound(m *moment, callee, caller uint8) {
	best := -1
	for i := range f.pairs {
		r := &f.pairs[i]
		if r.open && r.to == callee && (caller == none || r.from == caller || r.from == none) && (best < 0 || r.lastSeen > f.pairs[best].lastSeen) {
			best = i
		}
	}
	if best < 0 {
		return
	}
	f.endRound(m, best, answer{hash: mix(m.ev.Content), sim: m.ev.Sim.Value})
}

// endRound weighs a round: it is stale when the callee used tools and made no call that it had
// not made before. A round without tools says nothing, and so does one that a person began.
func (f *talk) endRound(m *moment, i int, a answer) {
	r := &f.pairs[i]
	r.open = false
	known := false
	if a.hash != 0 || a.sim != 0 {
		for _, o := range r.answers {
			if o.hash == a.hash && a.hash != 0 || a.sim != 0 && o.sim != 0 && bits.OnesCount64(a.sim^o.sim) <= events.NearBits {
				known = true
			}
		}
		f.pushAnswer(r, a)
	}
	if !r.used || r.from == none {
		return
	}
	// The newest round is bit 0; those behind the last 20 fall out.
	const window = 1<<maxRounds - 1
	r.stale = r.stale << 1 & window
	r.same = r.same << 1 & window
	if !r.fresh {
		r.stale |= 1
		if known {
			r.same |= 1
		}
		m.stalePair = i
		m.stale = int64(bits.OnesCount32(r.stale))
		// Old answers count only in a round whose own answer is old.
		m.staleSame = 0
		if known {
			m.staleSame = int64(bits.OnesCount32(r.same))
		}
	}
}

// pushAnswer remembers the answer in the place of the oldest; one for which all pairs together
// leave no room is not remembered, and so never makes a later one look old.
func (f *talk) pushAnswer(r *pair, a answer) {
	total := 0
	for i := range f.pairs {
		total += len(f.pairs[i].answers)
	}
	// It takes the room of its own pair only, so a busy pair cannot push the others' answers
	// out.
	if len(r.answers) == maxAnswers || total >= maxAnswersTotal && len(r.answers) > 0 {
		r.answers = r.answers[:copy(r.answers, r.answers[1:])]
	} else if total >= maxAnswersTotal {
		return
	}
	r.answers = append(r.answers, a)
}

// slowCall is how long a call takes, in milliseconds, that waits for something: a sleep, or a
// look at a process that runs on. Waiting is no circling.
const slowCall = 15_000

// slow goes by what the producer says it took, and by the times of call and result.
func (f *times) slow(m *moment, c *call) bool {
	return m.ev.DurationMS >= slowCall || int64(f.since(m.at))-int64(c.at) >= slowCall
}

// awaits reports whether the party's call at i looks again at what others do for it. Since it
// made that call last, a party that it called, and that has not answered, has brought something
// new. Waiting for children that go on is no loop (decision 80). Only a party that the caller
// itself called counts, so that no worker's progress excuses the loop of another.
func (f *cast) awaits(from uint8, i int) bool {
	calls := f.parties[from].calls
	for j := i - 1; j >= 0; j-- {
		if calls[j].tool != calls[i].tool || calls[j].args != calls[i].args {
			continue
		}
		for k := range f.parties {
			b := &f.parties[k]
			if uint8(k) != from && b.parent == from && b.flags&(partyPlaced|partyHanded) == partyPlaced && b.calls.progressed(calls[j].n) {
				return true
			}
		}
		return false
	}
	return false
}

// window is the last calls of a party, in their order.
type window []call

// progressed reports whether a call of the party has brought, since the ordinal, what none before
// it in its window had.
func (w window) progressed(since uint32) bool {
	for i := len(w) - 1; i >= 0; i-- {
		// An error, or an unknown result, is no progress.
		if w[i].done > since && w.brought(i) {
			return true
		}
	}
	return false
}

// shortStorm is how many calls in a row without a pause to a provider that is busy or away are
// none of a loop. Clients try again two to ten times by themselves, the first times within
// seconds: of ten calls two are looked at then, about which no rule warns.
const shortStorm = 8

// backOff is how long a party waits, in milliseconds, if it knows that the provider is busy, or
// that its request takes time.
const backOff = 5_000

// lookAgain is how long a party waits at least, in milliseconds, before it looks again whether
// something has changed. It counts only where the log says how long calls take. Logs without
// durations have made-up times, which are as far apart.
const lookAgain = 2_000

// backedOff reports whether the party waited between its last call of the tool and the one at i.
func (w window) backedOff(i int) bool {
	for j := i - 1; j >= 0; j-- {
		if w[j].tool == w[i].tool {
			return int64(w[i].at)-int64(w[j].at) >= backOff
		}
	}
	return true
}

// atOnce reports whether the calls were made side by side: the result of neither was known when
// the other was made.
// A result whose time is not known came after everything.
func (w window) atOnce(a, b *call) bool {
	if a.n > b.n {
		a, b = b, a
	}
	return a.done == 0 || a.done > w.decided(b)
}

// decided returns the ordinal at which the call was decided: its own, or that of the first call of
// the same message (callBeside).
func (w window) decided(c *call) uint32 {
	if c.flags&callBeside == 0 {
		return c.n
	}
	i := slices.IndexFunc(w, func(o call) bool { return o.n == c.n })
	for i > 0 && w[i].flags&callBeside != 0 {
		i--
	}
	return w[max(i, 0)].n
}

// hadBeside reports whether a call of the same tool that was made side by side with c has brought
// the same already.
func (w window) hadBeside(c *call) bool {
	for i := range w {
		if o := &w[i]; o != c && o.tool == c.tool && o.done != 0 && sameResult(o, c) && w.atOnce(o, c) {
			return true
		}
	}
	return false
}

// failedBeside reports whether a call of the same tool that was made side by side with c has
// failed already.
func (w window) failedBeside(c *call) bool {
	return slices.ContainsFunc(w, func(o call) bool {
		return o.n != c.n && o.tool == c.tool && o.done != 0 && o.flags&callError != 0 && w.atOnce(&o, c)
	})
}

// Rewording: the arguments of another call of the tool, and what it brought, differ in so few
// bits that it is the same call in other words.
const (
	rewordedArgs   = 10
	rewordedResult = 6
)

// nearArgs reports whether the calls are of one tool, with arguments that differ in few bits.
func nearArgs(a, b *call) bool {
	return a.tool == b.tool && a.tool != none && a.argsSim != 0 && b.argsSim != 0 && bits.OnesCount64(a.argsSim^b.argsSim) <= rewordedArgs
}

// reworded asks for near arguments and near results both: near arguments alone are what paging
// has.
func reworded(a, b *call) bool {
	return nearArgs(a, b) &&
		a.flags&b.flags&callSim != 0 && bits.OnesCount64(a.sim^b.sim) <= rewordedResult && (a.flags^b.flags)&callError == 0
}

// polls reports whether the call at i, whose result just came, is made once more after a while.
// In between there may only be calls that were made before, too: a party that looks at several
// things in turn waits for all of them.
func (w window) polls(i int, m *moment) bool {
	c := &w[i]
	pause := int64(backOff)
	if m.ev.DurationMS > 0 && c.flags&callError == 0 {
		pause = lookAgain
	}
	for j := i - 1; j >= 0; j-- {
		o := &w[j]
		if sameCall(c, o) {
			return int64(c.at)-int64(o.at) >= pause
		}
		// Something new was asked for in between: that is work and no waiting.
		if !slices.ContainsFunc(w[:j], func(earlier call) bool { return sameCall(&earlier, o) }) {
			return false
		}
	}
	return false
}

// patientLooks is how many looks in a row may bring the same of something that has changed while it
// was looked at.
const patientLooks = 5

// moves reports whether the call at i looks, after a while, at something that has changed since it
// was looked at first: the result was new patientLooks ago at most.
func moves(p *party, i int, m *moment) bool {
	c := &p.calls[i]
	if c.flags&(callError|callTests|callWrote) != 0 || !p.calls.polls(i, m) {
		return false
	}
	changed, still := false, 0
	for j := i - 1; j >= 0; j-- {
		switch o := &p.calls[j]; {
		case !sameCall(o, c):
		case !sameOutcome(o, c):
			changed = true
		case changed:
			return false // it goes to and fro
		default:
			still++
		}
	}
	return changed && still < patientLooks
}

// respelled counts the earlier calls with nearly the same arguments that brought the same.
func respelled(p *party, c *call) (n int) {
	for i := range p.calls {
		if o := &p.calls[i]; o.n < c.n && nearArgs(o, c) && sameResult(o, c) && !sameCall(o, c) {
			n++
		}
	}
	return n
}

// score gives the points of circling for the call at i, whose result just came. Calls that were
// made side by side are one attempt: none is evidence against another, and one of them scores.
// Points fall by two for anything new and never below 0, so honest work wears off what was
// counted. The figures are measured on labelled runs (decision 11, EVIDENCE.md).
func (p *party) score(m *moment, i int) {
	c := &p.calls[i]
	if p.calls.changes(i) {
		p.points -= min(p.points, 2) // something new, as what brings something new
		return
	}
	// Only results with known content make points, and a legal repeat makes none.
	if !c.known() || c.flags&callRetry != 0 {
		return
	}
	l := p.calls.likeness(i)
	points, counts := p.worth(m, i, &l)
	if !counts || points > 0 && l.scored {
		return
	}
	if points > 0 {
		// It is what orders about circling refuse.
		c.flags |= callScored
	}
	p.points = uint16(min(1000, max(0, int(p.points)+points)))
}

// likeness is what the other calls of a window have in common with one of them.
type likeness struct {
	same   bool // an equal call brought the same
	near   bool // an equal call brought nearly the same
	known  bool // another call of the tool brought the same, and nothing was changed in between
	alike  bool // nearly the same call brought nearly the same
	scored bool // a call beside it has made points already
	// respelled counts the calls with nearly the same arguments that brought the same.
	respelled int
	// varied is set where the tool has brought three different results: of a tool that always says
	// "done" a known result proves nothing.
	varied bool
}

// likeness compares the call at i with the others of the party.
func (w window) likeness(i int) (l likeness) {
	c := &w[i]
	var different [3]uint64
	n := 0
	note := func(result uint64) {
		if n < len(different) && !slices.Contains(different[:n], result) {
			different[n] = result
			n++
		}
	}
	for j := range w {
		o := &w[j]
		if j == i || !o.known() || o.flags&callRetry != 0 {
			continue
		}
		if o.tool == c.tool {
			note(o.result)
		}
		switch {
		case w.atOnce(o, c):
			l.scored = l.scored || o.flags&callScored != 0
		case sameOutcome(o, c):
			l.same = true
		// A few words cannot be called nearly the same: a board of a game, or a count.
		case sameCall(o, c) && nearResult(o, c) && c.flags&callShort == 0:
			l.near = true
		case o.tool == c.tool && !sameCall(o, c):
			l.known = l.known || sameResult(o, c) && !w.changedAfter(o, c)
			if nearArgs(o, c) && sameResult(o, c) {
				l.respelled++
			}
			l.alike = l.alike || reworded(o, c)
		}
	}
	note(c.result) // its own is one of those that the tool has brought
	l.varied = n == len(different)
	return l
}

// worth returns the points that the call at i makes, and whether it counts at all: less than 0 for
// something new.
func (p *party) worth(m *moment, i int, l *likeness) (points int, counts bool) {
	const fresh = -2
	c := &p.calls[i]
	switch {
	case c.flags&callTests != 0 && !l.same:
		return fresh, true // other figures, or other tests
	case c.flags&callTests != 0 && p.calls.since(i, p.calls.changes):
		return 0, false // it was changed, and as many tests fail
	case c.flags&callWrote != 0 && !l.same && p.calls.restores(c):
		return 2, true // an edit that is reverted
	case l.same && moves(p, i, m):
		return 0, false // it changed a while ago, and is looked at until it changes again
	case l.same && c.flags&callShort != 0 && p.calls.since(i, p.calls.progress):
		return 2, true // "saved as page.png" is the answer to each new one
	case l.same && c.flags&(callShort|callError) == 0 && p.calls.since(i, p.calls.changes):
		return 0, false // it was changed, and a look shows the same
	case l.same:
		return 4, true
	case l.near && p.calls.polls(i, m):
		return 0, false // waiting for something to change, and something does
	case l.near && p.calls.since(i, p.calls.changes):
		return 0, false // it was changed, and a look shows that
	case l.near:
		return 3, true
	case m.storm > 0:
		return 0, false // what a busy provider says of another call says nothing of this one
	case l.respelled >= respellings:
		return 3, true // the same look in other words, and the same few words back
	case l.known && p.calls.mostly(c) && (c.flags&callLooks != 0 || c.flags&callCanned != 0 && l.varied):
		return 1, true // another look, and nothing is found again; or the same text whatever is asked
	case c.flags&callShort != 0 && p.calls.drones(c.tool):
		return -1, true // it takes back as much as the text that comes whatever is asked counts
	case c.flags&callShort != 0:
		return fresh, true // it proves nothing, and is something new all the same
	case l.known && l.varied, l.alike:
		return 2, true
	}
	return fresh, true
}

// changes reports whether the call at i is new to the party, succeeded, and changed something: its
// outcome says so and the state is new, or it returned nothing to compare. Logs report edits that
// way, and shell commands that write.
func (w window) changes(i int) bool {
	c := &w[i]
	switch {
	case c.flags&(callResult|callArgs|callError|callRetry) != callResult|callArgs, c.flags&(callLooks|callTests) != 0:
		return false
	case c.flags&callWrote != 0:
		return w.first(c) && !w.restores(c)
	}
	return w.acknowledged(c) && w.first(c)
}

// restores reports whether the call brought back a state that an earlier call of the party wrote.
func (w window) restores(c *call) bool {
	return c.wroteState() && slices.ContainsFunc(w, func(o call) bool {
		return o.n < c.n && o.wroteState() && o.result == c.result
	})
}

// wroteState reports whether the result of the call is the state that it left. What a command that
// changed something printed has a fingerprint.
func (c *call) wroteState() bool {
	return c.flags&(callWrote|callHashed|callSim) == callWrote|callHashed && c.result != doneResult
}

// mostly reports whether more than half of the calls of the tool brought what the call brought.
func (w window) mostly(c *call) bool {
	n := 0
	for i := range w {
		switch o := &w[i]; {
		case o.tool != c.tool:
		case sameResult(o, c):
			n++
		default:
			n--
		}
	}
	return n > 0
}

// drones reports whether most calls of the tool brought one and the same text of a few words.
func (w window) drones(tool uint8) bool {
	i := slices.IndexFunc(w, func(o call) bool {
		return o.tool == tool && o.flags&(callCanned|callHashed|callError) == callCanned|callHashed && w.mostly(&o)
	})
	return i >= 0
}

// changedAfter reports whether the party changed something between the two calls.
func (w window) changedAfter(o, c *call) bool {
	for j := range w {
		if n := w[j].n; n > min(o.n, c.n) && n < max(o.n, c.n) && w.changes(j) {
			return true
		}
	}
	return false
}

// acknowledged reports whether the result of a call says no more than that it was made: the log
// reports none, or the tool answers unlike calls alike, in few words.
func (w window) acknowledged(c *call) bool {
	if c.flags&callHashed == 0 || c.result == doneResult {
		return true
	}
	if c.flags&callShort == 0 || c.flags&(callCanned|callWrote) != 0 {
		return c.flags&callWrote != 0
	}
	var unlike [acknowledgements - 1]uint64
	n := 0
	for i := range w {
		o := &w[i]
		if o.tool == c.tool && o.n < c.n && !sameCall(o, c) && sameResult(o, c) {
			if nearArgs(o, c) {
				continue // the same look in other words
			}
			if n < len(unlike) && !slices.Contains(unlike[:n], o.args) {
				unlike[n] = o.args
				n++
			}
		}
	}
	return n == len(unlike)
}

// respellings is how many calls with nearly the same arguments have to bring the same few words
// for one more of them to be no news.
const respellings = 3

// acknowledgements is how many unlike calls have to get the same short answer for it to be taken
// for an acknowledgement.
const acknowledgements = 4

// first reports whether the party made none like the call before it, of those remembered.
func (w window) first(c *call) bool {
	return !slices.ContainsFunc(w, func(o call) bool { return o.n < c.n && sameCall(&o, c) })
}

// since reports whether the party has made a call that is such since it made the one at i before.
func (w window) since(i int, such func(j int) bool) bool {
	for j := i - 1; j >= 0 && !sameCall(&w[j], &w[i]); j-- {
		if such(j) {
			return true
		}
	}
	return false
}

// progress reports whether the call at i changed something or brought something new.
func (w window) progress(i int) bool { return w.changes(i) || w.brought(i) }

// brought reports whether the call at i, which is no error, brought what none of its tool had
// brought before.
func (w window) brought(i int) bool {
	c := &w[i]
	return c.flags&(callHashed|callError) == callHashed &&
		!slices.ContainsFunc(w[:i], func(o call) bool { return o.tool == c.tool && o.result == c.result && o.flags&callHashed != 0 })
}

// followCycle counts, for each period, how long the sequence of calls with their
// results has repeated; the call at i just got its result.
// A call that is looked at has to have its result already: what is not known yet is not the
// same.
func (p *party) followCycle(i int) {
	c := &p.calls[i]
	// It neither makes a cycle longer nor ends it.
	if c.flags&callRetry != 0 {
		return
	}
	// Results of parallel calls may come in any order. A cycle is detected by the order of the
	// calls, so only calls before this one are looked at.
	for d := 1; d <= maxPeriod; d++ {
		p.cycleRun[d] = extend(p.cycleRun[d], i-d >= 0 && sameOutcome(c, &p.calls[i-d]))
	}
}

// rounds returns how often the sequence with the smallest period in lo to hi has
// repeated, and that period.
// A run of n over a period of d is one round and n/d more: the first round had nothing before
// it to be the same as.
func rounds(run []uint16, lo, hi int) (best int64, period int) {
	for d := lo; d <= hi && d < len(run); d++ {
		if run[d] == 0 {
			continue
		}
		r := 1 + int64(run[d]/uint16(d))
		if r <= best {
			continue
		}
		whole := true // a period whose divisor repeats as long is not the smallest
		for q := 1; q < d; q++ {
			if d%q == 0 && run[q] >= run[d] {
				whole = false
				break
			}
		}
		if whole {
			best, period = r, d
		}
	}
	return best, period
}

// followRun counts results of one tool that are the same in a row.
// What the run has come to goes into the moment, as errors or as oks, for the rows that judge
// it. Errors of a provider that is busy, which are followed apart (see followStorm), neither
// count nor end it.
func (f *cast) followRun(m *moment, p *party, i int) {
	c := &p.calls[i]
	failed := c.flags&callError != 0
	worked := !failed && m.ev.Status == events.StatusOK
	// A provider that answers is not busy, whatever the answer.
	if i := p.findRun(c.tool, true); i < len(p.runs) && (failed || worked) {
		p.runs[i].n = 0
	}
	// A new call that was only acknowledged is no look at what is known.
	if c.flags&callHashed == 0 || m.retry || c.tool == none || (c.result == doneResult || c.flags&callWrote != 0) && p.calls.first(c) || c.flags&callTests != 0 {
		if i := p.findRun(c.tool, false); i < len(p.runs) && p.runs[i].failed && worked {
			p.runs[i].n = 0 // it worked, whatever it brought
		}
		return
	}
	// Three words for a new call of a tool that is not known to look acknowledge it. Three hundred
	// of them are a bulk of work.
	if c.flags&(callShort|callLooks|callCanned|callError) == callShort && p.calls.first(c) && respelled(p, c) < respellings {
		return
	}
	r := f.runOf(p, c.tool, false)
	if r == nil {
		return
	}
	switch {
	case r.n == 0 || r.failed != failed || r.hash != c.result:
		r.n, r.failed, r.hash = 1, failed, c.result
	case p.calls.hadBeside(c):
		return // one attempt
	default:
		r.n = min(1<<15, r.n+1)
	}
	again := r.n > 1
	switch {
	case failed:
		m.errors = int64(r.n)
	case c.flags&callShort != 0 && (p.calls.first(c) || p.calls.since(i, p.calls.progress)):
		// A party that stores a hundred things gets "ok" a hundred times.
		m.oks = int64(r.n) / unsure
	default:
		m.oks = int64(r.n)
	}
	f.followTurns(m, p, c, again)
}

// followTurns counts calls in a row, of whatever tools, that brought what their tools had brought
// the time before: agents also go round by several tools in turn. What is too short to prove
// anything neither counts nor ends the row; several tools may say "ok" as long as they like.
func (f *cast) followTurns(m *moment, p *party, c *call, again bool) {
	i := p.findRun(none, false)
	if c.flags&callShort != 0 || !again && i == len(p.runs) {
		return
	}
	// It is a run of no tool.
	r := f.runOf(p, none, false)
	switch {
	case r == nil:
	case again:
		r.n = min(1<<15, r.n+1)
		// Of one tool alone its own run says it.
		if slices.ContainsFunc(p.calls, func(o call) bool { return o.tool != c.tool }) {
			m.inTurn = int64(r.n)
		}
	default:
		r.n = 0
	}
}

// followStorm counts the results of one tool in a row that say that the provider is busy, and
// that were asked for without a pause: each of them may be another one, so they are not compared.
// Who waits begins again, and calls that were made side by side are one try.
func (f *cast) followStorm(p *party, i int) int64 {
	c := &p.calls[i]
	r := f.runOf(p, c.tool, true)
	switch {
	case r == nil:
		return 1
	case r.n == 0 || p.calls.backedOff(i):
		r.n = 1
	case !p.calls.failedBeside(c):
		r.n = min(1<<15, r.n+1)
	}
	return int64(r.n)
}

// findRun returns the place of the run of the tool, or of its storm; the number of runs
// where there is none.
func (p *party) findRun(tool uint8, storm bool) int {
	i := 0
	for i < len(p.runs) && (p.runs[i].tool != tool || p.runs[i].storm() != storm) {
		i++
	}
	return i
}

// runOf returns the run that findRun finds, a new one where there is none, and nil where other
// parties leave no room for it.
func (f *cast) runOf(p *party, tool uint8, storm bool) *run {
	i := p.findRun(tool, storm)
	if i == len(p.runs) {
		total := 0
		for j := range f.parties {
			total += len(f.parties[j].runs)
		}
		// The tool that was followed first gives way to the one at hand.
		if i == maxRuns || total >= maxRunsTotal && i > 0 {
			copy(p.runs, p.runs[1:])
			i--
			p.runs = p.runs[:i]
		} else if total >= maxRunsTotal {
			return nil
		}
		p.runs = append(p.runs, run{tool: tool, failed: storm})
	}
	return &p.runs[i]
}

// infrastructure reports whether the error says that the provider is busy or unreachable, and not
// that the call is wrong. Of a class the last name counts, since some include the package. Of
// "HTTP 503" the status counts. Of "TimeoutError: no answer", as tracers write exceptions, the
// class counts.
func infrastructure(ev *events.Event) bool {
	if ev.Status == events.StatusTimeout {
		return true
	}
	// Shells put the status in front of what curl says of a server that refuses or is silent.
	if strings.Contains(ev.ErrorType, "curl: (7) ") || strings.Contains(ev.ErrorType, "curl: (28) ") {
		return true
	}
	name := strings.TrimPrefix(ev.ErrorType, "HTTP ")
	if i := strings.IndexAny(name, ":("); i >= 0 {
		name = name[:i]
	}
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		name = name[i+1:]
	}
	switch name {
	// Statuses of HTTP, and of gRPC.
	case "408", "429", "502", "503", "504", "529",
		"DeadlineExceeded", "deadline_exceeded", "DEADLINE_EXCEEDED", "ResourceExhausted", "resource_exhausted", "RESOURCE_EXHAUSTED", "UNAVAILABLE",
		// Codes of systems.
		"ECONNREFUSED", "ECONNRESET", "ECONNABORTED", "ETIMEDOUT", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH",
		// What the libraries of providers call it.
		"rate_limit", "rate_limit_error", "rate_limit_exceeded", "RateLimitError", "ThrottlingException", "TooManyRequests", "overloaded_error", "OverloadedError",
		"service_unavailable", "ServiceUnavailable", "ServiceUnavailableError", "timeout", "TimeoutError", "APITimeoutError", "TimeoutException", "Timeout",
		"ConnectTimeout", "ReadTimeout", "APIConnectionError", "ConnectError", "ConnectionRefusedError", "ConnectionResetError", "ConnectException":
		return true
	}
	return false
}

// hopRuns follows repeating sequences of hops, and counts those of the talk: all of them, or
// those among parties that talk already.
// All periods are followed at once, since the length of a cycle is unknown beforehand.
//
// A row of hops of which it is unknown whether they came without work is followed in the same
// place. It is kept apart from one of hops that surely did. Such a row has no streak, and none of
// its contents are kept, since only ping_pong_other looks at it.
func (f *hopWindow) hopRuns(m *moment, n uint32, all bool) {
	switch blind := f.blindRing(); {
	case m.idle && blind:
		f.clearHops()
	case m.blind && blind:
	case !m.idle: // work elsewhere in the flow does not hide a cycle
		f.clearHopsOf(m.from)
		f.clearHopsOf(m.to)
		if !m.blind || len(f.ring) > 0 {
			return
		}
	}
	if m.idle && f.streak < 1<<15 && (all || !f.turnsToAnother(m.to)) {
		f.streak++
	}
	h := hop{from: m.from, to: m.to, content: mix(m.ev.Content), n: n}
	for d := 1; d <= maxRing; d++ {
		pairSame, contentSame := false, false
		if i := len(f.ring) - d; i >= 0 {
			o := &f.ring[i]
			// Unknown content is never the same content.
			pairSame = o.from == h.from && o.to == h.to
			contentSame = m.idle && pairSame && h.content != 0 && o.content == h.content
		}
		f.pairRun[d] = extend(f.pairRun[d], pairSame)
		f.sameRun[d] = extend(f.sameRun[d], contentSame)
	}
	if len(f.ring) == maxRing {
		f.ring = f.ring[:copy(f.ring, f.ring[1:])]
	}
	f.ring = append(f.ring, h)
	if m.blind {
		return
	}
	if len(f.streakAt) == maxBurst {
		f.streakAt = f.streakAt[:copy(f.streakAt, f.streakAt[1:])]
	}
	f.streakAt = append(f.streakAt, f.since(m.at))
}

// blindRing reports whether it is unknown of the hops in the ring whether they came without work.
// Each row of those that surely did has a streak from its first hop on.
func (f *hopWindow) blindRing() bool { return len(f.ring) > 0 && f.streak == 0 }

// turnsToAnother reports whether the callee took no part in the last hops without work. A party
// that goes round in circles talks to the same few. To turn to another party is a step, as in
// groups that have agreed.
func (f *hopWindow) turnsToAnother(callee uint8) bool {
	return len(f.ring) > 0 && !slices.ContainsFunc(f.ring, func(h hop) bool { return h.from == callee || h.to == callee })
}

// maxBurst is how many times of hops without work are kept.
const maxBurst = 16

// extend is one more in a row, or none.
func extend(run uint16, more bool) uint16 {
	if !more {
		return 0
	}
	return min(1<<15, run+1)
}

// anyPingPong is the same of calls with any content, also of those of which it is unknown whether
// they came without work.
func (f *hopWindow) anyPingPong(m *moment) int64 {
	if m.hop && m.blind {
		n, _ := rounds(f.pairRun[:], 2, maxRing)
		return n
	}
	return f.pingPong(m, &f.pairRun)
}

// pingPong is the number of rounds of the shortest repeating sequence of hops.
// It speaks only at a hop without work: a cycle that ended must not stop what comes after it.
func (f *hopWindow) pingPong(m *moment, run *[maxRing + 1]uint16) int64 {
	if !m.hop || !m.idle {
		return 0
	}
	n, _ := rounds(run[:], 2, maxRing)
	return n
}

// delegate counts the same message from one party to another.
// Silence does not clear it, unlike all else that is about patterns: a party that sends the same
// message each hour goes round in a slow circle.
func (f *Flow) delegate(m *moment) {
	ev := m.ev
	if ev.Content.IsZero() || !m.idle && f.parties[m.from].flags&partyWorked != 0 {
		return
	}
	i := 0
	key := mix(ev.Content)
	for i < len(f.delegations) && !(f.delegations[i].from == m.from && f.delegations[i].to == m.to && f.delegations[i].content == key) {
		i++
	}
	if i == len(f.delegations) {
		if i == maxDelegations {
			copy(f.delegations, f.delegations[1:])
			i--
			f.delegations = f.delegations[:i]
		}
		f.delegations = append(f.delegations, delegation{from: m.from, to: m.to, content: key, algorithm: ev.Content.Algorithm, n: f.events})
	}
	d := &f.delegations[i]
	// The asker has waited since an answer that said something new, so it asks how far the
	// other one is.
	if d.answered != 0 && m.at.Sub(d.answered).Milliseconds() >= unhurried {
		d.count = 1
		f.clearHopsOf(m.to)
	}
	// It is used up by this message; the next one needs an answer of its own.
	d.answered = 0
	if d.count < 1<<15 {
		d.count++
	}
	m.delegation = i
}

// unhurried is how long a party waits, in milliseconds, before it asks another how far it is. A
// party that pushes the last answer on at once waits for nothing.
const unhurried = 10_000

// answerDelegation drops delegations whose answer changed: a new answer is evidence of progress.
// An answer of which it is known that it took no work is so only when the asker then waits
// before asking again (see delegate): two that hand new words to and fro make none.
func (f *Flow) answerDelegation(m *moment) {
	a := mix(m.ev.Content)
	if a == 0 || m.from == none || m.to == none {
		return
	}
	newest := -1
	for i := range f.delegations {
		d := &f.delegations[i]
		if d.from == m.to && d.to == m.from && (newest < 0 || d.n >= f.delegations[newest].n) {
			newest = i
		}
	}
	if newest < 0 {
		return
	}
	d := &f.delegations[newest]
	switch changed := d.answer != 0 && d.answer != a; {
	case changed && m.ev.HadWork != events.No:
		d.count = 1
		f.clearHopsOf(m.from)
	case changed:
		d.answered = m.at
	}
	d.answer = a
}
