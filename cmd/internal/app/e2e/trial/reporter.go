package main

import (
	"fmt"
	"math/rand/v2"

	"weir/events"
)

// reporters are agents that say from time to time how they are, and fall silent for a
// while or for good. They are among those that take part in flows.
// Every fifth name that parties of flows have is one of a reporter, as long as there are
// reporters (see flow.party).
const reporterStride = 5

// reporterSteps says when the reporters of a traffic speak.
// Each has a pace of its own, by which it would speak 15 to 60 times in all, a moment at
// which it falls silent, and one after which it speaks again, which may lie behind the end.
// So some are found stuck, and some of these come back.
func (t *traffic) reporterSteps(random *rand.Rand) (steps []step) {
	all := float64(t.to - t.from)
	for k := range t.reporters {
		gap := all / (15 + 45*random.Float64())
		end := all * random.Float64() // of what it says before it falls silent
		again := end + all*random.Float64()
		n := int32(0)
		for at := gap * random.Float64(); at < all; at += 2 * gap * random.Float64() {
			if at < end || at > again {
				steps = append(steps, step{t.from + events.Stamp(at), reporter(k), n})
				n++
			}
		}
	}
	return steps
}

// reporter is the k-th reporter in the place of a flow in a step.
// -1 is that of a bad record.
func reporter(k int) int32 { return int32(-2 - k) }

// report is the n-th thing that the k-th reporter says.
// What it is depends on the seed and the two numbers alone, so a report is the same
// whenever it is made. Most are of its state; some are what a person or another agent would
// have to do with.
func (t *traffic) report(k, n int) events.Event {
	self := events.Party{Agent: fmt.Sprintf("agent-%d", k*reporterStride)}
	next := events.Party{Agent: fmt.Sprintf("agent-%d", (k+1)%t.reporters*reporterStride)}
	ev := events.Event{ID: fmt.Sprintf("%s-report-%d-%d", t.name, k, n), Source: "urn:agents:trial"}
	fresh := mix(t.seed, 7, uint64(k), uint64(n))
	switch fresh % 16 {
	case 0: // asks for help
		ev.Kind, ev.From, ev.Note = events.NoteAdded, self, &events.Note{Summary: "no progress with the task", Tags: []string{"stuck", "help"}}
	case 1: // asks for help for another one
		ev.Kind, ev.From, ev.To, ev.Rescue = events.RescueRequest, self, next, &events.Rescue{Reason: "it does not answer"}
	case 2:
		ev.Kind, ev.From, ev.To, ev.Review = events.ReviewResult, self, next, &events.Review{Decision: [...]string{"resume", "keep", "archive"}[fresh>>8%3]}
	case 3:
		ev.Kind, ev.From, ev.Note = events.NoteAdded, self, &events.Note{Summary: "something learned", Tags: []string{"memory"}}
	// It has no correlation id, which is what the agent stage counts calls of (see decision
	// 27).
	case 4, 5, 6, 7: // a call that no flow counts
		ev.Kind, ev.From, ev.To, ev.Origin = events.AgentCall, self, events.Party{Agent: "agent-1"}, events.OriginAgent
	default:
		ev.Kind, ev.From = events.AgentStatus, self
		// Every mix of what an agent may report about itself and leave out.
		ev.AgentState = &events.AgentState{Status: "active", Margin: [...]string{"", "comfortable", "tight", "critical"}[k%4],
			Health: [...]string{"", "healthy", "moderate"}[k%3], Coherence: float64(fresh>>16%100) / 100, Risk: float64(fresh>>24%100) / 100,
			HasCoherence: k%2 == 0, HasRisk: k%2 == 0}
		if fresh%16 == 15 {
			ev.AgentState.Status = "waiting_input"
		}
	}
	return ev
}
