package state

import (
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// Forget removes a partition: its checkpoint first, then the records and deadlines of
// its flows and agents. Logs stay. It returns when that is durable. After a crash or
// an error in between the partition has no checkpoint and may have records, so the
// owner calls Forget before it starts again. No other caller may use the partition
// meanwhile.
func (s *Store) Forget(partition uint16) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	err := s.writer.write(removal([][]byte{partitionPrefix(metaPrefix, partition)}))
	// The checkpoint went first and alone: from then on an owner begins anew there, whatever is left
	// behind it.
	for _, first := range [...]byte{duePrefix, byte(FlowSubject), byte(AgentSubject)} {
		if err == nil {
			err = s.removeAll(partitionPrefix(first, partition))
		}
	}
	if err != nil {
		return fmt.Errorf("forget partition %d: %w", partition, err)
	}
	return nil
}

// removeAll removes the keys with a prefix in transactions that fit.
// It reads what is there before each of them, and is done when nothing is left: so it can be
// begun again after a crash at any place.
func (s *Store) removeAll(prefix []byte) error {
	most := s.maxCount / 2
	for {
		var keys [][]byte
		bytes := int64(0)
		err := s.each(prefix, func(item *badger.Item) error {
			if len(keys) == most || bytes > s.maxBytes/2 {
				return errStop
			}
			keys = append(keys, item.KeyCopy(nil))
			bytes += cost(len(item.Key()), 0)
			return nil
		})
		if err != nil || len(keys) == 0 {
			return err
		}
		if err := s.writer.write(removal(keys)); err != nil {
			return err
		}
	}
}

// removal is a batch that removes the keys.
func removal(keys [][]byte) *batch {
	b := &batch{ops: make([]op, 0, len(keys))}
	for _, key := range keys {
		b.remove(key)
	}
	return b
}
