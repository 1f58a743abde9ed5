package state

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/dgraph-io/badger/v4"

	"weir/events"
)

// Checkpoint is a step of one partition: the records that have changed since the
// last one, and the place in the log up to which they are folded.
type Checkpoint struct {
	Partition uint16
	Next      int64  // first source offset that is not folded
	Published int64  // position read in the verdict log
	State     []byte // the rest of the partition's state, as the caller encodes it
	Records   []Record
}

// Record is one changed record. When it appears twice in a checkpoint the later one counts.
type Record struct {
	Subject Subject
	Key     string
	Value   []byte       // nil removes the record and its deadline
	Due     events.Stamp // its next deadline; 0 means none
	OldDue  events.Stamp // Due of the last Commit that held the record; 0 means none
}

// Meta is what a partition resumes from.
// Its fields are those of the Checkpoint that was committed last.
type Meta struct {
	Next      int64
	Published int64
	State     []byte
}

// Size returns what the record takes of a checkpoint, in the units of MaxCheckpoint.
// It counts the removal of the old deadline even where that stays, so it is never too little.
func (r *Record) Size() (bytes int64, writes int) {
	bytes, writes = cost(recordOverhead+len(r.Key), sealBytes+dueBytes+len(r.Value)), 1
	for _, due := range [...]events.Stamp{r.Due, r.OldDue} {
		if due != 0 {
			bytes, writes = bytes+cost(dueOverhead+len(r.Key), 0), writes+1
		}
	}
	return bytes, writes
}

// Size returns what the checkpoint takes, in the units of MaxCheckpoint.
func (c *Checkpoint) Size() (bytes int64, writes int) {
	bytes, writes = cost(1+partitionBytes, sealBytes+3*binary.MaxVarintLen64+len(c.State)), 1
	for i := range c.Records {
		b, w := c.Records[i].Size()
		bytes, writes = bytes+b, writes+w
	}
	return bytes, writes
}

// MaxCheckpoint returns how large a checkpoint may be: the bytes and writes that
// Checkpoint.Size counts. It follows from the size of the memtable.
// It is the same as long as the store is open.
func (c *capacity) MaxCheckpoint() (bytes int64, writes int) { return c.maxBytes, c.maxCount }

// MaxValue returns how many bytes a record, an entry of a log, a cursor or a
// partition's state may have.
func (c *capacity) MaxValue() int { return c.maxValue }

// Commit writes a checkpoint in one synced transaction: after a crash either all of
// it is there or nothing. The values and the state may be reused when it returns.
//
// A checkpoint larger than MaxCheckpoint is refused with ErrTooLarge, never split.
// ErrDiskLow may be tried again. Any other error must end the process, because
// whether the checkpoint is on disk is not known.
func (s *Store) Commit(c *Checkpoint) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	m := checkpointMemories.Get().(*checkpointMemory)
	b, err := s.checkpointBatch(c, m)
	if err == nil {
		err = s.writer.write(b)
	}
	if err != nil {
		// c is not reused: how far Badger has read it is unknown.
		return fmt.Errorf("checkpoint of partition %d at %d: %w", c.Partition, c.Next, err)
	}
	clear(b.ops) // Badger has put keys of its own into them, which would be kept with it
	m.ops = b.ops
	checkpointMemories.Put(m)
	return nil
}

// checkpointMemory is what the entries of one checkpoint are made in. Badger has copied them into
// its log and its tables in memory when they are written, so the next checkpoint may use it.
type checkpointMemory struct {
	ops   []op
	bytes []byte // keys and values, one behind the other
	// packed is a record, before it is known whether packing makes it shorter.
	packed []byte
}

// checkpointMemories are shared by all partitions, of which few write at one time.
var checkpointMemories = sync.Pool{New: func() any { return new(checkpointMemory) }}

// take returns room for n bytes with nothing in it, which must be there.
func (m *checkpointMemory) take(n int) []byte {
	from := len(m.bytes)
	m.bytes = m.bytes[:from+n]
	return m.bytes[from : from : from+n]
}

// checkpointBatch makes the entries of a checkpoint, or says why it can never be written.
// Everything is copied into m, so that the caller may use its memory again.
func (s *Store) checkpointBatch(c *Checkpoint, m *checkpointMemory) (*batch, error) {
	bytes, writes := c.Size()
	if maxBytes, maxWrites := s.MaxCheckpoint(); bytes > maxBytes || writes > maxWrites {
		return nil, fmt.Errorf("%d bytes in %d writes, the limits are %d and %d; take checkpoints more often or a larger memtable: %w",
			bytes, writes, maxBytes, maxWrites, ErrTooLarge)
	}
	if len(c.State) > s.maxValue {
		return nil, fmt.Errorf("state of %d bytes, the limit is %d: %w", len(c.State), s.maxValue, ErrTooLarge)
	}
	// Size is never less than what keys and values take, and an entry must stay where it is.
	m.bytes = slices.Grow(m.bytes[:0], int(bytes))
	b := &batch{ops: slices.Grow(m.ops[:0], writes)}
	// One moment for all of the checkpoint: a record and its deadline go at the same time.
	expires := uint64(0) // never
	if ttl := s.options.RecordTTL; ttl > 0 {
		expires = uint64(s.options.now().Add(ttl).Unix())
	}
	for i := range c.Records {
		r := &c.Records[i]
		if err := r.Subject.check(); err != nil {
			return nil, fmt.Errorf("record %q: %w", r.Key, err)
		}
		switch {
		case len(r.Key) > MaxKey:
			return nil, fmt.Errorf("key of %d bytes, the limit is %d: %w", len(r.Key), MaxKey, ErrTooLarge)
		case len(r.Value) > s.maxValue:
			return nil, fmt.Errorf("record %q has %d bytes, the limit is %d: %w", r.Key, len(r.Value), s.maxValue, ErrTooLarge)
		}
		key := appendRecordKey(m.take(recordOverhead+len(r.Key)), c.Partition, r.Subject, r.Key)
		due := r.Due
		// A record that is not there has no deadline either, whatever the caller says.
		if r.Value == nil {
			due = 0
			b.remove(key)
		} else {
			from := len(m.bytes)
			v := appendRecord(m.take(sealBytes+dueBytes+len(r.Value)), due, r.Value, &m.packed)
			m.bytes = m.bytes[:from+len(v)] // what packing has saved is room for the next
			b.put(key, v, expires)
		}
		// Without this the old entry of the index would be found again after a restart.
		if r.OldDue != 0 && r.OldDue != due {
			b.remove(m.dueKey(c.Partition, r, r.OldDue))
		}
		if due != 0 { // also when it has not moved: it must not expire before its record
			b.set(m.dueKey(c.Partition, r, due), nil, expires)
		}
	}
	// What the partition resumes from goes into the same transaction, and never expires.
	v := newValue(3*binary.MaxVarintLen64 + len(c.State))
	v = binary.AppendVarint(v, c.Next)
	v = binary.AppendVarint(v, c.Published)
	b.put(partitionPrefix(metaPrefix, c.Partition), appendBytes(v, c.State), 0)
	return b, nil
}

// dueKey is the entry of the index for a record. All that it says is in the key.
func (m *checkpointMemory) dueKey(partition uint16, r *Record, due events.Stamp) []byte {
	return appendDueKey(m.take(dueOverhead+len(r.Key)), partition, r.Subject, due, r.Key)
}

// Meta returns what the last checkpoint of a partition said; false when there is none.
// Its errors are ErrDamaged, ErrClosed and those of reading.
func (r *tables) Meta(partition uint16) (Meta, bool, error) {
	key := partitionPrefix(metaPrefix, partition)
	content, ok, err := r.get(key)
	if err != nil || !ok {
		return Meta{}, false, err
	}
	m, err := decodeMeta(content)
	if err != nil {
		return Meta{}, false, damaged(fmt.Sprintf("checkpoint of partition %d", partition), err)
	}
	return m, true, nil
}

// decodeMeta reads what checkpointBatch has written of the partition itself.
func decodeMeta(content []byte) (Meta, error) {
	d := decoder{rest: content}
	m := Meta{Next: d.int("next offset"), Published: d.int("published position"), State: d.bytes("state")}
	// Bytes too many are damage as well, or of a format that this weir does not know.
	if d.err == nil && len(d.rest) > 0 {
		d.err = fmt.Errorf("%d bytes too many", len(d.rest))
	}
	return m, d.err
}

// Partitions returns the partitions that have a checkpoint, in order.
// Forget takes a partition from among them.
func (r *tables) Partitions() ([]uint16, error) {
	var out []uint16
	err := r.each([]byte{metaPrefix}, func(item *badger.Item) error {
		if len(item.Key()) != 1+partitionBytes {
			return damaged("checkpoints", fmt.Errorf("key %x has a wrong length", item.Key()))
		}
		out = append(out, binary.BigEndian.Uint16(item.Key()[1:]))
		return nil
	})
	return out, err
}

// DueUnknown is the deadline of a record that does not say it: only the index does.
// It comes with records of format 1 alone; the caller looks the deadline up by Due.
const DueUnknown events.Stamp = -1

// Load returns a record and its deadline, or false when there is none. The value is the
// caller's. While a Commit of the same record is under way it may return either version.
// A record that was changed on disk is ErrDamaged.
func (r *tables) Load(partition uint16, sub Subject, key string) (record []byte, due events.Stamp, ok bool, err error) {
	if err := sub.check(); err != nil {
		return nil, 0, false, err
	}
	k := appendRecordKey(make([]byte, 0, recordOverhead+len(key)), partition, sub, key)
	v, err := r.value(k)
	if v == nil || err != nil {
		return nil, 0, false, err
	}
	if record, due, err = unsealRecord(v, k, new([]byte)); err != nil {
		return nil, 0, false, damaged(describe(k), err)
	}
	return record, due, true, nil
}

// Records calls fn for each record of a subject in the order of the keys, as of one
// moment between two checkpoints. The value must not be kept or changed after fn has
// returned. An error of fn ends the iteration and is returned.
func (r *tables) Records(partition uint16, sub Subject, fn func(key string, value []byte) error) error {
	if err := sub.check(); err != nil {
		return err
	}
	var memory []byte
	return r.each(partitionPrefix(byte(sub), partition), func(item *badger.Item) error {
		// Badger lends the value for the time of this call, and its memory may be the file
		// itself.
		return item.Value(func(v []byte) error {
			record, _, err := unsealRecord(v, item.Key(), &memory)
			if err != nil {
				return damaged(describe(item.Key()), err)
			}
			return fn(string(item.Key()[recordOverhead:]), record)
		})
	})
}

// Due calls fn for the deadlines of a subject in a partition that are behind the one of a
// time and key, in the order of time and then of the keys, until it returns false. The zero
// time and key are before all.
//
// Other subjects of the partition stand among them in the index and are passed over.
func (r *tables) Due(partition uint16, sub Subject, after events.Stamp, key string, fn func(due events.Stamp, key string) bool) error {
	prefix := partitionPrefix(duePrefix, partition)
	start := prefix // so that damaged keys before the first are reported
	if after != 0 || key != "" {
		start = append(appendDueKey(nil, partition, sub, after, key), 0) // the next key that there may be
	}
	return r.eachFrom(prefix, start, func(item *badger.Item) error {
		of, due, key, err := parseDueKey(item.Key())
		// A key that cannot be read ends it with ErrDamaged, also one of another subject.
		if err == nil && of == sub && !fn(due, key) {
			err = errStop
		}
		return err
	})
}
