package app

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// crowd opens connections that say something and then nothing more.
func (r *running) crowd(n int, say string) {
	r.t.Helper()
	var group sync.WaitGroup
	for range n {
		c, err := net.Dial("tcp", r.Addr())
		if err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(func() { _ = c.Close() })
		group.Go(func() { _, _ = io.WriteString(c, say) }) // that it is closed is what is wanted
	}
	group.Wait()
}

// alive asks what must always be answered, as clients do that were not there before.
func (r *running) alive(n int) {
	r.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	f := func(method, path, body string, status int) {
		r.t.Helper()
		for begun := time.Now(); ; {
			req, err := http.NewRequestWithContext(r.t.Context(), method, "http://"+r.Addr()+path, strings.NewReader(body))
			if err != nil {
				r.t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				r.t.Fatalf("%s: %v", path, err)
			}
			got, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") != "" && time.Since(begun) < 2*time.Minute {
				continue // until those in the way had their time
			}
			if resp.StatusCode != status {
				r.t.Fatalf("%s: %d %s", path, resp.StatusCode, got)
			}
			return
		}
	}
	f("GET", "/healthz", "", 200)
	f("POST", "/v1/events", lines(call("crowd", n, "a", "b")), 202)
	f("POST", "/v1/check", lines(call("crowd", n+1, "a", "b")), 200)
	f("GET", "/v1/flows/crowd", "", 200)
}

// TestNobodyIsLockedOut holds open what one client can hold open, from one address. Another client
// of that address gets the seat of a stream that is idle.
func TestNobodyIsLockedOut(t *testing.T) {
	r := begin(t, Options{})
	for range 192 {
		r.follow("/v1/verdicts?follow=1")
	}
	for { // until the first of them counts as idle
		resp, err := http.Get("http://" + r.Addr() + "/v1/verdicts?follow=1")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			break
		}
		if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusTooManyRequests || !strings.Contains(string(text), "three quarters of them from one address") {
			t.Fatalf("beyond the seats of an address: %d %s", resp.StatusCode, text)
		}
	}
	elsewhere := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext}}
	guard, err := elsewhere.Get("http://" + r.Addr() + "/v1/verdicts?follow=1")
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Body.Close()
	if guard.StatusCode != http.StatusOK {
		t.Errorf("a follower from another address got %d", guard.StatusCode)
	}
	r.alive(0)
	r.crowd(1100, "")
	r.alive(10)
	r.crowd(1100, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	r.alive(20)
	r.crowd(1100, "GET /healthz HTTP/1.1\r\nHost:")
	r.alive(30)
	for i, path := range []string{"/v1/events", "/v1/check", "/v1/hook"} {
		r.crowd(600, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
		r.alive(40 + 10*i)
	}
	r.crowd(1100, fmt.Sprintf("POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\nx", 1000))
	r.alive(100)
}

// TestHalfBodyDelaysNoEnd stops in the middle of a body: the last checkpoint is taken.
func TestHalfBodyDelaysNoEnd(t *testing.T) {
	r := begin(t, Options{StateDir: t.TempDir()})
	r.want(r.do("POST", "/v1/events", lines(call("f", 1, "a", "b"))), 202)
	r.crowd(3, "POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
	r.crowd(3, "GET /")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	pump := r.pump()
	if err := r.Stop(ctx); err != nil {
		t.Errorf("the end was not orderly: %v", err)
	}
	if ctx.Err() != nil || pump.Durable() != pump.Next() {
		t.Errorf("%v; a checkpoint up to %d of %d", ctx.Err(), pump.Durable(), pump.Next())
	}
	r.App = nil
}

// A body that breaks off is a fault of its sender, and not one of weir.
func TestBodyThatBreaksOff(t *testing.T) {
	r := begin(t, Options{})
	for _, path := range []string{"/v1/check", "/v1/events", "/v1/traces", "/runs/batch"} {
		c, err := net.Dial("tcp", r.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"id\":", path); err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s is answered with %d", path, resp.StatusCode)
		}
		_ = resp.Body.Close()
		_ = c.Close()
	}
}
