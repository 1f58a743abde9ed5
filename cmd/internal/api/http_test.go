package api

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/access"
	"weir/cmd/internal/approvals"
	"weir/cmd/internal/budget"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/pump"
	"weir/events"
)

// served is a server of which only the routes are asked.
func served(t *testing.T) *Server {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, bytes.Repeat([]byte("x"), 32), 0o600); err != nil {
		t.Fatal(err)
	}
	keeper, err := access.New(access.Options{AdminTokenFile: secret, IntakeTokenFile: secret})
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(Options{Listen: "127.0.0.1:0", Authz: true, Access: keeper, Requests: 1, Streams: 1,
		Budget: budget.New(1 << 20), Clock: clock.NewFake(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	a.server = a.newServer()
	return a
}

// TestEveryRouteNeedsAToken holds that elsewhere than on loopback everything but the health
// needs one, and on loopback all that changes something.
func TestEveryRouteNeedsAToken(t *testing.T) {
	a := served(t)
	abroad := a.door
	abroad.loopback = false
	for _, route := range a.routes() {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.Method = route.method
		if _, e := abroad.admit(req, route.need); (e == nil) != (route.need == public) {
			t.Errorf("%s %s without a token: %v", route.method, route.path, e)
		}
		// A browser that signs in shows its token in the body, and signing out ends its own session.
		session := route.path == signInPath || route.path == signOutPath
		session = session || route.path == guardsPath           // a guard says what it does itself
		session = session || route.path == linksPath+"/{token}" // the path has the token
		session = session || route.path == approvals.Path+"/{token}"
		if route.method != http.MethodGet && route.need < sender && !session {
			t.Errorf("%s %s changes something and needs no token", route.method, route.path)
		}
	}
}

// TestOtherMethods asks every path by every method that is not served there.
func TestOtherMethods(t *testing.T) {
	a := served(t)
	serves := make(map[string]bool)
	for _, route := range a.routes() {
		serves[route.method+" "+route.path] = true
	}
	for _, route := range a.routes() {
		path := strings.NewReplacer("{id}", "x", "{$}", "").Replace(route.path)
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
			if path == stopAllPath && method == "GET" {
				continue // a flow may have that id
			}
			if serves[method+" "+route.path] || route.method == "" { // gateways ask with the method of the request
				continue
			}
			w := httptest.NewRecorder()
			a.Handler().ServeHTTP(w, httptest.NewRequest(method, "http://127.0.0.1"+path, nil))
			if w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
			}
		}
	}
}

// TestOwnRoutesAreRoutes holds that what is open to who is bound to flows or sources exists.
func TestOwnRoutesAreRoutes(t *testing.T) {
	paths := make(map[string]bool)
	for _, route := range served(t).routes() {
		paths[route.path] = true
	}
	for _, own := range []map[string]bool{ownFlows, ownSources} {
		for path := range own {
			if !paths[path] {
				t.Errorf("%s is open to who is bound, and is no route", path)
			}
		}
	}
}

// adjacent is a log whose lines lie side by side in memory, as those of a reader of Kafka may.
type adjacent struct {
	Log
	pump  *pump.Pump
	lines []byte
}

func (l *adjacent) PumpOf(pump.Stage, string) (*pump.Pump, error) { return l.pump, nil }

func (l *adjacent) Events(_ context.Context, _ string, _ events.Stamp, fn func(line []byte, appended events.Stamp) bool) error {
	for rest := l.lines; len(rest) > 0; {
		n := bytes.IndexByte(rest, '}') + 1
		if !fn(rest[:n], 0) {
			return nil
		}
		rest = rest[n:]
	}
	return nil
}

// TestFlowEventsLeavesTheLog holds that an answer writes over nothing that the log has behind a line.
func TestFlowEventsLeavesTheLog(t *testing.T) {
	p, err := pump.New(t.Context(), pump.Options{Limits: limitfile.Default()})
	if err != nil {
		t.Fatal(err)
	}
	ev := events.Event{ID: "1", Source: "test", Time: 1_700_000_000_000, Kind: events.FlowStart, CorrelationID: "f"}
	p.FoldRecord(&ev, &pump.Record{Value: ev.AppendJSON(nil)})
	log := &adjacent{pump: p, lines: []byte(`{"id":"1"}{"id":"2"}{"id":"3"}`)}
	f := &flowPages{log: log, folded: &folded{log: log}, logger: slog.New(slog.DiscardHandler)}
	r := httptest.NewRequest(http.MethodGet, "/v1/flows/f/events", nil)
	r.SetPathValue("id", "f")
	w := httptest.NewRecorder()
	if err := f.serveFlowEvents(w, r); err != nil {
		t.Fatal(err)
	}
	if got := w.Body.String(); got != "{\"id\":\"1\"}\n{\"id\":\"2\"}\n{\"id\":\"3\"}\n" {
		t.Errorf("%q", got)
	}
}

// TestHeadersOfAllAnswers holds that a handler which changes the headers that all answers share changes
// its own answer alone.
func TestHeadersOfAllAnswers(t *testing.T) {
	names := []string{"X-Content-Type-Options", "Content-Security-Policy", "Cache-Control"}
	server := &Server{}
	answer := func(change func(h http.Header)) http.Header {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
		server.guarded(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { change(w.Header()) })).ServeHTTP(w, r)
		return w.Header()
	}
	want := answer(func(http.Header) {}).Clone()
	for _, name := range names {
		if len(want[name]) != 1 || want[name][0] == "" {
			t.Errorf("%s is %q", name, want[name])
		}
		added := answer(func(h http.Header) { h.Add(name, "more") })
		set := answer(func(h http.Header) { h.Set(name, "other") })
		if len(added[name]) != 2 || added[name][1] != "more" || set.Get(name) != "other" {
			t.Errorf("%s is %q after Add and %q after Set", name, added[name], set[name])
		}
		answer(func(h http.Header) { h.Del(name) })
	}
	if got := answer(func(http.Header) {}); !reflect.DeepEqual(got, want) {
		t.Errorf("the next answer has %v, want %v", got, want)
	}
}
