package pump

import (
	"context"
	"log/slog"
	"time"

	"weir/analyzer"
	"weir/analyzer/budgets"
	"weir/cmd/internal/clock"
	"weir/events"
	"weir/sink/prom"
	"weir/state"
)

// Record is one record of a source log.
type Record struct {
	// Offset is its place in the source log. Offsets grow from record to record, and may have
	// gaps.
	Offset   int64
	Appended events.Stamp // when the log took it; 0 when the log does not say
	Value    []byte       // one event as JSON; of the activity log also a batch of reports

	// Event is what events.Decode makes of Value, where the caller has decoded it already; else nil.
	// The pump copies it, and keeps none of its memory.
	Event *events.Event

	SentKey []byte // of a record of a topic of events: the key that its producer gave it; nil for none
	Further bool   // not the first of its flow among records that are read together; for Read

	// Of a record of the activity log, which is what an agent stage folds.
	Key  string   // the agent, project or tree that it concerns, see Repartitioned; "" of ticks and limits
	From Position // what it was made of; says nothing of limits
}

// Progress is how far a partition of a log is folded: Next is the first offset that is not,
// End that of the next record to come.
type Progress struct {
	Partition int
	Next, End int64
}

// Position is where a record of the activity log comes from: the Part-th one, from 0,
// that the event at an offset of a source partition brought about.
type Position struct {
	Source int
	Offset int64
	Part   int
}

// Emitted is a verdict and the offset of the record that brought it about. A deadline has no
// record of its own: its verdicts carry the offset of the last record that was folded before it
// fired.
type Emitted = events.Emitted

// Sink is where verdicts go first: the log that others read them from.
type Sink interface {
	// Emit returns when the verdicts are safe, with the position after the last of
	// them. After an error the pump either ends or calls again with the same
	// verdicts; then those that are safe already must not be written twice.
	Emit(ctx context.Context, verdicts []Emitted) (end int64, err error)

	// Since calls fn with the id and the trigger offset of each verdict from a position on. It returns
	// the position after the last of them. New calls it once, to learn what was published after the
	// last checkpoint. So it must include the verdicts of all earlier owners of the partition.
	Since(ctx context.Context, from int64, fn func(id string, trigger int64)) (end int64, err error)
}

// DeadLetters is where the records go that could not be folded.
type DeadLetters interface {
	// Publish returns when the letters are safe, with the position after the last of
	// them. After an error it may be called again with the same letters.
	Publish(ctx context.Context, deadLetters []state.DeadLetter) (end int64, err error)

	// Since calls fn with the offset of the record that each letter is about, from a
	// position on, and returns the position after the last of them.
	// Like that of a Sink it is called once, by New.
	Since(ctx context.Context, from int64, fn func(offset int64)) (end int64, err error)
}

// Repartitioned is an event as the rules about agents want it, which cut across flows.
type Repartitioned struct {
	Key    string // the agent, project or tree concerned (see activity.Activity); "" of a tick, which is for every partition of the activity
	Offset int64  // of the record that it is made of
	Part   int    // its place among what was made of that record, from 0
	Value  []byte // an event as JSON, or a batch of reports (see IsReports); good until Send returns
}

// Activity is where re-keyed events go.
type Activity interface {
	// Send returns when the events are safe, or are certain to be written before anything that is sent
	// later. After a crash some are sent again, in the same order. Their offsets and parts identify
	// the repeats. The values are in memory of the pump, which reuses it after Send has returned.
	Send(ctx context.Context, activity []Repartitioned) error

	// Place is the partition, from 0, of what concerns a key. It must keep nothing of the key.
	Place(key string) int
}

// Store is where checkpoints are kept: of each partition its flows or agents, their
// deadlines, and how far the log is folded. See state.Store.
type Store interface {
	// Meta returns what the last checkpoint says of the partition; false when there is none.
	Meta(partition uint16) (state.Meta, bool, error)
	// Due calls fn with the deadlines behind (after, key), in the order of time and then of
	// keys, until fn returns false. A pump holds only the next ones in memory, and asks for more
	// as they fire.
	Due(partition uint16, s state.Subject, after events.Stamp, key string, fn func(due events.Stamp, key string) bool) error
	// Load returns the record of one flow or agent, whose memory is the caller's, and its
	// deadline: 0 for none, state.DueUnknown when the record is of a format that does not say
	// it. ok is false when there is no record.
	Load(partition uint16, s state.Subject, key string) (record []byte, due events.Stamp, ok bool, err error)
	// Records calls fn with each record of the partition, in memory that is good until fn
	// returns. An error of fn ends that and is returned.
	Records(partition uint16, s state.Subject, fn func(key string, record []byte) error) error

	// Commit returns when the checkpoint is safe. It may be called by another goroutine
	// than the other methods.
	Commit(c *state.Checkpoint) error
	// MaxCheckpoint is how much one checkpoint may hold: it is one transaction of the store,
	// because after a crash either all of it must be there or nothing. See full.
	MaxCheckpoint() (bytes int64, writes int)

	DeadLetterStore
}

// Options are what a pump works with. Limits is required.
type Options struct {
	// Partition is the number under which the store keeps the state. An agent stage has a number
	// behind those of the flows, since both keep theirs in one store (decision 43).
	Partition uint16
	Source    string // names the log in dead letters and messages; default "journal"
	Stage     Stage  // what is folded; default FlowStage
	Sources   int    // of an agent stage: partitions of events that report to it; default 1

	// AgentPartitions is, in an agent stage, how many partitions the activity has: what one of
	// them passes on to the tree above comes from a source that is numbered behind those of the
	// events. Default 1.
	AgentPartitions int

	// Limits are in force until the log or the last checkpoint says otherwise.
	Limits analyzer.Limits
	// Parse reads the document of a limits.set. Without it such a record is a dead letter.
	Parse func(document []byte) (analyzer.Limits, error)

	// Store keeps checkpoints. Without it nothing is kept, all flows stay in memory
	// and nothing is published: this is for replays, which use Fold.
	Store Store
	// Start, Published and DeadLettered are where to begin in the source log, the verdict
	// log and the dead letters when the store has no checkpoint of the partition.
	Start, Published, DeadLettered int64

	// Sink gets the verdicts. Required with a Store.
	Sink Sink
	// DeadLetters gets the dead letters. Default: the Store.
	DeadLetters DeadLetters
	// Activity gets what concerns agents. Default: none.
	Activity Activity
	// ActivityWaits says that Send of Activity waits for others, so that Ahead leaves it to Batch.
	ActivityWaits bool
	// Trouble returns the cause of a failed write, for the metrics. Default: TroubleOf.
	Trouble func(error) prom.Trouble
	// Answer gets the answer of the fold to each check request, in the order of the log. It is called
	// before the verdicts of the batch are published: folding the log again gives the same answer, so
	// the caller need not wait. ev aliases the record. Answer must not block and must keep neither.
	Answer func(offset int64, record []byte, ev *events.Event, v *events.Verdict)

	// Held gets, instead of Answer, what a flow has allowed of which the tree has the last word:
	// that of the key. Its answer comes from the pump of an agent stage, see Settled. Without it
	// the flow alone answers. It must not block and must not keep ev.
	Held func(offset int64, ev *events.Event, key string, v *events.Verdict)
	// Settled gets, in an agent stage, what a tree said to each ask that a flow has allowed: the
	// event has the source, id and flow of what was asked, and from is where that stands in the
	// log. It must not block and must not keep ev.
	Settled func(from Position, ev *events.Event, v *events.Verdict)
	// PassedOn gets, in an agent stage, each ask of which the tree above has the last word: that
	// of the key, where it stands at offset to of this partition of the activity. It must not block.
	PassedOn func(from Position, key string, to int64)

	// Observe gets what the rules about flows measure (see analyzer.Engine.Observing), for backtests.
	// Default: none.
	Observe func(row analyzer.RuleID, value int64)

	// Account gets, in an agent stage, how the account of a budget stands after each of its steps, for
	// backtests. Default: none.
	Account func(v *budgets.View)

	// InOrder folds backlogs one record after the other, see ErrInOrder.
	InOrder bool

	Read            func(r *Record, ev *events.Event) // is called with each record that can be read, with some twice; default: nil
	Memory          int64                             // budget of flows in memory, bytes; default 512 MiB
	CheckpointEvery time.Duration                     // least time between checkpoints, see due; default 2 s
	Turn            Turn                              // with the other pumps of its store; default: its own
	Counts          *Counts                           // default: its own
	Metrics         *prom.Metrics                     // gets what happens; default: none
	Clock           clock.Clock                       // default: the system's
	Logger          *slog.Logger                      // default: drops everything
}

// Defaults of Options.
const (
	DefaultMemory          = 512 << 20
	DefaultCheckpointEvery = 2 * time.Second
)

func (o *Options) setDefaults() {
	if o.Source == "" {
		o.Source = "journal"
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	if o.CheckpointEvery == 0 {
		o.CheckpointEvery = DefaultCheckpointEvery
	}
	if o.Clock == nil {
		o.Clock = clock.System{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Counts == nil {
		o.Counts = new(Counts)
	}
	if o.Turn == nil {
		o.Turn = NewTurn()
	}
	if o.Trouble == nil {
		o.Trouble = TroubleOf
	}
}

// DeadLetterStore is where the dead letters go that have no other place. See state.Store.
type DeadLetterStore interface {
	DeadLetter(deadLetters ...state.DeadLetter) error
	// DeadLetters appends at most max dead letters to dst, from a sequence number on.
	DeadLetters(from int64, max int, dst []state.DeadLetter) ([]state.DeadLetter, error)
	DeadLetterCount() int64
}

// storedDeadLetters is the dead-letter queue of one source in the store. The list in the store has
// those of all sources; positions count over all of them.
type storedDeadLetters struct {
	store  DeadLetterStore
	source string
}

func (l *storedDeadLetters) Publish(_ context.Context, deadLetters []state.DeadLetter) (int64, error) {
	err := l.store.DeadLetter(deadLetters...)
	return l.store.DeadLetterCount(), err
}

// Since goes on behind dead letters that have expired.
func (l *storedDeadLetters) Since(_ context.Context, from int64, fn func(offset int64)) (int64, error) {
	var batch []state.DeadLetter
	for {
		var err error
		from, batch, err = state.ReadOn(l.store.DeadLetters, from, letterBatch, batch[:0])
		if err != nil || len(batch) == 0 {
			return from, err
		}
		for i := range batch {
			if d := &batch[i]; d.Source == l.source {
				fn(d.Position)
			}
		}
		from += int64(len(batch))
	}
}

// letterBatch is how many dead letters are read at one time.
const letterBatch = 1000
