// Package sign signs verdicts with a key that weir and its dispatchers share.
//
// A signature is k=<key id>,v1=<hex>, where hex is HMAC-SHA256 of the bytes. The signed bytes name
// the target of the order (its scope and flow), its end (expires_at), and its revision. So a signature
// cannot be used for another order, and a dispatcher that remembers the last revision detects a replay.
package sign

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Where a signature stands.
const (
	Header       = "Weir-Order-Signature" // of a request whose body is the verdict
	RecordHeader = "weir-order-signature" // of a record whose value is the verdict
	Field        = "signature"            // of a server-sent event whose data is the verdict
)

// LeastSecret is how many characters a secret has at least.
// In bytes of the file; a shorter one could be guessed.
const LeastSecret = 32

// Key is a secret and its name.
// ID is visible to everyone that sees a signature.
type Key struct {
	ID     string // letters, digits and . _ -
	Secret []byte
}

// Keys are those that are accepted; the first one signs. The zero Keys signs nothing.
// For a change of keys the new one goes first, and the old one stays until all know the new
// one.
type Keys []Key

// The reasons for which a signature is no good.
var (
	ErrUnsigned = errors.New("the order is not signed")
	ErrForged   = errors.New("the signature is wrong, or of no key that is known")
)

// Sign returns the signature of an order; "" without keys.
func (k Keys) Sign(order []byte) string {
	if len(k) == 0 {
		return ""
	}
	sum := k[0].sum(order)
	b := make([]byte, 0, len(k[0].ID)+2*len(sum)+6)
	b = append(append(append(b, "k="...), k[0].ID...), ",v1="...)
	return string(hex.AppendEncode(b, sum))
}

// Verify checks a signature in constant time. The error is ErrUnsigned or ErrForged.
// The keys of one id are all tried, and other ids cost no hash.
func (k Keys) Verify(order []byte, signature string) error {
	if signature == "" {
		return ErrUnsigned
	}
	id, sum, ok := strings.Cut(signature, ",v1=")
	id, named := strings.CutPrefix(id, "k=")
	// A signature of another form is called forged: its sender learns nothing more.
	want, err := hex.DecodeString(sum)
	if !ok || !named || err != nil {
		return ErrForged
	}
	for i := range k {
		if k[i].ID == id && hmac.Equal(want, k[i].sum(order)) {
			return nil
		}
	}
	return ErrForged
}

// sum is the HMAC under this key.
func (k *Key) sum(order []byte) []byte {
	mac := hmac.New(sha256.New, k.Secret)
	mac.Write(order)
	return mac.Sum(nil)
}

// Read reads a file of keys, see Parse.
func Read(path string) (Keys, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	keys, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return keys, nil
}

// Parse reads keys: one per line, its id, a space, and its secret. Empty lines and those
// that begin with # are passed over. The error says which line is wrong, never the
// secret.
func Parse(text []byte) (Keys, error) {
	// Cloned below, because text holds the whole file.
	var keys Keys
	seen := make(map[string]bool)
	n := 0
	for line := range bytes.Lines(text) {
		n++
		words := bytes.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		switch id := string(words[0]); {
		case len(words) != 2:
			return nil, fmt.Errorf("line %d: want the id of a key, a space and its secret", n)
		case !isID(id):
			return nil, fmt.Errorf("line %d: the id of a key has 1 to 64 letters, digits, dots, dashes and underscores", n)
		case seen[id]:
			return nil, fmt.Errorf("line %d: key %s is there twice", n, id)
		case len(words[1]) < LeastSecret:
			return nil, fmt.Errorf("line %d: the secret of key %s has %d characters, want at least %d; make one with: head -c 32 /dev/urandom | base64", n, id, len(words[1]), LeastSecret)
		default:
			seen[id] = true
			keys = append(keys, Key{ID: id, Secret: bytes.Clone(words[1])})
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("there are no keys; write one per line: its id, a space and its secret")
	}
	return keys, nil
}

// isID reports whether s can stand in a signature, which has = and , between its parts.
func isID(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return len(s) > 0 && len(s) <= 64
}
