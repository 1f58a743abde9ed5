package jsonl

import (
	"hash/fnv"
	"io"
	"os"
	"syscall"
)

// Position is a place in a file, with what distinguishes that file from another of the same
// name. The zero Position is the beginning of any file.
//
// It is stored as JSON, so the names of its members must not change.
type Position struct {
	// Device and inode recognise a renamed file; the hash recognises one whose inode was
	// reused.
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Head   uint64 `json:"head"` // hash of the first bytes
	// Fewer than headBytes in a file that is shorter, of which more is hashed as it grows.
	Hashed int64 `json:"head_bytes"` // how many they are
	Offset int64 `json:"offset"`     // of the first byte that was not read
}

// headBytes is how much of the beginning of a file is hashed. Logs begin with times
// and ids, so a few hundred bytes distinguish them.
const headBytes = 1024

// identify returns the position at the beginning of an open file.
//
// Its Offset is 0.
func identify(f *os.File) (Position, error) {
	st, err := f.Stat()
	if err != nil {
		return Position{}, err
	}
	p := ofInode(st)
	p.Head, p.Hashed, err = hashHead(f, headBytes)
	return p, err
}

// ofInode is the zero Position on systems without inodes.
func ofInode(st os.FileInfo) Position {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return Position{}
	}
	return Position{Device: uint64(sys.Dev), Inode: sys.Ino}
}

// hashHead hashes the first n bytes of a file, or fewer if it is shorter.
//
// FNV is enough: making two logs begin alike gains nothing.
func hashHead(f *os.File, n int64) (sum uint64, hashed int64, err error) {
	h := fnv.New64a()
	hashed, err = io.Copy(h, io.NewSectionReader(f, 0, n))
	return h.Sum64(), hashed, err
}

// begins reports whether the file begins as the one of the position did.
//
// It compares as many bytes as were hashed then, however many there are by now.
func (p Position) begins(f *os.File) (bool, error) {
	sum, hashed, err := hashHead(f, p.Hashed)
	return hashed == p.Hashed && sum == p.Head, err
}

func (p Position) sameInode(q Position) bool { return p.Device == q.Device && p.Inode == q.Inode }
