package kafka

import (
	"encoding/binary"
	"errors"
	"time"
)

// appendFetch appends a Fetch request of version 11 for one partition, its length
// before it. Fetch sessions, racks and isolation of transactions are not used.
//
// Why the library's own fetch does not serve is said at Reader. id comes back with the answer,
// wait is how long the broker may hold it back while it has less than least; least and most are in bytes.
func appendFetch(b []byte, id int32, client, topic string, partition int32, offset int64, wait time.Duration, least, most int32) []byte {
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
	// The same bound for the answer and for the partition, which is the only one. A first
	// batch that is larger comes all the same.
	b = be.AppendUint32(b, uint32(most))
	b = append(b, 0)                   // read uncommitted
	b = be.AppendUint32(b, 0)          // no session
	b = be.AppendUint32(b, ^uint32(0)) // nor a new one
	b = be.AppendUint32(b, 1)          // topics
	text(topic)
	b = be.AppendUint32(b, 1) // partitions
	b = be.AppendUint32(b, uint32(partition))
	// With an epoch the broker would refuse a reader that has not heard of a new leader;
	// without one the reader finds out by NotLeaderForPartition.
	b = be.AppendUint32(b, ^uint32(0)) // leader epoch not known
	b = be.AppendUint64(b, uint64(offset))
	b = be.AppendUint64(b, ^uint64(0)) // not a replica's log start
	b = be.AppendUint32(b, uint32(most))
	b = be.AppendUint32(b, 0) // forgotten topics
	text("")                  // rack
	be.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

// fetched is the answer to a Fetch request.
//
// batches aliases the bytes that were parsed.
type fetched struct {
	id       int32
	throttle time.Duration // how long the broker will not listen to this client
	code     int16         // Kafka's error code
	high     int64         // high watermark
	batches  []byte
}

var errAnswer = errors.New("the broker's answer is no answer to a fetch")

// parseFetch reads the answer without its length. Only the beginning of it may be
// there: then batches is what there is of them.
//
// The second is what a Reader has when it reads only the head of an answer that is too large,
// see exchange: the first batch then tells where it ends.
func parseFetch(b []byte) (fetched, error) {
	f := fields{b: b}
	a := fetched{id: f.int32()}
	a.throttle = time.Duration(f.int32()) * time.Millisecond
	// An error of the whole answer; nothing is read behind it.
	if code := f.int16(); code != 0 {
		a.code = code
		return a, f.err()
	}
	f.int32() // session
	if f.int32() != 1 {
		return a, errAnswer // topics
	}
	f.take(int(f.int16())) // topic
	if f.int32() != 1 {
		return a, errAnswer // partitions
	}
	f.int32() // partition
	a.code = f.int16()
	a.high = f.int64()
	f.int64() // last stable offset
	f.int64() // log start
	// Brokers list aborted transactions only to who reads committed records. The count is not
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
		return a, err
	}
	// n is what the broker sent, and less than that may be here.
	a.batches = f.b[:min(len(f.b), max(0, int(n)))]
	return a, nil
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
