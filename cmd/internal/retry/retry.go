// Package retry waits between tries and repeats writes that failed for lack of disk space.
package retry

import (
	"context"
	"errors"
	"time"

	"weir/cmd/internal/clock"
	"weir/state"
)

// DiskWait is how long a write waits that found too little free space.
const DiskWait = time.Second

// Pause waits, and returns the error of ctx when that ends first.
func Pause(ctx context.Context, c clock.Clock, d time.Duration) error {
	select {
	case <-c.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// WhileDiskLow calls write until it finds free space on the disk, or ctx ends.
func WhileDiskLow(ctx context.Context, c clock.Clock, write func() error) error {
	for {
		err := write()
		if !errors.Is(err, state.ErrDiskLow) {
			return err
		}
		if err := Pause(ctx, c, DiskWait); err != nil {
			return err
		}
	}
}
