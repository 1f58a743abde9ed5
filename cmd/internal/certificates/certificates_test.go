package certificates

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

// TestMembersKeepConnections asks another member for many things at one time, again and again.
func TestMembersKeepConnections(t *testing.T) {
	const together, rounds = 16, 10
	var all sync.WaitGroup // of a round
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		all.Done()
		all.Wait()
	}))
	var made atomic.Int64
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			made.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	transport := (*Source)(nil).Transport()
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for range rounds {
		all.Add(together)
		var asking sync.WaitGroup
		for range together {
			asking.Go(func() {
				resp, err := client.Post(server.URL, "", http.NoBody)
				if err != nil {
					t.Error(err)
					all.Done()
					return
				}
				_ = resp.Body.Close()
			})
		}
		asking.Wait()
	}
	// A connection is free a moment after its answer was read, so some more may be made.
	if n := made.Load(); n > together*rounds/2 {
		t.Errorf("%d connections for %d requests, %d at one time", n, together*rounds, together)
	}
}
