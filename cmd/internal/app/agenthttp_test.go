package app

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/analyzer/agents"
	"weir/analyzer/limitfile"
	"weir/cmd/internal/api"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/intake"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/state"
)

// beginAgents is an app that frees stuck agents, and a client with its admin token.
func beginAgents(t *testing.T, o Options) hand {
	t.Helper()
	limits, err := limitfile.Parse("test", []byte("profile: recovery\n"))
	if err != nil {
		t.Fatal(err)
	}
	o.Limits = limits
	h := beginHand(t, o)
	// It serves before it is ready, and says of agents that it is not.
	for h.do("GET", "/readyz", "").status != 200 {
		runtime.Gosched()
	}
	return h
}

// reports is what an agent says of itself at this moment.
func (h hand) reports(agent, margin string) {
	h.t.Helper()
	h.asked++
	ev := &events.Event{ID: fmt.Sprint("status", h.asked), Source: "test", Time: events.StampOf(h.fake.Now()), Kind: events.AgentStatus, From: events.Party{Agent: agent},
		AgentState: &events.AgentState{Status: "active", Margin: margin, Health: "healthy", Coherence: 0.9, HasCoherence: true, Risk: 0.1, HasRisk: true}}
	h.want(h.do("POST", "/v1/events", lines(ev)), 202, `"accepted":1`)
}

// quiet lets time pass in which no agent says anything, until weir gives its n-th verdict.
func (h hand) quiet(d time.Duration, n int64) {
	h.t.Helper()
	h.fake.Advance(d)
	h.asked++
	ev := call("elsewhere", h.asked, "a", "b")
	ev.Time = events.StampOf(h.fake.Now())
	h.want(h.do("POST", "/v1/events", lines(ev)), 202)
	select {
	case <-h.verdicts.Ready(n - 1):
	case <-time.After(20 * time.Second):
		h.t.Fatalf("there is no verdict %d: %s", n, h.do("GET", "/v1/agents", "").body)
	}
}

// told returns the answer to a request about an agent, and the verdicts in it.
func (h hand) told(path, body string, header ...string) (a api.AgentAnswer, said []events.Verdict) {
	h.t.Helper()
	got := h.do("POST", path, body, header...)
	h.want(got, 202)
	if err := json.Unmarshal([]byte(got.body), &a); err != nil {
		h.t.Fatal(err)
	}
	for _, raw := range a.Verdicts {
		var v events.Verdict
		if err := events.DecodeVerdict(raw, &v); err != nil {
			h.t.Fatal(err)
		}
		said = append(said, v)
	}
	return a, said
}

func names(list pump.AgentList) (out []string) {
	for _, a := range list.Agents {
		out = append(out, a.Agent)
	}
	return out
}

func TestStuckAgent(t *testing.T) {
	h := beginAgents(t, Options{})
	h.reports("planner", "critical")
	h.fake.Advance(time.Minute)
	h.reports("writer", "comfortable")
	h.reports("..", "comfortable")
	h.quiet(8*time.Minute, 1)

	var list pump.AgentList
	h.get("/v1/agents?stuck=1", &list)
	if len(list.Agents) != 1 || list.Stuck != 1 || list.Truncated || list.LowWatermark == 0 {
		t.Fatalf("stuck are %+v", list)
	}
	if a := list.Agents[0]; a.Agent != "planner" || a.Kind != "agent" || a.State != "stuck" || a.Certainty != "stuck" || a.Reason != events.CriticalMarginTimeout ||
		a.Step != "resume" || a.AgeS < 300 || a.Since != a.Last+300_001 || a.Notes != 1 {
		t.Errorf("stuck is %+v", a)
	}
	h.get("/v1/agents", &list)
	if got := names(list); len(got) < 3 || got[0] != "planner" || !slices.Contains(got, "writer") || list.Stuck != 1 {
		t.Errorf("agents are %q", got)
	}
	h.get("/v1/agents?limit=1", &list)
	if got := names(list); !slices.Equal(got, []string{"planner"}) || list.Scanned < 3 {
		t.Errorf("the first agent is %q of %d", got, list.Scanned)
	}
	var view agents.View
	h.get("/v1/agents/planner", &view)
	if view.State != "stuck" || view.Reason != events.CriticalMarginTimeout || view.Margin != "critical" || view.Reports != 1 || view.SilentS < 300 || len(view.Notes) != 1 {
		t.Errorf("planner is %+v", view)
	}
	h.get("/v1/inspect/agent?agent=..", &view)
	if view.Agent != ".." || view.State == "stuck" {
		t.Errorf("the agent with the odd name is %+v", view)
	}
	h.want(h.do("GET", "/v1/agents/nobody", ""), 404, `nothing is known of agent \"nobody\"`)
	h.want(h.do("GET", "/v1/agents/planner?kind=project", ""), 404, "project")
	h.want(h.do("GET", "/v1/inspect/agent", ""), 404)
	h.want(h.do("GET", "/v1/agents?stuck=maybe", ""), 400, "want 1 or 0")
	h.want(h.do("GET", "/v1/agents?kind=flow", ""), 400, "want agent, project or tree")
	h.want(h.do("GET", "/v1/agents?limit=-1", ""), 400, "not a number")
	h.want(h.do("GET", "/v1/agents?kind=project", ""), 200, `"agents":[]`)

	// It speaks again, and is stuck no more.
	before := h.verdicts.End()
	h.reports("planner", "comfortable")
	<-h.verdicts.Ready(before)
	h.get("/v1/agents?stuck=1", &list)
	if len(list.Agents) != 0 || list.Stuck != 0 {
		t.Errorf("stuck are %+v", list)
	}
}

func TestRescue(t *testing.T) {
	h := beginAgents(t, Options{IntakeTokenFile: tokenFile(t, intakeSecret)})
	path, asker, boss := "/v1/agents/planner/rescue", []string{"Authorization", "Bearer " + intakeSecret}, []string{"Authorization", "Bearer " + adminSecret}
	report := &events.Event{ID: "report", Source: "test", Time: events.StampOf(h.fake.Now()), Kind: events.AgentStatus, From: events.Party{Agent: "planner"},
		AgentState: &events.AgentState{Status: "active"}}
	h.want(h.do("POST", "/v1/events", lines(report), asker...), 202)

	// Any sender of events may ask, and is refused while the agent works.
	h.want(h.do("POST", path, `{"reason":"no answer","by":"ann"}`), 401, "send the token")
	a, said := h.told(path, `{"reason":"no answer","by":"ann"}`, asker...)
	if a.Kind != "rescue.request" || a.Agent != "planner" || a.By != "ann" || a.Admin || len(said) != 1 || said[0].Reason != events.RescueRefusedNotStuck || said[0].Agent != "planner" {
		t.Errorf("answered %+v %+v", a, said)
	}
	if a, said = h.told("/v1/agents/nobody/rescue", `{"reason":"no answer","by":"ann"}`, asker...); !a.New || len(said) != 1 || said[0].Reason != events.RescueRefusedNotStuck {
		t.Errorf("answered %+v %+v", a, said)
	}

	// Only with the admin token is there no check that it is stuck, here or by an event.
	claim := `{"reason":"its host is gone","by":"ann","admin":true}`
	h.want(h.do("POST", path, claim, asker...), 401, "is not the admin token")
	ev := &events.Event{ID: "claim", Source: "test", Time: events.StampOf(h.fake.Now()), Kind: events.RescueRequest, From: events.Party{Agent: "ann"}, To: events.Party{Agent: "planner"},
		Rescue: &events.Rescue{Reason: "a claim", Admin: true}}
	h.want(h.do("POST", "/v1/events", lines(ev), asker...), 400, "reserved_kind", "rescue.admin", "only who has the admin token")
	for _, line := range h.journalLines() {
		if strings.Contains(line, `"admin":true`) {
			t.Errorf("refused, and in the journal: %s", line)
		}
	}
	if a, said = h.told(path, claim, boss...); !a.Admin || len(said) == 0 || said[0].Reason != events.RescueRequested || said[0].Recovery == nil || said[0].Recovery.RequestedBy != "ann" {
		t.Errorf("answered %+v %+v", a, said)
	}
	ev.Rescue.Admin = false
	h.want(h.do("POST", "/v1/events", lines(ev), asker...), 202)
	ev.ID, ev.Rescue.Admin = "claim2", true
	h.want(h.do("POST", "/v1/events", lines(ev), boss...), 202, `"accepted":1`)

	f := func(body string, status int, parts ...string) {
		t.Helper()
		h.want(h.do("POST", path, body, asker...), status, parts...)
	}
	f(`{"by":"ann"}`, 400, `"field":"reason"`)
	f(`{"reason":"x"}`, 400, `"field":"by"`)
	f(`{"reason":"x","by":"ann","for_s":1}`, 400, "unknown field")
	f(`{"reason":"`+strings.Repeat("x", events.MaxReason+1)+`","by":"ann"}`, 400, "too_long")
	f(`{"reason":"x","by":"`+strings.Repeat("x", events.MaxID+1)+`"}`, 400, "from.agent")
}

// TestRescueOfAStuckAgent asks when weir only reports it, and then while help is under way.
func TestRescueOfAStuckAgent(t *testing.T) {
	h := beginHand(t, Options{})
	h.reports("planner", "critical")
	h.quiet(7*time.Minute, 1)
	a, said := h.told("/v1/agents/planner/rescue", `{"reason":"no answer","by":"ann"}`)
	if a.New || len(said) != 1 || said[0].Action != "resume" || said[0].Reason != events.RescueRequested {
		t.Errorf("answered %+v %+v", a, said)
	}
	if a, said = h.told("/v1/agents/planner/rescue", `{"reason":"still no answer","by":"bob"}`); len(said) != 0 {
		t.Errorf("answered %+v %+v", a, said)
	}
}

func TestNotes(t *testing.T) {
	h := beginAgents(t, Options{})
	h.reports("planner", "comfortable")
	h.reports("writer", "comfortable")
	h.folded()
	leave := func(body string) api.AgentAnswer {
		t.Helper()
		a, _ := h.told("/v1/notes", body)
		h.folded()
		h.fake.Advance(time.Second)
		return a
	}
	if a := leave(`{"agent":"planner","author":"ann","tags":["plan","stuck"],"summary":"first"}`); a.Kind != "note" || a.Agent != "planner" || a.By != "ann" || a.New || len(a.Verdicts) != 0 {
		t.Errorf("answered %+v", a)
	}
	if a := leave(`{"author":"writer","tags":["plan"],"summary":"second"}`); a.Agent != "writer" {
		t.Errorf("answered %+v", a)
	}
	leave(`{"agent":"planner","author":"bob","summary":"third"}`)
	f := func(query string, want ...string) {
		t.Helper()
		var list pump.NoteList
		h.get("/v1/notes?"+query, &list)
		var got []string
		for _, n := range list.Notes {
			got = append(got, n.Agent+" "+n.Author+" "+n.Summary)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	f("", "planner bob third", "writer writer second", "planner ann first")
	f("limit=1", "planner bob third")
	f("tag=plan", "writer writer second", "planner ann first")
	f("tag=plan&tag=stuck", "planner ann first")
	f("tag=pla")
	f("agent=planner", "planner bob third", "planner ann first")
	f("agent=planner&tag=plan", "planner ann first")
	f("agent=nobody")

	// Who is stuck and wants help says so in a note, for himself or for another.
	a, said := h.told("/v1/notes", `{"agent":"planner","author":"writer","tags":["stuck","help"],"summary":"it does not answer"}`)
	if len(said) != 1 || said[0].Reason != events.RescueRefusedNotStuck {
		t.Errorf("answered %+v %+v", a, said)
	}
	if _, said = h.told("/v1/notes", `{"author":"writer","tags":["help","stuck"],"summary":"I wait for a key"}`); len(said) != 1 || said[0].Agent != "writer" {
		t.Errorf("answered %+v", said)
	}
	bad := func(body string, parts ...string) {
		t.Helper()
		h.want(h.do("POST", "/v1/notes", body), 400, parts...)
	}
	bad(`{"summary":"x"}`, `"field":"author"`)
	bad(`{"author":"ann","summary":" "}`, `"field":"summary"`)
	bad(`{"author":"ann","summary":"x","tag":"y"}`, "unknown field")
	bad(`{"author":"ann","summary":"x","tags":["`+strings.Repeat("x", events.MaxTag+1)+`"]}`, "too_long")
	bad(`{"author":"ann","summary":"`+strings.Repeat("x", events.MaxReason+1)+`"}`, "too_long")
}

// TestFilesHaveNoAdmin follows a file that claims to come from a holder of the admin token.
func TestFilesHaveNoAdmin(t *testing.T) {
	ev := &events.Event{ID: "claim", Source: "test", Time: events.StampOf(clock.NewFake().Now()), Kind: events.RescueRequest, CorrelationID: "f",
		From: events.Party{Agent: "ann"}, To: events.Party{Agent: "planner"}, Rescue: &events.Rescue{Reason: "a claim", Admin: true}}
	path := filepath.Join(t.TempDir(), "events.jsonl")
	appendFile(t, path, lines(ev))
	r := begin(t, Options{Follow: []intake.Follow{{Path: path}}})
	var deadLetters []state.DeadLetter
	r.until(func() bool {
		var err error
		deadLetters, err = r.store.DeadLetters(0, 10, nil)
		return err == nil && len(deadLetters) > 0
	})
	if len(deadLetters) != 1 || deadLetters[0].Code != string(events.CodeReservedKind) || !strings.Contains(deadLetters[0].Reason, "rescue.admin") {
		t.Errorf("dead letters %+v", deadLetters)
	}
	for _, line := range r.journalLines() {
		if strings.Contains(line, "admin") {
			t.Errorf("in the journal: %s", line)
		}
	}
}

// TestHealthCheck follows one agent that nothing helps and one that is resumed, as the
// health check of the recovery system reports them.
func TestHealthCheck(t *testing.T) {
	h := beginAgents(t, Options{})
	check := func(status string, parts ...string) {
		t.Helper()
		h.want(h.do("GET", "/v1/health_check", ""), 200, append(parts, `{"status":"`+status+`"`)...)
	}
	check("healthy", `"why":[]`, `"stuck_agents":[]`, `"escalated":[]`, `"summary":{"total_stuck":0,"total_escalated":0,"by_reason":{}}`)
	h.reports("probe", "critical")
	check("healthy")
	h.quiet(8*time.Minute, 1)
	check("degraded", `"agent_id":"probe","reason":"critical_margin_timeout","certainty":"stuck","age_minutes":`, `"step":"resume"`, `"details":"critical_margin_timeout for `,
		`"summary":{"total_stuck":1,"total_escalated":0,"by_reason":{"critical_margin_timeout":1}}`, `"why":["1 agent is stuck, or may be"]`)
	h.quiet(15*time.Minute, 3)
	check("critical", `"stuck_agents":[]`, `"escalated":[{"agent_id":"probe"`, `"step":"notify"`, `"total_escalated":1`, "somebody has to look")
	h.reports("probe", "comfortable")
	// The clock stands still: an agent that says nothing for long is stuck again.
	for !strings.Contains(h.do("GET", "/v1/health_check", "").body, `{"status":"healthy"`) {
		runtime.Gosched()
	}
}
