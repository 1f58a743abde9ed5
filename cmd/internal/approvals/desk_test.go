package approvals

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/switchfile"
	"weir/events"
	"weir/state"
)

// world is what a desk needs of others.
type world struct{ decide func() error }

func (w world) Decide(context.Context, *Hold, bool, string, string, time.Duration) error {
	return w.decide()
}
func (world) Mine(string) bool                           { return true }
func (world) Need(*Hold) float64                         { return 0 }
func (world) Waits(string) bool                          { return true }
func (world) Publish(context.Context, Decision)          {}
func (world) Before(*Hold, string, string, string) error { return nil }
func (world) After(*Hold, string, string, string)        {}
func (world) Cursor(string) (v []byte, ok bool, e error) { return nil, false, nil }
func (world) SetCursor(name string, value []byte) error  { return nil }
func (world) secrets() (secrets [][]byte, err error) {
	return [][]byte{[]byte("one secret of sixteen bytes")}, nil
}

// deskOf returns a desk with one tier, at a webhook, and holds in the order in which they came.
func deskOf(w world, c clock.Clock, slack string, holds ...*Hold) *Desk {
	d := &Desk{Settings: &switchfile.Approvals{URL: "https://weir.example", Unanswered: switchfile.Hold, Tiers: []switchfile.Tier{{Name: "ops", Wait: time.Hour, Slack: slack}}},
		Actor: w, Audit: w, Secrets: w.secrets, Store: w, Now: func() events.Stamp { return 1 << 40 }, Clock: c, Logger: slog.New(slog.DiscardHandler),
		holds: make(map[string]*Hold), changed: make(chan struct{})}
	for i, h := range holds {
		h.Kind, h.Asked, h.Since, h.Until = OfFlow, 1, events.RFC3339(i+1), 1<<50
		d.holds[h.ID] = h
	}
	return d
}

// TestOneMessageHoldsUpNoOther has a webhook refuse the message about the oldest hold.
func TestOneMessageHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	tries := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "poison") {
			w.WriteHeader(http.StatusBadRequest)
			tries <- "poison"
			return
		}
		tries <- "good"
	}))
	t.Cleanup(server.Close)
	fake := clock.NewFake()
	d := deskOf(world{}, fake, server.URL, &Hold{ID: "a", Text: "poison"}, &Hold{ID: "b"}, &Hold{ID: "c"})
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() {
		d.serve(ctx, 0)
		close(served)
	}()
	var got []string
	late, tick := time.After(time.Minute), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for len(got) < 4 {
		select {
		case text := <-tries:
			got = append(got, text)
		case <-tick.C:
			fake.Advance(longestWait)
		case <-late:
			t.Fatalf("the webhook has got %v", got)
		}
	}
	cancel()
	<-served
	// The one that was refused is tried again, after the others.
	if text := strings.Join(got, " "); text != "poison good good poison" {
		t.Errorf("the webhook has got: %s", text)
	}
}

// writes counts what is stored.
type writes struct {
	world
	n int
}

func (w *writes) SetCursor(string, []byte) error {
	w.n++
	return nil
}

// TestRenewalsAreStoredSeldom renews a hold by each refused check, as callers do that try again at once: the
// store gets what an answer needs, and the page shows the newest figures.
func TestRenewalsAreStoredSeldom(t *testing.T) {
	store := &writes{}
	d := deskOf(world{}, clock.NewFake(), "")
	d.Store = store
	at, limit := events.Stamp(1<<40), 10.0
	refuse := func(after time.Duration, used float64) {
		t.Helper()
		at = at.Add(after)
		v := events.Verdict{ID: "00000000000000aa-1", Mode: events.ModeEnforce, Action: events.Hold, Effective: events.EffectiveNow, Reason: events.MaxTotalCalls, RuleID: "max_total_calls", Unit: events.UnitCalls,
			Limit: &limit, Observed: &used, Scope: events.Scope{Kind: events.ScopeFlow, ID: "f"}, CorrelationID: "f", Time: events.RFC3339(at), ExpiresAt: events.RFC3339(at.Add(time.Hour))}
		if _, err := d.Deliver(t.Context(), []state.Entry{{Value: v.AppendJSON(nil)}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 600 {
		refuse(100*time.Millisecond, float64(11+i))
	}
	if store.n != 1 {
		t.Errorf("within a minute the holds are stored %d times, want once", store.n)
	}
	refuse(100*time.Millisecond, 700)
	if store.n != 2 {
		t.Errorf("after a minute the holds are stored %d times, want twice", store.n)
	}
	limit = 20
	refuse(100*time.Millisecond, 701)
	if store.n != 3 {
		t.Errorf("after another limit the holds are stored %d times, want 3", store.n)
	}
	waiting, _ := d.Waiting()
	if len(waiting) != 1 || waiting[0].Used != 701 || waiting[0].Limit != 20 || events.Stamp(waiting[0].Until) != at.Add(time.Hour) {
		t.Errorf("what waits is %+v", waiting)
	}
}

// TestAnswerThatFails has a link be good again after an answer that was not carried out.
func TestAnswerThatFails(t *testing.T) {
	var does func() error
	d := deskOf(world{func() error { return does() }}, clock.NewFake(), "", &Hold{ID: "a", Subject: "f"})
	link := &Link{Hold: "a", Tier: "ops", Action: Deny, Until: 1 << 50}
	answer := func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = errors.New("a panic")
			}
		}()
		_, err = d.Answer(t.Context(), link, "")
		return err
	}
	for _, fails := range []func() error{func() error { return errors.New("the disk is gone") }, func() error { panic("a fault") }} {
		does = fails
		if err := answer(); err == nil || errors.Is(err, ErrBusy) {
			t.Errorf("a failure is answered by %v", err)
		}
	}
	does = func() error { return nil }
	if err := answer(); err != nil {
		t.Errorf("after failures: %v", err)
	}
	if _, used := errors.AsType[*UsedError](answer()); !used {
		t.Error("a link was used twice")
	}
}

// TestUnansweredHoldsDoNotWaitForEachOther has what ends one hold take long, as with a member that cannot be
// reached.
func TestUnansweredHoldsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	began, over := make(chan struct{}), make(chan struct{})
	d := deskOf(world{func() error {
		began <- struct{}{}
		<-over
		return nil
	}}, clock.NewFake(), "", &Hold{ID: "a", Delivered: true}, &Hold{ID: "b", Delivered: true})
	d.Settings.Unanswered = switchfile.Deny
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		_ = d.Run(ctx)
		close(ended)
	}()
	late := time.After(time.Minute)
	for n := range 2 {
		select {
		case <-began:
		case <-late:
			t.Errorf("%d of 2 holds are ended while the first one takes long", n)
			go func() { <-began }() // the second one, once the first has ended
		}
	}
	close(over)
	for left, _ := d.Waiting(); len(left) > 0 && !t.Failed(); left, _ = d.Waiting() {
		runtime.Gosched()
	}
	cancel()
	<-ended
}
