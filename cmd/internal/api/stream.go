package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/cmd/internal/access"
	"weir/cmd/internal/admission"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/problem"
	"weir/cmd/internal/selftest"
	"weir/events"
	"weir/events/byhand"
	"weir/sink/sign"
	"weir/state"
)

// streamBatch is how many verdicts are read for a viewer at one time.
// It bounds what a viewer that is far behind makes weir hold.
const streamBatch = 256

// streams shows the verdicts to viewers.
type streams struct {
	program   Program
	log       Log
	verdicts  Verdicts
	name      string // of the verdicts, see Parts.VerdictLog
	orders    *orderLog
	byHand    Orders
	connected func(r *http.Request) // notes a dispatcher that follows
	door      *door
	faults    *faults
	catchUp   chan struct{} // taken by viewers that read what they have missed, as turns are
	most      int           // see Options.Streams
	heartbeat time.Duration // see Options.Heartbeat
	sign      func(order []byte) string
	clock     clock.Clock
	logger    *slog.Logger
}

// serve is GET /v1/verdicts. A viewer reads the verdict log at its own pace from a
// place of its own, so that none is ever waited for; one that does not take what it
// was sent is dropped, and resumes by the id of the last verdict that it has.
// Who does not follow gets what there is and an end, and takes no seat.
func (a *streams) serve() func(http.ResponseWriter, *http.Request) error {
	seats := admission.NewSeats(a.most)
	return func(w http.ResponseWriter, r *http.Request) error {
		v, err := a.newViewer(w, r)
		defer v.leave()
		if err != nil {
			return err
		}
		if v.follow {
			leave, ok := seats.Take(r, visitOf(r.Context()).name())
			if !ok {
				return &problem.Error{Status: http.StatusTooManyRequests, RetryAfter: 5,
					Detail: fmt.Sprintf("too many viewers follow the verdicts; close some (there may be %d, three quarters of them from one address)", a.most)}
			}
			defer leave()
		}
		return v.run(r)
	}
}

// viewer is a reader of the verdicts. Only the goroutine of its request uses it; state that
// other goroutines change is in streams.
type viewer struct {
	streams *streams
	w       http.ResponseWriter
	control *http.ResponseController
	// sse selects server-sent events instead of NDJSON, by the header Accept. It always follows.
	sse    bool
	follow bool
	flow   string // only this one; "" for all
	// The principal may be bound to some flows, and then gets the verdicts of these flows
	// only. It is looked up again at each read of a stream, see mayFollow.
	who *access.Principal
	// from is the place of the next verdict in the log.
	from int64
	end  int64 // where to stop when it does not follow
	due  bool  // a sign of life, which also says whether it has all that there is
	// reached and leave are those of Log.Follow, and ended is a context that is over, by which
	// reached says how it is now.
	reached func(context.Context) bool
	leave   func()
	ended   context.Context
	// buf holds what was not sent yet: at most one batch.
	buf bytes.Buffer
}

// newViewer reads what a request wants, and where it begins. No response has begun yet, so an
// error is one of the request. The end is noted here: later verdicts are for followers only.
// If other processes fold the flows as well, their verdicts may have to be copied first.
// Requests that need the end wait for that. The viewer has to leave, also after an error.
func (a *streams) newViewer(w http.ResponseWriter, r *http.Request) (*viewer, error) {
	q := r.URL.Query()
	v := &viewer{streams: a, w: w, who: visitOf(r.Context()).who, control: http.NewResponseController(w), flow: q.Get("flow"),
		sse: strings.Contains(r.Header.Get("Accept"), "text/event-stream")}
	v.follow = v.sse || q.Get("follow") == "1" || q.Get("follow") == "true"
	v.reached, v.leave = a.log.Follow(v.flow, false)
	var over context.CancelFunc
	v.ended, over = context.WithCancel(r.Context())
	over()
	if since := q.Get("since"); !v.follow || since == "now" || strings.HasPrefix(since, "-") {
		if !a.orders.waitFor(r.Context(), v.reached) && !v.follow {
			// The client gets the available verdicts, and the rest with its next poll.
			w.Header().Set("Weir-Behind", "the verdicts of the group are not copied up to the last")
		}
	}
	v.end = a.verdicts.End()
	lastID := r.Header.Get("Last-Event-ID")
	if of := r.Header.Get(byhand.LogHeader); lastID != "" && of != "" && of != a.name {
		return v, &problem.Error{Status: http.StatusBadRequest, Detail: fmt.Sprintf("Last-Event-ID %q is a position in another log of verdicts; read this one from its beginning", lastID)}
	}
	var err error
	v.from, err = v.begin(q.Get("since"), lastID)
	return v, err
}

// begin finds the place to begin at: after the last verdict that the viewer has, at a
// position, at the n-th from the end (-n), or now. By default it is the beginning,
// because a dispatcher that misses a standing order is worse off than one that hears
// of old ones, which say when they expire.
func (v *viewer) begin(since, lastID string) (int64, error) {
	bad := func(what, text string) error {
		return &problem.Error{Status: http.StatusBadRequest, Detail: fmt.Sprintf("%s %q is not a position up to %d; want a number, or for since also now or -n", what, text, v.end)}
	}
	// The id counts before since, because an EventSource of a browser opens the same
	// address again and adds the header.
	if lastID != "" {
		n, err := strconv.ParseInt(lastID, 10, 64)
		if err != nil || n < 0 || n >= v.end {
			return 0, bad("Last-Event-ID", lastID)
		}
		return n + 1, nil
	}
	switch {
	case since == "":
		return 0, nil
	case since == "now":
		return v.end, nil
	}
	n, err := strconv.ParseInt(since, 10, 64)
	if err != nil || n > v.end {
		return 0, bad("since", since)
	}
	if n < 0 {
		n = max(0, v.end+n)
	}
	return n, nil
}

// run sends verdicts until the viewer leaves or the program ends. A viewer that does not
// follow gets all verdicts up to the noted end. The status goes out before the first verdict,
// so later faults end the response and go to the log. A viewer that reconnects with its last
// id misses nothing that has not expired.
func (v *viewer) run(r *http.Request) error {
	v.writeHeader(r)
	// The header goes out at once: a dispatcher knows by it that the stream is open.
	if v.follow && v.send() != nil {
		return nil
	}
	a := v.streams
	v.due = true // dispatchers wait for the first one before they decide
	copied := v.copying(r)
	for v.follow || v.from < v.end {
		// Before it is read: what comes after that would not be sent yet.
		current := v.due && v.current()
		n, err := v.gather(r)
		if err != nil {
			if !errors.Is(err, errNotFollowing) && !errors.Is(err, state.ErrClosed) && r.Context().Err() == nil {
				a.logger.Error("a viewer of the verdicts is dropped", "error", err)
			}
			return nil // the answer has begun
		}
		if v.send() != nil {
			return nil
		}
		if n > 0 {
			continue
		}
		if v.due {
			v.due = false
			v.beat(current)
			if v.send() != nil {
				return nil
			}
		}
		select {
		case <-a.verdicts.Ready(v.from):
		// Also the time after which a viewer that is not there any more is noticed, by a
		// write.
		case <-a.clock.After(a.heartbeat):
			v.due = true
		case <-copied:
			v.due, copied = true, nil
		case <-r.Context().Done():
			return nil
		case <-a.program.Ending().Done():
			return nil
		}
	}
	return nil
}

// writeHeader begins the response.
func (v *viewer) writeHeader(r *http.Request) {
	h := v.w.Header()
	h.Set("Content-Type", "application/x-ndjson")
	if v.sse {
		h.Set("Content-Type", "text/event-stream")
		h.Set("X-Accel-Buffering", "no") // of a proxy in between
		v.buf.WriteString("retry: 1000\n\n")
	}
	if !v.follow {
		// Where the next request goes on by since=, for those who poll.
		h.Set("Weir-Next", strconv.FormatInt(v.end, 10))
	}
	if v.sse {
		v.streams.connected(r)
	}
	if v.who != nil {
		h.Set(byhand.PrincipalHeader, v.who.Name)
	}
	if v.streams.name != "" {
		h.Set(byhand.LogHeader, v.streams.name)
	}
	v.w.WriteHeader(http.StatusOK)
}

// copying returns a channel that is closed when what is followed has come here; nil when it is here already.
func (v *viewer) copying(r *http.Request) <-chan struct{} {
	if v.reached(v.ended) {
		return nil
	}
	copied := make(chan struct{})
	go func() {
		_ = v.streams.faults.caught("GET "+r.URL.Path, func() error {
			if v.reached(r.Context()) {
				close(copied)
			}
			return nil
		})
	}()
	return copied
}

// followed is the route of streams, as within needs it.
var followed = &route{method: http.MethodGet, path: "/v1/verdicts", need: follower}

// errNotFollowing ends the stream of a principal that may not follow any more. The next request
// gets the reason.
var errNotFollowing = errors.New("the principal may not follow the verdicts any more")

// mayFollow looks up the principal again and reports whether it may still follow.
// A stream outlives the access file that it began with: a token may be removed and flows may be
// taken away. So each read of the log uses the policy of that moment.
func (v *viewer) mayFollow(r *http.Request) bool {
	who, e := v.streams.door.admit(r, followed.need)
	if e == nil {
		e = within(who, followed, r)
	}
	v.who = who
	return e == nil
}

// liveBatch is how many verdicts a viewer may be behind and still read without waiting for a turn.
const liveBatch = 16

// gather puts the next verdicts that are for this viewer into the buffer, and returns how many
// there were for anybody. Nothing of them is held afterwards but the buffer.
//
// Viewers that are far behind read in turn: each would take a processor for a moment, and who
// asks for a call would wait for hundreds of them.
func (v *viewer) gather(r *http.Request) (int, error) {
	a := v.streams
	if a.verdicts.End()-v.from > liveBatch {
		select {
		case a.catchUp <- struct{}{}:
			defer func() { <-a.catchUp }()
		case <-r.Context().Done():
			return 0, context.Cause(r.Context())
		}
	}
	first, entries, err := state.ReadOn(a.verdicts.Read, v.from, streamBatch, nil)
	if err != nil {
		return 0, err
	}
	// After the read: verdicts that came after a change of the access file fall under the change.
	if v.follow && !v.mayFollow(r) {
		return 0, errNotFollowing
	}
	if first > v.from {
		v.writeGap(v.from, first)
		v.from = first
	}
	for i := range entries {
		if v.from >= v.end && !v.follow {
			break
		}
		v.from++
		v.write(&entries[i])
	}
	return len(entries), nil
}

// write puts a verdict into the buffer if it is for this viewer. Verdicts of the self-test
// are for no viewer. The bytes of a verdict are sent as they are in the log. The signature is
// beside it, and only with server-sent events (see decision 45).
func (v *viewer) write(e *state.Entry) {
	if selftest.OwnVerdict(e.Value) {
		return
	}
	// Most verdicts are about other flows, and to see that takes no decoding. An id with signs
	// that JSON may escape can stand there in another spelling.
	if v.flow != "" && !bytes.Contains(e.Value, []byte(v.flow)) && !strings.ContainsAny(v.flow, "\"\\<>&\u2028\u2029") {
		return
	}
	if v.flow != "" || v.who.Bound() {
		var verdict events.Verdict
		// The flow of the verdict is unknown. An error here would end the stream at each
		// reconnect, and the viewer would never see the later verdicts.
		if err := events.DecodeVerdict(e.Value, &verdict); err != nil {
			v.streams.logger.Error("a verdict cannot be read, and is left out for who sees only some flows", "verdict", e.Offset, "error", err)
			return
		}
		if v.flow != "" && verdict.CorrelationID != v.flow || v.who.Bound() && !concerns(v.who, &verdict) {
			return
		}
	}
	if v.sse {
		fmt.Fprintf(&v.buf, "id: %d\n", e.Offset)
		if signature := v.streams.sign(e.Value); signature != "" {
			fmt.Fprintf(&v.buf, "%s: %s\n", sign.Field, signature)
		}
		v.buf.WriteString("data: ")
	}
	v.buf.Write(e.Value)
	v.buf.WriteByte('\n')
	if v.sse {
		v.buf.WriteByte('\n')
	}
}

// concerns reports whether a verdict is for who is bound to some flows. Orders about agents
// and projects are for everybody, since they hold in every flow.
func concerns(who *access.Principal, v *events.Verdict) bool {
	if v.ByHand != nil { // who is stopped has to know it, whatever the scope
		return true
	}
	switch v.Scope.Kind {
	case events.ScopeAgent, events.ScopeProject:
		return v.CorrelationID == "" || who.Flow(v.CorrelationID)
	case events.ScopeTree:
		return who.Flow(v.Scope.ID)
	}
	return who.Flow(v.CorrelationID)
}

// writeGap says that verdicts have expired. Their orders have done so before.
// NDJSON has no place for it.
func (v *viewer) writeGap(from, to int64) {
	if v.sse {
		fmt.Fprintf(&v.buf, "event: gap\ndata: {\"from\":%d,\"to\":%d}\n\n", from, to)
	}
}

// beat shows that the connection is alive, and whether verdicts are up to date: what
// was not folded yet may bring orders that a dispatcher has to know. NDJSON knows no
// comments; an empty line is one that its readers pass over.
// A guard that has heard nothing for long, or hears that weir is behind, relies on what it
// knows and on limits of its own (see decision 36).
func (v *viewer) beat(current bool) {
	switch {
	case !v.sse:
		v.buf.WriteByte('\n')
	case current:
		v.buf.WriteString(": heartbeat\n\n")
	default:
		v.buf.WriteString(": behind\n\n")
	}
}

// current reports whether the verdict log has all that there is for the viewer: the fold has caught up
// with the log, and what others fold has come here.
func (v *viewer) current() bool {
	why, _, _ := v.streams.log.Ready()
	return len(why)+len(v.streams.byHand.Book.Ready()) == 0 && v.reached(v.ended)
}

// send writes what was gathered, and fails when the viewer does not take it in time.
// The deadline is moved with each write and is real time. A viewer that leaves its bytes in
// the socket for longer is dropped, since the buffers of the kernel are all that it is
// given.
func (v *viewer) send() error {
	if v.buf.Len() == 0 && !v.follow {
		return nil
	}
	if err := v.control.SetWriteDeadline(time.Now().Add(viewerTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if v.buf.Len() > 0 {
		if _, err := v.buf.WriteTo(v.w); err != nil {
			return err
		}
	}
	return v.control.Flush()
}
