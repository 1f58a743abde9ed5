package orders

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"weir/events/byhand"
	"weir/state"
)

// The names of cursors in the store: of the list of ids, and of each order.
const (
	idsCursor   = "byhand.ids"
	orderCursor = "byhand."
)

// Cursors is the part of the store that keeps small values under names, durable when it returns.
type Cursors interface {
	Cursor(name string) ([]byte, bool, error)
	SetCursor(name string, value []byte) error
}

var _ Cursors = (*state.Store)(nil)

// Store is the Log of a process that shares its orders with no other: they are kept in the state, and
// where File is given in that file as well, which survives the loss of the state.
type Store struct {
	Cursors Cursors
	File    string // JSON, one record a line; "" keeps none

	mu     sync.Mutex
	ids    []string
	orders map[string]*byhand.Order
}

// Follow takes what was kept. No other process writes there, so nothing comes later.
func (s *Store) Follow(ctx context.Context, take func(*byhand.Order), reached func(), _ func(error)) error {
	if err := s.load(); err != nil {
		return err
	}
	s.mu.Lock()
	kept := sorted(s.orders)
	s.mu.Unlock()
	for _, o := range kept {
		take(o)
	}
	reached()
	<-ctx.Done()
	return nil
}

// load reads both places. Of two records of an order the newer counts.
func (s *Store) load() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids, ok, err := s.Cursors.Cursor(idsCursor)
	if err != nil {
		return err
	}
	if ok {
		if err := json.Unmarshal(ids, &s.ids); err != nil {
			return fmt.Errorf("the list of orders by hand in the state: %w", err)
		}
	}
	for _, id := range s.ids {
		text, ok, err := s.Cursors.Cursor(orderCursor + id)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		o, err := byhand.Decode(text)
		if err != nil {
			return fmt.Errorf("the order by hand %s in the state: %w", id, err)
		}
		put(&s.orders, o)
	}
	if s.File == "" {
		return nil
	}
	text, err := os.ReadFile(s.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the file of orders: %w", err)
	}
	return s.readFile(text)
}

// ReadFile returns how many records a file of orders by hand has, or why weir would not start with it.
func ReadFile(path string) (records int, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	s := Store{File: path}
	err = s.readFile(text)
	return len(s.orders), err
}

// readFile takes the records of the file. One that cannot be read ends the start: an order that is
// left out without a word would be a stop that does not hold.
func (s *Store) readFile(text []byte) error {
	for n, line := range lines(text) {
		o, err := byhand.Decode(line)
		if err != nil {
			return fmt.Errorf("%s:%d: %w; correct the line, or remove it", s.File, n, err)
		}
		put(&s.orders, o)
	}
	return nil
}

// Write keeps a record, and forgets the oldest ones beyond MaxOrders.
func (s *Store) Write(_ context.Context, o *byhand.Order) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	put(&s.orders, o)
	o = s.orders[o.ID()] // the newest
	ids := make([]string, 0, len(s.orders))
	newest := sorted(s.orders)
	for _, o := range newest[max(0, len(newest)-MaxOrders):] {
		ids = append(ids, o.ID())
	}
	slices.Sort(ids)
	// The order first: a list without its order would be read as one that is missing.
	err := s.Cursors.SetCursor(orderCursor+o.ID(), o.Encode())
	if err == nil && !slices.Equal(ids, s.ids) {
		text, jerr := json.Marshal(ids)
		if err = jerr; err == nil {
			err = s.Cursors.SetCursor(idsCursor, text)
		}
		if err == nil {
			s.ids = ids
		}
	}
	return errors.Join(err, s.writeFile(newest))
}

// writeFile replaces the file by one with all records, synced.
func (s *Store) writeFile(orders []*byhand.Order) error {
	if s.File == "" {
		return nil
	}
	var text []byte
	for _, o := range orders {
		text = append(append(text, o.Encode()...), '\n')
	}
	fail := func(err error) error { return fmt.Errorf("write the file of orders: %w", err) }
	f, err := os.CreateTemp(filepath.Dir(s.File), filepath.Base(s.File)+".*")
	if err != nil {
		return fail(err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), s.File)
	}
	if err != nil {
		return fail(errors.Join(err, os.Remove(f.Name())))
	}
	return syncFolder(filepath.Dir(s.File))
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// lines returns the lines of a text that are not empty, by their numbers from 1 on.
func lines(text []byte) func(yield func(int, []byte) bool) {
	return func(yield func(int, []byte) bool) {
		n := 0
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			if n++; len(line) > 0 && !yield(n, line) {
				return
			}
		}
	}
}
