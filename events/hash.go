package events

import (
	"fmt"
	"math/bits"
	"strings"

	"weir/events/jsontext"
)

// HashAlgorithm names what made a Hash. Hashes of unlike algorithms are never equal.
//
// Stored orders hold the number, so a new algorithm comes at the end.
type HashAlgorithm uint8

// The algorithms that producers may use.
const (
	HashNone HashAlgorithm = iota
	XXH64
	SHA256
	SHA1
	MD5
	BLAKE3
	SHA512
	hashCount
)

// hashNames stand at the places of the constants.
var hashNames = [...]string{"", "xxh64", "sha256", "sha1", "md5", "blake3", "sha512"}

// String returns the algorithm as it stands before the colon.
func (a HashAlgorithm) String() string { return nameOf(hashNames[:], uint8(a)) }

// Hash is the first 64 bits of a content hash and what made it, whatever its length (decision
// 12). The zero Hash means "not known"; whoever compares two hashes asks IsZero first, because
// two that are not known are not the same content.
type Hash struct {
	Algorithm HashAlgorithm
	Value     uint64
}

// EmptyContent is the hash of a result that is known to be empty: xxh64 of nothing.
var EmptyContent = Hash{Algorithm: XXH64, Value: 0xef46db3751d8e999}

// DoneContent is the hash of a result that says no more than that the call was made, such as "The
// file has been updated": xxh64 of the word done.
var DoneContent = Hash{Algorithm: XXH64, Value: 0x2d9f951f9452251b}

// IsZero reports whether no hash is known.
func (h Hash) IsZero() bool { return h.Algorithm == HashNone }

// String returns algorithm:hex with the 16 digits that weir keeps. A longer hash
// of the same algorithm that begins with these digits is the same hash.
func (h Hash) String() string {
	if h.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s:%016x", h.Algorithm, h.Value)
}

// ParseHash reads algorithm:hex with 16 to 128 hex digits; digits after the 16th are dropped.
// It fails on an unknown algorithm, upper-case or missing digits. The first digits are kept,
// so that what weir prints is how the producer's own hash begins.
func ParseHash(s string) (Hash, error) {
	name, digits, ok := strings.Cut(s, ":")
	if !ok {
		return Hash{}, fmt.Errorf("hash %q: want algorithm:hex, for example xxh64:0123456789abcdef", cut(s))
	}
	a, ok := indexOf(hashNames[:], name)
	if !ok || a == 0 {
		return Hash{}, fmt.Errorf("hash algorithm %q: want one of %s", cut(name), strings.Join(hashNames[1:], ", "))
	}
	// The digits that are dropped are checked as well: a text that is not hex to its end is no
	// hash, whatever it begins with.
	v, ok := hex16(digits)
	if !ok || len(digits) > 128 || !lowerHex(digits[16:]) {
		return Hash{}, fmt.Errorf("hash %q: want 16 to 128 lower-case hex digits after the colon", cut(s))
	}
	return Hash{HashAlgorithm(a), v}, nil
}

// Fingerprint is a 64-bit similarity hash. The zero Fingerprint means "not known".
type Fingerprint struct {
	Algorithm FingerprintAlgorithm
	Value     uint64
}

// FingerprintAlgorithm names what made a Fingerprint.
type FingerprintAlgorithm uint8

// The algorithms. Simhash64 is over lower-cased words and word pairs of the first
// 1,500 words.
const (
	FingerprintNone FingerprintAlgorithm = iota
	Simhash64
)

// A second algorithm would need a bound of its own in the place of NearBits.
var fingerprintNames = [...]string{"", "simhash64"}

// String returns the algorithm as it stands before the colon.
func (a FingerprintAlgorithm) String() string { return nameOf(fingerprintNames[:], uint8(a)) }

// NearBits is how many of 64 bits may differ between texts that are nearly the
// same: at 12, 74 % of real loops are warned and nothing honest is stopped;
// unrelated texts lie near 32.
const NearBits = 12

// Near reports whether both fingerprints are known, of one algorithm, and differ in at most
// NearBits bits. Two that are not known are not near, just as two unknown hashes are not
// equal.
func (f Fingerprint) Near(o Fingerprint) bool {
	return f.Algorithm != FingerprintNone && f.Algorithm == o.Algorithm && bits.OnesCount64(f.Value^o.Value) <= NearBits
}

// IsZero reports whether no fingerprint is known.
func (f Fingerprint) IsZero() bool { return f.Algorithm == FingerprintNone }

// String returns algorithm:hex.
func (f Fingerprint) String() string {
	if f.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s:%016x", f.Algorithm, f.Value)
}

// ParseFingerprint reads algorithm:hex with exactly 16 hex digits. Unlike a hash it cannot be
// cut, since its bits are compared at their places.
func ParseFingerprint(s string) (Fingerprint, error) {
	name, digits, ok := strings.Cut(s, ":")
	a, known := indexOf(fingerprintNames[:], name)
	v, good := hex16(digits)
	if !ok || !known || a == 0 || !good || len(digits) != 16 {
		return Fingerprint{}, fmt.Errorf("fingerprint %q: want simhash64:<16 lower-case hex digits>", cut(s))
	}
	return Fingerprint{FingerprintAlgorithm(a), v}, nil
}

// hex16 reads the 16 lower-case hex digits that s begins with.
//
// What follows them is the caller's to check.
func hex16(s string) (v uint64, ok bool) {
	if len(s) < 16 {
		return 0, false
	}
	for i := 0; i < 16; i += 8 {
		// Eight digits at a time, the first in the highest byte. A digit's low nibble is
		// its value, a letter's is 9 less; what is neither is found by writing the
		// values as digits again.
		x := bits.ReverseBytes64(head(s[i:]))
		n := x&0x0f0f0f0f0f0f0f0f + x>>6&jsontext.Ones*9
		letters := (n + jsontext.Ones*6) >> 4 & jsontext.Ones
		if n&0xf0f0f0f0f0f0f0f0 != 0 || n+jsontext.Ones*'0'+letters*('a'-'0'-10) != x {
			return 0, false
		}
		n = (n | n>>4) & 0x00ff00ff00ff00ff
		n = (n | n>>8) & 0x0000ffff0000ffff
		v = v<<32 | (n|n>>16)&0xffffffff
	}
	return v, true
}

// lowerHex is true for the empty text, too.
func lowerHex(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// cut shortens text that goes into an error message, so that a message is never as long as
// what was sent. It may cut a character in half.
func cut(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}
