package guard_test

import (
	"context"
	"errors"
	"fmt"

	"weir/events"
	"weir/sink/guard"
	"weir/sink/guard/guardtest"
)

// A dispatcher checks each call before it sends it. In a test it follows a weir that
// the test holds in its hand.
func ExampleGuard_Check() {
	weir := guardtest.New()
	weir.Give(events.Verdict{CorrelationID: "flow-1", Action: "deny", Reason: events.MaxTotalCalls, Message: "Agent call rejected: total call count 101 exceeds limit (max 100)"})
	g, err := guard.New(guard.Options{URL: guardtest.URL, Client: weir.Client()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer g.Close()
	if err := g.Wait(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	send := func(to string) error {
		d := g.Check(context.Background(), guard.Call{Flow: "flow-1", From: "planner", To: to})
		if d.Stopped() {
			return d.Err()
		}
		return nil
	}
	err = send("coder")
	if stop, ok := errors.AsType[*guard.Stop](err); ok {
		fmt.Println(stop.Reason, stop.Advice)
	}
	fmt.Println(err)
	// Output:
	// max_total_calls_exceeded finish_with_partial_work
	// Agent call rejected: total call count 101 exceeds limit (max 100) (max_total_calls_exceeded)
}
