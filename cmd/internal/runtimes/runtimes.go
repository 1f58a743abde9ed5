// Package runtimes requests programs that run agents to cancel the work that an order by hand stops.
package runtimes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"weir/cmd/internal/orders"
	"weir/cmd/internal/switchfile"
	"weir/events"
	"weir/events/byhand"
	"weir/sink/recipient"
	"weir/sink/webhook"
	"weir/state"
)

// Request is the body that a runtime receives: cancel the work of the scope now. It is delivered at
// least once; repeats have the same id.
type Request struct {
	Type   string         `json:"type"` // always "cancel"
	ID     string         `json:"id"`   // of the verdict
	Agent  string         `json:"agent"`
	Scope  byhand.Scope   `json:"scope"`
	Within []byhand.Scope `json:"within,omitempty"`
	Except []byhand.Scope `json:"except,omitempty"`
	Reason string         `json:"reason"`
	By     string         `json:"by"`
	Time   events.RFC3339 `json:"time"`
	Until  events.RFC3339 `json:"until,omitzero"`
}

// Answer is the body that a runtime may return with a status of 200.
type Answer struct {
	Cancelled    int                 `json:"cancelled"`
	NotCancelled []orders.Unreleased `json:"not_cancelled"`
}

// Audit records what is requested of runtimes, before and after.
type Audit interface {
	Requested(o *byhand.Order, runtime string) error
	Answered(o *byhand.Order, runtime string, status int, detail string)
}

// Caller requests one runtime to cancel. It delivers what the log of verdicts holds: as a receiver of a
// forwarder its position is stored, and it is called again after an error. Call Load first. Run by one
// goroutine; Part may be called by any.
type Caller struct {
	Runtime switchfile.Runtime
	Book    *orders.Book
	Audit   Audit
	Store   orders.Cursors
	Now     func() time.Time
	Logger  *slog.Logger
	Client  *http.Client // default: that of package recipient

	mu       sync.Mutex
	results  map[string]orders.RuntimePart // by id of the verdict
	refusals int                           // of the verdict that is tried
}

// mostRefusals is how often a runtime may answer with 4xx before the request is given up.
const mostRefusals = 5

// mostAnswer is the length of the longest answer that is read, and mostNamed how many flows of it are kept.
const (
	mostAnswer = 64 << 10
	mostNamed  = 20
)

// cursor is the name of the results in the store.
func (c *Caller) cursor() string { return "runtime." + c.Runtime.Name }

// Deliver requests to cancel for the first verdict that needs it, see forwarder.Forwarder.
func (c *Caller) Deliver(ctx context.Context, verdicts []state.Entry) (int, error) {
	for i := range verdicts {
		o := c.wanted(verdicts[i].Value)
		if o == nil {
			continue
		}
		if c.done(o.VerdictID()) {
			continue
		}
		if err := c.request(ctx, o); err != nil {
			return i, err
		}
	}
	return len(verdicts), nil
}

// wanted returns the order of a verdict if it is still the newest of its key, stops calls, and may bind
// agents of the runtime.
func (c *Caller) wanted(line []byte) *byhand.Order {
	var v events.Verdict
	if !bytes.Contains(line, []byte(`"by_hand"`)) || events.DecodeVerdict(line, &v) != nil || v.ByHand == nil {
		return nil
	}
	o := c.Book.Get(orders.IDOf(v.ID))
	if o == nil || o.IsDrill() || o.VerdictID() != v.ID || !o.Stops(events.StampOf(c.Now())) || !c.concerns(o) {
		return nil
	}
	return o
}

// concerns reports whether an order may bind agents of the runtime.
func (c *Caller) concerns(o *byhand.Order) bool {
	mine := byhand.Scope{Kind: events.ScopeAgent, ID: c.Runtime.Agent}
	if slices.ContainsFunc(o.Except, func(s byhand.Scope) bool { return s.Covers(mine) }) {
		return false
	}
	for _, s := range append([]byhand.Scope{o.Scope}, o.Within...) {
		if s.Kind == events.ScopeAgent && !s.Covers(mine) && !mine.Covers(s) {
			return false
		}
	}
	return true
}

// request sends the request once. An error means to try again.
func (c *Caller) request(ctx context.Context, o *byhand.Order) error {
	id := o.VerdictID()
	part, known := c.result(id)
	if !known { // the line is on the disk before anything is sent
		if err := c.Audit.Requested(o, c.Runtime.Name); err != nil {
			return err
		}
		part = c.waiting()
		c.refusals = 0
	}
	status, answer, err := c.post(ctx, o)
	refused, isRefusal := errors.AsType[*recipient.Refusal](err)
	if isRefusal {
		c.refusals++
	}
	switch {
	case err == nil:
		part.State, part.Why, part.Cancelled, part.NotCancelled = orders.RuntimeCancelled, "", answer.Cancelled, answer.NotCancelled
		part.At = events.RFC3339(events.StampOf(c.Now()))
	case isRefusal && c.refusals >= mostRefusals:
		part.State, part.Why, err = orders.RuntimeFailed, refused.Error(), nil
		c.Logger.Error("a runtime refuses to cancel, and is not asked again", "runtime", c.Runtime.Name, "order", id, "error", refused)
	default:
		part.Why = err.Error()
	}
	if err == nil { // before a receipt can have the answer
		c.Audit.Answered(o, c.Runtime.Name, status, part.Why)
		c.refusals = 0
	}
	if serr := c.keep(id, part); serr != nil && err == nil {
		return serr
	}
	return err
}

// waiting is the part of a request that is not delivered yet.
func (c *Caller) waiting() orders.RuntimePart {
	return orders.RuntimePart{Runtime: c.Runtime.Name, Agent: c.Runtime.Agent, State: orders.RuntimeWaiting, NotCancelled: []orders.Unreleased{}}
}

// post sends the request and reads the answer.
func (c *Caller) post(ctx context.Context, o *byhand.Order) (status int, a Answer, err error) {
	body, err := json.Marshal(Request{Type: "cancel", ID: o.VerdictID(), Agent: c.Runtime.Agent, Scope: o.Scope, Within: o.Within, Except: o.Except, Reason: o.Reason, By: o.By, Time: o.Time, Until: o.Expires})
	if err != nil {
		return 0, a, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Runtime.URL, bytes.NewReader(body))
	if err != nil {
		return 0, a, recipient.WithoutURL(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "weir")
	req.Header.Set("Idempotency-Key", o.VerdictID())
	req.Header.Set(webhook.SignatureHeader, webhook.Sign(c.Runtime.Secret, c.Now(), body))
	client := c.Client
	if client == nil {
		client = recipient.Client()
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, a, recipient.WithoutURL(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err := recipient.Outcome(resp); err != nil {
		return resp.StatusCode, a, err
	}
	if json.Unmarshal(text, &a) != nil { // the answer is optional
		a = Answer{}
	}
	a.NotCancelled = append([]orders.Unreleased{}, a.NotCancelled[:min(len(a.NotCancelled), mostNamed)]...)
	return resp.StatusCode, a, nil
}

// Load reads the results of an earlier process. After an error, requests may be sent again.
func (c *Caller) Load() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	results := make(map[string]orders.RuntimePart)
	c.results = make(map[string]orders.RuntimePart)
	text, ok, err := c.Store.Cursor(c.cursor())
	if err == nil && ok {
		err = json.Unmarshal(text, &results)
	}
	if err != nil {
		return fmt.Errorf("the results of runtime %s in the state: %w", c.Runtime.Name, err)
	}
	c.results = results
	return nil
}

func (c *Caller) result(id string) (orders.RuntimePart, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.results[id]
	return p, ok
}

func (c *Caller) done(id string) bool {
	p, ok := c.result(id)
	return ok && p.State != orders.RuntimeWaiting
}

// keep stores a result, and forgets those of orders that are not the newest of their key.
func (c *Caller) keep(id string, p orders.RuntimePart) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for old := range c.results {
		if o := c.Book.Get(orders.IDOf(old)); o == nil || o.VerdictID() != old {
			delete(c.results, old)
		}
	}
	c.results[id] = p
	text, err := json.Marshal(c.results)
	if err != nil {
		return err
	}
	return c.Store.SetCursor(c.cursor(), text)
}

// Part returns what the runtime has answered about a verdict; nil where the order does not concern it.
func (c *Caller) Part(o *byhand.Order) *orders.RuntimePart {
	if o.Order != byhand.Stop || !c.concerns(o) {
		return nil
	}
	p, ok := c.result(o.VerdictID())
	if !ok {
		p = c.waiting()
	}
	return &p
}
