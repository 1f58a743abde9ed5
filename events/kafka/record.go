package kafka

import (
	"errors"
	"fmt"

	"weir/events/kafka/recordbatch"
)

// Record is one record of a partition.
type Record = recordbatch.Record

// GapError reports that the records from From to before To are gone: retention or an
// operator deleted them before they were read. SkipTo(To) continues behind them.
//
// The fold starts behind the gap without states (decision 25).
type GapError struct {
	Topic     string
	Partition int
	From, To  int64
}

// Error says how many are gone.
func (e *GapError) Error() string {
	return fmt.Sprintf("topic %s partition %d: %d records from offset %d are gone before they were read: the oldest left is %d; keep the topic longer (retention.ms, retention.bytes)",
		e.Topic, e.Partition, e.To-e.From, e.From, e.To)
}

// BeyondEndError says that the partition ends before the offset that is to be read:
// the topic was created anew or cut.
//
// Nothing can be stepped over: there is no place from which to go on.
type BeyondEndError struct {
	Topic     string
	Partition int
	Next, End int64
}

// Error says what to do.
func (e *BeyondEndError) Error() string {
	return fmt.Sprintf("topic %s partition %d: to be read from offset %d on, but it ends at %d: it was created anew or cut, and what is kept of it belongs to another log: begin with an empty state",
		e.Topic, e.Partition, e.Next, e.End)
}

// ErrTooLarge is in a *BatchError when the batch unpacks to more than
// ReaderOptions.Unpacked, or has too many records or headers for that size.
//
// It also covers a bomb: a few kilobytes that unpack to gigabytes.
var ErrTooLarge = recordbatch.ErrTooLarge

// BatchError says that the records from Offset to before Next, which one producer sent
// together, cannot be read and never will be. SkipTo(Next) goes on behind them.
//
// Records before it in the partition have been given, and those behind it can be.
type BatchError struct {
	Topic        string
	Partition    int
	Offset, Next int64
	Err          error // why; ErrTooLarge is one of the reasons
}

// Error says which records cannot be read, and why.
func (e *BatchError) Error() string {
	return fmt.Sprintf("topic %s partition %d: the batch of the records from offset %d to before %d cannot be read: %v", e.Topic, e.Partition, e.Offset, e.Next, e.Err)
}

// Unwrap returns why.
func (e *BatchError) Unwrap() error { return e.Err }

// Behind returns the offset at which a Reader goes on behind what it cannot give: records
// that are gone (*GapError) or cannot be read (*BatchError). It is false for other errors.
//
// What is lost has to be counted by the caller, who alone knows where to keep that.
func Behind(err error) (next int64, ok bool) {
	if gap, ok := errors.AsType[*GapError](err); ok {
		return gap.To, true
	}
	if bad, ok := errors.AsType[*BatchError](err); ok {
		return bad.Next, true
	}
	return 0, false
}
