// Package litellm reads LiteLLM's standard logging payload and its spend logs.
//
// A request holds the whole conversation. The tool calls that a model requests are in its answer, and their
// results in the next request, so a result is emitted one request later.
// Without messages (turn_off_message_logging, spend logs as they are by default) there are
// tokens and money only.
package litellm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"time"

	"weir/events"
	"weir/events/adapter"
	"weir/events/adapter/deed"
	"weir/events/adapter/pairing"
	"weir/events/adapter/spanrow"
	"weir/events/adapter/usage"
	"weir/events/adapter/wire"
	"weir/events/fingerprint"
)

// Format returns the format of LiteLLM's logs.
func Format() adapter.Format {
	return adapter.Format{
		Name:    "litellm",
		Title:   "LiteLLM: standard logging payloads and spend logs, one per line",
		Framing: adapter.Documents,
		Score:   score,
		New:     newReader,
		// A caller is never known, since a client is one party; starts are times of requests.
		Gives: adapter.Gives{Tools: adapter.Sometimes, Args: adapter.Sometimes, Results: adapter.Sometimes, Caller: adapter.Never, Turn: adapter.Never, Tokens: adapter.Always,
			Time: adapter.Always, Starts: adapter.Always, Work: adapter.Never, Tasks: adapter.Never},
	}
}

// score looks for names in the whole beginning, since the objects are large and their members
// in any order.
func score(head *adapter.Head) adapter.Match {
	has := func(name string) bool { return bytes.Contains(head.Bytes, []byte(name)) }
	for top := range head.Tops() {
		// A request that another program has wrapped is no log of LiteLLM's.
		if !top.Has("call_type") && top["data"] != "[" {
			break
		}
		if has(`"call_type"`) && has(`"startTime"`) && (has(`"litellm_call_id"`) || has(`"request_id"`) && has(`"spend"`)) {
			return adapter.Certain
		}
		break
	}
	return adapter.NoMatch
}

// reader keeps nothing from request to request: each has the whole conversation.
type reader struct {
	source      string
	ignore      adapter.IgnoreArgs
	correlation []events.CorrelationSource
	event       events.Event
}

// newReader trusts the trace before the session, as a session may hold many runs.
func newReader(o adapter.Options) adapter.Adapter {
	return &reader{source: cmp.Or(o.Source, "litellm"), ignore: o.IgnoreArgs, correlation: o.CorrelationOr(events.CorrelationTrace, events.CorrelationSession)}
}

// request is one request to a model. The names of the standard logging payload stand first.
type request struct {
	ID        string `json:"id"`
	RequestID string `json:"request_id"`
	CallID    string `json:"litellm_call_id"`
	Trace     string `json:"trace_id"`
	Session   string `json:"session_id"`
	CallType  string `json:"call_type"`
	Status    string `json:"status"`
	Error     string `json:"error_str"`
	// Times are texts in some rows and numbers in others.
	Start    json.RawMessage `json:"startTime"`
	End      json.RawMessage `json:"endTime"`
	Model    string          `json:"model"`
	Provider string          `json:"custom_llm_provider"`
	Input    int64           `json:"prompt_tokens"`
	Output   int64           `json:"completion_tokens"`
	Total    int64           `json:"total_tokens"`
	Cost     float64         `json:"response_cost"`
	// Cost is of payloads, spend of rows.
	Spend   float64 `json:"spend"`
	EndUser string  `json:"end_user"`
	// Messages, response and request are JSON, or texts that hold JSON.
	Messages     json.RawMessage `json:"messages"`
	Response     json.RawMessage `json:"response"`
	Metadata     json.RawMessage `json:"metadata"`
	ProxyRequest json.RawMessage `json:"proxy_server_request"`
}

// message is one of a conversation, in the forms of chat completions.
//
// Content is a text or a list of blocks.
type message struct {
	Role    string          `json:"role"`
	CallID  string          `json:"tool_call_id"`
	Content json.RawMessage `json:"content"`
	Calls   []toolCall      `json:"tool_calls"`
}

// toolCall is a call that the model asks for.
type toolCall struct {
	ID       string   `json:"id"`
	Function function `json:"function"`
}

// function is what is called; its arguments are a text of JSON.
type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// tokens is what LiteLLM makes of the usage of any provider: prompt_tokens holds the cached tokens.
type tokens struct {
	CacheRead    int64 `json:"cache_read_input_tokens"`
	CacheWritten int64 `json:"cache_creation_input_tokens"`
	Prompt       struct {
		Cached  int64 `json:"cached_tokens"`
		Written int64 `json:"cache_creation_tokens"`
		Parts   struct {
			Hour int64 `json:"ephemeral_1h_input_tokens"`
		} `json:"cache_creation_token_details"`
	} `json:"prompt_tokens_details"`
	Completion struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// metadata is what the proxy adds: who asked, and the call of a tool that it made itself.
type metadata struct {
	Agent   string `json:"agent_id"`
	Alias   string `json:"user_api_key_alias"`
	Usage   tokens `json:"usage_object"`
	MCPTool *struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Server    string          `json:"mcp_server_name"`
	} `json:"mcp_tool_call_metadata"`
}

// Decode reads one request, or a page of them.
//
// The first request of a page that cannot be read ends the page.
func (r *reader) Decode(record []byte, emit func(*events.Event)) error {
	if err := adapter.CheckSize(record); err != nil {
		return err
	}
	if err := spanrow.Check(record); err != nil {
		return err
	}
	// A page has its rows in data, which a request does not have.
	var page struct {
		Data []json.RawMessage `json:"data"`
	}
	if json.Unmarshal(record, &page) == nil && len(page.Data) > 0 {
		for _, one := range page.Data {
			if err := r.request(one, emit); err != nil {
				return err
			}
		}
		return nil
	}
	return r.request(record, emit)
}

// Flush has nothing to emit: a call without a result stays one.
func (r *reader) Flush(func(*events.Event)) error { return nil }

// request emits one request: the results that it brings, the request itself, and the calls
// that its answer asks for.
func (r *reader) request(record []byte, emit func(*events.Event)) error {
	var q request
	if err := json.Unmarshal(record, &q); err != nil {
		return &events.DecodeError{Code: events.CodeSyntax, Offset: 0, Reason: "it is no request that LiteLLM logged: " + err.Error()}
	}
	// The id of the call is the same in all forms of the log.
	id := adapter.Word([]byte(cmp.Or(q.CallID, q.RequestID, q.ID)), events.MaxID/2)
	start, end := q.times()
	if id == "" || start.IsZero() {
		return adapter.Missing("startTime", "the request has no id or no startTime")
	}
	var m metadata
	_ = unwrapped(q.Metadata, &m) // other forms have none of it
	// The surest name of the client: an agent's id, the end user, the alias of its key.
	agent := adapter.Word([]byte(cmp.Or(m.Agent, q.EndUser, m.Alias, "client")), events.MaxID)
	// begin fills what all events of the request share.
	begin := func(kind events.Kind, id string, at time.Time) *events.Event {
		r.event = events.Event{ID: id, Source: r.source, Kind: kind, Time: events.Stamp(at.UnixMilli()), From: events.Party{Agent: agent}}
		r.name(&q, &r.event)
		if r.event.CorrelationID == "" { // one that nothing ties to others
			r.event.CorrelationID, r.event.CorrelationSource = id, events.CorrelationDerived
		}
		return &r.event
	}
	// Calls are named within their flow, since servers count their ids from 0.
	flow := begin(events.LLMCall, id, start).FlowKey()
	r.results(&q, flow, start, begin, emit)
	if m.MCPTool != nil { // the proxy made the call itself
		tool := r.tool(&toolCall{Function: function{m.MCPTool.Name, string(m.MCPTool.Arguments)}})
		tool.Server = adapter.Word([]byte(m.MCPTool.Server), events.MaxID)
		e := begin(events.ToolCall, id+"/start", start)
		e.Tool = tool
		emit(e)
		e = begin(events.ToolResult, id+"/end", end)
		e.Tool = tool
		q.outcome(e)
		result := []byte(spanrow.Text(q.Response))
		if got := wire.ReadToolResult(result); got.Text != nil {
			if result = got.Text; got.Failed && e.Status == events.StatusOK {
				e.Status, e.ErrorType = events.StatusError, cmp.Or(fingerprint.Error(result), "error")
			}
		} else if len(result) == 0 {
			result = nil // not kept
		}
		pairing.Returned(e, result)
		deed.Returned(e, result)
		emit(e)
		return nil
	}
	// The answer is emitted at the time when it was there.
	e := begin(events.LLMCall, id+"/model", end)
	e.Model, e.Provider = adapter.Word([]byte(q.Model), events.MaxID), adapter.Word([]byte(q.Provider), events.MaxProvider)
	e.Usage = q.used(&m.Usage)
	e.DurationMS = float64(end.Sub(start).Microseconds()) / 1e3
	q.outcome(e)
	emit(e)
	// The calls are made after the answer, and their results come with the next request.
	for _, c := range q.asked() {
		e := begin(events.ToolCall, callID(flow, c.ID)+"/start", end)
		e.Tool = r.tool(&c)
		emit(e)
	}
	return nil
}

// times returns when the request began and ended. An end before the start is none.
func (q *request) times() (start, end time.Time) {
	start, end = spanrow.Time(q.Start), spanrow.Time(q.End)
	// Payloads have seconds with a fraction, which spanrow does not read.
	if seconds, ok := epoch(q.Start); ok {
		start = seconds
	}
	if seconds, ok := epoch(q.End); ok {
		end = seconds
	}
	if end.Before(start) {
		end = start
	}
	return start, end
}

// results emits the results that the request brings. They were there when it was made.
func (r *reader) results(q *request, flow string, start time.Time, begin func(events.Kind, string, time.Time) *events.Event, emit func(*events.Event)) {
	last, toolResults := q.toolResults()
	for i := range toolResults {
		e := begin(events.ToolResult, callID(flow, toolResults[i].CallID)+"/end", start)
		// The tool is known by the call, which stands in the messages before.
		for j := range last.Calls {
			if c := &last.Calls[j]; c.ID == toolResults[i].CallID {
				e.Tool = r.tool(c)
			}
		}
		result := []byte(spanrow.Text(toolResults[i].Content))
		e.Status = events.StatusOK
		e.Content, e.Sim = fingerprint.Result(result)
		deed.Returned(e, result)
		emit(e)
	}
}

// toolResults returns the last answer of the model before the request, and the results behind it, which
// are new in the request. Requests may be logged in another order than they were made in.
//
// A first message that is not the model's counts as one, so that a conversation without an
// answer has no results.
func (q *request) toolResults() (last message, results []message) {
	var said []message
	if unwrapped(q.Messages, &said) != nil || said == nil {
		// The proxy may have kept the request as it came.
		var proxied struct{ Messages []message }
		_ = unwrapped(q.ProxyRequest, &proxied)
		said = proxied.Messages
	}
	for i := range said {
		if said[i].Role == "assistant" || i == 0 {
			last, results = said[i], nil
		}
		if said[i].Role == "tool" && said[i].CallID != "" {
			results = append(results, said[i])
		}
	}
	return last, results
}

// used is what the model's answer took.
//
// That usage is known is certain, also if all counts are 0.
func (q *request) used(t *tokens) events.Usage {
	u := events.Usage{Known: true, Input: max(0, q.Input), Output: max(0, q.Output), Total: max(0, q.Total)}
	var answer struct{ Usage tokens }
	_ = unwrapped(q.Response, &answer) // where the metadata has none
	a := &answer.Usage
	u.CacheRead = max(0, cmp.Or(t.CacheRead, t.Prompt.Cached, a.CacheRead, a.Prompt.Cached))
	u.CacheCreation = max(0, cmp.Or(t.CacheWritten, t.Prompt.Written, a.CacheWritten, a.Prompt.Written))
	u.CacheHour = min(u.CacheCreation, max(0, cmp.Or(t.Prompt.Parts.Hour, a.Prompt.Parts.Hour)))
	u.Reasoning = max(0, cmp.Or(t.Completion.Reasoning, a.Completion.Reasoning))
	if u.CacheRead+u.CacheCreation > 0 {
		u.CacheInInput = events.Yes
	}
	u.CostMicroUSD, _ = usage.CostOf(cmp.Or(q.Cost, q.Spend))
	return u
}

// outcome says of an event how the request ended.
//
// The text of the error is normalised, so that equal ones are equal.
func (q *request) outcome(e *events.Event) {
	e.Status = events.StatusOK
	if q.Status == "failure" {
		e.Status, e.ErrorType = events.StatusError, cmp.Or(fingerprint.Error([]byte(q.Error)), "error")
	}
}

// asked returns the calls that the answer asks for. Answers of other forms ask for none.
//
// Choices are several answers to one question; all their calls are asked for.
func (q *request) asked() (calls []toolCall) {
	var answer struct{ Choices []struct{ Message message } }
	_ = unwrapped(q.Response, &answer)
	for _, choice := range answer.Choices {
		calls = append(calls, choice.Message.Calls...)
	}
	return calls
}

// callID is the id of a call: ids of calls are unique within a conversation only.
//
// Half the room of an event's id is the flow's, a quarter the call's.
func callID(flow, id string) string {
	return adapter.Word([]byte(flow), events.MaxID/2) + "/" + adapter.Word([]byte(id), events.MaxID/4)
}

// tool is what a call asks for. Arguments are a text of JSON, as the model wrote it.
func (r *reader) tool(c *toolCall) events.Tool {
	args := []byte(c.Function.Arguments)
	tool := events.Tool{Name: adapter.Word([]byte(cmp.Or(c.Function.Name, "tool")), events.MaxID), CallID: adapter.ID([]byte(c.ID)), ArgsSize: int64(len(args))}
	tool.ArgsHash = fingerprint.Args(args, r.ignore.Of(tool.Name))
	return tool
}

// name says which flow the request is of.
//
// The session is the conversation in any case.
func (r *reader) name(q *request, e *events.Event) {
	e.ConversationID = adapter.Word([]byte(q.Session), events.MaxID)
	// The first source of the options that has a value decides.
	for _, source := range r.correlation {
		id := ""
		switch source {
		case events.CorrelationTrace:
			id = q.Trace
		case events.CorrelationSession, events.CorrelationConversation:
			id = q.Session
		}
		if id != "" {
			e.CorrelationID, e.CorrelationSource = adapter.Word([]byte(id), events.MaxID), source
			return
		}
	}
}

// epoch reads seconds since 1970 with a fraction, as payloads have times.
//
// Beyond 1e11 it is no number of seconds.
func epoch(raw json.RawMessage) (t time.Time, ok bool) {
	var seconds float64
	if json.Unmarshal(raw, &seconds) != nil || seconds <= 0 || seconds > 1e11 {
		return t, false
	}
	return time.UnixMicro(int64(math.Round(seconds * 1e6))).UTC(), true
}

// unwrapped reads JSON, also where a database has it as text.
//
// An error leaves into as far as it was read.
func unwrapped(raw json.RawMessage, into any) error {
	if len(raw) > 0 && raw[0] == '"' {
		raw = json.RawMessage(spanrow.Text(raw))
	}
	return json.Unmarshal(raw, into)
}
