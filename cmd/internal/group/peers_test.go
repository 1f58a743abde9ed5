package group

import (
	"context"
	"errors"
	"testing"
	"time"

	"weir/cmd/internal/clock"
)

// TestOwnersAreAskedOnce lets a broker be slow to name the owners. A caller with less time does
// not wait for it, one request serves all callers, and a failure is remembered.
func TestOwnersAreAskedOnce(t *testing.T) {
	var o ownerAddresses
	fake, asked, answer := clock.NewFake(), make(chan struct{}, 10), make(chan error)
	find := func(context.Context) (map[int]string, error) {
		asked <- struct{}{}
		return map[int]string{0: "http://there"}, <-answer
	}
	get := func(ctx context.Context) (map[int]string, error) { return o.get(ctx, fake, time.Minute, find) }

	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := get(hurried); !errors.Is(err, context.Canceled) {
		t.Fatalf("who has no time got %v", err)
	}
	<-asked
	o.forget() // must not wait for the broker either
	got := make(chan error, 3)
	for range cap(got) {
		go func() {
			known, err := get(t.Context())
			if err == nil && known[0] != "http://there" {
				err = errors.New("the wrong owner")
			}
			got <- err
		}()
	}
	away := errors.New("the broker is away")
	answer <- away
	for range cap(got) {
		if err := <-got; err != nil && !errors.Is(err, away) {
			t.Error(err)
		}
	}
	if _, err := get(t.Context()); !errors.Is(err, away) || len(asked) != 0 {
		t.Fatalf("after a failure: %v, asked %d times more", err, len(asked))
	}
	fake.Advance(unknownFor)
	go func() { answer <- nil }()
	if known, err := get(t.Context()); err != nil || known[0] != "http://there" {
		t.Fatalf("%v, %v", known, err)
	}
	if <-asked; len(asked) != 0 {
		t.Errorf("asked %d times too many", len(asked))
	}
}
