package app

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/sink/inspect"
)

// pingPong is n calls to and fro in a flow.
func pingPong(flow string, n int) []*events.Event {
	var evs []*events.Event
	for i := range n {
		from, to := "a", "b"
		if i%2 == 1 {
			from, to = to, from
		}
		ev := call(flow, i+1, from, to)
		ev.HadWork = events.No
		evs = append(evs, ev)
	}
	return evs
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestInspectorTellsAFlow(t *testing.T) {
	r := begin(t, Options{})
	for _, flow := range []string{"f", "..", "<script>\u202e/?#"} {
		r.want(r.do("POST", "/v1/events", lines(pingPong(flow, 14)...)), 202)
	}
	r.folded()
	for _, flow := range []string{"f", "..", "<script>\u202e/?#"} {
		query := "?flow=" + url.QueryEscape(flow)
		var tale struct {
			View analyzer.View
			inspect.Tale
		}
		r.get("/v1/inspect/tale"+query, &tale)
		if tale.View.Flow != flow || tale.View.Status != "stopped" || len(tale.Steps) != 14 || tale.Counted != 14 || len(tale.Said) == 0 {
			t.Errorf("%q: %+v", flow, tale)
		}
		if n := strings.Count(r.do("GET", "/v1/inspect/events"+query, "").body, "\n"); n != 14 {
			t.Errorf("%q: %d events", flow, n)
		}
		r.want(r.do("GET", "/v1/inspect/flow"+query, ""), 200, `"status":"stopped"`)
		for at := range 15 {
			var view analyzer.View
			r.get(fmt.Sprintf("/v1/inspect/view%s&at=%d", query, at), &view)
			if view.Events != int64(at) || view.Hops != int64(at) || at == 14 && asJSON(t, view) != asJSON(t, tale.View) {
				t.Errorf("%q after %d: %+v", flow, at, view)
			}
		}
		r.want(r.do("GET", "/v1/inspect/case"+query, ""), 200, "a->b[work=no]", "----", "deny a2a_ping_pong")
		r.want(r.do("GET", fmt.Sprintf("/v1/inspect/key?key=%016x", xxhash.Sum64String(flow)), ""), 200, `"flow":`)
	}
	r.want(r.do("GET", "/v1/inspect/tale?flow=nobody", ""), 404, "nothing is known")
	r.want(r.do("GET", "/v1/inspect/tale", ""), 404)
	r.want(r.do("GET", "/v1/inspect/key?key=xyz", ""), 400)
	r.want(r.do("GET", "/v1/inspect/key?key=0", ""), 404)
}

func TestInspectorPlaysAndCompares(t *testing.T) {
	r := begin(t, Options{})
	f := func(path, body string, status int, parts ...string) {
		t.Helper()
		r.want(r.do("POST", path, body), status, parts...)
	}
	r.want(r.do("GET", "/v1/inspect/scenarios", ""), 200, `"gateway_s1"`, `"gateway_s4"`, `"delegation_guard"`)
	r.want(r.do("GET", "/v1/inspect/limits", ""), 200, "profile: balanced")
	f("/v1/inspect/play", `{"text":"# x\n@1 1->2\n----\n"}`, 200, `"steps":[{"n":1`)
	f("/v1/inspect/play", `{"text":"# x\n@1 1-\n----\n"}`, 422, "scenario:2")
	f("/v1/inspect/play", `{"txt":""}`, 400)
	f("/v1/inspect/play", `{"text":"`+strings.Repeat("x", 8<<20)+`"}`, 413)
	log := strings.NewReplacer("\n", `\n`, `"`, `\"`).Replace(lines(pingPong("f", 14)...))
	f("/v1/inspect/compare", `{"log":"`+log+`","a":"profile: balanced","b":"profile: none"}`, 200, `"format":"canonical"`, `"only_a":1`, `"flow":"f"`)
	f("/v1/inspect/compare", `{"log":"`+log+`","a":"profile: balanced","b":"rules: 1"}`, 422, "limits B")
	f("/v1/inspect/compare", `{"log":"nothing","a":"profile: balanced","b":"profile: none"}`, 422, "log")
	var list pump.FlowList
	if r.get("/v1/flows", &list); len(list.Flows) != 0 {
		t.Errorf("what was played is among the flows: %+v", list)
	}
}

// TestInspectorPage serves the page with a policy of its own, and all else with the
// strict one.
func TestInspectorPage(t *testing.T) {
	r := begin(t, Options{})
	got := r.do("GET", "/", "")
	r.want(got, 200, "<title>weir</title>")
	if policy := got.header.Get("Content-Security-Policy"); policy != inspect.Policy {
		t.Errorf("policy of the page: %s", policy)
	}
	r.want(r.do("GET", "/ui/assets/nothing.js", ""), 404)
	r.want(r.do("GET", "/ui/", "", "Host", "evil.example"), 421)
	if policy := r.do("GET", "/v1/inspect/scenarios", "").header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; frame") {
		t.Errorf("policy of data: %s", policy)
	}
}
