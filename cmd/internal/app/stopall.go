package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/cmd/internal/pump"
	"weir/events"
	"weir/state"
)

// MaxStopAll is how many flows one order stops at most.
const MaxStopAll = 10_000

// passedOn marks a stop of all flows that another member has passed on.
const passedOn = "X-Weir-Passed-On"

// StopAll is what is asked of the route that stops all flows.
type StopAll struct {
	All bool `json:"all"` // has to be said, so that nothing that was left out stops everything
	OperatorOrder
}

// StopAllAnswer is what is said of an order to stop all flows.
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
func (a *App) serveStopAll(w http.ResponseWriter, r *http.Request) error {
	var asked StopAll
	if err := readOrder(w, r, &asked); err != nil {
		return err
	}
	if !asked.All {
		return &httpError{status: http.StatusBadRequest, field: "all", detail: `this stops every flow: say "all": true; one flow is stopped by POST /v1/flows/{id}/stop`}
	}
	o, err := asked.operator(r)
	if err != nil {
		return err
	}
	out := StopAllAnswer{ID: orderID(), By: o.By}
	err = a.stopAll(r.Context(), &o, &out)
	if s, ok := a.form.(shared); ok && r.Header.Get(passedOn) == "" {
		if err != nil { // the others may be able to, all the same
			out.Missed, err = append(out.Missed, "here: "+err.Error()), nil
		}
		a.passOn(r, s, &asked, &out)
	}
	if err != nil {
		return err
	}
	a.logger.Warn("a person has stopped all flows", "flows", out.Stopped, "more", out.More, "missed", len(out.Missed), "by", o.By, "reason", o.Reason, "for", o.For, "event", out.ID)
	writeJSON(w, "application/json", http.StatusAccepted, out)
	return nil
}

// stopBatch is how many orders are put into the log at once.
const stopBatch = 500

// stopAll stops the live flows that this process folds. When the log fails on the way,
// the error says how many orders it has.
func (a *App) stopAll(ctx context.Context, o *events.Operator, out *StopAllAnswer) error {
	var flows []pump.LiveFlow
	for _, p := range a.form.pumps() {
		some, more, err := p.Live(MaxStopAll - len(flows))
		if err != nil {
			return err
		}
		flows = append(flows, some...)
		out.More = out.More || more
	}
	for batch := range slices.Chunk(flows, stopBatch) {
		entries := make([]state.Entry, 0, len(batch))
		for _, f := range batch {
			ev := events.Event{Kind: events.OperatorStop, CorrelationID: f.Key, Operator: o}
			a.sign(&ev, fmt.Sprintf("%s-%d", out.ID, out.Stopped+len(entries)))
			ev.Time = max(ev.Time, f.Last)
			raw, err := lineOf(&ev)
			if err != nil { // a name that is too long for an order must not save the others
				out.Missed = append(out.Missed, fmt.Sprintf("flow %q: %v", f.Key, err))
				continue
			}
			entries = append(entries, state.Entry{Value: raw})
		}
		if err := a.form.append(ctx, entries); err != nil {
			return fmt.Errorf("%d of %d flows were stopped, give the order again: %w", out.Stopped, len(flows), err)
		}
		out.Stopped += len(entries)
	}
	return nil
}

// shared is a form of which other processes fold flows, too.
type shared interface {
	// others returns the addresses of those processes, and says which partitions nobody
	// folds who could be asked.
	others(ctx context.Context) (addresses, missed []string)
}

func (m *member) others(ctx context.Context) (addresses, missed []string) {
	l := m.flowLanes
	known, err := l.group.Owners(ctx)
	if err != nil {
		return nil, []string{fmt.Sprintf("the group does not say who folds the other partitions: %v", err)}
	}
	for _, n := range l.partitions {
		if m.ownerHere(l, n) != nil {
			continue
		}
		switch address := known[n]; {
		case address == "" || address == m.o.Advertise:
			missed = append(missed, l.describe(n)+": nobody who can be reached folds it at this moment")
		case !slices.Contains(addresses, address):
			addresses = append(addresses, address)
		}
	}
	return addresses, missed
}

// passOn lets the other members stop their flows, with the token of whoever asked.
func (a *App) passOn(r *http.Request, s shared, asked *StopAll, out *StopAllAnswer) {
	addresses, missed := s.others(r.Context())
	out.Missed = append(out.Missed, missed...)
	answers, failed := make([]StopAllAnswer, len(addresses)), make([]error, len(addresses))
	var group sync.WaitGroup
	for i, address := range addresses {
		group.Go(func() {
			answers[i], failed[i] = a.passTo(r, address, &StopAll{true, OperatorOrder{asked.Reason, out.By, asked.ForS}})
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
}

// passTime is how long another member may take to stop its flows.
const passTime = 20 * time.Second

func (a *App) passTo(r *http.Request, address string, asked *StopAll) (there StopAllAnswer, err error) {
	body, err := json.Marshal(asked)
	if err != nil {
		return there, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), passTime)
	defer cancel()
	next, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(address, "/")+stopAllPath, bytes.NewReader(body))
	if err != nil {
		return there, err
	}
	next.Header.Set("Content-Type", "application/json")
	next.Header.Set(passedOn, "1")
	for _, name := range []string{"Authorization", "X-Api-Key"} {
		if v := r.Header.Get(name); v != "" {
			next.Header.Set(name, v)
		}
	}
	resp, err := http.DefaultClient.Do(next)
	if err != nil {
		return there, err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(io.LimitReader(resp.Body, maxForwarded))
	if err != nil {
		return there, err
	}
	if resp.StatusCode != http.StatusAccepted {
		return there, fmt.Errorf("it answers %s: %s", resp.Status, bytes.TrimSpace(said))
	}
	return there, json.Unmarshal(said, &there)
}
