package analyzer

import (
	"slices"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/events"
)

// What a flow tells the agent stage of its parties. Only the times and the state of each
// party are kept; the first thing that nobody was told of sets a deadline, and when that
// fires every party that did something is told of once. So a flow sends at most one
// record for each party in Limits.Agents.Report, however busy it is, and whatever it
// knows of a time is told when that and Grace have passed.

// report is what the agent stage is told of a party.
type report struct {
	name, agent string
	did         events.Stamp
	work        string
	tries       uint16 // of WorkRefused: how many calls
}

// follow notes what the event says of how its parties are at work, before the stack
// changes. Late events never turn back what is known of a later time.
func (f *Flow) follow(m *moment) {
	ev, when := m.ev, m.when
	if m.from != none {
		f.know(m.from, &ev.From)
	}
	if m.to != none {
		f.know(m.to, &ev.To)
	}
	switch ev.Kind {
	case events.AgentStatus: // it tells by itself how it is
		return
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
		p.open = uint8(min(int(p.open)+1, 0xff))
	case events.ToolResult:
		if p.open > 0 && ev.Status != events.StatusInputRequired {
			p.open--
		}
	}
}

func (f *Flow) followCall(m *moment) {
	if m.to == none {
		return
	}
	if m.from != none && m.ev.By() == events.OriginAgent {
		f.act(m.from, m.when)
		switch {
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

// act notes that the party did something. What comes late does not turn its time back,
// but may have to be told of sooner.
func (f *Flow) act(i uint8, when events.Stamp) {
	p := &f.parties[i]
	if when <= p.did && p.flags&partyUntold == 0 {
		return
	}
	p.did = max(p.did, when)
	p.flags |= partyUntold
	if f.untold == 0 || when < f.untold {
		f.untold = when
	}
}

// tried notes that the event's party did something although its call came to nothing.
func (e *Engine) tried(f *Flow, m *moment) {
	if e.agents.silence && m.from != none {
		f.act(m.from, m.when)
	}
}

// expect notes that something is expected of the party.
func (f *Flow) expect(i uint8, when events.Stamp) {
	if i != none && f.parties[i].did <= when {
		f.parties[i].flags &^= partyDone
	}
}

// finish notes that nothing more is expected of the party. One that was told to be at
// work is told of again.
func (f *Flow) finish(i uint8, when events.Stamp) {
	p := &f.parties[i]
	if p.flags&partyDone != 0 || p.did > when {
		return
	}
	p.flags |= partyDone
	p.open = 0
	if p.did != 0 && p.flags&partyUntold == 0 {
		f.act(i, when)
	}
}

// giveBack notes that a party gave control back. So did everybody between it and the
// party that got it, and nobody waits any more for those whom they called. From then on
// something is expected of who got it, which is told as if it had done something: it
// was said to wait, and would be believed to do so for long.
func (f *Flow) giveBack(from, to uint8, when events.Stamp) {
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

// work is how the party is at work, as far as the flow can tell.
func (f *Flow) work(i uint8, at events.Stamp) string {
	p := &f.parties[i]
	switch {
	case p.flags&partyDone != 0, f.stands(i, events.Halt, at):
		return WorkDone
	case p.open > 0:
		return WorkInTool
	case f.waits(i):
		return WorkChild
	case f.stands(i, events.Throttle, at), f.held(at):
		return WorkBackOff
	}
	return WorkActive
}

// waits reports whether control is with somebody whom the party called, or somebody whom
// it called has not given it back.
func (f *Flow) waits(i uint8) bool {
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
func (f *Flow) stands(i uint8, action events.Action, at events.Stamp) bool {
	for k := range f.orders {
		o := &f.orders[k]
		if o.phase > phaseWarn && !o.shadow && o.action == action && o.expires > at &&
			(o.scope == events.ScopeFlow || o.scope == events.ScopeSession && o.a == i) {
			return true
		}
	}
	return false
}

// reportDue is when the agent stage has to be told of something; zero for never. After
// it was told, the next deadline waits for as long again, but for the grace that late
// events have: they must not bring more records than those in time.
func (e *Engine) reportDue(f *Flow) events.Stamp {
	if f.untold == 0 || !e.agents.silence {
		return 0
	}
	return max(f.untold, f.told.Add(-Grace)).Add(e.limits.Agents.Report)
}

// report tells the agent stage of everybody who did something.
func (e *Engine) report(f *Flow, at events.Stamp, fx *Effects) {
	if f.untold == 0 || !e.agents.silence {
		return
	}
	if f.source == events.CorrelationPrincipal { // nobody's silence: parties report in flows of their own
		f.untold, f.told = 0, max(f.told, at)
		return
	}
	for i := range f.parties {
		if r, ok := f.take(uint8(i), at); ok {
			f.sayReport(r, fx)
		}
	}
	f.untold, f.told = 0, max(f.told, at)
}

// take returns the report about a party, if there is something to tell, as told.
func (f *Flow) take(i uint8, at events.Stamp) (r report, ok bool) {
	p := &f.parties[i]
	if p.flags&partyUntold == 0 {
		return report{}, false
	}
	p.flags &^= partyUntold
	return report{name: p.name, agent: p.agent, did: p.did, work: f.work(i, at)}, p.did != 0
}

// depart takes the report about a party that is about to be forgotten.
func (f *Flow) depart(i uint8) {
	if r, ok := f.take(i, f.clock); ok {
		f.gone = append(f.gone, r)
	}
	if r, ok := f.takeTries(i); ok {
		f.gone = append(f.gone, r)
	}
}

// How soon after it was told of tries the agent stage is told again: a flow that ignores
// its stop must not cost more than one that needs none. Once an order was defied so often
// that rules about defiance have spoken, a sixtieth of their window suffices.
const (
	triesTogether = time.Second
	manyTogether  = 10 * time.Second
	manyTries     = 24
)

// noteTry tells the agent stage that the event's party tried a call that an order refuses,
// at once or, when it was told a moment ago, together with those that follow.
func (e *Engine) noteTry(f *Flow, m *moment, fx *Effects) {
	if !e.agents.attempts {
		return
	}
	together := triesTogether
	if slices.ContainsFunc(f.orders, func(o order) bool { return o.attempts >= manyTries }) {
		together = manyTogether
	}
	id, next := &m.ev.From, f.triesTold.Add(together)
	known := m.from != none && (id.Session == "" || id.Agent == "" || f.parties[m.from].agentID() == id.Agent)
	if !known || f.triesDue == 0 && m.at >= next {
		if a := fx.say(*id, m.ev, m.when); a != nil {
			a.Kind, a.AgentState = events.AgentActivity, fx.said.state(WorkRefused)
		}
		f.triesTold = m.at
		return
	}
	p := &f.parties[m.from]
	p.triedAt = max(p.triedAt, m.when)
	if p.tries < 1<<15 {
		p.tries++
	}
	if f.triesDue == 0 {
		f.triesDue = next
	}
}

// agentID is the stable id of the party, as far as it is known.
func (p *party) agentID() string {
	if p.agent != "" {
		return p.agent
	}
	return p.name
}

// tellTries tells the agent stage how many calls each party has tried against orders, and
// when the last was.
func (f *Flow) tellTries(at events.Stamp, fx *Effects) {
	for i := range f.parties {
		if r, ok := f.takeTries(uint8(i)); ok {
			f.sayTries(r, at, fx)
		}
	}
	f.triesDue, f.triesTold = 0, max(f.triesTold, at)
}

func (f *Flow) takeTries(i uint8) (r report, ok bool) {
	p := &f.parties[i]
	if p.tries == 0 {
		return report{}, false
	}
	r = report{name: p.name, agent: p.agent, did: p.triedAt, work: WorkRefused, tries: p.tries}
	p.tries, p.triedAt = 0, 0
	return r, true
}

// reportGone tells of the parties that gave way to the event's.
func (f *Flow) reportGone(fx *Effects) {
	if len(f.gone) == 0 {
		return
	}
	for _, r := range f.gone {
		if r.tries > 0 {
			f.sayTries(r, f.clock, fx)
			continue
		}
		f.sayReport(r, fx)
	}
	f.gone = f.gone[:0]
}

func (f *Flow) sayReport(r report, fx *Effects) { f.sayOf(r, r.did, fx) }

// sayTries says a report of tries that was made at a time, which tells it from others.
func (f *Flow) sayTries(r report, at events.Stamp, fx *Effects) {
	f.sayOf(r, at, fx).TotalUpdates = int64(r.tries)
}

func (f *Flow) sayOf(r report, id events.Stamp, fx *Effects) *events.AgentState {
	who := events.Party{Agent: r.name}
	if r.agent != "" {
		who = events.Party{Session: r.name, Agent: r.agent}
	}
	ev := events.Event{ID: fx.said.id(f.key, r.name, id), Source: "weir", Kind: events.AgentActivity,
		CorrelationID: f.key, CorrelationSource: f.source, From: who}
	s := fx.said.state(r.work)
	fx.say(who, &ev, r.did).AgentState = s
	return s
}

// id returns the id of a report: a hash of the flow, the party and the time.
func (s *saying) id(flow, party string, at events.Stamp) string {
	h := xxhash.Sum64String(flow)*0x9e3779b97f4a7c15 ^ xxhash.Sum64String(party)
	h = (h ^ uint64(at)) * 0xff51afd7ed558ccd
	n := len(s.bytes)
	s.bytes = strconv.AppendUint(s.bytes, h^h>>33, 16)
	return s.from(n)
}

// know learns the stable id of a party that goes by another name. The ids take what the
// names leave of the room that both have.
func (f *Flow) know(i uint8, id *events.Party) {
	if id.Session == "" || id.Agent == "" {
		return
	}
	p := &f.parties[i]
	if id.Agent != p.name && id.Agent != p.agent && f.nameBytes()-len(p.agent)+len(id.Agent) <= maxPartyBytes {
		if p.agent != "" {
			f.depart(i)
		}
		p.agent = id.Agent
	}
}

func (f *Flow) nameBytes() (n int) {
	for i := range f.parties {
		n += len(f.parties[i].name) + len(f.parties[i].agent)
	}
	return n
}

// trimAgents forgets ids of agents for which the names have left no room, those first
// that were silent longest.
func (f *Flow) trimAgents() {
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
		f.depart(uint8(victim))
		over -= len(f.parties[victim].agent)
		f.parties[victim].agent = ""
	}
}
