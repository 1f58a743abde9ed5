// Package frameworks runs real agent frameworks with their own telemetry against a model
// by script, and holds what weir says of their loops and of their honest runs: by the
// file that they wrote, and live.
package frameworks

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"weir/cmd/weirtest"
)

const (
	// environments is the folder that install.sh has filled.
	environments = "WEIR_FRAMEWORKS"
	// required makes a failure of what could not be installed.
	required = "WEIR_FRAMEWORKS_REQUIRED"
)

// sight is how much of a loop telemetry shows.
type sight string

const (
	shown  sight = "stopped"
	hidden sight = "hidden"         // no arguments, or no calls at all
	ends   sight = "ends by itself" // the framework stops it before any limit of weir's
)

// telemetries are those of the frameworks, and what they show of twelve equal calls.
var telemetries = []struct {
	name, kind string
	packages   []string // the packages with a reported version
	loop       sight
	calls      int // of tools that are seen of the honest run, which makes three
}{
	{"adk_js", "", []string{"@google/adk"}, shown, 3},
	{"ag2", "", []string{"ag2"}, shown, 3},
	{"agent_framework", "", []string{"agent-framework-core"}, shown, 3},
	{"agent_framework", "default", []string{"agent-framework-core"}, hidden, 3},
	{"agento11y", "", []string{"agento11y", "agento11y-langgraph", "langgraph"}, shown, 3},
	{"agentscope", "", []string{"agentscope"}, shown, 3},
	{"agno", "", []string{"agno", "openinference-instrumentation-agno"}, shown, 3},
	{"ai_sdk", "", []string{"ai", "@ai-sdk/otel"}, shown, 3},
	{"ai_sdk", "stream", []string{"ai", "@ai-sdk/otel"}, shown, 3},
	{"ai_sdk", "legacy", []string{"ai", "@ai-sdk/otel"}, shown, 3},
	{"ai_sdk", "hidden", []string{"ai", "@ai-sdk/otel"}, hidden, 3},
	{"autogen", "", []string{"autogen-agentchat"}, shown, 3},
	{"beeai", "", []string{"beeai-framework", "openinference-instrumentation-beeai"}, ends, 4}, // so is it here
	{"camel", "", []string{"camel-ai", "opentelemetry-instrumentation-openai"}, shown, 3},
	{"crewai", "", []string{"crewai", "openinference-instrumentation-crewai"}, ends, 3},
	{"dspy", "", []string{"dspy", "openinference-instrumentation-dspy"}, shown, 4}, // the end of a run is a tool, too
	{"genkit", "", []string{"genkit"}, shown, 3},
	{"google_adk", "", []string{"google-adk"}, shown, 3},
	{"haystack", "", []string{"haystack-ai", "opentelemetry-haystack"}, shown, 3},
	{"haystack", "openinference", []string{"haystack-ai", "openinference-instrumentation-haystack"}, hidden, 0},
	{"griptape", "openllmetry", []string{"griptape", "opentelemetry-instrumentation-openai"}, shown, 3},
	{"langfuse", "", []string{"langfuse", "langgraph"}, shown, 3},
	{"langfuse", "decorators", []string{"langfuse"}, shown, 3},
	{"langgraph", "", []string{"langgraph", "opentelemetry-instrumentation-langchain"}, shown, 3},
	{"langgraph", "openinference", []string{"langgraph", "openinference-instrumentation-langchain"}, shown, 3},
	{"langgraph_js", "", []string{"@langchain/langgraph", "@traceloop/instrumentation-langchain"}, shown, 3},
	{"langgraph_js", "openinference", []string{"@langchain/langgraph", "@arizeai/openinference-instrumentation-langchain"}, shown, 3},
	{"langroid", "", []string{"langroid", "opentelemetry-instrumentation-openai"}, shown, 3},
	{"langroid", "openinference", []string{"langroid", "openinference-instrumentation-openai"}, shown, 3},
	{"langroid", "hidden", []string{"langroid", "opentelemetry-instrumentation-openai"}, hidden, 0},
	{"langsmith", "", []string{"langsmith", "langgraph"}, shown, 3},
	{"llama_index", "", []string{"llama-index-core", "openinference-instrumentation-llama-index"}, shown, 3},
	{"mastra", "", []string{"@mastra/core", "@mastra/otel-exporter"}, shown, 3},
	{"mcp_sdk", "", []string{"mcp"}, hidden, 3},
	{"mlflow", "", []string{"mlflow", "langgraph"}, shown, 3},
	{"mlflow", "decorators", []string{"mlflow"}, shown, 3},
	{"openai_agents", "", []string{"openai-agents", "openinference-instrumentation-openai-agents"}, shown, 3},
	{"openai_agents_js", "", []string{"@openai/agents", "@arizeai/openinference-instrumentation-openai-agents"}, shown, 3},
	{"pydantic_ai", "", []string{"pydantic-ai-slim"}, shown, 3},
	{"pydantic_ai", "logfire", []string{"pydantic-ai-slim", "logfire"}, shown, 3},
	{"semantic_kernel", "", []string{"semantic-kernel"}, shown, 3},
	{"semantic_kernel", "default", []string{"semantic-kernel"}, hidden, 3},
	{"smolagents", "", []string{"smolagents", "openinference-instrumentation-smolagents"}, shown, 3},
	{"strands", "", []string{"strands-agents"}, shown, 3},
	{"strands_js", "", []string{"@strands-agents/sdk"}, shown, 3},
	{"voltagent", "", []string{"@voltagent/core"}, shown, 3},
}

// TestFrameworks runs each telemetry twice, a loop and an honest run.
func TestFrameworks(t *testing.T) {
	dir := os.Getenv(environments)
	if dir == "" {
		t.Skip(environments + " is not set: make frameworks installs them")
	}
	weir := weirtest.Binary(t)
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "telemetry\tversions\tloop\tby file\tlive\thonest, by file\tlive\tcalls seen\tsaid that it cannot be judged")
	for _, each := range telemetries {
		name := strings.TrimSuffix(each.name+"/"+each.kind, "/")
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(dir, each.name, "installed")); err != nil {
				fmt.Fprintf(w, "%s\t*** NOT INSTALLED ***\t\t\t\t\t\t\t\n", name)
				if os.Getenv(required) != "" {
					t.Fatalf("%s is not installed", each.name)
				}
				t.Skip("not installed")
			}
			loop := run(t, weir, dir, each.name, each.kind, "loop")
			honest := run(t, weir, dir, each.name, each.kind, "honest")
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d of 3\t%t\n", name, versions(t, filepath.Join(dir, each.name), each.packages), each.loop, loop.file, loop.live, honest.file, honest.live, honest.calls, loop.blind)
			for how, said := range map[string]action{"by its file": loop.file, "live": loop.live} {
				if stopped := said == "deny" || said == "halt"; stopped != (each.loop == shown) {
					t.Errorf("the loop, %s: %q, want it %s", how, said, each.loop)
				}
			}
			if each.loop == hidden && !loop.blind {
				t.Error("replay does not say that the loop cannot be judged")
			}
			if honest.file != "" || honest.live != "" {
				t.Errorf("the honest run: %q by its file, %q live; want nothing", honest.file, honest.live)
			}
			if honest.calls != each.calls {
				t.Errorf("%d calls of tools seen of the honest run, want %d", honest.calls, each.calls)
			}
		})
	}
	_ = w.Flush()
	t.Log("\n" + table.String())
}

// TestLimitsOfFrameworks holds what `weir limits import --from` makes of a framework's own
// limit to the calls of tools that the framework lets run under it.
func TestLimitsOfFrameworks(t *testing.T) {
	dir := os.Getenv(environments)
	if dir == "" {
		t.Skip(environments + " is not set: make frameworks installs them")
	}
	weir := weirtest.Binary(t)
	for _, each := range []struct{ name, from, setting, rule string }{
		{"autogen", "autogen", "max_tool_iterations", "max_chain_depth"},
		{"crewai", "crewai", "max_iter", "max_chain_depth"},
		{"langgraph", "langgraph", "recursion_limit", "max_tool_calls"},
		{"openai_agents", "openai-agents", "max_turns", "max_tool_calls"},
	} {
		t.Run(each.name, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(dir, each.name, "installed")); err != nil {
				t.Skip("not installed")
			}
			for _, limit := range []int{4, 5} {
				imported := exec.Command(weir, "limits", "import", "--from", each.from, "-")
				imported.Stdin = strings.NewReader(fmt.Sprintf("%s=%d", each.setting, limit))
				text, err := imported.Output()
				if err != nil {
					t.Fatal(err)
				}
				got := run(t, weir, dir, each.name, "", "loop", fmt.Sprintf("LIMIT=%d", limit)).calls
				t.Logf("%s %d: %d calls of tools", each.setting, limit, got)
				if want := fmt.Sprintf("%s: {max: %d}", each.rule, got); !strings.Contains(string(text), want) {
					t.Errorf("%s %d: %d calls of tools ran, and it is imported as\n%s", each.setting, limit, got, text)
				}
			}
		})
	}
}

// action is the strictest order that was given, "" for none.
type action string

func (a *action) take(other string) {
	order := []string{"", "warn", "throttle", "deny", "halt"}
	if slices.Index(order, other) > slices.Index(order, string(*a)) {
		*a = action(other)
	}
}

// outcome is what weir said of a run.
type outcome struct {
	file, live action
	calls      int  // of tools, by the file
	blind      bool // replay says that something cannot be judged
}

func run(t *testing.T, weir, dir, framework, kind, script string, more ...string) (out outcome) {
	t.Helper()
	model := httptest.NewServer(&scripted{calls: scripts[script]})
	defer model.Close()
	home := t.TempDir()
	server := weirtest.Run(t, "--in-memory", "--self-test", "0").URL
	spans := filepath.Join(home, "spans.jsonl")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	program := command(ctx, t, dir, framework, home)
	program.Dir = home
	program.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + home, "PYTHONDONTWRITEBYTECODE=1", "CASE=" + script, "KIND=" + kind, "MODEL=" + model.URL + "/v1", "OUT=" + spans,
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + server, "OPENAI_API_KEY=sk-dummy", "HAYSTACK_TELEMETRY_ENABLED=False"}
	program.Env = append(program.Env, more...)
	if text, err := program.CombinedOutput(); err != nil && ctx.Err() != nil {
		t.Fatalf("%s did not end: %v\n%s", framework, err, text)
	} else if info, missing := os.Stat(spans); missing != nil || info.Size() == 0 {
		t.Fatalf("%s wrote no spans: %v\n%s", framework, err, text)
	}

	told, err := exec.Command(weir, "replay", spans).Output()
	if err != nil && len(told) == 0 {
		t.Fatalf("replay: %v", err)
	}
	out.blind = strings.Contains(string(told), "cannot be judged")
	for line := range strings.Lines(string(told)) {
		if f := strings.Fields(line); len(f) > 3 && strings.HasPrefix(f[1], "#") {
			out.file.take(f[2])
		}
	}
	converted, err := exec.Command(weir, "events", "convert", spans).Output()
	if err != nil {
		t.Fatalf("convert: %v", err)
	}
	out.calls = strings.Count(string(converted), `"kind":"tool.call"`)
	if len(more) == 0 {
		out.live = verdicts(t, server, strings.Count(string(converted), "\n"))
	}
	return out
}

// command is that of a framework's run, in Python or in JavaScript.
func command(ctx context.Context, t *testing.T, dir, framework, home string) *exec.Cmd {
	t.Helper()
	runs, err := filepath.Abs("runs")
	if err != nil {
		t.Fatal(err)
	}
	if script := filepath.Join(runs, "run_"+framework+".py"); isThere(script) {
		return exec.CommandContext(ctx, filepath.Join(dir, framework, "bin", "python"), script)
	}
	// Modules of JavaScript are looked for beside the file that wants them.
	for _, name := range []string{"telemetry.mjs", "run_" + framework + ".mjs"} {
		text, err := os.ReadFile(filepath.Join(runs, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(home, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, framework, "node_modules"), filepath.Join(home, "node_modules")); err != nil {
		t.Fatal(err)
	}
	node, err := filepath.Glob(filepath.Join(dir, "node", "node_modules", "*", "bin", "node"))
	if err != nil || len(node) == 0 {
		t.Fatal("there is no Node.js: ", err)
	}
	return exec.CommandContext(ctx, node[0], filepath.Join(home, "run_"+framework+".mjs"))
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// verdicts waits until weir has taken in as many events as the file has, and returns the
// strictest order that it gave.
func verdicts(t *testing.T, server string, want int) (strictest action) {
	t.Helper()
	deadline := time.Now().Add(45 * time.Second)
	for got := -1; got < want; {
		var flows struct {
			Flows []struct {
				Events int `json:"events"`
			} `json:"flows"`
		}
		fetch(t, server+"/v1/flows", &flows)
		got = 0
		for _, f := range flows.Flows {
			got += f.Events
		}
		if time.Now().After(deadline) {
			break // events may be held back for a root that never ends; the verdicts so far decide
		}
		if got < want {
			time.Sleep(100 * time.Millisecond)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/v1/verdicts?from=start", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/x-ndjson")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	for lines := bufio.NewScanner(a.Body); lines.Scan(); {
		var v struct {
			Action string `json:"action"`
		}
		if json.Unmarshal(lines.Bytes(), &v) == nil {
			strictest.take(v.Action)
		}
	}
	return strictest
}

func fetch(t *testing.T, url string, into any) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		t.Fatalf("%s: %v", url, err)
	}
}

func versions(t *testing.T, environment string, packages []string) string {
	t.Helper()
	var all []string
	for _, name := range packages {
		var said struct{ Version string }
		if text, err := os.ReadFile(filepath.Join(environment, "node_modules", name, "package.json")); err == nil {
			if err := json.Unmarshal(text, &said); err != nil {
				t.Error(err)
			}
		} else {
			out, err := exec.Command(filepath.Join(environment, "bin", "python"), "-c", "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))", name).Output()
			if err != nil {
				t.Error(err)
			}
			said.Version = strings.TrimSpace(string(out))
		}
		all = append(all, name+" "+said.Version)
	}
	return strings.Join(all, ", ")
}

// call is what the model asks for.
type call struct {
	tool string
	args string
}

var scripts = map[string][]call{
	"loop":   slices.Repeat([]call{{"lookup_order", `{"order_id": "A-17"}`}}, 12),
	"honest": {{"lookup_order", `{"order_id": "A-17"}`}, {"lookup_order", `{"order_id": "A-18"}`}, {"refund", `{"order_id": "A-17", "amount": 5}`}},
}

// scripted is a model that speaks chat completions and makes its calls one after the
// other, whatever its input; then it answers.
type scripted struct {
	calls []call

	mu   sync.Mutex
	made int
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
		Tools  []struct {
			Function struct {
				Name       string `json:"name"`
				Parameters struct {
					Required   []string       `json:"required"`
					Properties map[string]any `json:"properties"`
				} `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	message, reason := map[string]any{"role": "assistant", "content": "refunded 5 on A-17"}, "stop"
	s.mu.Lock()
	next, n := call{"final_answer", ""}, s.made
	if n < len(s.calls) && len(ask.Tools) > 0 {
		next = s.calls[n]
		s.made++
	}
	s.mu.Unlock()
	for _, tool := range ask.Tools {
		if strings.HasSuffix(tool.Function.Name, next.tool) {
			args := next.args
			if p := &tool.Function.Parameters; args == "" && len(p.Required) > 0 { // whatever the framework calls the answer
				args = fmt.Sprintf(`{%q: "refunded 5 on A-17"}`, p.Required[0])
			} else if p.Properties["values"] != nil { // Griptape wraps arguments
				args = fmt.Sprintf(`{"values": %s}`, args)
			}
			message["content"], reason = nil, "tool_calls"
			message["tool_calls"] = []any{map[string]any{"index": 0, "id": fmt.Sprintf("call_%016d", n), "type": "function",
				"function": map[string]any{"name": tool.Function.Name, "arguments": args}}}
		}
	}
	answer := map[string]any{"id": fmt.Sprintf("chatcmpl-%d", n), "created": time.Now().Unix(), "model": ask.Model}
	usage := map[string]any{"prompt_tokens": 40, "completion_tokens": 12, "total_tokens": 52}
	if !ask.Stream {
		answer["object"], answer["usage"] = "chat.completion", usage
		answer["choices"] = []any{map[string]any{"index": 0, "message": message, "finish_reason": reason}}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	answer["object"] = "chat.completion.chunk"
	for _, choices := range [][]any{{map[string]any{"index": 0, "delta": message}}, {map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": reason}}, {}} {
		answer["choices"] = choices
		if len(choices) == 0 {
			answer["usage"] = usage
		}
		line, _ := json.Marshal(answer)
		fmt.Fprintf(w, "data: %s\n\n", line)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}
