package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// writer lets one caller at a time write to the database, for itself and for all waiting
// callers. A single caller wakes no other goroutine. While one transaction is being synced
// the writes of all others queue up and share the next. Badger itself would sync for each.
//
// One writer at a time also keeps commit timestamps dense and in order, which the chain
// relies on. Reads can choose their own timestamp instead of waiting for running
// commits.
type writer struct {
	store *Store
	mu    sync.Mutex
	queue []*batch
	along along
	// It is set and cleared with mu held, together with a look at queue, so no caller waits
	// unseen.
	busy bool // a caller writes, or was asked to
	// Something was written ahead that may not be on the disk; syncing sees to that.
	unsynced bool
	late     bool        // and will not be soon, for there is no room
	syncing  *time.Timer // nil before the first

	// The fields below belong to the writing caller and pass to the next one with the turn.
	tape    tape
	taken   []*batch
	values  [][]byte // of what is written ahead
	several int      // how many turns ago at most callers shared one

	held sync.Mutex // of tape, in memory, where logs do without the writer
}

// batch is what one caller wants written: either entries that must stay in one
// transaction, or entries of a log, which may be split, in order.
// A caller owns it until it is queued and again when result has spoken; the writer has it in
// between.
type batch struct {
	ops   []op
	log   *Log  // batches of a derived log, or already written ahead, have no waiting caller
	first int64 // offset of the first entry of a log
	// It has room for errTurn and the result, so the sender never waits.
	result   chan error // the last value, when all is durable or nothing more will be
	kept     []Entry    // of a log, as they are in the first of ops
	unsynced bool       // its caller does not wait for the disk
}

// op sets a key or removes it.
// The entry must not move: Badger keeps a pointer to it until the transaction has ended.
type op struct {
	entry  badger.Entry
	remove bool
}

// Costs of a transaction beyond its own entries, on the safe side: what Badger adds
// to each entry, and the transaction's end mark together with the chain.
const (
	entryOverhead = 24
	groupOverhead = 256
	groupEntries  = 4
)

// cost is what an entry takes of a transaction, in bytes, never less than what Badger counts.
func cost(key, value int) int64 { return int64(key + value + entryOverhead) }

func (o *op) cost() int64 { return cost(len(o.entry.Key), len(o.entry.Value)) }

func newWriter(s *Store) *writer { return &writer{store: s} }

// severalTurns is for how long those who shared a write are waited for.
const severalTurns = 16

// errTurn makes a waiting caller the writer, for itself and for the others.
var errTurn = errors.New("turn")

// write returns when b is durable.
// It fails with ErrDiskLow, with ErrFailed, or with what Badger says of an entry that it never
// takes.
func (w *writer) write(b *batch) error {
	b.result = make(chan error, 2)
	w.mu.Lock()
	w.queue = append(w.queue, b)
	alone := !w.busy
	w.busy = true
	w.mu.Unlock()
	if !alone {
		// Another caller has written it, or hands over the turn.
		if err := <-b.result; err != errTurn {
			return err
		}
	}
	if w.several > 0 { // they are about to come again
		runtime.Gosched()
	}
	w.turn()
	return <-b.result
}

// turn writes what is queued and lets the next one write who came meanwhile.
func (w *writer) turn() {
	// Before the queue is taken, so that those who come meanwhile still share this write.
	w.trim()
	w.mu.Lock()
	// What goes along comes first, for what is queued may have been made of it.
	w.taken = append(append(w.taken[:0], w.along.batches...), w.queue...)
	come, along := len(w.queue), len(w.along.batches)
	much := w.along.bytes > mostAlong
	clear(w.queue)
	w.queue = w.queue[:0]
	w.mu.Unlock()
	if w.several = max(0, w.several-1); come > 1 {
		w.several = severalTurns
	}
	ahead := !much && w.writeAhead(w.taken[along:])
	if !ahead {
		w.writeAll(w.taken)
	}
	clear(w.taken)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !ahead {
		w.along.drop()
		if w.store.wal.written() {
			w.unsynced = false
		}
		w.late = w.unsynced
	}
	// The first who came since is the next. He writes for all who are there when his turn comes.
	if w.busy = len(w.queue) > 0; w.busy {
		w.queue[0].result <- errTurn
	}
}

// along is what goes along with the next write of the database: batches of derived logs and what
// was written ahead, in the order in which readers have them.
type along struct {
	batches []*batch
	bytes   int64 // about
}

// mostAlong is how much of it gathers before a caller has to write it.
const mostAlong = 256 << 10

// add shows readers the entries of a batch, and has them written with what is written next.
func (a *along) add(b *batch) {
	b.log.show(b) // at one moment, so that they are written in the order of their offsets
	a.batches = append(a.batches, b)
	a.bytes += b.size()
}

// drop drops what the database has.
func (a *along) drop() {
	a.bytes = 0
	a.batches = slices.DeleteFunc(a.batches, func(b *batch) bool {
		a.bytes += b.log.unwritten(b)
		return len(b.ops) == 0
	})
}

// takeAlong appends to a derived log, what is written with whatever is written next.
func (w *writer) takeAlong(l *Log, entries []Entry) (first int64, err error) {
	if err := w.store.failure(); err != nil {
		return 0, err
	}
	w.mu.Lock()
	much := w.along.bytes > mostAlong
	w.mu.Unlock()
	if much {
		if err := w.flush(); err != nil {
			return 0, err
		}
	}
	b := l.batch(entries)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.along.add(b)
	return b.first, nil
}

// flush writes what goes along, and returns when it is durable.
func (w *writer) flush() error { return w.write(new(batch)) }

// SyncWithin is how long the disk does not have yet what AppendUnsynced has appended.
const SyncWithin = 50 * time.Millisecond

// syncSoon has what was written ahead unsynced made durable. The caller holds mu.
func (w *writer) syncSoon() {
	within := w.store.options.syncWithin
	if w.unsynced = true; w.syncing == nil {
		w.syncing = time.AfterFunc(within, w.syncAhead)
	} else {
		w.syncing.Reset(within)
	}
}

// syncAhead writes into the database what may not be on the disk, unless that was done meanwhile.
func (w *writer) syncAhead() {
	if w.store.enter() != nil { // Close does it
		return
	}
	defer w.store.leave()
	w.mu.Lock()
	unsynced := w.unsynced
	w.mu.Unlock()
	if unsynced && errors.Is(w.flush(), ErrDiskLow) {
		w.mu.Lock()
		w.syncSoon()
		w.mu.Unlock()
	}
}

// writeAll writes batches in order, in as few transactions as possible, and notifies
// each of them.
func (w *writer) writeAll(batches []*batch) {
	g := w.newGroup()
	// Why what goes along is not written. Then nothing is that was queued behind it.
	var failed error
	commit := func() error {
		err := g.commit()
		if g.along && failed == nil {
			failed = err
		}
		g = w.newGroup()
		return err
	}
	for _, b := range batches {
		// It must not be split, so it begins a transaction of its own if it does not fit behind
		// the others.
		if b.log == nil && !g.fits(b.size(), len(b.ops)) {
			_ = commit() // which has notified its batches
		}
		err := failed
		for i := 0; i < len(b.ops) && err == nil; i++ {
			// What else a batch has stands behind the entries of its log.
			entry := i < len(b.kept)
			bytes, count := b.ops[i].cost(), 1
			if entry {
				bytes, count = g.logCost(b.log, &b.ops[i])
			}
			if b.log != nil && !g.fits(bytes, count) {
				err = commit()
			}
			if entry && err == nil {
				// An offset is given only when the entry is sure of its place in this
				// transaction; if the commit fails the end of the log stays, and the offset
				// is given again.
				g.number(b, i)
			}
			if err == nil {
				g.add(&b.ops[i])
			}
		}
		if err != nil { // the first part of b is durable at most
			b.notify(err)
			continue
		}
		g.complete = append(g.complete, b)
	}
	_ = commit()
}

// notify ends the wait for b.
func (b *batch) notify(err error) {
	if b.result != nil {
		b.result <- err
	}
}

// put sets key to a value made by newValue, which it seals.
func (b *batch) put(key, value []byte, expires uint64) {
	seal(value, key)
	b.set(key, value, expires)
}

// set sets key to a value as it is; expires is a Unix second, 0 for never.
func (b *batch) set(key, value []byte, expires uint64) {
	b.ops = append(b.ops, op{entry: badger.Entry{Key: key, Value: value, ExpiresAt: expires}})
}

// remove removes a key, which may not be there.
func (b *batch) remove(key []byte) {
	b.ops = append(b.ops, op{entry: badger.Entry{Key: key}, remove: true})
}

// size is what the whole batch takes of a transaction.
func (b *batch) size() (bytes int64) {
	for i := range b.ops {
		bytes += b.ops[i].cost()
	}
	return bytes
}

// group is one transaction in the making.
type group struct {
	w *writer
	// txn is nil until the first entry.
	floor    int64 // of free disk space
	txn      *badger.Txn
	bytes    int64
	count    int
	segment  segment // of the entries of logs
	logs     map[*Log]*growth
	logBytes int64
	complete []*batch // those whose last entry is in this transaction
	along    bool     // it has something that goes along
	err      error    // the first entry that Badger did not take
}

// growth is what a transaction adds to a log.
type growth struct {
	first, end int64
	opens      bool // these are the first entries of the log in the segment
	kept       []Entry
}

// newGroup begins a transaction with nothing in it.
func (w *writer) newGroup() *group {
	return &group{w: w, floor: w.store.floor(), logs: make(map[*Log]*growth)}
}

// fits reports whether so much more goes into the transaction. An empty one takes
// anything, because the limits of a single batch were checked before it was queued.
func (g *group) fits(bytes int64, count int) bool {
	s := g.w.store
	return g.count == 0 || g.bytes+bytes <= s.maxBytes && g.count+count <= s.maxCount
}

// logCost is what the next entry of a log takes, with what else has to be written
// when it is the log's first in the transaction.
func (g *group) logCost(l *Log, o *op) (bytes int64, count int) {
	if g.logs[l] == nil {
		return o.cost() + endCost + startCost, 3
	}
	return o.cost(), 1
}

// number gives entry i of b its key: the segment and the next offset of its log.
func (g *group) number(b *batch, i int) {
	l := b.log
	g.along = g.along || b.result == nil
	grown := g.logs[l]
	if grown == nil {
		// One segment for all logs of a transaction, chosen with the first entry of any.
		if len(g.logs) == 0 {
			g.segment = g.w.tape.current(g.w.store.options.now(), &g.w.store.options)
		}
		grown = &growth{first: l.durable(), end: l.durable(), opens: l.opens(g.segment.number)}
		g.logs[l] = grown
		g.bytes, g.count = g.bytes+endCost+startCost, g.count+2
	}
	if i == 0 {
		b.first = grown.end
	}
	o := &b.ops[i]
	key := append(o.entry.Key[:0], entryPrefix)
	key = binary.BigEndian.AppendUint32(key, g.segment.number)
	key = append(key, l.id...)
	binary.BigEndian.AppendUint64(key, uint64(grown.end))
	seal(o.entry.Value, o.entry.Key)
	b.kept[i].Offset = grown.end // that of a derived log has it already
	grown.kept = append(grown.kept, b.kept[i])
	grown.end++
	g.logBytes += o.cost()
}

// add puts an operation into the transaction. Badger's errors here mean a key or a value that it
// never takes.
func (g *group) add(o *op) {
	if g.txn == nil {
		// It reads nothing, so the version to read at does not matter; that to write at is said
		// by commit.
		g.txn = g.w.store.db.NewTransactionAt(endOfTime, true)
	}
	g.bytes, g.count = g.bytes+o.cost(), g.count+1
	var err error
	if o.remove {
		err = g.txn.Delete(o.entry.Key)
	} else {
		err = g.txn.SetEntry(&o.entry)
	}
	if err != nil && g.err == nil {
		g.err = err
	}
}

// commit makes the transaction durable and notifies its callers. The error is that of
// the transaction.
func (g *group) commit() error {
	if g.txn == nil {
		// Only batches without entries are in it.
		g.done(nil)
		return nil
	}
	defer g.txn.Discard()
	s := g.w.store
	if err := s.failure(); err != nil {
		return g.done(err)
	}
	// Before Badger is touched, so nothing has happened and it may be tried again.
	if err := s.disk.admit(g.bytes, g.floor); err != nil {
		s.needReserve() // at once: a merge may be at work
		return g.done(fmt.Errorf("write state: %w", err))
	}
	// In the same transaction as the entries, so that what Open reads of a log fits what is in
	// it.
	for l, grown := range g.logs {
		g.add(l.endOp(grown.end))
		if grown.opens {
			g.add(startOp(g.segment, l, grown.first))
		}
	}
	// Nothing that an older weir cannot read may stand under its format: it would be taken for
	// damage.
	if s.older {
		g.add(formatOp())
	}
	// Dense, and given only to what is written: a version that is left out would look like a
	// hole.
	version := s.committed + 1
	g.add(chainOp(version))
	if g.err != nil { // nothing has reached the database
		return g.done(fmt.Errorf("write state: %w", g.err))
	}
	// From here on it is not known what is on disk, so any error ends all writing.
	if err := g.txn.CommitAt(version, nil); err != nil {
		s.fail(err)
		return g.done(s.failure())
	}
	if err := s.safe(version); err != nil {
		s.fail(err)
		return g.done(s.failure())
	}
	// Only what is synced is shown: to iterations, then to the readers of logs, then to those
	// who wait.
	s.advance(version)
	s.older = false
	for l, grown := range g.logs {
		l.grow(grown, g.segment.number)
	}
	if len(g.logs) > 0 { // in memory there are none, and the holder of held owns the tape
		g.w.tape.bytes += g.logBytes
	}
	return g.done(nil)
}

// done ends the wait of those whose last entry was in this transaction, and returns err.
func (g *group) done(err error) error {
	for _, b := range g.complete {
		b.notify(err)
	}
	return err
}
