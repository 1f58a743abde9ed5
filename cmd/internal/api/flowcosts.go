package api

import (
	"net/http"

	"weir/cmd/internal/backtest"
	"weir/cmd/internal/costs"
	"weir/events"
)

// flowCosts serves what one flow and its descendants have spent.
type flowCosts struct{ *backtests }

// routes are the routes of flowCosts.
func (a flowCosts) routes() []route {
	return []route{
		{"GET", "/v1/flows/{id}/costs", reader, limited(1, a.serve)},
		{"GET", "/v1/inspect/costs", reader, limited(1, byQuery("flow", a.serve))},
	}
}

// serve is GET /v1/flows/{id}/costs: what a flow, the flows that descend from it, their agents and
// their tools have spent, by the log that is kept and the limits in force. A caller that is bound to
// some flows sees these alone.
//
// It reads the log twice: first for the flows of the tree, then to fold their events alone.
func (a flowCosts) serve(w http.ResponseWriter, r *http.Request) error {
	id, own := r.PathValue("id"), ownOf(r)
	links, seen := costs.Links{}, false
	if _, err := a.eachOwn(r.Context(), 0, keepAlive(w), func(ev *events.Event) error {
		links.Note(ev)
		seen = seen || ev.FlowKey() == id
		return nil
	}); err != nil {
		return err
	}
	if !seen {
		return noFlow(id)
	}
	in := links.Below(id)
	limits, _ := a.folded.inForce()
	trial, err := backtest.NewTrial(r.Context(), a.folded.limits.WithFigures(limits))
	if err != nil {
		return err
	}
	trial.Trees = costs.NewForest(costs.MostNodes)
	if _, err := a.eachOwn(r.Context(), 0, keepAlive(w), func(ev *events.Event) error {
		if flow := ev.FlowKey(); !in[flow] || own != nil && !own(flow) {
			return nil
		}
		trial.Fold(ev)
		return tooMany(trial)
	}); err != nil {
		return err
	}
	tree, ok := trial.Trees.Tree(id)
	if !ok {
		return noFlow(id)
	}
	return answer(w, tree)
}
