package kafka

import (
	"hash/maphash"

	kafkago "github.com/segmentio/kafka-go"

	"weir/events"
)

// Message is one record to be written. A nil Key or Value is written as null.
type Message struct {
	Key, Value []byte
	Headers    []kafkago.Header
	Time       events.Stamp // zero: when it is sent; brokers refuse times far ahead of theirs
}

// digest is a hash of what messages say, without their times: verdicts that are
// published again get a new time.
func digest(seed maphash.Seed, msgs []Message) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	part := func(b []byte) {
		maphash.WriteComparable(&h, len(b))
		_, _ = h.Write(b)
	}
	for i := range msgs {
		m := &msgs[i]
		part(m.Key)
		part(m.Value)
		maphash.WriteComparable(&h, len(m.Headers))
		for j := range m.Headers {
			part([]byte(m.Headers[j].Key))
			part(m.Headers[j].Value)
		}
	}
	return h.Sum64()
}
