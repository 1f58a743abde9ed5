// Package gate decides which events a caller may send. Every intake checks an event with it before the event goes into
// a log. Only weir sends its own events, and orders of persons require the admin token.
package gate

import (
	"fmt"
	"math"
	"strings"

	"weir/events"
)

// Source is a way by which events come in.
type Source uint8

// The sources.
const (
	File     Source = iota // followed files, folders and pipes, and those that are ingested
	Spans                  // OpenTelemetry spans and logs by OTLP/HTTP
	Runs                   // runs as the clients of LangSmith post them
	Hook                   // hooks of coding agents
	Topic                  // a raw topic that is ingested
	Producer               // events over HTTP
	Ask                    // a call that is asked for, by dispatchers, gateways and other members
	Admin                  // events over HTTP, with the admin token
	sourceCount
)

var sourceNames = [...]string{"a file", "OTLP", "a run", "a hook", "a topic", "a producer", "an ask", "an admin"}

// String returns the source as it stands in a reason.
func (s Source) String() string { return sourceNames[min(s, sourceCount-1)] }

// Sources lists all sources.
func Sources() []Source {
	out := make([]Source, 0, sourceCount)
	for s := range sourceCount {
		out = append(out, s)
	}
	return out
}

// Trust is a set of sources whose word it is that a user has spoken. From all others it is
// a claim, see events.Event.Claimed. The admin token is always believed.
type Trust uint16

// trustNames are the names of the sources in settings. A topic has none: the topic's own rights
// decide which clients may write there.
var trustNames = [...]struct {
	name    string
	sources []Source
}{{"files", []Source{File}}, {"hooks", []Source{Hook}}, {"http", []Source{Producer, Ask}}, {"otlp", []Source{Spans}}, {"runs", []Source{Runs}}}

// DefaultTrust holds the files of coding agents, which the rights of files protect. A hook
// needs no more than the right to ask and names any flow, so it is not trusted by default.
const DefaultTrust = "files"

// TrustWords lists the words that ParseTrust takes.
func TrustWords() string {
	words := make([]string, 0, len(trustNames)+1)
	for _, t := range trustNames {
		words = append(words, t.name)
	}
	return strings.Join(append(words, "none"), ", ")
}

// ParseTrust reads words with commas between them; "none" alone is the empty set.
func ParseTrust(list string) (t Trust, err error) {
	if list == "none" {
		return 0, nil
	}
next:
	for word := range strings.SplitSeq(list, ",") {
		for _, known := range trustNames {
			if known.name == strings.TrimSpace(word) {
				for _, s := range known.sources {
					t |= 1 << s
				}
				continue next
			}
		}
		return 0, fmt.Errorf("%q is no source of users' words; want some of %s, with commas between them", word, TrustWords())
	}
	return t, nil
}

// Weigh notes in an event that by the claim of its sender alone no agent has set it off, when the
// source is not trusted with that. Only what comes in as a check is one: of all else it makes a
// report. A check whose answer has no reader would take its id away from another one, and spend
// nothing in a tree. It reports whether the event has changed.
func (t Trust) Weigh(s Source, ev *events.Event) (changed bool) {
	if s == Admin || s == Topic || t>>s&1 == 1 {
		return false
	}
	if ev.Ask && s != Ask {
		ev.Ask, changed = false, true
	}
	// Only gateways of weir make events about a client beside those about its flow. They count in no
	// tree and no budget.
	if ev.CorrelationSource == events.CorrelationPrincipal && s != Ask {
		ev.CorrelationSource, changed = events.CorrelationExplicit, true
	}
	if !ev.Claimed && ev.By() != events.OriginAgent {
		ev.Claimed, changed = true, true
	}
	return changed
}

// right is what it takes to send a kind.
type right uint8

const (
	nobody  right = iota // weir writes it
	person               // an order: it takes the admin token
	call                 // of an agent or a tool: it may be asked for, too
	anybody              // what happened, reported by its observer
)

// rights are those of all kinds. A kind that is not listed here is always rejected.
var rights = [math.MaxUint8 + 1]right{
	events.AgentCall: call, events.ToolCall: call,

	events.AgentReturn: anybody, events.ToolResult: anybody, events.LLMCall: anybody, events.TurnStart: anybody,
	events.TaskLoop: anybody, events.TaskReflect: anybody, events.AgentStatus: anybody, events.NoteAdded: anybody,
	events.RescueRequest: anybody, events.FlowStart: anybody, events.FlowEnd: anybody, events.VerdictAck: anybody,
	events.ReviewResult: anybody,

	events.OverrideSet: person, events.OperatorStop: person, events.OperatorRelease: person,

	events.LimitsSet: nobody, events.Tick: nobody, events.AgentActivity: nobody,
}

// IsOrder reports whether an event is a person's order.
func IsOrder(ev *events.Event) bool {
	return rights[ev.Kind] == person || ev.Rescue != nil && ev.Rescue.Admin
}

// Admit returns nil when the event may come from the source. The error is a
// *events.DecodeError that says what to do instead.
func (s Source) Admit(ev *events.Event) error {
	if err := ev.FromProducer(); err != nil {
		return err
	}
	refuse := func(field, format string, args ...any) error {
		return &events.DecodeError{Code: events.CodeReservedKind, Field: field, Offset: -1, Reason: fmt.Sprintf(format, args...)}
	}
	switch r := rights[ev.Kind]; {
	case r == nobody:
		return refuse("kind", "%s is written by weir alone; leave it out", ev.Kind)
	case r == person && s == Producer:
		return refuse("kind", "%s is a person's order; send the admin token with it", ev.Kind)
	case r == person && s != Admin:
		return refuse("kind", "%s is a person's order, and %s has no admin token to prove it by; POST it to /v1/events with the token", ev.Kind, s)
	case !ev.Kind.Asked() && s == Ask:
		return refuse("kind", "only agent.call, tool.call, task.loop and task.reflect can be asked for, not %s; send it to /v1/events", ev.Kind)
	}
	if ev.Rescue != nil && ev.Rescue.Admin && s != Admin {
		return refuse("rescue.admin", "only who has the admin token may say so; send it with the event, or leave rescue.admin out")
	}
	return nil
}
