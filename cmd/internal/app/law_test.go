package app

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/gate/gatetest"
	"weir/events"
)

// apiInjections is how many events the law injects by HTTP; a long run takes 1,000,000.
var apiInjections = flag.Int("api-injections", 0, "events that TestATenantChangesNothingForOthers injects; 0 injects 20,000, and 4,000 with -short")

// tenancy is a weir with two tenants, each bound to its flows, under limits of all kinds.
func tenancy(t *testing.T) *running {
	t.Helper()
	l, err := limitfile.Parse("test", []byte("profile: balanced\nrules: {max_total_calls: {max: 14}, max_tool_calls: {max: 9}, max_total_tokens: {max: 4000}, max_tree_calls: {max: 18}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return people(t, Options{Limits: l, Clock: clock.NewFake()}, map[string]string{"honest": "roles: [ingest, ask], flows: [theirs-*]", "adversary": "roles: [ingest, ask], flows: [mine-*]", "ops": "roles: operate"})
}

// answered is what a check was answered. Where two blocks refuse a call, as a person's and that of
// a tree, which has the last word, either may be the one that is named.
type answered struct {
	Status  int    `json:"status"`
	Allowed bool   `json:"allowed"`
	Action  string `json:"action"`
	Reason  string `json:"reason_code"`
}

func (r *running) answer(ev *events.Event) (a answered) {
	r.t.Helper()
	got := r.as("honest", "POST", "/v1/check", string(ev.AppendJSON(nil)), "Content-Type", "application/json")
	if err := json.Unmarshal([]byte(got.body), &a); err != nil {
		r.t.Fatalf("%d %s", got.status, got.body)
	}
	a.Status = got.status
	return a
}

// honestTree returns events of one tenant in flows that share budgets: a root, a flow that it opened,
// and one of the same conversation. Some go in circles.
func honestTree(r *rand.Rand, name string) (log []events.Event) {
	flows := []string{name, name + "-child", name + "-next"}
	add := func(ev events.Event) {
		ev.ID, ev.Source, ev.ConversationID = fmt.Sprint(name, "-", len(log)), "dispatcher", name+"-talk"
		if ev.CorrelationID == flows[1] {
			ev.ParentCorrelationID, ev.RootCorrelationID = name, name
		}
		log = append(log, ev)
	}
	hash := func(n int) events.Hash { return events.Hash{Algorithm: events.XXH64, Value: uint64(n) + 1} }
	for _, flow := range []string{flows[0], flows[2]} {
		add(events.Event{Kind: events.AgentCall, CorrelationID: flow, Origin: events.OriginUser, To: events.Party{Agent: "a"}})
	}
	for i := range 40 {
		flow := flows[r.IntN(3)]
		switch from := (events.Party{Agent: "a"}); r.IntN(5) {
		case 0, 1:
			add(events.Event{Kind: events.AgentCall, Ask: true, CorrelationID: flow, From: from, To: events.Party{Agent: "b"}, HadWork: events.Tri(r.IntN(3)), Content: hash(i * r.IntN(2))})
			add(events.Event{Kind: events.AgentCall, Ask: true, CorrelationID: flow, From: events.Party{Agent: "b"}, To: from, HadWork: events.No, Content: hash(1)})
		case 2, 3:
			tool := events.Tool{Name: "read", CallID: fmt.Sprint("c", i), ArgsHash: hash(i * r.IntN(2))}
			add(events.Event{Kind: events.ToolCall, Ask: true, CorrelationID: flow, From: from, Tool: tool})
			add(events.Event{Kind: events.ToolResult, CorrelationID: flow, From: from, Tool: tool, Status: events.StatusOK, Content: hash(r.IntN(2))})
		default:
			add(events.Event{Kind: events.LLMCall, CorrelationID: flow, From: from, Usage: events.Usage{Known: true, Scope: events.UsageScope(r.IntN(3)), Total: int64(r.IntN(900))}})
		}
	}
	return log
}

// injure sends what a tenant may send, and what it may not: events of its own flows with any value in
// any field, checks of them, and prompts and calls in flows of others, which are refused.
func (r *running) injure(a *gatetest.Adversary, at events.Stamp, name string) (n int) {
	r.t.Helper()
	var batch, checks []*events.Event
	for range 1 + a.Rand.IntN(60) {
		ev := a.Event(at)
		ev.Claimed = false // which intakes write
		if batch = append(batch, &ev); ev.Kind == events.AgentCall || ev.Kind == events.ToolCall {
			check := ev
			check.Ask, check.ID = true, ev.ID+"-check"
			checks = append(checks, &check)
		}
	}
	own := func(ev *events.Event) bool {
		named := []string{ev.CorrelationID, ev.ParentCorrelationID, ev.RootCorrelationID}
		if ev.CorrelationSource == events.CorrelationPrompt {
			named = append(named, ev.ConversationID)
		}
		return !slices.ContainsFunc(named, func(flow string) bool { return flow != "" && !strings.HasPrefix(flow, "mine-") })
	}
	foreign := slices.DeleteFunc(slices.Clone(batch), own)
	batch = slices.DeleteFunc(batch, func(ev *events.Event) bool { return !own(ev) })
	if len(batch) > 0 {
		r.want(r.as("adversary", "POST", "/v1/events", lines(batch...)), 202)
	}
	for _, ev := range foreign[:min(1, len(foreign))] {
		r.want(r.as("adversary", "POST", "/v1/events", lines(ev)), 400, "none of those of adversary")
	}
	for _, ev := range checks[:min(2, len(checks))] {
		r.as("adversary", "POST", "/v1/check", string(ev.AppendJSON(nil)), "Content-Type", "application/json")
	}
	r.as("adversary", "POST", "/v1/hook", fmt.Sprintf(`{"session_id":%q,"hook_event_name":"UserPromptSubmit","prompt":"go on"}`, name), "Content-Type", "application/json")
	r.as("adversary", "POST", "/v1/flows/"+name+"/release", `{"reason":"r"}`)
	return len(batch) + len(checks) + 2
}

// TestATenantChangesNothingForOthers runs a weir with one tenant and another with a second one who
// sends what it may: the answers to the first are the same, by budgets, rates, patterns, trees of
// flows and the stops of a person.
func TestATenantChangesNothingForOthers(t *testing.T) {
	t.Parallel()
	alone, beside := tenancy(t), tenancy(t)
	total, refused, most := 0, 0, cmp.Or(*apiInjections, 20_000)
	if *apiInjections == 0 && testing.Short() {
		most = 1500
	}
	for seed := uint64(1); total < most; seed++ {
		random := rand.New(rand.NewPCG(seed, 36))
		name, mine := fmt.Sprint("theirs-", seed), fmt.Sprint("mine-", seed)
		honest := honestTree(random, name)
		a := &gatetest.Adversary{Rand: random, Names: []string{"a", "b", "read", name, name + "-child", name + "-talk", name + "-1", "c1", "dispatcher", "z"}, Source: "dispatcher",
			Flows: []string{mine, mine, mine, mine + "-2", mine + "-3", mine + "-4", name}}
		for i := range honest {
			a.IDs = append(a.IDs, honest[i].ID)
		}
		stop := 10 + random.IntN(200)
		for i := range honest {
			wait := time.Duration(random.IntN(4000)) * time.Millisecond
			for _, r := range []*running{alone, beside} {
				r.fake.Advance(wait)
			}
			ev := &honest[i]
			ev.Time = events.StampOf(alone.clock.Now())
			if random.IntN(3) == 0 {
				total += beside.injure(a, ev.Time, name)
			}
			if i == stop {
				for _, r := range []*running{alone, beside} {
					r.want(r.as("ops", "POST", "/v1/flows/"+name+"/stop", `{"reason":"r"}`, "Content-Type", "application/json"), 202)
				}
			}
			if !ev.Ask {
				for _, r := range []*running{alone, beside} {
					r.want(r.as("honest", "POST", "/v1/events", lines(ev)), 202)
				}
				continue
			}
			want, got := alone.answer(ev), beside.answer(ev)
			if want.Allowed != got.Allowed {
				t.Fatalf("seed %d, event %d: alone %+v, beside another tenant %+v: %s", seed, i, want, got, ev.AppendJSON(nil))
			}
			if want.Status != 200 {
				refused++
			}
		}
	}
	if refused == 0 {
		t.Error("no check is refused, so the law is about nothing")
	}
	t.Logf("%d events injected, %d checks refused", total, refused)
}
