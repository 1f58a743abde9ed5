// Package client calls the API of a running weir and turns its errors into messages for a terminal.
package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/cmd/internal/app"
	"weir/cmd/internal/certificates"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/costs"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/sink/check"
)

// Variables that say which running weir to ask when no flag does.
const (
	ServerVariable = "WEIR_SERVER"
	TokenVariable  = "WEIR_TOKEN_FILE"
	caVariable     = "WEIR_CA_FILE"
	certVariable   = "WEIR_CERT_FILE"
	keyVariable    = "WEIR_KEY_FILE"
)

// Variables are all of them.
var Variables = []string{ServerVariable, TokenVariable, caVariable, certVariable, keyVariable}

// ServerFlags say which running weir to ask.
//
// Flags go before variables, and those before the defaults. Files are read by Client.
// A token stands in a file and never in a flag, where other users of the machine could read
// it.
type ServerFlags struct{ URL, TokenFile, caFile, certFile, keyFile *string }

// NewServerFlags declares the flags.
func NewServerFlags(fs *pflag.FlagSet) *ServerFlags {
	return &ServerFlags{
		URL:       fs.String("server", "", "ask the weir that runs at this `URL` ("+ServerVariable+", else "+URLOf(app.DefaultListen)+")"),
		TokenFile: fs.String("token-file", "", "`FILE` with the token that it wants ("+TokenVariable+")"),
		caFile:    fs.String("ca-file", "", "trust its certificate by the authorities in this `FILE` ("+caVariable+", else the system's)"),
		certFile:  fs.String("cert-file", "", "show the certificate in this `FILE` ("+certVariable+")"),
		keyFile:   fs.String("key-file", "", "`FILE` with the key of that certificate ("+keyVariable+")"),
	}
}

// Given reports whether a flag names a server.
//
// The environment does not count: a server that is always set must not forbid a command to
// look into a file.
func (s *ServerFlags) Given() bool { return *s.URL != "" }

// Certified reports whether a flag or the environment names a certificate to show.
func (s *ServerFlags) Certified(env *cli.Env) bool {
	return cmp.Or(*s.certFile, env.Getenv(certVariable)) != ""
}

// Again returns the flags by which a command that a person copies finds the same server: those that were
// given here. What variables say stays said. A command that changes something needs a token, so that it has a
// place for the file where neither names one. Both begin with a space, unless they are "".
func (s *ServerFlags) Again(env *cli.Env, quote func(string) string) (reads, changes string) {
	for _, f := range []struct {
		name  string
		value *string
	}{{"server", s.URL}, {"token-file", s.TokenFile}, {"ca-file", s.caFile}, {"cert-file", s.certFile}, {"key-file", s.keyFile}} {
		if *f.value != "" {
			reads += " --" + f.name + " " + quote(*f.value)
		}
	}
	changes = reads
	if s.TokenOf(env) == "" && !s.Certified(env) {
		changes += " --token-file FILE"
	}
	return reads, changes
}

// Client returns a client of the server.
//
// It sends no request. An address without a scheme is treated as HTTP. Errors are a bad URL, and
// files that cannot be read.
func (s *ServerFlags) Client(env *cli.Env) (*Client, error) {
	c := &Client{Base: *s.URL, HTTP: &http.Client{}}
	if c.Base == "" {
		c.Base = env.Getenv(ServerVariable)
	}
	if c.Base == "" {
		c.Base = URLOf(app.DefaultListen)
	}
	if !strings.Contains(c.Base, "://") {
		c.Base = "http://" + c.Base
	}
	c.Base = strings.TrimRight(c.Base, "/")
	if u, err := url.Parse(c.Base); err != nil || u.Host == "" {
		return nil, cli.Usage("--server %s is no URL", c.Base).Advise("for example --server %s", URLOf(app.DefaultListen))
	}
	// Without any file it trusts the authorities that the system trusts.
	trust := certificates.Client{Authorities: cmp.Or(*s.caFile, env.Getenv(caVariable)), Certificate: cmp.Or(*s.certFile, env.Getenv(certVariable)), Key: cmp.Or(*s.keyFile, env.Getenv(keyVariable))}
	transport, err := trust.Transport()
	if err != nil {
		return nil, err
	}
	c.HTTP.Transport = transport
	if file := s.TokenOf(env); file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, cli.Failure("the token: %w", err).Advise("name its file with --token-file or %s", TokenVariable)
		}
		c.Token = firstLine(string(b))
	}
	return c, nil
}

// TokenOf returns the file with the token, by the flag or the environment; "" for none.
func (s *ServerFlags) TokenOf(env *cli.Env) string {
	return cmp.Or(*s.TokenFile, env.Getenv(TokenVariable))
}

// firstLine returns the token of a file. Space around it is no part of it, because editors end a file with a
// newline. The file of a weir has a second line while its token changes.
func firstLine(text string) string {
	token, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(token)
}

// Client sends requests to a running weir.
//
// Base has no slash at its end, and Token is "" for none. It may be used by many
// goroutines, as HTTP may. There is no time limit: verdicts are read for as long as the caller
// wants, and every other request is ended by its context.
type Client struct {
	Base, Token string
	HTTP        *http.Client
}

// StatusError is an answer that is none.
//
// detail is what a problem document says, "" when the answer was none. Body is at most 1
// MiB of what came.
type StatusError struct {
	Status int
	detail string
	Body   []byte
}

// Error is what the server said, with its status.
func (e *StatusError) Error() string {
	if e.detail != "" {
		return fmt.Sprintf("%s (HTTP %d)", e.detail, e.Status)
	}
	return fmt.Sprintf("HTTP %d %s", e.Status, http.StatusText(e.Status))
}

// With returns a client of the same server that shows another token; "" for none.
func (c *Client) With(token string) *Client { return &Client{Base: c.Base, Token: token, HTTP: c.HTTP} }

// Do sends a request; an answer of 400 or more is a *StatusError.
//
// path begins with a slash and may have a query. The caller closes the body of the answer.
// A refused connection has an error of its own, because it is the most frequent mistake.
func (c *Client) Do(ctx context.Context, method, path string, body []byte, header http.Header) (*http.Response, error) {
	return c.Send(ctx, method, path, bytes.NewReader(body), header)
}

// Send is Do with a body of any length, which is read as it is sent.
func (c *Client) Send(ctx context.Context, method, path string, body io.Reader, header http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.Base+path, body)
	if err != nil {
		return nil, err
	}
	// The caller's header is left as it is.
	maps.Copy(r.Header, header)
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	resp, err := c.HTTP.Do(r)
	if err != nil {
		// Every other error of a connection says by itself what is wrong.
		if errors.Is(err, syscall.ECONNREFUSED) {
			return nil, cli.Failure("no weir answers at %s", c.Base).Advise("start one with: weir run; or name it with --server URL")
		}
		f := cli.Failure("ask %s: %w", c.Base, err)
		if ctx.Err() == nil {
			f = f.Advise("weir doctor --server %s says what is there", c.Base)
		}
		return nil, f
	}
	if resp.StatusCode < 400 {
		return resp, nil
	}
	defer resp.Body.Close()
	e := &StatusError{Status: resp.StatusCode}
	// What could be read is better than nothing: the status says most.
	e.Body, _ = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	var problem struct {
		Detail string `json:"detail"`
		Title  string `json:"title"`
	}
	if json.Unmarshal(e.Body, &problem) == nil {
		e.detail = problem.Detail
		if e.detail == "" {
			e.detail = problem.Title
		}
	}
	if e.Status == http.StatusBadRequest && WantsTLS(e.Body) {
		return nil, cli.Failure("what answers at %s uses TLS", c.Base).Advise("name it by https://, and its authority with --ca-file FILE")
	}
	// weir's own 404 has a detail; a 404 without one is from another program.
	if e.Status == http.StatusNotFound && e.detail == "" {
		return nil, cli.Failure("what answers at %s is not weir's API: it does not know %s (HTTP 404)", c.Base, path).Advise("metrics have a port of their own; name the address of the page with --server URL")
	}
	if e.Status == http.StatusUnauthorized {
		if c.Token == "" {
			e.detail = "this weir requires a token" // what the server says is for programs
		}
		return nil, cli.Failure("%w", e).Advise("give the file with it: --token-file FILE, or %s", TokenVariable)
	}
	return nil, e
}

// WantsTLS reports whether a server that uses TLS was asked without, by the words of Go's servers.
func WantsTLS(body []byte) bool {
	return bytes.Contains(body, []byte("HTTP request to an HTTPS server"))
}

// Call sends a request with asked as JSON, or without a body when it is nil, and decodes the answer.
//
// said has to be a pointer. Refusals are a *StatusError, of which callers make sentences.
func (c *Client) Call(ctx context.Context, method, path string, asked, said any) error {
	var body []byte
	var header http.Header
	if asked != nil {
		var err error
		if body, err = json.Marshal(asked); err != nil {
			return err
		}
		header = http.Header{"Content-Type": {"application/json"}}
	}
	resp, err := c.Do(ctx, method, path, body, header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(said); err != nil {
		return fmt.Errorf("read the answer of %s%s: %w", c.Base, path, err)
	}
	return nil
}

// Get asks for a document and decodes it into v, a pointer.
func (c *Client) Get(ctx context.Context, path string, v any) error {
	return c.Call(ctx, http.MethodGet, path, nil, v)
}

// Ask posts something as JSON and decodes the answer, as Call does.
func (c *Client) Ask(ctx context.Context, path string, asked, said any) error {
	return c.Call(ctx, http.MethodPost, path, asked, said)
}

// Post sends a body of JSON.
//
// What is answered is thrown away.
func (c *Client) Post(ctx context.Context, path string, body []byte) error {
	resp, err := c.Do(ctx, http.MethodPost, path, body, http.Header{"Content-Type": {"application/json"}})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// NotFound reports whether an error is the answer of weir that it does not know what was asked for.
func NotFound(err error) bool {
	e, ok := errors.AsType[*StatusError](err)
	return ok && e.Status == http.StatusNotFound
}

// Agents returns the agents that the server knows.
// In a group these and flows are those that the server folds itself.
func (c *Client) Agents(ctx context.Context, query pump.AgentQuery) (list pump.AgentList, err error) {
	q := url.Values{"limit": {fmt.Sprint(query.Limit)}}
	if query.Kind != "" {
		q.Set("kind", string(query.Kind))
	}
	if query.Stuck {
		q.Set("stuck", "1")
	}
	return list, c.Get(ctx, "/v1/agents?"+q.Encode(), &list)
}

// Agent returns one agent, or one project; false when the server does not know it.
func (c *Client) Agent(ctx context.Context, kind events.ScopeKind, id string) (v agents.View, ok bool, err error) {
	err = c.Get(ctx, "/v1/agents/"+url.PathEscape(id)+"?"+url.Values{"kind": {string(kind)}}.Encode(), &v)
	if NotFound(err) { // an answer and no error
		return v, false, nil
	}
	return v, err == nil, err
}

// Notes returns the notes that the server keeps.
func (c *Client) Notes(ctx context.Context, query pump.NoteQuery) (list pump.NoteList, err error) {
	q := url.Values{"limit": {fmt.Sprint(query.Limit)}, "tag": query.Tags}
	if query.Agent != "" {
		q.Set("agent", query.Agent)
	}
	return list, c.Get(ctx, "/v1/notes?"+q.Encode(), &list)
}

// Budgets returns the accounts of budgets over flows that the server folds.
func (c *Client) Budgets(ctx context.Context, query pump.BudgetQuery) (list pump.BudgetList, err error) {
	q := url.Values{"limit": {fmt.Sprint(query.Limit)}}
	if query.Budget != "" {
		q.Set("budget", query.Budget)
	}
	if query.Value != "" {
		q.Set("value", query.Value)
	}
	return list, c.Get(ctx, "/v1/budgets?"+q.Encode(), &list)
}

// Flows returns the flows that the server knows.
func (c *Client) Flows(ctx context.Context, want pump.FlowQuery) (list pump.FlowList, err error) {
	q := url.Values{"limit": {fmt.Sprint(want.Limit)}}
	if want.Order == pump.Nearby {
		q.Set("sort", "near")
	}
	if want.Text != "" {
		q.Set("q", want.Text)
	}
	return list, c.Get(ctx, "/v1/flows?"+q.Encode(), &list)
}

// Costs asks what the flows of the server's log have spent within so long before now; 0 for all.
func (c *Client) Costs(ctx context.Context, since time.Duration) (report costs.Report, err error) {
	path := "/v1/costs"
	if since > 0 {
		path += "?since=" + since.String()
	}
	err = c.Get(ctx, path, &report)
	return report, err
}

// FlowCosts asks what a flow and its descendants have spent.
func (c *Client) FlowCosts(ctx context.Context, flow string) (tree costs.Tree, err error) {
	return tree, c.Get(ctx, "/v1/flows/"+url.PathEscape(flow)+"/costs", &tree)
}

// View returns one flow; false when the server does not know it.
// In a group the error names the member that folds it.
func (c *Client) View(ctx context.Context, flow string) (v analyzer.View, ok bool, err error) {
	err = c.Get(ctx, "/v1/flows/"+url.PathEscape(flow), &v)
	if NotFound(err) { // an answer and no error
		return v, false, nil
	}
	return v, err == nil, err
}

// Check asks whether the call may be made.
//
// A refusal comes with an HTTP status of 400 and more and is an answer here, not an error.
// event is JSON. Any other error means that the answer is unknown: the caller decides what
// that allows.
func (c *Client) Check(ctx context.Context, event []byte) (a CheckAnswer, err error) {
	resp, err := c.Do(ctx, http.MethodPost, "/v1/check", event, http.Header{"Content-Type": {"application/json"}})
	if e, ok := errors.AsType[*StatusError](err); ok && bytes.Contains(e.Body, []byte(`"reason_code"`)) {
		// A refusal is a problem document with the members of a verdict.
		refusal := struct {
			*CheckAnswer
			Verdict events.Verdict `json:"verdict"`
		}{CheckAnswer: &a}
		if err := json.Unmarshal(e.Body, &refusal); err != nil {
			return a, fmt.Errorf("read the refusal: %w", err)
		}
		a.Rule, a.Incident = refusal.Verdict.RuleID, refusal.Verdict.IncidentID
		// The problem's detail and status are what the call was answered with.
		a.Message, a.HTTPStatus = e.detail, e.Status
		return a, nil
	}
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	var body struct{ Verdict events.Verdict }
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		return a, fmt.Errorf("read the answer: %w", err)
	}
	return AnswerOf(&body.Verdict), nil
}

// Verdicts calls fn for each verdict as they come, until ctx ends or the server does:
// of one flow all that are kept, else the last ones first.
//
// The verdict is fn's to keep. An error of fn ends it; the end of ctx is no error.
func (c *Client) Verdicts(ctx context.Context, flow string, last int, fn func(*events.Verdict) error) error {
	q := url.Values{}
	switch {
	case flow != "":
		q.Set("flow", flow)
	case last == 0:
		q.Set("since", "now")
	default:
		q.Set("since", fmt.Sprint(-last))
	}
	// Server-sent events follow by themselves, until the server ends.
	path := "/v1/verdicts?" + q.Encode()
	resp, err := c.Do(ctx, http.MethodGet, path, nil, http.Header{"Accept": {"text/event-stream"}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	// A line holds one verdict and the word before it.
	lines.Buffer(nil, 2*events.MaxVerdictBytes)
	for lines.Scan() {
		// Ids, signatures, comments and empty lines are for others.
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if data = bytes.TrimSpace(data); !ok || len(data) == 0 || data[0] != '{' {
			continue
		}
		var v events.Verdict
		if err := events.DecodeVerdict(data, &v); err != nil {
			continue // another message of the stream
		}
		if err := fn(&v); err != nil {
			return err
		}
	}
	// A caller ends it by the context, as with Ctrl-C.
	if ctx.Err() != nil {
		return nil
	}
	return lines.Err()
}

// CheckAnswer is the answer to a check of one call.
//
// It is what weir check prints. Limit and Observed are nil for answers that no figure
// causes.
type CheckAnswer struct {
	Allowed       bool          `json:"allowed"`
	Action        events.Action `json:"action"`
	Rule          string        `json:"rule_id,omitempty"`
	Reason        events.Reason `json:"reason_code"`
	Incident      string        `json:"incident_id,omitempty"`
	Limit         *float64      `json:"limit,omitempty"`
	Observed      *float64      `json:"observed,omitempty"`
	Unit          events.Unit   `json:"unit,omitempty"`
	Message       string        `json:"message,omitempty"`
	AgentMessage  string        `json:"agent_message,omitempty"`
	HTTPStatus    int           `json:"http_status,omitempty"`
	RetryAfterS   int64         `json:"retry_after_s,omitempty"`
	HeldUntil     string        `json:"held_until,omitempty"` // of a hold
	CorrelationID string        `json:"correlation_id,omitempty"`

	Remaining []events.Remaining `json:"remaining,omitempty"`
}

// AnswerOf is what a verdict says of the call that it was asked for.
// It copies nothing: what the verdict points to is shared.
func AnswerOf(v *events.Verdict) CheckAnswer {
	return CheckAnswer{HeldUntil: check.HeldUntil(v), Allowed: !check.Refuses(v), Action: v.Action, Rule: v.RuleID, Reason: v.Reason, Incident: v.IncidentID, Limit: v.Limit, Observed: v.Observed, Unit: v.Unit, Message: v.Message,
		AgentMessage: v.AgentMessage, HTTPStatus: v.HTTPStatus, RetryAfterS: v.RetryAfterS, CorrelationID: v.CorrelationID, Remaining: v.Remaining}
}

// URLOf is how a server on the address is called.
//
// An address that means all of the machine, such as ":8080", is asked by loopback.
func URLOf(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err == nil && (host == "" || net.ParseIP(host).IsUnspecified()) {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	return fmt.Sprintf("http://%s", address)
}
