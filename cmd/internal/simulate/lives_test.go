package simulate

import (
	"fmt"
	"strings"
	"testing"

	"weir/events"
)

// TestTableOfLives holds the table to what its states mean.
func TestTableOfLives(t *testing.T) {
	for s := range lifeStates {
		for e := range lifeEvents {
			next, ok := nextState(s, e)
			if stops := s == active || s == confirmed; ok && e == confirm && !stops {
				t.Errorf("%v is confirmed", s)
			} else if e == give && ok == stops {
				t.Errorf("%v: give is %v", s, ok)
			}
			if (e == renew || e == widen) && ok && next != active {
				t.Errorf("%v: %v needs no confirmation", s, e)
			}
		}
	}
}

// TestLives follows orders by their records. A word is a record: its action and revision.
func TestLives(t *testing.T) {
	for text, want := range map[string]string{
		"halt1":                   "active",
		"halt1 halt2":             "active",
		"halt1 confirm1":          "confirmed",
		"halt1 confirm1 halt2":    "active",
		"halt1 halt2 confirm1":    "error: confirm of x-1, which is not the newest record",
		"halt1 allow2":            "lifted",
		"halt1 allow2 confirm2":   "lifted",
		"allow1":                  "error: lift of an order that is none",
		"halt1 allow2 allow3":     "error: lift of an order that is lifted",
		"halt2 halt1":             "error: revision 1 after 2",
		"halt1 wait":              "expired",
		"halt1 wait halt2":        "active",
		"halt1 wait confirm1":     "error: confirm of an order that is expired",
		"halt1 wide2 confirm2":    "confirmed",
		"halt1 allow2 halt3 wait": "expired",
	} {
		var o orderLife
		now, got := events.Stamp(1), ""
		for word := range strings.FieldsSeq(text) {
			name, n := word[:len(word)-1], int64(word[len(word)-1]-'0')
			v := &events.Verdict{ID: fmt.Sprint("x-", n), Revision: n, Action: events.Halt, Scope: events.Scope{Kind: events.ScopeAgent, ID: "a"}, ExpiresAt: events.RFC3339(now + 10)}
			var err error
			switch name {
			case "wai":
				now += 10
				err = o.pass(now)
			case "confirm":
				err = o.confirm(v.ID, now)
			case "allow":
				v.Action = events.Allow
				err = o.take(v, now)
			case "wide":
				v.Scope = events.Scope{Kind: events.ScopeAll}
				err = o.take(v, now)
			default:
				err = o.take(v, now)
			}
			if err != nil {
				got = "error: " + err.Error()
				break
			}
		}
		if got == "" {
			got = o.state.String()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
