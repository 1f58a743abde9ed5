package pump

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/costs"
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

	// Of a record of the activity log, which is what an agent stage folds.
	Key  string   // whom it concerns, see Repartitioned; "" of ticks and limits
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

	// Since calls fn with the id and the trigger offset of each verdict from a
	// position on, and returns the position after the last of them.
	// It is called once, by New, to learn what was published behind the last checkpoint, and so
	// it has to tell of all that any earlier owner of the partition has published.
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
	Key    string // whom it concerns (see activity.Activity); "" of a tick, which is for every partition of the activity
	Offset int64  // of the record that it is made of
	Part   int    // its place among what was made of that record, from 0
	Value  []byte // an event as JSON, or a batch of reports (see IsReports); good until Send returns
}

// Activity is where re-keyed events go.
type Activity interface {
	// Send returns when they are safe there, or sure to be before anything is that is written
	// later. After a crash some are sent again, in the
	// same order; their offsets and parts tell.
	// The values are in memory of the pump, which uses it again when Send has returned.
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
	Sources   int    // of an agent stage: partitions of events that tell it; default 1

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
	// Activity gets what concerns agents. Default: nobody.
	Activity Activity
	// Trouble tells what a write failed of, for the metrics. Default: TroubleOf.
	Trouble func(error) prom.Trouble
	// Answer gets what the fold said to each ask, in the order of the log and before
	// the verdicts of its batch are published: who folds again says the same, so nobody has
	// to wait for that. It must not block and must not keep ev.
	Answer func(offset int64, ev *events.Event, v *events.Verdict)

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

	// Observe gets what the rules about flows measure (see analyzer.Engine.Observing), for
	// backtests. Default: nobody.
	Observe func(row analyzer.RuleID, value int64)

	// InOrder folds backlogs one record after the other, see ErrInOrder.
	InOrder bool

	Prices          costs.Prices                          // of tokens of which events do not say what they cost
	Read            func(record []byte, ev *events.Event) // is told of each record that can be read; default: nobody
	Memory          int64                                 // budget of flows in memory, bytes; default 512 MiB
	CheckpointEvery time.Duration                         // least time between checkpoints, see due; default 2 s
	Turn            Turn                                  // with the other pumps of its store; default: its own
	Counts          *Counts                               // default: its own
	Metrics         *prom.Metrics                         // told of what happens; default: nobody
	Clock           clock.Clock                           // default: the system's
	Logger          *slog.Logger                          // default: drops everything
}

// Defaults of Options.
const (
	DefaultMemory          = 512 << 20
	DefaultCheckpointEvery = 2 * time.Second
)

// diskRetry is how long a write that found too little free space waits.
const diskRetry = time.Second

// Pump folds the records of one partition of a log into flows, or into agents (see
// Stage): it publishes what comes of them and only then lets a checkpoint pass. What it
// publishes depends on the records alone, neither on how they are batched nor on crashes
// in between.
//
// Batch, Gather, Fold and Close are for one goroutine; the other methods are for all.
type Pump struct {
	o       Options
	counts  *Counts
	counted prom.Counters // since the last tally: what all look at is touched once for each batch
	// standing is read by any goroutine without mu: neither has a reading of the metrics to wait
	// for a batch, nor a batch for the reading.
	standing Standing

	mu        sync.Mutex // held while records are folded, for those who look at flows and agents
	engine    *analyzer.Engine
	stage     folding
	subject   state.Subject // of what the stage folds
	document  []byte        // of the last limits.set; nil when there was none
	cache     *recordCache  // or agents
	deadlines deadlines

	// What one record needs.
	coming   []decoded     // the one at hand and those after it, see prefetch
	appended events.Stamp  // of the one at hand
	open     *cachedRecord // whose flow is in the scratch of the stage
	ahead    bool          // scratch is ahead of the record of open: encoded holds what it should be
	// encoded is the record of what is in scratch. It takes the place of that of open when
	// scratch is closed, see keep.
	encoded []byte
	// fx is what steps have brought about since it was reset; its memory is used for all of
	// them.
	fx      analyzer.Effects
	err     error // ends the pump
	touched byte  // see prefetch

	sweeping bool // a sweep is under way
	swept    int  // records that were folded by sweeps
	noRoom   bool // a sweep finds no room in the checkpoint that is gathered

	next           int64 // first offset that is not folded
	gathered       int   // so many records were folded since the last publication, see Gather
	end            int64 // of the verdict log
	deadLettersEnd int64 // end of the dead letters
	// What was folded and is not safe yet, in the order of the log. settle empties all three.
	out            []Emitted
	deadLetters    []state.DeadLetter
	repartitioned  []Repartitioned
	dedup          recoveryDedup
	repartitioning repartitioning
	handOn         func(key string, from Position, ev *events.Event) // gets what concerns agents at once, instead of Activity
	handReports    func(from Position, batch []byte)                 // the same

	// By it an owner tells whether the topic is still the one that it folded: a topic that was
	// made anew has another record at that offset (decision 23).
	last struct { // record that was folded
		offset int64
		sum    uint64
		known  bool
	}
	// On a topic the limits are written again and again, so that an owner that begins in the
	// middle meets them before the events that they judge. These two tell when that is due.
	limits struct { // that were set last
		at    events.Stamp // when the log took them
		since int64        // events after them
	}

	checkpoints checkpoints
	metrics     metrics
	given       []events.Verdict // what Fold returned last
	quota       quota            // of lines about verdicts
	refusals    quota            // of lines about calls that were refused

	hurry   chan struct{} // closed when nothing waits for free space any more
	hurries sync.Once
}

// engine returns what judges by the limits.
func (o *Options) engine(l analyzer.Limits) *analyzer.Engine {
	// An engine that observes judges the same, so backtests fold what a live pump would.
	e := analyzer.New(l)
	if o.Observe != nil {
		e = e.Observing(o.Observe)
	}
	return e
}

// New returns a pump that goes on where the last checkpoint of its partition in
// the store left off.
//
// With a store it reads what the verdict log and the dead letters hold behind that checkpoint,
// which takes as long as they are. ctx ends it, and is not kept.
func New(ctx context.Context, o Options) (*Pump, error) {
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
	p := &Pump{o: o, counts: o.Counts, cache: newRecordCache(), deadlines: newDeadlines(0), engine: o.engine(o.Limits),
		next: o.Start, quota: quota{clock: o.Clock, most: linesPerSecond}, refusals: quota{clock: o.Clock, most: refusedPerSecond}, hurry: make(chan struct{})}
	p.stage, p.subject = p.stageOf(&o)
	if o.Store == nil {
		return p, nil
	}
	if o.Sink == nil {
		return nil, errors.New("pump: a store needs a sink for the verdicts")
	}
	// Without a store there is nothing that deadlines could be fetched from, so all were to be
	// held.
	p.deadlines = newDeadlines(o.Memory)
	if p.o.DeadLetters == nil {
		p.o.DeadLetters = &storedDeadLetters{o.Store, o.Source}
	}
	if err := p.resume(ctx); err != nil {
		return nil, fmt.Errorf("resume partition %d: %w", o.Partition, err)
	}
	return p, nil
}

// Batch folds records in their order and returns when their verdicts are published.
// Their checkpoint follows in the background, see due. The
// records may be reused when it returns. Batch without records publishes what is
// left and lets a checkpoint pass that is due.
//
// Records below Next are skipped. An error is final: the pump must be thrown away,
// and the next one folds again from the last checkpoint.
func (p *Pump) Batch(ctx context.Context, records []Record) error {
	return p.batch(ctx, records, p.fold)
}

func (p *Pump) batch(ctx context.Context, records []Record, fold func([]Record) int) error {
	defer p.timed(len(records))()
	for {
		// fold stops when what was folded just fits into a checkpoint, and settle makes room. So
		// there is one turn for each such part. Deadlines that the last record has made ripe
		// fire here as well: what the log has decided already must not wait for its next record.
		n := fold(records)
		records = records[n:]
		if err := p.settle(ctx); err != nil {
			return err
		}
		if len(records) == 0 && !p.ripe() {
			return nil
		}
	}
}

// mostGathered is how many records Gather folds before what came of them is published.
const mostGathered = 1 << 13

// mostDeadBytes is how much of the dead letters is held back meanwhile.
const mostDeadBytes = 1 << 20

// Gather is Batch for records that many others stand behind: what comes of them may wait,
// within bounds, and go out with what comes of those, because each publication costs the
// brokers as much as hundreds of records. Batch publishes it. Records of flows are folded flow by
// flow (see sweep) unless Options.InOrder says otherwise, so the error may be ErrInOrder.
func (p *Pump) Gather(ctx context.Context, records []Record) error {
	// Without a store nothing is published that could be saved.
	if p.o.Store == nil {
		return p.Batch(ctx, records)
	}
	p.gathered += len(records)
	done := p.timed(len(records))
	n := p.foldSwept(records)
	done()
	// No more can wait after an error, with a full checkpoint or one that is due, or with too much
	// memory held by dead letters.
	if n == len(records) && p.err == nil && p.gathered <= mostGathered && !p.full() && !p.due() && p.deadBytes() < mostDeadBytes {
		return nil
	}
	return p.batch(ctx, records[n:], p.foldSwept)
}

// deadBytes is how much memory the dead letters hold that wait to be published.
func (p *Pump) deadBytes() (n int) {
	for i := range p.deadLetters {
		n += len(p.deadLetters[i].Raw)
	}
	return n
}

// Gathered reports whether Gather has folded records of which nothing is published yet. It is
// for the goroutine of Batch.
func (p *Pump) Gathered() bool { return p.gathered > 0 }

// Ahead folds records like Batch, as far as it has not to wait for anything: it publishes
// no verdicts and lets no checkpoint pass. Whoever asked has his answer, and what else came of
// it goes out with the next Batch, but what concerns agents, where nothing has to go out before
// or with it: it is for an Activity that waits for nobody. It returns how many it has folded, and
// whether that Batch is due at once.
func (p *Pump) Ahead(ctx context.Context, records []Record) (n int, due bool) {
	// To wait for him would make an ask as slow as a list of flows; the next Batch folds these.
	if !p.mu.TryLock() { // somebody looks at flows
		return 0, true
	}
	done := p.timed(len(records))
	n = p.foldLocked(records)
	due = n < len(records) || p.err != nil || len(p.out) > 0 || len(p.deadLetters) > 0 || p.ripe()
	done()
	p.mu.Unlock()
	return n, due || p.passOn(ctx) != nil // which Batch tries again
}

// Refuse makes a record a dead letter without folding it, as Batch does with one that
// cannot be read.
// It is for what must not be read again, a record at which the process has ended, and for what
// could not be read at all.
func (p *Pump) Refuse(ctx context.Context, r Record, code events.Code, reason string) error {
	p.mu.Lock()
	if r.Offset >= p.next {
		p.reject(code, reason, r.Offset, r.Appended, r.Value)
		p.next = r.Offset + 1
		p.tally(1)
	}
	p.mu.Unlock()
	return p.Batch(ctx, nil)
}

// Last returns the offset of the last record that was folded, and a checksum of it;
// false when that is not known.
// It is for the goroutine of Batch.
func (p *Pump) Last() (offset int64, sum uint64, ok bool) {
	return p.last.offset, p.last.sum, p.last.known
}

// Sum is the checksum that Last returns.
func Sum(value []byte) uint64 { return xxhash.Sum64(value) }

// SinceLimits returns when the log took the last limits, and how many events came
// after them. It is for the goroutine of Batch.
func (p *Pump) SinceLimits() (at events.Stamp, n int64) { return p.limits.at, p.limits.since }

// Durable returns the offset up to which the last checkpoint goes that is on disk. It
// is for the goroutine of Batch.
func (p *Pump) Durable() int64 { return p.checkpoints.safe }

// Fold is Batch for callers that hold an event already, and want its verdicts
// instead of having them published: ev is folded as the record at offset, and what
// it brought about is returned. The result is good until the next call. With a Store
// the verdicts are published as well, by the next Batch, which must come at least
// every thousand events.
func (p *Pump) Fold(ev *events.Event, offset int64) []events.Verdict {
	return p.FoldRecord(ev, &Record{Offset: offset, Appended: ev.Appended})
}

// FoldRecord is Fold of an event that came as a record, of which only the value may be
// missing.
func (p *Pump) FoldRecord(ev *events.Event, r *Record) []events.Verdict {
	return p.foldOne(r, func() { p.take(ev, r) })
}

// foldOne does for one record what foldLocked does for many, in the same order, and returns the
// verdicts that it brought about, those of deadlines included that it has made ripe. What the
// verdict log has since before a crash is not among them.
func (p *Pump) foldOne(r *Record, take func()) []events.Verdict {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.given = p.given[:0]
	if r.Offset < p.next || p.err != nil {
		return p.given
	}
	// With a store p.out may hold what earlier calls have given and the next Batch publishes.
	from := len(p.out)
	take()
	p.next = r.Offset + 1
	p.fire()
	p.publishLowWatermark()
	p.close()
	p.tally(1)
	for i := range p.out[from:] {
		p.given = append(p.given, p.out[from+i].Verdict)
	}
	if p.o.Store == nil {
		p.forget()
	}
	return p.given
}

// forget drops what would be published with a Store.
func (p *Pump) forget() {
	clear(p.out)
	p.out, p.deadLetters, p.repartitioned, p.repartitioning.memory = p.out[:0], p.deadLetters[:0], p.repartitioned[:0], p.repartitioning.memory[:0]
}

// Close publishes what is left, writes a last checkpoint and waits for it. When ctx
// ends first, or after an error, the checkpoint may be missing; nothing is lost by that.
func (p *Pump) Close(ctx context.Context) error {
	defer p.CloseWithoutCheckpoint()
	if p.o.Store == nil {
		return nil
	}
	// What was gathered or folded ahead goes out first: no checkpoint may hold a flow of which a
	// verdict is not published.
	if err := p.Batch(ctx, nil); err != nil {
		return err
	}
	if err := p.awaitCheckpoint(ctx); err != nil {
		return err
	}
	// The checkpoint that was in flight has not what was folded since it was handed over.
	if p.checkpoints.behind(p) {
		t, err := p.awaitTurn(ctx)
		if err != nil {
			return err
		}
		if err := p.handOver(ctx, t); err != nil {
			return err
		}
	}
	return p.awaitCheckpoint(ctx)
}

// CloseWithoutCheckpoint ends the pump without a last checkpoint, as a crash would, and returns when
// it uses the store no more. It must not be called while Batch runs.
func (p *Pump) CloseWithoutCheckpoint() {
	// Else a write that waits for free space would hold this up for as long as the disk is full.
	p.Hurry()
	c := &p.checkpoints
	if c.flight != nil {
		<-c.flight
		c.flight = nil
	}
	// The count is shared: other pumps go on, and must not take checkpoints for what this one
	// leaves.
	p.counts.uncheckpointed.Add(-c.uncheckpointed)
	c.uncheckpointed = 0
}

// Hurry makes Batch and Close return state.ErrDiskLow instead of waiting for free
// space, for there is no more time. Any goroutine may call it.
func (p *Pump) Hurry() { p.hurries.Do(func() { close(p.hurry) }) }

// settle publishes what was folded and lets a checkpoint pass when one is due.
func (p *Pump) settle(ctx context.Context) error {
	if p.err != nil {
		return p.err
	}
	if p.o.Store == nil {
		p.forget()
		return nil
	}
	p.gathered = 0
	if err := p.publish(ctx); err != nil {
		return fmt.Errorf("publish the verdicts of %s up to %d: %w", p.o.Source, p.next, err)
	}
	return p.checkpoint(ctx)
}

// publish sends what the log brought about. Verdicts go last: of what comes before the
// last of them everything is out.
func (p *Pump) publish(ctx context.Context) error {
	// None of the three lists is emptied before all of it is safe: a write that fails is tried
	// again with the same values, or ends the pump, and they are folded again. Activity goes
	// before the verdicts because a published verdict proves that what came before it is out,
	// see repartition.
	if len(p.repartitioned) > 0 {
		if err := p.retryUntilSpace(ctx, func() error { return p.passOn(ctx) }); err != nil {
			return fmt.Errorf("pass on what concerns agents: %w", err)
		}
	}
	if len(p.deadLetters) > 0 {
		err := p.retryUntilSpace(ctx, func() (err error) {
			p.deadLettersEnd, err = p.o.DeadLetters.Publish(ctx, p.deadLetters)
			return err
		})
		if err != nil {
			return err
		}
		clear(p.deadLetters)
		p.deadLetters = p.deadLetters[:0]
	}
	if len(p.out) == 0 {
		return nil
	}
	err := p.retryUntilSpace(ctx, func() (err error) {
		p.end, err = p.o.Sink.Emit(ctx, p.out)
		return err
	})
	if err != nil {
		return err
	}
	for i := range p.out {
		// Only what is safe is counted and logged, so figures and lines agree with the verdict
		// log.
		p.published(i)
	}
	clear(p.out)
	p.out = p.out[:0]
	p.standing.Unsent.Store(0)
	return nil
}

// passOn sends what concerns agents.
func (p *Pump) passOn(ctx context.Context) error {
	if len(p.repartitioned) == 0 {
		return nil
	}
	if err := p.o.Activity.Send(ctx, p.repartitioned); err != nil {
		return err
	}
	clear(p.repartitioned)
	p.repartitioned, p.repartitioning.memory = p.repartitioned[:0], p.repartitioning.memory[:0]
	return nil
}

// retryUntilSpace calls write until it finds free space on the disk.
// Other errors it returns at once: after them the pump is thrown away and the next one begins at
// the last checkpoint. Nothing is folded while it waits; the records stay in their log.
func (p *Pump) retryUntilSpace(ctx context.Context, write func() error) error {
	for {
		err := write()
		if err != nil {
			p.counts.Count(func(n *prom.Counters) { n.Unpublished[p.o.Trouble(err)]++ })
		}
		low := errors.Is(err, state.ErrDiskLow)
		// Said when the space ends and when it is back, not with each try.
		if p.standing.DiskLow.Swap(low) != low {
			if low {
				p.o.Logger.Error("the pump pauses", "partition", p.o.Partition, "error", err)
			} else {
				p.o.Logger.Info("there is free space again, the pump goes on", "partition", p.o.Partition)
			}
		}
		if !low {
			return err
		}
		select {
		case <-p.o.Clock.After(diskRetry):
		case <-p.hurry:
			return err
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// report logs a verdict: its message, and attributes by which lines are searched for a flow, an
// agent or a trace.
func (p *Pump) report(e *Emitted) {
	if !p.quota.take() {
		return
	}
	v := &e.Verdict
	attrs := []any{"agent", v.Agent, "rule", v.RuleID, "action", v.Action, "mode", v.Mode, "scope", v.Scope.String(),
		"partition", p.o.Partition, "offset", e.Offset}
	if v.CorrelationID != "" {
		attrs = append([]any{"flow", v.CorrelationID}, attrs...)
	}
	if v.Observed != nil && v.Limit != nil {
		attrs = append(attrs, "observed", *v.Observed, "limit", *v.Limit)
	}
	if v.TraceID != "" {
		attrs = append(attrs, "trace_id", v.TraceID)
	}
	// So that a reader knows that these lines are not all.
	if n := p.quota.missed(); n > 0 {
		attrs = append(attrs, "not_logged", n)
	}
	p.o.Logger.Info(v.Message, attrs...)
}

// reportRefused logs a call that was refused when it was asked for, or by a dispatcher that
// says so: who called whom, and why not.
func (p *Pump) reportRefused(ev *events.Event) {
	if !p.refusals.take() {
		return
	}
	to := ev.To.ID()
	if ev.Tool.Name != "" {
		to = "tool " + ev.Tool.Name
	}
	attrs := []any{"flow", ev.FlowKey(), "from", ev.From.ID(), "to", to, "partition", p.o.Partition}
	why := "by an order, as its dispatcher says"
	if v := p.fx.Answer; v != nil {
		// The message of an order begins with what the order does; the line has said that.
		_, why, _ = strings.Cut(v.Message, "rejected: ")
		if why == "" {
			why = v.Message
		}
		attrs = append(attrs, "rule", v.RuleID, "verdict", v.ID)
	} else {
		attrs = append(attrs, "verdict", ev.Ack.VerdictID)
	}
	if n := p.refusals.missed(); n > 0 {
		attrs = append(attrs, "not_logged", n)
	}
	p.o.Logger.Info("Rejected call "+ev.From.ID()+"→"+to+": "+why, attrs...)
}

// quota allows so many log lines in a second, so that a flood of verdicts is not
// one of log lines as well: the verdicts are in their log.
type quota struct {
	clock clock.Clock
	most  int
	// second is the Unix second that left is about.
	second int64
	left   int
	// missing is how many lines were left out since missed was called last.
	missing int64
}

const (
	// A flood of verdicts is one condition told many times, so a few lines do. A refused call is
	// what somebody may look for by name, so more of them are told.
	linesPerSecond   = 10
	refusedPerSecond = 100
)

// take reports whether one more line may be written.
func (q *quota) take() bool {
	if now := q.clock.Now().Unix(); now != q.second {
		q.second, q.left = now, q.most
	}
	if q.left == 0 {
		q.missing++
		return false
	}
	q.left--
	return true
}

// missed is how many lines were left out since it was called last.
func (q *quota) missed() (n int64) {
	n, q.missing = q.missing, 0
	return n
}
