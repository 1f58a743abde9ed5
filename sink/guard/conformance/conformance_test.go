package conformance

import (
	"slices"
	"testing"
)

// TestSuite reads all rows. An order that weir cannot be given belongs to a row that guards alone play.
func TestSuite(t *testing.T) {
	decisions, err := Decisions()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range decisions {
		for _, order := range d.Orders {
			if order["correlation_id"] != nil {
				t.Errorf("%s: weir has the orders of a flow in its fold; write a dialogue, or say why the row is local", d.Name)
			}
		}
		if d.Want["stale"] != nil {
			t.Errorf("%s: only a guard is stale; say that the row is local", d.Name)
		}
	}
	byLimits, err := dialogues()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, dialogues := range byLimits {
		for _, d := range dialogues {
			if names[d.Name] {
				t.Errorf("two dialogues are named %q", d.Name)
			}
			names[d.Name] = true
			for _, name := range d.Without {
				if !slices.Contains([]string{"request", "batch", "stream", "go", "python", "typescript"}, name) {
					t.Errorf("%s: no transport is named %q", d.Name, name)
				}
			}
		}
	}
	if len(decisions) == 0 || len(names) == 0 {
		t.Errorf("%d decisions and %d dialogues", len(decisions), len(names))
	}
}

// TestHolds compares answers with what is wanted.
func TestHolds(t *testing.T) {
	got := map[string]any{"action": "deny", "limit": 3.0, "logged": []any{"one x", "two x"}, "message": "by ann", "reason": nil}
	for _, c := range []struct {
		want  map[string]any
		holds bool
	}{
		{map[string]any{}, true},
		{map[string]any{"action": "deny", "limit": 3.0}, true},
		{map[string]any{"action": "allow"}, false},
		{map[string]any{"limit": 4.0}, false},
		{map[string]any{"reason": nil, "none": nil}, true},
		{map[string]any{"action": nil}, false},
		{map[string]any{"limit": map[string]any{"any": true}}, true},
		{map[string]any{"none": map[string]any{"any": true}}, false},
		{map[string]any{"message": map[string]any{"has": "ann"}}, true},
		{map[string]any{"message": map[string]any{"has": "bob"}}, false},
		{map[string]any{"logged": map[string]any{"has": "x", "count": 2.0}}, true},
		{map[string]any{"logged": map[string]any{"has": "x", "count": 1.0}}, false},
	} {
		if Holds(c.want, got) != c.holds {
			t.Errorf("%v: %v, want %v", c.want, !c.holds, c.holds)
		}
	}
}
