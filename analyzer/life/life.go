// Package life models the life of an order as a table of transitions: given, renewed, widened, confirmed,
// lifted, expired. It is pure. The simulation holds the traces of the program against it.
package life

import (
	"fmt"

	"weir/events"
)

// State is where an order is in its life.
type State uint8

// The states.
const (
	None      State = iota // there is no order
	Active                 // it refuses calls where it is known
	Confirmed              // every guard has confirmed its newest record
	Lifted                 // released, or cleared by a rule
	Expired                // its time is over
	states
)

// Event is what happens to an order.
type Event uint8

// The events.
const (
	Give    Event = iota // a first record
	Renew                // a newer record of the same scope
	Widen                // a newer record of a wider scope
	Confirm              // every guard has confirmed the newest record
	Lift                 // a record that takes the order back
	Expire               // its time is over
	happenings
)

var stateNames = [states]string{"none", "active", "confirmed", "lifted", "expired"}
var eventNames = [happenings]string{"give", "renew", "widen", "confirm", "lift", "expire"}

// String names the state.
func (s State) String() string { return stateNames[s] }

// String names the event.
func (e Event) String() string { return eventNames[e] }

// never marks what does not happen.
const never = states

// Table is what each event makes of each state. A newer record has to be confirmed anew.
var table = [states][happenings]State{
	None:      {Give: Active, Renew: never, Widen: never, Confirm: never, Lift: never, Expire: never},
	Active:    {Give: never, Renew: Active, Widen: Active, Confirm: Confirmed, Lift: Lifted, Expire: Expired},
	Confirmed: {Give: never, Renew: Active, Widen: Active, Confirm: Confirmed, Lift: Lifted, Expire: Expired},
	Lifted:    {Give: Active, Renew: never, Widen: never, Confirm: never, Lift: never, Expire: never},
	Expired:   {Give: Active, Renew: never, Widen: never, Confirm: never, Lift: Lifted, Expire: never},
}

// Next returns what an event makes of a state; false for what never happens.
func Next(s State, e Event) (State, bool) {
	next := table[s][e]
	return next, next != never
}

// Order follows one order through its records. The zero Order is none.
type Order struct {
	State State

	last *events.Verdict
}

// step applies an event.
func (o *Order) step(e Event) error {
	next, ok := Next(o.State, e)
	if !ok {
		return fmt.Errorf("%v of an order that is %v", e, o.State)
	}
	o.State = next
	return nil
}

// Take applies a record of the order that comes at a time, the newest so far.
func (o *Order) Take(v *events.Verdict, now events.Stamp) error {
	if err := o.Pass(now); err != nil {
		return err
	}
	if o.last != nil && v.Revision <= o.last.Revision {
		return fmt.Errorf("revision %d after %d", v.Revision, o.last.Revision)
	}
	e := Give
	switch {
	case v.Action == events.Allow:
		e = Lift
	case o.State != Active && o.State != Confirmed:
	case v.Scope != o.last.Scope:
		e = Widen
	default:
		e = Renew
	}
	if err := o.step(e); err != nil {
		return err
	}
	o.last = v
	return nil
}

// Confirm notes that a receipt says that every guard has confirmed the record with an id.
func (o *Order) Confirm(id string, now events.Stamp) error {
	if err := o.Pass(now); err != nil {
		return err
	}
	if o.last == nil || o.last.ID != id {
		return fmt.Errorf("confirm of %s, which is not the newest record", id)
	}
	if o.State == Lifted { // a release is confirmed, too
		return nil
	}
	return o.step(Confirm)
}

// Pass notes the time.
func (o *Order) Pass(now events.Stamp) error {
	if (o.State == Active || o.State == Confirmed) && o.last.ExpiresAt != 0 && events.Stamp(o.last.ExpiresAt) <= now {
		return o.step(Expire)
	}
	return nil
}
