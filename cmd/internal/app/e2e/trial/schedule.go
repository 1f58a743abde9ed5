package main

import (
	"math/rand/v2"
	"time"
)

// fault is one thing that goes wrong, or that operators do.
type fault string

// The faults.
const (
	// Each text is a row of the report.
	hardExit   fault = "kill -9 of a member"
	join       fault = "member joins"
	leave      fault = "member leaves (SIGTERM)"
	brokerDown fault = "kill -9 of the broker"
	loseState  fault = "member loses its state"
	// A frozen member wakes up as an owner that was replaced meanwhile and does not know
	// it: what it still writes has to be refused by the broker (see decision 22).
	freeze fault = "member frozen (SIGSTOP)"

	// Only a soak has this one, and by a plan of its own.
	otherLimits fault = "other limits"
)

// moment is a step of the schedule: after a pause comes a fault.
type moment struct {
	pause time.Duration
	fault fault
}

// faults says how many of each there are. Each join is followed by a leave, before the
// next join.
// So at most one member more than the first two runs at a time.
type faults struct{ hardExits, joins, brokerDowns, loseStates, freezes int }

// schedule puts the faults in an order that the seed decides, with pauses of mean gap.
// The same seed gives the same order; when a process is struck in its work is left to the
// machine, so the same storm again is not the same run.
func (n faults) schedule(seed uint64, gap time.Duration) []moment {
	// Each use of a seed has a stream of its own, so that another number of faults leaves
	// the traffic as it was.
	random := rand.New(rand.NewPCG(seed, 2))
	var list []fault
	add := func(n int, f fault) {
		for range n {
			list = append(list, f)
		}
	}
	add(n.hardExits, hardExit)
	add(2*n.joins, join)
	add(n.brokerDowns, brokerDown)
	add(n.loseStates, loseState)
	add(n.freezes, freeze)
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	// A join and a leave are shuffled as two joins; the second of each pair becomes the
	// leave.
	joined := false
	out := make([]moment, len(list))
	for i, f := range list {
		if f == join {
			if joined {
				f = leave
			}
			joined = !joined
		}
		// From nothing to three times the mean, so that faults also fall together.
		out[i] = moment{time.Duration(min(3, random.ExpFloat64()) * float64(gap)), f}
	}
	return out
}
