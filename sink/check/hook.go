package check

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/claudehooks"
)

// HookPath is the route of hooks.
const HookPath = "/v1/hook"

// Hook answers the hooks of coding agents, Claude Code and OpenHands: what is about to be
// done is asked for, what was done is recorded. The answer always has status 200, because
// a hook takes any other for a fault and goes on.
type Hook struct {
	// Ask appends the event, whose JSON is raw, and returns what the fold said of it.
	Ask func(ctx context.Context, ev *events.Event, raw []byte) (*events.Verdict, error)
	// Append appends events that are no asks, each of one line.
	Append func(ctx context.Context, lines [][]byte) error
	// Failed is told of what went wrong, after which the agent was let go on or not.
	Failed func(err error)
	Now    func() time.Time

	mu     sync.Mutex
	agents map[string]adapter.Adapter // by name of the program
	open   *adapter.Recent[string]    // ids that were given to uses of tools, by what was used
	word   string                     // of this run, so that ids of two runs differ
	serial int64
}

// NewHook returns a Hook.
func NewHook(ask func(context.Context, *events.Event, []byte) (*events.Verdict, error), appendLines func(context.Context, [][]byte) error, failed func(error), now func() time.Time) *Hook {
	return &Hook{Ask: ask, Append: appendLines, Failed: failed, Now: now, open: adapter.NewRecent[string](openUses), word: strings.ToLower(rand.Text()[:8]),
		agents: map[string]adapter.Adapter{
			claudeCode: claudehooks.Format().New(adapter.Options{}),
			openHands:  claudehooks.Format().New(adapter.Options{Source: "openhands-hooks"}),
		}}
}

// openUses is how many uses of tools may wait for their end.
const openUses = 4096

// The programs whose hooks are understood. OpenHands hands over the same under other
// names, and without ids.
const (
	claudeCode = "claude-code"
	openHands  = "openhands"
)

// HookAnswer is what a hook is told.
type HookAnswer struct {
	// Of Claude Code.
	Output     *HookOutput `json:"hookSpecificOutput,omitempty"`
	Continue   *bool       `json:"continue,omitempty"` // false ends the whole run
	StopReason string      `json:"stopReason,omitempty"`
	// Of OpenHands.
	Decision string `json:"decision,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// HookOutput is the part of an answer that is about one use of a tool.
type HookOutput struct {
	Event    string `json:"hookEventName"`
	Decision string `json:"permissionDecision"`
	Reason   string `json:"permissionDecisionReason"` // the model reads it
}

// Refusal returns what the model is to read; "" when it may go on.
func (a *HookAnswer) Refusal() string {
	switch {
	case a.Output != nil && a.Output.Decision == "deny":
		return a.Output.Reason
	case a.Decision == "deny":
		return a.Reason
	}
	return ""
}

// ServeHTTP answers one input of a hook. When weir cannot answer, the agent goes on,
// unless the query has closed=1.
func (h *Hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := h.serve(r)
	if err != nil {
		h.Failed(err)
		if r.URL.Query().Get("closed") == "1" {
			answer = refusal(claudeCode, events.Deny.String(), "The flow guard cannot answer ("+reasonOf(err)+"), and calls are refused until it can. Try again later.")
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(encode(answer))
}

// reasonOf keeps what programs say of errors away from the model.
func reasonOf(err error) string {
	if err == ErrTimeout {
		return "no answer in time"
	}
	return "a fault"
}

func (h *Hook) serve(r *http.Request) (answer HookAnswer, err error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, adapter.MaxRecord+1))
	if err != nil {
		return answer, fmt.Errorf("read the input of a hook: %w", err)
	}
	agent, told, err := h.read(body)
	if err != nil {
		return answer, fmt.Errorf("the input of a hook: %w", err)
	}
	var rest [][]byte
	for i := range told {
		ev := &told[i]
		if ev.Kind != events.ToolCall && ev.Kind != events.AgentCall || ev.By() == events.OriginUser || !ev.Ask {
			rest = append(rest, ev.AppendJSON(nil))
			continue
		}
		v, err := h.Ask(r.Context(), ev, ev.AppendJSON(nil))
		if err != nil {
			return answer, err
		}
		if Refuses(v) {
			return refusal(agent, v.Action, "weir "+string(v.Reason)+": "+agentText(v)), nil
		}
	}
	if len(rest) > 0 {
		err = h.Append(r.Context(), rest)
	}
	return answer, err
}

func refusal(agent, action, reason string) (a HookAnswer) {
	if agent == openHands {
		a.Decision, a.Reason = "deny", reason
		return a
	}
	a.Output = &HookOutput{"PreToolUse", "deny", reason}
	if action == events.Halt.String() {
		goOn := false
		a.Continue, a.StopReason = &goOn, reason
	}
	return a
}

// read makes events of the input. They own what they hold.
func (h *Hook) read(body []byte) (agent string, told []events.Event, err error) {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(body, &in); err != nil {
		return "", nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.Now()
	agent = claudeCode
	if in["hook_event_name"] == nil && in["event_type"] != nil {
		agent = openHands
		for from, to := range map[string]string{"event_type": "hook_event_name", "message": "prompt", "tool_output": "tool_response"} {
			in[to] = in[from]
			if bytes.Equal(in[to], []byte("null")) {
				delete(in, to)
			}
		}
	}
	text := func(name string) (s string) {
		_ = json.Unmarshal(in[name], &s) // what is no text is none
		return s
	}
	in["time"] = quoted(events.RFC3339(events.StampOf(now)).String())
	if text("tool_name") != "" && text("tool_use_id") == "" {
		in["tool_use_id"] = quoted(h.useID(text("hook_event_name"), text("session_id")+"\x00"+text("tool_name")+"\x00"+string(in["tool_input"])))
	}
	line, err := json.Marshal(in)
	if err != nil {
		return "", nil, err
	}
	err = h.agents[agent].Decode(line, func(ev *events.Event) {
		own := *ev
		if text("tool_use_id") == "" { // a prompt or an end, of which an id that is counted would come again after a restart
			own.ID = h.unique()
		}
		if agent == openHands {
			own.From, own.To = named(own.From), named(own.To)
		}
		own.Time = events.StampOf(now)
		own.Ask = text("hook_event_name") == "PreToolUse"
		var copied events.Event
		if err = events.Decode(own.AppendJSON(nil), &copied); err == nil {
			told = append(told, copied)
		}
	})
	return agent, told, err
}

// named gives the agent of OpenHands its name.
func named(p events.Party) events.Party {
	if p.Agent == claudeCode {
		p.Agent = openHands
	}
	return p
}

// useID is an id for a use of a tool that came without one: the same for its beginning
// and its end, another one when the same is used again.
func (h *Hook) useID(event, used string) string {
	if event != "PreToolUse" {
		if id, ok := h.open.Get(used); ok {
			h.open.Delete(used)
			return id
		}
	}
	id := h.unique()
	if event == "PreToolUse" {
		h.open.Put(used, id)
	}
	return id
}

func (h *Hook) unique() string {
	h.serial++
	return h.word + "-" + strconv.FormatInt(h.serial, 36)
}

func quoted(s string) json.RawMessage {
	b, _ := json.Marshal(s) // text always has a form
	return b
}

// HookConfig returns a settings file that makes a program run weir before and after each
// use of a tool: of claude-code (settings.json), claude-code-http (the same without a
// process per hook) or openhands (.openhands/hooks.json). command is how weir is run, url
// where it listens.
func HookConfig(program, command, url string) ([]byte, error) {
	type hook struct {
		Type    string `json:"type"`
		Command string `json:"command,omitempty"`
		URL     string `json:"url,omitempty"`
		Timeout int    `json:"timeout"` // seconds
	}
	type matcher struct {
		Matcher string `json:"matcher,omitempty"`
		Hooks   []hook `json:"hooks"`
	}
	run := hook{Type: "command", Command: command, Timeout: 5}
	moments := []string{"UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "SubagentStop", "Stop"}
	switch program {
	case claudeCode:
	case claudeCode + "-http":
		run = hook{Type: "http", URL: strings.TrimRight(url, "/") + HookPath, Timeout: 5}
	case openHands:
		moments = []string{"UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"}
	default:
		return nil, fmt.Errorf("there are no hooks for %q; want %s, %s-http or %s", program, claudeCode, claudeCode, openHands)
	}
	hooks := make(map[string][]matcher)
	for _, moment := range moments {
		m := matcher{Hooks: []hook{run}}
		if strings.Contains(moment, "Tool") {
			m.Matcher = "*"
		}
		hooks[moment] = []matcher{m}
	}
	return json.MarshalIndent(map[string]any{"hooks": hooks}, "", "  ")
}
