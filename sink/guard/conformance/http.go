package conformance

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"weir/events"
)

// EventOf is the event by which a call is checked, as a guard writes it, without an id.
func EventOf(call map[string]any) map[string]any {
	ev := map[string]any{"kind": "agent.call"}
	tool := map[string]any{}
	party := func(name string) {
		id, agent := call[name], call[name+"_agent"]
		switch {
		case id == nil && agent == nil:
		case agent == nil || agent == id:
			ev[name] = map[string]any{"agent": id}
		case id == nil:
			ev[name] = map[string]any{"agent": agent}
		default:
			ev[name] = map[string]any{"session": id, "agent": agent}
		}
	}
	party("from")
	party("to")
	for name, value := range call {
		switch name {
		case "from", "to", "from_agent", "to_agent", "principal": // weir knows the principal by its token
		case "flow":
			ev["correlation_id"] = value
		case "service":
			ev["source"] = value
		case "tool":
			ev["kind"], tool["name"] = "tool.call", value
		case "args_hash", "args_sim", "call_id":
			tool[name] = value
		default:
			ev[name] = value
		}
	}
	if len(tool) > 0 {
		ev["tool"] = tool
	}
	return ev
}

// answer is an answer to a check as HTTP brings it.
type answer struct {
	Verdict *struct {
		Action       string         `json:"action"`
		AgentMessage string         `json:"agent_message"`
		Remaining    []remaining    `json:"remaining"`
		Scope        map[string]any `json:"scope"`
	} `json:"verdict"`
	Allowed      bool        `json:"allowed"`
	Action       string      `json:"action"`
	Reason       string      `json:"reason_code"`
	Limit        *float64    `json:"limit"`
	Observed     *float64    `json:"observed"`
	RetryAfterS  float64     `json:"retry_after_s"`
	Detail       string      `json:"detail"`
	AgentMessage string      `json:"agent_message"`
	Instance     string      `json:"instance"`
	Remaining    []remaining `json:"remaining"`
}

type remaining struct {
	Rule  string  `json:"rule_id"`
	Left  float64 `json:"left"`
	Limit float64 `json:"limit"`
	Unit  string  `json:"unit"`
}

// decision is the answer with the members that guards report of a decision.
func decision(t testing.TB, status int, body []byte) map[string]any {
	t.Helper()
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		t.Fatalf("status %d: %v: %s", status, err, body)
	}
	said := map[string]any{"status": float64(status)}
	put := func(name, value string) {
		if value != "" {
			said[name] = value
		}
	}
	if a.Verdict == nil {
		put("message", a.Detail)
		return said
	}
	said["source"], said["scope"] = "weir", a.Verdict.Scope["kind"]
	left := a.Remaining
	if a.Allowed != (status == http.StatusOK) {
		t.Errorf("status %d says allowed=%v: %s", status, a.Allowed, body)
	}
	if a.Allowed {
		said["action"], left = a.Verdict.Action, a.Verdict.Remaining
		if events.Action(a.Verdict.Action).Stops() { // in shadow
			said["action"] = "allow"
		}
		put("note", a.Verdict.AgentMessage)
	} else {
		said["action"] = a.Action
		put("reason", a.Reason)
		put("message", a.Detail)
		put("agent_message", a.AgentMessage)
		put("verdict_id", strings.TrimPrefix(a.Instance, "urn:weir:verdict:"))
		if a.Limit != nil && a.Observed != nil {
			said["limit"], said["observed"] = *a.Limit, *a.Observed
		}
		if a.RetryAfterS > 0 {
			said["retry_after_s"] = a.RetryAfterS
		}
	}
	var list []any
	for _, r := range left {
		list = append(list, []any{r.Rule, r.Left, r.Limit, r.Unit})
	}
	if list != nil {
		said["left"] = list
	}
	return said
}

// HTTP are the ways to check calls without a guard. Close the result of each after its use, if it has a Close.
func HTTP() []Transport { return []Transport{Requests{}, Batches{}, &Streams{}} }

// Requests sends each check as a request of its own, those of one time one after the other.
type Requests struct{}

// Name returns "request".
func (Requests) Name() string { return "request" }

// Check sends checks.
func (Requests) Check(t testing.TB, url string, checks []Check) (answers []map[string]any) {
	t.Helper()
	for _, c := range checks {
		status, body := post(t, url+"/v1/check", "application/json", c.Line)
		answers = append(answers, decision(t, status, body))
	}
	return answers
}

// Batches sends checks of one time in one body.
type Batches struct{}

// Name returns "batch".
func (Batches) Name() string { return "batch" }

// line is the answer to one line of a batch or a stream.
type line struct {
	Line, Status int
	Body         json.RawMessage
}

// Check sends checks.
func (Batches) Check(t testing.TB, url string, checks []Check) (answers []map[string]any) {
	t.Helper()
	status, body := post(t, url+"/v1/check", "application/x-ndjson", lines(checks))
	if status != http.StatusOK {
		t.Fatalf("a batch is answered with %d %s", status, body)
	}
	in := json.NewDecoder(bytes.NewReader(body))
	for range checks {
		var got line
		if err := in.Decode(&got); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		answers = append(answers, decision(t, got.Status, got.Body))
	}
	if in.More() {
		t.Errorf("more answers than checks: %s", body)
	}
	return answers
}

func lines(checks []Check) (body []byte) {
	for _, c := range checks {
		body = append(append(body, c.Line...), '\n')
	}
	return body
}

func post(t testing.TB, url, media string, body []byte) (status int, answer []byte) {
	t.Helper()
	resp, err := http.Post(url, media, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer
}

// Streams sends checks on one stream to each address, which it keeps open until the test ends or the stream does.
type Streams struct {
	mu   sync.Mutex
	open map[string]*stream
}

type stream struct {
	out  io.WriteCloser
	in   *json.Decoder
	sent int // lines
}

// Name returns "stream".
func (*Streams) Name() string { return "stream" }

// Check sends checks.
func (s *Streams) Check(t testing.TB, url string, checks []Check) []map[string]any {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	to := s.open[url]
	if to == nil {
		to = opened(t, url)
		if s.open == nil {
			s.open = make(map[string]*stream)
		}
		s.open[url] = to
	}
	first := to.sent + 1
	to.sent += len(checks)
	if _, err := to.out.Write(lines(checks)); err != nil {
		t.Fatal(err)
	}
	answers := make([]map[string]any, len(checks))
	for range checks {
		var got line
		if err := to.in.Decode(&got); err != nil {
			t.Fatal(err)
		}
		n := got.Line - first
		if n < 0 || n >= len(answers) || answers[n] != nil {
			t.Fatalf("an answer to line %d, of lines %d to %d", got.Line, first, to.sent)
		}
		answers[n] = decision(t, got.Status, got.Body)
	}
	return answers
}

// opened opens a stream that ends with the test.
func opened(t testing.TB, url string) *stream {
	t.Helper()
	body, out := io.Pipe()
	resp, err := http.Post(url+"/v1/check/stream", "application/x-ndjson", body)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = out.Close()
		_ = resp.Body.Close()
	})
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("a stream is answered with %s", resp.Status)
	}
	return &stream{out: out, in: json.NewDecoder(resp.Body)}
}
