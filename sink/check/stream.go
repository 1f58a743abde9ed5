package check

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"weir/events"
)

// StreamPath is the route on which a dispatcher asks for one call after the other on one
// connection.
const StreamPath = "/v1/check/stream"

const (
	// bytesUnderWay is how much of a stream may wait for answers before more is read.
	bytesUnderWay = 64 << 10
	// answerTimeout is how long one write of answers may wait for its reader.
	answerTimeout = 5 * time.Second
)

// Stream is POST StreamPath: asks as for Handler, one event a line, for as long as the
// request goes on, and an answer of one line to each, as soon as it is known:
//
//	{"line": n, "status": of the answer, "body": the answer}
//
// where n is the number of the line that asked, from 1; empty lines count. Answers come in
// any order. At most MostAsks lines wait for theirs: then no more are read until some have
// gone out. The answer has to be read while the request is written (HTTP/1.1, full duplex).
// Handler answers each line; its ServeHTTP is not used.
type Stream struct {
	Handler
	// Begin is called before each ask, and end when it is answered; an error is its answer.
	// Nil: all are taken.
	Begin func(r *http.Request) (ctx context.Context, end func(), err error)
	// Read is called when a line is read no more. It may be nil.
	Read func(r *http.Request)
	// End is done when no more asks are to be read, because the program ends.
	// It must not be nil.
	End context.Context
}

// ServeHTTP answers until the request ends, or the program.
func (s *Stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	format, err := ParseDenyFormat(r.URL.Query().Get("deny"))
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	control := http.NewResponseController(w)
	if err := control.EnableFullDuplex(); err != nil && r.ProtoMajor < 2 {
		s.Fail(w, r, &Error{http.StatusHTTPVersionNotSupported, "a stream of asks needs HTTP/1.1; send them to /v1/check, several in one body"})
		return
	}
	_ = control.SetReadDeadline(time.Time{}) // who asks seldom asks all the same
	// A deadline in the past wakes the reader, which no context does.
	stop := context.AfterFunc(s.End, func() { _ = control.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	in := bufio.NewReader(r.Body)
	if r.Header.Get("Expect") != "" {
		// Without a read nobody sends the 100 Continue that the client waits for.
		_, _ = in.Peek(1) // which says that the body may come
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", manyAsks)
	h.Set("X-Accel-Buffering", "no") // of a proxy in between
	w.WriteHeader(http.StatusOK)
	ctx, leave := context.WithCancel(r.Context())
	out := &answers{w: w, control: control, broken: leave}
	// The head goes out before the first ask, so that the client knows that it may begin.
	if out.flush(nil); out.err == nil {
		s.read(r.WithContext(ctx), in, out, format)
	}
	_ = control.SetReadDeadline(time.Unix(1, 0)) // nobody waits for the rest of the request
	leave()
}

// read asks for each line until there are no more, and returns when all have their answers.
// The answers are written by the goroutines of the asks, in whatever order these end.
func (s *Stream) read(r *http.Request, in *bufio.Reader, out *answers, format DenyFormat) {
	under := newUnderWay()
	var asking sync.WaitGroup
	defer asking.Wait()
	for n := int64(1); ; n++ {
		line, err := readLine(in)
		if s.Read != nil {
			s.Read(r)
		}
		if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
			// A connection that is lost or ended has nobody to tell it to; a line that is too
			// long has.
			if _, lost := errors.AsType[net.Error](err); !lost && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				to := reply{}
				s.Fail(&to, r, err)
				out.say(n, &to)
			}
			return
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if !under.begin(r.Context(), len(line)) {
				return
			}
			asking.Go(func() {
				to := reply{}
				s.askFor(&to, r, line, format)
				out.say(n, &to)
				under.end(len(line))
			})
		}
		// The last line may come without an end.
		if err != nil {
			return
		}
	}
}

// askFor lets each ask in anew, so a token that was taken out in the meantime asks no more
// (see decision 79).
func (s *Stream) askFor(to *reply, r *http.Request, line []byte, format DenyFormat) {
	ctx := r.Context()
	if s.Begin != nil {
		c, end, err := s.Begin(r)
		if err != nil {
			s.Fail(to, r, err)
			return
		}
		defer end()
		ctx = c
	}
	var ev events.Event
	raw, err := prepare(line, &ev)
	if err != nil {
		s.Fail(to, r, err)
		return
	}
	v, err := s.Ask(ctx, &ev, raw)
	switch {
	case err != nil:
		s.Fail(to, r, err)
	case Refuses(v):
		Refuse(v, format, nil).write(to)
	default:
		to.status, to.body = http.StatusOK, allowance(v)
	}
}

// readLine returns the next line, which is the caller's; io.EOF may come with one.
// ReadSlice lends its buffer, so the line is a copy.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		// Two more bytes, for the line end.
		case len(line) > events.MaxEventBytes+2:
			return nil, &Error{http.StatusRequestEntityTooLarge, fmt.Sprintf("the line has more than %d bytes", events.MaxEventBytes)}
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

// underWay bounds the asks that wait for their answers.
// Both bounds keep a client that writes and does not read from filling memory.
type underWay struct {
	// Its room is MostAsks, so sending into it is taking a place.
	asks  chan struct{}
	mu    sync.Mutex
	bytes int
	// It holds one token, which is enough: there is one who waits, the reader of the stream.
	fewer chan struct{} // told when there are fewer bytes
}

func newUnderWay() *underWay {
	return &underWay{asks: make(chan struct{}, MostAsks), fewer: make(chan struct{}, 1)}
}

// begin waits for room; false when ctx has ended first.
func (u *underWay) begin(ctx context.Context, bytes int) bool {
	select {
	case u.asks <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	for {
		u.mu.Lock()
		// A line that is longer than the bound alone is let in when it is the only one.
		fits := u.bytes == 0 || u.bytes+bytes <= bytesUnderWay
		if fits {
			u.bytes += bytes
		}
		u.mu.Unlock()
		if fits {
			return true
		}
		select {
		case <-u.fewer:
		case <-ctx.Done():
			return false
		}
	}
}

func (u *underWay) end(bytes int) {
	u.mu.Lock()
	u.bytes -= bytes
	u.mu.Unlock()
	select {
	case u.fewer <- struct{}{}:
	default:
	}
	<-u.asks
}

// answers are what goes out. Answers that come while others are written are written together.
type answers struct {
	w       http.ResponseWriter
	control *http.ResponseController
	broken  func() // called when the other side reads no more

	mu      sync.Mutex
	out     []byte // not written yet
	spare   []byte
	writing bool
	err     error
}

// say writes an answer, or leaves it to whoever is writing.
func (o *answers) say(n int64, to *reply) {
	o.mu.Lock()
	o.out = append(o.out, `{"line":`...)
	o.out = strconv.AppendInt(o.out, n, 10)
	o.out = append(o.out, ',')
	o.out = to.appendMembers(o.out)
	if o.writing {
		o.mu.Unlock()
		return
	}
	o.writing = true
	o.mu.Unlock()
	runtime.Gosched() // what was answered at the same time goes out with it
	o.mu.Lock()
	for len(o.out) > 0 {
		out := o.out
		o.out = o.spare[:0]
		o.mu.Unlock()
		o.flush(out)
		o.mu.Lock()
		o.spare = out
	}
	o.writing = false
	o.mu.Unlock()
}

// flush writes to the connection. It is for one goroutine at a time.
func (o *answers) flush(out []byte) {
	if o.err != nil {
		return
	}
	_ = o.control.SetWriteDeadline(time.Now().Add(answerTimeout))
	if len(out) > 0 {
		_, o.err = o.w.Write(out)
	}
	if o.err == nil {
		o.err = o.control.Flush()
	}
	if o.err != nil {
		o.broken()
	}
}
