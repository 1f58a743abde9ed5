package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"weir/events"
)

// lineOfMany is an ask by an id.
func lineOfMany(id string) string {
	return fmt.Sprintf(`{"id":%q,"time":"2026-11-20T14:00:00Z","kind":"agent.call","correlation_id":"f","from":{"session":"a"},"to":{"session":"b"}}`, id)
}

func postMany(ask func(context.Context, *events.Event, []byte) (*events.Verdict, error), query, body string) *httptest.ResponseRecorder {
	return postTo(&Handler{Check: oneByOne(ask)}, query, body)
}

func postTo(h *Handler, query, body string) *httptest.ResponseRecorder {
	h.Fail = func(w http.ResponseWriter, _ *http.Request, err error) {
		status := http.StatusBadRequest
		if e, ok := errors.AsType[*Error](err); ok {
			status = e.Status
		}
		if _, ok := errors.AsType[*Panic](err); ok {
			status = http.StatusInternalServerError
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"detail":%q}`, err)
	}
	r := httptest.NewRequest(http.MethodPost, "/v1/check"+query, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-ndjson; charset=utf-8")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestSeveralAsksAreAskedTogether answers none before all are asked: one after the other
// they would wait for ever.
func TestSeveralAsksAreAskedTogether(t *testing.T) {
	asked, all := make(chan string, 3), make(chan struct{})
	go func() {
		for range 3 {
			<-asked
		}
		close(all)
	}()
	ask := func(ctx context.Context, ev *events.Event, raw []byte) (*events.Verdict, error) {
		var again events.Event
		if err := events.Decode(raw, &again); err != nil || !again.Ask || again.ID != ev.ID {
			t.Errorf("asked with %s (%v)", raw, err)
		}
		asked <- ev.ID
		<-all
		switch ev.ID {
		case "refused":
			return &events.Verdict{ID: "v1", Mode: "enforce", Action: "throttle", Reason: "call_rate_exceeded", RetryAfterS: 7}, nil
		case "late":
			return nil, ErrTimeout
		}
		return &events.Verdict{ID: "v2", Mode: "enforce", Action: "allow", Reason: "allowed"}, nil
	}
	w := postMany(ask, "", lineOfMany("allowed")+"\n\n{}\r\n"+lineOfMany("refused")+"\n"+lineOfMany("late"))
	if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || got != "application/x-ndjson" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("status %d, headers %v", w.Code, w.Header())
	}
	want := []struct {
		status int
		part   string
	}{{200, `{"verdict":{"id":"v2"`}, {400, "missing_field"}, {429, `"retry_after_s":7`}, {400, "takes too long"}}
	lines := strings.Split(strings.TrimSuffix(w.Body.String(), "\n"), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), w.Body)
	}
	for i, line := range lines {
		var got struct {
			Status int
			Body   json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil || got.Status != want[i].status || !strings.Contains(string(got.Body), want[i].part) {
			t.Errorf("line %d: %s (%v), want %d with %s", i, line, err, want[i].status, want[i].part)
		}
	}
}

func TestSeveralAsksAreRefusedAsAWhole(t *testing.T) {
	never := func(context.Context, *events.Event, []byte) (*events.Verdict, error) {
		t.Error("asked")
		return nil, ErrTimeout
	}
	f := func(query, body string, status int) {
		t.Helper()
		if w := postMany(never, query, body); w.Code != status {
			t.Errorf("%d %s, want %d", w.Code, w.Body, status)
		}
	}
	f("", " \n", http.StatusBadRequest)
	f("?deny=what", lineOfMany("1"), http.StatusBadRequest)
	f("", strings.Repeat(lineOfMany("1")+"\n", MostAsks+1), http.StatusRequestEntityTooLarge)
	f("", strings.Repeat(" ", events.MaxEventBytes+1), http.StatusRequestEntityTooLarge)
}

// TestMemoryOfAsksIsUsedByOneAtATime asks from many sides, also for what is refused, wrong or
// answered late: each answer is that to its own ask, whose event stays as it is until then.
func TestMemoryOfAsksIsUsedByOneAtATime(t *testing.T) {
	answer := func(q *Request) (*events.Verdict, error) {
		runtime.Gosched()
		if !strings.Contains(string(q.Raw), `"`+q.Event.ID+`"`) {
			t.Errorf("the event is %s, and its line %s", q.Event.ID, q.Raw)
		}
		v := &events.Verdict{ID: q.Event.ID, Action: events.Allow, CorrelationID: q.Event.CorrelationID}
		if strings.HasPrefix(q.Event.ID, "refused") {
			v.Action, v.Reason = events.Halt, "max_total_calls"
		}
		return v, nil
	}
	h := &Handler{
		Check: func(asks []*Request) {
			for _, q := range asks {
				if strings.HasPrefix(q.Event.ID, "late") {
					q.Wait = func() (*events.Verdict, error) { return answer(q) }
				} else {
					q.Verdict, q.Err = answer(q)
				}
			}
		},
		Fail: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadRequest)
		},
	}
	var all sync.WaitGroup
	for side := range 8 {
		all.Go(func() {
			for n := range 200 {
				kind := []string{"soon", "late", "refused", "wrong"}[n%4]
				id := fmt.Sprintf("%s-%d-%d", kind, side, n)
				line := lineOfMany(id)
				if kind == "wrong" {
					line = line[:len(line)-1] + `,"kind":"` + id + `"}`
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/check", strings.NewReader(line)))
				want := map[string]int{"soon": 200, "late": 200, "refused": 403, "wrong": 400}[kind]
				if w.Code != want || kind != "wrong" && !strings.Contains(w.Body.String(), id) {
					t.Errorf("%s is answered with %d: %s", id, w.Code, w.Body)
				}
			}
		})
	}
	all.Wait()
}
