package api

import (
	"net/http"

	"weir/cmd/internal/gate"
	"weir/cmd/internal/problem"
	"weir/events"
)

// serveForwarded is where other members pass asks on to.
// The ask has been let in by the member that its sender knows; it is looked at again here,
// because whoever has a token can call this route as well. It goes into the log of this
// member's partition and is answered from its fold.
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
	// A claim that the first member has marked stays marked, since the mark is in the
	// event.
	if a.trust.Weigh(gate.Ask, &ev) {
		raw = ev.AppendJSON(nil)
	}
	// Any other event would be answered by nobody, and the request would wait for its end.
	if !ev.Ask || !ev.Kind.Asked() {
		return &problem.Error{Status: http.StatusBadRequest, Detail: "only asks are passed on"}
	}
	// What is not folded here any more, after a hand-over, is an error: an ask is passed on
	// once.
	v, err := a.log.AskHere(r.Context(), &ev, raw)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(v.AppendJSON(nil)) // an error means that the other side is gone
	return nil
}

// serveTreeAsk is where other members ask what a tree that is folded here says.
// 204 says that the tree has not come to that record yet; who asks comes again (see
// decision 68).
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
