package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/events/kafka"
)

// followers read all partitions of a topic at once, each by a Reader that lets records be taken ahead.
type followers struct {
	*broker
	topic   string
	cluster *kafka.Cluster
	came    chan struct{} // holds a token when something has changed

	mu      sync.Mutex
	random  *rand.Rand
	written []int        // records by partition
	read    []int        // records by partition
	ahead   []int        // so many of them were taken ahead
	shared  map[int]bool // partitions that were asked for together with others, see forget
	wrong   error
}

// aloneWait is how long their Readers wait, each for itself.
const aloneWait = 77 * time.Millisecond

// follow starts one goroutine for each of n partitions, which ends with ctx.
func (b *broker) follow(ctx context.Context, t *testing.T, n int) *followers {
	f := &followers{broker: b, topic: b.topic(t, n), cluster: b.cluster(t), came: make(chan struct{}, 1), random: rand.New(rand.NewPCG(1, 2)),
		written: make([]int, n), read: make([]int, n), ahead: make([]int, n), shared: make(map[int]bool)}
	f.watch()
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	for p := range n {
		all.Go(func() { f.readFrom(ctx, p) })
	}
	return f
}

// watch notes who is asked for together with others.
func (f *followers) watch() {
	f.Fake.ControlKey(1, func(q kmsg.Request) (kmsg.Response, error, bool) {
		f.Fake.KeepControl()
		f.note(q.(*kmsg.FetchRequest))
		return nil, nil, false
	})
}

// together reports whether a request is not one of a Reader for itself.
func together(q *kmsg.FetchRequest) bool { return q.MaxWaitMillis != int32(aloneWait.Milliseconds()) }

func (f *followers) note(q *kmsg.FetchRequest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if together(q) {
		for _, p := range q.Topics[0].Partitions {
			f.shared[int(p.Partition)] = true
		}
		f.tell()
	}
}

func (f *followers) tell() {
	select {
	case f.came <- struct{}{}:
	default:
	}
}

// readFrom reads a partition until ctx ends, now and then by another Reader.
func (f *followers) readFrom(ctx context.Context, partition int) {
	var records []kafka.Record
	for next := int64(0); ctx.Err() == nil; {
		r := kafka.NewReader(f.cluster, f.topic, partition, next, kafka.ReaderOptions{Wait: aloneWait, Ahead: func(records []kafka.Record) (int, bool) {
			n, wait := f.some(len(records))
			f.take(partition, records[:n], true)
			return n, wait
		}})
		for stay := true; stay && ctx.Err() == nil; {
			var err error
			if records, err = r.Fetch(ctx, records); err == nil {
				f.take(partition, records, false)
			} else if ctx.Err() == nil {
				f.fail(fmt.Errorf("partition %d: %w", partition, err))
			}
			f.mu.Lock()
			stay = f.random.IntN(500) > 0
			f.mu.Unlock()
		}
		next = r.Next()
		r.Close()
	}
}

// some is how many of n records are taken ahead, and whether the others are waited for.
func (f *followers) some(n int) (int, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch f.random.IntN(10) {
	case 0:
		return f.random.IntN(n + 1), false
	case 1:
		return n, false
	}
	return n, true
}

// take checks that the records are those that come next.
func (f *followers) take(partition int, records []kafka.Record, ahead bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range records {
		n := f.read[partition]
		if r.Offset != int64(n) || !bytes.HasPrefix(r.Value, fmt.Appendf(nil, "%d of %d ", n, partition)) {
			f.wrong = cmp.Or(f.wrong, fmt.Errorf("partition %d: %d was read, then %d: %.30q", partition, n, r.Offset, r.Value))
			return
		}
		f.read[partition]++
		if ahead {
			f.ahead[partition]++
		}
	}
	f.tell()
}

func (f *followers) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wrong = cmp.Or(f.wrong, err)
	f.tell()
}

// until waits for done, which is called with the followers locked.
func (f *followers) until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for late := time.After(time.Minute); ; {
		f.mu.Lock()
		ok, wrong := done(), f.wrong
		f.mu.Unlock()
		switch {
		case wrong != nil:
			t.Fatal(wrong)
		case ok:
			return
		}
		select {
		case <-f.came:
		case <-late:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// write appends records to partitions by chance, those of one partition in turn.
func (f *followers) write(t *testing.T, c *kgo.Client, n, size int) {
	t.Helper()
	var records []*kgo.Record
	f.mu.Lock()
	for range n {
		p := f.random.IntN(len(f.written))
		records = append(records, &kgo.Record{Topic: f.topic, Partition: int32(p), Value: fmt.Appendf(nil, "%d of %d %s", f.written[p], p, bytes.Repeat([]byte("x"), f.random.IntN(size)))})
		f.written[p]++
	}
	f.mu.Unlock()
	if err := c.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// TestReadersShareFetches lets readers of many partitions be asked for together, and disturbs them:
// each of them gets each record once, in order.
func TestReadersShareFetches(t *testing.T) {
	t.Parallel()
	b := startFake(t, kfake.NumBrokers(3))
	ctx, cancel := context.WithCancel(t.Context())
	f := b.follow(ctx, t, 100) // more than one request asks for
	t.Cleanup(cancel)
	c := b.franz(t, kgo.ProducerLinger(0))
	once := func(fault func(q *kmsg.FetchRequest, a *kmsg.FetchResponse) (kmsg.Response, error, bool)) func() {
		return func() {
			done := false
			b.Fake.ControlKey(1, func(r kmsg.Request) (kmsg.Response, error, bool) {
				q := r.(*kmsg.FetchRequest)
				if f.note(q); done || !together(q) {
					b.Fake.KeepControl()
					return nil, nil, false
				}
				done = true
				return fault(q, q.ResponseKind().(*kmsg.FetchResponse))
			})
		}
	}
	answer := func(code int16, partition int32, damaged bool) func(q *kmsg.FetchRequest, a *kmsg.FetchResponse) (kmsg.Response, error, bool) {
		return func(q *kmsg.FetchRequest, a *kmsg.FetchResponse) (kmsg.Response, error, bool) {
			at := kmsg.NewFetchResponseTopic()
			at.Topic = f.topic
			for _, qp := range q.Topics[0].Partitions {
				p := kmsg.NewFetchResponseTopicPartition()
				p.Partition, p.ErrorCode, p.HighWatermark = qp.Partition+partition, code, qp.FetchOffset
				if damaged {
					batch := kmsg.RecordBatch{FirstOffset: qp.FetchOffset, Length: 49 + 20, Magic: 2, NumRecords: 1, Records: make([]byte, 20)}
					p.RecordBatches, p.HighWatermark = batch.AppendTo(nil), qp.FetchOffset+1
				}
				at.Partitions = append(at.Partitions, p)
			}
			a.Topics = append(a.Topics, at)
			return a, nil, true
		}
	}
	for _, turn := range []struct {
		what    string
		disturb func()
	}{
		{"nothing", func() {}},
		{"leaders move", func() {
			for p := range int32(len(f.written)) {
				if err := b.Fake.MoveTopicPartition(f.topic, p, (p+1)%3); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{"the broker hangs up", once(func(*kmsg.FetchRequest, *kmsg.FetchResponse) (kmsg.Response, error, bool) {
			return nil, errors.New("hang up"), true
		})},
		{"no topic is in the answer", once(func(_ *kmsg.FetchRequest, a *kmsg.FetchResponse) (kmsg.Response, error, bool) { return a, nil, true })},
		{"the answer is an error", once(func(_ *kmsg.FetchRequest, a *kmsg.FetchResponse) (kmsg.Response, error, bool) {
			a.ErrorCode = 71
			return a, nil, true
		})},
		{"the answer is about others", once(answer(0, 1000, false))},
		{"each partition has an error", once(answer(6, 0, false))},
		{"what comes is damaged", once(answer(0, 0, true))},
		{"a backlog comes", func() { f.write(t, c, 3000, 3000) }},
	} {
		f.mu.Lock()
		clear(f.shared)
		f.mu.Unlock()
		f.until(t, "all are asked for together, before "+turn.what, func() bool { return len(f.shared) == len(f.written) })
		turn.disturb()
		for range 20 {
			f.write(t, c, 20, 200)
		}
		f.until(t, "all is read when "+turn.what, func() bool { return slices.Equal(f.read, f.written) })
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for p, n := range f.ahead {
		if n == 0 {
			t.Errorf("nothing of partition %d was taken ahead, of %d records", p, f.read[p])
		}
	}
}
