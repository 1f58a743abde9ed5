package app

import (
	"sync/atomic"

	"weir/analyzer"
	"weir/events"
)

// Counts is what a pump has done since it was made, and how it stands. Any
// goroutine may read it; all figures are monotonic unless they say otherwise.
type Counts struct {
	Records    atomic.Int64 // taken from the log, bad ones included
	Events     atomic.Int64 // folded
	Duplicates atomic.Int64 // dropped because they had been folded before
	Late       atomic.Int64 // folded at the flow's clock, behind which they came
	TooLate    atomic.Int64 // dropped because nobody can tell whether they were folded
	Clamped    atomic.Int64 // stamped later than they were appended
	Ticks      atomic.Int64
	Asks       atomic.Int64
	Refused    atomic.Int64 // asks that were refused
	Attempts   atomic.Int64 // calls tried against an order
	Leaked     atomic.Int64 // calls that were in flight when an order went out
	Episodes   atomic.Int64
	Deadlines  atomic.Int64 // fired by the watermark
	Accepted   atomic.Int64 // events that the intake took, by HTTP and from files
	Repeated   atomic.Int64 // verdicts of a refold that the verdict log held already

	verdicts    [events.Notify + 1]atomic.Int64
	deadLetters [len(letterCodes)]atomic.Int64

	FlowsLive    atomic.Int64 // in memory now
	FlowBytes    atomic.Int64 // that they take, now
	Watermark    atomic.Int64 // latest event time seen, Unix milliseconds
	Next         atomic.Int64 // first offset not folded, now
	Lag          atomic.Int64 // records in the log that are not folded, as the source's reader last saw it
	Checkpoints  atomic.Int64
	CheckpointMS atomic.Int64 // how long the last checkpoint took
	Waits        atomic.Int64 // times that the pump waited for a checkpoint
	DiskLow      atomic.Bool  // a write waits for free space, now
}

// Codes of dead letters beside those of events.Code.
const (
	CodePanic  events.Code = "panic"  // a fault in weir itself while folding the record
	CodeLimits events.Code = "limits" // a limits.set whose document this weir does not accept
	CodeFormat events.Code = "format" // a record that an adapter could not read
	CodeLost   events.Code = "lost"   // records that expired before they were read
)

var letterCodes = [...]events.Code{events.CodeSyntax, events.CodeTooLong, events.CodeTooDeep, events.CodeDuplicateField,
	events.CodeMisspelledField, events.CodeWrongType, events.CodeOutOfRange, events.CodeInvalidValue, events.CodeMissingField,
	events.CodeInvalidUTF8, events.CodeTrailingData, events.CodeReservedKind, CodePanic, CodeLimits, CodeFormat, CodeLost, "other"}

// Verdicts returns how many verdicts with the action were published.
func (c *Counts) Verdicts(a events.Action) int64 { return c.verdicts[min(a, events.Notify)].Load() }

// DeadLetters returns how many records became dead letters, by code. The codes are a
// closed list; those with no letters are there too.
func (c *Counts) DeadLetters() map[events.Code]int64 {
	out := make(map[events.Code]int64, len(letterCodes))
	for i, code := range letterCodes {
		out[code] = c.deadLetters[i].Load()
	}
	return out
}

func (c *Counts) deadLetter(code events.Code) {
	for i := range letterCodes {
		if letterCodes[i] == code || i == len(letterCodes)-1 {
			c.deadLetters[i].Add(1)
			return
		}
	}
}

func (c *Counts) verdict(action string) {
	for a := range c.verdicts {
		if events.Action(a).String() == action {
			c.verdicts[a].Add(1)
			return
		}
	}
}

// add takes over what the fold has counted.
func (c *Counts) add(n *analyzer.Counts) {
	if n.Events == 0 && n.Duplicates == 0 && n.TooLate == 0 {
		return
	}
	c.Events.Add(n.Events)
	c.Duplicates.Add(n.Duplicates)
	c.Late.Add(n.Late)
	c.TooLate.Add(n.TooLate)
	c.Clamped.Add(n.Clamped)
	c.Asks.Add(n.Asks)
	c.Refused.Add(n.Refused)
	c.Attempts.Add(n.Attempts)
	c.Leaked.Add(n.Leaked)
	c.Episodes.Add(n.Episodes)
}
