package app

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"weir/cmd/internal/access"
	"weir/cmd/internal/group"
	"weir/cmd/internal/orders"
	"weir/cmd/internal/runtimes"
	"weir/events"
	"weir/events/byhand"
)

// newBook makes what keeps the orders that persons give about scopes: in the state, or in a topic that
// the members of a group share.
func (a *App) newBook() *orders.Book {
	b := &orders.Book{Log: &orders.Store{Cursors: a.store, File: a.o.OrdersFile}, Verdicts: a.verdicts, Enforce: a.orders.Enforce, Now: a.backend.Now, Clock: a.clock, Logger: a.logger}
	if a.o.Kafka != nil {
		b.Log = group.NewOrderTopic(*a.o.Kafka, a.clock, a.logger)
	}
	a.desk = &orders.Desk{Book: b, Guards: new(orders.Guards)}
	a.known = &orders.Known{Cursors: a.store, Guards: a.desk.Guards, Now: a.backend.Now, Clock: a.clock, Logger: a.logger}
	if err := a.known.Load(); err != nil {
		a.logger.Warn("receipts of orders by hand may miss guards until they follow again", "error", err)
	}
	b.Changed = a.desk.Changed
	for _, r := range a.hand.Runtimes {
		a.callers = append(a.callers, &runtimes.Caller{Runtime: r, Book: b, Audit: cancelAudit{a}, Store: a.store, Now: a.clock.Now, Logger: a.logger})
	}
	if len(a.callers) > 0 {
		a.desk.Runtimes = a.runtimeParts
	}
	return b
}

// runtimeParts returns what runtimes have answered about an order.
func (a *App) runtimeParts(o *byhand.Order) (parts []orders.RuntimePart) {
	for _, c := range a.callers {
		if p := c.Part(o); p != nil {
			parts = append(parts, *p)
		}
	}
	return parts
}

// cancelAudit writes requests to runtimes to the audit log.
type cancelAudit struct{ a *App }

func (c cancelAudit) record(o *byhand.Order, runtime, stage string) access.Record {
	return access.Record{Time: c.a.clock.Now().UTC(), Stage: stage, ID: o.VerdictID() + "/" + runtime, Principal: "weir", By: o.By, Peer: "runtime " + runtime,
		Kind: "order.cancel", Event: o.VerdictID(), Flow: o.Scope.String(), Reason: o.Reason}
}

// Requested writes the line before the request is sent.
func (c cancelAudit) Requested(o *byhand.Order, runtime string) error {
	return c.a.audit.Write(c.record(o, runtime, access.Asked))
}

// Answered writes the line of the answer.
func (c cancelAudit) Answered(o *byhand.Order, runtime string, status int, detail string) {
	r := c.record(o, runtime, access.Answered)
	r.Status, r.Detail = status, detail
	if err := c.a.audit.Write(r); err != nil {
		c.a.logger.Error("the audit log does not have the answer of a runtime", "runtime", runtime, "order", o.ID(), "error", err)
	}
}

// look looks at an event that comes in.
func (a *App) look(raw []byte, ev *events.Event) {
	a.misnamed.Look(raw, ev)
	if a.desk != nil {
		a.desk.Observe(ev)
	}
}

// verdictLogCursor names the name of the log of verdicts in the store.
const verdictLogCursor = "verdicts.log"

// verdictLog returns the name of the log of verdicts. It is made with the state.
func (a *App) verdictLog() (string, error) {
	name, ok, err := a.store.Cursor(verdictLogCursor)
	if err == nil && !ok {
		name = []byte(strings.ToLower(rand.Text()[:16]))
		err = a.store.SetCursor(verdictLogCursor, name)
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
func (a *App) linkSecrets() ([][]byte, error) {
	if a.o.Kafka != nil {
		keys := a.peer.Keys()
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
	a.linkKey.Lock()
	defer a.linkKey.Unlock()
	key, ok, err := a.store.Cursor(linkKeyCursor)
	if err != nil {
		return nil, err
	}
	if !ok {
		key = make([]byte, sha256.Size)
		if _, err := rand.Read(key); err != nil {
			return nil, err
		}
		if err := a.store.SetCursor(linkKeyCursor, key); err != nil {
			return nil, err
		}
	}
	return [][]byte{key}, nil
}
