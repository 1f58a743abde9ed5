package orders

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"weir/cmd/internal/clock"
	"weir/events"
)

// Known keeps which guards follow this process, through its restarts. A process that was killed would
// otherwise know no guard, and its receipts would be complete while guards that do not reach it yet
// allow calls. All fields are required.
type Known struct {
	Cursors Cursors
	Guards  *Guards
	Clock   clock.Clock
	Logger  *slog.Logger

	saved int64 // see Guards.changes
}

// knownCursor is the name of the list in the store.
const knownCursor = "byhand.guards"

// keepEvery is how often the list is saved if it has changed. A guard that came less than this before
// a crash is not known afterwards until it follows again.
const keepEvery = 250 * time.Millisecond

// knownGuard is a guard in the list.
type knownGuard struct {
	Principal string       `json:"principal,omitempty"`
	Guard     string       `json:"guard"`
	Instance  string       `json:"instance"`
	Seen      events.Stamp `json:"seen"` // Unix milliseconds, of when the list was saved
}

// Load takes in the guards that were known before. They count as silent until they are heard.
func (k *Known) Load() error {
	text, ok, err := k.Cursors.Cursor(knownCursor)
	if err != nil || !ok {
		return err
	}
	var list []knownGuard
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("read the guards that were known: %w", err)
	}
	for _, g := range list {
		k.Guards.Connected(g.Principal, g.Guard, g.Instance, g.Seen)
	}
	return nil
}

// Run saves the list as it changes, until ctx ends.
func (k *Known) Run(ctx context.Context) error {
	for {
		select {
		case <-k.Clock.After(keepEvery):
			if err := k.save(); err != nil {
				k.Logger.Warn("the list of guards is not saved; after a restart receipts may miss guards", "error", err)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// save writes the list if a guard has come or gone. Otherwise it costs a lock.
func (k *Known) save() error {
	list, changes := k.Guards.known(k.saved)
	if changes == k.saved {
		return nil
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if err := k.Cursors.SetCursor(knownCursor, text); err != nil {
		return err
	}
	k.saved = changes
	return nil
}

// known lists the guards by name, with the number of changes; no list when there was no change since.
func (g *Guards) known(since int64) ([]knownGuard, int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.changes == since {
		return nil, since
	}
	list := make([]knownGuard, 0, len(g.byName))
	for _, name := range slices.Sorted(maps.Keys(g.byName)) {
		principal, _, _ := strings.Cut(name, "\x00")
		s := g.byName[name]
		list = append(list, knownGuard{principal, s.beat.Guard, s.beat.Instance, s.seen})
	}
	return list, g.changes
}
