package pump

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/pump/pumptest"
	"weir/events"
	"weir/events/adapter"
	"weir/state"
)

// committing is a store whose checkpoints are written by a function.
type committing struct {
	*state.Store
	commit func(*state.Checkpoint) error
}

func (c committing) Commit(x *state.Checkpoint) error { return c.commit(x) }

// memoryLog is a verdict log that may fail, after it has taken some of what it was
// given, as a log on disk would.
type memoryLog struct {
	lines [][]byte
	ids   []string
	at    []int64
	fail  func() bool
	cut   func(n int) int // how many are safe when it fails
}

func (m *memoryLog) Emit(_ context.Context, verdicts []Emitted) (int64, error) {
	n := len(verdicts)
	failed := m.fail != nil && m.fail()
	if failed {
		n = m.cut(n)
	}
	for i := range verdicts[:n] {
		v := &verdicts[i]
		m.lines = append(m.lines, fmt.Appendf(v.Verdict.AppendJSON(nil), " @%d", v.Offset))
		m.ids = append(m.ids, v.Verdict.ID)
		m.at = append(m.at, v.Offset)
	}
	if failed {
		return 0, pumptest.ErrSink
	}
	return int64(len(m.lines)), nil
}

func (m *memoryLog) Since(_ context.Context, from int64, fn func(string, int64)) (int64, error) {
	for i := from; i < int64(len(m.ids)); i++ {
		fn(m.ids[i], m.at[i])
	}
	return int64(len(m.ids)), nil
}

// traffic makes a log of several runaway and several honest flows, with ticks,
// garbage, repeats, asks and a change of limits in between.
func traffic(seed uint64, n int) []Record {
	r := rand.New(rand.NewPCG(seed, 7))
	at := pumptest.Start
	var out []Record
	add := func(value []byte) {
		out = append(out, Record{Offset: int64(len(out)), Appended: at, Value: value})
	}
	for i := 0; i < n; i++ {
		at = at.Add(time.Duration(r.IntN(2500)) * time.Millisecond)
		switch x := r.IntN(100); {
		case x < 2:
			at = at.Add(time.Duration(r.IntN(400)) * time.Second)
			add(pumptest.Tick(at))
			continue
		case x < 4:
			add([]byte([]string{"{", `{"id":1}`, `nonsense`, `{"id":"a","time":"yesterday"}`}[r.IntN(4)]))
			continue
		case x < 6 && len(out) > 0:
			add(out[r.IntN(len(out))].Value)
			continue
		case x == 6:
			add(limitsSet(at, []string{"strict", "balanced"}[r.IntN(2)]))
			continue
		}
		ev := pumptest.RandomEvent(r, at, i)
		if i > n/4 && r.IntN(50) == 0 {
			ev = reportOf(ev)
		}
		add(ev.AppendJSON(nil))
	}
	return out
}

func limitsSet(at events.Stamp, name string) []byte {
	return (&events.Event{ID: "limits:" + name, Time: at, Kind: events.LimitsSet, Limits: fmt.Appendf(nil, `{"profile":%q}`, name)}).AppendJSON(nil)
}

// parseTestLimits knows two documents.
func parseTestLimits(document []byte) (analyzer.Limits, error) {
	var d struct{ Profile string }
	if err := json.Unmarshal(document, &d); err != nil {
		return analyzer.Limits{}, err
	}
	l := analyzer.Balanced()
	l.Version = "test:" + d.Profile
	switch d.Profile {
	case "balanced":
	case "strict":
		l.Rules[analyzer.RuleTotalCalls].Stop, l.Rules[analyzer.RuleTotalCalls].Warn = 6, 3
		l.Rules[analyzer.RuleFlowDuration].Stop, l.Rules[analyzer.RuleFlowDuration].Warn = 240, 60
	default:
		return l, fmt.Errorf("unknown profile %q", d.Profile)
	}
	return l, nil
}

func newTestPump(t testing.TB, o Options) *Pump {
	t.Helper()
	o.Limits, o.Parse = pumptest.Limits(), parseTestLimits
	p, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// undisturbed folds the log at one go.
func undisturbed(t *testing.T, records []Record) *memoryLog {
	t.Helper()
	log := &memoryLog{}
	p := newTestPump(t, Options{Store: pumptest.OpenState(t), Sink: log})
	if err := p.Batch(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(log.lines) < 20 {
		t.Fatalf("only %d verdicts: the log is too tame to show anything", len(log.lines))
	}
	return log
}

func sameLog(t *testing.T, got, want *memoryLog) {
	t.Helper()
	if !slices.EqualFunc(got.lines, want.lines, bytes.Equal) {
		at := 0
		for at < min(len(got.lines), len(want.lines)) && bytes.Equal(got.lines[at], want.lines[at]) {
			at++
		}
		line := func(m *memoryLog) []byte {
			if at < len(m.lines) {
				return m.lines[at]
			}
			return nil
		}
		t.Fatalf("%d verdicts, want %d; the first that differs is %d:\n got %s\nwant %s", len(got.lines), len(want.lines), at, line(got), line(want))
	}
	seen := map[string]bool{}
	for _, id := range got.ids {
		if seen[id] {
			t.Fatalf("verdict id %s is there twice", id)
		}
		seen[id] = true
	}
}

// TestCrash lets the sink, and the commits of checkpoints before and after they are
// durable, fail at random, and loses the state now and then. What is in the verdict log afterwards is what an
// undisturbed run leaves there. WEIR_SEEDS=1000 tries more.
func TestCrash(t *testing.T) {
	seeds, lost, crashes := pumptest.Seeds(), 0, 0
	defer func() {
		// How often a single run crashes depends on how its commits fall among its batches.
		if lost < seeds || crashes < 3*seeds {
			t.Errorf("the state was lost only %d times, and %d crashes, in %d runs", lost, crashes, seeds)
		}
	}()
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			records := traffic(seed, 1500)
			want := undisturbed(t, records)
			r := rand.New(rand.NewPCG(seed, 11))
			got := &memoryLog{fail: func() bool { return r.IntN(12) == 0 }, cut: func(n int) int { return r.IntN(n + 1) }}
			commits := rand.New(rand.NewPCG(seed, 13)) // commits have a goroutine of their own
			store, clock := pumptest.OpenState(t), clock.NewFake()
			start := func() *Pump {
				p := newTestPump(t, Options{Store: store, Sink: got, Clock: clock, Memory: 6000, CheckpointEvery: time.Second / seldom})
				p.o.Store = committing{store, func(c *state.Checkpoint) error {
					switch commits.IntN(12) {
					case 0:
						return pumptest.ErrSink
					case 1:
						return errors.Join(store.Commit(c), pumptest.ErrSink)
					}
					return store.Commit(c)
				}}
				return p
			}
			// The checkpoint in flight may fail after the last record, too.
			p := start()
			for ended := false; !ended; {
				from := p.Next()
				ended = from == int64(len(records))
				if from > 0 && r.IntN(4) == 0 {
					from -= min(from, 5) // a source may go back
				}
				clock.Advance(time.Duration(r.IntN(1500)) * time.Millisecond)
				fold := p.Batch
				if !ended && r.IntN(3) == 0 {
					fold = p.Gather
				}
				err := fold(t.Context(), records[from:min(len(records), int(from)+1+r.IntN(60))])
				if err == nil && !ended && r.IntN(20) == 0 {
					err = pumptest.ErrSink // a crash out of the blue
				}
				if err != nil {
					if !errors.Is(err, pumptest.ErrSink) {
						t.Fatal(err)
					}
					p.CloseWithoutCheckpoint()
					if r.IntN(5) == 0 { // another machine goes on
						if err := store.Forget(0); err != nil {
							t.Fatal(err)
						}
						lost++
					}
					p = start()
					crashes++
					ended = false
				}
			}
			p.CloseWithoutCheckpoint()
			sameLog(t, got, want)
			wantLetters(t, store, records)
		})
	}
}

// wantLetters checks that each record that cannot be read is a dead letter once.
func wantLetters(t *testing.T, store *state.Store, records []Record) {
	t.Helper()
	var bad []int64
	for _, r := range records {
		var ev events.Event
		if events.Decode(r.Value, &ev) != nil {
			bad = append(bad, r.Offset)
		}
	}
	letters, err := store.DeadLetters(0, 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	for _, l := range letters {
		if l.Source != "journal" || l.Code == "" || l.Reason == "" || !bytes.Equal(l.Raw, records[l.Position].Value) {
			t.Fatalf("dead letter %+v", l)
		}
		got = append(got, l.Position)
	}
	if !slices.Equal(got, bad) {
		t.Fatalf("dead letters %v, want %v", got, bad)
	}
}

// TestRestart stops and starts the pump at each record of a log.
func TestRestart(t *testing.T) {
	records := traffic(3, 400)
	want := undisturbed(t, records)
	got, store := &memoryLog{}, pumptest.OpenState(t)
	for i := range records {
		p := newTestPump(t, Options{Store: store, Sink: got})
		if p.Next() != int64(i) {
			t.Fatalf("the pump begins at %d, not at %d", p.Next(), i)
		}
		if err := p.Batch(t.Context(), records[i:i+1]); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sameLog(t, got, want)
}

// TestRefold lets two pumps with all the crashes at one place: nothing was
// checkpointed, everything was published.
func TestRefold(t *testing.T) {
	records := traffic(4, 600)
	want := undisturbed(t, records)
	got, store := &memoryLog{}, pumptest.OpenState(t)
	for range 3 {
		p := newTestPump(t, Options{Store: store, Sink: got})
		p.o.Store = committing{store, func(*state.Checkpoint) error { return pumptest.ErrSink }}
		_ = p.Batch(t.Context(), records)
		p.CloseWithoutCheckpoint()
	}
	sameLog(t, got, want)
}

// TestFoldIsBatch holds the two ways into the pump against each other.
func TestFoldIsBatch(t *testing.T) {
	records := traffic(5, 800)
	want := undisturbed(t, records)
	p := newTestPump(t, Options{})
	got := &memoryLog{}
	for _, r := range records {
		var ev events.Event
		if events.Decode(r.Value, &ev) != nil {
			continue
		}
		ev.Appended = r.Appended
		var out []Emitted
		for _, v := range p.Fold(&ev, r.Offset) {
			out = append(out, Emitted{Verdict: v, Offset: r.Offset})
		}
		if _, err := got.Emit(t.Context(), out); err != nil {
			t.Fatal(err)
		}
	}
	sameLog(t, got, want)
}

// TestLargeCheckpoints fires far more deadlines by one record than fit into a
// checkpoint, with crashes on the way.
func TestLargeCheckpoints(t *testing.T) {
	const flows = 9_000
	var records []Record
	add := func(ev *events.Event) {
		records = append(records, Record{Offset: int64(len(records)), Appended: ev.Time, Value: ev.AppendJSON(nil)})
	}
	for i := range flows { // a call of oneself is refused by an order, which expires
		x := events.Party{Session: "x"}
		add(&events.Event{ID: "1", Time: pumptest.Start, Kind: events.AgentCall, CorrelationID: fmt.Sprintf("%x", i), From: x, To: x, TransferMode: events.ReturnToCaller})
	}
	add(&events.Event{ID: "late", Time: pumptest.Start.Add(time.Hour), Kind: events.Tick})
	log, store, r := &memoryLog{}, pumptest.OpenState(t), rand.New(rand.NewPCG(1, 1))
	crashes := 0
	for {
		p := newTestPump(t, Options{Store: store, Sink: log})
		commits := 0
		p.o.Store = committing{store, func(c *state.Checkpoint) error {
			if commits++; commits > 1+r.IntN(4) {
				return pumptest.ErrSink
			}
			return store.Commit(c)
		}}
		err := p.Batch(t.Context(), records[p.Next():])
		if err == nil {
			err = p.Close(t.Context())
		}
		if err == nil {
			break
		}
		if !errors.Is(err, pumptest.ErrSink) {
			t.Fatal(err)
		}
		crashes++
		p.CloseWithoutCheckpoint()
	}
	if crashes < 2 {
		t.Errorf("only %d crashes: the checkpoints are not split", crashes)
	}
	seen := map[string]int{}
	for i, line := range log.lines {
		seen[log.ids[i]]++
		if seen[log.ids[i]] > 1 {
			t.Fatalf("twice: %s", line)
		}
	}
	if len(log.lines) < flows {
		t.Errorf("%d verdicts of %d flows", len(log.lines), flows)
	}
}

// TestRefoldWithinARecord crashes while the deadlines that one record fires are folded again,
// behind a checkpoint that passed in the middle of them: the verdicts of those that are left
// stand in the log since before the first crash.
func TestRefoldWithinARecord(t *testing.T) {
	const flows = 6_000
	var records []Record
	add := func(ev *events.Event) {
		records = append(records, Record{Offset: int64(len(records)), Appended: ev.Time, Value: ev.AppendJSON(nil)})
	}
	for i := range flows { // a call of oneself is refused by an order
		x := events.Party{Session: "x"}
		add(&events.Event{ID: "1", Time: pumptest.Start, Kind: events.AgentCall, CorrelationID: fmt.Sprintf("%x", i), From: x, To: x, TransferMode: events.ReturnToCaller})
	}
	for i := range flows { // each goes on behind its order, and has something to say at its next deadline
		add(&events.Event{ID: "2", Time: pumptest.Start.Add(time.Second), Kind: events.ToolCall, CorrelationID: fmt.Sprintf("%x", i), From: events.Party{Session: "x"}, Tool: events.Tool{Name: "search"}})
	}
	add(&events.Event{ID: "late", Time: pumptest.Start.Add(3 * time.Hour), Kind: events.Tick})
	log, store := &memoryLog{}, pumptest.OpenState(t)
	run := func(on *state.Store, commit func(*state.Checkpoint) error) error {
		p := newTestPump(t, Options{Store: on, Sink: log})
		defer p.CloseWithoutCheckpoint()
		p.o.Store = committing{on, commit}
		if err := p.Batch(t.Context(), records[p.Next():]); err != nil {
			return err
		}
		return p.Close(t.Context())
	}
	lost := pumptest.OpenState(t) // the disk, which loses all checkpoints when the process ends
	if err := run(lost, lost.Commit); err != nil {
		t.Fatal(err)
	}
	want, late := len(log.lines), 0
	for _, at := range log.at {
		if at == int64(len(records)-1) {
			late++
		}
	}
	within := 0
	for commits := 0; ; commits = 0 {
		err := run(store, func(c *state.Checkpoint) error {
			if c.Next == int64(len(records)) {
				if commits++; commits > 1 {
					return pumptest.ErrSink
				}
			}
			return store.Commit(c)
		})
		if err == nil {
			break
		}
		within++
	}
	if within < 2 || late < flows {
		t.Errorf("%d crashes within the last record, which brings %d verdicts about", within, late)
	}
	if got := len(log.lines); got != want {
		t.Errorf("%d verdicts stand in the log, want %d: some are there twice", got, want)
	}
}

// broken is a stage that cannot fold.
type broken struct{ folding }

func (broken) step(*events.Event)   { panic("a fault in the fold") }
func (broken) advance(events.Stamp) { panic("a fault in the fold") }

// TestPanic shows that a fault of the core costs one record, not the pump or the flow.
func TestPanic(t *testing.T) {
	store, log := pumptest.OpenState(t), &memoryLog{}
	p := newTestPump(t, Options{Store: store, Sink: log})
	records := traffic(6, 300)
	want := undisturbed(t, records)
	poison := (&events.Event{ID: "poison", Time: records[200].Appended, Kind: events.AgentCall, CorrelationID: "flow-3",
		From: events.Party{Session: "s1"}, To: events.Party{Session: "s2"}}).AppendJSON(nil)
	if err := p.Batch(t.Context(), records[:200]); err != nil {
		t.Fatal(err)
	}
	sound := p.fold.stage
	p.fold.stage = broken{sound}
	if err := p.Batch(t.Context(), []Record{{Offset: 200, Appended: records[200].Appended, Value: poison}}); err != nil {
		t.Fatal(err)
	}
	p.fold.stage = sound
	rest := slices.Clone(records[200:])
	for i := range rest {
		rest[i].Offset++
	}
	if err := p.Batch(t.Context(), rest); err != nil {
		t.Fatal(err)
	}
	letters, err := store.DeadLetters(0, len(records), nil)
	if err != nil {
		t.Fatal(err)
	}
	panics := slices.DeleteFunc(letters, func(l state.DeadLetter) bool { return l.Code != string(events.CodePanic) })
	if len(panics) != 1 || panics[0].Position != 200 || !bytes.Equal(panics[0].Raw, poison) {
		t.Fatalf("dead letters of the panic: %+v", panics)
	}
	counted := p.meter.counts.Sum()
	if n := counted.DeadLetters()[events.CodePanic]; n != 1 {
		t.Errorf("counted %d panics", n)
	}
	trim := func(m *memoryLog) (out []string) {
		for _, l := range m.lines {
			verdict, _, _ := strings.Cut(string(l), " @")
			out = append(out, verdict)
		}
		return out
	}
	if !slices.Equal(trim(log), trim(want)) {
		t.Errorf("the verdicts around the panic differ: %d and %d", len(log.lines), len(want.lines))
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestPanicOfDeadline shows that a deadline which cannot be fired is given up, once.
func TestPanicOfDeadline(t *testing.T) {
	store, log := pumptest.OpenState(t), &memoryLog{}
	p := newTestPump(t, Options{Store: store, Sink: log})
	batch := func(p *Pump, offset int64, ev *events.Event) {
		t.Helper()
		if err := p.Batch(t.Context(), []Record{{Offset: offset, Appended: ev.Time, Value: ev.AppendJSON(nil)}}); err != nil {
			t.Fatal(err)
		}
	}
	late := &events.Event{ID: "tick", Time: events.StampOf(clock.NewFake().Now()).Add(time.Hour), Kind: events.Tick}
	batch(p, 0, pumptest.SelfCall("f", 1))
	sound := p.fold.stage
	p.fold.stage = broken{sound}
	batch(p, 1, late)
	p.fold.stage = sound
	batch(p, 2, pumptest.Call("f", 2, "a", "b"))
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := newTestPump(t, Options{Store: store, Sink: log})
	batch(again, 3, late)
	letters, err := store.DeadLetters(0, 10, nil)
	if err != nil || len(letters) != 1 || letters[0].Code != string(events.CodePanic) || letters[0].Position != 1 || string(letters[0].Raw) != "f" {
		t.Errorf("dead letters %+v, %v", letters, err)
	}
	if v, ok, err := again.View("f"); err != nil || !ok || v.Events != 2 {
		t.Errorf("the flow after the panic: %+v, %v, %v", v, ok, err)
	}
}

// forgetful is a stage of which no record can be encoded.
type forgetful struct{ folding }

func (forgetful) encode([]byte) ([]byte, error) { return nil, errors.New("no record") }

// TestUnkept shows that of a step, or a deadline, that cannot be kept nothing is said: the pump
// ends, and the log is folded again up to there.
func TestUnkept(t *testing.T) {
	ask := pumptest.SelfCall("f", 1)
	ask.Ask = true
	f := func(name string, last *events.Event) {
		t.Run(name, func(t *testing.T) {
			store, log := pumptest.OpenState(t), &memoryLog{}
			said := 0
			o := Options{Store: store, Sink: log, Answer: func(int64, []byte, *events.Event, *events.Verdict) { said++ }}
			p := newTestPump(t, o)
			first := pumptest.Call("f", 0, "a", "b")
			records := []Record{{Offset: 0, Appended: first.Time, Value: limitsSet(first.Time, "strict")}, // a flow may last four minutes
				{Offset: 1, Appended: first.Time, Value: first.AppendJSON(nil)}, {Offset: 2, Appended: last.Time, Value: last.AppendJSON(nil)}}
			if err := p.Batch(t.Context(), records[:2]); err != nil {
				t.Fatal(err)
			}
			p.fold.stage = forgetful{p.fold.stage}
			given := p.FoldRecord(last, &records[2])
			err := p.Batch(t.Context(), nil)
			if err == nil || !strings.Contains(err.Error(), "no record") {
				t.Error(err)
			}
			if said+len(given)+len(log.lines) > 0 {
				t.Errorf("%d answers, verdicts %+v, published %d", said, given, len(log.lines))
			}
			p.CloseWithoutCheckpoint()
			// The same said by a pump that keeps it, or the test would show nothing.
			p = newTestPump(t, o)
			if err := p.Batch(t.Context(), records); err != nil {
				t.Fatal(err)
			}
			if said+len(log.lines) == 0 {
				t.Error("nothing was said")
			}
			if err := p.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
	f("ask", ask)
	f("deadline", &events.Event{ID: "tick", Time: ask.Time.Add(time.Hour), Kind: events.Tick})
}

// TestForgottenFlow has a deadline in the store whose flow has expired.
func TestForgottenFlow(t *testing.T) {
	store, log := pumptest.OpenState(t), &memoryLog{}
	p := newTestPump(t, Options{Store: store, Sink: log})
	if err := p.Batch(t.Context(), []Record{{Appended: pumptest.Start, Value: pumptest.SelfCall("f", 1).AppendJSON(nil)}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	meta, _, err := store.Meta(0)
	if err == nil {
		err = store.Commit(&state.Checkpoint{Next: meta.Next, Published: meta.Published, State: meta.State,
			Records: []state.Record{{Subject: state.FlowSubject, Key: "f"}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	p = newTestPump(t, Options{Store: store, Sink: log})
	if _, ok, err := p.View("f"); ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := p.Batch(t.Context(), []Record{{Offset: 1, Appended: pumptest.Start.Add(time.Hour), Value: pumptest.Tick(pumptest.Start.Add(300 * time.Hour))},
		{Offset: 2, Appended: pumptest.Start.Add(300 * time.Hour), Value: pumptest.Tick(pumptest.Start.Add(300 * time.Hour))}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := 0
	if err := store.Due(0, state.FlowSubject, 0, "", func(events.Stamp, string) bool { left++; return true }); err != nil || left > 0 {
		t.Errorf("%d deadlines are left, %v", left, err)
	}
}

// TestSameLimits reads limits that the log repeats only if there were others between.
func TestSameLimits(t *testing.T) {
	read := 0
	p, err := New(t.Context(), Options{Store: pumptest.OpenState(t), Sink: &memoryLog{}, Limits: pumptest.Limits(), Parse: func(document []byte) (analyzer.Limits, error) {
		read++
		return parseTestLimits(document)
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range []struct {
		told, want string
		read       int // so far
	}{
		{"strict", "strict", 1}, {"strict", "strict", 1}, {"balanced", "balanced", 2}, {"strict", "strict", 3},
		{"loose", "strict", 4}, {"strict", "strict", 4}, // which is no profile and leaves the one before in force
	} {
		if err := p.Batch(t.Context(), []Record{{Offset: int64(i), Appended: pumptest.Start, Value: limitsSet(pumptest.Start, x.told)}}); err != nil {
			t.Fatal(err)
		}
		if l, _ := p.Limits(); l.Version != "test:"+x.want || read != x.read {
			t.Errorf("after %s at %d the limits are %s, read %d times; want %s, %d", x.told, i, l.Version, read, x.want, x.read)
		}
	}
}

// TestLimitsParser gives each document its own limits, whichever was read before.
func TestLimitsParser(t *testing.T) {
	parse := LimitsParser()
	for _, profile := range []string{"strict", "strict", "loose", "strict", "balanced", "strict"} {
		document := fmt.Appendf(nil, `{"profile":%q}`, profile)
		want, wrong := ParseLimits(document)
		got, err := parse(document)
		clear(document) // it keeps nothing of it
		if fmt.Sprint(err) != fmt.Sprint(wrong) || got.Profile != want.Profile || got.Version != want.Version {
			t.Errorf("%s: %s %s, %v; want %s %s, %v", profile, got.Profile, got.Version, err, want.Profile, want.Version, wrong)
		}
	}
}

// TestBadLimits meets limits in the log that this weir does not accept.
func TestBadLimits(t *testing.T) {
	store, log := pumptest.OpenState(t), &memoryLog{}
	p := newTestPump(t, Options{Store: store, Sink: log})
	records := []Record{{Appended: pumptest.Start, Value: limitsSet(pumptest.Start, "strict")}, {Offset: 1, Appended: pumptest.Start, Value: limitsSet(pumptest.Start, "loose")}}
	if err := p.Batch(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	if l, document := p.Limits(); l.Version != "test:strict" || string(document) != `{"profile":"strict"}` {
		t.Errorf("limits %s by %s", l.Version, document)
	}
	letters, err := store.DeadLetters(0, 10, nil)
	if err != nil || len(letters) != 1 || letters[0].Code != string(events.CodeLimits) || letters[0].Position != 1 {
		t.Errorf("dead letters %+v, %v", letters, err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l, _ := newTestPump(t, Options{Store: store, Sink: log}).Limits(); l.Version != "test:strict" {
		t.Errorf("limits %s after a restart", l.Version)
	}
}

// TestCounts looks at the counters after a run.
func TestCounts(t *testing.T) {
	records := traffic(10, 600)
	p := newTestPump(t, Options{Store: pumptest.OpenState(t), Sink: &memoryLog{}})
	if err := p.Batch(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, s := p.meter.counts.Sum(), &p.meter.standing
	letters, verdicts := int64(0), int64(0)
	for _, n := range c.DeadLetters() {
		letters += n
	}
	for a := events.Allow.Place(); a <= events.Notify.Place(); a++ {
		verdicts += p.meter.counts.Verdicts(events.ActionAt(a))
	}
	sets := int64(0)
	for _, r := range records {
		if bytes.Contains(r.Value, []byte(`"limits.set"`)) {
			sets++
		}
	}
	if got := c.Fold.Events + c.Fold.Duplicates + c.Fold.TooLate + c.Ticks + letters + sets; got != int64(len(records)) || c.Records != got {
		t.Errorf("%d of %d records are accounted for", got, len(records))
	}
	if verdicts != int64(len(p.o.Sink.(*memoryLog).lines)) || s.Flows.Load() == 0 || s.FlowBytes.Load() == 0 ||
		s.Next.Load() != int64(len(records)) || c.Checkpoints == 0 || c.Fold.Asks == 0 || s.Watermark.Load() < int64(pumptest.Start) {
		t.Errorf("counts %+v", c)
	}
}

// TestDiskLow shows that a full disk makes the pump wait and lose nothing.
func TestDiskLow(t *testing.T) {
	records := traffic(8, 500)
	want := undisturbed(t, records)
	store, clock, log := pumptest.OpenState(t), clock.NewFake(), &memoryLog{}
	p := newTestPump(t, Options{Store: store, Sink: log, Clock: clock})
	low := errors.Join(state.ErrDiskLow)
	fails := 3
	p.o.Store = committing{store, func(c *state.Checkpoint) error {
		if fails > 0 {
			fails--
			return low
		}
		return store.Commit(c)
	}}
	clock.Advance(time.Minute)
	if err := p.Batch(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- p.Close(t.Context()) }()
	for waited := false; ; {
		select {
		case <-clock.Asked():
			if !p.meter.standing.DiskLow() {
				t.Error("the disk is low and nobody says so")
			}
			waited = true
			clock.Advance(diskRetry)
			continue
		case err := <-done:
			if err != nil || !waited {
				t.Fatalf("closed with %v, waited %v", err, waited)
			}
		}
		break
	}
	if p.meter.standing.DiskLow() {
		t.Error("there is room again and nobody says so")
	}
	sameLog(t, log, want)
	again := newTestPump(t, Options{Store: store, Sink: log})
	if again.Next() != int64(len(records)) {
		t.Errorf("the checkpoint is at %d of %d", again.Next(), len(records))
	}
}

// TestDiskLowWhilePublished folds on while a checkpoint waits for space, as in a group, where
// verdicts go to a topic: the disk stays low in what weir reports.
func TestDiskLowWhilePublished(t *testing.T) {
	records := traffic(8, 500)
	store, clock, log := pumptest.OpenState(t), clock.NewFake(), &memoryLog{}
	p := newTestPump(t, Options{Store: store, Sink: log, Clock: clock})
	var full atomic.Bool
	full.Store(true)
	p.o.Store = committing{store, func(c *state.Checkpoint) error {
		if full.Load() {
			return state.ErrDiskLow
		}
		return store.Commit(c)
	}}
	half := len(records) / 2
	clock.Advance(time.Minute)
	if err := p.Batch(t.Context(), records[:half]); err != nil {
		t.Fatal(err)
	}
	<-clock.Asked()
	published := len(log.ids)
	if err := p.Batch(t.Context(), records[half:]); err != nil {
		t.Fatal(err)
	}
	if len(log.ids) == published {
		t.Fatal("nothing was published meanwhile")
	}
	if !p.meter.standing.DiskLow() {
		t.Error("the disk is low and a publication says otherwise")
	}
	full.Store(false)
	clock.Advance(diskRetry)
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.meter.standing.DiskLow() {
		t.Error("there is room again and nobody says so")
	}
}

// TestStepIsFree asserts that an event of a known flow costs no allocation.
func TestStepIsFree(t *testing.T) {
	p := newTestPump(t, Options{})
	records := steady(64, 60_000, 0)
	if err := p.Batch(t.Context(), records[:50_000]); err != nil {
		t.Fatal(err)
	}
	at := 50_000
	got := testing.AllocsPerRun(90, func() {
		if err := p.Batch(t.Context(), records[at:at+100]); err != nil {
			t.Fatal(err)
		}
		at += 100
	})
	if got > 0 {
		t.Errorf("100 events of known flows took %v allocations", got)
	}
}

// TestDiskLowSink lets the sink find the disk low again and again, with some verdicts taken.
func TestDiskLowSink(t *testing.T) {
	records := traffic(9, 500)
	want := undisturbed(t, records)
	clock, got := clock.NewFake(), &lowLog{}
	p := newTestPump(t, Options{Store: pumptest.OpenState(t), Sink: got, Clock: clock})
	done := make(chan error, 1)
	go func() {
		for from := 0; from < len(records); from += 50 {
			if err := p.Batch(t.Context(), records[from:from+50]); err != nil {
				done <- err
				return
			}
		}
		done <- p.Close(t.Context())
	}()
	for {
		select {
		case <-clock.Asked():
			clock.Advance(diskRetry)
			continue
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
		}
		break
	}
	sameLog(t, &got.memoryLog, want)
	if p.meter.standing.DiskLow() {
		t.Error("the disk is still said to be low")
	}
}

// lowLog fails at every other call, having taken half of what it was given.
type lowLog struct {
	memoryLog
	calls, taken int
}

func (l *lowLog) Emit(ctx context.Context, verdicts []Emitted) (int64, error) {
	verdicts = verdicts[l.taken:]
	if l.calls++; l.calls%2 == 1 {
		l.taken += len(verdicts) / 2
		if _, err := l.memoryLog.Emit(ctx, verdicts[:len(verdicts)/2]); err != nil {
			return 0, err
		}
		return 0, errors.Join(state.ErrDiskLow)
	}
	l.taken = 0
	return l.memoryLog.Emit(ctx, verdicts)
}

// TestStrayActivity holds that what weir has not written into the activity is refused,
// and limits are not.
func TestStrayActivity(t *testing.T) {
	p, err := New(t.Context(), Options{Stage: AgentStage, Sources: 2, Limits: limitfile.Default(), Parse: parseTestLimits, Store: pumptest.OpenState(t), Sink: new(memoryLog)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.CloseWithoutCheckpoint()
	report := &events.Event{ID: "1", Time: pumptest.Start, Kind: events.AgentStatus, From: events.Party{Agent: "a"}, AgentState: &events.AgentState{Status: "active"}}
	stray := Record{Offset: 0, Key: "agent:a", From: Position{Source: -1}, Value: report.AppendJSON(nil)}
	elsewhere := stray
	elsewhere.Offset, elsewhere.From.Source = 1, 3
	limits := Record{Offset: 2, From: Position{Source: -1}, Value: limitsSet(pumptest.Start, "strict")}
	if err := p.Batch(t.Context(), []Record{stray, elsewhere, limits}); err != nil {
		t.Fatal(err)
	}
	counted := p.meter.counts.Sum()
	if n := counted.DeadLetters()[adapter.CodeFormat]; n != 2 {
		t.Errorf("%d dead letters, want 2", n)
	}
	if l, _ := p.Limits(); l.Version != "test:strict" {
		t.Errorf("the limits are %s", l.Version)
	}
}

// TestStateBeforeStages goes on from the checkpoint of a weir that had no agent stage.
func TestStateBeforeStages(t *testing.T) {
	store := pumptest.OpenState(t)
	var before analyzer.Partition
	before.Watermark = pumptest.Start
	fold, err := before.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := append(binary.AppendUvarint([]byte{flowsAlone}, uint64(len(fold))), fold...)
	b = append(binary.AppendVarint(append(b, 0), 0), 0) // no document, no letters, no limits
	if err := store.Commit(&state.Checkpoint{Next: 7, State: b}); err != nil {
		t.Fatal(err)
	}
	p := newTestPump(t, Options{Store: store, Sink: &memoryLog{}})
	if p.Next() != 7 || p.fold.stage.seen() != pumptest.Start || StageOf(b) != FlowStage {
		t.Errorf("next %d, watermark %d", p.Next(), p.fold.stage.seen())
	}
	if err := p.Batch(t.Context(), []Record{{Offset: 7, Appended: pumptest.Start, Value: pumptest.SelfCall("f", 1).AppendJSON(nil)}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	meta, _, err := store.Meta(0)
	if err != nil || meta.State[0] != stateVersion || StageOf(meta.State) != FlowStage {
		t.Errorf("state %x, %v", meta.State, err)
	}
	_, err = New(t.Context(), Options{Limits: pumptest.Limits(), Stage: AgentStage, Store: store, Sink: &memoryLog{}})
	if err == nil {
		t.Error("an agent stage goes on from the state of flows")
	}
}

// A backlog that is gathered gives the same log as one that is published record by record,
// and less often, although its memory is used again after each call, as that of a fetch is.
func TestGather(t *testing.T) {
	records := traffic(5, 40_000)
	want := undisturbed(t, records)
	log, store := &memoryLog{}, pumptest.OpenState(t)
	p := newTestPump(t, Options{Store: store, Sink: log, Clock: clock.NewFake()})
	published := 0
	for part := range slices.Chunk(records, 1000) {
		fetched := slices.Clone(part)
		for i := range fetched {
			fetched[i].Value = slices.Clone(fetched[i].Value)
		}
		if err := p.Gather(t.Context(), fetched); err != nil {
			t.Fatal(err)
		}
		for _, r := range fetched {
			for i := range r.Value {
				r.Value[i] = '#'
			}
		}
		if !p.Gathered() {
			published++
		}
	}
	// Once more for the first checkpoint, which is due at once.
	if most := len(records)/mostGathered + 1; published < 2 || published > most {
		t.Errorf("40 batches were published %d times, want 2 to %d", published, most)
	}
	if err := p.Batch(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if p.Gathered() {
		t.Error("a batch has left something unpublished")
	}
	sameLog(t, log, want)
	letters, err := store.DeadLetters(0, len(records), nil)
	if err != nil || len(letters) == 0 {
		t.Fatalf("%d dead letters, %v", len(letters), err)
	}
	for _, l := range letters {
		if want := records[l.Position].Value; string(l.Raw) != string(want) {
			t.Fatalf("the dead letter of %d is %q, want %q", l.Position, l.Raw, want)
		}
	}
}
