package app

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/api"
	"weir/cmd/internal/clock"
	"weir/events"
)

// stopped gives an order about a scope and returns it.
func (h hand) stopped(body string) (v api.HandOrderView) {
	h.t.Helper()
	got := h.order("/v1/orders", body)
	h.want(got, 200)
	if err := json.Unmarshal([]byte(got.body), &v); err != nil {
		h.t.Fatal(err)
	}
	return v
}

func (h hand) released(scope string) {
	h.t.Helper()
	h.want(h.do("DELETE", "/v1/orders/"+url.PathEscape(scope), `{"reason":"over","by":"ann"}`, "Authorization", "Bearer "+adminSecret), 200, `"active":false`)
}

// asks asks for a call as given, with a new id.
func (h hand) asks(change func(*events.Event)) int {
	h.t.Helper()
	handAsks++
	ev := call(fmt.Sprint("f", handAsks), handAsks, "a", "b")
	ev.From, ev.To = events.Party{Agent: "a"}, events.Party{Agent: "b"}
	ev.ID = fmt.Sprint("ask-", handAsks)
	change(ev)
	return h.do("POST", "/v1/check", string(ev.AppendJSON(nil))).status
}

var handAsks int

// TestOrdersByHandOfEveryScope stops each scope, and nothing else.
func TestOrdersByHandOfEveryScope(t *testing.T) {
	h := beginHand(t, Options{})
	for _, c := range []struct {
		scope       string
		hit, passes func(*events.Event)
	}{
		{"all", func(ev *events.Event) {}, nil},
		{"all", func(ev *events.Event) { ev.From = events.Party{} }, nil},                                                 // a person's message
		{"all", func(ev *events.Event) { ev.From, ev.Origin = events.Party{Agent: "cron"}, events.OriginScheduler }, nil}, // a wake
		{"all", func(ev *events.Event) { ev.Kind, ev.To, ev.Tool.Name = events.ToolCall, events.Party{}, "ls" }, nil},
		{"tenant:acme*", func(ev *events.Event) { ev.TenantID = "acme-eu" }, func(ev *events.Event) { ev.TenantID = "other" }},
		{"team:red", func(ev *events.Event) { ev.TeamID = "red" }, func(ev *events.Event) { ev.TeamID = "redder" }},
		{"project:p?", func(ev *events.Event) { ev.ProjectID = "p1" }, func(ev *events.Event) { ev.ProjectID = "p" }},
		{"service:shop-*", func(ev *events.Event) { ev.Source = "shop-eu" }, func(ev *events.Event) {}},
		{"agent:b", func(ev *events.Event) {}, func(ev *events.Event) { ev.To.Agent = "c" }},
		{"agent:a*", func(ev *events.Event) {}, func(ev *events.Event) { ev.From.Agent = "c" }},
		{"tool:*shell", func(ev *events.Event) { ev.Kind, ev.To, ev.Tool.Name = events.ToolCall, events.Party{}, "mcp_shell" }, func(ev *events.Event) { ev.Kind, ev.To, ev.Tool.Name = events.ToolCall, events.Party{}, "ls" }},
		{"model:big-*", func(ev *events.Event) { ev.Model = "big-9" }, func(ev *events.Event) { ev.Model = "small" }},
		{"tree:root", func(ev *events.Event) { ev.RootCorrelationID = "root" }, func(ev *events.Event) {}},
		{"tree:r*", func(ev *events.Event) { ev.CorrelationID = "r1" }, func(ev *events.Event) {}},
		{"flow:f", func(ev *events.Event) { ev.CorrelationID = "f" }, func(ev *events.Event) {}},
	} {
		body := fmt.Sprintf(`{"scope":%q,"reason":"a test","by":"ann"}`, c.scope)
		if got := h.asks(c.hit); got != 200 {
			t.Errorf("%s: a call before the order is answered by %d", c.scope, got)
		}
		h.stopped(body)
		if got := h.asks(c.hit); got != 403 {
			t.Errorf("%s: a call of the scope is answered by %d", c.scope, got)
		}
		if c.passes != nil {
			if got := h.asks(c.passes); got != 200 {
				t.Errorf("%s: a call outside of the scope is answered by %d", c.scope, got)
			}
		}
		h.released(c.scope)
		if got := h.asks(c.hit); got != 200 {
			t.Errorf("%s: a call after the release is answered by %d", c.scope, got)
		}
	}
}

func TestOrdersByHandWithExceptions(t *testing.T) {
	h := beginHand(t, Options{})
	h.stopped(`{"scope":"all","except":["agent:billing","tool:ls"],"reason":"a test","by":"ann"}`)
	from := func(from, to string) func(*events.Event) {
		return func(ev *events.Event) { ev.From, ev.To = events.Party{Agent: from}, events.Party{Agent: to} }
	}
	for _, c := range []struct {
		change func(*events.Event)
		want   int
	}{
		{from("billing", "billing"), 200}, {from("billing", "b"), 403}, {from("a", "billing"), 403}, {from("", "billing"), 200},
		{func(ev *events.Event) {
			ev.Kind, ev.To, ev.From.Agent, ev.Tool.Name = events.ToolCall, events.Party{}, "billing", "rm"
		}, 200},
		{func(ev *events.Event) { ev.Kind, ev.To, ev.Tool.Name = events.ToolCall, events.Party{}, "ls" }, 200},
		{func(ev *events.Event) { ev.Kind, ev.To, ev.Tool.Name = events.ToolCall, events.Party{}, "rm" }, 403},
	} {
		if got := h.asks(c.change); got != c.want {
			t.Errorf("answered by %d, want %d", got, c.want)
		}
	}
}

// TestOrdersByHandSurvive a crash, and with a file the loss of the state.
func TestOrdersByHandSurvive(t *testing.T) {
	for _, lost := range []bool{false, true} {
		dir, file := t.TempDir(), filepath.Join(t.TempDir(), "orders.jsonl")
		fake := clock.NewFake()
		h := beginHand(t, Options{StateDir: dir, OrdersFile: file, Clock: fake})
		h.stopped(`{"scope":"agent:b","reason":"a test","by":"ann","for_s":7200}`)
		h.stopped(`{"scope":"tool:x","reason":"a test","by":"ann","for_s":7200}`)
		h.released("tool:x")
		h.kill()
		if lost {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		h = beginHand(t, Options{StateDir: dir, OrdersFile: file, Clock: fake})
		if got := h.asks(func(ev *events.Event) {}); got != 403 {
			t.Errorf("state lost %v: a call is answered by %d", lost, got)
		}
		if got := h.asks(func(ev *events.Event) { ev.Kind, ev.To, ev.Tool.Name = events.ToolCall, events.Party{}, "x" }); got != 200 {
			t.Errorf("state lost %v: a call that was released is answered by %d", lost, got)
		}
		// Guards that begin now read it in the log of verdicts.
		if text := strings.Join(h.verdictLines(), "\n"); !strings.Contains(text, `"by_hand":{"by":"ann"`) {
			t.Errorf("state lost %v: the log of verdicts has no order", lost)
		}
		fake.Advance(2*time.Hour + time.Second)
		if got := h.asks(func(ev *events.Event) {}); got != 200 {
			t.Errorf("state lost %v: a call is answered by %d when the order has expired", lost, got)
		}
		h.stop()
	}
}

// TestOrdersByHandAreBound holds that orders by hand need the right to give them.
func TestOrdersByHandAreBound(t *testing.T) {
	dir := t.TempDir()
	r := people(t, Options{StateDir: dir}, map[string]string{"eve": "roles: observe", "dan": "roles: ask", "ann": `roles: [operate, observe], orders: "tenant:acme"`, "root": "roles: admin",
		"two": `roles: operate, orders: ["tenant:acme", "tenant:other"]`, "bound": "roles: operate, flows: f*"})
	why := `"reason":"a test"}`
	all := `{"scope":"all",` + why
	for _, name := range []string{"eve", "dan", "bound", "two"} {
		r.want(r.as(name, "POST", "/v1/orders", all), 403)
	}
	r.want(r.as("ann", "POST", "/v1/orders", all), 200, `"scope":"all","within":["tenant:acme"]`)
	ask := func(n int, tenant string) int {
		ev := call("f", n, "a", "b")
		ev.TenantID = tenant
		return r.as("dan", "POST", "/v1/check", string(ev.AppendJSON(nil))).status
	}
	if in, out := ask(1, "acme"), ask(2, "other"); in != 403 || out != 200 {
		t.Errorf("answered by %d in the tenant and %d outside", in, out)
	}
	// What another one has ordered is not hers.
	r.want(r.as("root", "POST", "/v1/orders", `{"scope":"agent:b",`+why), 200)
	r.want(r.as("ann", "DELETE", "/v1/orders/agent:b", `{`+why), 404)
	r.want(r.as("ann", "GET", "/v1/orders", ""), 200, `"within":["tenant:acme"]`)
	if got := r.as("ann", "GET", "/v1/orders", ""); strings.Contains(got.body, "agent:b") {
		t.Errorf("she reads %s", got.body)
	}
	r.want(r.as("ann", "DELETE", "/v1/orders/all", `{`+why), 200)
	r.want(r.as("root", "POST", "/v1/orders", all), 200)
	r.want(r.as("ann", "DELETE", "/v1/orders/all", `{`+why), 404) // hers is released
	id := "/v1/orders/" + idOf(t, r.as("root", "GET", "/v1/orders/all", "").body)
	r.want(r.as("ann", "DELETE", id, `{`+why), 403)
	r.want(r.as("root", "DELETE", "/v1/orders/agent:b", `{`+why), 200)
	r.want(r.as("root", "DELETE", id, `{`+why), 200)
	// A check by the token of dan is a call of the principal dan.
	r.want(r.as("root", "POST", "/v1/orders", `{"scope":"principal:d*",`+why), 200)
	if got := ask(3, ""); got != 403 {
		t.Errorf("a check of the principal is answered by %d", got)
	}
	audit, err := os.ReadFile(filepath.Join(dir, "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"stage":"refused"`, `"kind":"order.stop"`, `"flow":"principal:d*"`, `"kind":"order.release"`} {
		if !strings.Contains(string(audit), part) {
			t.Errorf("the audit log has no %s", part)
		}
	}
}

func idOf(t *testing.T, body string) string {
	t.Helper()
	var v api.HandOrderView
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatal(err)
	}
	return v.ID
}

func TestLinksOfOrders(t *testing.T) {
	dir := t.TempDir()
	fake := clock.NewFake()
	h := beginHand(t, Options{StateDir: dir, Clock: fake})
	link := func(body string) string {
		t.Helper()
		got := h.order("/v1/order-links", body)
		h.want(got, 200)
		var a api.HandLinkAnswer
		if err := json.Unmarshal([]byte(got.body), &a); err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(a.URL)
		if err != nil {
			t.Fatal(err)
		}
		return u.Path
	}
	stop := link(`{"scope":"all","reason":"a <b>test","by":"ann","for_s":60}`)
	h.want(h.do("GET", stop, ""), 200, "stop all", "a &lt;b&gt;test") // as a preview does
	if got := h.asks(func(*events.Event) {}); got != 200 {
		t.Fatalf("a preview gives the order: %d", got)
	}
	h.want(h.do("POST", stop+"x", ""), 410)
	h.want(h.do("POST", stop, ""), 200, `"by":"ann (link)"`)
	h.want(h.do("POST", stop, ""), 410)
	h.released("all")
	h.want(h.do("POST", stop, ""), 410) // used is used
	late := link(`{"scope":"agent:b","reason":"a test","by":"ann","valid_s":60}`)
	fake.Advance(time.Minute)
	h.want(h.do("POST", late, ""), 410)
	h.stopped(`{"scope":"tool:x","reason":"a test","by":"ann"}`)
	release := link(`{"order":"release","scope":"tool:x","reason":"a test","by":"ann"}`)
	h.kill() // the secret and the state of the order last
	h = beginHand(t, Options{StateDir: dir, Clock: fake})
	h.want(h.do("POST", release, ""), 200, `"order":"release"`)
	h.want(h.do("POST", release, ""), 410)
	audit, err := os.ReadFile(filepath.Join(dir, "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(audit), strings.TrimPrefix(stop, "/v1/order-links/")) {
		t.Error("the audit log has a token")
	}
	if !strings.Contains(string(audit), "ann (link)") {
		t.Error("the audit log has no order by a link")
	}
}

// TestOrdersByHandReachGuards that follow the verdicts, with those that begin later.
func TestOrdersByHandReachGuards(t *testing.T) {
	h := beginHand(t, Options{})
	before := h.follow("/v1/verdicts", "Accept", "text/event-stream")
	h.stopped(`{"scope":"agent:b","reason":"a test","by":"ann"}`)
	before.until(`"scope":{"kind":"agent","id":"b"}`)
	h.follow("/v1/verdicts", "Accept", "text/event-stream").until(`"scope":{"kind":"agent","id":"b"}`)
}
