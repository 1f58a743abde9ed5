package guard

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"weir/events"
	"weir/sink/sign"
)

// signed checks orders against their signatures. Without keys it accepts all.
//
// A replay is an order with a valid signature, received again after something newer about it:
// a stop after it was lifted, or a clearance after the order was given anew. It
// is recognized by the revision, which is signed. The last revision may be received
// again: that is no replay, and changes nothing.
// See decision 45.
type signed struct {
	keys sign.Keys
	most int // orders that are remembered

	mu sync.Mutex
	// By the first part of the verdict's id, or by scope and reason.
	heard map[string]heard // by order

	unsigned, forged, replayed atomic.Bool // was logged
}

// heard is what was heard last of an order.
type heard struct {
	revision int64
	until    events.Stamp // when it need not be remembered any more
}

// remembered is how long an order is remembered at least. What is replayed later than
// that, and later than the order would have expired, refuses nothing.
const remembered = time.Hour

var errReplayed = errors.New("a later revision of the order was heard before")

// newSigned returns a memory of at most this number of orders. Without keys, verify and remember
// accept everything.
func newSigned(keys sign.Keys, most int) *signed {
	return &signed{keys: keys, most: most, heard: make(map[string]heard)}
}

// verify says what is wrong with a signature. The error is sign.ErrUnsigned or
// sign.ErrForged.
func (s *signed) verify(verdict []byte, signature string) error {
	if len(s.keys) == 0 {
		return nil
	}
	return s.keys.Verify(verdict, signature)
}

// remember notes which revision of an order was heard. The error is errReplayed.
func (s *signed) remember(v *events.Verdict, now events.Stamp) error {
	clears := v.Action == events.Allow
	// Only orders that are obeyed can be replayed to some use.
	if len(s.keys) == 0 || v.Mode != events.ModeEnforce || !clears && !v.Stops() {
		return nil
	}
	expires := events.Stamp(v.ExpiresAt)
	switch {
	case clears:
	case expires == 0:
		expires = math.MaxInt64
	case expires <= now:
		return nil // it refuses nothing, however often it is heard
	}
	// The same key as sameOrder goes by.
	key := orderID(v.ID)
	if key == "" {
		key = v.CorrelationID + "\x00" + string(v.Scope.Kind) + "\x00" + v.Scope.ID + "\x00" + string(v.Reason)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last, known := s.heard[key]
	if known && v.Revision < last.revision {
		return errReplayed
	}
	// Beyond its room it remembers no new orders: these are obeyed, and a replay of them is,
	// too.
	if known || len(s.heard) < s.most {
		s.heard[key] = heard{v.Revision, max(last.until, expires, now.Add(remembered))}
	}
	return nil
}

// sweep forgets what need not be remembered.
// It is called once a minute by housekeep.
func (s *signed) sweep(now events.Stamp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, last := range s.heard {
		if last.until <= now {
			delete(s.heard, key)
		}
	}
}

// ignore counts an order that is not taken, and logs the first of each kind.
func (g *follower) ignore(why error) {
	count, logged := &g.counts.Forged, &g.signed.forged
	switch {
	case errors.Is(why, sign.ErrUnsigned):
		count, logged = &g.counts.Unsigned, &g.signed.unsigned
	case errors.Is(why, errReplayed):
		count, logged = &g.counts.Replayed, &g.signed.replayed
	}
	count.Add(1)
	if !logged.Swap(true) {
		g.logger.Error("an order is ignored; more of this kind are only counted", "error", why)
	}
}
