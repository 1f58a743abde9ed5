package guard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"weir/events"
)

// ack is a refusal to report to weir.
// It keeps a copy of the call and the time of the refusal, because it is sent later.
type ack struct {
	call  Call
	order *events.Verdict
	at    events.Stamp

	// A report of a call or its outcome is an event already, and nothing else.
	ev   *events.Event
	flow string // that it is about
}

// acknowledge queues that the order was applied. When there is no room it is dropped
// and counted, because a dispatcher must not wait.
// See Counts.AcksDropped.
func (g *reporter) acknowledge(c *Call, v *events.Verdict, at events.Stamp) {
	select {
	case g.acks <- ack{call: *c, order: v, at: at}:
	default:
		g.counts.AcksDropped.Add(1)
	}
}

// ackBatch is how many acknowledgements are sent at one time.
const ackBatch = 256

// outgoing is what one request reports to weir.
type outgoing struct {
	body        []byte
	acks, calls int64    // in body
	flows       []string // of the calls, also of those that a panic kept out
	dropping    bool     // the batch before was dropped, which was logged
}

// report sends the queue until ctx ends, and then the remaining entries.
// One goroutine runs it; the memory is used again for each batch.
func (g *reporter) report(ctx context.Context) {
	var r outgoing
	for {
		r = outgoing{body: r.body[:0], flows: r.flows[:0], dropping: r.dropping}
		g.gather(ctx, &r)
		sent := false
		if len(r.body) > 0 && g.caught("report", func() error { sent = g.deliverAcks(ctx, &r); return nil }) != nil {
			g.counts.AcksDropped.Add(r.acks)
			g.counts.ReportsDropped.Add(r.calls)
		}
		for _, flow := range r.flows {
			g.pending.done(flow)
		}
		// What is queued when ctx ends is sent as well, while weir takes it.
		if ctx.Err() != nil && !sent {
			return
		}
	}
}

// gather waits for the next report, or the end of ctx, and takes what has come meanwhile with it.
func (g *reporter) gather(ctx context.Context, r *outgoing) {
	select {
	case a := <-g.acks:
		r.enter(g, &a)
	case <-ctx.Done():
	}
	for n := 1; n < ackBatch; n++ {
		select {
		case a := <-g.acks:
			r.enter(g, &a)
		default:
			return
		}
	}
}

// enter adds one report. A panic costs this report alone.
func (r *outgoing) enter(g *reporter, a *ack) {
	count, dropped := &r.acks, &g.counts.AcksDropped
	if a.ev != nil {
		count, dropped = &r.calls, &g.counts.ReportsDropped
		r.flows = append(r.flows, a.flow)
	}
	err := g.caught("report", func() error {
		if a.ev == nil {
			r.body = g.appendAck(r.body, a)
		} else {
			r.body = append(a.ev.AppendJSON(r.body), '\n')
		}
		return nil
	})
	if err != nil {
		dropped.Add(1)
		return
	}
	*count++
}

// deliverAcks sends a body until weir takes it; false when it was dropped. When ctx has ended it
// tries once.
// Meanwhile refusals gather in the queue, and those beyond it are dropped.
func (g *reporter) deliverAcks(ctx context.Context, r *outgoing) bool {
	for span := shortestWait; ; span = min(2*span, longestWait) {
		// The context of the guard does not cut a request, so that Close sends all pending
		// reports.
		try, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.o.AskTimeout)
		err := g.send(try, r.body)
		cancel()
		refused, ok := errors.AsType[*refusedError](err)
		switch {
		case err == nil:
			g.counts.Acked.Add(r.acks)
			g.counts.Reported.Add(r.calls)
			g.pending.reached(true)
			r.dropping = false
			return true
		// What weir refuses once it refuses always.
		case ok || ctx.Err() != nil:
			g.pending.reached(ok)
			if !r.dropping {
				r.dropping = true
				g.logger.Warn("reports are dropped; until one is sent, more are only counted", "acknowledgements", r.acks, "calls", r.calls, "error", err, "refused", refused != nil)
			}
			g.counts.AcksDropped.Add(r.acks) // behind the log, whose panic report counts
			g.counts.ReportsDropped.Add(r.calls)
			return false
		}
		g.pending.reached(false)
		select {
		case <-time.After(rand.N(span)):
		case <-ctx.Done():
		}
	}
}

// appendAck appends the line that reports a refusal to weir, and logs it. The goroutine
// that reports does this, so that it costs the call no time.
func (g *reporter) appendAck(dst []byte, a *ack) []byte {
	ev := a.call.event(events.VerdictAck)
	// An attempt is identified by its flow; whether it came with work is unknown for a call that
	// was not made.
	ev.CorrelationID, ev.HadWork = a.call.flowKey(), events.Unknown
	g.stampEvent(&ev, a.at)
	ev.Ack = &events.Ack{VerdictID: a.order.ID, Applied: true}
	g.logger.Info("a call was refused", "flow", ev.CorrelationID, "from", a.call.From, "to", a.call.To, "tool", a.call.Tool,
		"rule", a.order.RuleID, "action", a.order.Action, "verdict", a.order.ID)
	return append(ev.AppendJSON(dst), '\n')
}

// stampEvent gives the event an id of its own and a time.
func (g *base) stampEvent(ev *events.Event, at events.Stamp) {
	ev.Source, ev.Time = g.o.Source, at
	// The time is part of it, so a guard that starts again with the same Source does not
	// repeat ids.
	ev.ID = strconv.FormatInt(int64(at), 36) + "-" + strconv.FormatInt(g.serial.Add(1), 36) + "-" + g.word
}

// refusedError is an answer that trying again will not change.
// It is dropped instead of sent again.
type refusedError struct{ error }

// send posts events, one per line.
func (g *reporter) send(ctx context.Context, lines []byte) error {
	resp, err := g.do(ctx, http.MethodPost, "/v1/events", lines, http.Header{"Content-Type": {"application/x-ndjson"}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch code := resp.StatusCode; {
	case code < 300:
		// A connection whose answer is not read to the end is closed.
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
		return nil
	// 429 and 408 are the two of the four hundreds that pass by waiting.
	case code >= 400 && code < 500 && code != http.StatusTooManyRequests && code != http.StatusRequestTimeout:
		return &refusedError{statusError(resp)}
	}
	return statusError(resp)
}

// Release lifts the orders of a flow, and keeps the rules from stopping it again for a
// while. Who releases it and why stand in the log. Weir takes it with its admin token
// alone, which Options.Token must be then.
func (g *Guard) Release(ctx context.Context, flow, by, reason string, long time.Duration) (err error) {
	defer g.recovered("release", &err)
	body, err := json.Marshal(struct {
		Reason string `json:"reason"`
		By     string `json:"by"`
		ForS   int64  `json:"for_s,omitempty"`
	}{reason, by, int64(long / time.Second)})
	if err != nil {
		return err
	}
	resp, err := g.do(ctx, http.MethodPost, "/v1/flows/"+url.PathEscape(flow)+"/release", body, http.Header{"Content-Type": {"application/json"}})
	if err != nil {
		return fmt.Errorf("release flow %q: %w", flow, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("release flow %q: %w", flow, statusError(resp))
	}
	return nil
}

// Ask asks weir whether the call may be made, and weir counts it if so. When weir does not
// answer in time, the call is decided as Check would. But then weir does not count the call,
// so a fresh table allows only what the local limiter also allows.
//
// A flow or a caller that the call does not name is taken from the work of the context,
// see Dispatch. A person's call without a flow gets one from weir: Decision.Flow.
// It waits for AskTimeout at most.
//
// A panic in the guard counts as no answer of weir.
func (g *Guard) Ask(ctx context.Context, c Call) (d Decision) {
	defer func() {
		if p := recover(); p != nil {
			d = g.failOpen(p)
		}
	}()
	c.take(ctx)
	c.clip()
	ev := c.event(c.kind())
	g.stampEvent(&ev, g.stamp())
	return g.askAs(ctx, &c, ev)
}

// askAs is Ask of a call that is whole, as the event.
func (g *Guard) askAs(ctx context.Context, c *Call, ev events.Event) Decision {
	if g.unseen.open.Load() {
		g.unseen.reported(c.Flow)
	}
	// Ask makes the event one that weir folds as a question, see decision 9.
	ev.Ask, ev.Tell = true, c.Tell
	var d Decision
	err := g.caught("ask", func() (err error) {
		d, err = g.ask(ctx, &ev)
		return err
	})
	if err == nil {
		g.unasked.Store(false)
		if d.Stopped() {
			g.counts.Refused.Add(1)
			g.observe(c, &d)
		} else {
			g.counts.Allowed.Add(1)
		}
		return d
	}
	g.counts.AskFailures.Add(1)
	if !g.unasked.Swap(true) {
		g.logger.Warn("weir did not answer; calls are decided from memory until it does", "flow", c.Flow, "error", err)
	}
	// Check would count nothing against the local limiter while the orders are fresh.
	if g.table.Refusing(c, g.stamp()) == nil {
		return g.withoutOrders(c, g.state.Load())
	}
	return g.Check(ctx, *c)
}

// ask sends an ask and reads the answer. An error says that there is no answer; a refusal is
// none.
func (g *Guard) ask(ctx context.Context, ev *events.Event) (d Decision, err error) {
	ctx, cancel := context.WithTimeout(ctx, g.o.AskTimeout)
	defer cancel()
	status, body, err := g.answer(ctx, ev.AppendJSON(nil))
	if err != nil {
		return d, err
	}
	if status == http.StatusOK {
		v, err := readAllowance(body)
		if err != nil {
			return d, err
		}
		// Verdicts in shadow mode and warnings let the call pass.
		if v.Action == events.Allow || v.Mode != events.ModeEnforce {
			d = allowed(FromWeir)
			d.Flow = cmp.Or(ev.CorrelationID, v.CorrelationID)
			return d.withRemaining(v), nil // what is only watched is allowed
		}
		// The time is 0: how long to wait stands in the answer.
		return refused(v, ev.CorrelationID, FromWeir, 0).withRemaining(v), nil
	}
	p, err := readProblem(status, body)
	if err != nil && isRejection(status) && p.Detail != "" && ev.By() != events.OriginUser {
		if g.counts.AskRejected.Add(1) == 1 {
			g.logger.Error("weir cannot read a check request, so the call is refused; correct the call, more of them are only counted", "flow", ev.CorrelationID, "error", p.Detail)
		}
		v := &events.Verdict{Action: events.Deny, Reason: ReasonRejected, HTTPStatus: status, Message: "Agent call rejected: weir cannot read the call: " + p.Detail}
		return refused(v, ev.CorrelationID, FromWeir, 0), nil
	}
	if err != nil {
		return d, err
	}
	// A refusal comes as a problem, from which the verdict is built as far as the fields are given.
	v := &events.Verdict{ID: p.verdict(), Mode: events.ModeEnforce, Action: p.Action, Reason: p.Reason, Limit: p.Limit, Observed: p.Observed, Unit: p.Unit,
		Message: p.Detail, AgentMessage: p.AgentMessage, RetryAfterS: p.RetryAfterS, HTTPStatus: status, CorrelationID: p.CorrelationID, Remaining: readRemaining(p.Remaining)}
	if !v.Stops() {
		v.Action = events.Deny // by an action of a later version: it is a refusal all the same
	}
	if until, ok := events.ParseStamp(p.HeldUntil); ok {
		v.ExpiresAt = events.RFC3339(until)
	}
	return refused(v, ev.CorrelationID, FromWeir, 0).withRemaining(v), nil
}

// answer sends a check request and returns weir's answer. It uses the stream, if there is one.
// Without a stream, or when the stream breaks before the answer, it sends a request. A check
// that is sent again has the same id, and counts once.
// The error of the stream is not returned: the request that follows shows what is wrong.
func (g *Guard) answer(ctx context.Context, ask []byte) (status int, body []byte, err error) {
	if s := g.asks.stream(g); s != nil {
		if status, body, err = s.ask(ctx, ask); err == nil || ctx.Err() != nil {
			return status, body, err
		}
	}
	leave, err := g.asks.enter(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer leave()
	resp, err := g.do(ctx, http.MethodPost, "/v1/check", ask, http.Header{"Content-Type": {"application/json"}})
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	if packed(resp) {
		return resp.StatusCode, nil, nil
	}
	// An answer that is longer is cut, and then cannot be read.
	body, err = io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	return resp.StatusCode, bytes.TrimPrefix(body, []byte(byteOrderMark)), err
}

// problem is a refusal as weir writes it.
type problem struct {
	Instance      string        `json:"instance"`
	Reason        events.Reason `json:"reason_code"`
	Action        events.Action `json:"action"`
	Limit         *float64      `json:"limit"`
	Observed      *float64      `json:"observed"`
	Unit          events.Unit   `json:"unit"`
	Detail        string        `json:"detail"`
	AgentMessage  string        `json:"agent_message"`
	RetryAfterS   int64         `json:"retry_after_s"`
	HeldUntil     string        `json:"held_until"`
	CorrelationID string        `json:"correlation_id"`

	Remaining json.RawMessage `json:"remaining"`
}

// readProblem distinguishes a refusal from all else that may go wrong.
// Any proxy may answer with status 403 and a page; only a reason code makes it weir's refusal.
func readProblem(status int, body []byte) (p problem, err error) {
	if err := json.Unmarshal(body, &p); err != nil || p.Reason == "" {
		return p, fmt.Errorf("weir answers with status %d: %.200s", status, p.Detail)
	}
	return p, nil
}

// isRejection reports whether a status says that the request itself is at fault. Others of the four
// hundreds are about tokens, addresses and load.
func isRejection(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge || status == http.StatusUnprocessableEntity
}

// "" when the answer names no verdict.
func (p *problem) verdict() string {
	const prefix = "urn:weir:verdict:"
	if len(p.Instance) > len(prefix) && p.Instance[:len(prefix)] == prefix {
		return p.Instance[len(prefix):]
	}
	return ""
}
