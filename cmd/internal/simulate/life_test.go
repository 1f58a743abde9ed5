package simulate

// The life of an order by hand as a table of transitions: given, renewed, widened, confirmed, lifted,
// expired. The simulation holds the traces of the program against it.

import (
	"fmt"

	"weir/events"
)

// lifeState is where an order is in its life.
type lifeState uint8

// The states.
const (
	noOrder   lifeState = iota // there is no order
	active                     // it refuses calls where it is known
	confirmed                  // every guard has confirmed its newest record
	lifted                     // released, or cleared by a rule
	expired                    // its time is over
	lifeStates
)

// lifeEvent is what happens to an order.
type lifeEvent uint8

// The events.
const (
	give    lifeEvent = iota // a first record
	renew                    // a newer record of the same scope
	widen                    // a newer record of a wider scope
	confirm                  // every guard has confirmed the newest record
	lift                     // a record that takes the order back
	expire                   // its time is over
	lifeEvents
)

var stateNames = [lifeStates]string{"none", "active", "confirmed", "lifted", "expired"}
var eventNames = [lifeEvents]string{"give", "renew", "widen", "confirm", "lift", "expire"}

// String names the state.
func (s lifeState) String() string { return stateNames[s] }

// String names the event.
func (e lifeEvent) String() string { return eventNames[e] }

// never marks what does not happen.
const never = lifeStates

// lifeTable is what each event makes of each state. A newer record has to be confirmed anew.
var lifeTable = [lifeStates][lifeEvents]lifeState{
	noOrder:   {give: active, renew: never, widen: never, confirm: never, lift: never, expire: never},
	active:    {give: never, renew: active, widen: active, confirm: confirmed, lift: lifted, expire: expired},
	confirmed: {give: never, renew: active, widen: active, confirm: confirmed, lift: lifted, expire: expired},
	lifted:    {give: active, renew: never, widen: never, confirm: never, lift: never, expire: never},
	expired:   {give: active, renew: never, widen: never, confirm: never, lift: lifted, expire: never},
}

// nextState returns what an event makes of a state; false for what never happens.
func nextState(s lifeState, e lifeEvent) (lifeState, bool) {
	next := lifeTable[s][e]
	return next, next != never
}

// orderLife follows one order through its records. The zero one is no order.
type orderLife struct {
	state lifeState

	last *events.Verdict
}

// step applies an event.
func (o *orderLife) step(e lifeEvent) error {
	next, ok := nextState(o.state, e)
	if !ok {
		return fmt.Errorf("%v of an order that is %v", e, o.state)
	}
	o.state = next
	return nil
}

// take applies a record of the order that comes at a time, the newest so far.
func (o *orderLife) take(v *events.Verdict, now events.Stamp) error {
	if err := o.pass(now); err != nil {
		return err
	}
	if o.last != nil && v.Revision <= o.last.Revision {
		return fmt.Errorf("revision %d after %d", v.Revision, o.last.Revision)
	}
	e := give
	switch {
	case v.Action == events.Allow:
		e = lift
	case o.state != active && o.state != confirmed:
	case v.Scope != o.last.Scope:
		e = widen
	default:
		e = renew
	}
	if err := o.step(e); err != nil {
		return err
	}
	o.last = v
	return nil
}

// confirm notes that a receipt says that every guard has confirmed the record with an id.
func (o *orderLife) confirm(id string, now events.Stamp) error {
	if err := o.pass(now); err != nil {
		return err
	}
	if o.last == nil || o.last.ID != id {
		return fmt.Errorf("confirm of %s, which is not the newest record", id)
	}
	if o.state == lifted { // a release is confirmed, too
		return nil
	}
	return o.step(confirm)
}

// pass notes the time.
func (o *orderLife) pass(now events.Stamp) error {
	if (o.state == active || o.state == confirmed) && o.last.ExpiresAt != 0 && events.Stamp(o.last.ExpiresAt) <= now {
		return o.step(expire)
	}
	return nil
}
