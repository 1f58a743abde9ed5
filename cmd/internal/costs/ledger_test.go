package costs

import (
	"testing"

	"weir/analyzer/prices"
	"weir/events"
)

// TestBy holds that what a log prices is not priced again, also where the sum of money that it
// tells has not grown with the tokens.
func TestBy(t *testing.T) {
	p := prices.Table{{Name: "m", Price: prices.Plain(1_000_000, 2_000_000)}} // a dollar and two for a million tokens
	f := func(told int64, scope events.UsageScope, grown int64, want Spent) {
		t.Helper()
		ev := events.Event{Model: "m", Usage: events.Usage{Known: true, Scope: scope, Input: 100, Output: 100, CostMicroUSD: told}}
		if got := By(p, &ev, 0, 200, grown); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	f(0, events.UsageDelta, 300, Spent{Tokens: 200, Priced: 300, OfFile: 200})
	f(70, events.UsageDelta, 70, Spent{Tokens: 200, Reported: 70})
	f(70, events.UsageCumulative, 20, Spent{Tokens: 200, Reported: 20})
	f(70, events.UsageCumulative, 0, Spent{Tokens: 200})
}
