// Package guard is what a dispatcher imports to follow weir's orders and to ask before a call. A Guard follows the
// standing orders in the background and answers from memory whether a call may be made, in nanoseconds and without
// waiting for anybody:
//
//	g, err := guard.Dial("http://127.0.0.1:8080")
//	d := g.Check(ctx, guard.Call{Flow: id, From: "planner", To: "coder"})
//	if d.Stopped() { return d.Err() } // errors.As gives a *guard.Stop
//
// Where an exact answer for each call is wanted, Ask asks weir instead, and weir
// counts the call in the same step.
//
// A guard fails bounded. When weir is away, orders that are known stay in force until
// they expire, other calls are allowed, and a local limiter holds each flow to three
// times the limits in force. It never sleeps, retries a call or panics on behalf of its
// caller, and imports nothing but the standard library, the vocabulary of events, and
// what signatures are made of.
package guard
