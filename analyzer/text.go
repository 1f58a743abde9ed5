package analyzer

import (
	"fmt"
	"strconv"
	"strings"

	"weir/events"
)

// message is the sentence for people. The shape of the delegation system's texts
// is kept: what was refused, what was seen, what the limit is.
func message(f *Flow, o *order, m *moment, limit, observed float64) string {
	l, n := number(limit), number(observed)
	head := "Agent call rejected: "
	switch {
	case o.phase == phaseWarn:
		head = "Warning: "
	case o.phase == phaseArmed:
		head = "Limit used up, the next call will be rejected: "
	case o.action == events.Throttle:
		head = "Agent call delayed: "
	case o.kind == events.ToolCall:
		head = "Tool call rejected: "
	}
	if o.wide > 0 && o.attempts > 0 && o.scope != Rules[o.rule].Scope {
		head = fmt.Sprintf("Rejected after %d attempts, now for the whole %s: ", o.attempts, wideName(o.scope))
	}
	over := "exceeds limit (max " + l + ")"
	if o.phase != phaseStop || o.observed <= o.limit {
		over = "has reached the limit (" + l + ")"
	}
	if o.phase == phaseWarn {
		over = "is near its limit (warns at " + l + ")"
	}
	switch o.rule {
	case RuleCorrelationID:
		return head + "correlationId is required for agent-initiated calls"
	case RuleSelfCall:
		return head + "self-calls are not allowed"
	case RuleStackDepth:
		return head + "effective call depth " + n + " " + over
	case RuleUniqueSessions:
		return head + "unique session count " + n + " " + over
	case RuleFlowDuration:
		return head + "flow duration " + n + "s " + over
	case RuleCallerRate:
		return head + n + " calls of one caller within the window, " + over
	case RuleFlowRate:
		return head + n + " calls of the flow within the window, " + over
	case RuleTotalCalls:
		return head + "total call count " + n + " " + over
	case RuleRevisits:
		return head + "session revisited " + n + " times, " + over
	case RulePingPongSame:
		return head + fmt.Sprintf("cycle of %d hops without work, %s rounds with the same content, %s", o.period, n, over)
	case RulePingPongOther:
		return head + fmt.Sprintf("cycle of %d hops without work, %s rounds, %s", o.period, n, over)
	case RuleRepeatedDelegation:
		return head + "the same message was sent " + n + " times without work in between, " + over
	case RuleStaleDelegation:
		return head + "the callee only repeated earlier tool calls in " + n + " rounds, " + over
	case RuleStaleAnswers:
		return head + "the callee repeated earlier tool calls and answers in " + n + " rounds, " + over
	case RuleNoWorkHops:
		return head + n + " hops in a row without work, " + over
	case RuleNoWorkBurst:
		return head + n + " hops without work within seconds, " + over
	case RuleRepetition:
		return head + "same call with the same result repeated (" + n + "), " + over
	case RuleRepetitionBlind:
		return head + "same call repeated (" + n + "), " + over
	case RuleCircling:
		return head + "calls go in circles (" + n + " points), " + over
	case RuleToolCycle, RuleToolCycleLong:
		return head + fmt.Sprintf("cycle of %d tool calls with the same results, %s rounds, %s", o.period, n, over)
	case RuleRepeatedError:
		return head + "the tool failed in the same way " + n + " times in a row, " + over
	case RuleNoProgress:
		return head + "the tool brought the same result " + n + " times in a row, " + over
	case RuleLoops:
		return fmt.Sprintf("%sLoop limit exceeded: %s loops reached for task %s", warnHead(o), n, printable(subject(o, m)))
	case RuleReflectLoops:
		return fmt.Sprintf("%sReflect loop limit exceeded: %s loops reached for task %s", warnHead(o), n, printable(subject(o, m)))
	case RuleDelegationDepth:
		return fmt.Sprintf("%sDelegation depth exceeded: depth %s, %s", warnHead(o), n, over)
	case RuleOperator:
		return "Stopped by an operator."
	}
	return head + reasonText(Rules[o.rule].Reason) + ": " + n + " " + string(Rules[o.rule].Unit) + ", " + over
}

func warnHead(o *order) string {
	if o.phase == phaseWarn {
		return "Warning: "
	}
	return ""
}

func subject(o *order, m *moment) string {
	if o.subject == "" && m.ev != nil {
		return m.ev.TaskID
	}
	return o.subject
}

func wideName(s events.ScopeKind) string {
	switch s {
	case events.ScopeSession:
		return "agent"
	case events.ScopePair:
		return "pair"
	}
	return "flow"
}

// agentMessage is the sentence for the model: fixed words and numbers only, since
// text of an event would be a way to give the model instructions.
func agentMessage(o *order, limit, observed float64) string {
	what := "The call was refused by the flow guard (" + string(Rules[o.rule].Reason) + ", " + number(observed) + " of " + number(limit) + "). "
	if o.phase == phaseArmed {
		what = "The flow guard refuses the next call (" + string(Rules[o.rule].Reason) + ", limit " + number(limit) + " used up). "
	}
	switch {
	case o.rule == RuleOperator:
		return "A person has stopped this flow. Do not call again. Report what is finished and what is not."
	case o.action == events.Throttle:
		return what + "Wait before you call again; do other work meanwhile."
	case o.rule == RuleSelfCall:
		return what + "You cannot call yourself. Do the work in this turn instead."
	case o.rule == RuleCorrelationID:
		return what + "Calls between agents need the correlation id of the flow. Pass on the one that you were called with."
	case o.kind == events.ToolCall && o.action != events.Halt:
		return what + "Do not repeat it: it brings nothing new. Use what you already know, try another way, or report what blocks you."
	}
	return what + "Do not try it again. Finish with what you have and report back."
}

func number(v float64) string {
	if v >= Off {
		return "none"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// printable keeps ids from events out of terminals and logs as anything but text.
func printable(s string) string {
	if len(s) > 128 {
		s = s[:128]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r <= 0x9f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '?'
		}
		return r
	}, s)
}

func reasonText(r events.Reason) string { return strings.ReplaceAll(string(r), "_", " ") }
