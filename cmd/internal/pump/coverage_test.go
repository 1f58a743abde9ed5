package pump

import (
	"fmt"
	"testing"

	"weir/analyzer/limitfile"
	"weir/events"
)

// TestCoverage counts by source, logs once what a source does not report, and stays bounded whatever
// names producers choose.
func TestCoverage(t *testing.T) {
	var c Counts
	call := events.Event{Kind: events.ToolCall, Source: "a", From: events.Party{Agent: "x"}, Tool: events.Tool{Name: "t"}}
	said := 0
	pump := covering{}
	tell := func() {
		pump.add(&call, nil)
		for source, told := range pump {
			taken := told.Take()
			if _, now := c.coverage.plus(source, &taken); now {
				said++
			}
		}
	}
	for range 3 * enoughCovered {
		tell()
	}
	if said != 1 {
		t.Errorf("it was said %d times", said)
	}
	limits := limitfile.Default()
	if blind := c.Blind(&limits); len(blind) != 1 || blind["a"] == "" {
		t.Errorf("blind are %v", blind)
	}
	for i := range 10 * maxSources {
		call.Source = fmt.Sprint(i)
		tell()
	}
	if n, all := len(c.coverage.by), c.coverage.sum(); n != maxSources+1 || all.ToolCalls != 3*enoughCovered+10*maxSources {
		t.Errorf("%d sources with %d calls", n, all.ToolCalls)
	}
}
