package webhook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/sink/sign"
)

var now = time.Unix(1_795_000_000, 0)

// endpoint answers each request with the next of its statuses, the last one for ever.
type endpoint struct {
	mu       sync.Mutex
	statuses []int
	after    string
	bodies   []string
	bad      []string
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = Verify([]byte("secret"), r.Header.Get(SignatureHeader), body, now, time.Minute)
	}
	if err != nil {
		e.bad = append(e.bad, err.Error())
	}
	e.bodies = append(e.bodies, r.Header.Get(PositionHeader)+" "+string(body))
	status := e.statuses[0]
	if len(e.statuses) > 1 {
		e.statuses = e.statuses[1:]
	}
	if e.after != "" {
		w.Header().Set("Retry-After", e.after)
	}
	if status == http.StatusFound {
		w.Header().Set("Location", "/elsewhere")
	}
	w.WriteHeader(status)
}

// TestSendSignsOrders checks that a receiver also gets the origin of the order.
func TestSendSignsOrders(t *testing.T) {
	keys := sign.Keys{{ID: "k1", Secret: []byte("0123456789abcdef0123456789abcdef")}}
	f := func(order func([]byte) string, want error) {
		t.Helper()
		var got error
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got = keys.Verify(body, r.Header.Get(sign.Header))
		}))
		defer server.Close()
		h, err := New(Options{URL: server.URL, Order: order})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Send(t.Context(), 1, []byte(`{"id":"v"}`)); err != nil || !errors.Is(got, want) {
			t.Errorf("%v, %v, want %v", err, got, want)
		}
	}
	f(keys.Sign, nil)
	f(nil, sign.ErrUnsigned)
	f(sign.Keys(nil).Sign, sign.ErrUnsigned)
}

func TestSend(t *testing.T) {
	f := func(e *endpoint, tries, delivered, dropped int64, waits ...time.Duration) {
		t.Helper()
		server := httptest.NewServer(e)
		defer server.Close()
		var waited []time.Duration
		h, err := New(Options{URL: server.URL, Secret: []byte("secret"), MinWait: time.Second, MaxWait: 4 * time.Second, MostRefusals: 3,
			Now: func() time.Time { return now },
			After: func(d time.Duration) <-chan time.Time {
				waited = append(waited, d)
				c := make(chan time.Time, 1)
				c <- now
				return c
			}})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Send(t.Context(), 7, []byte(`{"id":"v"}`)); err != nil {
			t.Fatal(err)
		}
		if int64(len(e.bodies)) != tries || h.Counts().Delivered.Load() != delivered || h.Counts().Dropped.Load() != dropped {
			t.Errorf("%d tries, %d delivered, %d dropped; want %d, %d, %d", len(e.bodies), h.Counts().Delivered.Load(), h.Counts().Dropped.Load(), tries, delivered, dropped)
		}
		if len(e.bad) > 0 || e.bodies[0] != `7 {"id":"v"}` {
			t.Errorf("bodies %q, faults %q", e.bodies, e.bad)
		}
		if len(waited) != len(waits) {
			t.Fatalf("waited %v, want about %v", waited, waits)
		}
		for i, most := range waits {
			if waited[i] > most || waited[i] < most/2 {
				t.Errorf("wait %d is %v, want %v to %v", i, waited[i], most/2, most)
			}
		}
	}
	const s = time.Second
	f(&endpoint{statuses: []int{200}}, 1, 1, 0)
	f(&endpoint{statuses: []int{204}}, 1, 1, 0)
	f(&endpoint{statuses: []int{500, 503, 408, 429, 302, 202}}, 6, 1, 0, s, 2*s, 4*s, 4*s, 4*s)
	f(&endpoint{statuses: []int{400}}, 3, 0, 1, s, 2*s)
	f(&endpoint{statuses: []int{404, 500, 410, 200}}, 4, 1, 0, s, 2*s, 4*s)
	f(&endpoint{statuses: []int{429, 200}, after: "4"}, 2, 1, 0, 4*s)
	f(&endpoint{statuses: []int{503, 200}, after: "4000"}, 2, 1, 0, 4*s)
}

func TestSendEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h, err := New(Options{URL: "http://127.0.0.1:1/", After: func(time.Duration) <-chan time.Time { cancel(); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Send(ctx, 1, []byte("{}")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// The query and the path of the endpoint, by which it often knows its sender, are in no log
// line and in no error.
func TestURLIsNotTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var log bytes.Buffer
	h, err := New(Options{URL: "http://user:hunter2@127.0.0.1:1/hunter2?key=hunter2", Logger: slog.New(slog.NewTextHandler(&log, nil)),
		After: func(time.Duration) <-chan time.Time { cancel(); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Send(ctx, 1, []byte("{}")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if text := log.String(); text == "" || strings.Contains(text, "hunter2") {
		t.Errorf("logged was %q", text)
	}
	for _, url := range []string{"ftp://example.com/?key=hunter2", "http://example.com/%zz?key=hunter2", "http://[hunter2"} {
		if _, err := New(Options{URL: url}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	f := func(url string) {
		t.Helper()
		if _, err := New(Options{URL: url}); err == nil {
			t.Errorf("%q was taken", url)
		}
	}
	f("")
	f("example.com/hook")
	f("ftp://example.com")
	f("http://")
	f(":")
}

func TestVerify(t *testing.T) {
	body := []byte(`{"id":"v"}`)
	good := Sign([]byte("secret"), now, body)
	f := func(header, body, want string, at time.Time) {
		t.Helper()
		err := Verify([]byte("secret"), header, []byte(body), at, time.Minute)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	f(good, string(body), "", now)
	f(good, string(body), "", now.Add(time.Minute))
	f(good, string(body), "too old", now.Add(2*time.Minute))
	f(good, string(body), "from the future", now.Add(-2*time.Minute))
	f(good, `{"id":"w"}`, "wrong", now)
	f(Sign([]byte("other"), now, body), string(body), "wrong", now)
	f("", string(body), "form", now)
	f("t=1,v1=zz", string(body), "form", now)
	f(strings.Replace(good, "t=1795", "t=1796", 1), string(body), "wrong", now)
}
