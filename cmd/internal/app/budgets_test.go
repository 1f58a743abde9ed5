package app

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/pump"
	"weir/events"
)

// budgetFile has a budget for each tenant and for each principal, and names the principals that grant.
const budgetFile = `budgets:
- {name: tenants, scope: tenant, measure: calls, window: day, hard: 3, grant: [ann]}
- {name: people, scope: principal, measure: calls, window: day, hard: 5}
`

// market is a weir with budgets and its people.
func market(t *testing.T) *running {
	t.Helper()
	limits, err := limitfile.Parse("limits.yaml", []byte(budgetFile))
	if err != nil {
		t.Fatal(err)
	}
	r := people(t, Options{Limits: limits, Authz: true}, map[string]string{"bank": "roles: [ingest, ask], tenants: bank", "shop": "roles: [ingest, ask], tenants: [shop-*]",
		"ann": "roles: operate", "bob": "roles: operate", "root": "roles: admin"})
	for r.as("root", "GET", "/readyz", "").status != 200 {
		runtime.Gosched()
	}
	return r
}

// spent is what each account has spent, once n calls are counted.
func (r *running) spent(budget string, n float64) map[string]float64 {
	r.t.Helper()
	var out map[string]float64
	for ; r.t.Context().Err() == nil; runtime.Gosched() {
		got := r.as("root", "GET", "/v1/budgets?budget="+budget, "")
		r.want(got, 200)
		var list pump.BudgetList
		if err := json.Unmarshal([]byte(got.body), &list); err != nil {
			r.t.Fatal(err)
		}
		sum := 0.0
		out = map[string]float64{}
		for _, v := range list.Budgets {
			out[v.Value] = v.Spent
			sum += v.Spent
		}
		if sum >= n {
			break
		}
	}
	return out
}

// TestNobodySpendsForAnother holds principals to the tenants that they are bound to, by each way in:
// what one sends counts for no other's budget, and frees nothing of it.
func TestNobodySpendsForAnother(t *testing.T) {
	r := market(t)
	of := func(n int, tenant string) *events.Event {
		ev := call(fmt.Sprint("f", n), n, "a", "b")
		ev.TenantID = tenant
		return ev
	}
	r.want(r.as("shop", "POST", "/v1/events", lines(of(1, "bank"))), 400, "tenant_id")
	r.want(r.as("shop", "POST", "/v1/check", lines(of(2, "bank"))), 400, "tenant_id")
	r.want(r.as("shop", "POST", "/v1/traces", "{}"), 403, "tenants or teams")
	r.want(r.as("shop", "POST", "/runs/batch", "{}"), 403, "tenants or teams")
	r.want(r.as("shop", "POST", "/v1/events", lines(of(3, "shop-1"))), 202)
	r.want(r.as("bank", "POST", "/v1/check", lines(of(4, ""))), 200) // weir writes the one that it is bound to
	forged := of(5, "shop-1")
	forged.Principal = "bank"
	r.want(r.as("shop", "POST", "/v1/events", lines(forged)), 202)
	r.want(r.as("root", "POST", "/v1/events", lines(of(6, ""))), 202) // counts for no tenant
	if got := r.spent("tenants", 3); got["bank"] != 1 || got["shop-1"] != 2 || len(got) != 2 {
		t.Errorf("tenants have spent %v", got)
	}
	if got := r.spent("people", 4); got["bank"] != 1 || got["shop"] != 2 || got["root"] != 1 {
		t.Errorf("principals have spent %v", got)
	}
	for _, ev := range []*events.Event{{Kind: events.FlowEnd}, {Kind: events.OverrideSet, Override: &events.Override{Scope: events.ScopeBudget, ScopeID: "tenants:shop-1", Rule: "x", Extra: 9, Reason: "r", By: "ann", Expires: 1 << 42}}} {
		ev.ID, ev.Source, ev.Time, ev.CorrelationID, ev.TenantID = "free", "s", call("f3", 1, "a", "b").Time, "f4", "shop-1"
		got := r.as("shop", "POST", "/v1/events", lines(ev))
		if want := map[bool]int{true: 400, false: 202}[ev.Override != nil]; got.status != want {
			t.Errorf("%v: %d %s", ev.Kind, got.status, got.body)
		}
	}
	if got := r.spent("tenants", 3); got["bank"] != 1 || got["shop-1"] != 2 {
		t.Errorf("after the end of a foreign flow tenants have spent %v", got)
	}
}

// TestGrantOfABudget has people grant more: without the right, out of range, and as permitted.
func TestGrantOfABudget(t *testing.T) {
	r := market(t)
	ask := func(n int) reply {
		ev := call(fmt.Sprint("f", n), n, "a", "b")
		return r.as("bank", "POST", "/v1/check", lines(ev))
	}
	for n := 1; n <= 3; n++ {
		r.want(ask(n), 200)
	}
	r.want(ask(4), 402, "budget_exhausted", "Budget tenants of tenant bank is used up; 3 calls of 3 calls spent in the day")
	grant := func(who, what string) reply { return r.as(who, "POST", "/v1/budgets/grant", what) }
	r.want(grant("bank", `{"budget":"tenants","value":"bank","amount":2,"reason":"r"}`), 403)
	r.want(grant("bob", `{"budget":"tenants","value":"bank","amount":2,"reason":"r"}`), 403, "bob may not grant more of budget tenants; those who may: ann")
	r.want(grant("ann", `{"budget":"tenant","value":"bank","amount":2,"reason":"r"}`), 404, "people, tenants")
	for _, bad := range []string{`"amount":0`, `"amount":-1`, `"amount":1e30`, `"amount":2,"for_s":-1`, `"amount":2,"expires":"yesterday"`, `"amount":2,"extra":3`, `"amount":2,"for_s":9,"expires":"2099-01-01T00:00:00Z"`} {
		if got := grant("ann", `{"budget":"tenants","value":"bank","reason":"r",`+bad+`}`); got.status != 400 {
			t.Errorf("%s: %d %s", bad, got.status, got.body)
		}
	}
	r.want(grant("ann", `{"budget":"tenants","value":"","amount":2,"reason":"r"}`), 400, "value is missing")
	r.want(grant("ann", `{"budget":"tenants","value":"bank","amount":1,"reason":"r"}`), 202, `"by":"ann"`)
	for !strings.Contains(r.as("root", "GET", "/v1/budgets?budget=tenants", "").body, `"granted":1`) {
		runtime.Gosched() // the grant is in the log, and folded a moment later
	}
	r.want(ask(5), 200)
	r.want(ask(6), 402)
}
