package backtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"weir/analyzer/budgets"
	"weir/cmd/internal/costs"
	"weir/events"
)

// BudgetReport is what one budget over flows would have done. Amounts are in the unit.
type BudgetReport struct {
	Budget   string        `json:"budget"`
	Scope    string        `json:"scope"`
	Measure  string        `json:"measure"`
	Unit     events.Unit   `json:"unit"`
	Window   string        `json:"window"`
	Action   events.Action `json:"action"`
	Limit    *float64      `json:"limit,omitempty"` // nil for a budget that only warns
	Spent    float64       `json:"spent"`           // by all accounts, in all windows
	Beyond   float64       `json:"beyond"`          // of that, beyond the limit of its window
	Accounts int           `json:"accounts"`        // values of the scope that spent
	Windows  int           `json:"windows"`         // of all accounts
	UsedUp   int           `json:"windows_used_up"`
	// Calls came while their budget was used up, in Flows: checks would have got Action.
	Calls int64        `json:"calls"`
	Flows int          `json:"flows"`
	Most  *FullestView `json:"fullest,omitempty"`
}

// Amount is an amount of the budget for people.
func (r *BudgetReport) Amount(v float64) string {
	if r.Unit == events.UnitUSD {
		return costs.USD(v, 2)
	}
	return humanize.CommafWithDigits(v, 1) + " " + r.Measure
}

// Allows is the limit for people.
func (r *BudgetReport) Allows() string {
	if r.Limit == nil {
		return "only warns"
	}
	return r.Amount(*r.Limit) + " per " + r.Window
}

// Would says what checks would have got.
func (r *BudgetReport) Would() string {
	words := map[events.Action]string{events.Deny: "denied", events.Hold: "held", events.Throttle: "slowed", events.Warn: "only warned of"}
	if r.Windows == 0 {
		return "no event counts for it"
	}
	if r.Calls == 0 {
		return "nothing " + words[r.Action]
	}
	return fmt.Sprintf("%s %s in %s", words[r.Action], counted(r.Calls, "call"), counted(int64(r.Flows), "flow"))
}

func counted(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return humanize.Comma(n) + " " + what + "s"
}

// Fullest names the fullest window for people; "" for none.
func (r *BudgetReport) Fullest() string {
	if r.Most == nil {
		return ""
	}
	text := fmt.Sprintf("%s %s in %s", r.Most.Start.String()[:10], r.Amount(r.Most.Spent), r.Most.Value)
	if r.Limit != nil && *r.Limit > 0 {
		text += fmt.Sprintf(" (%.0f %%)", 100*r.Most.Spent / *r.Limit)
	}
	return text
}

// FullestView is the window of an account of which the greatest share was spent.
type FullestView struct {
	Value string         `json:"value"`
	Start events.RFC3339 `json:"start"`
	Spent float64        `json:"spent"`
}

// accounts follow the budgets of one trial. The fold reports each step of an account; which calls came
// while an account was used up is counted here.
type accounts struct {
	list  []budgets.Budget
	byKey map[string]*account
	calls []int64               // by budget
	flows []map[string]struct{} // by budget: the flows of these calls
	payer map[string][]string   // by flow: the value of each budget
	found []int                 // see refusing
}

// account is one of a budget.
type account struct {
	now  budgets.View
	over totals // windows that are over
}

// totals sum up windows of an account.
type totals struct {
	spent, beyond   float64
	windows, usedUp int
	most            FullestView
}

func newAccounts(list []budgets.Budget) *accounts {
	a := &accounts{list: list, byKey: map[string]*account{}, calls: make([]int64, len(list)), payer: map[string][]string{}}
	for range list {
		a.flows = append(a.flows, map[string]struct{}{})
	}
	return a
}

// note takes how an account stands after a step. It is called by the fold.
func (a *accounts) note(v *budgets.View) {
	x := a.byKey[v.Key()]
	if x == nil {
		x = &account{}
		a.byKey[v.Key()] = x
	} else if v.End != 0 && v.Start != x.now.Start {
		x.over = x.all()
	}
	spent := v.Spent
	if v.End == 0 { // a rolling window forgets; its greatest sum counts
		spent = max(spent, x.now.Spent)
	}
	x.now = *v
	x.now.Spent = spent
}

// all sums up the windows, with the one at hand.
func (x *account) all() totals {
	sum, v := x.over, &x.now
	if v.Spent == 0 && v.Reserved == 0 {
		return sum
	}
	sum.windows++
	sum.spent += v.Spent
	if v.Limit != nil {
		sum.beyond += max(0, v.Spent-*v.Limit)
		if v.Spent >= *v.Limit {
			sum.usedUp++
		}
	}
	if sum.most.Value == "" || v.Spent > sum.most.Spent {
		sum.most = FullestView{v.Value, v.Start, v.Spent}
	}
	return sum
}

// isUsedUp reports whether the account refuses a call at a time.
func (x *account) isUsedUp(at events.Stamp, b *budgets.Budget) bool {
	if x == nil || x.now.State != "used_up" || b.Action == events.Warn {
		return false
	}
	if end := events.Stamp(x.now.End); end != 0 {
		return at < end
	}
	return at.Sub(events.Stamp(x.now.Last)).Seconds() < b.Window.Seconds()
}

// refusing returns, before an event is folded, the places of the used up budgets that pay for it. The
// result is good until the next call.
func (a *accounts) refusing(ev *events.Event) []int {
	a.found = a.found[:0]
	if len(a.list) == 0 {
		return nil
	}
	payers := a.payer[ev.FlowKey()]
	if payers == nil {
		payers = make([]string, len(a.list))
		a.payer[strings.Clone(ev.FlowKey())] = payers // the key may alias what is read
	}
	for i := range a.list {
		b := &a.list[i]
		value := b.Scope.ValueOf(ev)
		if b.Scope.Kind.OfFlow() {
			if value != "" && (payers[i] == "" || b.Scope.Kind == budgets.OfModel) {
				payers[i] = strings.Clone(value)
			}
			value = payers[i]
		}
		if value != "" && ev.Refusable() && ev.By() != events.OriginUser && a.byKey[b.Key(value)].isUsedUp(ev.Time, b) {
			a.found = append(a.found, i)
		}
	}
	return a.found
}

// count takes down a call of a flow that these budgets would have refused.
func (a *accounts) count(found []int, f *Flow) {
	for _, i := range found {
		a.calls[i]++
		a.flows[i][f.ID] = struct{}{}
	}
}

// report sums up each budget, those in dollars first.
func (a *accounts) report() []BudgetReport {
	out := make([]BudgetReport, 0, len(a.list))
	keys := slices.Sorted(maps.Keys(a.byKey))
	for i := range a.list {
		b := &a.list[i]
		r := BudgetReport{Budget: b.Name, Scope: b.Scope.String(), Measure: b.Measure.String(), Unit: b.Measure.Unit(), Window: b.Window.Text(), Action: b.Action, Calls: a.calls[i], Flows: len(a.flows[i])}
		if b.Hard != budgets.Off {
			most := b.Measure.Figure(b.Hard)
			r.Limit = &most
		}
		for _, key := range keys { // in their order, because sums of fractions depend on it
			x := a.byKey[key]
			if x.now.Budget != b.Name {
				continue
			}
			sum := x.all()
			if sum.windows == 0 {
				continue
			}
			r.Accounts++
			r.Spent, r.Beyond, r.Windows, r.UsedUp = r.Spent+sum.spent, r.Beyond+sum.beyond, r.Windows+sum.windows, r.UsedUp+sum.usedUp
			if most := &sum.most; r.Most == nil || most.Spent > r.Most.Spent || most.Spent == r.Most.Spent && most.Value < r.Most.Value {
				r.Most = most
			}
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(x, y BudgetReport) int {
		dollars := func(r *BudgetReport) int {
			if r.Unit == events.UnitUSD {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(dollars(&x), dollars(&y)), cmp.Compare(y.Beyond, x.Beyond))
	})
	return out
}
