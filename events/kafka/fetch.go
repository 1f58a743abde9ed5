package kafka

import (
	"encoding/binary"
	"errors"
	"time"
)

// appendFetch appends a Fetch request of version 11 for one partition, its length
// before it. Fetch sessions, racks and isolation of transactions are not used.
func appendFetch(b []byte, id int32, client, topic string, partition int32, offset int64, wait time.Duration, most int32) []byte {
	be, start := binary.BigEndian, len(b)
	text := func(s string) {
		b = be.AppendUint16(b, uint16(len(s)))
		b = append(b, s...)
	}
	b = be.AppendUint32(b, 0) // length, below
	b = be.AppendUint16(b, 1) // Fetch
	b = be.AppendUint16(b, fetchVersion)
	b = be.AppendUint32(b, uint32(id))
	text(client)
	b = be.AppendUint32(b, ^uint32(0)) // not a replica
	b = be.AppendUint32(b, uint32(wait.Milliseconds()))
	b = be.AppendUint32(b, 1) // bytes for which an answer is worth it
	b = be.AppendUint32(b, uint32(most))
	b = append(b, 0)                   // read uncommitted
	b = be.AppendUint32(b, 0)          // no session
	b = be.AppendUint32(b, ^uint32(0)) // nor a new one
	b = be.AppendUint32(b, 1)          // topics
	text(topic)
	b = be.AppendUint32(b, 1) // partitions
	b = be.AppendUint32(b, uint32(partition))
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
func parseFetch(b []byte) (fetched, error) {
	f := fields{b: b}
	a := fetched{id: f.int32()}
	a.throttle = time.Duration(f.int32()) * time.Millisecond
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
	a.batches = f.b[:min(len(f.b), max(0, int(n)))]
	return a, nil
}

// fields takes big-endian numbers off the front of b, and zeros once b is too short.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) take(n int) []byte {
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
