package api

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"unicode/utf8"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/limits"
	"weir/cmd/internal/problem"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/state"
)

// The sizes of lists.
const (
	// Flows are of lists that a person reads; limits of events are for those who copy a
	// flow.
	defaultFlows   = 50
	maxFlows       = 5000
	defaultLimit   = 1000
	maxLimit       = 100_000
	maxDeadLetters = 1000

	// A list of dead letters ends when it has so much of what came, and says where to go on.
	// The last hundred are never more.
	deadLetterBytes = 100 * state.MaxRaw
)

// flowPages serves what the log and the fold have of flows.
type flowPages struct {
	log    Log
	folded *folded
	turns  *turns
	logger *slog.Logger
}

func (f *flowPages) routes() []route {
	return []route{
		{"GET", "/v1/flows", reader, f.turns.of(f.serveFlows)},
		{"GET", "/v1/flows/{id}", reader, f.serveFlow},
		{"GET", "/v1/flows/{id}/events", reader, f.turns.of(f.serveFlowEvents)},
		{"GET", "/v1/inspect/flow", reader, byQuery("flow", f.serveFlow)},
		{"GET", "/v1/inspect/events", reader, f.turns.of(byQuery("flow", f.serveFlowEvents))},
	}
}

// serveFlows is GET /v1/flows: the flows that this process folds. Parameters: q, a text in
// the id or in the name of one of its agents; sort, newest or near, which puts those first
// that are closest to a limit; and limit. Who is bound to some flows sees these alone.
func (f *flowPages) serveFlows(w http.ResponseWriter, r *http.Request) error {
	limit, err := intParameter(r, "limit", defaultFlows, maxFlows)
	if err != nil {
		return err
	}
	order := pump.Newest
	switch sort := r.URL.Query().Get("sort"); sort {
	case "", "newest":
	case "near":
		order = pump.Nearby
	default:
		return &problem.Error{Status: http.StatusBadRequest, Detail: fmt.Sprintf("sort=%q is not known; want newest or near", sort)}
	}
	list, err := pump.FlowsOf(f.log.Pumps(pump.FlowStage), pump.FlowQuery{Text: r.URL.Query().Get("q"), Limit: int(limit), Order: order, Wanted: ownOf(r), Standing: f.folded.standingAt(r)})
	if err != nil {
		return err
	}
	return answer(w, list)
}

// ownOf says which flows the visitor may see; nil for all.
// The list asks it while it is made, so that its length counts only what may be shown.
func ownOf(r *http.Request) func(string) bool {
	if who := visitOf(r.Context()).who; who.Bound() {
		return who.Flow
	}
	return nil
}

// noFlow is 404: nothing was folded of it, or it has been forgotten since.
func noFlow(id string) error {
	return &problem.Error{Status: http.StatusNotFound, Detail: fmt.Sprintf("nothing is known of flow %q; GET /v1/flows lists those that are", id)}
}

// serveFlow is GET /v1/flows/{id}: the state of the flow, with its orders and the remaining
// part of its limits. In a group the member that folds it answers; another member names
// that one.
func (f *flowPages) serveFlow(w http.ResponseWriter, r *http.Request) error {
	view, err := f.folded.viewInTree(r, r.PathValue("id"))
	if err != nil {
		return err
	}
	return answer(w, view)
}

// serveFlowEvents is the events of a flow as the log has them, one per line: of
// its last episode, or with all=1 of all that is kept.
// The log has no index by flow: it is read from the time at which the episode began, less
// what clocks may differ, and each record looked at. That is why this takes a turn.
func (f *flowPages) serveFlowEvents(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	limit, err := intParameter(r, "limit", defaultLimit, maxLimit)
	if err != nil {
		return err
	}
	// It says when the episode began, and 404 before the answer begins.
	view, err := f.folded.view(id)
	if err != nil {
		return err
	}
	since := events.Stamp(view.Start) - maxSkew
	if all := r.URL.Query().Get("all"); all == "1" || all == "true" {
		since = 0
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	var answer []byte
	err = f.log.Events(r.Context(), id, since, func(line []byte, _ events.Stamp) bool {
		if limit == 0 {
			return false
		}
		limit--
		// Copied, because what stands behind the line in its memory is not ours to write over.
		answer = append(append(answer[:0], line...), '\n')
		_, werr := w.Write(answer)
		return werr == nil
	})
	if err != nil {
		f.logger.Warn("the events of a flow could not be read to the end", "flow", id, "error", err)
	}
	return nil // the answer has begun
}

// maxSkew is how far the clock of a producer may be ahead of the log's: so much
// earlier than its time an event may have been appended.
const maxSkew = 60_000

// LimitsAnswer is the response of GET /v1/limits.
// Guards fetch it for their local limiter, so every principal with the role ask may read it.
type LimitsAnswer struct {
	Version string `json:"version"` // in force
	Profile string `json:"profile"`
	File    string `json:"file,omitempty"`
	// Reload says how the last reading of the file went; when it was refused, the old
	// limits stay in force and the error stands here.
	Reload limits.Status `json:"last_reload"`
	// Pending is a version that is in the log and not yet in force.
	Pending string `json:"pending,omitempty"`
	// Remarks are what people should know of limits that are not wrong.
	Remarks  []string        `json:"remarks,omitempty"`
	Document json.RawMessage `json:"document"`
}

// limitPages serves the limits, and reads again what people edit.
type limitPages struct {
	folded  *folded
	limits  Limits
	program Program
	file    string // see Options.LimitsFile
}

func (l *limitPages) routes() []route {
	return []route{
		{"GET", "/v1/limits", follower, l.serveLimits},
		{"GET", "/v1/inspect/limits", reader, l.serveLimitsFile},
		{"POST", "/-/reload", reloader, l.serveReload},
	}
}

// serveLimits is GET /v1/limits: by which limits is judged now, as JSON.
func (l *limitPages) serveLimits(w http.ResponseWriter, _ *http.Request) error {
	limits, document := l.folded.inForce()
	// The log has set none yet, as right after the start; it is written as the file would
	// be.
	if len(document) == 0 {
		document = limitfile.FormatJSON(*limits)
	}
	wanted, status := l.limits.State()
	out := LimitsAnswer{Version: limits.Version, Profile: limits.Profile, File: l.file, Reload: status, Document: document}
	if wanted != limits.Version {
		out.Pending = wanted
	}
	for _, r := range limitfile.Remarks(limits) {
		out.Remarks = append(out.Remarks, r.Path+": "+r.Message+"; "+r.Hint)
	}
	return answer(w, out)
}

// serveLimitsFile is the limits in force as a file that a person edits.
// The page begins a trial with it.
func (l *limitPages) serveLimitsFile(w http.ResponseWriter, _ *http.Request) error {
	limits, _ := l.folded.inForce()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(limitfile.Format(*limits)) // an error means that the other side is gone
	return nil
}

// serveReload is POST /-/reload, the same as SIGHUP. With 422 some of it was refused, and
// the detail says what; the rest was taken over. New limits are in force when the fold has
// come to their record in the log.
func (l *limitPages) serveReload(w http.ResponseWriter, _ *http.Request) error {
	if err := l.program.Reload(); err != nil {
		return &problem.Error{Status: http.StatusUnprocessableEntity, Detail: err.Error()}
	}
	wanted, status := l.limits.State()
	return answer(w, reloadAnswer{wanted, status})
}

// reloadAnswer is what was read again.
type reloadAnswer struct {
	Version string        `json:"version"` // that is wanted
	Reload  limits.Status `json:"last_reload"`
}

// DeadLetterAnswer is a dead letter as it is shown.
// Raw is the beginning of what came, at most state.MaxRaw bytes; Size says how long it was.
// Position is the line, or the offset in the source, wherever the source has one.
type DeadLetterAnswer struct {
	Sequence  int64          `json:"sequence"`
	Source    string         `json:"source"`
	Position  int64          `json:"position"`
	Code      string         `json:"code"`
	Reason    string         `json:"reason"`
	Time      events.RFC3339 `json:"time"`
	Size      int64          `json:"size"`                 // bytes of what came
	Raw       string         `json:"raw"`                  // as text
	RawBase64 []byte         `json:"raw_base64,omitempty"` // as it came, when it is no text
}

// deadLettersAnswer is a part of the dead letters.
type deadLettersAnswer struct {
	Count       int64                 `json:"count"` // ever, expired ones included
	Next        int64                 `json:"next"`  // where to go on
	ByCode      map[events.Code]int64 `json:"by_code"`
	DeadLetters []DeadLetterAnswer    `json:"dead_letters"`
	NotKept     int64                 `json:"not_kept,omitempty"` // since the start: counted alone, for there were too many
}

// letterPages serves the dead letters.
type letterPages struct {
	store  Store
	counts *pump.Counts
}

// serve is the dead letters from a sequence number on, by default the last
// hundred.
func (p *letterPages) serve(w http.ResponseWriter, r *http.Request) error {
	limit, err := intParameter(r, "limit", 100, maxDeadLetters)
	if err != nil {
		return err
	}
	count := p.store.DeadLetterCount()
	from, err := intParameter(r, "from", max(0, count-limit), count)
	if err != nil {
		return err
	}
	// Dead letters expire; the list begins at the first that is left. They are read a few at a
	// time, since each may hold as much as state.MaxRaw.
	var deadLetters []state.DeadLetter
	next := from
	for held := 0; int64(len(deadLetters)) < limit && held < deadLetterBytes; {
		first, more, err := state.ReadOn(p.store.DeadLetters, next, int(min(16, limit-int64(len(deadLetters)))), nil)
		if err != nil {
			return err
		}
		if next = first + int64(len(more)); len(more) == 0 {
			break
		}
		for i := range more {
			held += len(more[i].Raw)
		}
		deadLetters = append(deadLetters, more...)
	}
	counted := p.counts.Sum()
	out := deadLettersAnswer{count, next, counted.DeadLetters(), make([]DeadLetterAnswer, 0, len(deadLetters)), counted.NotKept}
	for i := range deadLetters {
		l := &deadLetters[i]
		// A person reads the text; sending the record again needs its bytes.
		shown := DeadLetterAnswer{l.Sequence, l.Source, l.Position, l.Code, l.Reason, events.RFC3339(l.Appended), l.Size, strings.ToValidUTF8(string(l.Raw), "\uFFFD"), nil}
		if !utf8.Valid(l.Raw) {
			shown.RawBase64 = l.Raw
		}
		out.DeadLetters = append(out.DeadLetters, shown)
	}
	return answer(w, out)
}
