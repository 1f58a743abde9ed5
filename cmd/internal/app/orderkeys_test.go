package app

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/clock"
	"weir/sink/guard"
	"weir/sink/sign"
)

const (
	oldKey = "k1 0123456789abcdef0123456789abcdef\n"
	newKey = "k2 fedcba9876543210fedcba9876543210\n"
)

func parsedKeys(t *testing.T, text string) sign.Keys {
	t.Helper()
	keys, err := sign.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestOrdersAreSigned changes keys while dispatchers follow that have one or both.
func TestOrdersAreSigned(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(oldKey)
	r := begin(t, Options{OrderKeysFile: path, Clock: clock.System{}, Heartbeat: 50 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	follow := func(keys sign.Keys) *guard.Guard {
		t.Helper()
		g, err := guard.New(guard.Options{URL: "http://" + r.Addr(), Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.Close)
		if err := g.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		return g
	}
	has := func(g *guard.Guard, orders int, forged int64) {
		t.Helper()
		for g.Orders() != orders || g.Counts().Forged.Load() != forged {
			if ctx.Err() != nil {
				t.Fatalf("%d orders and %d forged, want %d and %d", g.Orders(), g.Counts().Forged.Load(), orders, forged)
			}
			runtime.Gosched()
		}
	}
	first, both, none := follow(parsedKeys(t, oldKey)), follow(parsedKeys(t, newKey+oldKey)), follow(nil)
	r.give(halted("a"))
	for _, g := range []*guard.Guard{first, both, none} {
		has(g, 1, 0)
	}
	write(newKey + oldKey)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	other := halted("b")
	other.ID = "00000000000000b2-1"
	r.give(other)
	has(first, 1, 1)
	has(both, 2, 0)
	has(none, 2, 0)
	has(follow(parsedKeys(t, newKey)), 2, 0) // who comes later hears all by the new key

	write("nonsense")
	if err := r.Reload(); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("keys that are none: %v", err)
	}
	if got := r.keys.sign([]byte("x")); !strings.HasPrefix(got, "k=k2,v1=") {
		t.Errorf("signed %q after keys that are none", got)
	}
	if got := r.do("GET", "/v1/verdicts", ""); strings.Contains(got.body, "v1=") {
		t.Errorf("lines have no place for a signature: %s", got.body)
	}
}

func TestKeysThatCannotBeRead(t *testing.T) {
	if _, err := New(Options{OrderKeysFile: filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("weir begins without the keys that it was told to sign with")
	}
}
