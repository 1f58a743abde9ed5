package analyzer

import (
	"math/bits"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer/activity"
	"weir/analyzer/standing"
	"weir/events"
)

// ReportsDue reports whether waiting reports have to be passed on: at is the time of the log now,
// and last its time before. They are due once in Limits.Agents.Report. A caller that checks
// before each time that it reports as LowWatermark keeps the promise of that time.
func (e *settings) ReportsDue(last, at events.Stamp) bool {
	every := events.Stamp(e.limits.Agents.Report.Milliseconds())
	return every <= 0 || at/every != last/every
}

// follow notes what the event says of how its parties are at work, before the stack
// changes. Late events never turn back what is known of a later time.
// It runs only where some row about silence is on; the verdicts of the flow do not depend on
// it.
func (f *callStack) follow(m *moment) {
	ev, when := m.ev, m.when
	if m.from != none {
		f.know(m.from, &ev.From)
	}
	if m.to != none {
		f.know(m.to, &ev.To)
	}
	switch ev.Kind {
	case events.AgentStatus: // it reports its own status
		return
	// A note about another party shows that its author is at work.
	case events.NoteAdded:
		if ev.To.IsZero() {
			return
		}
	case events.FlowEnd:
		for i := range f.parties {
			f.finish(uint8(i), when)
		}
		return
	case events.AgentCall:
		f.followCall(m)
		return
	}
	if m.from == none {
		return
	}
	f.act(m.from, when)
	p := &f.parties[m.from]
	switch ev.Kind {
	case events.AgentReturn:
		f.giveBack(m.from, m.to, when)
	case events.ToolCall:
		f.expect(m.from, when)
		// Counted, and not a mark: several tools may run side by side.
		p.open = uint8(min(int(p.open)+1, 0xff))
	case events.ToolResult:
		if p.open > 0 && ev.Status != events.StatusInputRequired {
			p.open--
		}
	}
}

// followCall notes which party waits for which after a call. A return to a party on the stack
// gives control back. A hand-over ends the caller's work. Any other call leaves the caller
// waiting for the callee.
func (f *callStack) followCall(m *moment) {
	if m.to == none {
		return
	}
	if m.from != none && m.ev.By() == events.OriginAgent {
		f.act(m.from, m.when)
		switch {
		// Some producers report an answer as a call back to the caller.
		case m.from != m.to && f.cameThrough(m.from, m.to):
			f.giveBack(m.from, m.to, m.when)
		case m.ev.TransferMode == events.PassControl:
			f.finish(m.from, m.when)
		default:
			f.expect(m.from, m.when)
		}
	}
	f.expect(m.to, m.when)
}

// act notes that the party did something. A late event does not turn its time back. It counts
// only if it is not much later than the time reported before.
func (f *callStack) act(i uint8, when events.Stamp) {
	p := &f.parties[i]
	if when < p.did.Add(-activity.Grace) {
		return
	}
	before := p.did
	p.did = max(p.did, when)
	f.markActive(i)
	if p.parent == none || before == 0 || before/spokenEvery == p.did/spokenEvery {
		return
	}
	// A child that is at work speaks for who called it.
	for j, n := p.parent, 0; j != none && n < maxParties; j, n = f.parties[j].parent, n+1 {
		if q := &f.parties[j]; q.did != 0 && q.flags&partyDone == 0 {
			q.did = max(q.did, p.did)
			f.markActive(j)
		}
	}
}

// spokenEvery is how often a party that is at work speaks for those who wait for it.
const spokenEvery = events.Stamp(time.Minute / time.Millisecond)

// markActive has the step report the party.
// It only sets a bit; report sends at the end of the step what the party has come to by then.
func (f *callStack) markActive(i uint8) {
	f.unreported |= 1 << i
}

// tried notes that the event's party did something although its call came to nothing.
func (e *relay) tried(f *Flow, m *moment) {
	if e.agents.Silence && m.from != none {
		f.act(m.from, m.when)
	}
}

// expect notes that something is expected of the party. A party that was reported done a moment
// ago is reported again: it has work.
func (f *callStack) expect(i uint8, when events.Stamp) {
	if i == none || f.parties[i].did > when {
		return
	}
	p := &f.parties[i]
	if p.flags&partyDone != 0 && p.did != 0 && when.Sub(p.did) <= lately {
		f.markActive(i)
	}
	// Something is expected of it from now on.
	p.flags &^= partyDone
}

// lately is how long after its last action a party is reported without a new one. Its silence
// counts from that action, so it must not be long ago.
const lately = time.Minute

// finish notes that nothing more is expected of the party. One that was reported at work is
// reported again.
func (f *callStack) finish(i uint8, when events.Stamp) {
	p := &f.parties[i]
	if p.flags&partyDone != 0 || p.did > when {
		return
	}
	p.flags |= partyDone
	// Calls without a result will not get one from who is done.
	p.open = 0
	switch {
	case p.did == 0:
	case when.Sub(p.did) <= lately:
		f.markActive(i)
	default:
		f.act(i, when)
	}
}

// giveBack notes that a party gave control back. So did every party between it and the
// receiver, and no party waits any more for those that they called. From then on something is
// expected of the receiver. This is reported as if the receiver had done something. It was
// reported as waiting, and would otherwise be believed to wait for long.
func (f *callStack) giveBack(from, to uint8, when events.Stamp) {
	top := from
	if to != none && f.cameThrough(from, to) {
		for n := 0; top != to && f.parties[top].parent != to && n < maxParties; n++ {
			top = f.parties[top].parent
		}
	}
	for i := range f.parties {
		if uint8(i) != to && f.cameThrough(uint8(i), top) {
			f.finish(uint8(i), when)
		}
	}
	f.expect(to, when)
	if to != none && to != from && f.parties[to].did != 0 {
		f.act(to, when)
	}
}

// work is how the party is at work, as far as the flow knows.
// The order of the cases is their precedence: a party that is done waits for nothing, and a
// running tool is better evidence than an order.
func (f *Flow) work(i uint8, at events.Stamp) activity.Work {
	p := &f.parties[i]
	switch {
	case p.flags&partyDone != 0, f.stands(i, events.Halt, at):
		return activity.Done
	case p.open > 0:
		return activity.InTool
	case f.waits(i):
		return activity.OnChild
	case f.stands(i, events.Throttle, at), f.held(at):
		return activity.OnBackOff
	}
	return activity.AtWork
}

// waits reports whether control is with a party that this one called, or a party that it called
// has not given control back.
func (f *callStack) waits(i uint8) bool {
	// Control went through it and has not come back.
	if f.pos != i && f.onStack(i) {
		return true
	}
	for j := range f.parties {
		if c := &f.parties[j]; c.parent == i && j != int(i) && c.flags&(partyPlaced|partyDone) == partyPlaced {
			return true
		}
	}
	return false
}

// stands reports whether an order with the action stands against all calls of the party,
// or all calls between agents.
func (f *sanctions) stands(i uint8, action events.Action, at events.Stamp) bool {
	for k := range f.orders {
		o := &f.orders[k]
		if o.Phase > standing.Warn && !o.Shadow && o.Action == action && o.Expires > at &&
			(o.scope == events.ScopeFlow || o.scope == events.ScopeSession && o.a == i) {
			return true
		}
	}
	return false
}

// report sends the agent stage the parties that did something in the step. When the step gave
// verdicts, it adds those that did something lately: an order may make them wait.
// A report waits in the partition until ReportsDue (decision 75), so repeating it costs nothing.
// Before any agent reports, nothing is sent (decision 102).
func (e *relay) report(p *Partition, f *Flow, at events.Stamp, judged bool, fx *Effects) {
	if !e.agents.Silence {
		return
	}
	if !p.Reporting && !e.agents.Unasked {
		f.unreported = 0
		return
	}
	if judged {
		for i := range f.parties {
			if p := &f.parties[i]; p.did != 0 && p.flags&partyDone == 0 && at.Sub(p.did) <= lately {
				f.markActive(uint8(i))
			}
		}
	}
	unreported := f.unreported
	f.unreported = 0
	// The bits are cleared before, or they would be reported later.
	if f.source == events.CorrelationPrincipal { // parties report in flows of their own
		return
	}
	for ; unreported != 0; unreported &= unreported - 1 {
		i := uint8(bits.TrailingZeros32(unreported))
		if p := &f.parties[i]; p.did != 0 {
			r := f.reportOn(p.name, p.agent)
			r.Did, r.Work = p.did, f.work(i, at)
			fx.Reports = append(fx.Reports, r)
		}
	}
}

// SetKeyHash saves the flow working out the xxh64 of its key, which who keeps its record knows.
func (f *identity) SetKeyHash(hash uint64) { f.hash = hash }

// keyHash is the hash of its key by which reports name the flow.
func (f *identity) keyHash() uint64 {
	if f.hash == 0 {
		f.hash = xxhash.Sum64String(f.key)
	}
	return f.hash
}

// agentID is the stable id of the party, as far as it is known.
func (p *party) agentID() string {
	if p.agent != "" {
		return p.agent
	}
	return p.name
}

// noteTry reports to the agent stage that the event's party tried a call that the order refuses.
// It is sent at once the first time and at a number of attempts at which a rule may trigger. Else
// it is sent together with those that follow (decision 75).
func (e *relay) noteTry(f *Flow, o *order, m *moment, fx *Effects) {
	if e.agents.Attempts == nil {
		return
	}
	id := &m.ev.From
	name, agent := id.Session, id.Agent
	switch {
	case m.from != none && (id.Session == "" || id.Agent == "" || f.parties[m.from].agentID() == id.Agent):
		name, agent = f.parties[m.from].name, f.parties[m.from].agent
	case id.IsZero():
		return
	case id.Session == "":
		name, agent = id.Agent, ""
	}
	n := o.Attempts + 1
	r := f.reportOn(name, agent)
	r.Tries, r.Tried, r.Nth, r.Now = 1, m.when, n, n == 1 || slices.Contains(e.agents.Attempts, int64(n))
	fx.Reports = append(fx.Reports, r)
}

// reportOn returns a report about a party of the flow that says nothing of it yet.
func (f *identity) reportOn(name, agent string) activity.Report {
	r := activity.Report{Flow: f.keyHash(), Source: f.source, Name: name, Agent: agent}
	r.Identify()
	return r
}

// know learns the stable id of a party that goes by another name. The ids take what the
// names leave of the room that both have.
func (f *cast) know(i uint8, id *events.Party) {
	if id.Session == "" || id.Agent == "" {
		return
	}
	p := &f.parties[i]
	if id.Agent != p.name && id.Agent != p.agent && f.nameBytes()-len(p.agent)+len(id.Agent) <= maxPartyBytes {
		p.agent = id.Agent
	}
}

// nameBytes is how much of maxPartyBytes names and ids take together.
func (f *cast) nameBytes() (n int) {
	for i := range f.parties {
		n += len(f.parties[i].name) + len(f.parties[i].agent)
	}
	return n
}

// trimAgents forgets ids of agents for which the names have left no room, those first
// that were silent longest.
func (f *cast) trimAgents() {
	for over := f.nameBytes() - maxPartyBytes; over > 0; {
		victim := none
		for i := range f.parties {
			if p := &f.parties[i]; p.agent != "" && (victim == none || p.lastSeen < f.parties[victim].lastSeen) {
				victim = i
			}
		}
		if victim == none {
			return
		}
		over -= len(f.parties[victim].agent)
		f.parties[victim].agent = ""
	}
}
