package kafka

import (
	"hash/maphash"

	"weir/events/kafka/recordbatch"
)

// Message is one record to be written: its Offset is the broker's to give. Without a Time
// it has that at which it is sent; brokers refuse times far ahead of theirs.
type Message = recordbatch.Record

// digest is a hash of the content of messages, without their times: verdicts that are
// published again get a new time.
// It shows whether an Append that is repeated is the same one. The seed is the Producer's,
// since the hash is never stored.
func digest(seed maphash.Seed, msgs []Message) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	part := func(b []byte) {
		// The length first, so that two fields cannot be mistaken for two others with the same
		// bytes.
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
