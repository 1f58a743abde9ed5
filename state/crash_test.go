package state_test

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/events"
	"weir/state"
)

// A process that writes in every way is killed repeatedly. Afterwards everything that
// was acknowledged must be present, and the records must be exactly those of the
// checkpoint that the partition's Meta names.
func TestKill(t *testing.T) {
	f := func(kills int, ttl time.Duration) {
		t.Helper()
		seed := seedOf(t)
		rnd := rand.New(rand.NewPCG(seed, 0))
		dir := t.TempDir()
		acked := newAcked()
		checks := 0
		for kill := range kills {
			runAndKill(t, rnd, dir, ttl, acked)
			if rnd.IntN(2) == 0 || kill == kills-1 { // else the next process opens what this one left
				checks++
				if err := acked.check(dir, crashOptions(ttl)); err != nil {
					t.Fatalf("after %d kills with seed %d: %v", kill+1, seed, err)
				}
			}
		}
		t.Logf("%d kills, %d checks, %d appends and %d checkpoints acknowledged", kills, checks, len(acked.Appends), acked.Next)
	}
	if testing.Short() {
		f(4, 0)
		f(2, time.Second)
		return
	}
	f(20, 0)
	f(8, time.Second)
}

// seedOf returns the seed of a random test, which a variable of the environment may set.
func seedOf(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("WEIR_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		must(t, err)
	}
	t.Logf("WEIR_SEED=%d", seed)
	return seed
}

// crashOptions make files rotate and segments end often.
func crashOptions(ttl time.Duration) state.Options {
	o := small()
	o.LockWait = 0
	if ttl > 0 {
		o = state.WithClock(o, time.Now, 256<<10)
		o.JournalTTL = ttl
	}
	return o
}

// runAndKill starts the writing process and kills it after a random number of its
// messages, the first of which comes before it opens the state.
func runAndKill(t testing.TB, rnd *rand.Rand, dir string, ttl time.Duration, acked *acked) {
	t.Helper()
	cmd, out := helper(t, "crash", dir, "TTL="+ttl.String())
	left := 1
	if rnd.IntN(5) > 0 {
		left = 1 + rnd.IntN(300)
	}
	for {
		line, err := out.ReadString('\n')
		if err != nil { // killed, or ended by itself; a line that was cut counts for nothing
			break
		}
		must(t, acked.take(line))
		if left--; left == 0 {
			must(t, cmd.Process.Kill())
		}
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the process ended by itself: %v", err)
	}
}

// acked is what the killed processes acknowledged as durable.
type acked struct {
	Appends []toldAppend
	Next    int64
}

type toldAppend struct {
	Log          string
	First, Count int64
	Tag          string
	At           events.Stamp
}

func newAcked() *acked { return &acked{Next: -1} }

func (d *acked) take(line string) error {
	var a toldAppend
	var next int64
	switch {
	case line == "start\n":
		return nil
	case strings.HasPrefix(line, "append "):
		_, err := fmt.Sscanf(line, "append %s %d %d %s %d", &a.Log, &a.First, &a.Count, &a.Tag, &a.At)
		d.Appends = append(d.Appends, a)
		return err
	case strings.HasPrefix(line, "commit "):
		_, err := fmt.Sscanf(line, "commit %d", &next)
		d.Next = max(d.Next, next)
		return err
	}
	return errors.New(line)
}

// What check finds wrong.
var (
	errLost  = errors.New("lost")  // something durable is missing from the end
	errWrong = errors.New("wrong") // what is there was never so
)

// check opens the state and compares it with what was acknowledged.
func (d *acked) check(dir string, o state.Options) error {
	s, err := state.Open(dir, o)
	if err != nil {
		return err
	}
	return errors.Join(d.compare(s, o.JournalTTL), s.Close())
}

func (d *acked) compare(s *state.Store, ttl time.Duration) error {
	logs := map[string]map[int64]string{}
	for name, l := range map[string]*state.Log{"journal": s.Journal(0), "verdicts": s.Verdicts(0)} {
		values := map[int64]string{}
		for from := int64(0); from < l.End(); {
			entries, err := l.Read(from, 1000, nil)
			var gap *state.GapError
			if errors.As(err, &gap) && ttl > 0 {
				from = gap.To
				continue
			}
			if err != nil {
				return err
			}
			for _, e := range entries {
				values[e.Offset] = tagOf(string(e.Value))
			}
			from = entries[len(entries)-1].Offset + 1
		}
		logs[name] = values
	}
	now := events.StampOf(time.Now()) // what has expired has expired by now
	var lost error
	for _, a := range d.Appends {
		for i := range a.Count {
			got, ok := logs[a.Log][a.First+i]
			want := fmt.Sprint(a.Tag, "/", i)
			switch {
			case ok && got != want:
				return fmt.Errorf("%w: %s %d is %s, not %s", errWrong, a.Log, a.First+i, got, want)
			case !ok && (ttl == 0 || now.Sub(a.At) < ttl):
				lost = fmt.Errorf("%w: %s %d of %s", errLost, a.Log, a.First+i, want)
			}
		}
	}
	cursor, copied, err := s.Cursor("copied")
	if err != nil {
		return err
	}
	if end := s.Journal(1).End(); copied && string(cursor) != fmt.Sprint(end) || !copied && end > 0 {
		return fmt.Errorf("%w: %d entries are copied and the cursor says %q", errWrong, end, cursor)
	}
	m, ok, err := s.Meta(0)
	if err != nil {
		return err
	}
	if !ok {
		m.Next = -1
	}
	if m.Next < d.Next {
		lost = fmt.Errorf("%w: the checkpoint is at %d, acknowledged was %d", errLost, m.Next, d.Next)
	}
	if ok && string(m.State) != fmt.Sprint(m.Next) {
		return fmt.Errorf("%w: the state of checkpoint %d is %s", errWrong, m.Next, m.State)
	}
	want := modelAt(m.Next)
	got := model{}
	for _, sub := range []state.Subject{state.FlowSubject, state.AgentSubject} {
		err = errors.Join(err, s.Records(0, sub, func(key string, value []byte) error {
			got[string(rune(sub))+key] = modelRecord{value: string(value)}
			return nil
		}))
	}
	for _, sub := range []state.Subject{state.FlowSubject, state.AgentSubject} {
		err = errors.Join(err, s.Due(0, sub, 0, "", func(due events.Stamp, key string) bool {
			k := string(rune(sub)) + key
			r, ok := got[k]
			if !ok || r.due != 0 {
				err = errors.Join(err, fmt.Errorf("%w: deadline %d of %s", errWrong, due, k))
			}
			got[k] = modelRecord{value: r.value, due: due}
			return true
		}))
	}
	if err != nil {
		return err
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("%w: %d records at checkpoint %d are not the %d that belong to it", errWrong, len(got), m.Next, len(want))
	}
	return lost
}

func tagOf(value string) string {
	tag, _, _ := strings.Cut(value, " ")
	return tag
}

// model is what the records of a checkpoint have to be.
type model map[string]modelRecord

type modelRecord struct {
	value string
	due   events.Stamp
}

// step makes the records that checkpoint n changes, and changes the model.
func (m model) step(n int64) (out []state.Record) {
	rnd := rand.New(rand.NewPCG(uint64(n), 1))
	for range 1 + rnd.IntN(30) {
		sub := state.FlowSubject
		if rnd.IntN(10) == 0 {
			sub = state.AgentSubject
		}
		key := fmt.Sprint("key ", rnd.IntN(200))
		k := string(rune(sub)) + key
		r := state.Record{Subject: sub, Key: key, OldDue: m[k].due}
		if rnd.IntN(5) == 0 {
			delete(m, k)
		} else {
			r.Value = []byte(fmt.Sprint(n, " ", strings.Repeat("x", rnd.IntN(2000))))
			if rnd.IntN(4) > 0 {
				r.Due = events.Stamp(n + rnd.Int64N(100))
			}
			m[k] = modelRecord{value: string(r.Value), due: r.Due}
		}
		out = append(out, r)
	}
	return out
}

func modelAt(next int64) model {
	m := model{}
	for n := range next + 1 {
		m.step(n)
	}
	return m
}

// writeUntilKilled is the helper that is killed. It says what is durable.
func writeUntilKilled() error {
	out := &lines{out: bufio.NewWriter(os.Stdout)}
	out.print("start")
	ttl, err := time.ParseDuration(os.Getenv("TTL"))
	if err != nil {
		return err
	}
	o := crashOptions(ttl)
	if n, err := strconv.ParseInt(os.Getenv("MEMTABLE"), 10, 64); err == nil {
		o.MemTableSize = n
	}
	s, err := state.Open(os.Getenv("DIR"), o)
	if err != nil {
		return err
	}
	failed := make(chan error)
	go func() {
		l := s.Journal(1)
		for n := l.End() + 1; ; n++ { // as long as one call of AppendFrom makes the log longer by one
			if err := l.AppendFrom([]state.Entry{{Value: []byte("copy")}}, "copied", fmt.Append(nil, n)); err != nil {
				failed <- err
				return
			}
		}
	}()
	appender := func(name string, add func([]state.Entry) (int64, error), worker int) {
		rnd := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(worker)))
		for n := 0; ; n++ {
			a := toldAppend{Log: name, Tag: fmt.Sprintf("%d.%d.%d", os.Getpid(), worker, n), At: events.StampOf(time.Now())}
			entries := make([]state.Entry, 1+rnd.IntN(10))
			for i := range entries {
				entries[i] = state.Entry{Appended: a.At, Value: []byte(fmt.Sprint(a.Tag, "/", i, " ", strings.Repeat("y", rnd.IntN(3000))))}
			}
			first, err := add(entries)
			if err != nil {
				failed <- err
				return
			}
			out.print("append", a.Log, first, len(entries), a.Tag, int64(a.At))
		}
	}
	// The end of the process takes nothing of what the system has either.
	for w, add := range []func([]state.Entry) (int64, error){s.Journal(0).Append, s.Journal(0).AppendUnsynced, s.Journal(0).AppendUnsynced} {
		go appender("journal", add, w)
	}
	go appender("verdicts", s.Verdicts(0).Append, 3)
	go func() {
		m, ok, err := s.Meta(0)
		if !ok {
			m.Next = -1
		}
		records := modelAt(m.Next)
		for n := m.Next + 1; err == nil; n++ {
			err = s.Commit(&state.Checkpoint{Next: n, State: []byte(fmt.Sprint(n)), Records: records.step(n)})
			if err == nil {
				out.print("commit", n)
			}
		}
		failed <- err
	}()
	return <-failed
}

// lines prints whole lines from several goroutines.
type lines struct {
	mu  sync.Mutex
	out *bufio.Writer
}

func (l *lines) print(words ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(l.out, words...)
	l.out.Flush()
}
