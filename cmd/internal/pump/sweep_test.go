package pump

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/pump/pumptest"
	"weir/events"
	"weir/state"
)

// activityLog keeps what was passed on to agents.
type activityLog struct{ lines []string }

func (a *activityLog) Send(_ context.Context, activity []Repartitioned) error {
	for _, x := range activity {
		a.lines = append(a.lines, fmt.Sprintf("%s %d.%d %q", x.Key, x.Offset, x.Part, x.Value))
	}
	return nil
}

func (a *activityLog) Place(key string) int { return len(key) % 3 }

// reportOf is an event by which its caller reports of itself.
func reportOf(ev *events.Event) *events.Event {
	ev.Kind, ev.To, ev.Tool = events.AgentStatus, events.Party{}, events.Tool{}
	ev.AgentState = &events.AgentState{Status: "active"}
	return ev
}

// backlog makes a log of many flows that begin, run away, fall silent and speak again, whose events
// come late or twice now and then, and which little else interrupts: ticks, limits, a clock that is
// ahead.
func backlog(seed uint64, n int) []Record {
	r := rand.New(rand.NewPCG(seed, 17))
	at := pumptest.Start
	var out []Record
	add := func(value []byte) {
		out = append(out, Record{Offset: int64(len(out)), Appended: at, Value: value})
	}
	for i := range n {
		at = at.Add(time.Duration(r.IntN(900)) * time.Millisecond)
		switch x := r.IntN(1000); {
		case x < 5:
			at = at.Add(time.Duration(r.IntN(200)) * time.Second)
			add(pumptest.Tick(at))
			continue
		case x < 15:
			add([]byte([]string{"{", `{"id":1}`, `nonsense`}[r.IntN(3)]))
			continue
		case x < 35 && len(out) > 0:
			add(out[len(out)-1-r.IntN(min(len(out), 50))].Value)
			continue
		case x == 35:
			add(limitsSet(at, []string{"strict", "balanced"}[r.IntN(2)]))
			continue
		case x == 36: // a clock is ahead for a while
			back := at
			at = at.Add(20 * time.Minute)
			add(pumptest.Tick(at))
			for n := range r.IntN(40) {
				add(pumptest.RandomEvent(r, at, i*100+n).AppendJSON(nil))
			}
			add(TurnBackRecord(at, back))
			at = back
			continue
		}
		ev := pumptest.RandomEvent(r, at, i)
		// The flows of each minutes are others, and some stay.
		ev.CorrelationID = fmt.Sprintf("flow-%d", int(at/200_000)*40+r.IntN(60))
		switch r.IntN(60) {
		case 0:
			ev.Time = at.Add(-time.Duration(r.IntN(90)) * time.Second)
		case 1:
			ev.Time = at.Add(time.Duration(r.IntN(90)) * time.Second)
		case 2:
			ev.Kind, ev.To, ev.Tool = events.FlowEnd, events.Party{}, events.Tool{}
		case 3:
			ev.CorrelationID = ""
			if r.IntN(4) > 0 {
				ev.CorrelationID = "steady"
			}
		case 4: // the first one amid others
			if i > n/4 {
				ev = reportOf(ev)
			}
		}
		add(ev.AppendJSON(nil))
	}
	return out
}

// told is all that a pump has brought about.
type told struct {
	verdicts memoryLog
	activity activityLog
	answers  []string
	store    *state.Store
	swept    int
}

func foldBacklog(t *testing.T, records []Record, chunk func() int, o Options) *told {
	t.Helper()
	x := &told{store: pumptest.OpenState(t)}
	o.Store, o.Sink, o.Activity, o.Clock = x.store, &x.verdicts, &x.activity, clock.NewFake()
	o.Answer = func(offset int64, _ []byte, ev *events.Event, v *events.Verdict) {
		x.answers = append(x.answers, fmt.Sprintf("%d %s %s", offset, ev.ID, v.AppendJSON(nil)))
	}
	o.Held = func(offset int64, ev *events.Event, key string, v *events.Verdict) { o.Answer(offset, nil, ev, v) }
	p := newTestPump(t, o)
	for rest := records; len(rest) > 0; {
		part := slices.Clone(rest[:min(len(rest), chunk())])
		for i := range part {
			part[i].Value = bytes.Clone(part[i].Value)
		}
		if err := p.Gather(t.Context(), part); err != nil {
			t.Fatal(err)
		}
		for _, r := range part { // as the next fetch does
			for i := range r.Value {
				r.Value[i] = '#'
			}
		}
		rest = rest[len(part):]
	}
	x.swept = p.feeder.swept
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return x
}

// TestSweep folds backlogs flow by flow and record by record. What is published, passed on,
// answered and kept is the same to the byte.
func TestSweep(t *testing.T) {
	for seed := range uint64(pumptest.Seeds()) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			records := backlog(seed, 6000)
			want := foldBacklog(t, records, func() int { return 500 }, Options{InOrder: true})
			r := rand.New(rand.NewPCG(seed, 19))
			got := foldBacklog(t, records, func() int { return 1 + r.IntN(3000) }, Options{Memory: []int64{0, 30_000}[seed%2]})
			if got.swept < len(records)/10 || want.swept != 0 {
				t.Errorf("%d and %d of %d records were swept", got.swept, want.swept, len(records))
			}
			sameLog(t, &got.verdicts, &want.verdicts)
			sameLines(t, "activity", got.activity.lines, want.activity.lines)
			sameLines(t, "answers", got.answers, want.answers)
			sameLines(t, "state", kept(t, got.store), kept(t, want.store))
		})
	}
}

func sameLines(t *testing.T, what string, got, want []string) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("%s %d\n got %.400s\nwant %.400s", what, i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d lines, want %d", what, len(got), len(want))
	}
}

// kept is what a store holds of a partition.
func kept(t *testing.T, s *state.Store) (lines []string) {
	t.Helper()
	meta, ok, err := s.Meta(0)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	lines = append(lines, fmt.Sprintf("%d %d %x", meta.Next, meta.Published, meta.State))
	if err := s.Records(0, state.FlowSubject, func(key string, record []byte) error {
		lines = append(lines, fmt.Sprintf("%s %x", key, record))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Due(0, state.FlowSubject, 0, "", func(due events.Stamp, key string) bool {
		lines = append(lines, fmt.Sprint(key, " due ", due))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	letters, err := s.DeadLetters(0, 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range letters {
		lines = append(lines, fmt.Sprintf("%d %s %q", l.Position, l.Code, l.Raw))
	}
	return lines
}

// TestSweepCrash lets the log of verdicts and the checkpoints of a pump that folds a backlog fail at
// random. What is published is what a pump leaves there that folds record by record, undisturbed.
func TestSweepCrash(t *testing.T) {
	crashes, swept := 0, 0
	defer func() {
		if n := pumptest.Seeds(); crashes < 3*n || swept < n*2000 {
			t.Errorf("%d crashes, %d records swept in %d runs", crashes, swept, n)
		}
	}()
	for seed := range uint64(pumptest.Seeds()) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			records := backlog(seed, 4000)
			want := foldBacklog(t, records, func() int { return 500 }, Options{InOrder: true})
			r := rand.New(rand.NewPCG(seed, 23))
			got := &memoryLog{fail: func() bool { return r.IntN(6) == 0 }, cut: func(n int) int { return r.IntN(n + 1) }}
			store, fake := pumptest.OpenState(t), clock.NewFake()
			for ended := false; !ended; {
				p := newTestPump(t, Options{Store: store, Sink: got, Clock: fake, InOrder: r.IntN(8) == 0})
				p.o.Store = committing{store, func(c *state.Checkpoint) error {
					if c.Next%5 == 0 {
						return pumptest.ErrSink
					}
					return store.Commit(c)
				}}
				var err error
				for err == nil && !ended {
					from := p.Next()
					fake.Advance(time.Duration(r.IntN(3000)) * time.Millisecond)
					err = p.Gather(t.Context(), records[from:min(len(records), int(from)+1+r.IntN(600))])
					if ended = p.Next() == int64(len(records)) && err == nil; ended {
						err = p.Batch(t.Context(), nil)
						ended = err == nil
					} else if err == nil && r.IntN(12) == 0 {
						err = pumptest.ErrSink // a crash out of the blue
					}
				}
				swept += p.feeder.swept
				p.CloseWithoutCheckpoint()
				if err != nil && !errors.Is(err, pumptest.ErrSink) {
					t.Fatal(err)
				}
				crashes++
			}
			sameLog(t, got, &want.verdicts)
		})
	}
}

// panicking is a logger that fails when a refused call is logged.
type panicking struct{ slog.Handler }

func (panicking) Enabled(context.Context, slog.Level) bool { return true }

func (panicking) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "Rejected call") {
		panic("a fault in the fold")
	}
	return nil
}

// TestSweepPanic shows that a fault of the core ends a sweep as if it had not begun: the next pump
// folds its records one after the other, of which one becomes a dead letter.
func TestSweepPanic(t *testing.T) {
	records, store, log := backlog(1, 2000), pumptest.OpenState(t), &memoryLog{}
	p := newTestPump(t, Options{Store: store, Sink: log, Logger: slog.New(panicking{slog.DiscardHandler})})
	if err := p.Gather(t.Context(), records); !errors.Is(err, ErrInOrder) {
		t.Fatalf("a sweep with a panic: %v, want %v", err, ErrInOrder)
	}
	p.CloseWithoutCheckpoint()
	if len(log.lines) > 0 && log.at[len(log.at)-1] >= int64(len(records)) {
		t.Errorf("verdicts up to %d", log.at[len(log.at)-1])
	}
	p = newTestPump(t, Options{Store: store, Sink: log, InOrder: true, Logger: slog.New(panicking{slog.DiscardHandler})})
	if err := p.Gather(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	letters, err := store.DeadLetters(0, len(records), nil)
	if err != nil || !slices.ContainsFunc(letters, func(l state.DeadLetter) bool { return l.Code == string(events.CodePanic) }) {
		t.Errorf("no dead letter of the panic among %d, %v", len(letters), err)
	}
}

// TestSweepFindsNoRoom folds a backlog of ever new flows, more than a checkpoint holds, whose
// deadlines fire meanwhile.
func TestSweepFindsNoRoom(t *testing.T) {
	var records []Record
	for i := range 24_000 {
		ev := pumptest.SelfCall(fmt.Sprintf("%x", i%12_000), i)
		records = append(records, Record{Offset: int64(i), Appended: ev.Time, Value: ev.AppendJSON(nil)})
	}
	want := foldBacklog(t, records, func() int { return 500 }, Options{InOrder: true})
	got := foldBacklog(t, records, func() int { return 5000 }, Options{})
	if got.swept < len(records)/2 {
		t.Errorf("%d of %d records were swept", got.swept, len(records))
	}
	sameLog(t, &got.verdicts, &want.verdicts)
	sameLines(t, "activity", got.activity.lines, want.activity.lines)
	sameLines(t, "state", kept(t, got.store), kept(t, want.store))
}

// TestSweepDropsWhatItCannotHold has the last record of a plan begin a flow, in memory and not, and dropped: the flow
// must not count as swept, or its deadlines would wait for the next sweep.
func TestSweepDropsWhatItCannotHold(t *testing.T) {
	cache := newRecordCache()
	g := &sweep{fold: &fold{memory: &memory{cache: cache}}, fresh: make(map[string]int32), turn: 1, next: make([]int32, 4)}
	left := roomLeft{bytes: 1 << 20, writes: 1 << 10}
	for n, key := range []string{"a", "b", "a"} {
		if n == 0 {
			cache.add(newRecord(key))
		}
		f := g.flowOf(key, int32(n), &left)
		g.flows[f].last = int32(n)
	}
	for n, key := range []string{"c", "d"} {
		if n == 0 {
			cache.add(newRecord(key))
		}
		g.flowOf(key, 3, &left)
		g.dropAfter(3)
		if at, swept := g.placeOf(key, cache.byKey[key]); swept || len(g.flows) != 2 {
			t.Errorf("%s, which was dropped, is flow %d of %d", key, at, len(g.flows))
		}
	}
	for place, key := range []string{"a", "b"} {
		if at, swept := g.placeOf(key, cache.byKey[key]); !swept || at != int32(place) {
			t.Errorf("%s is flow %d, want %d", key, at, place)
		}
	}
}
