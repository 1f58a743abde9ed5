// Package mark records in a small file how far data is safely on disk. A log whose end is cut off, emptied or replaced
// looks like one that was never longer; comparing it with its mark shows the difference.
package mark

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
)

// Range is what has to be there: what has a number from From on and before To.
type Range struct{ From, To uint64 }

// Mark is an open mark. It is for one goroutine at a time.
type Mark struct{ file *os.File }

// ErrDamaged says that a mark is not what was written.
var ErrDamaged = errors.New("the mark is damaged: whether what it is about is whole cannot be told")

var table = crc32.MakeTable(crc32.Castagnoli)

const (
	// The whole is 28 bytes, so a write is within one block of any disk.
	magic = "weirmark"
	size  = len(magic) + 2*8 + crc32.Size
)

// Open opens the mark in a file, which it makes, and returns what it says; a new one says
// nothing. A mark that is damaged is ErrDamaged and open all the same: Set writes it anew.
func Open(path string) (m *Mark, r Range, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, r, fmt.Errorf("open mark: %w", err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, r, errors.Join(fmt.Errorf("open mark: %w", err), f.Close())
	}
	m = &Mark{f}
	if len(b) == 0 {
		return m, r, nil
	}
	if r, err = parse(b); err != nil {
		return m, r, fmt.Errorf("%s: %w", path, err)
	}
	return m, r, nil
}

// parse reads what Set has written, or says ErrDamaged.
func parse(b []byte) (r Range, err error) {
	if len(b) != size || string(b[:len(magic)]) != magic ||
		crc32.Checksum(b[:size-crc32.Size], table) != binary.LittleEndian.Uint32(b[size-crc32.Size:]) {
		return r, ErrDamaged
	}
	return Range{binary.LittleEndian.Uint64(b[len(magic):]), binary.LittleEndian.Uint64(b[len(magic)+8:])}, nil
}

// Set notes what is safe. It does not wait for the disk: after a loss of power the mark may
// say less than there is, and never more, when what it is about was synced before.
func (m *Mark) Set(r Range) error {
	b := make([]byte, 0, size)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint64(b, r.From)
	b = binary.LittleEndian.AppendUint64(b, r.To)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, table))
	if err := put(m.file, b); err != nil {
		return fmt.Errorf("write mark: %w", err)
	}
	return nil
}

// Close syncs the mark and closes it.
// A nil Mark, as of a store in memory, has nothing to close.
func (m *Mark) Close() error {
	if m == nil {
		return nil
	}
	return errors.Join(m.file.Sync(), m.file.Close())
}
