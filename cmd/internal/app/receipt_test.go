package app

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/orders"
	"weir/events"
	"weir/sink/guard"
)

func (h hand) beat(name string, held ...string) {
	h.t.Helper()
	list, err := json.Marshal(append([]string{}, held...))
	if err != nil {
		h.t.Fatal(err)
	}
	h.want(h.do("POST", "/v1/guards", fmt.Sprintf(`{"guard":%q,"instance":"1","language":"go","held":%s,"in_flight":0}`, name, list)), 200)
}

func (h hand) receipt(scope string) (r orders.Receipt) {
	h.t.Helper()
	got := h.do("GET", "/v1/orders/"+scope+"/receipt", "")
	h.want(got, 200)
	if err := json.Unmarshal([]byte(got.body), &r); err != nil {
		h.t.Fatal(err)
	}
	return r
}

// TestReceipts says of each guard whether it has confirmed, by its own word alone.
func TestReceipts(t *testing.T) {
	fake := clock.NewFake()
	h := beginHand(t, Options{Clock: fake})
	h.beat("shop")
	h.beat("pay")
	v := h.stopped(`{"scope":"agent:b","reason":"a test","by":"ann"}`)
	want := func(complete bool, confirmed int, missing ...string) orders.Receipt {
		t.Helper()
		r := h.receipt("agent:b")
		var named []string
		for _, g := range r.Missing {
			named = append(named, g.Guard+": "+g.Why)
		}
		if r.Complete != complete || r.Guards != confirmed || r.Complete != (r.Since != 0) || fmt.Sprint(named) != fmt.Sprint(missing) {
			t.Errorf("the receipt is %+v, missing %q", r, named)
		}
		return r
	}
	const not = "it does not enforce the order yet"
	want(false, 0, "pay: "+not, "shop: "+not)
	h.beat("shop", "00000000000000aa-1") // of another order
	want(false, 0, "pay: "+not, "shop: "+not)
	fake.Advance(time.Second)
	h.beat("shop", v.VerdictID)
	want(false, 1, "pay: "+not)
	fake.Advance(time.Second)
	h.beat("pay", v.VerdictID)
	if r := want(true, 2); r.Since != events.RFC3339(events.StampOf(fake.Now())) || r.Members != 1 || r.Observed != 0 {
		t.Errorf("the receipt is %+v", r)
	}

	// A guard that is cut off appears by its name within five seconds.
	seen := events.RFC3339(events.StampOf(fake.Now()))
	fake.Advance(2500 * time.Millisecond)
	h.beat("shop", v.VerdictID)
	fake.Advance(2400 * time.Millisecond)
	h.beat("shop", v.VerdictID)
	want(false, 1, "pay: not heard of since "+seen.String())

	// A call that is reported all the same is counted; one that began before is not.
	late := call("f", 1, "a", "b")
	late.Time, late.From, late.To = events.StampOf(fake.Now()), events.Party{Agent: "a"}, events.Party{Agent: "b"}
	early := *late
	early.ID, early.Time = "early", late.Time.Add(-time.Minute)
	other := *late
	other.ID, other.To.Agent = "other", "c"
	h.want(h.do("POST", "/v1/events", lines(late, &early, &other), "Content-Type", "application/x-ndjson"), 202)
	if r := h.receipt("agent:b"); r.Observed != 1 {
		t.Errorf("observed %d calls", r.Observed)
	}

	// A new record of the order has to be confirmed anew, and so has a release.
	again := h.stopped(`{"scope":"agent:b","reason":"a test","by":"ann","except":["tool:ls"]}`)
	h.beat("pay", v.VerdictID)
	h.beat("shop", again.VerdictID)
	want(false, 1, "pay: "+not)
	h.released("agent:b")
	want(false, 0, "pay: it still enforces the order", "shop: it still enforces the order")
	h.beat("pay")
	h.beat("shop")
	want(true, 2)
	for _, body := range []string{`{`, `{"guard":"x"}`, `{"guard":"x","instance":"1","flights":[{"verdict":"v","calls":1,"ended":2}]}`} {
		h.want(h.do("POST", "/v1/guards", body), 400)
	}
}

// TestReceiptOfARealGuard has a guard confirm a stop, and cancel the call that it had in flight.
func TestReceiptOfARealGuard(t *testing.T) {
	h := beginHand(t, Options{Clock: clock.System{}})
	g, err := guard.New(guard.Options{URL: "http://" + h.Addr(), Source: "a shop"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	if err := g.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	running := g.Begin(t.Context(), guard.Call{Flow: "f", From: "a", To: "b"})
	other := g.Begin(t.Context(), guard.Call{Flow: "f", From: "a", Tool: "ls"})
	if running.Decision.Stopped() || other.Decision.Stopped() {
		t.Fatal("a call is refused")
	}
	inFlight := running.Context()
	h.stopped(`{"scope":"agent:b","reason":"a test","by":"ann"}`)
	<-inFlight.Done()
	if err := context.Cause(inFlight); !strings.Contains(err.Error(), "Stopped by ann (agent:b): a test") {
		t.Errorf("the call ends by %v", err)
	}
	if err := other.Context().Err(); err != nil {
		t.Errorf("another call ends by %v", err)
	}
	if d := g.Check(t.Context(), guard.Call{Flow: "g", From: "a", To: "b"}); !d.Stopped() {
		t.Error("the guard lets a call through")
	}
	running.Finish(guard.Outcome{Err: context.Cause(inFlight)})
	var r orders.Receipt
	for r = h.receipt("agent:b"); !r.Complete || r.Flights.Ended == 0; r = h.receipt("agent:b") {
		runtime.Gosched()
	}
	if f := r.Flights; r.Guards != 1 || f.Calls != 1 || f.Ended != 1 || f.Cancelled != 1 || len(f.Open) != 0 {
		t.Errorf("the receipt is %+v", r)
	}
	other.Finish(guard.Outcome{})
	// One that closes in order is no guard any more.
	g.Close()
	for r = h.receipt("agent:b"); r.Guards+len(r.Missing) > 0; r = h.receipt("agent:b") {
		runtime.Gosched()
	}
}

// TestNoCallAfterTheReceipt has guards check without a pause, stops in the middle, and holds that no call
// of the scope is admitted from when the receipt is complete.
func TestNoCallAfterTheReceipt(t *testing.T) {
	h := beginHand(t, Options{Clock: clock.System{}})
	const guards, tries = 4, 30_000
	var acknowledged atomic.Bool
	var admitted, tried, before atomic.Int64
	var group sync.WaitGroup
	for n := range guards {
		g, err := guard.New(guard.Options{URL: "http://" + h.Addr(), Source: fmt.Sprint("guard-", n), Quiet: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.Close)
		if err := g.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			for after := 0; after < tries; {
				late := acknowledged.Load()
				d := g.Check(context.Background(), guard.Call{Flow: fmt.Sprint("flow-", n, "-", after), From: "a", To: "b"})
				if !late {
					before.Add(1)
					runtime.Gosched()
					continue
				}
				after++
				tried.Add(1)
				if !d.Stopped() {
					admitted.Add(1)
				}
			}
		})
	}
	h.stopped(`{"scope":"all","reason":"a test","by":"ann"}`)
	for !h.receipt("all").Complete {
		runtime.Gosched()
	}
	r := h.receipt("all")
	acknowledged.Store(true)
	group.Wait()
	if admitted.Load() != 0 || tried.Load() < 100_000 || r.Guards != guards || before.Load() == 0 {
		t.Errorf("%d of %d calls were admitted after the receipt of %d guards, %d before", admitted.Load(), tried.Load(), r.Guards, before.Load())
	}
}
