package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"weir/events"
)

// load is one row of the growth: the number of flows that are live at one time, and of
// partitions in one process.
// A live flow is one that had an event within flow.idle: its state is in memory.
// The topic of activity has as many partitions as that of the events by default.
type load struct{ flows, partitions, activity, events int }

// eventsPerFlow is few, so that flows cost more than events do.
const eventsPerFlow = 5

// loads are the rows from least to most flows: what doubles when the flows double, and when
// the partitions do.
// Flows grow at eight partitions; partitions grow at 100,000 flows, and once more at a
// million. A cost that is not in proportion shows as a row that is too high.
func loads(least, most int) (rows []load) {
	for _, l := range []load{{10_000, 8, 8, 0}, {100_000, 8, 8, 0}, {100_000, 1, 1, 0}, {100_000, 64, 64, 0}, {100_000, 64, 8, 0}, {100_000, 256, 256, 0}, {100_000, 256, 8, 0},
		{1_000_000, 8, 8, 0}, {1_000_000, 64, 64, 0}, {5_000_000, 8, 8, 0}} {
		if l.events = eventsPerFlow * l.flows; least <= l.flows && l.flows <= most {
			rows = append(rows, l)
		}
	}
	return rows
}

// grow prints what one process costs as flows and partitions become more.
// Each row is printed when it is there, since the last ones take long.
func (b *bench) grow(ctx context.Context, least, most int) (err error) {
	down, err := b.up(ctx, buildOptimized)
	defer func() { err = errors.Join(err, down()) }()
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "%s, %d cores, both stages, all rules of the default profile, state synced to disk, flows within ten minutes; medians of %d (range)\n\n", b.server.kind(), runtime.NumCPU(), b.rounds)
	fmt.Fprintln(b.out, "| live flows | partitions of events, of activity | events | CPU per event | events/s | most memory | of it own | state on disk | per 1,000 events: verdicts of flows, of agents, records of activity |")
	fmt.Fprintln(b.out, "| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	// Millions of events lie on the broker's disk, or in the memory of kfake.
	b.server.compress = true
	var last int
	// Each row has topics of its own, since the number of partitions cannot shrink.
	for i, l := range loads(least, most) {
		if err := b.growOne(ctx, fmt.Sprint("load-", i), l); err != nil {
			return fmt.Errorf("%d flows over %d partitions: %w", l.flows, l.partitions, err)
		}
		last = l.partitions
	}
	return b.copying(ctx, last)
}

// growOne measures one row: the events are in the topic before the member starts, as many
// rounds as there are, each without a state.
func (b *bench) growOne(ctx context.Context, name string, l load) error {
	// topics makes as many.
	b.partitions, b.activity = l.partitions, l.activity
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
	var said [3]float64
	for range b.rounds {
		c, activity, err := b.fold(ctx, name)
		if err != nil {
			return err
		}
		all = append(all, c)
		// All rounds say the same.
		if said, err = b.said(ctx, l.partitions); err != nil {
			return err
		}
		said[2] = float64(activity)
	}
	// What a row costs an event is what has to stay the same from row to row.
	n := float64(l.events)
	k := n / 1000
	fmt.Fprintf(b.out, "| %d | %d, %d | %d | %s µs | %s | %s MiB | %s MiB | %s MiB | %.1f, %.2f, %.1f |\n", l.flows, l.partitions, l.activity, l.events,
		span(all, func(c cost) float64 { return c.cpu.Seconds() * 1e6 / n }, 1), thousands(all, func(c cost) float64 { return n / c.wall.Seconds() }),
		span(all, func(c cost) float64 { return float64(c.rss) }, 1<<20),
		span(all, func(c cost) float64 { return float64(c.own) }, 1<<20), span(all, func(c cost) float64 { return float64(c.disk) }, 1<<20), said[0]/k, said[1]/k, said[2]/k)
	return nil
}

// said is how many verdicts there are of flows and of agents since the last topics were made,
// with a mark for each partition.
func (b *bench) said(ctx context.Context, partitions int) (n [3]float64, err error) {
	c, err := b.server.client()
	if err != nil {
		return n, err
	}
	defer c.Close()
	ends, err := endOffsets(ctx, c, fmt.Sprint("verdicts-", b.serial))
	for p, end := range ends {
		if int(p) < partitions {
			n[0] += float64(end)
		} else {
			n[1] += float64(end)
		}
	}
	return n, err
}

// copying prints what it costs a member that folds none of them to have the verdicts of the last
// row. It compares a member with a follower and a member without.
func (b *bench) copying(ctx context.Context, partitions int) error {
	verdicts, name := fmt.Sprint("verdicts-", b.serial), fmt.Sprint("others-", b.serial)
	said, err := b.said(ctx, partitions)
	if err != nil {
		return err
	}
	// Events of its own there are none.
	_, flags, err := b.topics(ctx, name)
	if err != nil {
		return err
	}
	var used [2]cost
	for i := range used {
		m, err := newMember(b.binary, b.dir, fmt.Sprint(name, "-", i), b.server.addr, fmt.Sprint(name, "-", i), append(flags, "--verdicts-topic", verdicts)...)
		if err != nil {
			return err
		}
		if err := m.start(); err != nil {
			return err
		}
		r := m.current()
		err = eventually(ctx, time.Minute, "the member to be ready", func() (bool, error) { _, ready := r.times(); return ready > 0, nil })
		if err == nil && i == 1 {
			err = eventually(ctx, 10*time.Minute, "the verdicts to be there", func() (bool, error) {
				resp, err := http.Get("http://" + m.listen + "/v1/verdicts?since=now")
				if err != nil {
					return false, err
				}
				return resp.Header.Get("Weir-Behind") == "", resp.Body.Close()
			})
		}
		if _, stopped := m.stop(); err != nil || stopped != nil {
			return errors.Join(err, stopped, errors.New(m.lastLines(5)))
		}
		used[i] = costOf(0, r.cmd.ProcessState)
		used[i].disk = diskOf(m.dir)
		if err := m.lose(); err != nil {
			return err
		}
	}
	fmt.Fprintf(b.out, "\nTo have the %.0f verdicts of these flows costs a member that somebody follows %.1f µs and %.0f bytes on disk each.\n\n", said[0],
		(used[1].cpu-used[0].cpu).Seconds()*1e6/said[0], float64(used[1].disk-used[0].disk)/said[0])
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
