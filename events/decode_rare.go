package events

import (
	"fmt"
	"time"
	"unicode/utf8"
)

// This file reads the objects that few events carry. They share a loop (object) that calls a
// closure for each field; party, tool, work and usage, which nearly all events carry, have
// loops of their own in decode.go and save those calls.

// object reads one, each of its known fields by read, and wants some of them. A read that is
// false must have told a fault, see in.
func (s *scanner) object(known *fields, read func(field uint8) bool, wanted ...uint8) bool {
	o := object{known: known}
	if !s.open(&o) {
		return false
	}
	for s.next(&o) {
		if !read(o.field) {
			return s.in(&o)
		}
	}
	return s.require(&o, wanted...)
}

// agentState reads a heartbeat. Its words (status, margin, health) are kept whatever they are:
// words that weir does not know match no rule, and the agent that sends them is not cut off.
func (s *scanner) agentState(dst *AgentState) bool {
	return s.object(stateFields, func(field uint8) bool {
		switch field {
		case stateStatus:
			return s.line(&dst.Status, MaxStatusText)
		case stateMargin:
			return s.line(&dst.Margin, MaxLevel)
		case stateHealth:
			return s.line(&dst.Health, MaxLevel)
		// A flag is set beside the figure, for 0 is a coherence that an agent may well have
		// and means something else than none.
		case stateCoherence:
			dst.HasCoherence = true
			return s.float(&dst.Coherence, 1)
		case stateRisk:
			dst.HasRisk = true
			return s.float(&dst.Risk, 1)
		case stateVoidActive:
			return s.bool(&dst.VoidActive)
		case stateTotalUpdates:
			return s.count(&dst.TotalUpdates, 0)
		case stateLastUpdate:
			return s.time(&dst.LastUpdate)
		}
		return false
	})
}

// note reads a knowledge note. Its texts are prose, since people and models write them with
// line breaks.
func (s *scanner) note(dst *Note) bool {
	return s.object(noteFields, func(field uint8) bool {
		switch field {
		case noteSummary:
			return s.prose(&dst.Summary, MaxReason)
		case noteTags:
			return s.tags(&dst.Tags)
		case noteDetails:
			return s.prose(&dst.Details, MaxDetails)
		}
		return false
	})
}

// tags reads an array of short lines. The count is bounded before the element is read, so a
// long list costs no memory.
func (s *scanner) tags(dst *[]string) bool {
	if c := s.peek(); c != '[' {
		return s.unexpected(c, "an array")
	}
	if !s.deeper() {
		return false
	}
	for s.element(len(*dst) > 0) {
		if s.peek(); len(*dst) == MaxTags {
			return s.fail(CodeTooLong, s.i, fmt.Sprintf("want at most %d tags", MaxTags))
		}
		// A tag is one line, as it stands in lists and labels.
		var tag string
		if !s.line(&tag, MaxTag) {
			return false
		}
		*dst = append(*dst, tag)
	}
	return s.err == nil
}

// rescue reads a cry for help. Both fields may be absent: who needs help may say no more.
func (s *scanner) rescue(dst *Rescue) bool {
	return s.object(rescueFields, func(field uint8) bool {
		switch field {
		case rescueReason:
			return s.prose(&dst.Reason, MaxReason)
		case rescueAdmin:
			return s.bool(&dst.Admin)
		}
		return false
	})
}

// ack reads a dispatcher's answer to a verdict. Without applied it would be unknown whether
// the verdict was honored, so that field is wanted too.
func (s *scanner) ack(dst *Ack) bool {
	return s.object(ackFields, func(field uint8) bool {
		switch field {
		case ackVerdictID:
			return s.id(&dst.VerdictID)
		case ackApplied:
			return s.bool(&dst.Applied)
		case ackOverrideReason:
			return s.prose(&dst.OverrideReason, MaxReason)
		case ackLatencyMS:
			return s.float(&dst.LatencyMS, MaxNumber)
		}
		return false
	}, ackVerdictID, ackApplied)
}

// decisions are what a reviewer can say of a stuck agent.
// The zero decision does not exist, so the list has no empty word at place 0.
var decisions = [...]string{"resume", "keep", "archive"}

// review reads a reviewer's decision; who is reviewed stands in the event's to.
func (s *scanner) review(dst *Review) bool {
	return s.object(reviewFields, func(field uint8) bool {
		switch field {
		case reviewDecision:
			return s.choice(&dst.Decision, decisions[:])
		case reviewReason:
			return s.prose(&dst.Reason, MaxReason)
		}
		return false
	}, reviewDecision)
}

// overrideModes are the modes that a rule may have in a limits file.
var overrideModes = [...]string{"off", "shadow", "warn", "enforce"}

// override reads a changed limit. Reason, author and end are wanted, because an exception
// without them stays for ever and nobody remembers why.
func (s *scanner) override(dst *Override) bool {
	if !s.object(overrideFields, func(field uint8) bool {
		switch field {
		case overrideScope:
			return s.overrideScope(&dst.Scope)
		case overrideScopeID:
			return s.id(&dst.ScopeID)
		case overrideRule:
			return s.filled(&dst.Rule, MaxRule)
		case overrideWarn:
			// Set tells a threshold of 0 from none.
			dst.Warn.Set = true
			return s.count(&dst.Warn.Value, 0)
		case overrideStop:
			dst.Stop.Set = true
			return s.count(&dst.Stop.Value, 0)
		case overrideExtra:
			return s.count(&dst.Extra, 1)
		case overrideMode:
			return s.choice(&dst.Mode, overrideModes[:])
		case overrideReason:
			return s.reason(&dst.Reason)
		case overrideBy:
			return s.id(&dst.By)
		case overrideExpires:
			return s.time(&dst.Expires)
		}
		return false
	}, overrideScope, overrideScopeID, overrideRule, overrideReason, overrideBy, overrideExpires) {
		return false
	}
	// An override that changes nothing is a mistake of who wrote it, for example of a name.
	if !dst.Warn.Set && !dst.Stop.Set && dst.Extra == 0 && dst.Mode == "" {
		return s.fail(CodeMissingField, s.i-1, "changes nothing; give warn, stop, extra or mode")
	}
	return true
}

// overrideScope reads one of the scopes that limits are looked up by.
func (s *scanner) overrideScope(dst *ScopeKind) bool {
	name := ""
	if !s.choice(&name, overrideScopes[:]) {
		return false
	}
	*dst = ScopeKind(name)
	return true
}

// Fewer than all scopes: those of which a limit can be looked up when a call comes.
var overrideScopes = [...]string{"project", "agent", "tool", "flow", "tree", "budget"}

// operator reads a person's order. Without for_s a stop ends by itself after a day, see
// Operator.
func (s *scanner) operator(dst *Operator) bool {
	return s.object(operatorFields, func(field uint8) bool {
		switch field {
		case operatorReason:
			return s.reason(&dst.Reason)
		case operatorBy:
			return s.id(&dst.By)
		case operatorFor:
			return s.seconds(&dst.For)
		}
		return false
	}, operatorReason, operatorBy)
}

// seconds reads a whole number of seconds up to MaxHold.
func (s *scanner) seconds(dst *time.Duration) bool {
	s.peek()
	start, n := s.i, int64(0)
	if !s.count(&n, 0) {
		return false
	}
	if most := int64(MaxHold / time.Second); n > most {
		return s.fail(CodeOutOfRange, start, fmt.Sprintf("want at most %d seconds, which is 366 days", most))
	}
	*dst = time.Duration(n) * time.Second
	return true
}

// attributes reads names and scalars of any kind. They are kept as raw JSON, because nothing
// but AppendJSON reads them. An object or an array is refused, which keeps contents out.
func (s *scanner) attributes(dst *[]Attribute) bool {
	o := object{known: anyFields}
	if !s.open(&o) {
		return false
	}
	// The bounds are checked before the value is read, so that a fault names the attribute.
	for s.nextAny(&o) {
		if len(*dst) == MaxAttributes {
			s.fail(CodeTooLong, o.at, fmt.Sprintf("want at most %d attributes", MaxAttributes))
			return s.in(&o)
		}
		// Names of attributes are bounded as ids are.
		if utf8.RuneCountInString(o.key) > MaxID {
			s.fail(CodeTooLong, o.at, fmt.Sprintf("want at most %d characters in a name", MaxID))
			return s.in(&o)
		}
		if c := s.peek(); c == '{' || c == '[' {
			s.fail(CodeWrongType, s.i, "want a string, a number, true, false or null")
			return s.in(&o)
		}
		// A scalar is left as it is written: 1.0 stays 1.0.
		v, ok := s.raw()
		if !ok {
			return s.in(&o)
		}
		*dst = append(*dst, Attribute{o.key, v})
	}
	return s.err == nil
}
