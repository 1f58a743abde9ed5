package approvals

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/analyzer/budgets"
	"weir/cmd/internal/orders"
	"weir/events"
)

// The kinds of holds.
const (
	OfFlow     = "flow"     // a flow waits; a grant or a release lets it go on, a stop ends it
	OfCalls    = "calls"    // some calls of a flow wait, such as those that start a subagent; the rest goes on
	OfTree     = "tree"     // a tree of flows waits
	OfSpawn    = "spawn"    // a new flow waits for a place in its tree
	OfBudget   = "budget"   // a budget over flows is used up
	OfProposal = "proposal" // a stop waits for its second person
)

// Hold is work that waits for a person. It is stored as JSON.
type Hold struct {
	// ID is of the order or the proposal, 16 hexadecimal digits.
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// Subject is what waits: a flow, the root of a tree, "name:value" of a budget, or a scope.
	Subject string      `json:"subject"`
	Flow    string      `json:"flow,omitempty"`
	Root    string      `json:"root,omitempty"`
	Rule    string      `json:"rule,omitempty"`
	Text    string      `json:"text"` // for persons
	Agent   string      `json:"agent,omitempty"`
	Tool    string      `json:"tool,omitempty"`
	Reason  string      `json:"reason,omitempty"`
	Unit    events.Unit `json:"unit,omitempty"`
	Limit   float64     `json:"limit,omitempty"`
	Used    float64     `json:"used,omitempty"`
	Extra   float64     `json:"extra,omitempty"` // that an approval grants, in Unit; 0: it releases
	// Armed says that the limit is used up and that no call is known to wait. Guards refuse the next one by
	// themselves, so persons are asked already.
	Armed bool           `json:"armed,omitempty"`
	First string         `json:"first,omitempty"` // of a proposal: the principal that gave it
	Since events.RFC3339 `json:"since"`
	Until events.RFC3339 `json:"until"` // then the hold ends by itself

	// What follows is how the asking goes. Asked is the number of tiers that were asked.
	Asked     int            `json:"asked"`
	Next      events.RFC3339 `json:"next,omitzero"` // when the tier has had its time
	Delivered bool           `json:"delivered"`     // the message of the last tier
	Reached   bool           `json:"reached"`       // the message of any tier
	Lapsed    bool           `json:"lapsed,omitempty"`

	// early says that the limit is used up, but that guards refuse no call by themselves: persons are asked
	// once a check was refused.
	early bool
	busy  bool           // an answer is carried out
	tries int            // of the message of the last tier that failed, in this process
	kept  events.RFC3339 // Until as the store has it
}

// mostText is how much of a text of others is kept, in bytes.
const mostText = 512

// boundWait is how long a hold is waited for that ends without a verdict: the order about a new flow of a
// tree lasts a minute, and its caller has to ask again.
const boundWait = time.Hour

// grace is how long a hold is kept beyond its end, since its renewal may be under way.
const grace = time.Minute

// holdOf returns the hold that a verdict gives; nil for none.
func holdOf(v *events.Verdict, grant float64) *Hold {
	if v.Action != events.Hold || v.Mode != events.ModeEnforce || v.OfSelfTest() || v.ByHand != nil {
		return nil
	}
	h := &Hold{ID: orders.IDOf(v.ID), Armed: v.Effective != events.EffectiveNow, Rule: v.RuleID, Text: cut(v.Message), Agent: cut(cmp.Or(v.From, v.Session, v.Agent)), Tool: cut(v.Tool), Reason: string(v.Reason),
		Unit: v.Unit, Since: v.Time, Until: v.ExpiresAt}
	if v.Limit != nil && v.Observed != nil {
		h.Limit, h.Used = *v.Limit, *v.Observed
	}
	name, ofBudget := strings.CutPrefix(v.RuleID, budgets.Prefix)
	row, known := analyzer.RowNamed(v.RuleID) // a budget by name has none
	switch {
	case ofBudget && v.CorrelationID == "":
		h.Kind, h.Subject = OfBudget, v.Scope.ID
		if v.Scope.Kind != events.ScopeBudget {
			h.Subject = name + ":" + v.Scope.ID
		}
		h.early = h.Armed && v.Scope.Kind == events.ScopeBudget
	case ofBudget: // about one flow because of the account
		return nil
	case v.Scope.Kind == events.ScopeTree:
		h.Kind, h.Subject, h.Root = OfTree, v.Scope.ID, v.Scope.ID
	case known && row.Counts() == agents.CountedTreeSpawns:
		h.Kind, h.Subject, h.Flow, h.Root = OfSpawn, v.CorrelationID, v.CorrelationID, v.RootCorrelationID
		// Each check of the flow is refused by another order, and renews this hold.
		h.ID = fmt.Sprintf("%016x", xxhash.Sum64String(fmt.Sprint(h.Root, "\x00", h.Flow, "\x00", h.Rule, "\x00", v.Revision)))
		h.Until = events.RFC3339(events.Stamp(v.Time).Add(boundWait))
	case v.RootCorrelationID != "" && known && row.OfAgents(): // the order about its tree is asked about
		return nil
	case known && row.HoldsCalls():
		h.Kind, h.Subject, h.Flow = OfCalls, v.CorrelationID, v.CorrelationID
	case v.Scope.Kind == events.ScopeFlow:
		h.Kind, h.Subject, h.Flow = OfFlow, v.CorrelationID, v.CorrelationID
	default:
		return nil
	}
	if (h.Kind != OfFlow || known && row.Tells) && v.Limit != nil {
		h.Extra = share(h.Limit, grant, v.Unit)
		if h.Limit == 0 { // no part of it lets the call go on
			h.Extra = max(share(h.Used, grant, v.Unit), least(v.Unit))
		}
	}
	return h
}

// ofProposal is the hold of a stop that waits for its second person.
func ofProposal(q *orders.Proposal, now events.Stamp) *Hold {
	return &Hold{ID: q.ID, Kind: OfProposal, Subject: q.Order.Scope.String(), Text: cut(q.Order.By + " wants to stop " + q.Order.Scope.String() + ": " + q.Order.Reason),
		First: q.First, Since: events.RFC3339(now), Until: events.RFC3339(q.Until)}
}

// share is the part of a limit that is granted: whole numbers but for dollars.
func share(limit, part float64, unit events.Unit) float64 {
	if unit == events.UnitUSD {
		return math.Ceil(limit*part*1e6) / 1e6
	}
	return math.Ceil(limit * part)
}

// least is what an approval grants at least: one call, or what is next to nothing where a call is measured
// only afterwards.
func least(unit events.Unit) float64 {
	if unit == events.UnitUSD {
		return 0.01
	}
	return 1
}

// copy is what is used without the lock of the desk.
func (h *Hold) copy() *Hold {
	c := *h
	return &c
}

// renew takes over what a later verdict says of the same hold. It reports whether that has to be stored. Each
// refused check may renew a hold, so a later end is stored only when it differs by the grace.
func (h *Hold) renew(v *Hold) (store bool) {
	until, armed := max(h.Until, v.Until), h.Armed && v.Armed
	store = h.Limit != v.Limit || h.Extra != v.Extra || h.Armed != armed || events.Stamp(until) >= events.Stamp(h.kept).Add(grace)
	h.Text, h.Used, h.Limit, h.Extra, h.Until, h.Armed = v.Text, v.Used, v.Limit, v.Extra, until, armed
	return store
}

// Approved says what an approval does.
func (h *Hold) Approved(long time.Duration) string {
	switch {
	case h.Kind == OfProposal:
		return "the stop is given"
	case h.Releases():
		return "the flow goes on; no rule stops it for " + events.DurationText(long)
	case h.Kind == OfBudget:
		return h.amount() + " more, until the window ends or for " + events.DurationText(long)
	case h.Kind == OfFlow || h.Kind == OfCalls:
		return h.amount() + " more for the flow, for " + events.DurationText(long)
	}
	return h.amount() + " more for the tree, for " + events.DurationText(long)
}

// Releases reports whether an approval takes back all that refuses calls of the flow. Others grant Extra.
func (h *Hold) Releases() bool { return h.Kind == OfFlow && h.Extra == 0 }

// Denied says what a denial does.
func (h *Hold) Denied() string {
	switch h.Kind {
	case OfBudget:
		return "calls are refused until the window ends"
	case OfCalls:
		return "these calls stay refused; the rest of the flow goes on"
	case OfTree:
		return "all flows of the tree are stopped"
	case OfProposal:
		return "the stop is withdrawn"
	}
	return "the flow is stopped"
}

// amount is what an approval grants, in words.
func (h *Hold) amount() string { return h.Unit.Amount(h.Extra) }

func cut(s string) string {
	if len(s) > mostText {
		return strings.ToValidUTF8(s[:mostText], "") + "..."
	}
	return s
}
