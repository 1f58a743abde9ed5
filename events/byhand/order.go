// Package byhand holds the orders that persons give about scopes: all calls, or those of a tenant, an
// agent, a tool and so on. An order is a record of its own. Whatever keeps it and whatever enforces it
// reads the same record, and gets the same verdict of it.
package byhand

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"
	"time"

	"weir/events"
)

// The words of Order.Order.
const (
	Stop    = "stop"
	Release = "release"
)

// Bounds of an order.
const (
	MaxScopes = 32       // within, and as many exceptions
	MaxRecord = 32 << 10 // bytes
)

// PrincipalHeader is where weir says, in the answer by which a guard follows it, by which principal it
// knows the guard.
const PrincipalHeader = "Weir-Principal"

// LogHeader is where weir says, in the answer by which a guard follows it, which log of verdicts it reads,
// and where the guard repeats it beside the id of the last verdict that it has. Positions in the log of
// another member, or of a state that was lost, mean nothing.
const LogHeader = "Weir-Log"

// GuardHeader is where a guard says, in the request by which it follows weir, which it is: the word of
// its process, a space and its name, escaped as in a path.
const GuardHeader = "Weir-Guard"

// Scope is what an order is about, with a pattern as its id. Its text is "all" or "kind:pattern".
type Scope events.Scope

// Kinds are the kinds of scopes, the widest first.
var Kinds = []events.ScopeKind{events.ScopeAll, events.ScopeTenant, events.ScopeTeam, events.ScopeProject, events.ScopePrincipal, events.ScopeService,
	events.ScopeAgent, events.ScopeTool, events.ScopeModel, events.ScopeTree, events.ScopeFlow}

// Known reports whether orders can be about a scope of that kind.
func Known(kind events.ScopeKind) bool { return slices.Contains(Kinds, kind) }

// ParseScope reads the text of a scope.
func ParseScope(text string) (Scope, error) {
	kind, id, named := strings.Cut(text, ":")
	s := Scope{Kind: events.ScopeKind(kind), ID: id}
	if text == string(events.ScopeAll) {
		return Scope{Kind: events.ScopeAll, ID: "*"}, nil
	}
	switch {
	case !Known(s.Kind):
		return s, fmt.Errorf("scope %q: want one of %s", text, kindWords())
	case s.Kind == events.ScopeAll:
		return s, fmt.Errorf("scope %q: all takes no value", text)
	case !named || id == "":
		return s, fmt.Errorf("scope %q: want %s:VALUE; a star in VALUE stands for any text", text, kind)
	case len(id) > events.MaxID || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return s, fmt.Errorf("scope %q: VALUE has to be at most %d bytes without control characters", text, events.MaxID)
	}
	return s, nil
}

// ScopesText lists scopes for people.
func ScopesText(list []Scope) string {
	words := make([]string, len(list))
	for i, s := range list {
		words[i] = s.String()
	}
	return strings.Join(words, ", ")
}

func kindWords() string {
	words := make([]string, len(Kinds))
	for i, k := range Kinds {
		words[i] = string(k)
	}
	return strings.Join(words, ", ")
}

// String returns the text of the scope.
func (s Scope) String() string {
	if s.Kind == events.ScopeAll {
		return string(s.Kind)
	}
	return string(s.Kind) + ":" + s.ID
}

// MarshalText returns the text of the scope.
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the text of a scope.
func (s *Scope) UnmarshalText(text []byte) (err error) {
	*s, err = ParseScope(string(text))
	return err
}

// Covers reports whether each call of the other scope is one of s.
func (s Scope) Covers(other Scope) bool {
	// A pattern that fits the text of another pattern, stars included, fits all that the other fits:
	// each star of the other stands where a star of s does.
	return s.Kind == events.ScopeAll || s.Kind == other.Kind && Glob(s.ID, other.ID) && !strings.Contains(s.ID, "?")
}

// Order is the record of an order. The newest record of a key counts, by Revision.
type Order struct {
	SchemaVersion int     `json:"schema_version,omitempty"`
	Order         string  `json:"order"` // Stop or Release
	Scope         Scope   `json:"scope"`
	Within        []Scope `json:"within,omitempty"` // each has to fit a call as well
	Except        []Scope `json:"except,omitempty"` // a call that fits one may be made
	Reason        string  `json:"reason"`
	By            string  `json:"by"`
	// Time is when the record was made, and Expires the end of a stop. Of a release Expires is the
	// end that the stop would have had: until then the release has to be known.
	Time    events.RFC3339 `json:"time,omitzero"`
	Expires events.RFC3339 `json:"expires_at,omitzero"`
	// Revision grows with each record of a key: milliseconds since 1970, or one more than the last.
	Revision int64 `json:"revision,omitempty"`
	// Since is when a stop of this key was given first and not released since.
	Since events.RFC3339 `json:"since,omitzero"`
}

// Key names what the order is about. A stop and its release have the same.
func (o *Order) Key() string {
	words := make([]string, 0, len(o.Within))
	for _, s := range o.Within {
		words = append(words, s.String())
	}
	slices.Sort(words)
	return strings.Join(append([]string{o.Scope.String()}, words...), "\n")
}

// ID is the first part of the ids of its verdicts, the same for all records of a key. The hash is one of the standard
// library, because guards import this package and must need no other module.
func (o *Order) ID() string {
	h := fnv.New64a()
	_, _ = io.WriteString(h, "by hand\n"+o.Key())
	return fmt.Sprintf("%016x", h.Sum64())
}

// VerdictID is the id of the verdict of this record. Its last digits are of the content: two members may
// give records in the same millisecond, and a confirmation of one is none of the other.
func (o *Order) VerdictID() string {
	h := fnv.New32a()
	_, _ = h.Write(o.Encode())
	return fmt.Sprintf("%s-%x%04x", o.ID(), o.Revision, h.Sum32()&0xffff)
}

// Stops reports whether the order refuses calls at a time.
func (o *Order) Stops(now events.Stamp) bool {
	return o.Order == Stop && (o.Expires == 0 || events.Stamp(o.Expires) > now)
}

// Check reports what is wrong with an order. Revision, Time and Expires are not looked at.
func (o *Order) Check() error {
	switch {
	case o.Order != Stop && o.Order != Release:
		return fmt.Errorf("order %q: want %s or %s", o.Order, Stop, Release)
	case !Known(o.Scope.Kind):
		return errors.New("scope is missing")
	case strings.TrimSpace(o.By) == "":
		return errors.New("by is missing: say who gives the order")
	case strings.TrimSpace(o.Reason) == "":
		return errors.New("reason is missing: say why the order is given")
	case len(o.By) > events.MaxID:
		return fmt.Errorf("by has %d bytes; want at most %d", len(o.By), events.MaxID)
	case len(o.Reason) > events.MaxReason:
		return fmt.Errorf("reason has %d bytes; want at most %d", len(o.Reason), events.MaxReason)
	case len(o.Within) > MaxScopes || len(o.Except) > MaxScopes:
		return fmt.Errorf("want at most %d scopes in within and in except", MaxScopes)
	case o.Order == Release && len(o.Except) > 0:
		return errors.New("a release has no exceptions: give the stop again with them")
	}
	for _, s := range o.Except {
		if s.Kind == events.ScopeAll {
			return errors.New("except all: the order would stop nothing")
		}
	}
	return nil
}

// Decode reads a record. The error says what is wrong with it.
func Decode(text []byte) (*Order, error) {
	if len(text) > MaxRecord {
		return nil, fmt.Errorf("the order has %d bytes; want at most %d", len(text), MaxRecord)
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	o := new(Order)
	if err := in.Decode(o); err != nil {
		return nil, fmt.Errorf("read the order: %w", err)
	}
	if in.More() {
		return nil, errors.New("read the order: there is something behind the object")
	}
	return o, o.Check()
}

// Appended fills in what the record of a log lacks if weir did not write it: the time of the record
// counts.
func (o *Order) Appended(at events.Stamp) {
	if o.Time == 0 {
		o.Time = events.RFC3339(at)
	}
	if o.Since == 0 {
		o.Since = o.Time
	}
	if o.Revision == 0 {
		o.Revision = int64(at)
	}
	if o.Expires == 0 && o.Order == Stop {
		o.Expires = events.RFC3339(events.Stamp(o.Time).Add(events.DefaultStop))
	}
}

// Encode writes the record.
func (o *Order) Encode() []byte {
	text, err := json.Marshal(o)
	if err != nil { // all of it is text and numbers
		panic(err)
	}
	return text
}

// agentAdvice is for the model: fixed words only.
const agentAdvice = "A person has stopped this work. Do not call again. Report what is finished and what is not."

// Verdict returns what guards and gateways enforce: the same bytes wherever it is made.
func (o *Order) Verdict() *events.Verdict {
	v := &events.Verdict{SchemaVersion: 1, ID: o.VerdictID(), Time: o.Time, Revision: o.Revision, Mode: events.ModeEnforce,
		Scope: events.Scope(o.Scope), Action: events.Allow, Reason: events.OperatorStopped, RuleID: "operator_stop",
		IncidentID: o.ID(), Cause: string(events.OperatorStopped),
		ByHand: &events.ByHand{By: o.By, Reason: o.Reason, Within: scopes(o.Within), Except: scopes(o.Except)}}
	if o.Order == Release {
		v.Message = "Released by " + o.By + ": " + o.Reason
		return v
	}
	v.Action, v.ControlledCutoff, v.Effective, v.HTTPStatus = events.Halt, true, events.EffectiveNow, 403
	v.Message = fmt.Sprintf("Stopped by %s (%s): %s", o.By, o.Scope, o.Reason)
	v.AgentMessage = agentAdvice
	if o.Expires != 0 {
		v.ExpiresAt = o.Expires
		v.TTLS = max(1, int64(events.Stamp(o.Expires).Sub(events.Stamp(o.Time))/time.Second))
	}
	return v
}

func scopes(list []Scope) (out []events.Scope) {
	for _, s := range list {
		out = append(out, events.Scope(s))
	}
	return out
}
