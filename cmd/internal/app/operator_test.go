package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/analyzer"
	"weir/cmd/internal/api"
	"weir/cmd/internal/backtest"
	"weir/cmd/internal/pump"
	"weir/cmd/internal/pump/pumptest"
	"weir/events"
	"weir/state"
)

// hand is an app with an admin token, and a client that has it.
type hand struct{ *running }

func beginHand(t *testing.T, o Options, change ...func(*App)) hand {
	t.Helper()
	o.AdminTokenFile = tokenFile(t, adminSecret)
	return hand{begin(t, o, change...)}
}

// order sends an order with the token.
func (h hand) order(path, body string) reply {
	h.t.Helper()
	return h.do("POST", path, body, "Authorization", "Bearer "+adminSecret)
}

// given returns the answer to an order that was taken.
func (h hand) given(path, body string) (a api.OperatorAnswer) {
	h.t.Helper()
	got := h.order(path, body)
	h.want(got, 202)
	if err := json.Unmarshal([]byte(got.body), &a); err != nil {
		h.t.Fatal(err)
	}
	return a
}

// allowed asks for a call, as a dispatcher does.
func (h hand) allowed(flow string, n int) bool {
	h.t.Helper()
	return h.do("POST", "/v1/check", lines(call(flow, n, "a", "b"))).status == 200
}

const because = `{"reason":"a test","by":"ann"}`

func TestOrdersNeedTheAdminToken(t *testing.T) {
	bodies := map[string]string{"/v1/flows/f/stop": because, "/v1/flows/f/release": because, "/v1/orders": `{"scope":"all","reason":"a test","by":"ann"}`,
		"/v1/flows/f/grant": `{"calls":1,"for_s":60,"reason":"a test","by":"ann"}`,
		// As the page asks, which names the flow in the query.
		"/v1/inspect/stop?flow=..":   `{"reason":"a test","by":"ann"}`,
		"/v1/inspect/release?flow=f": `{"reason":"a test","by":"ann"}`,
		"/v1/inspect/grant?flow=f":   `{"calls":1,"for_s":60,"reason":"a test","by":"ann"}`,
		"/v1/overrides":              `{"scope":"flow","scope_id":"f","rule":"max_total_calls","stop":1,"for_s":60,"reason":"a test","by":"ann"}`}
	f := func(r *running, token string, status int, part string) {
		t.Helper()
		for path, body := range bodies {
			var header []string
			if token != "" {
				header = []string{"Authorization", "Bearer " + token}
			}
			if status == 202 && path == "/v1/orders" { // in force when it is answered (decision 110)
				r.want(r.do("POST", path, body, header...), 200, `"scope":"all"`)
				continue
			}
			r.want(r.do("POST", path, body, header...), status, part)
		}
		for _, line := range r.journalLines() {
			if status != 202 && strings.Contains(line, "weir/operator") {
				t.Errorf("refused, and in the journal: %s", line)
			}
		}
	}
	without := begin(t, Options{})
	f(without, "", 403, "without --admin-token-file")
	f(without, adminSecret, 403, "without --admin-token-file")
	with := begin(t, Options{AdminTokenFile: tokenFile(t, adminSecret), IntakeTokenFile: tokenFile(t, intakeSecret)})
	f(with, "", 401, "send the token")
	f(with, "wrong", 401, "is not the admin token")
	f(with, intakeSecret, 401, "is not the admin token")
	f(with, adminSecret, 202, "order-")
}

// TestIntakeTakesNoOrders holds the intake, which others may use, to what they may.
func TestIntakeTakesNoOrders(t *testing.T) {
	r := begin(t, Options{AdminTokenFile: tokenFile(t, adminSecret), IntakeTokenFile: tokenFile(t, intakeSecret)})
	now := events.StampOf(r.fake.Now())
	operator := &events.Operator{Reason: "a test", By: "ann"}
	for i, ev := range []*events.Event{
		{Kind: events.OperatorStop, Operator: operator},
		{Kind: events.OperatorRelease, Operator: operator},
		{Kind: events.OverrideSet, Override: &events.Override{Scope: events.ScopeFlow, ScopeID: "f", Rule: "max_total_calls", Mode: "off", Reason: "a test", By: "ann", Expires: now + 1000}},
	} {
		ev.ID, ev.Time, ev.CorrelationID = fmt.Sprint(i), now, "f"
		r.want(r.do("POST", "/v1/events", lines(ev), "Authorization", "Bearer "+intakeSecret), 400, "reserved_kind", ev.Kind.String()+" is a person's order")
		r.want(r.do("POST", "/v1/events", lines(ev), "Authorization", "Bearer "+adminSecret), 202, `"accepted":1`)
	}
}

func TestStopAndRelease(t *testing.T) {
	h := beginHand(t, Options{})
	if !h.allowed("f", 1) {
		t.Fatal("the first call is refused")
	}
	stopped := h.given("/v1/flows/f/stop", `{"reason":"pays twice","by":"ann","for_s":3600}`)
	if stopped.Kind != "operator.stop" || stopped.Flow != "f" || stopped.By != "ann" || stopped.New || len(stopped.Verdicts) != 1 {
		t.Fatalf("answered %+v", stopped)
	}
	var v events.Verdict
	if err := events.DecodeVerdict(stopped.Verdicts[0], &v); err != nil || v.Action != "halt" || v.Reason != events.OperatorStopped || v.ExpiresAt != stopped.Time+3_600_000 {
		t.Errorf("verdict %+v (%v)", v, err)
	}
	if h.allowed("f", 2) {
		t.Error("a stopped flow goes on")
	}
	released := h.given("/v1/flows/f/release", `{"reason":"a false alarm","by":"bob","for_s":60}`)
	if len(released.Verdicts) != 1 || events.DecodeVerdict(released.Verdicts[0], &v) != nil || v.Action != "allow" {
		t.Errorf("answered %+v", released)
	}
	if !h.allowed("f", 3) {
		t.Error("a released flow is refused")
	}
	// There is nothing to take back, so nothing is waited for.
	if again := h.given("/v1/flows/f/release", because); len(again.Verdicts) != 0 || again.ID == released.ID {
		t.Errorf("answered %+v", again)
	}
	var who []string
	for _, line := range h.journalLines() {
		var ev events.Event
		if events.Decode([]byte(line), &ev) == nil && ev.Operator != nil {
			who = append(who, fmt.Sprintf("%s %s %s %s %v", ev.Kind, ev.FlowKey(), ev.Operator.By, ev.Operator.Reason, ev.Operator.For))
		}
	}
	if want := []string{"operator.stop f ann pays twice 1h0m0s", "operator.release f bob a false alarm 1m0s", "operator.release f ann a test 0s"}; !slices.Equal(who, want) {
		t.Errorf("the journal has %q, want %q", who, want)
	}

	// A proxy knows better than the body who it is.
	h.want(h.do("POST", "/v1/flows/f/stop", because, "Authorization", "Bearer "+adminSecret, "X-Forwarded-User", "carol"), 202, `"by":"carol"`)
	h.want(h.do("POST", "/v1/flows/f/stop", `{"reason":"a test"}`, "Authorization", "Bearer "+adminSecret, "X-Forwarded-User", "carol"), 202, `"by":"carol"`)
	// An id may hold what a path does not.
	if got := h.given("/v1/flows/a%2Fb%20c/stop", because); got.Flow != "a/b c" || !got.New {
		t.Errorf("answered %+v", got)
	}
}

// TestStopOfAFlowToCome stops a flow before anybody has heard of it.
func TestStopOfAFlowToCome(t *testing.T) {
	h := beginHand(t, Options{})
	if got := h.given("/v1/flows/late/stop", because); !got.New || len(got.Verdicts) != 1 {
		t.Errorf("answered %+v", got)
	}
	if h.allowed("late", 1) {
		t.Error("its first call is allowed")
	}
	if got := h.given("/v1/flows/nobody/release", because); !got.New || len(got.Verdicts) != 0 {
		t.Errorf("answered %+v", got)
	}
}

// TestStopBehindAClockAhead stops a flow whose producer has a clock that is ahead, and
// which is so busy that what is older is not taken any more.
func TestStopBehindAClockAhead(t *testing.T) {
	h := beginHand(t, Options{})
	var evs []*events.Event
	for i := range 300 {
		ev := call("f", i, "", "b")
		ev.Kind, ev.From = events.LLMCall, events.Party{Session: "a"}
		ev.Time = ev.Time.Add(50 * time.Second)
		evs = append(evs, ev)
	}
	h.want(h.do("POST", "/v1/events", lines(evs...), "Content-Type", "application/x-ndjson"), 202)
	h.folded()
	if got := h.given("/v1/flows/f/stop", because); len(got.Verdicts) != 1 {
		t.Errorf("answered %+v", got)
	}
}

func TestBadOrders(t *testing.T) {
	h := beginHand(t, Options{})
	before := len(h.journalLines())
	f := func(path, body string, status int, parts ...string) {
		t.Helper()
		h.want(h.order(path, body), status, parts...)
	}
	for _, path := range []string{"/v1/flows/f/stop", "/v1/flows/f/release"} {
		f(path, "", 400, "read the order")
		f(path, "stop it", 400, "read the order")
		f(path, because+because, 400, "behind the object")
		f(path, `{"by":"ann"}`, 400, `"field":"reason"`, "say why")
		f(path, `{"by":"ann","reason":"  "}`, 400, `"field":"reason"`)
		f(path, `{"reason":"a test"}`, 400, `"field":"by"`, "say who")
		f(path, `{"reason":"a test","by":"ann","for":"1h"}`, 400, `unknown field \"for\"`)
		f(path, `{"reason":"a test","by":"ann","for_s":-1}`, 400, `"field":"for_s"`)
		f(path, `{"reason":"a test","by":"ann","for_s":31622401}`, 400, `"field":"for_s"`, "366 days")
		f(path, `{"reason":"`+strings.Repeat("x", events.MaxReason+1)+`","by":"ann"}`, 400, `"code":"too_long"`)
	}
	f("/v1/flows/"+strings.Repeat("x", events.MaxID+1)+"/stop", because, 400, `"field":"correlation_id"`)
	f("/v1/flows/"+strings.ReplaceAll(events.SelfTestFlows, "/", "%2F")+"1/stop", because, 400, "reserved_kind")
	f("/v1/orders", because, 400, "scope is missing")
	f("/v1/orders", `{"scope":"all","by":"ann"}`, 400, `"field":"reason"`)

	override := func(change string) string {
		fields := map[string]any{"scope": "flow", "scope_id": "f", "rule": "max_total_calls", "stop": 5, "for_s": 60, "reason": "a test", "by": "ann"}
		if err := json.Unmarshal([]byte(change), &fields); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, scope := range []string{"project", "agent", "tool"} {
		f("/v1/overrides", override(`{"scope":"`+scope+`"}`), 422, "only for one flow", "limits file")
	}
	f("/v1/overrides", override(`{"scope":"galaxy"}`), 400, `"field":"scope"`)
	f("/v1/overrides", override(`{"scope":""}`), 400, `"field":"scope"`)
	f("/v1/overrides", override(`{"scope_id":""}`), 400, `"field":"scope_id"`)
	f("/v1/overrides", override(`{"rule":"max_dreams"}`), 400, `"field":"rule"`)
	f("/v1/overrides", override(`{"rule":"operator_stop"}`), 400, `"field":"rule"`)
	f("/v1/overrides", override(`{"stop":null}`), 400, "changes nothing")
	f("/v1/overrides", override(`{"stop":-1}`), 400, "override.stop")
	f("/v1/overrides", override(`{"mode":"sleep"}`), 400, "override.mode")
	f("/v1/overrides", override(`{"reason":""}`), 400, `"field":"reason"`)
	f("/v1/overrides", override(`{"by":""}`), 400, `"field":"by"`)
	f("/v1/overrides", override(`{"for_s":0}`), 400, `"field":"expires"`)
	f("/v1/overrides", override(`{"expires":"2026-12-01T00:00:00Z"}`), 400, "either expires or for_s")
	f("/v1/overrides", override(`{"for_s":0,"expires":"tomorrow"}`), 400, `"field":"expires"`)
	f("/v1/overrides", override(`{"for_s":0,"expires":"2001-01-01T00:00:00Z"}`), 400, "from now on")
	f("/v1/overrides", override(`{"for_s":0,"expires":"2099-01-01T00:00:00Z"}`), 400, "366 days")
	const grant = "/v1/flows/f/grant"
	f(grant, `{"for_s":60,"reason":"a test","by":"ann"}`, 422, "no limit in force counts what is granted")
	f(grant, `{"cost_usd":1,"for_s":60,"reason":"a test","by":"ann"}`, 422, "no limit in force counts what is granted")
	f(grant, `{"calls":-1,"for_s":60,"reason":"a test","by":"ann"}`, 400, "none is below 0")
	f(grant, `{"calls":1,"reason":"a test","by":"ann"}`, 400, `"field":"expires"`)
	f(grant, `{"calls":1,"for_s":60,"by":"ann"}`, 400, `"field":"reason"`)
	f(grant, `{"calls":9007199254740993,"for_s":60,"reason":"a test","by":"ann"}`, 400, "override.extra")
	if got := h.journalLines()[before:]; len(got) > 0 {
		t.Errorf("the journal has %q", got)
	}
}

// TestGrant lets a flow that is at its limits use a bounded extra, and no other flow.
func TestGrant(t *testing.T) {
	h := beginHand(t, Options{Limits: only(t, "max_total_calls: {max: 2}, max_tool_calls: {max: 5}, max_turns: {max: 3}")})
	if !h.allowed("f", 1) || !h.allowed("f", 2) || h.allowed("f", 3) {
		t.Fatal("the limit is not 2")
	}
	var a api.GrantAnswer
	got := h.order("/v1/flows/f/grant", `{"calls":2,"for_s":60,"reason":"nearly done","by":"ann"}`)
	h.want(got, 202)
	if err := json.Unmarshal([]byte(got.body), &a); err != nil {
		t.Fatal(err)
	}
	until := events.RFC3339(events.StampOf(h.fake.Now().Add(time.Minute)))
	if want := []string{"max_total_calls", "max_tool_calls"}; !slices.Equal(a.Rules, want) || a.Until != until || a.By != "ann" || a.New {
		t.Errorf("answered %+v, want %v until %s", a, want, until)
	}
	if !h.allowed("f", 4) || !h.allowed("f", 5) || h.allowed("f", 6) {
		t.Error("the extra is not 2")
	}
	if !h.allowed("g", 1) || !h.allowed("g", 2) || h.allowed("g", 3) {
		t.Error("another flow has more")
	}
	grants := 0
	for _, line := range h.journalLines() {
		if strings.Contains(line, `"extra":2`) && strings.Contains(line, `"by":"ann"`) && strings.Contains(line, `"reason":"nearly done"`) {
			grants++
		}
	}
	if grants != 2 {
		t.Errorf("the log has %d grants", grants)
	}
}

// TestHold has a flow wait at its limit. Every call of it is refused for good as far as clients
// try again, and results are taken. It goes on when an operator grants more, and the grant is counted.
func TestHold(t *testing.T) {
	h := beginHand(t, Options{Metrics: "127.0.0.1:0", Limits: only(t, "max_total_calls: {max: 2, action: hold}, repetition: {warn: off, stop: 2, action: hold}")})
	ask := func(flow string, n int) reply { return h.do("POST", "/v1/check", lines(call(flow, n, "a", "b"))) }
	h.want(ask("f", 1), 200)
	h.want(ask("f", 2), 200)
	held := ask("f", 3)
	h.want(held, 402, `"action":"hold"`, `"held_until":"`, "waits for a person")
	h.want(ask("f", 4), 402, `"action":"hold"`)
	if held.header.Get("Retry-After") != "" || held.header.Get("X-Should-Retry") != "false" {
		t.Errorf("clients would try again: %v", held.header)
	}
	h.want(h.do("GET", "/v1/flows/f", ""), 200, `"status":"held"`)
	h.want(h.order("/v1/flows/f/grant", `{"tokens":2,"for_s":60,"reason":"a test","by":"ann"}`), 422)
	h.want(h.order("/v1/flows/f/grant", `{"calls":1,"for_s":60,"reason":"nearly done","by":"ann"}`), 202)
	h.want(h.do("GET", "/v1/flows/f", ""), 200, `"status":"ok"`)
	h.want(ask("f", 5), 200)
	h.want(ask("f", 6), 402, `"action":"hold"`)
	h.want(ask("g", 1), 200)
	h.scraped(`weir_grants_total{rule="max_total_calls_exceeded"} 1`, `weir_flows_live{status="held"} 1`)

	loop := func(n int) string {
		return fmt.Sprintf(`{"id":"t%d","source":"s","time":"%s","kind":"tool.%s","correlation_id":"p","from":{"agent":"a"},"tool":{"name":"t","call_id":"c%d","args_hash":"xxh64:00000000000000aa"},"content_hash":"xxh64:00000000000000bb"}`,
			n, events.RFC3339(events.StampOf(h.fake.Now())), []string{"call", "result"}[n%2], n/2)
	}
	h.want(h.do("POST", "/v1/events", strings.Join([]string{loop(0), loop(1), loop(2), loop(3)}, "\n")), 202)
	h.folded()
	h.want(h.order("/v1/flows/p/grant", `{"calls":9,"for_s":60,"reason":"a test","by":"ann"}`), 409, "repetition", "release the flow")
}

// TestHoldOfATree has all flows of a tree wait at its limit, also those that only their parents name.
// They go on when an operator grants one of them more.
func TestHoldOfATree(t *testing.T) {
	h := beginHand(t, Options{Metrics: "127.0.0.1:0", Limits: only(t, "max_tree_calls: {max: 3, action: hold}")})
	ask := func(flow, parent string, n int) reply {
		return h.do("POST", "/v1/check", strings.Replace(lines(call(flow, n, "a", "b")), `"correlation_id"`, `"parent_correlation_id":"`+parent+`","correlation_id"`, 1))
	}
	h.want(ask("child", "top", 1), 200)
	h.want(ask("grandchild", "child", 1), 200)
	h.want(ask("great", "grandchild", 1), 200)
	held := ask("great", "grandchild", 2)
	h.want(held, 402, `"action":"hold"`, `"held_until":"`, "waits for a person", "max_tree_calls_exceeded")
	h.want(ask("child", "top", 2), 402, `"action":"hold"`)
	if held.header.Get("Retry-After") != "" || held.header.Get("X-Should-Retry") != "false" {
		t.Errorf("clients would try again: %v", held.header)
	}
	h.want(h.order("/v1/flows/grandchild/grant", `{"tokens":2,"for_s":60,"reason":"a test","by":"ann"}`), 422)
	h.want(h.order("/v1/flows/grandchild/grant", `{"calls":1,"for_s":60,"reason":"nearly done","by":"ann"}`), 202, `"rules":["max_tree_calls"]`)
	h.folded()
	h.want(ask("child", "top", 3), 200)
	h.want(ask("great", "grandchild", 3), 402, `"action":"hold"`)
	h.want(ask("other", "elsewhere", 1), 200)
	h.scraped(`weir_grants_total{rule="max_tree_calls_exceeded"} 1`)
}

// TestFlowsOfATreeShowItsOrders holds that each flow of a tree shows, in lists and views, the orders
// that refuse its calls. The flow may be the root, or name the root, or only its parent. It shows
// them until the order is lifted or has expired.
func TestFlowsOfATreeShowItsOrders(t *testing.T) {
	h := beginHand(t, Options{Limits: only(t, "max_tree_calls: {warn: 2, max: 4, action: hold}")})
	ask := func(flow, member, of string, n int) reply {
		h.t.Helper()
		return h.do("POST", "/v1/check", strings.Replace(lines(call(flow, n, "a", "b")), `"correlation_id"`, `"`+member+`":"`+of+`","correlation_id"`, 1))
	}
	flows := []string{"top", "child", "grandchild", "other"}
	show := func(of string, want ...string) {
		t.Helper()
		h.folded()
		var list pump.FlowList
		got := h.do("GET", "/v1/flows?sort=near", "")
		if err := json.Unmarshal([]byte(got.body), &list); err != nil {
			t.Fatal(err)
		}
		for i, flow := range flows {
			var view analyzer.View
			if err := json.Unmarshal([]byte(h.do("GET", "/v1/flows/"+flow, "").body), &view); err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(list.Flows, func(f pump.FlowSummary) bool { return f.Flow == flow })
			if at < 0 || list.Flows[at].Status != want[i] || view.Status != want[i] || list.Flows[at].Orders != len(view.Orders) {
				t.Errorf("%s: %s is %q in its view with %d orders, want %q; listed as %+v", of, flow, view.Status, len(view.Orders), want[i], list.Flows)
				continue
			}
			if want[i] == "ok" {
				continue
			}
			o := &view.Orders[0]
			if len(view.Orders) != 1 || o.Scope != (events.Scope{Kind: events.ScopeTree, ID: "top"}) || o.RuleID != "max_tree_calls" || o.ExpiresAt.IsZero() {
				t.Errorf("%s: %s shows %+v", of, flow, view.Orders)
			}
		}
	}
	h.want(ask("top", "root_correlation_id", "top", 1), 200)
	h.want(ask("other", "root_correlation_id", "elsewhere", 1), 200)
	h.want(ask("child", "root_correlation_id", "top", 1), 200)
	h.want(ask("grandchild", "parent_correlation_id", "child", 1), 200)
	show("warned", "warned", "warned", "warned", "ok")
	h.want(ask("child", "root_correlation_id", "top", 2), 200)
	show("used up", "armed", "armed", "armed", "ok")
	for i, flow := range flows[:3] {
		h.want(ask(flow, []string{"root_correlation_id", "root_correlation_id", "parent_correlation_id"}[i], []string{"top", "top", "child"}[i], 3), 402, `"action":"hold"`)
	}
	show("held", "held", "held", "held", "ok")
	h.want(h.do("GET", "/v1/inspect/timeline?flow=child", ""), 200, `"status":"held"`, `"root_correlation_id":"top"`)
	h.want(h.order("/v1/flows/grandchild/grant", `{"calls":9,"for_s":3600,"reason":"nearly done","by":"ann"}`), 202, `"rules":["max_tree_calls"]`)
	show("granted", "ok", "ok", "ok", "ok")
	h.want(ask("grandchild", "parent_correlation_id", "child", 4), 200)
	for n := 5; n < 13; n++ {
		h.want(ask("top", "root_correlation_id", "top", n), 200)
	}
	show("used up again", "armed", "armed", "armed", "ok")
	h.fake.Advance(24 * time.Hour)
	show("expired", "ok", "ok", "ok", "ok")
}

func TestOverride(t *testing.T) {
	h := beginHand(t, Options{Limits: only(t, "max_total_calls: {max: 2}")})
	if !h.allowed("f", 1) || !h.allowed("f", 2) || h.allowed("f", 3) {
		t.Fatal("the limit is not 2")
	}
	got := h.given("/v1/overrides", `{"scope":"flow","scope_id":"f","rule":"max_total_calls","stop":4,"for_s":60,"reason":"a large order","by":"ann"}`)
	if want := events.RFC3339(events.StampOf(h.fake.Now().Add(time.Minute))); got.Kind != "override.set" || got.Until != want || got.New {
		t.Errorf("answered %+v, want until %s", got, want)
	}
	if !h.allowed("f", 4) || !h.allowed("f", 5) || h.allowed("f", 6) {
		t.Error("the limit is not 4")
	}
	if !h.allowed("g", 1) || !h.allowed("g", 2) || h.allowed("g", 3) {
		t.Error("the limit of another flow has changed")
	}
}

// TestOverrideOfARuleThatIsOff refuses what would change nothing.
func TestOverrideOfARuleThatIsOff(t *testing.T) {
	body := func(rule string) string {
		return `{"scope":"flow","scope_id":"f","rule":"` + rule + `","stop":2,"mode":"enforce","for_s":60,"reason":"a test","by":"ann"}`
	}
	h := beginHand(t, Options{Limits: only(t, "max_total_calls: {mode: shadow, stop: 9}, max_tool_calls: off")})
	h.want(h.order("/v1/overrides", body("max_tool_calls")), 422, "is off", `"field":"rule"`)
	h.want(h.order("/v1/overrides", body("circling")), 422, "is off", `"field":"rule"`)
	h.given("/v1/overrides", body("max_total_calls"))
	if !h.allowed("f", 1) || h.allowed("f", 2) || !h.allowed("g", 1) || !h.allowed("g", 2) {
		t.Error("the rule is not enforced for the flow alone")
	}
}

// TestOrdersAreReplayed folds the journal anew: a replay gives the same verdicts.
func TestOrdersAreReplayed(t *testing.T) {
	limits := only(t, "max_total_calls: {max: 2}")
	h := beginHand(t, Options{Limits: limits})
	for i := range 4 {
		h.allowed("f", i)
	}
	h.given("/v1/overrides", `{"scope":"flow","scope_id":"f","rule":"max_total_calls","stop":3,"for_s":600,"reason":"a test","by":"ann"}`)
	h.allowed("f", 5)
	h.given("/v1/flows/f/stop", because)
	h.given("/v1/flows/g/stop", because)
	h.allowed("g", 1)
	h.given("/v1/flows/f/release", `{"reason":"a test","by":"ann","for_s":60}`)
	h.allowed("f", 6)
	h.stopped(`{"scope":"all","reason":"a test","by":"ann"}`)
	h.allowed("f", 7)
	h.released("all")
	h.allowed("f", 8)
	h.folded()
	// Orders about scopes do not go through the fold.
	want := slices.DeleteFunc(h.verdictLines(), func(line string) bool { return strings.Contains(line, `"by_hand":`) })
	if len(want) < 6 {
		t.Fatalf("there are only %d verdicts", len(want))
	}
	p, err := pump.NewReplay(t.Context(), pump.Options{Limits: limits, Parse: pump.ParseLimits})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := h.log().Read(0, 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range entries {
		got = append(got, refolded(t, p, &entries[i])...)
	}
	if !slices.Equal(pumptest.ByStage(got), pumptest.ByStage(want)) {
		t.Errorf("folded again:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func refolded(t *testing.T, p *pump.Replay, entry *state.Entry) (out []string) {
	t.Helper()
	var ev events.Event
	if err := events.Decode(entry.Value, &ev); err != nil {
		t.Fatal(err)
	}
	ev.Appended = entry.Appended
	for _, v := range p.Fold(&ev, entry.Offset) {
		out = append(out, string(v.AppendJSON(nil)))
	}
	return out
}

// TestIgnoredOrdersShow stops a flow whose dispatcher goes on all the same. Within a
// minute the metric of the alert WeirStopsIgnored shows more than five calls.
func TestIgnoredOrdersShow(t *testing.T) {
	h := beginHand(t, Options{Metrics: "127.0.0.1:0", Limits: only(t, "max_total_calls: {max: 2}")})
	send := func(flow string, at time.Duration, n int) {
		t.Helper()
		ev := call(flow, n, "a", "b")
		ev.ID, ev.Time = fmt.Sprint(flow, n, at), ev.Time.Add(at)
		h.want(h.do("POST", "/v1/events", lines(ev)), 202)
	}
	send("f", 0, 1)
	h.given("/v1/flows/f/stop", because)
	for i := range 4 {
		send("g", 0, i) // the third and the fourth may have been in flight
	}
	for i := range 6 {
		at := time.Duration(10+5*i) * time.Second
		h.fake.Advance(5 * time.Second)
		send("f", at, 1)
		send("g", at, 1)
	}
	h.folded()
	h.scraped(
		`weir_calls_after_stop_total{rule="operator_stop"} 6`,
		`weir_calls_after_stop_total{rule="max_total_calls_exceeded"} 6`, // those of the flow f are against the stop, which is stricter than its limit
		`weir_verdict_acks_total{applied="true",rule="operator_stop"} 0`,
		`weir_leaked_calls_total{rule="max_total_calls_exceeded"} 2`, // those that may have been in flight
	)
	// One that honors orders says so, and does not count.
	var view analyzer.View
	h.get("/v1/flows/f", &view)
	ack := call("f", 99, "a", "b")
	ack.Kind, ack.Ack = events.VerdictAck, &events.Ack{VerdictID: view.Orders[0].ID, Applied: true}
	other := call("f", 100, "a", "b")
	other.Kind, other.Ack = events.VerdictAck, &events.Ack{VerdictID: "of nobody-1"}
	nobody := call("f", 101, "a", "b")
	nobody.CorrelationID, nobody.Kind, nobody.Ack = "", events.VerdictAck, &events.Ack{VerdictID: "of nobody-1", Applied: true}
	h.want(h.do("POST", "/v1/events", lines(ack, other, nobody)), 202)
	h.folded()
	h.scraped(`weir_calls_after_stop_total{rule="operator_stop"} 6`, `weir_verdict_acks_total{applied="true",rule="operator_stop"} 1`,
		`weir_verdict_acks_total{applied="false",rule="other"} 1`, `weir_verdict_acks_total{applied="true",rule="other"} 1`)
}

// TestMarks judges stops over HTTP: the file has what weir review mark writes.
func TestMarks(t *testing.T) {
	dir := t.TempDir()
	h := beginHand(t, Options{StateDir: dir})
	h.want(h.do("GET", "/v1/marks", ""), 200)
	h.want(h.order("/v1/flows/f/mark", `{"mark":"wrong","reason":"it waited for a build","by":"ann"}`), 202, `"flow":"f","mark":"wrong"`)
	h.want(h.order("/v1/inspect/mark?flow=..", `{"mark":"right","reason":"a loop","by":"ann"}`), 202)
	h.want(h.order("/v1/flows/f/mark", `{"mark":"maybe","reason":"r","by":"ann"}`), 400, "right or wrong")
	h.want(h.order("/v1/flows/f/mark", `{"mark":"right","by":"ann"}`), 400, "say why")
	h.want(h.do("POST", "/v1/flows/f/mark", `{"mark":"right","reason":"r","by":"ann"}`), 401)
	file, err := os.ReadFile(filepath.Join(dir, "review.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	marks, err := backtest.ReadMarks(bytes.NewReader(file))
	if err != nil || len(marks) != 2 || marks["f"] != backtest.Wrong || marks[".."] != backtest.Right {
		t.Errorf("%v, %v", marks, err)
	}
	if got := h.do("GET", "/v1/marks", "").body; got != string(file) {
		t.Errorf("answered is %q, the file has %q", got, file)
	}
	inMemory := beginHand(t, Options{})
	inMemory.want(inMemory.order("/v1/flows/f/mark", `{"mark":"right","reason":"r","by":"ann"}`), 409, "--state")
}

// TestTrend shows what was checked in this minute, the two checks of folded among it, refused and spent, and what is stopped.
func TestTrend(t *testing.T) {
	h := beginHand(t, Options{})
	h.want(h.do("POST", "/v1/events", lines(call("f", 1, "a", "b"))), 202)
	h.given("/v1/flows/f/stop", because)
	h.allowed("f", 2)
	h.folded()
	h.want(h.do("GET", "/v1/inspect/trend", ""), 200, `"stopped":1,"checks":3,"refused":1,"micro_usd":0`)
	h.want(h.do("GET", "/v1/inspect/rules", ""), 200, `"max_total_calls":"Hops of the episode.`)
}

// TestStopAllAsBefore holds that programs that know no orders about scopes stop all calls as before,
// those of flows that begin later as well.
func TestStopAllAsBefore(t *testing.T) {
	r := people(t, Options{}, map[string]string{"ops": "roles: operate", "shop": "roles: [ingest, ask]"})
	check := func(flow string) reply {
		return r.as("shop", "POST", "/v1/check", string(call(flow, 1, "a", "b").AppendJSON(nil)))
	}
	r.want(check("before"), 200)
	r.want(r.as("ops", "POST", "/v1/flows/stop", `{"reason":"the bill"}`), 400, "all: true")
	r.want(r.as("shop", "POST", "/v1/flows/stop", `{"all":true,"reason":"the bill"}`), 403)
	r.want(r.as("ops", "POST", "/v1/flows/stop", `{"all":true,"reason":"the bill"}`), 202, `"stopped":"all"`, `"missed":[]`, `"by":"ops"`)
	r.want(check("before2"), 403)
	r.want(check("later"), 403)
	r.want(r.as("ops", "DELETE", "/v1/orders/all", `{"reason":"paid"}`), 200)
	r.want(check("after"), 200)
}
