package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"weir/analyzer"
	"weir/cmd/internal/app"
	"weir/cmd/internal/certificates"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/pump"
	"weir/events"
)

// Variables that say which running weir to ask when no flag does.
const (
	serverVariable = "WEIR_SERVER"
	tokenVariable  = "WEIR_TOKEN_FILE"
	caVariable     = "WEIR_CA_FILE"
	certVariable   = "WEIR_CERT_FILE"
	keyVariable    = "WEIR_KEY_FILE"
)

// serverFlags say which running weir to ask.
type serverFlags struct{ url, tokenFile, caFile, certFile, keyFile *string }

func newServerFlags(fs *pflag.FlagSet) *serverFlags {
	return &serverFlags{
		url:       fs.String("server", "", "ask the weir that runs at this `URL` ("+serverVariable+", else "+urlOf(app.DefaultListen)+")"),
		tokenFile: fs.String("token-file", "", "`FILE` with the token that it wants ("+tokenVariable+")"),
		caFile:    fs.String("ca-file", "", "trust its certificate by the authorities in this `FILE` ("+caVariable+", else the system's)"),
		certFile:  fs.String("cert-file", "", "show the certificate in this `FILE` ("+certVariable+")"),
		keyFile:   fs.String("key-file", "", "`FILE` with the key of that certificate ("+keyVariable+")"),
	}
}

// given reports whether a flag names a server.
func (s *serverFlags) given() bool { return *s.url != "" }

// client returns a client of the server.
func (s *serverFlags) client(env *cli.Env) (*client, error) {
	c := &client{base: *s.url, http: &http.Client{}}
	if c.base == "" {
		c.base = env.Getenv(serverVariable)
	}
	if c.base == "" {
		c.base = urlOf(app.DefaultListen)
	}
	if !strings.Contains(c.base, "://") {
		c.base = "http://" + c.base
	}
	c.base = strings.TrimRight(c.base, "/")
	if u, err := url.Parse(c.base); err != nil || u.Host == "" {
		return nil, cli.Usage("--server %s is no URL", c.base).Advise("for example --server %s", urlOf(app.DefaultListen))
	}
	trust := certificates.Client{Authorities: cmp.Or(*s.caFile, env.Getenv(caVariable)), Certificate: cmp.Or(*s.certFile, env.Getenv(certVariable)), Key: cmp.Or(*s.keyFile, env.Getenv(keyVariable))}
	transport, err := trust.Transport()
	if err != nil {
		return nil, err
	}
	c.http.Transport = transport
	file := cmp.Or(*s.tokenFile, env.Getenv(tokenVariable))
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		c.token = strings.TrimSpace(string(b))
	}
	return c, nil
}

// client asks a running weir.
type client struct {
	base, token string
	http        *http.Client
}

// statusError is an answer that is none.
type statusError struct {
	status int
	detail string
	body   []byte
}

func (e *statusError) Error() string {
	if e.detail != "" {
		return fmt.Sprintf("%s (HTTP %d)", e.detail, e.status)
	}
	return fmt.Sprintf("HTTP %d %s", e.status, http.StatusText(e.status))
}

// do sends a request; an answer of 400 or more is a *statusError.
func (c *client) do(ctx context.Context, method, path string, body []byte, header http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) {
			return nil, cli.Failure("no weir answers at %s", c.base).Advise("start one with: weir run; or name it with --server URL")
		}
		return nil, fmt.Errorf("ask %s: %w", c.base, err)
	}
	if resp.StatusCode < 400 {
		return resp, nil
	}
	defer resp.Body.Close()
	e := &statusError{status: resp.StatusCode}
	e.body, _ = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	var problem struct {
		Detail string `json:"detail"`
		Title  string `json:"title"`
	}
	if json.Unmarshal(e.body, &problem) == nil {
		e.detail = problem.Detail
		if e.detail == "" {
			e.detail = problem.Title
		}
	}
	return nil, e
}

// get decodes the answer into v.
func (c *client) get(ctx context.Context, path string, v any) error {
	resp, err := c.do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(v); err != nil {
		return fmt.Errorf("read the answer of %s%s: %w", c.base, path, err)
	}
	return nil
}

// post sends a body of JSON.
func (c *client) post(ctx context.Context, path string, body []byte) error {
	resp, err := c.do(ctx, http.MethodPost, path, body, http.Header{"Content-Type": {"application/json"}})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// ask posts something as JSON and decodes the answer.
func (c *client) ask(ctx context.Context, path string, asked, said any) error {
	body, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	resp, err := c.do(ctx, http.MethodPost, path, body, http.Header{"Content-Type": {"application/json"}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(said); err != nil {
		return fmt.Errorf("read the answer of %s%s: %w", c.base, path, err)
	}
	return nil
}

// agents returns the agents that the server knows.
func (c *client) agents(ctx context.Context, query pump.AgentQuery) (list pump.AgentList, err error) {
	q := url.Values{"limit": {fmt.Sprint(query.Limit)}}
	if query.Kind != "" {
		q.Set("kind", string(query.Kind))
	}
	if query.Stuck {
		q.Set("stuck", "1")
	}
	return list, c.get(ctx, "/v1/agents?"+q.Encode(), &list)
}

// agent returns one agent, or one project; false when the server does not know it.
func (c *client) agent(ctx context.Context, kind events.ScopeKind, id string) (v analyzer.AgentView, ok bool, err error) {
	err = c.get(ctx, "/v1/agents/"+url.PathEscape(id)+"?"+url.Values{"kind": {string(kind)}}.Encode(), &v)
	if e, is := errors.AsType[*statusError](err); is && e.status == http.StatusNotFound {
		return v, false, nil
	}
	return v, err == nil, err
}

// notes returns the notes that the server keeps.
func (c *client) notes(ctx context.Context, query pump.NoteQuery) (list pump.NoteList, err error) {
	q := url.Values{"limit": {fmt.Sprint(query.Limit)}, "tag": query.Tags}
	if query.Agent != "" {
		q.Set("agent", query.Agent)
	}
	return list, c.get(ctx, "/v1/notes?"+q.Encode(), &list)
}

// flows returns the flows that the server knows.
func (c *client) flows(ctx context.Context, want pump.FlowQuery) (list pump.FlowList, err error) {
	q := url.Values{"limit": {fmt.Sprint(want.Limit)}}
	if want.Order == pump.Nearby {
		q.Set("sort", "near")
	}
	if want.Text != "" {
		q.Set("q", want.Text)
	}
	return list, c.get(ctx, "/v1/flows?"+q.Encode(), &list)
}

// view returns one flow; false when the server does not know it.
func (c *client) view(ctx context.Context, flow string) (v analyzer.View, ok bool, err error) {
	err = c.get(ctx, "/v1/flows/"+url.PathEscape(flow), &v)
	if e, is := errors.AsType[*statusError](err); is && e.status == http.StatusNotFound {
		return v, false, nil
	}
	return v, err == nil, err
}

// check asks whether the call may be made.
func (c *client) check(ctx context.Context, event []byte) (a checkAnswer, err error) {
	resp, err := c.do(ctx, http.MethodPost, "/v1/check", event, http.Header{"Content-Type": {"application/json"}})
	if e, ok := errors.AsType[*statusError](err); ok && bytes.Contains(e.body, []byte(`"reason_code"`)) {
		// A refusal is a problem document with the members of a verdict.
		if err := json.Unmarshal(e.body, &a); err != nil {
			return a, fmt.Errorf("read the refusal: %w", err)
		}
		a.Message, a.HTTPStatus = e.detail, e.status
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
	return answerOf(&body.Verdict), nil
}

// verdicts calls fn for each verdict as they come, until ctx ends or the server does:
// of one flow all that are kept, else the last ones first.
func (c *client) verdicts(ctx context.Context, flow string, last int, fn func(*events.Verdict) error) error {
	q := url.Values{}
	switch {
	case flow != "":
		q.Set("flow", flow)
	case last == 0:
		q.Set("since", "now")
	default:
		q.Set("since", fmt.Sprint(-last))
	}
	path := "/v1/verdicts?" + q.Encode()
	resp, err := c.do(ctx, http.MethodGet, path, nil, http.Header{"Accept": {"text/event-stream"}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 2*events.MaxVerdictBytes)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if data = bytes.TrimSpace(data); !ok || len(data) == 0 || data[0] != '{' {
			continue
		}
		var v events.Verdict
		if err := events.DecodeVerdict(data, &v); err != nil {
			continue // something else that the stream tells
		}
		if err := fn(&v); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return lines.Err()
}
