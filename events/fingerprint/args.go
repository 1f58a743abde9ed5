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
//
// The value of the hash is part of the log: another canonical form would make calls of before
// and after differ.
//
// ignore is for arguments that differ in each call and mean nothing, such as a token of the
// moment; the names are compared as they are.
func Args(raw []byte, ignore []string) events.Hash {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return events.Hash{}
	}
	// Most producers send canonical JSON already, and a look costs less than writing it anew.
	if len(ignore) == 0 && isCanonical(raw) {
		return hashOf(raw)
	}
	// The canonical form is seldom longer.
	return hashOf(AppendCanonical(make([]byte, 0, len(raw)), raw, ignore))
}

// ArgsSHA256 is Args by SHA-256, for those who meet hashes that others make: SHA-256 of a
// canonical form is what clients can be expected to have.
//
// A verdict with it is matched by a dispatcher that hashes with its standard library (decision
// 12).
func ArgsSHA256(raw []byte, ignore []string) events.Hash {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return events.Hash{}
	}
	sum := sha256.Sum256(AppendCanonical(nil, raw, ignore))
	// The first 64 bits, as of every hash.
	return events.Hash{Algorithm: events.SHA256, Value: binary.BigEndian.Uint64(sum[:])}
}

// hashOf is of what was made canonical or folded before.
func hashOf(p []byte) events.Hash {
	return events.Hash{Algorithm: events.XXH64, Value: xxhash.Sum64(p)}
}
