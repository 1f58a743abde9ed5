package app

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/api"
	"weir/sink/check"
)

// described is the description that a weir serves.
type described struct {
	t        *testing.T
	doc      map[string]any
	compiler *jsonschema.Compiler
	called   map[string]bool // method, path and status; with a name behind, an example
}

// describedBy reads the description of a running weir. Answers with members that it does not name are
// faults.
func describedBy(t *testing.T, r *running) *described {
	t.Helper()
	got := r.do("GET", "/openapi.json", "")
	r.want(got, 200, `"openapi": "3.1.0"`)
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(got.body))
	if err != nil {
		t.Fatal(err)
	}
	d := &described{t: t, doc: doc.(map[string]any), compiler: jsonschema.NewCompiler(), called: map[string]bool{}}
	closeObjects(d.doc["components"].(map[string]any)["schemas"])
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource("urn:weir", d.doc); err != nil {
		t.Fatal(err)
	}
	return d
}

// closeObjects allows only the members that are named.
func closeObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["properties"].(map[string]any); ok && v["additionalProperties"] == nil {
			v["additionalProperties"] = false
		}
		for _, inner := range v {
			closeObjects(inner)
		}
	case []any:
		for _, inner := range v {
			closeObjects(inner)
		}
	}
}

// at follows names into the description, and references on the way; nil when there is nothing.
func (d *described) at(v any, names ...string) any {
	for {
		m, ok := v.(map[string]any)
		if ref, is := m["$ref"].(string); is {
			v = d.at(d.doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
			continue
		}
		if len(names) == 0 || !ok {
			return v
		}
		v, names = m[names[0]], names[1:]
	}
}

// operation is one of the description.
func (d *described) operation(method, path string) any {
	return d.at(d.doc, "paths", path, strings.ToLower(method))
}

// valid validates an answer against the schema of its status and media type.
func (d *described) valid(method, path string, got reply) {
	d.t.Helper()
	key := fmt.Sprintf("%s %s %d", method, path, got.status)
	d.called[key] = true
	response := d.at(d.operation(method, path), "responses", fmt.Sprint(got.status))
	if response == nil {
		d.t.Errorf("%s is not described: %s", key, got.body)
		return
	}
	content, _ := d.at(response, "content").(map[string]any)
	media, _, _ := mime.ParseMediaType(got.header.Get("Content-Type"))
	if content == nil && got.body == "" || got.status == http.StatusFound {
		return
	}
	d.validBody(key, content, media, got.body)
}

func (d *described) validBody(key string, content map[string]any, media, body string) {
	d.t.Helper()
	as, ok := content[media].(map[string]any)
	switch {
	case !ok:
		d.t.Errorf("%s: the media type %s is not described: %s", key, media, body)
	case strings.HasSuffix(media, "json") && media != "application/x-ndjson":
		d.validJSON(key, as["schema"], body)
	}
}

// validJSON validates JSON against a schema: one with a name, or an inline one.
func (d *described) validJSON(key string, schema any, body string) {
	d.t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err != nil {
		d.t.Errorf("%s: %v: %s", key, err, body)
		return
	}
	ref, _ := schema.(map[string]any)["$ref"].(string)
	if ref == "" {
		return // of the page, or an object that is not weir's
	}
	compiled, err := d.compiler.Compile("urn:weir" + ref)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := compiled.Validate(value); err != nil {
		d.t.Errorf("%s: %v\n%s", key, err, body)
	}
}

// example returns the named example of a request.
func (d *described) example(method, path, name string) string {
	d.t.Helper()
	content := d.at(d.operation(method, path), "requestBody", "content", "application/json")
	text, err := json.Marshal(d.at(content, "examples", name, "value"))
	if err != nil || string(text) == "null" {
		d.t.Fatalf("%s %s has no example %s (%v)", method, path, name, err)
	}
	d.validJSON(method+" "+path+" "+name, content.(map[string]any)["schema"], string(text))
	d.called[method+" "+path+" "+name] = true
	return string(text)
}

// unused lists what is described and was not called.
func (d *described) unused() (out []string) {
	for path, item := range d.doc["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			op, method := d.operation(method, path), strings.ToUpper(method)
			for status := range d.at(op, "responses").(map[string]any) {
				if key := method + " " + path + " " + status; status != "default" && !d.called[key] {
					out = append(out, key)
				}
			}
			examples, _ := d.at(op, "requestBody", "content", "application/json", "examples").(map[string]any)
			for name := range examples {
				if key := method + " " + path + " " + name; !d.called[key] {
					out = append(out, key)
				}
			}
		}
	}
	return slices.Sorted(slices.Values(out))
}

// everybody are principals with one role each. Who is slow has used up the rate.
func everybody() map[string]string {
	return map[string]string{"tom": "roles: ingest", "dan": "roles: ask", "eve": "roles: observe", "ann": "roles: operate", "root": "roles: admin", "slow": "roles: admin, rate: 0.001"}
}

// TestOpenAPI calls each route for each status that is described, with each example, and validates all
// answers.
func TestOpenAPI(t *testing.T) {
	dir := t.TempDir()
	limits, err := limitfile.Parse("test", []byte("profile: recovery\nrules: {self_call: {stop: 1, count: all}, max_cost_usd: {max: 1, action: hold}, max_total_calls: {max: 100}, call_rate_per_flow: {max: 4, window: 1m}}\nbudgets: [{name: team-day, scope: team, window: day, hard: 50}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	asked, slack := newInbox(t)
	settings := filepath.Join(t.TempDir(), "switch.yaml")
	if err := os.WriteFile(settings, []byte("two-persons: [service]\napprovals: {url: https://weir.example, unanswered: hold, tiers: [{name: ops, slack: \""+slack+"\"}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := people(t, Options{Authz: true, StateDir: dir, Limits: limits, SwitchFile: settings}, everybody())
	d := describedBy(t, r)
	f := func(want int, who, method, path, target, body string, header ...string) reply {
		t.Helper()
		if target == "" {
			target = path
		}
		got := r.as(who, method, target, body, header...)
		if got.status != want {
			t.Errorf("%s %s: status %d, want %d: %s", method, target, got.status, want, got.body)
		}
		d.valid(method, path, got)
		return got
	}
	// The first request of who is slow uses up the rate.
	f(200, "slow", "GET", "/v1/limits", "", "")
	d.doors(r)
	d.checks(r, f)
	d.intakes(f)
	d.orders(f)
	d.approvals(f, asked)
	d.readings(r, f)
	d.page(r, f)
	d.elsewhere()
	if unused := d.unused(); len(unused) > 0 {
		t.Errorf("described, and called by no test:\n%s", strings.Join(unused, "\n"))
	}
	for _, name := range []string{"refused", "notJudged"} {
		text, _ := json.Marshal(d.at(d.doc, "components", "responses", "Refused", "content", "application/problem+json", "examples", name, "value"))
		d.validJSON(name, map[string]any{"$ref": "#/components/schemas/CheckAnswer"}, string(text))
	}
	allowed, _ := json.Marshal(d.at(d.operation("POST", "/v1/check"), "responses", "200", "content", "application/json", "examples", "allowed", "value"))
	d.validJSON("allowed", map[string]any{"$ref": "#/components/schemas/CheckAnswer"}, string(allowed))
}

// caller calls a route and validates the answer.
type caller = func(want int, who, method, path, target, body string, header ...string) reply

// doors calls each route without permission: from another host or origin, without a token, without
// the role, and too often.
func (d *described) doors(r *running) {
	roleOf := map[string]string{"tom": "ingest", "dan": "ask", "eve": "observe", "ann": "operate"}
	for path, item := range d.doc["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			op, method := d.operation(method, path), strings.ToUpper(method)
			target := strings.NewReplacer("{id}", "x", "{gateway}", "envoy", "{token}", "x").Replace(path)
			call := func(who string, header ...string) {
				d.t.Helper()
				d.valid(method, path, r.as(who, method, target, "{}", header...))
			}
			call("", "Host", "evil.example")
			if method != "GET" {
				call("", "Origin", "http://evil.example")
			}
			roles, _ := d.at(op, "x-roles").([]any)
			if len(roles) == 0 {
				continue
			}
			call("")
			call("slow", check.TokenHeader, secretOf("slow")) // by which a gateway is known
			for who, role := range roleOf {
				if !slices.Contains(roles, any(role)) && !(role == "operate" && slices.Contains(roles, any("observe"))) {
					call(who)
				}
			}
		}
	}
}

// checks calls what checks calls.
func (d *described) checks(r *running, f caller) {
	const route = "/v1/check"
	for _, name := range []string{"toolCall", "agentCall", "repeatable"} {
		f(200, "dan", "POST", route, "", d.example("POST", route, name))
	}
	f(200, "dan", "POST", route, "", d.example("POST", route, "toolCall"), "Idempotency-Key", "k-1")
	many := f(200, "dan", "POST", route, "", d.example("POST", route, "toolCall")+"\n{}", "Content-Type", "application/x-ndjson")
	for line := range strings.Lines(many.body) {
		var a struct{ Body json.RawMessage }
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			d.t.Fatal(err)
		}
		d.validJSON("a line of many", map[string]any{"$ref": "#/components/schemas/CheckAnswer"}, string(a.Body))
	}
	f(400, "dan", "POST", route, "", `{"kind":"agent.call","correlation_id":"self","from":{"agent":"a"},"to":{"agent":"a"}}`)
	f(400, "dan", "POST", route, "", "{}")
	f(409, "dan", "POST", route, "", d.example("POST", route, "agentCall"), "Idempotency-Key", "k-1")
	f(413, "dan", "POST", route, "", strings.Repeat("\n", 1<<20)+"{}", "Content-Type", "application/x-ndjson")
	f(422, "dan", "POST", route, "", `{"kind":"flow.end","correlation_id":"f"}`)
	f(202, "tom", "POST", "/v1/events", "", `{"id":"cost","kind":"llm.call","correlation_id":"dear","from":{"agent":"a"},"usage":{"input_tokens":1,"cost_usd":3}}`)
	f(402, "dan", "POST", route, "", `{"kind":"agent.call","correlation_id":"dear","from":{"agent":"a"},"to":{"agent":"b"}}`)
	f(202, "ann", "POST", "/v1/flows/{id}/stop", "/v1/flows/stopped/stop", d.example("POST", "/v1/flows/{id}/stop", "order"))
	f(403, "dan", "POST", route, "", `{"kind":"agent.call","correlation_id":"stopped","from":{"agent":"a"},"to":{"agent":"b"}}`)
	for range 4 {
		f(200, "dan", "POST", route, "", `{"kind":"agent.call","correlation_id":"fast","from":{"agent":"a"},"to":{"agent":"b"}}`)
	}
	f(429, "dan", "POST", route, "", `{"kind":"agent.call","correlation_id":"fast","from":{"agent":"a"},"to":{"agent":"b"}}`)
	f(200, "dan", "POST", "/v1/check/stream", "", d.example("POST", route, "toolCall")+"\n")
	f(400, "dan", "POST", "/v1/check/stream", "", "", "Idempotency-Key", "k")
	f(200, "dan", "POST", "/v1/hook", "", `{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Bash","tool_input":{"command":"ls"}}`)
	f(200, "dan", "POST", check.EvaluatePath, "", d.example("POST", check.EvaluatePath, "toolCall"))
	denied := f(200, "dan", "POST", check.EvaluatePath, "", `{"phase":"preflight","context":{"conversation_id":"stopped"},"input":{"messages":[]}}`)
	if !strings.Contains(denied.body, `"action":"deny","rule_id":"operator_stop"`) {
		d.t.Errorf("a stopped flow: %s", denied.body)
	}
	f(400, "dan", "POST", check.EvaluatePath, "", "{}")
	f(413, "dan", "POST", check.EvaluatePath, "", strings.Repeat(" ", 9<<20))
	for _, method := range []string{"GET", "POST"} {
		// Without a flow an agent's call is refused with 400; a person's is let through.
		const authz = "/authz/{gateway}"
		token := []string{check.TokenHeader, secretOf("dan")}
		f(200, "", method, authz, "/authz/envoy/", "", token...)
		f(400, "", method, authz, "/authz/envoy/", "", append(token, "Weir-Deny", "gown")...)
		f(403, "", method, authz, "/authz/nginx", "", append(token, "Baggage", "correlation_id=stopped,agent_id=a", "X-Original-Uri", "/agents/b")...)
	}
}

// intakes calls what programs send to.
func (d *described) intakes(f caller) {
	const events = "/v1/events"
	for _, name := range []string{"result", "usage"} {
		f(202, "tom", "POST", events, "", d.example("POST", events, name))
	}
	f(400, "tom", "POST", events, "", "{}")
	f(400, "tom", "POST", events, "", "")
	f(413, "tom", "POST", events, "", `{"id":"`+strings.Repeat("x", 9<<20)+`"}`)
	f(415, "tom", "POST", events, "", "{}", "Content-Encoding", "br")
	for _, path := range []string{"/v1/traces", "/v1/logs"} {
		f(200, "tom", "POST", path, "", "{}", "Content-Type", "application/json")
		f(200, "tom", "POST", path, "", "", "Content-Type", "application/x-protobuf")
		f(400, "tom", "POST", path, "", "{", "Content-Type", "application/json")
		f(413, "tom", "POST", path, "", strings.Repeat(" ", 9<<20), "Content-Type", "application/json")
		f(415, "tom", "POST", path, "", "{}", "Content-Type", "text/plain")
	}
	f(200, "tom", "GET", "/info", "", "")
	for _, path := range []string{"/runs/batch", "/runs/multipart"} {
		f(202, "tom", "POST", path, "", `{"post":[]}`, "Content-Type", "application/json")
		f(400, "tom", "POST", path, "", `{`, "Content-Type", "application/json")
		f(413, "tom", "POST", path, "", strings.Repeat(" ", 9<<20), "Content-Type", "application/json")
		f(415, "tom", "POST", path, "", "{}", "Content-Type", "text/plain")
	}
}

// orders calls what people order, by both names of each route.
func (d *described) orders(f caller) {
	const because = `{"reason":"a test","by":"ann"}`
	for _, verb := range []string{"stop", "release", "grant", "mark"} {
		path, name := "/v1/flows/{id}/"+verb, map[string]string{"grant": "grant", "mark": "mark"}[verb]
		if name == "" {
			name = "order"
		}
		good := d.example("POST", path, name)
		page := "/v1/inspect/" + verb
		d.example("POST", page, name)
		for route, target := range map[string]string{path: "/v1/flows/f/" + verb, page: page + "?flow=f"} {
			f(202, "ann", "POST", route, target, good)
			f(400, "ann", "POST", route, target, "{")
			if verb == "grant" {
				f(422, "ann", "POST", route, target, because)
				dear := strings.Replace(target, "flows/f", "flows/dear", 1)
				f(409, "ann", "POST", route, strings.Replace(dear, "flow=f", "flow=dear", 1), good)
			}
		}
	}
	f(202, "ann", "POST", "/v1/overrides", "", d.example("POST", "/v1/overrides", "override"))
	f(400, "ann", "POST", "/v1/overrides", "", "{")
	f(422, "ann", "POST", "/v1/overrides", "", `{"scope":"agent","scope_id":"f","rule":"max_total_calls","stop":1,"reason":"r","by":"ann","for_s":1}`)
	d.scopes(f)
	const rescue = "/v1/agents/{id}/rescue"
	f(202, "tom", "POST", rescue, "/v1/agents/planner/rescue", d.example("POST", rescue, "rescue"))
	f(400, "tom", "POST", rescue, "/v1/agents/planner/rescue", "{")
	f(202, "tom", "POST", "/v1/notes", "", d.example("POST", "/v1/notes", "note"))
	f(400, "tom", "POST", "/v1/notes", "", "{}")
	f(202, "ann", "POST", "/v1/budgets/grant", "", d.example("POST", "/v1/budgets/grant", "grant"))
	f(400, "ann", "POST", "/v1/budgets/grant", "", `{"budget":"team-day","value":"payments","amount":0,"reason":"r","by":"ann"}`)
	f(200, "ann", "GET", "/v1/whoami", "", "")
	f(404, "ann", "POST", "/v1/budgets/grant", "", `{"budget":"none","value":"x","amount":1,"reason":"r","by":"ann"}`)
	f(200, "root", "POST", "/-/reload", "", "")
}

// scopes calls the orders about scopes.
func (d *described) scopes(f caller) {
	const all, one, link = "/v1/orders", "/v1/orders/{id}", "/v1/order-links"
	f(200, "ann", "POST", all, "", d.example("POST", all, "tenant"))
	f(400, "ann", "POST", all, "", "{}")
	f(200, "eve", "GET", all, all+"?all=1", "")
	f(200, "eve", "GET", one, all+"/tenant:acme", "")
	f(200, "eve", "GET", one+"/receipt", all+"/tenant:acme/receipt", "")
	f(400, "eve", "GET", one+"/receipt", all+"/nothing:x/receipt", "")
	f(404, "eve", "GET", one+"/receipt", all+"/tenant:other/receipt", "")
	f(200, "dan", "POST", "/v1/guards", "", d.example("POST", "/v1/guards", "beat"))
	f(400, "dan", "POST", "/v1/guards", "", "{")
	f(400, "eve", "GET", one, all+"/nothing:x", "")
	f(404, "eve", "GET", one, all+"/tenant:other", "")
	f(200, "ann", "DELETE", one, all+"/tenant:acme", d.example("DELETE", one, "release"))
	f(400, "ann", "DELETE", one, all+"/tenant:acme", "{}")
	f(404, "ann", "DELETE", one, all+"/tenant:other", d.example("DELETE", one, "release"))
	made := f(200, "ann", "POST", link, "", d.example("POST", link, "link"))
	f(400, "ann", "POST", link, "", "{}")
	var answer api.HandLinkAnswer
	if err := json.Unmarshal([]byte(made.body), &answer); err != nil {
		d.t.Fatal(err)
	}
	target, err := url.Parse(answer.URL)
	if err != nil {
		d.t.Fatal(err)
	}
	f(200, "", "GET", link+"/{token}", target.Path, "")
	f(200, "", "POST", link+"/{token}", target.Path, "")
	f(410, "", "POST", link+"/{token}", target.Path, "")
	f(410, "", "GET", link+"/{token}", target.Path, "")
	f(200, "ann", "DELETE", one, all+"/tenant:acme", d.example("DELETE", one, "release"))
	d.second(f)
	f(400, "ann", "POST", "/v1/flows/stop", "", "{")
	f(202, "ann", "POST", "/v1/flows/stop", "", d.example("POST", "/v1/flows/stop", "all"))
	f(200, "ann", "DELETE", one, all+"/all", d.example("DELETE", one, "release"))
}

// approvals calls what is about held flows.
func (d *described) approvals(f caller, asked *inbox) {
	const list, link = "/v1/approvals", "/v1/approvals/{token}"
	f(202, "root", "POST", "/v1/events", "", `{"id":"spent","source":"s","time":"2026-11-20T14:00:00Z","kind":"llm.call","correlation_id":"to-approve","from":{"agent":"a"},"usage":{"cost_usd":2}}`)
	message := ""
	eventually(d.t, "the message", func() bool {
		for _, text := range asked.list() {
			if strings.Contains(text, "to-approve") {
				message = text
			}
		}
		return message != ""
	})
	f(200, "eve", "GET", list, "", "")
	approve, _ := links(d.t, message)
	f(404, "", "GET", link, approve+"x", "")
	f(404, "", "POST", link, approve+"x", "")
	f(200, "", "GET", link, approve, "")
	f(200, "", "POST", link, approve, "")
	f(410, "", "GET", link, approve, "")
	f(410, "", "POST", link, approve, "")
	f(200, "eve", "GET", list, "", "")
}

// second calls what is about a second person, and drills.
func (d *described) second(f caller) {
	const waiting, drill = "/v1/order-proposals", "/v1/order-drills"
	propose := func() (id string) {
		got := f(202, "ann", "POST", "/v1/orders", "", `{"scope":"service:shop","reason":"a test"}`)
		var p api.OrderProposal
		if err := json.Unmarshal([]byte(got.body), &p); err != nil {
			d.t.Fatal(err)
		}
		return p.ID
	}
	id, void := propose(), propose()
	f(200, "eve", "GET", waiting, "", "")
	f(403, "ann", "POST", waiting+"/{id}", waiting+"/"+id, "")
	f(200, "root", "POST", waiting+"/{id}", waiting+"/"+id, "")
	f(404, "root", "POST", waiting+"/{id}", waiting+"/"+id, "")
	f(410, "root", "POST", waiting+"/{id}", waiting+"/"+void, "")
	f(200, "ann", "DELETE", "/v1/orders/{id}", "/v1/orders/service:shop", d.example("DELETE", "/v1/orders/{id}", "release"))
	f(200, "ann", "DELETE", waiting+"/{id}", waiting+"/"+propose(), "")
	f(404, "ann", "DELETE", waiting+"/{id}", waiting+"/x", "")
	// Without guards a drill waits for none.
	f(200, "dan", "POST", "/v1/guards", "", `{"guard":"shop","instance":"a1b2c3","language":"go","held":[],"in_flight":0,"closed":true}`)
	f(200, "ann", "POST", drill, "", d.example("POST", drill, "drill"))
	f(400, "ann", "POST", drill, "", "{}")
}

// readings calls what is read.
func (d *described) readings(r *running, f caller) {
	f(200, "dan", "POST", "/v1/check", "", `{"kind":"agent.call","correlation_id":"last","from":{"agent":"a"},"to":{"agent":"b"}}`) // behind all that was sent
	for _, route := range []struct{ path, good, bad string }{
		{"/v1/verdicts", "?since=0", "?since=x"}, {"/v1/flows", "?sort=near", "?sort=x"}, {"/v1/flows/{id}/events", "?all=1", "?limit=x"},
		{"/v1/agents", "?stuck=0&kind=agent", "?kind=x"}, {"/v1/agents/{id}", "?kind=agent", "?kind=x"}, {"/v1/notes", "", "?limit=x"}, {"/v1/budgets", "?budget=team-day", "?limit=x"},
		{"/v1/costs", "?since=1h", "?since=x"}, {"/v1/deadletters", "?limit=5", "?from=x"},
	} {
		id := "flow-1"
		if strings.Contains(route.path, "agents") {
			id = "planner"
		}
		target := strings.Replace(route.path, "{id}", id, 1)
		f(200, "eve", "GET", route.path, target+route.good, "")
		f(400, "eve", "GET", route.path, target+route.bad, "")
		if id = strings.Replace(route.path, "{id}", "unknown", 1); id != route.path {
			f(404, "eve", "GET", route.path, id, "")
		}
	}
	for _, flow := range []string{"flow-1", "dear", "stopped"} {
		f(200, "eve", "GET", "/v1/flows/{id}", "/v1/flows/"+flow, "")
	}
	f(404, "eve", "GET", "/v1/flows/{id}", "/v1/flows/unknown", "")
	f(200, "eve", "GET", "/v1/flows/{id}/costs", "/v1/flows/flow-1/costs", "")
	f(404, "eve", "GET", "/v1/flows/{id}/costs", "/v1/flows/unknown/costs", "")
	for _, path := range []string{"/v1/limits", "/v1/health_check", "/v1/marks", "/v1/backup", "/healthz", "/readyz", "/openapi.json", "/ui/"} {
		f(200, "eve", "GET", path, "", "")
	}
}

// page calls what the page calls, and the routes of members.
func (d *described) page(r *running, f caller) {
	for _, path := range []string{"trend", "rules", "session", "limits", "scenarios"} {
		f(200, "eve", "GET", "/v1/inspect/"+path, "", "")
	}
	for path, more := range map[string]string{"flow": "", "events": "", "timeline": "", "view": "&at=1", "case": ""} {
		path = "/v1/inspect/" + path
		f(200, "eve", "GET", path, path+"?flow=flow-1"+more, "")
		f(404, "eve", "GET", path, path+"?flow=unknown"+more, "")
	}
	f(200, "eve", "GET", "/v1/inspect/costs", "/v1/inspect/costs?flow=flow-1", "")
	f(404, "eve", "GET", "/v1/inspect/costs", "/v1/inspect/costs?flow=unknown", "")
	f(400, "eve", "GET", "/v1/inspect/events", "/v1/inspect/events?flow=flow-1&limit=x", "")
	f(400, "eve", "GET", "/v1/inspect/view", "/v1/inspect/view?flow=flow-1&at=x", "")
	f(200, "eve", "GET", "/v1/inspect/agent", "/v1/inspect/agent?agent=planner", "")
	f(400, "eve", "GET", "/v1/inspect/agent", "/v1/inspect/agent?agent=planner&kind=x", "")
	f(404, "eve", "GET", "/v1/inspect/agent", "/v1/inspect/agent?agent=unknown", "")
	f(200, "eve", "GET", "/v1/inspect/key", fmt.Sprintf("/v1/inspect/key?key=%016x", xxhash.Sum64String("stopped")), "")
	f(400, "eve", "GET", "/v1/inspect/key", "/v1/inspect/key?key=x", "")
	f(404, "eve", "GET", "/v1/inspect/key", "/v1/inspect/key?key=0000000000000001", "")
	f(200, "", "POST", "/v1/inspect/signin", "", `{"Token":"`+secretOf("eve")+`"}`)
	f(400, "", "POST", "/v1/inspect/signin", "", `{`)
	f(401, "", "POST", "/v1/inspect/signin", "", `{"Token":"x"}`)
	f(200, "", "POST", "/v1/inspect/signout", "", ``)
	f(200, "eve", "POST", "/v1/inspect/play", "", `{"Text":"# a call\n@a a->b\n----\n"}`)
	f(400, "eve", "POST", "/v1/inspect/play", "", `{`)
	f(422, "eve", "POST", "/v1/inspect/play", "", `{"Text":"nonsense"}`)
	form := func(want int, body string) {
		f(want, "eve", "POST", "/v1/inspect/backtest", "", body, "Content-Type", "multipart/form-data; boundary=x")
	}
	part := func(name, text string) string {
		return "--x\r\nContent-Disposition: form-data; name=" + name + "\r\n\r\n" + text + "\r\n"
	}
	form(200, part("a", "profile: none")+part("b", "profile: balanced")+part("since", "1h")+"--x--\r\n")
	form(422, part("a", "nonsense: 1")+part("b", "profile: balanced")+part("since", "1h")+"--x--\r\n")
	passed := call("passed-on", 1, "a", "b")
	passed.Ask = true
	f(404, "dan", "POST", "/v1/asks", "", string(passed.AppendJSON(nil)))
	f(400, "dan", "POST", "/v1/asks", "", "{}")
	f(404, "dan", "POST", "/v1/asks/tree", "", "{}")
	f(404, "dan", "POST", "/v1/asks/approval", "", "{}")
	f(400, "dan", "POST", "/v1/asks/receipt", "", "{")
	// Redirects are followed by the client of the others.
	req := &http.Request{Method: "GET", URL: &url.URL{Scheme: "http", Host: r.Addr(), Path: "/"}, Header: http.Header{}}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	d.valid("GET", "/", reply{resp.StatusCode, resp.Header, ""})
}

// elsewhere calls what another weir answers: one in memory, one whose fold hangs, and one whose limits
// file is broken.
func (d *described) elsewhere() {
	limits := filepath.Join(d.t.TempDir(), "limits.yaml")
	if err := os.WriteFile(limits, []byte("profile: balanced\n"), 0o600); err != nil {
		d.t.Fatal(err)
	}
	h := beginHand(d.t, Options{LimitsFile: limits})
	if err := os.WriteFile(limits, []byte("profile: nothing\n"), 0o600); err != nil {
		d.t.Fatal(err)
	}
	d.valid("POST", "/-/reload", h.order("/-/reload", ""))
	const mark = `{"mark":"right","reason":"r","by":"ann"}`
	d.valid("POST", "/v1/flows/{id}/mark", h.order("/v1/flows/f/mark", mark))
	d.valid("POST", "/v1/inspect/mark", h.order("/v1/inspect/mark?flow=f", mark))
	h.folded()
	release := h.pump().Hold()
	h.want(h.do("POST", "/v1/events", lines(call("f", 1, "a", "b"))), 202)
	h.fake.Advance(time.Hour)
	d.valid("GET", "/healthz", h.do("GET", "/healthz", ""))
	release()
	h.folded()
	h.fake.Set(3 * time.Hour)
	d.valid("GET", "/readyz", h.do("GET", "/readyz", ""))
}
