package limitfile

import (
	"reflect"
	"strings"
	"testing"

	"weir/analyzer/prices"
)

// TestPricesInTheLog holds that limits with prices come back from the log as they went in, so that
// a replay prices as the running weir did.
func TestPricesInTheLog(t *testing.T) {
	l, err := Parse("l", []byte("profile: balanced\nprices:\n  m-2: {input: 3, output: 15, cache_read: 0.3, cache_write: 3.75, batch_input: 1.5}\n  m-1: {input: 0.000001, output: 0}\n"))
	if err != nil {
		t.Fatal(err)
	}
	plain := Default()
	if l.Version == plain.Version {
		t.Error("limits with and without prices have the same version")
	}
	want := prices.Table{{Name: "m-1", Price: prices.Price{Input: 1, CacheRead: 1, CacheWrite: 1, BatchInput: 1}},
		{Name: "m-2", Price: prices.Price{Input: 3_000_000, Output: 15_000_000, CacheRead: 300_000, CacheWrite: 3_750_000, Reasoning: 15_000_000, BatchInput: 1_500_000, BatchOutput: 15_000_000}}}
	if !reflect.DeepEqual(l.Prices, want) {
		t.Errorf("read %+v, want %+v", l.Prices, want)
	}
	listed := WithPrices(l, prices.Table{{Name: "m-0", Price: prices.Plain(7, 8)}, {Name: "m-1", Price: prices.Plain(9, 9)}})
	if len(listed.Prices) != 3 || listed.Prices[0].Name != "m-0" || listed.Prices[1] != want[0] || listed.Version == l.Version {
		t.Errorf("with a list: %+v", listed.Prices)
	}
	for _, x := range []struct {
		name string
		read func() (any, error)
	}{
		{"FormatJSON", func() (any, error) { return ParseJSON("log", FormatJSON(listed)) }},
		{"Format", func() (any, error) { return Parse("file", Format(listed)) }},
	} {
		got, err := x.read()
		if err != nil || !reflect.DeepEqual(got, any(listed)) {
			t.Errorf("%s: %v\n%+v\nwant\n%+v", x.name, err, got, listed)
		}
	}
}

// TestPricesRefused holds that what is no price is refused, by its key.
func TestPricesRefused(t *testing.T) {
	for text, want := range map[string]string{
		"prices: {m: {input: 3}}":                            "prices.m.output: is missing",
		"prices: {m: 3}":                                     "prices.m: want a mapping",
		"prices: {m: {input: off, output: 1}}":               "prices.m.input: want",
		"prices: {m: {input: 1000001, output: 1}}":           "prices.m.input: want 0 to 1000000",
		"prices: {m: {input: -1, output: 1}}":                "prices.m.input: want",
		"prices: {m: {input: 1, output: 1, cached_read: 1}}": "prices.m.cached_read",
	} {
		if _, err := Parse("l", []byte("profile: none\n"+text+"\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
