package state

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/dgraph-io/badger/v4"

	"weir/events"
)

// Entry is one record of a Log.
type Entry struct {
	Offset   int64        // place in the log; set by Read, ignored by Append
	Appended events.Stamp // when the log took it, as the appender says
	Trigger  int64        // source offset of the event that caused a verdict; 0 in a journal
	Value    []byte
}

// logTable has the logs of a store that were asked for, by id. The lock of calls guards it.
type logTable struct {
	store *Store
	byID  map[string]*Log
}

// Log is an append-only sequence of entries with the dense offsets 0, 1, 2, ...
// Its methods may be called by any number of goroutines.
type Log struct {
	store *Store
	// id is the part of the keys that says which log it is, see key.go.
	id      []byte
	derived bool // see Derived

	mu      sync.Mutex
	end     int64
	written int64      // what is before it is in the database; the same as end, but for what goes along
	starts  []logStart // by segment; what is before the first has expired
	// Their values have memory of their own that is never changed; Read copies them.
	recent []Entry       // the last ones, which most readers are about to read; all of them in memory
	bytes  int           // of recent
	more   chan struct{} // closed and forgotten when the log grows; nil without a waiting reader
	shut   bool
}

const (
	readBytes = 4 << 20 // about how much one Read returns at most
	// A reader that follows a log wants what was just appended, and finds it here instead of in
	// the database.
	recentBytes = 512 << 10 // and how much of a log stays in memory
	recentLeast = 64        // what one entry takes there beside its value
)

// Journal returns the journal of a partition: what the embedded form takes in.
func (t *logTable) Journal(partition uint16) *Log {
	return t.log(partitionPrefix(journalKind, partition))
}

// Verdicts returns the verdict log of a partition in the embedded form.
func (t *logTable) Verdicts(partition uint16) *Log {
	return t.log(partitionPrefix(verdictKind, partition))
}

// Derived is the journal of a partition whose entries can be made again of what else is in the
// store, whatever becomes of them. What is appended to it is there at once and written with
// whatever is written next, before that and in the same transaction: so nothing that is durable
// was made of entries that are not, and they cost no write of their own. Append waits for none
// but when much has gathered, and a crash may take the last entries back.
//
// It has to be asked for before Journal is, of the same partition.
func (t *logTable) Derived(partition uint16) *Log {
	l := t.Journal(partition)
	l.derived = !t.store.inMemory() // where nothing is written
	return l
}

// log returns the one Log of an id, so that all who use it see the same end and wait for the
// same growth.
func (t *logTable) log(id []byte) *Log {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	l := t.byID[string(id)]
	if l == nil {
		l = &Log{store: t.store, id: id, shut: t.store.closed}
		t.byID[string(id)] = l
	}
	return l
}

// Append adds entries and returns the offset of the first when all are durable. The
// offsets of one call are consecutive. Concurrent callers share transactions. A call
// too large for one transaction is split, in order.
//
// After an error the first entries of such a call may be in the log, so readers must
// recognise a repetition by the content. An entry larger than MaxValue is ErrTooLarge.
// The caller may reuse the values when Append returns.
func (l *Log) Append(entries []Entry) (first int64, err error) { return l.append(entries, true) }

// AppendUnsynced is Append, but may return when the system has the entries. The disk has them within
// SyncWithin. The end of the process loses none; a power cut may lose those of that time. Durable data
// never depends on entries that are not durable. Options.Failed reports a disk that rejects them.
func (l *Log) AppendUnsynced(entries []Entry) (first int64, err error) {
	return l.append(entries, false)
}

func (l *Log) append(entries []Entry, synced bool) (first int64, err error) {
	if err := l.store.enter(); err != nil {
		return 0, err
	}
	defer l.store.leave()
	// Nothing to write, and so nothing to wait for.
	if len(entries) == 0 {
		return l.End(), nil
	}
	if err := l.sizes(entries); err != nil {
		return 0, err
	}
	switch {
	case l.store.inMemory():
		return l.hold(entries), nil
	case l.derived:
		return l.store.writer.takeAlong(l, entries)
	}
	b := l.batch(entries)
	b.unsynced = !synced
	return l.write(b)
}

// AppendFrom appends what a reader has read, and sets its cursor in the last transaction of the
// entries. After a crash the log has everything before the cursor. If all fitted into one transaction
// it has nothing more. It must not be used on a derived log, which becomes durable at an unknown time.
func (l *Log) AppendFrom(entries []Entry, cursor string, position []byte) error {
	if err := l.store.enter(); err != nil {
		return err
	}
	defer l.store.leave()
	if err := l.sizes(entries); err != nil {
		return err
	}
	inMemory := l.store.inMemory()
	b := &batch{}
	if !inMemory {
		b = l.batch(entries)
	}
	if err := b.cursor(l.store, cursor, position); err != nil {
		return err
	}
	if inMemory { // not before: who is refused has appended nothing
		l.hold(entries)
	}
	_, err := l.write(b)
	return err
}

// sizes refuses entries that are too large.
func (l *Log) sizes(entries []Entry) error {
	for i := range entries {
		if n := len(entries[i].Value); n > l.store.MaxValue() {
			return fmt.Errorf("append: entry %d has %d bytes, the limit is %d: %w", i, n, l.store.MaxValue(), ErrTooLarge)
		}
	}
	return nil
}

// write returns the offset of the first entry of a batch when all of it is durable.
func (l *Log) write(b *batch) (first int64, err error) {
	if err := l.store.writer.write(b); err != nil {
		return 0, fmt.Errorf("append: %w", err)
	}
	return b.first, nil
}

// batch is what writes entries. It has copies of them.
func (l *Log) batch(entries []Entry) *batch {
	// Room for the keys is made here, by as many goroutines as append; what they are is known
	// only when the writer gives out offsets.
	b := &batch{log: l, ops: make([]op, len(entries)), kept: make([]Entry, len(entries))}
	keyBytes := 1 + 4 + len(l.id) + offsetBytes
	keys := make([]byte, len(entries)*keyBytes) // filled in by the writer
	for i := range entries {
		e := &entries[i]
		v := newValue(2*binary.MaxVarintLen64 + len(e.Value))
		v = binary.AppendVarint(v, int64(e.Appended))
		v = binary.AppendVarint(v, e.Trigger)
		// The value is one copy for both: what is written, and what stays in memory for readers.
		from, at := len(v), i*keyBytes
		v = append(v, e.Value...)
		b.ops[i].entry = badger.Entry{Key: keys[at : at+keyBytes : at+keyBytes], Value: v}
		b.kept[i] = Entry{Appended: e.Appended, Trigger: e.Trigger, Value: v[from:len(v):len(v)]}
	}
	return b
}

// show lets readers have the entries of a batch before they are durable, and gives them their
// offsets.
func (l *Log) show(b *batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.first = l.end
	for i := range b.kept {
		b.kept[i].Offset = b.first + int64(i)
	}
	l.keep(b.kept)
}

// unwritten leaves in a batch what the database has not of it, and returns how many bytes that is.
func (l *Log) unwritten(b *batch) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(max(0, l.written-b.first), int64(len(b.ops)))
	b.ops, b.kept, b.first = b.ops[n:], b.kept[n:], b.first+n
	return b.size()
}

// hold appends to a log of a store in memory. Nothing has to be durable, so it neither waits nor
// uses the database. Entries expire as they do there.
func (l *Log) hold(entries []Entry) (first int64) {
	total := 0
	for i := range entries {
		total += len(entries[i].Value)
	}
	values, kept := arena{make([]byte, 0, min(total, maxArena))}, make([]Entry, len(entries))
	for i, e := range entries {
		kept[i] = Entry{Appended: e.Appended, Trigger: e.Trigger, Value: values.copy(e.Value)}
	}
	w := l.store.writer
	w.held.Lock()
	defer w.held.Unlock()
	w.trimHeld()
	number := w.tape.current(l.store.options.now(), &l.store.options).number
	l.mu.Lock()
	defer l.mu.Unlock()
	first = l.end
	for i := range kept {
		kept[i].Offset = first + int64(i)
		w.tape.bytes += cost(1+4+len(l.id)+offsetBytes, sealBytes+len(kept[i].Value))
	}
	l.add(&growth{first: first, end: first + int64(len(kept)), opens: l.opensIn(number), kept: kept}, number)
	return first
}

// Read appends to dst the entries from offset from on, at most limit of them and not
// much more than 4 MiB, and returns the extended slice. It returns dst unchanged when
// from is the end of the log; Ready signals when to read again. The values may be kept
// and must not be changed, because other readers share the bytes.
//
// When the entry at from has expired the error is a *GapError with the offset to
// continue at. A from beyond the end, or a gap, is ErrDamaged.
//
// It does not wait for writes, and returns only durable entries, except from a derived log.
func (l *Log) Read(from int64, limit int, dst []Entry) ([]Entry, error) {
	if err := l.store.enter(); err != nil {
		return dst, err
	}
	defer l.store.leave()
	r := reader{log: l, next: from, limit: limit, dst: dst}
	for r.limit > 0 && r.size < readBytes {
		// Most readers are near the end, and never get to the database.
		if r.readRecent() {
			break
		}
		// Segment by segment, because that is how the keys are ordered. What was found is looked
		// up again for each, since one may be dropped meanwhile.
		number, end, err := l.find(r.next)
		if err != nil {
			return r.dst, err
		}
		if r.next == end {
			break
		}
		if l.store.inMemory() {
			continue // it came this moment
		}
		if err := r.read(number, end); err != nil {
			return r.dst, err
		}
	}
	return r.dst, nil
}

// find returns the segment that holds the entry at an offset, and the end of what the
// log has in it.
func (l *Log) find(offset int64) (number uint32, end int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if offset < 0 || offset > l.end {
		return 0, 0, damaged(l.String(), fmt.Errorf("a reader is at %d, but the end is %d", offset, l.end))
	}
	if offset == l.end {
		return 0, l.end, nil
	}
	// The first segment that begins behind the offset; the one before it holds the entry.
	i := sort.Search(len(l.starts), func(i int) bool { return l.starts[i].first > offset })
	end = l.written
	if i < len(l.starts) {
		end = l.starts[i].first
	}
	// All that begin at or before it were dropped.
	if i == 0 {
		return 0, 0, &GapError{From: offset, To: end}
	}
	return l.starts[i-1].segment, end, nil
}

// reader is one Read under way.
type reader struct {
	log *Log
	// next is the offset that comes next, limit how many entries are still wanted, size how many
	// bytes of them there are.
	next  int64
	limit int
	size  int
	dst   []Entry
	// The values of one Read lie together in it.
	arena arena
}

// readRecent takes entries that are in memory; false when the next one is not.
func (r *reader) readRecent() bool {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.recent) == 0 || r.next < l.recent[0].Offset || r.next >= l.end {
		return false
	}
	// Offsets are dense, so the place follows from the first one.
	for _, e := range l.recent[r.next-l.recent[0].Offset:] {
		if r.limit <= 0 || r.size >= readBytes {
			break
		}
		r.dst = append(r.dst, e)
		r.limit, r.size = r.limit-1, r.size+len(e.Value)
	}
	return true
}

// read takes entries of one segment, up to end.
func (r *reader) read(number uint32, end int64) error {
	l := r.log
	prefix := append(segmentPrefix(number), l.id...)
	start := binary.BigEndian.AppendUint64(prefix[:len(prefix):len(prefix)], uint64(r.next))
	// At the newest version, which is good enough for what never changes; end keeps out what is
	// there and is not durable yet.
	err := iterateFrom(l.store.db, prefix, start, func(item *badger.Item) error {
		key := item.Key()
		if len(key) != len(prefix)+offsetBytes {
			return damaged(l.String(), fmt.Errorf("key %x has a wrong length", key))
		}
		offset := int64(binary.BigEndian.Uint64(key[len(prefix):]))
		if r.next >= end || r.limit <= 0 || r.size >= readBytes {
			return errStop
		}
		if offset != r.next {
			return errStop // reported below
		}
		e, err := l.decode(item, &r.arena)
		if err != nil {
			return damaged(l.String(), fmt.Errorf("entry %d: %w", offset, err))
		}
		e.Offset = offset
		r.dst = append(r.dst, e)
		r.next, r.limit, r.size = r.next+1, r.limit-1, r.size+len(e.Value)
		return nil
	})
	// A hole, unless the segment was dropped while it was read: then the next look finds the
	// gap.
	if err == nil && r.next < end && r.limit > 0 && r.size < readBytes && l.holds(number) {
		err = damaged(l.String(), fmt.Errorf("entry %d is missing", r.next))
	}
	return err
}

// holds reports whether the log still has entries in a segment.
func (l *Log) holds(number uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.starts, func(s logStart) bool { return s.segment == number })
}

// decode reads one entry of the database but for its offset, which the key says. Its value is a
// copy.
func (l *Log) decode(item *badger.Item, a *arena) (e Entry, err error) {
	err = item.Value(func(v []byte) error {
		content, err := unseal(v, item.Key())
		if err == nil {
			e, err = decodeEntry(content)
		}
		e.Value = a.copy(e.Value)
		return err
	})
	return e, err
}

// decodeEntry reads what batch has written of an entry. Its value points into the content.
func decodeEntry(content []byte) (e Entry, err error) {
	d := decoder{rest: content}
	e.Appended = events.Stamp(d.int("append time"))
	e.Trigger = d.int("trigger")
	e.Value = d.rest
	return e, d.err
}

// End returns the offset that the next entry will get. All entries before it are durable, but in
// a derived log.
// It never goes back, also when entries expire.
func (l *Log) End() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// Ready returns a channel that is closed when the log has grown beyond from, or when
// the store is closed. It is closed already when there is something to read.
// All readers at the end share one channel, so growth wakes them together and costs
// nothing without them. It may wake without new entries: call Read.
func (l *Log) Ready(from int64) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end > from || l.shut {
		now := make(chan struct{})
		close(now)
		return now
	}
	if l.more == nil {
		l.more = make(chan struct{})
	}
	return l.more
}

// String returns the log's name for messages.
func (l *Log) String() string {
	name := map[byte]string{journalKind: "journal", verdictKind: "verdict log", deadKind: "dead letters"}[l.id[0]]
	if len(l.id) == maxLogID {
		return fmt.Sprintf("%s of partition %d", name, binary.BigEndian.Uint16(l.id[1:]))
	}
	return name
}

// endOp keeps the end beside the entries, in the same transaction, because the
// entries expire and an offset must never be given twice.
func (l *Log) endOp(end int64) *op {
	key := append([]byte{endPrefix}, l.id...)
	v := binary.AppendVarint(newValue(binary.MaxVarintLen64), end)
	seal(v, key)
	return &op{entry: badger.Entry{Key: key, Value: v}}
}

// endCost is what endOp takes of a transaction, at most.
const endCost = 1 + maxLogID + sealBytes + binary.MaxVarintLen64 + entryOverhead

// opens reports whether the log has no entry yet in a segment.
// Only the writer asks, and only it changes the answer.
func (l *Log) opens(number uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opensIn(number)
}

// opensIn must be called with mu held.
func (l *Log) opensIn(number uint32) bool {
	return len(l.starts) == 0 || l.starts[len(l.starts)-1].segment != number
}

// grow takes in what has become durable.
// It is called by the writer, once for each transaction, after that was synced: readers must
// never see what a crash could take back.
func (l *Log) grow(g *growth, number uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(g, number)
	// What is not written yet is nowhere else.
	for l.bytes > recentBytes && l.recent[0].Offset < l.written {
		l.dropRecent(1)
	}
}

// add must be called with mu held.
func (l *Log) add(g *growth, number uint32) {
	if g.opens {
		l.starts = append(l.starts, logStart{segment: number, first: g.first})
	}
	l.written = g.end
	l.keep(g.kept[min(max(0, l.end-g.first), int64(len(g.kept))):]) // what goes along was shown when it came
}

// keep takes in entries that readers shall have. It must be called with mu held.
func (l *Log) keep(kept []Entry) {
	l.end += int64(len(kept))
	l.recent = append(l.recent, kept...)
	for i := range kept {
		l.bytes += recentLeast + len(kept[i].Value)
	}
	l.wake()
}

// durable returns where what the database has of the log ends.
func (l *Log) durable() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written
}

// dropRecent lets the oldest entries that are in memory go.
func (l *Log) dropRecent(n int) {
	for i := range l.recent[:n] {
		l.bytes -= recentLeast + len(l.recent[i].Value)
	}
	// Cleared, since the array stays in use behind them.
	clear(l.recent[:n])
	l.recent = l.recent[n:]
}

// forget gives up a segment and those before it.
// Readers before it get a GapError from then on.
func (l *Log) forget(number uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starts = slices.DeleteFunc(l.starts, func(s logStart) bool { return s.segment <= number })
	first := l.written
	if len(l.starts) > 0 {
		first = l.starts[0].first
	}
	n := 0
	// Also from memory, or a reader would find in it what the log says has expired.
	for n < len(l.recent) && l.recent[n].Offset < first {
		n++
	}
	l.dropRecent(n)
}

// close wakes who waits, and makes Ready give closed channels: then Read says ErrClosed.
func (l *Log) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut = true
	l.wake()
}

// wake must be called with mu held. Who waits next gets a new channel.
func (l *Log) wake() {
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
}

// arena hands out copies of small slices from few allocations, each twice the last.
type arena struct{ free []byte }

// A reader that keeps one value keeps the whole slice alive, so slices stay small.
const maxArena = 64 << 10

// The copies have no room to grow, so appending to one does not write over the next.
func (a *arena) copy(b []byte) []byte {
	if len(b) > cap(a.free)-len(a.free) {
		a.free = make([]byte, 0, max(len(b), min(2*cap(a.free), maxArena)))
	}
	at := len(a.free)
	a.free = append(a.free, b...)
	return a.free[at:len(a.free):len(a.free)]
}
