package recordbatch

import (
	"hash/crc32"

	kafkago "github.com/segmentio/kafka-go"

	"weir/events"
)

// Record is one record of a partition.
//
// Read, its bytes belong to the Decoder and the answer that the batch came in; written, they
// are only read.
type Record struct {
	Offset int64
	// A zero Time is given the present one by Encode.
	Time events.Stamp // the broker's if the topic has message.timestamp.type=LogAppendTime, else the producer's
	// A key decides the partition, and in a compacted topic what a record replaces; a nil
	// Value deletes there.
	Key     []byte // nil: none, unlike an empty one
	Value   []byte // nil: none, unlike an empty one
	Headers []kafkago.Header
}

// Where the fields of a batch's head stand.
//
// All numbers are big-endian.
const (
	atLength    = 8 // of what follows this field
	atLeader    = 12
	atMagic     = 16
	atCRC       = 17
	atCodec     = 21 // the checksum covers everything from here on
	atLastDelta = 23
	atFirstTime = 27
	atMaxTime   = 35
	atProducer  = 43
	atEpoch     = 51
	atSequence  = 53
	atCount     = 57
)

// HeadSize is how many bytes stand before the records of a batch.
//
// Records follow it, compressed as a whole if they are.
const HeadSize = 61

// castagnoli is the polynomial of CRC-32C, which processors compute.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)
