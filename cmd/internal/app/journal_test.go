package app

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"
)

// stalled is a viewer that takes nothing.
type stalled struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (s *stalled) SetWriteDeadline(at time.Time) error { s.deadline = at; return nil }
func (s *stalled) Write([]byte) (int, error)           { return 0, os.ErrDeadlineExceeded }

func TestSlowViewerIsDropped(t *testing.T) {
	r := begin(t, Options{})
	w := &stalled{ResponseRecorder: httptest.NewRecorder()}
	req := httptest.NewRequest(http.MethodGet, "/v1/verdicts", nil)
	req.Header.Set("Accept", "text/event-stream")
	if err := r.streams()(w, req); err != nil { // it returns: nobody waits
		t.Fatal(err)
	}
	if w.deadline.IsZero() {
		t.Error("the write had no deadline")
	}
}
