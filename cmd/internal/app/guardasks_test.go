package app

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"weir/cmd/internal/clock"
	"weir/events"
	"weir/sink/guard"
)

// wire counts what a guard requests, and can cut its stream of asks.
type wire struct {
	mu      sync.Mutex
	counts  map[string]int
	streams []io.Closer
	refuse  bool // streams, as a proxy may
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.counts[r.URL.Path]++
	refuse := w.refuse && r.URL.Path == "/v1/check/stream"
	w.mu.Unlock()
	if refuse {
		return &http.Response{StatusCode: http.StatusNotFound, Status: "404 Not Found", Body: http.NoBody, Request: r}, nil
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && r.URL.Path == "/v1/check/stream" {
		w.mu.Lock()
		w.streams = append(w.streams, resp.Body)
		w.mu.Unlock()
	}
	return resp, err
}

func (w *wire) count(path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[path]
}

// cut closes the streams that are open.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.streams {
		_ = s.Close()
	}
	w.streams = nil
}

func beginAsking(t *testing.T, w *wire) (*running, *guard.Guard, func(flow string, n int)) {
	t.Helper()
	r := begin(t, Options{Clock: clock.System{}})
	w.counts = make(map[string]int)
	g, err := guard.New(guard.Options{URL: "http://" + r.Addr(), Client: &http.Client{Transport: w}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return r, g, func(flow string, n int) {
		if d := g.Ask(t.Context(), guard.Call{Flow: flow, From: "a-" + flow, To: fmt.Sprintf("b%d-%s", n%3, flow), HadWork: events.Yes}); d.Stopped() || d.Source != guard.FromWeir {
			t.Errorf("ask %d of %s: %+v", n, flow, d)
		}
	}
}

// TestGuardAsksShareAStream asks on one connection once asks come often, and loses none when
// that breaks: each is counted once, whichever way it was answered.
func TestGuardAsksShareAStream(t *testing.T) {
	w := new(wire)
	r, g, ask := beginAsking(t, w)
	ask("first", 0)
	if n := w.count("/v1/check/stream"); n != 0 {
		t.Errorf("%d streams for one ask", n)
	}
	asked := 1
	onStream := func() {
		t.Helper()
		for t.Context().Err() == nil {
			before := w.count("/v1/check")
			ask(fmt.Sprint("until-", asked), 0)
			if asked++; w.count("/v1/check") == before {
				return
			}
		}
	}
	onStream()
	const askers, each = 8, 15
	var asking sync.WaitGroup
	for i := range askers {
		asking.Go(func() {
			for n := range each {
				if i == 0 && n == each/2 {
					w.cut()
				}
				ask(fmt.Sprint("f-", i), n)
			}
		})
	}
	asking.Wait()
	asked += askers * each
	onStream() // again
	if n := g.Counts().AskFailures.Load(); n != 0 {
		t.Errorf("%d asks were answered from memory", n)
	}
	if n := strings.Count(strings.Join(r.journalLines(), "\n"), `"ask":true`); n < asked {
		t.Errorf("%d asks in the log of %d", n, asked)
	}
	for i := range askers {
		r.want(r.do("GET", fmt.Sprint("/v1/flows/f-", i), ""), 200, fmt.Sprintf(`"events":%d`, each))
	}
}

// TestGuardAsksWithoutAStream asks one by one where there is no stream.
func TestGuardAsksWithoutAStream(t *testing.T) {
	w := &wire{refuse: true}
	_, g, ask := beginAsking(t, w)
	for n := range 20 {
		ask("f", n)
	}
	if n := w.count("/v1/check"); n != 20 || g.Counts().AskFailures.Load() != 0 {
		t.Errorf("%d requests for 20 asks, %d failed", n, g.Counts().AskFailures.Load())
	}
	if n := w.count("/v1/check/stream"); n > 1 {
		t.Errorf("a stream was tried %d times", n)
	}
}
