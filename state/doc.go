// Package state is the on-disk store: flows, agents, deadlines, journals and verdicts in one Badger database.
//
// What may be relied on:
//
//   - A checkpoint is atomic: after any crash the records of a partition are
//     exactly those of the last checkpoint that its Meta names, never a mixture.
//   - What Commit, Append, DeadLetter or SetCursor returned nil for survives the
//     end of the process and a power cut. One caller at a time writes, for all who
//     wait, in one synced transaction; a few events of the journal at a time are written
//     ahead into a file of their own, and into the database with the next transaction.
//     What AppendUnsynced returned nil for survives a power cut SyncWithin later.
//   - What is on disk is a prefix of what was written. A hole in it, and damage to any
//     file, is found by Open, which then refuses; damage that happens later is found
//     when the value is read. Both are told by ErrDamaged, and nothing is ever wiped or
//     cut to get over it. A mark beside the database says how far it was synced, so that
//     an end that is missing does not look like a crash in the middle of a write.
//   - While a database is open its files have to stay: when one is gone nothing is
//     acknowledged any more.
//   - Reads never block writes and do not wait for them.
//   - A disk that runs full kills a Badger process with SIGBUS, so nothing is
//     written below a floor of free space: the write fails with ErrDiskLow before
//     Badger is touched, and may be tried again when there is room. Merges go on
//     below the floor; against other programs their room is held by a reserve, a
//     file as large as the tables, up to the floor, that is given back when the disk
//     is nearly full.
//
// What the caller owes: one writer per partition, Close at the end, and an exit
// when a write fails with anything but ErrDiskLow, ErrTooLarge or ErrClosed: how
// much of that write is on disk is then unknown, and the store refuses all further
// writes with ErrFailed. A new process finds the truth by Open.
//
// The package never looks into records, verdicts or the state of a partition, and
// knows no event time: clocks are used only to expire what no one needs any more.
package state
