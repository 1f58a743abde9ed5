package guard_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/events"
	"weir/sink/guard"
)

// allowance is what weir answers to an ask that it lets pass.
const allowance = `{"verdict":{"id":"v","mode":"enforce","action":"allow"}}`

// roundTrip answers requests in place of weir.
type roundTrip func(r *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answered(r *http.Request, status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: make(http.Header), Body: io.NopCloser(strings.NewReader(body)), Request: r}
}

// TestStreamIsOpenedAgain shows when a guard that could not open its stream tries again. It is soon
// if weir was unreachable, as while it starts again, and late if weir answered but has no stream.
func TestStreamIsOpenedAgain(t *testing.T) {
	f := func(name string, soon int, open func(r *http.Request) (*http.Response, error)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var opened atomic.Int64
				client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					switch r.URL.Path {
					case "/v1/check":
						return answered(r, http.StatusOK, allowance), nil
					case "/v1/check/stream":
						opened.Add(1)
						return open(r)
					}
					return nil, errors.New("not here")
				})}
				g, err := guard.New(guard.Options{URL: "http://weir", Client: client})
				if err != nil {
					t.Fatal(err)
				}
				defer g.Close()
				tried := func(after time.Duration, want int) {
					t.Helper()
					time.Sleep(after)
					for n := range 2 {
						if d := g.Ask(t.Context(), guard.Call{Flow: "f", From: "a", To: fmt.Sprint("b", n), HadWork: events.Yes}); d.Source != guard.FromWeir {
							t.Errorf("answered by %v", d.Source)
						}
					}
					time.Sleep(10 * time.Second) // until the guard finds that weir does not answer
					if n := int(opened.Load()); n != want {
						t.Errorf("tried %d times, want %d", n, want)
					}
				}
				tried(0, 1)
				tried(0, soon)
				tried(time.Minute, soon+1)
			})
		})
	}
	f("away", 2, func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") })
	f("away behind a gateway", 2, func(r *http.Request) (*http.Response, error) { return answered(r, http.StatusBadGateway, ""), nil })
	f("older", 1, func(r *http.Request) (*http.Response, error) { return answered(r, http.StatusNotFound, ""), nil })
	f("gathered by a proxy", 1, func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
}

// TestConnectionsAreKept asks for many calls at one time where there is no stream, again and again.
func TestConnectionsAreKept(t *testing.T) {
	const together, rounds = 16, 10
	var all sync.WaitGroup // of a round
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/check" {
			http.NotFound(w, r)
			return
		}
		all.Done()
		all.Wait()
		_, _ = io.WriteString(w, allowance)
	}))
	var made atomic.Int64
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			made.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	g, err := guard.New(guard.Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for range rounds {
		all.Add(together)
		var asking sync.WaitGroup
		for n := range together {
			asking.Go(func() {
				if d := g.Ask(t.Context(), guard.Call{Flow: "f", From: "a", To: fmt.Sprint("b", n), HadWork: events.Yes}); d.Source != guard.FromWeir {
					t.Errorf("answered by %v", d.Source)
				}
			})
		}
		asking.Wait()
	}
	// A connection is free a moment after its answer was read, so some more may be made.
	if n := made.Load(); n > together*rounds/2 {
		t.Errorf("%d connections for %d asks, %d at one time", n, together*rounds, together)
	}
}
