package ask

import (
	"context"

	"weir/events"
	"weir/sink/guard"
)

// Enforce puts an order that a person gave about a scope in force, before any log has it.
func (w *GlobalOrders) Enforce(v *events.Verdict) { w.table.Take(v) }

// stopped returns the order by hand that refuses what an event asks for; nil for none. Such an order
// binds all callers, whatever they ask for. Without any it costs one atomic load.
func (w *GlobalOrders) stopped(ctx context.Context, ev *events.Event) *events.Verdict {
	if !w.table.AnyByHand() {
		return nil
	}
	c := w.callIn(ctx, ev)
	return w.table.ByHand(&c, w.Log.Now())
}

func (w *GlobalOrders) callIn(ctx context.Context, ev *events.Event) guard.Call {
	c := guard.CallIn(ev)
	if w.Principal != nil {
		c.Principal = w.Principal(ctx)
	}
	return c
}

// Begins returns the answer of the order by hand that refuses work which is about to begin and that no
// check announces, such as a prompt of a person; nil for none. The attempt is logged.
func (w *GlobalOrders) Begins(ctx context.Context, ev *events.Event) *events.Verdict {
	v := w.stopped(ctx, ev)
	if v == nil {
		return nil
	}
	return w.refuseStopped(ctx, ev, v)
}

// refuseStopped answers by the order that refuses.
func (w *GlobalOrders) refuseStopped(ctx context.Context, ev *events.Event, v *events.Verdict) *events.Verdict {
	c := w.callIn(ctx, ev)
	return w.refuse(ctx, ev, &c, v)
}
