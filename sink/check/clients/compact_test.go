package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// reader is a model by script whose context grows with each answer: it asks for one command after the
// other, and writes a summary when the agent compacts. It ends its turn when a command was refused.
type reader struct {
	budgeted *budgeted

	mu        sync.Mutex
	steps     []reading
	tokens    int               // of the last answer
	asked     bool              // for a command, in this run: weir has to know its tokens before the next
	heard     map[string]string // by id of the call, the message in which its result came
	summaries int
	before    int // messages of the longest request before the first summary, and of the shortest one after it
	after     int
}

// reading is a command, and the tokens of the context with which the model asks for it.
type reading struct {
	word   string
	tokens int
}

func (r *reader) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	q, ok := asked(w, req)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last := q.Messages[len(q.Messages)-1].Content
	q.hear(r.heard)
	switch {
	case bytes.Contains(last, []byte("<summary> block")):
		r.summaries++
		answer(w, q.Model, q.Stream, said{tokens: r.tokens, text: "<summary>One to three are done.</summary>"})
		return
	case r.summaries == 0:
		r.before = max(r.before, len(q.Messages))
	case r.after == 0:
		r.after = len(q.Messages)
	}
	if len(q.Tools) == 0 || len(r.steps) == 0 || bytes.Contains(last, []byte("flow guard (max_context_tokens_exceeded")) {
		answer(w, q.Model, q.Stream, said{message: "msg_end", tokens: r.tokens, text: "Finished."})
		return
	}
	if r.asked {
		r.budgeted.awaitContext(r.tokens)
	}
	step := r.steps[0]
	r.steps, r.tokens, r.asked = r.steps[1:], step.tokens, true
	use := echo(step.word)
	answer(w, q.Model, q.Stream, said{message: "msg_" + step.word, tokens: step.tokens, id: "toolu_" + step.word, tool: use.tool, input: use.input})
}

// awaitContext waits until weir has the context of some flow, which comes by OpenTelemetry.
func (b *budgeted) awaitContext(tokens int) {
	want := fmt.Sprintf(`"tokens":%d,"slope_tokens"`, tokens)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); b.context(want) == ""; {
		select {
		case <-tick.C:
		case <-deadline:
			b.Errorf("no flow has a context with %s", want)
			return
		}
	}
}

// context returns the flow of which a view contains the text; "" for none.
func (b *budgeted) context(want string) string {
	var list struct{ Flows []struct{ Flow string } }
	if err := json.Unmarshal(b.get("/v1/flows"), &list); err != nil {
		b.Error(err)
	}
	for _, f := range list.Flows {
		if bytes.Contains(b.get("/v1/flows/"+f.Flow), []byte(want)) {
			return f.Flow
		}
	}
	return ""
}

func (b *budgeted) get(path string) []byte {
	res, err := http.Get(b.url + path)
	if err != nil {
		b.Error(err)
		return nil
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return body
}

// TestClaudeCodeCompactsAndGoesOn drives Claude Code until its context reaches the limit: it is advised to
// compact first, then refused. It compacts, weir sees the smaller context, and its calls run again.
func TestClaudeCodeCompactsAndGoesOn(t *testing.T) {
	s := newBudgeted(t, "rules:\n  max_context_tokens: {warn: 60000, stop: 90000}\n")
	model := &reader{budgeted: s, heard: make(map[string]string), steps: []reading{{"one", 50_000}, {"two", 70_000}, {"three", 75_000}, {"four", 95_000}, {"five", 95_000}, {"never", 95_000}}}
	server := httptest.NewServer(model)
	t.Cleanup(server.Close)
	s.install()
	telemetry := []string{"CLAUDE_CODE_ENABLE_TELEMETRY=1", "OTEL_LOGS_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_PROTOCOL=http/json", "OTEL_EXPORTER_OTLP_ENDPOINT=" + s.url, "OTEL_LOGS_EXPORT_INTERVAL=100"}
	s.claude(server.URL, telemetry, "-p", "lead: build it")
	// A call is checked when the tokens of the answer before it are known, or already its own.
	const advice, refusal = "Compact it, or hand the work off", "Compact the context, or hand the work off to a new session"
	if strings.Contains(model.heard["toolu_one"], advice) || !strings.Contains(model.heard["toolu_three"], advice) {
		t.Errorf("of one and three the model reads %.600s and %.600s; want the advice to compact with three", model.heard["toolu_one"], model.heard["toolu_three"])
	}
	if !strings.Contains(model.heard["toolu_four"]+model.heard["toolu_five"], refusal) || model.heard["toolu_never"] != "" {
		t.Errorf("the model reads %.900s and %.900s; want the fourth or the fifth to be refused", model.heard["toolu_four"], model.heard["toolu_five"])
	}
	large := s.context(`"tokens":95000,"slope_tokens"`)
	s.command("explain", large)
	s.claude(server.URL, telemetry, "-p", "/compact", "--continue")
	model.steps, model.asked = []reading{{"six", 9_000}, {"seven", 9_500}, {"eight", 9_900}}, false
	s.claude(server.URL, telemetry, "-p", "lead: go on", "--continue")
	if model.summaries == 0 || model.after >= model.before {
		t.Errorf("%d summaries, %d messages before and %d after; want the client to compact", model.summaries, model.before, model.after)
	}
	if ran := s.ran(); strings.TrimPrefix(strings.Replace(ran, " four", "", 1), "one two three") != " six seven eight" {
		t.Errorf("%q ran, want all but the one that was refused", ran)
	}
	s.awaitContext(9_900)
	small := s.context(`"tokens":9900,"slope_tokens"`)
	if view := s.get("/v1/flows/" + small); !bytes.Contains(view, []byte(`"status":"ok"`)) {
		t.Errorf("of the small context weir says: %.900s", view)
	}
	s.command("explain", small)
	t.Logf("%s: %d messages became %d\nof three the model reads %s\nof four %s\nof five %s\n%s", s.client.installed(t), model.before, model.after, model.heard["toolu_three"], model.heard["toolu_four"], model.heard["toolu_five"], s.transcript.String())
}

// TestBackgroundAgentWaitsForAPerson has Claude Code start an agent in the background: that call waits, the
// lead goes on meanwhile, and after a grant the agent starts and meets the limit of its kind.
func TestBackgroundAgentWaitsForAPerson(t *testing.T) {
	s := newBudgeted(t, "rules:\n  max_background_spawns: {stop: 1, action: hold}\nsubagents:\n- {kind: \"general-*\", max_calls: 1}\n")
	start := func(prompt string, behind bool) use {
		return use{tool: "Agent", input: object{"description": "part", "prompt": prompt, "subagent_type": "general-purpose", "run_in_background": behind}}
	}
	again := start("mate: do your part", true)
	again.then = func() {
		var list struct {
			Flows []struct{ Flow, Status string }
		}
		if err := json.Unmarshal(s.get("/v1/flows"), &list); err != nil || len(list.Flows) != 1 || list.Flows[0].Status != "held" {
			t.Errorf("flows %+v (%v), want one that is held", list.Flows, err)
			return
		}
		s.command("flows", "grant", list.Flows[0].Flow, "--spawns", "1", "--until", "1h", "--reason", "one is fine", "--by", "ann")
	}
	model, ran := s.drive(map[string][]use{
		"lead": {start("mate: do your part", true), echo("one"), again, start("aide: help", false), echo("four")},
		"mate": {echo("two"), echo("never")},
		"aide": {echo("three"), echo("refused")},
	})
	model.hears("lead1", "This call waits for a person", true)
	model.hears("lead3", "launched", true)
	model.hears("aide1", "flow guard", false)
	model.hears("aide2", "max_subagent_calls_exceeded", true)
	for word, want := range map[string]bool{"one": true, "three": true, "four": true, "refused": false, "never": false} {
		if got := strings.Contains(" "+ran+" ", " "+word+" "); got != want {
			t.Errorf("%q ran: %s ran: %v, want %v", ran, word, got, want)
		}
	}
	t.Logf("%q ran\n%s\nof the held call the model reads %.700s\nof the second call of its subagent %.700s", ran, s.transcript.String(), model.heard["toolu_lead1"], model.heard["toolu_aide2"])
}
