package api

import "testing"

// TestTrend ends more minutes than are kept: the sums of a minute are what came in it.
func TestTrend(t *testing.T) {
	var x trend
	sum := trendPoint{}
	for range trendMinutes + 5 {
		sum.Checks, sum.MicroUSD, sum.Stopped = sum.Checks+3, sum.MicroUSD+7, sum.Stopped+1
		x.add(sum)
	}
	sum.Checks++
	got := x.read(sum)
	if len(got) != trendMinutes+1 {
		t.Fatalf("%d minutes", len(got))
	}
	last, now := got[trendMinutes-1], got[trendMinutes]
	if last.Checks != 3 || last.MicroUSD != 7 || last.Stopped != trendMinutes+5 || now.Checks != 1 || now.MicroUSD != 0 || now.Stopped != trendMinutes+5 {
		t.Errorf("the last whole minute is %+v, this one %+v", last, now)
	}
}
