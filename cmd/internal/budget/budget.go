// Package budget bounds the bytes that all requests hold together, and charges them as they arrive.
package budget

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// ErrFull says that others hold all there is. It is worth another try soon.
var ErrFull = errors.New("too much is being taken in at this moment; send it again")

const (
	// Small is how many bytes a request is charged to the part that large ones cannot
	// use up.
	Small = 128 << 10

	block = 16 << 10 // that are taken and given back at one time

	// patience is how long a request waits for room that others hold. It is real time,
	// for it guards real connections.
	patience = 2 * time.Second

	// workPatience is how long a large request that has come whole waits until others are
	// worked on no more.
	workPatience = 20 * time.Second
)

// Budget is a number of bytes. A quarter is for the first bytes of each request, so that large bodies
// do not keep small ones out.
type Budget struct {
	small, large *semaphore.Weighted
	work         *semaphore.Weighted // on what is large
	limit        int64
	held         atomic.Int64
	refused      atomic.Int64
}

// New returns a budget of limit bytes; of at least one small request and one block of a large one.
func New(limit int64) *Budget {
	limit = max(limit, 4*Small)
	return &Budget{small: semaphore.NewWeighted(limit / 4), large: semaphore.NewWeighted(limit - limit/4), work: semaphore.NewWeighted(int64(max(2, runtime.GOMAXPROCS(0)))), limit: limit}
}

// Limit is how many bytes there are.
func (b *Budget) Limit() int64 { return b.limit }

// Held is how many bytes are held now.
func (b *Budget) Held() int64 { return b.held.Load() }

// Refused is how many requests have been refused since the start.
func (b *Budget) Refused() int64 { return b.refused.Load() }

// Hold is what one request holds. It is for one goroutine.
type Hold struct {
	// Relieve, which may be nil, makes use of what is held and calls Clear.
	Relieve func() error

	budget     *Budget
	ctx        context.Context
	used       int64 // charged
	taken      int64 // of the budget, in whole blocks
	read       int64 // charged by readers, ever
	works      bool
	wasRefused bool
}

// Begin returns a hold of nothing. Its owner calls End.
func (b *Budget) Begin(ctx context.Context) *Hold { return &Hold{budget: b, ctx: ctx} }

// Grow charges n more bytes. When there is no room it calls Relieve, and then waits a
// little. The error is ErrFull, or that of Relieve or the context.
func (h *Hold) Grow(n int64) error {
	ok := h.try(n)
	if !ok && h.Relieve != nil {
		if err := h.Relieve(); err != nil {
			return err
		}
		ok = h.try(n)
	}
	if ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(h.ctx, patience)
	defer cancel()
	err := h.grow(n, func(part *semaphore.Weighted, n int64) error { return part.Acquire(ctx, n) })
	switch {
	case err == nil:
		return nil
	case h.ctx.Err() != nil:
		return context.Cause(h.ctx)
	case !h.wasRefused:
		h.wasRefused = true
		h.budget.refused.Add(1)
	}
	return ErrFull
}

func (h *Hold) try(n int64) bool {
	return h.grow(n, func(part *semaphore.Weighted, n int64) error {
		if !part.TryAcquire(n) {
			return ErrFull
		}
		return nil
	}) == nil
}

// grow takes what is missing, of the two parts in turn. After an error nothing is
// charged; what was taken by then is there for the next try.
func (h *Hold) grow(n int64, acquire func(*semaphore.Weighted, int64) error) error {
	for h.taken < h.used+n {
		part, more := h.budget.large, (h.used+n-h.taken+block-1)/block*block
		if h.taken < Small {
			part, more = h.budget.small, min(more, Small-h.taken)
		}
		if err := acquire(part, more); err != nil {
			return err
		}
		h.taken += more
		h.budget.held.Add(more)
	}
	h.used += n
	return nil
}

// Clear says that nothing of what was charged is held any more.
func (h *Hold) Clear() {
	h.used = 0
	h.give(block)
}

// Work waits until a large, complete request may be worked on. At one time there are as many as
// processors. Otherwise the work on hundreds of bodies of a megabyte would delay small requests for
// seconds. It lasts until End. Small requests do not wait.
func (h *Hold) Work() error {
	if h.works || h.read <= Small {
		return nil
	}
	ctx, cancel := context.WithTimeout(h.ctx, workPatience)
	defer cancel()
	if err := h.budget.work.Acquire(ctx, 1); err != nil {
		if h.ctx.Err() != nil {
			return context.Cause(h.ctx)
		}
		h.budget.refused.Add(1)
		return ErrFull
	}
	h.works = true
	return nil
}

// End gives everything back.
func (h *Hold) End() {
	if h.works {
		h.works = false
		h.budget.work.Release(1)
	}
	h.used = 0
	h.give(0)
}

// give gives back all but keep bytes.
func (h *Hold) give(keep int64) {
	if h.taken <= keep {
		return
	}
	if n := h.taken - max(keep, Small); n > 0 {
		h.budget.large.Release(n)
	}
	if n := min(h.taken, Small) - keep; n > 0 {
		h.budget.small.Release(n)
	}
	h.budget.held.Add(keep - h.taken)
	h.taken = keep
}

// perByte is what a byte that is read costs: buffers grow by copying.
const perByte = 2

// Reader charges what is read of in.
func (h *Hold) Reader(in io.ReadCloser) *Reader { return &Reader{in, h} }

// Reader is a body whose bytes are charged as they are read.
type Reader struct {
	in   io.ReadCloser
	Hold *Hold
}

// Read reads and charges; the error is that of Grow when there is no room. It returns the end once the
// request may be worked on.
func (r *Reader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	if n > 0 {
		r.Hold.read += perByte * int64(n)
		if cerr := r.Hold.Grow(perByte * int64(n)); cerr != nil {
			return 0, cerr
		}
	}
	if err == io.EOF {
		if werr := r.Hold.Work(); werr != nil {
			return 0, werr
		}
	}
	return n, err
}

// Close closes what is read from.
func (r *Reader) Close() error { return r.in.Close() }
