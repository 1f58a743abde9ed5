package analyzer

import (
	"strconv"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer/standing"
	"weir/events"
)

// incident is what happens to a flow in one episode for one cause: the warnings, the stops, their
// widening and renewals. It begins with the first order, and outlives the orders, so that a loop
// that goes on when its block has expired is the same incident.
// A person who releases the flow, or grants more of the limit, ends it.
type incident struct {
	rule    RuleID // the first one; its cause is that of the incident
	stopped bool   // a call was refused
	// When it began. The incident is named by it and not by the number of the episode: that number
	// is lost when the store forgets the flow, and the id must not depend on when it does.
	since events.Stamp
}

// incidentOf returns when the incident began that the rule's order is part of, and begins one
// where the episode has none of the cause.
func (f *sanctions) incidentOf(r RuleID, at events.Stamp) events.Stamp {
	cause := Rules[r].CauseOf()
	for i := range f.incidents {
		if x := &f.incidents[i]; Rules[x.rule].CauseOf() == cause {
			return x.since
		}
	}
	if len(f.incidents) == maxIncidents {
		f.incidents = f.incidents[:copy(f.incidents, f.incidents[1:])]
	}
	f.incidents = append(f.incidents, incident{rule: r, since: at})
	return at
}

// endIncident ends the incident of the rule's cause: a person has decided.
func (f *sanctions) endIncident(r RuleID) {
	cause := Rules[r].CauseOf()
	for i := range f.incidents {
		if Rules[f.incidents[i].rule].CauseOf() == cause {
			f.incidents = f.incidents[:i+copy(f.incidents[i:], f.incidents[i+1:])]
			return
		}
	}
}

// stops counts the incident of the order as a stop, the first time that a call is refused by it.
// An incident of an earlier episode was counted then.
func (f *sanctions) stops(o *order, fx *Effects) {
	if o.Shadow {
		return
	}
	cause := Rules[o.rule].CauseOf()
	for i := range f.incidents {
		if x := &f.incidents[i]; !x.stopped && x.since == o.incident && Rules[x.rule].CauseOf() == cause {
			x.stopped = true
			fx.Counts.By(Rules[o.rule].Reason.Place()).Stops++
			return
		}
	}
}

// incidentID names the incident that the order is part of. Like the id of the order it is made of
// what stands in the log, so that it is the same whenever the log is folded again.
func (f *identity) incidentID(o *order) string {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(f.key)
	_, _ = d.WriteString("\x00")
	_, _ = d.WriteString(Rules[o.rule].CauseOf())
	_, _ = d.WriteString("\x00")
	_, _ = d.WriteString(strconv.FormatInt(int64(o.incident), 16))
	return standing.IncidentID(d.Sum64())
}

// recall makes the incidents of a record that has none, as an older weir wrote it, from its
// orders.
func (f *sanctions) recall(episode uint16) {
	for i := range f.orders {
		o := &f.orders[i]
		o.incident = o.Since
		if o.episode != episode {
			continue
		}
		o.incident = f.incidentOf(o.rule, o.Since)
	}
	// The first order of a cause need not stand first.
	for i := range f.incidents {
		x := &f.incidents[i]
		first := x.since
		for k := range f.orders {
			if o := &f.orders[k]; o.episode == episode && Rules[o.rule].CauseOf() == Rules[x.rule].CauseOf() {
				first = min(first, o.Since)
				x.stopped = x.stopped || o.Phase == standing.Stop && !o.Shadow
			}
		}
		for k := range f.orders {
			if o := &f.orders[k]; o.episode == episode && o.incident == x.since && Rules[o.rule].CauseOf() == Rules[x.rule].CauseOf() {
				o.incident = first
			}
		}
		x.since = first
	}
}
