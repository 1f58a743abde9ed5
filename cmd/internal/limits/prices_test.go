package limits

import (
	"testing"

	"weir/analyzer/limitfile"
	"weir/analyzer/prices"
)

// TestPriced holds which limits get the built-in prices, and that a rule in US dollars then counts
// tokens of a model that everybody uses.
func TestPriced(t *testing.T) {
	parse := func(text string) (l, priced struct {
		version string
		models  int
		cost    int64
	}) {
		t.Helper()
		is, err := limitfile.Parse("test", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		p := Priced(is, nil)
		l.version, l.models, priced.version, priced.models = is.Version, len(is.Prices), p.Version, len(p.Prices)
		if found, ok := p.Prices.Find("openai", "gpt-4o-2024-08-06"); ok {
			priced.cost = found.Output
		}
		return l, priced
	}
	for _, text := range []string{"profile: balanced\n", "profile: none\nrules: {max_cost_usd: {max: 5, mode: off}}\n", "profile: none\nrules: {max_total_tokens: {max: 5}}\n"} {
		if l, p := parse(text); l != p {
			t.Errorf("%q counts no US dollars and became %+v", text, p)
		}
	}
	for _, rule := range []string{"max_cost_usd: {max: 5}", "max_cost_usd: {warn: 4, mode: shadow}"} {
		if l, p := parse("profile: none\nrules: {" + rule + "}\n"); p.cost != 10_000_000 || p.version == l.version {
			t.Errorf("%s: %+v", rule, p)
		}
	}
	if _, p := parse("profile: none\nrules: {max_tree_cost_usd: {max: 5}}\n"); p.cost != 10_000_000 {
		t.Errorf("a tree: %+v", p)
	}
	if _, p := parse("profile: none\nrules: {max_cost_usd: {max: 5}}\nprices: {gpt-4o: {input: 1, output: 2}}\n"); p.cost != 2_000_000 {
		t.Errorf("a price of the file: %+v", p)
	}
	l, err := limitfile.Parse("test", []byte("profile: none\nrules: {max_cost_usd: {max: 5}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if given := Priced(l, prices.Table{{Name: "m"}}); len(given.Prices) != 1 {
		t.Errorf("a given table with one model became %d models", len(given.Prices))
	}
}
