package logs

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"weir/events"
)

// TestClock says which events of a log are taken for wrong in their times, and that all are
// folded in the order in which they stand.
func TestClock(t *testing.T) {
	const begin = events.Stamp(1795183200000)
	at := func(d time.Duration) events.Stamp { return begin.Add(d) }
	far := events.Stamp(253402300799999)
	// steady is a log of n events, one a second from from on.
	steady := func(n int, from time.Duration) (out []events.Stamp) {
		for i := range n {
			out = append(out, at(from+time.Duration(i)*time.Second))
		}
		return out
	}
	with := func(log []events.Stamp, place int, times ...events.Stamp) []events.Stamp {
		return slices.Insert(slices.Clone(log), place, times...)
	}
	day := steady(200, 0)
	var ahead []events.Stamp // every fourth is of a machine an hour ahead
	var wrong []int
	for i := range day {
		if ahead = append(ahead, day[i]); i%3 == 2 {
			wrong = append(wrong, len(ahead))
			ahead = append(ahead, day[i].Add(time.Hour))
		}
	}
	for name, c := range map[string]struct {
		log   []events.Stamp
		wrong []int
	}{
		"a plain log":                  {day, nil},
		"the year 9999":                {with(day, 50, far), []int{50}},
		"an hour ahead":                {with(day, 50, at(2*time.Hour)), []int{50}},
		"a minute ahead":               {with(day, 50, at(110*time.Second)), nil},
		"1970":                         {with(day, 50, 1), nil},
		"three in a row":               {with(day, 50, far, far, far), []int{50, 51, 52}},
		"at first":                     {with(day, 0, far), []int{0}},
		"at the end":                   {with(day, 200, far), []int{200}},
		"two at the end":               {with(day, 200, far, far), []int{200, 201}},
		"one late event behind a leap": {append(steady(9, 0), at(2*time.Hour), at(10*time.Second)), nil},
		"a night":                      {append(steady(200, 0), steady(200, 9*time.Hour)...), nil},
		"a night, and one event":       {append(steady(200, 0), at(9*time.Hour)), nil},
		"one event a day":              {[]events.Stamp{at(0), at(24 * time.Hour), at(48 * time.Hour), at(72 * time.Hour)}, nil},
		"a year, and then much":        {append(steady(200, 0), steady(200, 400*24*time.Hour)...), nil},
		"a machine an hour ahead":      {ahead, wrong[:len(wrong)-1]}, // of the last one too little is behind it
		"nothing":                      {nil, nil},
	} {
		var folded []string
		var got []int
		clock := NewClock(func(ev *events.Event) error {
			if ev.Appended != 0 {
				got = append(got, len(folded))
			}
			folded = append(folded, ev.ID)
			return nil
		})
		var want []string
		for i, when := range c.log {
			want = append(want, fmt.Sprint(i))
			if err := clock.Take(&events.Event{ID: want[i], Time: when, Kind: events.FlowStart, CorrelationID: "f"}); err != nil {
				t.Fatal(err)
			}
		}
		if err := clock.End(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(folded, want) {
			t.Errorf("%s: folded as %v", name, folded)
		}
		if !slices.Equal(got, c.wrong) || clock.Ahead != int64(len(got)) {
			t.Errorf("%s: %v are taken for wrong (%d), want %v", name, got, clock.Ahead, c.wrong)
		}
	}
}
