package api

import (
	"net/http"

	"weir/cmd/internal/backtest"
	"weir/cmd/internal/problem"
)

// MarkOrder is what a person says of a stop: right, the flow ran away; wrong, it did honest work.
type MarkOrder struct {
	Mark   string `json:"mark"`
	Reason string `json:"reason"`
	By     string `json:"by,omitempty"`
}

// markRoutes judge stops. The file has the lines that weir review mark writes, so weir backtest
// --marks and weir limits suggest --marks take it as it is.
func (a *Server) markRoutes() []route {
	return []route{
		{"POST", "/v1/flows/{id}/mark", operator, a.serveMark},
		{"POST", "/v1/inspect/mark", operator, byQuery("flow", a.serveMark)},
		{"GET", "/v1/marks", reader, a.turns.of(a.serveMarks)},
	}
}

// serveMark is POST /v1/flows/{id}/mark. It appends to the file of marks and changes no order:
// a stop that is wrong lasts until it expires or the flow is released.
func (a *Server) serveMark(w http.ResponseWriter, r *http.Request) error {
	var asked MarkOrder
	if err := readOrder(w, r, &asked); err != nil {
		return err
	}
	by, err := signed(r, asked.By, asked.Reason)
	if err != nil {
		return err
	}
	if a.o.MarksFile == "" {
		return &problem.Error{Status: http.StatusConflict, Detail: "weir runs in memory and keeps no marks: start it with --state, or use weir review mark"}
	}
	m := backtest.Mark{Flow: r.PathValue("id"), Mark: asked.Mark, Reason: asked.Reason, By: by, At: a.clock.Now().UTC()}
	if err := m.Validate(); err != nil {
		return &problem.Error{Status: http.StatusBadRequest, Field: "mark", Detail: err.Error()}
	}
	if err := backtest.AppendMark(a.o.MarksFile, &m); err != nil {
		return err
	}
	a.logger.Info("a stop was judged", "flow", m.Flow, "mark", m.Mark, "by", by, "reason", m.Reason)
	writeJSON(w, "application/json", http.StatusAccepted, m)
	return nil
}

// serveMarks is GET /v1/marks: the file of marks, one JSON object a line. Of several marks of a
// flow the last one counts.
func (a *Server) serveMarks(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/x-ndjson")
	if a.o.MarksFile == "" {
		return nil
	}
	return backtest.CopyMarks(w, a.o.MarksFile)
}
