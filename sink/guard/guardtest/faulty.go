// It is for one guard: the first request on the faulty path gets the fault, from any sender.
package guardtest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/events"
)

// Faulty is a server with one fault.
type Faulty struct {
	// tries counts requests on the path of the fault; the first one is the wrong answer.
	fault Fault
	weir  *Weir

	mu    sync.Mutex
	tries int
	once  sync.Once
	ended chan struct{} // the first wrong answer is over
}

// Serve returns a server with the fault.
// Its weir has one order against flow f, and refuses asks about it: so a test sees by flow f
// what the guard knows and by any other flow what it lets through.
func (f Fault) Serve() *Faulty {
	weir := New()
	weir.Give(events.Verdict{ID: "of-f", CorrelationID: "f", Action: "deny", Reason: events.SelfCall})
	weir.Answer(func(ev *events.Event) *events.Verdict {
		if ev.CorrelationID != "f" {
			return nil
		}
		return &events.Verdict{ID: "a", Mode: "enforce", Action: "deny", Reason: events.SelfCall, HTTPStatus: http.StatusForbidden}
	})
	return &Faulty{fault: f, weir: weir, ended: make(chan struct{})}
}

// Over reports whether the guard has seen the fault, and has left it where it does not
// end by itself.
func (f *Faulty) Over() bool {
	if f.fault.lasts {
		return true
	}
	select {
	case <-f.ended:
		return true
	default:
		return false
	}
}

// ServeHTTP answers as a weir does, but for the fault.
func (f *Faulty) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	// A guard that follows a redirect would take orders from an unknown server, and send its
	// token along.
	if r.URL.Path == pathElsewhere {
		begin(rw) // orders, or answers, of a server that is not weir
		say(rw, alive)
		beat(rw, r)
		return
	}
	if r.URL.Path != f.fault.path {
		if r.URL.Path == pathVerdicts { // whose signs of life come too seldom for these tests
			// A guard that hears nothing for long says that weir is away, which would hide the
			// fault in question.
			begin(rw)
			say(rw, "id: 0\ndata: "+order("f", "")+"\n\n")
			beat(rw, r)
			return
		}
		f.weir.ServeHTTP(rw, r)
		return
	}
	f.mu.Lock()
	f.tries++
	first := f.tries == 1
	f.mu.Unlock()
	switch {
	case first:
		// The guard has seen the fault when the handler is over; a fault that hangs is over
		// when the guard hangs up.
		defer f.once.Do(func() { close(f.ended) })
		f.fault.serve(rw, r)
	case f.fault.then != nil:
		f.fault.then(rw, r)
	default:
		// The guard is kept waiting, so that no later answer makes up for the fault.
		hang(rw, r)
	}
}

// begin makes the answer a stream of events. The head goes out with the first text.
func begin(rw http.ResponseWriter) { rw.Header().Set("Content-Type", "text/event-stream") }

// say sends a text at once. It reports whether the client may still be connected.
func say(rw http.ResponseWriter, text string) bool {
	_, err := io.WriteString(rw, text)
	return err == nil && http.NewResponseController(rw).Flush() == nil
}

// pace is how often something comes that comes bit by bit.
const pace = 50 * time.Millisecond

// every sends a text again and again until the client disconnects.
func every(rw http.ResponseWriter, r *http.Request, text string) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for say(rw, text) {
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// beat lets the stream live, and says nothing more.
func beat(rw http.ResponseWriter, r *http.Request) { every(rw, r, alive) }

// hang sends nothing until the client disconnects.
func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // only then is it seen that the other side hangs up
	<-r.Context().Done()
}

// cut breaks the connection off. net/http ends the connection after this panic, and writes
// nothing about it.
func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// reply answers with a status, a type and a text, and ends there.
func reply(status int, contentType, text string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", contentType)
		rw.WriteHeader(status)
		_, _ = io.WriteString(rw, text)
	}
}

// replyAs is reply in JSON with headers of its own.
func replyAs(status int, header http.Header, text string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		maps.Copy(rw.Header(), header)
		reply(status, "application/json", text)(rw, r)
	}
}

// seldom answers so often by one, and then by the other.
func seldom(times int64, first, then http.HandlerFunc) http.HandlerFunc {
	var n atomic.Int64
	return func(rw http.ResponseWriter, r *http.Request) {
		if n.Add(1) <= times {
			first(rw, r)
			return
		}
		then(rw, r)
	}
}

// reset sends a text and then tears the connection down, so that the other side sees a reset
// instead of an end.
func reset(text string) http.HandlerFunc {
	return hijacked(func(conn net.Conn, _ <-chan struct{}) {
		_, _ = io.WriteString(conn, text)
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
	})
}

// pageOf is what a portal or a proxy shows in place of weir: status 200, and no JSON.
func pageOf(text string) http.HandlerFunc { return reply(http.StatusOK, "text/html", text) }

// flood sends a text, and then another one again and again.
// It stops after Flood bytes, so that a guard that reads all of it ends too, and is found out
// by its memory.
func flood(text, again string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		_, err := io.WriteString(rw, text)
		for sent := 0; sent < Flood && err == nil; sent += len(again) {
			_, err = io.WriteString(rw, again)
		}
		// A guard that has read all of it is kept, so that its memory can be looked at.
		if say(rw, "") {
			hang(rw, r)
		}
	}
}

// floodOf is flood in the body of an answer of that status.
func floodOf(status int, contentType, text string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", contentType)
		rw.WriteHeader(status)
		flood(text, strings.Repeat("x", 1<<16))(rw, r)
	}
}

// dripOf begins an answer of that status and never ends it: each read brings something, so a
// timeout of single reads does not help.
func dripOf(status int) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(status)
		every(rw, r, " ")
	}
}

const pathElsewhere = "/elsewhere"

// elsewhere leads away from weir.
func elsewhere(rw http.ResponseWriter, r *http.Request) {
	http.Redirect(rw, r, pathElsewhere, http.StatusTemporaryRedirect)
}

// packed is a text and more, Flood bytes of it if there is something to repeat, in the form of gzip. What is repeated is
// packed once, for a file of gzip may have many members, and packing all of it takes the
// race detector longer than a guard waits.
func packed(text, again string) []byte {
	member := func(text string) []byte {
		var out bytes.Buffer
		zip := gzip.NewWriter(&out)
		_, _ = io.WriteString(zip, text) // memory takes everything
		_ = zip.Close()
		return out.Bytes()
	}
	if again == "" {
		return member(text)
	}
	many := max(1, (1<<20)/len(again))
	return append(member(text), bytes.Repeat(member(strings.Repeat(again, many)), 1+Flood/(many*len(again)))...)
}

// hijacked answers below HTTP. What it sends ends with the connection.
// HTTP/2 cannot be hijacked, and panics here.
func hijacked(fn func(conn net.Conn, gone <-chan struct{})) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conn, _, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			panic(err) // the server of the test is one of HTTP/1.1
		}
		defer conn.Close()
		gone := make(chan struct{})
		// Only a read detects that the other side has closed.
		go func() {
			defer close(gone)
			_, _ = io.Copy(io.Discard, conn)
		}()
		fn(conn, gone)
	}
}

// raw answers with bytes that may be no HTTP, and hangs up.
func raw(text string) http.HandlerFunc {
	return hijacked(func(conn net.Conn, _ <-chan struct{}) { _, _ = io.WriteString(conn, text) })
}

// rawEvery sends a text, and then others one by one, over and over.
func rawEvery(text string, others ...string) http.HandlerFunc {
	return hijacked(func(conn net.Conn, gone <-chan struct{}) {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		_, err := io.WriteString(conn, text)
		for n := 0; err == nil; n++ {
			_, err = io.WriteString(conn, others[n%len(others)])
			select {
			case <-tick.C:
			case <-gone:
				return
			}
		}
	})
}

// rawFlood is flood below HTTP. Without a head of its own: text is the head, too.
func rawFlood(text, again string) http.HandlerFunc {
	return hijacked(func(conn net.Conn, _ <-chan struct{}) {
		_, err := io.WriteString(conn, text)
		for sent := 0; sent < Flood && err == nil; sent += len(again) {
			_, err = io.WriteString(conn, again)
		}
	})
}

// rawChunks sends a text as one chunk, and then what is no chunk. The last chunk has no
// length, so the body breaks off in a way that HTTP can detect.
func rawChunks(text string) http.HandlerFunc {
	return raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\nthis is no length\r\n", len(text), text))
}
