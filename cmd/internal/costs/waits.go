package costs

import (
	"cmp"

	"weir/analyzer/prices"
	"weir/events"
)

// Rewritten is what model calls wrote to a prompt cache again because it had forgotten them. The wait
// may have been for a person, who decides about a hold, for a user, or for a tool.
type Rewritten struct {
	Calls    int64 `json:"calls"`
	Tokens   int64 `json:"tokens"`
	MicroUSD int64 `json:"micro_usd"` // more than from the cache; without models that have no price
}

// mostWaiting is how many parties Waits follows. Those that come when there are as many are not followed.
const mostWaiting = 1 << 20

// Waits follows the prompt caches of the parties of all flows. It is for one goroutine.
type Waits struct {
	caches map[string]prices.Cache // by flow and party
	sum    Rewritten
}

// Note enters a model call; other events are ignored. counts says whether what it wrote again is added.
func (w *Waits) Note(t prices.Table, ev *events.Event, counts bool) {
	if ev.Kind != events.LLMCall || !ev.Usage.Known || ev.Usage.Scope != events.UsageDelta {
		return
	}
	key := ev.FlowKey() + "\x00" + cmp.Or(ev.From.Session, ev.From.Agent)
	had, known := w.caches[key]
	if tokens, cost := had.Rewritten(t, ev, ev.Time); tokens > 0 && counts {
		w.sum.Calls, w.sum.Tokens, w.sum.MicroUSD = w.sum.Calls+1, w.sum.Tokens+tokens, w.sum.MicroUSD+cost
	}
	now := t.CacheAfter(ev, ev.Time)
	switch {
	case known && now.Tokens == 0:
		delete(w.caches, key)
	case now.Tokens > 0 && (known || len(w.caches) < mostWaiting):
		if w.caches == nil {
			w.caches = map[string]prices.Cache{}
		}
		w.caches[key] = now
	}
}

// Sum returns what was written again.
func (w *Waits) Sum() Rewritten { return w.sum }
