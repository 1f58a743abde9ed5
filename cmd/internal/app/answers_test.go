package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/ask"
	"weir/cmd/internal/clock"
	"weir/events"
)

// TestOneIDIsOneCall reuses ids as a dispatcher would that wants to pass uncounted.
func TestOneIDIsOneCall(t *testing.T) {
	r := begin(t, Options{AdminTokenFile: tokenFile(t, adminSecret)})
	ask := func(ev *events.Event, change ...func(*events.Event)) reply {
		t.Helper()
		for _, fn := range change {
			fn(ev)
		}
		return r.do("POST", "/v1/check", string(ev.AppendJSON(nil)))
	}
	one := func(ev *events.Event) { ev.ID = "one" }

	// Two agents that bounce a call between them under one id.
	r.want(ask(call("loop", 0, "a", "b"), one), 200)
	before := len(r.journalLines())
	for n := 1; n < 20; n++ {
		from, to := "a", "b"
		if n%2 == 1 {
			from, to = "b", "a"
		}
		if got := ask(call("loop", n, from, to), one); n%2 == 1 {
			r.want(got, 409, `"detail":"the id \"one\" was used in this flow for another call; give each call an id of its own`)
		}
	}
	for _, line := range r.journalLines()[before:] {
		if strings.Contains(line, `"to":{"session":"a"}`) {
			t.Errorf("a refused ask is in the journal: %s", line)
		}
	}
	// The same call under the same id, over and over.
	allowed := 0
	for n := range 300 {
		if ask(call("same", n, "a", "b"), one).status == 200 {
			allowed++
		}
	}
	if allowed > 8 {
		t.Errorf("one id was allowed %d of 300 times, want at most %d", allowed, 8)
	}
	// A flow that is stopped asks with an id of another flow, whose own ask is not in its way.
	r.want(r.do("POST", "/v1/flows/stopped/stop", `{"reason":"r","by":"ann"}`, "Authorization", "Bearer "+adminSecret), 202)
	r.want(ask(call("free", 1, "a", "b"), one), 200)
	r.want(ask(call("stopped", 1, "a", "b"), one), 403, "operator_stop")
	r.want(ask(call("free2", 1, "x", "y"), one), 200)
}

// TestAskedAgainAfterStop asks again, with the same id, after a person stopped the flow.
func TestAskedAgainAfterStop(t *testing.T) {
	r := begin(t, Options{AdminTokenFile: tokenFile(t, adminSecret)})
	first := call("f", 1, "a", "b")
	ask := func() reply { return r.do("POST", "/v1/check", string(first.AppendJSON(nil))) }
	r.want(ask(), 200)
	r.want(r.do("POST", "/v1/flows/f/stop", `{"reason":"r","by":"ann"}`, "Authorization", "Bearer "+adminSecret), 202)
	r.want(ask(), 403, "operator_stop")
	r.want(r.do("POST", "/v1/flows/f/release", `{"reason":"r","by":"ann"}`, "Authorization", "Bearer "+adminSecret), 202)
	r.want(ask(), 200, `"action":"allow"`)
	var flow struct {
		Counters []struct {
			Rule     string  `json:"rule"`
			Observed float64 `json:"observed"`
		} `json:"counters"`
	}
	r.get("/v1/flows/f", &flow)
	for _, c := range flow.Counters {
		if c.Rule == "max_total_calls" && c.Observed != 1 {
			t.Errorf("a call that was asked for again counts %v times", c.Observed)
		}
	}
	// A dispatcher that asks again writes a new time and the span of a new request.
	first.Time, first.ParentSpanID = first.Time.Add(time.Second), fmt.Sprintf("%016x", 1)
	r.want(ask(), 200)
}

// TestHookRefusesAReusedID plays a coding agent that uses the id of one use of a tool for
// another: where other faults let the agent go on, this one must not.
func TestHookRefusesAReusedID(t *testing.T) {
	r := begin(t, Options{})
	hook := func(command string) reply {
		return r.do("POST", "/v1/hook", fmt.Sprintf(`{"hook_event_name":"PreToolUse","session_id":"s","tool_use_id":"one","tool_name":"Bash","tool_input":{"command":%q},"cwd":"/"}`, command))
	}
	if got := hook("ls"); strings.Contains(got.body, `"deny"`) {
		t.Errorf("the first use: %s", got.body)
	}
	r.want(hook("rm"), 200, `"permissionDecision":"deny"`, "used in this flow for another call")
	if got := hook("ls"); strings.Contains(got.body, `"deny"`) {
		t.Errorf("the same use again: %s", got.body)
	}
}

// TestSeveralAsksInOneBody asks for parallel calls at once, also a second time as if the
// answers were lost: each is judged alone and counted once.
func TestSeveralAsksInOneBody(t *testing.T) {
	r := begin(t, Options{AdminTokenFile: tokenFile(t, adminSecret)})
	r.want(r.do("POST", "/v1/flows/stopped/stop", `{"reason":"r","by":"ann"}`, "Authorization", "Bearer "+adminSecret), 202)
	const parallel = 8
	var body []byte
	for n := range parallel {
		ev := call("f", n, "a", fmt.Sprint("b", n))
		body = append(ev.AppendJSON(body), '\n')
	}
	ev := call("stopped", 1, "a", "b")
	body = append(ev.AppendJSON(body), '\n')
	for range 2 {
		got := r.do("POST", "/v1/check", string(body), "Content-Type", "application/x-ndjson")
		r.want(got, 200, `{"status":403,"body":{`, "operator_stop")
		if n := strings.Count(got.body, `{"status":200,"body":{"verdict":{`); n != parallel {
			t.Errorf("%d of %d calls were allowed:\n%s", n, parallel, got.body)
		}
	}
	r.want(r.do("GET", "/v1/flows/f", ""), 200, `"events":8`)
}

// TestAsksWithArguments checks uses of a tool that report the arguments and not their
// hash, which the fold makes then.
func TestAsksWithArguments(t *testing.T) {
	r := begin(t, Options{Clock: clock.System{}, AnswerTimeout: 20 * time.Second})
	for i, args := range []string{`{"a":1}`, `{ "b" : [1, 2] , "a":"x" }`, `null`, `[]`, `"text"`, `{"long":"` + strings.Repeat("x", 100_000) + `"}`} {
		body := fmt.Sprintf(`{"id":"t%d","time":"%s","kind":"tool.call","correlation_id":"f","from":{"agent":"a"},"tool":{"name":"t","args":%s}}`, i, time.Now().UTC().Format(time.RFC3339), args)
		r.want(r.do("POST", "/v1/check", body), 200, `"verdict":{`)
		r.want(r.do("POST", "/v1/check", body), 200, `"verdict":{`) // its answer was lost
		r.want(r.do("POST", "/v1/check", body+"\n", "Content-Type", "application/x-ndjson"), 200, `"verdict":{`)
	}
}

// TestForgottenIDs shows what is lost of an id once more records followed than a start reads again: it may name one other
// call, up to 8 times, which counts nothing as long as the flow knows the id.
func TestForgottenIDs(t *testing.T) {
	t.Parallel()
	o := Options{StateDir: t.TempDir()}
	r := begin(t, o)
	check := func(to string) reply {
		t.Helper()
		ev := call("f", 1, "a", to)
		ev.ID = "one"
		return r.do("POST", "/v1/check", string(ev.AppendJSON(nil)))
	}
	r.want(check("b"), 200)
	for n := 0; n < ask.Recalled; {
		var lines []byte
		for range 8192 {
			n++
			lines = fmt.Appendf(lines, `{"id":"%d","source":"s","kind":"llm.call","correlation_id":"g","from":{"agent":"a"}}`+"\n", n)
		}
		r.want(r.do("POST", "/v1/events", string(lines)), 202)
	}
	r.folded()
	r.want(check("c"), 409)
	r.stop()
	o.Clock = r.fake
	r = begin(t, o)
	allowed := 0
	for range 20 {
		if check("c").status == 200 {
			allowed++
		}
	}
	var flow struct {
		Hops int `json:"hops"`
	}
	if r.get("/v1/flows/f", &flow); allowed != 8 || flow.Hops != 1 {
		t.Errorf("%d calls passed, want 8; %d counted, want 1", allowed, flow.Hops)
	}
	r.want(check("b"), 409)
}

// TestOneIDAfterRestart uses an id for another call after weir has exited in order or was killed. The last checkpoint has the
// check, so no fold brings it again.
func TestOneIDAfterRestart(t *testing.T) {
	o := Options{StateDir: t.TempDir()}
	r := begin(t, o)
	one := func(to string) reply {
		t.Helper()
		ev := call("f", 1, "a", to)
		ev.ID = "one"
		return r.do("POST", "/v1/check", string(ev.AppendJSON(nil)))
	}
	r.want(one("b"), 200)
	for _, end := range []func(){func() { r.stop() }, func() { r.kill() }, func() { r.stop() }} {
		end()
		o.Clock = r.fake
		r = begin(t, o)
		r.want(one("c"), 409, `used in this flow for another call`)
		r.want(one("b"), 200) // the same call
	}
}
