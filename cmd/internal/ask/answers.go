package ask

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer/agents"
	"weir/cmd/internal/clock"
	"weir/events"
	"weir/sink/check"
)

// Answers brings what the fold said to asks to those who wait for it. It remembers
// what the last ids were used for: an id names one call, and a dispatcher asks again
// with it when an answer was lost. The fold counts a repeat as nothing, so an id that
// served for other calls as well would let them all pass uncounted.
//
// Make it with NewAnswers. Any goroutine may use it.
//
// Deliver, Hold and Settle are for pumps and never block; the rest is for Service.
type Answers struct {
	clock   clock.Clock
	timeout time.Duration

	mu      sync.Mutex
	waiting map[uint64]*waiter // by call, the last one of each to come
	used    map[uint64]use
	// An id is forgotten after rememberedAsks newer ones. The fold itself knows the id of a repeat,
	// as long as it remembers it (decision 6).
	order [rememberedAsks]uint64 // of used, a ring
	place int
	held  map[uint64]held // by call, what flows have allowed and their trees have not answered
	// It spares a dispatcher that asks again at once a record of the log and a fold.
	last struct { // ask that was folded
		key     askKey
		offset  int64
		verdict *events.Verdict
	}
}

// askKey identifies checks: those of one source, id and flow are about one call, and have
// to have one content. Both are hashes.
// call is the identity, content the content of the check; both fit into a map without keeping the
// event.
type askKey struct{ call, content uint64 }

// waiter waits for one answer, for which its channel has room.
type waiter struct {
	ev     *events.Event
	record []byte // as it is put into the log; nil where that is not known
	key    askKey
	since  time.Time
	answer chan *events.Verdict
	before *waiter // who waits for an answer about the same call and came before
}

// waiters are those that wait no more, whose channels are empty.
var waiters = sync.Pool{New: func() any { return &waiter{answer: make(chan *events.Verdict, 1)} }}

// held is what the flow of a call has allowed.
type held struct {
	key     askKey
	verdict *events.Verdict
}

// use is what an id was used for.
type use struct {
	content uint64
	allowed int // times that it was answered with an allowance
}

// Recalled is how many records of the end of the log a start gives to Recall, of all partitions together.
const Recalled = rememberedAsks

// asks is in each record of a check.
var asks = []byte(`"ask"`)

// Recall notes what the id of a check was used for by a record of the log from before this process. It is called in the
// order of the log, and ignores other records.
func (a *Answers) Recall(record []byte) {
	var ev events.Event
	if !bytes.Contains(record, asks) || events.Decode(record, &ev) != nil || !ev.Ask {
		return
	}
	key := keyOf(&ev)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.register(key)
}

const (
	rememberedAsks = 1 << 16
	// mostAllowed is how often one call is answered with an allowance. A dispatcher that lost
	// that many answers looks the same as one that makes many calls under one id.
	mostAllowed = 8
)

// NewAnswers returns answers that are waited for so long at most.
// It has room for the ids of the last 65,536 asks from the start, half a MiB.
func NewAnswers(c clock.Clock, timeout time.Duration) *Answers {
	return &Answers{clock: c, timeout: timeout, waiting: make(map[uint64]*waiter), used: make(map[uint64]use), held: make(map[uint64]held)}
}

// keyOf is what an ask is known by.
func keyOf(ev *events.Event) askKey { return askKey{callOf(ev), contentOf(ev)} }

// contentOf is a hash of the content of a check. It leaves out what differs when the same call is
// checked again: the time, and the span of the request.
func contentOf(ev *events.Event) uint64 {
	// A copy of the struct, so that the caller's event stays as it is.
	call := *ev
	call.Ask, call.Time, call.Observed, call.Sequence = true, 0, 0, 0
	call.TraceID, call.SpanID, call.ParentSpanID = "", "", ""
	if len(call.Tool.Args) > 0 {
		call.Tool.ArgsHash = events.Hash{} // the fold makes it of them
	}
	text := texts.Get().(*[]byte)
	*text = call.AppendJSON((*text)[:0])
	content := xxhash.Sum64(*text)
	texts.Put(text)
	return content
}

// callOf is a hash of what identifies a call, with a zero byte between the parts.
func callOf(ev *events.Event) uint64 {
	text := texts.Get().(*[]byte)
	*text = append(append(append(append(append((*text)[:0], ev.Source...), 0), ev.ID...), 0), ev.FlowKey()...)
	call := xxhash.Sum64(*text)
	texts.Put(text)
	return call
}

// texts are what is written to be hashed.
var texts = sync.Pool{New: func() any { return new([]byte) }}

// Deliver is called by the pump for each ask that was folded, with the record that it was.
// It comes in the order of the log, before the verdicts of the batch are published.
func (a *Answers) Deliver(offset int64, record []byte, ev *events.Event, v *events.Verdict) {
	key := askKey{call: callOf(ev)}
	a.mu.Lock()
	defer a.mu.Unlock()
	// Mostly it is the record that the last who asked has put there, which says the same, and is
	// registered since.
	if w := a.waiting[key.call]; w != nil && len(w.record) > 0 && bytes.Equal(w.record, record) {
		key = w.key
	} else {
		key.content = contentOf(ev)
		a.register(key)
	}
	a.last.key, a.last.offset, a.last.verdict = key, offset, v
	a.deliver(key, v)
}

// deliver answers those who wait. The caller holds the lock.
func (a *Answers) deliver(key askKey, v *events.Verdict) {
	for w := a.waiting[key.call]; w != nil; {
		before := w.before
		if w.key == key {
			a.remove(w)
			w.answer <- v // has room; from here on it is another one's
		}
		w = before
	}
}

// remove takes one who waits out. The caller holds the lock.
func (a *Answers) remove(w *waiter) {
	at, left := a.waiting[w.key.call], false
	if at == w {
		if at = w.before; at == nil {
			delete(a.waiting, w.key.call)
		} else {
			a.waiting[w.key.call] = at
		}
	}
	for ; at != nil; at = at.before {
		if at.before == w {
			at.before = w.before
		}
		left = left || at.key == w.key
	}
	w.before = nil
	if !left { // no caller waits for the tree's answer
		delete(a.held, w.key.call)
	}
}

// Hold is called by the pump for each check that its flow has allowed and whose tree has the
// last word. It reports whether a caller waits for that.
func (a *Answers) Hold(ev *events.Event, v *events.Verdict) bool {
	key := keyOf(ev)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.register(key)
	a.last.verdict = nil // no longer the last
	for w := a.waiting[key.call]; w != nil; w = w.before {
		if w.key == key {
			a.held[key.call] = held{key, v}
			return true
		}
	}
	return false
}

// Settle is called for each check that a tree has answered, with an event that has the source,
// id and flow of the check.
// If no caller waits any more, the answer is dropped, and the caller asks again.
func (a *Answers) Settle(ev *events.Event, v *events.Verdict) {
	call := callOf(ev)
	a.mu.Lock()
	defer a.mu.Unlock()
	if h, ok := a.held[call]; ok {
		delete(a.held, call)
		a.deliver(h.key, agents.LastWord(h.verdict, v))
	}
}

// register notes what an id is used for, unless it was used before, and returns for what.
func (a *Answers) register(key askKey) use {
	u, known := a.used[key.call]
	if !known {
		u.content = key.content
		// The oldest is dropped, also if a caller still waits for it: the waiter keeps its channel.
		delete(a.used, a.order[a.place])
		a.used[key.call], a.order[a.place] = u, key.call
		a.place = (a.place + 1) % rememberedAsks
	}
	return u
}

// begin refuses an ask whose id was used for another call.
func (a *Answers) begin(ev *events.Event, key askKey) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.beginLocked(ev, key)
}

func (a *Answers) beginLocked(ev *events.Event, key askKey) error {
	if a.register(key).content == key.content {
		return nil
	}
	return &check.Error{Status: http.StatusConflict,
		Detail: fmt.Sprintf("the id %q was used in this flow for another call; give each call an id of its own, and the same id only to the same call when its answer was lost", ev.ID)}
}

// give counts that an ask is answered, and refuses to allow one call over and over.
func (a *Answers) give(ev *events.Event, key askKey, v *events.Verdict) (*events.Verdict, error) {
	if check.Refuses(v) {
		return v, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.register(key)
	// A refusal may be repeated without limit, since it lets nothing pass.
	if u.allowed >= mostAllowed {
		return nil, &check.Error{Status: http.StatusConflict,
			Detail: fmt.Sprintf("the call with the id %q was allowed %d times; give each call an id of its own", ev.ID, u.allowed)}
	}
	u.allowed++
	a.used[key.call] = u
	return v, nil
}

// endUnknown is for enter where the end of the log is not known.
const endUnknown = -1

// enter begins to wait for the answer to an ask that is about to be put into the log, which
// ends at end, as a record, if that is known. Its caller puts it there and calls said, await or leave.
// Without a waiter what it returns is the answer: that which was given last, when it was given to the
// same ask and the log has nothing after it, because the fold would say the same.
func (a *Answers) enter(ev *events.Event, record []byte, end int64) (*waiter, *events.Verdict, error) {
	key, since := keyOf(ev), a.clock.Now()
	a.mu.Lock()
	if err := a.beginLocked(ev, key); err != nil {
		a.mu.Unlock()
		return nil, nil, err
	}
	if l := &a.last; l.verdict != nil && l.key == key && l.offset+1 == end {
		v := l.verdict
		a.mu.Unlock()
		v, err := a.give(ev, key, v)
		return nil, v, err
	}
	w := waiters.Get().(*waiter)
	w.ev, w.record, w.key, w.since, w.before = ev, record, key, since, a.waiting[key.call]
	a.waiting[key.call] = w
	a.mu.Unlock()
	return w, nil, nil
}

// leave waits no more.
func (a *Answers) leave(w *waiter) {
	a.mu.Lock()
	if len(w.answer) == 0 { // or it was taken out when its answer came
		a.remove(w)
	}
	a.mu.Unlock()
	select {
	case <-w.answer: // it came meanwhile
	default:
	}
	w.free()
}

// free lets another check use the waiter.
func (w *waiter) free() {
	w.ev, w.record = nil, nil
	waiters.Put(w)
}

// said returns the answer if it has come; then the waiter is free.
func (a *Answers) said(w *waiter) (v *events.Verdict, err error, ok bool) {
	select {
	case v = <-w.answer:
		v, err = a.taken(w, v)
		return v, err, true
	default:
		return nil, nil, false
	}
}

// taken gives an answer that was taken out, with which its waiter is done.
func (a *Answers) taken(w *waiter, v *events.Verdict) (*events.Verdict, error) {
	v, err := a.give(w.ev, w.key, v)
	w.free()
	return v, err
}

// await waits for the answer.
func (a *Answers) await(ctx context.Context, w *waiter) (*events.Verdict, error) {
	if v, err, ok := a.said(w); ok { // as when the caller itself folds
		return v, err
	}
	select {
	case v := <-w.answer:
		return a.taken(w, v)
	case <-a.clock.After(max(0, a.timeout-a.clock.Now().Sub(w.since))):
		a.leave(w)
		return nil, check.ErrTimeout
	// The check stays in the log and is folded; a caller that gave up asks again with its id.
	case <-ctx.Done():
		a.leave(w)
		return nil, context.Cause(ctx)
	}
}

// Waiting is the number of calls for which a check waits.
func (a *Answers) Waiting() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting)
}
