package pump

import (
	"strings"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer"
	"weir/cmd/internal/selftest"
	"weir/events"
)

// cachedRecord is a flow in memory: its encoded record, which costs a fraction of the
// decoded flow and leaves the garbage collector nothing to scan.
type cachedRecord struct {
	key        string
	hash       uint64       // of the key
	record     []byte       // empty: nothing was folded, or the store has forgotten it
	due        events.Stamp // next deadline of the record; 0 for none
	kept       events.Stamp // the deadline that the last checkpoint wrote
	dirty      bool         // changed since the last checkpoint
	bytes      int64        // what it takes of the next checkpoint
	writes     int
	generation uint64 // the last checkpoint that it was part of

	unwatched bool // an agent whose silence is not judged: reports of flows about it change nothing

	own bool // weir's own, see selfTest
	// turn is the last sweep that was planned with events of it, and place its place in the flows of that sweep.
	turn  uint64
	place int32
	// What follows is of flows alone. One that was loaded is not live before its next event.
	last     events.Stamp      // time of the latest event
	live     bool              // it had one within the time of silence that ends an episode
	ended    bool              // by a flow.end
	standing analyzer.Standing // while it is live
	judged   judged            // since it is in memory, and as far as its record knows
	loaded   bool              // from the store, and not looked at yet

	// Its neighbors in the order of use.
	newer, older *cachedRecord
}

// recordOverhead is about what a record takes in memory beside its key and record.
const recordOverhead = 216

// newRecord returns what the first event of the key begins. It keeps nothing of key.
func newRecord(key string) *cachedRecord {
	return &cachedRecord{key: strings.Clone(key), hash: xxhash.Sum64String(key), own: selftest.OwnFlow(key)}
}

// size counts the capacity of the record, since that is what memory holds.
func (r *cachedRecord) size() int64 { return int64(len(r.key)+cap(r.record)) + recordOverhead }

// recordCache are the flows in memory, in the order in which they were last used.
type recordCache struct {
	byKey map[string]*cachedRecord
	// The list is a ring through ends, so that no link is ever nil.
	ends  cachedRecord // ends.older is the newest, ends.newer the oldest
	bytes int64

	outside bool                // the store may hold flows that are not in memory
	sent    map[uint64]struct{} // hashes of the keys of all that it may hold; nil when that is not known

	fading *cachedRecord // the oldest that may be live; &ends when none is
	// live and lost are for the metrics and change nothing that is folded.
	live [analyzer.StandingCount]int64 // flows by standing
	lost int64                         // flows that were live when they had to go
}

// newRecordCache returns a cache that has all flows there are: none.
func newRecordCache() *recordCache {
	s := &recordCache{byKey: make(map[string]*cachedRecord), sent: make(map[uint64]struct{})}
	s.ends.older, s.ends.newer, s.fading = &s.ends, &s.ends, &s.ends
	return s
}

// get returns a flow and makes it the newest; nil when it is not in memory.
func (s *recordCache) get(key string) *cachedRecord {
	r := s.byKey[key]
	if r != nil {
		s.renew(r)
	}
	return r
}

// renew makes a flow in memory the newest.
func (s *recordCache) renew(r *cachedRecord) {
	if s.ends.older != r {
		s.unlink(r)
		s.link(r)
	}
}

// add takes in a flow that is not in memory, as the newest.
func (s *recordCache) add(r *cachedRecord) {
	s.byKey[r.key] = r
	s.link(r)
	s.bytes += r.size()
}

// remove takes a flow out of memory; of one that the store does not hold nothing is left.
func (s *recordCache) remove(r *cachedRecord) {
	delete(s.byKey, r.key)
	s.unlink(r)
	s.bytes -= r.size()
	if r.live {
		s.live[r.standing]--
		s.lost++
	}
}

// mostSent is how many flows outside memory are known by the hash of their key. With it, a new flow is
// recognized without a read of the store.
const mostSent = 1 << 17

// restored notes that the store may hold whatever was folded before.
func (s *recordCache) restored() { s.outside, s.sent = true, nil }

// send takes a flow that the store holds out of memory.
func (s *recordCache) send(r *cachedRecord) {
	s.remove(r)
	s.outside = true
	switch {
	case s.sent == nil:
	// Beyond that the set is dropped: from here on every flow that is not in memory is looked up in
	// the store.
	case len(s.sent) == mostSent:
		s.sent = nil
	default:
		s.sent[r.hash] = struct{}{}
	}
}

// mayBeOutside reports whether the store may hold the flow with that hash of its key, which is not
// in memory. An equal hash of another key costs one look into the store and nothing else.
func (s *recordCache) mayBeOutside(hash uint64) bool {
	if !s.outside || s.sent == nil {
		return s.outside
	}
	_, ok := s.sent[hash]
	return ok
}

// stored reports whether what memory holds of the flow is on disk as well, by the number of
// the last checkpoint that is.
func (r *cachedRecord) stored(durable uint64) bool { return !r.dirty && r.generation <= durable }

func (s *recordCache) link(r *cachedRecord) {
	r.newer, r.older = &s.ends, s.ends.older
	r.older.newer, s.ends.older = r, r
	if s.fading == &s.ends {
		s.fading = r
	}
}

// unlink takes it out of the order of use. If fading stands there it moves to the next newer
// one, as if it had been looked at.
func (s *recordCache) unlink(r *cachedRecord) {
	if s.fading == r {
		s.fading = r.newer
	}
	r.newer.older, r.older.newer = r.older, r.newer
	r.newer, r.older = nil, nil
}

// set copies a record into the memory of the flow. Some room is left to grow, and
// the sizes are rounded as the allocator would do it.
// The copy is what makes it safe that record is memory of the pump, which is used for the next
// flow.
func (s *recordCache) set(r *cachedRecord, record []byte) {
	if len(record) > cap(r.record) {
		s.bytes -= r.size()
		r.record = make([]byte, 0, (len(record)+len(record)/4+63)&^63)
		s.bytes += r.size()
	}
	r.record = append(r.record[:0], record...)
}

// evictable is how many flows at the old end are looked at for one that can go.
const evictable = 64

// evict takes clean flows out of memory, the ones not used for the longest time
// first, until the rest is within the budget. Flows whose last checkpoint is not
// durable stay, and so does the newest, which is being folded.
func (s *recordCache) evict(budget int64, durable uint64) {
	// It gives up after some that cannot go, because all of them may be waiting for the
	// checkpoint in flight; the budget is passed then until that one is durable.
	r := s.ends.newer
	for looked := 0; s.bytes > budget && r != s.ends.older && looked < evictable; looked++ {
		next := r.newer
		if r.stored(durable) {
			s.send(r)
			looked = 0
		}
		r = next
	}
}
