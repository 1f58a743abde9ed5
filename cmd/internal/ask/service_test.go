package ask

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"weir/events"
	"weir/sink/check"
)

func together(t *testing.T, evs ...*events.Event) (asks []*check.Request) {
	for _, ev := range evs {
		asks = append(asks, &check.Request{Context: t.Context(), Event: ev, Raw: ev.AppendJSON(nil)})
	}
	return asks
}

// batches answers by one write for each batch.
func (d *Degraded) batches(append func(batch []*check.Request) error) *Service {
	s := d.serviceOf(func(_ context.Context, batch []*check.Request) error { return append(batch) })
	s.Members = nil
	return s
}

// TestABatchIsOneWrite asks for several calls at one time: what is answered by the time that
// they are in the log is answered, and nothing that is not waits for the others.
func TestTogetherIsOneWrite(t *testing.T) {
	d, _, _ := newDegraded(t, degradedLimits)
	d.look()
	answers := d.Answers
	used := asking("f", 4, "a", "b")
	answers.Deliver(0, nil, used, &events.Verdict{ID: "used"})
	other := *used
	other.To.Agent = "c"
	asks := together(t, asking("f", 1, "a", "b"), asking("f", 2, "a", "b"), &other, asking("f", 3, "a", "b"))
	asks = append(asks, together(t, asking("f", 1, "a", "b"))...) // once more, as when an answer was lost
	writes := 0
	d.batches(func(batch []*check.Request) error {
		if writes++; len(batch) != 4 || !slices.Equal(batch[2].Raw, asks[3].Raw) {
			t.Errorf("%d are written", len(batch))
		}
		answers.Deliver(1, asks[0].Raw, asks[0].Event, &events.Verdict{ID: "first"})
		answers.Deliver(2, asks[1].Raw, asks[1].Event, &events.Verdict{ID: "second"})
		return nil
	}).Check(asks)
	for i, want := range map[int]string{0: "first", 1: "second", 4: "first"} {
		if q := asks[i]; q.Wait != nil || q.Err != nil || q.Verdict.ID != want {
			t.Errorf("ask %d is answered by %+v (%v), want %s", i, q.Verdict, q.Err, want)
		}
	}
	if e, ok := errors.AsType[*check.Error](asks[2].Err); !ok || e.Status != 409 || asks[2].Wait != nil {
		t.Errorf("an id that was used for another call: %v", asks[2].Err)
	}
	if writes != 1 || asks[3].Wait == nil || answers.Waiting() != 1 {
		t.Fatalf("%d writes, %d wait", writes, answers.Waiting())
	}
	answers.Deliver(3, nil, asks[3].Event, &events.Verdict{ID: "third"})
	if v, err := asks[3].Answer(); err != nil || v.ID != "third" {
		t.Errorf("answered late by %+v (%v)", v, err)
	}

	full := errors.New("full")
	refused := together(t, asking("f", 5, "a", "b"), asking("f", 6, "a", "b"))
	d.batches(func([]*check.Request) error { return full }).Check(refused)
	for _, q := range refused {
		if _, err := q.Answer(); err != full {
			t.Errorf("what the log does not take is answered by %v", err)
		}
	}
	if n := answers.Waiting(); n != 0 {
		t.Errorf("%d wait for what is not in the log", n)
	}
}

// TestABatchWhileBehind lets the mode answer: one that is in the log already when it begins,
// and one that comes later.
func TestABatchWhileBehind(t *testing.T) {
	d, fold, fake := newDegraded(t, degradedLimits)
	d.Answers = NewAnswers(fake, time.Minute)
	d.look()
	fold.end = 1
	d.after(fake, 1)
	written := 0
	s := d.batches(func(batch []*check.Request) error {
		written += len(batch)
		return nil
	})
	before := together(t, asking("f", 1, "a", "b"))
	s.Check(before)
	d.after(fake, 4)
	d.want(t, true)
	after := together(t, asking("f", 2, "a", "b"))
	s.Check(after)
	for _, q := range append(before, after...) {
		if q.Wait == nil {
			t.Fatalf("answered by %+v (%v)", q.Verdict, q.Err)
		}
		if v, err := q.Answer(); err != nil || v.Degraded != "behind" {
			t.Errorf("answered by %+v (%v)", v, err)
		}
	}
	if written != 1 || len(fold.log) != 1 || d.Answers.Waiting() != 0 {
		t.Errorf("%d asks and %d calls are in the log, %d wait", written, len(fold.log), d.Answers.Waiting())
	}
}

// TestWhoLeavesIsForgotten has several callers wait for one answer; some of them leave.
func TestWhoLeavesIsForgotten(t *testing.T) {
	d, _, _ := newDegraded(t, degradedLimits)
	a := d.Answers
	enter := func() *waiter {
		w, v, err := a.enter(asking("f", 1, "a", "b"), nil, endUnknown)
		if w == nil {
			t.Fatalf("answered by %+v (%v)", v, err)
		}
		return w
	}
	first, second, third := enter(), enter(), enter()
	a.leave(second)
	a.leave(third)
	fourth := enter()
	a.Deliver(1, nil, first.ev, &events.Verdict{ID: "v"})
	for _, w := range []*waiter{first, fourth} {
		if v, err, ok := a.said(w); !ok || err != nil || v.ID != "v" {
			t.Errorf("told %+v (%v, %t)", v, err, ok)
		}
	}
	alone := enter()
	a.Deliver(2, nil, alone.ev, &events.Verdict{ID: "w"})
	a.leave(alone) // though the answer has come
	if w := enter(); len(w.answer) != 0 || a.Waiting() != 1 {
		t.Error("an answer to another one is left")
	}
}

// TestAPanicLeavesNobodyWaiting plants a panic in what puts checks into the log.
func TestAPanicLeavesNobodyWaiting(t *testing.T) {
	d, _, _ := newDegraded(t, degradedLimits)
	d.look()
	asks := together(t, asking("f", 1, "a", "b"), asking("f", 2, "a", "b"))
	_ = check.Caught(func() error {
		d.batches(func([]*check.Request) error { panic("planted") }).Check(asks)
		return nil
	})
	if n := d.Answers.Waiting(); n != 0 {
		t.Errorf("%d wait after a panic of several checks", n)
	}
	_ = check.Caught(func() error {
		_, err := d.service(func(context.Context) error { panic("planted") }).ask(t, asks[0].Event)
		return err
	})
	if n := d.Answers.Waiting(); n != 0 {
		t.Errorf("%d wait after a panic of one check", n)
	}
}

// TestRememberedIDs holds that an id names one call until 65,536 others came. A caller that waits
// for a check with a forgotten id gets its answer.
func TestRememberedIDs(t *testing.T) {
	d, _, _ := newDegraded(t, degradedLimits)
	a := d.Answers
	first, other := asking("f", 1, "a", "b"), asking("f", 1, "a", "c")
	w, _, err := a.enter(first, nil, endUnknown)
	if err != nil || w == nil {
		t.Fatalf("the first check: %v", err)
	}
	for n := range rememberedAsks - 1 {
		a.register(askKey{uint64(n) + 1, 0}) // 0 stands for no id
	}
	if err := a.begin(other, keyOf(other)); err == nil {
		t.Errorf("an id that %d others followed names another call", rememberedAsks-1)
	}
	a.register(askKey{rememberedAsks, 0})
	if len(a.used) != rememberedAsks {
		t.Errorf("%d ids are remembered", len(a.used))
	}
	if err := a.begin(other, keyOf(other)); err != nil {
		t.Errorf("an id that %d others followed: %v", rememberedAsks, err)
	}
	a.Deliver(1, nil, first, &events.Verdict{ID: "v"})
	if v, err, ok := a.said(w); !ok || err != nil || v.ID != "v" {
		t.Errorf("who waits for a forgotten id is answered by %+v (%v)", v, err)
	}
}
