package approvals

import (
	"errors"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/switchfile"
	"weir/events"
)

func TestHoldOf(t *testing.T) {
	limit, used := 2.5, 2.6
	hold := func(change func(*events.Verdict)) *Hold {
		v := &events.Verdict{ID: "00000000000000aa-1", Mode: events.ModeEnforce, Action: events.Hold, Effective: events.EffectiveNow, RuleID: "max_cost_usd", Unit: events.UnitUSD, Limit: &limit, Observed: &used,
			Scope: events.Scope{Kind: events.ScopeFlow, ID: "f"}, CorrelationID: "f"}
		change(v)
		return holdOf(v, 0.5)
	}
	if h := hold(func(*events.Verdict) {}); h == nil || h.Kind != OfFlow || h.ID != "00000000000000aa" || h.Extra != 1.25 || h.Approved(time.Hour) != "$1.25 more for the flow, for 1h" {
		t.Errorf("%+v", h)
	}
	if h := hold(func(v *events.Verdict) {
		v.RuleID, v.CorrelationID, v.Scope, v.Effective = "budget:day", "", events.Scope{Kind: events.ScopeTenant, ID: "acme:eu"}, events.EffectiveNext
	}); h == nil || h.Kind != OfBudget || h.Subject != "day:acme:eu" {
		t.Errorf("%+v", h)
	}
	if h := hold(func(v *events.Verdict) {
		v.RuleID, v.CorrelationID, v.Scope = "budget:day", "", events.Scope{Kind: events.ScopeBudget, ID: "day:payments"}
	}); h == nil || h.Subject != "day:payments" {
		t.Errorf("%+v", h)
	}
	if h := hold(func(v *events.Verdict) { v.Effective = events.EffectiveNext }); h == nil || !h.Armed {
		t.Errorf("%+v", h)
	}
	zero := 0.0
	for rule, unit := range map[string]events.Unit{"max_total_calls": events.UnitCalls, "max_spawns": events.UnitSpawns, "max_tree_calls": events.UnitCalls, "max_cost_usd": events.UnitUSD, "max_total_tokens": events.UnitTokens, "budget:day": events.UnitCalls} {
		h := hold(func(v *events.Verdict) {
			v.RuleID, v.Unit, v.Limit, v.Observed = rule, unit, &zero, &zero
			if rule == "budget:day" {
				v.CorrelationID, v.Scope = "", events.Scope{Kind: events.ScopeBudget, ID: "day:x"}
			}
		})
		if h == nil || h.Extra <= 0 || unit != events.UnitUSD && h.Extra != 1 {
			t.Errorf("%s with a limit of 0: %+v", rule, h)
		}
	}
	for name, change := range map[string]func(*events.Verdict){
		"shadow":             func(v *events.Verdict) { v.Mode = events.ModeShadow },
		"a denial":           func(v *events.Verdict) { v.Action = events.Deny },
		"the self-test":      func(v *events.Verdict) { v.CorrelationID = events.SelfTestFlows + "1" },
		"a flow of a budget": func(v *events.Verdict) { v.RuleID = "budget:day" },
	} {
		if h := hold(change); h != nil {
			t.Errorf("%s: %+v", name, h)
		}
	}
}

func TestLinks(t *testing.T) {
	secret, other := []byte("one secret of sixteen bytes"), []byte("another of sixteen bytes")
	l := &Link{Hold: "h", Tier: "ops", Action: Approve, Until: 7}
	token := l.token(secret)
	if got := readLink(token, [][]byte{other, secret}); got == nil || *got != *l {
		t.Errorf("%+v", got)
	}
	for name, text := range map[string]string{"another secret": l.token(other), "cut": token[:len(token)-3], "no action": (&Link{Hold: "h", Action: "all"}).token(secret), "": ""} {
		if got := readLink(text, [][]byte{secret, nil}); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestLinksAreUsedInTime opens links before and after their end, and those of holds that are over.
func TestLinksAreUsedInTime(t *testing.T) {
	secret := []byte("one secret of sixteen bytes")
	now := events.Stamp(1000)
	d := &Desk{Settings: &switchfile.Approvals{Tiers: []switchfile.Tier{{Name: "ops"}}}, Secrets: func() ([][]byte, error) { return [][]byte{secret}, nil }, Now: func() events.Stamp { return now },
		holds: map[string]*Hold{"waits": {ID: "waits"}, "busy": {ID: "busy", busy: true}}, done: []Decision{{Hold: "done", Outcome: Approved, By: "link/ops/Ann"}, {Hold: "over", Outcome: Over}}}
	open := func(hold, tier string) error {
		_, _, err := d.Open((&Link{Hold: hold, Tier: tier, Action: Deny, Until: 2000}).token(secret))
		return err
	}
	if err := open("waits", "ops"); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		hold, tier string
		want       error
	}{{"busy", "ops", ErrBusy}, {"over", "ops", ErrOver}, {"unknown", "ops", ErrOver}, {"waits", "removed", ErrOver}} {
		if err := open(c.hold, c.tier); !errors.Is(err, c.want) {
			t.Errorf("%s, %s: %v", c.hold, c.tier, err)
		}
	}
	if used, ok := errors.AsType[*UsedError](open("done", "ops")); !ok || !strings.Contains(used.Error(), "approved by link/ops/Ann") {
		t.Errorf("%v", used)
	}
	now = 2000
	if err := open("waits", "ops"); !errors.Is(err, ErrExpired) {
		t.Error(err)
	}
}
