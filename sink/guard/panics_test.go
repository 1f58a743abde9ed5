package guard

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/events"
	"weir/sink/guard/guardtest"
)

// panickingClient panics in each request to a path while that is set.
type panickingClient struct {
	http.RoundTripper
	path atomic.Pointer[string]
}

func (c *panickingClient) RoundTrip(r *http.Request) (*http.Response, error) {
	if at := c.path.Load(); at != nil && r.URL.Path == *at {
		panic("planted at " + *at)
	}
	return c.RoundTripper.RoundTrip(r)
}

// panickingLog keeps what is logged, and panics at lines with a text.
type panickingLog struct {
	slog.Handler
	mu   sync.Mutex
	text strings.Builder
	at   string
}

func newPanickingLog(at string) *panickingLog {
	l := &panickingLog{at: at}
	l.Handler = slog.NewTextHandler(&l.text, nil)
	return l
}

func (l *panickingLog) Handle(ctx context.Context, r slog.Record) error {
	if l.at != "" && strings.Contains(r.Message, l.at) {
		panic("planted at " + l.at)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Handler.Handle(ctx, r)
}

func (l *panickingLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

var plantedCall = Call{Flow: "f", From: "a", To: "b"}

// TestPanicsOfRequestsAreAsAWeirThatIsUnreachable plants a panic in each request that a guard sends:
// the program lives, calls are decided as while weir is unreachable, and the guard recovers.
func TestPanicsOfRequestsAreAsAWeirThatIsUnreachable(t *testing.T) {
	for path, wantStale := range map[string]bool{"/v1/verdicts": true, "/v1/limits": false, "/v1/check": false, "/v1/check/stream": false, "/v1/events": false} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				weir, log := guardtest.New(), newPanickingLog("")
				client := &panickingClient{RoundTripper: weir.Client().Transport}
				client.path.Store(&path)
				g, err := New(Options{URL: guardtest.URL, Client: &http.Client{Transport: client}, Logger: slog.New(log)})
				if err != nil {
					t.Fatal(err)
				}
				defer weir.Set(guardtest.Away)
				defer g.Close()
				time.Sleep(10 * time.Second)
				if g.Stale() != wantStale {
					t.Errorf("stale is %t", g.Stale())
				}
				want := FromWeir
				if path == "/v1/check" {
					want = StaleOpen // the stream is not open at the first check, and nothing counts the call
				}
				if b := g.Begin(t.Context(), plantedCall); b.Decision.Source != want || b.Decision.Stopped() {
					t.Errorf("decided %s by %s, want %s", b.Decision.Action, b.Decision.Source, want)
				} else {
					b.Finish(Outcome{})
				}
				g.Ask(t.Context(), plantedCall) // opens a stream
				time.Sleep(10 * time.Second)
				if n := g.Counts(); n.Panics.Load() == 0 || n.Faults.Load() != 0 {
					t.Errorf("%d panics, %d faults", n.Panics.Load(), n.Faults.Load())
				}
				if text := log.String(); strings.Count(text, "please report this") != 1 || !strings.Contains(text, "panickingClient).RoundTrip") {
					t.Errorf("the log has not one panic with its stack:\n%s", text)
				}
				client.path.Store(nil)
				time.Sleep(time.Minute)
				if d := g.Ask(t.Context(), plantedCall); d.Source != FromWeir || g.Stale() {
					t.Errorf("later decided by %s, stale is %t", d.Source, g.Stale())
				}
			})
		})
	}
}

// TestAPanicWhileReportingCostsOneReport has a log handler panic at each refusal that is reported.
func TestAPanicWhileReportingCostsOneReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		weir := guardtest.New()
		weir.Give(events.Verdict{Action: "deny", CorrelationID: "stopped"})
		g, err := New(Options{URL: guardtest.URL, Client: weir.Client(), Logger: slog.New(newPanickingLog("a call was refused"))})
		if err != nil {
			t.Fatal(err)
		}
		defer weir.Set(guardtest.Away)
		defer g.Close()
		if err := g.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			g.Check(t.Context(), Call{Flow: "stopped", From: "a", To: "b"})
			g.Begin(t.Context(), plantedCall).Finish(Outcome{})
		}
		time.Sleep(time.Minute)
		if n := g.Counts(); n.Panics.Load() != 3 || n.AcksDropped.Load() != 3 || n.Reported.Load() != 3 || n.ReportsDropped.Load() != 0 {
			t.Errorf("%d panics, %d acknowledgements dropped, %d reports sent, %d dropped", n.Panics.Load(), n.AcksDropped.Load(), n.Reported.Load(), n.ReportsDropped.Load())
		}
	})
}

// TestAnOrderThatAPanicKeptOutIsReadAgain has a guard panic while it takes orders: it is stale until
// it has them all.
func TestAnOrderThatAPanicKeptOutIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		weir, log := guardtest.New(), newPanickingLog("more orders are active")
		g, err := New(Options{URL: guardtest.URL, Client: weir.Client(), Logger: slog.New(log), MostOrders: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer weir.Set(guardtest.Away)
		defer g.Close()
		if err := g.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		weir.Give(events.Verdict{Action: "deny", CorrelationID: "first"})
		weir.Give(events.Verdict{Action: "deny", CorrelationID: "second"}) // there is no room for it, which panics
		time.Sleep(time.Minute)
		if g.Counts().Panics.Load() == 0 || !g.Stale() {
			t.Errorf("%d panics, stale is %t", g.Counts().Panics.Load(), g.Stale())
		}
	})
}

// TestPanicsOfAFollower plants panics in a follower, in its goroutines, and in what they give.
func TestPanicsOfAFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		weir, log := guardtest.New(), newPanickingLog("what is no verdict came")
		begun := 0
		g, err := New(Options{URL: guardtest.URL, Client: weir.Client(), Logger: slog.New(log), Follow: func(ctx context.Context, feed Feed) {
			if begun++; begun == 1 {
				panic("planted")
			}
			feed.Fresh()
			if err := feed.Try(func() error { panic("planted") }); err == nil {
				t.Error("a panic is no error")
			}
			if own := errors.New("own"); feed.Try(func() error { return own }) != own {
				t.Error("an error is another one")
			}
			time.Sleep(time.Minute)
			feed.Take([]byte("no verdict"), "")
			feed.Fresh()
			<-ctx.Done()
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer weir.Set(guardtest.Away)
		defer g.Close()
		if err := g.Wait(t.Context()); err != nil || g.Stale() {
			t.Errorf("stale is %t: %v", g.Stale(), err)
		}
		time.Sleep(2 * time.Minute)
		if n := g.Counts().Panics.Load(); n != 3 || begun != 2 || !g.Stale() {
			t.Errorf("%d panics, begun %d times, stale is %t", n, begun, g.Stale())
		}
	})
}

// panickingError panics when it is asked what it says, as a nil pointer may.
type panickingError struct{}

func (panickingError) Error() string { panic("planted") }

// TestPanicsOfOutcomesAndClocks plants panics in what a caller gives, and in a turn of housekeep.
func TestPanicsOfOutcomesAndClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		weir := guardtest.New()
		g, err := newGuard(Options{URL: guardtest.URL, Client: weir.Client()})
		if err != nil {
			t.Fatal(err)
		}
		defer weir.Set(guardtest.Away)
		b := g.Begin(t.Context(), plantedCall)
		b.Finish(Outcome{Err: panickingError{}})
		if n := g.Counts().Panics.Load(); b.Decision.Source != FromWeir || n != 1 {
			t.Errorf("decided by %s, %d panics", b.Decision.Source, n)
		}
		turns := 0
		g.now = func() time.Time {
			if turns++; turns == 2 {
				panic("planted")
			}
			return time.Now()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g.housekeep(ctx)
		if n := g.Counts().Panics.Load(); n != 2 || turns < 9 {
			t.Errorf("%d panics, %d turns", n, turns)
		}
		g.now = func() time.Time { panic("planted") }
		if d := g.Ask(t.Context(), plantedCall); d.Source != ErrorOpen || g.Counts().Faults.Load() != 1 {
			t.Errorf("decided by %s, %d faults", d.Source, g.Counts().Faults.Load())
		}
		if b := g.Begin(t.Context(), plantedCall); b.Decision.Source != ErrorOpen {
			t.Errorf("decided by %s", b.Decision.Source)
		}
	})
}
