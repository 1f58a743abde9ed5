package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/cmd/internal/app"
	"weir/cmd/internal/group"
	"weir/cmd/internal/pump"
	"weir/cmd/weirtest"
	"weir/events"
	"weir/events/kafka"
)

// members is the topics and the members of one test.
type members struct {
	t          *testing.T
	b          *broker
	cluster    *kafka.Cluster
	name       string
	topics     group.Topics
	partitions int
}

func newGroup(t *testing.T, b *broker, partitions int, settings ...string) *members {
	g := &members{t: t, b: b, cluster: &kafka.Cluster{Brokers: []string{b.Addr}}, name: unique(t), partitions: partitions}
	t.Cleanup(g.cluster.Close)
	g.topics = group.Topics{Events: g.name + ".events", Verdicts: g.name + ".verdicts", Activity: g.name + ".activity", DeadLetters: g.name + ".dead", Orders: g.name + ".orders"}
	for _, topic := range []string{g.topics.Events, g.topics.Activity} {
		b.createTopic(t, topic, partitions, settings...)
	}
	for _, topic := range []string{g.topics.Verdicts, g.topics.DeadLetters} {
		b.createTopic(t, topic, 2*partitions, settings...)
	}
	return g
}

// running is a member.
type running struct {
	*app.App
	t   *testing.T
	log *buffer
}

// buffer is a log that is read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// options are those of a member with the state in dir.
func (g *members) options(dir string) app.Options {
	return app.Options{Listen: "127.0.0.1:0", StateDir: dir, Tick: time.Hour, CheckpointEvery: 50 * time.Millisecond,
		Kafka: &group.Options{Cluster: g.cluster, Group: g.name, Topics: g.topics}}
}

// start starts a member, or returns why it does not start.
func (g *members) try(o app.Options) (*running, error) {
	r := &running{t: g.t, log: new(buffer)}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(r.log, nil))
	}
	o.State.MemTableSize = 8 << 20
	a, err := app.New(o)
	if err != nil {
		return nil, err
	}
	if err := a.Start(g.t.Context()); err != nil {
		return nil, err
	}
	r.App = a
	g.t.Cleanup(func() {
		if g.t.Failed() {
			g.t.Logf("log of a member:\n%s", r.log)
		}
		r.stop()
	})
	return r, nil
}

func (g *members) start(o app.Options) *running {
	g.t.Helper()
	r, err := g.try(o)
	if err != nil {
		g.t.Fatal(err)
	}
	return r
}

// stop may be called twice.
func (r *running) stop() {
	if r.App == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := r.Stop(ctx); err != nil {
		r.t.Error(err)
	}
	r.App = nil
}

// until waits for a condition.
func (g *members) until(what string, holds func() bool) {
	g.t.Helper()
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			g.t.Fatalf("it does not come to it that %s", what)
		}
	}
}

// get asks a member.
func (r *running) get(path string) (status int, body string) {
	r.t.Helper()
	res, err := http.Get("http://" + r.Addr() + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// folded waits until the members together have folded everything, of both stages.
func (g *members) folded(members ...*running) {
	g.t.Helper()
	group, err := kafka.NewGroup(kafka.GroupOptions{Cluster: g.cluster, Group: g.name, Topic: g.topics.Events})
	if err != nil {
		g.t.Fatal(err)
	}
	// Ticks go on meanwhile, so the ends are those of now. What is committed has passed on its activity.
	ends := g.ends(g.topics.Events)
	g.until("all events are folded", func() bool {
		committed, err := group.Committed(g.t.Context())
		return err == nil && reachedAll(ends, 0, committed)
	})
	ends = g.ends(g.topics.Activity)
	g.until("all activity is folded", func() bool {
		next := map[int]int64{}
		for _, m := range members {
			for _, p := range m.AgentPlaces() {
				next[p.Partition] = p.Next
			}
		}
		return reachedAll(ends, g.partitions, next)
	})
}

// ends returns the ends of the partitions of a topic.
func (g *members) ends(topic string) (list []int64) {
	g.t.Helper()
	for n := range g.partitions {
		_, end, err := g.cluster.Bounds(g.t.Context(), topic, n)
		if err != nil {
			g.t.Fatal(err)
		}
		list = append(list, end)
	}
	return list
}

// reachedAll reports whether the places, numbered from first on, have come to the ends.
func reachedAll(ends []int64, first int, places map[int]int64) bool {
	for n, end := range ends {
		if places[first+n] < end {
			return false
		}
	}
	return true
}

// produce puts values into the topic of events, keyed as producers do.
func (g *members) produce(keyed ...kafkago.Message) {
	g.t.Helper()
	w := &kafkago.Writer{Addr: kafkago.TCP(g.b.Addr), Topic: g.topics.Events, Balancer: kafkago.Murmur2Balancer{Consistent: true},
		RequiredAcks: kafkago.RequireAll, BatchTimeout: time.Millisecond, MaxAttempts: 30, Transport: g.b.transport}
	defer w.Close()
	if err := w.WriteMessages(g.t.Context(), keyed...); err != nil {
		g.t.Fatal(err)
	}
}

const testStart = events.Stamp(1_795_000_000_000)

// loops are flows in which two agents call each other without doing anything, with a
// record that cannot be read at the end of each.
func loops(name string, flows, calls int) (out []kafkago.Message) {
	return loopsSince(testStart, name, flows, calls)
}

// loopsSince are loops that begin at a time.
func loopsSince(at events.Stamp, name string, flows, calls int) (out []kafkago.Message) {
	for i := range calls {
		for f := range flows {
			ev := events.Event{ID: fmt.Sprintf("%s-%d-%d", name, f, i), Source: "test", Time: at.Add(time.Duration(i)*3*time.Second + time.Duration(f)),
				Kind: events.AgentCall, CorrelationID: fmt.Sprintf("%s-%d", name, f), From: events.Party{Agent: "a"}, To: events.Party{Agent: "b"}, HadWork: events.No}
			if i%2 == 1 {
				ev.From, ev.To = ev.To, ev.From
			}
			out = append(out, kafkago.Message{Key: []byte(ev.CorrelationID), Value: ev.AppendJSON(nil)})
		}
	}
	for f := range flows {
		out = append(out, kafkago.Message{Key: fmt.Appendf(nil, "%s-%d", name, f), Value: []byte("not an event")})
	}
	return out
}

// records returns everything of a topic that has a value and marks no owner, by partition.
func (g *members) records(topic string) [][]kafka.Record {
	g.t.Helper()
	partitions, err := g.cluster.Partitions(g.t.Context(), topic)
	if err != nil {
		g.t.Fatal(err)
	}
	out := make([][]kafka.Record, partitions)
	for n := range out {
		first, end, err := g.cluster.Bounds(g.t.Context(), topic, n)
		if err != nil {
			g.t.Fatal(err)
		}
		r := kafka.NewReader(g.cluster, topic, n, first, kafka.ReaderOptions{})
		for r.Next() < end {
			records, err := r.Fetch(g.t.Context(), nil)
			if next, ok := kafka.Behind(err); ok {
				r.SkipTo(next)
				continue
			}
			if err != nil {
				g.t.Fatal(err)
			}
			for _, x := range records {
				mark := slices.ContainsFunc(x.Headers, func(h kafkago.Header) bool { return h.Key == "weir-mark" })
				if len(x.Value) > 0 && !mark {
					x.Value = slices.Clone(x.Value)
					out[n] = append(out[n], x)
				}
			}
		}
		if err := r.Close(); err != nil {
			g.t.Fatal(err)
		}
	}
	return out
}

// wanted is what the one fold says of the logs as they stand, partition by partition:
// of the flows by the events, and of the agents by the activity.
func (g *members) wanted(limits analyzer.Limits) []string {
	g.t.Helper()
	out := g.wantedOfAgents(limits)
	for n, records := range g.records(g.topics.Events) {
		p, err := pump.New(g.t.Context(), pump.Options{Partition: uint16(n), Limits: limits,
			Parse: func(document []byte) (analyzer.Limits, error) { return limitfile.ParseJSON("limits.set", document) }})
		if err != nil {
			g.t.Fatal(err)
		}
		for i := range records {
			var ev events.Event
			if events.Decode(records[i].Value, &ev) != nil {
				continue
			}
			ev.Appended = records[i].Time
			for _, v := range p.Fold(&ev, records[i].Offset) {
				out = append(out, string(v.AppendJSON(nil)))
			}
		}
	}
	slices.Sort(out)
	return out
}

func (g *members) verdicts() (out []string) {
	g.t.Helper()
	for _, records := range g.records(g.topics.Verdicts) {
		for _, r := range records {
			out = append(out, string(r.Value))
		}
	}
	slices.Sort(out)
	return out
}

// check compares the topic of verdicts with what the one fold says.
func (g *members) check(limits analyzer.Limits) {
	g.t.Helper()
	g.checkAs(func(verdict string) string { return verdict }, limits)
}

// checkAs is check of a part of each verdict; a verdict of which left returns "" is not compared.
func (g *members) checkAs(left func(verdict string) string, limits analyzer.Limits) {
	g.t.Helper()
	want, got := g.wanted(limits), g.verdicts()
	if len(want) == 0 {
		g.t.Fatal("the log is too tame to show anything")
	}
	for _, list := range []*[]string{&want, &got} {
		for i := range *list {
			(*list)[i] = left((*list)[i])
		}
		*list = slices.DeleteFunc(*list, func(v string) bool { return v == "" })
	}
	if slices.Equal(got, want) {
		return
	}
	missing := slices.DeleteFunc(slices.Clone(want), func(v string) bool { return slices.Contains(got, v) })
	wrong := slices.DeleteFunc(slices.Clone(got), func(v string) bool { return slices.Contains(want, v) })
	first := func(s []string) string {
		if len(s) == 0 {
			return "none"
		}
		return s[0]
	}
	g.t.Fatalf("%d verdicts, want %d: %d missing, first %s; %d wrong, first %s", len(got), len(want), len(missing), first(missing), len(wrong), first(wrong))
}

// letters counts the dead letters of the topic of events.
func (g *members) deadLetters() (n int) {
	for _, records := range g.records(g.topics.DeadLetters) {
		n += len(records)
	}
	return n
}

func TestMembers(t *testing.T) {
	t.Parallel()
	g := newGroup(t, startBroker(t), 4)
	g.produce(loops("before", 40, 14)...)
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	one := g.start(g.options(dirs[0]))
	g.folded(one)
	two := g.start(g.options(dirs[1]))
	g.until("both have partitions", func() bool { return len(one.Places()) == 2 && len(two.Places()) == 2 })
	g.produce(loops("both", 40, 14)...)
	g.folded(one, two)
	one.stop()
	g.produce(loops("after", 40, 14)...)
	g.folded(two)
	// Without a state everything is folded again, and nothing is said again.
	two.stop()
	three := g.start(g.options(dirs[2]))
	g.produce(loops("last", 10, 14)...)
	g.folded(three)
	three.stop()
	g.check(limitfile.Default())
	if n := g.deadLetters(); n != 130 {
		t.Errorf("%d dead letters, want 130", n)
	}
}

// A change of limits is in the log, so who folds it again judges each event by the
// limits of its time.
func TestMemberLimits(t *testing.T) {
	t.Parallel()
	g := newGroup(t, startBroker(t), 2)
	file := filepath.Join(t.TempDir(), "limits.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("profile: balanced\n")
	o := g.options(t.TempDir())
	o.LimitsFile = file
	m := g.start(o)
	told := func(times int) {
		t.Helper()
		g.until(fmt.Sprintf("both partitions were told the limits %d times", times), func() bool {
			for _, records := range g.records(g.topics.Events) {
				n := 0
				for _, r := range records {
					if bytes.Contains(r.Value, []byte(`"limits.set"`)) {
						n++
					}
				}
				if n < times {
					return false
				}
			}
			return true
		})
	}
	told(1)
	g.produce(loops("lax", 20, 14)...)
	g.folded(m)
	write("profile: balanced\nrules:\n  max_total_calls: {max: 3}\n")
	if err := m.Reload(); err != nil {
		t.Fatal(err)
	}
	told(2)
	g.folded(m)
	g.produce(loops("strict", 20, 14)...)
	g.folded(m)
	m.stop()
	before := g.verdicts()
	o.StateDir = t.TempDir()
	m = g.start(o)
	g.folded(m)
	m.stop()
	if after := g.verdicts(); !slices.Equal(before, after) {
		t.Errorf("%d verdicts after folding again, %d before", len(after), len(before))
	}
	if !slices.ContainsFunc(before, func(v string) bool { return strings.Contains(v, "max_total_calls") && strings.Contains(v, "strict-") }) ||
		slices.ContainsFunc(before, func(v string) bool { return strings.Contains(v, "max_total_calls") && strings.Contains(v, "lax-") }) {
		t.Error("the limits were not in force from where they stand in the log")
	}
}

// TestMemberGathers holds a backlog until the stage of agents has asked for more at one time, which it
// does no more when the backlog is worked off.
func TestMemberGathers(t *testing.T) {
	b := startFake(t)
	g := newGroup(t, b, 1)
	g.produce(loops("loop", 300, 100)...)
	least := make(chan int32, 10_000) // of requests for activity
	gathered := make(chan struct{})
	once := sync.OnceFunc(func() { close(gathered) })
	b.Fake.ControlKey(1, func(q kmsg.Request) (kmsg.Response, error, bool) {
		b.Fake.KeepControl()
		f := q.(*kmsg.FetchRequest)
		for _, topic := range f.Topics {
			if topic.Topic == g.topics.Activity {
				if least <- f.MinBytes; f.MinBytes > 10_000 {
					once()
				}
			}
		}
		// By then the first records are folded and published, and more than pump.MaxLag are left. The
		// last record is read when a partition is taken over.
		if at := f.Topics[0].Partitions[0].FetchOffset; f.Topics[0].Topic == g.topics.Events && at > 13_000 && at < 20_000 {
			b.Fake.SleepControl(func() {
				select {
				case <-gathered:
				case <-t.Context().Done():
				}
			})
		}
		return nil, nil, false
	})
	m := g.start(g.options(t.TempDir()))
	g.folded(m)
	select {
	case <-gathered:
	default:
		t.Error("activity was never asked for by more than comes")
	}
	for len(least) > 0 {
		<-least
	}
	g.until("activity is asked for as it comes", func() bool {
		select {
		case n := <-least:
			return n == 1
		default:
			return false
		}
	})
	m.stop()
}

// Records that retention has taken are counted and said, and what is left is folded.
func TestMemberGap(t *testing.T) {
	g := newGroup(t, startBroker(t), 1)
	o := g.options(t.TempDir())
	m := g.start(o)
	g.produce(loops("seen", 5, 14)...)
	g.folded(m)
	m.stop()
	g.produce(loops("lost", 5, 14)...)
	_, end, err := g.cluster.Bounds(t.Context(), g.topics.Events, 0)
	if err != nil {
		t.Fatal(err)
	}
	deleteRecords(t, g.b, g.topics.Events, 0, end)
	g.produce(loops("left", 5, 14)...)
	m = g.start(o)
	g.folded(m)
	counted := m.Counts().Sum()
	if !strings.Contains(m.log.String(), "records have expired before they were folded") || counted.DeadLetters()[events.CodeLost] != 1 {
		t.Errorf("a gap is not said: %v", counted.DeadLetters())
	}
	m.stop()
	for _, name := range []string{"seen", "left"} {
		if !slices.ContainsFunc(g.verdicts(), func(v string) bool { return strings.Contains(v, name+"-") }) {
			t.Errorf("no verdict about the flows %s", name)
		}
	}
}

// A topic that was made anew is not the log that the state is of.
func TestMemberOtherTopic(t *testing.T) {
	f := func(why string, anew int) {
		t.Helper()
		g := newGroup(t, startFake(t), 1)
		o := g.options(t.TempDir())
		m := g.start(o)
		g.produce(loops("old", 5, 14)...)
		g.folded(m)
		m.stop()
		deleteTopic(t, g.b, g.topics.Events)
		g.b.createTopic(t, g.topics.Events, 1)
		g.produce(loops("new", anew, 14)...)
		m = g.start(o)
		select {
		case <-m.Done():
		case <-time.After(60 * time.Second):
			t.Fatalf("%s: it goes on", why)
		}
		if err := m.Err(); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %q", err, why)
		}
		m.stop()
	}
	f("was created anew or cut", 1)
	f("is not the one that was folded", 9)
}

func TestMemberPartitions(t *testing.T) {
	g := newGroup(t, startFake(t), 2)
	o := g.options(t.TempDir())
	m := g.start(o)
	g.folded(m)
	m.stop()
	deleteTopic(t, g.b, g.topics.Events)
	g.b.createTopic(t, g.topics.Events, 3)
	if _, err := g.try(o); err == nil || !strings.Contains(err.Error(), g.topics.Verdicts+" has 4 partitions and needs 5: 3 for those of "+g.topics.Events) {
		t.Errorf("too few partitions for verdicts: %v", err)
	}
	for _, topic := range []string{g.topics.Verdicts, g.topics.DeadLetters} {
		deleteTopic(t, g.b, topic)
		g.b.createTopic(t, topic, 5)
	}
	if _, err := g.try(o); err == nil || !strings.Contains(err.Error(), "has 3 partitions, not 2 as before") {
		t.Errorf("other partitions than before: %v", err)
	}
}

// two starts two members that reach each other, and returns when each has two of the four
// partitions and has folded what is there.
func (g *members) two(change ...func(*app.Options)) (members []*running) {
	for range 2 {
		o := g.options(g.t.TempDir())
		// On a busy machine answers and heartbeats are late. That must not look like a lost answer, nor
		// move partitions.
		o.Listen, o.AnswerTimeout = weirtest.Address(g.t), time.Minute
		o.Kafka.Advertise, o.Kafka.SessionTimeout = "http://"+o.Listen, 30*time.Second
		for _, fn := range change {
			fn(&o)
		}
		members = append(members, g.start(o))
	}
	g.until("both have partitions", func() bool { return len(members[0].Places()) == 2 && len(members[1].Places()) == 2 })
	g.folded(members...)
	return members
}

// A check is answered by whoever folds the flow, whichever member is asked.
func TestMemberCheck(t *testing.T) {
	g := newGroup(t, startBroker(t), 4)
	// A check happens now, so the flows are not silent for long before it.
	at := events.StampOf(time.Now().Add(-time.Minute))
	g.produce(loopsSince(at, "f", 8, 14)...)
	members := g.two()
	for f := range 8 {
		for i, m := range members {
			ask := events.Event{ID: fmt.Sprintf("ask-%d-%d", f, i), Source: "test", Time: at.Add(time.Minute), Kind: events.AgentCall, Ask: true,
				CorrelationID: fmt.Sprintf("f-%d", f), From: events.Party{Agent: "a"}, To: events.Party{Agent: "b"}}
			res, err := http.Post("http://"+m.Addr()+"/v1/check", "application/json", bytes.NewReader(ask.AppendJSON(nil)))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			var problem struct {
				Reason string `json:"reason_code"`
			}
			if err := json.Unmarshal(body, &problem); err != nil || res.StatusCode != http.StatusForbidden || problem.Reason == "" {
				t.Errorf("flow %d by member %d: %s %s", f, i, res.Status, body)
			}
		}
	}
	g.folded(members...)
	for _, m := range members {
		g.until("each member shows the verdicts of the whole group", func() bool {
			status, body := m.get("/v1/verdicts")
			return status == http.StatusOK && strings.Count(body, "\n") == len(g.verdicts())
		})
	}
}
