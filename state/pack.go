package state

import (
	"encoding/binary"
	"slices"
)

// Records are full of numbers of a fixed width, of which two bytes in five are zero, and each record
// is written several times: to the log of its memtable, to the memtable, to a table, and when tables
// are merged. So they are stored as Cap'n Proto packs its messages, but for its runs: before each
// eight bytes stands one whose bits say which of them are not zero, and only those follow it.

// packedRoom is what a packed word is written into, whatever is left of it.
const packedRoom = 16

// appendPacked appends b to dst, packed. It takes an eighth more than b at most.
func appendPacked(dst, b []byte) []byte {
	n := len(dst)
	dst = slices.Grow(dst, len(b)+len(b)/8+packedRoom)
	dst = dst[:cap(dst)]
	for ; len(b) >= 8; b = b[8:] {
		n += packWord((*[packedRoom]byte)(dst[n:]), binary.LittleEndian.Uint64(b))
	}
	if len(b) > 0 {
		var last [8]byte
		copy(last[:], b)
		n += packWord((*[packedRoom]byte)(dst[n:]), binary.LittleEndian.Uint64(last[:]))
	}
	return dst[:n]
}

// packWord writes eight bytes packed and returns their packed length. It has no branch, because
// which bytes are zero is not predictable.
func packWord(to *[packedRoom]byte, word uint64) int {
	// The highest bit of each byte that is not zero, and these eight bits side by side.
	const low = 0x7f7f7f7f7f7f7f7f
	some := ((word&low + low) | word) &^ low
	to[0] = byte(some >> 7 * 0x0102040810204080 >> 56)
	// Each byte is written behind the last that is not zero, so that one that is zero is written over.
	at := uint(1)
	some >>= 7
	for range 8 {
		to[at%packedRoom] = byte(word)
		at += uint(some & 1)
		word, some = word>>8, some>>8
	}
	return int(at)
}

// unpack fills dst with what is packed in b; false when b does not hold just as much.
func unpack(dst, b []byte) bool {
	for len(dst) > 0 && len(b) > 0 {
		tag, word := b[0], dst[:min(8, len(dst))]
		b = b[1:]
		for i := range word {
			word[i] = 0
			if tag>>i&1 == 0 {
				continue
			}
			if len(b) == 0 || b[0] == 0 {
				return false
			}
			word[i], b = b[0], b[1:]
		}
		if tag>>len(word) != 0 {
			return false
		}
		dst = dst[len(word):]
	}
	return len(dst) == 0 && len(b) == 0
}
