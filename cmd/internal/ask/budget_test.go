package ask_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/clock"
	"weir/events"
	"weir/sink/check"
	"weir/sink/guard"
	"weir/state"
)

// sixLines is a limits file with a budget of fifty dollars a day for each team. No call costs more
// than is reserved for it.
const sixLines = `budgets:
- name: team-day
  scope: team
  window: day
  hard: 50
  reserve: 0.02
`

const (
	budgetMicros  = 50_000_000
	reserveMicros = 20_000
)

// newMarket returns a program with the limits of a file.
func newMarket(t *testing.T, file string) *grove {
	t.Helper()
	g := newGrove(t)
	l, err := limitfile.Parse("limits.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	g.limits = l
	return g
}

// bill is the n-th call, of one of a thousand flows of a team, and what follows when it was made: what
// the model cost and the result of the tool.
func bill(n int) (asked, model, result *events.Event, micros int64) {
	at := events.StampOf(clock.NewFake().Now()) + events.Stamp(n)
	of := func(kind events.Kind, what string) *events.Event {
		ev := &events.Event{ID: fmt.Sprint(what, "-", n), Source: "market", Kind: kind, Time: at, CorrelationID: fmt.Sprint("flow-", n%groveFlows),
			TeamID: "payments", From: events.Party{Session: "worker"}}
		if kind != events.LLMCall {
			ev.Tool.Name, ev.Tool.CallID, ev.Tool.ArgsHash = "search", fmt.Sprint("c", n), events.Hash{Algorithm: events.XXH64, Value: uint64(n) + 1}
		}
		return ev
	}
	asked, model, result = of(events.ToolCall, "call"), of(events.LLMCall, "model"), of(events.ToolResult, "result")
	micros = reserveMicros - int64(n%7)*1000
	model.Usage = events.Usage{Known: true, Input: 1, Total: 1, CostMicroUSD: micros}
	result.Status, result.Content = events.StatusOK, asked.Tool.ArgsHash
	return asked, model, result, micros
}

// account is what the account of the team says.
func (g *grove) account(key string) (spent, reserved float64) {
	g.t.Helper()
	v, ok, err := g.now().agents.AgentView(key)
	if err != nil || !ok || v.Budget == nil {
		g.t.Fatal(ok, err)
	}
	return v.Budget.Spent, v.Budget.Reserved
}

// checkedCall asks until the call is answered, whatever processes are killed meanwhile, and reports
// whether it may be made.
func (g *grove) checkedCall(ev *events.Event) bool {
	v := g.answered(ev)
	return v != nil && !check.Refuses(v)
}

// answered asks until the call is answered, and returns the answer.
func (g *grove) answered(ev *events.Event) *events.Verdict {
	ev.Ask = true
	for {
		x, born := g.nowAndNext()
		q := check.Request{Context: x.ctx, Event: ev, Raw: ev.AppendJSON(nil)}
		x.checks.Check([]*check.Request{&q})
		v, err := q.Answer()
		if errors.Is(err, errKilled) {
			<-born
			continue
		}
		if err != nil {
			g.t.Error(err)
			return nil
		}
		return v
	}
}

// TestHoldsOfBudgetsSayWhatWaitingCosts has a call wait for a person because of a budget over flows, and because
// of a tree: the answer says what the cache forgets meanwhile, by the caches of the flow. Nothing else says it.
func TestHoldsOfBudgetsSayWhatWaitingCosts(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]string{
		"a budget":                    "budgets:\n- {name: day, scope: team, measure: calls, window: day, hard: 1, action: hold}\n",
		"a budget that refuses":       "budgets:\n- {name: day, scope: team, measure: calls, window: day, hard: 1}\n",
		"a tree":                      "rules:\n  max_tree_calls: {max: 1, action: hold}\n",
		"a tree that nobody asks for": "rules:\n  max_tree_calls: {max: 1}\n",
	} {
		g := newMarket(t, limits+"prices: {m: {input: 3, output: 15, cache_read: 0.3, cache_write: 3.75}}\n")
		g.start()
		asked, model, _, _ := bill(1)
		second, _, _, _ := bill(1 + groveFlows) // of the same flow
		model.Provider, model.Model, model.Usage = "anthropic", "m", events.Usage{Known: true, Input: 10, Output: 10, CacheRead: 130_000, CacheCreation: 10_000}
		for _, ev := range []*events.Event{asked, model, second} {
			ev.RootCorrelationID = ev.CorrelationID
		}
		if err := g.Append(t.Context(), []state.Entry{{Value: model.AppendJSON(nil)}}); err != nil {
			t.Fatal(err)
		}
		if v := g.answered(asked); v == nil || check.Refuses(v) || v.Waiting != nil {
			t.Errorf("%s: the first call: %+v", name, v)
		}
		v := g.answered(second)
		if v == nil || !check.Refuses(v) {
			t.Fatalf("%s: the second call: %+v", name, v)
		}
		if strings.Contains(v.Message, "..") {
			t.Errorf("%s: %s", name, v.Message)
		}
		says := strings.Contains(v.Message, "the next call costs about $0.48 more, because 140,000 cached tokens are written again.")
		want := name == "a budget" || name == "a tree"
		if says != want || (v.Waiting != nil) != want || want && (v.Waiting.Tokens != 140_000 || v.Waiting.CostUSD != 0.483) {
			t.Errorf("%s: %s by %q with %+v; want the cost of waiting: %v", name, v.Action, v.Message, v.Waiting, want)
		}
		g.caughtUp()
		g.now().end(nil)
		g.now().work.Wait()
	}
}

// TestBudgetOfATeam has 16 callers make calls in 1,000 flows of a team over 64 partitions: each is
// checked, then what it cost and its result are reported. Whether the program is killed five times
// meanwhile or not, no more is spent than the budget, nothing that was spent is lost, and a replay
// says the same, byte for byte.
func TestBudgetOfATeam(t *testing.T) {
	t.Parallel()
	enough := int64(4000) // refusals
	if testing.Short() {
		enough = 400
	}
	for _, kills := range [][]int64{nil, {300, 700, 1200, 1800, 2400}} {
		g := newMarket(t, sixLines)
		g.start()
		var next, allowed, refused, spent atomic.Int64
		var work sync.WaitGroup
		for range callers {
			work.Go(func() {
				// A program that refuses nothing is wrong long before the memory is full.
				for refused.Load() < enough && spent.Load() < 2*budgetMicros && next.Load() < 100_000 {
					asked, model, result, micros := bill(int(next.Add(1)))
					if !g.checkedCall(asked) {
						// Before, it waits for calls that were made and hold more than they cost.
						if spent.Load() >= budgetMicros-reserveMicros {
							refused.Add(1)
						}
						continue
					}
					spent.Add(micros)
					for _, ev := range []*events.Event{model, result} {
						if err := g.Append(t.Context(), []state.Entry{{Value: ev.AppendJSON(nil)}}); err != nil {
							t.Error(err)
						}
					}
					allowed.Add(1)
				}
			})
		}
		done := make(chan struct{})
		go func() { work.Wait(); close(done) }()
		for i, at := range kills {
			for allowed.Load() < at {
				select {
				case <-g.activity.Ready(g.activity.End()):
				case <-done:
					t.Fatalf("only %d calls are allowed", allowed.Load())
				}
			}
			g.clock.Advance(10 * time.Second) // so that the next batch takes a checkpoint
			g.kill(i%2 == 1)
		}
		<-done
		g.caughtUp()
		is, reserved := g.account("budget:team-day:payments")
		if spent.Load() > budgetMicros || spent.Load() < budgetMicros-reserveMicros || is != float64(spent.Load())/1e6 || reserved != 0 {
			t.Errorf("%d kills: %d calls cost %d of %d micro-dollars; the account says %v, and %v reserved", len(kills), allowed.Load(), spent.Load(), budgetMicros, is, reserved)
		}
		g.kill(false)
		repeated := g.sameAsReplay()
		t.Logf("%d kills: %d calls allowed, %d refused, $%.6f of $50 spent; %d records of activity repeated", len(kills), allowed.Load(), refused.Load(), float64(spent.Load())/1e6, repeated)
		g.now().end(nil)
		g.now().work.Wait()
	}
}

// until waits until something is so, which it looks at after each batch of a stage.
func (g *grove) until(so func() bool) {
	for {
		end := g.folded.End()
		if so() {
			return
		}
		<-g.folded.Ready(end)
	}
}

// caughtUp waits until both stages have folded all that was appended.
func (g *grove) caughtUp() {
	for i := range groveParts {
		g.until(func() bool { return g.now().pumps[i].Next() >= g.log[i].End() })
	}
	g.until(func() bool { return g.now().agents.Next() >= g.activity.End() })
}

// TestBudgetByStream has callers that only look at the orders that were published. Said beforehand:
// what leaks is what was on its way when the order was published and one call for each caller; where
// dispatchers do not know the scope, as of a team, one call for each flow as well, whose report brings
// the block of that flow.
func TestBudgetByStream(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		scope   string
		perFlow int64
	}{{"tenant", 0}, {"team", groveFlows}} {
		g := newMarket(t, fmt.Sprintf("budgets:\n- name: day\n  scope: %s\n  measure: calls\n  window: day\n  hard: %d\n", x.scope, groveLimit))
		g.start()
		var next, stopped atomic.Int64
		var work sync.WaitGroup
		for range callers {
			work.Go(func() {
				var table guard.Table
				read := int64(0)
				for stopped.Load() < 3*groveFlows && g.made.Load() < 4*groveLimit { // the bound is far below
					entries, _ := g.out[groveParts].Read(read, 100_000, nil)
					for i := range entries {
						v := new(events.Verdict)
						if err := events.DecodeVerdict(entries[i].Value, v); err != nil {
							t.Error(err)
						}
						table.Take(v)
					}
					read += int64(len(entries))
					ev, _, _, _ := bill(int(next.Add(1)))
					ev.TenantID = "bank"
					c, _ := guard.CallOf(ev)
					if table.Refusing(&c, ev.Time) != nil {
						stopped.Add(1)
						continue
					}
					if err := g.Append(t.Context(), []state.Entry{{Value: ev.AppendJSON(nil)}}); err != nil {
						t.Error(err)
					}
					g.made.Add(1)
					g.waitFor(ev)
				}
			})
		}
		work.Wait()
		made, bound := g.made.Load(), g.told.Load()+callers+x.perFlow
		if made < groveLimit || made > bound {
			t.Errorf("by %s %d calls were made; at most %d", x.scope, made, bound)
		}
		t.Logf("by %s %d calls were made, %d beyond the budget; the bound was %d", x.scope, made, made-groveLimit, bound-groveLimit)
		g.caughtUp()
		g.kill(false)
		g.sameAsReplay()
		g.now().end(nil)
		g.now().work.Wait()
	}
}

// waitFor waits until the event was folded by both stages, as a caller does whose calls take longer.
func (g *grove) waitFor(ev *events.Event) {
	p, end := g.now().pumps[part(ev)], g.log[part(ev)].End()
	g.until(func() bool { return p.Next() >= end })
	end = g.activity.End()
	g.until(func() bool { return g.now().agents.Next() >= end })
}
