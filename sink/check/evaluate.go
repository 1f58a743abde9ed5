package check

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
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
	"weir/events/fingerprint"
)

// EvaluatePath is the route by which the SDKs and plugins of Grafana Agent Observability (agento11y)
// have requests to models and calls of tools judged.
const EvaluatePath = "/api/v1/hooks:evaluate"

// Evaluate answers the guards of these SDKs: allow, or deny with the rule and a reason for the model.
// It never changes what is sent (transformed_input).
//
// After a model has answered (postflight), each call of a tool in its output is checked before it runs.
// Before a model is asked (preflight), what is new in its messages is reported: prompts, calls and
// results. Calls of the last answer that were not checked are checked then, when they have run; so a
// client that asks before models alone is stopped one call late. A request to a model is refused as well
// while an order stops all calls of its flow, or an order of a person about a scope stops the request.
//
// Errors have a status, by which the SDKs go on or not as their own setting says (fail_open).
type Evaluate struct {
	Check Checker
	// Append appends events that ask nothing, each of one line, which belong to it afterwards.
	Append func(ctx context.Context, lines [][]byte) error
	// Order returns an active order that stops all calls of a flow, or nil.
	Order func(ctx context.Context, flow string) *events.Verdict
	// Begins returns the order of a person about a scope that refuses a request to a model, or nil. nil
	// refuses none.
	Begins func(ctx context.Context, ev *events.Event) *events.Verdict
	Fail   func(w http.ResponseWriter, r *http.Request, err error)
	Now    func() time.Time

	mu sync.Mutex
	// seen are ids of events that were reported or checked, with the verdict that refused a call when it
	// had run.
	seen   *adapter.Recent[*events.Verdict]
	word   string // of this run, for calls without an id
	serial int64
}

// NewEvaluate returns an Evaluate with these fields.
func NewEvaluate(c Checker, appendLines func(context.Context, [][]byte) error, order func(context.Context, string) *events.Verdict, fail func(http.ResponseWriter, *http.Request, error), now func() time.Time) *Evaluate {
	return &Evaluate{Check: c, Append: appendLines, Order: order, Fail: fail, Now: now, seen: adapter.NewRecent[*events.Verdict](seenParts), word: strings.ToLower(rand.Text()[:8])}
}

// seenParts is how many parts of conversations are remembered. One that was forgotten is sent again
// with its id, and counts once.
const seenParts = 1 << 16

// evaluation is a request, as far as weir reads it.
type evaluation struct {
	Phase   string `json:"phase"`
	Context struct {
		Agent        string `json:"agent_name"`
		Conversation string `json:"conversation_id"`
		Trace        string `json:"trace_id"`
		Span         string `json:"span_id"`
		Model        struct {
			Name string `json:"name"`
		} `json:"model"`
	} `json:"context"`
	Input struct {
		Messages []evaluatedMessage `json:"messages"`
		Output   []evaluatedMessage `json:"output"`
		Tools    []struct {
			Name string `json:"name"`
		} `json:"tools"`
		Preview string `json:"conversation_preview"`
	} `json:"input"`
}

// evaluatedMessage is one message. Which of its members a part has says what it is.
type evaluatedMessage struct {
	Role  any `json:"role"`
	Parts []struct {
		Text   string         `json:"text"`
		Call   *evaluatedCall `json:"tool_call"`
		Result *struct {
			Call    string          `json:"tool_call_id"`
			Name    string          `json:"name"`
			Content string          `json:"content"`
			JSON    json.RawMessage `json:"content_json"`
			IsError bool            `json:"is_error"`
		} `json:"tool_result"`
	} `json:"parts"`
}

type evaluatedCall struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input_json"`
}

// EvaluateAnswer is the answer.
type EvaluateAnswer struct {
	Action      string          `json:"action"` // allow or deny
	RuleID      string          `json:"rule_id,omitempty"`
	Reason      string          `json:"reason,omitempty"` // for the model: fixed words and numbers only
	Evaluations []EvaluatedRule `json:"evaluations"`
}

// EvaluatedRule is what one rule said.
type EvaluatedRule struct {
	RuleID      string `json:"rule_id"`
	EvaluatorID string `json:"evaluator_id"`
	Kind        string `json:"evaluator_kind"`
	Passed      bool   `json:"passed"`
	Reason      string `json:"reason,omitempty"`
	Explanation string `json:"explanation,omitempty"`
}

// timeoutHeader says for how many milliseconds the client waits.
const timeoutHeader = "X-Agento11y-Hook-Timeout-Ms"

// ServeHTTP answers one evaluation.
func (e *Evaluate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := e.answer(r)
	if err != nil {
		e.Fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "application/json")
	_, _ = w.Write(encode(answer)) // an error means that the client is gone
}

func (e *Evaluate) answer(r *http.Request) (*EvaluateAnswer, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, adapter.MaxRecord+1))
	if err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	if len(body) > adapter.MaxRecord {
		return nil, &Error{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes; send fewer messages", adapter.MaxRecord)}
	}
	var in evaluation
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, &Error{http.StatusBadRequest, "the evaluation cannot be read: " + err.Error()}
	}
	if in.Phase != "preflight" && in.Phase != "postflight" {
		return nil, &Error{http.StatusBadRequest, fmt.Sprintf("phase %q: want preflight or postflight", in.Phase)}
	}
	ctx := r.Context()
	if ms, err := strconv.Atoi(r.Header.Get(timeoutHeader)); err == nil && ms > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
		defer cancel()
	}
	t := &talked{Evaluate: e, ctx: ctx, base: in.base(r.Header), answer: &EvaluateAnswer{Action: "allow", Evaluations: []EvaluatedRule{}}}
	if err := t.judge(&in); err != nil {
		return nil, err
	}
	return t.answer, nil
}

// base is what all events of a request have.
func (in *evaluation) base(h http.Header) (ev events.Event) {
	c := &in.Context
	agent, session := sessionIn(c.Agent)
	ev = events.Event{Source: "agento11y", Origin: events.OriginAgent, TenantID: clip(h.Get("X-Scope-OrgID")), From: events.Party{Agent: agent, Session: session}}
	s := said{explicit: clip(h.Get("X-Correlation-Id")), conversation: c.Conversation, session: session}
	if isHex(c.Trace, 32) {
		s.trace.ID, ev.TraceID = c.Trace, c.Trace
	}
	if isHex(c.Span, 16) {
		ev.ParentSpanID = c.Span
	}
	s.correlate(&ev, agent)
	ev.ConversationID = clip(c.Conversation)
	if agent == unnamed && session == "" {
		ev.From.Session = ev.CorrelationID // all that distinguishes callers
	}
	return ev
}

// sessionIn splits the name of an agent, NAME#SESSION. The guards of coding agents send neither a
// conversation nor a trace, and a name is all that their settings let a person choose for each session.
// OpenCode puts its mode behind the name, so NAME#SESSION:MODE is the agent NAME:MODE.
func sessionIn(name string) (agent, session string) {
	agent, session, _ = strings.Cut(name, "#")
	session, mode, found := strings.Cut(session, ":")
	if found {
		agent += ":" + mode
	}
	return cmp.Or(clip(agent), unnamed), unreserved(clip(session))
}

func isHex(s string, digits int) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == digits && s == strings.ToLower(s) && strings.Trim(s, "0") != ""
}

// talked is one request while it is judged.
type talked struct {
	*Evaluate
	ctx    context.Context
	base   events.Event
	answer *EvaluateAnswer
	lines  [][]byte // to be appended before the next check
	same   map[string]int
}

// judge reports what is new, and checks the calls that may be about to run.
func (t *talked) judge(in *evaluation) error {
	if v := t.begins(in); v != nil {
		t.said(v)
		return nil // what is new is reported with the first request that is allowed
	}
	last := -1 // the last message with calls
	for i := range in.Input.Messages {
		for _, p := range in.Input.Messages[i].Parts {
			if p.Call != nil {
				last = i
			}
		}
	}
	for i := range in.Input.Messages {
		when := history
		if in.Phase == "preflight" && i == last {
			when = after
		}
		if err := t.message(&in.Input.Messages[i], when); err != nil {
			return err
		}
	}
	for i := range in.Input.Output {
		for _, p := range in.Input.Output[i].Parts {
			if p.Call == nil {
				continue
			}
			if err := t.call(p.Call, before); err != nil {
				return err
			}
		}
	}
	// A guard before a tool may name the tool alone, and put its arguments into the preview.
	if tools := in.Input.Tools; len(in.Input.Messages)+len(in.Input.Output) == 0 && len(tools) == 1 {
		if args, ok := strings.CutPrefix(in.Input.Preview, tools[0].Name); ok && tools[0].Name != "" {
			if err := t.call(&evaluatedCall{Name: tools[0].Name, Input: json.RawMessage(strings.TrimSpace(args))}, before); err != nil {
				return err
			}
		}
	}
	if err := t.flush(); err != nil {
		return err
	}
	if t.answer.Action == "allow" && t.Order != nil {
		if v := t.Order(t.ctx, t.base.CorrelationID); v != nil {
			t.said(v)
		}
	}
	return nil
}

// begins returns the order of a person about a scope that refuses a request to a model; nil for none.
func (t *talked) begins(in *evaluation) *events.Verdict {
	if t.Begins == nil || in.Phase != "preflight" {
		return nil
	}
	ev := t.base
	ev.Kind, ev.Model, ev.ID, ev.Time = events.LLMCall, clip(in.Context.Model.Name), t.unique(), events.StampOf(t.Now())
	return t.Begins(t.ctx, &ev)
}

// message reports one message, of whose calls when says what to do.
func (t *talked) message(m *evaluatedMessage, when moment) error {
	for _, p := range m.Parts {
		switch {
		case p.Call != nil:
			if err := t.call(p.Call, when); err != nil {
				return err
			}
		case p.Result != nil:
			ev := t.base
			ev.Kind, ev.Tool = events.ToolResult, events.Tool{Name: clip(cmp.Or(p.Result.Name, "tool")), CallID: clip(p.Result.Call)}
			text := []byte(p.Result.Content)
			if len(text) == 0 && len(p.Result.JSON) > 0 {
				text = p.Result.JSON
			}
			ev.Content, ev.Sim = fingerprint.Result(text)
			if text == nil {
				ev.Content = events.EmptyContent
			}
			ev.Status, ev.Tool.ResultSize = events.StatusOK, int64(len(text))
			if p.Result.IsError {
				ev.Status = events.StatusError
			}
			t.report(&ev, t.id("result", p.Result.Call, p.Result.Name, string(text)))
		case p.Text != "" && m.Role == "user":
			ev := t.base
			ev.Kind, ev.Origin, ev.From, ev.To = events.AgentCall, events.OriginUser, events.Party{}, t.base.From
			ev.Content, ev.Sim = fingerprint.Content([]byte(p.Text)), fingerprint.Text([]byte(p.Text))
			t.report(&ev, t.id("prompt", "", "", p.Text))
		}
	}
	return nil
}

// id is the same whenever the same part of a conversation is sent again. Parts without an id of their
// own are distinguished by their content and by the number of equal ones before.
func (t *talked) id(kind, own, name, text string) string {
	key := keyOf(t.base.CorrelationID, kind, own, name)
	if own == "" {
		key = keyOf(key, text)
		if t.same == nil {
			t.same = make(map[string]int)
		}
		t.same[key]++
		key = keyOf(key, strconv.Itoa(t.same[key]))
	}
	return "hook-" + hex.EncodeToString([]byte(key)[:12])
}

// isNew notes an id and reports whether it was not known.
func (e *Evaluate) isNew(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.seen.Get(id); known {
		return false
	}
	e.seen.Put(id, nil)
	return true
}

// report has an event appended, unless it came before.
func (t *talked) report(ev *events.Event, id string) {
	if !t.isNew(id) {
		return
	}
	ev.ID, ev.Time = id, events.StampOf(t.Now())
	t.lines = append(t.lines, ev.AppendJSON(nil))
}

// When a call of a tool is looked at.
type moment uint8

const (
	before  moment = iota // it is about to run: it is checked
	after                 // it has run, and the model is about to read what it brought
	history               // it is older than that: it is reported
)

// call checks or reports the call of a tool.
func (t *talked) call(c *evaluatedCall, when moment) error {
	ev := t.base
	ev.Kind, ev.Tool = events.ToolCall, events.Tool{Name: clip(cmp.Or(c.Name, "tool")), CallID: clip(c.ID), ArgsSize: int64(len(c.Input))}
	ev.Tool.ArgsHash, ev.Tool.ArgsSim = fingerprint.Args(c.Input, nil), fingerprint.ArgsText(c.Input)
	id := t.id("call", c.ID, "", c.Name+string(c.Input))
	switch {
	case when == history:
		t.report(&ev, id)
		return nil
	case when == before && c.ID == "": // each is another call
		id = t.unique()
	case !t.isNew(id) && when == after:
		// It was checked before it ran, unless the same request is sent again.
		if v := t.refused(id); v != nil {
			t.said(v)
		}
		return nil
	}
	if t.answer.Action != "allow" {
		return nil // none of the calls runs
	}
	if err := t.flush(); err != nil {
		return err
	}
	ev.ID, ev.Time, ev.Ask = id, events.StampOf(t.Now()), true
	v, err := t.Check.one(t.ctx, &ev, ev.AppendJSON(nil))
	if err != nil {
		return err
	}
	if when == after && Refuses(v) {
		t.mu.Lock()
		t.seen.Put(id, v)
		t.mu.Unlock()
	}
	t.said(v)
	return nil
}

// refused returns the verdict that refused a call when it had run.
func (e *Evaluate) refused(id string) *events.Verdict {
	e.mu.Lock()
	defer e.mu.Unlock()
	v, _ := e.seen.Get(id)
	return v
}

// unique returns an id that no other call has.
func (e *Evaluate) unique() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.serial++
	return e.word + "-" + strconv.FormatInt(e.serial, 36)
}

// said takes a verdict into the answer.
func (t *talked) said(v *events.Verdict) {
	rule := EvaluatedRule{RuleID: cmp.Or(v.RuleID, string(v.Reason)), EvaluatorID: "weir", Kind: "weir", Passed: !Refuses(v), Explanation: v.Message}
	switch {
	case Refuses(v):
		rule.Reason, rule.Explanation = v.Message, ""
		t.answer.Action, t.answer.RuleID, t.answer.Reason = "deny", rule.RuleID, agentText(v)
	case v.Action == events.Allow:
		return // no rule has anything to say
	}
	t.answer.Evaluations = append(t.answer.Evaluations, rule)
}

// flush appends what was gathered.
func (t *talked) flush() error {
	lines := t.lines
	t.lines = nil
	if len(lines) == 0 {
		return nil
	}
	return t.Append(t.ctx, lines)
}
