package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/klauspost/compress/s2"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"

	"weir/events/kafka/recordbatch"
)

// The numbers of the codecs and the table of its checksum.
const (
	codecNone   = 0
	codecGzip   = int8(kafkago.Gzip)
	codecSnappy = int8(kafkago.Snappy)
	codecLz4    = int8(kafkago.Lz4)
	codecZstd   = int8(kafkago.Zstd)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// packing is how a test writes a batch.
type packing struct {
	codec      int8
	attributes int16 // besides the codec
	last       int64 // offset, when compaction took the last records
	maxTime    int64
	count      int32 // when it lies
	tail       []byte
	packed     []byte // in place of the records
}

// pack writes a batch that begins at the offset first, with the time 1000 in its head.
func pack(t testing.TB, first int64, records []Record, p packing) []byte {
	t.Helper()
	var body []byte
	bytesOf := func(b, v []byte) []byte {
		if v == nil {
			return binary.AppendVarint(b, -1)
		}
		return append(binary.AppendVarint(b, int64(len(v))), v...)
	}
	last := first - 1
	for _, r := range records {
		one := []byte{0}
		one = binary.AppendVarint(one, int64(r.Time)-1000)
		one = binary.AppendVarint(one, r.Offset-first)
		one = bytesOf(one, r.Key)
		one = bytesOf(one, r.Value)
		one = binary.AppendVarint(one, int64(len(r.Headers)))
		for _, h := range r.Headers {
			one = bytesOf(one, []byte(h.Key))
			one = bytesOf(one, h.Value)
		}
		body = append(binary.AppendVarint(body, int64(len(one))), one...)
		last = r.Offset
	}
	body = append(body, p.tail...)
	switch {
	case p.packed != nil:
		body = p.packed
	case p.codec == codecNone:
	case p.codec == codecSnappy:
		body = s2.EncodeSnappy(nil, body)
	default:
		var out bytes.Buffer
		w := compress.Compression(p.codec).Codec().NewWriter(&out)
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		body = out.Bytes()
	}
	count := int32(len(records))
	if p.count != 0 {
		count = p.count
	}
	be := binary.BigEndian
	summed := be.AppendUint16(nil, uint16(int16(p.codec)|p.attributes))
	summed = be.AppendUint32(summed, uint32(max(last, p.last)-first))
	summed = be.AppendUint64(summed, 1000)
	summed = be.AppendUint64(summed, uint64(p.maxTime))
	summed = be.AppendUint64(summed, ^uint64(0)) // producer
	summed = be.AppendUint16(summed, ^uint16(0))
	summed = be.AppendUint32(summed, ^uint32(0))
	summed = be.AppendUint32(summed, uint32(count))
	summed = append(summed, body...)
	b := be.AppendUint64(nil, uint64(first))
	b = be.AppendUint32(b, uint32(9+len(summed)))
	b = be.AppendUint32(b, 0) // leader epoch
	b = append(b, 2)
	b = be.AppendUint32(b, crc32.Checksum(summed, castagnoli))
	return append(b, summed...)
}

// some are n records from an offset on, of which the values have a size.
func some(from int64, n, size int) (records []Record) {
	for i := range n {
		r := Record{Offset: from + int64(i), Time: 2000, Key: fmt.Appendf(nil, "k%d", i), Value: bytes.Repeat([]byte{'v'}, size)}
		for j := range i % 3 {
			r.Headers = append(r.Headers, kafkago.Header{Key: fmt.Sprint("h", j), Value: []byte{byte(i)}})
		}
		records = append(records, r)
	}
	return records
}

func same(a, b []Record) bool {
	return slices.EqualFunc(a, b, func(a, b Record) bool {
		return a.Offset == b.Offset && a.Time == b.Time && bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) &&
			slices.EqualFunc(a.Headers, b.Headers, func(a, b kafkago.Header) bool { return a.Key == b.Key && bytes.Equal(a.Value, b.Value) })
	})
}

// given is a Reader that stands at an offset and has got the bytes as its answer.
func given(at int64, o ReaderOptions, b []byte) *Reader {
	r := NewReader(&Cluster{}, "topic", 0, at, o)
	r.asked, r.rest = endOf(b, at)
	return r
}

func TestTakeBatches(t *testing.T) {
	all := some(10, 30, 20)
	var b []byte
	for i, codec := range []int8{codecNone, codecGzip, codecSnappy, codecLz4, codecZstd, codecNone} {
		b = append(b, pack(t, int64(10+5*i), all[5*i:5*i+5], packing{codec: codec})...)
	}
	for at := range int64(45) {
		r := given(at, ReaderOptions{}, bytes.Clone(b))
		got := r.take(nil)
		want := all[min(30, max(0, at-10)):]
		if !same(got, want) || r.final != nil || r.Next() != max(at, 40) {
			t.Fatalf("from %d: %d records, want %d; next %d, %v", at, len(got), len(want), r.Next(), r.final)
		}
	}
	// What is cut off at the end is for the next answer.
	for cut := range len(b) {
		r := given(0, ReaderOptions{}, b[:cut])
		got := r.take(nil)
		if !same(got, all[:len(got)]) || len(got)%5 != 0 || r.final != nil && len(got) != 0 || len(got) > 0 && r.Next() != got[len(got)-1].Offset+1 {
			t.Fatalf("cut at %d: %d records, next %d, %v", cut, len(got), r.Next(), r.final)
		}
	}
}

func TestTakeHoles(t *testing.T) {
	f := func(b []byte, want ...int64) {
		t.Helper()
		r := given(0, ReaderOptions{}, b)
		var offsets []int64
		for _, m := range r.take(nil) {
			offsets = append(offsets, m.Offset)
		}
		if !slices.Equal(offsets, want) || r.Next() != 10 || r.final != nil {
			t.Errorf("offsets %v, want %v; next %d, %v", offsets, want, r.Next(), r.final)
		}
	}
	f(pack(t, 0, nil, packing{last: 9}))                                                                       // compaction left a head
	f(pack(t, 0, some(3, 2, 1), packing{last: 9}), 3, 4)                                                       // and here two records
	f(slices.Concat(pack(t, 0, some(0, 9, 1), packing{}), pack(t, 9, some(9, 1, 1), packing{attributes: 32})), // a mark of a transaction
		0, 1, 2, 3, 4, 5, 6, 7, 8)
	f(slices.Concat(pack(t, 0, some(0, 2, 1), packing{}), pack(t, 8, some(8, 2, 1), packing{})), 0, 1, 8, 9)
}

func TestTakeTime(t *testing.T) {
	r := given(0, ReaderOptions{}, slices.Concat(pack(t, 0, some(0, 1, 1), packing{maxTime: 7000}), pack(t, 1, some(1, 1, 1), packing{maxTime: 7000, attributes: 8})))
	if got := r.take(nil); got[0].Time != 2000 || got[1].Time != 7000 {
		t.Errorf("times %d and %d", got[0].Time, got[1].Time)
	}
}

func TestTakeBadBatches(t *testing.T) {
	good := pack(t, 20, some(20, 3, 1), packing{})
	f := func(what string, bad []byte, o ReaderOptions, want error) {
		t.Helper()
		r := given(10, o, slices.Concat(pack(t, 10, some(10, 2, 1), packing{}), bad, good))
		if got := r.take(nil); len(got) != 2 || r.final != nil {
			t.Fatalf("%s: %d records before it, %v", what, len(got), r.final)
		}
		got := r.take(nil)
		var e *BatchError
		if len(got) != 0 || !errors.As(r.final, &e) || e.Offset != 12 || e.Next != 20 || want != nil && !errors.Is(e, want) {
			t.Fatalf("%s: %d records, %v", what, len(got), r.final)
		}
		r.SkipTo(e.Next)
		if got := r.take(nil); !same(got, some(20, 3, 1)) || r.final != nil {
			t.Errorf("%s: %d records behind it, %v", what, len(got), r.final)
		}
	}
	records := some(12, 8, 100)
	large := ReaderOptions{Unpacked: 2000, Bytes: 100_000}
	f("unpacked too large", pack(t, 12, some(12, 8, 1000), packing{codec: codecGzip}), large, recordbatch.ErrTooLarge)
	f("unpacked too large", pack(t, 12, some(12, 8, 1000), packing{codec: codecLz4}), large, recordbatch.ErrTooLarge)
	f("unpacked too large", pack(t, 12, some(12, 8, 1000), packing{codec: codecZstd}), large, recordbatch.ErrTooLarge)
	f("unpacked too large", pack(t, 12, some(12, 8, 1000), packing{codec: codecSnappy}), large, recordbatch.ErrTooLarge)
	f("said to be large", pack(t, 12, records, packing{codec: codecSnappy, packed: []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 1, 2, 3}}), ReaderOptions{}, recordbatch.ErrTooLarge)
	f("many records", pack(t, 12, some(12, 8, 1), packing{}), ReaderOptions{Unpacked: 7 * recordbatch.RecordCost}, recordbatch.ErrTooLarge)
	headers := some(12, 8, 1)
	for range 100 {
		headers[3].Headers = append(headers[3].Headers, kafkago.Header{})
	}
	f("many headers", pack(t, 12, headers, packing{codec: codecGzip}), ReaderOptions{Unpacked: 100 * recordbatch.RecordCost}, recordbatch.ErrTooLarge)
	for codec := range int8(4) {
		f("not packed", pack(t, 12, records, packing{codec: codec + 1, packed: []byte("no such thing, but of some length")}), ReaderOptions{}, nil)
		f("nothing", pack(t, 12, records, packing{codec: codec + 1, packed: []byte{}}), ReaderOptions{}, nil)
	}
	f("unknown codec", pack(t, 12, records, packing{codec: 7, packed: []byte("x")}), ReaderOptions{}, nil)
	f("cut off xerial", pack(t, 12, records, packing{codec: codecSnappy, packed: []byte("\x82SNAPPY\x00" + "12345678\x00\x00\x10\x00x")}), ReaderOptions{}, nil)
	f("too few", pack(t, 12, some(12, 8, 1), packing{count: 7}), ReaderOptions{}, recordbatch.ErrMalformed)
	f("too many", pack(t, 12, some(12, 8, 1), packing{count: 9}), ReaderOptions{}, recordbatch.ErrMalformed)
	f("negative", pack(t, 12, some(12, 8, 1), packing{count: -1}), ReaderOptions{}, recordbatch.ErrMalformed)
	f("more bytes", pack(t, 12, some(12, 8, 1), packing{tail: []byte{0}}), ReaderOptions{}, recordbatch.ErrMalformed)
	twice := some(12, 8, 1)
	twice[1].Offset = 12
	f("an offset twice", pack(t, 12, twice, packing{}), ReaderOptions{}, recordbatch.ErrMalformed)
	old := pack(t, 19, some(12, 8, 1), packing{last: 19}) // its number is that of the last record
	old[16] = 1
	r := given(12, ReaderOptions{}, old)
	var e *BatchError
	if got := r.take(nil); len(got) != 0 || !errors.As(r.final, &e) || e.Next != 20 {
		t.Errorf("old format: %d records, %v", len(got), r.final)
	}
}

// TestTakeDamaged holds that a wrong checksum is given another chance, and not more.
func TestTakeDamaged(t *testing.T) {
	b := pack(t, 10, some(10, 5, 10), packing{})
	b[len(b)-1] ^= 1
	r := given(10, ReaderOptions{}, nil)
	for range maxDamaged {
		r.rest = b
		if got := r.take(nil); len(got) != 0 || r.final != nil || r.Next() != 10 {
			t.Fatalf("%d records, %v", len(got), r.final)
		}
		if _, err := r.Trouble(); !errors.Is(err, recordbatch.ErrChecksum) {
			t.Fatal(err)
		}
	}
	r.rest = b
	var e *BatchError
	if got := r.take(nil); len(got) != 0 || !errors.As(r.final, &e) || !errors.Is(e, recordbatch.ErrChecksum) {
		t.Fatalf("%d records, %v", len(got), r.final)
	}
	r.SkipTo(e.Next)
	if r.damaged != 0 || r.Next() != 15 {
		t.Error("a new place is given no new chance")
	}
}

// TestTakeBound holds that small answers that unpack to much are given piecemeal, and
// that nothing is overwritten within one Fetch.
func TestTakeBound(t *testing.T) {
	var b []byte
	for i := range int64(50) {
		b = append(b, pack(t, 100*i, some(100*i, 100, 500), packing{codec: codecZstd})...)
	}
	r := given(0, ReaderOptions{Bytes: 100_000, Unpacked: 1 << 20}, b)
	next := int64(0)
	for len(r.rest) > 0 {
		r.decoder.Reset(4 * r.o.Bytes)
		got := r.take(nil)
		if len(got) == 0 || len(got) > 500 || !same(got[:100], some(next, 100, 500)) || got[0].Offset != next {
			t.Fatalf("%d records at %d, %v", len(got), next, r.final)
		}
		for i := 0; i < len(got); i += 100 {
			if !same(got[i:i+100], some(next+int64(i), 100, 500)) {
				t.Fatalf("records from %d on were overwritten", next)
			}
		}
		next += int64(len(got))
	}
	if next != 5000 {
		t.Errorf("%d records", next)
	}
}

// TestTakeAllocates holds that nothing is allocated per record. Pools forget at will, under
// the race detector more often, and a decoder is then built anew: that may happen in each
// of the 10 batches, and never in each of the 1,000 records.
func TestTakeAllocates(t *testing.T) {
	var b []byte
	for i := range int64(10) {
		b = append(b, pack(t, 100*i, some(100*i, 100, 300), packing{codec: []int8{codecNone, codecSnappy, codecZstd}[i%3]})...)
	}
	r := given(0, ReaderOptions{}, nil)
	var records []Record
	allocs := testing.AllocsPerRun(20, func() {
		r.rest = b
		r.next.Store(0)
		r.decoder.Reset(4 * r.o.Bytes)
		if records = r.take(records[:0]); len(records) != 1000 {
			t.Fatal(len(records), r.final)
		}
	})
	if allocs > 200 {
		t.Errorf("%v allocations for 1,000 records", allocs)
	}
}

// FuzzTake holds that no bytes break the Reader, make it go back or keep it in its place.
func FuzzTake(f *testing.F) {
	for codec := range int8(5) {
		f.Add(pack(f, 3, some(3, 5, 20), packing{codec: codec}), true)
	}
	f.Add(pack(f, 3, nil, packing{last: 9}), false)
	f.Add(pack(f, 3, some(3, 5, 1), packing{attributes: 32}), false)
	f.Fuzz(func(t *testing.T, b []byte, mend bool) {
		if mend { // the checksums, so that the rest is looked at
			for rest := b; len(rest) >= recordbatch.HeadSize; {
				size := 12 + int(int32(binary.BigEndian.Uint32(rest[8:])))
				if size < recordbatch.HeadSize || size > len(rest) {
					break
				}
				binary.BigEndian.PutUint32(rest[17:], crc32.Checksum(rest[21:size], castagnoli))
				rest = rest[size:]
			}
		}
		r := given(0, ReaderOptions{Unpacked: 1 << 16, Bytes: 1 << 12}, b)
		last := int64(-1)
		for rounds := 0; len(r.rest) > 0; rounds++ {
			if rounds > len(b)+maxDamaged {
				t.Fatal("stays where it is")
			}
			r.decoder.Reset(1 << 14)
			before := r.Next()
			got := r.take(nil)
			for _, m := range got {
				if m.Offset <= last || m.Offset < before || m.Offset >= r.Next() {
					t.Fatalf("offset %d after %d, from %d to %d", m.Offset, last, before, r.Next())
				}
				last = m.Offset
			}
			var e *BatchError
			switch {
			case errors.As(r.final, &e):
				if e.Next <= e.Offset || e.Next <= r.Next() {
					t.Fatalf("%v does not lead on from %d", e, r.Next())
				}
				rest := r.rest
				r.SkipTo(e.Next)
				r.rest = rest // even if the Reader would ask anew
			case r.final != nil:
				t.Fatal(r.final)
			}
			if _, err := r.Trouble(); errors.Is(err, recordbatch.ErrChecksum) && len(r.rest) == 0 {
				return // it would ask again
			}
		}
	})
}

// FuzzParseFetch holds that no answer breaks the Reader.
func FuzzParseFetch(f *testing.F) {
	f.Add(answer(7, 0, 100, []byte("batches")))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseFetch(b)
		for parts := 0; err == nil; parts++ {
			var p fetchedPart
			var ok bool
			if p, ok, err = a.next(); !ok {
				break
			}
			if len(p.batches) > len(b) || parts > len(b) {
				t.Fatal("more than there is")
			}
		}
	})
}

// answer writes the answer to a Fetch.
func answer(id int32, code int16, high int64, batches []byte) []byte {
	be := binary.BigEndian
	b := be.AppendUint32(nil, uint32(id))
	b = be.AppendUint32(b, 25) // throttle
	b = be.AppendUint16(b, 0)
	b = be.AppendUint32(b, 0)
	b = be.AppendUint32(b, 1)
	b = be.AppendUint16(b, 1)
	b = append(b, 't')
	b = be.AppendUint32(b, 1)
	b = be.AppendUint32(b, 3)
	b = be.AppendUint16(b, uint16(code))
	b = be.AppendUint64(b, uint64(high))
	b = be.AppendUint64(b, uint64(high))
	b = be.AppendUint64(b, 0)
	b = be.AppendUint32(b, 1)
	b = be.AppendUint64(b, 11)
	b = be.AppendUint64(b, 12)
	b = be.AppendUint32(b, ^uint32(0))
	b = be.AppendUint32(b, uint32(len(batches)))
	return append(b, batches...)
}

func TestParseFetch(t *testing.T) {
	b := answer(7, 6, 100, []byte("batches"))
	only := func(b []byte) (a fetchAnswer, p fetchedPart, err error) {
		if a, err = parseFetch(b); err == nil {
			p, err = a.only()
		}
		return a, p, err
	}
	a, p, err := only(b)
	if err != nil || a.id != 7 || p.code != 6 || p.high != 100 || string(p.batches) != "batches" || a.throttle.Milliseconds() != 25 {
		t.Errorf("%+v, %+v, %v", a, p, err)
	}
	for cut := range len(b) - len("batches") {
		if _, _, err := only(b[:cut]); err == nil {
			t.Errorf("%d bytes of an answer are one", cut)
		}
	}
	// Of the batches only the beginning may be there.
	if _, p, err := only(b[:len(b)-3]); err != nil || string(p.batches) != "batc" {
		t.Errorf("%+v, %v", p, err)
	}
}
