// Package webhook posts each verdict, signed, to an HTTP endpoint until it is accepted. It never gives a verdict up
// because the endpoint is away, only when the endpoint refuses it several times over.
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/sink/recipient"
	"weir/sink/sign"
)

// The headers of a delivery. Deliveries may be repeated; the position identifies them.
const (
	// PositionHeader grows with each verdict of the log, so a receiver knows one that it has
	// already.
	SignatureHeader = "Weir-Signature" // see Verify
	PositionHeader  = "Weir-Position"  // of the verdict in its log
)

// Options are how verdicts are sent. URL is required.
// What is not set has the default that is named beside it.
type Options struct {
	URL string
	// It says that the body is from weir; what package sign says holds for the order itself.
	Secret []byte                      // key of the signature; empty sends none
	Format Format                      // default: the verdict itself
	Order  func(verdict []byte) string // returns what the header of package sign says; default: not sent
	Client *http.Client                // default: one with a timeout of 10 s that follows no redirects

	// MostRefusals is how often a delivery may be answered with a status of 4xx (408 and
	// 429 excepted) before it is dropped; default 5.
	// 0 means the default.
	MostRefusals int
	// MinWait and MaxWait bound the time between two tries, which doubles from one
	// try to the next and is then cut to a random part; default 500 ms and 5 min.
	MinWait, MaxWait time.Duration

	// Tests set both.
	Now    func() time.Time                     // default time.Now
	After  func(time.Duration) <-chan time.Time // default time.After
	Logger *slog.Logger                         // default: drops everything
}

// Hook sends verdicts to one endpoint. Send is for one goroutine.
type Hook struct {
	// All that New has filled in.
	o      Options
	counts recipient.Counts
	told   incidents // to people
}

// New returns a Hook, or an error when the URL cannot be one.
func New(o Options) (*Hook, error) {
	if _, err := recipient.Parse(o.URL); err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	if o.Client == nil {
		o.Client = recipient.Client()
	}
	if o.MostRefusals == 0 {
		o.MostRefusals = 5
	}
	if o.MinWait == 0 {
		o.MinWait = 500 * time.Millisecond
	}
	if o.MaxWait == 0 {
		o.MaxWait = 5 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = time.After
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Hook{o: o}, nil
}

// Counts returns the counters of the hook.
// The counters are of one endpoint and go on for as long as the program runs.
func (h *Hook) Counts() *recipient.Counts { return &h.counts }

// Send delivers one verdict, however long it takes. It returns nil when the endpoint
// has taken it, when its format says nothing of it, or when it was dropped, and else the error of
// ctx.
func (h *Hook) Send(ctx context.Context, position int64, verdict []byte) error {
	body, err := h.o.Format.body(verdict, &h.told)
	if err != nil {
		h.counts.Dropped.Add(1)
		h.o.Logger.Error("a verdict cannot be put into words, and is not sent", "position", position, "format", h.o.Format.String(), "error", err)
		return nil
	}
	if body == nil { // no person has to know
		return nil
	}
	// For each verdict anew: one that is refused says nothing about the next.
	wait, refusals := h.o.MinWait, 0
	for {
		after, err := h.try(ctx, position, body, verdict)
		if err == nil {
			h.counts.Delivered.Add(1)
			return nil
		}
		// Not counted as a failure: the process ends, and the verdict is sent by the next one.
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// A cause that may pass is tried for ever, since the verdict log keeps what waits;
		// refusals are counted apart.
		h.counts.Failures.Add(1)
		if _, ok := errors.AsType[*recipient.Refusal](err); ok {
			refusals++
		}
		if refusals >= h.o.MostRefusals {
			h.counts.Dropped.Add(1)
			h.o.Logger.Error("the webhook refuses a verdict, which is dropped", "position", position, "error", err)
			return nil
		}
		h.o.Logger.Warn("the webhook did not take a verdict; it is sent again", "position", position, "error", err)
		// At least half of the wait, so that tries do spread and none comes at once.
		pause := wait/2 + rand.N(wait/2+1)
		wait = min(2*wait, h.o.MaxWait)
		select {
		// What the endpoint asks for counts up to MaxWait, or it could stop all deliveries.
		case <-h.o.After(max(pause, min(after, h.o.MaxWait))):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// try sends the body once, which is about the verdict. after is how long the endpoint wants to be left alone.
// A Refusal is what trying again hardly changes; any other error may pass.
func (h *Hook) try(ctx context.Context, position int64, body, verdict []byte) (after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.o.URL, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "weir")
	req.Header.Set(PositionHeader, strconv.FormatInt(position, 10))
	// Signed anew for each try, since the time is part of it.
	if len(h.o.Secret) > 0 {
		req.Header.Set(SignatureHeader, Sign(h.o.Secret, h.o.Now(), body))
	}
	// Only the verdict itself is signed; the words for people are other bytes.
	if h.o.Order != nil && h.o.Format == FormatVerdict {
		if signature := h.o.Order(verdict); signature != "" {
			req.Header.Set(sign.Header, signature)
		}
	}
	resp, err := h.o.Client.Do(req)
	if err != nil {
		// Errors are logged, and the URL may be a secret (see package recipient).
		return 0, recipient.WithoutURL(err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
	err = recipient.Outcome(resp)
	if _, refused := errors.AsType[*recipient.Refusal](err); err == nil || refused {
		return 0, err
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		// Cut, so that it cannot overflow.
		after = time.Duration(min(s, 1<<20)) * time.Second
	}
	return after, err
}

// Sign returns the value of the signature header: the time in seconds and, over that
// time, a dot and the body, an HMAC with SHA-256, as "t=1795000000,v1=hex".
func Sign(secret []byte, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	return "t=" + t + ",v1=" + hex.EncodeToString(sum(secret, t, body))
}

// sum is the HMAC of the time and the body. The text of the time is what was signed, not its
// value.
func sum(secret []byte, t string, body []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(t + "."))
	mac.Write(body)
	return mac.Sum(nil)
}

// Verify checks a signature header, in constant time, for receivers written in Go. A
// signature older or newer than tolerance is refused, because it may be a replay.
func Verify(secret []byte, header string, body []byte, now time.Time, tolerance time.Duration) error {
	t, v, ok := strings.Cut(header, ",v1=")
	t, isTime := strings.CutPrefix(t, "t=")
	want, err := hex.DecodeString(v)
	if !ok || !isTime || err != nil {
		return errors.New("webhook: the signature is not of the form t=<seconds>,v1=<hex>")
	}
	// The signature is checked before the time, so that a sender without the secret does not learn
	// the time of the clock here.
	if !hmac.Equal(want, sum(secret, t, body)) {
		return errors.New("webhook: the signature is wrong; check the secret, and that the body was not changed")
	}
	seconds, err := strconv.ParseInt(t, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > tolerance {
		return errors.New("webhook: the signature is too old or from the future; check the clocks")
	}
	return nil
}
