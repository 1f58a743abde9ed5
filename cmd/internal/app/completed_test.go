package app

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/sink/check"
)

// TestCheckWithoutID asks without an id and a time, again with the id of the answer, and under a key.
func TestCheckWithoutID(t *testing.T) {
	r := begin(t, Options{})
	const call = `{"kind":"tool.call","correlation_id":"f","from":{"agent":"a"},"tool":{"name":"search","args_hash":"xxh64:0000000000000001"}}`
	ask := func(body string, header ...string) (a check.Answer) {
		t.Helper()
		got := r.do("POST", "/v1/check", body, header...)
		if err := json.Unmarshal([]byte(got.body), &a); err != nil || got.status != a.Status {
			t.Fatalf("%d %s: %v", got.status, got.body, err)
		}
		return a
	}
	counted := func(want string) {
		t.Helper()
		r.want(r.do("GET", "/v1/flows/f", ""), 200, want)
	}
	first := ask(call)
	if !first.Allowed || first.ID == "" || first.Verdict == nil {
		t.Fatalf("%+v", first)
	}
	if again := ask(`{"id":"` + first.ID + `",` + call[1:]); again.Verdict == nil || again.ID != first.ID {
		t.Errorf("%+v", again)
	}
	counted(`"events":1,`)
	ask(call)
	counted(`"events":2,`)
	for range 2 {
		if a := ask(call, "Idempotency-Key", `"key-1"`); a.ID != "key-1" {
			t.Errorf("%+v", a)
		}
	}
	counted(`"events":3,`)
	// Another call under the same key.
	if a := ask(strings.Replace(call, "search", "delete", 1), "Idempotency-Key", "key-1"); a.Status != 409 || a.Allowed || a.Verdict != nil {
		t.Errorf("%+v", a)
	}
	// Errors have the same members, also those of the doors before the handler.
	for _, got := range []reply{r.do("POST", "/v1/check", `{`), r.do("GET", "/v1/check", ``), r.do("POST", "/v1/check", call, "Origin", "http://evil.example"), r.do("POST", "/v1/check/stream", call, "Idempotency-Key", "k")} {
		r.want(got, got.status, `"verdict":null,"allowed":false,"id":""`, `"detail":"`)
		if got.status < 400 {
			t.Errorf("%+v", got)
		}
	}
}

// TestHints says once a flow which rules cannot judge.
func TestHints(t *testing.T) {
	r := begin(t, Options{})
	const bare = `{"kind":"tool.call","correlation_id":"%","from":{"agent":"a"},"tool":{"name":"search"}}`
	const hint = `"hint":"no tool.args_hash: `
	for _, flow := range []string{"f", "g"} {
		r.want(r.do("POST", "/v1/check", strings.Replace(bare, "%", flow, 1)), 200, hint, " repetition, ", " cannot be judged\"")
		if got := r.do("POST", "/v1/check", strings.Replace(bare, "%", flow, 1)); strings.Contains(got.body, hint) {
			t.Errorf("again: %s", got.body)
		}
	}
	r.want(r.do("POST", "/v1/check", `{"kind":"agent.call","correlation_id":"f","from":{"agent":"a"},"to":{"agent":"b"}}`), 200, `"hint":"no content_hash: ping_pong_same, repeated_delegation, repeated_brief cannot be judged; no had_work: ping_pong_same, `, ` only warn, and late"`)
	// A rule that is off needs nothing.
	if got := r.do("POST", "/v1/check", strings.Replace(bare, "%", "i", 1)); strings.Contains(got.body, "repetition_any") {
		t.Errorf("%s", got.body)
	}
	whole := r.do("POST", "/v1/check", `{"kind":"agent.call","correlation_id":"h","from":{"agent":"a"},"to":{"agent":"b"},"had_work":true,"content_hash":"xxh64:0000000000000001"}`)
	if strings.Contains(whole.body, "hint") {
		t.Errorf("%s", whole.body)
	}
}

// TestEventsWithoutTime takes events in without a time, and without an id where the request has a key.
func TestEventsWithoutTime(t *testing.T) {
	r := begin(t, Options{})
	const call = `"kind":"tool.call","correlation_id":"f","from":{"agent":"a"},"tool":{"name":"search"}}`
	r.want(r.do("POST", "/v1/events", `{"id":"1",`+call), 202, `"accepted":1`)
	r.want(r.do("POST", "/v1/events", `{`+call), 400, `"code":"missing_field","field":"id"`)
	for range 2 {
		r.want(r.do("POST", "/v1/events", "{"+call+"\n{"+call+"\n{\"id\":\"own\","+call, "Idempotency-Key", "k"), 202, `"accepted":3`)
	}
	r.want(r.do("GET", "/v1/flows/f/events", ""), 200, `"id":"k-1"`, `"id":"k-2"`, `"id":"own"`, `"time":"`)
	r.want(r.do("GET", "/v1/flows/f", ""), 200, `"events":4,`)
	r.want(r.do("POST", "/v1/events", "{"+call, "Idempotency-Key", "a b"), 400, "not usable")
}
