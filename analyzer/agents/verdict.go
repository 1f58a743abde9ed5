package agents

import (
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer/activity"
	"weir/analyzer/record"
	"weir/analyzer/rules"
	"weir/analyzer/standing"
	"weir/events"
)

// finding is the content of a verdict about an agent or a project. Zero fields are
// left out of it.
// It is made for each verdict and thrown away; what has to last is in the order or in the
// episode that it is made of.
type finding struct {
	standing.Order // expires is 0 when it gives no order; without phase and limit it has no figures
	rule           RuleID
	reason         events.Reason // when it is not the row's
	group          string        // with since, which order it is: "stuck" for all of one episode of being stuck; "" for the reason
	certain        bool          // stuck, not only potentially
	recovery       *events.Recovery
	flow           string // of a tree: the one flow that it is about
	detail         string // text of others, for people only: cloned and cut
}

// maxDetail is how much of the text of others a verdict about an agent holds, in bytes.
// In a verdict that goes to every dispatcher, text of others is kept short.
const maxDetail = 512

// publish appends the finding to the effects as the next verdict about the agent. Every string of the
// verdict is its own: the agent's strings may alias a record that is about to be
// overwritten.
// It sets the revision in the finding; who keeps an order copies it from there or from the
// agent.
func (e *orderWriter) publish(a *Agent, m *moment, x *finding, fx *activity.Effects) {
	// Event time, as of flows: an agent that is folded again from its middle counts on as
	// it did the first time.
	a.revision = max(a.revision+1, int64(m.at))
	x.Revision = a.revision
	fx.Verdicts = append(fx.Verdicts, e.verdict(a, m, x))
}

// verdict is the finding as dispatchers, people and models get it.
// A view calls it, too, so it changes nothing.
func (e *orderWriter) verdict(a *Agent, m *moment, x *finding) events.Verdict {
	rule := &Rules[x.rule]
	id := strings.Clone(a.name())
	order := a.verdictOrder(x.orderGroup(), x.Since)
	v := x.Order.Verdict(&rule.Row, order, m.at, e.limits.Rules[x.rule].Window, e.limits.HTTPStatus[x.rule])
	v.Scope = events.Scope{Kind: events.ScopeAgent, ID: id}
	// An agent has one order for a cause, which lasts as long as the incident.
	v.IncidentID, v.Cause = standing.IncidentID(order), strings.TrimSuffix(x.orderGroup(), "/shadow")
	v.Reason, v.ConfigVersion, v.Confidence = x.reasonCode(), e.terms.Version, confidenceOf(m.ev)
	switch {
	case a.isWake():
		v.TenantID, v.ConversationID = activity.OfWake(id)
		if v.Agent = strings.Clone(a.margin); a.ofFlows() {
			v.ConversationID = ""
			v.Agent = a.flowsOf()
		}
		v.Scope.ID = v.Agent
	case a.isProject():
		v.Scope.Kind, v.ProjectID = events.ScopeProject, id
	// To the flow it looks like an order about itself, with the root beside it.
	case x.flow != "":
		v.CorrelationID = strings.Clone(x.flow)
		v.Scope, v.RootCorrelationID = events.Scope{Kind: events.ScopeFlow, ID: v.CorrelationID}, id
	case a.isTree():
		v.Scope.Kind, v.RootCorrelationID = events.ScopeTree, id
	default:
		v.Agent = id
	}
	if m.ev != nil { // else a deadline
		v.From, v.To = strings.Clone(m.ev.From.ID()), strings.Clone(m.ev.To.ID())
		v.Trigger = &events.Trigger{EventID: strings.Clone(m.ev.ID), Ordinal: int64(a.events)}
	}
	v.Message = e.text(a, x)
	v.Recovery = x.recovery
	// Cut before it is cloned: the text may be long.
	v.Detail = strings.Clone(record.Cut(x.detail, maxDetail))
	if a.isWake() {
		v.Detail = record.Cut(a.wakes(), maxDetail)
	}
	// A verdict that lifts an order refuses nothing and has no text for the model.
	if x.Action == events.Allow {
		return v
	}
	// An order for one flow is about all of its calls: the scope says so.
	if x.Phase > standing.Warn && x.flow == "" {
		v.Match = a.match(x.Action)
	}
	v.AgentMessage = x.agentMessage()
	if x.Attempts > 0 || x.Leaked > 0 {
		v.Evidence = &events.Evidence{Attempts: int64(x.Attempts), Leaked: int64(x.Leaked)}
	}
	return v
}

// name is the id of the agent or project, without the kind before the colon.
func (a *subject) name() string {
	_, id, _ := strings.Cut(a.key, ":")
	return id
}

// verdictOrder is the same for all verdicts about one order.
// It is made of the key, the group and when the offence began, so it comes out the same in
// each fold (decision 7).
func (a *subject) verdictOrder(group string, since events.Stamp) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(a.key)
	_, _ = d.WriteString("\x00")
	_, _ = d.WriteString(group)
	_, _ = d.WriteString("\x00")
	_, _ = d.WriteString(strconv.FormatInt(int64(since), 16))
	return d.Sum64()
}

// match reports to a dispatcher which calls are refused: those to the agent, those of the
// agent, or those in the project or the tree.
func (a *Agent) match(action events.Action) *events.Match {
	id := strings.Clone(a.name())
	switch {
	case a.ofFlows():
		brief, _, _ := strings.Cut(a.health, " ")
		return &events.Match{Kind: events.AgentCall.String(), To: []string{a.flowsOf()}, ContentHash: []string{brief}}
	case a.isWake():
		_, conversation := activity.OfWake(id)
		return &events.Match{Kind: events.AgentCall.String(), From: a.callers(), ConversationID: conversation}
	case a.isProject():
		return &events.Match{Kind: events.AgentCall.String(), ProjectID: id}
	case a.isTree():
		return &events.Match{RootCorrelationID: id}
	// A halt is about what the agent does; all else about what is done to it.
	case action == events.Halt:
		return &events.Match{From: []string{id}}
	}
	return &events.Match{Kind: events.AgentCall.String(), To: []string{id}}
}

// reasonCode is the reason of the row, unless the finding has one of its own.
func (x *finding) reasonCode() events.Reason {
	if x.reason != "" {
		return x.reason
	}
	return Rules[x.rule].Reason
}

// orderGroup distinguishes orders about one agent: the reason, unless several reasons
// are one episode.
func (x *finding) orderGroup() string {
	if x.group != "" {
		return x.group
	}
	return string(x.reasonCode())
}

// confidenceOf says how well what was counted is known; at a deadline it is exact.
func confidenceOf(ev *events.Event) string {
	switch {
	case ev != nil && ev.SampledRate > 1:
		return "estimated"
	case ev != nil && ev.CorrelationSource == events.CorrelationDerived:
		return "derived"
	}
	return "exact"
}

// text is the sentence for people, in the shape of those about flows. It is made of
// fixed words and numbers, and of what the limits say.
// Ladders and notices have words of their own. Only what counts against a limit takes the text
// of the limits (decision 71).
func (e *orderWriter) text(a *Agent, x *finding) string {
	rule := &Rules[x.rule]
	code := string(x.reasonCode())
	limit, observed := x.Figures(rule.Unit)
	n, l := standing.Number(observed), standing.Number(limit)
	switch x.Action {
	case events.Allow:
		return standing.Cleared(x.reasonCode())
	case events.Resume:
		return "Auto-recovery: " + code
	case events.ReviewAgent:
		return "Auto-recovery: " + code + ", not safe to resume without a review"
	case events.Archive:
		return "stuck - auto-archived"
	}
	switch {
	case x.reasonCode() == RescueRefused:
		return "Agent is not stuck - no rescue needed"
	// Notify and resume, the actions of rows about silence and rescue, stop nothing.
	case !rule.Action.Stops(): // about being stuck
		if x.certain {
			return "Stuck agent detected: " + code
		}
		head := "Agent is potentially stuck: " + standing.ReasonText(x.reasonCode())
		// A call for help measures nothing.
		if x.Limit == 0 {
			return head
		}
		return head + ", silent for " + n + "s, more than " + l + "s"
	}
	text := e.limits.Texts[x.rule]
	if text == "" {
		if text = rule.Sentence(); a.ofFlows() {
			text = flowsText
		}
	}
	return x.fill(text, &e.limits.Rules[x.rule])
}

// fill puts the figures into a text of the rule.
func (x *finding) fill(text string, set *rules.Setting) string {
	rule := &Rules[x.rule]
	limit, observed := x.Figures(rule.Unit)
	return standing.Fill(text, func(word string) string {
		switch word {
		case "{bound}":
			return x.Bound(set, rules.InUnit(rule.Unit))
		case "{window}":
			return strconv.FormatInt(set.Window, 10)
		}
		return x.Word(word, events.AgentCall, limit, observed)
	})
}

// agentMessage is the sentence for the model: fixed words and numbers only, since text of
// an event would be a way to give the model instructions.
// It is "" where nothing is refused and nothing asked of a model.
func (x *finding) agentMessage() string {
	switch x.Action {
	case events.Resume:
		return "You were taken for stuck (" + string(x.reasonCode()) + "). Go on where you stopped and report your status, or report what blocks you."
	case events.ReviewAgent:
		return "An agent is stuck (" + string(x.reasonCode()) + "). Look at what it did last and answer with a review: resume, keep or archive."
	case events.Archive:
		return "You were archived because you were silent (" + string(x.reasonCode()) + "). Report your status before you take up work again."
	}
	if x.Phase <= standing.Warn {
		return ""
	}
	limit, observed := x.Figures(Rules[x.rule].Unit)
	what := x.Refused(x.reasonCode(), limit, observed)
	switch x.Action {
	case events.Throttle:
		return what + standing.AdviceWait
	case events.Hold:
		return what + standing.AdviceHold
	}
	return what + standing.AdviceReport
}
