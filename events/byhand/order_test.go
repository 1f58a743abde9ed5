package byhand

import (
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"weir/events"
)

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"", "", false}, {"*", "", false}, {"*", "x", true}, {"a*", "a", true}, {"a*b", "ab", true}, {"a*b", "axxb", true}, {"a*b", "axxbc", false},
		{"*b*", "abc", true}, {"?", "ä", true}, {"??", "ä", false}, {"a**c", "abc", true}, {"*a*a*a*", "aa", false}, {"*a*a*a*", "xaxaxa", true}, {"a?c*", "abc", true}, {"[a]", "a", false},
	} {
		if got := Glob(c.pattern, c.text); got != c.want {
			t.Errorf("%q fits %q: %v", c.pattern, c.text, got)
		}
	}
	// Of texts without what it knows more of, path.Match is the same.
	r := rand.New(rand.NewPCG(1, 2))
	word := func(letters string) string {
		var b strings.Builder
		for range r.IntN(8) {
			b.WriteByte(letters[r.IntN(len(letters))])
		}
		return b.String()
	}
	for range 20_000 {
		pattern, text := word("ab*?"), word("ab")
		want, err := path.Match(pattern, text)
		if err != nil {
			t.Fatal(err)
		}
		if got := Glob(pattern, text); got != (want && text != "") {
			t.Fatalf("%q fits %q: %v", pattern, text, got)
		}
		// What one pattern covers, it fits.
		wide := word("ab*")
		if pattern != "" && wide != "" && text != "" && (Scope{events.ScopeTool, wide}).Covers(Scope{events.ScopeTool, pattern}) && Glob(pattern, text) && !Glob(wide, text) {
			t.Fatalf("%q covers %q, and does not fit %q", wide, pattern, text)
		}
	}
}

// TestRecords of orders come back as they were, and their verdicts are read as they were.
func TestRecords(t *testing.T) {
	o := &Order{SchemaVersion: 1, Order: Stop, Scope: Scope{events.ScopeAgent, "bill*"}, Within: []Scope{{events.ScopeTenant, "acme"}}, Except: []Scope{{events.ScopeTool, "ls"}},
		Reason: "a \"test\"", By: "ann", Time: 1, Expires: 7_200_001, Revision: 5, Since: 1}
	got, err := Decode(o.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if string(got.Encode()) != string(o.Encode()) || got.ID() != o.ID() {
		t.Errorf("%s came back as %s", o.Encode(), got.Encode())
	}
	var v events.Verdict
	if err := events.DecodeVerdict(o.Verdict().AppendJSON(nil), &v); err != nil {
		t.Fatal(err)
	}
	if string(v.AppendJSON(nil)) != string(o.Verdict().AppendJSON(nil)) || v.ByHand == nil || v.TTLS != 7200 {
		t.Errorf("the verdict came back as %s", v.AppendJSON(nil))
	}
	release := *o
	release.Order, release.Except = Release, nil
	if release.ID() != o.ID() {
		t.Error("a release has another id than its stop")
	}
	for _, text := range []string{`{`, `{}`, `{"order":"stop","scope":"all","by":"a"}`, `{"order":"stop","scope":"all","reason":"r"}`, `{"order":"go","scope":"all","by":"a","reason":"r"}`,
		`{"order":"stop","scope":"agents:x","by":"a","reason":"r"}`, `{"order":"stop","scope":"all:x","by":"a","reason":"r"}`, `{"order":"stop","scope":"all","by":"a","reason":"r","until":1}`,
		`{"order":"stop","scope":"all","except":["all"],"by":"a","reason":"r"}`, `{"order":"stop","scope":"all","by":"a","reason":"r"}{}`, `{"order":"stop","scope":"tool:\u0000","by":"a","reason":"r"}`} {
		if o, err := Decode([]byte(text)); err == nil {
			t.Errorf("%s is read as %+v", text, o)
		}
	}
}

// TestScopesAreBounded has as many scopes as an order may name, and one more.
func TestScopesAreBounded(t *testing.T) {
	for _, list := range []string{"within", "except"} {
		for _, n := range []int{MaxScopes - 1, MaxScopes, MaxScopes + 1} {
			text := `{"order":"stop","scope":"all","by":"a","reason":"r","` + list + `":["tenant:t0"` + strings.Repeat(`,"tenant:t"`, n-1) + `]}`
			if _, err := Decode([]byte(text)); (err == nil) != (n <= MaxScopes) {
				t.Errorf("%d scopes in %s: %v", n, list, err)
			}
		}
	}
}
