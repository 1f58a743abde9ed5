package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"weir/events"
)

// A stored value is a version byte, a CRC-32C, and the content. The checksum covers
// the content and the key, so a value that damage moved to another key is detected as
// well as a changed one. Badger's own checksums protect blocks of tables at open only;
// these protect each value at each read.
//
// Since format 2 the content of a record begins with its deadline, and its version is
// recordVersion. Since format 3 it is packedVersion where that is shorter: then the length of the
// record follows the deadline, and the record is packed. No checksum covers the version, so any two
// differ in two bits.
const (
	valueVersion  = 1
	recordVersion = 2
	packedVersion = 4
	sealBytes     = 1 + crc32.Size
	dueBytes      = 8
)

// newValue returns a value with room for the seal and n bytes of content.
// The seal is filled in by seal, once the content is complete and the key is known.
func newValue(n int) []byte { return make([]byte, sealBytes, sealBytes+n) }

// seal completes v, whose content begins at sealBytes.
func seal(v, key []byte) {
	v[0] = max(v[0], valueVersion) // a record has its own
	binary.BigEndian.PutUint32(v[1:], checksum(v[sealBytes:], key))
}

// unseal returns the content of v, or an error when v is not what was stored under key.
func unseal(v, key []byte) ([]byte, error) {
	if len(v) < sealBytes {
		return nil, fmt.Errorf("value has only %d bytes", len(v))
	}
	// The version first: the checksum of a format that is unknown cannot be known either.
	if v[0] != valueVersion && v[0] != recordVersion && v[0] != packedVersion {
		return nil, fmt.Errorf("value has the unknown version %d", v[0])
	}
	if binary.BigEndian.Uint32(v[1:]) != checksum(v[sealBytes:], key) {
		return nil, errors.New("checksum does not match")
	}
	return v[sealBytes:], nil
}

// appendRecord appends the value of a record with a deadline, without its seal, to what is empty. It
// is never longer than the record, dueBytes and sealBytes. What it is packed in is memory that is
// used again.
func appendRecord(v []byte, due events.Stamp, record []byte, memory *[]byte) []byte {
	packed := appendPacked(binary.AppendUvarint((*memory)[:0], uint64(len(record))), record)
	*memory = packed
	version := byte(recordVersion)
	if len(packed) < len(record) {
		version, record = packedVersion, packed
	}
	v = append(v, version)
	v = append(v, make([]byte, crc32.Size)...)
	v = binary.BigEndian.AppendUint64(v, uint64(due))
	return append(v, record...)
}

// unsealRecord returns a record and its deadline; DueUnknown when it was written before
// format 2. The record is in v or, when it was packed, in memory, which grows as it must.
func unsealRecord(v, key []byte, memory *[]byte) (record []byte, due events.Stamp, err error) {
	content, err := unseal(v, key)
	switch {
	case err != nil:
		return nil, 0, err
	case v[0] == valueVersion:
		return content, DueUnknown, nil
	case len(content) < dueBytes:
		return nil, 0, fmt.Errorf("record has only %d bytes", len(content))
	}
	record, due = content[dueBytes:], events.Stamp(binary.BigEndian.Uint64(content))
	if v[0] == recordVersion {
		return record, due, nil
	}
	size, n := binary.Uvarint(record)
	packed := record[max(0, n):]
	// A byte says of eight at most what they are.
	if n <= 0 || size > 8*uint64(len(packed)) {
		return nil, 0, errors.New("record does not say how long it is")
	}
	record = slices.Grow((*memory)[:0], int(size))[:size]
	*memory = record
	if !unpack(record, packed) {
		return nil, 0, fmt.Errorf("record of %d bytes does not unpack", size)
	}
	return record, due, nil
}

// checksum covers the content and then the key, without putting the two together.
func checksum(content, key []byte) uint32 {
	t := crc32.MakeTable(crc32.Castagnoli) // made once by the package, then a look-up
	return crc32.Update(crc32.Checksum(content, t), t, key)
}

// decoder takes a content apart. After the first thing that does not fit it
// returns zero values, and err says what was missing.
// So a caller reads all its fields and looks at err once.
type decoder struct {
	rest []byte
	err  error
}

// int reads a number of variable length; what names it in the error.
func (d *decoder) int(what string) int64 {
	if d.err != nil {
		return 0
	}
	n, size := binary.Varint(d.rest)
	if size <= 0 {
		d.err = fmt.Errorf("%s is missing", what)
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// bytes returns a slice of the content, not a copy.
func (d *decoder) bytes(what string) []byte {
	n := d.int(what)
	if d.err == nil && (n < 0 || n > int64(len(d.rest))) {
		d.err = fmt.Errorf("%s has a length of %d where %d bytes are left", what, n, len(d.rest))
	}
	if d.err != nil {
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

// appendBytes appends a length and then the bytes, as decoder.bytes reads them.
func appendBytes[T string | []byte](dst []byte, b T) []byte {
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}
