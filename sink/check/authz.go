package check

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"weir/events"
	"weir/events/a2aflow"
	"weir/events/adapter/wire"
)

// Authz answers gateways that ask before they pass a request on: Envoy's ext_authz,
// Traefik's ForwardAuth, Caddy's forward_auth and nginx's auth_request. What it is
// asked about is appended to the log like every ask.
type Authz struct {
	Check Checker
	// Fail writes an error: one of Check, or one of the request.
	Fail func(w http.ResponseWriter, r *http.Request, err error)
	Now  func() time.Time

	// It is made anew at each start and put before the count, so no id has to be kept on disk.
	word   string // of this run, so that ids of two runs differ
	serial atomic.Int64
}

// NewAuthz returns an Authz.
func NewAuthz(c Checker, fail func(http.ResponseWriter, *http.Request, error), now func() time.Time) *Authz {
	return &Authz{Check: c, Fail: fail, Now: now, word: strings.ToLower(rand.Text()[:8])}
}

// AuthzPath is the prefix of the routes of gateways. The name of the gateway follows,
// then, from gateways that put it there, the path of the request.
const AuthzPath = "/authz/"

// The gateways, as they stand in the path.
const (
	gatewayNginx = "nginx" // passes on no status but 401 and 403
)

// maxForwarded is how much of a body that a gateway sends along is read.
// It is in bytes. A longer body is cut; its message cannot be read, and the request is a call.
const maxForwarded = 1 << 20

// Forwarded is a request that a gateway asks about.
// Its strings are the gateway's words about its client, of which only Address and the
// principal are checked by the gateway.
type Forwarded struct {
	Method, Host, Path string
	Header             func(name string) string
	Address            string // of the client, as the gateway saw it; empty when it did not say
	Body               []byte // may be absent or cut: then the headers count
	Deny               DenyFormat
	Soft               bool // an answer with status 200 is taken for a refusal
}

// Decide checks every call in the request. When the request may be passed on there is no
// refusal, and remaining are headers with the remaining part of each limit after the last call.
func (a *Authz) Decide(ctx context.Context, f *Forwarded) (refusal *Reply, remaining http.Header, err error) {
	// It is never nil, so that callers may add to it.
	remaining = make(http.Header)
	batch, err := messages(f.Body)
	if err != nil {
		return nil, remaining, err
	}
	// Without a message the headers may describe a call.
	if len(batch) == 0 {
		refusal, err = a.decide(ctx, f, nil, remaining)
	}
	for i := range batch {
		// The calls before the one that is refused stay counted; the gateway refuses the whole
		// body.
		if refusal, err = a.decide(ctx, f, &batch[i], remaining); refusal != nil || err != nil {
			break
		}
	}
	return refusal, remaining, err
}

// decide checks the call of one message, or, without one, the call that the headers describe.
// It checks in the flow that the client names. Before that it checks in the flow of what the
// client cannot choose, if that is another one. So with a new id for each call, a client begins
// a new flow for the calls of that id, but stays within the counters of the caller. A call that
// the second flow refuses stays counted in the first.
// See decision 63.
func (a *Authz) decide(ctx context.Context, f *Forwarded, m *Message, remaining http.Header) (*Reply, error) {
	var ev events.Event
	hop, isCall := a.read(f, m, &ev)
	if !isCall {
		return nil, nil
	}
	if v := spent(hop, &ev, a.Now()); v != nil {
		return f.refuse(v, m), nil
	}
	switch id := f.bound(ev.Kind); {
	case id == "" || id == ev.CorrelationID:
	case ev.CorrelationSource == events.CorrelationDerived: // the client names no flow: it has this one
		ev.CorrelationID = id
		ev.From.Session = boundParty(&ev, id)
	// The id gets a suffix of its own, because one id is good for one call (see decision 9).
	default:
		once := ev
		once.ID += "-p"
		once.CorrelationID, once.CorrelationSource = id, events.CorrelationPrincipal
		once.From = events.Party{Session: boundParty(&ev, id)}
		if v, err := a.Check.one(ctx, &once, once.AppendJSON(nil)); err != nil || Refuses(v) {
			return f.refuse(v, m), err
		}
	}
	v, err := a.Check.one(ctx, &ev, ev.AppendJSON(nil))
	if err != nil {
		return nil, err
	}
	if !Refuses(v) {
		// The figures of the later calls of a batch take the place of those before.
		setAnswerHeaders(remaining, v)
		return nil, nil
	}
	return f.refuse(v, m), nil
}

// refuse formats a refusal for the gateway; nil for no verdict.
func (f *Forwarded) refuse(v *events.Verdict, m *Message) *Reply {
	if v == nil {
		return nil
	}
	format := f.Deny
	if !f.Soft && format == AnyFormat {
		format = Problem // a gateway takes 200 for an allowance
	}
	r := Refuse(v, format, m)
	// A refusal that means 200 to a model would be an allowance to the gateway.
	if !f.Soft && r.Status < 300 {
		r.Status = status(v)
	}
	return r
}

// PrincipalHeader is where a gateway says who its client is, by what it has checked. It
// has to take away what the client itself sends there.
const PrincipalHeader = "Weir-Principal"

// The flows of what a client cannot choose. A client that reaches weir only through a gateway
// cannot name a flow with these prefixes.
const (
	principalFlow = "principal:"
	addressFlow   = "source:"
)

// bound returns the flow of what the client cannot choose: its principal, else its MCP
// session, which the server of the tools gave it, else where it is. A message to an agent
// belongs to no MCP session.
func (f *Forwarded) bound(kind events.Kind) string {
	switch {
	case f.Header(PrincipalHeader) != "":
		return clip(principalFlow + f.Header(PrincipalHeader))
	case kind == events.ToolCall && f.named("Mcp-Session-Id") != "":
		return f.named("Mcp-Session-Id")
	case f.Address != "":
		return clip(addressFlow + f.Address)
	}
	return ""
}

// boundParty is the caller in the flow of what the client cannot choose. For calls of tools it is
// the client itself: nothing that the client sends about itself distinguishes them. An agent that
// writes to another one keeps the name that it gives, because replies are matched by it.
func boundParty(ev *events.Event, id string) string {
	if ev.Kind == events.AgentCall && ev.From.Agent != unnamed {
		return ev.From.Agent
	}
	return id
}

// unreserved returns the id of a flow that a client names, or nothing for one of those that
// only weir names.
// Else a client could use up the budget of another one by naming its flow.
func unreserved(id string) string {
	if strings.HasPrefix(id, principalFlow) || strings.HasPrefix(id, addressFlow) {
		return ""
	}
	return id
}

// named is a header as an id, unless it is one that is weir's own.
func (f *Forwarded) named(header string) string { return unreserved(f.word(header)) }

// read makes an ask of the request; false when there is no call in it. It returns what the request says by
// weir's extension of A2A, or nil.
// It fills in all that an event needs.
func (a *Authz) read(f *Forwarded, m *Message, ev *events.Event) (*a2aflow.Hop, bool) {
	// Ids of other systems are taken under any of their names.
	s := said{explicit: cmp.Or(f.word("X-Correlation-Id"), f.word("Correlation-Id")), baggage: wire.Baggage([]byte(f.Header("Baggage"))),
		trace: wire.Traceparent([]byte(f.Header("Traceparent"))), session: cmp.Or(f.named("Mcp-Session-Id"), f.named("X-Session-Id"))}
	if !f.call(m, ev, &s) {
		return nil, false
	}
	if h, err := events.ParseHash(f.Header("X-Args-Hash")); err == nil && ev.Tool.ArgsHash.IsZero() && ev.Kind == events.ToolCall {
		ev.Tool.ArgsHash = h // from clients whose gateway sends no bodies along
	}
	now := a.Now()
	ev.ID = a.word + "-" + strconv.FormatInt(a.serial.Add(1), 36)
	// An ask is an event of the log with Ask set, so that a replay judges it again.
	ev.Source, ev.Time, ev.Ask, ev.Origin = "authz", events.StampOf(now), true, events.OriginAgent
	ev.TurnID = cmp.Or(f.word("X-Goal-Turn"), f.word("X-Turn-Id"))
	ev.TaskID = cmp.Or(ev.TaskID, f.word("X-Task-Id"))
	ev.ProjectID, ev.TeamID, ev.TenantID = f.word("X-Project-Id"), f.word("X-Team-Id"), f.word("X-Tenant-Id")
	ev.TraceID, ev.ParentSpanID = s.trace.ID, s.trace.Span
	agent := cmp.Or(f.word("X-Agent-Id"), clip(s.client), f.word("X-Forwarded-User"), unnamed)
	ev.From = events.Party{Session: clip(s.session), Agent: agent}
	s.correlate(ev, agent)
	ev.ParentCorrelationID, ev.RootCorrelationID = clip(s.baggage.Parent), clip(s.baggage.Root)
	// An unnamed client would else be one party in all flows together, and its calls those of
	// everybody.
	if ev.From.Session == "" && agent == unnamed {
		ev.From.Session = clip(ev.CorrelationID) // all that distinguishes callers
	}
	return s.hop, true
}

// unnamed stands for callers that do not say who they are.
const unnamed = "client"

// correlate finds the flow. A trace comes after the session, because clients that are
// not instrumented from end to end begin a new one with each call.
func (s *said) correlate(ev *events.Event, agent string) {
	for _, found := range []struct {
		id     string
		source events.CorrelationSource
	}{
		{s.explicit, events.CorrelationExplicit}, {s.baggage.ID, events.CorrelationBaggage}, {s.conversation, events.CorrelationConversation},
		{s.session, events.CorrelationSession}, {s.trace.ID, events.CorrelationTrace}, {ev.TaskID, events.CorrelationTask},
		// The last one is always there, and is only warned by default.
		{"authz:" + agent, events.CorrelationDerived},
	} {
		if id := unreserved(clip(found.id)); id != "" {
			ev.CorrelationID, ev.CorrelationSource = id, found.source
			return
		}
	}
}

// call reads which call the request is, from the message or else from the headers.
// Without a message it is the headers' word; a plain request is a call, too.
func (f *Forwarded) call(m *Message, ev *events.Event, s *said) bool {
	switch {
	case m != nil && m.Method == methodToolsCall:
		// A tools/call that cannot be read goes on to be a call of the tool at its path: it
		// must not escape the count.
		if m.toolCall(ev, s) {
			ev.Tool.Name, ev.Tool.Server = clip(ev.Tool.Name), clip(f.Host)
			return true
		}
	case m != nil && m.sendsMessage():
		if m.agentCall(ev, s) {
			ev.To = events.Party{Agent: f.callee()}
			return true
		}
	// A message proves that it calls nothing only where a server reads it: in the body of a POST.
	case m != nil && f.Method == http.MethodPost, f.looks():
		return false
	case f.Header("Mcp-Method") == methodToolsCall:
		ev.Kind, ev.Tool = events.ToolCall, events.Tool{Name: cmp.Or(f.word("Mcp-Name"), "unknown"), Server: clip(f.Host), Type: "mcp"}
		return true
	case f.word("X-To-Agent") != "":
		ev.Kind, ev.To = events.AgentCall, events.Party{Agent: f.word("X-To-Agent")}
		return true
	}
	// A plain request is a call of the tool that is at its path. What stands after the
	// question mark are its arguments, and those are not known to be the same.
	path, _, _ := strings.Cut(f.Path, "?")
	ev.Kind, ev.Tool = events.ToolCall, events.Tool{Name: cmp.Or(f.word("X-Tool-Name"), clip(f.Method+" "+path)), Server: clip(f.Host), Type: "http"}
	return true
}

// looks reports whether the request only looks at what there is: a preflight of a browser, or
// a GET of a plain path below /.well-known/. Nothing else that a client writes into its headers
// makes a request less than a call. A path that a server may read otherwise is not plain.
func (f *Forwarded) looks() bool {
	if f.Method == http.MethodOptions {
		return f.Header("Access-Control-Request-Method") != ""
	}
	rest, known := strings.CutPrefix(f.Path, "/.well-known/")
	if f.Method != http.MethodGet || !known {
		return false
	}
	for segment := range strings.SplitSeq(rest, "/") {
		if segment == "" || segment[0] == '.' || strings.Trim(segment, plainPath) != "" {
			return false
		}
	}
	return true
}

// plainPath holds the characters of a path that every server reads alike.
const plainPath = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

// callee is the agent that an A2A message is for.
// Without a header it is known by where it is, as the client wrote it.
func (f *Forwarded) callee() string {
	path, _, _ := strings.Cut(f.Path, "?")
	return cmp.Or(f.word("X-To-Agent"), clip(strings.TrimSuffix(f.Host+path, "/")), "agent")
}

// word is a header as an id; "" where it is not there.
func (f *Forwarded) word(header string) string { return clip(f.Header(header)) }

// clip makes an id of text: what no id may hold is left out.
// The bound is in bytes.
func clip(s string) string {
	// What is cut in the middle of a character loses that character.
	s = strings.ToValidUTF8(s, "")
	s = strings.Map(func(r rune) rune {
		if r < ' ' {
			return -1
		}
		return r
	}, s)
	if len(s) > events.MaxID {
		s = strings.ToValidUTF8(s[:events.MaxID], "")
	}
	return s
}

// TokenHeader is where gateways show their token; Authorization is their client's.
const TokenHeader = "Weir-Token"

// FromGateway makes the request that a gateway sends one that weir's server can serve
// like any other; false when it is none. What the gateway passes on from its client, the
// path behind the prefix and the credentials, is about the client's request and not
// about weir. So are the host and the origin, but anybody's page in a browser could say
// that they are: only of a gateway that is trusted they are taken away, and else they are
// judged as those of any request.
func FromGateway(r *http.Request, trusted bool) (*http.Request, bool) {
	rest, ok := strings.CutPrefix(r.URL.Path, AuthzPath)
	if !ok {
		return r, false
	}
	gateway, path, long := strings.Cut(rest, "/")
	// The clone keeps the caller's request, which other handlers may still see.
	r = r.Clone(r.Context())
	h := r.Header
	// Only the headers that this gateway writes itself count; the client wrote the others.
	if long || gateway == gatewayNginx {
		h.Del("X-Forwarded-Uri")
		h.Del("X-Forwarded-Method")
	}
	if long {
		h.Set("X-Original-Uri", "/"+path)
		h.Del("X-Original-Method")
		// Its parameters would be taken for the gateway's settings, such as ?deny=.
		r.URL.RawQuery = "" // the client's
	}
	if h.Get("X-Forwarded-Host") == "" {
		h.Set("X-Forwarded-Host", r.Host)
	}
	r.URL.Path, r.URL.RawPath = AuthzPath+gateway, ""
	// The client's credentials are none for weir; TokenHeader puts the gateway's in their
	// place.
	h.Del("Authorization")
	h.Del("X-Api-Key")
	if trusted {
		// Requests to this handler count as coming from this machine, whatever host the client
		// named.
		r.Host = "localhost"
		h.Del("Origin")
		h.Del("Sec-Fetch-Site")
	}
	if token := h.Get(TokenHeader); token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	return r, true
}

// lastAddress returns the address that the gateway itself saw, which it puts at the end of
// what its client says of others.
func lastAddress(h http.Header) string {
	// Of several lines the last counts, and of its list the last address: what stands before
	// it was sent by the client.
	said := h.Values("X-Forwarded-For")
	if len(said) == 0 {
		return ""
	}
	last := said[len(said)-1]
	return strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
}

// ServeHTTP answers a gateway that asks by HTTP, of whose request FromGateway was made.
func (a *Authz) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// LimitReader cuts without an error; see Forwarded.Body.
	body, err := io.ReadAll(io.LimitReader(r.Body, maxForwarded))
	if err != nil {
		a.Fail(w, r, err)
		return
	}
	f := &Forwarded{Method: cmp.Or(r.Header.Get("X-Forwarded-Method"), r.Header.Get("X-Original-Method"), r.Method),
		Host: r.Header.Get("X-Forwarded-Host"), Header: r.Header.Get, Address: lastAddress(r.Header), Body: body,
		Path: cmp.Or(r.Header.Get("X-Forwarded-Uri"), r.Header.Get("X-Original-Uri"), "/")}
	var refusal *Reply
	var remaining http.Header
	if f.Deny, err = ParseDenyFormat(cmp.Or(r.Header.Get("Weir-Deny"), r.URL.Query().Get("deny"))); err == nil {
		refusal, remaining, err = a.Decide(r.Context(), f)
	}
	// Faults are up to Fail: the gateway then goes by its failure mode.
	switch {
	case err != nil:
		a.Fail(w, r, err)
	case refusal != nil:
		if strings.TrimPrefix(r.URL.Path, AuthzPath) == gatewayNginx {
			refusal.Status = http.StatusForbidden
		}
		refusal.write(w)
	default:
		copyHeader(w.Header(), remaining)
		w.Header().Set("Cache-Control", "no-store") // a call by a cached allowance would not be counted
		w.WriteHeader(http.StatusOK)
	}
}
