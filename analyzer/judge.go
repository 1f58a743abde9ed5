package analyzer

import (
	"time"

	"weir/analyzer/rules"
	"weir/analyzer/standing"
	"weir/events"
)

// judge walks the rules of the event's kind.
// All rows are walked even if one has stopped the call: each has its own order. emit decides
// which one is published.
func (e *Engine) judge(f *Flow, m *moment, fx *Effects) {
	switch {
	case e.observe != nil:
		for _, rule := range e.byKind[m.ev.Kind] {
			e.judgeRow(rule, f, m, fx)
		}
		e.observe(ruleOfAge, Rules[ruleOfAge].Value(f, m, &m.set)) // judged at its deadline only
	case m.user:
		// Nothing ever refuses a user's message.
	case e.varies(f):
		for _, rule := range e.byKind[m.ev.Kind] {
			e.judgeRow(rule, f, m, fx)
		}
	default:
		rows := e.plain[m.ev.Kind]
		for i := range rows {
			if r := &rows[i]; r.matters(f, m) {
				e.judgeRow(r.rule, f, m, fx)
			}
		}
	}
}

// plainRow is what is read of a row whose setting is that of the limits. Nothing comes of almost all
// rows of almost all events, so this is in one place and small.
type plainRow struct {
	value  func(f *Flow, m *moment, set *rules.Setting) int64
	atMost func(f *Flow) int64
	set    *rules.Setting
	least  int64 // the smallest value of which something comes
	lifts  bool
	repeat bool
	job    bool // each kind of subagents may have a setting of its own
	rule   *FlowRule
}

func plainRowOf(rule *FlowRule, set *rules.Setting) plainRow {
	least := min(set.Warn, set.Stop-1)
	if least == 0 && set.Warn > 0 {
		least = 1 // a stop at 1 is given armed at 0, and that only of values above 0
	}
	return plainRow{value: rule.Value, atMost: rule.AtMost, set: set, least: least, lifts: rule.Lifts, repeat: rule.Repeat, job: rule.ID.ofJob(), rule: rule}
}

// matters reports whether something may come of the row, as judgeRow finds out in more detail.
func (r *plainRow) matters(f *Flow, m *moment) bool {
	if r.repeat && m.exempt {
		return false
	}
	switch {
	case r.job, r.lifts && f.hasOrderOf(r.rule.ID):
		return true
	case r.atMost != nil && r.atMost(f) < r.least:
		return false
	}
	return r.value(f, m, r.set) >= r.least
}

// hasOrderOf reports whether the row has given an order, which it may lift.
func (f *sanctions) hasOrderOf(rule RuleID) bool {
	for i := range f.orders {
		if f.orders[i].rule == rule {
			return true
		}
	}
	return false
}

// judgeRow measures one row and gives, tightens or lifts its order.
// It leaves as soon as it is known that nothing can come of the row: the value is below all
// thresholds, and nothing is to be lifted. An offence lowers the stop to the warning at most, and
// arms nothing.
func (e *orderWriter) judgeRow(rule *FlowRule, f *Flow, m *moment, fx *Effects) {
	r := rule.ID
	if m.user || rule.Repeat && m.exempt {
		return // nothing ever refuses a user's message
	}
	// Not copied where nothing varies, since this runs for each row of each event.
	set := &e.limits.Rules[r]
	if r.ofJob() || e.varies(f) {
		m.set = e.setting(r, f, m) // in the moment: passed to a function value it would escape
		set = &m.set
	}
	if set.Mode == rules.ModeOff && e.observe == nil {
		return
	}
	observed := rule.Value(f, m, set)
	if e.observe != nil {
		if m.ev != nil { // not at deadlines, which fire between the events of other flows
			e.observe(r, observed/rule.paceOf(f, set, m))
		}
		if set.Mode == rules.ModeOff {
			return
		}
	}
	if observed < set.Warn && observed < set.Stop-1 && !(rule.Lifts && f.hasOrderOf(r)) {
		return
	}
	m.set = *set
	set = &m.set
	if f.offended(f.start, r) && set.Warn < set.Stop {
		set.Stop = set.Warn // who was stopped before is stopped at the warning
		if set.Max {
			set.Max = false
		}
	}
	// The pace is worked out only where it could save the party: it sorts the gaps of its
	// calls.
	if observed >= min(set.Warn, set.Stop) {
		rule.widen(f, set, m)
	}
	scope, a, b := rule.whom(f, m)
	lifts := rule.Lifts && !e.partial(rule, m)
	switch {
	case observed >= set.Stop && !rule.WarnsOnly && e.mayStop(f, m, set):
		e.issue(rule, standing.Stop, f, m, set, observed, scope, a, b, fx)
	// The last allowed call was seen: a stream sees a call only after it left, so the order
	// goes out armed (decision 3).
	case observed >= set.Stop-1 && set.Max && rule.Armed && observed > 0 && e.mayStop(f, m, set):
		e.issue(rule, standing.Armed, f, m, set, observed, scope, a, b, fx)
	case observed >= min(set.Warn, set.Stop):
		if lifts {
			// Still near the limit, but no longer at it: what refused calls goes, and a
			// warning takes its place.
			e.lift(rule, f, m, a, b, standing.Armed, fx)
		}
		e.issue(rule, standing.Warn, f, m, set, observed, scope, a, b, fx)
	case lifts:
		e.lift(rule, f, m, a, b, standing.Warn, fx)
	}
}

// partial reports whether the event shows too little for the row to be lifted by it: its sender
// says that it was sampled, or that the flow has no id. Otherwise any sender could lift a block by
// saying so.
func (e *settings) partial(rule *FlowRule, m *moment) bool {
	return m.ev != nil && (sampleOf(m.ev) > 1 && !rule.Grows || e.unidentified(m.ev))
}

// unidentified reports whether the event says that its flow is a party's, and such flows are never
// stopped.
func (e *settings) unidentified(ev *events.Event) bool {
	return ev.CorrelationSource == events.CorrelationPrincipal && e.limits.WarnOnly>>events.CorrelationPrincipal&1 == 1
}

// unsure is by how much wider the thresholds are of a row that guesses, or that judges a sample.
// It comes from the honest runs in EVIDENCE, read as if they reported no work. None of them
// reaches twelve rounds, and some reach ten.
const unsure = 4

// widen gives the event's party the room that its pace, what is known of its work and what may be
// missing from a sample leave it.
func (rule *FlowRule) widen(f *Flow, set *rules.Setting, m *moment) {
	if x := rule.paceOf(f, set, m); x > 1 {
		set.Widen(x)
	}
	if rule.Guesses && m.blind {
		set.Stop = rules.Off // nothing is stopped that is not known to be a loop
	} else if m.ev != nil && sampleOf(m.ev) > 1 && !rule.Grows && set.Stop != rules.Off {
		set.Stop *= unsure // what would have ended the pattern may be missing
	}
}

// paceOf returns by how much the thresholds of the row are widened, by the pace of the event's
// party or because its work is unknown; 1 for not at all.
func (rule *FlowRule) paceOf(f *Flow, set *rules.Setting, m *moment) int64 {
	if rule.Guesses && m.blind {
		return unsure
	}
	if !rule.Paced || set.Unpaced {
		return 1
	}
	return f.pace(m)
}

// mayStop reports whether evidence and mode allow more than a warning.
// They do not where a person released the flow. Neither do they where the id was guessed or is
// used for more than one piece of work (Limits.WarnOnly). At a deadline there is no event to look
// at, only the flow's own record.
func (e *settings) mayStop(f *Flow, m *moment, set *rules.Setting) bool {
	switch {
	case set.Mode == rules.ModeWarn, m.at < f.released:
		return false
	case m.ev == nil:
		return e.limits.WarnOnly>>f.source&1 == 0
	case e.unidentified(m.ev):
		return false // whatever the flow is kept under besides
	}
	// A missing id is reported whatever key the flow is kept under.
	return e.limits.WarnOnly>>f.source&1 == 0 || m.ev.CorrelationID == ""
}

// offended reports whether the row has stopped the flow in an earlier episode. An offence of
// this one does not lower its own stop, or an order that ran out would come back at the
// warning.
func (f *sanctions) offended(start events.Stamp, r RuleID) bool {
	for i := range f.offences {
		if f.offences[i].rule == r {
			return f.offences[i].last < start
		}
	}
	return false
}

// whom names the parties that an order of the rule is about.
// A row about sessions is about the caller. Parties are none where the scope has none, so that
// equal scopes compare equal in orderOf.
func (rule *FlowRule) whom(f *Flow, m *moment) (scope events.ScopeKind, a, b uint8) {
	if rule.Whom != nil {
		return rule.Whom(f, m)
	}
	switch rule.Scope {
	case events.ScopeSession:
		return rule.Scope, m.from, none
	case events.ScopePair:
		a, b = f.ordered(m.from, m.to)
		return rule.Scope, a, b
	}
	return rule.Scope, none, none
}

// ordered puts the parties of a pair in the order of their names, so that one pair
// has one scope.
func (f *cast) ordered(a, b uint8) (uint8, uint8) {
	if a != none && b != none && f.parties[b].name < f.parties[a].name {
		return b, a
	}
	return a, b
}

// issue gives an order, or tightens the active one. A weaker phase than that of the active order
// changes nothing.
// An order keeps its identity (Since, and so the id of its verdicts) as long as it has the same
// reason, scope and subject; only what it refuses and its phase change.
//
// observed is what was measured. scope, a and b name the parties of the order. They are those of
// the row unless it holds the flow.
func (e *orderWriter) issue(rule *FlowRule, ph standing.Phase, f *Flow, m *moment, set *rules.Setting, observed int64, scope events.ScopeKind, a, b uint8, fx *Effects) {
	subject, action := "", rule.Action
	if rule.Subject != nil {
		subject = rule.Subject(m.ev)
	}
	// A warning stays as narrow as its row, because it makes no caller wait.
	if set.Hold && ph > standing.Warn {
		action = events.Hold
		if !rule.HoldsCalls { // the whole flow waits
			scope, a, b = events.ScopeFlow, none, none
		}
	}
	o := f.orderOf(rule.Reason, scope, a, b, subject)
	was := standing.Phase(0)
	if o == nil {
		o = f.addOrder()
		*o = order{Order: standing.Order{Since: m.at}, rule: rule.ID, scope: scope, a: a, b: b, edges: o.edges[:0], calls: o.calls[:0],
			// What the flow had used when the offence began, for the evidence; see evidence.
			calls0: f.hops + f.toolCalls, tokens0: f.tokens[2]}
	} else {
		was = o.Phase
		// Back at the limit after it was passed, other parties are on the stack: the
		// order has to name them.
		back := was == standing.Stop && ph == standing.Armed && o.picks == selectOffStack && !m.late
		// Nothing new would be said: the order stands as it is, and is renewed when it is due.
		if was > ph && !back || was == ph && !o.changed(f, m) {
			return
		}
	}
	if o.incident == 0 || o.episode != f.episode {
		o.incident = f.incidentOf(rule.ID, m.at)
	}
	// What all orders have in common is entered here; what is of flows, below.
	o.Give(ph, action, set, observed, m.at)
	o.rule, o.episode, o.Limits, o.lapsed = rule.ID, f.episode, e.version, false
	// What it refused before is forgotten and filled in anew by Match.
	o.picks, o.kind, o.subject, o.content = selectAll, events.KindUnset, "", events.Hash{}
	o.edges, o.calls = o.edges[:0], o.calls[:0]
	// A hold is for the whole flow once it stands. Up to then, where its row is about the
	// flow, only calls that the row counts begin the wait.
	if rule.Match != nil && (rule.HoldsCalls || !(action == events.Hold && (ph == standing.Stop || rule.Scope != events.ScopeFlow))) {
		rule.Match(f, m, o)
	}
	// A shadow order is no offence: no call was stopped.
	if ph == standing.Stop && !o.Shadow {
		f.offend(rule.ID, m.at)
	}
	// Warnings and throttles are not renewed: a warning is looked at when it ends, and a
	// throttle ends when one more call fits (m.fits, from countRate).
	switch o.Stand(m.at, e.ttl(f, o, m.at)); {
	case ph == standing.Warn:
		o.Until(m.at, o.Expires)
	case action == events.Throttle:
		o.Until(m.at, max(m.at+1, m.fits))
	case action == events.Hold && ph == standing.Stop:
		e.awaitPerson(f, o, m.at)
	}
	e.emit(f, o, m, fx)
	// Only the rows that are taken over from the task system leave notes.
	if ph == standing.Stop && !o.Shadow && len(rule.Leaves) > 0 && m.ev != nil {
		limit, observed := o.Figures(rule.Unit)
		e.leaveNote(m, e.message(f, o, m, set.Window, limit, observed), rule.Leaves, fx)
	}
}

// awaitPerson has an order hold the flow until a person decides, for so long at most. It is
// looked at then, and ends a little later, so that the halt that follows it leaves no gap.
func (e *settings) awaitPerson(f *Flow, o *order, at events.Stamp) {
	if e.holds && !o.Shadow {
		f.wait(at)
	}
	o.Until(at, at.Add(e.limits.Order.Hold))
	o.Expires = o.Due.Add(e.limits.Order.TTL / 5)
}

// hold has the flow wait from now on because of an order that held it from its next call on,
// which is this one: asked for, it was not made.
func (e *verdictWriter) hold(f *Flow, o *order, m *moment, fx *Effects) {
	o.Phase, o.Begun = standing.Stop, m.at
	if !Rules[o.rule].HoldsCalls {
		o.picks, o.kind = selectAll, events.KindUnset
		o.edges, o.calls, o.subject, o.content = o.edges[:0], o.calls[:0], "", events.Hash{}
	}
	// The call that was asked for would have been one more.
	if rules.OneByOne(Rules[o.rule].Unit) {
		o.Observed++
	}
	f.offend(o.rule, m.at)
	e.awaitPerson(f, o, m.at)
	e.emit(f, o, m, fx)
}

// held reports whether the flow waits for a person at the time, or is halted because none
// decided.
// Both keep time from passing for the flow: silence brings it no new budget and its age does
// not grow (decision 66).
func (f *sanctions) held(at events.Stamp) bool {
	for i := range f.orders {
		if o := &f.orders[i]; (o.holdsFlow() || o.lapsed) && o.Expires > at {
			return true
		}
	}
	return false
}

// holdsFlow reports whether the flow waits for a person because of the order.
func (o *order) holdsFlow() bool {
	return o.Action == events.Hold && o.Phase == standing.Stop && !o.Shadow && o.haltsFlow()
}

// changed reports whether an order of the same phase has to name other calls now.
// Without it, a verdict would go out with each refused call; with it, one goes out only when
// dispatchers have to know other parties, calls or turns.
func (o *order) changed(f *Flow, m *moment) bool {
	if o.Phase == standing.Warn {
		return false
	}
	switch o.picks {
	// Control is with another party: other parties may still call. A passed limit names no party
	// anew, see issue.
	case selectOffStack:
		return o.Phase == standing.Armed && f.pos != none && o.subject != f.parties[f.pos].name
	case selectTurn, selectNewTurn:
		return o.subject != f.turnID
	case selectNew:
		return false
	}
	// Another call of the same party, another message between the same two: what is
	// refused grows by it.
	switch o.picks {
	case selectCalls, selectTools:
		if m.callAt < 0 {
			return false
		}
		ref := refTo(&f.parties[m.from].calls[m.callAt])
		for _, c := range o.calls {
			if c == ref || o.picks == selectTools && c.tool == ref.tool {
				return false
			}
		}
		return true
	case selectEdges:
		return !o.content.IsZero() && o.content != m.ev.Content
	case selectBrief:
		return o.content != m.ev.Content
	}
	return false
}

// lift ends an order whose measure has fallen below the limit. Late events never
// lift anything.
// Only orders at the phase from or above go; the row that gave it is the only one that may
// take it.
func (e *verdictWriter) lift(rule *FlowRule, f *Flow, m *moment, a, b uint8, from standing.Phase, fx *Effects) {
	if m.late || len(f.orders) == 0 {
		return
	}
	o := f.orderOf(rule.Reason, rule.Scope, a, b, "")
	// Several rows may share one reason and so one order; the row that spoke last has it.
	if o == nil || o.rule != rule.ID || o.Phase < from {
		return
	}
	if rule.Action == events.Throttle && o.Expires > m.at {
		return // the window has to move on first
	}
	e.clear(f, o, m, fx)
}

// clear revokes an order; a stop is revoked by a verdict.
// The verdict is the Allow that ends it for dispatchers. No verdict is published for an order
// that was never published, because a wider order covered it or it only warned.
func (e *verdictWriter) clear(f *Flow, o *order, m *moment, fx *Effects) {
	waited := events.Stamp(0)
	if o.holdsFlow() || o.lapsed {
		waited = o.Begun
	}
	if o.Phase > standing.Warn && o.Expires > m.at && o.Revision != 0 { // else it was never published
		o.Action = events.Allow
		e.emit(f, o, m, fx)
	}
	for i := range f.orders {
		if &f.orders[i] == o {
			f.dropOrder(i)
			break
		}
	}
	if waited != 0 && f.begun() <= waited && !f.held(m.at) {
		f.waited += m.at - waited
	}
}

// clearByUser takes back what a user's event makes void: patterns always, budgets
// when the event began an episode with clean counters.
// Orders of earlier episodes go as well. A person's stop (Fixed) stays.
func (e *verdictWriter) clearByUser(f *Flow, m *moment, fx *Effects) {
	fresh := f.start == m.at
	for i := len(f.orders) - 1; i >= 0; i-- {
		if o := &f.orders[i]; !Rules[o.rule].Fixed && (fresh || o.episode != f.episode || Rules[o.rule].Cleans) {
			e.clear(f, o, m, fx)
		}
	}
}

// stopped reports whether an order stands that refuses calls, or will refuse the next: what
// a sender may not take back who only claims that a user has spoken. Where none stands, a
// claim does what the word of a user does, or conversations would grow without an end.
func (f *sanctions) stopped() bool {
	for i := range f.orders {
		if f.orders[i].Binds() {
			return true
		}
	}
	return false
}

// review takes back the orders that other limits gave and that these would not: who
// raises a limit, or turns a rule off, wants it to hold for the flows that it stops.
// Lowered limits need nothing here, because the next call is judged by them (see decision 20).
func (e *orderWriter) review(f *Flow, m *moment, fx *Effects) {
	for i := len(f.orders) - 1; i >= 0; i-- {
		o := &f.orders[i]
		if o.Limits == e.version || Rules[o.rule].Fixed {
			continue
		}
		o.Limits = e.version
		set := e.settingOf(o.rule, f, m, o.a)
		// Below it these limits would not even warn.
		floor := min(set.Warn, set.Stop)
		if f.offended(f.start, o.rule) { // who was stopped before is stopped at the warning
			set.Stop, set.Max = floor, false
		}
		if o.Groundless(&set, floor) {
			e.clear(f, o, m, fx)
		}
	}
}

// clearBudgets takes back the orders about budgets, which are whole again in a new
// episode. The offences stay, and orders about patterns stand out their time.
func (e *verdictWriter) clearBudgets(f *Flow, m *moment, fx *Effects) {
	for i := len(f.orders) - 1; i >= 0; i-- {
		if Rules[f.orders[i].rule].Lasts {
			e.clear(f, &f.orders[i], m, fx)
		}
	}
}

// offend notes that the row stopped the flow. It counts for later episodes, where it lowers
// the stop to the warning (decision 5). The row that offended first gives way when there is no
// room.
func (f *sanctions) offend(r RuleID, at events.Stamp) {
	for i := range f.offences {
		if f.offences[i].rule == r {
			f.offences[i].count++
			f.offences[i].last = at
			return
		}
	}
	if len(f.offences) == maxOffences {
		f.offences = f.offences[:copy(f.offences, f.offences[1:])]
	}
	f.offences = append(f.offences, offence{rule: r, count: 1, last: at})
}

// holds reports whether the order is to be renewed: it was ignored by a caller, or is about a
// budget that is still used up.
// Throttles are never renewed, and an operator's stop ends when the operator chose.
func (o *order) holds(f *Flow) bool {
	rule := &Rules[o.rule]
	return o.Phase > standing.Warn && !rule.Fixed && rule.Action != events.Throttle &&
		(o.Tried > 0 || rule.Lasts && f.last > o.Issued && o.episode == f.episode)
}

// ttl is how long an order stands that is given or renewed at a time. One about the age of the
// episode comes while the flow may be silent, and stands no longer than the episode if nothing
// more comes: the first call after the break begins another one.
// The millisecond makes it end just behind the episode and not with it.
func (e *settings) ttl(f *Flow, o *order, at events.Stamp) time.Duration {
	ttl := e.limits.Order.TTL
	if o.rule == ruleOfAge {
		ttl = min(ttl, f.episodeEnds(&e.limits).Add(time.Millisecond).Sub(at))
	}
	return ttl
}

// orderDue renews an order that still holds, or ends it.
// The index i stays good: emit changes no order's place, and what is dropped is dropped last.
func (e *orderWriter) orderDue(f *Flow, i int, m *moment, fx *Effects) {
	o := &f.orders[i]
	switch {
	case o.waits(): // no person has agreed
		o.Action = Rules[o.rule].Action
		o.Stand(m.at, e.ttl(f, o, m.at))
		e.emit(f, o, m, fx)
	case o.Action == events.Hold && o.Phase == standing.Stop: // no person has decided
		o.Action, o.lapsed = events.Halt, true
		o.Until(m.at, m.at.Add(e.limits.Flow.MaxAge))
		e.emit(f, o, m, fx)
	// AlwaysPublished again with a later end and a higher revision, so that dispatchers go on.
	case o.holds(f):
		o.Stand(m.at, e.ttl(f, o, m.at))
		given := len(fx.Verdicts)
		e.emit(f, o, m, fx)
		for j := range fx.Verdicts[given:] {
			v := &fx.Verdicts[given+j]
			// In words only: machines see a higher revision and a later end.
			v.Message = "Renewed: " + v.Message
		}
	case m.at >= o.Expires:
		f.dropOrder(i)
	default:
		// Looked at before its end and nothing to renew: it ends when it said.
		o.Due = o.Expires
	}
}

// defied counts a call that was made although orders refuse it: once, by the row of the
// strictest of them. A call in flight when the order went out has leaked. A call whose sender
// knew of an order is an attempt. It looks at the flow as the dispatcher did, before the call is
// counted.
// A user's message is never refused. Results and returns are accepted from any party. So none
// of them counts here.
func (e *Engine) defied(f *Flow, m *moment, fx *Effects) {
	if len(f.orders) == 0 || m.user || m.ev.Kind != events.AgentCall && m.ev.Kind != events.ToolCall {
		return
	}
	c := e.announce(f, m.ev)
	m.from, m.to, m.tool = c.from, c.to, c.tool
	o, known := e.broken(f, &c, m)
	switch {
	case o == nil:
		return
	case known:
		fx.Counts.Attempts++
		fx.Counts.By(Rules[o.rule].Reason.Place()).Defied++
		e.noteTry(f, o, m, fx)
	default:
		fx.Counts.Leaked++
		fx.Counts.By(Rules[o.rule].Reason.Place()).Leaked++
	}
	// Each order that refuses the call counts it for itself, since each is widened by its own
	// attempts.
	for i, n := 0, len(f.orders); i < n && i < len(f.orders); i++ { // orders given on the way have no attempts yet
		switch o := &f.orders[i]; {
		case !f.refuses(o, &c):
		case known:
			e.attempt(f, o, m, fx)
		default:
			o.Leak()
		}
	}
}

// broken returns the strictest order that refuses the call, of those that its caller may
// have known of if there is one.
// It is judged by when the order began to refuse (Order.Early), not by when a dispatcher
// received it, of which nothing is known.
func (e *orderWriter) broken(f *Flow, c *announced, m *moment) (strictest *order, known bool) {
	for i := range f.orders {
		o := &f.orders[i]
		if !f.refuses(o, c) {
			continue
		}
		knew := !o.Early(m.when, m.ev.Ask, e.limits.Order.Grace)
		if strictest == nil || knew && !known || knew == known && o.strictness() > strictest.strictness() {
			strictest, known = o, knew
		}
	}
	return strictest, known
}

// refuses reports whether the order refuses the call.
func (f *callStack) refuses(o *order, c *announced) bool {
	return o.Binds() && f.matches(o, c)
}

// attempt counts one try against an order and widens it: from the offence to the
// pair (or the whole tool), to the agent, to the flow.
// It widens by one step at a time at most: each of the cases is looked at from the widest
// down, and a step that was left out is never made up for.
func (e *orderWriter) attempt(f *Flow, o *order, m *moment, fx *Effects) {
	o.Attempt()
	if o.Action == events.Throttle || o.haltsFlow() || o.waits() {
		return // a throttled caller may ask whether it is time; and nothing is wider than the flow
	}
	esc := &e.limits.Escalate
	n := int64(o.Attempts)
	switch {
	case o.wide < 3 && esc.Flow > 0 && n >= esc.Flow:
		e.widen(f, o, m, 3, events.ScopeFlow, none, none, fx)
	case o.wide < 2 && esc.Agent > 0 && n >= esc.Agent && m.from != none && !isUnnamed(m.ev):
		e.widen(f, o, m, 2, events.ScopeSession, m.from, none, fx)
	case o.wide < 1 && esc.Pair > 0 && n >= esc.Pair && m.from != none:
		if m.ev.Kind == events.ToolCall {
			// The same order, wider: the tool whatever the arguments.
			o.wide, o.picks = 1, selectTools
			e.emit(f, o, m, fx)
		} else if m.to != none {
			a, b := f.ordered(m.from, m.to)
			e.widen(f, o, m, 1, events.ScopePair, a, b, fx)
		}
	}
}

// widen gives a second, wider order for the same reason, unless an active one already covers as
// much.
// The narrow order stays, because it is published again when the wide one is lifted (decision
// 54). The wide one is a halt, but a pair is only denied: its parties may still call others.
func (e *orderWriter) widen(f *Flow, o *order, m *moment, wide uint8, scope events.ScopeKind, a, b uint8, fx *Effects) {
	action := events.Halt
	if scope == events.ScopePair {
		action = events.Deny
	}
	// Such as the edges of a loop of two, which are all that there is between them.
	if f.covered(&order{Order: standing.Order{Action: action, Phase: standing.Stop}, rule: o.rule, scope: scope, a: a, b: b, incident: o.incident}, m.at) {
		return
	}
	o.wide = wide
	// A copy: addOrder may move the orders, or drop one, and o with it.
	src := *o
	if w := f.orderOf(Rules[src.rule].Reason, scope, a, b, ""); w != nil {
		if w.Phase == standing.Stop && w.picks == selectAll && w.kind == events.KindUnset {
			return
		}
		w.Phase, w.Action, w.picks, w.kind, w.wide = standing.Stop, action, selectAll, events.KindUnset, src.wide
		w.edges, w.calls, w.content, w.subject = w.edges[:0], w.calls[:0], events.Hash{}, ""
		e.stands(w, m, w.Tried)
		e.emit(f, w, m, fx)
		return
	}
	w := f.addOrder()
	*w = order{Order: src.Order, rule: src.rule, scope: scope, wide: src.wide, a: a, b: b,
		period: src.period, episode: src.episode, calls0: src.calls0, tokens0: src.tokens0, incident: src.incident, edges: w.edges[:0], calls: w.calls[:0]}
	// Revision 0 means that it was not published yet.
	w.Phase, w.Action, w.Begun, w.Revision = standing.Stop, action, m.at, 0
	e.stands(w, m, 1)
	e.emit(f, w, m, fx)
}

// stands makes a wider order active from now on, by the limits in force. tried is how many
// attempts were made against it since it was issued.
func (e *orderWriter) stands(o *order, m *moment, tried uint16) {
	o.Stand(m.at, e.limits.Order.TTL)
	o.Tried, o.Limits = tried, e.version
}
