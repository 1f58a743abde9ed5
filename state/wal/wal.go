// Package wal is a short write-ahead log in one file that is reused from its beginning.
//
// Each group of values begins on a block of its own, so that a write touches no block of what
// was acknowledged before, and the file has its length from the beginning, so that a write changes
// nothing but its blocks.
package wal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"unsafe"

	"github.com/cespare/xxhash/v2"
)

// Log is an open log. It is for one goroutine at a time.
type Log struct {
	path string
	file *os.File // nil as long as nothing was ever appended
	// cached is the file as the system has it in memory; nil as long as nothing was written there.
	cached []byte
	at     int // where the next group begins
	// round is a random number that all groups since the last Reset share. A group of an earlier
	// round is invalid, and a sender cannot forge one.
	round uint64
	group []byte // memory of one group, which the disk reads from
}

// Group is what was appended at one time: values with numbers from First on.
type Group struct {
	First  int64
	Values [][]byte
}

const (
	// Size is the length of the file.
	Size = 2 << 20
	// MostBytes is what a group may take of it. More is better off where it stays.
	MostBytes = 32 << 10

	block  = 4 << 10 // of any disk
	header = 8 + 8 + 8 + 4 + 4
)

// ErrFull says that a group does not fit behind what is there, or that there is no room for the file:
// it goes elsewhere, and Reset comes when all is safe there.
var ErrFull = errors.New("the write-ahead log is full")

// Open opens the log in a file and returns the groups of its last round, in order. What is behind
// a group that a crash has torn was never acknowledged. There is no file before the first Append.
func Open(path string) (*Log, []Group, error) {
	l := &Log{path: path}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		l.Reset()
		return l, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open write-ahead log: %w", err)
	}
	var groups []Group
	for {
		g, round, size, ok := parse(b[min(l.at, len(b)):])
		if n := len(groups); !ok || n > 0 && (round != l.round || g.First != groups[n-1].First+int64(len(groups[n-1].Values))) {
			break
		}
		groups, l.round, l.at = append(groups, g), round, l.at+size
	}
	if groups == nil {
		l.Reset()
	}
	if err := l.open(len(b)); err != nil {
		return nil, nil, err
	}
	// The system may have groups that the disk has not: what is appended behind them would be lost
	// with them.
	if groups != nil {
		if err := l.file.Sync(); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("open write-ahead log: %w", err), l.Close())
		}
	}
	return l, groups, nil
}

// open opens the file, which has length bytes, and extends it to its full length.
func (l *Log) open(length int) error {
	l.group = aligned(MostBytes)
	err := l.openBy(direct, length)
	if direct != 0 && errors.Is(err, syscall.EINVAL) { // the file system cannot, or not by such blocks
		err = l.openBy(0, length)
	}
	return err
}

// openBy opens the file with a flag of the system.
func (l *Log) openBy(flag, length int) (err error) {
	if l.file, err = os.OpenFile(l.path, os.O_RDWR|os.O_CREATE|synced|flag, 0o600); err != nil {
		return fmt.Errorf("open write-ahead log: %w", err)
	}
	if from := length / block * block; from < Size {
		if _, err = l.file.WriteAt(aligned(Size-from), int64(from)); err == nil {
			err = SyncDirectory(filepath.Dir(l.path)) // or a power cut may take the file
		}
	}
	if err == nil { // that what is read and written so can be, is known from here on
		_, err = l.file.ReadAt(l.group[:block], 0)
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("make room for the write-ahead log: %w", err), l.Close())
		l.file = nil
	}
	return err
}

// aligned is memory as the disk reads it without a copy.
func aligned(n int) []byte {
	b := make([]byte, n+block)
	from := -int(uintptr(unsafe.Pointer(&b[0]))) & (block - 1)
	return b[from : from+n]
}

// SyncDirectory makes what was created or removed in a directory outlast a loss of power.
func SyncDirectory(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Append returns when a group is on the disk. After ErrFull nothing was written. After any other
// error it is unknown whether the group was written.
func (l *Log) Append(g Group) error { return l.append(g, l.write) }

// AppendUnsynced is Append, but returns when the system has the group: the end of the process takes
// nothing of it, a loss of power may, and with it what is appended behind it before the next Reset.
func (l *Log) AppendUnsynced(g Group) error { return l.append(g, l.copy) }

func (l *Log) append(g Group, write func([]byte) error) error {
	if l.file == nil {
		if err := l.open(0); err != nil { // nothing was promised yet: a full disk, say
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
	}
	b := appendGroup(l.group[:0], g, l.round)
	if len(b) > MostBytes || l.at+len(b) > Size {
		return ErrFull
	}
	if err := write(b); err != nil {
		return fmt.Errorf("write ahead: %w", err)
	}
	l.at += len(b)
	return nil
}

// write returns when the disk has blocks.
func (l *Log) write(b []byte) error {
	_, err := l.file.WriteAt(b, int64(l.at))
	return err
}

// copy returns when the system has blocks. A call of it for each would wake a thread of the runtime,
// which takes longer than the copy.
func (l *Log) copy(b []byte) (err error) {
	if l.cached == nil {
		if l.cached, err = syscall.Mmap(int(l.file.Fd()), 0, Size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED); err != nil {
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
	}
	// A truncated file, or a disk that rejects the write, must end this call and not the process.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("the file cannot be written to: %v", fault)
		}
	}()
	copy(l.cached[l.at:], b)
	return nil
}

// Empty reports whether nothing was appended since the last Reset.
func (l *Log) Empty() bool { return l.at == 0 }

// Reset lets the next group be the first one: all that was appended is safe elsewhere.
func (l *Log) Reset() {
	var round [8]byte
	_, _ = rand.Read(round[:]) // which has no error
	l.at, l.round = 0, binary.LittleEndian.Uint64(round[:])
}

// Close closes the file. A nil Log has nothing to close.
func (l *Log) Close() error {
	if l == nil || l.file == nil {
		return nil
	}
	err := l.file.Close()
	if l.cached != nil {
		err = errors.Join(err, syscall.Munmap(l.cached))
		l.cached = nil
	}
	return err
}

// appendGroup appends whole blocks, whose beginning says what they are.
func appendGroup(b []byte, g Group, round uint64) []byte {
	b = append(b, zeros[:header]...)
	for _, v := range g.Values {
		b = binary.AppendUvarint(b, uint64(len(v)))
		b = append(b, v...)
	}
	size := len(b)
	b = append(b, zeros[:-size&(block-1)]...)
	binary.LittleEndian.PutUint64(b[8:], round)
	binary.LittleEndian.PutUint64(b[16:], uint64(g.First))
	binary.LittleEndian.PutUint32(b[24:], uint32(len(g.Values)))
	binary.LittleEndian.PutUint32(b[28:], uint32(size))
	binary.LittleEndian.PutUint64(b, sum(b[:size]))
	return b
}

var zeros [block]byte

// sum covers all of a group except itself and the rest of the last block.
func sum(group []byte) uint64 { return xxhash.Sum64(group[8:]) }

// parse reads what appendGroup has written, and returns how long that is. Its values point into b.
func parse(b []byte) (g Group, round uint64, length int, ok bool) {
	if len(b) < header {
		return g, 0, 0, false
	}
	size := int(binary.LittleEndian.Uint32(b[28:]))
	length = (size + block - 1) / block * block
	if size < header || length > len(b) || binary.LittleEndian.Uint64(b) != sum(b[:size]) {
		return g, 0, 0, false
	}
	g.First = int64(binary.LittleEndian.Uint64(b[16:]))
	rest := b[header:size]
	for range binary.LittleEndian.Uint32(b[24:]) {
		n, head := binary.Uvarint(rest)
		if head <= 0 || n > uint64(len(rest)-head) {
			return g, 0, 0, false
		}
		g.Values = append(g.Values, rest[head:head+int(n):head+int(n)])
		rest = rest[head+int(n):]
	}
	return g, binary.LittleEndian.Uint64(b[8:]), length, len(rest) == 0 && g.First >= 0
}
