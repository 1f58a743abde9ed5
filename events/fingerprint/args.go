package fingerprint

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"weir/events"
)

// Args returns the xxh64 of the arguments of a call in their canonical form, so
// that neither the order of keys nor white space nor the spelling of a number or a
// character makes two calls differ. Top-level keys named in ignore are left out.
//
// Arguments that came as a JSON string which holds an object or an array are taken
// for that object or array; what is not JSON at all is taken for a string. Nothing
// but white space gives the zero Hash: not known.
func Args(raw []byte, ignore []string) events.Hash {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return events.Hash{}
	}
	if len(ignore) == 0 && isCanonical(raw) {
		return hashOf(raw)
	}
	var room [1024]byte
	return hashOf(AppendCanonical(room[:0], raw, ignore))
}

// ArgsSHA256 is Args by SHA-256, for those who meet hashes that others make: SHA-256 of a
// canonical form is what clients can be expected to have.
func ArgsSHA256(raw []byte, ignore []string) events.Hash {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return events.Hash{}
	}
	sum := sha256.Sum256(AppendCanonical(nil, raw, ignore))
	return events.Hash{Algorithm: events.SHA256, Value: binary.BigEndian.Uint64(sum[:])}
}

func hashOf(p []byte) events.Hash {
	return events.Hash{Algorithm: events.XXH64, Value: xxhash.Sum64(p)}
}
