package guard

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"reflect"
	"sync"
	"testing"

	"weir/events"
	"weir/sink/check"
	"weir/sink/guard/guardtest"
)

// TestPythonAsksOnOneConnection asks on the connection of the ask before, also after a refusal,
// and on a new one when weir has closed that.
func TestPythonAsksOnOneConnection(t *testing.T) {
	weir := guardtest.New()
	weir.Answer(func(ev *events.Event) *events.Verdict {
		if ev.To.Agent == "forbidden" {
			return &events.Verdict{ID: "v", Mode: "enforce", Action: "deny", Reason: "operator_stop", HTTPStatus: 403, Message: "no"}
		}
		return nil
	})
	var mu sync.Mutex
	connections, asks := make(map[string]bool), 0 // of asks
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/check" {
			mu.Lock()
			connections[r.RemoteAddr] = true
			asks++
			mu.Unlock()
		}
		weir.ServeHTTP(w, r)
	}))
	server.Config.ConnState = func(c net.Conn, s http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		if s == http.StateIdle && asks == 5 && connections[c.RemoteAddr().String()] {
			_ = c.Close()
		}
	}
	server.Start()
	defer server.Close()
	defer weir.Set(guardtest.Away)
	run := exec.CommandContext(t.Context(), found(t, "python3"), "testdata/connections.py", "python", server.URL)
	run.Stderr = os.Stderr
	if out, err := run.Output(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	mu.Lock()
	defer mu.Unlock()
	if asks != 10 || len(connections) != 2 {
		t.Errorf("%d asks on %d connections, want 10 on 2", asks, len(connections))
	}
}

// TestAsksAgainOnAClosedConnection has weir close each connection that was kept at the moment of its
// second request, as it does where a newcomer needs the place: each check is answered by weir, and
// what was sent again has the same id.
func TestAsksAgainOnAClosedConnection(t *testing.T) {
	for _, of := range []struct {
		language string
		command  func(t *testing.T, url string) []string
	}{
		{"TypeScript", func(t *testing.T, url string) []string {
			command := languages()[1].command(t)
			return []string{command[0], "testdata/closed.mjs", command[2], url}
		}},
		{"Python", func(t *testing.T, url string) []string {
			return []string{found(t, "python3"), "testdata/connections.py", "python", url}
		}},
	} {
		t.Run(of.language, func(t *testing.T) {
			weir := guardtest.New()
			weir.Answer(func(ev *events.Event) *events.Verdict {
				if ev.To.Agent == "forbidden" {
					return &events.Verdict{ID: "v", Mode: "enforce", Action: "deny", Reason: "operator_stop", HTTPStatus: 403, Message: "no"}
				}
				return nil
			})
			var mu sync.Mutex
			requests, closed, before := make(map[string]int), 0, false // of connections
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v1/check" {
					mu.Lock()
					requests[r.RemoteAddr]++
					again := requests[r.RemoteAddr] >= 2 && !before // what is sent again may come on another one that was kept
					if before = again; again {
						closed++
					}
					mu.Unlock()
					if again {
						panic(http.ErrAbortHandler) // closes the connection without an answer
					}
				}
				weir.ServeHTTP(w, r)
			}))
			defer server.Close()
			defer weir.Set(guardtest.Away)
			args := of.command(t, server.URL)
			run := exec.CommandContext(t.Context(), args[0], args[1:]...)
			if out, err := run.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			seen := make(map[string]bool)
			for _, ev := range weir.Asks() {
				if seen[ev.ID] {
					t.Errorf("%s was asked twice and answered twice", ev.ID)
				}
				seen[ev.ID] = true
			}
			if closed == 0 || len(seen) < 10 {
				t.Errorf("%d connections were closed, %d checks answered", closed, len(seen))
			}
		})
	}
}

// TestAsksTogether asks for calls of one moment in one request, by what reads them in weir, and
// one by one where that takes no more than one: parallel calls of TypeScript after one that is
// alone, and those of threads of Python while one waits for its answer.
func TestAsksTogether(t *testing.T) {
	for _, of := range []struct {
		language string
		command  func(t *testing.T, url string) []string
	}{
		{"TypeScript", func(t *testing.T, url string) []string {
			command := languages()[1].command(t)
			return []string{command[0], "testdata/together.mjs", command[2], url}
		}},
		{"Python", func(t *testing.T, url string) []string {
			return []string{found(t, "python3"), "testdata/together.py", "python", url}
		}},
	} {
		for _, older := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/older=%t", of.language, older), func(t *testing.T) { asksTogether(t, of.command, older) })
		}
	}
}

func asksTogether(t *testing.T, command func(t *testing.T, url string) []string, older bool) {
	var mu sync.Mutex
	asked, requests, all := make(map[string]int), make(map[string]int), make(chan struct{})
	answer := func(ev *events.Event) (*events.Verdict, error) {
		mu.Lock()
		asked[ev.ID]++
		if len(asked) == 101 {
			close(all)
		}
		mu.Unlock()
		switch ev.To.Agent {
		case "forbidden":
			return &events.Verdict{ID: "v", Mode: "enforce", Action: "deny", Reason: "operator_stop", HTTPStatus: 403, Message: "no"}, nil
		case "held":
			<-all
		}
		return &events.Verdict{ID: "v", Mode: "enforce", Action: "allow"}, nil
	}
	asks := check.Handler{
		Check: func(batch []*check.Request) {
			for _, q := range batch {
				q.Wait = func() (*events.Verdict, error) { return answer(q.Event) }
			}
		},
		Fail: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadRequest)
		},
	}
	weir := guardtest.New()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/check" {
			weir.ServeHTTP(w, r)
			return
		}
		mu.Lock()
		requests[r.Header.Get("Content-Type")]++
		mu.Unlock()
		if older && r.Header.Get("Content-Type") != "application/json" {
			http.Error(w, "{}", http.StatusBadRequest)
			return
		}
		asks.ServeHTTP(w, r)
	}))
	args := command(t, server.URL)
	run := exec.CommandContext(t.Context(), args[0], args[1:]...)
	run.Stderr = os.Stderr
	out, err := run.Output()
	weir.Set(guardtest.Away)
	server.Close()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := map[string]int{"application/json": 1, "application/x-ndjson": 2} // one alone, and 100 in 64 and 36
	if older {
		want["application/json"] += 100
	}
	if !reflect.DeepEqual(requests, want) {
		t.Errorf("requests %v, want %v", requests, want)
	}
	if len(asked) != 101 {
		t.Errorf("%d calls were asked for, want 101: %s", len(asked), fmt.Sprint(asked))
	}
}
