package main

import (
	"crypto/sha256"
	"strings"
	"testing"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/pump"
	"weir/events"
)

const noon = events.Stamp(1_795_000_000_000)

// TestTraffic holds that a traffic has the size that was asked for, is the same each
// time, refuses what it planted and makes many rules speak.
func TestTraffic(t *testing.T) {
	f := func(flows int, wantRules int) {
		t.Helper()
		tr := traffic{seed: 7, name: "t", events: 40_000, flows: flows, from: noon, to: noon + 3_600_000, bad: 12, reporters: 10}
		p, err := pump.New(t.Context(), pump.Options{Limits: limitfile.Default()})
		if err != nil {
			t.Fatal(err)
		}
		rules, keys := map[string]int{}, map[string]bool{}
		var sums [2][32]byte
		good, bad, reports, verdicts := 0, 0, 0, 0
		for round := range sums {
			sum := sha256.New()
			var last events.Stamp
			err := tr.each(func(r *record) error {
				sum.Write(r.key)
				sum.Write(r.value)
				if r.at < last || r.at < tr.from || r.at > tr.to {
					t.Fatalf("time %d after %d", r.at, last)
				}
				last = r.at
				if round > 0 {
					return nil
				}
				var ev events.Event
				if err := events.Decode(r.value, &ev); (err != nil) != r.bad {
					t.Fatalf("%s: %v", r.value, err)
				} else if err != nil {
					bad++
					return nil
				}
				if strings.Contains(ev.ID, "-report-") {
					reports++
					return nil
				}
				good++
				ev.Appended = r.at
				keys[string(r.key)] = true
				for _, v := range p.Fold(&ev, int64(good)) {
					rules[v.RuleID]++
					verdicts++
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			sum.Sum(sums[round][:0])
		}
		if sums[0] != sums[1] {
			t.Error("two runs differ")
		}
		if good != tr.events || bad != tr.bad {
			t.Errorf("%d events and %d bad records, want %d and %d", good, bad, tr.events, tr.bad)
		}
		if reports < 10*tr.reporters {
			t.Errorf("%d reports of %d agents", reports, tr.reporters)
		}
		n := 0
		for k := range keys {
			if strings.HasPrefix(k, "t-") {
				n++
			}
		}
		if n != flows {
			t.Errorf("%d flows, want %d", n, flows)
		}
		if len(rules) < wantRules {
			t.Errorf("%d rules speak, want at least %d: %v", len(rules), wantRules, rules)
		}
		t.Logf("%d flows: %d verdicts of %d rules: %v", flows, verdicts, len(rules), rules)
	}
	f(2000, 14) // no_progress stays under an order of the same incident
	f(10_000, 12)
}
