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
	maxBody     = 8 << 20  // bytes as they come
	maxUnpacked = 32 << 20 // bytes after decompression

	// Beyond its first freeUnpacked bytes a body may unpack to so many times what came.
	// Logs and spans stay far below: what is beyond is made to be unpacked.
	freeUnpacked = 1 << 20
	maxExpansion = 100
)

// charged charges what is read of the bodies of requests to the budget of the intakes.
func (a *Server) charged(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		hold := a.budget.Begin(r.Context())
		defer hold.End()
		r.Body = hold.Reader(r.Body)
		next(w, r)
	}
}

// holdOf is what the body of a request is charged to.
func holdOf(r *http.Request) *budget.Hold { return r.Body.(*budget.Reader).Hold }

// body is the body of a request, unpacked, within its limits. What is read of it is
// charged to the hold of its request.
type body struct {
	in   io.Reader
	hold *budget.Hold
	err  error // of the first Read that failed: nothing comes after it
}

// openBody opens the body of a request, of which at most so many bytes are read.
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
		b.in = http.MaxBytesReader(w, b.hold.Reader(&unpacking{Reader: z, packed: packed}), most)
	default:
		return nil, &problem.Error{Status: http.StatusUnsupportedMediaType, Detail: fmt.Sprintf("Content-Encoding %q is not known; use gzip or none", coding)}
	}
	return b, nil
}

// Read reads; its errors say what to answer.
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

// readBody reads a whole body of at most so many bytes.
func readBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	b, err := openBody(w, r, most)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(b)
}

// bodyError says what to answer when a body cannot be read.
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

type countingReader struct {
	in io.Reader
	n  int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.n += int64(n)
	return n, err
}

// unpacking is what a packed body unpacks to, within bounds.
type unpacking struct {
	*gzip.Reader
	packed *countingReader
	n      int64
}

func (u *unpacking) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if u.n += int64(n); u.n > freeUnpacked && u.n > maxExpansion*u.packed.n {
		return 0, &problem.Error{Status: http.StatusRequestEntityTooLarge,
			Detail: fmt.Sprintf("the body unpacks to more than %d times its size; send it in smaller parts, or not packed", maxExpansion)}
	}
	return n, err
}
