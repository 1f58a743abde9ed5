package pump

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/pump/pumptest"
	"weir/events"
)

// deadly is a pump in a process that ends when it folds one of the records.
type deadly struct {
	*Pump
	records []int64
	refused []string
}

var errEnded = errors.New("the process ends")

func (d *deadly) Batch(ctx context.Context, records []Record) error {
	for i, r := range records {
		if slices.Contains(d.records, r.Offset) {
			if err := d.Pump.Batch(ctx, records[:i]); err != nil {
				return err
			}
			return errEnded
		}
	}
	return d.Pump.Batch(ctx, records)
}

func (d *deadly) Refuse(ctx context.Context, r Record, code events.Code, reason string) error {
	d.refused = append(d.refused, fmt.Sprint(r.Offset, " ", code))
	return d.Pump.Refuse(ctx, r, code, reason)
}

func TestPoisonRecords(t *testing.T) {
	store, log, clock := pumptest.OpenState(t), &memoryLog{}, clock.NewFake()
	records := traffic(3, 100)
	d := &deadly{records: []int64{40, 41}}
	starts := 0
	for folded := false; !folded; starts++ {
		if starts > 20 {
			t.Fatal("the partition does not get on")
		}
		d.Pump = newTestPump(t, Options{Store: store, Sink: log, Clock: clock, CheckpointEvery: time.Hour})
		s, err := OpenPoisonRecords(store, 0, d.Next())
		if err != nil {
			t.Fatal(err)
		}
		err = s.Fold(t.Context(), d, records[d.Next():], false)
		switch {
		case errors.Is(err, errEnded):
			d.CloseWithoutCheckpoint()
			continue
		case err != nil:
			t.Fatal(err)
		}
		if err := d.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.look(d)
		if s.on || !s.clean {
			t.Error("records are noted down although a checkpoint has passed")
		}
		folded = true
	}
	// Twice without noting down, then each of the two records twice.
	if starts != 2+2*poisonTries+1 {
		t.Errorf("%d starts", starts)
	}
	if got := d.refused[len(d.refused)-2:]; !slices.Equal(got, []string{"40 crash", "41 crash"}) {
		t.Errorf("refused: %v", d.refused)
	}
	n := 0
	last, err := (&storedDeadLetters{store, "journal"}).Since(t.Context(), 0, func(offset int64) {
		if offset == 40 || offset == 41 {
			n++
		}
	})
	if n != 2 || err != nil {
		t.Errorf("%d letters of %d, %v", n, last, err)
	}
}

// TestPoisonRecordsSpareWhatWasFolded kills the process again and again while it has nothing to
// do, before a checkpoint: no record is to blame.
func TestPoisonRecordsSpareWhatWasFolded(t *testing.T) {
	store, log, clock := pumptest.OpenState(t), &memoryLog{}, clock.NewFake()
	records := traffic(3, 10)
	for range 10 {
		d := &deadly{Pump: newTestPump(t, Options{Store: store, Sink: log, Clock: clock, CheckpointEvery: time.Hour})}
		s, err := OpenPoisonRecords(store, 0, d.Next())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Fold(t.Context(), d, records[d.Next():], false); err != nil {
			t.Fatal(err)
		}
		if len(d.refused) > 0 {
			t.Fatalf("refused: %v", d.refused)
		}
		d.CloseWithoutCheckpoint()
	}
}
