package app

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"

	"weir/cmd/internal/group"
	"weir/cmd/internal/orders"
	"weir/events"
)

// newBook makes what keeps the orders that persons give about scopes: in the state, or in a topic that
// the members of a group share.
func (a *App) newBook() *orders.Book {
	b := &orders.Book{Log: &orders.Store{Cursors: a.store, File: a.o.OrdersFile}, Verdicts: a.verdicts, Enforce: a.orders.Enforce, Now: a.backend.Now, Clock: a.clock, Logger: a.logger}
	if a.o.Kafka != nil {
		b.Log = group.NewOrderTopic(*a.o.Kafka, a.clock, a.logger)
	}
	a.desk = &orders.Desk{Book: b, Guards: new(orders.Guards)}
	b.Changed = a.desk.Changed
	return b
}

// look looks at an event that comes in.
func (a *App) look(raw []byte, ev *events.Event) {
	a.misnamed.Look(raw, ev)
	if a.desk != nil {
		a.desk.Observe(ev)
	}
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
