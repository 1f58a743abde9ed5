package api

import (
	"bufio"
	"context"
	"net/http"
	"runtime"
	"sync"
	"time"

	"weir/cmd/internal/admission"
	"weir/cmd/internal/problem"
)

// turns bounds how many dear answers are worked out at one time: lists of all flows and
// what reads the log. Each of them is a matter of people, who can wait; asks of dispatchers
// cannot, and would share the processor with all of them. All lists of a server share one,
// since they share the processors.
//
// It also bounds how many of them are there at all: one that was worked out is held until
// its client has taken it, and a client may take its time.
type turns struct {
	// To send is to take one, to receive is to give it back.
	free, room chan struct{}

	mu    sync.Mutex
	begun map[*turnWriter]struct{} // which have room
}

// newTurns leaves half of the processors to the fold.
// On one processor there is one turn, which the scheduler shares with the fold.
func newTurns() *turns {
	return &turns{free: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), room: make(chan struct{}, mostAnswers), begun: make(map[*turnWriter]struct{})}
}

const (
	// turnPatience is how long a request waits for a turn, and for room.
	// It is real time, like all that guards connections. Afterwards the response is 503 with a
	// Retry-After: people load the page again.
	turnPatience = 10 * time.Second

	// mostAnswers is how many answers may be there at one time: some are of 10 MiB and more.
	mostAnswers = 16
)

// errCrowded is the answer to who finds no turn, or no room for an answer.
var errCrowded = &problem.Error{Status: http.StatusServiceUnavailable, Detail: "many others ask for lists and logs at this moment; ask again", RetryAfter: 1}

// take waits for a turn. The error is that of the context, or the one to answer with; then
// there is no turn to give back.
func (t *turns) take(ctx context.Context) error {
	// Mostly there is a turn, and no timer is made.
	select {
	case t.free <- struct{}{}:
		return nil
	default:
	}
	patience := time.NewTimer(turnPatience)
	defer patience.Stop()
	select {
	case t.free <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-patience.C:
		return errCrowded
	}
}

// give returns a turn. It never waits, since its caller has one.
func (t *turns) give() { <-t.free }

// begin waits for room for one more answer, like take. Where there is none, the one gives
// way whose client has taken nothing for the longest, when that is longer than
// admission.Patience.
func (t *turns) begin(w *turnWriter) error {
	for end := time.Now().Add(turnPatience); ; {
		again := time.NewTimer(min(admission.Patience, time.Until(end)))
		select {
		case t.room <- struct{}{}:
			again.Stop()
			t.mu.Lock()
			defer t.mu.Unlock()
			t.begun[w] = struct{}{}
			return nil
		case <-w.ctx.Done():
			again.Stop()
			return context.Cause(w.ctx)
		case <-again.C:
		}
		if !time.Now().Before(end) {
			return errCrowded
		}
		t.cutSlowest()
	}
}

// cutSlowest ends the answer whose client has taken nothing for the longest, if that is long.
func (t *turns) cutSlowest() {
	t.mu.Lock()
	defer t.mu.Unlock()
	var slowest *turnWriter
	for w := range t.begun {
		if !w.since.IsZero() && (slowest == nil || w.since.Before(slowest.since)) {
			slowest = w
		}
	}
	if slowest == nil || time.Since(slowest.since) < admission.Patience {
		return
	}
	delete(t.begun, slowest)
	// The write that waits fails at once, and with it the rest of the answer. Of a writer
	// without deadlines nothing can be cut.
	_ = http.NewResponseController(slowest.ResponseWriter).SetWriteDeadline(time.Unix(1, 0))
}

// end is called when nothing of an answer is held any more.
func (t *turns) end(w *turnWriter) {
	t.mu.Lock()
	delete(t.begun, w)
	t.mu.Unlock()
	<-t.room
}

// of serves requests in turn. Who is slow to read an answer has no turn meanwhile.
//
// An error of serve is answered by the caller without the buffer, so of what was gathered
// nothing goes out; what was written before stays written.
func (t *turns) of(serve func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		out := &turnWriter{ResponseWriter: w, turns: t, ctx: r.Context()}
		if err := t.begin(out); err != nil {
			return err
		}
		defer t.end(out)
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
	turns  *turns
	ctx    context.Context
	buffer *bufio.Writer
	err    error // why there is no turn

	since time.Time // when the write began that its client is waited for with; guarded by turns.mu
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
	w.waits(time.Now())
	// This may take as long as the client likes, up to the deadline of the answer.
	n, err := w.ResponseWriter.Write(p)
	w.waits(time.Time{})
	if w.err = w.turns.take(w.ctx); err == nil {
		err = w.err
	}
	return n, err
}

// waits notes since when the client is waited for; the zero time is that it is not.
func (w *turnWriter) waits(since time.Time) {
	w.turns.mu.Lock()
	defer w.turns.mu.Unlock()
	w.since = since
}
