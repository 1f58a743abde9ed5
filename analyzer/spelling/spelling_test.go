package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	f := func(word, want string) {
		t.Helper()
		if got := Nearest(word, []string{"otel", "otlp", "replay", "run", "rules", "limits", "flows", "max_total_calls"}); got != want {
			t.Errorf("%s: got %q, want %q", word, got, want)
		}
	}
	f("rpelay", "replay")
	f("limit", "limits")
	f("rn", "run")
	f("flwos", "flows")
	f("otpl", "otlp")
	f("MaxTotalCalls", "max_total_calls")
	f("max-total-call", "max_total_calls")
	f("kafka", "")
	f("x", "")
	f(strings.Repeat("x", 65), "")
}

func TestSame(t *testing.T) {
	if !Same("max_total-calls", "MaxTotalCalls") || Same("a", "b") {
		t.Error("Same does not fold case and separators alone")
	}
}
