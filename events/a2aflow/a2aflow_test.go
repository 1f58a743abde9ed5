package a2aflow

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"
	"time"

	"weir/events"
)

// conformanceCase is a row of testdata/cases.json.
type conformanceCase struct {
	Name        string             `json:"name"`
	Metadata    map[string]any     `json:"metadata"`
	Card        *int64             `json:"card"` // max_hops of the receiver's card
	Remaining   []events.Remaining `json:"remaining"`
	Want        map[string]any     `json:"want"` // as Value writes it; null for none
	Refused     Refusal            `json:"refused"`
	Next        map[string]any     `json:"next"` // for a message that is sent on
	NextRefused Refusal            `json:"next_refused"`
}

// caseTime is now in all cases.
var caseTime = time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)

// written is a Hop as its JSON.
func written(t *testing.T, h *Hop) (value map[string]any) {
	t.Helper()
	text, err := json.Marshal(h.Value())
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestCases(t *testing.T) {
	text, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []conformanceCase
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		h, ok := FromMetadata(c.Metadata)
		if ok != (c.Want != nil) {
			t.Errorf("%s: read %v", c.Name, ok)
			continue
		}
		if !ok {
			continue
		}
		if got := written(t, &h); !reflect.DeepEqual(got, c.Want) {
			t.Errorf("%s: read %v, want %v", c.Name, got, c.Want)
		}
		if got := h.Refused(caseTime); got != c.Refused {
			t.Errorf("%s: refused by %q, want %q", c.Name, got, c.Refused)
		}
		card := int64(-1)
		if c.Card != nil {
			card = *c.Card
		}
		next, refusal := h.Next(c.Remaining, card, caseTime)
		if refusal != c.NextRefused {
			t.Errorf("%s: the next message is refused by %q, want %q", c.Name, refusal, c.NextRefused)
		}
		if c.Next == nil {
			continue
		}
		sent := map[string]any{}
		next.Put(sent)
		if got := written(t, &next); !reflect.DeepEqual(got, c.Next) || sent[URI] == nil {
			t.Errorf("%s: the next message says %v, want %v", c.Name, got, c.Next)
		}
	}
}
