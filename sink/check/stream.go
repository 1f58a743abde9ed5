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
	// Begin is called before each ask with the context of the stream, and end when it is answered; an
	// error is its answer. Nil: all are taken.
	Begin func(stream context.Context) (ctx context.Context, end func(), err error)
	// Read is called when a line is read no more. It may be nil.
	Read func()
	// Send is called to write answers, and may have what write writes go out at one time. Its error
	// is that of the connection. Nil: write is called.
	Send func(write func() error) error
	// End is done when no more asks are to be read, because the program ends.
	// It must not be nil.
	End context.Context
}

// ServeHTTP answers until the request ends, or the program.
func (s *Stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	format, err := ParseDenyFormat(r.URL.Query().Get("deny"))
	if err == nil && r.Header.Get(KeyHeader) != "" {
		err = &Error{http.StatusBadRequest, KeyHeader + " names one request, and a stream has many checks; give each line an id"}
	}
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	control := http.NewResponseController(w)
	if err := control.EnableFullDuplex(); err != nil && r.ProtoMajor < 2 {
		s.Fail(w, r, &Error{http.StatusHTTPVersionNotSupported, "a stream of asks needs HTTP/1.1; send them to /v1/check, several in one body"})
		return
	}
	_ = control.SetReadDeadline(time.Time{}) // a client that rarely sends checks keeps its stream
	// A deadline in the past wakes the reader, which no context does.
	stop := context.AfterFunc(s.End, func() { _ = control.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	in := bufio.NewReader(r.Body)
	if r.Header.Get("Expect") != "" {
		// Only a read sends the 100 Continue that the client waits for.
		_, _ = in.Peek(1) // which says that the body may come
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", manyAsks)
	h.Set("X-Accel-Buffering", "no") // of a proxy in between
	w.WriteHeader(http.StatusOK)
	ctx, leave := context.WithCancel(r.Context())
	out := &answers{w: w, control: control, broken: leave, send: s.Send}
	out.put = out.writeNow
	if s.Send == nil {
		out.send = func(write func() error) error { return write() }
	}
	// The head goes out before the first ask, so that the client knows that it may begin.
	if out.flush(nil); out.err == nil { // no other goroutine writes yet
		s.read(r.WithContext(ctx), in, out, format)
	}
	_ = control.SetReadDeadline(time.Unix(1, 0)) // the rest of the request is not read
	leave()
}

// read asks for each line until there are no more, and returns when all have their answers.
// The lines that have come at one time are asked for together, and answered by this goroutine
// as far as their answers are there at once. It waits for no other answer: those are written by
// goroutines of their own, in whatever order they come.
func (s *Stream) read(r *http.Request, in *bufio.Reader, out *answers, format DenyFormat) {
	under := newUnderWay()
	b := &batch{stream: s, r: r, out: out, format: format, under: under}
	defer b.late.Wait()
	for n := int64(1); ; n++ {
		q := b.next(n)
		var err error
		q.line, err = readLine(in, q.line[:0])
		if s.Read != nil {
			s.Read()
		}
		if err != nil && (!errors.Is(err, io.EOF) || len(q.line) == 0) {
			// A connection that is lost or ended can carry no error; one with a line that is too
			// long can.
			if _, lost := errors.AsType[net.Error](err); !lost && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				to := reply{}
				s.reply(&to, r, func() { s.Fail(&to, r, err) })
				out.write(to.appendMembers(appendLine(nil, n)), false)
			}
			return
		}
		if text := bytes.TrimSpace(q.line); len(text) > 0 {
			if !under.try(len(text)) {
				b.ask() // the room may be that of its own asks
				if !under.begin(r.Context(), len(text)) {
					return
				}
			}
			b.take(q, text)
		} else {
			b.release(q)
		}
		if err != nil || !hasLine(in) {
			b.ask()
		}
		// The last line may come without an end.
		if err != nil {
			return
		}
	}
}

// hasLine reports whether another line has come already.
func hasLine(in *bufio.Reader) bool {
	come, _ := in.Peek(in.Buffered())
	return bytes.IndexByte(come, '\n') >= 0
}

// batch is the checks that a stream decides together: the lines that have come at one time. It
// belongs to the goroutine that reads them.
type batch struct {
	stream *Stream
	r      *http.Request
	out    *answers
	format DenyFormat
	under  *underWay
	late   sync.WaitGroup // answers that were not there at once

	taken []*asking
	asks  []*Request
	text  []byte    // of the answers
	spare []*asking // memory that no line has
}

// asking is one line and its answer.
type asking struct {
	n    int64
	line []byte
	size int    // that is charged
	room []byte // for what goes into the log
	ev   events.Event
	Request
	end func() // see Stream.Begin; may be nil
	to  reply  // unless the answer allows
}

// next takes memory for a line out of spare, or makes it. The line owns it until release: what is
// in spare belongs to no line, so a batch that is asked for in between cannot give it away.
func (b *batch) next(n int64) *asking {
	last := len(b.spare) - 1
	if last < 0 {
		return &asking{n: n}
	}
	q := b.spare[last]
	b.spare[last], b.spare = nil, b.spare[:last]
	q.n = n
	return q
}

// release gives back the memory of a line whose answer is written. The memory of a late answer is
// left to the collector, and so is that of one that failed with a panic: what panicked may refer
// to it. BenchmarkStream has the gain: 2.9 instead of 5.4 µs a line of 32.
func (b *batch) release(q *asking) {
	if q.done() && cap(q.line)+cap(q.room) <= mostSpare {
		b.spare = append(b.spare, q)
	}
}

// take makes a check of a line. It lets each in anew, so a token that was revoked in the
// meantime is refused (see decision 79).
func (b *batch) take(q *asking, text []byte) {
	b.taken = append(b.taken, q)
	q.size, q.end, q.to, q.Request = len(text), nil, reply{}, Request{Context: b.r.Context()}
	if q.Err = Caught(func() error { return b.prepare(q, text) }); q.Err == nil {
		q.Event, q.Decoded = &q.ev, true
		b.asks = append(b.asks, &q.Request)
	}
}

func (b *batch) prepare(q *asking, text []byte) (err error) {
	if b.stream.Begin != nil {
		if q.Context, q.end, err = b.stream.Begin(b.r.Context()); err != nil {
			return err
		}
	}
	if q.Raw, err = prepare(text, &q.ev, q.room, &sender{now: b.stream.Now}); err == nil && &q.Raw[0] != &text[0] {
		q.room = q.Raw
	}
	return err
}

// ask asks for what was taken, and answers as far as the answers are there.
func (b *batch) ask() {
	if len(b.taken) == 0 {
		return
	}
	b.stream.Check.all(b.asks)
	b.text = b.text[:0]
	for _, q := range b.taken {
		if q.Wait == nil {
			b.text = b.appendAnswer(b.text, q)
		}
	}
	b.out.write(b.text, false)
	for _, q := range b.taken {
		if q.Wait != nil {
			b.late.Go(func() { b.answerLate(q) })
			continue
		}
		b.under.end(q.size)
		b.release(q)
	}
	clear(b.taken)
	clear(b.asks)
	b.taken, b.asks = b.taken[:0], b.asks[:0]
}

func (b *batch) answerLate(q *asking) {
	defer b.under.end(q.size)
	q.Verdict, q.Err = q.Answer()
	b.out.write(b.appendAnswer(nil, q), true)
}

// appendAnswer appends the answer to a line.
func (b *batch) appendAnswer(dst []byte, q *asking) []byte {
	if q.end != nil {
		defer q.end()
	}
	dst = appendLine(dst, q.n)
	if q.Err == nil && q.Verdict != nil && !Refuses(q.Verdict) {
		return append(b.stream.appendAllowance(appendStatus(dst, http.StatusOK), q.Event, q.Verdict), "}\n"...)
	}
	b.stream.reply(&q.to, b.r, func() { b.stream.respond(&q.to, b.r, &q.Request, q.Verdict, q.Err, b.format, brief) })
	return q.to.appendMembers(dst)
}

// appendLine appends how the answer to a line begins.
func appendLine(dst []byte, n int64) []byte {
	dst = append(dst, `{"line":`...)
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, ',')
}

// readLine appends the next line, with its end; io.EOF may come with one.
func readLine(in *bufio.Reader, line []byte) ([]byte, error) {
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		// Two more bytes, for the line end.
		case len(line) > events.MaxEventBytes+2:
			return line[:0], &Error{http.StatusRequestEntityTooLarge, fmt.Sprintf("the line has more than %d bytes", events.MaxEventBytes)}
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

// underWay bounds the asks that wait for their answers.
// Both bounds keep a client that writes and does not read from filling memory.
type underWay struct {
	mu          sync.Mutex
	asks, bytes int
	// It holds one token, which is enough: there is one who waits, the reader of the stream.
	fewer chan struct{} // gets a token when there are fewer
}

// newUnderWay has room for MostAsks asks.
func newUnderWay() *underWay { return &underWay{fewer: make(chan struct{}, 1)} }

// begin waits for room; false when ctx has ended first.
func (u *underWay) begin(ctx context.Context, bytes int) bool {
	for !u.try(bytes) {
		select {
		case <-u.fewer:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// try reports whether there is room at once, and takes it. A line that is longer than the bound is let
// in when it is the only one.
func (u *underWay) try(bytes int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.asks == MostAsks || u.bytes > 0 && u.bytes+bytes > bytesUnderWay {
		return false
	}
	u.asks++
	u.bytes += bytes
	return true
}

// end gives back the room of a check that was answered, with the number of bytes that begin got.
func (u *underWay) end(bytes int) {
	u.mu.Lock()
	u.asks--
	u.bytes -= bytes
	u.mu.Unlock()
	select {
	case u.fewer <- struct{}{}:
	default:
	}
}

// answers are what goes out. Answers that come while others are written are written together.
type answers struct {
	w       http.ResponseWriter
	control *http.ResponseController
	broken  func() // called when the other side reads no more
	send    func(write func() error) error
	put     func() error // writeNow
	now     []byte       // what it writes
	by      time.Time    // deadline of writes

	mu      sync.Mutex
	out     []byte // not written yet
	spare   []byte
	writing bool
	err     error
}

// write writes answers, or leaves them to the goroutine that is writing. One that comes alone may
// be gathered with those that come at the same time.
func (o *answers) write(text []byte, gather bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.writing || gather {
		o.out = append(o.out, text...)
	}
	if o.writing {
		return
	}
	o.writing = true
	if gather {
		o.mu.Unlock()
		runtime.Gosched()
		o.mu.Lock()
	} else {
		o.mu.Unlock()
		o.flush(text)
		o.mu.Lock()
	}
	for len(o.out) > 0 {
		out := o.out
		o.out = o.spare[:0]
		o.mu.Unlock()
		o.flush(out)
		o.mu.Lock()
		o.spare = out
	}
	o.writing = false
}

// flush writes to the connection. It is for one goroutine at a time.
func (o *answers) flush(out []byte) {
	if o.err != nil {
		return
	}
	// To set it costs as much as to look up a call, so it stands for a while.
	if by := time.Now().Add(answerTimeout); by.Sub(o.by) > time.Second {
		o.by = by
		_ = o.control.SetWriteDeadline(by)
	}
	o.now = out
	if o.err = o.send(o.put); o.err != nil {
		o.broken()
	}
}

// writeNow is called by flush, by way of send.
func (o *answers) writeNow() error {
	if len(o.now) > 0 {
		if _, err := o.w.Write(o.now); err != nil {
			return err
		}
	}
	return o.control.Flush()
}
