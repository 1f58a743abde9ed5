package check

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"weir/events"
)

// DenyFormat is the shape in which a refusal is written.
// The zero value is AnyFormat.
type DenyFormat uint8

// The formats of refusals. AnyFormat lets the request decide: ToolError for a tool call of MCP whose
// answer may have status 200, JSONRPC for other JSON-RPC requests of which the same is
// true, and Problem for the rest.
const (
	AnyFormat DenyFormat = iota
	Problem              // RFC 9457, with the status of the verdict
	Flat                 // one flat object, as the gateway system and the task system write it
	JSONRPC              // an error object of JSON-RPC
	ToolError            // a result of an MCP tool that is an error: the one shape that a model reads
	// It counts the formats, and is none.
	denyFormatCount
)

var denyFormatNames = [denyFormatCount]string{"auto", "problem", "bare", "jsonrpc", "tool_error"}

// String returns the format as settings spell it.
func (d DenyFormat) String() string {
	if d < denyFormatCount {
		return denyFormatNames[d]
	}
	return "invalid"
}

// ParseDenyFormat returns the format that settings spell so; the empty text is AnyFormat.
func ParseDenyFormat(s string) (DenyFormat, error) {
	// An empty text matches the first name, which is that of AnyFormat.
	for d, name := range denyFormatNames {
		if s == name || s == "" {
			return DenyFormat(d), nil
		}
	}
	return 0, &Error{http.StatusBadRequest, fmt.Sprintf("the shape of refusals %q is not known; want one of %s", s, strings.Join(denyFormatNames[:], ", "))}
}

// Reply is a refusal as it goes to the client.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// The JSON-RPC codes of refusals: ten times the status that says the same. They lie
// outside the range that JSON-RPC, MCP and A2A keep for themselves.
// -32768 to -32000 are kept, see JSON-RPC 2.0.
const (
	codeWait   = 4290 // waiting helps
	codeSpent  = 4020 // a budget is used up
	codeRefuse = 4030
)

// waits reports whether waiting helps: the verdict then says how long.
func waits(v *events.Verdict) bool { return v.RetryAfterS > 0 }

// code is the JSON-RPC code of a refusal. The same split as that of statuses, see decision 53:
// a client that knows no HTTP learns by the code whether to try again.
func code(v *events.Verdict) int {
	switch {
	case waits(v):
		return codeWait
	case v.HTTPStatus == http.StatusPaymentRequired:
		return codeSpent
	}
	return codeRefuse
}

// Refuse writes the verdict for a request. rpc is the JSON-RPC request that is
// refused; nil when there is none. Without an id in it there is nothing that a JSON-RPC
// answer could be for, and the refusal is a Problem.
func Refuse(v *events.Verdict, d DenyFormat, rpc *Message) *Reply {
	answerable := rpc != nil && len(rpc.ID) > 0
	// What the request cannot take is turned into what it can: an answer of JSON-RPC needs an
	// id, and a result of a tool a call of one.
	switch {
	case d == Flat || d == Problem:
	case !answerable:
		d = Problem
	case d == AnyFormat && rpc.Method == methodToolsCall:
		d = ToolError
	case d == AnyFormat, d == ToolError && rpc.Method != methodToolsCall:
		d = JSONRPC
	}
	// Status 200 is what JSON-RPC over HTTP wants of errors, too.
	r := &Reply{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}}
	switch d {
	case Flat:
		r.Status, r.Body = status(v), encode(bareOf(v))
	case JSONRPC:
		r.Body = encode(rpcAnswer{JSONRPC: "2.0", ID: rpc.ID, Error: &rpcError{Code: code(v), Message: v.Message, Data: rpcData(v, rpc)}})
	case ToolError:
		r.Body = encode(rpcAnswer{JSONRPC: "2.0", ID: rpc.ID, Result: &toolResult{ResultType: "complete", IsError: true,
			Content: []textPart{{"text", agentText(v)}}, Structured: bareOf(v), Meta: metaOf(v)}})
	default:
		r.Status, r.Body = status(v), problemOf(v)
		r.Header.Set("Content-Type", "application/problem+json")
	}
	setRefusalHeaders(r.Header, v)
	return r
}

// write sends the refusal. A refusal is not to be cached: the next ask may be allowed.
func (r *Reply) write(w http.ResponseWriter) {
	copyHeader(w.Header(), r.Header)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Body)
}

// copyHeader puts headers in the place of those of the same names. The slices of values are
// shared and must not be changed.
func copyHeader(to, from http.Header) {
	maps.Copy(to, from)
}

// bare is a refusal as the gateway system writes it, and with the names of the task
// system where a task is what was refused.
type bare struct {
	Reason           events.Reason `json:"reason_code"`
	Limit            *float64      `json:"limit,omitempty"`
	Observed         *float64      `json:"observed,omitempty"`
	Session          string        `json:"session,omitempty"`
	Tool             string        `json:"tool,omitempty"`
	Detail           string        `json:"detail,omitempty"`
	ControlledCutoff bool          `json:"controlled_cutoff"`
	RetryAfterS      int64         `json:"retry_after_s,omitempty"`
	HeldUntil        string        `json:"held_until,omitempty"`
	// Nil leaves its members out. Its Reason lies beside that of the outer object under
	// another name of JSON.
	*task
}

// task has the names of the task system. A loop that is refused has a count and a task, a
// delegation a depth, and both the agent that was to do it.
type task struct {
	Status string `json:"status"`
	Reason string `json:"reason"`
	// A pointer, since a count of 0 is written where it is what the limit counts.
	LoopCount       *int64 `json:"loop_count,omitempty"`
	TaskID          string `json:"task_id,omitempty"`
	ProjectID       string `json:"project_id,omitempty"`
	MemoryTraceID   string `json:"memory_trace_id,omitempty"`
	AgentID         string `json:"agent_id,omitempty"`
	DelegationDepth *int64 `json:"delegation_depth,omitempty"`
}

// taskReasons are the words of the task system for what it refuses.
var taskReasons = map[events.Reason]string{
	events.MaxLoops:           "Loop limit exceeded",
	events.MaxReflectLoops:    "Loop limit exceeded",
	events.MaxDelegationDepth: "Delegation depth exceeded",
}

// bareOf is the refusal as one flat object. A refusal about no task keeps to the words of the
// gateway system alone.
func bareOf(v *events.Verdict) bare {
	b := bare{Reason: v.Reason, Limit: v.Limit, Observed: v.Observed, Session: sessionOf(v), Tool: v.Tool, Detail: detailOf(v), ControlledCutoff: v.ControlledCutoff, RetryAfterS: v.RetryAfterS, HeldUntil: HeldUntil(v)}
	words, known := taskReasons[v.Reason]
	if !known && v.TaskID == "" {
		return b
	}
	b.task = &task{Status: "error", Reason: cmp.Or(words, v.Message), TaskID: v.TaskID, ProjectID: v.ProjectID, MemoryTraceID: v.MemoryTraceID,
		AgentID: cmp.Or(v.To, v.Agent, v.From)} // who was to do it
	if v.LoopCount != 0 || v.Unit == events.UnitLoops {
		b.LoopCount = &v.LoopCount
	}
	if v.DelegationDepth != 0 || v.Reason == events.MaxDelegationDepth {
		b.DelegationDepth = &v.DelegationDepth
	}
	return b
}

// sessionOf is the party whose call it was: not every source has sessions.
func sessionOf(v *events.Verdict) string {
	if v.Session != "" {
		return v.Session
	}
	return v.From
}

// detailOf is the sentence of the gateway system for the rule that it words in its own
// way, and else what weir says.
func detailOf(v *events.Verdict) string {
	switch {
	case v.Reason == events.Repetition && v.Tool != "" && v.ArgsHash != "":
		// The hash is given by its first eight digits, as that system does.
		_, digits, _ := strings.Cut(v.ArgsHash, ":")
		last := "the last"
		if before := v.WindowCalls - 1; before > 0 {
			last = "last " + strconv.FormatInt(before, 10)
		}
		return fmt.Sprintf("same call (tool=%s, args-hash=%.8s) repeated within %s calls", v.Tool, digits, last)
	case v.Detail != "":
		return v.Detail
	}
	return v.Message
}

// HeldUntil is when a hold ends without a decision; "" for other refusals.
func HeldUntil(v *events.Verdict) string {
	if v.Action != events.Hold || v.ExpiresAt.IsZero() {
		return ""
	}
	return v.ExpiresAt.String()
}

// agentText is the text for the model. It is never empty: the model always reads that it has to
// stop trying. It is where answers without other members say until when a call is held.
func agentText(v *events.Verdict) string {
	if v.AgentMessage != "" {
		if until := HeldUntil(v); until != "" {
			return v.AgentMessage + " The hold ends at " + until + " at the latest."
		}
		return v.AgentMessage
	}
	return "The call was refused by the flow guard (" + string(v.Reason) + "). Finish with what you have and report back."
}

// rpcAnswer is an answer of JSON-RPC. Exactly one of Result and Error is set.
type rpcAnswer struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  *toolResult     `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// rpcError is an error of JSON-RPC. Data differs between protocols, see rpcData.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

// toolResult is a result of an MCP tool. Structured repeats the reason for programs, since
// models read only Content.
type toolResult struct {
	ResultType string      `json:"resultType"`
	Content    []textPart  `json:"content"`
	Structured bare        `json:"structuredContent"`
	IsError    bool        `json:"isError"`
	Meta       *resultMeta `json:"_meta,omitempty"`
}

// resultMeta are the members of _meta that weir adds to results.
type resultMeta struct {
	Remaining []events.Remaining `json:"weir/remaining"`
}

// metaOf is the remaining part of each limit, as _meta. nil leaves _meta out.
func metaOf(v *events.Verdict) *resultMeta {
	if len(v.Remaining) == 0 {
		return nil
	}
	return &resultMeta{v.Remaining}
}

// textPart is a piece of content that is text.
type textPart struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// errorInfo is how A2A details an error: the metadata are all text.
type errorInfo struct {
	Type     string            `json:"@type"`
	Reason   string            `json:"reason"`
	Domain   string            `json:"domain"`
	Metadata map[string]string `json:"metadata"`
}

// rpcData is what details a refusal: for messages of A2A in the form that A2A has for errors,
// else what the bare format says.
func rpcData(v *events.Verdict, rpc *Message) any {
	if !rpc.sendsMessage() {
		return bareOf(v)
	}
	info := errorInfo{"type.googleapis.com/google.rpc.ErrorInfo", strings.ToUpper(string(v.Reason)), "weir",
		map[string]string{"controlled_cutoff": strconv.FormatBool(v.ControlledCutoff), "agent_message": agentText(v)}}
	if v.CorrelationID != "" {
		info.Metadata["correlation_id"] = v.CorrelationID
	}
	if until := HeldUntil(v); until != "" {
		info.Metadata["held_until"] = until
	}
	if v.Limit != nil && v.Observed != nil {
		info.Metadata["limit"] = strconv.FormatFloat(*v.Limit, 'f', -1, 64)
		info.Metadata["observed"] = strconv.FormatFloat(*v.Observed, 'f', -1, 64)
	}
	return []errorInfo{info}
}

// encode writes JSON. Angle brackets stay as they are: models and people read these texts. The
// line end is part of the answer.
func encode(v any) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // no rule measures what JSON cannot write
		panic(fmt.Sprintf("encode a refusal: %v", err))
	}
	return out.Bytes()
}
