package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func listen(t *testing.T, most int, refused func(net.Addr)) *Listener {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Listen(inner, most, refused)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// dial connects from an address of loopback, and returns both ends.
func dial(t *testing.T, l *Listener, from string) (client net.Conn, server *conn) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	client, err := d.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return client, accepted.(*conn)
}

func closed(t *testing.T, client net.Conn) bool {
	t.Helper()
	if err := client.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, err := client.Read(make([]byte, 1))
	timeout, ok := err.(net.Error)
	return !ok || !timeout.Timeout()
}

func (l *Listener) places() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

func TestSilentConnectionsGiveWay(t *testing.T) {
	l := listen(t, 3, nil)
	first, a := dial(t, l, "127.0.0.1")
	second, _ := dial(t, l, "127.0.0.1")
	third, _ := dial(t, l, "127.0.0.1")
	// The oldest says something, so that the second is silent for the longest.
	if _, err := first.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	dial(t, l, "127.0.0.1")
	if closed(t, first) || !closed(t, second) || closed(t, third) || l.places() != 3 {
		t.Error("not the one was closed that was silent for the longest")
	}
}

func TestPeersShareTheRoom(t *testing.T) {
	l := listen(t, 3, nil)
	quiet, _ := dial(t, l, "127.0.0.1")
	crowd, _ := dial(t, l, "127.0.0.2")
	dial(t, l, "127.0.0.2")
	dial(t, l, "127.0.0.3")
	if closed(t, quiet) || !closed(t, crowd) {
		t.Error("a place was taken from another peer than the one with the most")
	}
}

func TestNobodyAtWorkGivesWay(t *testing.T) {
	refused := make(chan net.Addr, 1)
	l := listen(t, 2, func(peer net.Addr) { refused <- peer })
	first, a := dial(t, l, "127.0.0.1")
	second, b := dial(t, l, "127.0.0.1")
	a.busy.Add(1)
	b.busy.Add(1)
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	third, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	<-refused
	if closed(t, first) || closed(t, second) || !closed(t, third) {
		t.Error("a request that is being answered gave way")
	}
	// A place that is given back is there for the next.
	_ = a.Close()
	_ = a.Close()
	fourth, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer fourth.Close()
	if c := <-accepted; c == nil || l.places() != 2 {
		t.Errorf("accepted %v, %d places are taken", c, l.places())
	}
	// One whose client does not read what it is sent waits for it.
	b.writing.Store(l.now() - int64(Patience))
	_, _ = dial(t, l, "127.0.0.1")
	if !closed(t, second) && !closed(t, fourth) {
		t.Error("nobody gave way")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("a connection was accepted after the end")
	}
}

// slow is a request whose body never ends.
func slow(t *testing.T) (*http.Request, *body) {
	t.Helper()
	in, _ := io.Pipe()
	b := &body{ReadCloser: in, control: http.NewResponseController(httptest.NewRecorder()), since: time.Now().Add(-Patience)}
	b.awaited.Store(true)
	r := httptest.NewRequestWithContext(context.WithValue(t.Context(), bodyKey, b), "POST", "/", b)
	return r, b
}

func TestSlowBodiesGiveWay(t *testing.T) {
	g := NewGate(2)
	older, b := slow(t)
	b.since = b.since.Add(-time.Second)
	leave, ok := g.Enter(older, "")
	if !ok {
		t.Fatal("no place in an empty gate")
	}
	younger, _ := slow(t)
	if _, ok := g.Enter(younger, ""); !ok {
		t.Fatal("no second place")
	}
	quick, q := slow(t)
	q.came()
	for range 2 {
		if _, ok := g.Enter(quick, ""); !ok {
			t.Fatal("a slow body kept its place")
		}
	}
	if _, ok := g.Enter(quick, ""); ok {
		t.Error("a request that came whole lost its place")
	}
	leave() // which has none any more
	if _, ok := g.Enter(quick, ""); ok {
		t.Error("a place was given back twice")
	}
}

// TestWhoIsKeptWaitingKeepsHisPlace holds that a request keeps its place while the server lets it
// wait, as for memory. Its goroutine would stay, and more would be let in than there are places.
func TestWhoIsKeptWaitingKeepsHisPlace(t *testing.T) {
	g := NewGate(1)
	waiting, b := slow(t)
	b.awaited.Store(false)
	if _, ok := g.Enter(waiting, ""); !ok {
		t.Fatal("no place in an empty gate")
	}
	other, _ := slow(t)
	if _, ok := g.Enter(other, ""); ok {
		t.Error("two are let in where there is place for one")
	}
}

// TestPeersShareAGate holds that a client that begins requests faster than they become slow keeps no
// other client out.
func TestPeersShareAGate(t *testing.T) {
	g := NewGate(3)
	enter := func(peer string) bool {
		r, b := slow(t)
		r.RemoteAddr, b.since = peer, time.Now().Add(time.Hour) // it never becomes slow
		_, ok := g.Enter(r, "")
		return ok
	}
	for range 3 {
		if !enter("many") {
			t.Fatal("no place in a gate with room")
		}
	}
	if enter("many") {
		t.Error("a peer took a place of its own that is not slow")
	}
	if !enter("few") {
		t.Error("a peer with all places keeps another one out")
	}
	if enter("few") {
		t.Error("a peer with one place took a second one from who has two")
	}
}

// TestRequestsThatCameTogether has a connection on which several requests came at one time, and
// then another one.
func TestRequestsThatCameTogether(t *testing.T) {
	yields := 0
	defer func(was func()) { yield = was }(yield)
	yield = func() { yields++ }
	client, c := dial(t, listen(t, 1, nil), "127.0.0.1")
	h := Track(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for i, want := range []int{0, 1, 2, 2, 3} {
		if i == 0 || i == 3 {
			if _, err := client.Write([]byte("requests")); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		h.ServeHTTP(httptest.NewRecorder(), r.WithContext(ConnContext(r.Context(), c)))
		if yields != want {
			t.Errorf("request %d: others were let run %d times, want %d", i, yields, want)
		}
	}
}

// serveOne serves requests that get into a gate with one place; others get an answer to come again.
func serveOne(t *testing.T, serve http.HandlerFunc) (*Gate, *httptest.Server, *Listener) {
	t.Helper()
	g := NewGate(1)
	server := httptest.NewUnstartedServer(Track(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, ok := g.Enter(r, "")
		if !ok {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		defer leave()
		serve(w, r)
	})))
	l := Listen(server.Listener, 10, nil)
	l.begun = l.begun.Add(-time.Hour) // so that a point long ago has a time
	server.Listener, server.Config.ConnContext = l, ConnContext
	server.Start()
	t.Cleanup(server.Close)
	return g, server, l
}

// say sends the beginning of a request, and leaves it at that.
func say(t *testing.T, l *Listener, text string) {
	t.Helper()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // before the server, which waits for it
	if _, err := io.WriteString(client, text); err != nil {
		t.Fatal(err)
	}
}

// TestHalfBodyIsCut sends half a body to a server that has one place.
func TestHalfBodyIsCut(t *testing.T) {
	reading, failed := make(chan *body, 1), make(chan error, 1)
	g, server, l := serveOne(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 100 {
			b, _ := r.Context().Value(bodyKey).(*body)
			reading <- b
		}
		if _, err := io.ReadAll(r.Body); err != nil {
			failed <- err
		}
	})
	say(t, l, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhalf")
	b := <-reading
	g.mu.Lock()
	b.since = b.since.Add(-Patience)
	g.mu.Unlock()
	// Until the half that has come is read, the server is not waiting for the rest.
	for status := 0; status != http.StatusOK; {
		resp, err := http.Post(server.URL, "text/plain", strings.NewReader("whole"))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if status = resp.StatusCode; status != http.StatusOK && status != http.StatusTooManyRequests {
			t.Fatalf("status %d", status)
		}
	}
	if e, ok := (<-failed).(net.Error); !ok || !e.Timeout() {
		t.Errorf("the half body failed with %v, want a timeout", e)
	}
}

// TestAnswersThatNobodyTakesGiveWay has a server with one place answer at length a client that
// takes nothing of it.
func TestAnswersThatNobodyTakesGiveWay(t *testing.T) {
	writing, failed := make(chan *conn, 1), make(chan error, 1)
	_, server, l := serveOne(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			writing <- r.Context().Value(connKey).(*conn)
			_, err := w.Write(make([]byte, 64<<20))
			failed <- err
		}
	})
	say(t, l, "GET /long HTTP/1.1\r\nHost: h\r\n\r\n")
	status := func() int {
		resp, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	c := <-writing
	if n := status(); n != http.StatusTooManyRequests {
		t.Fatalf("status %d while another one is being answered", n)
	}
	let := false
	for end := time.Now().Add(time.Minute); !let && time.Now().Before(end); { // as long as the kernel takes it, the client need not
		since := c.writing.Load()
		let = since != 0 && c.writing.CompareAndSwap(since, since-int64(Patience)) && status() == http.StatusOK
	}
	if !let {
		t.Fatal("who takes nothing kept the place")
	}
	if err := <-failed; err == nil {
		t.Error("the answer that nobody takes was written")
	}
}

func TestSeats(t *testing.T) {
	s := NewSeats(4)
	from := func(address string) *http.Request {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = address
		return r
	}
	var leave []func()
	for range 3 {
		l, ok := s.Take(from("a"), "")
		if !ok {
			t.Fatal("no seat")
		}
		leave = append(leave, l)
	}
	if _, ok := s.Take(from("a"), ""); ok {
		t.Error("one peer has all seats")
	}
	if _, ok := s.Take(from("b"), ""); !ok {
		t.Error("no seat for another peer")
	}
	if _, ok := s.Take(from("c"), ""); ok {
		t.Error("a seat too many")
	}
	leave[0]()
	if _, ok := s.Take(from("a"), ""); !ok {
		t.Error("a seat was not given back")
	}
	if _, ok := NewSeats(1).Take(from("a"), ""); !ok {
		t.Error("no seat in a room of one")
	}
}

// TestSeatsOfManyGiveWay has two peers take all seats: others find some all the same, as long as
// they have fewer, and a peer that has as few as they keeps what it has.
func TestSeatsOfManyGiveWay(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Listen(inner, 10, nil)
	defer l.Close()
	s := NewSeats(8)
	take := func(peer string) (client net.Conn, leave func(), ok bool) {
		client, server := net.Pipe()
		t.Cleanup(func() { _ = client.Close() })
		r := httptest.NewRequest("GET", "/", nil)
		leave, ok = s.Take(r.WithContext(ConnContext(r.Context(), &conn{Conn: server, listener: l, peer: peer})), "")
		return client, leave, ok
	}
	first, leaveFirst, _ := take("a")
	for _, peer := range []string{"a", "a", "a", "a", "a", "b", "b"} {
		if _, _, ok := take(peer); !ok {
			t.Fatal("no seat for ", peer)
		}
	}
	if _, _, ok := take("a"); ok {
		t.Error("one peer has more than three quarters")
	}
	for _, peer := range []string{"c", "d", "c"} {
		if _, _, ok := take(peer); !ok {
			t.Error("no seat for ", peer)
		}
	}
	if n, err := first.Read(make([]byte, 1)); err == nil || n > 0 {
		t.Error("the oldest of the peer with the most has kept its connection")
	}
	leaveFirst() // its request has ended by that
	if got := s.taken; got["a"] != 3 || got["b"] != 2 || got["c"] != 2 || got["d"] != 1 || len(s.seats) != 8 {
		t.Errorf("seats are %v", got)
	}
	if _, _, ok := take("c"); ok {
		t.Error("who has nearly as many has lost one")
	}
}

// TestIdleSeatsGiveWay has unused streams take all seats of an address: a newcomer from there gets the
// one that was idle for the longest. A stream that is young, that was used within Patience, or whose
// check is not answered yet is kept.
func TestIdleSeatsGiveWay(t *testing.T) {
	for name, listens := range map[string]bool{"who listens": true, "who may send": false} {
		t.Run(name, func(t *testing.T) {
			l := &Listener{begun: time.Now().Add(-time.Hour)}
			s := NewSeats(4)
			var conns []*conn
			take := func(peer string) (client net.Conn, ok bool) {
				client, server := net.Pipe()
				t.Cleanup(func() { _ = client.Close() })
				c := &conn{Conn: server, listener: l, peer: peer}
				c.last.Store(l.now())
				conns = append(conns, c)
				b := &body{conn: c}
				b.whole.Store(listens)
				ctx := context.WithValue(context.WithValue(context.Background(), connKey, c), bodyKey, b)
				_, ok = s.Take(httptest.NewRequestWithContext(ctx, "GET", "/", nil), "")
				return client, ok
			}
			// idle makes a stream one that was unused for the given time.
			idle := func(at int, since time.Duration) {
				conns[at].last.Store(l.now() - int64(since))
				for _, other := range s.seats {
					if other.conn == conns[at] {
						other.since = conns[at].last.Load()
					}
				}
			}
			var clients []net.Conn
			for range 3 {
				client, ok := take("a")
				if !ok {
					t.Fatal("no seat where there is room")
				}
				clients = append(clients, client)
			}
			if _, ok := take("a"); ok {
				t.Error("streams that have just begun gave way")
			}
			idle(0, 2*Patience)
			idle(1, 3*Patience)
			if !listens {
				conns[1].busy.Store(1) // a check that is being answered
			}
			gone, kept := 1, 0
			if !listens {
				gone, kept = 0, 1
			}
			if _, ok := take("a"); !ok {
				t.Fatal("idle streams keep a newcomer out")
			}
			if _, err := clients[gone].Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("the idlest ended with %v", err)
			}
			if slices.IndexFunc(s.seats, func(of *seat) bool { return of.conn == conns[kept] }) < 0 || len(s.seats) != 3 {
				t.Errorf("another one gave way, and there are %d seats", len(s.seats))
			}
		})
	}
}

// TestIdleSeatsOfManyAddressesGiveWay has each of many addresses keep one stream that it does not
// use: a newcomer without a seat gets one, and a party that has one does not get another.
func TestIdleSeatsOfManyAddressesGiveWay(t *testing.T) {
	l := &Listener{begun: time.Now().Add(-time.Hour)}
	s := NewSeats(4)
	take := func(peer string) bool {
		inner, _ := net.Pipe()
		c := &conn{Conn: inner, listener: l, peer: peer}
		c.last.Store(l.now() - int64(2*Patience))
		_, ok := s.Take(httptest.NewRequestWithContext(context.WithValue(context.Background(), connKey, c), "GET", "/", nil), "")
		return ok
	}
	for _, peer := range []string{"a", "b", "c", "d", "e"} {
		if !take(peer) {
			t.Error("no seat for ", peer)
		}
	}
	if take("b") {
		t.Error("a party with a seat took one from another")
	}
}

// TestConnectionsByTLSAreKnown holds that a request on a connection by TLS keeps that at work,
// and that its peer is one whatever its port.
func TestConnectionsByTLSAreKnown(t *testing.T) {
	known := make(chan *conn, 1)
	server := httptest.NewUnstartedServer(Track(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connKey).(*conn)
		known <- c
	})))
	server.Listener, server.Config.ConnContext = Listen(server.Listener, 10, nil), ConnContext
	server.StartTLS()
	defer server.Close()
	resp, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if c := <-known; c == nil || c.peer != "127.0.0.1" {
		t.Errorf("the connection is %+v", c)
	}
}

// TestPeersOfIPv6 holds that a client with a network of addresses counts as one.
func TestPeersOfIPv6(t *testing.T) {
	for address, want := range map[string]string{
		"10.0.0.1:5": "10.0.0.1", "[::ffff:10.0.0.1]:5": "10.0.0.1", "[2001:db8:1:2:3::4]:5": "2001:db8:1:2::/64", "[2001:db8:1:2::ffff]:6": "2001:db8:1:2::/64", "[fe80::1%eth0]:5": "fe80::/64", "pipe": "pipe",
	} {
		if got := peerOf(named(address)); got != want {
			t.Errorf("%s is of peer %s, want %s", address, got, want)
		}
	}
}

// named is an address that is what it says.
type named string

func (named) Network() string  { return "tcp" }
func (n named) String() string { return string(n) }

// TestSeatsByName holds that a principal with a name and many addresses keeps no other one out. It
// also holds that principals at one address are distinguished by their names.
func TestSeatsByName(t *testing.T) {
	s := NewSeats(8)
	taken := 0
	take := func(name, address string) bool {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		inner, _ := net.Pipe()
		c := &conn{Conn: inner, peer: address, listener: &Listener{}}
		_, ok := s.Take(r.WithContext(context.WithValue(r.Context(), connKey, c)), name)
		return ok
	}
	for range 8 {
		if taken++; !take("many", fmt.Sprintf("10.0.0.%d", taken)) {
			t.Fatal("no seat where there is room")
		}
	}
	if take("many", "10.0.1.1") {
		t.Error("one with all seats took one more")
	}
	if !take("few", "10.0.1.2") {
		t.Error("who has all seats, from many addresses, keeps another one out")
	}
	s = NewSeats(8)
	for i := range 8 {
		if !take(fmt.Sprint("one of ", i), "10.0.0.1") {
			t.Errorf("the %dth behind an address is kept out by the others there", i)
		}
	}
}

// TestPlaces holds that connections never take all descriptors that a process may have.
func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		want  int
		files uint64
		is    int
	}{{1024, 1 << 20, 1024}, {1024, 1280, 1024}, {1024, 1024, 768}, {1024, 256, 64}, {1024, 64, 16}, {1024, 0, 1}, {4, 64, 4}, {1024, 1<<64 - 1, 1024}} {
		if got := placesOf(c.want, c.files); got != c.is {
			t.Errorf("%d of %d files: %d places, want %d", c.want, c.files, got, c.is)
		}
	}
}

// countedListener counts the writes of its connections.
type countedListener struct {
	net.Listener
	writes *atomic.Int64
}

func (l countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return countedConn{c, l.writes}, err
}

type countedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countedConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// TestTogether counts the writes that an answer takes, which the server cuts, and reads it as it was
// written.
func TestTogether(t *testing.T) {
	for _, x := range []struct {
		name     string
		size     int
		together bool
		by       func(*httptest.Server)
		one      bool
	}{
		{"short", 100, true, (*httptest.Server).Start, true},
		{"long", 20_000, true, (*httptest.Server).Start, true},
		{"long, each by itself", 20_000, false, (*httptest.Server).Start, false},
		{"long, by TLS", 20_000, true, (*httptest.Server).StartTLS, true},
		{"too long", 500_000, true, (*httptest.Server).Start, false},
		{"below the memory that is used again", mostSpare - 1000, true, (*httptest.Server).Start, true},
		{"above the memory that is used again", mostSpare + 1000, true, (*httptest.Server).Start, true},
		{"below one write", writePart - 1000, true, (*httptest.Server).Start, true},
		{"above one write", writePart + 1000, true, (*httptest.Server).Start, false},
	} {
		want := bytes.Repeat([]byte("0123456789"), x.size/10+1)[:x.size]
		var writes atomic.Int64
		took := make(chan int64, 3)
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			for range cap(took) {
				before := writes.Load()
				write := func() error {
					_, err := w.Write(want)
					return errors.Join(err, control.Flush())
				}
				err := error(nil)
				if x.together {
					err = PartOf(r).Together(write)
				} else {
					err = write()
				}
				if err != nil {
					t.Errorf("%s: %v", x.name, err)
				}
				took <- writes.Load() - before
			}
		}))
		server.Listener, server.Config.ConnContext = Listen(countedListener{server.Listener, &writes}, 10, nil), ConnContext
		x.by(server)
		resp, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if err != nil || !bytes.Equal(got, bytes.Repeat(want, cap(took))) {
			t.Errorf("%s: %d bytes came, %v", x.name, len(got), err)
		}
		_ = resp.Body.Close()
		server.Close()
		for range cap(took) {
			if n := <-took; n == 1 != x.one {
				t.Errorf("%s: %d writes", x.name, n)
			}
		}
	}
}

// TestTogetherFails holds that a write on a connection that is gone returns an error.
func TestTogetherFails(t *testing.T) {
	failed := make(chan error, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		var err error
		for err == nil {
			err = PartOf(r).Together(func() error {
				_, err := w.Write(make([]byte, 10_000))
				return errors.Join(err, control.Flush())
			})
		}
		failed <- err
	}))
	server.Listener, server.Config.ConnContext = Listen(server.Listener, 10, nil), ConnContext
	server.Start()
	defer server.Close()
	resp, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if err := <-failed; err == nil {
		t.Error("nothing was told")
	}
}
