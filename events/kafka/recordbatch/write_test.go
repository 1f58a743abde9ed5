package recordbatch

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

// most is the largest batch of these tests.
const most = 900_000

// decoded is a batch as the library reads it. It checks the checksum.
type decoded struct {
	head    *protocol.RecordBatch
	records []Record
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
		out.records = append(out.records, Record{Key: read(r.Key), Value: read(r.Value), Headers: slices.Clone(r.Headers), Time: events.StampOf(r.Time)})
	}
}

func sameRecord(a, b Record) bool {
	nullable := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
	return nullable(a.Key, b.Key) && nullable(a.Value, b.Value) && a.Time == b.Time &&
		slices.EqualFunc(a.Headers, b.Headers, func(a, b kafkago.Header) bool { return a.Key == b.Key && bytes.Equal(a.Value, b.Value) })
}

func TestBatch(t *testing.T) {
	from := Producer{7, 3}
	lead := kafkago.Header{Key: "first", Value: []byte("of all")}
	f := func(codec kafkago.Compression, records ...Record) {
		t.Helper()
		b := Encoder{From: from, Sequence: 12, Lead: []kafkago.Header{lead}, Codec: codec}
		if err := b.Encode(records, most); err != nil {
			t.Fatal(err)
		}
		got := decode(t, b.Bytes)
		if b.Count != len(records) || len(got.records) != len(records) {
			t.Fatalf("%d records, read %d, want %d", b.Count, len(got.records), len(records))
		}
		if h := got.head; h.ProducerID != from.ID || h.ProducerEpoch != from.Epoch || h.BaseSequence != 12 || h.PartitionLeaderEpoch != -1 ||
			h.Attributes.Transactional() || h.Attributes.Control() || h.Attributes.Compression() != codec {
			t.Fatalf("head %+v", h)
		}
		if h := got.records[0].Headers; len(h) == 0 || h[0].Key != lead.Key || string(h[0].Value) != string(lead.Value) {
			t.Fatalf("the first record has headers %v", h)
		}
		got.records[0].Headers = got.records[0].Headers[1:]
		for i := range records {
			if !sameRecord(got.records[i], records[i]) {
				t.Fatalf("record %d is %+v, want %+v", i, got.records[i], records[i])
			}
		}
	}
	long := []byte(strings.Repeat("long ", 50_000))
	header := kafkago.Header{Key: "k", Value: []byte("v")}
	f(0, Record{Time: 1})
	f(0, Record{Key: []byte{}, Value: []byte{}, Time: 1})
	f(0, Record{Key: []byte("a"), Value: long, Time: 1_700_000_000_000, Headers: []kafkago.Header{header, {Key: "empty", Value: []byte{}}}},
		Record{Value: []byte("earlier"), Time: 1_600_000_000_000},
		Record{Key: []byte("later"), Time: 1_800_000_000_000, Headers: []kafkago.Header{header}})
	many := make([]Record, 5000)
	for i := range many {
		many[i] = Record{Key: []byte("key"), Value: binary.AppendVarint(nil, int64(i)), Time: events.Stamp(1_700_000_000_000 + i)}
	}
	f(0, many...)
	for _, codec := range []kafkago.Compression{kafkago.Gzip, kafkago.Snappy, kafkago.Lz4, kafkago.Zstd} {
		f(codec, many...)
	}
}

func TestBatchOfNobody(t *testing.T) {
	b := Encoder{From: NoProducer, Sequence: 5}
	before := events.StampOf(time.Now())
	if err := b.Encode([]Record{{Value: []byte("x")}}, most); err != nil {
		t.Fatal(err)
	}
	got := decode(t, b.Bytes)
	if h := got.head; h.ProducerID != -1 || h.ProducerEpoch != -1 || h.BaseSequence != -1 {
		t.Errorf("head %+v", h)
	}
	if at := got.records[0].Time; at < before || at > events.StampOf(time.Now()) {
		t.Errorf("a message without a time has got %v", at.Time())
	}
}

func TestBatchIsBounded(t *testing.T) {
	const most = 10_000
	var b Encoder
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		records := make([]Record, 1+rnd.IntN(300))
		for i := range records {
			records[i].Value = make([]byte, rnd.IntN(1<<rnd.IntN(15)))
		}
		for left := records; len(left) > 0; left = left[b.Count:] {
			if err := b.Encode(left, most); err != nil {
				t.Fatal(err)
			}
			if b.Count == 0 || b.Count > 1 && len(b.Bytes) > most {
				t.Fatalf("%d records in %d bytes", b.Count, len(b.Bytes))
			}
			if got := decode(t, b.Bytes); len(got.records) != b.Count {
				t.Fatalf("%d records, counted %d", len(got.records), b.Count)
			}
			// It is as full as can be.
			if len(left) > b.Count {
				if size := len(left[b.Count].Value); len(b.Bytes)+size+20 < most {
					t.Fatalf("a record of %d bytes was left out of a batch of %d", size, len(b.Bytes))
				}
			}
		}
	}
}

func TestAdvance(t *testing.T) {
	f := func(s int32, n int, want int32) {
		t.Helper()
		if got := Advance(s, n); got != want {
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
		records := []Record{
			{Key: key, Value: value, Headers: []kafkago.Header{header}, Time: events.Stamp(at)},
			{Value: key, Time: events.Stamp(at + delta)},
			{Key: value, Headers: []kafkago.Header{header, header}, Time: events.Stamp(at)},
		}
		if at+delta <= 0 {
			return
		}
		b := Encoder{From: Producer{at, int16(delta)}, Sequence: int32(delta & math.MaxInt32), Codec: kafkago.Compression(how % 5)}
		if err := b.Encode(records, 1<<20); err != nil {
			t.Fatal(err)
		}
		got := decode(t, b.Bytes)
		if len(got.records) != b.Count {
			t.Fatalf("%d records, want %d", len(got.records), b.Count)
		}
		for i := range got.records {
			if !sameRecord(got.records[i], records[i]) {
				t.Fatalf("record %d is %+v, want %+v", i, got.records[i], records[i])
			}
		}
		// The Decoder reads the same.
		whole, rest, ok := Cut(b.Bytes)
		again, err := NewDecoder(1<<20).Append(nil, &whole, 0)
		if !ok || len(rest) != 0 || err != nil || !slices.EqualFunc(again, got.records, sameRecord) {
			t.Fatalf("the Decoder reads %+v, %v, want %+v", again, err, got.records)
		}
	})
}

func BenchmarkBatch(b *testing.B) {
	records := make([]Record, 1000)
	for i := range records {
		records[i] = Record{Key: []byte("flow:0123456789abcdef"), Value: make([]byte, 800), Headers: []kafkago.Header{{Key: "weir-trigger", Value: []byte("12345")}}, Time: 1_700_000_000_000}
	}
	var e Encoder
	for b.Loop() {
		if err := e.Encode(records, most); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(e.Count), "ns/record")
	b.SetBytes(int64(len(e.Bytes)))
}
