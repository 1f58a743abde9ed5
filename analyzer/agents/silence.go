package agents

import (
	"slices"
	"time"

	"weir/analyzer/activity"
	"weir/analyzer/rules"
	"weir/events"
)

// doing is what an agent is known to do. It stands in stored state, so that numbers are
// never reused.
// The order matters as well: those from inTool to onBackOff are believed for a while
// (patient).
type doing uint8

const (
	resting    doing = iota // nothing is expected of it
	acting                  // something is
	inTool                  // a tool has not answered
	onUser                  // waiting for a person's word
	onApproval              // waiting for a person's consent
	onChild                 // waiting for an agent that it called
	onBackOff               // asked to wait
	paused                  // by a person, who will say when it goes on
	gone                    // it took its leave
)

// patient reports whether the agent is believed for so long as Patience says that it
// cannot be heard of.
func (d doing) patient() bool { return d >= inTool && d <= onBackOff }

// doingByStatus reads the status that an agent reports. An unknown word does not show what is to be
// expected of the agent, and a report without a word shows that it lives.
// Each word has the spellings that are in use, such as those of the task states of A2A.
func doingByStatus(status string) doing {
	switch status {
	// Who says nothing of what it does is taken to be at work: so much the report itself shows.
	case "", "active", "running", "working", "busy", "thinking", "processing", "in_progress":
		return acting
	case "in_tool", "tool_call", "waiting_tool":
		return inTool
	case "waiting_input", "waiting_user", "input_required", "input-required", "awaiting_input", "waiting":
		return onUser
	case "waiting_approval", "awaiting_approval", "approval_required", "auth_required", "auth-required":
		return onApproval
	case "waiting_child", "waiting_agent", "delegating":
		return onChild
	case "backoff", "waiting_backoff", "rate_limited", "throttled", "sleeping":
		return onBackOff
	case "paused", "suspended", "on_hold":
		return paused
	case "archived", "completed", "terminated", "deleted", "stopped", "finished", "failed", "canceled", "cancelled", "closed", "exited":
		return gone
	}
	// A word that is not known must not make anybody stuck.
	return resting
}

// doingByFlow reads what a flow reports of a party.
// A flow cannot know that its party waits for a person: the party reports that itself.
var doingByFlow = [activity.WorkCount]doing{activity.AtWork: acting, activity.InTool: inTool, activity.OnChild: onChild, activity.OnBackOff: onBackOff, activity.Done: resting}

// reported folds what the agent reports of itself. A report is the whole state: what it
// does not contain is unknown afterwards.
// A report that is older than the last one counts for the cadence and as a sign of life, and
// changes nothing else.
func (e *recoverer) reported(p *Partition, a *Agent, m *moment, fx *activity.Effects) {
	s := m.ev.AgentState
	if s == nil {
		return
	}
	// Its own report is a sign of life at the time at which it was sent.
	seen := m.when
	if s.LastUpdate != 0 && s.LastUpdate < seen {
		seen = s.LastUpdate // another source reports the agent, and when it did something
	}
	a.countReport(seen)
	if m.when >= a.reported {
		a.reported = m.when
		a.status, a.margin, a.health = s.Status, s.Margin, s.Health
		a.coherence, a.risk, a.figures = 0, 0, 0
		if s.HasCoherence {
			a.coherence, a.figures = s.Coherence, a.figures|hasCoherence
		}
		if s.HasRisk {
			a.risk, a.figures = s.Risk, a.figures|hasRisk
		}
		if s.VoidActive {
			a.figures |= hasVoid
		}
		// Who is at work and healthy may be asked to review others.
		p.offer(a.name(), seen, doingByStatus(s.Status) == acting && s.Health == "healthy")
	}
	e.heard(a, m, seen, fx)
}

// countReport remembers when reports came, in order of time. The same last update reported
// twice is one report.
// The oldest time gives way. One older than all that are kept counts as a report and is not
// kept.
func (a *selfReport) countReport(at events.Stamp) {
	i, known := slices.BinarySearch(a.stamps, at)
	if known {
		return
	}
	if a.reports < 1<<32-1 {
		a.reports++
	}
	if len(a.stamps) == maxGaps {
		if i == 0 {
			return
		}
		copy(a.stamps, a.stamps[1:i])
		a.stamps[i-1] = at
		return
	}
	a.stamps = slices.Insert(a.stamps, i, at)
}

// atWork folds what a flow reports of the agent.
// A report about an agent that is not watched is only a sign of life.
func (e *recoverer) atWork(a *Agent, m *moment, flow uint64, w activity.Work, fx *activity.Effects) {
	d := doingByFlow[w]
	if e.watched(a) {
		w := a.workOf(flow)
		if w == nil {
			w = a.addWork(flow)
		}
		// What comes late says nothing of a later time.
		if m.when >= w.at {
			w.state, w.at = d, m.when
		}
	}
	e.heard(a, m, m.when, fx)
}

// workOf returns what the flow said last; nil for nothing. The flow is a hash of its key.
func (a *workList) workOf(flow uint64) *agentWork {
	for i := range a.works {
		if a.works[i].flow == flow {
			return &a.works[i]
		}
	}
	return nil
}

// addWork makes room for one more flow. Flows in which the agent rests go first, then
// those of which nothing was heard for the longest time.
func (a *workList) addWork(flow uint64) *agentWork {
	if len(a.works) < maxFlows {
		a.works = append(a.works, agentWork{flow: flow})
		return &a.works[len(a.works)-1]
	}
	victim := &a.works[0]
	for i := range a.works {
		w := &a.works[i]
		// A flow in which it rests says only that nothing is expected there, which is what no
		// flow says as well.
		if rests := w.state == resting; rests != (victim.state == resting) {
			if rests {
				victim = w
			}
		} else if w.at < victim.at {
			victim = w
		}
	}
	*victim = agentWork{flow: flow}
	return victim
}

// watched reports whether the agent's silence is judged: it has promised to report, or
// all are watched.
// One report is a promise for good: who stops reporting is what the rules look for.
func (e *settings) watched(a *Agent) bool { return a.reports > 0 || e.limits.WatchAll }

// quiet is what is known of an agent's silence.
// It is worked out anew each time and never stored.
type quiet struct {
	state  doing
	since  events.Stamp // the last that was heard of it
	until  events.Stamp // it is believed to be in a tool or to wait up to here; 0 for neither
	counts bool         // something is expected of it, so that its silence counts behind until
}

// quietOf weighs what the agent and what flows report of it. The latest report counts, except
// that one flow in which it is in a tool or waits is enough.
// An agent that no flow reports at work, and that reports nothing itself, is not
// expected to report.
func (e *settings) quietOf(a *Agent) quiet {
	// A reviewer who says "keep" gives it time from then on, though nothing was heard of it.
	q := quiet{since: max(a.last, a.stuck.silentSince)}
	if !e.watched(a) {
		return q
	}
	patience := e.limits.Patience
	var latest events.Stamp
	for i := range a.works {
		w := &a.works[i]
		latest = max(latest, w.at)
		switch {
		case w.state == acting:
			q.counts = true
		case w.state.patient():
			if until := w.at.Add(patience); until > q.until {
				q.state, q.until = w.state, until
			}
		}
	}
	q.counts = q.counts || q.until != 0
	if q.counts && q.until == 0 {
		q.state = acting
	}
	// A flow has reported it since its own last report, so its own report is the older one.
	if a.reports == 0 || a.reported < latest {
		return q
	}
	switch own := doingByStatus(a.status); {
	case own == acting:
		q.counts = true
		if q.until == 0 {
			q.state = acting
		}
	case own.patient():
		q.counts = true
		if until := a.reported.Add(patience); until >= q.until {
			q.state, q.until = own, until
		}
	// At rest, paused or gone by its own word: whatever flows said before, nothing is
	// expected.
	default:
		q.state, q.until, q.counts = own, 0, false
	}
	return q
}

// heard notes that the agent did something at that time, or that something else is known
// of it. If it was silent, that is over.
// It is called for each event that reports the agent. A late report of an earlier time ends the
// episode only if it shows that there was no silence.
func (e *recoverer) heard(a *Agent, m *moment, at events.Stamp, fx *activity.Effects) {
	// What it did before is no news: it was silent afterwards all the same.
	spoke := at > a.last
	a.last = max(a.last, at)
	if a.stuck.since != 0 && (spoke || e.excused(a, &a.stuck)) {
		e.cleared(a, &a.stuck, m, fx)
	}
	if a.shadow.since != 0 && (spoke || e.excused(a, &a.shadow)) {
		e.cleared(a, &a.shadow, m, fx)
	}
}

// excused reports whether a late report shows that the agent was not silent when it
// was found to be.
func (e *settings) excused(a *Agent, s *stuck) bool {
	if !Rules[s.rule].Silence {
		return false // the episode began with a request for help
	}
	q := e.quietOf(a)
	return !q.counts || q.until >= s.since
}

// cleared takes the order about a stuck agent back.
// Silence that is to be counted from a later time than the agent was heard of last
// (silentSince) outlives it: a reviewer said "keep".
func (e *recoverer) cleared(a *Agent, s *stuck, m *moment, fx *activity.Effects) {
	x := a.about(s, events.Allow)
	e.publish(a, m, &x, fx)
	// It is taken out before the episode is forgotten.
	again := s.silentSince
	*s = stuck{}
	if s == &a.stuck && again > a.last {
		s.silentSince = again
	}
}

// hasCadence reports whether it is known how often the agent reports.
// hasCadence also asks for two kept times, between which there is a gap.
func hasCadence(a *Agent) bool { return a.reports >= minCadence && len(a.stamps) > 1 }

// minCadence is how many reports make a cadence.
const minCadence = 5

// silenceAllowed is how long, in milliseconds, the agent may be silent before the row
// calls it stuck (certain) or potentially stuck; Off when it never does.
// For cadence_broken it is the longer of the threshold and the set number of mean gaps.
func (e *settings) silenceAllowed(a *Agent, r RuleID, certain bool) events.Stamp {
	rule, set := &Rules[r], &e.limits.Rules[r]
	// Off is the greatest number, so it never comes.
	threshold := set.Warn
	if certain {
		threshold = set.Limit()
	}
	if e.silenceMode(r, a) == rules.ModeOff || threshold == rules.Off || !rule.Speaks(a) {
		return rules.Off
	}
	ms := rules.StampOf(threshold)
	if rule.Window == "gaps" {
		gaps := events.Stamp(len(a.stamps) - 1)
		ms = max(ms, events.Stamp(min(set.Window, 1<<16))*(a.stamps[gaps]-a.stamps[0])/gaps)
	}
	return ms
}

// silenceMode is the mode of a row about silence, of which no exemption ends: what ended would
// have to be looked at when it does.
func (e *settings) silenceMode(r RuleID, a *Agent) rules.Mode { return e.mode(r, a, 0) }

// meanGap is the mean time between the last reports, in seconds; 0 when there are too few.
func (a *selfReport) meanGap() (seconds float64) {
	if a.reports < minCadence || len(a.stamps) < 2 {
		return 0
	}
	gaps := len(a.stamps) - 1
	return a.stamps[gaps].Sub(a.stamps[0]).Seconds() / float64(gaps)
}

// alarm is what silence will be found to be, and when.
type alarm struct {
	at      events.Stamp // 0 for never
	rule    RuleID
	certain bool
}

// nextAlarm returns the next finding of silence, by the rows in shadow mode or by the others.
// Of those that fall together stuck comes before potentially stuck, then the table order.
// Rows in shadow mode have an episode of their own, so that what they find does not hide what
// others do.
func (e *settings) nextAlarm(a *Agent, s *stuck, q *quiet) (next alarm) {
	shadow := s == &a.shadow
	for r := range RuleCount {
		rule, mode := &Rules[r], e.silenceMode(r, a)
		if !rule.Silence || mode == rules.ModeOff || (mode == rules.ModeShadow) != shadow || !rule.Speaks(a) {
			continue
		}
		// Stuck first, so that of two at one time it is the one that is reported.
		for _, certain := range [...]bool{true, false} {
			if !e.news(a, s, certain, mode) {
				continue
			}
			allowed := e.silenceAllowed(a, r, certain)
			if allowed == rules.Off {
				continue
			}
			// One millisecond more than what may pass, and never while a tool or a wait is
			// believed.
			at := max(q.since+allowed, q.until) + 1
			if next.at == 0 || at < next.at || at == next.at && certain && !next.certain {
				next = alarm{at, r, certain}
			}
		}
	}
	return next
}

// news reports whether it would change anything that the agent is found stuck, or
// potentially stuck, by a row of that mode.
// Without it a deadline would fire for ever at the same time.
func (e *settings) news(a *Agent, s *stuck, certain bool, mode rules.Mode) bool {
	switch {
	case s.since == 0:
		return true
	case !certain:
		return false
	case s.step != stepNone: // a resumed agent is given time again, once
		return s.step == stepResume && s.due == 0
	case s.certain: // a row that only warns does not keep others from recovery
		return mode == rules.ModeEnforce && e.silenceMode(s.rule, a) == rules.ModeWarn
	}
	return true
}

// silenceDue is when silence has to be judged next; 0 for never.
// The partition keeps it in its index of deadlines and calls Advance when the watermark of reports has
// passed it.
func (e *settings) silenceDue(a *Agent) events.Stamp {
	q := e.quietOf(a)
	if !q.counts || a.isTree() {
		return 0
	}
	at := e.nextAlarm(a, &a.stuck, &q).at
	// The earlier of the two: each has its own episode and both are judged at it.
	if by := e.nextAlarm(a, &a.shadow, &q).at; at == 0 || by != 0 && by < at {
		at = by
	}
	return at
}

// silent judges the silence of the agent when silenceDue has come.
// It decides by the row: some only warn, those in shadow mode notify no party that acts, others
// begin the ladder.
func (e *recoverer) silent(p *Partition, a *Agent, at events.Stamp, fx *activity.Effects) {
	m := deadlineOf(at)
	a.clock = max(a.clock, at)
	q := e.quietOf(a)
	for _, s := range [...]*stuck{&a.stuck, &a.shadow} {
		next := e.nextAlarm(a, s, &q)
		if next.at == 0 || next.at > at {
			continue
		}
		// Potentially stuck and stuck are one episode, which began with the first.
		if s.since == 0 {
			s.since = at
		}
		s.silentSince = q.since
		if s.step == stepResume { // again: it was resumed, and nothing came of it
			e.unheard(p, a, &m, fx)
			continue
		}
		s.rule, s.certain = next.rule, next.certain
		if s == &a.stuck && s.certain {
			p.offer(a.name(), at, false) // who is stuck cannot review others
		}
		switch mode := e.silenceMode(next.rule, a); {
		case !next.certain || mode == rules.ModeWarn:
			e.order(a, s, events.Warn, &m, fx)
		case mode == rules.ModeShadow:
			e.order(a, s, events.Notify, &m, fx)
		case e.limits.Recover:
			e.climb(p, a, &m, fx)
		default:
			e.order(a, s, events.Notify, &m, fx)
		}
	}
}

// condition is the state of the agent at a time: active, in_tool, waiting, silent,
// potentially_stuck, stuck, archived or unwatched. Waiting says for what: user, approval,
// child, backoff, or work when nothing is expected of the agent. The time since when it is
// silent is given for silent, potentially_stuck and stuck.
// Silent is for people alone: the silence is longer than the time between two reports of an agent at
// work, and no rule has triggered yet.
func (e *settings) condition(a *Agent, at events.Stamp) (state, waiting string, silentSince events.Stamp) {
	q := e.quietOf(a)
	switch s := &a.stuck; {
	// What the ladder has come to goes before what the agent does now.
	case s.step >= stepArchived:
		return "archived", "", 0
	case s.certain:
		return "stuck", "", s.silentSince
	case s.since != 0:
		return "potentially_stuck", "", s.silentSince
	case !e.watched(a):
		return "unwatched", "", 0
	case q.state == gone:
		return "archived", "", 0
	case !q.counts || at <= q.until:
		state, waiting = q.state.words()
		return state, waiting, 0
	case at.Sub(q.since) > max(e.limits.Report, time.Minute):
		return "silent", "", q.since
	}
	return "active", "", 0
}

// words says it as views do.
func (d doing) words() (state, waiting string) {
	switch d {
	case acting:
		return "active", ""
	case inTool:
		return "in_tool", ""
	case onApproval:
		return "waiting", "approval"
	case onChild:
		return "waiting", "child"
	case onBackOff:
		return "waiting", "backoff"
	case onUser, paused:
		return "waiting", "user"
	}
	return "waiting", "work"
}
