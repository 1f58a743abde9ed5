package api

import (
	"context"
	"net/http"

	"weir/analyzer"
	"weir/cmd/internal/pump"
	"weir/events"
)

// folded looks up what the fold knows of flows. Its fields are set by Serve.
type folded struct {
	log      Log
	limits   Limits
	standing func(ctx context.Context, flow, root string) ([]*events.Verdict, error) // see Parts
}

// standingAt returns the orders that block a flow because of its tree, for the time of a request.
// Checks are refused by the same orders, so readers see what callers get.
func (f *folded) standingAt(r *http.Request) func(flow, root string) ([]*events.Verdict, error) {
	return func(flow, root string) ([]*events.Verdict, error) { return f.standing(r.Context(), flow, root) }
}

// viewInTree is view with what stands about the tree of the flow.
func (f *folded) viewInTree(r *http.Request, id string) (analyzer.View, error) {
	view, err := f.view(id)
	if err != nil {
		return view, err
	}
	orders, err := f.standingAt(r)(view.Flow, view.Root)
	view.Bind(orders)
	return view, err
}

// view looks at one flow, in memory or in the store. The error is one to answer with.
func (f *folded) view(id string) (analyzer.View, error) {
	p, err := f.log.PumpOf(pump.FlowStage, id)
	if err != nil {
		return analyzer.View{}, err
	}
	view, ok, err := p.View(id)
	if err == nil && !ok {
		err = noFlow(id)
	}
	return view, err
}

// inForce returns the limits that the pumps judge by, and as they were written.
func (f *folded) inForce() (*analyzer.Limits, []byte) {
	return pump.InForce(f.log.Pumps(pump.FlowStage), f.limits.Current)
}

// lookAt returns the flow when this process folds it. When it does and knows nothing of
// it, known is false, and the flow that is returned has nothing in it.
func (f *folded) lookAt(key string) (view *analyzer.View, known bool, err error) {
	p, err := f.log.PumpOf(pump.FlowStage, key)
	if err != nil {
		return nil, true, nil // another folds it; the log takes the order all the same
	}
	v, known, err := p.View(key)
	return &v, known, err
}
