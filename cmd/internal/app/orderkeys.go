package app

import (
	"fmt"
	"sync/atomic"

	"weir/cmd/internal/filewatch"
	"weir/sink/sign"
)

// orderKeys are the keys that orders are signed with on their way out. The log holds
// them unsigned, so that keys may change.
// Signing goes on while they are read: each signature uses the keys of that moment.
type orderKeys struct {
	path string // "" for none
	keys atomic.Pointer[sign.Keys]
}

// maxKeys bounds a file of keys, in bytes.
const maxKeys = 1 << 20

// load reads the file anew. After an error the keys stay as they were.
// At the start its error ends that.
func (k *orderKeys) load() error {
	if k.path == "" {
		return nil
	}
	text, err := filewatch.Read(k.path, maxKeys)
	if err != nil {
		return fmt.Errorf("keys that orders are signed with: %w", err)
	}
	keys, err := sign.Parse(text)
	if err != nil {
		return fmt.Errorf("keys that orders are signed with: %s: %w", k.path, err)
	}
	k.keys.Store(&keys)
	return nil
}

// sign returns the signature of an order; "" without keys.
func (k *orderKeys) sign(order []byte) string {
	if keys := k.keys.Load(); keys != nil {
		return keys.Sign(order)
	}
	return ""
}
