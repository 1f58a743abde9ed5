package adapter

import (
	"math"
	"testing"

	"weir/events"
)

// TestElapsed holds what passes in logs of which some clocks are wrong. Near is 300 s here.
func TestElapsed(t *testing.T) {
	const s, min, hour, near = 1000, 60_000, 3_600_000, 300_000
	const begin, far = Epoch, events.Stamp(253402300799999)
	// steady returns n times, one a second. With every > 0 it adds one other time to each group of every times.
	steady := func(n, every int, other func(i int) events.Stamp) []events.Stamp {
		var out []events.Stamp
		for i := range n {
			out = append(out, begin+events.Stamp(i*s))
			if every > 0 && i%every == every/2 {
				out = append(out, other(i))
			}
		}
		return out
	}
	sameAs := func(at events.Stamp) func(int) events.Stamp { return func(int) events.Stamp { return at } }
	for name, c := range map[string]struct {
		told     []events.Stamp
		from, to int64 // what has passed
	}{
		"nothing":                        {nil, 0, 0},
		"one clock":                      {steady(1000, 0, nil), 999 * s, 999 * s},
		"one time in the year 9999":      {steady(1000, 1000, sameAs(far)), 999 * s, 999 * s},
		"one time in 1970":               {steady(1000, 1000, sameAs(1)), 999 * s, 999 * s},
		"one far time of three":          {steady(1000, 2, sameAs(far)), 999 * s, 999 * s},
		"the first time is far":          {append([]events.Stamp{far}, steady(1000, 0, nil)...), 999 * s, 999 * s},
		"a machine an hour ahead":        {steady(1000, 3, func(i int) events.Stamp { return begin + hour + events.Stamp(i*s) }), 999 * s, 999 * s},
		"a machine an hour behind":       {steady(1000, 3, func(i int) events.Stamp { return begin - hour + events.Stamp(i*s) }), 999 * s, 999 * s},
		"times out of order":             {[]events.Stamp{begin, begin + 20*s, begin + 5*s, begin + 30*s, begin + 8*s}, 30 * s, 30 * s},
		"a night in which nothing comes": {append(steady(10, 0, nil), begin+9*hour, begin+9*hour+s), 9*s + near + 1 + s, 9*s + near + 1 + s},
		"a night, and one time":          {append(steady(10, 0, nil), begin+9*hour), 9 * s, 9 * s},
		"one time in ten minutes":        {[]events.Stamp{begin, begin + 10*min, begin + 20*min, begin + 30*min}, 2 * (near + 1), 2 * (near + 1)},
		"a file from its end":            {[]events.Stamp{begin + 30*min, begin + 20*min, begin + 20*min - s, begin + 10*min, begin}, 0, 0},
		"a far time twice, then no more": {append([]events.Stamp{begin, far, far}, steady(1000, 0, nil)...), near + 1, near + 1 + 999*s},
		"each time another one":          {steady(1000, 1, func(i int) events.Stamp { return begin + events.Stamp((i*7919%1000)*hour) }), 990 * s, 1000*s + 20*near},
		"the ends of all numbers":        {[]events.Stamp{begin, math.MaxInt64, begin, 0, begin + s}, s, s},
	} {
		e := NewElapsed(near)
		last := int64(0)
		for _, at := range c.told {
			e.Next()
			e.Tell(at)
			if e.Passed() < last {
				t.Fatalf("%s: time ran back", name)
			}
			last = e.Passed()
		}
		if last < c.from || last > c.to {
			t.Errorf("%s: %d ms have passed, want %d to %d", name, last, c.from, c.to)
		}
	}
	// One record is no witness of itself.
	e := NewElapsed(near)
	for _, at := range []events.Stamp{begin, far, far, far} {
		e.Tell(at)
	}
	if e.Passed() != 0 {
		t.Errorf("one record made %d ms pass", e.Passed())
	}
}
