package state

import "fmt"

// Cursor returns what SetCursor kept under a name; false when there is nothing.
// The value is the caller's.
func (r *tables) Cursor(name string) ([]byte, bool, error) {
	return r.get(append([]byte{cursorPrefix}, name...))
}

// SetCursor stores the position of a reader, in the reader's own form, and returns
// when it is durable.
// A name or a value above its limit is ErrTooLarge. A nil value stores an empty one,
// which Cursor distinguishes from a missing one.
func (s *Store) SetCursor(name string, value []byte) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	b := &batch{}
	if err := b.cursor(s, name, value); err != nil {
		return err
	}
	if err := s.writer.write(b); err != nil {
		return fmt.Errorf("cursor %q: %w", name, err)
	}
	return nil
}

// cursor puts a cursor into the batch, which has nothing of a caller's memory.
func (b *batch) cursor(s *Store, name string, value []byte) error {
	if len(name) > MaxKey || len(value) > s.maxValue {
		return fmt.Errorf("cursor of %d bytes with a name of %d: %w", len(value), len(name), ErrTooLarge)
	}
	b.put(append([]byte{cursorPrefix}, name...), append(newValue(len(value)), value...), 0)
	return nil
}
