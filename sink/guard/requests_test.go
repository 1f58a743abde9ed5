package guard

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"weir/sink/guard/guardtest"
)

// requestCount counts the requests of checks that are under way, and answers them when open is closed.
type requestCount struct {
	weir http.Handler
	open chan struct{}
	once sync.Once

	mu          sync.Mutex
	under, peak int
	full        chan struct{} // closed when mostRequests are under way
}

func newRequestCount(weir http.Handler) *requestCount {
	return &requestCount{weir: weir, open: make(chan struct{}), full: make(chan struct{})}
}

func (c *requestCount) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/all": // all are asked for
		c.once.Do(func() { close(c.open) })
		return
	case "/v1/check/stream": // as an older weir
		http.NotFound(w, r)
		return
	case "/v1/check":
		c.begin()
		defer c.end()
		<-c.open
	}
	c.weir.ServeHTTP(w, r)
}

func (c *requestCount) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.under++; c.under > c.peak {
		if c.peak = c.under; c.peak == mostRequests {
			close(c.full)
		}
	}
}

func (c *requestCount) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.under--
}

// TestManyAsksTakeFewRequests has a thousand checks in flight, which all have an answer of weir by a few
// requests at one time: weir rejects those beyond some hundreds, and then they would be decided from memory.
func TestManyAsksTakeFewRequests(t *testing.T) {
	t.Run("Go", func(t *testing.T) {
		weir := guardtest.New()
		c := newRequestCount(weir)
		server := httptest.NewServer(c)
		defer server.Close()
		defer weir.Set(guardtest.Away)
		g, err := New(Options{URL: server.URL, Quiet: true, AskTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		var all sync.WaitGroup
		for n := range 1000 {
			all.Go(func() {
				if d := g.Ask(t.Context(), Call{Flow: fmt.Sprint("f-", n), From: "a", To: "b"}); d.Source != FromWeir {
					t.Errorf("check %d is decided by %s", n, d.Source)
				}
			})
		}
		<-c.full
		c.once.Do(func() { close(c.open) })
		all.Wait()
		c.holds(t, mostRequests)
	})
	for _, of := range []struct {
		language string
		command  func(t *testing.T, url string) []string
	}{
		{"TypeScript", func(t *testing.T, url string) []string {
			command := languages()[1].command(t)
			return []string{command[0], "testdata/many.mjs", command[2], url}
		}},
		{"Python", func(t *testing.T, url string) []string {
			return []string{found(t, "python3"), "testdata/many.py", "python", url}
		}},
	} {
		t.Run(of.language, func(t *testing.T) {
			weir := guardtest.New()
			c := newRequestCount(weir)
			server := httptest.NewServer(c)
			defer server.Close()
			defer weir.Set(guardtest.Away)
			command := of.command(t, server.URL)
			run := exec.CommandContext(t.Context(), command[0], command[1:]...)
			run.Stderr = os.Stderr
			if out, err := run.Output(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			c.holds(t, 32)
		})
	}
}

func (c *requestCount) holds(t *testing.T, most int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peak > most || c.peak == 0 {
		t.Errorf("%d requests at one time, want at most %d", c.peak, most)
	}
}
