package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/cmd/internal/clock"
	"weir/state"
)

// lagging is a log that is behind its log.
type lagging struct {
	Log
	why  []string
	away bool // what others fold is not there yet
}

func (l *lagging) Ready() (why []string, lag int64, clock string) { return l.why, 0, "" }

func (l *lagging) Follow(string, bool) (reached func(context.Context) bool, leave func()) {
	return func(context.Context) bool { return !l.away }, func() {}
}

// TestBeats checks that a dispatcher gets no report that it knows every order while the fold
// is behind.
func TestBeats(t *testing.T) {
	f := func(sse, away bool, want string, why ...string) {
		t.Helper()
		log := &lagging{why: why, away: away}
		v := viewer{streams: &streams{log: log}, sse: sse, ended: t.Context()}
		v.reached, _ = log.Follow("", false)
		if v.beat(v.current()); v.buf.String() != want {
			t.Errorf("%q, want %q", v.buf.String(), want)
		}
	}
	f(true, false, ": heartbeat\n\n")
	f(true, false, ": behind\n\n", "the pump is behind the journal")
	f(true, true, ": behind\n\n")
	f(false, false, "\n")
	f(false, true, "\n", "the pump is behind the journal")
}

// stalled is a viewer that takes nothing.
type stalled struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (s *stalled) SetWriteDeadline(at time.Time) error { s.deadline = at; return nil }
func (s *stalled) Write([]byte) (int, error)           { return 0, os.ErrDeadlineExceeded }

func TestSlowViewerIsDropped(t *testing.T) {
	store, err := state.Open("", state.Options{MemTableSize: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	a := &streams{most: 1, clock: clock.NewFake(), log: &lagging{}, verdicts: store.Verdicts(0), orders: new(orderLog), connected: func(*http.Request) {}}
	w := &stalled{ResponseRecorder: httptest.NewRecorder()}
	req := httptest.NewRequest(http.MethodGet, "/v1/verdicts", nil)
	req.Header.Set("Accept", "text/event-stream")
	if err := a.serve()(w, req); err != nil { // it returns without waiting
		t.Fatal(err)
	}
	if w.deadline.IsZero() {
		t.Error("the write had no deadline")
	}
}

// busy is a log of many verdicts that notes how many read it at one time.
type busy struct{ now, most atomic.Int64 }

func (b *busy) End() int64                  { return 10 * streamBatch }
func (b *busy) Ready(int64) <-chan struct{} { return nil }
func (b *busy) Read(from int64, most int, dst []state.Entry) ([]state.Entry, error) {
	for n, seen := b.now.Add(1), b.most.Load(); n > seen && !b.most.CompareAndSwap(seen, n); seen = b.most.Load() {
	}
	runtime.Gosched() // and others would read, too
	b.now.Add(-1)
	for ; most > 0 && from < b.End(); most, from = most-1, from+1 {
		dst = append(dst, state.Entry{Offset: from, Value: []byte("{}")})
	}
	return dst, nil
}

// TestViewersCatchUpInTurn has many viewers read all verdicts: few of them read at one time, and
// each gets all.
func TestViewersCatchUpInTurn(t *testing.T) {
	verdicts := new(busy)
	a := &streams{most: 1, clock: clock.NewFake(), log: &lagging{}, verdicts: verdicts, orders: &orderLog{clock: clock.NewFake()}, catchUp: make(chan struct{}, 2)}
	serve := a.serve()
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() {
			w := httptest.NewRecorder()
			if err := serve(w, httptest.NewRequest(http.MethodGet, "/v1/verdicts", nil)); err != nil || strings.Count(w.Body.String(), "{}") != 10*streamBatch {
				t.Errorf("%v, %d verdicts", err, strings.Count(w.Body.String(), "{}"))
			}
		})
	}
	group.Wait()
	if n := verdicts.most.Load(); n > 2 {
		t.Errorf("%d viewers read at one time, want at most 2", n)
	}
	if len(a.catchUp) != 0 {
		t.Error("a turn was not given back")
	}
}
