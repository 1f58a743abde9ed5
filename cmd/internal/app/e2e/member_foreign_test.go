package e2e

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"weir/analyzer/limitfile"
	"weir/cmd/internal/pump"
	"weir/events"
)

// transaction commits one record, behind which a mark stands.
func (b *broker) transaction(t *testing.T, r *kgo.Record) {
	t.Helper()
	c := b.franz(t, kgo.TransactionalID(r.Topic))
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := c.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := c.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
}

func (b *broker) send(t *testing.T, records ...*kgo.Record) {
	t.Helper()
	c := b.franz(t, kgo.ProducerBatchCompression(kgo.GzipCompression()), kgo.ProducerBatchMaxBytes(64<<20), kgo.BrokerMaxReadBytes(1<<30), kgo.BrokerMaxWriteBytes(1<<30))
	if err := c.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// A member without a state begins in a partition that ends with what nobody is given.
func TestMemberBehindMarks(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]func(g *members){
		"mark": func(g *members) {
			g.b.transaction(t, &kgo.Record{Topic: g.topics.Events, Key: []byte("k"), Value: []byte("no event")})
		},
		"bomb": func(g *members) { g.b.send(t, &kgo.Record{Topic: g.topics.Events, Value: make([]byte, 33<<20)}) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, startBroker(t), 1)
			g.produce(loops("f", 5, 14)...)
			last(g)
			m := g.start(g.options(t.TempDir()))
			g.folded(m)
			m.stop()
			g.check(limitfile.Default())
		})
	}
}

// What strangers write among the verdicts is shown to nobody, and keeps nobody from those of weir.
func TestMemberForeignVerdicts(t *testing.T) {
	g := newGroup(t, startBroker(t), 1)
	m := g.start(g.options(t.TempDir()))
	g.produce(loops("f", 5, 14)...)
	g.folded(m)
	forged := []kgo.RecordHeader{{Key: "weir-trigger", Value: []byte("5")}}
	for p := range int32(2) { // of the flow stage and of the agent stage
		for _, r := range []*kgo.Record{
			{Value: []byte("no verdict")}, {Value: []byte("{}")}, {Value: make([]byte, 33<<20)},
			{Value: []byte("{}\n\ndata: {}"), Headers: forged}, {Value: make([]byte, 10<<20), Headers: forged}, {Value: []byte(`"f-1"`), Headers: forged},
		} {
			r.Topic, r.Partition = g.topics.Verdicts, p
			g.b.send(t, r)
		}
	}
	g.produce(loops("g", 5, 14)...)
	g.folded(m)
	for _, flow := range []string{"f-1", "g-4"} {
		g.until("the verdicts of a flow are shown", func() bool {
			status, body := m.get("/v1/verdicts?flow=" + flow)
			return status == http.StatusOK && strings.Contains(body, `"correlation_id":"`+flow+`"`)
		})
	}
	g.until("it is ready", func() bool {
		status, _ := m.get("/readyz")
		return status == http.StatusOK
	})
	_, body := m.get("/v1/verdicts")
	strange := 0
	for line := range strings.Lines(body) {
		var v events.Verdict
		if events.DecodeVerdict([]byte(line), &v) != nil {
			strange++
		}
	}
	if strange != 2 || strings.Count(body, `"f-1"`+"\n") != 2 {
		t.Errorf("%d lines are no verdicts, want 2, which say that they are weir's", strange)
	}
}

// What strangers write among the activity becomes dead letters, and leaves a state that is read
// again.
func TestMemberForeignActivity(t *testing.T) {
	g := newGroup(t, startBroker(t), 1)
	o := g.options(t.TempDir())
	m := g.start(o)
	g.produce(loops("f", 5, 14)...)
	g.folded(m)
	position := func(partition, offset, part string) []kgo.RecordHeader {
		return []kgo.RecordHeader{{Key: "weir-partition", Value: []byte(partition)}, {Key: "weir-offset", Value: []byte(offset)}, {Key: "weir-part", Value: []byte(part)}}
	}
	for _, r := range []*kgo.Record{{}, {Value: []byte("x")}, {Key: []byte("k"), Value: []byte("{}")}, {Value: make([]byte, 33<<20)},
		{Value: []byte("{}"), Headers: position("0", "x", "0")}, {Value: []byte("{}"), Headers: position("7", "7", "7")},
		{Key: []byte("k"), Value: pump.TickRecord(testStart), Headers: position("0", "9223372036854775807", "0")},
	} {
		r.Topic = g.topics.Activity
		g.b.send(t, r)
	}
	g.b.transaction(t, &kgo.Record{Topic: g.topics.Activity, Value: []byte("x")})
	g.produce(loops("g", 5, 14)...)
	g.folded(m)
	m.stop()
	for _, dir := range []string{o.StateDir, t.TempDir()} {
		m = g.start(g.options(dir))
		g.folded(m)
		m.stop()
	}
	if n := g.deadLetters(); n != 10+6 { // and two without a value
		t.Errorf("%d dead letters", n)
	}
}

// Records of any form and time in the topic of events are folded or counted, those behind them
// are folded, and folding all of it again gives the same verdicts.
func TestMemberHostileRecords(t *testing.T) {
	t.Parallel()
	g := newGroup(t, startFake(t), 1) // other brokers refuse some of the times
	m := g.start(g.options(t.TempDir()))
	g.produce(loops("f", 5, 14)...)
	g.folded(m)
	event := func(id string) []byte {
		ev := events.Event{ID: id, Source: "s", Time: events.StampOf(time.Now()), Kind: events.AgentCall, CorrelationID: "odd-" + id, From: events.Party{Agent: "a"}, To: events.Party{Agent: "b"}}
		return ev.AppendJSON(nil)
	}
	for i, r := range []*kgo.Record{
		{}, {Key: []byte{}, Value: []byte{}}, {Key: []byte("k")}, {Value: []byte("{}")}, {Value: []byte("null")},
		{Value: event("headers"), Headers: make([]kgo.RecordHeader, 100_000)},
		{Value: event("key"), Key: make([]byte, 900<<10)},
		{Value: event("header"), Headers: []kgo.RecordHeader{{Key: strings.Repeat("k", 100<<10), Value: make([]byte, 800<<10)}}},
		{Value: event("past"), Timestamp: time.UnixMilli(1)},
		{Value: event("before 1970"), Timestamp: time.UnixMilli(-5)},
		{Value: event("least"), Timestamp: time.UnixMilli(math.MinInt64 / 2)},
		{Value: event("day ahead"), Timestamp: time.Now().Add(24 * time.Hour)},
		{Value: event("year 9999"), Timestamp: time.UnixMilli(253402300799999)},
		{Value: event("last"), Timestamp: time.UnixMilli(math.MaxInt64 / 1000)},
		{Value: make([]byte, 33<<20)},
	} {
		r.Topic = g.topics.Events
		g.b.send(t, r)
		if i%5 == 0 { // in several batches
			g.folded(m)
		}
	}
	g.produce(loops("g", 5, 14)...)
	g.folded(m)
	sum := m.Counts().Sum()
	if n := sum.DeadLetters(); n[events.CodeUnreadable] != 1 || n[events.CodeSyntax] != 3 || n[events.CodeMissingField] != 1 || n[events.CodeWrongType] != 11 {
		t.Errorf("dead letters: %v", n)
	}
	m.stop()
	g.check(limitfile.Default())
	m = g.start(g.options(t.TempDir()))
	g.folded(m)
	m.stop()
	g.check(limitfile.Default())
}
