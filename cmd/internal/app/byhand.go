package app

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"weir/cmd/internal/access"
	"weir/cmd/internal/api"
	"weir/cmd/internal/approvals"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/group"
	"weir/cmd/internal/orders"
	"weir/cmd/internal/peer"
	"weir/cmd/internal/runtimes"
	"weir/cmd/internal/switchfile"
	"weir/events"
	"weir/events/byhand"
	"weir/state"
)

// switchboard is all about the orders that persons give about scopes: their settings, who keeps and confirms
// them, who asks persons, who cancels calls in flight. What comes after the settings is set by open.
type switchboard struct {
	settings  *switchfile.Settings
	book      *orders.Book
	desk      *orders.Desk // of receipts
	known     *orders.Known
	callers   []*runtimes.Caller
	approvals *approvals.Desk // nil: persons are not asked

	making sync.Mutex // the secret of links
	store  *state.Store
	audit  *access.Audit
	server *api.Server
	peer   *peer.Peer // nil in a process alone
	clock  clock.Clock
	logger *slog.Logger
}

// openHand makes what keeps the orders that persons give about scopes: in the state, or in a topic that
// the members of a group share.
func (a *App) openHand() error {
	h := &a.hand
	h.store, h.audit, h.server, h.clock, h.logger = a.store, a.audit, a.api, a.clock, a.logger
	b := &orders.Book{Log: &orders.Store{Cursors: a.store, File: a.o.OrdersFile}, Verdicts: a.verdicts, Enforce: a.orders.Enforce, Now: a.backend.Now, Clock: a.clock, Logger: a.logger}
	if a.o.Kafka != nil {
		b.Log, h.peer = group.NewOrderTopic(*a.o.Kafka, a.clock, a.logger), a.peer
	}
	h.book = b
	h.desk = &orders.Desk{Book: b, Guards: new(orders.Guards)}
	h.known = &orders.Known{Cursors: a.store, Guards: h.desk.Guards, Clock: a.clock, Logger: a.logger}
	if err := h.known.Load(); err != nil {
		a.logger.Warn("receipts of orders by hand may miss guards until they follow again", "error", err)
	}
	b.Changed = h.desk.Changed
	for _, r := range h.settings.Runtimes {
		c := &runtimes.Caller{Runtime: r, Book: b, Audit: cancelAudit{h}, Store: a.store, Now: a.clock.Now, Logger: a.logger}
		if err := c.Load(); err != nil {
			a.logger.Warn("a runtime may be requested again to cancel what it has cancelled", "runtime", r.Name, "error", err)
		}
		h.callers = append(h.callers, c)
	}
	if len(h.callers) > 0 {
		h.desk.Runtimes = h.runtimeParts
	}
	return h.openApprovals(a.backend.Now)
}

// runtimeParts returns what runtimes have answered about an order.
func (h *switchboard) runtimeParts(o *byhand.Order) (parts []orders.RuntimePart) {
	for _, c := range h.callers {
		if p := c.Part(o); p != nil {
			parts = append(parts, *p)
		}
	}
	return parts
}

// cancelAudit writes requests to runtimes to the audit log.
type cancelAudit struct{ *switchboard }

func (c cancelAudit) record(o *byhand.Order, runtime, stage string) access.Record {
	return access.Record{Time: c.clock.Now().UTC(), Stage: stage, ID: o.VerdictID() + "/" + runtime, Principal: "weir", By: o.By, Peer: "runtime " + runtime,
		Kind: "order.cancel", Event: o.VerdictID(), Flow: o.Scope.String(), Reason: o.Reason}
}

// Requested writes the line before the request is sent.
func (c cancelAudit) Requested(o *byhand.Order, runtime string) error {
	return c.audit.Write(c.record(o, runtime, access.Asked))
}

// Answered writes the line of the answer.
func (c cancelAudit) Answered(o *byhand.Order, runtime string, status int, detail string) {
	r := c.record(o, runtime, access.Answered)
	r.Status, r.Detail = status, detail
	if err := c.audit.Write(r); err != nil {
		c.logger.Error("the audit log does not have the answer of a runtime", "runtime", runtime, "order", o.ID(), "error", err)
	}
}

// look looks at an event that comes in.
func (a *App) look(raw []byte, ev *events.Event) {
	a.misnamed.Look(raw, ev)
	if a.hand.desk != nil {
		a.hand.desk.Observe(ev)
	}
}

// verdictLogCursor names the name of the log of verdicts in the store.
const verdictLogCursor = "verdicts.log"

// verdictLog returns the name of the log of verdicts. It is made with the state.
func verdictLog(store *state.Store) (string, error) {
	name, ok, err := store.Cursor(verdictLogCursor)
	if err == nil && !ok {
		name = []byte(strings.ToLower(rand.Text()[:16]))
		err = store.SetCursor(verdictLogCursor, name)
	}
	if err != nil {
		return "", fmt.Errorf("name the log of verdicts: %w", err)
	}
	return string(name), nil
}

// linkKeyCursor names the secret of links in the store.
const linkKeyCursor = "byhand.key"

// linkSecrets are what links are signed with: by a process alone a secret of its own, by the members of
// a group what they derive from the keys that they share.
func (h *switchboard) linkSecrets() ([][]byte, error) {
	if h.peer != nil {
		keys := h.peer.Keys()
		if !keys.Orders {
			return nil, errors.New("the members share no key for orders: start all of them with the same --member-key-file or admin token file")
		}
		var secrets [][]byte
		for _, k := range keys.Keys {
			sum := sha256.Sum256(append([]byte("weir order links\n"), k.Secret...))
			secrets = append(secrets, sum[:])
		}
		return secrets, nil
	}
	h.making.Lock()
	defer h.making.Unlock()
	key, ok, err := h.store.Cursor(linkKeyCursor)
	if err != nil {
		return nil, err
	}
	if !ok {
		key = make([]byte, sha256.Size)
		if _, err := rand.Read(key); err != nil {
			return nil, err
		}
		if err := h.store.SetCursor(linkKeyCursor, key); err != nil {
			return nil, err
		}
	}
	return [][]byte{key}, nil
}
