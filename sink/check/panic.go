package check

import (
	"fmt"
	"net/http"
	"runtime/debug"
)

// Panic is a fault in weir while it answered one check. It costs that answer: the client gets a
// 500, and the checks beside it get theirs. Fail logs and counts it.
type Panic struct {
	Value any
	Stack []byte
}

// Error returns what the panic said.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Caught calls fn and returns its error, or its panic as a *Panic.
func Caught(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = PanicOf(p)
		}
	}()
	return fn()
}

// PanicOf makes a *Panic of what was recovered. It is for the function that recovers. One that was
// caught before and goes on keeps its stack.
func PanicOf(recovered any) *Panic {
	if fault, ok := recovered.(*Panic); ok {
		return fault
	}
	return &Panic{Value: recovered, Stack: debug.Stack()}
}

// faultBody is the answer where writing one panicked twice.
const faultBody = `{"type":"about:blank","title":"Internal Server Error","status":500,"detail":"internal error; see the log of weir"}`

// reply writes the answer to one check of several. A panic costs this answer alone.
func (h *Handler) reply(to *reply, r *http.Request, respond func()) {
	fault := Caught(func() error { respond(); return nil })
	if fault == nil {
		return
	}
	*to = reply{}
	if Caught(func() error { h.Fail(to, r, fault); return nil }) != nil {
		*to = reply{status: http.StatusInternalServerError, body: []byte(faultBody)}
	}
}
