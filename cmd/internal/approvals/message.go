package approvals

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"weir/cmd/internal/retry"
	"weir/cmd/internal/switchfile"
	"weir/events"
	"weir/sink/recipient"
	"weir/sink/webhook"
)

// longestLink is how long a link is valid at most.
const longestLink = 24 * time.Hour

// The waits after a message that was not taken.
const (
	firstWait   = time.Second
	longestWait = time.Minute
)

// sendTime is how long one try may take.
const sendTime = 15 * time.Second

// titles are the first lines of messages.
var titles = map[string]string{
	OfFlow: "A flow waits for your approval", OfCalls: "Calls of a flow wait for your approval", OfTree: "A tree of flows waits for your approval", OfSpawn: "A new flow waits for your approval",
	OfBudget: "A budget is used up and waits for your approval", OfProposal: "A stop waits for a second person",
}

// serve sends the messages of one tier until ctx ends. Each tier has a goroutine, so that one that does not
// answer holds up no other.
func (d *Desk) serve(ctx context.Context, tier int) {
	wait := firstWait
	for {
		d.mu.Lock()
		h, changed := d.unsent(tier), d.changed
		d.mu.Unlock()
		if h == nil {
			select {
			case <-changed:
			case <-d.Clock.After(longestTurn):
			case <-ctx.Done():
				return
			}
			continue
		}
		err := d.send(ctx, h, tier)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			wait = firstWait
			continue
		}
		d.Counts.Failures.Add(1)
		d.mu.Lock()
		if kept := d.holds[h.ID]; kept != nil && kept.Asked == tier+1 {
			kept.tries++
		}
		d.mu.Unlock()
		d.Logger.Error("a request for approval was not delivered; it is tried again", "tier", d.Settings.Tiers[tier].Name, "subject", h.Subject, "order", h.ID, "error", err)
		if retry.Pause(ctx, d.Clock, wait) != nil {
			return
		}
		wait = min(2*wait, longestWait)
	}
}

// unsent returns a copy of the oldest hold whose message this tier has not got; nil for none. A message that
// failed comes after those that failed less often, so that one which is refused holds up no other. The caller
// holds mu.
func (d *Desk) unsent(tier int) *Hold {
	var next *Hold
	for _, h := range d.sorted() {
		if h.Asked == tier+1 && !h.Delivered && !h.busy && (h.Kind == OfProposal || d.Actor.Mine(h.Subject)) && (next == nil || h.tries < next.tries) {
			next = h
		}
	}
	if next == nil {
		return nil
	}
	return next.copy()
}

// send delivers one message, and notes it before and after. A crash in between sends it again, with the same
// id.
func (d *Desk) send(ctx context.Context, h *Hold, tier int) error {
	t := &d.Settings.Tiers[tier]
	q, err := d.question(h, tier)
	if err != nil {
		return err
	}
	detail := fmt.Sprintf("tier %d of %d: %s", tier+1, len(d.Settings.Tiers), t.Name)
	if err := d.Audit.Before(h, auditAsk, Author, detail); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	id := h.ID + "-" + strconv.Itoa(tier+1)
	switch {
	case t.Slack != "":
		err = post(ctx, t.Slack, id, q.Slack())
	case t.Teams != "":
		err = post(ctx, t.Teams, id, q.Teams())
	default:
		err = mail(ctx, d.Settings.SMTP, t.Email, id, q, d.Now().Time())
	}
	if err != nil {
		d.Audit.After(h, auditAsk, Author, detail+": not delivered: "+err.Error())
		return err
	}
	d.Audit.After(h, auditAsk, Author, detail+": delivered")
	d.Counts.Delivered.Add(1)
	d.Logger.Info("a person is asked for approval", "tier", t.Name, "subject", h.Subject, "order", h.ID)
	d.mu.Lock()
	defer d.mu.Unlock()
	if kept := d.holds[h.ID]; kept != nil {
		kept.Reached = true
		kept.Delivered = kept.Delivered || kept.Asked == tier+1
		d.save()
	}
	return nil
}

// question is the message about a hold for a tier.
func (d *Desk) question(h *Hold, tier int) (*webhook.Question, error) {
	t := &d.Settings.Tiers[tier]
	q := &webhook.Question{Title: titles[h.Kind], Text: h.Text}
	q.Fact("Flow", h.Flow)
	if h.Flow == "" {
		q.Fact("About", h.Kind+" "+h.Subject)
	}
	q.Fact("Agent", h.Agent)
	q.Fact("Tool", h.Tool)
	q.Fact("Rule", h.Rule)
	q.Fact("Approve", h.Approved(d.Settings.For))
	q.Fact("Deny", h.Denied())
	q.Fact("Without an answer", d.otherwise(h, tier))
	q.Fact("Order", h.ID)
	if h.Kind == OfProposal && (t.As == "" || t.As == h.First) { // a place that several persons read is no second person
		q.Command = "weir orders confirm " + h.ID
		return q, nil
	}
	secrets, err := d.Secrets()
	if err != nil {
		return nil, err
	}
	if len(secrets) == 0 {
		return nil, errors.New("there is no key for links")
	}
	until := min(events.Stamp(h.Until), d.Now().Add(longestLink))
	if h.Armed || h.Kind == OfBudget || h.Kind == OfSpawn { // they are renewed
		until = d.Now().Add(longestLink)
	}
	link := func(action string) string {
		l := Link{Hold: h.ID, Tier: t.Name, Action: action, Until: until}
		return d.Settings.URL + Path + "/" + l.token(secrets[0])
	}
	q.Approve, q.Deny = link(Approve), link(Deny)
	return q, nil
}

// Path is where links are opened.
const Path = "/v1/approvals"

// otherwise says what happens when this tier does not answer.
func (d *Desk) otherwise(h *Hold, tier int) string {
	at := h.Next.String()
	switch {
	case tier+1 < len(d.Settings.Tiers):
		return d.Settings.Tiers[tier+1].Name + " is asked at " + at
	case h.Kind == OfProposal:
		return "the stop is not given; it waits until " + h.Until.String()
	case d.Settings.Unanswered == switchfile.Hold, h.Kind == OfSpawn, h.Kind == OfBudget && d.Settings.Unanswered == switchfile.Deny:
		return "it goes on waiting"
	case d.Settings.Unanswered == switchfile.Allow:
		return "it is approved at " + at
	}
	if h.Armed {
		return "it is denied at " + at + ", if a call waits then"
	}
	return "it is denied at " + at
}

// mostAnswer is how much of an answer is read.
const mostAnswer = 4 << 10

// post sends a message to a webhook.
func post(ctx context.Context, url, id string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return recipient.WithoutURL(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "weir")
	req.Header.Set("Idempotency-Key", id)
	resp, err := recipient.Client().Do(req)
	if err != nil {
		return recipient.WithoutURL(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, mostAnswer))
	return recipient.Outcome(resp)
}
