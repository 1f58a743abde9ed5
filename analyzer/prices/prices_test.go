package prices

import (
	"math"
	"testing"

	"weir/events"
)

// TestFind holds in which names a model is looked for.
func TestFind(t *testing.T) {
	table := Table{{"gpt-x", Plain(1, 1)}, {"p/gpt-x", Plain(2, 2)}, {"p/m", Plain(3, 3)}, {"p/m-1", Plain(4, 4)}}
	table.Sort()
	for _, x := range []struct {
		provider, model string
		want            int64
	}{
		{"p", "gpt-x", 1}, {"p", "m", 3}, {"p", "m-1", 4}, {"", "m", 0}, {"p", "m-2", 0}, {"p", "", 0}, {"q", "m", 0}, {"", "p/m", 3},
		{"", "gpt-x-20260806", 1}, {"", "gpt-x-2026-08-06", 1}, {"", "gpt-x-2026-8-6", 0}, {"", "gpt-x-mini", 0}, {"", "-20260806", 0}, {"", "gpt", 0},
	} {
		p, ok := table.Find(x.provider, x.model)
		if ok != (x.want != 0) || ok && p.Input != x.want {
			t.Errorf("%s %s: %v %v, want %d", x.provider, x.model, p, ok, x.want)
		}
	}
}

// TestSplit holds how the kinds of tokens are separated where formats disagree.
func TestSplit(t *testing.T) {
	f := func(provider string, u events.Usage, want Tokens) {
		t.Helper()
		if got := split(&events.Event{Provider: provider, Usage: u}); got != want {
			t.Errorf("%s %+v: %+v, want %+v", provider, u, got, want)
		}
	}
	f("", events.Usage{Total: 9}, Tokens{Input: 9})
	f("", events.Usage{Input: 10, Output: 5, CacheRead: 4, Reasoning: 3}, Tokens{Input: 6, Output: 2, CacheRead: 4, Reasoning: 3})
	// A part larger than the whole is counted beside it.
	f("", events.Usage{Input: 10, Output: 5, CacheRead: 11, Reasoning: 6}, Tokens{Input: 10, Output: 5, CacheRead: 11, Reasoning: 6})
	f("anthropic", events.Usage{Input: 10, Output: 5, CacheRead: 4}, Tokens{Input: 10, Output: 5, CacheRead: 4})
	f("anthropic", events.Usage{Input: 10, Output: 5, CacheRead: 4, CacheInInput: events.Yes}, Tokens{Input: 6, Output: 5, CacheRead: 4})
	f("openai", events.Usage{Input: 10, Output: 5, CacheRead: 4, Total: 15, CacheInInput: events.No}, Tokens{Input: 10, Output: 5, CacheRead: 4})
	f("anthropic", events.Usage{Input: 10, Output: 5, CacheCreation: 4, CacheHour: 3}, Tokens{Input: 10, Output: 5, CacheWrite: 1, CacheHour: 3})
	f("anthropic", events.Usage{Input: 10, CacheCreation: 4, CacheHour: 9}, Tokens{Input: 10, CacheHour: 4}) // a part is no more than the whole
	f("", events.Usage{Input: 10, CacheCreation: 4, CacheHour: 3}, Tokens{Input: 6, CacheWrite: 1, CacheHour: 3})
	// A gateway that converts to another form says so by the total.
	f("anthropic", events.Usage{Input: 10, Output: 5, CacheRead: 4, Total: 15}, Tokens{Input: 6, Output: 5, CacheRead: 4})
	f("google", events.Usage{Input: 10, Output: 5, CacheRead: 4, Reasoning: 3, Total: 18}, Tokens{Input: 6, Output: 5, CacheRead: 4, Reasoning: 3})
	f("google", events.Usage{Input: 10, Output: 5, Reasoning: 3, Total: 15}, Tokens{Input: 10, Output: 2, Reasoning: 3})
	f("google", events.Usage{Input: 10, Output: 5, Reasoning: 3}, Tokens{Input: 10, Output: 5, Reasoning: 3})
}

// TestBatch holds that in a batch the cache and reasoning cost as much less as input and output do.
func TestBatch(t *testing.T) {
	table := Table{{"half", Price{Input: 2e6, Output: 8e6, CacheRead: 1e6, CacheWrite: 3e6, Reasoning: 4e6, BatchInput: 1e6, BatchOutput: 4e6}}, {"plain", Plain(2e6, 8e6)}, {"zero", Price{BatchInput: 1e6, Reasoning: 5}}}
	f := func(model string, u events.Usage, want int64) {
		t.Helper()
		u.Batch = true
		if got, ok := table.Cost(&events.Event{Model: model, Provider: "openai", Usage: u}); !ok || got != want {
			t.Errorf("%s %+v: %d %v, want %d", model, u, got, ok, want)
		}
	}
	u := events.Usage{Input: 10, CacheRead: 4, CacheCreation: 2, Output: 6, Reasoning: 5}
	f("half", u, 4*1+4*1/2+2*3/2+1*4+5*2)
	f("plain", u, 10*2+6*8)
	f("zero", u, 4)
}

// TestCost holds the rounding, and that what does not fit becomes the greatest number.
func TestCost(t *testing.T) {
	table := Table{{"m", Plain(500_000, 1)}, {"most", Plain(Most, Most)}}
	f := func(model string, in, want int64) {
		t.Helper()
		if got, ok := table.Cost(&events.Event{Model: model, Usage: events.Usage{Input: in}}); !ok || got != want {
			t.Errorf("%d of %s: %d %v, want %d", in, model, got, ok, want)
		}
	}
	f("m", 1, 1)
	f("m", 2, 1)
	f("m", 3, 2)
	hour := Table{{"h", Price{Input: 2e6, CacheWrite: 3e6, CacheHour: 4e6, BatchInput: 1e6}}, {"n", Price{Input: 2e6, CacheWrite: 3e6}}}
	for model, want := range map[string]int64{"h": 10*2 + 2*3 + 5*4, "n": 10*2 + 7*3} {
		ev := events.Event{Model: model, Provider: "anthropic", Usage: events.Usage{Input: 10, CacheCreation: 7, CacheHour: 5}}
		if got, _ := hour.Cost(&ev); got != want {
			t.Errorf("%s: %d, want %d", model, got, want)
		}
	}
	f("most", 1, 1_000_000)
	f("most", math.MaxInt64/2, math.MaxInt64)
	ev := events.Event{Model: "m", Usage: events.Usage{Input: 1000}}
	for grown, want := range map[int64]int64{0: 0, 1: 1, 3: 2, 1000: 500, 2000: 500} {
		if got, _ := table.Growth(&ev, grown, 1000); got != want {
			t.Errorf("growth of %d: %d, want %d", grown, got, want)
		}
	}
}
