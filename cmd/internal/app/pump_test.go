package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/analyzer"
	"weir/events"
	"weir/state"
)

// memoryLog is a verdict log that may fail, after it has taken some of what it was
// given, as a log on disk would.
type memoryLog struct {
	lines [][]byte
	ids   []string
	at    []int64
	fail  func() bool
	cut   func(n int) int // how many are safe when it fails
}

var errSink = errors.New("the sink fails")

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
		return 0, errSink
	}
	return int64(len(m.lines)), nil
}

func (m *memoryLog) Since(_ context.Context, from int64, fn func(string, int64)) (int64, error) {
	for i := from; i < int64(len(m.ids)); i++ {
		fn(m.ids[i], m.at[i])
	}
	return int64(len(m.ids)), nil
}

const testStart = events.Stamp(1_795_000_000_000)

// traffic makes a log of several runaway and several honest flows, with ticks,
// garbage, repeats, asks and a change of limits in between.
func traffic(seed uint64, n int) []Record {
	r := rand.New(rand.NewPCG(seed, 7))
	at := testStart
	var out []Record
	add := func(value []byte) {
		out = append(out, Record{Offset: int64(len(out)), Appended: at, Value: value})
	}
	for i := 0; i < n; i++ {
		at = at.Add(time.Duration(r.IntN(2500)) * time.Millisecond)
		switch x := r.IntN(100); {
		case x < 2:
			at = at.Add(time.Duration(r.IntN(400)) * time.Second)
			add(tick(at))
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
		add(randomEvent(r, at, i).AppendJSON(nil))
	}
	return out
}

func randomEvent(r *rand.Rand, at events.Stamp, i int) *events.Event {
	party := func() events.Party { return events.Party{Session: fmt.Sprintf("s%d", r.IntN(4)), Agent: "coder"} }
	ev := &events.Event{ID: fmt.Sprintf("e%d", i), Source: "test", Time: at, CorrelationID: fmt.Sprintf("flow-%d", r.IntN(12)), From: party()}
	switch r.IntN(5) {
	case 0, 1:
		ev.Kind, ev.To, ev.HadWork = events.AgentCall, party(), events.No
		ev.Ask = r.IntN(4) == 0
	case 2:
		ev.Kind, ev.Tool = events.ToolCall, events.Tool{Name: "search", CallID: ev.ID, Args: fmt.Appendf(nil, `{"q": %d}`, r.IntN(2))}
	default:
		ev.Kind, ev.Tool, ev.Status = events.ToolResult, events.Tool{Name: "search", Args: fmt.Appendf(nil, `{"q": %d}`, r.IntN(2))}, events.StatusOK
		ev.Content = events.Hash{Algorithm: events.XXH64, Value: uint64(r.IntN(2)) + 1}
	}
	return ev
}

func tick(at events.Stamp) []byte {
	return (&events.Event{ID: fmt.Sprintf("tick:%d", at), Time: at, Kind: events.Tick}).AppendJSON(nil)
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

func openState(t testing.TB) *state.Store {
	t.Helper()
	s, err := state.Open("", state.Options{MemTableSize: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func testLimits() analyzer.Limits {
	l := analyzer.Balanced()
	l.Version = "test:first"
	return l
}

func newTestPump(t testing.TB, o PumpOptions) *Pump {
	t.Helper()
	o.Limits, o.Parse = testLimits(), parseTestLimits
	p, err := NewPump(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// undisturbed folds the log at one go.
func undisturbed(t *testing.T, records []Record) *memoryLog {
	t.Helper()
	log := &memoryLog{}
	p := newTestPump(t, PumpOptions{Store: openState(t), Sink: log})
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

func crashSeeds() int {
	if n, err := strconv.Atoi(os.Getenv("WEIR_SEEDS")); err == nil {
		return n
	}
	return 12
}

// TestCrash lets the sink, and the commits of checkpoints before and after they are
// durable, fail at random, and loses the state now and then. What is in the verdict log afterwards is what an
// undisturbed run leaves there. WEIR_SEEDS=1000 tries more.
func TestCrash(t *testing.T) {
	seeds, lost := crashSeeds(), 0
	defer func() {
		if lost < seeds {
			t.Errorf("the state was lost only %d times in %d runs", lost, seeds)
		}
	}()
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			records := traffic(seed, 1500)
			want := undisturbed(t, records)
			r := rand.New(rand.NewPCG(seed, 11))
			got := &memoryLog{fail: func() bool { return r.IntN(12) == 0 }, cut: func(n int) int { return r.IntN(n + 1) }}
			commits := rand.New(rand.NewPCG(seed, 13)) // commits have a goroutine of their own
			store, clock := openState(t), newFakeClock()
			start := func() *Pump {
				p := newTestPump(t, PumpOptions{Store: store, Sink: got, Clock: clock, Memory: 6000})
				p.commit = func(c *state.Checkpoint) error {
					switch commits.IntN(12) {
					case 0:
						return errSink
					case 1:
						return errors.Join(store.Commit(c), errSink)
					}
					return store.Commit(c)
				}
				return p
			}
			// The checkpoint in flight may fail after the last record, too.
			p, crashes := start(), 0
			for ended := false; !ended; {
				from := p.Next()
				ended = from == int64(len(records))
				if from > 0 && r.IntN(4) == 0 {
					from -= min(from, 5) // a source may go back
				}
				clock.advance(time.Duration(r.IntN(1500)) * time.Millisecond)
				err := p.Batch(t.Context(), records[from:min(len(records), int(from)+1+r.IntN(60))])
				if err == nil && !ended && r.IntN(20) == 0 {
					err = errSink // a crash out of the blue
				}
				if err != nil {
					if !errors.Is(err, errSink) {
						t.Fatal(err)
					}
					p.Abandon()
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
			p.Abandon()
			if crashes < 3 {
				t.Fatalf("only %d crashes", crashes)
			}
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
	got, store := &memoryLog{}, openState(t)
	for i := range records {
		p := newTestPump(t, PumpOptions{Store: store, Sink: got})
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
	got, store := &memoryLog{}, openState(t)
	for range 3 {
		p := newTestPump(t, PumpOptions{Store: store, Sink: got})
		p.commit = func(*state.Checkpoint) error { return errSink }
		_ = p.Batch(t.Context(), records)
		p.Abandon()
	}
	sameLog(t, got, want)
}

// TestFoldIsBatch holds the two ways into the pump against each other.
func TestFoldIsBatch(t *testing.T) {
	records := traffic(5, 800)
	want := undisturbed(t, records)
	p := newTestPump(t, PumpOptions{})
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
		add(&events.Event{ID: "1", Time: testStart, Kind: events.AgentCall, CorrelationID: fmt.Sprintf("%x", i), From: x, To: x})
	}
	add(&events.Event{ID: "late", Time: testStart.Add(time.Hour), Kind: events.Tick})
	log, store, r := &memoryLog{}, openState(t), rand.New(rand.NewPCG(1, 1))
	crashes := 0
	for {
		p := newTestPump(t, PumpOptions{Store: store, Sink: log})
		commits := 0
		p.commit = func(c *state.Checkpoint) error {
			if commits++; commits > 1+r.IntN(4) {
				return errSink
			}
			return store.Commit(c)
		}
		err := p.Batch(t.Context(), records[p.Next():])
		if err == nil {
			err = p.Close(t.Context())
		}
		if err == nil {
			break
		}
		if !errors.Is(err, errSink) {
			t.Fatal(err)
		}
		crashes++
		p.Abandon()
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

// broken is a stage that cannot fold.
type broken struct{ folding }

func (broken) step(*events.Event)   { panic("a fault in the fold") }
func (broken) advance(events.Stamp) { panic("a fault in the fold") }

// TestPanic shows that a fault of the core costs one record, not the pump or the flow.
func TestPanic(t *testing.T) {
	store, log := openState(t), &memoryLog{}
	p := newTestPump(t, PumpOptions{Store: store, Sink: log})
	records := traffic(6, 300)
	want := undisturbed(t, records)
	poison := (&events.Event{ID: "poison", Time: records[200].Appended, Kind: events.AgentCall, CorrelationID: "flow-3",
		From: events.Party{Session: "s1"}, To: events.Party{Session: "s2"}}).AppendJSON(nil)
	if err := p.Batch(t.Context(), records[:200]); err != nil {
		t.Fatal(err)
	}
	sound := p.stage
	p.stage = broken{sound}
	if err := p.Batch(t.Context(), []Record{{Offset: 200, Appended: records[200].Appended, Value: poison}}); err != nil {
		t.Fatal(err)
	}
	p.stage = sound
	rest := slices.Clone(records[200:])
	for i := range rest {
		rest[i].Offset++
	}
	if err := p.Batch(t.Context(), rest); err != nil {
		t.Fatal(err)
	}
	letters, err := store.DeadLetters(0, 1000, nil)
	if err != nil {
		t.Fatal(err)
	}
	panics := slices.DeleteFunc(letters, func(l state.DeadLetter) bool { return l.Code != string(CodePanic) })
	if len(panics) != 1 || panics[0].Position != 200 || !bytes.Equal(panics[0].Raw, poison) {
		t.Fatalf("dead letters of the panic: %+v", panics)
	}
	if n := p.counts.DeadLetters()[CodePanic]; n != 1 {
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
	store, log := openState(t), &memoryLog{}
	p := newTestPump(t, PumpOptions{Store: store, Sink: log})
	batch := func(p *Pump, offset int64, ev *events.Event) {
		t.Helper()
		if err := p.Batch(t.Context(), []Record{{Offset: offset, Appended: ev.Time, Value: ev.AppendJSON(nil)}}); err != nil {
			t.Fatal(err)
		}
	}
	late := &events.Event{ID: "tick", Time: events.StampOf(newFakeClock().Now()).Add(time.Hour), Kind: events.Tick}
	batch(p, 0, selfCall("f", 1))
	sound := p.stage
	p.stage = broken{sound}
	batch(p, 1, late)
	p.stage = sound
	batch(p, 2, call("f", 2, "a", "b"))
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := newTestPump(t, PumpOptions{Store: store, Sink: log})
	batch(again, 3, late)
	letters, err := store.DeadLetters(0, 10, nil)
	if err != nil || len(letters) != 1 || letters[0].Code != string(CodePanic) || letters[0].Position != 1 || string(letters[0].Raw) != "f" {
		t.Errorf("dead letters %+v, %v", letters, err)
	}
	if v, ok, err := again.View("f"); err != nil || !ok || v.Events != 2 {
		t.Errorf("the flow after the panic: %+v, %v, %v", v, ok, err)
	}
}

// TestForgottenFlow has a deadline in the store whose flow has expired.
func TestForgottenFlow(t *testing.T) {
	store, log := openState(t), &memoryLog{}
	p := newTestPump(t, PumpOptions{Store: store, Sink: log})
	if err := p.Batch(t.Context(), []Record{{Appended: testStart, Value: selfCall("f", 1).AppendJSON(nil)}}); err != nil {
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
	p = newTestPump(t, PumpOptions{Store: store, Sink: log})
	if _, ok, err := p.View("f"); ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := p.Batch(t.Context(), []Record{{Offset: 1, Appended: testStart.Add(time.Hour), Value: tick(testStart.Add(300 * time.Hour))},
		{Offset: 2, Appended: testStart.Add(300 * time.Hour), Value: tick(testStart.Add(300 * time.Hour))}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := 0
	if err := store.Due(0, func(state.Subject, events.Stamp, string) error { left++; return nil }); err != nil || left > 0 {
		t.Errorf("%d deadlines are left, %v", left, err)
	}
}

// TestBadLimits meets limits in the log that this weir does not accept.
func TestBadLimits(t *testing.T) {
	store, log := openState(t), &memoryLog{}
	p := newTestPump(t, PumpOptions{Store: store, Sink: log})
	records := []Record{{Appended: testStart, Value: limitsSet(testStart, "strict")}, {Offset: 1, Appended: testStart, Value: limitsSet(testStart, "loose")}}
	if err := p.Batch(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	if l, document := p.Limits(); l.Version != "test:strict" || string(document) != `{"profile":"strict"}` {
		t.Errorf("limits %s by %s", l.Version, document)
	}
	letters, err := store.DeadLetters(0, 10, nil)
	if err != nil || len(letters) != 1 || letters[0].Code != string(CodeLimits) || letters[0].Position != 1 {
		t.Errorf("dead letters %+v, %v", letters, err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l, _ := newTestPump(t, PumpOptions{Store: store, Sink: log}).Limits(); l.Version != "test:strict" {
		t.Errorf("limits %s after a restart", l.Version)
	}
}

// TestCounts looks at the counters after a run.
func TestCounts(t *testing.T) {
	records := traffic(10, 600)
	p := newTestPump(t, PumpOptions{Store: openState(t), Sink: &memoryLog{}})
	if err := p.Batch(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, s := p.counts, &p.standing
	letters, verdicts := int64(0), int64(0)
	for _, n := range c.DeadLetters() {
		letters += n
	}
	for a := events.Allow; a <= events.Notify; a++ {
		verdicts += c.Verdicts(a)
	}
	sets := int64(0)
	for _, r := range records {
		if bytes.Contains(r.Value, []byte(`"limits.set"`)) {
			sets++
		}
	}
	if got := c.Events.Load() + c.Duplicates.Load() + c.TooLate.Load() + c.Ticks.Load() + letters + sets; got != int64(len(records)) || c.Records.Load() != got {
		t.Errorf("%d of %d records are accounted for", got, len(records))
	}
	if verdicts != int64(len(p.o.Sink.(*memoryLog).lines)) || s.Flows.Load() == 0 || s.FlowBytes.Load() == 0 ||
		s.Next.Load() != int64(len(records)) || c.Checkpoints.Load() == 0 || c.Asks.Load() == 0 || s.Watermark.Load() < int64(testStart) {
		t.Errorf("counts %+v", c)
	}
}

// TestDiskLow shows that a full disk makes the pump wait and lose nothing.
func TestDiskLow(t *testing.T) {
	records := traffic(8, 500)
	want := undisturbed(t, records)
	store, clock, log := openState(t), newFakeClock(), &memoryLog{}
	p := newTestPump(t, PumpOptions{Store: store, Sink: log, Clock: clock})
	low := errors.Join(state.ErrDiskLow)
	fails := 3
	p.commit = func(c *state.Checkpoint) error {
		if fails > 0 {
			fails--
			return low
		}
		return store.Commit(c)
	}
	clock.advance(time.Minute)
	if err := p.Batch(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- p.Close(t.Context()) }()
	for waited := false; ; {
		select {
		case <-clock.asked:
			if !p.standing.DiskLow.Load() {
				t.Error("the disk is low and nobody says so")
			}
			waited = true
			clock.advance(diskRetry)
			continue
		case err := <-done:
			if err != nil || !waited {
				t.Fatalf("closed with %v, waited %v", err, waited)
			}
		}
		break
	}
	if p.standing.DiskLow.Load() {
		t.Error("there is room again and nobody says so")
	}
	sameLog(t, log, want)
	again := newTestPump(t, PumpOptions{Store: store, Sink: log})
	if again.Next() != int64(len(records)) {
		t.Errorf("the checkpoint is at %d of %d", again.Next(), len(records))
	}
}

// TestStepIsFree asserts that an event of a known flow costs no allocation.
func TestStepIsFree(t *testing.T) {
	p := newTestPump(t, PumpOptions{})
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
