package api

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"weir/cmd/internal/budget"
	"weir/cmd/internal/problem"
)

// Limits of one body.
const (
	// A longer body has to be sent in parts, since no reader needs all of it at one time.
	maxBody     = 8 << 20  // bytes as they come
	maxUnpacked = 32 << 20 // bytes after decompression

	// Beyond its first freeUnpacked bytes a body may unpack to maxExpansion times its
	// packed size. Logs and spans stay far below; a higher ratio is an attack.
	// The first megabyte is free because small repetitive bodies do pack that well, and a
	// megabyte does no harm.
	freeUnpacked = 1 << 20
	maxExpansion = 100
)

// charged charges the bytes read from the bodies of requests to the budget of the intakes.
// The charge ends with the request, with any result, so no route has to return anything.
// The announced length of a body is never charged: otherwise a client that sends nothing
// could hold the whole budget (see decision 52).
func (a *Server) charged(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		hold := a.budget.Begin(r.Context())
		defer hold.End()
		r.Body = hold.Reader(r.Body)
		next(w, r)
	}
}

// holdOf is what the body of a request is charged to.
// It panics on a route that is not behind charged, which would read bodies without any
// bound.
func holdOf(r *http.Request) *budget.Hold { return r.Body.(*budget.Reader).Hold }

// body is the body of a request, unpacked, within its limits. What is read of it is
// charged to the hold of its request.
type body struct {
	in   io.Reader
	hold *budget.Hold
	err  error // of the first Read that failed: nothing comes after it
}

// openBody opens the body of a request, of which at most the given bytes are read.
// A packed body has three bounds: its packed size, its unpacked size, and the ratio of the
// two. openBody rejects a body that is not gzip, or has another coding, before it holds
// any of it. The body is not closed; the server does that.
func openBody(w http.ResponseWriter, r *http.Request, most int64) (*body, error) {
	packed := &countingReader{in: http.MaxBytesReader(w, r.Body, maxBody)}
	b := &body{in: http.MaxBytesReader(w, io.NopCloser(packed), min(most, maxBody)), hold: holdOf(r)}
	switch coding := strings.ToLower(r.Header.Get("Content-Encoding")); coding {
	case "", "identity":
	case "gzip":
		z, err := gzip.NewReader(packed)
		switch {
		case errors.Is(err, gzip.ErrHeader), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, &problem.Error{Status: http.StatusBadRequest, Detail: "the body is not gzip, though Content-Encoding says so"}
		case err != nil:
			return nil, bodyError(err)
		}
		// Both forms of the body are charged: the packed bytes by the reader of the
		// request, what they unpack to here, since that is what is held.
		b.in = http.MaxBytesReader(w, b.hold.Reader(&unpacking{Reader: z, packed: packed}), most)
	default:
		return nil, &problem.Error{Status: http.StatusUnsupportedMediaType, Detail: fmt.Sprintf("Content-Encoding %q is not known; use gzip or none", coding)}
	}
	return b, nil
}

// Read reads; its errors are the response to send.
// After the first error it returns the same one, so a reader that goes on learns nothing
// else.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.in.Read(p)
	if err != nil && err != io.EOF {
		err = bodyError(err)
	}
	b.err = err
	return n, err
}

// readBody reads a whole body of at most the given bytes.
// Events are taken line by line instead. This is for what has to be read whole, such as a
// batch of spans or an order. The bytes are the caller's, and charged until the request
// ends.
func readBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	b, err := openBody(w, r, most)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(b)
}

// bodyError says what to answer when a body cannot be read.
// Errors that mean more to explain than a bad request pass through as they are: no room,
// and a body that came too slowly.
func bodyError(err error) error {
	if e, ok := errors.AsType[*problem.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &problem.Error{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("the body is longer than %d bytes; send it in parts", e.Limit)}
	}
	if errors.Is(err, budget.ErrFull) {
		return err
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return err
	}
	return &problem.Error{Status: http.StatusBadRequest, Detail: fmt.Sprintf("read the body: %v", err)}
}

// countingReader counts what has come of a packed body.
type countingReader struct {
	in io.Reader
	n  int64
}

// Read counts what was read, also with an error.
func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.n += int64(n)
	return n, err
}

// unpacking is what a packed body unpacks to, within bounds.
// The unpacker reads ahead by its buffer, so a little more counts as come than was
// unpacked, which makes the bound a little looser and never stricter.
type unpacking struct {
	*gzip.Reader
	packed *countingReader
	n      int64
}

// Read holds the bound on how much a body may unpack to while it unpacks, because what it
// says of its own size may be a lie. What was read beyond it is not given to anybody.
func (u *unpacking) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if u.n += int64(n); u.n > freeUnpacked && u.n > maxExpansion*u.packed.n {
		return 0, &problem.Error{Status: http.StatusRequestEntityTooLarge,
			Detail: fmt.Sprintf("the body unpacks to more than %d times its size; send it in smaller parts, or not packed", maxExpansion)}
	}
	return n, err
}
