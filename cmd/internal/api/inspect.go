package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer"
	"weir/analyzer/coverage"
	"weir/analyzer/limitfile"
	"weir/analyzer/rulebook"
	"weir/analyzer/rules"
	"weir/cmd/internal/problem"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/sink/inspect"
)

// Bounds of what the inspector accepts.
const (
	inspectorPath = "/ui/"
	maxTimeline   = 5000 // events of a flow
	maxSources    = 8    // of a flow
	// The flow of an older exemplar is looked for among the flows alone.
	keyVerdicts = 20_000 // in which a flow is looked for by its key
)

// inspector serves the page, and flows as the page shows them.
type inspector struct {
	log      Log
	verdicts Verdicts
	folded   *folded
	turns    *turns
}

// routes are the page, which holds no data, and what only the page asks for.
// They are no interface for programs: the page and its server are built together. What the
// page shows of flows beside that, it asks by the routes that anybody has.
func (p *inspector) routes() []route {
	pages, err := inspect.NewPages(inspectorPath)
	return []route{
		{"GET", "/{$}", public, func(w http.ResponseWriter, r *http.Request) error {
			http.Redirect(w, r, inspectorPath, http.StatusFound)
			return nil
		}},
		// The page itself is open: it holds nothing, and has to be there before a token can
		// be typed.
		{"GET", inspectorPath, public, func(w http.ResponseWriter, r *http.Request) error {
			if err == nil {
				pages.ServeHTTP(w, r)
			}
			return err
		}},
		{"GET", "/v1/inspect/rules", reader, serveRules},
		{"GET", "/v1/inspect/timeline", reader, p.turns.of(p.serveTimeline)},
		{"GET", "/v1/inspect/view", reader, p.turns.of(p.serveViewAt)},
		{"GET", "/v1/inspect/case", reader, p.turns.of(p.serveFlowTest)},
		{"GET", "/v1/inspect/key", reader, p.turns.of(p.serveKey)},
		{"GET", "/v1/inspect/scenarios", reader, serveScenarios},
		{"POST", "/v1/inspect/play", trier, limited(2, servePlay)},
	}
}

// byQuery takes an id from the query, because a path cannot hold every id: browsers
// resolve ".." before they ask.
// The handler finds it where the path of other routes would have put it.
func byQuery(name string, serve func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		r.SetPathValue("id", r.URL.Query().Get(name))
		return serve(w, r)
	}
}

// flowLog is a flow and its records in the log.
// It is a past flow, folded anew (see decision 37): it shows what the events give under the
// current limits, without the load of other flows.
type flowLog struct {
	View      analyzer.View `json:"view"`
	Truncated bool          `json:"truncated,omitempty"`
	events    []events.Event
	limits    analyzer.Limits
}

// flowLog reads the events of the flow that the query names: of its last episode, or with
// all=1 of all that is kept.
// At most maxTimeline events are taken, from the first on; Truncated says that there are
// more.
func (p *inspector) flowLog(r *http.Request) (*flowLog, error) {
	q := r.URL.Query()
	id := q.Get("flow")
	view, err := p.folded.viewInTree(r, id)
	if err != nil {
		return nil, err
	}
	t := &flowLog{View: view}
	limits, _ := p.folded.inForce()
	t.limits = *limits
	all := q.Get("all") == "1"
	// The log is in the order of arrival. An event of the episode may have come a little
	// before the time that it says it happened.
	since := events.Stamp(view.Start) - maxSkew
	if all {
		since = 0
	}
	var bad error
	err = p.log.Events(r.Context(), id, since, func(line []byte, appended events.Stamp) bool {
		if len(t.events) == maxTimeline {
			t.Truncated = true
			return false
		}
		var ev events.Event
		// The event points into its line, which is the log's again when this returns.
		if bad = events.Decode(bytes.Clone(line), &ev); bad != nil {
			return false
		}
		ev.Appended = appended // the fold goes by it
		if all || ev.Time >= events.Stamp(view.Start) {
			t.events = append(t.events, ev)
		}
		return true
	})
	return t, errors.Join(err, bad)
}

// serveTimeline is a flow with its events, folded again by the limits in force.
// Blind is about the reports of this flow's sources, under the limits that it is shown by.
func (p *inspector) serveTimeline(w http.ResponseWriter, r *http.Request) error {
	t, err := p.flowLog(r)
	if err != nil {
		return err
	}
	shown := struct {
		*flowLog
		inspect.Timeline
		Version string   `json:"version"` // of the limits
		Sources []string `json:"sources"` // that reported the flow, at most maxSources
		Blind   string   `json:"blind"`   // what cannot be judged because no source reports it; "" for nothing
	}{flowLog: t, Timeline: inspect.Fold(t.limits, t.events, 0), Version: t.limits.Version, Sources: []string{}}
	var seen coverage.Coverage
	for i := range t.events {
		ev := &t.events[i]
		seen.Add(ev, t.limits.Prices)
		if len(shown.Sources) < maxSources && !slices.Contains(shown.Sources, ev.Source) {
			shown.Sources = append(shown.Sources, ev.Source)
		}
	}
	shown.Blind = coverage.Line(unjudged(seen.Blind(&t.limits), t.View))
	return answer(w, shown)
}

// unjudged leaves out the rules that measured something in the flow or gave one of its orders.
// A source that never reports a field cannot be said to hide the flow from these.
func unjudged(blind []coverage.Blind, v analyzer.View) []coverage.Blind {
	judged := func(rule string) bool {
		return slices.ContainsFunc(v.Orders, func(o events.Verdict) bool { return o.RuleID == rule }) ||
			slices.ContainsFunc(v.Offences, func(o analyzer.OffenceView) bool { return o.Rule == rule }) ||
			slices.ContainsFunc(v.Counters, func(c rules.CounterView) bool { return c.Rule == rule && c.Observed > 0 })
	}
	return coverage.Unjudged(blind, judged)
}

// serveViewAt is a flow as it stood after the first at events of its tale.
// The page asks for it when its reader moves along the tale. Before the first event it is a
// flow of which nothing is known.
func (p *inspector) serveViewAt(w http.ResponseWriter, r *http.Request) error {
	at, err := intParameter(r, "at", maxTimeline, maxTimeline)
	if err != nil {
		return err
	}
	t, err := p.flowLog(r)
	if err != nil {
		return err
	}
	view, ok := inspect.ViewAt(t.limits, t.events, t.View.Flow, int(at))
	if !ok {
		return answer(w, analyzer.New(t.limits).View(new(analyzer.Flow)))
	}
	return answer(w, view)
}

// serveFlowTest is a flow as a case for weir test.
// Its outcome is that of the limits in force. A user who expects another outcome changes
// it, and has a test that fails until the limits give that outcome.
func (p *inspector) serveFlowTest(w http.ResponseWriter, r *http.Request) error {
	t, err := p.flowLog(r)
	if err != nil {
		return err
	}
	text, err := inspect.FlowTest("recorded: "+t.View.Flow, t.limits, t.events)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text) // an error means that the other side is gone
	return nil
}

// serveKey finds a flow by its key, as exemplars of metrics carry it: in the latest
// verdicts first, since exemplars stand on those, then among the flows.
// A key is the xxh64 of the flow's id, since an exemplar has room for 128 characters alone.
func (p *inspector) serveKey(w http.ResponseWriter, r *http.Request) error {
	key, err := strconv.ParseUint(r.URL.Query().Get("key"), 16, 64)
	if err != nil {
		return &problem.Error{Status: http.StatusBadRequest, Detail: "key: want 16 hexadecimal digits"}
	}
	type found struct {
		Flow string `json:"flow"`
	}
	end := p.verdicts.End()
	for from := max(0, end-keyVerdicts); from < end; {
		entries, err := p.verdicts.Read(from, streamBatch, nil)
		if err != nil || len(entries) == 0 {
			// The flows may know it still.
			break // the remaining ones have expired
		}
		for i := range entries {
			var v events.Verdict
			if events.DecodeVerdict(entries[i].Value, &v) == nil && xxhash.Sum64String(v.CorrelationID) == key {
				return answer(w, found{v.CorrelationID})
			}
		}
		from += int64(len(entries))
	}
	// A key cannot be turned back into an id, so all that are known are tried.
	list, err := pump.FlowsOf(p.log.Pumps(pump.FlowStage), pump.FlowQuery{Limit: pump.MaxScanned})
	if err != nil {
		return err
	}
	for i := range list.Flows {
		if xxhash.Sum64String(list.Flows[i].Flow) == key {
			return answer(w, found{list.Flows[i].Flow})
		}
	}
	return &problem.Error{Status: http.StatusNotFound, Detail: fmt.Sprintf("no flow is known here by the key %016x; it may be long over, or folded by another member", key)}
}

// scenarios is the rulebook that weir is built with, as it is answered. It is the same each
// time, and to read it takes longer than all else that may be asked for without a turn.
var scenarios = sync.OnceValues(func() ([]byte, error) {
	book, err := inspect.Scenarios(rulebook.Files)
	if err != nil {
		return nil, err
	}
	return json.Marshal(book)
})

// serveScenarios is the rulebook; it says nothing of this weir's flows.
func serveScenarios(w http.ResponseWriter, _ *http.Request) error {
	book, err := scenarios()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(book) // an error means that the other side is gone
	return nil
}

// serveRules is what each rule is about, by its name.
func serveRules(w http.ResponseWriter, _ *http.Request) error {
	about := make(map[string]string)
	for _, row := range analyzer.Rows() {
		about[row.Name] = row.About
	}
	return answer(w, about)
}

// servePlay plays a case in an engine of its own. Nothing of it is kept.
// Without limits of its own a case is played by the default ones. 422 says what is wrong
// with the text, and in which line.
func servePlay(w http.ResponseWriter, r *http.Request) error {
	var asked struct{ Text, Limits string }
	if err := readAsked(w, r, &asked); err != nil {
		return err
	}
	played, err := inspect.Play(asked.Text, asked.Limits, limitfile.Default())
	if err != nil {
		return &problem.Error{Status: http.StatusUnprocessableEntity, Detail: err.Error()}
	}
	return answer(w, played)
}

// readAsked reads one JSON object that the page sends. It is strict, since a page that
// sends something else is not of this weir's version.
func readAsked(w http.ResponseWriter, r *http.Request, v any) error {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok || err == nil {
		return err
	}
	return &problem.Error{Status: http.StatusBadRequest, Detail: "the question is not as the page asks it: " + err.Error()}
}
