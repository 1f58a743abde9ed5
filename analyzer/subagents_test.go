package analyzer

import "testing"

func TestKindsFitPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, kind string
		want          bool
	}{
		{"Explore", "Explore", true}, {"Explore", "Explorer", false}, {"*", "", true}, {"*", "anything", true},
		{"Explore*", "Explorer", true}, {"*er", "Explorer", true}, {"*er", "err", false}, {"a*b*c", "aXbYc", true}, {"a*b*c", "abc", true},
		{"a*b*c", "acb", false}, {"a*a", "a", false}, {"*x*", "axa", true}, {"**", "a", true}, {"tool:*", "tool:reviewer", true},
	} {
		if got := fits(c.pattern, c.kind); got != c.want {
			t.Errorf("%q fits %q: %v, want %v", c.kind, c.pattern, got, c.want)
		}
	}
}
