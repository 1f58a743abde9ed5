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
// Its capacity is how many. To send is to take a turn, to receive is to give it back. All
// lists of a server share one, since they share the processors.
type turns chan struct{}

// newTurns leaves half of the processors to the fold.
// On one processor there is one turn, which the scheduler shares with the fold.
func newTurns() turns { return make(turns, max(1, runtime.GOMAXPROCS(0)/2)) }

// turnPatience is how long somebody waits for a turn.
// It is real time, like all that guards connections. Afterwards the answer is 503 with a
// Retry-After: people load the page again.
const turnPatience = 10 * time.Second

// take waits for a turn. The error is that of the context, or the one to answer with; then
// there is no turn to give back.
func (t turns) take(ctx context.Context) error {
	// Mostly there is a turn, and no timer is made.
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

// give gives a turn back. It never waits, since whoever calls it has one.
func (t turns) give() { <-t }

// of serves requests in turn. Who is slow to read an answer has no turn meanwhile.
//
// An error of serve is answered by the caller without the buffer, so of what was gathered
// nothing goes out; what was written before stays written.
func (t turns) of(serve func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		out := &turnWriter{ResponseWriter: w, turns: t, ctx: r.Context()}
		if out.err = t.take(r.Context()); out.err != nil {
			return out.err
		}
		defer func() {
			// With an error there is no turn to give back: it was given away for a write,
			// and not had again.
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
// An answer that fits is written once, after it was worked out; of a longer one each part
// costs a turn given away and taken again.
const turnBuffer = 64 << 10

// turnWriter gathers an answer and gives the turn away while it is written.
// It is for the goroutine of its request. It hides what the writer under it can do beside
// writing, such as flushing, which lists have no use for.
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
// It is the writer under the buffer; turnWriter is the one above it. After an error it
// writes nothing any more: an answer that has begun stays cut off where it is.
type outside struct{ *turnWriter }

// Write gives the turn away, writes, and waits for another turn.
func (w outside) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	w.turns.give()
	// This may take as long as the client likes, up to the deadline of the answer.
	n, err := w.ResponseWriter.Write(p)
	if w.err = w.turns.take(w.ctx); err == nil {
		err = w.err
	}
	return n, err
}
