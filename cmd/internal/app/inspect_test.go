package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

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
		var timeline struct {
			View analyzer.View
			inspect.Timeline
		}
		r.get("/v1/inspect/timeline"+query, &timeline)
		if timeline.View.Flow != flow || timeline.View.Status != "stopped" || len(timeline.Steps) != 14 || timeline.Counted != 14 || len(timeline.Said) == 0 {
			t.Errorf("%q: %+v", flow, timeline)
		}
		if n := strings.Count(r.do("GET", "/v1/inspect/events"+query, "").body, "\n"); n != 14 {
			t.Errorf("%q: %d events", flow, n)
		}
		r.want(r.do("GET", "/v1/inspect/flow"+query, ""), 200, `"status":"stopped"`)
		for at := range 15 {
			var view analyzer.View
			r.get(fmt.Sprintf("/v1/inspect/view%s&at=%d", query, at), &view)
			if view.Events != int64(at) || view.Hops != int64(at) || at == 14 && asJSON(t, view) != asJSON(t, timeline.View) {
				t.Errorf("%q after %d: %+v", flow, at, view)
			}
		}
		r.want(r.do("GET", "/v1/inspect/case"+query, ""), 200, "a->b[work=no]", "----", "deny a2a_ping_pong")
		r.want(r.do("GET", fmt.Sprintf("/v1/inspect/key?key=%016x", xxhash.Sum64String(flow)), ""), 200, `"flow":`)
	}
	r.want(r.do("GET", "/v1/inspect/timeline?flow=nobody", ""), 404, "nothing is known")
	r.want(r.do("GET", "/v1/inspect/timeline", ""), 404)
	r.want(r.do("GET", "/v1/inspect/key?key=xyz", ""), 400)
	r.want(r.do("GET", "/v1/inspect/key?key=0", ""), 404)
}

func TestInspectorPlays(t *testing.T) {
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
	var list pump.FlowList
	if r.get("/v1/flows", &list); len(list.Flows) != 0 {
		t.Errorf("what was played is among the flows: %+v", list)
	}
}

// TestInspectorBacktest tries two limits on logs that are sent and on the log of weir.
func TestInspectorBacktest(t *testing.T) {
	r := begin(t, Options{})
	ask := func(status int, parts [][2]string, want ...string) string {
		t.Helper()
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		for _, p := range parts {
			var w io.Writer
			var err error
			if p[0] == "log" {
				w, err = form.CreateFormFile("log", "a.jsonl")
			} else {
				w, err = form.CreateFormField(p[0])
			}
			if err == nil {
				_, err = io.WriteString(w, p[1])
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := form.Close(); err != nil {
			t.Fatal(err)
		}
		got := r.do("POST", "/v1/inspect/backtest", body.String(), "Content-Type", form.FormDataContentType())
		r.want(got, status, want...)
		return got.body
	}
	limits := [][2]string{{"a", "profile: balanced"}, {"b", "profile: none"}}
	with := func(parts ...[2]string) [][2]string { return append(slices.Clone(limits), parts...) }
	log := lines(pingPong("f", 14)...)
	ask(200, with([2]string{"log", log}), `"flows_stopped":1`, `"differ":1`, `"flow":"f"`, `"format":"canonical"`)
	ask(200, with([2]string{"log", log}, [2]string{"log", lines(pingPong("g", 14)...)}, [2]string{"log", "notes\n"}), `"flows":2`, `"why":"a.jsonl`)
	ask(200, [][2]string{limits[1], {"a", "profile: none"}, {"b", "profile: balanced"}, {"marks", `{"flow":"f","mark":"wrong"}`}, {"log", log}}, `"stopped_again":["f"]`, `"mark":"wrong"`)
	ask(200, with([2]string{"suggest", "1"}, [2]string{"log", log}), `"no_suggestion":"the log has 0 honest flows with calls`)
	ask(200, with([2]string{"suggest", "1"}, [2]string{"log", lines(pingPong("h", 3)...)}), `"suggested_limits":"profile: balanced`)
	ask(422, with([2]string{"suggest", "0"}, [2]string{"log", log}), "suggest: ")
	ask(422, [][2]string{{"a", "profile: balanced"}, {"b", "rules: 1"}, {"log", log}}, "limits B")
	ask(422, [][2]string{{"log", log}}, "have to come before")
	ask(422, with(), "there is no event in it: no log was given")
	ask(422, with([2]string{"since", "1h"}), "no event came into the log of this weir in that time")
	ask(422, with([2]string{"log", "nothing"}), "there is no event in it: a.jsonl")
	ask(422, with([2]string{"marks", "nothing"}), "marks: line 1")
	padded := "profile: balanced\n" + strings.Repeat("#", 1<<20) + "\nrules: {max_total_calls: {max: 1}}\n"
	ask(413, [][2]string{limits[0], {"b", padded}, {"log", log}}, "limits B: has more than 1048576 bytes")
	ask(413, with([2]string{"marks", `{"flow":"f","mark":"wrong"}` + strings.Repeat("\n", 1<<20)}), "marks: has more than")
	ask(422, with([2]string{"since", "yesterday"}), "no span of time")
	r.want(r.do("POST", "/v1/inspect/backtest", "x"), 400, "not as the page asks")

	// More than any body that weir takes otherwise.
	var long strings.Builder
	for i := range 60_000 {
		for _, ev := range pingPong(fmt.Sprint("h", i%50), 1) {
			ev.ID = fmt.Sprint(ev.ID, "-", i)
			long.WriteString(lines(ev))
		}
	}
	if long.Len() <= 8<<20 {
		t.Fatalf("the log has only %d bytes", long.Len())
	}
	ask(200, with([2]string{"log", long.String()}), `"flows":50`)

	var list pump.FlowList
	if r.get("/v1/flows", &list); len(list.Flows) != 0 {
		t.Errorf("what was tried is among the flows: %+v", list)
	}
	r.want(r.do("POST", "/v1/events", log), 202)
	// A clock that is three hours ahead makes no flow old, neither here nor when it came.
	for i := range 16 {
		ev := call("ahead", i+1, "a", "b")
		ev.Time, ev.HadWork = events.StampOf(time.Now().Add(time.Duration(i)*9*time.Minute)), events.Yes
		r.want(r.do("POST", "/v1/events", lines(ev)), 202)
	}
	ask(200, with([2]string{"since", "0"}), `"the log of this weir"`, `"differ":1`)
	ask(200, with([2]string{"since", "1h"}), `"the log of this weir"`)
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

// TestFlowsOfAnEmptyWeir holds that the list has all of its fields before the first event.
func TestFlowsOfAnEmptyWeir(t *testing.T) {
	r := begin(t, Options{})
	r.want(r.do("GET", "/v1/flows?sort=near", ""), 200, `"flows":[]`, `"scanned":0`, `"statuses":{}`)
	if list := r.do("GET", "/v1/flows", ""); strings.Contains(list.body, "statuses") {
		t.Errorf("statuses are listed without having been counted: %s", list.body)
	}
}

// TestUnjudgedRulesOfAFlow holds that a rule which measured something in a flow is not listed as
// unjudged, and that a list of flows shows the value at which a flow was stopped.
func TestUnjudgedRulesOfAFlow(t *testing.T) {
	r := begin(t, Options{})
	evs := pingPong("f", 40)
	for i := range evs {
		evs[i].Content = events.Hash{Algorithm: events.XXH64, Value: 7}
	}
	back := *evs[len(evs)-1]
	back.ID, back.Kind, back.HadWork = "back", events.AgentReturn, events.Unknown
	r.want(r.do("POST", "/v1/events", lines(append(evs, &back)...)), 202)
	r.folded()
	var timeline struct {
		View  analyzer.View
		Blind string
	}
	r.get("/v1/inspect/timeline?flow=f", &timeline)
	if timeline.View.Status != "stopped" || len(timeline.View.Orders) == 0 {
		t.Fatalf("the flow is %s", timeline.View.Status)
	}
	t.Logf("%q", timeline.Blind)
	for _, c := range timeline.View.Counters {
		if c.Observed > 0 && strings.Contains(timeline.Blind, c.Rule) {
			t.Errorf("%s measured %v and is listed as unjudged: %s", c.Rule, c.Observed, timeline.Blind)
		}
	}
	for _, o := range timeline.View.Orders {
		if strings.Contains(timeline.Blind, o.RuleID) {
			t.Errorf("%s stopped the flow and is listed as unjudged: %s", o.RuleID, timeline.Blind)
		}
	}
	var list pump.FlowList
	r.get("/v1/flows?sort=near", &list)
	stop, at := list.Flows[0].Stop, slices.IndexFunc(timeline.View.Orders, func(o events.Verdict) bool { return o.Stops() })
	if at < 0 || stop == nil || stop.Rule != timeline.View.Orders[at].RuleID || stop.Observed != *timeline.View.Orders[at].Observed || stop.Limit != *timeline.View.Orders[at].Limit {
		t.Errorf("the list shows the stop %+v; the orders are %+v", stop, timeline.View.Orders)
	}
}
