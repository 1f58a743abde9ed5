package guard

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"testing"

	"weir/events"
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
