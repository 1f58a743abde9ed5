package mapped

import (
	"strings"
	"testing"
)

// shapes are logs without a description. Each has its expected reading: uses of tools, results
// or calls between agents, and flows.
var shapes = []struct {
	name string
	log  string
	want string
}{
	{"events of tools, with a kind", `{"ts":"2026-11-20T10:00:00Z","session":"s1","event":"tool_start","tool":"grep","input":{"q":"a"}}
{"ts":"2026-11-20T10:00:01Z","session":"s1","event":"tool_end","tool":"grep","output":"x","ms":12}
{"ts":"2026-11-20T10:00:02Z","session":"s2","event":"tool_start","tool":"ls","input":{}}
{"ts":"2026-11-20T10:00:03Z","session":"s2","event":"tool_end","tool":"ls","output":"y","ms":1}
{"ts":"2026-11-20T10:00:03Z","session":"s2","event":"heartbeat"}`, "2 tool.call, 2 tool.result in 2 flows; tools: grep, ls"},
	{"camel case, nested, one record a call", `{"timestamp":1795000000123,"runId":"r1","data":{"toolName":"search","toolInput":"{\"q\":1}","toolOutput":"found","durationMs":5}}
{"timestamp":1795000000456,"runId":"r1","data":{"toolName":"search","toolInput":"{\"q\":2}","toolOutput":"found"}}`, "2 tool.call, 2 tool.result in 1 flow; tools: search"},
	{"a document with steps", `{"run_id":"r7","started":"2026-11-20T10:00:00Z","steps":[{"thought":"I look","action":{"name":"read_file","arguments":{"path":"a"}},"observation":"text"},
 {"thought":"again","action":{"name":"read_file","arguments":{"path":"a"}},"observation":"text"}]}`, "2 tool.call, 2 tool.result in 1 flow; tools: read_file"},
	{"runs with steps in an array", `[{"id":"a","turns":[{"tool_calls":[{"name":"f","args":{"x":1},"result":"1"},{"name":"g","args":{"x":1},"result":"2"}]},{"tool_calls":[{"name":"f","args":{"x":1},"result":"1"}]}]},
{"id":"b","turns":[{"tool_calls":[{"name":"f","args":{"x":1},"result":"1"}]}]}]`, "4 tool.call, 4 tool.result in 2 flows; tools: f, g"},
	{"agents that write to each other", `{"from":"planner","to":"coder","text":"do it","time":"2026-11-20T10:00:00Z","thread":"t1"}
{"from":"coder","to":"planner","text":"done","time":"2026-11-20T10:00:09Z","thread":"t1"}`, "2 agent.call in 1 flow"},
	{"log lines of a service", `{"level":"info","msg":"tool call","time":1795000000.5,"fields":{"req_id":"q1","tool":"db.query","params":{"sql":"select 1"}}}
{"level":"info","msg":"tool result","time":1795000001.5,"fields":{"req_id":"q1","tool":"db.query","result":"1"}}
{"level":"info","msg":"listening","time":1795000001.6,"fields":{"port":80}}`, "1 tool.call, 1 tool.result in 1 flow; tools: db.query"},
	{"actions and observations", `{"episode":3,"type":"action","action":"run","args":{"command":"ls"},"id":1}
{"episode":3,"type":"observation","observation":"files","id":2}
{"episode":3,"type":"action","action":"run","args":{"command":"ls"},"id":3}`, "2 tool.call, 1 tool.result in 1 flow; tools: run; no times"},
	{"function calls with tokens", `{"conversation":{"id":"c"},"created_at":"2026-11-20T10:00:00Z","function_call":{"name":"lookup","arguments":"{}"},"usage":{"prompt_tokens":3,"completion_tokens":4},"model":"m"}
{"conversation":{"id":"c"},"created_at":"2026-11-20T10:00:05Z","function_call":{"name":"lookup","arguments":"{}"},"usage":{"prompt_tokens":3,"completion_tokens":4},"model":"m"}`, "2 tool.call in 1 flow; tools: lookup"},
	{"a document that is cut off", `{"job":{"id":"j1"},"log":[{"when":"2026-11-20T10:00:00Z","skill":"fetch","params":{"u":"a"},"outcome":"success","returned":"x"},
{"when":"2026-11-20T10:00:02Z","skill":"fetch","params":{"u":"a"},"outcome":"failed","returned":"x"},
{"when":"2026-11-20T10:00:04Z","skill":"fet`, "2 tool.call, 2 tool.result in 1 flow; tools: fetch"},
	{"names with blanks, and no flow", `{"Event Time":"2026-11-20T10:00:00Z","Tool Name":"a","Tool Input":"x","Tool Output":"y","Status":"OK"}
{"Event Time":"2026-11-20T10:00:01Z","Tool Name":"b","Tool Input":"x","Tool Output":"y","Status":"FAILED"}`, "2 tool.call, 2 tool.result in one flow, because no member names one; tools: a, b"},
	{"steps within episodes of a file, with lists beside", `{"meta":{"tags":[{"k":"v"},{"k":"w"}]},"episodes":[{"episode_id":"e1","agent":"solver","trajectory":[{"t":1795000000,"action":"move","params":"n","result":"ok"},{"t":1795000001,"action":"move","params":"n","result":"ok"}]},
{"episode_id":"e2","agent":"solver","trajectory":[{"t":1795000000,"action":"take","params":"lamp","result":"ok"}]}]}`, "3 tool.call, 3 tool.result in 2 flows; tools: move, take"},
	{"handoffs with roles", `{"uuid":"1","workflow_id":"w","type":"handoff","source_agent":"triage","target_agent":"billing","at":"2026-11-20T10:00:00Z"}
{"uuid":"2","workflow_id":"w","type":"tool_use","source_agent":"billing","tool":{"id":"x1","name":"refund","input":{"n":1}},"at":"2026-11-20T10:00:01Z"}
{"uuid":"3","workflow_id":"w","type":"tool_response","source_agent":"billing","tool":{"id":"x1","name":"refund","output":"no"},"at":"2026-11-20T10:00:02Z"}`, "1 agent.call, 1 tool.call, 1 tool.result in 1 flow; tools: refund"},
}

func TestPropose(t *testing.T) {
	for _, s := range shapes {
		p, err := Propose([]byte(s.log))
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		if !strings.HasPrefix(p.String(), s.want) {
			t.Errorf("%s: reads %q, want %q, by %s", s.name, p, s.want, p.Mapping)
		}
		if again, err := Propose([]byte(s.log)); err != nil || again.Mapping != p.Mapping {
			t.Errorf("%s: the second mapping is %v, the first was %s", s.name, again, p.Mapping)
		}
		t.Log(s.name + ": " + p.Mapping)
	}
	for log, want := range map[string]string{
		"no json":                        "it holds no JSON object",
		`{"temperature":3.5,"unit":"C"}`: "looks like a tool or an agent",
		`{"a":[1,2,3]}`:                  "looks like a tool or an agent",
	} {
		if p, err := Propose([]byte(log)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", log, p, err)
		}
	}
}

// FuzzPropose holds that what is proposed is a mapping, whatever a log holds.
func FuzzPropose(f *testing.F) {
	for _, s := range shapes {
		f.Add([]byte(s.log))
	}
	f.Add([]byte(`{"a.b=\"c":[{"tool":"x","type":"tool=\n\"call"}],"":{"":[{}]}}`))
	f.Fuzz(func(t *testing.T, log []byte) {
		p, err := Propose(log)
		if err != nil {
			return
		}
		if _, err := Format(p.Mapping); err != nil {
			t.Fatalf("%s: %v", p.Mapping, err)
		}
		_ = p.String()
	})
}
