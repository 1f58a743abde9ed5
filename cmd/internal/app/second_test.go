package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/api"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/orders"
	"weir/events"
	"weir/sink/guard"
)

// switchFile writes settings of the switch.
func switchFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "switch.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestStopOfAllNeedsTwoPersons holds that one person alone stops nothing that needs two, by any way.
func TestStopOfAllNeedsTwoPersons(t *testing.T) {
	t.Parallel()
	dir, fake := t.TempDir(), clock.NewFake()
	r := people(t, Options{StateDir: dir, Clock: fake, SwitchFile: switchFile(t, "two-persons: [all]\nsecond-within: 5m\n")},
		map[string]string{"ann": "roles: [operate, observe]", "bob": "roles: operate", "dan": "roles: ask", "root": "roles: admin"})
	ask := func(n int) int {
		ev := call("f", n, "a", "b")
		return r.as("dan", "POST", "/v1/check", string(ev.AppendJSON(nil))).status
	}
	all := `{"scope":"all","reason":"a test","for_s":600}`
	propose := func() string {
		t.Helper()
		got := r.as("ann", "POST", "/v1/orders", all)
		r.want(got, 202, `"scope":"all"`, `"until"`)
		var p api.OrderProposal
		if err := json.Unmarshal([]byte(got.body), &p); err != nil {
			t.Fatal(err)
		}
		return "/v1/order-proposals/" + p.ID
	}
	first := propose()
	r.want(r.as("ann", "POST", first, ""), 403, "second person")
	r.want(r.as("ann", "POST", "/v1/order-links", all), 409, "two persons")
	r.want(r.as("ann", "POST", "/v1/flows/stop", `{"all":true,"reason":"a test"}`), 202, `"until"`)
	r.want(r.as("dan", "POST", first, ""), 403)
	if got := ask(1); got != 200 {
		t.Fatalf("a call is answered by %d before the second person", got)
	}
	r.want(r.as("ann", "GET", "/v1/order-proposals", ""), 200, first[len("/v1/order-proposals/"):])
	r.want(r.as("bob", "POST", first, ""), 200, `"by":"ann and bob"`, `"active":true`)
	if got := ask(2); got != 403 {
		t.Errorf("a call is answered by %d after the second person", got)
	}
	r.want(r.as("bob", "POST", first, ""), 404)
	r.want(r.as("ann", "DELETE", "/v1/orders/all", `{"reason":"over"}`), 200)
	late := propose()
	fake.Advance(5 * time.Minute)
	r.want(r.as("bob", "POST", late, ""), 404, "has expired")
	void := propose() // the order changes meanwhile
	other := propose()
	fake.Advance(time.Millisecond)
	r.want(r.as("root", "POST", void, ""), 200)
	r.want(r.as("root", "POST", other, ""), 410, "the order of this scope has changed since")
	if got := r.as("ann", "GET", "/v1/order-proposals", ""); strings.Contains(got.body, other[len("/v1/order-proposals/"):]) {
		t.Errorf("a proposal that is void is listed: %s", got.body)
	}
	// A narrower stop needs one person.
	r.want(r.as("ann", "POST", "/v1/orders", `{"scope":"agent:x","reason":"a test"}`), 200)
	audit, err := os.ReadFile(filepath.Join(dir, "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"kind":"order.propose"`, `"by":"ann and bob"`} {
		if !strings.Contains(string(audit), part) {
			t.Errorf("the audit log has no %s", part)
		}
	}
}

// TestTwoPersonsNeedNames holds that a token that many share does not stand for a person, and that weir does
// not start where no principal could stop anything.
func TestTwoPersonsNeedNames(t *testing.T) {
	t.Parallel()
	settings := switchFile(t, "two-persons: [all]\n")
	admin := filepath.Join(t.TempDir(), "admin")
	if err := os.WriteFile(admin, []byte(secretOf("admin")), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, people := range map[string]map[string]string{
		"none": nil, "one": {"ann": "roles: operate", "dan": "roles: ask"},
		"within": {"ann": `roles: operate, orders: ["tenant:a"]`, "bob": `roles: operate, orders: ["tenant:a"]`},
	} {
		o := Options{Listen: "127.0.0.1:0", AdminTokenFile: admin, SwitchFile: settings}
		if people != nil {
			o.AccessFile = writePeople(t, t.TempDir(), people)
		}
		if _, err := New(o); !errors.Is(err, errTwoPersons) {
			t.Errorf("%s: %v, want %v", name, err, errTwoPersons)
		}
	}
	r := people(t, Options{SwitchFile: settings, AdminTokenFile: admin}, map[string]string{"ann": "roles: operate", "bob": "roles: operate"})
	r.want(r.as("admin", "POST", "/v1/orders", `{"scope":"all","reason":"a test","by":"ann"}`), 403, "access-file")
}

// TestDrillStopsNothing holds that a drill names the guard that does not confirm, and refuses no call.
func TestDrillStopsNothing(t *testing.T) {
	t.Parallel()
	h := beginHand(t, Options{Clock: clock.System{}})
	drill := func(scope string, seconds int) (report orders.DrillReport) {
		t.Helper()
		got := h.order("/v1/order-drills", fmt.Sprintf(`{"scope":%q,"reason":"a test","by":"ann","wait_s":%d}`, scope, seconds))
		h.want(got, 200)
		if err := json.Unmarshal([]byte(got.body), &report); err != nil {
			t.Fatal(err)
		}
		return report
	}
	if r := drill("all", 20); !r.Complete || r.Unproven == "" {
		t.Errorf("without a guard the report is %+v", r)
	}
	g := h.guardOf("obeys")
	for _, scope := range []string{"all", "agent:b"} {
		if r := drill(scope, 20); !r.Complete || r.Unproven != "" || r.Receipt.Guards != 1 || r.Scope.String() != scope {
			t.Errorf("%s: the report is %+v", scope, r)
		}
	}
	h.beat("sleeps") // it confirms nothing
	report := make(chan orders.DrillReport)
	go func() { report <- drill("all", 2) }() // it waits all this time for the guard that sleeps
	for waits := true; waits; {
		select {
		case r := <-report:
			if waits = false; r.Complete || len(r.Receipt.Missing) != 1 || r.Receipt.Missing[0].Guard != "sleeps" {
				t.Errorf("the report is %+v", r)
			}
		default:
			if got := h.asks(func(*events.Event) {}); got != 200 {
				t.Fatalf("a call is answered by %d during a drill", got)
			}
			if d := g.Check(t.Context(), guard.Call{Flow: "f", From: "a", To: "b"}); d.Stopped() {
				t.Fatal("a guard refuses a call during a drill")
			}
		}
	}
	if got := h.do("GET", "/v1/orders", ""); strings.Contains(got.body, "drill") {
		t.Errorf("the list of orders has %s", got.body)
	}
}

// TestDrillsOnSchedule holds that the settings run drills, and that the log names who has not confirmed.
func TestDrillsOnSchedule(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake()
	h := beginHand(t, Options{Clock: fake, SwitchFile: switchFile(t, "drills:\n- {scope: all, every: 1h}\n")})
	h.beat("sleeps")
	for !strings.Contains(strings.Join(h.verdictLines(), "\n"), "the drill is over") {
		fake.Advance(time.Minute)
	}
	if text := strings.Join(h.verdictLines(), "\n"); !strings.Contains(text, events.DrillFlow) {
		t.Errorf("the log of verdicts has no drill: %s", text)
	}
}
