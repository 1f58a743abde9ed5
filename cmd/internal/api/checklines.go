package api

import (
	"context"
	"net/http"

	"weir/cmd/internal/access"
	"weir/cmd/internal/admission"
	"weir/cmd/internal/problem"
)

// checkLines lets the lines of one stream of checks in, each as if it had come in a request of its
// own. It belongs to the goroutine that reads the stream.
type checkLines struct {
	door    *door
	paid    func(who *access.Principal) *problem.Error
	request *http.Request
	part    admission.Part
	end     func() // part.End

	// What the last line found. The head of the request stays, so the next line finds the same until
	// the access files are read again.
	visit   *visit // nil: no line was let in
	ctx     context.Context
	reading int64
}

// begin lets one line in. ctx is that of the stream, and the function is to be called when the response
// is ready: until then the connection counts as busy and does not make room for a new one.
func (l *checkLines) begin(ctx context.Context) (context.Context, func(), error) {
	// Read first: a line after a change of the files looks again.
	if reading := l.door.keeper.Reading(); l.visit == nil || l.reading != reading {
		who, e := l.door.admit(l.request, asker)
		if e != nil {
			l.visit = nil
			return nil, nil, e
		}
		l.visit, l.reading = &visit{who: who}, reading
		l.ctx = context.WithValue(ctx, visitKey{}, l.visit)
	}
	if e := l.paid(l.visit.who); e != nil {
		return nil, nil, e
	}
	l.part.Begin()
	return l.ctx, l.end, nil
}
