package main

import (
	"cmp"
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

// switchFault is what goes wrong in a round. Each function may be nil.
type switchFault struct {
	what   string
	before func(ctx context.Context) error // the order is given
	given  func(ctx context.Context) error // it was given, and the receipt may not be complete yet
	during func(ctx context.Context) error // the receipt is complete, and the stop in force
}

// faults are those of the rounds, in turn.
func (w *switches) faults() []switchFault {
	return []switchFault{
		{what: "no fault"},
		{what: "kill -9", before: func(context.Context) error { return w.kill(0) }, during: func(context.Context) error { return w.kill(1) }},
		{what: "hand-over", before: func(context.Context) error { return w.handOver() }, during: func(context.Context) error { return w.handOver() }},
		{what: "partition between two members", before: w.divide, given: w.notComplete, during: func(ctx context.Context) error {
			err := errors.Join(w.divide(ctx), w.enough(ctx, w.tries/2, time.Now()))
			w.unite()
			return err
		}},
	}
}

// call runs a part of a fault, if it has it.
func call(ctx context.Context, fn func(context.Context) error) error {
	if fn == nil {
		return nil
	}
	return fn(ctx)
}

// round stops all calls while a fault begins, and again while the stop is in force, and releases them.
func (w *switches) round(ctx context.Context, f switchFault) error {
	if err := call(ctx, f.before); err != nil {
		return err
	}
	s := stopTime{what: f.what, given: time.Now()}
	if err := w.give(ctx, http.MethodPost, "/v1/orders", `{"scope":"all","reason":"a trial","by":"ann","for_s":3600}`); err != nil {
		return err
	}
	if err := call(ctx, f.given); err != nil {
		return err
	}
	r, err := w.complete(ctx)
	if err != nil {
		return err
	}
	s.since = time.UnixMilli(int64(r.Since))
	s.acknowledged = time.Now()
	if want := len(w.all) - len(gateways); r.Guards != want { // gateways send no heartbeats
		w.problem("%s: a receipt is complete with %d guards of %d", f.what, r.Guards, want)
	}
	if err := call(ctx, f.during); err != nil {
		return err
	}
	if err := w.enough(ctx, w.tries, s.acknowledged); err != nil {
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

// kill ends a member by SIGKILL and starts it again.
func (w *switches) kill(n int) error { return errors.Join(w.members[n].kill(), w.members[n].start()) }

// handOver ends a member in order and starts it again, so that partitions move twice.
func (w *switches) handOver() error {
	_, err := w.members[2].stop()
	return errors.Join(err, w.members[2].start())
}

// divide keeps the first two members from each other. The third does not reach them either.
func (w *switches) divide(context.Context) error {
	w.proxies[0].set(true)
	w.proxies[1].set(true)
	return nil
}

// unite lets all members meet again.
func (w *switches) unite() {
	for _, p := range w.proxies {
		p.set(false)
	}
}

// notComplete holds that a receipt names the member that cannot be reached, and lets them meet again.
func (w *switches) notComplete(ctx context.Context) error {
	defer w.unite()
	return eventually(ctx, 30*time.Second, "a receipt that names a member", func() (bool, error) {
		var r orders.Receipt
		if err := w.order(ctx, 0, http.MethodGet, allReceipt, "", &r); err != nil {
			return false, nil // the order has not come there yet
		}
		if r.Complete {
			return false, errors.New("a receipt is complete while two members do not reach each other")
		}
		return len(r.Unreached) > 0, nil
	})
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
	for _, p := range w.lost {
		p.set(true)
	}
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
	what := "4 clients of forward auth"
	if w.gateways != "" {
		what = "Envoy, Traefik, Caddy and nginx"
	}
	fmt.Fprintf(w.out, "%s, %d partitions, three members, %d guards, %s, %d flows of each\n", w.server.kind(), w.partitions, len(w.all)-len(gateways), what, w.flows)
	total := 0
	var all []latest
	for _, s := range w.spans {
		tries, admitted := w.made(s.since, s.ended)
		total += tries
		took := w.last(s)
		all = append(all, took...)
		row(admitted == 0, "%s: %d checks after the acknowledged time, %d admitted; the receipt was complete after %s, last admitted call %s", s.what, tries, admitted,
			s.acknowledged.Sub(s.given).Round(time.Millisecond), took[len(took)-1])
	}
	row(total >= w.tries*w.rounds, "%d checks after acknowledged times", total)
	slices.SortFunc(all, func(a, b latest) int { return cmp.Compare(a.after, b.after) })
	p99, most := all[len(all)*99/100], all[len(all)-1]
	row(p99.after < w.within, "from the order to the last admitted call of a dispatcher, %d in all: p99 %s, greatest %s", len(all), p99, most)
	row(named < 4*time.Second+w.within, "a guard that is cut off is named after %s", named.Round(time.Millisecond))
	for _, p := range w.problems {
		row(false, "%s", p)
	}
	return ok, nil
}

// latest is how long after an order a dispatcher began the last call that was admitted.
type latest struct {
	after time.Duration
	name  string
}

func (l latest) String() string {
	return fmt.Sprint(l.after.Round(time.Millisecond), " (", l.name, ")")
}

// last is the last admitted call of each dispatcher, in order of time.
func (w *switches) last(s stopTime) (took []latest) {
	for _, d := range w.all {
		one := latest{name: d.name}
		for _, t := range d.read() {
			if t.admitted && t.within(s.given, s.ended) {
				one.after = max(one.after, t.begun.Sub(s.given))
			}
		}
		took = append(took, one)
	}
	slices.SortFunc(took, func(a, b latest) int { return cmp.Compare(a.after, b.after) })
	return took
}
