package agents

import (
	"testing"
	"time"

	"weir/analyzer/activity"
	"weir/analyzer/standing"
	"weir/events"
)

// halted is an order about the tree that refuses each call from dawn on.
func halted(r RuleID, action events.Action, e *Engine) order {
	o := order{rule: r}
	o.Order = standing.Order{Action: action, Phase: standing.Stop, Limits: e.version, Since: dawn, Begun: dawn, Revision: 7}
	o.Until(dawn, dawn.Add(time.Hour))
	return o
}

// TestHoldThatNobodyDecided holds that the order that a tree shows is the one that was published
// last, also when a hold has become a halt because no person decided.
func TestHoldThatNobodyDecided(t *testing.T) {
	e := New(Balanced(), balancedTerms)
	var (
		a  Agent
		p  Partition
		fx activity.Effects
	)
	a.Reset(activity.TreeKey("top"))
	a.orders = append(a.orders, halted(RuleTreeCalls, events.Hold, e))
	e.orderDue(&a, &a.orders[0], &fx)
	if len(fx.Verdicts) != 1 || fx.Verdicts[0].Action != events.Halt {
		t.Fatalf("%+v, want a halt", fx.Verdicts)
	}
	if shown := e.View(&p, &a).Orders; len(shown) != 1 || shown[0].ID != fx.Verdicts[0].ID {
		t.Errorf("the tree shows %s, want %s, which was published", shown[0].ID, fx.Verdicts[0].ID)
	}
}

// TestBindFlow holds that a flow that came through another tree hears of each order that refuses
// its calls, and of none a second time while they stand.
func TestBindFlow(t *testing.T) {
	e := New(Balanced(), balancedTerms)
	var (
		a  Agent
		fx activity.Effects
	)
	a.Reset(activity.TreeKey("top"))
	a.orders = append(a.orders, halted(RuleTreeCalls, events.Halt, e), halted(RuleTreeTokens, events.Halt, e))
	c := a.tree.Hear(1, 2, dawn)
	f := func(after time.Duration, want int) {
		t.Helper()
		fx.Reset()
		m := moment{ev: &events.Event{ID: "x", CorrelationID: "grandchild", Kind: events.AgentCall}, at: dawn.Add(after), when: dawn.Add(after)}
		e.bindFlow(&a, c, &m, &fx)
		scopes := map[string]bool{}
		for _, v := range fx.Verdicts {
			scopes[string(v.Reason)] = v.Scope == events.Scope{Kind: events.ScopeFlow, ID: "grandchild"}
		}
		if len(fx.Verdicts) != want || len(scopes) != want {
			t.Errorf("after %s: %d verdicts of the reasons %v, want %d", after, len(fx.Verdicts), scopes, want)
		}
	}
	f(time.Second, 2)
	f(2*time.Second, 0)
	f(2*time.Minute, 2)
}
