package guard

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"weir/events"
)

const (
	// often is how soon after another one an ask has to come for a stream to be opened: who
	// asks seldom needs no connection that waits.
	often = time.Second
	// streamAgain is how long a guard does without a stream when one could not be had.
	streamAgain = 30 * time.Second
)

// asks opens the stream that asks share. Until there is one, and where there is none because
// weir is older or a proxy does not let it through, they go by themselves.
// Any goroutine may use it; the stream itself is read by one that run is called in. See
// decision 79.
type asks struct {
	mu sync.Mutex
	// Close sets it to nil, too, so that no stream is opened behind it.
	ctx   context.Context // of the guard; nil: none is opened
	open  *askStream
	opens bool      // a goroutine is opening it
	last  time.Time // of the last check
	// The zero time lets the first try begin at once.
	resume time.Time // when to try to open one again

	requests chan struct{} // has room for mostRequests
}

// mostRequests is how many checks go by requests of their own at one time, as all that were on a
// stream when it broke. Each needs a connection, and weir rejects requests beyond some hundreds.
const mostRequests = 64

// enter waits for the turn of a request. leave must be called behind it.
func (a *asks) enter(ctx context.Context) (leave func(), err error) {
	select {
	case a.requests <- struct{}{}:
		return func() { <-a.requests }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// stream returns the stream, if there is one, and has it opened when it is needed.
// It never waits: an ask that causes a stream to be opened goes by a request itself.
func (a *asks) stream(g *Guard) *askStream {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx == nil || a.open != nil {
		return a.open
	}
	now := g.now()
	again := now.Sub(a.last) < often
	a.last = now
	if again && !a.opens && now.After(a.resume) {
		a.opens = true
		ctx, cancel := context.WithCancel(a.ctx)
		g.start("asks", func() {
			defer cancel()
			a.run(ctx, g, newAskStream(cancel))
		})
	}
	return nil
}

// close lets no more streams be opened.
// The stream that is open ends with the context of the guard.
func (a *asks) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ctx = nil
}

// run opens a stream and reads it until it breaks.
func (a *asks) run(ctx context.Context, g *Guard, s *askStream) {
	err := g.caught("asks", func() error {
		return s.run(ctx, g, func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.open = s
		})
	})
	a.mu.Lock()
	a.resume = g.now().Add(streamAgain)
	// A stream that broke after it worked was cut from outside, and a new one can be opened at
	// once. The same is true of a weir that was unreachable, when it is back.
	if a.open != nil || s.away {
		a.resume = g.now().Add(often)
	}
	a.open, a.opens = nil, false
	a.mu.Unlock()
	// Waiting checks are notified after the stream is removed, so that no check begins to wait
	// on it.
	s.end(err)
	if ctx.Err() == nil {
		g.logger.Debug("asks go one by one", "weir", g.o.URL, "error", err)
	}
}

// askStream is a request that sends one check after the other. It is the body of that
// request.
// The transport of the client calls its Read; the goroutines that check call its other methods.
type askStream struct {
	cancel context.CancelFunc // ends the request
	away   bool               // set by run: weir was unreachable, which does not show whether it has streams

	mu   sync.Mutex
	more sync.Cond // on mu
	// Read takes from its front.
	out []byte // lines that are not sent yet
	// How many were sent: the number of a line is its name in answers. Empty lines are never
	// sent.
	lines int64
	// Number of answers received, to any check: ask uses it to see whether the stream is alive.
	answers int64
	// By line. A channel has room for one answer and receives one, so the sender never
	// waits.
	waiting map[int64]chan askAnswer
	err     error // why it has ended
}

// askAnswer is an answer on the stream. err is set where there is no answer, because the
// stream has ended.
type askAnswer struct {
	Line   int64           `json:"line"`
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body"`
	err    error
}

// readAnswer reads a line of the stream. The answer shares no memory with the line. Lines in weir's
// own form are cut by position: the caller waits, and encoding/json takes several times as long.
func readAnswer(line []byte) (a askAnswer, err error) {
	n, rest, ok := cutNumber(line, `{"line":`)
	status, rest, found := cutNumber(rest, `,"status":`)
	rest, named := bytes.CutPrefix(rest, []byte(`,"body":`))
	body, closed := bytes.CutSuffix(rest, []byte{'}'})
	if ok && found && named && closed && json.Valid(body) {
		return askAnswer{Line: n, Status: int(status), Body: bytes.Clone(body)}, nil
	}
	return a, json.Unmarshal(line, &a)
}

// cutNumber reads a whole number behind a name, and returns what stands behind it.
func cutNumber(text []byte, name string) (n int64, rest []byte, ok bool) {
	rest, ok = bytes.CutPrefix(text, []byte(name))
	end := bytes.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if !ok || end < 0 || end > 1 && rest[0] == '0' {
		return 0, nil, false
	}
	n, err := strconv.ParseInt(string(rest[:end]), 10, 64)
	return n, rest[end:], err == nil
}

// newAskStream returns a stream of which nothing was sent yet. cancel ends its request.
func newAskStream(cancel context.CancelFunc) *askStream {
	s := &askStream{cancel: cancel, waiting: make(map[int64]chan askAnswer)}
	s.more.L = &s.mu
	return s
}

var (
	errNeverAsked = errors.New("an answer came to what was never asked")
	errUnsent     = errors.New("weir takes asks from the stream too slowly")
)

// mostUnsent is how many bytes of checks may wait until weir reads them. Checks beyond it are sent
// as single requests: callers that gave up would otherwise leave lines that fill the memory.
const mostUnsent = 1 << 20

// errStreamEnded is returned to checks that wait when a stream ends; they are sent as requests then.
var errStreamEnded = errors.New("the stream of asks has ended")

// run makes the request, calls ready when asks may be sent, and returns why it has ended.
func (s *askStream) run(ctx context.Context, g *Guard, ready func()) error {
	// The client waits until its body is read no more.
	// The context alone does not end a Read that waits for lines.
	stop := context.AfterFunc(ctx, func() { s.end(context.Cause(ctx)) })
	defer stop()
	at, turn := g.addresses.present()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"/v1/check/stream", s)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	r.Header.Set("Accept-Encoding", "identity")
	if g.o.Token != "" {
		r.Header.Set("Authorization", "Bearer "+g.o.Token)
	}
	// weir answers at once, before there is any line.
	late := time.AfterFunc(g.o.AskTimeout, s.cancel)
	resp, err := g.o.Client.Do(r)
	inTime := late.Stop() // or a proxy waits for the end of the body
	if err != nil {
		s.away = inTime
		g.addresses.leave(turn)
		return err
	}
	defer resp.Body.Close()
	if unreachable(resp.StatusCode) {
		s.away = inTime
		g.addresses.leave(turn)
	}
	if !inTime || resp.StatusCode != http.StatusOK || packed(resp) {
		return fmt.Errorf("weir answers %s", resp.Status)
	}
	ready()
	in := bufio.NewScanner(resp.Body)
	// Twice a verdict has room for what stands around it.
	in.Buffer(nil, 2*events.MaxVerdictBytes)
	for in.Scan() {
		a, err := readAnswer(in.Bytes())
		if err != nil {
			return err
		}
		if err := s.deliver(a); err != nil {
			return err
		}
	}
	if err := in.Err(); err != nil {
		return err
	}
	return errStreamEnded
}

// ask sends a line and waits for its answer. A stream on which none comes in time, not for
// others either, is given up.
func (s *askStream) ask(ctx context.Context, line []byte) (status int, body []byte, err error) {
	answer := make(chan askAnswer, 1)
	s.mu.Lock()
	err = s.err
	if err == nil && len(s.out) > mostUnsent {
		err = errUnsent
	}
	if err != nil {
		s.mu.Unlock()
		return 0, nil, err
	}
	s.lines++
	n, before := s.lines, s.answers
	s.waiting[n] = answer
	s.out = append(append(s.out, line...), '\n')
	s.more.Signal()
	s.mu.Unlock()
	select {
	case a := <-answer:
		return a.Status, a.Body, a.err
	case <-ctx.Done():
		s.mu.Lock()
		delete(s.waiting, n)
		// Other asks may be slow for reasons of their own; only silence for all of them is a
		// broken stream.
		silent := s.answers == before
		s.mu.Unlock()
		if silent && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			s.cancel()
		}
		return 0, nil, context.Cause(ctx)
	}
}

// deliver hands an answer to the caller that waits for it. An answer to a caller that gave up
// is dropped, but still shows that the stream is alive. An answer to a line that was never sent
// is an error: the server does not know what it was asked.
func (s *askStream) deliver(a askAnswer) error {
	s.mu.Lock()
	if a.Line < 1 || a.Line > s.lines {
		s.mu.Unlock()
		return errNeverAsked
	}
	answer := s.waiting[a.Line]
	delete(s.waiting, a.Line)
	s.answers++
	s.mu.Unlock()
	if answer != nil {
		answer <- a
	}
	return nil
}

// end makes all waiting checks go another way.
// Later checks get the last error given. It may be called more than once.
func (s *askStream) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	for _, answer := range s.waiting {
		answer <- askAnswer{err: err}
	}
	clear(s.waiting)
	s.more.Broadcast()
}

// Read gives the request what is to be sent, and waits until there is something.
func (s *askStream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.out) == 0 && s.err == nil {
		s.more.Wait()
		// Those who are about to ask share the write.
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
	// The end of the body lets the transport end the request.
	if s.err != nil {
		return 0, io.EOF
	}
	n := copy(p, s.out)
	// The remaining bytes move to the front, so the buffer does not grow with the stream.
	s.out = s.out[:copy(s.out, s.out[n:])]
	return n, nil
}

// Close is called when the request is sent no more.
func (s *askStream) Close() error {
	s.end(errStreamEnded)
	return nil
}
