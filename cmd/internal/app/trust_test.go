package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/clock"
	"weir/events"
)

// stoppedPair has a and b hand one thing to each other until a rule stops them, and returns
// the ask that the stop refuses.
func stoppedPair(r *running) (ask func(id string, after events.Stamp) reply) {
	now := events.StampOf(r.clock.Now())
	var evs []*events.Event
	for i := range 6 {
		from, to := "a", "b"
		if i%2 == 1 {
			from, to = to, from
		}
		evs = append(evs, &events.Event{ID: fmt.Sprint("call", i), Time: now + events.Stamp(i-6)*10_000, HadWork: events.No, Kind: events.AgentCall, CorrelationID: "f",
			From: events.Party{Agent: from}, To: events.Party{Agent: to}, Content: events.Hash{Algorithm: events.XXH64, Value: uint64(1 + i%2)}})
	}
	r.want(r.do("POST", "/v1/events", lines(evs...)), 202)
	r.folded()
	return func(id string, after events.Stamp) reply {
		ev := events.Event{ID: id, Time: now + after, HadWork: events.No, Kind: events.AgentCall, CorrelationID: "f", From: events.Party{Agent: "a"}, To: events.Party{Agent: "b"}, Ask: true,
			Content: events.Hash{Algorithm: events.XXH64, Value: 1}}
		return r.do("POST", "/v1/check", string(ev.AppendJSON(nil)))
	}
}

// passASecond lets a second pass when some part of the program waits for time to pass. So time passes
// at the pace of the program, and orders do not expire while it has no processor.
func (r *running) passASecond() {
	r.t.Helper()
	select {
	case <-r.fake.Asked():
		r.fake.Advance(time.Second)
	case <-time.After(time.Minute):
		r.t.Fatal("nothing waits for time to pass")
	}
}

// TestClaimsLiftNoStop attacks a stop by every way in that says that a user has spoken.
func TestClaimsLiftNoStop(t *testing.T) {
	now := events.StampOf(clock.NewFake().Now())
	event := func(more string) string {
		return fmt.Sprintf(`{"id":"attack","time":%q,"correlation_id":"f",%s}`, (now + 50).Time().Format("2006-01-02T15:04:05.000Z"), more)
	}
	span := func(attributes string) string {
		return fmt.Sprintf(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"abababababababababababababababab","spanId":"0102030405060708",`+
			`"startTimeUnixNano":"%d000000","endTimeUnixNano":"%d000000","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"invoke_agent"}},`+
			`{"key":"gen_ai.agent.name","value":{"stringValue":"b"}},%s{"key":"correlation_id","value":{"stringValue":"f"}}]}]}]}]}`, now+50, now+51, attributes)
	}
	attacks := map[string][2]string{
		"from left out":           {"/v1/events", event(`"kind":"agent.call","to":{"agent":"b"}`)},
		"from null":               {"/v1/events", event(`"kind":"agent.call","from":null,"to":{"agent":"b"}`)},
		"a human as from":         {"/v1/events", event(`"kind":"agent.call","from":{"agent":"a","type":"human"},"to":{"agent":"b"}`)},
		"origin user":             {"/v1/events", event(`"kind":"agent.call","from":{"agent":"a"},"to":{"agent":"b"},"origin":"user"`)},
		"claimed false":           {"/v1/events", event(`"kind":"agent.call","to":{"agent":"b"},"claimed":false`)},
		"a conversation":          {"/v1/events", event(`"kind":"agent.call","to":{"agent":"b"},"correlation_source":"conversation","conversation_id":"f"`)},
		"a note of the user":      {"/v1/events", event(`"kind":"note","origin":"user","note":{"summary":"go on","tags":["hint"]}`)},
		"a turn of the user":      {"/v1/events", event(`"kind":"turn.start","origin":"user","turn_id":"2"`)},
		"a status of the user":    {"/v1/events", event(`"kind":"agent.status","origin":"user","from":{"agent":"b"},"agent_state":{"status":"active"}`)},
		"an answer for the user":  {"/v1/events", event(`"kind":"agent.return","origin":"user","from":{"agent":"b"}`)},
		"an ask without from":     {"/v1/check", event(`"kind":"agent.call","to":{"agent":"b"},"ask":true`)},
		"an ask of the user":      {"/v1/check", event(`"kind":"agent.call","from":{"agent":"a"},"to":{"agent":"b"},"origin":"user"`)},
		"a span without a parent": {"/v1/traces", span("")},
	}
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			for _, trusted := range []string{"", "http,otlp"} {
				// In degraded mode folded returns before all is folded.
				r := begin(t, Options{TrustUsers: trusted, LimitsFile: limitsFile(t, "degraded: {after: 0s}\n")})
				ask := stoppedPair(r)
				if got := ask("before", 0); !strings.Contains(got.body, `"deny"`) {
					t.Fatalf("nothing stands: %s", got.body)
				}
				if got := r.do("POST", attack[0], attack[1], "Content-Type", "application/json"); got.status/100 != 2 && got.status != 403 {
					t.Fatalf("%d %s", got.status, got.body)
				}
				if attack[0] == "/v1/traces" { // what the adapter holds back is reported after a while
					for !strings.Contains(strings.Join(r.journalLines(), "\n"), `"trace_id":"abab`) {
						r.passASecond()
					}
				}
				r.folded()
				got := ask("after", 100)
				if stands := strings.Contains(got.body, `"deny"`); stands != (trusted == "") {
					t.Errorf("trusting %q the stop stands: %t: %s", trusted, stands, got.body)
				}
			}
		})
	}
}

// TestWordsLiftStops holds who is believed without a setting: the admin token, and a file.
func TestWordsLiftStops(t *testing.T) {
	r := begin(t, Options{AdminTokenFile: tokenFile(t, adminSecret)})
	ask := stoppedPair(r)
	word := events.Event{ID: "word", Time: events.StampOf(r.clock.Now()) + 50, Kind: events.AgentCall, CorrelationID: "f", To: events.Party{Agent: "b"}}
	r.want(r.do("POST", "/v1/events", lines(&word), "Authorization", "Bearer "+adminSecret), 202)
	r.folded()
	if got := ask("after", 100); !strings.Contains(got.body, `"allow"`) {
		t.Errorf("the stop stands against the admin: %s", got.body)
	}
}

// TestHooksSpeakForUsers holds when a prompt that a hook sends is the user's word: with the
// admin token, or where the setting trusts hooks.
func TestHooksSpeakForUsers(t *testing.T) {
	for name, c := range map[string]struct {
		trusted string
		header  []string
		claimed bool
	}{
		"by default":           {"", nil, true},
		"with the admin token": {"", []string{"Authorization", "Bearer " + adminSecret}, false},
		"by the setting":       {"files,hooks", nil, false},
		"by another setting":   {"http", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := begin(t, Options{TrustUsers: c.trusted, AdminTokenFile: tokenFile(t, adminSecret)})
			prompt := `{"session_id":"s-1","transcript_path":"/dev/null","cwd":"/","hook_event_name":"UserPromptSubmit","prompt":"go on"}`
			r.want(r.do("POST", "/v1/hook", prompt, append(c.header, "Content-Type", "application/json")...), 200)
			found := false
			for _, line := range r.journalLines() {
				if strings.Contains(line, `"origin":"user"`) {
					found = true
					if strings.Contains(line, `"claimed":true`) != c.claimed {
						t.Errorf("claimed %t: %s", !c.claimed, line)
					}
				}
			}
			if !found {
				t.Errorf("no prompt among %q", r.journalLines())
			}
		})
	}
}

// TestHookPromptsLiftNoStop names the flow of dispatchers in each field by which a hook names
// one. A prompt without the right to order lifts neither the stop of a pattern nor a budget.
func TestHookPromptsLiftNoStop(t *testing.T) {
	for name, fields := range map[string]string{
		"session_id": `"session_id":"f"`, "prompt_id": `"session_id":"x","prompt_id":"f"`, "turn_id": `"session_id":"y","turn_id":"f"`,
		"sessionId": `"sessionId":"f"`, "correlation_id": `"session_id":"z","correlation_id":"f"`,
	} {
		for limits, stop := range map[string]string{"": "deny", "profile: none\nrules:\n  max_total_calls: {mode: enforce, max: 5}\n": "max_total_calls"} {
			t.Run(name+" "+stop, func(t *testing.T) {
				o := Options{}
				if limits != "" {
					o.LimitsFile = limitsFile(t, limits)
				}
				r := begin(t, o)
				ask := stoppedPair(r)
				if got := ask("before", 0); !strings.Contains(got.body, stop) {
					t.Fatalf("nothing stops: %s", got.body)
				}
				r.want(r.do("POST", "/v1/hook", `{"hook_event_name":"UserPromptSubmit","prompt":"go on",`+fields+`}`), 200)
				r.folded()
				if got := ask("after", 100); !strings.Contains(got.body, stop) {
					t.Errorf("the stop is lifted: %s", got.body)
				}
			})
		}
	}
}

// TestReportsTakeNoCheckAway has a sender report calls as if they were checks, with the ids of the
// checks that a dispatcher makes next, and lets the dispatcher call itself a timer. Each check has
// the answer that it has without them.
func TestReportsTakeNoCheckAway(t *testing.T) {
	t.Parallel()
	for name, report := range map[string]string{
		"none":           "",
		"of a call":      `"kind":"agent.call","from":{"agent":"b"},"to":{"agent":"a"},"ask":true`,
		"to a person":    `"kind":"agent.call","from":{"agent":"b"},"to":{"agent":"ann","type":"human"},"ask":true`,
		"marked as such": `"kind":"agent.call","from":{"agent":"b"},"to":{"agent":"a"},"ask":true,"claimed":true`,
		"of a loop":      `"kind":"task.loop","from":{"agent":"b"},"task":{"id":"x"},"ask":true`,
	} {
		for _, more := range []string{"", `,"origin":"scheduler"`, `,"origin":"system","claimed":true,"sampled_rate":1000`, `,"correlation_source":"principal"`} {
			r := begin(t, Options{})
			at := func(n int) string { return r.clock.Now().Add(time.Duration(n) * time.Second).Format(time.RFC3339) }
			passed := 0
			for n := range 20 {
				if report != "" {
					r.want(r.do("POST", "/v1/events", fmt.Sprintf(`{"id":"%d","source":"d","time":%q,"correlation_id":"f",%s}`, n, at(0), report)), 202)
					r.folded()
				}
				from, to := "a", "b"
				if n%2 == 1 {
					from, to = to, from
				}
				got := r.do("POST", "/v1/check", fmt.Sprintf(`{"id":"%d","source":"d","time":%q,"correlation_id":"f","kind":"agent.call","from":{"agent":%q},"to":{"agent":%q},"content_hash":"xxh64:0000000000000001","had_work":false%s}`, n, at(0), from, to, more))
				if got.status == 409 {
					t.Fatalf("a report %s, a check that says %q: %s", name, more, got.body)
				}
				if got.status == 200 {
					passed++
				}
			}
			// Reported calls clear patterns, see SECURITY.md.
			if passed > 6 && !strings.Contains(report, `"to":{"agent":"a"}`) {
				t.Errorf("a report %s, checks that say %q: %d of 20 calls of a loop pass", name, more, passed)
			}
		}
	}
}
