package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"weir/cmd/internal/problem"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/state"
)

// MaxStopAll is how many flows one order stops at most.
// It bounds what one request puts into the log (see decision 34). More says that there are
// others, and the order is given again for them: flows that are stopped are left out then.
const MaxStopAll = 10_000

// StopAll is what is asked of the route that stops all flows.
type StopAll struct {
	All bool `json:"all"` // has to be said, so that nothing that was left out stops everything
	OperatorOrder
}

// StopAllAnswer is what is said of an order to stop all flows.
// Numbers are sums over all members that answered.
type StopAllAnswer struct {
	ID      string `json:"id"` // with which those of the events begin
	By      string `json:"by"`
	Stopped int    `json:"stopped"`
	// More tells that there are flows beyond the most that one order stops.
	More bool `json:"more"`
	// Missed says where flows may be that were not stopped.
	Missed []string `json:"missed,omitempty"`
}

// serveStopAll is POST /v1/flows/stop: an order for every flow that is live.
// Live is what weir heard of within flow.idle and is not stopped by a person; what begins
// later is not stopped. In a group the first member asks all others, and says where it
// could not.
func (a *Server) serveStopAll(w http.ResponseWriter, r *http.Request) error {
	var asked StopAll
	if err := readOrder(w, r, &asked); err != nil {
		return err
	}
	if !asked.All {
		return &problem.Error{Status: http.StatusBadRequest, Field: "all", Detail: `this stops every flow: say "all": true; one flow is stopped by POST /v1/flows/{id}/stop`}
	}
	o, err := asked.operator(r)
	if err != nil {
		return err
	}
	out := StopAllAnswer{ID: orderID(), By: o.By}
	err = a.stopAll(r.Context(), &o, &out)
	if err = a.forwardStop(r.Context(), &asked, &out, err); err != nil {
		return err
	}
	a.logger.Warn("a person has stopped all flows", "flows", out.Stopped, "more", out.More, "missed", len(out.Missed), "by", o.By, "reason", o.Reason, "for", o.For, "event", out.ID)
	writeJSON(w, "application/json", http.StatusAccepted, out)
	return nil
}

// namedDoubtful is how many flows that may be live are named at most.
const namedDoubtful = 20

// describeDoubtful names flows that were heard of lately, only by telemetry that is much older.
func describeDoubtful(flows []string, dropped bool) (missed []string) {
	named := flows[:min(len(flows), namedDoubtful)]
	for _, f := range named {
		missed = append(missed, fmt.Sprintf("flow %q: its events are dated more than an hour before they came; if it is at work, set the clock of its machine and stop it by its id", f))
	}
	if rest := len(flows) - len(named); rest > 0 {
		missed = append(missed, fmt.Sprintf("%d more flows whose events are dated more than an hour before they came", rest))
	}
	if dropped {
		missed = append(missed, "flows whose events are dated long before they came: there are too many to keep track of")
	}
	return missed
}

// stopBatch is how many orders are put into the log at once.
// A batch is one append, so an order that fails on the way has stopped whole batches.
const stopBatch = 500

// stopAll stops the live flows that this process folds. When the log fails on the way,
// the error says how many orders it has.
// Ids of the events are that of the order with a number behind it, so all of them are found
// by it in the log.
func (a *Server) stopAll(ctx context.Context, o *events.Operator, out *StopAllAnswer) error {
	var flows []pump.LiveFlow
	var doubtful []string
	dropped := false
	for _, p := range a.log.Pumps() {
		some, more, err := p.Live(MaxStopAll - len(flows))
		if err != nil {
			return err
		}
		doubt, d := p.Doubtful()
		doubtful, dropped = append(doubtful, doubt...), dropped || d
		flows = append(flows, some...)
		out.More = out.More || more
	}
	out.Missed = append(out.Missed, describeDoubtful(doubtful, dropped)...)
	for batch := range slices.Chunk(flows, stopBatch) {
		entries := make([]state.Entry, 0, len(batch))
		for _, f := range batch {
			ev := events.Event{Kind: events.OperatorStop, CorrelationID: f.Key, Operator: o}
			a.sign(&ev, fmt.Sprintf("%s-%d", out.ID, out.Stopped+len(entries)))
			// As in give: behind the flow's last event it might be too late.
			ev.Time = max(ev.Time, f.Last)
			raw, err := lineOf(&ev)
			if err != nil { // a name that is too long for an order must not save the others
				out.Missed = append(out.Missed, fmt.Sprintf("flow %q: %v", f.Key, err))
				continue
			}
			entries = append(entries, state.Entry{Value: raw})
		}
		if err := a.log.Append(ctx, entries); err != nil {
			return fmt.Errorf("%d of %d flows were stopped, give the order again: %w", out.Stopped, len(flows), err)
		}
		out.Stopped += len(entries)
	}
	return nil
}

// forwardStop lets the other members stop their flows.
// When there are some, an error of this process is only told: they may be able to, all
// the same.
//
// err is what went wrong here; out says already what was stopped here. It is answered as it
// is where there are no others, as in the embedded form.
func (a *Server) forwardStop(ctx context.Context, asked *StopAll, out *StopAllAnswer, err error) error {
	var addresses, missed []string
	if a.members != nil {
		addresses, missed = a.members.Others(ctx)
	}
	if len(addresses)+len(missed) == 0 {
		return err
	}
	if err != nil {
		out.Missed = append(out.Missed, "here: "+err.Error())
	}
	out.Missed = append(out.Missed, missed...)
	answers, failed := make([]StopAllAnswer, len(addresses)), make([]error, len(addresses))
	var group sync.WaitGroup
	for i, address := range addresses {
		group.Go(func() {
			// The name is the one that this member has found, so that all logs tell of one
			// person. Each goroutine writes its own places of the two slices.
			failed[i] = a.caught("POST "+memberStopPath, func() (err error) {
				answers[i], err = a.passTo(ctx, address, &StopAll{true, OperatorOrder{asked.Reason, out.By, asked.ForS}})
				return err
			})
		})
	}
	group.Wait()
	for i, err := range failed {
		if err != nil {
			out.Missed = append(out.Missed, fmt.Sprintf("%s: %v", addresses[i], err))
			continue
		}
		out.Stopped += answers[i].Stopped
		out.More = out.More || answers[i].More
		out.Missed = append(out.Missed, answers[i].Missed...)
	}
	return nil
}

// passTime is how long another member may take to stop its flows.
// All members are asked at one time, so this is also how long all of them take.
const passTime = 20 * time.Second

// passTo gives the order to one member. The person is named in it, and the signature of this
// member vouches for that.
func (a *Server) passTo(ctx context.Context, address string, asked *StopAll) (there StopAllAnswer, err error) {
	if !a.o.Peer.Keys().Orders {
		return there, errors.New("the members share no key for orders: start all of them with the same --member-key-file or admin token file")
	}
	body, err := json.Marshal(asked)
	if err != nil {
		return there, err
	}
	ctx, cancel := context.WithTimeout(ctx, passTime)
	defer cancel()
	_, answer, err := a.o.Peer.Post(ctx, address, memberStopPath, body)
	if err != nil {
		return there, err
	}
	return there, json.Unmarshal(answer, &there)
}
