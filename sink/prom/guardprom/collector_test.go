package guardprom

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/sink/guard"
)

func TestCollector(t *testing.T) {
	away := httptest.NewServer(nil)
	away.Close() // a guard whose weir is away
	g, err := guard.Dial(away.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if d := g.Check(t.Context(), guard.Call{Flow: "f", From: "a", To: "b"}); d.Stopped() {
		t.Errorf("refused: %+v", d)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(New(g))
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	err = testutil.GatherAndCompare(registry, strings.NewReader(`# HELP weir_guard_decisions_total Decisions about calls, by where they come from.
# TYPE weir_guard_decisions_total counter
weir_guard_decisions_total{decision="allow",source="error_open"} 0
weir_guard_decisions_total{decision="allow",source="orders"} 0
weir_guard_decisions_total{decision="allow",source="stale_open"} 1
weir_guard_decisions_total{decision="refuse",source="local_limit"} 0
weir_guard_decisions_total{decision="refuse",source="orders"} 0
weir_guard_decisions_total{decision="refuse",source="stale_closed"} 0
# HELP weir_guard_stale Whether the orders may be out of date.
# TYPE weir_guard_stale gauge
weir_guard_stale 1
`), "weir_guard_decisions_total", "weir_guard_stale")
	if err != nil {
		t.Error(err)
	}
}
