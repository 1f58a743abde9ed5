package main

import (
	"testing"
	"time"
)

func TestPoints(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	f := func(text string, want point, good bool) {
		t.Helper()
		got, err := parsePoint(text, now)
		if good != (err == nil) || good && (got.end != want.end || got.offset != want.offset || !got.at.Equal(want.at)) {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
	f("beginning", point{offset: -1}, true)
	f("end", point{end: true, offset: -1}, true)
	f("0", point{offset: 0}, true)
	f("4711", point{offset: 4711}, true)
	f("-1h30m", point{at: now.Add(-90 * time.Minute), offset: -1}, true)
	f("@2026-03-02T13:00:00+02:00", point{at: now.Add(-time.Hour), offset: -1}, true)
	f("@2026-03-02T11:00:00.250Z", point{at: now.Add(-time.Hour + 250*time.Millisecond), offset: -1}, true)
	for _, wrong := range []string{"", "start", "-", "-1", "--1h", "+1", "1.5", "@", "@2026-03-02", "9223372036854775808"} {
		f(wrong, point{}, false)
	}
}

// TestParseAge reads days beside what Go's durations are.
func TestParseAge(t *testing.T) {
	for text, want := range map[string]time.Duration{"7d": 168 * time.Hour, "1.5d": 36 * time.Hour, "90m": 90 * time.Minute} {
		if got, err := parseAge(text); got != want || err != nil {
			t.Errorf("%s is %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"d", "xd", "-1d", "NaNd", "1e9d", "7"} {
		if got, err := parseAge(text); err == nil {
			t.Errorf("%s is taken for %s", text, got)
		}
	}
}
