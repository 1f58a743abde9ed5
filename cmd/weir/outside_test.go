package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/analyzer/budgets"
	"weir/cmd/internal/api"
	"weir/cmd/internal/pump"
	"weir/cmd/weirtest"
	"weir/events"
	"weir/events/byhand"
)

// TestExplainOutside explains flows whose calls are refused by what is not about one flow: a budget
// over flows, and an order by hand about a scope.
func TestExplainOutside(t *testing.T) {
	dir := t.TempDir()
	token, limits := filepath.Join(dir, "token"), filepath.Join(dir, "limits.yaml")
	for path, text := range map[string]string{token: strings.Repeat("secret", 8),
		limits: "profile: none\nrules: {max_tool_calls: {max: 1, action: hold}, max_tree_calls: {max: 4}}\nbudgets:\n- {name: team-day, scope: team, measure: calls, window: month, zone: " + weirtest.Zone(time.Now()) + ", hard: 1}\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := startRun(t, "--in-memory", "--admin-token-file", token, "--limits", limits)
	defer r.end(syscall.SIGTERM)
	say := func(want int, args ...string) string {
		t.Helper()
		code, out, errs := weir(t, "", append(args, "--server", r.url)...)
		if code != want {
			t.Fatalf("weir %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), code, want, out, errs)
		}
		return out + errs
	}
	call := func(flow, team string, want int) {
		t.Helper()
		if code, out, errs := weirNow(t, `{"kind":"agent.call","correlation_id":"`+flow+`",`+team+`"from":{"agent":"planner"},"to":{"agent":"b"}}`, "check", "--server", r.url); code != want {
			t.Fatalf("a call in %s: exit code %d, want %d\n%s%s", flow, code, want, out, errs)
		}
	}
	explained := func(flow, first string, parts ...string) {
		t.Helper()
		out := say(0, "explain", flow)
		if line, _, _ := strings.Cut(out, "\n"); !strings.HasPrefix(line, first) {
			t.Errorf("%s: the first line does not begin with %q:\n%s", flow, first, out)
		}
		if strings.Contains(out, "nothing is refused") != (len(parts) == 0) {
			t.Errorf("%s: wrong about whether something is refused:\n%s", flow, out)
		}
		for _, part := range parts {
			if !strings.Contains(out, part) {
				t.Errorf("%s: %q is not in\n%s", flow, part, out)
			}
		}
	}
	of := func(team string) string { return `"team_id":"` + team + `",` }
	call("paying", of("payments"), 0)
	call("paying", of("payments"), 3)
	call("other", of("search"), 0)
	call("nameless", "", 0)
	explained("paying", "paying is out of budget: budget team-day of team payments is used up, and refuses its calls.",
		"1 of 1 calls", "weir budgets grant team-day payments AMOUNT --reason TEXT")
	explained("nameless", "nameless is ok: no rule has an order about it; a budget that is used up may refuse",
		"which has named no such team yet", "weir budgets grant team-day payments AMOUNT")
	if out := say(0, "flows", "ls"); !strings.Contains(out, "weir budgets ls") {
		t.Errorf("weir flows ls does not say that a budget is used up:\n%s", out)
	}
	by := []string{"--by", "ann", "--reason", "a bill", "--token-file", token}
	if out := say(0, append([]string{"budgets", "grant", "team-day", "payment", "9"}, by...)...); !strings.Contains(out, "no spending of payment is known here; team-day has accounts of: payments, search") ||
		!strings.Contains(out, "did you mean payments") {
		t.Errorf("a grant for a misspelt team prints:\n%s", out)
	}
	if out := say(0, append([]string{"budgets", "grant", "team-day", "payments", "9"}, by...)...); strings.Contains(out, "no spending") {
		t.Errorf("a grant for a team prints:\n%s", out)
	}
	if out := say(1, append([]string{"flows", "grant", "paying", "--spawns", "1"}, by...)...); strings.Contains(out, "cost_usd") || !strings.Contains(out, "--cost or --duration") {
		t.Errorf("a grant of what no limit counts prints:\n%s", out)
	}

	// What may wait for a person, and that none is asked without settings.
	if out := say(0, "approvals"); !strings.Contains(out, "this weir asks no person: it runs without approvals in a --switch-file") || strings.Contains(out, "is held") {
		t.Errorf("weir approvals without settings prints:\n%s", out)
	}
	for range 3 {
		weirNow(t, `{"kind":"tool.call","correlation_id":"waits","from":{"agent":"c"},"tool":{"name":"x"}}`, "check", "--server", r.url)
	}
	if out := say(0, "approvals"); !strings.Contains(out, "flow waits is held: weir explain waits --server "+r.url) {
		t.Errorf("weir approvals with a held flow prints:\n%s", out)
	}
	explained("waits", "waits is held", "weir approvals --server "+r.url+"\n", "weir flows grant waits --calls 20 --reason TEXT --server "+r.url+" --token-file FILE\n", "weir flows stop waits --reason TEXT --server "+r.url+" --token-file FILE\n")
	// What a tree was granted is shown with each of its flows.
	say(0, append([]string{"flows", "grant", "waits", "--calls", "20"}, by...)...)
	if out := say(0, "explain", "waits"); !strings.Contains(out, "\na person granted more of max_tree_calls for the tree of waits: the limit is 24 calls until 20") {
		t.Errorf("after a grant:\n%s", out)
	}
	for range 30 {
		weirNow(t, `{"kind":"tool.call","correlation_id":"waits","from":{"agent":"c"},"tool":{"name":"x"}}`, "check", "--server", r.url)
	}
	// The stop also ends the hold, of which another verdict speaks.
	if out := say(0, append([]string{"flows", "stop", "waits"}, by...)...); !strings.HasPrefix(out, "waits is stopped until 20") {
		t.Errorf("a stop of a held flow prints:\n%s", out)
	}
	say(0, append([]string{"stop", "agent:planner"}, by...)...)
	explained("other", "other is stopped by hand in part: calls of agent:planner, by ann until 20", "reason: a bill", "weir orders ls", "weir release agent:planner --reason TEXT --server "+r.url+" --token-file FILE")
	say(0, append([]string{"stop", "all"}, by...)...)
	call("other", of("search"), 3)
	explained("other", "other is stopped by hand: by ann until 20", "weir release all --reason TEXT")
	if out := say(0, "flows", "show", "other"); !strings.HasPrefix(out, "other is stopped by hand: by ann until 20") {
		t.Errorf("weir flows show prints\n%s", out)
	}
	if out := say(0, "flows", "ls"); !strings.Contains(out, "weir orders ls") {
		t.Errorf("weir flows ls does not say that an order by hand is in force:\n%s", out)
	}
}

// TestHandReach compares scopes of orders by hand with what is known of a flow.
func TestHandReach(t *testing.T) {
	v := analyzer.View{Flow: "f", Service: "shop", Parties: []analyzer.PartyView{{Name: "planner"}}, Payers: []analyzer.PayerView{{Scope: "team", Value: "payments"}}}
	f := func(want reach, scope string, rest ...string) {
		t.Helper()
		var list []byhand.Scope
		for _, text := range append([]string{scope}, rest...) {
			s, err := byhand.ParseScope(text)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, s)
		}
		if got := handReachOf(&api.HandOrderView{Scope: list[0], Within: list[1:]}, &v); got != want {
			t.Errorf("%s within %v reaches %d, want %d", scope, rest, got, want)
		}
	}
	f(wholly, "all")
	f(wholly, "flow:f")
	f(outside, "flow:g")
	f(wholly, "tree:f")
	f(outside, "tree:g")
	f(wholly, "service:sh*")
	f(partly, "agent:plan*")
	f(perhaps, "agent:writer")
	f(perhaps, "tool:rm")
	f(wholly, "team:payments")
	f(outside, "team:search")
	f(perhaps, "tenant:t")
	f(outside, "all", "team:search")
	f(partly, "all", "agent:planner")
	for _, x := range []struct {
		kind events.ScopeKind
		id   string
		want reach
	}{{events.ScopeTeam, "payments", outside}, {events.ScopeTeam, "search", wholly}, {events.ScopeAgent, "planner", partly}, {events.ScopeTenant, "t", partly}} {
		o := api.HandOrderView{Scope: byhand.Scope{Kind: events.ScopeAll}, Except: []byhand.Scope{{Kind: x.kind, ID: x.id}}}
		if got := handReachOf(&o, &v); got != x.want {
			t.Errorf("all except %s:%s reaches %d, want %d", x.kind, x.id, got, x.want)
		}
	}
}

// accounts are the accounts of budgets that are known.
type accounts struct {
	known
	pump.BudgetList
}

// Agent knows no trees.
func (accounts) Agent(context.Context, events.ScopeKind, string) (agents.View, bool, error) {
	return agents.View{}, false, nil
}

func (a accounts) Budgets(context.Context, pump.BudgetQuery) (pump.BudgetList, error) {
	return a.BudgetList, nil
}

// TestMoreAccountsThanOneAnswer holds that weir explain says that nothing is refused only where it has seen
// all accounts that are used up. The fullest come first.
func TestMoreAccountsThanOneAnswer(t *testing.T) {
	account := func(left float64) []budgets.View {
		return []budgets.View{{Scope: "flow", Value: "other", Left: &left}}
	}
	for _, x := range []struct {
		list pump.BudgetList
		want bool
	}{
		{pump.BudgetList{}, true},
		{pump.BudgetList{Truncated: true}, false},
		{pump.BudgetList{Truncated: true, Budgets: account(0)}, false},
		{pump.BudgetList{Truncated: true, Budgets: account(1)}, true},
		{pump.BudgetList{Truncated: true, Budgets: account(1), Scanned: pump.MaxScanned}, false},
		{pump.BudgetList{Budgets: account(0)}, true},
		{pump.BudgetList{Elsewhere: []string{"10.0.0.2:8080"}}, false},
	} {
		in := placeOf(t.Context(), accounts{BudgetList: x.list}, &analyzer.View{Flow: "f"})
		if in.nothing() != x.want {
			t.Errorf("%+v: nothing is refused: %v", x.list, in.nothing())
		}
	}
}

// TestHeldCalls describes a flow of which only some calls wait.
func TestHeldCalls(t *testing.T) {
	hold := events.Verdict{Action: events.Hold, Mode: events.ModeEnforce, Effective: events.EffectiveNow, Match: &events.Match{Kind: events.AgentCall.String()}}
	v := analyzer.View{Flow: "night", Status: "held", Orders: []events.Verdict{hold}}
	status, means := (&place{}).headline(&v)
	if got, want := status.Text+means, "held in part: calls to agents wait until a person grants more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	hold.Match = nil
	v.Orders = append(v.Orders, hold)
	if status, _ := (&place{}).headline(&v); status.Text != "held" {
		t.Errorf("got %q where each call waits", status.Text)
	}
}
