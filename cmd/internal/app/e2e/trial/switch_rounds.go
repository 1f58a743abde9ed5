package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"weir/cmd/internal/orders"
)

// order sends a request of an operator to a member and decodes the answer.
func (w *switches) order(ctx context.Context, member int, method, path, body string, v any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+w.members[member%3].listen+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	if v == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(v)
}

// give gives or releases the order, at a member that answers.
func (w *switches) give(ctx context.Context, method, path, body string) error {
	n := len(w.spans)
	return eventually(ctx, time.Minute, "a member to take the order", func() (bool, error) {
		n++
		return w.order(ctx, n, method, path, body, nil) == nil, nil
	})
}

const allReceipt = "/v1/orders/all/receipt"

// complete waits until a receipt is complete, asked of one member after the other.
func (w *switches) complete(ctx context.Context) (r orders.Receipt, err error) {
	n := 0
	err = eventually(ctx, 2*time.Minute, "a complete receipt", func() (bool, error) {
		n++
		r = orders.Receipt{}
		return w.order(ctx, n, http.MethodGet, allReceipt, "", &r) == nil && r.Complete, nil
	})
	if err != nil {
		err = fmt.Errorf("%w: missing %v, unreached %v", err, r.Missing, r.Unreached)
	}
	return r, err
}

// round stops all calls while a fault begins, and again while the stop is in force, and releases them.
func (w *switches) round(ctx context.Context, what string, strike func(context.Context, bool) error) error {
	if err := strike(ctx, false); err != nil {
		return err
	}
	s := stopTime{what: what, given: time.Now()}
	if err := w.give(ctx, http.MethodPost, "/v1/orders", `{"scope":"all","reason":"a trial","by":"ann","for_s":3600}`); err != nil {
		return err
	}
	r, err := w.complete(ctx)
	if err != nil {
		return err
	}
	s.since = time.UnixMilli(int64(r.Since))
	acknowledged := time.Now()
	if want := len(w.all) - 4; r.Guards < want { // gateways send no heartbeats
		w.problem("%s: a receipt is complete with %d of %d guards", what, r.Guards, want)
	}
	if err := strike(ctx, true); err != nil {
		return err
	}
	if err := w.enough(ctx, w.tries, acknowledged); err != nil {
		return err
	}
	if err := w.ready(ctx); err != nil {
		return err
	}
	s.ended = time.Now()
	w.spans = append(w.spans, s)
	if err := w.give(ctx, http.MethodDelete, "/v1/orders/all", `{"reason":"over","by":"ann"}`); err != nil {
		return err
	}
	return eventually(ctx, 2*time.Minute, "all dispatchers to go on", func() (bool, error) {
		for _, d := range w.all {
			if !slices.ContainsFunc(d.read(), func(t try) bool { return t.admitted && t.begun.After(s.ended) }) {
				return false, nil
			}
		}
		return true, nil
	})
}

// kills ends a member before the order is given, and another one while it is in force.
func (w *switches) kills(_ context.Context, during bool) error {
	m := w.members[0]
	if during {
		m = w.members[1]
	}
	return errors.Join(m.kill(), m.start())
}

// handOver ends a member in order and starts it again, so that partitions move twice.
func (w *switches) handOver(_ context.Context, during bool) error {
	if !during {
		return nil
	}
	_, err := w.members[2].stop()
	return errors.Join(err, w.members[2].start())
}

// divide keeps two members from each other while the order is in force, and lets them meet again.
func (w *switches) divide(ctx context.Context, during bool) error {
	if !during {
		return nil
	}
	for _, p := range w.proxies {
		p.set(true)
	}
	err := w.enough(ctx, w.tries/2, time.Now())
	for _, p := range w.proxies {
		p.set(false)
	}
	return err
}

// cutOff cuts the way of one guard, and returns after what time the receipt of another member names it.
func (w *switches) cutOff(ctx context.Context) (after time.Duration, err error) {
	if err := w.give(ctx, http.MethodPost, "/v1/orders", `{"scope":"all","reason":"a trial","by":"ann","for_s":3600}`); err != nil {
		return 0, err
	}
	if _, err := w.complete(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	w.lost.set(true)
	err = eventually(ctx, time.Minute, "a receipt to name the guard that is cut off", func() (bool, error) {
		var r orders.Receipt
		err := w.order(ctx, 1, http.MethodGet, allReceipt, "", &r)
		return err == nil && slices.ContainsFunc(r.Missing, func(g orders.GuardSeen) bool { return g.Guard == "go-0" }), nil
	})
	return time.Since(began), err
}

// judge reports what was admitted, and whether that is right.
func (w *switches) judge(named time.Duration) (ok bool, err error) {
	ok = true
	row := func(right bool, format string, args ...any) {
		word := "ok    "
		if !right {
			word, ok = "FAULT ", false
		}
		fmt.Fprintln(w.out, word+fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(w.out, "%s, %d partitions, three members, %d guards, 4 clients of forward auth, %d flows of each\n", w.server.kind(), w.partitions, len(w.all)-4, w.flows)
	total := 0
	var last []time.Duration
	for _, s := range w.spans {
		tries, admitted := w.made(s.since, s.ended)
		total += tries
		row(admitted == 0, "%s: %d checks after the acknowledged time, %d admitted", s.what, tries, admitted)
		took := w.last(s)
		if s.what == killed { // guards of a member that is away are missing in the receipt, until they are back
			row(true, "%s: from the order to the last admitted call of a guard whose member was killed: %s", s.what, took[len(took)-1].Round(time.Millisecond))
			continue
		}
		last = append(last, took...)
	}
	slices.Sort(last)
	row(total >= w.tries*w.rounds, "%d checks after acknowledged times", total)
	p99, most := last[len(last)*99/100], last[len(last)-1]
	row(p99 < w.within, "from the order to the last admitted call of a dispatcher: p99 %s, greatest %s", p99.Round(time.Millisecond), most.Round(time.Millisecond))
	row(named < 4*time.Second+w.within, "a guard that is cut off is named after %s", named.Round(time.Millisecond))
	for _, p := range w.problems {
		row(false, "%s", p)
	}
	return ok, nil
}

// last is how long after an order each dispatcher began the last call that was admitted, in order.
func (w *switches) last(s stopTime) (took []time.Duration) {
	for _, d := range w.all {
		var one time.Duration
		for _, t := range d.read() {
			if t.admitted && t.begun.After(s.given) && t.begun.Before(s.ended) {
				one = max(one, t.begun.Sub(s.given))
			}
		}
		took = append(took, one)
	}
	slices.Sort(took)
	return took
}
