package kafka

import (
	"encoding/binary"
	"errors"
	"io"
	"time"
)

// fetchRange is what a Fetch request asks of one partition: about that many bytes from an offset on. A
// larger first batch comes whole.
type fetchRange struct {
	topic     string
	partition int32
	offset    int64
	most      int32
}

// appendFetch appends a Fetch request of version 11, its length before it. Ranges of a topic stand
// together. Fetch sessions, racks and isolation of transactions are not used.
//
// Why the library's own fetch does not serve is said at Reader. id comes back with the answer,
// wait is how long the broker may hold it back while it has less than least; least and most are in
// bytes of the whole answer.
func appendFetch(b []byte, id int32, client string, wait time.Duration, least, most int32, ranges ...fetchRange) []byte {
	be, start := binary.BigEndian, len(b)
	text := func(s string) {
		b = be.AppendUint16(b, uint16(len(s)))
		b = append(b, s...)
	}
	b = be.AppendUint32(b, 0) // length, below
	// Version 11 is the last before Kafka's compact encoding and is understood from 2.3 on.
	b = be.AppendUint16(b, 1) // Fetch
	b = be.AppendUint16(b, fetchVersion)
	b = be.AppendUint32(b, uint32(id))
	text(client)
	b = be.AppendUint32(b, ^uint32(0)) // not a replica
	b = be.AppendUint32(b, uint32(wait.Milliseconds()))
	b = be.AppendUint32(b, uint32(least))
	b = be.AppendUint32(b, uint32(most))
	b = append(b, 0)                   // read uncommitted
	b = be.AppendUint32(b, 0)          // no session
	b = be.AppendUint32(b, ^uint32(0)) // nor a new one
	topics := len(b)
	b = be.AppendUint32(b, 0) // topics, below
	for n := 0; len(ranges) > 0; {
		same := 1
		for same < len(ranges) && ranges[same].topic == ranges[0].topic {
			same++
		}
		text(ranges[0].topic)
		b = be.AppendUint32(b, uint32(same))
		for _, r := range ranges[:same] {
			b = be.AppendUint32(b, uint32(r.partition))
			// With an epoch the broker would refuse a reader that has not heard of a new leader;
			// without one the reader finds out by NotLeaderForPartition.
			b = be.AppendUint32(b, ^uint32(0)) // leader epoch not known
			b = be.AppendUint64(b, uint64(r.offset))
			b = be.AppendUint64(b, ^uint64(0)) // not a replica's log start
			b = be.AppendUint32(b, uint32(r.most))
		}
		ranges = ranges[same:]
		n++
		be.PutUint32(b[topics:], uint32(n))
	}
	b = be.AppendUint32(b, 0) // forgotten topics
	text("")                  // rack
	be.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

// fetchAnswer is the answer to a Fetch request, of which parts are still to be read.
type fetchAnswer struct {
	id       int32
	throttle time.Duration // how long the broker will not listen to this client
	code     int16         // Kafka's error code for the whole; it has no parts then
	rest     fields
	topics   int32 // that are still to come
	left     int32 // parts of topic that are still to come
	topic    []byte
}

// fetchedPart is the part of an answer about one partition.
//
// topic and batches alias the parsed bytes.
type fetchedPart struct {
	topic     []byte
	partition int32
	code      int16 // Kafka's error code
	high      int64 // high watermark
	batches   []byte
}

var errAnswer = errors.New("the broker's answer is no answer to a fetch")

// length reads how many bytes the answer has that comes next.
func (l *link) length() (int, error) {
	var head [4]byte
	if _, err := io.ReadFull(l, head[:]); err != nil {
		return 0, err
	}
	n := int(int32(binary.BigEndian.Uint32(head[:])))
	if n < 0 {
		return 0, errAnswer
	}
	return n, nil
}

// parseFetch reads the head of an answer without its length.
func parseFetch(b []byte) (fetchAnswer, error) {
	a := fetchAnswer{rest: fields{b: b}}
	f := &a.rest
	a.id = f.int32()
	a.throttle = time.Duration(f.int32()) * time.Millisecond
	// An error of the whole answer; nothing is read behind it.
	if a.code = f.int16(); a.code != 0 {
		return a, f.err()
	}
	f.int32() // session
	a.topics = f.int32()
	return a, f.err()
}

// next reads the next part; false without one. The answer may be incomplete: then batches holds
// what has arrived of the last part.
//
// A Reader has an incomplete one when it reads only the head of an answer that is too large,
// see exchange. The first batch then shows where it ends.
func (a *fetchAnswer) next() (p fetchedPart, ok bool, err error) {
	f := &a.rest
	for a.left <= 0 {
		if a.topics <= 0 {
			return p, false, f.err()
		}
		a.topics--
		a.topic = f.take(int(f.int16()))
		a.left = f.int32()
		if f.bad {
			return p, false, f.err()
		}
	}
	a.left--
	p.topic, p.partition = a.topic, f.int32()
	p.code = f.int16()
	p.high = f.int64()
	f.int64() // last stable offset
	f.int64() // log start
	// Brokers list aborted transactions only for readers of committed records. The count is not
	// trusted: reading stops with the bytes.
	for range max(0, f.int32()) {
		f.int64() // producer of an aborted transaction
		f.int64() // its first offset
		if f.bad {
			break
		}
	}
	f.int32() // replica to be read from
	n := f.int32()
	if err := f.err(); err != nil {
		return p, false, err
	}
	// n is what the broker sent, and less than that may be here.
	p.batches = f.take(min(len(f.b), max(0, int(n))))
	return p, true, nil
}

// only reads the only part of an answer.
func (a *fetchAnswer) only() (fetchedPart, error) {
	p, ok, err := a.next()
	if err == nil && (!ok || a.left != 0 || a.topics != 0) {
		err = errAnswer
	}
	return p, err
}

// fields takes big-endian numbers off the front of b, and zeros once b is too short.
//
// So a parser reads on to its end and asks err once.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) take(n int) []byte {
	// At most eight bytes of zeros, which is what the widest number takes; a count that says
	// more allocates nothing.
	if n < 0 || n > len(f.b) {
		f.bad, f.b = true, nil
		return make([]byte, 8)[:min(8, max(0, n))]
	}
	p := f.b[:n]
	f.b = f.b[n:]
	return p
}

func (f *fields) int16() int16 { return int16(binary.BigEndian.Uint16(f.take(2))) }
func (f *fields) int32() int32 { return int32(binary.BigEndian.Uint32(f.take(4))) }
func (f *fields) int64() int64 { return int64(binary.BigEndian.Uint64(f.take(8))) }

func (f *fields) err() error {
	if f.bad {
		return errAnswer
	}
	return nil
}
