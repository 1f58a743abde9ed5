package plainhttp

import (
	"testing"
	"testing/synctest"
)

// TestWaitBesideALateClose has a connection leave before the listener is closed, as where a server is shut down before
// its Serve has begun.
func TestWaitBesideALateClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &conn{}
		l := &Listener{open: map[*conn]struct{}{c: {}}, gone: make(chan struct{}, 1)}
		waited := make(chan error, 1)
		go func() { waited <- l.Wait(t.Context()) }()
		synctest.Wait()
		l.leave(c)
		if err := <-waited; err != nil {
			t.Error(err)
		}
	})
}
