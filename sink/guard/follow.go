// It is random, so that many guards do not come back at the same moment when weir does.
package guard

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"time"

	"weir/events"
	"weir/events/byhand"
	"weir/sink/sign"
)

// The time between two tries to connect is a random part of a span that doubles from
// one try to the next.
const (
	shortestWait = 100 * time.Millisecond
	longestWait  = 5 * time.Second
)

var (
	errSilent = errors.New("no sign of life") // ends a connection
	errClosed = errors.New("the guard was closed")
	errBehind = errors.New("it is behind its log")
	errFull   = errors.New("more orders are active than the guard holds")
	errRoom   = errors.New("orders are read again, because there is room for those that were left out")
)

// lineBehind is a sign of life of a weir that has not folded all of its log yet.
const lineBehind = ": behind"

// An answer of another type is not weir's, and is not read.
const eventStream = "text/event-stream"

// mostMessage is the length of the longest message of a stream that is read: of a
// verdict, with its id and its signature. mostID is that of an id.
const (
	// bufio reads lines of this length without asking for more memory.
	mostMessage = events.MaxVerdictBytes + 4096
	mostID      = 1024
)

// follow keeps the table up to date until ctx ends.
// It runs in one goroutine of the guard, which alone uses lastID.
func (g *follower) follow(ctx context.Context) {
	span := shortestWait
	for {
		reached := false
		err := g.caught("follow", func() (err error) {
			reached, err = g.stream(ctx)
			return err
		})
		if ctx.Err() != nil {
			g.becomeStale(errClosed)
			return
		}
		g.becomeStale(err)
		if !errors.Is(err, errRoom) {
			g.leave(g.followed)
		}
		if g.state.Load() == never && !g.unreached.Swap(true) {
			g.logger.Warn("weir was not reached yet; it is tried again", "weir", g.o.URL, "error", err)
		}
		// A connection that delivered all orders was a good one, so the next try comes soon.
		if reached {
			span = shortestWait
		}
		g.logger.Debug("the stream of verdicts ended", "error", err)
		select {
		case <-time.After(rand.N(span)):
		case <-ctx.Done():
		}
		span = min(2*span, longestWait)
	}
}

// leave goes on to the next address of weir. Its log is another one, so all orders are read again there.
func (g *follower) leave(turn int64) {
	if len(g.addresses.list) == 1 {
		return
	}
	g.addresses.leave(turn)
	g.lastID = ""
	g.full.Store(false)
}

// feed runs Options.Follow until ctx ends, and again a while after each panic of it.
func (g *follower) feed(ctx context.Context) {
	for {
		err := g.caught("follow", func() error { g.o.Follow(ctx, Feed{g}); return nil })
		if err == nil {
			g.becomeStale(errClosed)
			return
		}
		g.becomeStale(err)
		select {
		case <-time.After(rand.N(longestWait)):
		case <-ctx.Done():
			return
		}
	}
}

// stream reads verdicts from one connection. reached reports whether all orders that were active
// when it began were read.
// The error is never nil: every stream ends.
func (g *follower) stream(ctx context.Context) (reached bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// One timer for all: no answer, no sign of life and single bytes end alike.
	watch := time.AfterFunc(g.o.StaleAfter, func() { cancel(errSilent) })
	defer watch.Stop()
	// The cancelled request would say only that its context was cancelled.
	defer func() {
		if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
			err = cause
		}
	}()
	resp, err := g.connect(ctx)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	g.counts.Connections.Add(1)
	g.hearTime(resp.Header.Get("Date"))
	g.logName = resp.Header.Get(byhand.LogHeader)
	principal := resp.Header.Get(byhand.PrincipalHeader)
	g.principal.Store(&principal)
	g.start("learn", func() { g.learn(ctx) }) // orders need not wait for the limits
	lines := newLines(resp.Body)
	lines.passMark()
	var m message
	for {
		line, err := lines.next(func() { g.tooLong(&m) })
		if err != nil {
			return reached, err
		}
		m.size += len(line)
		switch {
		case len(line) == 0:
			if len(m.data) > 0 {
				watch.Reset(g.o.StaleAfter) // a whole message is a sign of life, single bytes are none
			}
			g.deliver(&m)
			// The memory of the data is used again: the table keeps a decoded verdict and none
			// of these bytes.
			m = message{data: m.data[:0]}
		// The rest of a message that is too long is passed over up to the empty line.
		case m.long:
		case line[0] == ':':
			// Signs of life within a message are not counted to its length.
			m.size = 0
			watch.Reset(g.o.StaleAfter)
			if string(line) == lineBehind {
				g.becomeStale(errBehind)
				continue
			}
			// Weir says so when the viewer has all that there is, and whenever it has
			// nothing to say.
			// Orders were read before this line, so all that stood are in the table.
			reached = true
			g.becomeFresh()
			if g.mayReread() {
				g.lastID = g.leftAfter
				g.full.Store(false)
				return reached, errRoom
			}
		case m.size > mostMessage:
			g.tooLong(&m)
		default:
			m.field(line)
		}
	}
}

// connect asks for the stream of verdicts, from the last one that was read on. The caller closes the body.
func (g *follower) connect(ctx context.Context) (resp *http.Response, err error) {
	header := http.Header{"Accept": {eventStream}, byhand.GuardHeader: {g.word + " " + url.PathEscape(g.o.Source)}}
	// Weir goes on behind that verdict.
	if g.lastID != "" {
		header.Set("Last-Event-ID", g.lastID)
		if g.logName != "" {
			header.Set(byhand.LogHeader, g.logName)
		}
	}
	at, turn := g.addresses.present()
	g.followed = turn
	resp, err = g.doAt(ctx, at, http.MethodGet, "/v1/verdicts", nil, header)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			resp.Body.Close()
			resp = nil
		}
	}()
	if resp.StatusCode != http.StatusOK {
		if resp.StatusCode == http.StatusBadRequest {
			g.lastID = "" // weir has another log than the one that was followed
			g.full.Store(false)
		}
		return resp, statusError(resp)
	}
	// A proxy's page in the place of the stream would be read as one without orders.
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != eventStream || packed(resp) {
		return resp, fmt.Errorf("what answers is no stream of verdicts: Content-Type %.100q, Content-Encoding %.100q", resp.Header.Get("Content-Type"), resp.Header.Get("Content-Encoding"))
	}
	return resp, nil
}

// tooLong passes over the rest of a message that is longer than any verdict.
func (g *follower) tooLong(m *message) {
	if m.long {
		return
	}
	m.long, m.data = true, nil
	g.unreadable(fmt.Errorf("a message is longer than any verdict: %d bytes", mostMessage))
}

// deliver takes a message of the stream.
// The id counts also for what is no verdict, or the same would be sent again and again. It counts
// after the message was taken: an order that a panic kept out is read again, and the guard is stale
// until then.
func (g *follower) deliver(m *message) {
	before, full := g.lastID, g.full.Load()
	if len(m.data) > 0 && (m.event == "" || m.event == "message") { // else a gap, of orders that have expired
		g.take(m.data, m.signature)
		if !full && g.full.Load() {
			g.leftAfter = before
		}
	}
	if sendable(m.id) {
		g.lastID = m.id
	}
}

// sendable reports whether a request can say that this was the last message.
// Control characters would break the header of the next request.
func sendable(id string) bool {
	for _, c := range []byte(id) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return id != "" && len(id) <= mostID
}

// take takes in a verdict. What is not signed as it should be is not even read.
// It may be called by several goroutines, by way of Feed.
func (g *follower) take(verdict []byte, signature string) {
	if err := g.signed.verify(verdict, signature); err != nil {
		g.ignore(err)
		return
	}
	v, err := readVerdict(verdict)
	if err != nil {
		g.unreadable(err)
		return
	}
	// Before the table, which would take a replay for news.
	if err := g.signed.remember(v, g.stamp()); err != nil {
		g.ignore(err)
		return
	}
	if !understood(v) && v.Stops() && (v.ExpiresAt == 0 || events.Stamp(v.ExpiresAt) > g.stamp()) {
		g.leaveOut("an order by hand has a scope that this guard does not know; update the guard")
		return
	}
	// What clears, and what takes the place of an order that is held, needs no room.
	if v.Stops() && !g.hasRoom(v) && !g.table.holds(v) {
		// One that has expired, of which the log holds many, refuses nothing.
		if v.ExpiresAt == 0 || events.Stamp(v.ExpiresAt) > g.stamp() {
			g.leaveOut("more orders are active than the guard holds; it is stale until there is room")
		}
		return
	}
	if g.table.Take(v) {
		g.counts.Orders.Add(1)
		if v.ByHand != nil {
			g.flights.byHand(g, v)
		}
	}
}

// leaveOut counts an order that the guard cannot hold, and logs why. Without it the guard does not know all
// orders, so it is stale until they were read again.
func (g *follower) leaveOut(why string) {
	g.counts.LeftOut.Add(1)
	if !g.full.Swap(true) {
		g.logger.Error(why, "weir", g.o.URL, "most_orders", g.o.MostOrders)
	}
	g.becomeStale(errFull)
}

// hasRoom reports whether the table has room for an order that it does not hold yet. Events of a
// mere sender can fill the table with orders of rules, which must not keep out those of an operator.
func (g *follower) hasRoom(v *events.Verdict) bool {
	most := g.o.MostOrders
	if v.ByHand != nil {
		return true // weir bounds them itself
	}
	if v.Reason == events.OperatorStopped {
		most *= 2
	}
	return g.table.Len() < most
}

// mayReread reports whether orders were left out that there is room for now. It says yes once a
// minute at most, since weir may send much of its log then.
func (g *follower) mayReread() bool {
	if !g.full.Load() || g.table.Len() > g.o.MostOrders/4*3 || time.Since(g.reread) < time.Minute {
		return false
	}
	g.reread = time.Now()
	return true
}

// unreadable counts messages that are no verdict. Only the first is logged: one sender may send many.
func (g *follower) unreadable(err error) {
	if g.counts.Unreadable.Add(1) == 1 {
		g.logger.Warn("what is no verdict came among them, and is passed over; more are only counted", "error", err)
	}
}

// message is one of a stream of server-sent events.
// Unknown fields are ignored, as the standard of server-sent events says.
type message struct {
	id, event, signature string
	data                 []byte
	size                 int  // of its lines
	long                 bool // it is passed over
}

// field takes in one line. A line without a colon is a name without a value.
func (m *message) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "id":
		m.id = string(value)
	case "event":
		m.event = string(value)
	case sign.Field:
		m.signature = string(value)
	case "data":
		if len(m.data) > 0 {
			m.data = append(m.data, '\n')
		}
		// Several lines of data are one text with line ends between.
		m.data = append(m.data, value...)
	}
}

// lines reads lines, and passes over those that are longer than any verdict.
type lines struct{ r *bufio.Reader }

// newLines has the room for one line made once, for as long as the stream lasts.
func newLines(r io.Reader) *lines { return &lines{bufio.NewReaderSize(r, mostMessage)} }

// byteOrderMark may stand before a text. It says nothing, and is no part of the first line.
const byteOrderMark = "\ufeff"

// passMark passes over a byte order mark, which may stand at the beginning alone.
func (l *lines) passMark() {
	// next returns the error if nothing can be read now.
	if mark, _ := l.r.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = l.r.Discard(len(mark))
	}
}

// next returns the next line. It calls passed before it passes over one.
func (l *lines) next(passed func()) ([]byte, error) {
	for {
		line, long, err := l.r.ReadLine()
		// An end is an error like any other: there is no last verdict.
		if err != nil {
			if err == io.EOF {
				err = errors.New("weir ended the stream")
			}
			return nil, err
		}
		if !long {
			return line, nil
		}
		passed()
		for long {
			if _, long, err = l.r.ReadLine(); err != nil {
				return nil, err
			}
		}
	}
}

// learn asks weir for its limits. What goes wrong leaves the bounds as they were.
// It runs beside the stream, which it must not hold up.
func (g *follower) learn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, g.o.StaleAfter)
	defer cancel()
	resp, err := g.do(ctx, http.MethodGet, "/v1/limits", nil, nil)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	var answer struct {
		Document struct {
			Rules map[string]rule `json:"rules"`
		} `json:"document"`
	}
	// A megabyte is many times a document of limits.
	if resp.StatusCode != http.StatusOK || packed(resp) || json.NewDecoder(io.LimitReader(resp.Body, mostAnswer)).Decode(&answer) != nil || answer.Document.Rules == nil {
		return
	}
	rules := answer.Document.Rules
	rate := rules["call_rate_per_flow"]
	b := Bounds{Calls: rules["max_total_calls"].most(), ToolCalls: rules["max_tool_calls"].most(), Rate: rate.most(), Window: rate.window()}
	// Figures that no limit of weir can have are a fault; times leeway they could overflow.
	if min(b.Calls, b.ToolCalls, b.Rate) < 0 || max(b.Calls, b.ToolCalls, b.Rate) > mostBound {
		return
	}
	g.bounds.Store(&b)
}

// mostBound is more than any limit of weir.
const mostBound = 1 << 40

// rule is a row of the limits as far as the limiter needs it.
// The values are any, since what is written there may be a number or a text.
type rule struct {
	Max, Stop, Window any
}

// most is how many calls the rule allows; 0 when it is off.
func (r rule) most() int64 {
	if n, ok := r.Max.(float64); ok {
		return int64(n)
	}
	// Stop is the figure at which it stops, Max the last that is allowed (see decision 3).
	if n, ok := r.Stop.(float64); ok {
		return max(1, int64(n)-1)
	}
	return 0
}

// window is what the limits say, else a minute, which is the default of these rules.
func (r rule) window() time.Duration {
	text, _ := r.Window.(string)
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return time.Minute
	}
	return d
}

// do sends a request to weir, and to its next address where one does not answer.
func (g *base) do(ctx context.Context, method, path string, body []byte, header http.Header) (resp *http.Response, err error) {
	for n := 1; ; n++ {
		at, turn := g.addresses.present()
		resp, err = g.doAt(ctx, at, method, path, body, header)
		if err == nil && !unreachable(resp.StatusCode) || errors.Is(context.Cause(ctx), context.Canceled) {
			return resp, err
		}
		g.addresses.leave(turn)
		if n == len(g.addresses.list) || ctx.Err() != nil {
			return resp, err
		}
		if err == nil {
			_ = resp.Body.Close()
		}
	}
}

// unreachable reports whether a status says that this address reaches no weir that can answer.
func unreachable(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// doAt sends a request to one address.
func (g *base) doAt(ctx context.Context, at, method, path string, body []byte, header http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, at+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(r.Header, header)
	// What is packed may be any size.
	r.Header.Set("Accept-Encoding", "identity")
	if g.o.Token != "" {
		r.Header.Set("Authorization", "Bearer "+g.o.Token)
	}
	return g.o.Client.Do(r)
}

// packed reports whether an answer has a content encoding, which the guard did not ask for.
// It cannot be read then.
func packed(resp *http.Response) bool { return resp.Header.Get("Content-Encoding") != "" }

// mostAnswer is the length of the longest answer that is read, of those that are no stream.
const mostAnswer = 1 << 20

// statusError says why weir did not do what it was asked for.
func statusError(resp *http.Response) error {
	// Bodies of errors are for people, who read no more than this.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var problem struct{ Detail string }
	_ = json.Unmarshal(body, &problem) // what is not JSON has no detail
	return fmt.Errorf("weir answers %s: %.200s", resp.Status, problem.Detail)
}

// Feed is how verdicts come to a guard that does not follow weir itself, see
// Options.Follow. Its methods may be called by many goroutines.
type Feed struct{ g *follower }

// Take takes a verdict as JSON. Those about one flow come in the order in which they
// were given; to hear one again does no harm. What is no verdict is counted. The
// signature is that of exactly these bytes, "" when they are not signed.
// It keeps nothing of verdict. After a panic in the guard, which may have lost the verdict, the guard
// stays stale.
func (f Feed) Take(verdict []byte, signature string) {
	if err := f.Try(func() error { f.g.take(verdict, signature); return nil }); err != nil {
		f.g.full.Store(true)
		f.g.becomeStale(err)
	}
}

// Try calls fn and returns its error. A panic of fn is counted and logged as one of the guard and
// returned as an error. A follower runs its own goroutines in it, so that none ends the program.
func (f Feed) Try(fn func() error) error { return f.g.caught("follow", fn) }

// Fresh says that the guard has every order that stands, which holds until Stale.
func (f Feed) Fresh() { f.g.becomeFresh() }

// Stale says that orders may be missing, and why.
func (f Feed) Stale(why error) { f.g.becomeStale(why) }
