package orders

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"weir/events"
	"weir/events/byhand"
)

// TestReport holds that the log says what an order does, and warns of those alone that refuse calls.
func TestReport(t *testing.T) {
	all := byhand.Scope{Kind: events.ScopeAll, ID: "*"}
	stop, drill := byhand.Order{Order: byhand.Stop, Scope: all}, byhand.DrillOf(all)
	release, ended := stop, drill
	release.Order, ended.Order = byhand.Release, byhand.Release
	for _, c := range []struct {
		order byhand.Order
		want  string
	}{
		{stop, `level=WARN msg="an order by hand is in force"`},
		{release, `level=INFO msg="an order by hand is lifted"`},
		{drill, `level=INFO msg="a drill began"`},
		{ended, `level=INFO msg="a drill ended"`},
	} {
		var out bytes.Buffer
		b := &Book{Logger: slog.New(slog.NewTextHandler(&out, nil))}
		b.report(&c.order)
		if !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: want %s", out.String(), c.want)
		}
	}
}
