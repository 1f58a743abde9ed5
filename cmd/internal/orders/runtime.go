package orders

import (
	"cmp"
	"slices"
	"strings"

	"weir/events"
	"weir/events/byhand"
)

// The states of a runtime in a receipt.
const (
	RuntimeWaiting   = "waiting"   // the request is not delivered yet; Why says why
	RuntimeCancelled = "cancelled" // it has taken the request
	RuntimeFailed    = "failed"    // it refuses the request
)

// RuntimePart is what a program that runs agents has answered to the request to cancel their work.
type RuntimePart struct {
	Runtime      string         `json:"runtime"`
	Agent        string         `json:"agent"` // pattern of its agents
	State        string         `json:"state"`
	Why          string         `json:"why,omitempty"`
	At           events.RFC3339 `json:"at,omitzero"`   // when it took the request
	Cancelled    int            `json:"cancelled"`     // flows or calls, by its own count
	NotCancelled []Unreleased   `json:"not_cancelled"` // by its own word
}

// Unreleased is a flow that a runtime could not cancel.
type Unreleased struct {
	Flow string `json:"flow"`
	Why  string `json:"why,omitempty"`
}

// Runtimes returns what runtimes have answered about an order. Desk asks it for each receipt.
type Runtimes func(o *byhand.Order) []RuntimePart

// addRuntimes merges the answers of another process: each process requests the same of each runtime, so
// the best answer counts.
func (r *Receipt) addRuntimes(parts []RuntimePart) {
	rank := func(p *RuntimePart) int {
		return slices.Index([]string{RuntimeWaiting, RuntimeFailed, RuntimeCancelled}, p.State)
	}
	for _, p := range parts {
		at := slices.IndexFunc(r.Runtimes, func(q RuntimePart) bool { return q.Runtime == p.Runtime })
		switch {
		case at < 0:
			r.Runtimes = append(r.Runtimes, p)
		case rank(&p) > rank(&r.Runtimes[at]):
			r.Runtimes[at] = p
		}
	}
	slices.SortFunc(r.Runtimes, func(a, b RuntimePart) int { return cmp.Compare(a.Runtime, b.Runtime) })
}

// IDOf returns the id of the order of a verdict.
func IDOf(verdict string) string {
	id, _, _ := strings.Cut(verdict, "-")
	return id
}
