package api

import (
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"time"

	"weir/analyzer/agents"
	"weir/analyzer/budgets"
	"weir/analyzer/rules"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/problem"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/state"
)

// The sizes of lists of accounts.
const (
	defaultAccounts = 100
	maxAccounts     = 5000
)

// budgetPages serves the accounts of budgets, and grants more of them.
type budgetPages struct {
	log     Log
	members Members // nil when this process is alone
	folded  *folded
	turns   *turns
	clock   clock.Clock
	logger  *slog.Logger
}

// routes are about budgets over flows, whose accounts the agent stage folds. In a group a member
// answers for the accounts that it folds itself; a grant reaches every account.
func (p *budgetPages) routes() []route {
	return []route{
		{"GET", "/v1/budgets", reader, p.turns.of(p.serveBudgets)},
		{"POST", "/v1/budgets/grant", operator, p.serveBudgetGrant},
	}
}

// serveBudgets is GET /v1/budgets: the accounts, those first of which the greatest share is spent.
// Parameters: budget, value, limit.
func (p *budgetPages) serveBudgets(w http.ResponseWriter, r *http.Request) error {
	limit, err := intParameter(r, "limit", defaultAccounts, maxAccounts)
	if err != nil {
		return err
	}
	list, err := pump.BudgetsOf(p.log.Pumps(pump.AgentStage), pump.BudgetQuery{Budget: r.URL.Query().Get("budget"), Value: r.URL.Query().Get("value"), Limit: int(limit)})
	if err != nil {
		return err
	}
	if limits, _ := p.folded.inForce(); p.members != nil && len(limits.Budgets) > 0 {
		list.Elsewhere, _ = p.members.Others(r.Context())
	}
	return answer(w, list)
}

// BudgetGrant is the body of a request that grants an account more. The amount is in the unit of the
// budget. It is valid for the current window, until Expires or for ForS seconds.
type BudgetGrant struct {
	Budget  string  `json:"budget"`
	Value   string  `json:"value"`
	Amount  float64 `json:"amount"`
	Reason  string  `json:"reason"`
	By      string  `json:"by,omitempty"`
	Expires string  `json:"expires,omitempty"`
	ForS    int64   `json:"for_s,omitempty"`
}

// BudgetGrantAnswer is the response to a grant: it is in the log.
type BudgetGrantAnswer struct {
	ID     string         `json:"id"` // of the event
	Budget string         `json:"budget"`
	Value  string         `json:"value"`
	Amount float64        `json:"amount"`
	Unit   events.Unit    `json:"unit"`
	Time   events.RFC3339 `json:"time"`
	By     string         `json:"by"`
	// Until is when the grant expires at the latest; absent for the end of the window.
	Until events.RFC3339 `json:"until,omitzero"`
}

// serveBudgetGrant is POST /v1/budgets/grant: an override for the account, which the fold adds to the
// budget. A caller that is not among the names of the budget is rejected here; in the fold its grant
// would do nothing.
func (p *budgetPages) serveBudgetGrant(w http.ResponseWriter, r *http.Request) error {
	var asked BudgetGrant
	if err := readOrder(w, r, &asked); err != nil {
		return err
	}
	limits, _ := p.folded.inForce()
	b := budgets.Named(limits.Budgets, asked.Budget)
	if b == nil {
		var names []string
		for i := range limits.Budgets {
			names = append(names, limits.Budgets[i].Name)
		}
		detail := fmt.Sprintf("the limits in force have no budget %q; they have: %s", asked.Budget, strings.Join(names, ", "))
		if len(names) == 0 {
			detail = "the limits in force have no budgets: write them under budgets in the limits file"
		}
		return &problem.Error{Status: http.StatusNotFound, Code: string(events.CodeInvalidValue), Field: "budget", Detail: detail}
	}
	x, err := asked.override(r, p.clock.Now(), b)
	if err != nil {
		return err
	}
	if !b.MayGrant(x.By) {
		return &problem.Error{Status: http.StatusForbidden, Detail: fmt.Sprintf("%s may not grant more of budget %s; those who may: %s", x.By, b.Name, strings.Join(b.Grant, ", "))}
	}
	ev := events.Event{Kind: events.OverrideSet, Override: &x}
	stamp(&ev, orderID(), p.clock.Now())
	raw, err := lineOf(&ev)
	if err != nil {
		return err
	}
	if err := p.log.Append(r.Context(), []state.Entry{{Value: raw}}); err != nil {
		return err
	}
	visitOf(r.Context()).note(&ev)
	out := BudgetGrantAnswer{ID: ev.ID, Budget: b.Name, Value: asked.Value, Amount: asked.Amount, Unit: b.Measure.Unit(), Time: events.RFC3339(ev.Time), By: x.By}
	if asked.ForS != 0 || asked.Expires != "" {
		out.Until = events.RFC3339(x.Expires)
	}
	p.logger.Info("a person has granted more of a budget", "budget", b.Name, "value", asked.Value, "amount", b.Measure.Text(x.Extra), "by", x.By, "reason", asked.Reason, "event", ev.ID)
	writeJSON(w, "application/json", http.StatusAccepted, out)
	return nil
}

// override is the event of a grant. What the fold would ignore is refused here.
func (o *BudgetGrant) override(r *http.Request, now time.Time, b *budgets.Budget) (x events.Override, err error) {
	bad := func(field, format string, args ...any) error {
		return &problem.Error{Status: http.StatusBadRequest, Code: string(events.CodeInvalidValue), Field: field, Detail: fmt.Sprintf(format, args...)}
	}
	if x.By, err = signed(r, o.By, o.Reason); err != nil {
		return x, err
	}
	if b.Scope.Kind == budgets.OfAll && o.Value == "" {
		o.Value = "all"
	}
	extra := math.Round(o.Amount * b.Measure.In())
	switch {
	case o.Value == "":
		return x, bad("value", "value is missing: which %s is granted more", b.Scope)
	case b.Hard == budgets.Off:
		return x, bad("budget", "budget %s has no hard limit, so there is nothing to grant", b.Name)
	case !(extra >= 1 && extra <= rules.MaxThreshold):
		return x, bad("amount", "amount=%v; want how many %s more, above 0", o.Amount, b.Measure)
	case o.Expires != "" && o.ForS != 0:
		return x, bad("expires", "say until when once: expires or for_s")
	}
	x = events.Override{Scope: events.ScopeBudget, ScopeID: b.Name + ":" + budgets.Value(o.Value), Rule: agents.BudgetRule(), Extra: int64(extra), Reason: o.Reason, By: x.By}
	x.Expires = events.StampOf(now.Add(events.MaxHold)) // the window ends before
	switch {
	case o.ForS != 0:
		hold, err := holding(o.ForS)
		if err != nil {
			return x, err
		}
		x.Expires = events.StampOf(now.Add(hold))
	case o.Expires != "":
		var ok bool
		if x.Expires, ok = events.ParseStamp(o.Expires); !ok || x.Expires <= events.StampOf(now) {
			return x, bad("expires", "expires=%q; want a time to come such as 2026-12-01T00:00:00Z", o.Expires)
		}
	}
	return x, nil
}
