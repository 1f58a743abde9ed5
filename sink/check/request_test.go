package check

import (
	"context"
	"net/http"
	"strings"
	"testing"
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

// TestSift keeps what is wanted, in its order, and leaves the batch as it is.
func TestSift(t *testing.T) {
	for _, text := range []string{"", "abc", "xabc", "abcx", "axbxxc", "x", "xx"} {
		var batch []*Request
		for _, id := range strings.Split(text, "") {
			batch = append(batch, &Request{Event: &events.Event{ID: id}})
		}
		ids := func(batch []*Request) (out string) {
			for _, q := range batch {
				out += q.Event.ID
			}
			return out
		}
		asked := 0
		got := ids(Sift(batch, func(q *Request) bool { asked++; return q.Event.ID != "x" }))
		if got != strings.ReplaceAll(text, "x", "") || asked != len(batch) || ids(batch) != text {
			t.Errorf("of %q is kept %q, asked %d times; the batch is %q", text, got, asked, ids(batch))
		}
	}
}
