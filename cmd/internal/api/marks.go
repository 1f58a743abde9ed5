package api

import (
	"log/slog"
	"net/http"

	"weir/cmd/internal/backtest"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/problem"
)

// MarkOrder is what a person says of a stop: right, the flow ran away; wrong, it did honest work.
type MarkOrder struct {
	Mark   string `json:"mark"`
	Reason string `json:"reason"`
	By     string `json:"by,omitempty"`
}

// markPages keeps what people said of stops.
type markPages struct {
	file   string // see Options.MarksFile
	turns  *turns
	clock  clock.Clock
	logger *slog.Logger
}

// routes judge stops. The file has the lines that weir review mark writes, so weir backtest
// --marks and weir limits suggest --marks take it as it is.
func (p *markPages) routes() []route {
	return []route{
		{"POST", "/v1/flows/{id}/mark", operator, p.serveMark},
		{"POST", "/v1/inspect/mark", operator, byQuery("flow", p.serveMark)},
		{"GET", "/v1/marks", reader, p.turns.of(p.serveMarks)},
	}
}

// serveMark is POST /v1/flows/{id}/mark. It appends to the file of marks and changes no order:
// a stop that is wrong lasts until it expires or the flow is released.
func (p *markPages) serveMark(w http.ResponseWriter, r *http.Request) error {
	var asked MarkOrder
	if err := readOrder(w, r, &asked); err != nil {
		return err
	}
	by, err := signed(r, asked.By, asked.Reason)
	if err != nil {
		return err
	}
	if p.file == "" {
		return &problem.Error{Status: http.StatusConflict, Detail: "weir runs in memory and keeps no marks: start it with --state, or use weir review mark"}
	}
	m := backtest.Mark{Flow: r.PathValue("id"), Mark: asked.Mark, Reason: asked.Reason, By: by, At: p.clock.Now().UTC()}
	if err := m.Validate(); err != nil {
		return &problem.Error{Status: http.StatusBadRequest, Field: "mark", Detail: err.Error()}
	}
	if err := backtest.AppendMark(p.file, &m); err != nil {
		return err
	}
	p.logger.Info("a stop was judged", "flow", m.Flow, "mark", m.Mark, "by", by, "reason", m.Reason)
	writeJSON(w, "application/json", http.StatusAccepted, m)
	return nil
}

// serveMarks is GET /v1/marks: the file of marks, one JSON object a line. Of several marks of a
// flow the last one counts.
func (p *markPages) serveMarks(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/x-ndjson")
	if p.file == "" {
		return nil
	}
	return backtest.CopyMarks(w, p.file)
}
