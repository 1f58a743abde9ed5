// Package frameworks holds the guards, installed as packages, to what they do before the
// tools and hand-overs of real frameworks.
package frameworks

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"weir/events"
	"weir/sink/guard/guardtest"
)

// TestFrameworks runs an agent of each framework twice: in a flow that weir has stopped
// before its process begins, and in another one.
func TestFrameworks(t *testing.T) {
	dir := folder(t)
	python, node := filepath.Join(dir, "python", "bin", "python"), filepath.Join(dir, "node")
	const told = "Finish with what you have."
	for _, f := range []struct {
		name            string
		command         []string
		honest, stopped string // how a run ends, where that is told
		saw             string // in the place of a result
	}{
		{"langgraph", []string{python, "testdata/langgraph_run.py"}, "", "", told},
		{"openai-agents", []string{python, "testdata/openai_agents_run.py"}, "writer", "self_call", told},
		{"crewai", []string{filepath.Join(dir, "crewai", "bin", "python"), "testdata/crewai_run.py"}, "", "", "blocked"},
		{"ai", []string{"node", "testdata/ai.mjs", node}, "", "", told},
	} {
		t.Run(f.name, func(t *testing.T) {
			weir := guardtest.New()
			weir.Give(events.Verdict{CorrelationID: "stopped", Action: "deny", Reason: events.SelfCall, AgentMessage: told})
			weir.Answer(func(ev *events.Event) *events.Verdict {
				if ev.CorrelationID != "stopped" {
					return nil
				}
				return &events.Verdict{ID: "v", Mode: events.ModeEnforce, Action: "deny", Reason: events.SelfCall, AgentMessage: told, HTTPStatus: http.StatusForbidden}
			})
			server := httptest.NewServer(weir)
			defer server.Close()
			defer weir.Set(guardtest.Away) // so that its streams end
			run := func(flow string) (got struct {
				Ran int
				Saw []string
				End string
			}) {
				t.Helper()
				newScript(t.Context(), t, append(f.command[:len(f.command):len(f.command)], server.URL, flow), "OPENAI_API_KEY=none").prints(t, &got)
				return got
			}
			if got := run("honest"); got.Ran != 3 || got.End != f.honest || strings.Join(got.Saw, ",") != "found,found,found" {
				t.Errorf("the flow that is not stopped: %+v", got)
			}
			if got := run("stopped"); got.Ran != 0 || got.End != f.stopped || len(got.Saw) != 3 || got.Saw[0] != f.saw {
				t.Errorf("the flow that is stopped: %+v", got)
			}
		})
	}
}
