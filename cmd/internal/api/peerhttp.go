package api

import (
	"net/http"

	"weir/cmd/internal/gate"
	"weir/cmd/internal/problem"
	"weir/events"
)

// serveForwarded is where other members pass asks on to.
func (a *Server) serveForwarded(w http.ResponseWriter, r *http.Request) error {
	raw, err := readBody(w, r, events.MaxEventBytes)
	if err != nil {
		return err
	}
	var ev events.Event
	if err := events.Decode(raw, &ev); err != nil {
		return err
	}
	if err := gate.Ask.Admit(&ev); err != nil {
		return err
	}
	if a.trust.Weigh(gate.Ask, &ev) {
		raw = ev.AppendJSON(nil)
	}
	if !ev.Ask || !ev.Kind.Asked() {
		return &problem.Error{Status: http.StatusBadRequest, Detail: "only asks are passed on"}
	}
	v, err := a.log.AskHere(r.Context(), &ev, raw)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(v.AppendJSON(nil)) // an error means that the other side is gone
	return nil
}

// serveTreeAsk is where other members ask what a tree that is folded here says.
func (a *Server) serveTreeAsk(w http.ResponseWriter, r *http.Request) error {
	request, err := readBody(w, r, events.MaxEventBytes)
	if err != nil {
		return err
	}
	word, err := a.log.TreeHere(r.Context(), request)
	switch {
	case err != nil:
		return err
	case len(word) == 0:
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(word) // an error means that the other side is gone
	}
	return nil
}
