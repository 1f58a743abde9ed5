package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/analyzer"
	"weir/cmd/internal/api"
	"weir/events"
)

// TestHand gives orders to a weir that runs.
func TestHand(t *testing.T) {
	dir := t.TempDir()
	token, wrong := filepath.Join(dir, "token"), filepath.Join(dir, "wrong")
	for path, secret := range map[string]string{token: strings.Repeat("secret", 8), wrong: strings.Repeat("public", 8)} {
		if err := os.WriteFile(path, []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := startRun(t, "--in-memory", "--admin-token-file", token)
	defer r.end(syscall.SIGTERM)
	f := func(code int, parts []string, args ...string) string {
		t.Helper()
		got, out, errs := weir(t, "", append(args, "--server", r.url)...)
		if got != code {
			t.Errorf("weir %s: exit code %d, want %d", strings.Join(args, " "), got, code)
		}
		for _, part := range parts {
			if !strings.Contains(out+errs, part) {
				t.Errorf("weir %s: %q is not in\n%s%s", strings.Join(args, " "), part, out, errs)
			}
		}
		return out
	}
	call := func(flow string, code int, parts ...string) {
		t.Helper()
		got, out, errs := weirNow(t, `{"kind":"agent.call","correlation_id":"`+flow+`","from":{"agent":"a"},"to":{"agent":"b"}}`, "check", "--server", r.url)
		if got != code {
			t.Errorf("a call in %s: exit code %d, want %d\n%s%s", flow, got, code, out, errs)
		}
		for _, part := range parts {
			if !strings.Contains(out, part) {
				t.Errorf("a call in %s: %q is not in\n%s", flow, part, out)
			}
		}
	}
	by := []string{"--by", "ann", "--reason", "a test", "--token-file", token}
	with := func(args ...string) []string { return append(args, by...) }

	f(1, []string{"only who has the admin token", "--token-file FILE"}, "flows", "stop", "f", "--reason", "a test")
	f(1, []string{"only who has the admin token"}, "flows", "stop", "--all", "--reason", "a test", "--token-file", wrong)
	f(1, []string{"only who has the admin token"}, "limits", "override", "--flow", "f", "--rule", "max_total_calls", "--stop", "1", "--for", "1h", "--reason", "a test", "--token-file", wrong)

	call("f", 0)
	if out := f(0, []string{"event order-", "by ann"}, with("flows", "stop", "f", "--for", "1h")...); !strings.HasPrefix(out, "f is stopped until 20") {
		t.Errorf("printed %q", out)
	}
	call("f", 3, "halt  operator_stop")
	f(0, []string{"f is stopped: ", "halt", "operator_stop"}, "explain", "f")
	f(0, []string{"f is released; taken back: operator_stop"}, with("flows", "release", "f")...)
	call("f", 0)
	f(0, []string{"weir has not reported yet that an order was lifted"}, with("flows", "release", "f")...)
	f(0, []string{"this weir knows nothing of nobody"}, with("flows", "release", "nobody")...)
	f(0, []string{"late is stopped", "has not heard of late"}, with("flows", "stop", "late")...)
	call("late", 3)

	// A call that was under way when the order went out has leaked, and is reported.
	under := events.Event{ID: "under-way", Source: "test", Time: events.StampOf(time.Now()), Kind: events.AgentCall, CorrelationID: "flying",
		From: events.Party{Agent: "a"}, To: events.Party{Agent: "b"}}
	f(0, nil, with("flows", "stop", "flying")...)
	r.post(under.AppendJSON(nil))
	call("behind", 0)
	f(0, []string{"1 call already on the way at the block"}, "explain", "flying")

	var a api.OperatorAnswer
	if err := json.Unmarshal([]byte(f(0, nil, with("flows", "stop", "f", "-o", "json")...)), &a); err != nil || a.Kind != "operator.stop" || a.By != "ann" || len(a.Verdicts) != 1 {
		t.Errorf("%+v: %v", a, err)
	}
	f(0, nil, with("flows", "release", "f")...)

	f(0, []string{"g has its own max_total_calls until 20", "has not heard of g"}, with("limits", "override", "--scope", "flow:g", "--rule", "max_total_calls", "--stop", "1", "--for", "1h")...)
	call("g", 0)
	call("g", 3, "max_total_calls_exceeded")
	f(0, []string{"g has more of max_total_calls, max_chain_depth until 20", "event order-"}, with("flows", "grant", "g", "--calls", "20")...)
	call("g", 0)
	f(0, []string{"g has more of max_flow_duration until 20"}, with("flows", "grant", "g", "--duration", "5m", "--until", "1h")...)
	f(1, []string{"no limit in force counts what is granted"}, with("flows", "grant", "g", "--cost", "2.50")...)
	f(1, []string{"project is not set by an event yet", "limits file"}, with("limits", "override", "--scope", "project:p", "--rule", "max_total_calls", "--stop", "2", "--for", "1h")...)

	f(0, []string{"all is stopped until 20", "weir release"}, with("flows", "stop", "--all")...)
	call("f", 3, "operator_stop")
	call("another", 3, "operator_stop")
	f(0, []string{"all is released"}, with("release", "all")...)
	call("another", 0)

	f(0, []string{"tool:rm within tenant:t except agent:x is stopped until 20"}, with("stop", "tool:rm", "--within", "tenant:t", "--except", "agent:x", "--for", "1h")...)
	call("a-third", 0)
	f(0, []string{"agent:b is stopped until 20", "no call in scope was admitted by a check", "1 process of weir and 0 guards have confirmed\n", "calls observed after the stop: 0"}, with("stop", "agent:b", "--wait", "10s")...)
	call("a-third", 3, "operator_stop")
	f(0, []string{"agent:b", "stopped", "a test"}, "orders", "ls")
	f(0, []string{"by hand: agent:b until 20", "a test", "given by  ann"}, "explain", "another")
	f(0, []string{"agent:b is released"}, with("release", "agent:b")...)
	f(1, []string{"agent:b is not stopped by hand", "weir orders ls lists what is"}, with("release", "agent:b")...)
	f(1, []string{"there is no such order; the active one is: tool:rm within tenant:t except agent:x", "weir release tool:rm --within tenant:t --reason TEXT"}, with("release", "tool:rm")...)
	f(0, []string{"tool:rm within tenant:t is released"}, with("release", "tool:rm", "--within", "tenant:t")...)
	f(0, []string{"nothing is stopped by hand"}, "orders", "ls")
	f(0, []string{"ended"}, "orders", "ls", "--all")
	call("a-third", 0)
	link := strings.TrimSpace(f(0, []string{r.url + "/v1/order-links/"}, with("orders", "link", "agent:b", "--valid", "1m")...))
	resp, err := http.Post(strings.Fields(link)[0], "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	call("a-third", 3, "operator_stop")

	f(1, []string{"the limits in force have no budgets"}, with("budgets", "grant", "day", "t", "5")...)
	f(0, []string{"the limits have no budgets"}, "budgets", "ls", "--token-file", token)
	f(1, []string{"HTTP 409", "in memory (--in-memory) and has no backup"}, "backup", filepath.Join(dir, "none"), "--token-file", token)
	if left, _ := filepath.Glob(filepath.Join(dir, "none*")); len(left) > 0 {
		t.Errorf("a backup of nothing leaves %v", left)
	}
	if out := f(0, nil, "costs", "--tree", "anoth"); !strings.Contains(out, "another") {
		t.Errorf("by the beginning of an id, weir costs --tree prints %q", out)
	}
	f(1, []string{"there is no flow"}, "costs", "--tree", "no-such-flow")

	without := startRun(t, "--in-memory")
	defer without.end(syscall.SIGTERM)
	code, _, errs := weir(t, "", with("flows", "stop", "f", "--server", without.url)...)
	if code != 1 || !strings.Contains(errs, "without --admin-token-file") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

func TestAmountOf(t *testing.T) {
	f := func(name, text string, unit string, want int64) {
		t.Helper()
		id, ok := analyzer.RuleNamed(unit)
		if !ok {
			t.Fatalf("no rule %s", unit)
		}
		got, err := amountOf(name, text, analyzer.Rules[id].Unit)
		if want < 0 {
			if err == nil {
				t.Errorf("%s %s: got %d", unit, text, *got)
			}
			return
		}
		if err != nil || *got != want {
			t.Errorf("%s %s: got %v (%v), want %d", unit, text, got, err, want)
		}
	}
	f("stop", "500", "max_total_calls", 500)
	f("stop", "0", "max_total_calls", 0)
	f("stop", "-1", "max_total_calls", -1)
	f("stop", "5m", "max_total_calls", -1)
	f("stop", "9007199254740993", "max_total_calls", -1)
	f("warn", "2.50", "max_cost_usd", 2_500_000)
	f("warn", "NaN", "max_cost_usd", -1)
	f("warn", "1e300", "max_cost_usd", -1)
	f("stop", "90m", "max_flow_duration", 5400)
	f("stop", "90", "max_flow_duration", 90)
	if got, err := amountOf("stop", "", events.UnitUSD); got != nil || err != nil {
		t.Errorf("nothing: %v (%v)", got, err)
	}
}
