package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A stored value is a version byte, a CRC-32C, and the content. The checksum covers
// the content and then the key, so that a value which was moved to another key by
// damage is told as well as one that was changed. Badger's own checksums guard
// blocks of tables at open only; these guard each value whenever it is read.
const (
	valueVersion = 1
	sealBytes    = 1 + crc32.Size
)

// newValue returns a value with room for the seal and n bytes of content.
func newValue(n int) []byte { return make([]byte, sealBytes, sealBytes+n) }

// seal completes v, whose content begins at sealBytes.
func seal(v, key []byte) {
	v[0] = valueVersion
	binary.BigEndian.PutUint32(v[1:], checksum(v[sealBytes:], key))
}

// unseal returns the content of v, or an error when v is not what was stored under key.
func unseal(v, key []byte) ([]byte, error) {
	if len(v) < sealBytes {
		return nil, fmt.Errorf("value has only %d bytes", len(v))
	}
	if v[0] != valueVersion {
		return nil, fmt.Errorf("value has the unknown version %d", v[0])
	}
	if binary.BigEndian.Uint32(v[1:]) != checksum(v[sealBytes:], key) {
		return nil, errors.New("checksum does not match")
	}
	return v[sealBytes:], nil
}

func checksum(content, key []byte) uint32 {
	t := crc32.MakeTable(crc32.Castagnoli) // made once by the package, then a look-up
	return crc32.Update(crc32.Checksum(content, t), t, key)
}

// decoder takes a content apart. After the first thing that does not fit it
// returns zero values, and err says what was missing.
type decoder struct {
	rest []byte
	err  error
}

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

func appendBytes[T string | []byte](dst []byte, b T) []byte {
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}
