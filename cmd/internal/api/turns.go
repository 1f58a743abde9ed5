package api

import (
	"bufio"
	"context"
	"net/http"
	"runtime"
	"time"

	"weir/cmd/internal/problem"
)

// turns bounds how many dear answers are worked out at one time: lists of all flows and
// what reads the log. Each of them is a matter of people, who can wait; asks of dispatchers
// cannot, and would share the processor with all of them.
type turns chan struct{}

// newTurns leaves half of the processors to the fold.
func newTurns() turns { return make(turns, max(1, runtime.GOMAXPROCS(0)/2)) }

// turnPatience is how long somebody waits for a turn.
const turnPatience = 10 * time.Second

func (t turns) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	default:
	}
	patience := time.NewTimer(turnPatience)
	defer patience.Stop()
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-patience.C:
		return &problem.Error{Status: http.StatusServiceUnavailable, Detail: "many others ask for lists and logs at this moment; ask again", RetryAfter: 1}
	}
}

func (t turns) give() { <-t }

// of serves requests in turn. Who is slow to read an answer has no turn meanwhile.
func (t turns) of(serve func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		out := &turnWriter{ResponseWriter: w, turns: t, ctx: r.Context()}
		if out.err = t.take(r.Context()); out.err != nil {
			return out.err
		}
		defer func() {
			if out.err == nil {
				t.give()
			}
		}()
		out.buffer = bufio.NewWriterSize(outside{out}, turnBuffer)
		if err := serve(out, r); err != nil {
			return err
		}
		_ = out.buffer.Flush() // an error means that the other side is gone
		return nil
	}
}

// turnBuffer is how much of an answer is gathered before it is written.
const turnBuffer = 64 << 10

// turnWriter gathers an answer and gives the turn away while it is written.
type turnWriter struct {
	http.ResponseWriter
	turns  turns
	ctx    context.Context
	buffer *bufio.Writer
	err    error // why there is no turn
}

// Write gathers; what was gathered is written when it is much.
func (w *turnWriter) Write(p []byte) (int, error) { return w.buffer.Write(p) }

// outside writes without a turn.
type outside struct{ *turnWriter }

func (w outside) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	w.turns.give()
	n, err := w.ResponseWriter.Write(p)
	if w.err = w.turns.take(w.ctx); err == nil {
		err = w.err
	}
	return n, err
}
