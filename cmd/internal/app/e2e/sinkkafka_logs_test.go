package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/events"
	eventkafka "weir/events/kafka"
	sinkkafka "weir/sink/kafka"
)

func emitted(ids ...int) []events.Emitted {
	out := make([]events.Emitted, len(ids))
	for i, id := range ids {
		out[i] = events.Emitted{
			Verdict: events.Verdict{SchemaVersion: 1, ID: fmt.Sprintf("v%d", id), Action: "deny", Scope: events.Scope{Kind: "flow", ID: fmt.Sprintf("f%d", id%3)}},
			Offset:  int64(id * 10),
		}
	}
	return out
}

func headersOf(r *kgo.Record) map[string]string {
	out := make(map[string]string)
	for _, h := range r.Headers {
		out[h.Key] = string(h.Value)
	}
	return out
}

// TestSinkVerdicts holds what a record of a verdict is, and what the next owner finds.
func TestSinkVerdicts(t *testing.T) {
	b := startBroker(t)
	topic, group := b.topic(t, 1), unique(t)
	at := time.Now().Truncate(time.Millisecond)
	open := func() *sinkkafka.Verdicts {
		return sinkkafka.NewVerdicts(openProducer(t, b, group, topic, 0), func() time.Time { return at })
	}
	since := func(v *sinkkafka.Verdicts, from, wantEnd int64, want ...string) {
		t.Helper()
		got := []string{}
		end, err := v.Since(t.Context(), from, func(id string, trigger int64) { got = append(got, fmt.Sprint(id, "@", trigger)) })
		if err != nil || end != wantEnd || !slices.Equal(got, want) {
			t.Errorf("since %d: %q up to %d, %v; want %q up to %d", from, got, end, err, want, wantEnd)
		}
	}
	first := open()
	since(first, 0, 1)
	if end, err := first.Emit(t.Context(), emitted(1, 2)); err != nil || end != 3 {
		t.Fatal(end, err)
	}
	if end, err := first.Emit(t.Context(), nil); err != nil || end != 3 {
		t.Fatal(end, err)
	}
	if end, err := first.Emit(t.Context(), emitted(3)); err != nil || end != 4 {
		t.Fatal(end, err)
	}
	// What is no verdict is left out: there are no others, but who knows.
	if _, err := sinkkafka.AppendTo(t.Context(), b.cluster(t), topic, 0, messages("no verdict")); err != nil {
		t.Fatal(err)
	}
	second := open()
	since(second, 0, 6, "v1@10", "v2@20", "v3@30")
	since(second, 2, 6, "v2@20", "v3@30")
	since(second, 4, 6)
	since(second, 5, 6)
	if _, err := second.Since(t.Context(), 99, nil); err == nil {
		t.Error("a position behind the end is accepted")
	} else if _, ok := errors.AsType[*eventkafka.BeyondEndError](err); !ok {
		t.Error(err)
	}
	if _, err := first.Emit(t.Context(), emitted(4)); !errors.Is(err, sinkkafka.ErrFenced) {
		t.Error(err)
	}
	if end, err := second.Emit(t.Context(), emitted(5)); err != nil || end != 7 {
		t.Fatal(end, err)
	}
	r := b.records(t, topic, 0)[2]
	var v events.Verdict
	if err := events.DecodeVerdict(r.Value, &v); err != nil || v.ID != "v2" {
		t.Error(v, err)
	}
	if string(r.Key) != "flow:f2" || !r.Timestamp.Equal(at) || headersOf(r)["weir-trigger"] != "20" {
		t.Errorf("key %q, time %v, headers %v", r.Key, r.Timestamp, headersOf(r))
	}

	// What has expired is left out.
	expire(t, b, topic, 3)
	since(open(), 0, 8, "v3@30", "v5@50")
}

// expire makes the first partition of a topic begin at an offset.
func expire(t testing.TB, b *broker, topic string, offset int64) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 10_000
	one := kmsg.NewDeleteRecordsRequestTopic()
	one.Topic = topic
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Offset = offset
	one.Partitions = append(one.Partitions, part)
	req.Topics = append(req.Topics, one)
	res, err := req.RequestWith(t.Context(), c)
	if err == nil && res.Topics[0].Partitions[0].ErrorCode != 0 {
		err = kafkago.Error(res.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestSinkVerdictsAgain holds that Emit called again with the same verdicts writes none
// twice, though their records get a new time.
func TestSinkVerdictsAgain(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		p, w, topic := tappedProducer(t, b)
		v := sinkkafka.NewVerdicts(p, time.Now)
		var want []string
		for n, next := 0, 0; n < 5; n++ {
			ids := make([]int, 1+rnd.IntN(2000))
			for i := range ids {
				ids[i] = next
				want = append(want, fmt.Sprintf("v%d", next))
				next++
			}
			end := int64(len(want) + 1)
			for {
				ctx, cancel := context.WithCancel(t.Context())
				breakAt, before := rnd.IntN(4), rnd.IntN(2) == 0
				w.onProduce(func(n int, send func() error) error {
					if n == breakAt && before {
						cancel()
						return io.ErrClosedPipe
					}
					return send()
				}, func(n int, _ []byte) error {
					if n == breakAt && !before {
						cancel()
						return io.ErrUnexpectedEOF
					}
					return nil
				})
				got, err := v.Emit(ctx, emitted(ids...))
				cancel()
				if err == nil {
					if got != end {
						t.Fatalf("the log ends at %d, want %d", got, end)
					}
					break
				}
			}
		}
		var got []string
		for _, r := range b.records(t, topic, 0)[1:] {
			var v events.Verdict
			if err := events.DecodeVerdict(r.Value, &v); err != nil {
				t.Fatal(err)
			}
			got = append(got, v.ID)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d verdicts, want %d", len(got), len(want))
		}
	}
}

func TestSinkDeadLetters(t *testing.T) {
	b := startBroker(t)
	topic, group := b.topic(t, 4, "max.message.bytes=100000"), unique(t)
	now := time.Now().Truncate(time.Millisecond)
	open := func(source string) *sinkkafka.DeadLetters {
		return sinkkafka.NewDeadLetters(openProducer(t, b, group+source, topic, 3), source, 3, func() time.Time { return now })
	}
	first := open("a")
	huge := make([]byte, 1<<20)
	deadLetters := []sinkkafka.DeadLetter{
		{Position: 7, Code: "bad_json", Reason: "it ends\nin the middle", Appended: 5, Key: []byte("k"), Raw: []byte("{")},
		{Position: 8, Code: "too_large", Reason: "it is too large", Raw: huge},
		{Position: 9, Code: "bad_json", Reason: "there is nothing", Raw: []byte{}},
	}
	if end, err := first.Publish(t.Context(), deadLetters); err != nil || end != 4 {
		t.Fatal(end, err)
	}
	if _, err := open("b").Publish(t.Context(), []sinkkafka.DeadLetter{{Position: 1, Code: "c", Reason: "r", Raw: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	var got []int64
	if end, err := open("a").Since(t.Context(), 0, func(p int64) { got = append(got, p) }); err != nil || end != 7 || !slices.Equal(got, []int64{7, 8, 9}) {
		t.Errorf("%v up to %d, %v", got, end, err)
	}
	records := b.records(t, topic, 3)
	want := map[string]string{"weir-error": "bad_json", "weir-reason": "it ends\nin the middle", "weir-source-topic": "a", "weir-source-partition": "3", "weir-source-offset": "7", "weir-source-time": "5"}
	r := records[1]
	for k, v := range want {
		if headersOf(r)[k] != v {
			t.Errorf("header %s is %q, want %q", k, headersOf(r)[k], v)
		}
	}
	if string(r.Key) != "k" || string(r.Value) != "{" || !r.Timestamp.Equal(now) {
		t.Errorf("%q %q %v", r.Key, r.Value, r.Timestamp)
	}
	if cut := records[2]; headersOf(cut)["weir-source-size"] != fmt.Sprint(len(huge)) || len(cut.Value) < 10_000 {
		t.Errorf("of a letter that is too large %d bytes are left, %v", len(cut.Value), headersOf(cut))
	}

	// Others publish without owning the partition.
	if err := sinkkafka.PublishDeadLetters(t.Context(), b.cluster(t), topic, 2, "raw", 11, deadLetters, time.Now); err != nil {
		t.Fatal(err)
	}
	var positions []string
	for _, r := range b.records(t, topic, 2) {
		h := headersOf(r)
		positions = append(positions, h["weir-source-topic"]+" "+h["weir-source-partition"]+" "+h["weir-source-offset"])
	}
	if !slices.Equal(positions, []string{"raw 11 7", "raw 11 8", "raw 11 9"}) {
		t.Errorf("published by others: %q", positions)
	}
}

// TestSinkActivity lets two members send the same sequence, one from an earlier point on,
// with answers that are lost, and reads what is left of it without repeats.
func TestSinkActivity(t *testing.T) {
	b := startBroker(t)
	const partitions, sources = 3, 2
	topic := b.topic(t, partitions)
	var records [sources][]sinkkafka.ActivityRecord
	for s := range records {
		for i := range 300 {
			records[s] = append(records[s], sinkkafka.ActivityRecord{Key: fmt.Sprintf("agent-%d", i*7%11), Value: []byte(fmt.Sprintf("%d %d", s, i)), Source: sinkkafka.Position{Partition: s, Offset: int64(i / 3), Part: i % 3}})
		}
	}
	rnd := rand.New(rand.NewPCG(2, 2))
	c := b.cluster(t)
	w := tap(c)
	w.onProduce(nil, func(n int, _ []byte) error {
		if n%5 == 4 {
			return io.ErrUnexpectedEOF
		}
		return nil
	})
	one, two := sinkkafka.NewActivityTopic(c, topic, partitions).Sender(), sinkkafka.NewActivityTopic(b.cluster(t), topic, partitions).Sender()
	send := func(a *sinkkafka.Activity, records []sinkkafka.ActivityRecord) {
		t.Helper()
		for len(records) > 0 {
			n := min(len(records), 1+rnd.IntN(60))
			if err := a.Send(t.Context(), records[:n]); err != nil {
				t.Fatal(err)
			}
			records = records[n:]
		}
	}
	send(one, records[0][:200])
	send(two, records[1][:100])
	send(two, records[0][150:250]) // takes over, a little before
	send(one, records[0][200:220]) // and the old one goes on for a while
	send(two, records[0][250:])
	send(one, records[1][90:])

	byAgent := kafkago.Murmur2Balancer{Consistent: true}
	var got [sources][]string
	for p := range int32(partitions) {
		taken := positions{}
		for _, r := range b.records(t, topic, p) {
			if want := byAgent.Balance(kafkago.Message{Key: r.Key}, 0, 1, 2); want != int(p) {
				t.Errorf("agent %s is in partition %d, want %d", r.Key, p, want)
			}
			var headers []kafkago.Header
			for _, h := range r.Headers {
				headers = append(headers, kafkago.Header{Key: h.Key, Value: h.Value})
			}
			from, err := sinkkafka.PositionOf(headers)
			if err != nil {
				t.Fatal(err)
			}
			if taken.take(from) {
				got[from.Partition] = append(got[from.Partition], string(r.Value))
			}
		}
	}
	for s := range got {
		if len(got[s]) != len(records[s]) {
			t.Errorf("source %d: %d records taken, %d sent", s, len(got[s]), len(records[s]))
		}
		slices.Sort(got[s])
		if n := len(slices.Compact(got[s])); n != len(records[s]) {
			t.Errorf("source %d: %d different records taken", s, n)
		}
	}
}

// positions are the last of each source partition that were seen.
type positions map[int]sinkkafka.Position

// take reports whether a record is behind all of its source that were seen.
func (s positions) take(p sinkkafka.Position) bool {
	last, ok := s[p.Partition]
	if ok && cmp.Or(cmp.Compare(p.Offset, last.Offset), cmp.Compare(p.Part, last.Part)) <= 0 {
		return false
	}
	s[p.Partition] = p
	return true
}

// TestSinkActivityForAll holds that a record without a key is in every partition, in its
// place among the others.
func TestSinkActivityForAll(t *testing.T) {
	b := startBroker(t)
	topic := b.topic(t, 3)
	a := sinkkafka.NewActivityTopic(b.cluster(t), topic, 3).Sender()
	at := func(n int) sinkkafka.Position { return sinkkafka.Position{Partition: 1, Offset: 7, Part: n} }
	err := a.Send(t.Context(), []sinkkafka.ActivityRecord{{Key: "agent:b", Value: []byte("before"), Source: at(0)}, {Value: []byte("all"), Source: at(1)},
		{Key: "agent:b", Value: []byte("after"), Source: at(2)}})
	if err != nil {
		t.Fatal(err)
	}
	own := kafkago.Murmur2Balancer{Consistent: true}.Balance(kafkago.Message{Key: []byte("agent:b")}, 0, 1, 2)
	for p := range int32(3) {
		if int(p) == own {
			wantValues(t, b.records(t, topic, p), "before", "all", "after")
		} else {
			wantValues(t, b.records(t, topic, p), "all")
		}
	}
}

// TestSinkActivityTogether holds that sources of one process, whose records share batches,
// each keep their order and lose nothing, also when writes fail and one source gives up, and
// when batches wait for each other now and then.
func TestSinkActivityTogether(t *testing.T) {
	t.Parallel()
	t.Run("at once", func(t *testing.T) { sendTogether(t, nil) })
	asked := new(atomic.Int64)
	t.Run("gathered", func(t *testing.T) { sendTogether(t, func() bool { return asked.Add(1)%3 != 0 }) })
	if asked.Load() == 0 {
		t.Error("nobody was asked whether to wait")
	}
}

func sendTogether(t *testing.T, gather func() bool) {
	const sources, sends = 8, 30
	b := startBroker(t)
	topic := b.topic(t, 2)
	c := b.cluster(t)
	tap(c).onProduce(nil, func(n int, _ []byte) error {
		if n%7 == 6 {
			return io.ErrUnexpectedEOF
		}
		return nil
	})
	shared := sinkkafka.NewActivityTopic(c, topic, 2)
	shared.Gather = gather
	defer shared.Close()
	var group sync.WaitGroup
	for source := range sources {
		group.Go(func() {
			a := shared.Sender()
			for n := range sends {
				records := []sinkkafka.ActivityRecord{{Key: fmt.Sprint("agent:", n%3), Value: fmt.Appendf(nil, "%d of %d", n, source), Source: sinkkafka.Position{Partition: source, Offset: int64(n)}},
					{Value: []byte("all"), Source: sinkkafka.Position{Partition: source, Offset: int64(n), Part: 1}}}
				if n == source {
					over, cancel := context.WithCancel(t.Context())
					cancel()
					if err := a.Send(over, records); err != nil && !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				}
				if err := a.Send(t.Context(), records); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	keyed := 0
	for p := range int32(2) {
		taken, all := positions{}, 0
		for _, r := range b.records(t, topic, p) {
			var headers []kafkago.Header
			for _, h := range r.Headers {
				headers = append(headers, kafkago.Header{Key: h.Key, Value: h.Value})
			}
			from, err := sinkkafka.PositionOf(headers)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case !taken.take(from):
			case len(r.Key) == 0:
				all++
			default:
				keyed++
				if want := fmt.Sprintf("%d of %d", from.Offset, from.Partition); string(r.Value) != want {
					t.Errorf("%+v says %q, want %q", from, r.Value, want)
				}
			}
		}
		if all != sources*sends {
			t.Errorf("partition %d was told %d times, want %d", p, all, sources*sends)
		}
	}
	if keyed != sources*sends {
		t.Errorf("%d records of agents, want %d", keyed, sources*sends)
	}
}

func TestSinkAppendTo(t *testing.T) {
	b := startBroker(t)
	topic := b.topic(t, 2)
	c := b.cluster(t)
	for i, want := range []int64{0, 2, 4} {
		if at, err := sinkkafka.AppendTo(t.Context(), c, topic, 1, messages(fmt.Sprint(i), "x")); err != nil || at != want {
			t.Errorf("appended at %d, %v", at, err)
		}
	}
	wantValues(t, b.records(t, topic, 1), "0", "x", "1", "x", "2", "x")

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := sinkkafka.AppendTo(ctx, c, topic+"-none", 0, messages("x"))
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "topic "+topic+"-none") {
		t.Errorf("a topic that is not there: %v", err)
	}
}
