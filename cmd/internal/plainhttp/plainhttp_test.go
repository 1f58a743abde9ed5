package plainhttp

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// handler answers with what it saw, so that two servers that see the same answer the same.
func handler(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/plain")
	if r.Header.Get("X-Refuse") != "" { // without a look at the body
		h.Set("Connection", "close")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, "refused")
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute))
	body, err := io.ReadAll(r.Body)
	if err != nil {
		h.Set("Connection", "close")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, errors.Is(err, io.ErrUnexpectedEOF))
		return
	}
	var names []string
	for name, values := range r.Header {
		names = append(names, fmt.Sprintf("%s=%q", name, values))
	}
	slices.Sort(names)
	fmt.Fprintf(w, "%v ", r.TLS != nil && r.TLS.HandshakeComplete)
	fmt.Fprintf(w, "%s %s %s host=%q length=%d %v body=%q", r.Method, r.URL, r.Proto, r.Host, r.ContentLength, names, body)
}

// serve starts a server, with plain requests answered here or not, and returns its address
// and how many connections net/http has got.
func serve(t testing.TB, here bool, h http.HandlerFunc) (address string, handed *atomic.Int64, server *http.Server, l *Listener) {
	t.Helper()
	return serveBy(t, nil, here, h)
}

// serveBy is serve by TLS, if there is a configuration.
func serveBy(t testing.TB, secure *tls.Config, here bool, h http.HandlerFunc) (address string, handed *atomic.Int64, server *http.Server, l *Listener) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	handed = new(atomic.Int64)
	server = &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, ReadTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: log.New(io.Discard, "", 0),
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				handed.Add(1)
			}
		}}
	served := inner
	plain := func(r *http.Request) bool { return r.URL.Path == "/plain" }
	switch {
	case here && secure != nil:
		l = ListenTLS(inner, secure, server, plain)
		served = l
	case here:
		l = Listen(inner, server, plain)
		served = l
	case secure != nil:
		served = tls.NewListener(inner, secure)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(served); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return inner.Addr().String(), handed, server, l
}

// talk sends parts on a connection, each when the answers to those before it are there, and
// returns all that was answered until the other side closes, or stays silent after all.
func talk(t testing.TB, address string, parts ...string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return talkOn(t, conn, parts...)
}

// talkOn is talk on a connection.
func talkOn(t testing.TB, conn net.Conn, parts ...string) string {
	t.Helper()
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for _, part := range parts {
		if _, err := io.WriteString(conn, part); err != nil {
			break // it was closed
		}
	}
	_ = conn.(interface{ CloseWrite() error }).CloseWrite() // the last answer is followed by the end
	var out strings.Builder
	in := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return out.String() + "end"
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Header.Del("Date")
		resp.Header.Del("Content-Length") // of long answers net/http does not say it
		fmt.Fprintf(&out, "%s close=%v %v %q\n", resp.Status, resp.Close, resp.Header, body)
	}
}

// request is a plain one, with more header lines.
func request(body string, lines ...string) string {
	return fmt.Sprintf("POST /plain HTTP/1.1\r\nHost: localhost:80\r\nContent-Length: %d\r\n%s\r\n%s", len(body), strings.Join(append(lines, ""), "\r\n"), body)
}

// odd are requests that a parser may take in more than one way.
var odd = []string{
	request("a", "Transfer-Encoding: chunked"),
	"POST /plain HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	"POST /plain HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\nContent-Length: 1\r\n\r\na",
	request("abc", "Content-Length: 3"),
	request("abc", "Content-Length: 4"),
	"POST /plain HTTP/1.1\r\nHost: h\r\nContent-Length: +3\r\n\r\nabc",
	"POST /plain HTTP/1.1\r\nHost: h\r\nContent-Length: 3, 3\r\n\r\nabc",
	"POST /plain HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\nabc",
	"POST /plain HTTP/1.1\r\nHost: h\r\nContent-Length: -3\r\n\r\nabc",
	"POST /plain HTTP/1.1\r\nHost: h\r\n\r\n",
	"POST /plain HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
	"POST /plain HTTP/1.1\r\nHost:\r\nContent-Length: 3\r\n\r\nabc",
	request("abc", "Host: other"),
	"POST /plain HTTP/1.1\r\nHost: a b\r\nContent-Length: 3\r\n\r\nabc",
	"POST /plain HTTP/1.1\r\nHost: a/b\r\nContent-Length: 3\r\n\r\nabc",
	"POST http://else/plain HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
	"POST /plain HTTP/1.0\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
	"POST /plain HTTP/1.2\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
	"POST /plain HTTP/2.0\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
	"POST  /plain HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
	"POST /plain\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
	"POST /pl%61in?a=b#c HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
	"POST /plain/../plain HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
	"POST /%zz HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
	"GET /plain HTTP/1.1\r\nHost: h\r\n\r\n",
	"HEAD /plain HTTP/1.1\r\nHost: h\r\n\r\n",
	"GET /plain HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n\r\n",
	"GET /plain HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
	"POST /plain HTTP/1.1\r\nHost: h\r\n\r\n\r\n\r\nGET /plain HTTP/1.1\r\nHost: h\r\n\r\n",
	"OPTIONS /plain HTTP/1.1\r\nHost: h\r\n\r\n",
	"CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	request("abc", "X-A: b", " c"),
	request("abc", "X-A: b", "\tc"),
	request("abc", " X-A: b"),
	request("abc", "X-A : b"),
	request("abc", ": b"),
	request("abc", "X-A"),
	request("abc", "X-A: \x00"),
	request("abc", "X-A: a\rb"),
	request("abc", "X-A: \xff"),
	request("abc", "X-A: a\nX-B: b"),
	request("abc", "X-(: a"),
	request("abc", "x-lower: a", "X-LOWER: b"),
	request("abc", "X-Empty:"),
	request("abc", "Connection: close"),
	request("abc", "Connection: keep-alive, close"),
	request("abc", "Connection: keep-alive", "Connection: close"),
	request("abc", "Connection: Keep-Alive"),
	request("abc", "Expect: 100-continue"),
	request("abc", "Expect: more"),
	request("abc", "Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"),
	request("abc", "Trailer: X-A"),
	request("abc", "X-Long: "+strings.Repeat("a", 5000)),
	request("abc", "X-Long: "+strings.Repeat("a", 50000)),
	strings.ReplaceAll(request("abc"), "\r\n", "\n"),
	"\r\n" + request("abc"),
	request(strings.Repeat("a", 10_000)),
	request(strings.Repeat("a", 100_000)),
	request("abc", "X-Refuse: 1"),
	request(strings.Repeat("a", 4000), "X-Refuse: 1"),
	"POST /plain HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc", // and no more
	"nonsense\r\n\r\n",
	"",
	"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}

// atBounds are requests just below, at and above bufferBytes, mostSpare and mostBody.
func atBounds() (texts []string) {
	for _, size := range []int{bufferBytes, mostSpare, mostBody} {
		for _, bytes := range []int{size - 1, size, size + 1} {
			texts = append(texts, request(strings.Repeat("a", bytes)))
		}
	}
	head := len(request("")) + len("X-Long: \r\n")
	for _, bytes := range []int{bufferBytes - 1, bufferBytes, bufferBytes + 1} {
		texts = append(texts, request("", "X-Long: "+strings.Repeat("a", bytes-head)))
	}
	return texts
}

// TestLikeNetHTTP holds that nobody can tell by an answer who has given it: net/http itself
// says what is right. Each request comes alone, as the first and as the second, and in
// parts.
func TestLikeNetHTTP(t *testing.T) {
	here, _, _, _ := serve(t, true, handler)
	there, _, _, _ := serve(t, false, handler)
	plain := request("first", "Content-Type: application/json")
	for i, text := range append(atBounds(), odd...) {
		for about, parts := range map[string][]string{
			"alone": {text}, "second": {plain, text}, "behind": {plain + text}, "followed": {text + plain}, "twice": {plain, plain, text, plain},
			"in parts": {text[:len(text)/2], text[len(text)/2:]}, "with its body later": append(strings.SplitAfterN(text, "\r\n\r\n", 2), plain),
		} {
			if got, want := talk(t, here, parts...), talk(t, there, parts...); got != want {
				t.Errorf("%d %s: %.200q\nanswered\n%.2000s\nby net/http\n%.2000s", i, about, parts, got, want)
			}
		}
	}
}

// FuzzLikeNetHTTP is the same for any bytes.
func FuzzLikeNetHTTP(f *testing.F) {
	here, _, _, _ := serve(f, true, handler)
	there, _, _, _ := serve(f, false, handler)
	for _, text := range odd {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, want := talk(t, here, text), talk(t, there, text); got != want {
			t.Errorf("%q\nanswered\n%s\nby net/http\n%s", text, got, want)
		}
	})
}

// TestPlainStayHere holds that what clients send as a rule is answered here.
func TestPlainStayHere(t *testing.T) {
	address, handed, _, _ := serve(t, true, handler)
	for _, text := range []string{
		request("abc"), "GET /plain HTTP/1.1\r\nHost: h\r\n\r\n", request("abc", "Content-Type: application/json", "User-Agent: Go-http-client/1.1", "Accept-Encoding: gzip", "Authorization: Bearer abc"),
		request("abc", "Connection: keep-alive", "Accept: */*", "Accept-Language: *", "Sec-Fetch-Mode: cors"), request(strings.Repeat("a", 60<<10)),
	} {
		if got := talk(t, address, text, text+request("other"), text); strings.Count(got, "200 OK close=false") != 4 {
			t.Errorf("%q: %s", text, got)
		}
	}
	if n := handed.Load(); n != 0 {
		t.Errorf("%d of the connections went to net/http", n)
	}
	talk(t, address, request("abc"), "GET /else HTTP/1.1\r\nHost: h\r\n\r\n", request("abc"))
	if n := handed.Load(); n != 1 {
		t.Errorf("%d connections went to net/http, of one that had to", n)
	}
}

// TestEnd ends while one connection waits, one is being answered, and one sends its body.
func TestEnd(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	address, _, server, l := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Wait") != "" {
			close(entered)
			<-release
		}
		handler(w, r)
	})
	dial := func(text string) (net.Conn, *bufio.Reader) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, text)
		return conn, bufio.NewReader(conn)
	}
	_, idle := dial(request("abc"))
	if _, err := http.ReadResponse(idle, nil); err != nil {
		t.Fatal(err)
	}
	_, busy := dial(request("abc", "X-Wait: 1"))
	<-entered
	ended := make(chan error)
	go func() { ended <- errors.Join(server.Shutdown(t.Context()), l.Wait(t.Context())) }()
	if rest, _ := io.ReadAll(idle); !strings.HasSuffix(string(rest), `body="abc"`) {
		t.Errorf("who waits is told %q", rest)
	}
	close(release)
	if resp, err := http.ReadResponse(busy, nil); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("who was being answered is told %v, %v", resp, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", address); err == nil {
		t.Error("connections are taken in after the end")
	}
}

// TestEndDoesNotWaitForEver has a handler that waits for a body which never comes.
func TestEndDoesNotWaitForEver(t *testing.T) {
	entered := make(chan struct{})
	address, _, server, l := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		handler(w, r)
	})
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST /plain HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n")
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = server.Shutdown(ctx)
	if err := l.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := l.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCut lets a deadline in the past wake who waits for a body, as admission does.
func TestCut(t *testing.T) {
	address, _, _, _ := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
		_, err := io.ReadAll(r.Body)
		w.Header().Set("Connection", "close")
		fmt.Fprint(w, errors.Is(err, os.ErrDeadlineExceeded))
	})
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST /plain HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n")
	text, _ := io.ReadAll(conn)
	if !strings.HasSuffix(string(text), "\r\n\r\ntrue") || !strings.Contains(string(text), "\r\nConnection: close\r\n") {
		t.Errorf("answered: %q", text)
	}
}

// TestPanic holds that a fault of a handler ends its connection and nothing else.
func TestPanic(t *testing.T) {
	address, _, _, _ := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Panic") != "" {
			panic("a fault")
		}
		handler(w, r)
	})
	if got := talk(t, address, request("abc", "X-Panic: 1")); got != "end" {
		t.Error(got)
	}
	if got := talk(t, address, request("abc")); !strings.HasPrefix(got, "200 OK") {
		t.Error(got)
	}
}
