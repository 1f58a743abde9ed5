// Package state is the on-disk store: flows, agents, deadlines, journals and verdicts in one Badger database.
//
// Guarantees:
//
//   - A checkpoint is atomic: after any crash the records of a partition are
//     exactly those of the last checkpoint that its Meta names, never a mixture.
//   - Data for which Commit, Append, DeadLetter or SetCursor returned nil survives
//     the end of the process and a power cut. One caller at a time writes for all
//     waiting callers, in one synced transaction. A few journal events at a time go
//     to a write-ahead file first and to the database with the next transaction.
//     Data for which AppendUnsynced returned nil survives a power cut SyncWithin later.
//   - The data on disk is a prefix of what was written. Open finds a gap or a damaged
//     file and refuses to open. Later damage is found when the value is read. Both are
//     ErrDamaged. Nothing is wiped or cut to continue. A mark beside the database
//     records how far it was synced, so a missing end does not look like a crash.
//   - The files of an open database must stay. Once one is gone, nothing is
//     acknowledged.
//   - Reads never block writes and do not wait for them.
//   - A full disk kills a Badger process with SIGBUS. A write below a floor of free
//     space therefore fails with ErrDiskLow before Badger is called, and can be
//     repeated. Merges continue below the floor. A reserve file as large as the
//     tables, up to the floor, keeps their room from other programs. It is released
//     when the disk is nearly full.
//
// Duties of the caller: one writer per partition, Close at the end, and an exit when
// a write fails with anything but ErrDiskLow, ErrTooLarge or ErrClosed. After such an
// error it is unknown how much was written, and the store rejects all further writes
// with ErrFailed. A new process finds the truth with Open.
//
// The package never reads the content of records, verdicts or partition states, and
// knows no event time. Clocks are used only for expiry.
package state
