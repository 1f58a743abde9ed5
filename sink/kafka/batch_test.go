package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"weir/events"
)

// decoded is a batch as the library reads it. It checks the checksum.
type decoded struct {
	head *protocol.RecordBatch
	msgs []Message
}

func decode(t testing.TB, b []byte) decoded {
	t.Helper()
	var set protocol.RecordSet
	sized := append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
	if _, err := set.ReadFrom(bytes.NewReader(sized)); err != nil {
		t.Fatalf("the library does not read the batch: %v", err)
	}
	head, ok := set.Records.(*protocol.RecordBatch)
	if !ok {
		stream, isStream := set.Records.(*protocol.RecordStream)
		if !isStream || len(stream.Records) != 1 {
			t.Fatalf("%T: want one batch", set.Records)
		}
		head = stream.Records[0].(*protocol.RecordBatch)
	}
	out := decoded{head: head}
	for i := int64(0); ; i++ {
		r, err := head.ReadRecord()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Offset != i {
			t.Fatalf("record %d has offset %d", i, r.Offset)
		}
		read := func(b protocol.Bytes) []byte {
			if b == nil {
				return nil
			}
			all, err := protocol.ReadAll(b)
			if err != nil {
				t.Fatal(err)
			}
			if all == nil {
				all = []byte{}
			}
			return all
		}
		out.msgs = append(out.msgs, Message{Key: read(r.Key), Value: read(r.Value), Headers: slices.Clone(r.Headers), Time: events.StampOf(r.Time)})
	}
}

func sameMessage(a, b Message) bool {
	nullable := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
	return nullable(a.Key, b.Key) && nullable(a.Value, b.Value) && a.Time == b.Time &&
		slices.EqualFunc(a.Headers, b.Headers, func(a, b kafkago.Header) bool { return a.Key == b.Key && bytes.Equal(a.Value, b.Value) })
}

func TestBatch(t *testing.T) {
	from := identity{7, 3}
	lead := kafkago.Header{Key: "first", Value: []byte("of all")}
	f := func(codec kafkago.Compression, msgs ...Message) {
		t.Helper()
		b := batch{from: from, sequence: 12, lead: []kafkago.Header{lead}, codec: codec}
		if err := b.encode(msgs, batchBytes); err != nil {
			t.Fatal(err)
		}
		got := decode(t, b.bytes)
		if b.count != len(msgs) || len(got.msgs) != len(msgs) {
			t.Fatalf("%d records, read %d, want %d", b.count, len(got.msgs), len(msgs))
		}
		if h := got.head; h.ProducerID != from.id || h.ProducerEpoch != from.epoch || h.BaseSequence != 12 || h.PartitionLeaderEpoch != -1 ||
			h.Attributes.Transactional() || h.Attributes.Control() || h.Attributes.Compression() != codec {
			t.Fatalf("head %+v", h)
		}
		if h := got.msgs[0].Headers; len(h) == 0 || h[0].Key != lead.Key || string(h[0].Value) != string(lead.Value) {
			t.Fatalf("the first record has headers %v", h)
		}
		got.msgs[0].Headers = got.msgs[0].Headers[1:]
		for i := range msgs {
			if !sameMessage(got.msgs[i], msgs[i]) {
				t.Fatalf("record %d is %+v, want %+v", i, got.msgs[i], msgs[i])
			}
		}
	}
	long := []byte(strings.Repeat("long ", 50_000))
	header := kafkago.Header{Key: "k", Value: []byte("v")}
	f(0, Message{Time: 1})
	f(0, Message{Key: []byte{}, Value: []byte{}, Time: 1})
	f(0, Message{Key: []byte("a"), Value: long, Time: 1_700_000_000_000, Headers: []kafkago.Header{header, {Key: "empty", Value: []byte{}}}},
		Message{Value: []byte("earlier"), Time: 1_600_000_000_000},
		Message{Key: []byte("later"), Time: 1_800_000_000_000, Headers: []kafkago.Header{header}})
	many := make([]Message, 5000)
	for i := range many {
		many[i] = Message{Key: []byte("key"), Value: binary.AppendVarint(nil, int64(i)), Time: events.Stamp(1_700_000_000_000 + i)}
	}
	f(0, many...)
	for _, codec := range []kafkago.Compression{kafkago.Gzip, kafkago.Snappy, kafkago.Lz4, kafkago.Zstd} {
		f(codec, many...)
	}
}

func TestBatchOfNobody(t *testing.T) {
	b := batch{from: nobody, sequence: 5}
	before := events.StampOf(time.Now())
	if err := b.encode([]Message{{Value: []byte("x")}}, batchBytes); err != nil {
		t.Fatal(err)
	}
	got := decode(t, b.bytes)
	if h := got.head; h.ProducerID != -1 || h.ProducerEpoch != -1 || h.BaseSequence != -1 {
		t.Errorf("head %+v", h)
	}
	if at := got.msgs[0].Time; at < before || at > events.StampOf(time.Now()) {
		t.Errorf("a message without a time has got %v", at.Time())
	}
}

func TestBatchIsBounded(t *testing.T) {
	const most = 10_000
	var b batch
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		msgs := make([]Message, 1+rnd.IntN(300))
		for i := range msgs {
			msgs[i].Value = make([]byte, rnd.IntN(1<<rnd.IntN(15)))
		}
		for left := msgs; len(left) > 0; left = left[b.count:] {
			if err := b.encode(left, most); err != nil {
				t.Fatal(err)
			}
			if b.count == 0 || b.count > 1 && len(b.bytes) > most {
				t.Fatalf("%d records in %d bytes", b.count, len(b.bytes))
			}
			if got := decode(t, b.bytes); len(got.msgs) != b.count {
				t.Fatalf("%d records, counted %d", len(got.msgs), b.count)
			}
			// It is as full as can be.
			if len(left) > b.count {
				if size := len(left[b.count].Value); len(b.bytes)+size+20 < most {
					t.Fatalf("a record of %d bytes was left out of a batch of %d", size, len(b.bytes))
				}
			}
		}
	}
}

func TestAdvance(t *testing.T) {
	f := func(s int32, n int, want int32) {
		t.Helper()
		if got := advance(s, n); got != want {
			t.Errorf("%d records after %d: %d, want %d", n, s, got, want)
		}
	}
	f(0, 1, 1)
	f(math.MaxInt32, 1, 0)
	f(math.MaxInt32-1, 4096, 4094)
}

func FuzzBatch(f *testing.F) {
	f.Add([]byte("key"), []byte("value"), "header", []byte("its value"), int64(1_700_000_000_000), int64(-5), uint8(0))
	f.Add([]byte{}, []byte{}, "", []byte{}, int64(1), int64(math.MaxInt32), uint8(4))
	f.Fuzz(func(t *testing.T, key, value []byte, name string, content []byte, at, delta int64, how uint8) {
		at = at&(1<<45-1) + 1
		delta = delta % at
		header := kafkago.Header{Key: name, Value: content}
		msgs := []Message{
			{Key: key, Value: value, Headers: []kafkago.Header{header}, Time: events.Stamp(at)},
			{Value: key, Time: events.Stamp(at + delta)},
			{Key: value, Headers: []kafkago.Header{header, header}, Time: events.Stamp(at)},
		}
		if at+delta <= 0 {
			return
		}
		b := batch{from: identity{at, int16(delta)}, sequence: int32(delta & math.MaxInt32), codec: kafkago.Compression(how % 5)}
		if err := b.encode(msgs, 1<<20); err != nil {
			t.Fatal(err)
		}
		got := decode(t, b.bytes)
		if len(got.msgs) != b.count {
			t.Fatalf("%d records, want %d", len(got.msgs), b.count)
		}
		for i := range got.msgs {
			if !sameMessage(got.msgs[i], msgs[i]) {
				t.Fatalf("record %d is %+v, want %+v", i, got.msgs[i], msgs[i])
			}
		}
	})
}

func BenchmarkBatch(b *testing.B) {
	msgs := make([]Message, 1000)
	for i := range msgs {
		msgs[i] = Message{Key: []byte("flow:0123456789abcdef"), Value: make([]byte, 800), Headers: []kafkago.Header{decimal(triggerHeader, int64(i))}, Time: 1_700_000_000_000}
	}
	var e batch
	for b.Loop() {
		if err := e.encode(msgs, batchBytes); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(e.count), "ns/record")
	b.SetBytes(int64(len(e.bytes)))
}
