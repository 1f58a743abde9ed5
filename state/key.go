package state

import (
	"encoding/binary"
	"fmt"

	"weir/events"
)

// MaxKey is the longest key of a record and the longest name of a cursor, in bytes.
const MaxKey = 8 << 10

// The first byte of a key says what it holds. Numbers are big endian, so that
// iteration is in their order. Records are kept under their Subject. The entries of
// logs come before all else; see segment.go.
const (
	entryPrefix  = 1   // segment u32, id of a log, offset u64 -> entry
	formatPrefix = '0' // -> magic and version
	chainPrefix  = 'g' // slot u16 -> nothing; see chain.go
	metaPrefix   = 'm' // partition u16 -> Meta
	duePrefix    = 'd' // partition u16, subject, due u64, key -> nothing
	endPrefix    = 'e' // id of a log -> offset that its next entry gets
	startPrefix  = 's' // segment u32, id of a log -> offset of its first entry there
	cursorPrefix = 'c' // name -> bytes

	partitionBytes = 2
	offsetBytes    = 8
)

// The id of a log is its kind and, except for dead letters, the partition.
const (
	journalKind = 'j'
	verdictKind = 'v'
	deadKind    = 'x'

	maxLogID = 1 + partitionBytes
)

// Subject says what a record is about. The values are part of the format on disk.
type Subject byte

// The subjects.
const (
	FlowSubject  Subject = 'f'
	AgentSubject Subject = 'a'
)

// check refuses what would be written under a key of something else.
func (s Subject) check() error {
	if s != FlowSubject && s != AgentSubject {
		return fmt.Errorf("unknown subject %q", byte(s))
	}
	return nil
}

// String returns the subject's name.
func (s Subject) String() string {
	switch s {
	case FlowSubject:
		return "flow"
	case AgentSubject:
		return "agent"
	}
	return fmt.Sprintf("subject %q", byte(s))
}

// partitionPrefix begins the keys of one kind that a partition has. Since the number has a fixed
// width no prefix is the beginning of another.
func partitionPrefix(first byte, partition uint16) []byte {
	return binary.BigEndian.AppendUint16([]byte{first}, partition)
}

// appendRecordKey appends the key under which a record is stored. The caller's key comes last
// and whole, so it may hold any bytes.
func appendRecordKey(dst []byte, partition uint16, sub Subject, key string) []byte {
	dst = append(dst, byte(sub))
	dst = binary.BigEndian.AppendUint16(dst, partition)
	return append(dst, key...)
}

// recordOverhead and dueOverhead are what the keys of a record take besides its own.
const (
	recordOverhead = 1 + partitionBytes
	dueOverhead    = 1 + partitionBytes + 1 + 8
)

// appendDueKey appends the key of a deadline: by partition, subject and time, and for equal
// times by the record's key, so that iteration gives the order in which deadlines fire.
func appendDueKey(dst []byte, partition uint16, sub Subject, due events.Stamp, key string) []byte {
	dst = append(dst, duePrefix)
	dst = binary.BigEndian.AppendUint16(dst, partition)
	dst = append(dst, byte(sub))
	dst = binary.BigEndian.AppendUint64(dst, uint64(due)^signBit)
	return append(dst, key...)
}

// signBit turned over makes the order of unsigned numbers that of signed ones.
const signBit = 1 << 63

// parseDueKey reads what appendDueKey has written; anything else is ErrDamaged.
func parseDueKey(k []byte) (sub Subject, due events.Stamp, key string, err error) {
	if len(k) < dueOverhead {
		return 0, 0, "", damaged("due index", fmt.Errorf("key %x is too short", k))
	}
	sub = Subject(k[3])
	if err := sub.check(); err != nil {
		return 0, 0, "", damaged("due index", fmt.Errorf("key %x: %w", k, err))
	}
	due = events.Stamp(binary.BigEndian.Uint64(k[4:]) ^ signBit)
	return sub, due, string(k[dueOverhead:]), nil
}
