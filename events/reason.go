package events

import "slices"

// ReasonCount is how many reason codes there are.
//
// Arrays that count by reason are as long.
const ReasonCount = len(reasons)

// Reasons lists all reason codes, for whoever counts by them.
func Reasons() []Reason { return slices.Clone(reasons[:]) }

// Place returns the place of the reason in Reasons; -1 for one that is not there.
//
// Nothing that is stored may hold a place: it moves when a rule is put between others.
func (r Reason) Place() int { return slices.Index(reasons[:], r) }

// ReasonAt returns the reason with that place; "" where there is none.
func ReasonAt(place int) Reason {
	if place < 0 || place >= len(reasons) {
		return ""
	}
	return reasons[place]
}

// SelfTestFlows is how the ids of the flows begin in which weir itself makes loops, to
// see whether they are stopped. Producers may not use such ids, and nobody is shown them.
const SelfTestFlows = "weir-selftest/"

// DrillFlow is the flow that the orders of drills bind, see byhand.DrillOf. No sender may use it.
const DrillFlow = SelfTestFlows + "drill"
