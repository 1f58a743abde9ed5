package costs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/analyzer/prices"
	"weir/events"
)

// TestUnpriced holds that models without a price are named with what is missing, and no others.
func TestUnpriced(t *testing.T) {
	t.Parallel()
	table := prices.Table{{Name: "known", Price: prices.Plain(1, 1)}}
	u := NewUnpriced(3)
	note := func(kind events.Kind, model string, tokens, cost int64) {
		ev := events.Event{Kind: kind, Provider: "p", Model: model, Usage: events.Usage{Known: tokens > 0, Input: tokens, CostMicroUSD: cost}}
		u.Note(table, &ev, By(table, &ev, 0, tokens, cost))
	}
	note(events.LLMCall, "own", 100, 0)
	note(events.LLMCall, "own", 50, 0)
	note(events.LLMCall, "silent", 0, 0)
	note(events.LLMCall, "known", 100, 0)
	note(events.LLMCall, "known", 0, 0)
	note(events.LLMCall, "reported", 100, 7)
	note(events.LLMCall, "", 0, 0)      // its usage may come with another event
	note(events.AgentCall, "own", 0, 0) // calls no model
	failed := events.Event{Kind: events.LLMCall, Model: "failed", Status: events.StatusError}
	u.Note(table, &failed, By(table, &failed, 0, 0, 0))
	want := []UnpricedModel{{"p", "own", 2, 150}, {"p", "silent", 1, 0}}
	if got := u.List(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	// The request and the usage of it come with two events: one call.
	note(events.AgentReturn, "silent", 30, 0)
	note(events.AgentReturn, "", 5, 0)
	note(events.LLMCall, "one too many", 3, 0)
	note(events.LLMCall, "two too many", 4, 0)
	want = []UnpricedModel{{"p", "own", 2, 150}, {"p", "silent", 1, 30}, {"p", "", 1, 5}, {"", Others, 2, 7}}
	if got := u.List(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestUnpricedIsBounded holds that senders choose neither the length of the list nor that of a name.
func TestUnpricedIsBounded(t *testing.T) {
	t.Parallel()
	u := NewUnpriced(MostUnpriced)
	for i := range 2 * MostUnpriced {
		ev := events.Event{Kind: events.LLMCall, Model: fmt.Sprint(i, strings.Repeat("ä", 1000)), Usage: events.Usage{Known: true, Input: 1}}
		u.Note(nil, &ev, By(nil, &ev, 0, 1, 0))
	}
	list, calls := u.List(), int64(0)
	for _, m := range list {
		calls += m.Calls
		if len(m.Model) > modelName+len("…") || !strings.HasSuffix(m.Model, "ä…") && m.Model != Others {
			t.Errorf("%q", m.Model)
		}
	}
	if len(list) != shownUnpriced+1 || len(u.models) != MostUnpriced+1 || calls != 2*MostUnpriced {
		t.Errorf("%d lines of %d models with %d calls", len(list), len(u.models), calls)
	}
}
