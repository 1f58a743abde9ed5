package pump

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"weir/analyzer/agents"
	"weir/analyzer/budgets"
	"weir/events"
)

// BudgetQuery says which accounts are wanted.
type BudgetQuery struct {
	Budget string // "" is every budget
	Value  string // "" is every value
	Limit  int
}

// BudgetList is an answer to a question for accounts of budgets: those first of which the greatest
// share is spent.
type BudgetList struct {
	Budgets []budgets.View `json:"budgets"`
	// LowWatermark is the time up to which everything was counted.
	LowWatermark events.RFC3339 `json:"counted_up_to,omitzero"`
	Scanned      int            `json:"scanned"`
	Truncated    bool           `json:"truncated"`
	// Elsewhere are the addresses of the members of a group whose accounts are not in the list: each
	// answers for those that it folds.
	Elsewhere []string `json:"other_members,omitempty"`
}

// BudgetsOf returns the accounts that pumps of the agent stage know.
func BudgetsOf(pumps []*Pump, q BudgetQuery) (BudgetList, error) {
	list := BudgetList{Budgets: []budgets.View{}}
	for i, p := range pumps {
		scan, err := p.accounts(func(v *budgets.View) {
			if (q.Budget == "" || v.Budget == q.Budget) && (q.Value == "" || v.Value == q.Value) {
				list.Budgets = append(list.Budgets, *v)
			}
		})
		if err != nil {
			return BudgetList{}, err
		}
		if at := events.RFC3339(scan.lowWatermark); i == 0 || at < list.LowWatermark {
			list.LowWatermark = at
		}
		list.Scanned += scan.scanned
		list.Truncated = list.Truncated || scan.truncated
	}
	slices.SortFunc(list.Budgets, fuller)
	if len(list.Budgets) > q.Limit {
		list.Budgets, list.Truncated = list.Budgets[:q.Limit], true
	}
	return list, nil
}

// fuller puts the account first of which the greater share is spent.
func fuller(a, b budgets.View) int {
	return cmp.Or(cmp.Compare(share(&b), share(&a)), cmp.Compare(a.Budget, b.Budget), cmp.Compare(a.Value, b.Value))
}

// share is how much of an account is spent or reserved, 1 for all of it.
func share(v *budgets.View) float64 {
	switch {
	case v.Limit == nil:
		return 0
	case *v.Limit == 0: // it is used up from the start
		return 1
	}
	return (v.Spent + v.Reserved) / *v.Limit
}

// accounts calls fn for each account of a budget that a pump of the agent stage knows.
func (vs *Views) accounts(fn func(v *budgets.View)) (s agentScan, err error) {
	all, err := vs.agentPartition()
	if err != nil {
		return s, err
	}
	records, engine, truncated, err := vs.snapshot(agents.IsAccount)
	if err != nil {
		return s, err
	}
	var a agents.Agent
	for _, r := range records {
		if err := a.UnmarshalBinary(r.key, r.record); err != nil {
			return s, fmt.Errorf("%q: %w", r.key, err)
		}
		if v := engine.Agents().View(all, &a).Budget; v != nil {
			fn(v)
		}
	}
	return agentScan{all.Watermark, len(records), truncated}, nil
}

// mostAccounts is how many accounts of a partition metrics know.
const mostAccounts = 500

// board is the state of the budget accounts of one partition, for metrics. Each step updates it, so
// metrics need no scan of all agents. The pump writes it, and any goroutine reads it.
type board struct {
	mu     sync.Mutex
	filled bool
	views  map[string]budgets.View
}

// note keeps how the account at hand stands, and returns that; nil for what is no account.
func (b *board) note(p *agents.Partition, e *agents.Engine, a *agents.Agent) *budgets.View {
	if !a.IsAccount() {
		return nil
	}
	v := e.View(p, a).Budget
	b.mu.Lock()
	defer b.mu.Unlock()
	switch _, known := b.views[a.Key()]; {
	case v == nil:
		delete(b.views, a.Key())
	case known || len(b.views) < mostAccounts:
		if b.views == nil {
			b.views = make(map[string]budgets.View)
		}
		b.views[v.Key()] = *v
	}
	return v
}

// Accounts returns how the accounts of budgets stand that an agent stage folds, the fullest first.
// After a start they are read from the store once. Any goroutine may call it.
func (vs *Views) Accounts() []budgets.View {
	if vs.agents == nil {
		return nil
	}
	board := &vs.agents.board
	board.mu.Lock()
	fill := !board.filled
	board.filled = true
	board.mu.Unlock()
	if fill {
		var found []budgets.View
		if _, err := vs.accounts(func(v *budgets.View) { found = append(found, *v) }); err != nil {
			vs.folded.o.Logger.Warn("the accounts of budgets cannot be read for metrics", "error", err)
		}
		board.fill(found)
	}
	board.mu.Lock()
	defer board.mu.Unlock()
	out := make([]budgets.View, 0, len(board.views))
	for _, v := range board.views {
		out = append(out, v)
	}
	slices.SortFunc(out, fuller)
	return out
}

// fill adds what the store has and no step has written since.
func (b *board) fill(found []budgets.View) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.views == nil {
		b.views = make(map[string]budgets.View)
	}
	for i := range found {
		if _, known := b.views[found[i].Key()]; !known && len(b.views) < mostAccounts {
			b.views[found[i].Key()] = found[i]
		}
	}
}
