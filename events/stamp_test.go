package events

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestStampsAreReadAndWrittenAsTimeDoes(t *testing.T) {
	f := func(s Stamp) {
		t.Helper()
		want := s.Time().Format(layout)
		if got := string(s.append(nil)); got != want {
			t.Errorf("%d is written %s, want %s", s, got, want)
		}
		if got, ok := ParseStamp(want); got != s || !ok {
			t.Errorf("%s is read as %d, %v; want %d", want, got, ok, s)
		}
	}
	const day = 24 * 3600 * 1000
	for s := Stamp(0); s <= maxStamp; s += day {
		if got, ok := ParseStamp(s.Time().Format(layout)); got != s || !ok {
			t.Fatalf("day %s is read as %d, %v; want %d", s.Time(), got, ok, s)
		}
	}
	f(0)
	f(maxStamp)
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		f(Stamp(random.Int64N(int64(maxStamp))))
	}
}

func TestParseStamp(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		at, ok := ParseStamp(text)
		if got := RFC3339(at).String(); !ok || got != want {
			t.Errorf("%s is read as %s, %v; want %s", text, got, ok, want)
		}
	}
	f("2026-11-20T14:00:00Z", "2026-11-20T14:00:00.000Z")
	f("2026-11-20T14:00:00.1Z", "2026-11-20T14:00:00.100Z")
	f("2026-11-20T14:00:00.123456789Z", "2026-11-20T14:00:00.123Z")
	f("2026-11-20T14:00:00.999999999+05:30", "2026-11-20T08:30:00.999Z")
	f("2026-12-31T23:00:00-01:30", "2027-01-01T00:30:00.000Z")
	f("2024-02-29T00:00:00-00:00", "2024-02-29T00:00:00.000Z")
	f("1970-01-01T01:00:00+01:00", "1970-01-01T00:00:00.000Z")

	refused := func(text string) {
		t.Helper()
		if at, ok := ParseStamp(text); ok {
			t.Errorf("%q is read as %s", text, RFC3339(at))
		}
	}
	refused("")
	refused("2026-11-20")
	refused("2026-11-20 14:00:00Z")
	refused("2026-11-20t14:00:00z")
	refused("2026-11-20T14:00:00")
	refused("2026-11-20T14:00:00.Z")
	refused("2026-11-20T14:00:00,5Z")
	refused("2026-11-20T14:00:00.1234567890Z")
	refused("2026-11-20T14:00:00+0100")
	refused("2026-11-20T14:00:00+24:00")
	refused("2026-11-20T14:00:00+01:60")
	refused("2026-11-20T24:00:00Z")
	refused("2026-11-20T14:60:00Z")
	refused("2026-11-20T14:00:60Z")
	refused("2026-13-20T14:00:00Z")
	refused("2026-00-20T14:00:00Z")
	refused("2026-04-31T14:00:00Z")
	refused("2025-02-29T14:00:00Z")
	refused("2100-02-29T14:00:00Z")
	refused("2026-11-00T14:00:00Z")
	refused("1969-12-31T23:59:59.999Z")
	refused("9999-12-31T23:59:59-00:01")
	refused("2026-11-20T14:00:00ZZ")
	refused("2O26-11-20T14:00:00Z")
}

// FuzzParseStamp holds ParseStamp against the standard library's reader.
func FuzzParseStamp(f *testing.F) {
	f.Add("2026-11-20T14:00:00.25+05:30")
	f.Add("2024-02-29T23:59:59-00:00")
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := ParseStamp(text)
		want, err := time.Parse(time.RFC3339Nano, text)
		if ok && (err != nil || StampOf(want) != got) {
			t.Errorf("%q is read as %s, by the standard library as %s, %v", text, RFC3339(got), want, err)
		}
	})
}

func TestDurationText(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", time.Hour: "1h", 90 * time.Minute: "1h30m", 45 * time.Second: "45s", 90 * time.Second: "1m30s", 10 * time.Minute: "10m",
		time.Hour + 5*time.Second: "1h0m5s", 100 * time.Hour: "100h", -time.Minute: "-1m"} {
		if got := DurationText(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
