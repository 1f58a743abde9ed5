package life

import (
	"fmt"
	"strings"
	"testing"

	"weir/events"
)

// TestTable holds the table to what its states mean.
func TestTable(t *testing.T) {
	for s := range states {
		for e := range happenings {
			next, ok := Next(s, e)
			if stops := s == Active || s == Confirmed; ok && e == Confirm && !stops {
				t.Errorf("%v is confirmed", s)
			} else if e == Give && ok == stops {
				t.Errorf("%v: give is %v", s, ok)
			}
			if (e == Renew || e == Widen) && ok && next != Active {
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
		var o Order
		now, got := events.Stamp(1), ""
		for word := range strings.FieldsSeq(text) {
			name, n := word[:len(word)-1], int64(word[len(word)-1]-'0')
			v := &events.Verdict{ID: fmt.Sprint("x-", n), Revision: n, Action: events.Halt, Scope: events.Scope{Kind: events.ScopeAgent, ID: "a"}, ExpiresAt: events.RFC3339(now + 10)}
			var err error
			switch name {
			case "wai":
				now += 10
				err = o.Pass(now)
			case "confirm":
				err = o.Confirm(v.ID, now)
			case "allow":
				v.Action = events.Allow
				err = o.Take(v, now)
			case "wide":
				v.Scope = events.Scope{Kind: events.ScopeAll}
				err = o.Take(v, now)
			default:
				err = o.Take(v, now)
			}
			if err != nil {
				got = "error: " + err.Error()
				break
			}
		}
		if got == "" {
			got = o.State.String()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
