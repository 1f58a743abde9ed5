package group

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"weir/cmd/internal/ask"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/peer"
	"weir/events"
	"weir/sink/check"
)

type hanging struct{}

func (hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

// TestAskHasOneDeadline has a check wait for the brokers and then for a member: both take from one
// time.
func TestAskHasOneDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, lookup = 2 * time.Second, 1500 * time.Millisecond
		l := &partitionSet{partitions: []int{0}}
		m := &Member{peers: &peers{sets: &topicSets{flows: l}, host: &Host{AnswerTimeout: limit}, clock: clock.System{}, logger: slog.New(slog.DiscardHandler), owners: newOwners(clock.System{})}}
		s := &ask.Service{Orders: &ask.GlobalOrders{}, Members: m, Timeout: limit}
		m.peers.host.Peer = &peer.Peer{Client: &http.Client{Transport: hanging{}}, Keys: func() (k peer.Keys) { return k }}
		asking := make(chan struct{})
		l.addresses.asking = asking
		go func() {
			time.Sleep(lookup)
			l.addresses.mu.Lock()
			l.addresses.known, l.addresses.until, l.addresses.asking = map[int]string{0: "http://there"}, time.Now().Add(time.Hour), nil
			l.addresses.mu.Unlock()
			close(asking)
		}()
		begun := time.Now()
		q := check.Request{Context: t.Context(), Event: &events.Event{CorrelationID: "f"}, Raw: []byte("{}")}
		s.Check([]*check.Request{&q})
		_, err := q.Answer()
		if took := time.Since(begun); !errors.Is(err, check.ErrTimeout) || took != limit {
			t.Errorf("%v after %v, want a timeout after %v", err, took, limit)
		}
	})
}
