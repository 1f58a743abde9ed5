package pump

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"weir/analyzer/record"
	"weir/events"
)

// recoveryDedup is what is known of the records after the last checkpoint that were folded before a
// crash. Their effects that are already in the logs must not be written again.
type recoveryDedup struct {
	// ids is nil when the recovery is over. A verdict that has come again is taken out.
	ids map[string]struct{} // of verdicts
	// upTo is -1 when nothing was published. The effects of records before it are published, whatever
	// their ids: a flow that begins in the middle of the log gives other ids than before (decision
	// 24).
	upTo    int64              // the last offset that brought one of them about
	offsets map[int64]struct{} // of dead letters
	last    int64              // of them

	// Where the next process has to begin to read. As long as records are folded
	// again these must not move: a crash may come again.
	verdictsFrom    int64
	deadLettersFrom int64
}

// notePublished takes in one verdict of the log, of which New reads all behind the checkpoint.
func (r *recoveryDedup) notePublished(id string, trigger int64) {
	r.ids[id] = struct{}{}
	r.upTo = max(r.upTo, trigger)
}

// published reports whether the verdict log holds what a record brings about. Verdicts are written in
// the order of the records, so all of those before the last one are there. For the last record, the
// ids decide.
func (r *recoveryDedup) published(id string, trigger int64) bool {
	_, ok := r.ids[id]
	delete(r.ids, id)
	return ok || trigger < r.upTo
}

func (r *recoveryDedup) noteDeadLetter(offset int64) {
	if r.offsets == nil {
		r.offsets = make(map[int64]struct{})
	}
	r.offsets[offset] = struct{}{}
	r.last = max(r.last, offset)
}

// wasDeadLetter reports whether the record is a dead letter already. It returns true once for each
// record, because one record makes one letter.
func (r *recoveryDedup) wasDeadLetter(offset int64) bool {
	_, ok := r.offsets[offset]
	delete(r.offsets, offset)
	return ok
}

// pass moves on where the next process begins, once the recovery is past what the logs
// held when it began: everything before their ends came from before folded, the first
// offset of which something may still come.
func (r *recoveryDedup) pass(folded, verdicts, deadLetters int64) {
	if folded > r.upTo {
		r.ids, r.verdictsFrom = nil, verdicts
	}
	if len(r.offsets) == 0 || folded > r.last {
		r.offsets, r.deadLettersFrom = nil, deadLetters
	}
}

// stateVersion is the first byte of what a checkpoint says of the partition itself.
// A state of a higher version is refused, never guessed at; older ones are rewritten by
// upgraded.
const stateVersion = 4

// Versions of before, which are read.
const (
	flowsAlone    = 2 // when there were no stages
	reportsWaited = 3 // when each flow kept the reports about its parties itself
)

// appendState encodes what a partition has beside its flows: the stage and its own state,
// the limits in force, where the dead letters end, and by what the last record is known.
func (p *Pump) appendState(dst []byte) ([]byte, error) {
	dst = append(dst, stateVersion, byte(p.o.Stage))
	fold, err := p.fold.stage.appendState(nil)
	if err != nil {
		return nil, fmt.Errorf("encode the state of partition %d: %w", p.o.Partition, err)
	}
	dst = binary.AppendUvarint(dst, uint64(len(fold)))
	dst = append(dst, fold...)
	dst = binary.AppendUvarint(dst, uint64(len(p.fold.document)))
	dst = append(dst, p.fold.document...)
	dst = binary.AppendVarint(dst, p.outbox.dedup.deadLettersFrom)
	dst = binary.AppendVarint(dst, int64(p.at.limits.at))
	if !p.at.last.known {
		return dst, nil
	}
	dst = binary.AppendVarint(dst, p.at.last.offset)
	return binary.LittleEndian.AppendUint64(dst, p.at.last.sum), nil
}

// resume takes up the last checkpoint and looks what was published after it.
//
// The order matters: the state says where the dead letters are read from, and the deadlines have
// to be there before anything is folded, since a record can make one of them ripe.
func (p *Pump) resume(ctx context.Context) error {
	meta, ok, err := p.o.Store.Meta(p.o.Partition)
	if err != nil {
		return err
	}
	p.outbox.dedup.verdictsFrom, p.outbox.dedup.deadLettersFrom = p.o.Published, p.o.DeadLettered
	if ok {
		p.at.next, p.outbox.dedup.verdictsFrom = meta.Next, meta.Published
		// Whatever the store holds of the partition is unknown to memory.
		p.memory.cache.restored()
		if err := p.restoreState(meta.State); err != nil {
			return err
		}
	}
	p.checkpoints.written, p.checkpoints.safe, p.checkpoints.last = p.at.next, p.at.next, p.o.Clock.Now()
	if err := p.memory.moreDeadlines(); err != nil {
		return err
	}
	p.outbox.dedup.ids, p.outbox.dedup.upTo = make(map[string]struct{}), -1
	// It runs before the first record is folded, because a verdict that is published twice cannot be
	// revoked.
	p.outbox.verdictsEnd, err = p.o.Sink.Since(ctx, p.outbox.dedup.verdictsFrom, p.outbox.dedup.notePublished)
	if err != nil {
		return fmt.Errorf("read the verdict log: %w", err)
	}
	p.outbox.deadLettersEnd, err = p.o.DeadLetters.Since(ctx, p.outbox.dedup.deadLettersFrom, func(offset int64) {
		// deadLettersFrom may have stood still for some checkpoints, see pass: those of records before
		// them are read as well.
		if offset >= p.at.next {
			p.outbox.dedup.noteDeadLetter(offset)
		}
	})
	if err != nil {
		return fmt.Errorf("read the dead letters: %w", err)
	}
	p.feeder.tally(0)
	return nil
}

// upgraded is the state as this version writes it.
// It turns what older versions wrote into the bytes of this one, so that one reader is enough.
func upgraded(b []byte) ([]byte, error) {
	if len(b) == 0 || b[0] != flowsAlone && (b[0] != reportsWaited || len(b) < 2 || Stage(b[1]) != FlowStage) {
		if len(b) > 0 && b[0] == reportsWaited { // that of agents is the same
			b = append([]byte{stateVersion}, b[1:]...)
		}
		return b, nil
	}
	var passed []byte // what was passed on, and what waits to be
	d := record.NewReader(b[1:])
	if b[0] == reportsWaited {
		d = record.NewReader(b[2:])
	}
	fold := record.NewReader(d.Field())
	// Step, offset and parts of repartitioning, all 0 where nothing was passed on yet.
	for range 3 {
		n := int64(0)
		if b[0] == reportsWaited {
			n = fold.Varint()
		}
		passed = binary.AppendVarint(passed, n)
	}
	if d.Bad() || fold.Bad() {
		return nil, errState
	}
	// No reports wait: an older weir kept them with the flows.
	passed = append(new(repartitioner).appendReports(passed), fold.Rest()...)
	b = binary.AppendUvarint([]byte{stateVersion, byte(FlowStage)}, uint64(len(passed)))
	return append(append(b, passed...), d.Rest()...), nil
}

// restoreState reads what appendState has written. Any error ends New: to fold on with a state
// that is half read would publish what does not follow from the log.
func (p *Pump) restoreState(b []byte) error {
	b, err := upgraded(b)
	if err != nil {
		return err
	}
	switch {
	// The version and the stage are checked first, because other versions and stages cannot read the
	// rest.
	case len(b) < 2:
		return errState
	case b[0] != stateVersion:
		return fmt.Errorf("the state of the partition has version %d, this weir knows %d; run the weir that wrote it", b[0], stateVersion)
	case Stage(b[1]) != p.o.Stage:
		return fmt.Errorf("the state of the partition is of stage %d and not %d: the topics of before had other numbers of partitions; begin with an empty state directory", b[1], p.o.Stage)
	}
	d := record.NewReader(b[2:])
	fold, document := d.Field(), d.Field()
	p.outbox.dedup.deadLettersFrom, p.at.limits.at = d.Varint(), events.Stamp(d.Varint())
	// The record that was folded last, with its checksum as the last 8 bytes; missing where none
	// was.
	if !d.Bad() && len(d.Rest()) > 0 {
		p.at.last.offset, p.at.last.known = d.Varint(), true
		if len(d.Rest()) != 8 {
			return errState
		}
		p.at.last.sum = binary.LittleEndian.Uint64(d.Rest())
	}
	if d.Bad() {
		return errState
	}
	if err := p.fold.stage.restoreState(fold); err != nil {
		return err
	}
	if len(document) > 0 {
		if p.o.Parse == nil {
			return errors.New("the log has set limits, and this pump cannot read them")
		}
		limits, err := p.o.Parse(document)
		if err != nil {
			return fmt.Errorf("the limits in force cannot be read any more: %w", err)
		}
		p.fold.engine, p.fold.document = p.o.engine(limits), append([]byte(nil), document...)
	}
	return nil
}
