package events

import (
	"fmt"
	"time"
	"unicode/utf8"
)

// This file reads the objects that few events carry.

func (s *scanner) agentState(dst *AgentState) bool {
	o := object{known: stateFields}
	if !s.open(&o) {
		return false
	}
	for s.next(&o) {
		ok := false
		switch o.field {
		case stateStatus:
			ok = s.line(&dst.Status, MaxStatusText)
		case stateMargin:
			ok = s.line(&dst.Margin, MaxLevel)
		case stateHealth:
			ok = s.line(&dst.Health, MaxLevel)
		case stateCoherence:
			dst.HasCoherence = true
			ok = s.float(&dst.Coherence, 1)
		case stateRisk:
			dst.HasRisk = true
			ok = s.float(&dst.Risk, 1)
		case stateVoidActive:
			ok = s.bool(&dst.VoidActive)
		case stateTotalUpdates:
			ok = s.count(&dst.TotalUpdates, 0)
		case stateLastUpdate:
			ok = s.time(&dst.LastUpdate)
		}
		if !ok {
			return s.in(&o)
		}
	}
	return s.err == nil
}

func (s *scanner) note(dst *Note) bool {
	o := object{known: noteFields}
	if !s.open(&o) {
		return false
	}
	for s.next(&o) {
		ok := false
		switch o.field {
		case noteSummary:
			ok = s.prose(&dst.Summary, MaxReason)
		case noteTags:
			ok = s.tags(&dst.Tags)
		case noteDetails:
			ok = s.prose(&dst.Details, MaxDetails)
		}
		if !ok {
			return s.in(&o)
		}
	}
	return s.err == nil
}

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
		var tag string
		if !s.line(&tag, MaxTag) {
			return false
		}
		*dst = append(*dst, tag)
	}
	return s.err == nil
}

func (s *scanner) rescue(dst *Rescue) bool {
	o := object{known: rescueFields}
	if !s.open(&o) {
		return false
	}
	for s.next(&o) {
		ok := false
		switch o.field {
		case rescueReason:
			ok = s.prose(&dst.Reason, MaxReason)
		case rescueAdmin:
			ok = s.bool(&dst.Admin)
		}
		if !ok {
			return s.in(&o)
		}
	}
	return s.err == nil
}

func (s *scanner) ack(dst *Ack) bool {
	o := object{known: ackFields}
	if !s.open(&o) {
		return false
	}
	for s.next(&o) {
		ok := false
		switch o.field {
		case ackVerdictID:
			ok = s.id(&dst.VerdictID)
		case ackApplied:
			ok = s.bool(&dst.Applied)
		case ackOverrideReason:
			ok = s.prose(&dst.OverrideReason, MaxReason)
		case ackLatencyMS:
			ok = s.float(&dst.LatencyMS, MaxNumber)
		}
		if !ok {
			return s.in(&o)
		}
	}
	return s.require(&o, ackVerdictID, ackApplied)
}

var decisions = [...]string{"resume", "keep", "archive"}

func (s *scanner) review(dst *Review) bool {
	o := object{known: reviewFields}
	if !s.open(&o) {
		return false
	}
	for s.next(&o) {
		ok := false
		switch o.field {
		case reviewDecision:
			ok = s.choice(&dst.Decision, decisions[:])
		case reviewReason:
			ok = s.prose(&dst.Reason, MaxReason)
		}
		if !ok {
			return s.in(&o)
		}
	}
	return s.require(&o, reviewDecision)
}

var overrideModes = [...]string{"off", "shadow", "warn", "enforce"}

func (s *scanner) override(dst *Override) bool {
	o := object{known: overrideFields}
	if !s.open(&o) {
		return false
	}
	for s.next(&o) {
		ok := false
		switch o.field {
		case overrideScope:
			ok = s.overrideScope(&dst.Scope)
		case overrideScopeID:
			ok = s.id(&dst.ScopeID)
		case overrideRule:
			ok = s.filled(&dst.Rule, MaxRule)
		case overrideWarn:
			dst.Warn.Set = true
			ok = s.count(&dst.Warn.Value, 0)
		case overrideStop:
			dst.Stop.Set = true
			ok = s.count(&dst.Stop.Value, 0)
		case overrideExtra:
			ok = s.count(&dst.Extra, 1)
		case overrideMode:
			ok = s.choice(&dst.Mode, overrideModes[:])
		case overrideReason:
			ok = s.reason(&dst.Reason)
		case overrideBy:
			ok = s.id(&dst.By)
		case overrideExpires:
			ok = s.time(&dst.Expires)
		}
		if !ok {
			return s.in(&o)
		}
	}
	if !s.require(&o, overrideScope, overrideScopeID, overrideRule, overrideReason, overrideBy, overrideExpires) {
		return false
	}
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

var overrideScopes = [...]string{"project", "agent", "tool", "flow", "tree"}

func (s *scanner) operator(dst *Operator) bool {
	o := object{known: operatorFields}
	if !s.open(&o) {
		return false
	}
	for s.next(&o) {
		ok := false
		switch o.field {
		case operatorReason:
			ok = s.reason(&dst.Reason)
		case operatorBy:
			ok = s.id(&dst.By)
		case operatorFor:
			ok = s.seconds(&dst.For)
		}
		if !ok {
			return s.in(&o)
		}
	}
	return s.require(&o, operatorReason, operatorBy)
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

// attributes reads names and scalars of any kind.
func (s *scanner) attributes(dst *[]Attribute) bool {
	o := object{known: anyFields}
	if !s.open(&o) {
		return false
	}
	for s.nextAny(&o) {
		if len(*dst) == MaxAttributes {
			s.fail(CodeTooLong, o.at, fmt.Sprintf("want at most %d attributes", MaxAttributes))
			return s.in(&o)
		}
		if utf8.RuneCountInString(o.key) > MaxID {
			s.fail(CodeTooLong, o.at, fmt.Sprintf("want at most %d characters in a name", MaxID))
			return s.in(&o)
		}
		if c := s.peek(); c == '{' || c == '[' {
			s.fail(CodeWrongType, s.i, "want a string, a number, true, false or null")
			return s.in(&o)
		}
		v, ok := s.raw()
		if !ok {
			return s.in(&o)
		}
		*dst = append(*dst, Attribute{o.key, v})
	}
	return s.err == nil
}
