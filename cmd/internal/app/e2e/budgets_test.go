package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/pump"
	"weir/cmd/weirtest"
	"weir/events"
)

// TestBudgetsOfAGroup has one member fold the account of a team, and flows at both. Each member names the other
// one, whose accounts it does not list. A call that waits because of the budget says what that costs its flow,
// whichever member folds the account.
func TestBudgetsOfAGroup(t *testing.T) {
	h := newByHand(t)
	limits, err := limitfile.Parse("test", []byte("profile: none\nbudgets: [{name: day, scope: team, measure: calls, window: day, zone: "+weirtest.Zone(time.Now())+", hard: 1, action: hold}]\n"+
		"prices: {m: {input: 3, output: 15, cache_read: 0.3, cache_write: 3.75}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	begin := func() *running {
		o := h.options(t.TempDir())
		o.Listen, o.AdminTokenFile, o.Limits = weirtest.Address(t), h.token, limits
		o.Kafka.Advertise = "http://" + o.Listen
		return h.start(o)
	}
	a, b := begin(), begin()
	h.until("both have partitions", func() bool { return len(a.Places()) == 2 && len(b.Places()) == 2 })
	do := func(m *running, path, body string) (int, string) {
		t.Helper()
		method := http.MethodPost
		if body == "" {
			method = http.MethodGet
		}
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+m.Addr()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	of := func(flow, id string, kind events.Kind) string {
		ev := events.Event{ID: id, Source: "test", Time: events.StampOf(time.Now()), Kind: kind, CorrelationID: flow, TeamID: "payments-" + flow, From: events.Party{Agent: "clerk"}}
		if kind == events.LLMCall {
			ev.Provider, ev.Model, ev.Usage = "anthropic", "m", events.Usage{Known: true, Input: 10, Output: 10, CacheRead: 130_000, CacheCreation: 10_000}
		} else {
			ev.Tool = events.Tool{Name: "pay", CallID: id}
		}
		return string(ev.AppendJSON(nil))
	}
	listed := 0
	for i := range 4 {
		flow, m := fmt.Sprint("flow-", i), []*running{a, b}[i%2]
		if status, answer := do(m, "/v1/events", of(flow, "model-"+flow, events.LLMCall)); status != http.StatusAccepted {
			t.Fatalf("%s: %d %s", flow, status, answer)
		}
		if status, answer := do(m, "/v1/check", of(flow, "one-"+flow, events.ToolCall)); status != http.StatusOK || strings.Contains(answer, "waiting") {
			t.Errorf("%s: the first call: %d %s", flow, status, answer)
		}
		if status, answer := do(m, "/v1/check", of(flow, "two-"+flow, events.ToolCall)); status != http.StatusPaymentRequired || !strings.Contains(answer, "costs about $0.48 more, because 140,000 cached tokens are written again") {
			t.Errorf("%s: the second call: %d %s", flow, status, answer)
		}
	}
	for m, other := range map[*running]*running{a: b, b: a} {
		_, text := do(m, "/v1/budgets", "")
		var list pump.BudgetList
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err, text)
		}
		if listed += len(list.Budgets); !slices.ContainsFunc(list.Elsewhere, func(address string) bool { return strings.Contains(address, other.Addr()) }) || len(list.Elsewhere) != 1 {
			t.Errorf("%s names %q, want %s", m.Addr(), list.Elsewhere, other.Addr())
		}
	}
	if listed != 4 {
		t.Errorf("the members list %d accounts together, want 4", listed)
	}
}
