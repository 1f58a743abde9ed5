package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"weir/cmd/internal/pump"
	"weir/events"
	"weir/state"
)

// disk is the store of one process. Its contents change only while all owners wait, so it needs no
// lock. A process has one, with a part for each partition that it has ever folded, as a state
// directory has.
type disk struct {
	partitions map[uint16]*kept
	full       bool // writes find too little free space

	// What it held before the last writes, for a loss of power of a disk that said that
	// they were safe. They come back in their order.
	before []before
}

// before is one partition of a disk as it was before a write.
type before struct {
	partition uint16
	kept      *kept // nil when there was nothing
}

// kept is what a store has of one partition. It is replaced whole.
type kept struct {
	meta    state.Meta
	records map[subjectKey]keptRecord
	due     map[dueKey]bool
}

// keptRecord is a state with its deadline; a due of 0 is none.
type keptRecord struct {
	value string
	due   events.Stamp
}

// The store keeps flows and agents under one key each, distinguished by the subject.
type subjectKey struct {
	subject state.Subject
	key     string
}

// dueKey is an entry of the index of deadlines. It is kept apart from the records, as the store
// does, so that an entry that was left behind by a wrong checkpoint can be found.
type dueKey struct {
	subjectKey
	at events.Stamp
}

// mostLies is how many writes a disk may lose that it said were safe.
const mostLies = 6

// newDisk is an empty one, as of a new machine.
func newDisk() *disk { return &disk{partitions: make(map[uint16]*kept)} }

// commit writes a checkpoint as state.Store does.
func (d *disk) commit(c *state.Checkpoint) {
	old := d.partitions[c.Partition]
	// Copied whole: what a pump reads while this is written is what was there before.
	next := &kept{records: make(map[subjectKey]keptRecord), due: make(map[dueKey]bool)}
	if old != nil {
		next.records, next.due = maps.Clone(old.records), maps.Clone(old.due)
	}
	// Cloned, since the pump uses the buffers of a checkpoint again after Commit.
	next.meta = state.Meta{Next: c.Next, Published: c.Published, State: slices.Clone(c.State)}
	for i := range c.Records {
		r := &c.Records[i]
		key, due := subjectKey{r.Subject, r.Key}, r.Due
		if r.Value == nil {
			due = 0
			delete(next.records, key)
		} else {
			next.records[key] = keptRecord{string(r.Value), due}
		}
		// The index is cleared by what the checkpoint says was there, not by what is there: the store
		// does not look either, and checkDeadlines holds that it need not.
		if r.OldDue != 0 && r.OldDue != due {
			delete(next.due, dueKey{key, r.OldDue})
		}
		if due != 0 {
			next.due[dueKey{key, due}] = true
		}
	}
	// Old is never changed after this, so it can be put back as it is.
	d.before = append(d.before, before{c.Partition, old})
	if n := len(d.before) - mostLies; n > 0 {
		d.before = slices.Delete(d.before, 0, n)
	}
	d.partitions[c.Partition] = next
}

// losePower takes back the last writes.
// It may take back more than one partition had, or nothing where nothing was written.
func (d *disk) losePower(writes int) {
	for ; writes > 0 && len(d.before) > 0; writes-- {
		last := d.before[len(d.before)-1]
		d.before = d.before[:len(d.before)-1]
		// before may hold partitions in any mixture: taking them back in reverse order leaves the disk as
		// it was at one moment, as a journal does that loses its tail.
		if d.partitions[last.partition] = last.kept; last.kept == nil {
			delete(d.partitions, last.partition)
		}
	}
}

// store is the disk as the pump of a partition sees it.
// Reads are answered at once and never fail; only a commit waits and may.
type store struct {
	*owner
	disk *disk
}

var _ pump.Store = (*store)(nil)

// Meta is what the last checkpoint says of the partition; false before the first.
func (s *store) Meta(partition uint16) (state.Meta, bool, error) {
	k := s.disk.partitions[partition]
	if k == nil {
		return state.Meta{}, false, nil
	}
	return k.meta, true, nil
}

// Due goes through the deadlines behind a place of the index, until fn returns false.
func (s *store) Due(partition uint16, subject state.Subject, after events.Stamp, key string, fn func(events.Stamp, string) bool) error {
	k := s.disk.partitions[partition]
	if k == nil {
		return nil
	}
	// The order of the store's index: by time, then by key. Recovery depends on it.
	order := func(a, b dueKey) int {
		return cmp.Or(cmp.Compare(a.subject, b.subject), cmp.Compare(a.at, b.at), cmp.Compare(a.key, b.key))
	}
	for _, x := range slices.SortedFunc(maps.Keys(k.due), order) {
		if behind := x.at > after || x.at == after && x.key > key; x.subject == subject && behind && !fn(x.at, x.key) {
			break
		}
	}
	return nil
}

// Load is one state with its deadline; false when there is none. The bytes are the
// caller's.
func (s *store) Load(partition uint16, subject state.Subject, key string) ([]byte, events.Stamp, bool, error) {
	if k := s.disk.partitions[partition]; k != nil {
		if r, ok := k.records[subjectKey{subject, key}]; ok {
			return []byte(r.value), r.due, true, nil
		}
	}
	return nil, 0, false, nil
}

// Records goes through all states of a subject, in the order of their keys.
func (s *store) Records(partition uint16, subject state.Subject, fn func(string, []byte) error) error {
	k := s.disk.partitions[partition]
	if k == nil {
		return nil
	}
	// In one order, or the same plan would not be the same run.
	for _, x := range slices.SortedFunc(maps.Keys(k.records), func(a, b subjectKey) int { return cmp.Compare(a.key, b.key) }) {
		if x.subject != subject {
			continue
		}
		if err := fn(x.key, []byte(k.records[x].value)); err != nil {
			return err
		}
	}
	return nil
}

// MaxCheckpoint is how many bytes and how many entries a checkpoint may have. Only the
// bytes are made scarce.
func (s *store) MaxCheckpoint() (int64, int) { return s.world.maxCheckpoint, 1 << 20 }

// Commit waits until the checkpoint is on the disk, or is not.
// A process that is killed meanwhile may have written it or not, see endOwner.
func (s *store) Commit(c *state.Checkpoint) error {
	// Checked here and not in run: a checkpoint that is wrong is wrong even if the disk then fails.
	s.world.checkCheckpoint(s.owner, c)
	s.checkDeadlines(c)
	return s.wait("commit", func() error {
		w := s.world
		if s.disk.full && w.faulty {
			return fmt.Errorf("a disk of the simulation: %w", state.ErrDiskLow)
		}
		switch {
		case w.fault(Disk, 30):
			return errDisk
		case w.fault(Disk, 30):
			// It is on the disk, and its writer gets an error. The pump has to write it again, and the
			// second write must do no harm.
			s.disk.commit(c)
			return errDisk
		}
		s.disk.commit(c)
		return nil
	}, func() { s.disk.commit(c) })
}

// checkDeadlines holds that a checkpoint takes away each deadline that it replaces. One that
// stayed would be looked at for ever.
// It looks at the disk as it is when the checkpoint is made.
func (s *store) checkDeadlines(c *state.Checkpoint) {
	k := s.disk.partitions[c.Partition]
	if k == nil {
		return
	}
	for i := range c.Records {
		r := &c.Records[i]
		if due := k.records[subjectKey{r.Subject, r.Key}].due; due != 0 && due != r.Due && due != r.OldDue {
			s.world.violate("a checkpoint takes away the deadlines that it replaces", "partition %d, %q: %d stays, %d is taken away, %d comes", c.Partition, r.Key, due, r.OldDue, r.Due)
		}
	}
}

// The dead letters go to the log.
func (s *store) DeadLetter(...state.DeadLetter) error { panic("dead letters go to the log") }
func (s *store) DeadLetters(int64, int, []state.DeadLetter) ([]state.DeadLetter, error) {
	panic("dead letters go to the log")
}
func (s *store) DeadLetterCount() int64 { panic("dead letters go to the log") }
