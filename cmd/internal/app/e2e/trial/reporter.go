package main

import (
	"fmt"
	"math/rand/v2"

	"weir/events"
)

// reporters are agents that say from time to time how they are, and fall silent for a
// while or for good. They are among those that take part in flows.
const reporterStride = 5

// reporterSteps says when the reporters of a traffic speak.
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
func reporter(k int) int32 { return int32(-2 - k) }

// report is the n-th thing that the k-th reporter says.
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
	case 4, 5, 6, 7: // a call that no flow counts
		ev.Kind, ev.From, ev.To, ev.Origin = events.AgentCall, self, events.Party{Agent: "agent-1"}, events.OriginAgent
	default:
		ev.Kind, ev.From = events.AgentStatus, self
		ev.AgentState = &events.AgentState{Status: "active", Margin: [...]string{"", "comfortable", "tight", "critical"}[k%4],
			Health: [...]string{"", "healthy", "moderate"}[k%3], Coherence: float64(fresh>>16%100) / 100, Risk: float64(fresh>>24%100) / 100,
			HasCoherence: k%2 == 0, HasRisk: k%2 == 0}
		if fresh%16 == 15 {
			ev.AgentState.Status = "waiting_input"
		}
	}
	return ev
}
