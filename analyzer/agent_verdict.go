package analyzer

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"weir/events"
)

// The kinds of keys of the agent stage.
const (
	agentPrefix   = "agent:"
	projectPrefix = "project:"
)

// finding is what a verdict about an agent or a project says. What is left zero is left
// out of it.
type finding struct {
	rule     AgentRuleID   // row: its name, unit and, unless reason is given, its reason
	reason   events.Reason // when it is not the row's
	action   events.Action
	phase    phase        // of what is counted; 0 for what is about silence
	shadow   bool         // published so that no dispatcher honors it
	group    string       // with since, which order it is: "stuck" for all of one episode of being stuck; "" for the reason
	since    events.Stamp // when that began
	issued   events.Stamp
	expires  events.Stamp // 0: no standing order
	certain  bool         // stuck, not only potentially
	observed int64        // of the row's unit
	limit    int64        // 0 without a phase: neither figure is told
	attempts int64        // calls tried against the order
	leaked   int64        // calls that were in flight when it went out
	recovery *events.Recovery
	detail   string // text of others, for people only: cloned and cut
}

// maxDetail is how much of the text of others a verdict about an agent holds, in bytes.
const maxDetail = 512

// tell publishes the finding as the next verdict about the agent and returns its
// revision. Every string of the verdict is its own: the agent's strings may alias a
// record that is about to be overwritten.
func (e *Engine) tell(a *Agent, m *agentMoment, x *finding, fx *Effects) (revision int64) {
	// Event time, as of flows: an agent that is folded again from its middle counts on as
	// it did the first time.
	a.revision = max(a.revision+1, int64(m.at))
	fx.Verdicts = append(fx.Verdicts, e.agentVerdict(a, m, x, a.revision))
	return a.revision
}

// agentVerdict is the finding as dispatchers, people and models get it.
func (e *Engine) agentVerdict(a *Agent, m *agentMoment, x *finding, revision int64) events.Verdict {
	rule := &AgentRules[x.rule]
	id := strings.Clone(a.name())
	v := events.Verdict{
		SchemaVersion:    1,
		ID:               fmt.Sprintf("%016x-%x", a.verdictOrder(x.orderGroup(), x.since), revision),
		Time:             events.RFC3339(m.at),
		Revision:         revision,
		Mode:             modeEnforce,
		Scope:            events.Scope{Kind: events.ScopeAgent.String(), ID: id},
		Action:           x.action.String(),
		Reason:           x.reasonCode(),
		RuleID:           rule.Name,
		ControlledCutoff: x.action == events.Deny || x.action == events.Halt,
		ConfigVersion:    e.limits.Version,
		Unit:             rule.Unit,
		Confidence:       confidenceOf(m.ev),
	}
	if a.isProject() {
		v.Scope.Kind, v.ProjectID = events.ScopeProject.String(), id
	} else {
		v.Agent = id
	}
	if x.shadow {
		v.Mode = modeShadow
	}
	if rule.Window == "seconds" {
		v.WindowS = float64(e.limits.Agents.Rules[x.rule].Window)
	}
	if m.ev != nil { // else a deadline
		v.From, v.To = strings.Clone(m.ev.From.ID()), strings.Clone(m.ev.To.ID())
		v.Trigger = &events.Trigger{EventID: strings.Clone(m.ev.ID), Ordinal: int64(a.events)}
	}
	v.Message = x.message()
	v.Recovery = x.recovery
	v.Detail = strings.Clone(cut(x.detail, maxDetail))
	if x.action == events.Allow {
		return v
	}
	if x.expires != 0 {
		v.ExpiresAt = events.RFC3339(x.expires)
		v.TTLS = secondsUp(x.expires.Sub(x.issued).Seconds())
	}
	if x.phase != 0 || x.limit != 0 {
		limit, observed := float64(x.limit), float64(x.observed)
		v.Limit, v.Observed = &limit, &observed
	}
	switch x.phase {
	case phaseArmed:
		v.Effective = effectiveNext
	case phaseStop:
		v.Effective = effectiveNow
	}
	if x.phase > phaseWarn {
		v.Match = a.match(x.action)
		v.HTTPStatus = cmp.Or(int(e.limits.Agents.HTTPStatus[x.rule]), rule.Status)
	}
	if x.action == events.Throttle {
		v.RetryAfterS = secondsUp(x.expires.Sub(m.at).Seconds())
	}
	v.AgentMessage = x.agentMessage()
	if x.attempts > 0 || x.leaked > 0 {
		v.Evidence = &events.Evidence{Attempts: x.attempts, Leaked: x.leaked}
	}
	return v
}

// name is the id of the agent or project, without the kind before the colon.
func (a *Agent) name() string {
	_, id, _ := strings.Cut(a.key, ":")
	return id
}

// verdictOrder is the same for all verdicts about one order.
func (a *Agent) verdictOrder(group string, since events.Stamp) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(a.key)
	_, _ = d.WriteString("\x00")
	_, _ = d.WriteString(group)
	_, _ = d.WriteString("\x00")
	_, _ = d.WriteString(strconv.FormatInt(int64(since), 16))
	return d.Sum64()
}

// match tells a dispatcher which calls are refused: those to the agent, those of the
// agent, or those in the project.
func (a *Agent) match(action events.Action) *events.Match {
	id := strings.Clone(a.name())
	switch {
	case a.isProject():
		return &events.Match{Kind: events.AgentCall.String(), ProjectID: id}
	case action == events.Halt:
		return &events.Match{From: []string{id}}
	}
	return &events.Match{Kind: events.AgentCall.String(), To: []string{id}}
}

func (x *finding) reasonCode() events.Reason {
	if x.reason != "" {
		return x.reason
	}
	return AgentRules[x.rule].Reason
}

func (x *finding) orderGroup() string {
	if x.group != "" {
		return x.group
	}
	return string(x.reasonCode())
}

func confidenceOf(ev *events.Event) string {
	switch {
	case ev != nil && ev.SampledRate > 1:
		return "estimated"
	case ev != nil && ev.CorrelationSource == events.CorrelationDerived:
		return "derived"
	}
	return "exact"
}

func secondsUp(s float64) int64 { return max(1, int64(math.Ceil(s))) }

// message is the sentence for people, in the shape of those about flows. It is made of
// fixed words and numbers.
func (x *finding) message() string {
	rule := &AgentRules[x.rule]
	why := reasonText(x.reasonCode())
	n, l := number(float64(x.observed)), number(float64(x.limit))
	switch x.action {
	case events.Allow:
		return "Cleared: " + why + " no longer holds."
	case events.Resume:
		return "Auto-recovery: " + why
	case events.ReviewAgent:
		return "Auto-recovery: " + why + ", not safe to resume without a review"
	case events.Archive:
		return "stuck - auto-archived"
	}
	switch {
	case x.reasonCode() == RescueRefused:
		return "Agent is not stuck - no rescue needed"
	case !rule.Action.Stops(): // about being stuck
		head := "Agent is potentially stuck: "
		if x.certain {
			head = "Agent is stuck: "
		}
		if x.limit == 0 {
			return head + why
		}
		return head + why + ", silent for " + n + "s, more than " + l + "s"
	}
	head := "Agent call rejected: "
	over := "exceeds limit (max " + l + ")"
	if x.phase != phaseStop || x.observed <= x.limit {
		over = "has reached the limit (" + l + ")"
	}
	switch {
	case x.phase == phaseWarn:
		head, over = "Warning: ", "is near its limit (warns at "+l+")"
	case x.phase == phaseArmed:
		head = "Limit used up, the next call will be rejected: "
	case x.action == events.Throttle:
		head = "Agent call delayed: "
	}
	return fill(rule.Text, rule.Reason, rule.Unit, "{head}", head, "{over}", over, "{n}", n)
}

// agentMessage is the sentence for the model: fixed words and numbers only, since text of
// an event would be a way to give the model instructions.
func (x *finding) agentMessage() string {
	n, l := number(float64(x.observed)), number(float64(x.limit))
	switch x.action {
	case events.Resume:
		return "You were taken for stuck (" + string(x.reasonCode()) + "). Go on where you stopped and report your status, or report what blocks you."
	case events.ReviewAgent:
		return "An agent is stuck (" + string(x.reasonCode()) + "). Look at what it did last and answer with a review: resume, keep or archive."
	case events.Archive:
		return "You were archived because you were silent (" + string(x.reasonCode()) + "). Report your status before you take up work again."
	}
	if x.phase <= phaseWarn {
		return ""
	}
	what := "The call was refused by the flow guard (" + string(x.reasonCode()) + ", " + n + " of " + l + "). "
	if x.phase == phaseArmed {
		what = "The flow guard refuses the next call (" + string(x.reasonCode()) + ", limit " + l + " used up). "
	}
	if x.action == events.Throttle {
		return what + "Wait before you call again; do other work meanwhile."
	}
	return what + "Do not try it again. Finish with what you have and report back."
}

// cut returns at most n bytes of the text, whole characters of it.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}
