package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"weir/events"
)

// load is one row of the growth: so many flows that are live at one time, over so many
// partitions in one process.
// A live flow is one that had an event within flow.idle: its state is in memory.
type load struct{ flows, partitions, events int }

// eventsPerFlow is few, so that flows cost more than events do.
const eventsPerFlow = 5

// loads are the rows: what doubles when the flows double, and when the partitions do.
// Flows grow by tens at eight partitions; partitions grow at 100,000 flows. A cost that is
// not in proportion shows as a row that is too high.
func loads(most int) (rows []load) {
	for flows := 10_000; flows <= most; flows *= 10 {
		rows = append(rows, load{flows, 8, eventsPerFlow * flows})
	}
	for _, partitions := range []int{1, 64, 256} {
		rows = append(rows, load{100_000, partitions, eventsPerFlow * 100_000})
	}
	return rows
}

// grow prints what one process costs as flows and partitions become more.
// Each row is printed when it is there, since the last ones take long.
func (b *bench) grow(ctx context.Context, most int) (err error) {
	down, err := b.up(ctx)
	defer func() { err = errors.Join(err, down()) }()
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "%s, %d cores, both stages, all rules of the default profile, state synced to disk, flows within ten minutes; medians of %d (range)\n\n", b.server.kind(), runtime.NumCPU(), b.rounds)
	fmt.Fprintln(b.out, "| live flows | partitions | events | CPU per event | events/s | most memory | state on disk |")
	fmt.Fprintln(b.out, "| --- | --- | --- | --- | --- | --- | --- |")
	// Each row has topics of its own, since the number of partitions cannot shrink.
	for i, l := range loads(most) {
		if err := b.growOne(ctx, fmt.Sprint("load-", i), l); err != nil {
			return fmt.Errorf("%d flows over %d partitions: %w", l.flows, l.partitions, err)
		}
	}
	return nil
}

// growOne measures one row: the events are in the topic before the member starts, as many
// rounds as there are, each without a state.
func (b *bench) growOne(ctx context.Context, name string, l load) error {
	// topics makes as many.
	b.partitions = l.partitions
	t, _, err := b.topics(ctx, name)
	if err != nil {
		return err
	}
	now := events.StampOf(time.Now())
	// All within ten minutes, which is flow.idle: no flow has left memory when the last one
	// is folded.
	tr := &traffic{seed: 1, name: name, events: l.events, flows: l.flows, runaway: astray, from: now - 600_000, to: now}
	if err := b.server.produce(ctx, t.events, tr, false, nil); err != nil {
		return err
	}
	// Each round folds the whole topic from nothing, in a group of its own.
	var all []cost
	for range b.rounds {
		c, _, err := b.fold(ctx, name)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	// What a row costs an event is what has to stay the same from row to row.
	n := float64(l.events)
	fmt.Fprintf(b.out, "| %d | %d | %d | %s µs | %s | %s MiB | %s MiB |\n", l.flows, l.partitions, l.events,
		span(all, func(c cost) float64 { return c.cpu.Seconds() * 1e6 / n }, 1), thousands(all, func(c cost) float64 { return n / c.wall.Seconds() }),
		span(all, func(c cost) float64 { return float64(c.rss) }, 1<<20), span(all, func(c cost) float64 { return float64(c.disk) }, 1<<20))
	return nil
}

// diskOf is what a folder takes on disk: some files are long and mostly empty.
// The blocks are counted that a file has, of 512 bytes each, and not its length.
func diskOf(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it has just gone
		}
		if info, err := d.Info(); err == nil && d.Type().IsRegular() {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				// Maps of tables and logs are made long in advance, and have holes.
				bytes += st.Blocks * 512
			}
		}
		return nil
	})
	return bytes
}
