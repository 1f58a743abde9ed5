package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// stuck is a client that reads nothing until it is let go.
type stuck struct {
	*httptest.ResponseRecorder
	begun, goOn chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	select {
	case <-s.begun:
	default:
		close(s.begun)
	}
	<-s.goOn
	return s.ResponseRecorder.Write(p)
}

func TestTurns(t *testing.T) {
	list := turns(make(chan struct{}, 2))
	var now, most atomic.Int64
	text := strings.Repeat("x", 3*turnBuffer)
	serve := list.of(func(w http.ResponseWriter, r *http.Request) error {
		n := now.Add(1)
		defer now.Add(-1)
		for {
			m := most.Load()
			if n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		_, err := fmt.Fprint(w, "text")
		return err
	})
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			w := httptest.NewRecorder()
			if err := serve(w, httptest.NewRequest("GET", "/", nil)); err != nil || w.Body.String() != "text" {
				t.Errorf("%v %q", err, w.Body)
			}
		})
	}
	group.Wait()
	if n := most.Load(); n > 2 {
		t.Errorf("%d answers were worked out at one time, want at most 2", n)
	}

	// Those who read nothing keep nobody from a turn.
	long := list.of(func(w http.ResponseWriter, r *http.Request) error {
		_, err := fmt.Fprint(w, text)
		return err
	})
	var slow []*stuck
	for range 5 {
		s := &stuck{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
		slow = append(slow, s)
		group.Go(func() {
			if err := long(s, httptest.NewRequest("GET", "/", nil)); err != nil {
				t.Error(err)
			}
		})
		<-s.begun
	}
	if err := serve(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)); err != nil {
		t.Error(err)
	}
	for _, s := range slow {
		close(s.goOn)
	}
	group.Wait()
	if len(list) != 0 {
		t.Error("a turn was not given back")
	}
}
