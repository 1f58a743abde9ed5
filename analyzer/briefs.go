package analyzer

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer/record"
	"weir/analyzer/rules"
	"weir/analyzer/standing"
	"weir/events"
)

// Briefs: work that a party gives to one agent after the other. Where each agent has a new name, no rule
// about a pair or a party sees that it is the same work.

// maxBriefs is how many briefs of a flow are followed. The one that was given least lately gives way.
const maxBriefs = 6

// briefPause is how long a party waits at least before it gives the same work away once more, if it does so
// at a pace that a person may have set. It is the pace of timers across flows.
const briefPause = 45 * time.Second

// brief is the same message of one party to several agents, and what came of it. Agents that have it at
// one time are one round.
type brief struct {
	from    uint8
	to      uint8        // who got it last
	pending uint8        // tool calls of the round without a result
	state   briefState   // of the round, but for ofRounds
	count   uint16       // rounds in a row that came to the same
	n       uint32       // ordinal of the call that gave it last
	working uint32       // parties that have it and have not come back, a bit each
	content uint32       // of the message, as a short hash
	ended   events.Stamp // of the last round; 0 for longer ago than lastBrief
	// Of the round at hand: sums of hashes, which are the same in any order.
	calls  uint32 // of tools with their arguments and results
	answer uint32 // of the agents
	// Of the round before.
	came uint32 // what it came to; 0 for unknown
	said uint16 // its answer, half of it
}

// lastBrief is how long ago, in milliseconds, the end of a round is kept. After briefPause it says nothing.
const lastBrief = 1<<16 - 1

// Bits of a record, above those of briefState.
const (
	briefOpen byte = 1 << (iota + 6) // the round at hand
	briefCame                        // what the round before came to
)

// Bits of a record, above the number of the party that gave the brief.
const (
	briefAlone byte = 1 << (iota + 6) // only the party that got it last has it
	briefFresh                        // nothing came of the round at hand yet

	briefParty = briefAlone - 1 // the number itself; all of its bits for none
)

// encode writes the brief.
func (b *brief) encode(dst []byte, f *Flow) []byte {
	has, from := byte(b.state), b.from&briefParty
	alone, fresh := b.to < maxParties && b.working == 1<<b.to, b.calls|b.answer|uint32(b.pending) == 0
	if b.working != 0 {
		has |= briefOpen
		if alone {
			from |= briefAlone
		}
		if fresh {
			from |= briefFresh
		}
	}
	if b.came != 0 {
		has |= briefCame
	}
	dst = append(dst, has, from, b.to)
	dst = le.AppendUint32(dst, b.content)
	dst = binary.AppendUvarint(dst, uint64(f.events-b.n))
	if b.came != 0 {
		dst = le.AppendUint32(dst, b.came)
		dst = le.AppendUint16(dst, b.said)
		ago := record.Ago(f.clock, b.ended)
		if ago > lastBrief {
			ago = 0
		}
		dst = le.AppendUint16(dst, uint16(ago))
		dst = binary.AppendUvarint(dst, uint64(b.count))
	}
	if b.working != 0 && !alone {
		dst = le.AppendUint32(dst, b.working)
	}
	if b.working != 0 && !fresh {
		dst = le.AppendUint32(dst, b.calls)
		dst = le.AppendUint32(dst, b.answer)
		dst = append(dst, b.pending)
	}
	return dst
}

// decode reads what encode has written.
func (b *brief) decode(d *record.Reader, f *Flow, parties int) {
	h := d.Take(7)
	has, from := h[0], h[1]
	b.state, b.from, b.to, b.content = briefState(has)&^briefState(briefOpen|briefCame), none, d.Index(h[2], parties), le.Uint32(h[3:])
	if from&briefParty != briefParty {
		b.from = d.Index(from&briefParty, parties)
	}
	b.n = f.events - uint32(d.Uvarint())
	if has&briefCame != 0 {
		h := d.Take(8)
		b.came, b.said = le.Uint32(h), le.Uint16(h[4:])
		if ago := le.Uint16(h[6:]); ago != 0 {
			b.ended = f.clock - events.Stamp(ago-1)
		}
		b.count = uint16(d.Count(rules.MaxCount))
	}
	switch {
	case has&briefOpen == 0:
		return
	case from&briefAlone == 0:
		b.working = le.Uint32(d.Take(4))
	case b.to < maxParties:
		b.working = 1 << b.to
	}
	if from&briefFresh == 0 {
		h := d.Take(9)
		b.calls, b.answer, b.pending = le.Uint32(h), le.Uint32(h[4:]), h[8]
	}
}

// briefState is what is known of the rounds of a brief.
type briefState uint8

// They stand in stored state, so that numbers are never reused.
const (
	briefUsed     briefState = 1 << iota // a tool was used
	briefChanged                         // and changed something
	briefUnknown                         // some of what it came to is unknown
	briefFailed                          // an agent failed
	briefReworded                        // in the rounds that are counted, an answer came in other words
	briefGuessed                         // and it is unknown whether an agent used tools
)

// ofRounds is what is about all rounds that are counted.
const ofRounds = briefReworded | briefGuessed

// briefs are those of a flow.
type briefs []brief

// find returns the place of the message of a party; the number of briefs for none.
func (s briefs) find(from uint8, content uint32) int {
	i := 0
	for i < len(s) && (s[i].from != from || s[i].content != content) {
		i++
	}
	return i
}

// openBrief adds a brief and returns its place. What a party gave away that has handed control back gives
// way first, then what no agent is at work on, and of these what was given least lately.
func openBrief(f *Flow, from uint8, content uint32) int {
	at := len(f.briefs)
	if at < maxBriefs {
		f.briefs = append(f.briefs, brief{})
	} else {
		at = leastBrief(f)
	}
	f.briefs[at] = brief{from: from, to: none, content: content}
	return at
}

// leastBrief is the place of the brief that gives way.
func leastBrief(f *Flow) (at int) {
	least := uint64(math.MaxUint64)
	for i := range f.briefs {
		b := &f.briefs[i]
		keep := uint64(b.n)
		if int(b.from) < len(f.parties) && f.parties[b.from].flags&partyHanded == 0 {
			keep |= 1 << 32
		}
		if b.working != 0 {
			keep |= 1 << 33
		}
		if keep < least {
			at, least = i, keep
		}
	}
	return at
}

// forget removes a party: what it gave away goes, and a round that it was part of stays unknown.
func (s *briefs) forget(party uint8) {
	*s = slices.DeleteFunc(*s, func(b brief) bool { return b.from == party })
	for i := range *s {
		b := &(*s)[i]
		if b.working>>party&1 == 1 {
			b.working &^= 1 << party
			b.state |= briefUnknown
			b.restart()
		}
		if b.to == party {
			b.to = none
		}
	}
}

// under reports whether the party is one of the set, or control came to it through one of them.
func (f *cast) under(party uint8, set uint32) bool {
	for n := 0; set != 0 && int(party) < len(f.parties) && n < maxParties; n++ {
		if set>>party&1 == 1 {
			return true
		}
		party = f.parties[party].parent
	}
	return false
}

// giveBrief follows a call between agents: a message that the same party gave away before begins another
// round. One that gives control back to its caller ends the round instead.
func giveBrief(f *Flow, m *moment) {
	if m.returned {
		briefBack(f, m)
		return
	}
	ev := m.ev
	if ev.Content.IsZero() || m.from == m.to || ev.TransferMode == events.PassControl {
		return
	}
	content := short(mix(ev.Content))
	i := f.briefs.find(m.from, content)
	if i == len(f.briefs) {
		i = openBrief(f, m.from, content)
	}
	b := &f.briefs[i]
	if ev.Work.Outputs > 0 {
		f.briefs.moved() // its caller made something in between
	}
	if b.working == 0 {
		b.begin(m)
	}
	b.working |= 1 << m.to
	b.to, b.n = m.to, f.events
	m.brief = i
}

// begin begins a round. It begins anew after a pause, and for the agent that had it last: that one is
// judged by its own calls.
func (b *brief) begin(m *moment) {
	if b.to == m.to || m.at.Sub(b.ended) >= briefPause {
		b.restart()
		b.came = 0
	}
	b.state &= ofRounds
	b.pending, b.calls, b.answer = 0, 0, 0
}

// restart begins the count anew.
func (b *brief) restart() {
	b.count = 0
	b.state &^= ofRounds
}

// briefCall counts a tool call to the rounds that its party is part of.
func briefCall(f *Flow, m *moment) {
	for i := range f.briefs {
		if b := &f.briefs[i]; f.under(m.from, b.working) {
			b.state |= briefUsed
			b.pending = min(b.pending+1, 1<<8-2)
		}
	}
}

// briefResult adds a result to the rounds that its party is part of. Where it is part of none, something
// new begins all briefs anew, and so does a wait.
func briefResult(f *Flow, m *moment, slow bool) {
	p := &f.parties[m.from]
	c := &p.calls[m.callAt]
	changed, inside := p.calls.changes(m.callAt), false
	for i := range f.briefs {
		b := &f.briefs[i]
		if b.from == m.from && c.n < b.n {
			inside = true // by this tool the brief was given, and the result is the answer
		}
		if !f.under(m.from, b.working) {
			continue
		}
		inside = true
		if b.pending > 0 {
			b.pending--
		}
		if changed {
			b.state |= briefChanged
		}
		switch {
		case m.retry: // to look again while others work says nothing
		case c.flags&callArgs == 0 || !c.known() || slow && c.flags&(callError|callTests) == 0:
			b.state |= briefUnknown // what an agent waits for may come yet
		default:
			b.calls += scramble(c.args*0x9e3779b97f4a7c15 ^ c.result ^ uint64(c.flags&callError))
		}
	}
	if !inside && (changed || !c.known() || p.calls.brought(m.callAt) || m.retry || slow && c.flags&callError == 0) {
		f.briefs.moved()
	}
}

// scramble spreads the bits of a hash, so that sums of hashes are as good as hashes. Half of them will do for a few rounds of one flow.
func scramble(v uint64) uint32 {
	v *= 0xff51afd7ed558ccd
	return uint32(v >> 32)
}

// moved begins the count of all briefs anew. What they came to last stays known, since agents that go round by
// several messages bring something new with the first round of each.
func (s briefs) moved() {
	for i := range s {
		s[i].restart()
	}
}

// briefBack follows an agent that comes back, by a return or by a call. The round ends with the last
// of its agents.
func briefBack(f *Flow, m *moment) {
	for i := range f.briefs {
		b := &f.briefs[i]
		if b.working>>m.from&1 == 0 || m.to != none && m.to != b.from {
			continue
		}
		b.working &^= 1 << m.from
		b.hear(m)
		if b.working != 0 || b.end(m.at) {
			continue
		}
		// It came to something new. Within the round of another brief that is judged by that round.
		if !slices.ContainsFunc(f.briefs, func(o brief) bool { return f.under(b.from, o.working) }) {
			for j := range f.briefs {
				if j != i {
					f.briefs[j].restart()
				}
			}
		}
	}
}

// hear adds what an agent answered.
func (b *brief) hear(m *moment) {
	ev := m.ev
	said := mix(ev.Content)
	if ev.Status == events.StatusError || ev.Status == events.StatusDenied || ev.ErrorType != "" {
		b.state |= briefFailed
		if said == 0 && ev.ErrorType != "" {
			said = xxhash.Sum64String(ev.ErrorType)
		}
	}
	switch {
	case ev.Status == events.StatusTimeout, ev.Status == events.StatusCancelled, b.state&briefFailed != 0 && infrastructure(ev):
		b.state |= briefUnknown
	case b.state&(briefUsed|briefFailed) == 0 && (ev.HadWork != events.No || ev.Work.ToolCalls > 0 || ev.Work.Outputs > 0):
		b.state |= briefGuessed
	}
	b.answer += scramble(said)
}

// result is what the round came to; 0 for unknown. Of agents that failed without having changed anything
// it is the failure, whatever they looked at; else it is the calls with their results, and of agents that
// used no tool the answer.
func (b *brief) result() uint32 {
	switch {
	case b.state&briefFailed != 0 && b.state&(briefChanged|briefUnknown) == 0 && b.answer != 0:
		return b.answer | 1
	case b.state&briefUnknown != 0 || b.pending > 0:
		return 0
	case b.state&briefUsed == 0 && b.answer != 0:
		return b.answer | 1
	case b.state&briefUsed != 0 && b.calls != 0:
		return b.calls | 1
	}
	return 0
}

// end ends the round and reports whether it came to the same as the one before.
func (b *brief) end(at events.Stamp) (again bool) {
	came := b.result()
	again = came != 0 && came == b.came
	switch {
	case !again:
		b.restart()
	case b.count > 0 && b.said != uint16(b.answer):
		b.state |= briefReworded
	}
	if came != 0 && b.count < rules.MaxCount {
		b.count++
	}
	b.came, b.said, b.ended = came, uint16(b.answer), at
	return again
}

// sameBrief is how many agents got the message at hand one after the other, and came to the same.
func sameBrief(f *Flow, m *moment, set *rules.Setting) int64 {
	if m.brief < 0 {
		return 0
	}
	return f.briefs[m.brief].rounds(set)
}

// rounds is how far the rounds go as proof, with the one at hand. Answers in other words prove less: it takes
// ten of them where it takes six. Where it is unknown whether the agents used tools, it takes five times
// as many, and they prove nothing.
func (b *brief) rounds(set *rules.Setting) int64 {
	switch {
	case b.count == 0:
		return 0
	case b.state&briefGuessed != 0:
		return min((int64(b.count)+1)/5, set.Stop-1)
	case b.state&briefReworded != 0:
		return (int64(b.count) + 1) * 3 / 5
	}
	return int64(b.count) + 1
}

// briefDoubt reports that a brief only goes towards a warning, since it is unknown whether its agents used tools.
func briefDoubt(f *Flow, m *moment) bool {
	if m.brief >= 0 {
		return f.briefs[m.brief].guessed()
	}
	return slices.ContainsFunc(f.briefs, func(b brief) bool { return b.guessed() })
}

// briefDoubted is what a warning says where briefDoubt holds.
const briefDoubted = "; the log does not report whether they worked, so five agents count as one and none are refused"

// guessed reports that it is unknown of some agent that is counted whether it used tools.
func (b *brief) guessed() bool { return b.count > 0 && b.state&briefGuessed != 0 }

// mostBriefed is the brief that goes furthest, whichever was given last.
func mostBriefed(f *Flow, set *rules.Setting) (most int64) {
	for i := range f.briefs {
		most = max(most, f.briefs[i].rounds(set))
	}
	return most
}

// matchBrief refuses the message to the party that gave it, whatever agent is to get it. Where another
// message of the party has reached the stop as well, it refuses all its calls to agents: one message
// after the other would only change places.
func matchBrief(f *Flow, m *moment, o *order) {
	o.kind, o.picks, o.content = events.AgentCall, selectBrief, m.ev.Content
	for i := range f.briefs {
		if b := &f.briefs[i]; o.Phase != standing.Warn && i != m.brief && b.from == m.from && b.rounds(&m.set) >= m.set.Stop {
			o.picks, o.content = selectCaller, events.Hash{}
		}
	}
}
