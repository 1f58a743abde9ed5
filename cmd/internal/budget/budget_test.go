package budget_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/cmd/internal/budget"
)

func grow(t *testing.T, h *budget.Hold, n int64) {
	t.Helper()
	if err := h.Grow(n); err != nil {
		t.Fatal(err)
	}
}

func TestBudget(t *testing.T) { synctest.Test(t, testBudget) }

func testBudget(t *testing.T) {
	const limit = 8 * budget.Small // a quarter for the first bytes
	b := budget.New(limit)
	large := b.Begin(t.Context())
	grow(t, large, budget.Small+limit/4*3)
	if b.Held() != budget.Small+limit/4*3 {
		t.Errorf("held are %d", b.Held())
	}
	// Others get the remaining bytes for their first ones, and no more.
	small := b.Begin(t.Context())
	grow(t, small, budget.Small)
	if err := small.Grow(1); !errors.Is(err, budget.ErrFull) {
		t.Errorf("beyond the budget: %v", err)
	}
	if err := b.Begin(t.Context()).Grow(1); !errors.Is(err, budget.ErrFull) || b.Refused() != 2 {
		t.Errorf("beyond the part of small ones: %v, %d refused", err, b.Refused())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Begin(ctx).Grow(1); !errors.Is(err, context.Canceled) {
		t.Errorf("of somebody who is gone: %v", err)
	}
	large.Clear()
	grow(t, small, limit/4*3)
	large.End()
	small.End()
	if b.Held() != 0 {
		t.Errorf("%d bytes are held by nobody", b.Held())
	}
	grow(t, b.Begin(t.Context()), budget.Small+limit/4*3) // all was given back
}

func TestReader(t *testing.T) { synctest.Test(t, testReader) }

func testReader(t *testing.T) {
	b := budget.New(0)
	h := b.Begin(t.Context())
	r := h.Reader(io.NopCloser(strings.NewReader(strings.Repeat("x", int(b.Limit())))))
	n, err := io.Copy(io.Discard, r)
	if !errors.Is(err, budget.ErrFull) || n == 0 || b.Held() > b.Limit() {
		t.Errorf("%d bytes were read: %v, %d held", n, err, b.Held())
	}
	h.Clear()
	if n, err := r.Read(make([]byte, 100)); err != nil && !errors.Is(err, io.EOF) || b.Held() > budget.Small {
		t.Errorf("after what was read is done with: %d, %v, %d held", n, err, b.Held())
	}
	h.End()
	if b.Held() != 0 {
		t.Errorf("%d bytes are held by nobody", b.Held())
	}
}

// TestLargeOnesAreWorkedOnInTurn has more large requests come whole than there are
// processors, and a small one among them.
func TestLargeOnesAreWorkedOnInTurn(t *testing.T) { synctest.Test(t, testLargeOnesAreWorkedOnInTurn) }

func testLargeOnesAreWorkedOnInTurn(t *testing.T) {
	b := budget.New(1 << 30)
	come := func(size int) (*budget.Hold, chan error) {
		h, came := b.Begin(t.Context()), make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, h.Reader(io.NopCloser(strings.NewReader(strings.Repeat("x", size)))))
			came <- err
		}()
		synctest.Wait()
		return h, came
	}
	var holds []*budget.Hold
	worked := 0
	for range 64 {
		h, came := come(budget.Small)
		select {
		case err := <-came:
			if err != nil {
				t.Fatal(err)
			}
			holds, worked = append(holds, h), worked+1
		default:
			defer h.End()
		}
	}
	if most := max(2, runtime.GOMAXPROCS(0)); worked != most {
		t.Errorf("%d large requests are worked on at one time, want %d", worked, most)
	}
	small, came := come(100)
	if err := <-came; err != nil {
		t.Error("a small request:", err)
	}
	small.End()
	for _, h := range holds {
		h.End()
	}
	synctest.Wait()
	time.Sleep(time.Minute) // of the test's own time: no request waits forever
	if b.Refused() == 0 {
		t.Error("those who waited in vain were not refused")
	}
}
