package app

import (
	"context"
	"sync"

	"weir/events"
	"weir/sink/check"
)

// answers brings what the fold said to asks to those who wait for it. It remembers
// the last answers, so that a dispatcher that asks again with the same id, because it
// did not wait long enough, is told the same.
type answers struct {
	mu      sync.Mutex
	waiting map[string][]chan *events.Verdict
	recent  map[string]*events.Verdict
	order   [rememberedAnswers]string // of recent, a ring
	place   int
}

const rememberedAnswers = 4096

func newAnswers() *answers {
	return &answers{waiting: make(map[string][]chan *events.Verdict), recent: make(map[string]*events.Verdict)}
}

func answerKey(ev *events.Event) string { return ev.Source + "\x00" + ev.ID }

// deliver is called by the pump for each ask that was folded.
func (a *answers) deliver(_ int64, ev *events.Event, v *events.Verdict) {
	key := answerKey(ev)
	a.mu.Lock()
	defer a.mu.Unlock()
	if first := a.recent[key]; first != nil {
		v = first
	} else {
		delete(a.recent, a.order[a.place])
		a.recent[key], a.order[a.place] = v, key
		a.place = (a.place + 1) % rememberedAnswers
	}
	for _, c := range a.waiting[key] {
		c <- v // has room
	}
	delete(a.waiting, key)
}

// known reports whether the answer was given before.
func (a *answers) known(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.recent[key] != nil
}

// await returns a channel for the answer, or the answer if it was given before. The
// caller calls leave when it waits no more.
func (a *answers) await(key string) (known *events.Verdict, c chan *events.Verdict, leave func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if v := a.recent[key]; v != nil {
		return v, nil, func() {}
	}
	c = make(chan *events.Verdict, 1)
	a.waiting[key] = append(a.waiting[key], c)
	return nil, c, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		rest := a.waiting[key][:0]
		for _, other := range a.waiting[key] {
			if other != c {
				rest = append(rest, other)
			}
		}
		if len(rest) == 0 {
			delete(a.waiting, key)
		} else {
			a.waiting[key] = rest
		}
	}
}

// answered puts an event that asks into the log, by append, and waits for what the
// fold says.
func (a *App) answered(ctx context.Context, ev *events.Event, append func() error) (*events.Verdict, error) {
	known, answer, leave := a.answers.await(answerKey(ev))
	if known != nil {
		return known, nil
	}
	defer leave()
	timeout := a.clock.After(a.o.AnswerTimeout)
	if err := append(); err != nil {
		return nil, err
	}
	select {
	case v := <-answer:
		return v, nil
	case <-timeout:
		return nil, check.ErrTimeout
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
