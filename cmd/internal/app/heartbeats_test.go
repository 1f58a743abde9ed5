package app

import (
	"path/filepath"
	"reflect"
	"testing"

	"weir/cmd/internal/clock"
)

// TestHeartbeatsThatRepeat sends the same heartbeat again and again on one connection, where it goes past the layers
// of the server. It is answered, counted, charged and refused as others are.
func TestHeartbeatsThatRepeat(t *testing.T) {
	may := map[string]string{"shop": "roles: ask", "root": "roles: admin"}
	r := people(t, Options{Metrics: "127.0.0.1:0", Clock: clock.NewFake()}, may)
	const good, bad = `{"guard":"shop","instance":"1","language":"go","held":[],"in_flight":0}`, `{"guard":"shop","instance":"1","language":"go","held":{},"in_flight":0}`
	beat := func(body string, status int) reply {
		t.Helper()
		got := r.as("shop", "POST", "/v1/guards", body)
		r.want(got, status)
		got.header.Del("Date")
		return got
	}
	change := func(what string) {
		t.Helper()
		if may["shop"] = what; what == "" {
			delete(may, "shop")
		}
		writePeople(t, filepath.Dir(r.o.AccessFile), may)
		if err := r.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	first := beat(good, 200)
	for range 3 {
		if got := beat(good, 200); !reflect.DeepEqual(got, first) {
			t.Errorf("a heartbeat that repeats is answered with %+v, want %+v", got, first)
		}
	}
	beat(bad, 400)
	beat(good, 200)
	beat(good, 200)
	r.scraped(`weir_http_requests_total{code="2xx",handler="/v1/guards",method="POST"} 6`, `weir_http_requests_total{code="4xx",handler="/v1/guards",method="POST"} 1`)
	for _, c := range []struct {
		may    string
		status int
	}{{"", 401}, {"roles: ask", 200}, {"roles: ingest", 403}, {"roles: observe", 200}, {"roles: ask, flows: [shop-*]", 403}} {
		change(c.may)
		beat(good, c.status)
		beat(good, c.status)
	}
	change("roles: ask, rate: 5") // for a second, which does not pass
	for _, c := range []struct {
		body   string
		status int
	}{{good, 200}, {good, 200}, {bad, 400}, {good, 200}, {good, 200}, {good, 429}, {bad, 429}, {good, 429}} {
		beat(c.body, c.status)
	}
}
