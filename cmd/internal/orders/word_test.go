package orders

import (
	"testing"
	"time"

	"weir/events"
	"weir/events/byhand"
)

// TestGuardsThatMove follow one member of a group after the other, as behind a load balancer. A receipt
// names each once, by what the member says that heard it last.
func TestGuardsThatMove(t *testing.T) {
	now := events.Stamp(1_795_000_000_000)
	o := &byhand.Order{Order: byhand.Stop, Scope: byhand.Scope{Kind: events.ScopeAll, ID: "*"}, Time: events.RFC3339(now), Revision: 1}
	verdict := o.VerdictID()
	var a, b Guards
	beat := func(g *Guards, name string, held ...string) {
		g.Heard("p", Beat{Guard: name, Instance: "i", Language: "go", Held: held, Flights: []Flight{{Verdict: verdict, Calls: 2, Ended: 1}}}, now)
	}
	receipt := func() *Receipt {
		r := NewReceipt(o)
		var own Part
		for n, g := range []*Guards{&a, &b} {
			p := Part{Enforced: events.RFC3339(now)}
			p.Words, p.More = g.Words(verdict, true, now)
			p.Confirmed = g.Confirm(verdict, true, now)
			if n == 0 {
				own = p
			} else {
				a.Moved(own.Words, p.Words, now)
			}
			r.Add("a member", p)
		}
		return r.Close()
	}
	want := func(what string, guards, missing, calls int) {
		t.Helper()
		r := receipt()
		if r.Guards != guards || len(r.Missing) != missing || r.Complete != (missing == 0) || r.Flights.Calls != calls {
			t.Errorf("%s: %+v", what, r)
		}
	}
	beat(&a, "shop")
	want("it enforces nothing", 0, 1, 2)
	now = now.Add(time.Second)
	b.Connected("p", "shop", "i", now)
	want("the other has only seen it come", 0, 1, 2)
	beat(&b, "shop", verdict)
	want("the other has heard it later", 1, 0, 2)
	now = now.Add(time.Second)
	beat(&a, "shop", verdict)
	want("each heartbeat goes to another member", 1, 0, 2)
	now = now.Add(Silent + time.Second)
	want("it is silent at both", 0, 1, 2)
	beat(&b, "shop", verdict)
	want("the other alone hears it", 1, 0, 2)
	if words, _ := a.Words(verdict, true, now); len(words) != 0 {
		t.Errorf("the member that it has left still knows %+v", words)
	}
	beat(&b, "pay")
	want("another one that has not confirmed", 1, 1, 4)

	// A member of an earlier version reports counts alone.
	r := NewReceipt(o)
	r.Add("this process", Part{Enforced: 1, Words: []Word{}})
	r.Add("an older one", Part{Enforced: 1, Confirmed: Confirmed{Guards: 3, Missing: []GuardSeen{{Guard: "x"}}}})
	if r.Close(); r.Guards != 3 || len(r.Missing) != 1 || r.Complete {
		t.Errorf("with an older member: %+v", r)
	}
}
