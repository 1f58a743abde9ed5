package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/events/kafka"
)

// franz is another client, to produce and to administrate.
func (b *broker) franz(t testing.TB, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Addr), kgo.RecordPartitioner(kgo.ManualPartitioner())}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// fill appends n records to partition 0, each one told by its number.
func (b *broker) fill(t testing.TB, topic string, n int, options ...kgo.Opt) {
	t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "key-%d", i), Value: fmt.Appendf(nil, "value-%d-%s", i, bytes.Repeat([]byte("abc"), i%50))}
	}
	if err := b.franz(t, options...).ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func (b *broker) reader(t testing.TB, topic string, from int64, o kafka.ReaderOptions) *kafka.Reader {
	o.Wait = max(o.Wait, 20*time.Millisecond)
	r := kafka.NewReader(b.cluster(t), topic, 0, from, o)
	t.Cleanup(func() { r.Close() })
	return r
}

// read fetches until there are n records, or an error. The records are copies.
func read(t testing.TB, r *kafka.Reader, n int) (got []kafka.Record, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var batch []kafka.Record
	for len(got) < n {
		if batch, err = r.Fetch(ctx, batch); err != nil {
			return got, err
		}
		for _, m := range batch {
			m.Key, m.Value = bytes.Clone(m.Key), bytes.Clone(m.Value)
			headers := make([]kafkago.Header, len(m.Headers))
			for i, h := range m.Headers {
				headers[i] = kafkago.Header{Key: h.Key, Value: bytes.Clone(h.Value)}
			}
			m.Headers = headers
			got = append(got, m)
		}
	}
	return got, nil
}

// mustRead reads n records that fill wrote, the first of which has the offset and the
// number from.
func mustRead(t testing.TB, r *kafka.Reader, from, n int) {
	t.Helper()
	got, err := read(t, r, n)
	if err != nil {
		since, trouble := r.Trouble()
		t.Fatalf("after %d of %d records: %v (trouble since %v: %v)", len(got), n, err, since, trouble)
	}
	for i, m := range got {
		if want := fmt.Sprintf("key-%d", from+i); m.Offset != int64(from+i) || string(m.Key) != want {
			t.Fatalf("record %d has offset %d and key %s, want offset %d and key %s", i, m.Offset, m.Key, from+i, want)
		}
	}
	if len(got) != n || r.Next() != int64(from+n) {
		t.Fatalf("%d records, next %d; want %d and %d", len(got), r.Next(), n, from+n)
	}
}

// TestReaderCodecs reads what several clients packed in all ways that there are.
func TestReaderCodecs(t *testing.T) {
	b := startBroker(t)
	const n = 500
	type written struct{ key, value []byte }
	records := make([]written, n)
	for i := range records {
		records[i] = written{fmt.Appendf(nil, "key-%d", i%7), bytes.Repeat(fmt.Appendf(nil, "%d,", i), i%100+1)}
		switch i % 10 {
		case 3:
			records[i].key = nil
		case 4:
			records[i].value = nil
		case 5:
			records[i].key, records[i].value = []byte{}, []byte{}
		}
	}
	check := func(topic string) {
		t.Helper()
		got, err := read(t, b.reader(t, topic, 0, kafka.ReaderOptions{}), n)
		if err != nil || len(got) != n {
			t.Fatalf("%s: %d records, %v", topic, len(got), err)
		}
		for i, m := range got {
			w := records[i]
			if m.Offset != int64(i) || !bytes.Equal(m.Key, w.key) || !bytes.Equal(m.Value, w.value) || (m.Key == nil) != (w.key == nil) || (m.Value == nil) != (w.value == nil) {
				t.Fatalf("%s: record %d is %q %q at %d, want %q %q", topic, i, m.Key, m.Value, m.Offset, w.key, w.value)
			}
			if int64(m.Time) != 1_700_000_000_000+int64(i) {
				t.Fatalf("%s: record %d has the time %d", topic, i, m.Time)
			}
			if len(m.Headers) != i%3 {
				t.Fatalf("%s: record %d has %d headers", topic, i, len(m.Headers))
			}
			for j, h := range m.Headers {
				if h.Key != fmt.Sprintf("h%d", j) || string(h.Value) != fmt.Sprint(i) {
					t.Fatalf("%s: record %d has the header %s=%s", topic, i, h.Key, h.Value)
				}
			}
		}
	}
	at := func(i int) time.Time { return time.UnixMilli(1_700_000_000_000 + int64(i)) }
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		topic := b.topic(t, 1)
		c := b.franz(t, kgo.ProducerBatchCompression(codec))
		for part := range 5 {
			var out []*kgo.Record
			for i := part * n / 5; i < (part+1)*n/5; i++ {
				r := &kgo.Record{Topic: topic, Key: records[i].key, Value: records[i].value, Timestamp: at(i)}
				for j := range i % 3 {
					r.Headers = append(r.Headers, kgo.RecordHeader{Key: fmt.Sprintf("h%d", j), Value: fmt.Append(nil, i)})
				}
				out = append(out, r)
			}
			if err := c.ProduceSync(t.Context(), out...).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		check(topic)
	}
	// The other client frames snappy as Java does.
	for _, codec := range []kafkago.Compression{0, kafkago.Gzip, kafkago.Snappy, kafkago.Lz4, kafkago.Zstd} {
		topic := b.topic(t, 1)
		var out []kafkago.Message
		for i, w := range records {
			m := kafkago.Message{Key: w.key, Value: w.value, Time: at(i)}
			for j := range i % 3 {
				m.Headers = append(m.Headers, kafkago.Header{Key: fmt.Sprintf("h%d", j), Value: fmt.Append(nil, i)})
			}
			out = append(out, m)
		}
		w := &kafkago.Writer{Addr: kafkago.TCP(b.Addr), Topic: topic, Compression: codec, BatchTimeout: time.Millisecond, RequiredAcks: kafkago.RequireAll, Transport: b.transport}
		if err := w.WriteMessages(t.Context(), out...); err != nil {
			t.Fatal(err)
		}
		w.Close()
		check(topic)
	}
}

// TestReaderAppendTime holds that the broker's time counts where the topic says so.
func TestReaderAppendTime(t *testing.T) {
	b := startBroker(t)
	if b.Fake != nil {
		t.Skip("KAFKA_ADDR is not set, and kfake has no LogAppendTime: only a real broker shows it")
	}
	topic := b.topic(t, 1, "message.timestamp.type=LogAppendTime")
	before := time.Now().Add(-time.Second).UnixMilli()
	r := &kgo.Record{Topic: topic, Value: []byte("v"), Timestamp: time.UnixMilli(1_700_000_000_000)}
	if err := b.franz(t).ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	got, err := read(t, b.reader(t, topic, 0, kafka.ReaderOptions{}), 1)
	if err != nil || int64(got[0].Time) < before {
		t.Errorf("the record has the time %d, want at least %d: %v", got[0].Time, before, err)
	}
}

// TestReaderWaits holds that a Fetch at the end gives nothing, and what comes later.
func TestReaderWaits(t *testing.T) {
	b := startBroker(t)
	topic := b.topic(t, 1)
	r := b.reader(t, topic, 0, kafka.ReaderOptions{})
	if r.HighWatermark() != -1 {
		t.Errorf("high watermark %d before the first answer", r.HighWatermark())
	}
	for range 3 {
		got, err := r.Fetch(t.Context(), nil)
		if err != nil || len(got) != 0 || r.HighWatermark() != 0 {
			t.Fatalf("%d records, %v, high watermark %d", len(got), err, r.HighWatermark())
		}
	}
	b.fill(t, topic, 10)
	mustRead(t, r, 0, 10)
	b.fill(t, topic, 20)
	r.SkipTo(5)
	got, err := read(t, r, 25)
	if err != nil || got[0].Offset != 5 || r.HighWatermark() != 30 {
		t.Fatalf("%d records from %d, high watermark %d, %v", len(got), got[0].Offset, r.HighWatermark(), err)
	}
	r.SkipTo(0)
	if got, err := read(t, r, 30); err != nil || got[0].Offset != 0 {
		t.Fatal(err)
	}
	// Closing is no end.
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r.SkipTo(29)
	if got, err := read(t, r, 1); err != nil || got[0].Offset != 29 {
		t.Fatal(err)
	}
}

// TestReaderGathers asks for more at one time while it is told to, and gets what there is when that
// does not come.
func TestReaderGathers(t *testing.T) {
	b := startFake(t)
	topic := b.topic(t, 1)
	asked := make(chan [2]int32, 100)
	b.Fake.ControlKey(1, func(q kmsg.Request) (kmsg.Response, error, bool) {
		b.Fake.KeepControl()
		f := q.(*kmsg.FetchRequest)
		asked <- [2]int32{f.MinBytes, f.MaxWaitMillis}
		return nil, nil, false
	})
	var gather atomic.Bool
	r := b.reader(t, topic, 0, kafka.ReaderOptions{Wait: time.Minute, Bytes: 64 << 10, Gather: gather.Load})
	for _, turn := range []struct {
		gather bool
		want   [2]int32
	}{{false, [2]int32{1, 60_000}}, {true, [2]int32{32 << 10, 100}}, {true, [2]int32{32 << 10, 100}}, {false, [2]int32{1, 60_000}}} {
		gather.Store(turn.gather)
		b.fill(t, topic, 10)
		if _, err := read(t, r, 10); err != nil {
			t.Fatal(err)
		}
		for late, got := time.After(time.Minute), [2]int32{}; got != turn.want; {
			select {
			case got = <-asked:
			case <-late:
				t.Fatalf("nothing was asked with %d bytes at least within %d ms", turn.want[0], turn.want[1])
			}
		}
	}
}

// TestReaderSkips goes on at places within and beyond what is read already.
func TestReaderSkips(t *testing.T) {
	b := startBroker(t)
	topic := b.topic(t, 1)
	for range 20 {
		b.fill(t, topic, 100) // a batch each
	}
	r := b.reader(t, topic, 0, kafka.ReaderOptions{Bytes: 20_000})
	for _, at := range []int64{0, 5, 250, 251, 1999, 1500, 1700, 2000, 150} {
		r.SkipTo(at)
		if at == 2000 {
			if got, err := r.Fetch(t.Context(), nil); len(got) != 0 || err != nil {
				t.Fatalf("%d records at the end, %v", len(got), err)
			}
			continue
		}
		got, err := read(t, r, 1)
		if err != nil || got[0].Offset != at || string(got[0].Key) != fmt.Sprintf("key-%d", at%100) {
			t.Fatalf("skipped to %d, got %d %s, %v", at, got[0].Offset, got[0].Key, err)
		}
	}
	// Everything in a row, in answers that the broker cuts off within a batch.
	r.SkipTo(0)
	got, err := read(t, r, 2000)
	for i := range got {
		if got[i].Offset != int64(i) {
			t.Fatalf("record %d has the offset %d", i, got[i].Offset)
		}
	}
	if err != nil || len(got) != 2000 {
		t.Fatalf("%d records, %v", len(got), err)
	}
}

// TestReaderContext holds that a Fetch ends with its context, whatever it waits for.
func TestReaderContext(t *testing.T) {
	b := startBroker(t)
	topic := b.topic(t, 1)
	r := b.reader(t, topic, 0, kafka.ReaderOptions{Wait: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := r.Fetch(ctx, nil)
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	b.fill(t, topic, 3)
	mustRead(t, r, 0, 3)
	if _, err := r.Fetch(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	// A context that ends between two calls closes the connection; the next one has another.
	ctx, cancel = context.WithCancel(t.Context())
	b.fill(t, topic, 2)
	if got, err := r.Fetch(ctx, nil); err != nil || len(got) == 0 {
		t.Fatalf("%d records, %v", len(got), err)
	}
	cancel()
	b.fill(t, topic, 1)
	want := int(6 - r.Next())
	if got, err := read(t, r, want); err != nil || len(got) != want {
		t.Fatalf("%d records of %d, %v", len(got), want, err)
	}
	if since, err := r.Trouble(); err != nil {
		t.Errorf("trouble since %v: %v", since, err)
	}
}

// TestReaderGap deletes records before they are read.
func TestReaderGap(t *testing.T) {
	b := startBroker(t)
	topic := b.topic(t, 1)
	b.fill(t, topic, 100)
	r := b.reader(t, topic, 10, kafka.ReaderOptions{})
	if _, err := kadm.NewClient(b.franz(t)).DeleteRecords(t.Context(), kadm.Offsets{topic: {0: {Topic: topic, Partition: 0, At: 40}}}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // until it is stepped over
		var gap *kafka.GapError
		if _, err := read(t, r, 1); !errors.As(err, &gap) || gap.From != 10 || gap.To != 40 {
			t.Fatal(err)
		}
		if since, err := r.Trouble(); err != nil {
			t.Errorf("trouble since %v: %v", since, err)
		}
	}
	r.SkipTo(40)
	mustRead(t, r, 40, 60)
}

// TestReaderBeyondEnd reads on where the partition does not reach.
func TestReaderBeyondEnd(t *testing.T) {
	b := startBroker(t)
	topic := b.topic(t, 1)
	b.fill(t, topic, 100)
	r := b.reader(t, topic, 101, kafka.ReaderOptions{})
	var beyond *kafka.BeyondEndError
	if _, err := read(t, r, 1); !errors.As(err, &beyond) || beyond.Next != 101 || beyond.End != 100 {
		t.Fatal(err)
	}
	r.SkipTo(99)
	mustRead(t, r, 99, 1)
}

// TestReaderTransactions reads what is committed and what is not, and no marks, the
// last of which must not hold it up.
func TestReaderTransactions(t *testing.T) {
	b := startBroker(t)
	topic := b.topic(t, 1)
	c := b.franz(t, kgo.TransactionalID(topic))
	for i, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		if err := c.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := c.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	r := b.reader(t, topic, 0, kafka.ReaderOptions{})
	got, err := read(t, r, 3)
	if err != nil || got[0].Offset != 0 || got[1].Offset != 2 || got[2].Offset != 4 {
		t.Fatalf("%v, %v", got, err)
	}
	for r.Next() != 6 {
		if got, err := r.Fetch(t.Context(), nil); err != nil || len(got) != 0 {
			t.Fatalf("%v, %v", got, err)
		}
	}
}

// TestReaderBombs feeds batches of some kilobytes that unpack to 64 MiB.
func TestReaderBombs(t *testing.T) {
	b := startBroker(t)
	const limit = 4 << 20
	for name, codec := range map[string]kgo.CompressionCodec{"gzip": kgo.GzipCompression(), "zstd": kgo.ZstdCompression(), "lz4": kgo.Lz4Compression(), "snappy": kgo.SnappyCompression(), "none": kgo.NoCompression()} {
		size := 64 << 20
		switch name {
		case "snappy", "lz4": // they pack less, and the broker takes 1 MB
			size = 12 << 20
		case "none":
			size = 900 << 10
		}
		limit := min(limit, size/2)
		topic := b.topic(t, 1)
		b.fill(t, topic, 10)
		bomb := &kgo.Record{Topic: topic, Value: make([]byte, size)}
		c := b.franz(t, kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(int32(size+1000)), kgo.BrokerMaxReadBytes(1<<30), kgo.BrokerMaxWriteBytes(1<<30))
		if err := c.ProduceSync(t.Context(), bomb).FirstErr(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b.fill(t, topic, 10)
		bomb.Value = nil

		var r *kafka.Reader
		var bad *kafka.BatchError
		// What was ever allocated is more than what was held at a time; the fake broker is
		// in it, too, and so is what pools forget by chance under the race detector. The
		// least of some tries is what the reader takes.
		used := uint64(math.MaxUint64)
		for try := 0; try < 5 && used > 5*uint64(limit)+4<<20; try++ {
			r = b.reader(t, topic, 0, kafka.ReaderOptions{Unpacked: limit, Bytes: 128 << 10})
			mustRead(t, r, 0, 10)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := read(t, r, 1)
			if !errors.As(err, &bad) || !errors.Is(err, kafka.ErrTooLarge) || bad.Offset != 10 || bad.Next != 11 {
				t.Fatalf("%s: %v", name, err)
			}
			runtime.ReadMemStats(&after)
			used = min(used, after.TotalAlloc-before.TotalAlloc)
		}
		if used > 5*uint64(limit)+4<<20 {
			t.Errorf("%s: %d bytes allocated for a bomb with a limit of %d", name, used, limit)
		}
		r.SkipTo(bad.Next)
		got, err := read(t, r, 10)
		if err != nil || got[0].Offset != 11 || string(got[9].Key) != "key-9" {
			t.Fatalf("%s: behind the bomb: %v", name, err)
		}
	}
}

// TestReaderBrokerAway stops the broker, and starts it again with what it had.
func TestReaderBrokerAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := startFake(t, kfake.DataDir(dir))
	topic := b.topic(t, 1)
	b.fill(t, topic, 50)
	r := b.reader(t, topic, 0, kafka.ReaderOptions{})
	mustRead(t, r, 0, 50)
	b.Fake.Close()
	for err := error(nil); err == nil; _, err = r.Trouble() {
		if got, err := r.Fetch(t.Context(), nil); err != nil || len(got) != 0 {
			t.Fatalf("%d records, %v", len(got), err)
		}
	}
	since, err := r.Trouble()
	if !errors.Is(err, kafka.ErrUnreachable) || time.Since(since) > time.Minute {
		t.Errorf("trouble since %v: %v", since, err)
	}
	restart(t, b, dir)
	more := b.franz(t)
	for i := range 5 {
		if err := more.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "key-%d", 50+i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	mustRead(t, r, 50, 5)
	if _, err := r.Trouble(); err != nil {
		t.Errorf("trouble when it is over: %v", err)
	}
}

// restart starts a broker that was closed at the same address again.
func restart(t testing.TB, b *broker, dir string, options ...kfake.Opt) {
	t.Helper()
	options = append([]kfake.Opt{kfake.NumBrokers(1), kfake.Ports(portOf(t, b.Addr)), kfake.DataDir(dir), kfake.GroupMinSessionTimeout(time.Second)}, options...)
	c, err := kfake.NewCluster(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b.Fake = c
}

// TestReaderLeaderMoves moves the partition between brokers while it is read.
func TestReaderLeaderMoves(t *testing.T) {
	b := startFake(t, kfake.NumBrokers(3))
	topic := b.topic(t, 1)
	r := b.reader(t, topic, 0, kafka.ReaderOptions{})
	for round := range 9 {
		if err := b.Fake.MoveTopicPartition(topic, 0, int32(round%3)); err != nil {
			t.Fatal(err)
		}
		c := b.franz(t)
		for i := range 10 {
			if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "key-%d", 10*round+i)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		mustRead(t, r, 10*round, 10)
	}
}

// TestReaderFaults lets the broker answer with errors, nonsense or not at all.
func TestReaderFaults(t *testing.T) {
	t.Parallel()
	b := startFake(t)
	topic := b.topic(t, 1)
	b.fill(t, topic, 100)
	code := func(code int16) func(kmsg.Request) (kmsg.Response, error, bool) {
		return func(q kmsg.Request) (kmsg.Response, error, bool) {
			a := q.ResponseKind().(*kmsg.FetchResponse)
			p := kmsg.NewFetchResponseTopicPartition()
			p.ErrorCode, p.HighWatermark = code, -1
			ft := kmsg.NewFetchResponseTopic()
			ft.Topic, ft.Partitions = topic, append(ft.Partitions, p)
			a.Topics = append(a.Topics, ft)
			return a, nil, true
		}
	}
	faults := []func(kmsg.Request) (kmsg.Response, error, bool){
		func(kmsg.Request) (kmsg.Response, error, bool) { return nil, errors.New("hang up"), true },
		func(q kmsg.Request) (kmsg.Response, error, bool) { return q.ResponseKind(), nil, true }, // no topic in it
		func(q kmsg.Request) (kmsg.Response, error, bool) {
			a := q.ResponseKind().(*kmsg.FetchResponse)
			a.ErrorCode = 2
			return a, nil, true
		},
	}
	for _, c := range []int16{-1, 1, 2, 3, 5, 6, 7, 8, 9, 13, 29, 56, 70, 71, 74, 75, 76, 78, 100, 103} {
		faults = append(faults, code(c))
	}
	for i, fault := range faults {
		r := b.reader(t, topic, 0, kafka.ReaderOptions{Bytes: 2000})
		left := 1
		if i == 0 {
			left = 4
		}
		b.Fake.ControlKey(1, func(q kmsg.Request) (kmsg.Response, error, bool) {
			if left--; left == 0 {
				b.Fake.DropControl()
			} else {
				b.Fake.KeepControl()
			}
			return fault(q)
		})
		mustRead(t, r, 0, 100)
		if since, err := r.Trouble(); err != nil {
			t.Errorf("fault %d: trouble since %v when it is over: %v", i, since, err)
		}
		r.Close()
	}
}
