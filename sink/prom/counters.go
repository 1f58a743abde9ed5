package prom

import (
	"unsafe"

	"weir/analyzer/activity"
	"weir/events"
	"weir/events/adapter"
)

// Counters is what a pump or an intake has counted since it last handed that on, and also
// the sum of what all of them have. Each field is an int64 or an array of them, and there
// is one for each metric: to add one is a field here, a row in the table of metrics, and
// the line that counts.
//
// What weir does to test itself is in none of them.
type Counters struct {
	// Fold is what flow stages fold; of agent stages it has only what is about orders.
	Fold activity.Counts

	Records   int64                          // taken from the log by flow stages, bad ones included
	Bytes     int64                          // of them
	Ticks     int64                          // of them
	Events    [KindCount][OutcomeCount]int64 // of flow stages
	Calls     [OriginCount]int64             // of agents, by who set them off
	Depths    [MaxDepth + 1]int64            // calls of agents, by the depth of the stack after them
	Misnamed  int64                          // events that lack what stands under a name a slip away
	Misplaced [MisplacementCount]int64       // records of events that may split their flow over partitions
	Silent    adapter.Silences               // spans that gave no event
	Rejected  [len(rejections)]int64         // records that became dead letters, see Reject
	NotKept   int64                          // dead letters that were counted alone, for there were too many
	Activity  [2]int64                       // records of agent stages that were folded; at 1 those that had been before
	// Its indexes are those of spentAfter.
	Spent [SpentPhases]Spent // by all flows, by how they had been judged: not at all, warned, stopped

	Opened    int64               // flows that became live
	Closed    [ClosingCount]int64 // flows that are live no more
	Deadlines int64               // fired by the watermark

	// By what they failed of.
	Unpublished     Troubles // tries to publish that failed
	Checkpoints     int64
	CheckpointWaits int64 // times that a pump waited for one
}

// size is how many figures there are.
// It only holds as long as Counters has nothing but int64 and arrays of them; a test sees to
// that.
const size = unsafe.Sizeof(Counters{}) / unsafe.Sizeof(int64(0))

// figures is all of them in a row, so that none can be forgotten where they are added up.
// Both types have the same size and alignment.
func (c *Counters) figures() *[size]int64 { return (*[size]int64)(unsafe.Pointer(c)) }

// Take adds all figures of n, and sets those of n to 0. The caller ensures that no other goroutine
// uses either of them meanwhile.
func (c *Counters) Take(n *Counters) {
	c.Fold.Take(&n.Fold) // which is the first field, and nearly all of it is mostly 0
	const first = unsafe.Sizeof(Counters{}.Fold) / unsafe.Sizeof(int64(0))
	to, from := c.figures()[first:], n.figures()[first:]
	for i, v := range from {
		if v != 0 {
			to[i] += v
			from[i] = 0
		}
	}
}

// rejections are the codes of dead letters; the last is that of all that have none of these.
var rejections = [...]events.Code{events.CodeSyntax, events.CodeTooLong, events.CodeTooDeep, events.CodeDuplicateField,
	events.CodeMisspelledField, events.CodeWrongType, events.CodeOutOfRange, events.CodeInvalidValue, events.CodeMissingField,
	events.CodeInvalidUTF8, events.CodeTrailingData, events.CodeReservedKind, events.CodePanic, events.CodeLimits, adapter.CodeFormat,
	events.CodeLost, events.CodeCrash, events.CodeUnreadable, "other"}

// Reject counts a record that became a dead letter. A code that is not in the list is
// counted as another.
func (c *Counters) Reject(code events.Code) {
	for i, of := range rejections {
		if of == code || i == len(rejections)-1 {
			c.Rejected[i]++
			return
		}
	}
}

// DeadLetters returns how many records became dead letters, by code. The codes are a
// closed list; those with no letters are there too.
// The map is the caller's.
func (c *Counters) DeadLetters() map[events.Code]int64 {
	out := make(map[events.Code]int64, len(rejections))
	for i, code := range rejections {
		out[code] = c.Rejected[i]
	}
	return out
}
