package pump

import (
	"fmt"

	"weir/events"
	"weir/state"
)

// memory has the flows or agents that were used last, with their deadlines. The others are in the store.
type memory struct {
	o           *Options
	checkpoints *checkpointer
	subject     state.Subject // of what the stage folds
	cache       *recordCache
	deadlines   deadlines
	touched     byte // see touch
}

// touch reads a little of a record, so that the processor fetches all of it.
func (m *memory) touch(r *cachedRecord) {
	// The sum is kept so that the compiler cannot leave the reads out.
	for at := 0; at < len(r.record); at += cacheLine {
		m.touched += r.record[at]
	}
}

// find returns the flow or agent from memory, from the store, or as a new one, whose record is
// empty. It is in the cache from here on; keep takes it out again if nothing came of it. added reports
// whether it was not there before.
func (m *memory) find(key string) (r *cachedRecord, added bool, err error) {
	if r = m.cache.get(key); r != nil {
		return r, false, nil
	}
	r = newRecord(key)
	if m.cache.mayBeOutside(r.hash) {
		record, due, known, err := m.o.Store.Load(m.o.Partition, m.subject, key)
		switch {
		case err != nil:
		case !known: // its deadline may be left
			due = m.deadlines.of(key)
		// A deadline that is set while that of the index stands would leave two of one flow.
		case due == state.DueUnknown:
			due, err = m.dueOf(key)
		}
		if err != nil {
			return nil, false, fmt.Errorf("load %s %q: %w", m.subject, key, err)
		}
		// kept is what the store has, which the next checkpoint removes when the deadline has
		// moved.
		r.record, r.loaded, r.due, r.kept = record, len(record) > 0, due, due
	}
	m.cache.add(r)
	return r, true, nil
}

// evict takes flows out of memory if there are too many.
func (m *memory) evict() {
	if m.cache.bytes > m.o.Memory && m.o.Store != nil {
		m.cache.evict(m.o.Memory, m.checkpoints.durable)
	}
}

// note says that the next checkpoint has to write r, with what its record is from now on.
func (m *memory) note(r *cachedRecord, record []byte) {
	if m.o.Store != nil {
		m.checkpoints.note(r, record)
	}
}

// setDue moves a deadline in memory. The store learns of it by the next checkpoint.
func (m *memory) setDue(r *cachedRecord, due events.Stamp) {
	if due != r.due {
		m.deadlines.set(r.key, due)
		r.due = due
	}
}
