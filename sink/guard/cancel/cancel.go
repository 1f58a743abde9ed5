// Package cancel ends work that a call has begun elsewhere: a task of an A2A agent, a task or a request of
// an MCP server. Its functions are for guard.Begun.OnStop. It needs the standard library alone.
package cancel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// Remote is where work was begun, and how it is reached.
type Remote struct {
	URL    string       // that of the agent or the server, to which its requests are posted
	Header http.Header  // of each request, such as Authorization; may be nil
	Client *http.Client // default: http.DefaultClient
}

// The methods that end work.
const (
	a2aCancel    = "CancelTask"              // A2A from 1.0 on
	a2aCancelOld = "tasks/cancel"            // A2A up to 0.3
	mcpCancel    = "tasks/cancel"            // MCP
	mcpCancelled = "notifications/cancelled" // MCP
)

// Codes of JSON-RPC and A2A.
const (
	noMethod      = -32601
	notCancelable = -32002 // the task has ended already
	noVersion     = -32009
)

// A2ATask returns a function that cancels a task of an agent: by CancelTask, or where the agent is of
// version 0.3 by tasks/cancel. A task that has ended already is no error.
func (r Remote) A2ATask(id string) func(context.Context) error {
	return func(ctx context.Context) error {
		params := map[string]any{"id": id}
		err := r.post(ctx, a2aCancel, params, http.Header{"A2a-Version": {"1.0"}})
		if fault, ok := errors.AsType[*Fault](err); ok && (fault.Code == noMethod || fault.Code == noVersion) {
			err = r.post(ctx, a2aCancelOld, params, nil)
		}
		if fault, ok := errors.AsType[*Fault](err); ok && fault.Code == notCancelable {
			return nil
		}
		return err
	}
}

// MCPTask returns a function that cancels a task of a server by tasks/cancel. Header has the
// Mcp-Session-Id of the session in which the task was begun.
func (r Remote) MCPTask(id string) func(context.Context) error {
	return func(ctx context.Context) error { return r.post(ctx, mcpCancel, map[string]any{"taskId": id}, nil) }
}

// MCPRequest returns a function that cancels a request of a session by notifications/cancelled. SDKs
// send that themselves when the context of a call ends: this is for programs without one. id is a
// number or a string.
func (r Remote) MCPRequest(id any) func(context.Context) error {
	return func(ctx context.Context) error {
		return r.send(ctx, message{Version: "2.0", Method: mcpCancelled, Params: map[string]any{"requestId": id, "reason": "stopped by a person"}}, nil, nil)
	}
}

// Fault is the error that the other side has answered.
type Fault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Error returns the text and the code.
func (f *Fault) Error() string { return fmt.Sprintf("%s (%d)", f.Message, f.Code) }

type message struct {
	Version string         `json:"jsonrpc"`
	ID      string         `json:"id,omitempty"`
	Method  string         `json:"method"`
	Params  map[string]any `json:"params"`
}

// post sends a request and returns the error of its answer.
func (r Remote) post(ctx context.Context, method string, params map[string]any, header http.Header) error {
	var answer struct {
		Error *Fault `json:"error"`
	}
	if err := r.send(ctx, message{Version: "2.0", ID: "weir-cancel", Method: method, Params: params}, header, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return answer.Error
	}
	return nil
}

// mostAnswer is the length of the longest answer that is read.
const mostAnswer = 1 << 20

// send posts a message and reads the answer into out, if that is not nil.
func (r Remote) send(ctx context.Context, m message, header http.Header, out any) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(text))
	if err != nil {
		return err
	}
	for _, from := range []http.Header{r.Header, header} {
		for name, values := range from {
			req.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	client := r.Client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil {
		return err
	}
	if out != nil && json.Unmarshal(payload(resp.Header, body), out) == nil {
		return nil
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s is answered by %s", m.Method, resp.Status)
	}
	if out != nil {
		return fmt.Errorf("the answer to %s cannot be read", m.Method)
	}
	return nil
}

// payload returns the JSON of an answer: the body, or the data of the last event of a stream.
func payload(header http.Header, body []byte) []byte {
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	if kind != "text/event-stream" {
		return body
	}
	var data []byte
	for line := range strings.Lines(string(body)) {
		if text, ok := strings.CutPrefix(line, "data:"); ok && strings.TrimSpace(text) != "" {
			data = []byte(strings.TrimSpace(text))
		}
	}
	return data
}
