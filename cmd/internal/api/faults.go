package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"weir/cmd/internal/admission"
	"weir/cmd/internal/budget"
	"weir/cmd/internal/problem"
	"weir/events"
	"weir/sink/check"
	"weir/state"
)

// faults answers what went wrong, and logs and counts what is weir's own fault.
type faults struct {
	logger *slog.Logger
	panics atomic.Int64 // of requests, each of which cost one answer
}

// panicked counts a panic of a request and logs it with its stack.
func (f *faults) panicked(request string, fault *check.Panic) {
	f.panics.Add(1)
	f.logger.Error("a request panicked: please report this", "request", request, "panic", fmt.Sprint(fault.Value), "stack", string(fault.Stack))
}

// caught calls fn and returns its error, or its panic as one. Goroutines that work for a request run
// in it: a panic in one of them would end the process.
func (f *faults) caught(request string, fn func() error) error {
	err := check.Caught(fn)
	if fault, ok := errors.AsType[*check.Panic](err); ok {
		f.panicked(request, fault)
	}
	return err
}

// write answers with a problem (RFC 9457).
// Nothing of the answer may have been sent. What is weir's own fault goes to the log as
// well; what a client did wrong does not, for anybody could fill the log by it.
func (f *faults) write(w http.ResponseWriter, r *http.Request, err error) {
	e := explain(err)
	if e == nil { // the other side is gone
		return
	}
	h := w.Header()
	// By Retry-After a client knows that the same request may be taken later. Without it,
	// it is not.
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	if e.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="weir"`)
	}
	// Otherwise the server would read the rest of an unused body before the next request,
	// and a slow sender would keep the connection.
	if admission.Unread(r) {
		h.Set("Connection", "close")
	}
	if fault, ok := errors.AsType[*check.Panic](err); ok {
		f.panicked(r.Method+" "+shownPath(r), fault)
	} else if e.Status >= http.StatusInternalServerError {
		f.logger.Warn("a request failed", "method", r.Method, "path", shownPath(r), "status", e.Status, "error", err)
	}
	body := struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Code   string `json:"code,omitempty"`
		Field  string `json:"field,omitempty"`
		*notJudged
		// about:blank says that the status has its usual meaning and the detail says the rest.
	}{"about:blank", http.StatusText(e.Status), e.Status, e.Detail, e.Code, e.Field, nil}
	if r.URL.Path == checkPath || r.URL.Path == check.StreamPath {
		body.notJudged = new(notJudged)
	}
	writeJSON(w, "application/problem+json", e.Status, body)
}

// shownPath is the path of a request for the log. The token of a link is a secret as long as the link is
// not used, so a path with one is shown as its pattern.
func shownPath(r *http.Request) string {
	if r.PathValue("token") != "" {
		_, path, _ := strings.Cut(r.Pattern, " ")
		return path
	}
	return r.URL.Path
}

// notJudged are the members by which a problem is an answer to a check, see check.Answer.
type notJudged struct {
	Verdict *struct{} `json:"verdict"`
	Allowed bool      `json:"allowed"`
	ID      string    `json:"id"`
}

// explain returns the response to an error; nil if the client is gone.
// Rejections of other packages have their own types and are translated here, so that
// neither the store nor the decoder depends on HTTP. An unforeseen error is a fault of
// weir's.
func explain(err error) *problem.Error {
	if e, ok := errors.AsType[*problem.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*events.DecodeError](err); ok {
		return &problem.Error{Status: http.StatusBadRequest, Code: string(e.Code), Field: e.Field, Detail: e.Error()}
	}
	if _, ok := errors.AsType[*check.Panic](err); ok {
		return &problem.Error{Status: http.StatusInternalServerError, Detail: "a fault in weir; its log has more"}
	}
	if e, ok := errors.AsType[*check.Error](err); ok {
		return &problem.Error{Status: e.Status, Detail: e.Detail}
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &problem.Error{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("the body is longer than %d bytes; send it in parts", maxBody)}
	}
	// The server's own deadline, or admission, which has given the place to another request.
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return &problem.Error{Status: http.StatusRequestTimeout, Detail: "the body came too slowly; send it in parts"}
	}
	switch {
	// What follows heals by itself, and the sender is to come again: in seconds, how soon.
	case errors.Is(err, budget.ErrFull):
		return &problem.Error{Status: http.StatusServiceUnavailable, Detail: err.Error(), RetryAfter: 1}
	case errors.Is(err, check.ErrTimeout):
		return &problem.Error{Status: http.StatusServiceUnavailable, Detail: err.Error(), RetryAfter: 1}
	case errors.Is(err, state.ErrDiskLow):
		return &problem.Error{Status: http.StatusServiceUnavailable, Detail: "there is too little free disk space to take anything in; it goes on by itself when there is room", RetryAfter: 5}
	case errors.Is(err, state.ErrTooLarge):
		return &problem.Error{Status: http.StatusRequestEntityTooLarge, Detail: err.Error()}
	case errors.Is(err, state.ErrClosed):
		return &problem.Error{Status: http.StatusServiceUnavailable, Detail: "weir is stopping; send it again", RetryAfter: 1}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &problem.Error{Status: http.StatusBadRequest, Detail: "the body ended before it was whole; send it again"}
	case errors.Is(err, context.Canceled):
		return nil
	}
	return &problem.Error{Status: http.StatusInternalServerError, Detail: err.Error()}
}
