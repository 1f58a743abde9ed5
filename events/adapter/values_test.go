package adapter_test

import (
	"slices"
	"strings"
	"testing"

	"weir/events/adapter"
	"weir/events/adapter/claudecode"

	"weir/events"
)

func TestValues(t *testing.T) {
	f := func(record string, want ...string) {
		t.Helper()
		var got []string
		for rest := record; rest != ""; {
			n := adapter.ValueEnd([]byte(rest))
			got = append(got, rest[:n])
			rest = strings.TrimLeft(rest[n:], " \t\r\n")
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", record, got, want)
		}
	}
	f("")
	f(`{"a":1}`, `{"a":1}`)
	f(`{"a":"}{"}{"b":[1]} [2]`, `{"a":"}{"}`, `{"b":[1]}`, `[2]`)
	f(`{"a":1}{"b":`, `{"a":1}`, `{"b":`)
	f(`{"a":1} x`, `{"a":1}`, `x`)
	f(`"x"`, `"x"`)
}

// TestTwoLinesInOne holds that nothing of a transcript is lost where two processes wrote to it
// at one time.
func TestTwoLinesInOne(t *testing.T) {
	line := func(id string) string {
		return `{"type":"user","sessionId":"s","uuid":"` + id + `","parentUuid":null,"timestamp":"2026-08-01T04:00:00Z","message":{"role":"user","content":"` + id + `"}}`
	}
	f := func(record string, users int, fails bool) {
		t.Helper()
		a, n := claudecode.Format().New(adapter.Options{}), 0
		err := a.Decode([]byte(record), func(e *events.Event) { n++ })
		if n != users || (err != nil) != fails {
			t.Errorf("%q: %d messages and %v, want %d and an error: %v", record, n, err, users, fails)
		}
	}
	f(line("a")+line("b"), 2, false)
	f(line("a")+strings.TrimSuffix(line("b"), "}"), 1, true)
}
