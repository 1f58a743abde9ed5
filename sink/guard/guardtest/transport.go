package guardtest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// errAway is what a guard sees of a weir that is away.
var errAway = errors.New("guardtest: connection refused, as the test wants")

// Client returns a client whose requests all go to this weir.
func (w *Weir) Client() *http.Client { return &http.Client{Transport: (*transport)(w)} }

// transport is a Weir seen as the way to it. It dials nothing, so a bubble of testing/synctest
// sees all that waits.
type transport Weir

// RoundTrip serves the request in a goroutine that ends with it.
//
// It returns when the head is known, as the transport of net/http does; the body comes as it is
// written.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := (*Weir)(t)
	if state, _ := w.look(); state == Away {
		return nil, errAway
	}
	ctx, cancel := context.WithCancel(r.Context())
	// The pipe has no room: the weir waits until the guard reads, as with a full connection.
	out, in := io.Pipe()
	rw := &answer{header: make(http.Header), begun: make(chan struct{}), body: in}
	request := r.Clone(ctx)
	if request.Body == nil {
		request.Body = http.NoBody
	}
	go func() {
		defer cancel()
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				// A panic that is no cut is a fault of the test, and ends it.
				panic(p)
			} else if p != nil {
				rw.fail = errAway
			}
			// A handler that wrote nothing answers with status 200, as in net/http.
			rw.begin(http.StatusOK)
			_ = in.CloseWithError(rw.fail) // nil is the end of the body
		}()
		w.ServeHTTP(rw, request)
	}()
	// A request that is given up ends the handler and the body, as a connection would that is
	// closed.
	stop := context.AfterFunc(r.Context(), func() {
		cancel()
		_ = out.CloseWithError(context.Cause(r.Context()))
	})
	select {
	case <-rw.begun:
		if rw.fail != nil {
			return nil, rw.fail
		}
		return &http.Response{Status: strconv.Itoa(rw.status) + " " + http.StatusText(rw.status), StatusCode: rw.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: rw.header, Body: &body{out, cancel, stop}, Request: r}, nil
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
}

// answer is the ResponseWriter of the transport.
// begun is closed when the head is known; fail, which is set before that, says that there is
// none.
type answer struct {
	header http.Header
	status int
	fail   error
	once   sync.Once
	begun  chan struct{}
	body   *io.PipeWriter
}

// Header, WriteHeader and Write are those of http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) { a.begin(status) }

func (a *answer) Write(p []byte) (int, error) {
	a.begin(http.StatusOK)
	return a.body.Write(p)
}

// FlushError is for http.ResponseController. Nothing is buffered, so there is nothing to
// flush.
func (a *answer) FlushError() error { return nil }

// begin lets RoundTrip return. Only the first status counts.
func (a *answer) begin(status int) {
	a.once.Do(func() {
		a.status = status
		close(a.begun)
	})
}

// Closing the body ends the handler.
type body struct {
	*io.PipeReader
	cancel context.CancelFunc
	stop   func() bool
}

// A second call does nothing.
func (b *body) Close() error {
	b.stop()
	b.cancel()
	return b.PipeReader.Close()
}
