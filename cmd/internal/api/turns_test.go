package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
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
	list := newTurns()
	list.free = make(chan struct{}, 2)
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

	// Clients that read nothing do not keep other requests from a turn.
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
	if len(list.free) != 0 || len(list.begun) != 0 {
		t.Error("a turn or a place was not given back")
	}
}

// cut is a client that reads nothing, on a connection that can be cut.
type cut struct {
	*httptest.ResponseRecorder
	begun, gone chan struct{}
}

func (c *cut) Write([]byte) (int, error) {
	close(c.begun)
	<-c.gone
	return 0, os.ErrDeadlineExceeded
}

func (c *cut) SetWriteDeadline(time.Time) error {
	close(c.gone)
	return nil
}

// TestAnswersThatAreNotTaken has more clients request long answers than may be held, and
// none reads. The next client gets the place of the one that has read nothing for the longest.
func TestAnswersThatAreNotTaken(t *testing.T) {
	list := newTurns()
	serve := list.of(func(w http.ResponseWriter, r *http.Request) error {
		_, err := fmt.Fprint(w, strings.Repeat("x", 2*turnBuffer))
		return err
	})
	var group sync.WaitGroup
	ask := func() *cut {
		c := &cut{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
		group.Go(func() { _ = serve(c, httptest.NewRequest("GET", "/", nil)) }) // its error is that it was cut
		<-c.begun
		return c
	}
	var held []*cut
	for range mostAnswers {
		held = append(held, ask())
	}
	list.mu.Lock()
	for w := range list.begun {
		if w.ResponseWriter == held[5] {
			w.since = w.since.Add(-time.Hour)
		}
	}
	list.mu.Unlock()
	if len(list.room) != mostAnswers {
		t.Errorf("%d answers are held", len(list.room))
	}
	last := ask()
	<-held[5].gone
	for i, c := range append(slices.Delete(held, 5, 6), last) {
		select {
		case <-c.gone:
			t.Errorf("%d was cut, too", i)
		default:
			close(c.gone)
		}
	}
	group.Wait()
	if len(list.room)+len(list.free)+len(list.begun) != 0 {
		t.Error("a place was not given back")
	}
}

// TestScenariosAreReadOnce holds that repeated requests for the rulebook, which take no turn,
// do not have it read again each time.
func TestScenariosAreReadOnce(t *testing.T) {
	ask := func() {
		w := httptest.NewRecorder()
		if err := serveScenarios(w, nil); err != nil || w.Body.Len() < 100_000 {
			t.Fatal(w.Body.Len(), err)
		}
	}
	if n := testing.AllocsPerRun(3, ask); n > 100 {
		t.Errorf("%.0f allocations for an answer that is always the same", n)
	}
}
