package analyzer

import (
	"slices"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer/ledger"
	"weir/analyzer/rules"
	"weir/events"
)

// moment is what is known of the event at hand while it is judged: what apply
// found out and rules measure by. It is reset for every event.
// Rules read it beside the flow. It lives in the Effects, so a pointer to it is good for one
// step only.
type moment struct {
	ev    *events.Event // nil at a deadline
	at    events.Stamp  // time at which the event is folded
	when  events.Stamp  // true event time, for windows that sort by it
	late  bool          // behind the flow's clock
	busy  bool          // the partition is above its load limit
	user  bool          // a user's event
	word  bool          // and in time, from a sender that counts: it clears what a user's message clears
	hop   bool          // an agent called an agent
	idle  bool          // and no work was done before it, for sure
	blind bool          // or it is unknown whether work was done before it

	before   ledger.Amount // what the flow had reported to its tree; nothing where there is none
	joins    bool          // it is the first event of the flow that names a tree
	foreseen int64         // how much of its budget the flow will have spent, in percent; 0 for unknown
	rewrote  rewrote
	funds    funds // what the flow had spent before the event, where there are budgets

	// A place in the moment and not a local variable, because a pointer to it is passed to
	// function values.
	set      rules.Setting // of the row that is judged
	from, to uint8
	tool     uint8
	source   uint32 // short hash of the name of the event's source
	// A retry is what the producer says is one (retry_of), and a look again at what others
	// still work on (decision 80). Rules about repetition pass over it.
	retry  bool // legally repeats a call
	exempt bool // the limits exempt the tool
	callAt int  // index into calls of from; -1 when the call is not remembered

	returned bool // the hop returned to a party that control had come through
	joined   bool // the callee was not in the episode before
	spawned  bool // the hop started a subagent
	beside   bool // the hop was made beside the one before, whose callee has not answered yet
	// The measures below are of this event alone; 0 where it says nothing of them.
	stale        int64
	staleSame    int64
	stalePair    int  // index into pairs, -1 when no round was closed
	delegation   int  // index into delegations, -1
	brief        int  // index into briefs of the message at hand, -1
	stray        bool // an answer that matches no call
	errors       int64
	oks          int64
	inTurn       int64 // as oks, of several tools in turn
	storm        int64 // calls in a row, without a pause, to a provider that is busy or away
	loops        int64
	reflects     int64
	earlier      int64 // loops, or reflections, of the task before the one at hand
	conversation int64
	// When a throttle that is given now may end: as soon as one more hop fits into the window.
	fits events.Stamp
}

// begin makes it the moment of a time, of which nothing else is known yet.
func (m *moment) begin(at events.Stamp) {
	*m = moment{}
	m.at, m.when = at, at
	m.from, m.to, m.tool = none, none, none
	m.callAt, m.stalePair, m.delegation, m.brief = -1, -1, -1, -1
}

// ifHop is the value where the event is a hop, else 0: counters of hops do not speak at calls
// of a person.
func (m *moment) ifHop(v int64) int64 {
	if !m.hop {
		return 0
	}
	return v
}

// trace notes by what the flow is known: by the most trusted source that named it. One event
// with a guessed id must not turn the blocks of a flow into warnings.
// The larger a CorrelationSource, the less it is trusted. Once a dispatcher has checked a call,
// only checks change the source, so that a report cannot block a flow whose dispatcher
// guesses its id. What a gateway checks once more says nothing about a flow that others name.
func (f *Flow) trace(ev *events.Event) {
	by, check := ev.CorrelationSource, isCheck(ev)
	switch {
	case f.events == 1, f.source == events.CorrelationPrincipal:
		f.source = by
	case by == events.CorrelationPrincipal:
		return
	case check && f.flags&flagChecked == 0, check == (f.flags&flagChecked != 0) && by < f.source:
		f.source = by
	}
	if check && by != events.CorrelationPrincipal {
		f.flags |= flagChecked
	}
}

// apply counts the event. It is the only code that writes counters.
// It gives no verdict, and takes orders away only where a party that they name gives way to a
// new one.
func (e *Engine) apply(f *Flow, m *moment) {
	ev := m.ev
	m.from, m.to, m.tool = none, none, none
	f.trace(ev)
	if f.service == "" && ev.Source != "" {
		f.service = ServiceOf(ev.Source)
	}
	// Any event after the end shows that a party is at work again.
	f.flags &^= flagEnded
	if m.word {
		f.clearPatterns(true)
		// A mere claim clears windows and none of the offences (decision 59).
		if !ev.Claimed {
			f.offences = f.offences[:0]
		}
		// A user's message begins a turn, whether or not the producer reports one.
		f.newTurn()
	}
	// People take no index: nothing is ever refused to them, and they would count as sessions.
	if !ev.From.IsZero() && ev.From.Type != events.PartyHuman {
		m.from = f.party(e.limits.Identity.Of(ev.From), false)
	}
	if !ev.To.IsZero() && ev.To.Type != events.PartyHuman && (ev.Kind == events.AgentCall || ev.Kind == events.AgentReturn) {
		known := f.unique
		m.to = f.party(e.limits.Identity.Of(ev.To), false)
		m.joined = f.unique > known
	}
	// Before the stack moves, because it has to see from where control comes.
	if e.agents.Silence {
		f.follow(m)
	}
	if m.from == none && isUnnamed(ev) {
		m.from = f.party(unnamed, true)
	}
	// Usage may come with any kind of event, and budgets of it are judged after five of them.
	e.applyUsage(f, m)
	f.applyTurn(m, e.limits.Rules[ruleOfTurns].All)
	switch ev.Kind {
	case events.AgentCall:
		e.applyCall(f, m)
	case events.AgentReturn:
		f.applyReturn(m)
	case events.ToolCall:
		e.applyToolCall(f, m)
	case events.ToolResult:
		e.applyToolResult(f, m)
	case events.TaskLoop, events.TaskReflect:
		f.applyTask(m)
	case events.FlowEnd:
		f.flags |= flagEnded
	}
}

// unnamed is the party of tool uses that name no caller. It counts as no session, takes no
// part in calls, and nothing is reported of it.
const unnamed = "(unnamed)"

// isUnnamed reports whether the event is a tool use that names no caller.
func isUnnamed(ev *events.Event) bool {
	return ev.From.IsZero() && (ev.Kind == events.ToolCall || ev.Kind == events.ToolResult)
}

// applyCall counts a call to an agent. The order of what it does is what rules rely on:
// whether it came without work is found before the call clears the marks of work, and the
// streak after the stack has moved.
func (e *Engine) applyCall(f *Flow, m *moment) {
	ev := m.ev
	if m.to == none {
		return
	}
	callee := &f.parties[m.to]
	starts := e.spawned && f.spawns(m.from, m.to)
	callee.flags |= partyPlaced
	m.hop = ev.By() == events.OriginAgent && m.from != none
	if !m.hop {
		// A person, a scheduler or an applet gave the work: control starts here.
		f.moveTo(none, m.to)
		callee.flags &^= partyWorked
		// The round of a person has no caller, so stale rounds are not counted for it.
		f.openRound(m, f.events, none, m.to)
		return
	}
	f.hops++
	if e.spawned {
		f.countJob(m)
	}
	if starts {
		f.beginJob(m)
	}
	caller := &f.parties[m.from]
	caller.flags |= partyPlaced
	m.idle = f.noWork(m, caller, e.limits.Rules[ruleOfIdle].All)
	if m.beside = f.sideBySide(m, f.pos); m.beside && m.joined {
		callee.flags |= partyBeside
	}
	m.returned = f.moveTo(m.from, m.to)
	callee.flags &^= partyHanded
	if m.from != m.to && (m.returned || handsOver(ev, caller)) {
		caller.flags |= partyHanded
	}
	// Counters stop at rules.MaxCount; no limit can be above it.
	if m.returned && callee.revisits < 1<<15 {
		callee.revisits++
	}
	if callee.called < rules.MaxCount {
		callee.called++
	}
	f.stampRate(m)
	if !m.idle || !m.beside { // several calls sent at once are one attempt
		f.hopRuns(m, f.events, e.limits.Rules[ruleOfTalk].All)
	}
	f.openRound(m, f.events, m.from, m.to)
	f.delegate(m)
	if e.briefs {
		giveBrief(f, m)
	}
	m.conversation = f.countConversation(ev.ConversationID)
	// What was done is spent by the call: the next hop needs new work behind it.
	caller.flags &^= partyWorked
	if m.from != m.to {
		callee.flags &^= partyWorked
	}
	// For its loops: a call may report how often its task has gone round.
	f.applyTask(m)
}

// handsOver reports whether a call passes control on for good: the log says so, or it does not
// say, and the caller did its part of the work before it.
func handsOver(ev *events.Event, caller *party) bool {
	switch ev.TransferMode {
	case events.PassControl:
		return true
	case events.ReturnToCaller:
		return false
	}
	return caller.flags&partyWorked != 0 && ev.HadWork != events.No
}

// sideBySide reports whether the caller delegates work while the party that it delegated to last
// is still working. These are delegations of one batch, of which none answers another.
func (f *talk) sideBySide(m *moment, pos uint8) bool {
	if m.ev.TransferMode != events.ReturnToCaller || pos == none || pos == m.from {
		return false
	}
	return slices.ContainsFunc(f.pairs, func(r pair) bool { return r.open && r.from == m.from && r.to == pos })
}

// noWork reports whether the caller is known to have done nothing since it was called. Unknown
// never counts as no work, unless the limits require it.
// Work is known to be missing when the producer reports so. It also is when its source has
// reported tool uses in this flow and none of this caller (see decision 4). It notes for people
// when this is unknown.
func (f *Flow) noWork(m *moment, caller *party, unknown bool) bool {
	ev := m.ev
	f.flags &^= flagWorkUnknown
	if caller.flags&partyWorked != 0 || ev.HadWork == events.Yes || ev.Work.ToolCalls > 0 || ev.Work.Outputs > 0 {
		f.worked(m.from)
		return false
	}
	known := ev.HadWork == events.No || ev.Work.Known || f.reporting.reports(m.source)
	if m.blind = !known && !unknown; m.blind {
		f.flags |= flagWorkUnknown
	}
	return unknown || known
}

// worked breaks the cycles and streaks that the party is part of.
// Delegations of and to the party go as well: an answer after work may differ.
func (f *Flow) worked(i uint8) {
	if i == none {
		return
	}
	f.parties[i].flags |= partyWorked
	f.clearHopsOf(i)
	n := 0
	for _, d := range f.delegations {
		if d.from != i && d.to != i {
			f.delegations[n] = d
			n++
		}
	}
	f.delegations = f.delegations[:n]
}

// reports returns whether the source was seen to report tool use in this flow.
func (f *sources) reports(h uint32) bool {
	for _, r := range f {
		if r == h {
			return true
		}
	}
	return false
}

// setReports notes that the source reports tools. From then on, no report from it means that
// none were used.
func (f *sources) setReports(h uint32) {
	for i, r := range f {
		if r == h {
			return
		}
		if r == 0 {
			f[i] = h
			return
		}
	}
}

// applyReturn gives control back. A return to a person ends the work if no party is further
// up, and the flow is at rest from then on.
func (f *Flow) applyReturn(m *moment) {
	ev := m.ev
	if m.from == none {
		return
	}
	if ev.HadWork == events.Yes || ev.Work.Outputs > 0 || ev.Work.ToolCalls > 0 {
		f.worked(m.from)
	}
	f.closeRound(m, m.from, m.to)
	m.stray = m.to != none && m.to != m.from && !calledBy(f, m.from, m.to)
	if m.stray && f.strays < rules.MaxCount {
		f.strays++
	}
	f.answerDelegation(m)
	if len(f.briefs) > 0 {
		briefBack(f, m)
	}
	f.parties[m.from].flags |= partyHanded
	if m.to == none { // back to a human
		switch parent := f.parties[m.from].parent; {
		case f.pos == m.from && parent != none:
			f.pos = parent
		case parent == none:
			f.flags |= flagEnded
		}
		return
	}
	f.moveTo(m.from, m.to)
	f.parties[m.to].flags &^= partyHanded
}

// calledBy reports whether the caller called the party, as far as is remembered; yes where parties had to be
// forgotten, and where the call may have been before what weir has seen of the episode.
func calledBy(f *Flow, party, caller uint8) bool {
	p := &f.parties[party]
	switch {
	case len(f.parties) == maxParties || f.flags&flagIncomplete != 0 || p.parent == caller:
		return true
	case p.called == 0:
		return f.episode > 0
	case p.parent == none: // a person's message has cut it off
		return true
	}
	return slices.ContainsFunc(f.pairs, func(r pair) bool { return r.from == caller && r.to == party })
}

// applyToolCall counts a call of a tool and puts it into the window of its party. Rules that
// need the result judge it when that comes.
func (e *Engine) applyToolCall(f *Flow, m *moment) {
	ev := m.ev
	f.toolCalls++
	if e.spawned {
		f.countJob(m)
	}
	if !isUnnamed(ev) { // else it may have been the work of anybody
		f.reporting.setReports(m.source)
	}
	m.retry = ev.Tool.RetryOf != ""
	m.exempt = e.limits.exempt(ev.Tool.Name)
	m.tool = f.tool(ev.Tool.Name)
	if m.from == none {
		return
	}
	// The use of a tool is work, whatever comes of it.
	f.worked(m.from)
	p := &f.parties[m.from]
	// As the gateway counts, whose rule this is.
	if ev.TurnID != "" && f.flags&flagTurnOpen == 0 {
		f.flags |= flagTurnOpen // the call that opens the turn is not chained
	} else if p.chain < 1<<15 {
		p.chain++
	}
	// The call is complete but for its result; applyToolResult fills that in.
	c := call{tool: m.tool, at: f.since(m.at), n: f.events, id: shortHash(ev.Tool.CallID)}
	if ev.Tool.CallID == "" {
		c.id = 0
	}
	if m.retry {
		c.flags |= callRetry
	}
	if ev.Tool.Beside && len(p.calls) > 0 {
		c.flags |= callBeside
	}
	c.argsSim = ev.Tool.ArgsSim.Value
	if !ev.Tool.ArgsHash.IsZero() {
		c.flags |= callArgs | algorithmFlags(ev.Tool.ArgsHash.Algorithm)
		c.args = ev.Tool.ArgsHash.Value
	}
	m.callAt = f.pushCall(p, c)
	f.noteCall(m, p, c)
	if len(f.briefs) > 0 {
		briefCall(f, m)
	}
}

// applyToolResult puts the result to its call and lets the measures of repetition see it. A
// result whose call is forgotten, and a request for input, which is no result yet, change
// nothing.
func (e *Engine) applyToolResult(f *Flow, m *moment) {
	ev := m.ev
	if !isUnnamed(ev) {
		f.reporting.setReports(m.source)
	}
	m.exempt = e.limits.exempt(ev.Tool.Name)
	if m.from == none || ev.Status == events.StatusInputRequired {
		return
	}
	p := &f.parties[m.from]
	m.tool = f.tool(ev.Tool.Name)
	// The tool is known even if its call is not; rows about results have nothing to measure
	// then.
	i := findCall(p, m.tool, ev.Tool.CallID)
	if i < 0 {
		return
	}
	c := &p.calls[i]
	m.callAt = i
	m.retry = c.flags&callRetry != 0
	c.flags |= callResult
	// By ordinal, because it is compared with ordinals of other calls to find those made side
	// by side.
	c.done = min(f.events, c.n+maxSpan)
	if ev.Status == events.StatusCancelled {
		// It was never made, so it says nothing: a call beside it failed, or a person stopped it.
		c.flags |= callRetry
		m.retry = true
		if len(f.briefs) > 0 {
			briefResult(f, m, false)
		}
		return
	}
	c.outcome(ev)
	busy := c.flags&callError != 0 && infrastructure(ev)
	if busy && !m.retry {
		m.storm = f.followStorm(p, i)
		if m.storm <= shortStorm {
			c.flags |= callRetry // who waits for a provider goes in no circle
			m.retry = true
		}
	}
	if f.awaits(m.from, i) {
		c.flags |= callRetry // to look again is what a caller has to do meanwhile
		m.retry = true
	}
	// Runs count exempt and slow calls as well; rows about repetition are not judged for
	// exempt tools at all.
	if !busy {
		f.followRun(m, p, i)
	}
	slow := f.slow(m, c)
	if len(f.briefs) > 0 {
		briefResult(f, m, slow)
	}
	if !m.exempt && !slow && !e.spares(ruleOfPoints, f, m) {
		p.score(m, i)
	}
	p.followCycle(i)
}

// applyUsage adds what the event spent. Producers report it in three ways. Deltas are added.
// Of sums of a party since its start only the growth counts. Aggregates repeat what was
// reported in parts before. The larger sum counts. Added up, all would count twice. If one kind
// were left out, a sender of that kind could hide the figures of the dispatcher.
func (e *Engine) applyUsage(f *Flow, m *moment) {
	u := &m.ev.Usage
	if !u.Known {
		return
	}
	if e.contexts {
		e.noteContext(f, m)
	}
	if e.holds {
		e.noteCache(f, m)
	}
	spent, sums := [4]int64{u.Input, u.Output, u.Total, u.CostMicroUSD}, &f.parts
	switch u.Scope {
	case events.UsageAggregate:
		sums = &f.wholes
	case events.UsageCumulative:
		if m.from == none {
			return
		}
		spent = f.sumOf(m).grow(spent, m.late)
		f.flags |= flagDelta
	default:
		f.flags |= flagDelta
	}
	// Some producers report only the parts.
	if spent[2] == 0 {
		spent[2] = saturate(spent[0], spent[1])
	}
	if u.CostMicroUSD == 0 && len(e.limits.Prices) > 0 {
		spent[3] = e.limits.price(m.ev, spent[2])
	}
	for i := range sums {
		sums[i] = saturate(sums[i], spent[i])
	}
	if e.spawned && m.from != none {
		f.parties[m.from].job.spend(u.Scope, spent[2], spent[3])
	}
	for i := range f.tokens {
		f.tokens[i] = max(f.parts[i], f.wholes[i])
	}
	f.cost = max(f.parts[3], f.wholes[3])
}

// price returns what tokens of which the event reports no cost cost by the table; 0 when it has no
// price for the model. Of a cumulative figure only the growth is priced, split as the whole figure is.
func (l *Limits) price(ev *events.Event, grown int64) int64 {
	if ev.Usage.Scope != events.UsageCumulative {
		cost, _ := l.Prices.Cost(ev)
		return cost
	}
	cost, _ := l.Prices.Growth(ev, grown, max(ev.Usage.Total, ev.Usage.Input+ev.Usage.Output))
	return cost
}

// sumOf returns the sums that the event's source reported of the session at hand, new ones if
// it reported none before. Two sources that report one party count each for itself. So do the
// sessions of an agent where parties are agents.
func (f *cast) sumOf(m *moment) *sum {
	p := &f.parties[m.from]
	by := shortHash(m.ev.Source + "\x00" + m.ev.From.Session)
	for i := range p.sums {
		s := &p.sums[i]
		if s.by == 0 {
			// An older weir kept tokens alone, and counted each sum of money whole.
			s.by, s.told[3] = by, m.ev.Usage.CostMicroUSD
		}
		if s.by == by {
			return s
		}
	}
	// The number of sums is bounded per flow and not per party, because most parties have at
	// most one. When there are as many as parties fit, the party with the most gives one up:
	// some party has two, or each has one, including this one.
	total, most := 0, p
	for i := range f.parties {
		q := &f.parties[i]
		if total += len(q.sums); len(q.sums) > len(most.sums) {
			most = q
		}
	}
	if total >= maxParties {
		most.sums = most.sums[:copy(most.sums, most.sums[1:])]
	}
	p.sums = append(p.sums, sum{by: by})
	return &p.sums[len(p.sums)-1]
}

// grow returns by how much the figures exceed those reported before, which they replace. A
// figure of 0 was not reported. When one is smaller than before, all have begun again and count
// whole. A late one is from before and adds nothing.
func (s *sum) grow(now [4]int64, late bool) (more [4]int64) {
	for i, n := range now {
		if n == 0 || n >= s.told[i] {
			continue
		}
		if late {
			return more
		}
		s.told = [4]int64{}
		break
	}
	for i, n := range now {
		if n != 0 {
			more[i], s.told[i] = n-s.told[i], n
		}
	}
	// A total that is not reported has grown by its parts, so that one reported later fits.
	if now[2] == 0 {
		more[2] = saturate(more[0], more[1])
		s.told[2] = saturate(s.told[2], more[2])
	}
	return more
}

// applyTurn notes a turn that begins. A turn that comes back is one that was counted,
// unless changes are what counts.
func (f *Flow) applyTurn(m *moment, changes bool) {
	id := m.ev.TurnID
	if id == "" || id == f.turnID {
		return
	}
	f.turnID = id
	// Chains of tool calls are counted within a turn, also in one that comes back.
	f.newTurn()
	h := shortHash(id)
	if !changes && slices.Contains(f.turnSeen, h) {
		return
	}
	// The oldest goes. A turn that comes back after sixteen others counts as a new one.
	if len(f.turnSeen) == maxTurnIDs {
		copy(f.turnSeen, f.turnSeen[1:])
		f.turnSeen = f.turnSeen[:maxTurnIDs-1]
	}
	f.turnSeen = append(f.turnSeen, h)
	if f.turns < 1<<15 {
		f.turns++
	}
}

// newTurn begins the chains of tool calls again.
func (f *Flow) newTurn() {
	f.flags &^= flagTurnOpen
	for i := range f.parties {
		f.parties[i].chain = 0
	}
}

// applyTask counts loops and reflections of a task. The larger of our count and the caller's
// own is what rules see: the caller may have begun before the log did.
func (f *counts) applyTask(m *moment) {
	ev := m.ev
	if ev.TaskID == "" {
		return
	}
	h := shortHash(ev.TaskID)
	i := 0
	for i < len(f.tasks) && f.tasks[i].id != h {
		i++
	}
	if i == len(f.tasks) {
		if ev.Kind == events.AgentCall { // a call only reads what loops counted
			m.loops = ev.LoopCount
			return
		}
		// The task that was begun first gives way, and begins again if it goes on.
		if i == maxTasks {
			copy(f.tasks, f.tasks[1:])
			i--
			f.tasks = f.tasks[:i]
		}
		f.tasks = append(f.tasks, task{id: h})
	}
	t := &f.tasks[i]
	switch ev.Kind {
	case events.TaskLoop:
		// Before this one is counted, for an ask may make the last loop that is allowed; see
		// lastLoop.
		m.earlier = max(int64(t.loops), ev.LoopCount)
		t.loops = uint16(min(1<<15, int64(t.loops)+1))
		m.loops = max(int64(t.loops), ev.LoopCount)
	case events.TaskReflect:
		m.earlier = max(int64(t.reflects), ev.LoopCount)
		t.reflects = uint16(min(1<<15, int64(t.reflects)+1))
		m.reflects = max(int64(t.reflects), ev.LoopCount)
	case events.AgentCall:
		m.loops = max(int64(t.loops), ev.LoopCount)
	}
}

// countConversation counts a message in its conversation and returns how many there were;
// where the log names none, the flow is the conversation.
func (f *counts) countConversation(id string) int64 {
	if id == "" {
		return int64(f.hops)
	}
	h := shortHash(id)
	for i := range f.conversations {
		if f.conversations[i].id == h {
			f.conversations[i].n++
			return int64(f.conversations[i].n)
		}
	}
	if len(f.conversations) == maxConversations {
		copy(f.conversations, f.conversations[1:])
		f.conversations = f.conversations[:maxConversations-1]
	}
	f.conversations = append(f.conversations, counter{h, 1})
	return 1
}

// stampRate keeps the true times of hops, sorted, as long as the widest window.
// Sorted, because a late hop belongs into a window that may have ended already. The oldest
// gives way at maxRateStamps, so no rate above that can be measured.
func (f *rates) stampRate(m *moment) {
	const widest = 10 * 60 * 1000 // milliseconds
	at := f.since(m.when)
	i := len(f.rate)
	// From the end, because nearly all hops come in order.
	for i > 0 && f.rate[i-1].at > at {
		i--
	}
	drop := 0
	for drop < len(f.rate) && int64(f.rate[drop].at) <= int64(f.since(m.at))-widest {
		drop++
	}
	// It is the oldest by its own time, not by its arrival.
	if len(f.rate)-drop == maxRateStamps {
		drop++
	}
	if drop > 0 {
		f.rate = f.rate[:copy(f.rate, f.rate[drop:])]
		i = max(0, i-drop)
	}
	f.rate = append(f.rate, rateStamp{})
	copy(f.rate[i+1:], f.rate[i:])
	f.rate[i] = rateStamp{at, m.from}
}

// shortHash is a hash of a name in 32 bits, for lists of a few names: half the room, and a
// collision among sixteen is of no account.
func shortHash(s string) uint32 { return short(xxhash.Sum64String(s)) }

// short is never 0, which means none.
func short(h uint64) uint32 { return uint32(h>>32) ^ uint32(h) | 1 }

// mix makes hashes of unlike algorithms unlike numbers.
func mix(h events.Hash) uint64 {
	if h.IsZero() {
		return 0
	}
	// The first algorithm leaves the value as it is. 0 stands for not known, so no hash may give
	// it.
	v := h.Value ^ uint64(h.Algorithm-1)*0x9e3779b97f4a7c15
	if v == 0 {
		return 1
	}
	return v
}

// saturate adds without overflow: figures come from producers, which may report any value.
func saturate(a, b int64) int64 {
	const most = 1 << 60
	if b > most-a {
		return most
	}
	return a + b
}
