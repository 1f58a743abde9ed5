package plainhttp

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// wrapped is a writer around another one, as the layers of a server put them.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// TestRepeat has a handler name a function for the next requests, which answers as the handler does.
func TestRepeat(t *testing.T) {
	var handled, repeated atomic.Int64
	address, handed, _, _ := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		handled.Add(1)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if string(body) != "last" {
			Repeat(wrapped{w}, func(w http.ResponseWriter, body []byte) bool {
				if string(body) == "no" {
					return false
				}
				repeated.Add(1)
				_, _ = fmt.Fprintf(w, "to %s", body)
				return true
			})
		}
		w.Header().Set("Content-Type", "text/x-answer")
		_, _ = fmt.Fprintf(w, "to %s", body)
	})
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	answered := func(body string) {
		t.Helper()
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil || string(text) != "to "+body || resp.Header.Get("Content-Type") != "text/x-answer" || resp.Header.Get("Date") == "" || resp.Close {
			t.Errorf("%q is answered with %q, %v, %v", body, text, resp.Header, err)
		}
	}
	send := func(text string) {
		t.Helper()
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
	}
	most := strings.Repeat("a", bufferBytes-len(request(strings.Repeat("a", 1000)))+1000)
	for i, c := range []struct {
		body string
		line string // a header
		by   *atomic.Int64
	}{
		{"ab", "X-A: a", &handled},
		{"ab", "X-A: a", &repeated},
		{"cd", "X-A: a", &repeated},
		{"abc", "X-A: a", &handled}, // another length, so another head
		{"abc", "X-A: a", &repeated},
		{"abc", "X-A: b", &handled},
		{"abc", "X-A: b", &repeated},
		{"no", "X-A: b", &handled},
		{"no", "X-A: b", &handled}, // the function returns false
		{"ok", "X-A: b", &repeated},
		{"last", "X-A: b", &handled},
		{"more", "X-A: b", &handled}, // the handler named none
		{"more", "X-A: b", &repeated},
		{"", "X-A: b", &handled},
		{"", "X-A: b", &repeated},
		{most[1:], "", &handled},
		{most[1:], "", &repeated}, // head and body are a byte shorter than the buffer
		{most, "", &handled},
		{most, "", &repeated},
		{most + "a", "", &handled},
		{most + "a", "", &handled},
	} {
		before := c.by.Load()
		sum := handled.Load() + repeated.Load()
		lines := []string{c.line}
		if c.line == "" {
			lines = nil
		}
		send(request(c.body, lines...))
		answered(c.body)
		if c.by.Load() != before+1 || handled.Load()+repeated.Load() != sum+1 {
			t.Errorf("request %d: the handler has answered %d, the function %d", i, handled.Load(), repeated.Load())
		}
	}
	// Requests that come together are all answered, by either.
	send(request("one") + request("two") + request("six"))
	answered("one")
	answered("two")
	answered("six")
	if handed.Load() != 0 {
		t.Error("the connection has gone to net/http")
	}
}

// TestRepeatOfOtherServers has no effect.
func TestRepeatOfOtherServers(t *testing.T) {
	address, handed, _, _ := serve(t, false, func(w http.ResponseWriter, _ *http.Request) {
		Repeat(wrapped{w}, func(http.ResponseWriter, []byte) bool {
			t.Error("the function is called")
			return true
		})
	})
	for range 2 {
		resp, err := http.Post("http://"+address+"/plain", "text/plain", strings.NewReader("a"))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	if handed.Load() != 1 {
		t.Errorf("%d connections", handed.Load())
	}
}

// TestLittle holds by how much a deadline may be earlier than wanted.
func TestLittle(t *testing.T) {
	for patience, want := range map[time.Duration]time.Duration{
		-time.Hour: time.Second, 0: time.Second, 8*time.Second - 8: time.Second, 8 * time.Second: time.Second, 8*time.Second + 8: time.Second + 1, 2 * time.Minute: 15 * time.Second,
	} {
		if got := little(patience); got != want {
			t.Errorf("%v of %v, want %v", got, patience, want)
		}
	}
}
