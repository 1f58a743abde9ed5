package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"weir/cmd/weirtest"
	"weir/events"
)

// weir is a weir that runs.
type weir struct {
	t   testing.TB
	url string
	n   int // of the last event
}

// start starts weir in memory, with more flags.
func start(t testing.TB, flags ...string) *weir {
	t.Helper()
	args := append([]string{"--metrics", "127.0.0.1:0", "--self-test", "0"}, flags...)
	if !slices.Contains(flags, "--state") {
		args = append(args, "--in-memory")
	}
	return &weir{t: t, url: weirtest.Run(t, args...).URL}
}

// call is a call of an agent in a flow, an event of this moment.
func (w *weir) call(flow, from, to string) events.Event {
	w.n++
	ev := events.Event{ID: fmt.Sprint("e", w.n), Source: "browser", Time: events.StampOf(time.Now()), Kind: events.AgentCall, CorrelationID: flow, HadWork: events.No}
	ev.From.Session, ev.To.Session = from, to
	return ev
}

// tool is a call of a tool, and its result.
func (w *weir) tool(flow, from, tool string, args uint64) []events.Event {
	call := w.call(flow, from, "")
	call.Kind, call.Tool.Name, call.Tool.CallID, call.HadWork = events.ToolCall, tool, fmt.Sprint("c", w.n), events.Unknown
	call.Tool.ArgsHash = events.Hash{Algorithm: events.XXH64, Value: args}
	result := call
	w.n++
	result.ID, result.Kind, result.Status = fmt.Sprint("e", w.n), events.ToolResult, events.StatusOK
	result.Content = events.Hash{Algorithm: events.XXH64, Value: args}
	return []events.Event{call, result}
}

func (w *weir) send(evs ...events.Event) {
	w.t.Helper()
	for len(evs) > 0 {
		n := min(len(evs), 1000)
		var body bytes.Buffer
		for i := range evs[:n] {
			body.Write(append(evs[i].AppendJSON(nil), '\n'))
		}
		evs = evs[n:]
		w.post("/v1/events", "application/x-ndjson", &body)
	}
}

func (w *weir) post(path, kind string, body io.Reader) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, w.url+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode >= 300 {
		w.t.Fatalf("%s was refused: %s: %s", path, resp.Status, text)
	}
}

// status is what an agent said of itself a while ago.
func (w *weir) status(agent, margin string, ago time.Duration) events.Event {
	w.n++
	return events.Event{ID: fmt.Sprint("e", w.n), Source: "browser", Time: events.StampOf(time.Now().Add(-ago)), Kind: events.AgentStatus, From: events.Party{Agent: agent},
		AgentState: &events.AgentState{Status: "active", Margin: margin, Health: "healthy", Coherence: 0.9, HasCoherence: true, Risk: 0.1, HasRisk: true}}
}

// note leaves a note about an agent.
func (w *weir) note(agent, author, summary string, tags ...string) {
	w.t.Helper()
	body, err := json.Marshal(map[string]any{"agent": agent, "author": author, "summary": summary, "tags": tags})
	if err != nil {
		w.t.Fatal(err)
	}
	w.post("/v1/notes", "application/json", bytes.NewReader(body))
}

// crew is agents of which one is stuck and one may be. The later events show weir how
// late it is.
func (w *weir) crew() {
	w.t.Helper()
	w.send(w.status("scout-1", "tight", 18*time.Minute), w.status("planner-3", "critical", 8*time.Minute), w.status("editor-2", "comfortable", 0), w.call("standup", "editor-2", "scribe"))
	w.note("planner-3", "editor-2", "it has the key of the archive, and does not answer", "keys", "archive")
	w.note("editor-2", "ann", "works on the report", "report")
}

// story is flows that are worth looking at: one that is stopped, one that works.
func (w *weir) story() {
	user := w.call("checkout-7f3a", "", "planner")
	evs := []events.Event{user}
	evs = append(evs, w.tool("checkout-7f3a", "planner", "search_orders", 1)...)
	for range 9 {
		evs = append(evs, w.call("checkout-7f3a", "planner", "reviewer"), w.call("checkout-7f3a", "reviewer", "planner"))
	}
	evs = append(evs, w.call("report-11", "", "writer"))
	for i := range 4 {
		evs = append(evs, w.tool("report-11", "writer", "read_page", uint64(i))...)
	}
	helper := w.call("report-11", "writer", "editor")
	helper.HadWork = events.Yes
	back := w.call("report-11", "editor", "writer")
	back.Kind = events.AgentReturn
	w.send(append(evs, helper, back)...)
}
