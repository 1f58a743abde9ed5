package budget_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

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
	// Others get what is left for the first bytes, and no more.
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
