package pump

import (
	"context"
	"encoding/json"
	"fmt"

	"weir/events"
)

// Cursors is where notes are kept by name. See state.Store.
// They are written at once and not with checkpoints, because a checkpoint is what does not come
// here.
type Cursors interface {
	Cursor(name string) ([]byte, bool, error)
	SetCursor(name string, value []byte) error
}

// PoisonRecords finds a record that ends the process each time it is folded, and skips it after the
// second time. The pump catches the faults that Go can catch. This is for the others, such as running
// out of memory.
//
// If a partition has begun twice at the same offset without progress, it is folded record by record
// until a checkpoint passes. Each record is noted before it is folded. If an operator kills the
// process twice at the very same record, that record is skipped without a fault of its own. It is then
// a dead letter, with the reason.
//
// PoisonRecords is for the goroutine of Batch.
type PoisonRecords struct {
	store Cursors
	// cursor is the name of the note, one for each partition.
	cursor string
	note   poisonNote
	on     bool // records are noted down
	clean  bool // nothing is kept
}

// poisonNote is what outlives the process. It is about one start offset: a partition that has
// got on begins at another, and then nothing in it counts.
type poisonNote struct {
	Next   int64         `json:"next"`            // where the partition began
	Starts int           `json:"starts"`          // how often it began there
	Record int64         `json:"record"`          // that is being folded; -1 when none was noted down
	Ended  map[int64]int `json:"ended,omitempty"` // by record, how often the process ended there
}

const (
	// poisonStarts is how many starts at one offset end without a checkpoint before records are
	// noted down; poisonTries, how often the process has to end at one record before it is
	// skipped. Noting down costs a synced write for each record, which only a partition pays
	// that does not get on.
	poisonStarts = 2
	poisonTries  = 2
)

// OpenPoisonRecords notes down that a partition begins at next, and whether the process
// ended at a record before.
func OpenPoisonRecords(store Cursors, partition int, next int64) (*PoisonRecords, error) {
	s := &PoisonRecords{store: store, cursor: fmt.Sprintf("suspects:%d", partition)}
	b, ok, err := store.Cursor(s.cursor)
	if err != nil {
		return nil, err
	}
	if ok && len(b) > 0 {
		if err := json.Unmarshal(b, &s.note); err != nil {
			return nil, fmt.Errorf("cursor %q: %w", s.cursor, err)
		}
	}
	if !ok || len(b) == 0 || s.note.Next != next {
		s.note = poisonNote{Next: next, Record: -1}
	}
	// The process ended while this record was being folded.
	if s.note.Record >= 0 {
		if s.note.Ended == nil {
			s.note.Ended = make(map[int64]int)
		}
		s.note.Ended[s.note.Record]++
		s.note.Record = -1
	}
	s.on = s.note.Starts >= poisonStarts
	s.note.Starts++
	return s, s.save()
}

// save returns when the note is on disk; only then the record may be folded.
func (s *PoisonRecords) save() error {
	b, err := json.Marshal(&s.note)
	if err != nil {
		return err
	}
	s.clean = false
	return s.store.SetCursor(s.cursor, b)
}

// Clear forgets all when the partition has got on.
func (s *PoisonRecords) Clear() {
	// Called after each batch, and nearly always with nothing to do.
	if s.clean {
		return
	}
	s.on = false
	s.clean = s.store.SetCursor(s.cursor, nil) == nil // or it is tried again
}

// folder is a Pump, except in tests.
// Its methods are those of the same name.
type folder interface {
	Gather(ctx context.Context, records []Record) error
	Batch(ctx context.Context, records []Record) error
	Refuse(ctx context.Context, r Record, code events.Code, reason string) error
	Durable() int64
}

// Fold is Batch of the pump, or Gather if more records stand behind these.
func (s *PoisonRecords) Fold(ctx context.Context, p folder, records []Record, more bool) error {
	// look may end it in the middle: the checkpoint has passed, and the rest goes as usual.
	for ; s.on && len(records) > 0; records = records[1:] {
		if err := s.foldOne(ctx, p, records[0]); err != nil {
			return err
		}
		s.look(p)
	}
	if s.on && s.note.Record >= 0 { // it is folded: who ends the process now does not end it there
		s.note.Record = -1
		if err := s.save(); err != nil {
			return err
		}
	}
	// Batch also runs without records, because it publishes what still waits.
	fold := p.Batch
	if more && len(records) > 0 {
		fold = p.Gather
	}
	if err := fold(ctx, records); err != nil {
		return err
	}
	s.look(p)
	return nil
}

// Ahead is that of the pump, as long as no record has to be noted down before it is folded.
func (s *PoisonRecords) Ahead(ctx context.Context, p *Pump, records []Record) (n int, due bool) {
	if s.on {
		return 0, true
	}
	return p.Ahead(ctx, records)
}

// look clears the note when a checkpoint is on disk behind the place where the partition began.
func (s *PoisonRecords) look(p folder) {
	if !s.clean && p.Durable() > s.note.Next {
		s.Clear()
	}
}

// foldOne folds one record that was noted down before, or refuses it.
func (s *PoisonRecords) foldOne(ctx context.Context, p folder, r Record) error {
	if n := s.note.Ended[r.Offset]; n >= poisonTries {
		return p.Refuse(ctx, r, events.CodeCrash, fmt.Sprintf("the process ended %d times while it folded this record", n))
	}
	s.note.Record = r.Offset
	if err := s.save(); err != nil {
		return err
	}
	return p.Batch(ctx, []Record{r})
}
