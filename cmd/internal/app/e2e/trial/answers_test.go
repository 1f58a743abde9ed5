package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/weirtest"
)

// TestMain is the broker that a trial starts, where this program is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "broker" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestAnswers checks calls by the guard of Go and by streams, batches and requests while weir is killed,
// alone and in a group. Without -short it also does by the guards of Python and TypeScript, where
// node and the compiler are.
func TestAnswers(t *testing.T) {
	for _, group := range []bool{false, true} {
		t.Run(map[bool]string{false: "one weir", true: "group"}[group], func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			a := &answers{weirs: &weirs{group: group}, lasts: 6 * time.Second, rate: 2000, kills: 1, seed: 1, out: &out}
			if _, err := os.Stat(filepath.Join(weirtest.Root(), "sink/guard/typescript/node_modules/typescript")); err == nil && !testing.Short() {
				a.guards, a.lasts = true, 30*time.Second
			}
			ok, err := a.run(t.Context())
			if t.Log(out.String()); err != nil || !ok {
				t.Errorf("well: %v, error: %v", ok, err)
			}
		})
	}
}
