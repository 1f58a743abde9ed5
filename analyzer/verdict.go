package analyzer

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer/standing"
	"weir/events"
)

// emit publishes the order as it stands now, unless a wider one says as much. Every string in the verdict is its
// own: the flow's strings may alias a record that is about to be overwritten.
func (e *verdictWriter) emit(f *Flow, o *order, m *moment, fx *Effects) {
	// A revocation is always published, or guards would honor the order until it ends.
	if o.hidden = o.Action != events.Allow && f.covered(o, m.at); o.hidden {
		return
	}
	// The revision is event time, so that a flow that is folded again from its
	// middle counts on as it did the first time.
	f.revision = max(f.revision+1, int64(m.at))
	o.Revision = f.revision
	if o.Phase == standing.Stop && o.Action != events.Allow {
		f.stops(o, fx)
	}
	fx.Verdicts = append(fx.Verdicts, e.verdict(f, o, m))
}

// answer is the verdict about a call that an active order refuses. When the order
// is armed the refused call would have been the one over the limit.
// It is no verdict of the log: it has the order's id and revision, by which the caller may follow
// the stream.
func (e *verdictWriter) answer(f *Flow, o *order, m *moment) *events.Verdict {
	armed := *o
	if o.Phase == standing.Armed {
		// Only in the copy: the order itself stays armed, since the call that was asked for is
		// not made.
		armed.Phase = standing.Stop
		armed.Observed++
	}
	v := e.verdict(f, &armed, m)
	return &v
}

// allowed is the answer to a call that nothing is said against.
// Its id is made of flow and event and has no revision, for there is no order behind it.
func (e *settings) allowed(f *Flow, m *moment) *events.Verdict {
	var room [256]byte // of most ids, so that no memory is allocated for what is hashed
	id := append(append(append(room[:0], f.key...), 0), m.ev.ID...)
	// The id of the answer and the key are copied at once.
	text := string(append(strconv.AppendUint(room[:0], xxhash.Sum64(id), 16), f.key...))
	key := text[len(text)-len(f.key):]
	correlation := key
	if m.ev.CorrelationID != key {
		correlation = strings.Clone(m.ev.CorrelationID)
	}
	return &events.Verdict{SchemaVersion: 1, ID: text[:len(text)-len(f.key)], Time: events.RFC3339(m.at),
		Mode: events.ModeEnforce, Scope: events.Scope{Kind: events.ScopeFlow, ID: key}, Action: events.Allow,
		Reason: standing.Allowed, ConfigVersion: e.limits.Version, CorrelationID: correlation, Degraded: e.degraded(e.scaled != 0, m)}
}

// degraded says whether what is judged by has shrunk because everything is busy.
func (e *settings) degraded(scaled bool, m *moment) string {
	if scaled && m.busy {
		return events.DegradedLoad
	}
	return ""
}

// verdict is the order as dispatchers, people and models get it, as of the moment. It changes
// nothing, so views use it too. An Allow carries no match and no figures: it ends the order
// with this id.
func (e *verdictWriter) verdict(f *Flow, o *order, m *moment) events.Verdict {
	// What all orders have in common is said by package standing; here what an order about a
	// flow adds.
	rule := &Rules[o.rule]
	// Only rows with a window need the setting of the moment, which costs a look at overrides.
	window := int64(0)
	if rule.Window != "" {
		window = e.setting(o.rule, f, m).Window
	}
	v := o.Order.Verdict(&rule.Row, o.orderID(f), m.at, window, e.limits.HTTPStatus[o.rule])
	v.Scope = events.Scope{Kind: o.scope, ID: o.scopeID(f)}
	v.ConfigVersion, v.Confidence, v.CorrelationID = e.limits.Version, e.confidence(f, m), strings.Clone(f.key)
	v.IncidentID, v.Cause = f.incidentID(o), rule.CauseOf()
	v.Trigger, v.Degraded = trigger(f, m), e.degraded(e.scaled.Has(o.rule), m)
	// It is for dispatchers, who have the order by its id; people read why it stood in the
	// verdict before.
	if o.Action == events.Allow {
		v.Message = standing.Cleared(rule.Reason)
		return v
	}
	limit, observed := o.Figures(rule.Unit)
	// A warning binds no caller, so there is nothing for dispatchers to match and no message to
	// the model.
	if o.Phase > standing.Warn {
		v.Match = o.match(f, m)
		v.AgentMessage = agentMessage(o, limit, observed)
		v.Reasons = f.reasons(o, m.at)
	}
	v.Message = e.message(f, o, m, window, limit, observed)
	if o.Phase == standing.Warn && rule.Doubts != nil && rule.Doubts(f, m) {
		v.Message += briefDoubted
	}
	// The first warning of a flow names what the log does not report.
	if o.Phase == standing.Warn && m.ev != nil && len(f.orders) == 1 {
		v.Message += f.missingFields()
	}
	if v.Waiting = o.waiting(f); v.Waiting != nil {
		v.Message += standing.WaitingText(v.Waiting)
	}
	e.describe(&v, f, o, m)
	v.Evidence = o.evidence(f)
	// What the person wrote goes to people only, never into the words for the model.
	if m.ev != nil && m.ev.Operator != nil {
		v.Detail = strings.Clone(m.ev.Operator.Reason)
	}
	return v
}

// describe copies the ids of the event that dispatchers and people look for.
// At a deadline there is none. Names of parties are those of the flow where it has them, so
// that they equal those in Match.
func (e *verdictWriter) describe(v *events.Verdict, f *Flow, o *order, m *moment) {
	if m.ev == nil {
		return
	}
	ev := m.ev
	clone := strings.Clone
	v.Session, v.Agent = clone(ev.From.Session), clone(ev.From.Agent)
	if m.from != none && int(m.from) < len(f.parties) && !isUnnamed(ev) {
		v.From = clone(f.parties[m.from].name)
	}
	if m.to != none && int(m.to) < len(f.parties) {
		v.To = clone(f.parties[m.to].name)
	}
	v.Tool, v.ArgsHash = clone(ev.Tool.Name), ev.Tool.ArgsHash.String()
	// A result carries no arguments; its call did.
	if v.ArgsHash == "" && m.callAt >= 0 && m.from != none && m.callAt < len(f.parties[m.from].calls) {
		if r := refTo(&f.parties[m.from].calls[m.callAt]); r.algorithm != events.HashNone {
			v.ArgsHash = events.Hash{Algorithm: r.algorithm, Value: r.args}.String()
		}
	}
	v.TurnID, v.TaskID, v.TaskType = clone(ev.TurnID), clone(ev.TaskID), clone(ev.TaskType)
	v.ProjectID, v.TeamID, v.TenantID, v.MemoryTraceID = clone(ev.ProjectID), clone(ev.TeamID), clone(ev.TenantID), clone(ev.MemoryTraceID)
	v.ConversationID, v.MessageID = clone(ev.ConversationID), clone(ev.MessageID)
	v.TraceID, v.SpanID = clone(ev.TraceID), clone(ev.SpanID)
	// The larger of what the caller says and what was counted, as rules see it.
	v.LoopCount, v.DelegationDepth = max(ev.LoopCount, m.loops, m.reflects), ev.DelegationDepth
	if rule := &Rules[o.rule]; rule.Deepens {
		v.DelegationDepth = max(v.DelegationDepth, o.Observed)
	}
	if v.Unit == events.UnitLoops { // also where a standing order refuses a call that counted nothing
		v.LoopCount = max(v.LoopCount, o.Observed)
	}
}

// trigger names the event at which the verdict was given, and its ordinal in the flow; views
// of the past find the place by it.
func trigger(f *Flow, m *moment) *events.Trigger {
	if m.ev == nil {
		return nil // a deadline
	}
	return &events.Trigger{EventID: strings.Clone(m.ev.ID), Ordinal: int64(f.events)}
}

// confidence says how well what was counted is known: estimated from a sample, counted in a
// flow whose id was guessed, or exact.
// A sample comes first: it makes every figure a guess, however the flow is known.
func (e *verdictWriter) confidence(f *Flow, m *moment) string {
	switch {
	case m.ev != nil && sampleOf(m.ev) > 1:
		return "estimated"
	case f.source == events.CorrelationDerived:
		return "derived"
	}
	return "exact"
}

// orderID is the same for all verdicts about one order.
// It has to come out the same whenever the log is folded again, so it is made of what stands
// in the log and not of any counter (decision 7).
func (o *order) orderID(f *Flow) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(f.key)
	_, _ = d.WriteString("\x00")
	_, _ = d.WriteString(string(Rules[o.rule].Reason))
	_, _ = d.WriteString("\x00")
	_, _ = d.WriteString(string(o.scope))
	_, _ = d.WriteString("\x00")
	_, _ = d.WriteString(o.scopeID(f))
	_, _ = d.WriteString("\x00")
	_, _ = d.WriteString(strconv.FormatInt(int64(o.Since), 16))
	// Only then, or ids of all other orders would depend on what they happen to carry as a
	// subject.
	if rule := &Rules[o.rule]; rule.Subject != nil && rule.Scope == events.ScopeFlow { // of which several have the scope of the flow
		_, _ = d.WriteString("\x00")
		_, _ = d.WriteString(o.subject)
	}
	return d.Sum64()
}

// scopeID is the name of the subject of the order, as verdicts carry it. The names of a pair
// are sorted, so both directions have one.
func (o *order) scopeID(f *Flow) string {
	switch o.scope {
	case events.ScopeSession:
		return strings.Clone(f.nameOf(o.a))
	case events.ScopePair:
		a, b := f.nameOf(o.a), f.nameOf(o.b)
		// As the order stands for both directions, so must its name.
		if b < a {
			a, b = b, a
		}
		return a + "|" + b
	case events.ScopeTask:
		return strings.Clone(o.subject)
	}
	return strings.Clone(f.key)
}

// nameOf is the name of the party; "" for none. The string aliases the flow's record.
func (f *cast) nameOf(party uint8) string {
	if int(party) < len(f.parties) {
		return f.parties[party].name
	}
	return ""
}

// match describes the calls that the order refuses, for a dispatcher that does not know the
// flow's state.
// Each field narrows it, and all must hold. It covers what matches does, except rewordings of a
// call, which only the fold can detect.
func (o *order) match(f *Flow, m *moment) *events.Match {
	// An empty field says nothing, so an order for everybody has a kind alone.
	x := &events.Match{Kind: o.kind.String()}
	// A check request of the unnamed party names no caller either, so such an order is for all.
	if o.scope == events.ScopeSession && f.nameOf(o.a) != unnamed {
		x.From = []string{strings.Clone(f.nameOf(o.a))}
	}
	switch o.picks {
	case selectAll:
		if o.scope == events.ScopePair {
			a, b := strings.Clone(f.nameOf(o.a)), strings.Clone(f.nameOf(o.b))
			// A pair is two edges: between the same two no call of a tool is meant.
			x.Kind = events.AgentCall.String()
			x.Edges = []events.Edge{{From: a, To: b}, {From: b, To: a}}
		}
	case selectEdges:
		for _, d := range o.edges {
			x.Edges = append(x.Edges, events.Edge{From: strings.Clone(f.nameOf(d.from)), To: strings.Clone(f.nameOf(d.to))})
		}
		if !o.content.IsZero() {
			x.ContentHash = []string{o.content.String()}
		}
	case selectBrief:
		x.ContentHash = []string{o.content.String()}
	// The parties are listed that may go on, because those that may not include everybody not
	// seen yet.
	case selectOffStack:
		for i := range f.parties {
			if f.placed(uint8(i)) && f.depthOf(uint8(i)) < int64(o.least) {
				x.NotFrom = append(x.NotFrom, strings.Clone(f.parties[i].name))
			}
		}
		for _, name := range f.Stack() {
			x.NotTo = append(x.NotTo, strings.Clone(name))
		}
	// A party that is not listed is new, and new ones may not be called.
	case selectNew:
		for i := range f.parties {
			if f.parties[i].flags&partyActive != 0 {
				x.NotTo = append(x.NotTo, strings.Clone(f.parties[i].name))
			}
		}
	case selectCallee:
		for _, d := range o.edges {
			x.To = append(x.To, strings.Clone(f.nameOf(d.to)))
		}
	case selectTools, selectCalls:
		for _, c := range o.calls {
			if c.tool != none {
				x.Tool = appendNew(x.Tool, strings.Clone(f.tools[c.tool]))
			}
			if o.picks == selectCalls {
				x.ArgsHash = appendNew(x.ArgsHash, events.Hash{Algorithm: c.algorithm, Value: c.args}.String())
			}
		}
	case selectTurn:
		x.TurnID = strings.Clone(o.subject)
	case selectNewTurn:
		x.NotTurnID = strings.Clone(o.subject)
	case selectTask:
		x.TaskID = strings.Clone(o.subject)
	case selectConversation:
		x.ConversationID = strings.Clone(o.subject)
	// Calls back, and to those that are at work, go on.
	case selectSpawn, selectBackground:
		refused := uint8(none) // a check that this verdict refuses starts nothing
		if o.Phase == standing.Stop && m.spawned && m.ev.Ask {
			refused = m.to
		}
		x.NotTo, x.Background = f.working(refused), o.picks == selectBackground
	}
	return x
}

// appendNew appends s if it is not in the list already. Lists are short.
func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// evidence is what a person needs to believe the verdict.
// Calls and tokens are what was spent since the offence began: what it has cost so far.
func (o *order) evidence(f *Flow) *events.Evidence {
	ev := &events.Evidence{
		Calls:    int64(f.hops) + int64(f.toolCalls) - int64(o.calls0),
		Tokens:   f.tokens[2] - o.tokens0,
		Period:   int64(o.period),
		Attempts: int64(o.Attempts),
		Leaked:   int64(o.Leaked),
	}
	// The counters begin again with an episode; then nothing was spent since, rather than less
	// than nothing.
	ev.Calls, ev.Tokens = max(0, ev.Calls), max(0, ev.Tokens)
	ev.Stack = f.Stack()
	for i, name := range ev.Stack {
		ev.Stack[i] = strings.Clone(name)
	}
	for i := range f.offences {
		if f.offences[i].rule == o.rule {
			ev.Offences = int64(f.offences[i].count)
			if o.Phase == standing.Stop {
				// AlwaysPublished are those before: a first stop has none.
				ev.Offences-- // this one
			}
		}
	}
	// The events that the pattern was found in, by their ordinals, as far as they are
	// remembered.
	switch Rules[o.rule].Scope {
	case events.ScopeSession:
		if int(o.a) < len(f.parties) {
			for i := range f.parties[o.a].calls {
				if c := &f.parties[o.a].calls[i]; o.names(c) {
					ev.Ordinals = append(ev.Ordinals, int64(c.n))
				}
			}
		}
	default:
		if o.picks == selectEdges {
			ev.Ordinals = make([]int64, 0, len(f.ring))
			for i := range f.ring {
				ev.Ordinals = append(ev.Ordinals, int64(f.ring[i].n))
			}
		}
	}
	tail := max(0, len(f.ring)-maxRing)
	ev.ChainTail = make([]string, 0, len(f.ring)-tail)
	for i := tail; i < len(f.ring); i++ {
		ev.ChainTail = append(ev.ChainTail, strings.Clone(f.nameOf(f.ring[i].to)))
	}
	return ev
}

// names reports whether the call is one of those that the order refuses.
func (o *order) names(c *call) bool {
	r := refTo(c)
	for _, have := range o.calls {
		if have == r || o.picks == selectTools && have.tool == c.tool {
			return true
		}
	}
	return false
}
