package app

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"weir/events"
	"weir/state"
)

// TestEmitAgain calls Emit with verdicts of which the log has taken some before it failed.
func TestEmitAgain(t *testing.T) {
	store := openState(t)
	log := store.Verdicts(0)
	l := &verdictLog{log: log, clock: newFakeClock()}
	verdicts := []Emitted{{Verdict: events.Verdict{ID: "1", Action: "deny"}, Offset: 5}, {Verdict: events.Verdict{ID: "2", Action: "deny"}, Offset: 5}, {Verdict: events.Verdict{ID: "3", Action: "deny"}, Offset: 6}}
	if end, err := l.Emit(t.Context(), verdicts[:1]); err != nil || end != 1 {
		t.Fatal(end, err)
	}
	l.again, l.from = true, 0 // as if all three had been tried, and the first alone was taken
	if end, err := l.Emit(t.Context(), verdicts); err != nil || end != 3 {
		t.Fatal(end, err)
	}
	var ids []string
	var last int64
	end, err := l.Since(t.Context(), 0, func(id string, trigger int64) { ids, last = append(ids, id), trigger })
	if err != nil || end != 3 || last != 6 || len(ids) != 3 || ids[0] != "1" || ids[2] != "3" {
		t.Errorf("ids %q up to %d, trigger %d, %v", ids, end, last, err)
	}
	if end, err := l.Emit(t.Context(), nil); err != nil || end != 3 {
		t.Error(end, err)
	}
}

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

// TestDiskLowSink lets the sink find the disk low again and again, with some verdicts taken.
func TestDiskLowSink(t *testing.T) {
	records := traffic(9, 500)
	want := undisturbed(t, records)
	clock, got := newFakeClock(), &lowLog{}
	p := newTestPump(t, PumpOptions{Store: openState(t), Sink: got, Clock: clock})
	done := make(chan error, 1)
	go func() {
		for from := 0; from < len(records); from += 50 {
			if err := p.Batch(t.Context(), records[from:from+50]); err != nil {
				done <- err
				return
			}
		}
		done <- p.Close(t.Context())
	}()
	for {
		select {
		case <-clock.asked:
			clock.advance(diskRetry)
			continue
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
		}
		break
	}
	sameLog(t, &got.memoryLog, want)
	if p.standing.DiskLow.Load() {
		t.Error("the disk is still said to be low")
	}
}

// lowLog fails at every other call, having taken half of what it was given.
type lowLog struct {
	memoryLog
	calls, taken int
}

func (l *lowLog) Emit(ctx context.Context, verdicts []Emitted) (int64, error) {
	verdicts = verdicts[l.taken:]
	if l.calls++; l.calls%2 == 1 {
		l.taken += len(verdicts) / 2
		if _, err := l.memoryLog.Emit(ctx, verdicts[:len(verdicts)/2]); err != nil {
			return 0, err
		}
		return 0, errors.Join(state.ErrDiskLow)
	}
	l.taken = 0
	return l.memoryLog.Emit(ctx, verdicts)
}
