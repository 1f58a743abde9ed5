package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/analyzer/limitfile"
	"weir/analyzer/prices"
	"weir/cmd/internal/backtest"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/costs"
	"weir/cmd/internal/limits"
	"weir/cmd/internal/logs"
	"weir/cmd/internal/problem"
	"weir/cmd/internal/selftest"
	"weir/events"
	"weir/events/adapter/registry"
)

// Bounds of a backtest that is asked for over HTTP. A log may be of any length: only its
// flows are kept.
const (
	// Of each flow its state, its figures and what was said are kept until the answer is
	// out.
	maxTriedFlows  = 100_000
	maxSettings    = 1 << 20 // bytes of limits, and of marks
	maxDifferences = 500     // that are listed
	maxStops       = 500
)

// backtestAnswer is what two limits say of the same log.
// Lists are cut at what a page can show; Differ counts all. Again and Missed judge by the
// marks that were sent and are empty without any.
type backtestAnswer struct {
	A           *backtest.Report      `json:"a"`
	B           *backtest.Report      `json:"b"`
	Differ      int                   `json:"differ"` // flows of which A and B say different things
	Differences []backtest.Difference `json:"differences"`
	Again       []string              `json:"stopped_again"` // by B, though they are marked wrong
	Missed      []string              `json:"missed"`        // by B, though they are marked right
	Logs        []triedLog            `json:"logs"`
	Seconds     float64               `json:"seconds"`
	Suggested   string                `json:"suggested_limits,omitempty"` // a limits file; see the part "suggest"
	Unsuggested string                `json:"no_suggestion,omitempty"`    // why there is none
}

// triedLog is one log of a backtest.
// Format is what was found out; the form does not say it.
type triedLog struct {
	Name   string `json:"name"`
	Format string `json:"format,omitempty"` // "" when it was passed over
	Why    string `json:"why,omitempty"`    // it was passed over, or not read to its end
}

// tried is a backtest that is being made.
// It folds each event by both limits, in one pass, because the log is not kept.
type tried struct {
	a, b *backtest.Trial
	bad  int64
	logs []triedLog
	own  bool // the log is that of this weir
	// prices are those in force, for models that the limits on trial do not price.
	prices prices.Table
	alive  func() // keeps the connection open while there is work
	// least is from how many honest flows on limits are suggested; 0 suggests none.
	least int
}

// backtests folds logs again: this weir's own, and those that are sent.
type backtests struct {
	log    Log
	folded *folded
	clock  clock.Clock
}

func (b *backtests) routes() []route {
	return []route{
		{"GET", "/v1/costs", reader, limited(1, b.serveCosts)},
		{"POST", "/v1/inspect/backtest", trier, limited(1, b.serveBacktest)},
	}
}

// serveBacktest is POST /v1/inspect/backtest, a form whose parts come in this order: the
// limits "a" and "b"; the optional file "marks"; and "suggest". The last is for limits
// suggested from the flows that A allows, with the minimum number of honest flows.
// Then come any number of logs, each a part "log", or "since". That is the maximum age of
// the records of this weir's own log, such as 24h; 0 takes the whole log. Logs are folded
// as they arrive and not kept.
//
// The order of the parts allows a log of any length to be folded as it arrives: the limits
// have to be there first. One backtest runs at a time (see inspectorRoutes). The engine
// for live traffic judges it, in memory of its own; nothing of it is written.
func (b *backtests) serveBacktest(w http.ResponseWriter, r *http.Request) error {
	// Seconds in the answer show how long the backtest took.
	begun := b.clock.Now()
	form, err := r.MultipartReader()
	if err != nil {
		return &problem.Error{Status: http.StatusBadRequest, Detail: "the question is not as the page asks it: " + err.Error()}
	}
	// The body may take longer than a request may: each time that some of it is folded,
	// both deadlines move on. A sender who stops sending is cut off as ever.
	limits, _ := b.folded.inForce()
	t := &tried{logs: []triedLog{}, prices: limits.Prices, alive: func() {
		holdOf(r).Clear() // what was read is folded, and nothing of it is held
		keepAlive(w)()
	}}
	marks, err := b.tryAll(r.Context(), form, t)
	if err != nil {
		// Browsers show an answer only when all that they send was taken.
		_, _ = io.Copy(io.Discard, &flowing{in: r.Body, alive: t.alive})
		return refusedTrial(err)
	}
	t.alive()
	out := backtestAnswer{A: t.a.Report(marks), B: t.b.Report(marks), Differences: backtest.Differences(t.a, t.b), Logs: t.logs, Seconds: b.clock.Now().Sub(begun).Seconds()}
	// Both have read the same records.
	out.A.BadRecords, out.B.BadRecords = t.bad, t.bad
	if out.A.Events == 0 && t.own {
		return refusedTrial(errors.New("no event came into the log of this weir in that time; take a longer one"))
	}
	if out.A.Events == 0 {
		return refusedTrial(errors.New("there is no event in it" + t.whyNone()))
	}
	out.Again, out.Missed = t.b.Broken(marks)
	out.Differ, out.Differences = len(out.Differences), out.Differences[:min(len(out.Differences), maxDifferences)]
	for _, report := range []*backtest.Report{out.A, out.B} {
		report.Stops = report.Stops[:min(len(report.Stops), maxStops)]
		report.Exempted = report.Exempted[:min(len(report.Exempted), maxStops)]
	}
	out.Suggested, out.Unsuggested = t.suggest(marks)
	return answer(w, out)
}

// suggest returns a limits file by which no honest flow is stopped, or why there is none.
func (t *tried) suggest(marks backtest.Marks) (file, why string) {
	if t.least == 0 {
		return "", ""
	}
	list, err := t.a.Suggest(marks, t.least)
	var text strings.Builder
	if err == nil {
		err = backtest.WriteLimits(&text, t.a.Limits.Profile, list, nil)
	}
	if err != nil {
		return "", err.Error()
	}
	return text.String(), ""
}

// keepAlive returns a function that keeps a connection open while there is work.
// Real time, as for all connections.
func keepAlive(w http.ResponseWriter) func() {
	c := http.NewResponseController(w)
	return func() {
		// Not every writer has deadlines; those of the server's connections do.
		_, _ = c.SetReadDeadline(time.Now().Add(readTimeout)), c.SetWriteDeadline(time.Now().Add(writeTimeout))
	}
}

// tooMany refuses a log of more flows than are kept at one time.
// It is looked at after each event, so it is found at the first flow too many.
func tooMany(t *backtest.Trial) error {
	if len(t.Flows()) > maxTriedFlows {
		return &problem.Error{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("the log has more than %d flows, which is the most that is tried here; weir backtest and weir costs take any number from files and topics", maxTriedFlows)}
	}
	return nil
}

// refusedTrial returns the response to an error in the request.
// It is 422: the request was understood, but its content cannot be tried. An error that
// is a response already is kept, and so is one for a client that is gone.
func refusedTrial(err error) error {
	if _, ok := errors.AsType[*problem.Error](err); ok || errors.Is(err, context.Canceled) {
		return err
	}
	return &problem.Error{Status: http.StatusUnprocessableEntity, Detail: err.Error()}
}

// whyNone is why the first log was passed over, for an answer to a form of nothing but
// such.
func (t *tried) whyNone() string {
	if len(t.logs) == 0 {
		return ": no log was given; take files, a folder, a text or the log of this weir"
	}
	for _, l := range t.logs {
		if l.Why != "" {
			return ": " + l.Why
		}
	}
	return ""
}

// flowing is a long body: now and then it says that there is still life in it.
// Each 64 KiB are a sign of life: far less than what a log is folded by in the time that a
// request may be silent.
type flowing struct {
	in    io.Reader
	n     int
	alive func()
}

// Read reads.
// It is read by one goroutine, that of the request.
func (f *flowing) Read(p []byte) (int, error) {
	n, err := f.in.Read(p)
	if f.n += n; f.n >= 64<<10 {
		f.n = 0
		f.alive()
	}
	return n, err
}

// tryAll reads the parts of the form.
func (b *backtests) tryAll(ctx context.Context, form *multipart.Reader, t *tried) (marks backtest.Marks, err error) {
	// Logs of one format share an adapter, since a recording may be spread over many files.
	// Which arguments of a tool do not count is a matter of limits A, since adapters hash
	// them once.
	clock := logs.NewClock(t.fold)
	reader := &logs.Reader{Event: clock.Take, IgnoreArgs: func(tool string) []string { return t.a.Limits.IgnoredArgs(tool) }, Bad: func(logs.BadRecord) { t.bad++ }, Tick: func(int64, float64) { t.alive() }}
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			if t.a == nil || t.b == nil {
				return nil, errors.New("limits A or limits B are missing")
			}
			// What adapters have held back belongs to the last log.
			if err := reader.End(); err != nil {
				return nil, err
			}
			return marks, clock.End()
		}
		if err != nil {
			return nil, &problem.Error{Status: http.StatusBadRequest, Detail: "the form breaks off: " + err.Error()}
		}
		switch name := part.FormName(); name {
		case "a", "b":
			err = t.limits(ctx, name, part)
		case "marks":
			var text []byte
			if text, err = settings("marks", part); err == nil {
				if marks, err = backtest.ReadMarks(bytes.NewReader(text)); err != nil {
					err = fmt.Errorf("marks: %w", err)
				}
			}
		case "suggest":
			var text []byte
			if text, err = settings(name, part); err == nil {
				if t.least, err = strconv.Atoi(string(text)); err != nil || t.least < 1 {
					err = fmt.Errorf("suggest: %q is no number of flows; want at least 1", text)
				}
			}
		// A form may have both; their flows are then counted together.
		case "log", "since":
			if t.a == nil || t.b == nil {
				return nil, errors.New("the limits have to come before the log")
			}
			if name == "log" {
				err = t.log(reader, part)
			} else {
				err = b.ownLog(ctx, t, part)
			}
		default:
			err = fmt.Errorf("%q is no part of this form", name)
		}
		if err != nil {
			return nil, err
		}
	}
}

// settings reads a part of the form that is kept as a whole; what names it in an error. A part
// that is too long is refused: the beginning of a limits file may be one, with other rules.
func settings(what string, part io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(part, maxSettings+1))
	if err == nil && len(text) > maxSettings {
		err = &problem.Error{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("%s: has more than %d bytes", what, maxSettings)}
	}
	return text, err
}

// limits takes one of the limits.
// A limits file that is refused ends the trial with its faults, each with its line. The
// trial lives as long as ctx, the request.
func (t *tried) limits(ctx context.Context, name string, part io.Reader) error {
	name = strings.ToUpper(name)
	text, err := settings("limits "+name, part)
	if err != nil {
		return err
	}
	l, err := limitfile.Parse("limits "+name, text)
	if err != nil {
		return err
	}
	trial, err := backtest.NewTrial(ctx, limits.Priced(l, t.prices))
	if name == "A" {
		t.a = trial
	} else {
		t.b = trial
	}
	return err
}

// fold folds an event by both limits.
// Both see the same flows, so one is enough to count.
func (t *tried) fold(ev *events.Event) error {
	t.a.Fold(ev)
	t.b.Fold(ev)
	return tooMany(t.a)
}

// log reads one log. One of a format that is not known is passed over, for a folder may
// hold other files.
// Whether it is packed, and in which format, is found by its content.
func (t *tried) log(reader *logs.Reader, part *multipart.Part) error {
	l := triedLog{Name: part.FileName()}
	in, err := logs.From(l.Name, &flowing{in: part, alive: t.alive})
	if err == nil {
		err = in.Recognize("")
	}
	switch {
	case errors.Is(err, registry.ErrUnknown), errors.Is(err, logs.ErrEmpty):
		l.Why = err.Error()
	case err != nil:
		return err
	default:
		l.Format = in.Says()
		if err := reader.One(in); err != nil {
			return err
		}
	}
	// The list of logs is cut like the others, and the logs are folded all the same.
	if len(t.logs) < maxStops {
		t.logs = append(t.logs, l)
	}
	return nil
}

// ownLog reads the log of this weir.
// Events of flows that began before since are judged from there on, without what came
// before.
func (b *backtests) ownLog(ctx context.Context, t *tried, part io.Reader) error {
	text, err := settings("since", part)
	if err != nil {
		return err
	}
	age, err := time.ParseDuration(strings.TrimSpace(string(text)))
	if err != nil || age < 0 {
		return fmt.Errorf("since: %q is no span of time such as 24h", text)
	}
	since := events.Stamp(0)
	if age > 0 {
		since = events.StampOf(b.clock.Now().Add(-age))
	}
	t.own = true
	bad, err := b.eachOwn(ctx, since, t.alive, t.fold)
	t.bad += bad
	t.logs = append(t.logs, triedLog{Name: "the log of this weir", Format: "canonical"})
	return err
}

// eachOwn calls fold for the events appended to the log of this weir at or after since, and
// alive now and then. It returns how many records could not be read.
// In a group it reads the whole topic, whichever member folds it. It skips what weir wrote
// itself: limits, ticks and the loops of the self-test. The event is valid until fold
// returns.
func (b *backtests) eachOwn(ctx context.Context, since events.Stamp, alive func(), fold func(*events.Event) error) (bad int64, err error) {
	var ev events.Event
	var failed error
	n := 0
	err = b.log.Events(ctx, "", since, func(line []byte, appended events.Stamp) bool {
		if n++; n%1024 == 0 {
			alive()
		}
		// It became a dead letter when it was folded; here it is counted.
		if events.Decode(line, &ev) != nil {
			bad++
			return true
		}
		if ev.Kind == events.LimitsSet || ev.Kind == events.Tick || selftest.OwnFlow(ev.FlowKey()) {
			return true // the limits are those that are tried
		}
		ev.Appended = appended // or a clock that is ahead would be believed here alone
		failed = fold(&ev)
		return failed == nil
	})
	return bad, errors.Join(err, failed)
}

// serveCosts is GET /v1/costs: the log of this weir folded again by the limits in force. The
// parameter since is an age, such as 168h: what happened before is not counted, but flows are
// judged from their beginning.
func (b *backtests) serveCosts(w http.ResponseWriter, r *http.Request) error {
	from := events.Stamp(0)
	if text := r.URL.Query().Get("since"); text != "" {
		age, err := time.ParseDuration(text)
		if err != nil || age <= 0 {
			return &problem.Error{Status: http.StatusBadRequest, Detail: "since: want how long, such as 168h"}
		}
		from = events.StampOf(b.clock.Now().Add(-age))
	}
	// The limits of now judge all of it, also what was judged by others at the time.
	limits, _ := b.folded.inForce()
	trial, err := backtest.NewTrial(r.Context(), b.folded.limits.WithFigures(limits))
	if err != nil {
		return err
	}
	trial.Count(from)
	if _, err := b.eachOwn(r.Context(), 0, keepAlive(w), func(ev *events.Event) error {
		trial.Fold(ev)
		return tooMany(trial)
	}); err != nil {
		return err
	}
	return answer(w, costs.NewReport(trial.Costs()))
}
