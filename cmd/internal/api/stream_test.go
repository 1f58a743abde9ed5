package api

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"weir/cmd/internal/clock"
	"weir/state"
)

// lagging is a log that is behind its log.
type lagging struct {
	Log
	why []string
}

func (l *lagging) Ready() (why []string, lag int64) { return l.why, 0 }

// TestBeats sees that a dispatcher is not told that it knows every order while the fold
// is behind.
func TestBeats(t *testing.T) {
	f := func(sse bool, want string, why ...string) {
		t.Helper()
		v := viewer{server: &Server{log: &lagging{why: why}}, sse: sse}
		if v.beat(); v.buf.String() != want {
			t.Errorf("%q, want %q", v.buf.String(), want)
		}
	}
	f(true, ": heartbeat\n\n")
	f(true, ": behind\n\n", "the pump is behind the journal")
	f(false, "\n")
	f(false, "\n", "the pump is behind the journal")
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
	a := &Server{o: Options{Streams: 1}, clock: clock.NewFake(), log: &lagging{}, verdicts: store.Verdicts(0)}
	w := &stalled{ResponseRecorder: httptest.NewRecorder()}
	req := httptest.NewRequest(http.MethodGet, "/v1/verdicts", nil)
	req.Header.Set("Accept", "text/event-stream")
	if err := a.streams()(w, req); err != nil { // it returns: nobody waits
		t.Fatal(err)
	}
	if w.deadline.IsZero() {
		t.Error("the write had no deadline")
	}
}
