package analyzer

import (
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer/activity"
	"weir/analyzer/agents"
	"weir/analyzer/rules"
	"weir/analyzer/standing"
	"weir/events"
)

// Engine folds events by one set of limits. It is immutable and safe for use by
// many goroutines; a change of limits is a new Engine.
type Engine struct {
	orderWriter
	// Rows that no limit and no override turns on are in no list.
	byKind [32][]*FlowRule // rows that are on, by the kind they follow
	plain  [32][]plainRow  // the same rows, for flows whose settings are those of the limits
}

// settings are the limits by which flows are judged.
type settings struct {
	limits Limits
	// Rows that shrink while the partition is busy (Load.Scale).
	scaled RuleSet
	// What tags do to each row; nil where they do nothing.
	byTag  [RuleCount]rules.Exempt
	tagged bool // they do something to some row
	// Some rule counts subagents, or what they use, see keepsSpawns.
	spawned bool
	// A rule holds forecasts against budgets.
	foresees bool
	holds    bool // a rule may hold a flow
	contexts bool // a rule measures the contexts of parties
	briefs   bool // a rule counts agents that got the same message
}

// relay passes to the agent stage what concerns it.
type relay struct {
	settings
	agents agents.Wants // what the agent stage receives
	stage  *agents.Engine
}

// verdictWriter writes verdicts and answers.
type verdictWriter struct {
	relay
	// Without it answers carry figures only to asks that want them (decision 60).
	tells bool // of some limit weir reports to the model how much remains
}

// orderWriter gives orders, renews and widens them, and lifts them.
type orderWriter struct {
	verdictWriter
	version uint32              // of the limits, as orders keep it
	observe func(RuleID, int64) // see Observing; nil but in backtests
}

// New returns an engine for the limits, which must be valid (see limitfile.Validate).
// It checks nothing itself.
func New(l Limits) *Engine {
	e := new(Engine)
	e.limits, e.scaled, e.version, e.agents = l, l.Load.Scale, standing.VersionOf(l.Version), agents.WantsOf(&l.Agents)
	e.stage = agents.New(l.Agents, agents.Terms{
		TTL: l.Order.TTL, Grace: l.Order.Grace, Hold: l.Order.Hold, Idle: l.Flow.Idle, MaxAge: l.Flow.MaxAge, WarnOnly: l.WarnOnly, Exempt: l.Exempt, Version: l.Version, Budgets: l.Budgets})
	for i := range Rules {
		e.byTag[i] = rules.ExemptOf(Rules[i].Name, l.Exempt)
		e.tagged = e.tagged || e.byTag[i] != nil
	}
	e.spawned = e.keepsSpawns()
	e.tells = slices.ContainsFunc(l.Rules[:], func(s rules.Setting) bool { return s.Tell != 0 }) ||
		slices.ContainsFunc(l.Overrides, func(o Override) bool { return o.Setting.Tell != 0 })
	e.holds, e.contexts, e.briefs = holdsFlows(&l), e.keepsContext(), e.mayFire(ruleOfBriefs)
	e.foresees = len(l.Forecast) > 0 && e.mayFire(ruleOfForecast)
	for i := range Rules {
		for _, k := range events.Kinds() {
			if Rules[i].On.Has(k) && e.mayFire(RuleID(i)) {
				e.byKind[k] = append(e.byKind[k], &Rules[i])
				e.plain[k] = append(e.plain[k], plainRowOf(&Rules[i], &e.limits.Rules[i]))
			}
		}
	}
	return e
}

// Observing returns an engine that judges as e does and hands what it measures to
// observe: for every event, the value of each row about flows that follows events of its
// kind, rows that are off included, and the age of the episode; not at deadlines. The
// value of a row whose thresholds the pace of a party widens is divided by as much, so
// that all of them can be held against the thresholds as they stand in the limits.
// Backtests ask so which other thresholds would have warned or stopped; observe is called
// by the goroutine that calls Step, for the flow whose event is folded.
// Rows that are off have to be walked for that, so judgeRow leaves those again after it has
// measured.
func (e *Engine) Observing(observe func(row RuleID, value int64)) *Engine {
	x := *e
	x.observe = observe
	for k := range x.byKind {
		x.byKind[k] = nil
	}
	for i := range Rules {
		for _, k := range events.Kinds() {
			if Rules[i].On.Has(k) {
				x.byKind[k] = append(x.byKind[k], &Rules[i])
			}
		}
	}
	return &x
}

// mayFire reports whether the row can give a verdict at all; rows that cannot are
// not walked.
func (e *settings) mayFire(r RuleID) bool {
	if e.limits.say(r) {
		return true
	}
	for i := range e.limits.Overrides {
		if e.limits.Overrides[i].Rule == r {
			return true
		}
	}
	return false
}

// Agents returns the engine of the agent stage, which judges by the same limits.
func (e *relay) Agents() *agents.Engine { return e.stage }

// Limits returns what the engine judges by. The caller must not change what its
// slices hold.
// They are the engine's own and not a copy.
func (e *settings) Limits() *Limits { return &e.limits }

// Effects is what one or more steps of flows brought about. What those of the agent stage bring
// about is part of it, so that who runs both keeps one.
// The moment and the copy of the flow stand here and not on the stack of Step, because both
// would escape with each event. So an Effects is for one goroutine at a time.
type Effects struct {
	activity.Effects

	m     moment
	began int // where the activity of the step at hand begins
	// The flow as it was before an ask, to take a refused one back.
	scratch Flow
}

// Step folds one event into the flow, in place, and adds its results to fx.
// The event must belong to the flow: f is the zero Flow, or was folded from
// events with the same FlowKey. What Step keeps of ev it keeps by reference;
// encode or clone the flow before the bytes under ev change.
// The Answer of fx is of this event alone; verdicts and activity are added to what is there.
func (e *Engine) Step(p *Partition, f *Flow, ev *events.Event, fx *Effects) {
	fx.Answer, fx.Asked, fx.began = nil, false, len(fx.Activity)
	if f.events == 0 && f.key == "" {
		f.Reset(ev.FlowKey())
	}
	when := p.take(ev, fx)
	// The flow was folded while the log's time was ahead, see TurnBack.
	if p.turned && f.clock > p.Watermark {
		f.rewind(p.Watermark)
	}
	// A slow clock must not place a check in the past of the flow, where windows no longer count it.
	if when < f.clock && isCheck(ev) && ev.Appended != 0 {
		when = max(when, ev.Appended)
	}
	m := &fx.m
	source := xxhash.Sum64String(ev.Source)
	if f.repeated(ev, source, when, fx) {
		e.repeat(f, m, ev, fx)
		return
	}
	// What was due before the event happened before it: orders that had run out by then refuse
	// nothing.
	e.Advance(p, f, when, fx)
	given := len(fx.Verdicts)
	m.begin(max(when, f.clock))
	m.ev, m.when, m.late, m.user, m.source = ev, when, when < f.clock, ev.By() == events.OriginUser, short(source)
	// A user's message that comes late lifts nothing: it would also undo what happened after it.
	// A claimed one lifts nothing while an order stops calls (decision 59).
	m.word = m.user && !m.late && !(ev.Claimed && f.stopped())
	if m.late {
		fx.Counts.Late++
	}
	episodes := fx.Counts.Episodes
	// Before the clock moves: silence is measured by the time of the event before.
	e.beginEpisode(f, m, fx)
	if e.agents.Trees {
		e.join(f, m, fx.Counts.Episodes > episodes, fx)
	}
	if len(e.limits.Budgets) > 0 {
		e.beginCharge(f, m)
	}
	f.clock, f.last = m.at, m.at
	// The ordinal stays at its greatest value: begun anew at 0 it would make the flow look
	// like one of which nothing was seen.
	if f.events < 1<<32-1 {
		f.events++
	}
	fx.Counts.Events++
	if len(ev.Tags)+len(ev.From.Tags)+len(ev.To.Tags)+len(ev.Tool.Tags) > 0 {
		f.mark(ev)
	}
	if len(f.orders) > 0 {
		// Orders of other limits are looked at before anything is judged by them.
		e.review(f, m, fx)
		e.uncover(f, m, fx)
	}
	e.fold(p, f, m, fx)
	// What covered another order may have been lifted by this event.
	if len(f.orders) > 0 {
		e.uncover(f, m, fx)
	}
	e.report(p, f, m.at, len(fx.Verdicts) > given, fx)
}

// repeat answers an event that was folded before, where it asks: a caller that lost an answer would wait for ever.
func (e *Engine) repeat(f *Flow, m *moment, ev *events.Event, fx *Effects) {
	if !ev.Ask {
		return
	}
	m.begin(f.clock)
	m.ev, m.user = ev, ev.By() == events.OriginUser
	fx.Answer = e.again(f, m)
	if e.agents.Trees && !m.user && fx.Answer.Action == events.Allow {
		f.passAgain(f.clock, ev, fx)
	}
	if len(e.limits.Budgets) > 0 && !m.user && fx.Answer.Action == events.Allow && ev.Kind.Asked() {
		e.askAgain(f, ev, fx)
	}
}

// fold applies the event, by what it is.
func (e *Engine) fold(p *Partition, f *Flow, m *moment, fx *Effects) {
	ev := m.ev
	switch {
	case ev.Kind == events.VerdictAck:
		e.applyAck(f, m, fx)
	case isOrder(ev):
		e.applyOperator(f, m, fx)
	case ev.Ask && !m.user && ev.Kind.Asked():
		e.ask(p, f, m, fx)
	default:
		e.see(p, f, m, fx)
		e.repartition(f, m, fx)
		if ev.Ask { // a user's, which nothing refuses
			fx.Answer = e.allowed(f, m)
		}
	}
}

// MaxSkew is how far a producer's clock may be ahead of the log's before the event is counted
// as clamped, and how far the clock of a dispatcher may be behind when it checks.
const MaxSkew = time.Minute

// TimeOf returns the time at which Step folds an event, and whether the producer's clock is
// ahead by more than MaxSkew.
// The time is never later than the append. Otherwise an event dated ahead moves the clock of a
// flow, and events with a correct time look old. A check is made when it is appended, so it is at
// most MaxSkew earlier. Otherwise a dispatcher could claim that its flow was silent for long enough
// to get a new budget. Where the log has no time of its own (Appended 0) the producer's time is
// used.
func TimeOf(ev *events.Event) (when events.Stamp, clamped bool) {
	switch {
	case ev.Appended == 0:
		return ev.Time, false
	case ev.Time > ev.Appended:
		return ev.Appended, ev.Time > ev.Appended.Add(MaxSkew)
	case isCheck(ev):
		return max(ev.Time, ev.Appended.Add(-MaxSkew)), false
	}
	return ev.Time, false
}

// isCheck reports whether a dispatcher waits for the answer before it sends the call. Whether its
// claim about a user is believed is another matter. Intakes make reports of what others call a check.
func isCheck(ev *events.Event) bool { return ev.Ask && ev.Kind.Asked() }

// isOrder reports whether the event is an order of a person, which intakes admit from operators
// alone.
func isOrder(ev *events.Event) bool {
	return ev.Kind == events.OperatorStop || ev.Kind == events.OperatorRelease || ev.Kind == events.OverrideSet
}

// sampleOf returns for how many the event stands; 0 for one. A check is one call, whatever it
// says: otherwise a caller could turn its own blocks into warnings.
func sampleOf(ev *events.Event) int64 {
	if ev.SampledRate <= 1 || isCheck(ev) {
		return 0
	}
	return ev.SampledRate
}

// take observes an event and returns its time.
func (p *Partition) take(ev *events.Event, fx *Effects) events.Stamp {
	when, clamped := TimeOf(ev)
	if clamped {
		fx.Counts.Clamped++
	}
	p.observe(when)
	p.Reporting = p.Reporting || ev.Kind == events.AgentStatus
	return when
}

// see counts and judges an event that happened.
// The order matters: attempts are counted against the flow as the caller could know it, before
// the call itself moves the stack or a window.
func (e *Engine) see(p *Partition, f *Flow, m *moment, fx *Effects) {
	if m.word {
		e.clearByUser(f, m, fx)
	}
	e.defied(f, m, fx)
	e.apply(f, m)
	if m.spawned && len(f.orders) > 0 {
		e.endJobs(f, m, fx)
	}
	if m.stray {
		fx.Counts.Strays++
	}
	p.count(m, &e.limits.Load)
	m.busy = p.busy
	if m.rewrote.tokens > 0 {
		fx.Counts.Rewritten[0] += m.rewrote.tokens
		fx.Counts.Rewritten[1] += m.rewrote.cost
	}
	if e.foresees && Rules[ruleOfForecast].On.Has(m.ev.Kind) {
		m.foreseen = foresight{&e.settings}.percent(f, m)
	}
	e.judge(f, m, fx)
}

// beginEpisode starts a new episode after silence, at the greatest age, or when a
// user speaks in a flow whose id stands for a whole conversation.
// It counts the new episode in fx, by which Step sees that there was one.
func (e *orderWriter) beginEpisode(f *Flow, m *moment, fx *Effects) {
	fl := &e.limits.Flow
	switch {
	case f.events == 0:
		f.start, f.waited, f.pos = m.at, 0, none
		// A check comes before what it asks for, so a flow that begins with one may begin here.
		if m.ev.Kind != events.FlowStart && !m.user && m.ev.Kind != events.AgentCall && m.ev.Kind != events.TurnStart && !isCheck(m.ev) {
			// The beginning was seen elsewhere: counters are too low, never too high (decision 25).
			f.flags |= flagIncomplete
		}
	case m.at.Sub(f.last) > fl.MaxAge:
		// Nothing of so long ago counts any more, whether or not the record was
		// still there: the answer must not depend on when the store forgets.
		old := *f
		f.Reset(f.key)
		f.revision, f.events, f.episode = old.revision, old.events, old.episode+1
		// Ids and revision go on, because they are promises to others: no event counts twice
		// and no verdict's revision falls.
		f.ids, f.idTimes, f.forgotAt, f.forgotID = old.ids, old.idTimes, old.forgotAt, old.forgotID
		f.start, f.released = m.at, old.released
		f.root, f.parent, f.payers = old.root, old.parent, old.payers
		f.flags = old.flags & flagBegun // its outcome is still waited for
		if old.source == events.CorrelationPrincipal {
			f.source = old.source
		}
		for i := range old.orders { // a person's word stands as long as the person said
			if o := &old.orders[i]; Rules[o.rule].Fixed && o.Expires > m.at {
				n := len(f.orders)
				f.orders = old.orders[:n+1]
				f.orders[n], *o = *o, f.orders[n] // no two may share the memory of their slices
			}
		}
	case f.held(m.at) && !m.word: // who waits for a person is not idle, and gets no new budget by waiting
		return
	case m.at.Sub(f.last) > fl.Idle, m.at.Sub(f.begun()) > fl.MaxAge,
		m.word && m.ev.Kind == events.AgentCall && fl.UserStarts>>m.ev.CorrelationSource&1 == 1 &&
			// A claim must not give new budgets to a flow that others know by another id.
			(!m.ev.Claimed || fl.UserStarts>>f.source&1 == 1):
		f.newEpisode(m.at)
		e.clearBudgets(f, m, fx)
	default:
		return
	}
	fx.Counts.Episodes++
}

// repeated reports whether the event is a repeat, or is too old to rule that out. It remembers
// the event if it returns false.
// An event with a time before forgotAt is dropped, because a second delivery of an old file
// looks exactly like a loop (decision 6). A check never comes from an old file, so its time
// does not matter. Only a check makes a check a repeat; otherwise any sender could use up its
// id. The same holds for orders of a person. A report is a repeat of a check as well: a guard
// that got no answer reports the call.
//
// Of the hash 48 bits are compared. An older weir kept 64.
func (f *recentIDs) repeated(ev *events.Event, source uint64, when events.Stamp, fx *Effects) bool {
	id := xxhash.Sum64String(ev.ID)
	if ev.Source != "" {
		id ^= source * 0x9e3779b97f4a7c15
	}
	id &= idMask
	// The lowest bit of a remembered id is set if a check or an order brought it.
	strict, known := isCheck(ev) || isOrder(ev), false
	if id |= 1; strict {
		known = id == f.forgotID&idMask || slices.ContainsFunc(f.ids, func(k uint64) bool { return k&idMask == id })
	} else {
		known = id == (f.forgotID|1)&idMask && f.forgotID != 0 || slices.ContainsFunc(f.ids, func(k uint64) bool { return (k|1)&idMask == id })
		id--
	}
	if known {
		fx.Counts.Duplicates++
		return true
	}
	if when < f.forgotAt && !strict {
		fx.Counts.TooLate++
		return true
	}
	if len(f.ids) == maxIDs { // the older half goes, and with it all that is older
		// The very last id that goes stays known by itself: it may have the time forgotAt,
		// which is not below it.
		f.forgotAt, f.forgotID = max(f.forgotAt, f.idTimes[0]), f.ids[maxIDs/2-1]
		f.idTimes[0], f.idTimes[1] = f.idTimes[1], 0
		f.ids = f.ids[:copy(f.ids, f.ids[maxIDs/2:])]
	}
	half := len(f.ids) / (maxIDs / 2)
	f.idTimes[half] = max(f.idTimes[half], when)
	f.ids = append(f.ids, id)
	return false
}

// idMask are the bits of an id by which it is known.
const idMask = 1<<48 - 1

// Advance fires every deadline up to now, each at its own time. The pump calls it
// when the partition's watermark passes the flow's Due; Step calls it by itself.
// Each deadline that fires has to move or end, or the loop would not. A deadline may give
// verdicts, end orders and bring others to light, but never counts anything.
func (e *Engine) Advance(p *Partition, f *Flow, now events.Stamp, fx *Effects) {
	for {
		at, what := e.next(f)
		if at == 0 || at > now {
			return
		}
		f.clock = max(f.clock, at)
		m := &fx.m
		m.begin(at)
		if what == dueDuration {
			e.judgeRow(&Rules[ruleOfAge], f, m, fx)
			noteAge(f, e.setting(ruleOfAge, f, m), at)
			continue
		}
		e.orderDue(f, what, m, fx)
		// Before uncover: an order that no caller ignored ends with its cover, unpublished.
		f.forgetUnder(m.at)
		e.uncover(f, m, fx)
	}
}

// noteAge notes that the row has spoken of a threshold of the age, whether it gave an order or
// not, so that the next deadline is that of the stop, or none. Where progress has put the threshold
// off, the deadline moves.
func noteAge(f *Flow, s rules.Setting, at events.Stamp) {
	after := s.Stop
	if f.aged == agedNot {
		after = min(s.Warn, s.Stop)
	}
	switch {
	case s.Extends && f.progressed(f.begun())+rules.StampOf(after) > at:
	case f.aged == agedNot && int64(f.ageOf(f.begun(), at).Seconds()) < s.Stop && s.Stop != rules.Off:
		f.aged = agedWarned
	default:
		f.aged = agedStopped
	}
}

// Due is when the flow wants to be looked at even if nothing comes; zero for never.
// The pump keeps it in an index by time and calls Advance when the watermark has passed it; it
// changes with each Step.
func (e *settings) Due(f *Flow) events.Stamp {
	at, _ := e.next(f)
	return at
}

// dueDuration stands for the deadline that is about no order but the age of the flow.
const dueDuration = -1

// next returns the next deadline, and the order that it is about, or dueDuration.
// Of deadlines that fall together the age comes first, then orders as they stand: the order of
// verdicts must be the same in each fold.
func (e *settings) next(f *Flow) (at events.Stamp, what int) {
	what = dueDuration
	if d := e.durationDue(f); d != 0 {
		at = d
	}
	for i := range f.orders {
		if d := f.orders[i].Due; at == 0 || d < at {
			at, what = d, i
		}
	}
	return at, what
}

// durationDue is when the age of the episode passes a threshold that has not been
// spoken of, if the episode lives so long. Who is done grows no older.
// It is 0 where the episode ends sooner: the next event begins another one then, whose age is
// 0.
func (e *settings) durationDue(f *Flow) events.Stamp {
	if f.events == 0 || f.aged == agedStopped || f.flags&flagEnded != 0 || f.held(f.clock) { // for a flow that waits, time stands still
		return 0
	}
	s := &e.limits.Rules[ruleOfAge]
	if e.varies(f) {
		var m moment
		m.begin(f.clock)
		set := e.setting(ruleOfAge, f, &m)
		s = &set
	}
	if s.Mode == rules.ModeOff {
		return 0
	}
	after := s.Stop
	if f.aged == agedNot {
		after = min(s.Warn, s.Stop)
	}
	if after == rules.Off {
		return 0
	}
	at := f.begun() + rules.StampOf(after)
	if s.Extends && at <= f.clock { // windows are searched only in a flow of that age
		at = f.progressed(f.begun()) + rules.StampOf(after)
	}
	at = max(at, f.clock)
	if at > f.episodeEnds(&e.limits) {
		return 0
	}
	return at
}

// What max_flow_duration has said in the episode.
const (
	// They stand in stored state, so that numbers are never reused.
	agedNot uint8 = iota
	agedWarned
	agedStopped
)

// exempt reports whether the limits exempt the tool from rules about repetition.
func (l *Limits) exempt(tool string) bool {
	for i := range l.Tools {
		if t := &l.Tools[i]; t.Exempt && t.Name == tool {
			return true
		}
	}
	return false
}
