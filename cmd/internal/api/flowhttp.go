package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/cmd/internal/limits"
	"weir/cmd/internal/problem"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/state"
)

// The sizes of lists.
const (
	defaultFlows   = 50
	maxFlows       = 5000
	defaultLimit   = 1000
	maxLimit       = 100_000
	maxDeadLetters = 1000
)

func (a *Server) serveFlows(w http.ResponseWriter, r *http.Request) error {
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
	list, err := pump.FlowsOf(a.log.Pumps(), pump.FlowQuery{Text: r.URL.Query().Get("q"), Limit: int(limit), Order: order, Wanted: ownOf(r)})
	if err != nil {
		return err
	}
	return answer(w, list)
}

// ownOf says which flows the visitor may see; nil for all.
func ownOf(r *http.Request) func(string) bool {
	if who := visitOf(r.Context()).who; who.Bound() {
		return who.Flow
	}
	return nil
}

func noFlow(id string) error {
	return &problem.Error{Status: http.StatusNotFound, Detail: fmt.Sprintf("nothing is known of flow %q; GET /v1/flows lists those that are", id)}
}

func (a *Server) serveFlow(w http.ResponseWriter, r *http.Request) error {
	view, err := a.view(r.PathValue("id"))
	if err != nil {
		return err
	}
	return answer(w, view)
}

func (a *Server) view(id string) (analyzer.View, error) {
	p, err := a.log.PumpOf(id)
	if err != nil {
		return analyzer.View{}, err
	}
	view, ok, err := p.View(id)
	if err == nil && !ok {
		err = noFlow(id)
	}
	return view, err
}

// serveFlowEvents is the events of a flow as the log has them, one per line: of
// its last episode, or with all=1 of all that is kept.
func (a *Server) serveFlowEvents(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	limit, err := intParameter(r, "limit", defaultLimit, maxLimit)
	if err != nil {
		return err
	}
	view, err := a.view(id)
	if err != nil {
		return err
	}
	since := events.Stamp(view.Start) - maxSkew
	if all := r.URL.Query().Get("all"); all == "1" || all == "true" {
		since = 0
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	err = a.log.EventsOf(r.Context(), id, since, func(line []byte) bool {
		if limit == 0 {
			return false
		}
		limit--
		_, werr := w.Write(append(line, '\n'))
		return werr == nil
	})
	if err != nil {
		a.logger.Warn("the events of a flow could not be read to the end", "flow", id, "error", err)
	}
	return nil // the answer has begun
}

// maxSkew is how far the clock of a producer may be ahead of the log's: so much
// earlier than its time an event may have been appended.
const maxSkew = 60_000

// LimitsAnswer is what GET /v1/limits says.
type LimitsAnswer struct {
	Version string        `json:"version"` // in force
	Profile string        `json:"profile"`
	File    string        `json:"file,omitempty"`
	Reload  limits.Status `json:"last_reload"`
	// Pending is a version that is in the log and not yet in force.
	Pending string `json:"pending,omitempty"`
	// Remarks are what people should know of limits that are not wrong.
	Remarks  []string        `json:"remarks,omitempty"`
	Document json.RawMessage `json:"document"`
}

func (a *Server) serveLimits(w http.ResponseWriter, _ *http.Request) error {
	limits, document := a.inForce()
	if len(document) == 0 {
		document = limitfile.FormatJSON(*limits)
	}
	wanted, status := a.limits.State()
	out := LimitsAnswer{Version: limits.Version, Profile: limits.Profile, File: a.o.LimitsFile, Reload: status, Document: document}
	if wanted != limits.Version {
		out.Pending = wanted
	}
	for _, r := range limitfile.Remarks(limits) {
		out.Remarks = append(out.Remarks, r.Path+": "+r.Message+"; "+r.Hint)
	}
	return answer(w, out)
}

// inForce returns the limits that the pumps judge by, and as they were written.
func (a *Server) inForce() (*analyzer.Limits, []byte) {
	return pump.InForce(a.log.Pumps(), a.limits.Current)
}

func (a *Server) serveReload(w http.ResponseWriter, _ *http.Request) error {
	if err := a.program.Reload(); err != nil {
		return &problem.Error{Status: http.StatusUnprocessableEntity, Detail: err.Error()}
	}
	wanted, status := a.limits.State()
	return answer(w, struct {
		Version string        `json:"version"`
		Reload  limits.Status `json:"last_reload"`
	}{wanted, status})
}

// DeadLetterAnswer is a dead letter as it is shown.
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

// serveDeadLetters is the dead letters from a sequence number on, by default the last
// hundred.
func (a *Server) serveDeadLetters(w http.ResponseWriter, r *http.Request) error {
	limit, err := intParameter(r, "limit", 100, maxDeadLetters)
	if err != nil {
		return err
	}
	count := a.store.DeadLetterCount()
	from, err := intParameter(r, "from", max(0, count-limit), count)
	if err != nil {
		return err
	}
	from, deadLetters, err := state.ReadOn(a.store.DeadLetters, from, int(limit), nil)
	if err != nil {
		return err
	}
	counted := a.counts.Sum()
	out := struct {
		Count       int64                 `json:"count"` // ever, expired ones included
		Next        int64                 `json:"next"`  // where to go on
		ByCode      map[events.Code]int64 `json:"by_code"`
		DeadLetters []DeadLetterAnswer    `json:"dead_letters"`
		NotKept     int64                 `json:"not_kept,omitempty"` // since the start: counted alone, for there were too many
	}{count, from + int64(len(deadLetters)), counted.DeadLetters(), make([]DeadLetterAnswer, 0, len(deadLetters)), counted.NotKept}
	for i := range deadLetters {
		l := &deadLetters[i]
		shown := DeadLetterAnswer{l.Sequence, l.Source, l.Position, l.Code, l.Reason, events.RFC3339(l.Appended), l.Size, strings.ToValidUTF8(string(l.Raw), "\uFFFD"), nil}
		if !utf8.Valid(l.Raw) {
			shown.RawBase64 = l.Raw
		}
		out.DeadLetters = append(out.DeadLetters, shown)
	}
	return answer(w, out)
}
