package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"time"

	"weir/events"
	"weir/sink/recipient"
)

// Options are where log events are sent. URL is required.
type Options struct {
	// URL is the endpoint for logs; one without a path is that of all signals, below which logs
	// have /v1/logs.
	URL    string
	Header http.Header  // sent along, such as Authorization
	Client *http.Client // default: one with a timeout of 10 s that follows no redirects

	// Refusals is how often in a row a request may be answered with a status that trying again
	// hardly changes before its events are dropped; default 5.
	// See recipient.Refusal.
	Refusals int

	Now    func() time.Time // default time.Now
	Logger *slog.Logger     // default: drops everything
}

// Exporter sends log events to one endpoint. Export is for one goroutine.
type Exporter struct {
	// All that New has filled in.
	o Options
	// It begins anew with each request that is taken.
	refused int // in a row
	counts  recipient.Counts
}

// New returns an Exporter, or an error when the URL cannot be one.
// Nothing is sent yet, so an endpoint that is away is no error.
func New(o Options) (*Exporter, error) {
	u, err := recipient.Parse(o.URL)
	if err != nil {
		return nil, fmt.Errorf("otlp: %w, such as http://127.0.0.1:4318", err)
	}
	// As SDKs of OpenTelemetry read their endpoint.
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/logs"
	}
	o.URL = u.String()
	if o.Client == nil {
		o.Client = recipient.Client()
	}
	if o.Refusals == 0 {
		o.Refusals = 5
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Exporter{o: o}, nil
}

// Counts returns the counters of the exporter.
func (e *Exporter) Counts() *recipient.Counts { return &e.counts }

// Export sends the verdicts in one request. It returns nil when they were taken, or dropped
// because the endpoint refuses them; after an error they are to be sent again. One that cannot be
// read is left out.
// All of them go or none, as far as the endpoint says.
func (e *Exporter) Export(ctx context.Context, verdicts [][]byte) error {
	records := make([]record, 0, len(verdicts))
	now := e.o.Now()
	// A verdict that cannot be read will never be readable, so it must not hold up those behind
	// it.
	for _, line := range verdicts {
		var v events.Verdict
		if err := events.DecodeVerdict(line, &v); err != nil {
			e.counts.Dropped.Add(1)
			e.o.Logger.Error("a verdict cannot be read, and is not sent as a log event", "error", err)
			continue
		}
		records = append(records, recordOf(&v, now))
	}
	// An empty request would be answered and say nothing.
	if len(records) == 0 {
		return nil
	}
	b, err := body(records)
	if err != nil {
		return err
	}
	rejected, err := e.try(ctx, b)
	if err != nil {
		e.counts.Failures.Add(1)
		// Nothing is dropped for an endpoint that is away.
		if !errors.As(err, new(*recipient.Refusal)) {
			return err
		}
		// The whole request is sent again: the answer does not name the event that was refused.
		if e.refused++; e.refused < e.o.Refusals {
			return err
		}
		e.counts.Dropped.Add(int64(len(records)))
		e.o.Logger.Error("the endpoint for log events refuses verdicts, which are dropped", "count", len(records), "error", err)
		e.refused = 0
		return nil
	}
	e.refused = 0
	// What the endpoint says that it did not keep is not sent again, as OTLP wants it.
	e.counts.Delivered.Add(int64(len(records)) - rejected)
	e.counts.Dropped.Add(rejected)
	return nil
}

// try sends the body once, and returns how many events the endpoint did not keep.
func (e *Exporter) try(ctx context.Context, b []byte) (rejected int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.o.URL, bytes.NewReader(b))
	if err != nil {
		return 0, err
	}
	// Before the two headers that are always the same.
	maps.Copy(req.Header, e.o.Header)
	// JSON and not protobuf: an endpoint that takes only protobuf refuses it, and Counts reports it
	// (decision 76).
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "weir")
	resp, err := e.o.Client.Do(req)
	if err != nil {
		return 0, recipient.WithoutURL(err)
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // read, so that the connection can be used again
	switch code := resp.StatusCode; {
	// The statuses after which OTLP asks senders to try again.
	case code == http.StatusTooManyRequests || code == http.StatusBadGateway || code == http.StatusServiceUnavailable || code == http.StatusGatewayTimeout:
		return 0, fmt.Errorf("status %s", resp.Status)
	case code < 200 || code >= 300:
		return 0, &recipient.Refusal{Status: resp.Status}
	}
	// OTLP writes 64-bit numbers as texts; json.Number reads them with quotes and without.
	var answer struct {
		PartialSuccess struct {
			Rejected json.Number `json:"rejectedLogRecords"`
			Message  string      `json:"errorMessage"`
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(said, &answer) == nil { // what is none is of an endpoint that took all
		// What is no number counts as none, as an empty answer does.
		rejected, _ = answer.PartialSuccess.Rejected.Int64()
		if m := answer.PartialSuccess.Message; m != "" || rejected > 0 {
			e.o.Logger.Warn("the endpoint for log events did not keep all verdicts", "rejected", rejected, "said", m)
		}
	}
	return max(0, rejected), nil
}

// ReadHeader reads headers from lines of the form "Name: value"; empty lines and those that begin
// with # are left out.
// A name may come more than once. The error names the line and not its value, which may be a
// secret.
func ReadHeader(b []byte) (http.Header, error) {
	h := http.Header{}
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, v, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || name == "" || strings.ContainsAny(name, " \t") {
			return nil, fmt.Errorf("line %d is no header; want a name, a colon and a value, such as Authorization: Bearer TOKEN", n)
		}
		h.Add(name, strings.TrimSpace(v))
	}
	return h, nil
}
