package activity

import (
	"strconv"
	"unsafe"
	"weir/events"

	"github.com/cespare/xxhash/v2"
)

// Effects is what one or more steps of either stage brought about. The caller reuses it;
// Reset empties it. Verdicts own their strings.
type Effects struct {
	Verdicts []events.Verdict
	Answer   *events.Verdict // to the last ask; nil when the last event was none
	Activity []Activity      // for the agent stage, see there what it aliases
	Reports  []Report        // the same
	// Asked reports that the last check request was allowed so far and that a tree decides. One of the
	// Activity carries the request to the tree.
	Asked  bool
	Counts Counts

	said saying
}

// Counts is what the steps since the last Reset did, for metrics.
type Counts struct {
	Events, Duplicates, TooLate, Late, Clamped int64
	Asks, Refused                              int64
	Strays                                     int64 // answers of agents that match no call
	Attempts, Leaked                           int64
	Episodes                                   int64
	// Rewritten are the tokens that were written to a prompt cache again because a flow was held, and
	// what that cost in millionths of a US dollar.
	Rewritten [2]int64
	reasons   int64 // calls of By: as long as there is none, by holds zeros
	by        [events.ReasonCount + 1]Met
}

// Met is what the orders with one reason met.
type Met struct {
	Defied int64 // calls made against an order
	Leaked int64 // calls in flight when an order went out
	// Refused are the calls that were refused by an order: asks, and calls that a dispatcher
	// says that it refused.
	Refused int64
	Granted int64    // times that a person granted more of a limit
	Stops   int64    // incidents in which a call was refused first by this reason
	Acks    [2]int64 // acknowledgements; at 1 those that say that the order was applied
}

// By returns the counts of a reason, to be added to. place is that of events.Reason.Place, or
// ReasonCount for acknowledgements about no order of the flow.
func (n *Counts) By(place int) *Met {
	n.reasons++
	return &n.by[place]
}

// Of returns the counts of a reason, by the same places.
func (n *Counts) Of(place int) Met { return n.by[place] }

// Take adds what o has counted, and sets o to 0. Most steps count nothing by reason, and what they
// leave at 0 is not read: it is 3 KiB, and a check that comes alone is counted alone.
func (n *Counts) Take(o *Counts) {
	figures := unsafe.Sizeof(*o)
	if o.reasons == 0 {
		figures = unsafe.Offsetof(o.by)
	}
	figures /= unsafe.Sizeof(o.reasons)
	// A test sees to it that there is nothing but figures.
	to, from := unsafe.Slice((*int64)(unsafe.Pointer(n)), figures), unsafe.Slice((*int64)(unsafe.Pointer(o)), figures)
	for i, v := range from {
		if v != 0 {
			to[i] += v
			from[i] = 0
		}
	}
}

// Acked counts an acknowledgement that is about an order with the reason at the place.
func (n *Counts) Acked(place int, ack *events.Ack) {
	applied := 0
	if ack != nil && ack.Applied {
		applied = 1
	}
	n.By(place).Acks[applied]++
}

// Reset empties the effects and keeps their memory.
func (fx *Effects) Reset() {
	clear(fx.Verdicts)
	fx.Verdicts, fx.Answer, fx.Counts = fx.Verdicts[:0], nil, Counts{}
	fx.ResetActivity()
}

// ResetActivity empties the activity and the reports alone.
func (fx *Effects) ResetActivity() {
	clear(fx.Activity)
	fx.Activity = fx.Activity[:0]
	clear(fx.Reports)
	fx.Reports = fx.Reports[:0]
	fx.said.reset()
}

// Activity is an event in the form that the agent stage needs, across flows. It is one of three:
// what an agent reports of itself or others report of it, a call that rules about agents count, or
// what a flow reports of its parties.
// Its strings and pointers alias the event, the flow or the Effects that contain it. It is valid until
// the next Reset of the Effects, and as long as the bytes under event and flow do not change.
type Activity struct {
	Key   string // the agent, project or tree that it concerns, see AgentKey, ProjectKey and TreeKey
	Event events.Event
}

// ID returns an id for a report of a flow: a hash of the flow, the party and the time. It is valid as
// long as the activity.
func (fx *Effects) ID(flow uint64, party string, at events.Stamp) string {
	return fx.said.id(flow, party, at)
}

// State returns the state of an agent of which only the status is known. It is valid as long as the
// activity.
func (fx *Effects) State(status string) *events.AgentState { return fx.said.state(status) }

// Say adds an activity about the party, made of the event, and returns its event to be
// filled in. It returns nil when the party has no id.
func (fx *Effects) Say(about events.Party, ev *events.Event, when events.Stamp) *events.Event {
	id := about.Agent
	if id == "" {
		id = about.Session
	}
	if id == "" {
		return nil
	}
	return fx.SayTo("agent:", id, ev, when)
}

// SayTo adds an activity under a key of that kind (see AgentPrefix), made of the event, and
// returns its event to be filled in.
func (fx *Effects) SayTo(kind, id string, ev *events.Event, when events.Stamp) *events.Event {
	fx.Activity = append(fx.Activity, Activity{Key: fx.said.text(kind, id), Event: events.Event{ID: ev.ID, Source: ev.Source, Time: when, Kind: ev.Kind,
		CorrelationID: ev.CorrelationID, CorrelationSource: ev.CorrelationSource, From: ev.From, To: ev.To, ProjectID: ev.ProjectID}})
	return &fx.Activity[len(fx.Activity)-1].Event
}

// Event returns memory for an event that is made of a report. It is good until the next.
func (fx *Effects) Event() *events.Event { return &fx.said.event }

// saying is the memory of what activities need beside the event and the flow. What was
// handed out stays good while more is added, until reset.
type saying struct {
	bytes  []byte
	states []events.AgentState
	event  events.Event
}

func (s *saying) reset() { s.bytes, s.states = s.bytes[:0], s.states[:0] }

// text returns a and b joined.
func (s *saying) text(a, b string) string {
	n := len(s.bytes)
	s.bytes = append(append(s.bytes, a...), b...)
	return s.from(n)
}

// from returns what was written from n on.
func (s *saying) from(n int) string { return unsafe.String(&s.bytes[n], len(s.bytes)-n) }

// state returns the state of an agent of which only the status is known.
func (s *saying) state(status string) *events.AgentState {
	s.states = append(s.states, events.AgentState{Status: status})
	return &s.states[len(s.states)-1]
}

// id returns the id of a report of a flow: a hash of the flow, the party and the time.
func (s *saying) id(flow uint64, party string, at events.Stamp) string {
	h := flow*0x9e3779b97f4a7c15 ^ xxhash.Sum64String(party)
	h = (h ^ uint64(at)) * 0xff51afd7ed558ccd
	n := len(s.bytes)
	s.bytes = strconv.AppendUint(s.bytes, h^h>>33, 16)
	return s.from(n)
}
