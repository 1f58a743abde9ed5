package analyzer

import (
	"slices"

	"weir/analyzer/standing"
	"weir/events"
)

// order is a standing order of the flow. At most one stands per scope and reason.
// Its slices belong to it alone. Orders are swapped and never copied where both stay in use,
// since two that share memory would change each other.
type order struct {
	standing.Order
	rule   RuleID
	scope  events.ScopeKind
	lapsed bool // it held the flow, and no person decided
	// It stands, counts and is renewed all the same (decision 54).
	hidden bool  // not published: a wider order refuses as much
	wide   uint8 // how far attempts have widened it: 0, 1 pair, 2 agent, 3 flow
	a, b   uint8 // parties of the scope; none where the scope has none
	least  uint8 // of selectOffStack: the depth
	period uint8
	// In which it was given or tightened last: budgets of another one are whole again.
	episode uint16
	kind    events.Kind // calls it is about; KindUnset for both
	picks   selection
	subject string // task id or turn id
	// With selectEdges and selectBrief: only calls with this content; with the former zero for any.
	content events.Hash
	edges   []edge
	calls   []callRef
	calls0  uint32 // calls and tokens of the flow when the offence began
	tokens0 int64
	// When the incident began that the order is part of, see incident.
	incident events.Stamp
}

// selection is how an order selects the calls that it refuses, beside its lists.
type selection uint8

// They stand in stored state, so that numbers are never reused.
const (
	selectAll          selection = iota // every call of the scope
	selectEdges                         // calls along the edges
	selectOffStack                      // calls of parties at least so deep, except back to parties they came through
	selectNew                           // calls to parties that were not seen
	selectCallee                        // calls to the party that the edge leads to
	selectCaller                        // calls of party a
	selectTools                         // tool calls of party a named in calls, whatever the arguments
	selectCalls                         // tool calls of party a named in calls
	selectTurn                          // tool calls of this turn
	selectNewTurn                       // calls of another turn
	selectTask                          // calls for the task
	selectConversation                  // calls in the conversation
	selectSpawn                         // calls that start a subagent
	selectBackground                    // those that start one in the background
	selectBrief                         // calls of party a with this content
)

// edge is a call from one party to another, whatever it says.
type edge struct{ from, to uint8 }

// callRef names a tool call by what a dispatcher knows before it makes it: tool and arguments.
type callRef struct {
	tool      uint8
	algorithm events.HashAlgorithm
	args      uint64
}

// haltsFlow reports whether the order refuses every call of the flow.
func (o *order) haltsFlow() bool {
	return (o.Action == events.Halt || o.Action == events.Hold) && o.scope == events.ScopeFlow && o.picks == selectAll && o.kind == events.KindUnset
}

// strictness orders orders by what they do, then by how wide they are.
// Of several orders that refuse a call, the strictest is the one that the try is counted for.
func (o *order) strictness() int {
	width := 0
	switch o.scope {
	case events.ScopeFlow:
		width = 3
	case events.ScopeSession, events.ScopeTask:
		width = 2
	case events.ScopePair:
		width = 1
	}
	return severity(o.Action)<<2 + width
}

// severity orders actions by how final they are: a hold waits for a person, a halt does not.
// It is not the place of the action, because places are fixed by stored state and do not order
// actions.
func severity(a events.Action) int {
	switch a {
	case events.Hold:
		return 2*events.Deny.Place() + 1
	}
	return 2 * a.Place()
}

// mentions reports whether the order names the party; if so it goes when the party is
// forgotten.
func (o *order) mentions(party uint8) bool {
	if o.a == party || o.b == party {
		return true
	}
	for _, x := range o.edges {
		if x.from == party || x.to == party {
			return true
		}
	}
	return false
}

// forgetTool takes the tool out of the calls that are refused. Their places stay, so the order
// goes on refusing the others.
func (o *order) forgetTool(t uint8) {
	for i := range o.calls {
		if o.calls[i].tool == t {
			o.calls[i].tool = none
		}
	}
}

// orderOf returns the active order for a reason and scope, or nil. The subject distinguishes
// orders about tasks and conversations; for others it has no meaning.
func (f *sanctions) orderOf(reason events.Reason, scope events.ScopeKind, a, b uint8, subject string) *order {
	for i := range f.orders {
		o := &f.orders[i]
		if Rules[o.rule].Reason == reason && o.scope == scope && o.a == a && o.b == b && (Rules[o.rule].Subject == nil || o.subject == subject) {
			return o
		}
	}
	return nil
}

// dropOrder takes an order out. Its slices go to the end of the list, where addOrder finds
// them.
func (f *sanctions) dropOrder(i int) {
	n := len(f.orders) - 1
	gone := f.orders[i]
	copy(f.orders[i:], f.orders[i+1:])
	f.orders[n] = order{edges: gone.edges[:0], calls: gone.calls[:0]}
	f.orders = f.orders[:n]
}

// addOrder makes room for one more order. When there are too many, warnings go
// before orders that stop, the oldest first.
// The pointer is good until the next order is added or dropped. The order that it returns is
// empty but for the memory of its slices.
func (f *sanctions) addOrder() *order {
	if len(f.orders) == maxOrders {
		victim := 0
		for i := range f.orders {
			v, o := &f.orders[victim], &f.orders[i]
			if o.Phase < v.Phase || o.Phase == v.Phase && (o.wide < v.wide || o.wide == v.wide && o.Issued < v.Issued) {
				victim = i
			}
		}
		f.dropOrder(victim)
	}
	n := len(f.orders)
	if n < cap(f.orders) {
		f.orders = f.orders[:n+1]
		o := &f.orders[n]
		edges, calls := o.edges, o.calls
		*o = order{}
		o.edges, o.calls = edges[:0], calls[:0]
	} else {
		f.orders = append(f.orders, order{})
	}
	return &f.orders[n]
}

// matches reports whether the order is about the call that m announces. Parties
// and tools that the flow has not seen have the index none.
// It has to agree with match, which says it to dispatchers as far as they can know.
func (f *callStack) matches(o *order, c *announced) bool {
	// KindUnset is for both kinds that can be refused.
	if o.kind != events.KindUnset && o.kind != c.kind {
		return false
	}
	switch o.scope {
	case events.ScopeSession:
		if c.from != o.a {
			return false
		}
	case events.ScopePair:
		// A pair refuses in both directions, as its name says.
		if o.picks == selectAll && !(c.kind == events.AgentCall && (c.from == o.a && c.to == o.b || c.from == o.b && c.to == o.a)) {
			return false
		}
	}
	switch o.picks {
	case selectEdges:
		return c.kind == events.AgentCall && slices.Contains(o.edges, edge{c.from, c.to}) && (o.content.IsZero() || o.content == c.content)
	case selectOffStack:
		// Who was neither called nor called anybody stands nowhere and is taken to be at
		// the end of the stack.
		if !f.placed(c.from) {
			return c.to == none || !f.onStack(c.to)
		}
		return f.depthOf(c.from) >= int64(o.least) && !f.cameThrough(c.from, c.to)
	case selectNew:
		return c.to == none || f.parties[c.to].flags&partyActive == 0
	case selectCallee:
		return len(o.edges) == 1 && c.to == o.edges[0].to
	case selectCaller:
		return c.from == o.a
	case selectTools:
		return c.kind == events.ToolCall && slices.ContainsFunc(o.calls, func(r callRef) bool { return r.tool == c.tool && r.tool != none })
	case selectCalls:
		return c.kind == events.ToolCall && slices.ContainsFunc(o.calls, func(r callRef) bool {
			return r.tool == c.tool && r.tool != none && r.args == c.args.Value && r.algorithm == c.args.Algorithm
		}) || Rules[o.rule].Rewords && f.rewords(c)
	case selectTurn:
		return o.subject == c.turn
	case selectNewTurn:
		// A call without a turn id cannot be distinguished from one of the turn at hand.
		return c.turn != "" && c.turn != o.subject
	case selectTask:
		return o.subject == c.task
	case selectConversation:
		return o.subject == c.conversation
	case selectSpawn:
		return f.spawns(c.from, c.to)
	case selectBackground:
		return c.background && f.spawns(c.from, c.to)
	case selectBrief:
		return c.from == o.a && c.content == o.content
	}
	return true
}

// rewords reports whether the call is one more wording of calls of which two wordings have made
// points already.
// Two different wordings are asked for, because one alone is only a call that came back.
func (f *cast) rewords(c *announced) bool {
	if c.from == none || c.kind != events.ToolCall || c.argsSim == 0 {
		return false
	}
	next := call{tool: c.tool, argsSim: c.argsSim}
	var first *call
	p := &f.parties[c.from]
	for i := range p.calls {
		o := &p.calls[i]
		switch {
		// Only calls that made points are evidence.
		case o.flags&callScored == 0 || !nearArgs(&next, o):
		case first == nil:
			first = o
		case o.args != first.args:
			return true
		}
	}
	return false
}

// announced is a call in the terms of the flow, before it is counted.
// A check request and a call that was made are both read as one, so that refusals and attempts
// cover the same calls.
type announced struct {
	kind         events.Kind
	from, to     uint8
	tool         uint8
	args         events.Hash
	argsSim      uint64 // 0 when not known
	content      events.Hash
	turn         string
	task         string
	conversation string
	background   bool
}

// announce reads the call out of the event without changing the flow.
// It is asked before the call is counted, so parties and tools that it would bring in are
// none.
func (e *settings) announce(f *Flow, ev *events.Event) announced {
	c := announced{kind: ev.Kind, from: none, to: none, tool: none, args: ev.Tool.ArgsHash, argsSim: ev.Tool.ArgsSim.Value, content: ev.Content, turn: ev.TurnID, task: ev.TaskID, conversation: ev.ConversationID, background: ev.Background}
	// By the same identity as when it is counted, see Identity.
	if !ev.From.IsZero() {
		c.from = f.findParty(e.limits.Identity.Of(ev.From))
	} else if isUnnamed(ev) {
		c.from = f.findParty(unnamed)
	}
	if !ev.To.IsZero() {
		c.to = f.findParty(e.limits.Identity.Of(ev.To))
	}
	if ev.Kind == events.ToolCall {
		for i := range f.tools {
			if f.tools[i] == ev.Tool.Name {
				c.tool = uint8(i)
			}
		}
	}
	return c
}

// The match functions of the table: which calls an order refuses.

// Each fills in kind, picks and the lists; the caller has emptied them before. They look at
// the flow after the event was counted.
func matchAll(_ *Flow, _ *moment, o *order)       { o.picks = selectAll }
func matchCalls(_ *Flow, _ *moment, o *order)     { o.kind = events.AgentCall }
func matchToolCalls(_ *Flow, _ *moment, o *order) { o.kind = events.ToolCall }

// matchEdge refuses the call at hand, whatever it says, and no other between the two.
func matchEdge(_ *Flow, m *moment, o *order) {
	o.kind, o.picks = events.AgentCall, selectEdges
	o.edges = append(o.edges[:0], edge{m.from, m.to})
}

// matchOffStack is for limits of depth. A party at the last allowed depth may call only the
// parties that it came through (decision 8).
func matchOffStack(f *Flow, m *moment, o *order) {
	o.kind, o.picks = events.AgentCall, selectOffStack
	f.fromDepth(o, m.set.Stop-1)
}

// matchDeeper is for a depth that the caller may report: of levels that the log does not show.
func matchDeeper(f *Flow, m *moment, o *order) {
	o.kind, o.picks = events.AgentCall, selectOffStack
	least := m.set.Stop + 1
	if m.from != none {
		// The caller reported levels that are not in the log, so its order binds by its depth
		// in this flow.
		least = min(least, f.depthOf(m.from))
	}
	f.fromDepth(o, least)
}

// fromDepth has the order bind parties at the depth least or deeper, and notes the party that it
// was given for.
func (f *callStack) fromDepth(o *order, least int64) {
	o.least = uint8(min(max(least, 0), maxParties))
	if f.pos != none {
		o.subject = f.parties[f.pos].name // a new top of the stack makes a new order
	}
}

// matchNewParties lets those go on who take part already.
func matchNewParties(_ *Flow, _ *moment, o *order) {
	o.kind, o.picks = events.AgentCall, selectNew
}

// matchCaller refuses calls to agents by who made the one at hand; its tools it may go on using.
func matchCaller(_ *Flow, m *moment, o *order) {
	o.kind, o.picks = events.AgentCall, selectCaller
}

// matchParty refuses all calls of the party at hand, of agents and of tools.
func matchParty(_ *Flow, _ *moment, o *order) { o.picks = selectCaller }

// matchCallee refuses calls to the one that control came back to, whichever party makes them.
func matchCallee(_ *Flow, m *moment, o *order) {
	o.kind, o.picks = events.AgentCall, selectCallee
	o.edges = append(o.edges[:0], edge{none, m.to})
}

// matchRing refuses the edges of the cycle that repeats. They are sorted, so that the order is
// the same wherever in the cycle it was found.
func matchRing(f *Flow, m *moment, o *order) {
	o.kind, o.picks = events.AgentCall, selectEdges
	_, period := rounds(f.pairRun[:], 2, maxRing)
	o.period = uint8(period)
	o.edges = o.edges[:0]
	// The last round is enough: all others are like it.
	for i := len(f.ring) - period; i < len(f.ring); i++ {
		if x := (edge{f.ring[i].from, f.ring[i].to}); i >= 0 && len(o.edges) < maxOrderCalls && !slices.Contains(o.edges, x) {
			o.edges = append(o.edges, x)
		}
	}
	slices.SortFunc(o.edges, func(a, b edge) int { return int(a.from)<<8 + int(a.to) - int(b.from)<<8 - int(b.to) })
}

// matchDelegation refuses the message. Where the two send each other several that repeat, as
// question and answer do, it refuses all between them: one message after the other would only
// change places.
func matchDelegation(f *Flow, m *moment, o *order) {
	matchEdge(f, m, o)
	o.content = m.ev.Content
	if o.Phase == standing.Warn {
		return
	}
	for i := range f.delegations {
		d := &f.delegations[i]
		between := d.from == m.from && d.to == m.to || d.from == m.to && d.to == m.from
		// That one has reached the stop as well.
		if between && i != m.delegation && f.repeats(d, m) >= m.set.Stop {
			o.content, o.edges = events.Hash{}, append(o.edges[:0], edge{m.from, m.to}, edge{m.to, m.from})
			return
		}
	}
}

// matchPair refuses work from the caller to the callee of the round that ended. The round may
// have been ended by the return, so the event's own parties would be the wrong way round.
func matchPair(f *Flow, m *moment, o *order) {
	o.kind, o.picks = events.AgentCall, selectEdges
	r := &f.pairs[m.stalePair]
	o.edges = append(o.edges[:0], edge{r.from, r.to})
}

// matchTool refuses a tool to the party of the order, whatever the arguments.
func matchTool(_ *Flow, m *moment, o *order) {
	o.kind, o.picks = events.ToolCall, selectTools
	o.calls = append(o.calls[:0], callRef{tool: m.tool})
}

// matchStale refuses the tool that brought nothing new, and where several did so in turn all of
// them: an agent that goes round by three tools would go on with the other two.
func matchStale(f *Flow, m *moment, o *order) {
	matchTool(f, m, o)
	if max(m.oks, m.storm) >= m.set.Stop {
		return
	}
	p := &f.parties[m.from]
	for i := range p.calls {
		tool := p.calls[i].tool
		if r := p.findRun(tool, false); tool != none && r < len(p.runs) && p.runs[r].n > 1 {
			o.addCall(callRef{tool: tool})
		}
	}
}

// matchFailing is for a tool that fails in one way. Where it also worked, as a shell does that
// runs many commands, the calls that failed are refused, else the whole tool.
func matchFailing(f *Flow, m *moment, o *order) {
	p := &f.parties[m.from]
	c := &p.calls[m.callAt]
	worked := c.flags&callArgs != 0 && slices.ContainsFunc(p.calls, func(o call) bool {
		return o.tool == c.tool && o.flags&(callResult|callError) == callResult
	})
	if !worked {
		matchTool(f, m, o)
		return
	}
	o.kind, o.picks = events.ToolCall, selectCalls
	o.calls = o.calls[:0]
	for i := len(p.calls) - 1; i >= 0; i-- {
		if x := &p.calls[i]; x.tool == c.tool && sameResult(x, c) {
			o.addCall(refTo(x))
		}
	}
}

// matchCall refuses the call at hand: this tool with these arguments.
func matchCall(f *Flow, m *moment, o *order) {
	o.kind, o.picks = events.ToolCall, selectCalls
	o.calls = append(o.calls[:0], refTo(&f.parties[m.from].calls[m.callAt]))
}

// matchScored refuses the calls that made points, the newest first: when there are more than
// fit, old ones are left out.
func matchScored(f *Flow, m *moment, o *order) {
	o.kind, o.picks = events.ToolCall, selectCalls
	o.calls = o.calls[:0]
	p := &f.parties[m.from]
	for i := len(p.calls) - 1; i >= 0; i-- {
		if p.calls[i].flags&callScored != 0 {
			o.addCall(refTo(&p.calls[i]))
		}
	}
}

// matchCycle refuses the calls of the last period, which are those of any other.
func matchCycle(f *Flow, m *moment, o *order) {
	o.kind, o.picks = events.ToolCall, selectCalls
	o.calls = o.calls[:0]
	p := &f.parties[m.from]
	_, period := rounds(p.cycleRun[:], 2, maxPeriod)
	o.period = uint8(period)
	// The result that has closed the cycle may be of an earlier call than the last.
	for i := m.callAt; i > m.callAt-period && i >= 0; i-- {
		o.addCall(refTo(&p.calls[i]))
	}
}

// addCall has the order refuse one more call. What is beyond the cap stays allowed.
func (o *order) addCall(r callRef) {
	if len(o.calls) < maxOrderCalls && !slices.Contains(o.calls, r) {
		o.calls = append(o.calls, r)
	}
}

// matchThisTurn refuses tool calls of the turn at hand; without turn ids all of them, until a
// user speaks.
func matchThisTurn(f *Flow, _ *moment, o *order) {
	o.kind = events.ToolCall
	if f.turnID != "" {
		o.picks, o.subject = selectTurn, f.turnID
	}
}

// matchNewTurn lets the turn at hand end, and refuses the next one.
func matchNewTurn(f *Flow, _ *moment, o *order) {
	o.picks, o.subject = selectNewTurn, f.turnID
}

// matchConversation refuses messages of the conversation; where the log names none, all calls of
// the flow.
func matchConversation(_ *Flow, m *moment, o *order) {
	o.kind = events.AgentCall
	if m.ev.ConversationID != "" {
		o.picks, o.subject = selectConversation, m.ev.ConversationID
	}
}

// matchTask refuses calls and iterations of the task.
func matchTask(_ *Flow, m *moment, o *order) {
	o.picks, o.subject = selectTask, m.ev.TaskID
}

// The algorithm takes three bits of the flags of a call, above the eight of the first flags and
// below those that came later.
const (
	algorithmShift = 8
	algorithmMask  = 7
)

// algorithmFlags keeps in a call what its arguments were hashed by.
func algorithmFlags(a events.HashAlgorithm) callFlags { return callFlags(a) << algorithmShift }

// refTo is the call as an order names it.
func refTo(c *call) callRef {
	return callRef{tool: c.tool, algorithm: events.HashAlgorithm(c.flags >> algorithmShift & algorithmMask), args: c.args}
}
