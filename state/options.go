package state

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// Options are what may be chosen about a store. The zero value is good.
type Options struct {
	// MemTableSize is the size of Badger's memtables in bytes; 0 means 32 MiB. It
	// decides how much memory the store takes, a few times as much, and how large a
	// checkpoint may be, 15 % of it. The least is 8 MiB.
	MemTableSize int64

	// MinFree is the free disk space in bytes below which nothing is written; 0 means
	// the larger of 512 MiB and sixteen memtables. Where the next compaction may take more,
	// it is as much as that, which is less than 1 GiB by default (see disk.least). With less
	// the process may end by SIGBUS, for flushes and compactions go on below it. A reserve of
	// up to as much is held beside it where the disk has room, see reserve.
	MinFree int64

	// RecordTTL removes records with their deadlines so long after they were last
	// written. JournalTTL removes the entries of logs and dead letters, many at a time,
	// when they are all older than that. 0 means never. Both go by the wall clock as
	// it was at Open and by the time since, and only reclaim space: choose them far longer
	// than anything that a replay after downtime may need.
	RecordTTL, JournalTTL time.Duration

	// LockWait is how long Open waits for the lock of another process, which may be
	// one that was just killed; 0 means 5 s, less than 0 not at all.
	LockWait time.Duration

	// Failed is called once when nothing can be written any more, at the latest a second
	// after the files were removed. It may be nil.
	Failed func(error)

	// Logger gets Badger's messages as warnings and for debugging, and one when Open begins to
	// wait for a lock; nil drops them.
	Logger *slog.Logger

	// For tests; zero values mean freeBytes, datasync, time.Now, how long this has
	// run whatever the clock was set to, segmentBytes and SyncWithin.
	free         func(path string) (int64, error)
	sync         func(log *os.File) error
	now          func() time.Time
	uptime       func() time.Duration
	segmentBytes int64
	syncWithin   time.Duration
}

const (
	defaultMemTable = 32 << 20
	minMemTable     = 8 << 20
	defaultMinFree  = 512 << 20
	// memTablesFree is how many memtables must fit into the free space, see Options.MinFree.
	memTablesFree    = 16
	defaultLockWait  = 5 * time.Second
	valueThreshold   = 1 << 20 // Badger's largest: what is smaller stays out of the value log, which is hard to collect
	entryHead        = 64      // what a value may have beside the caller's bytes
	valueLogFileSize = 64 << 20
	baseTableSize    = 8 << 20 // Badger's 2 MiB would take 500 open files per GiB

	// The number of tables as large as a memtable that gather before a merge with the level
	// below. Keys come in no order, so each merge rewrites that level; Badger's 5 would do it
	// three times as often, with its memory and processor time. A lookup of a missing flow reads
	// the filters of that many tables.
	levelZeroTables = 16

	// Up to so much what is written is moved one level down and no further. Keys come in no
	// order, so each level more writes all of it again; Badger's 10 MiB would have three.
	baseLevelSize = 128 << 20
)

// withDefaults fills in what was not chosen, and refuses what cannot work.
func (o Options) withDefaults() (Options, error) {
	if o.MemTableSize == 0 {
		o.MemTableSize = defaultMemTable
	}
	if o.MemTableSize < minMemTable {
		return o, fmt.Errorf("memtable of %d bytes, the least is %d", o.MemTableSize, minMemTable)
	}
	if o.MinFree == 0 {
		o.MinFree = max(defaultMinFree, memTablesFree*o.MemTableSize)
	}
	if o.MinFree < 0 || o.RecordTTL < 0 || o.JournalTTL < 0 {
		return o, errors.New("free space and times to live must not be negative")
	}
	if o.LockWait == 0 {
		o.LockWait = defaultLockWait
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.free == nil {
		o.free = freeBytes
	}
	if o.sync == nil {
		o.sync = datasync
	}
	if o.now == nil {
		o.now = time.Now
	}
	begun := o.now()
	if o.uptime == nil {
		o.uptime = func() time.Duration { return time.Since(begun) }
	}
	// A clock that is set while the store is open neither removes what is young nor keeps
	// what is old for ever: after begun it only counts how much time has passed.
	atOpen := o.uptime()
	o.now = func() time.Time { return begun.Add(o.uptime() - atOpen) }
	if o.segmentBytes == 0 {
		o.segmentBytes = segmentBytes
	}
	if o.syncWithin == 0 {
		o.syncWithin = SyncWithin
	}
	return o, nil
}

// badger returns Badger's options for a directory, "" for a store in memory.
func (o Options) badger(path string) badger.Options {
	// Of three memtables one is written to while the others wait to be flushed. All values are
	// stored with their keys (see valueThreshold), so the value log stays empty.
	b := badger.DefaultOptions(path).
		WithInMemory(path == "").
		WithSyncWrites(false). // see datasync
		WithMemTableSize(o.MemTableSize).
		WithNumMemtables(3).
		WithNumLevelZeroTables(levelZeroTables).
		WithNumLevelZeroTablesStall(levelZeroTables + levelZeroTables/4).
		WithBaseTableSize(baseTableSize).
		WithBaseLevelSize(baseLevelSize).
		WithValueLogFileSize(valueLogFileSize).
		WithValueThreshold(valueThreshold).
		WithNumVersionsToKeep(1).
		WithNumCompactors(2).
		WithDetectConflicts(false). // there is one writer
		WithMetricsEnabled(false).
		WithCompression(options.None).
		WithBlockCacheSize(0).                                // only needed with compression
		WithIndexCacheSize(0).                                // all in memory
		WithChecksumVerificationMode(options.NoVerification). // see verify
		WithBypassLockGuard(true).                            // see directory
		WithLogger(logger{o.Logger})
	b.TableSizeMultiplier = 1
	return b
}
