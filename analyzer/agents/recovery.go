package agents

import (
	"strconv"
	"strings"

	"weir/analyzer/activity"
	"weir/analyzer/rules"
	"weir/analyzer/standing"
	"weir/events"
)

// stuckGroup is what makes all verdicts of one episode of being stuck one order.
const (
	// A resume, a review and an archive of one episode follow each other as revisions of one
	// order, so that dispatchers and guards carry out the last alone.
	stuckGroup  = "stuck"
	shadowGroup = "stuck/shadow"
)

// about is what every verdict of the episode says.
func (a *Agent) about(s *stuck, action events.Action) finding {
	x := finding{Order: standing.Order{Action: action, Since: s.since}, rule: s.rule, group: stuckGroup, certain: s.certain}
	if s == &a.shadow {
		x.group, x.Shadow = shadowGroup, true
	}
	return x
}

// order gives the order about a stuck agent that holds from now on.
// It stands until the step is due; 0 where the step has no end, and then until the agent is
// heard of.
func (e *recoverer) order(a *Agent, s *stuck, action events.Action, m *moment, fx *activity.Effects) {
	x := a.about(s, action)
	s.issued = m.at
	x.Issued, x.Expires = s.issued, s.due
	x.recovery = e.recovery(a, s, m.at)
	switch action {
	case events.Resume:
		x.recovery.Conditions = []string{resumeCondition}
	case events.ReviewAgent:
		x.recovery.Reviewer = strings.Clone(s.reviewer)
	}
	if Rules[s.rule].Silence {
		x.Observed = silentFor(s.silentSince, m.at)
		x.Limit = int64(e.silenceAllowed(a, s.rule, s.certain) / 1000)
		// silenceAllowed says Off for such a row, here in seconds.
		if x.Limit >= rules.Off/1000 { // the row no longer speaks of the agent
			x.Limit = 0
		}
	}
	if m.ev != nil {
		x.detail = detailOf(m.ev)
	}
	e.publish(a, m, &x, fx)
	s.revision = x.Revision
}

// resumeCondition goes with every order to resume.
const resumeCondition = "Monitor for 1 hour"

// silentFor is the time between the two in seconds, rounded up.
func silentFor(since, at events.Stamp) int64 { return int64(max(0, at-since)+999) / 1000 }

// recovery is what the verdict reports of the agent.
// The strings are copies, because the agent's may alias a record that is about to be
// overwritten.
func (e *recoverer) recovery(a *Agent, s *stuck, at events.Stamp) *events.Recovery {
	r := &events.Recovery{
		SafeToResume: e.safe(a),
		Coherence:    a.coherence,
		Risk:         a.risk,
		VoidActive:   a.figures&hasVoid != 0,
		Margin:       strings.Clone(a.margin),
		Health:       strings.Clone(a.health),
		RequestedBy:  strings.Clone(s.requestedBy),
		Certainty:    "potentially_stuck",
	}
	if s.certain {
		r.Certainty = "stuck"
	}
	if since := max(a.last, s.silentSince); since != 0 {
		r.IdleS = float64(silentFor(since, at))
	}
	return r
}

// safe reports whether the agent may be resumed without a review. A figure that it did not report is
// not safe.
// The figures in limits are hundredths, so that limits have no fractions. An agent whose void
// is active is never safe.
func (e *settings) safe(a *Agent) bool {
	l := &e.limits
	return a.figures&(hasCoherence|hasRisk|hasVoid) == hasCoherence|hasRisk &&
		a.coherence > float64(l.SafeCoherence)/100 && a.risk < float64(l.SafeRisk)/100
}

// climb takes the first step of the ladder.
// It is a resume where that is safe, and else a review by another agent.
func (e *recoverer) climb(p *Partition, a *Agent, m *moment, fx *activity.Effects) {
	a.stuck.reviewer, a.stuck.extended = "", false
	if e.safe(a) {
		e.resume(a, m, fx)
		return
	}
	e.reviewStuck(p, a, m, fx)
}

// resume orders the agent to go on, and gives it Limits.ResumeWithin to report.
func (e *recoverer) resume(a *Agent, m *moment, fx *activity.Effects) {
	a.stuck.step, a.stuck.due = stepResume, m.at.Add(e.limits.ResumeWithin)
	e.intervene(a, events.Resume, m, fx)
}

// reviewStuck asks another agent. Without one the agent is archived.
// The reviewer is one of this partition's agents: others are not known here (decision 40).
func (e *recoverer) reviewStuck(p *Partition, a *Agent, m *moment, fx *activity.Effects) {
	reviewer := p.choose(a.name(), m.at)
	if reviewer == "" {
		e.archive(a, m, fx)
		return
	}
	s := &a.stuck
	s.step, s.due, s.reviewer, s.extended = stepReview, m.at.Add(e.limits.ReviewWithin), reviewer, false
	e.intervene(a, events.ReviewAgent, m, fx)
}

// archive ends the ladder and notifies people. An archived agent is not archived again.
// The notice follows at once and has a step of its own, so that views show that people were
// notified.
func (e *recoverer) archive(a *Agent, m *moment, fx *activity.Effects) {
	s := &a.stuck
	s.due = 0
	if s.step >= stepArchived {
		return
	}
	s.step = stepArchived
	e.intervene(a, events.Archive, m, fx)
	s.step = stepNotified
	e.order(a, s, events.Notify, m, fx)
}

// intervene gives an order of the ladder and leaves a note about it with the agent.
func (e *recoverer) intervene(a *Agent, action events.Action, m *moment, fx *activity.Effects) {
	e.order(a, &a.stuck, action, m, fx)
	what, did := "Stuck agent ", string(action)
	switch action {
	case events.Resume:
		what, did = "Auto-recovered stuck agent ", "auto-resume"
	case events.Archive:
		what = "stuck - auto-archived: agent "
	}
	a.keep(Note{Time: m.at, Author: activity.NoteAuthor, Tags: []string{"auto-recovery", "stuck-agent"},
		Summary: what + a.name() + ". Reason: " + string(Rules[a.stuck.rule].Reason) + ", Action: " + did})
}

// unheard takes the next step when an order to resume did not help: a review, unless
// there was one.
// It is called when the time of the step is over and when a resumed agent falls silent again.
func (e *recoverer) unheard(p *Partition, a *Agent, m *moment, fx *activity.Effects) {
	switch s := &a.stuck; {
	case !e.limits.Recover && s.rule != ruleOfRescue:
		// The limits changed on the way: people are notified, and nothing else is ordered.
		s.step, s.due, s.certain = stepNone, 0, true
		e.order(a, s, events.Notify, m, fx)
	// It was reviewed before, and a second review would say no more.
	case s.reviewer != "":
		e.archive(a, m, fx)
	default:
		e.reviewStuck(p, a, m, fx)
	}
}

// recoveryDue fires when the time of a step of the ladder is over.
// A review without an answer ends in the archive: the reviewer may be stuck as well.
func (e *recoverer) recoveryDue(p *Partition, a *Agent, at events.Stamp, fx *activity.Effects) {
	m := deadlineOf(at)
	a.clock = max(a.clock, at)
	switch a.stuck.step {
	case stepResume:
		e.unheard(p, a, &m, fx)
	case stepReview:
		e.archive(a, &m, fx)
	default:
		a.stuck.due = 0
	}
}

// rescueAsked handles a request for help for the agent.
// The right to use admin is checked where events come in (decision 46).
func (e *recoverer) rescueAsked(p *Partition, a *Agent, m *moment, fx *activity.Effects) {
	if r := m.ev.Rescue; r != nil {
		e.rescue(p, a, m, r.Admin, fx)
	}
}

// rescue starts the ladder for an agent that is stuck, or may be. Others need no help,
// unless a person with the right to do so reports that they do.
// The mode of the row decides how far it goes: shadow and warn notify people. enforce
// climbs, also where recovery of silent agents is off (Limits.Recover).
func (e *recoverer) rescue(p *Partition, a *Agent, m *moment, admin bool, fx *activity.Effects) {
	s := &a.stuck
	mode := e.mode(ruleOfRescue, a, m.at)
	by := m.ev.From.ID()
	switch {
	case mode == rules.ModeOff:
	case s.since == 0 && !admin:
		e.refuse(a, m, mode == rules.ModeShadow, fx)
	case mode == rules.ModeShadow:
		x := a.about(&stuck{rule: ruleOfRescue, since: m.at, certain: s.certain}, events.Notify)
		x.group, x.Shadow, x.detail = "", true, detailOf(m.ev)
		x.recovery = e.recovery(a, &stuck{requestedBy: by, certain: s.certain}, m.at)
		e.publish(a, m, &x, fx)
	case s.step == stepReview, s.step == stepResume && s.due != 0:
		if s.requestedBy == "" { // help is on its way
			s.requestedBy = by
		}
	default:
		// A person found what silence has not: the episode begins here.
		if s.since == 0 {
			s.since, s.silentSince = m.at, a.last
		}
		s.rule, s.requestedBy = ruleOfRescue, by
		if mode == rules.ModeWarn {
			e.order(a, s, events.Warn, m, fx)
			return
		}
		e.climb(p, a, m, fx)
	}
}

// refuse answers a request for help for an agent that needs none. Nothing stands
// because of it.
// It is a notice with a reason of its own, so that who asked learns it from the stream.
func (e *recoverer) refuse(a *Agent, m *moment, shadow bool, fx *activity.Effects) {
	x := finding{Order: standing.Order{Action: events.Notify, Shadow: shadow, Since: m.at}, rule: ruleOfRescue, reason: RescueRefused,
		detail: detailOf(m.ev), recovery: e.recovery(a, &stuck{requestedBy: m.ev.From.ID()}, m.at)}
	x.recovery.Certainty = ""
	e.publish(a, m, &x, fx)
}

// detailOf is what the event says for people.
// It is text of others, which goes to people and never to a model.
func detailOf(ev *events.Event) string {
	switch {
	case ev.Rescue != nil:
		return ev.Rescue.Reason
	case ev.Review != nil:
		return ev.Review.Reason
	case ev.Note != nil:
		return ev.Note.Summary
	}
	return ""
}

// reviewed folds the answer of a reviewer. The agent itself has no say, and when no review is
// open there is nothing to decide.
// Any other agent that answers is treated as the reviewer: not only the chosen one may know.
func (e *recoverer) reviewed(_ *Partition, a *Agent, m *moment, fx *activity.Effects) {
	s, r := &a.stuck, m.ev.Review
	if r == nil || s.step != stepReview || activity.AgentKey(m.ev.From) == a.key {
		return
	}
	switch r.Decision {
	case "resume":
		e.resume(a, m, fx)
	case "keep":
		s.silentSince = m.at // counted anew
		e.cleared(a, s, m, fx)
		if a.shadow.since != 0 {
			e.cleared(a, &a.shadow, m, fx)
		}
	case "archive":
		e.archive(a, m, fx)
	}
}

// acknowledged folds that an order about a stuck agent is carried out: who was resumed is
// given the time of silence again, and a reviewer the time of a review once more.
// It has to name the last order of the episode (names). A reviewer can ask for more time once,
// or an open review would never end.
func (e *recoverer) acknowledged(_ *Partition, a *Agent, m *moment, _ *activity.Effects) {
	s, ack := &a.stuck, m.ev.Ack
	if ack == nil || !ack.Applied || s.due == 0 || !a.names(ack.VerdictID, s) {
		return
	}
	switch {
	case s.step == stepResume:
		s.due, s.silentSince = 0, max(s.silentSince, m.when)
	case s.step == stepReview && !s.extended:
		s.due, s.extended = s.due.Add(e.limits.ReviewWithin), true
	}
}

// names reports whether the verdict is the last one of the episode.
// An id is made of the order and the revision, in hexadecimal digits (decision 7).
func (a *subject) names(verdict string, s *stuck) bool {
	_, revision, _ := strings.Cut(verdict, "-")
	n, err := strconv.ParseInt(revision, 16, 64)
	return err == nil && n == s.revision && standing.OrderOf(verdict) == a.verdictOrder(stuckGroup, s.since)
}
