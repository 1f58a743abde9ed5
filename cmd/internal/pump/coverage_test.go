package pump

import (
	"fmt"
	"strings"
	"testing"

	"weir/analyzer/coverage"
	"weir/analyzer/limitfile"
	"weir/events"
)

// TestCoverage counts by source, logs once what a source does not report, and stays bounded whatever
// names producers choose.
func TestCoverage(t *testing.T) {
	var c Counts
	call := events.Event{Kind: events.ToolCall, Source: "a", From: events.Party{Agent: "x"}, Tool: events.Tool{Name: "t"}}
	said := 0
	pump := covering{by: map[string]*coverage.Coverage{}}
	tell := func() {
		pump.add(&call, nil, 0)
		pump.take(func(source string, told *coverage.Coverage) {
			if _, now, _ := c.coverage.plus(source, told); now {
				said++
			}
		})
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

// TestCoverageOfStrays logs the first answer that matches no call, and reports how many there are.
func TestCoverageOfStrays(t *testing.T) {
	var c Counts
	answer := events.Event{Kind: events.AgentReturn, Source: "a", From: events.Party{Agent: "x"}, To: events.Party{Agent: "y"}}
	logged := 0
	for _, strays := range []int64{0, 1, 1} {
		pump := covering{by: map[string]*coverage.Coverage{}}
		pump.add(&answer, nil, strays)
		pump.take(func(source string, told *coverage.Coverage) {
			if _, _, stray := c.coverage.plus(source, told); stray {
				logged++
			}
		})
	}
	limits := limitfile.Default()
	if blind := c.Blind(&limits); logged != 1 || !strings.HasPrefix(blind["a"], "2 of 3 answers match no call") {
		t.Errorf("logged %d times; blind are %v", logged, blind)
	}
}
