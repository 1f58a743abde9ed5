package check

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir/events"
)

const (
	trace  = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
	modern = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_weather","arguments":{"location":"New York"},"_meta":{"traceparent":"` + trace + `","baggage":"weir.correlation_id=abc123","io.modelcontextprotocol/clientInfo":{"name":"ExampleClient","version":"1.0.0"}}}}`
	legacy = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":{"q":"x"}}}`
	a2a    = `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m1","contextId":"c1","taskId":"t1","role":"ROLE_USER","parts":[{"text":"hello"}]}}}`
)

// TestAuthzReads looks at the check that each kind of request becomes.
func TestAuthzReads(t *testing.T) {
	f := func(method, path, body string, header []string, want ...string) {
		t.Helper()
		var asked []string
		a := newAuthz(func(_ context.Context, ev *events.Event, raw []byte) (*events.Verdict, error) {
			var again events.Event
			if err := events.Decode(raw, &again); err != nil || !ev.Ask || ev.ID == "" || ev.Time != 1000 || ev.By() != events.OriginAgent {
				t.Errorf("asked with %s (%v)", raw, err)
			}
			callee := ev.Tool.Name
			if ev.Kind == events.AgentCall {
				callee = ev.To.Agent
			}
			tree := ""
			if ev.Root() != "" {
				tree = "in " + ev.RootCorrelationID + " by " + ev.ParentCorrelationID
			}
			asked = append(asked, strings.Join([]string{ev.CorrelationID, ev.CorrelationSource.String(), ev.From.Session + "/" + ev.From.Agent, callee, ev.TurnID}, " ")+tree)
			if strings.Contains(body, "arguments") && ev.Tool.ArgsHash.IsZero() || strings.Contains(body, "hello") && ev.Content.IsZero() {
				t.Errorf("nothing is known of the content: %s", raw)
			}
			return &events.Verdict{Mode: "enforce", Action: "allow"}, nil
		}, func(_ http.ResponseWriter, _ *http.Request, err error) { t.Error(err) }, func() time.Time { return time.UnixMilli(1000) })
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Host = "gw"
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		r, ok := FromGateway(r, true)
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		if !ok || w.Code != 200 || !reflect.DeepEqual(asked, want) {
			t.Errorf("%s %s %v: %d, asked %q, want %q", method, path, header, w.Code, asked, want)
		}
	}
	f("POST", "/authz/envoy/mcp", modern, nil, "abc123 baggage /ExampleClient get_weather ")
	f("POST", "/authz/envoy/mcp", modern, []string{"X-Correlation-Id", "x", "X-Goal-Turn", "2", "X-Agent-Id", "planner"}, "x explicit /planner get_weather 2")
	f("POST", "/authz/envoy/mcp", legacy, []string{"Mcp-Session-Id", "s1", "Traceparent", trace}, "s1 session s1/client search ")
	f("POST", "/authz/envoy/mcp", legacy, []string{"Traceparent", trace}, "0af7651916cd43dd8448eb211c80319c trace 0af7651916cd43dd8448eb211c80319c/client search ")
	f("POST", "/authz/envoy/mcp", legacy, []string{"Baggage", "a=b, correlation_id=q%20r;x"}, "q r baggage q r/client search ")
	f("POST", "/authz/envoy/mcp", legacy, []string{"Baggage", "correlation_id=q,parent_correlation_id=p,root_correlation_id=top"}, "q baggage q/client search in top by p")
	f("POST", "/authz/envoy/mcp", legacy, nil, "authz:client derived authz:client/client search ")
	f("POST", "/authz/envoy/mcp", "["+legacy+","+modern+"]", []string{"Mcp-Session-Id", "s1"}, "s1 session s1/client search ",
		"s1 principal s1/ get_weather ", "abc123 baggage s1/ExampleClient get_weather ")
	// Whatever flow the client names, the flow of what it cannot choose is checked as well: the
	// principal that the gateway reports, else the session, else where the client is.
	f("POST", "/authz/envoy/mcp", legacy, []string{"X-Correlation-Id", "x", "X-Agent-Id", "a", "Mcp-Session-Id", "s1", "Weir-Principal", "alice", "X-Forwarded-For", "1.1.1.1"},
		"principal:alice principal principal:alice/ search ", "x explicit s1/a search ")
	f("POST", "/authz/envoy/mcp", legacy, []string{"X-Correlation-Id", "x", "X-Session-Id", "y", "X-Forwarded-For", "1.1.1.1, 2.2.2.2"},
		"source:2.2.2.2 principal source:2.2.2.2/ search ", "x explicit y/client search ")
	f("POST", "/authz/envoy/mcp", legacy, []string{"X-Forwarded-For", "2.2.2.2"}, "source:2.2.2.2 derived source:2.2.2.2/client search ")
	f("POST", "/authz/envoy/mcp", legacy, []string{"Mcp-Session-Id", "s1", "X-Forwarded-For", "2.2.2.2"}, "s1 session s1/client search ")
	f("POST", "/authz/envoy/agents/coder", a2a, []string{"X-Agent-Id", "planner", "Mcp-Session-Id", "new", "X-Forwarded-For", "2.2.2.2"},
		"source:2.2.2.2 principal planner/ gw/agents/coder ", "c1 conversation new/planner gw/agents/coder ")
	// A client cannot name a flow that only gateways name.
	f("POST", "/authz/envoy/mcp", legacy, []string{"X-Correlation-Id", "principal:bob", "Mcp-Session-Id", "source:1.1.1.1", "Weir-Principal", "alice"},
		"principal:alice derived principal:alice/client search ")
	// A body that was cut or is not there: the headers count.
	f("POST", "/authz/envoy/mcp", modern[:60], []string{"Mcp-Method", "tools/call", "Mcp-Name", "search", "Mcp-Session-Id", "s1"}, "s1 session s1/client search ")
	f("GET", "/authz/caddy", "", []string{"X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/mcp", "Mcp-Method", "tools/call", "Mcp-Name", "search", "Mcp-Session-Id", "s1"}, "s1 session s1/client search ")
	f("GET", "/authz/caddy", "", []string{"X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/mcp", "Mcp-Method", "tools/list", "Mcp-Session-Id", "s1"}, "s1 session s1/client POST /mcp ")
	// What is no call.
	f("POST", "/authz/envoy/mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`, nil)
	f("POST", "/authz/envoy/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil)
	f("POST", "/authz/envoy/mcp", `{"jsonrpc":"2.0","id":4,"result":{}}`, nil)
	f("OPTIONS", "/authz/envoy/x", "", []string{"Access-Control-Request-Method", "POST"})
	f("GET", "/authz/envoy/.well-known/agent-card.json", "", nil)
	// Messages between agents.
	f("POST", "/authz/envoy/agents/coder", a2a, []string{"X-Agent-Id", "planner"}, "c1 conversation /planner gw/agents/coder ")
	f("POST", "/authz/envoy/agents/coder", strings.Replace(a2a, `"role"`, `"metadata":{"correlation_id":"f9"},"role"`, 1), []string{"X-Agent-Id", "planner", "X-To-Agent", "coder"}, "f9 explicit /planner coder ")
	f("POST", "/authz/envoy/x", "", []string{"X-To-Agent", "coder", "X-Agent-Id", "planner", "X-Correlation-Id", "f"}, "f explicit /planner coder ")
	// Plain requests are tools by their paths.
	f("GET", "/authz/envoy/search?q=1", "", []string{"X-Session-Id", "s"}, "s session s/client GET /search ")
	f("GET", "/authz/traefik", "", []string{"X-Forwarded-Method", "PUT", "X-Forwarded-Uri", "/a/../b?c", "X-Session-Id", "s", "X-Task-Id", "t"}, "s session s/client PUT /a/../b ")
	f("POST", "/authz/nginx", "", []string{"X-Original-Method", "POST", "X-Original-Uri", "/x", "X-Session-Id", "s\x01"}, "s session s/client POST /x ")
}

// TestAuthzReadsScopes holds that the scopes that a gateway reports for a call are in the check.
func TestAuthzReadsScopes(t *testing.T) {
	var asked events.Event
	a := newAuthz(func(_ context.Context, _ *events.Event, raw []byte) (*events.Verdict, error) {
		return &events.Verdict{Mode: "enforce", Action: "allow"}, events.Decode(raw, &asked)
	}, func(_ http.ResponseWriter, _ *http.Request, err error) { t.Error(err) }, time.Now)
	r := httptest.NewRequest("GET", "/authz/envoy/search", nil)
	for _, name := range []string{"Task", "Project", "Team", "Tenant", "Turn", "Session"} {
		r.Header.Set("X-"+name+"-Id", "the "+name)
	}
	r, _ = FromGateway(r, true)
	a.ServeHTTP(httptest.NewRecorder(), r)
	if got := []string{asked.TaskID, asked.ProjectID, asked.TeamID, asked.TenantID, asked.TurnID, asked.CorrelationID}; !reflect.DeepEqual(got, []string{"the Task", "the Project", "the Team", "the Tenant", "the Turn", "the Session"}) {
		t.Errorf("asked for %q", got)
	}
}

// TestHeadersHideNoCall holds that nothing in the headers, in an unusual path or in a cut or
// ambiguous body makes a request pass as less than a call.
func TestHeadersHideNoCall(t *testing.T) {
	const twice = `{"jsonrpc":"2.0","id":1,"method":"tools/call","Method":"ping","params":{"name":"rm"}}`
	long := strings.Replace(legacy, `"x"`, `"`+strings.Repeat("y", maxForwarded)+`"`, 1)
	nginx := func(method, path string, more ...string) []string {
		return append([]string{"X-Original-Method", method, "X-Original-Uri", path}, more...)
	}
	for name, c := range map[string]struct {
		method, path, body string
		header             []string
	}{
		"a method of the protocol":    {"GET", "/authz/nginx", "", nginx("POST", "/mcp", "Mcp-Method", "ping")},
		"a list of tools":             {"GET", "/authz/nginx", "", nginx("POST", "/mcp", "Mcp-Method", "tools/list")},
		"another case":                {"GET", "/authz/nginx", "", nginx("POST", "/mcp", "Mcp-Method", "TOOLS/CALL")},
		"two methods in one line":     {"GET", "/authz/nginx", "", nginx("POST", "/mcp", "Mcp-Method", "tools/call, ping")},
		"a session in a GET":          {"GET", "/authz/nginx", "", nginx("GET", "/tool?x=1", "Mcp-Session-Id", "x")},
		"a version in a DELETE":       {"GET", "/authz/nginx", "", nginx("DELETE", "/tool", "Mcp-Protocol-Version", "x")},
		"HEAD":                        {"GET", "/authz/nginx", "", nginx("HEAD", "/tool?do=1")},
		"OPTIONS without a preflight": {"GET", "/authz/nginx", "", nginx("OPTIONS", "/tool?do=1")},
		"dots":                        {"GET", "/authz/nginx", "", nginx("GET", "/.well-known/../mcp")},
		"escaped dots":                {"GET", "/authz/nginx", "", nginx("GET", "/.well-known/%2e%2e/mcp")},
		"dots with a parameter":       {"GET", "/authz/nginx", "", nginx("GET", "/.well-known/..;/mcp")},
		"backslashes":                 {"GET", "/authz/nginx", "", nginx("GET", `/.well-known/..\mcp`)},
		"a POST below well-known":     {"GET", "/authz/nginx", "", nginx("POST", "/.well-known/x")},
		"a client's forwarded path":   {"GET", "/authz/nginx", "", nginx("POST", "/mcp", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/.well-known/x")},
		"the same by Envoy":           {"POST", "/authz/envoy/mcp", "", []string{"X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/.well-known/x"}},
		"an original method by Envoy": {"POST", "/authz/envoy/mcp", "", []string{"X-Original-Method", "OPTIONS", "Access-Control-Request-Method", "GET"}},
		"a ping in the body of a GET": {"GET", "/authz/envoy/tool", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, nil},
		"a cut body":                  {"POST", "/authz/envoy/mcp", legacy[:len(legacy)-3], []string{"Mcp-Method", "ping"}},
		"a body that is too long":     {"POST", "/authz/envoy/mcp", long, []string{"Mcp-Method", "ping"}},
		"a method in two spellings":   {"POST", "/authz/envoy/mcp", twice, nil},
		"a method in two, in a batch": {"POST", "/authz/envoy/mcp", "[" + twice + "]", nil},
		"an empty batch":              {"POST", "/authz/envoy/mcp", "[]", []string{"Mcp-Method", "ping"}},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			a := newAuthz(func(context.Context, *events.Event, []byte) (*events.Verdict, error) {
				asked++
				return &events.Verdict{Mode: "enforce", Action: "allow"}, nil
			}, func(_ http.ResponseWriter, _ *http.Request, err error) { t.Error(err) }, func() time.Time { return time.UnixMilli(1000) })
			r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
			for i := 0; i < len(c.header); i += 2 {
				r.Header.Set(c.header[i], c.header[i+1])
			}
			r.Header.Set("X-Correlation-Id", "f")
			r, _ = FromGateway(r, true)
			a.ServeHTTP(httptest.NewRecorder(), r)
			if asked == 0 {
				t.Error("no check was made")
			}
		})
	}
}

// TestSentAgain looks at calls that the answer to the one before asked to send again: MCP's
// input_required, with what was asked for, and with the state of the server alone.
func TestSentAgain(t *testing.T) {
	for params, again := range map[string]bool{
		`"inputResponses":{"q":{"action":"accept"}},`: true,
		`"requestState":"s1",`:                        true,
		`"requestState":"s1","inputResponses":null,`:  true,
		`"requestState":"",`:                          true,
		`"requestState":null,"inputResponses":null,`:  false,
		``: false,
	} {
		asked := 0
		a := newAuthz(func(_ context.Context, ev *events.Event, _ []byte) (*events.Verdict, error) {
			asked++
			if got := ev.Tool.RetryOf != ""; got != again {
				t.Errorf("%s: sent again %v, want %v", params, got, again)
			}
			return &events.Verdict{Mode: "enforce", Action: "allow"}, nil
		}, func(_ http.ResponseWriter, _ *http.Request, err error) { t.Error(err) }, time.Now)
		r, _ := FromGateway(httptest.NewRequest("POST", "/authz/envoy/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{`+params+`"name":"wait","arguments":{}}}`)), true)
		a.ServeHTTP(httptest.NewRecorder(), r)
		if asked == 0 {
			t.Errorf("%s: nothing was asked", params)
		}
	}
}

func TestAuthzRefuses(t *testing.T) {
	deny := &events.Verdict{ID: "v1", Mode: "enforce", Action: "deny", Reason: "max_tool_calls_exceeded", HTTPStatus: 429, Message: "no", AgentMessage: "Stop.", RetryAfterS: 3}
	f := func(path, body string, v *events.Verdict, status int, contentType, part string, header ...string) {
		t.Helper()
		a := newAuthz(func(context.Context, *events.Event, []byte) (*events.Verdict, error) {
			if v == nil {
				return nil, ErrTimeout
			}
			return v, nil
		}, func(w http.ResponseWriter, _ *http.Request, err error) {
			status := http.StatusServiceUnavailable
			if e, ok := err.(*Error); ok {
				status = e.Status
			}
			http.Error(w, err.Error(), status)
		}, time.Now)
		r := httptest.NewRequest("POST", path, strings.NewReader(body))
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		r, _ = FromGateway(r, true)
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		if w.Code != status || w.Header().Get("Content-Type") != contentType || !strings.Contains(w.Body.String(), part) {
			t.Errorf("%s: %d %s %s", path, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
		if v == deny && (w.Header().Get("Retry-After") != "3" || w.Header().Get("Weir-Status") != "429" || w.Header().Get("Cache-Control") != "no-store") {
			t.Errorf("%s: headers %v", path, w.Header())
		}
	}
	const problem, plain = "application/problem+json", "text/plain; charset=utf-8"
	f("/authz/envoy/mcp", legacy, deny, 429, problem, `"reason_code":"max_tool_calls_exceeded"`)
	f("/authz/envoy/mcp", legacy, deny, 429, "application/json", `{"reason_code":`, "Weir-Deny", "bare")
	f("/authz/traefik?deny=bare", legacy, deny, 429, "application/json", `{"reason_code":`)
	f("/authz/traefik?deny=tool_error", legacy, deny, 429, "application/json", `"isError":true`) // 200 would be an allowance
	f("/authz/traefik?deny=jsonrpc", legacy, deny, 429, "application/json", `"code":4290`)
	f("/authz/nginx", legacy, deny, 403, problem, `"status":429`)
	f("/authz/traefik?deny=gown", legacy, &events.Verdict{}, 400, plain, "gown")
	f("/authz/traefik", legacy, nil, 503, plain, "takes too long")
	f("/authz/traefik", legacy, &events.Verdict{Mode: "shadow", Action: "deny"}, 200, "", "")
	f("/authz/traefik", "["+strings.Repeat(legacy+",", 70)+legacy+"]", &events.Verdict{Mode: "enforce", Action: "allow"}, 413, plain, "too many")
}

func TestFromGateway(t *testing.T) {
	r := httptest.NewRequest("POST", "/v1/check", nil)
	if got, ok := FromGateway(r, true); ok || got != r {
		t.Error("another request was changed")
	}
	r = httptest.NewRequest("POST", "/authz/envoy//a/../b?deny=bare", nil)
	r.Host = "shop.example"
	r.Header.Set("Authorization", "Bearer of the client")
	r.Header.Set("Origin", "https://evil.example")
	r.Header.Set("Weir-Token", "secret")
	got, ok := FromGateway(r, true)
	if !ok || got.URL.Path != "/authz/envoy" || got.URL.RawQuery != "" || got.Host != "localhost" || got.Header.Get("X-Original-Uri") != "//a/../b" ||
		got.Header.Get("X-Forwarded-Host") != "shop.example" || got.Header.Get("Origin") != "" || got.Header.Get("Authorization") != "Bearer secret" {
		t.Errorf("%v %v", got.URL, got.Header)
	}
	if got, _ := FromGateway(r, false); got.Host != "shop.example" || got.Header.Get("Origin") != "https://evil.example" || got.Header.Get("Authorization") != "Bearer secret" {
		t.Errorf("of one that is not trusted: %v %v", got.Host, got.Header)
	}
}

// TestManyMembersTakeLittle reads bodies of a megabyte in which nothing stands three hundred
// thousand times.
func TestManyMembersTakeLittle(t *testing.T) {
	empties := strings.Repeat("{},", 330_000) + "{}"
	for what, body := range map[string]string{
		"a batch": "[" + empties + "]",
		"parts":   `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"m","parts":[` + empties + `]}}}`,
	} {
		text := []byte(body)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		list, err := messages(text)
		for i := range list {
			list[i].agentCall(new(events.Event), new(said))
		}
		runtime.ReadMemStats(&after)
		if most := uint64(12 * len(text)); after.TotalAlloc-before.TotalAlloc > most {
			t.Errorf("%s of %d bytes takes %d, want at most %d (%v)", what, len(text), after.TotalAlloc-before.TotalAlloc, most, err)
		}
	}
}
