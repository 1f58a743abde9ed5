package check

import (
	"context"
	"net/http"
	"time"

	"weir/events"
)

// oneByOne answers each request of a batch by itself, when it is waited for.
func oneByOne(answer func(context.Context, *events.Event, []byte) (*events.Verdict, error)) Checker {
	return func(batch []*Request) {
		for _, q := range batch {
			q.Wait = func() (*events.Verdict, error) { return answer(q.Context, q.Event, q.Raw) }
		}
	}
}

func newAuthz(answer func(context.Context, *events.Event, []byte) (*events.Verdict, error), fail func(http.ResponseWriter, *http.Request, error), now func() time.Time) *Authz {
	return NewAuthz(oneByOne(answer), fail, now)
}

func newHook(answer func(context.Context, *events.Event, []byte) (*events.Verdict, error), appendLines func(context.Context, [][]byte) error, failed func(error), now func() time.Time) *Hook {
	return NewHook(oneByOne(answer), appendLines, failed, now)
}
