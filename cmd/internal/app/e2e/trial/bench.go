package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"weir/cmd/internal/group"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/events/kafka"
)

// bench measures catch-up and latency of one member beside one broker.
// Its runs follow each other at one broker: each makes topics of its own, under numbers
// that serial counts. The figures are printed as tables in Markdown.
type bench struct {
	real   bool
	events int
	// Each figure is the median of this number of rounds, with its range: one run on a machine
	// that does other things, too, says little.
	rounds     int
	partitions int
	activity   int // of the topic of activity; 0 for as many
	rate       int // events in a second, live
	lasts      time.Duration
	dir        string
	out        io.Writer

	server *server
	binary string
	serial int
}

// astray is the share of flows that run away: most are honest where weir is used.
// Runaways cost more than honest flows, because each gives orders and tries.
const astray = 0.02

// up makes weir by build and starts a broker, and returns what ends and removes what there is of it.
// down is never nil and may be called after an error, too.
func (b *bench) up(ctx context.Context, build func(dir string) (string, error)) (down func() error, err error) {
	// From step to step down undoes one thing more.
	down = func() error { return nil }
	if b.dir, err = os.MkdirTemp("", "weir-bench-"); err != nil {
		return down, err
	}
	down = func() error { return os.RemoveAll(b.dir) }
	if b.binary, err = build(b.dir); err != nil {
		return down, err
	}
	if b.server, err = newServer(b.real, filepath.Join(b.dir, "broker")); err != nil {
		return down, err
	}
	if err := b.server.start(ctx); err != nil {
		return down, err
	}
	return func() error { return errors.Join(b.server.stop(), os.RemoveAll(b.dir)) }, nil
}

// run measures catching up at two numbers of flows, then latency.
func (b *bench) run(ctx context.Context) (err error) {
	down, err := b.up(ctx, buildOptimized)
	defer func() { err = errors.Join(err, down()) }()
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "%s, %d cores, %d partitions, state synced to disk, all rules of the default profile\n\n", b.server.kind(), runtime.NumCPU(), b.partitions)
	fmt.Fprintln(b.out, "| catch-up, medians (range) | events/s | events per CPU second | most memory | raw read: events/s, per CPU second | ratio: time, CPU |")
	fmt.Fprintln(b.out, "| --- | --- | --- | --- | --- | --- |")
	// With more flows for the same events each of them is shorter, and states cost more.
	for _, flows := range []int{50_000, 250_000} {
		if err := b.catchUp(ctx, flows); err != nil {
			return err
		}
	}
	return b.live(ctx)
}

// topics makes the topics of one run; those of events are shared by runs of one name.
//
// The flags are those by which a member uses them. Of topics that are there already nothing
// is changed.
func (b *bench) topics(ctx context.Context, name string) (topics, []string, error) {
	b.serial++
	t := topics{name + "-events", fmt.Sprint("verdicts-", b.serial), fmt.Sprint("activity-", b.serial), fmt.Sprint("dead-letter-", b.serial)}
	flags := []string{"--events-topic", t.events, "--verdicts-topic", t.verdicts, "--activity-topic", t.activity, "--dead-letter-topic", t.deadLetters}
	args := append([]string{"topics", "create", "--brokers", b.server.addr, "--partitions", fmt.Sprint(b.partitions), "--replication", "1"}, flags...)
	if b.activity > 0 {
		args = append(args, "--activity-partitions", fmt.Sprint(b.activity))
	}
	if out, err := exec.CommandContext(ctx, b.binary, args...).CombinedOutput(); err != nil {
		return t, flags, fmt.Errorf("weir topics create: %w\n%s", err, out)
	}
	return t, flags, nil
}

// member is one with a group of its own, so that it begins without a committed offset.
func (b *bench) member(flags []string) (*member, error) {
	name := fmt.Sprint("member-", b.serial)
	return newMember(b.binary, b.dir, name, b.server.addr, name, flags...)
}

// cost is what a process needed for its work.
// Times of a process are those of all its threads, user and system together.
type cost struct {
	wall, cpu time.Duration
	rss       int64 // bytes, at most, with the files of the store that are mapped
	own       int64 // bytes of it that are no file's, at most, as they were each 100 ms; where they were looked at
	disk      int64 // bytes of the state at the end, where it was looked at
}

// costOf reads what the kernel says of a process that has ended.
func costOf(wall time.Duration, state *os.ProcessState) cost {
	c := cost{wall: wall, cpu: state.UserTime() + state.SystemTime()}
	if u, ok := state.SysUsage().(*syscall.Rusage); ok {
		// Linux counts it in KiB.
		c.rss = u.Maxrss << 10
	}
	return c
}

// watchOwn gives, when the process has ended, the most memory that it had of its own.
// What the kernel counts at the end of a process has the files that it mapped, which may be
// dropped at any time.
func (r *run) watchOwn() <-chan int64 {
	most := make(chan int64, 1)
	go func() {
		again := time.NewTicker(100 * time.Millisecond)
		defer again.Stop()
		for top := int64(0); ; {
			top = max(top, ownMemory(r.cmd.Process.Pid))
			select {
			case <-again.C:
			case <-r.done:
				most <- top
				return
			}
		}
	}()
	return most
}

// ownMemory is how many bytes of a process's memory are no file's; 0 of one that has ended.
func ownMemory(pid int) (bytes int64) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if _, rest, ok := strings.Cut(string(status), "RssAnon:"); ok {
		_, _ = fmt.Sscan(rest, &bytes)
	}
	return bytes << 10
}

// catchUp lets a new member fold an hour of events, and reads the same topic with the
// same client and nothing else in turn with it.
// The raw read is what the client and the disk allow; what weir adds to that is its own.
func (b *bench) catchUp(ctx context.Context, flows int) error {
	// The events are produced once, and the rounds read the same ones.
	name := fmt.Sprint("flows-", flows)
	t, _, err := b.topics(ctx, name)
	if err != nil {
		return err
	}
	now := events.StampOf(time.Now())
	tr := &traffic{seed: 1, name: "past", events: b.events, flows: flows, runaway: astray, from: now - 3_600_000, to: now}
	if err := b.server.produce(ctx, t.events, tr, false, nil); err != nil {
		return err
	}
	var raw, weir []cost
	var activity int64
	for range b.rounds {
		// In turn with the fold, so that both meet the same machine.
		c, err := b.read(ctx, t.events)
		if err != nil {
			return err
		}
		raw = append(raw, c)
		if c, activity, err = b.fold(ctx, name); err != nil {
			return err
		}
		weir = append(weir, c)
	}
	// Rates count the events that were produced, and no ticks or limits.
	n := float64(b.events)
	wall := func(c cost) float64 { return n / c.wall.Seconds() }
	cpu := func(c cost) float64 { return n / c.cpu.Seconds() }
	rss := func(c cost) float64 { return float64(c.rss) / (1 << 20) }
	fmt.Fprintf(b.out, "| %d events, %d flows, 1 h, %.3f records of activity each | %s | %s | %s MiB | %s, %s | %.2f, %.2f |\n", b.events, flows, float64(activity)/n,
		thousands(weir, wall), thousands(weir, cpu), span(weir, rss, 1), thousands(raw, wall), thousands(raw, cpu),
		median(weir, wall)/median(raw, wall), median(weir, cpu)/median(raw, cpu))
	return nil
}

// fold starts a member without state and waits until both stages have everything
// durable. It returns how many records of activity there were, too.
// Its time begins with the start of the process and ends when all offsets are committed,
// which weir does about once a second (see decision 23), so short runs look slower than
// they are. The state is thrown away at the end. The member gets further flags.
func (b *bench) fold(ctx context.Context, name string, further ...string) (cost, int64, error) {
	t, flags, err := b.topics(ctx, name)
	if err != nil {
		return cost{}, 0, err
	}
	// The offsets are looked at with another client than weir's, by their commits alone.
	c, err := b.server.client()
	if err != nil {
		return cost{}, 0, err
	}
	defer c.Close()
	m, err := b.member(append(flags, further...))
	if err != nil {
		return cost{}, 0, err
	}
	if err := m.start(); err != nil {
		return cost{}, 0, err
	}
	r := m.current()
	own := r.watchOwn()
	// First the flows: what they pass on is the log of the agents, whose end is known only
	// then.
	_, err = caughtUp(ctx, c, m.group, t.events)
	var activity int64
	if err == nil { // what is committed has passed on its activity
		activity, err = caughtUp(ctx, c, group.NameOf(m.group, pump.AgentStage), t.activity)
	}
	// Ending in order is not a part of catching up, though its processor time is in the
	// cost.
	took := time.Since(r.started)
	// It has to end by itself: what a process took is known only then.
	if _, stopped := m.stop(); err != nil || stopped != nil {
		return cost{}, 0, errors.Join(err, stopped, errors.New(m.lastLines(5)))
	}
	used := costOf(took, r.cmd.ProcessState)
	used.disk, used.own = diskOf(m.dir), <-own
	return used, activity, m.lose()
}

// caughtUp waits until a group has committed what its topic holds now, and returns how
// much that is.
// A member commits what is checkpointed, so it is durable then.
func caughtUp(ctx context.Context, c *kgo.Client, group, topic string) (records int64, err error) {
	ends, err := endOffsets(ctx, c, topic)
	if err != nil {
		return 0, err
	}
	for _, end := range ends {
		records += end
	}
	// Partitions that hold nothing may have no commit.
	// A machine that others load as well takes its time: half a millisecond a record is far too long for a
	// fold that goes on.
	err = eventually(ctx, 3*time.Minute+time.Duration(records)*500*time.Microsecond, "the member to catch up with "+topic, func() (bool, error) {
		at, err := committed(ctx, c, group, topic)
		for p, end := range ends {
			if at[p] < end {
				return false, err
			}
		}
		return true, err
	})
	return records, err
}

// read runs the raw reader as a process of its own.
// A process, because what a process took can be measured, and a goroutine not.
func (b *bench) read(ctx context.Context, topic string) (cost, error) {
	self, err := os.Executable()
	if err != nil {
		return cost{}, err
	}
	cmd := exec.CommandContext(ctx, self, "read", b.server.addr, topic, fmt.Sprint(b.partitions))
	cmd.Stderr = os.Stderr
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return cost{}, fmt.Errorf("read topic %s: %w", topic, err)
	}
	return costOf(time.Since(began), cmd.ProcessState), nil
}

// readRaw is the process of the raw reader: the client of weir and nothing behind it.
// It decodes batches as weir does (see decision 28), and neither decodes events nor folds.
func readRaw(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New("usage: trial read BROKER TOPIC PARTITIONS")
	}
	// They are given, so that no metadata of many topics have to be read.
	partitions, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	c := &kafka.Cluster{Brokers: args[:1]}
	defer c.Close()
	var group sync.WaitGroup
	var bytes atomic.Int64
	failed := make([]error, partitions)
	for p := range partitions {
		group.Go(func() {
			_, end, err := c.Bounds(ctx, args[1], p)
			// One reader a partition, as a member has.
			r := kafka.NewReader(c, args[1], p, 0, kafka.ReaderOptions{})
			defer r.Close()
			var records []kafka.Record
			for err == nil && r.Next() < end {
				records, err = r.Fetch(ctx, records)
				for i := range records {
					// Something is done with each record, so that reading it cannot be left
					// out.
					bytes.Add(int64(len(records[i].Value)))
				}
			}
			failed[p] = err
		})
	}
	group.Wait()
	return errors.Join(failed...)
}

// live measures the time from the call that produces an event to the receipt of the
// verdict that it brings about.
// The first ten seconds are not counted, in which the process warms up. Both clocks are the
// one of this process.
func (b *bench) live(ctx context.Context) error {
	t, flags, err := b.topics(ctx, "live")
	if err != nil {
		return err
	}
	m, err := b.member(flags)
	if err != nil {
		return err
	}
	if err := m.start(); err != nil {
		return err
	}
	r := m.current()
	// What comes before it is ready would be catch-up and no latency.
	err = eventually(ctx, time.Minute, "the member to be ready", func() (bool, error) { _, ready := r.times(); return ready > 0, nil })
	if err != nil {
		_ = m.kill()
		return err
	}
	// Verdicts are found by the position of the event that brought them about, which stands
	// in a header, so nothing of the event has to be marked.
	const warm = 10 * time.Second
	now := time.Now()
	all := b.lasts + warm
	// Twenty events for each flow, as in the other measurements.
	tr := &traffic{seed: 2, name: "live", events: int(all.Seconds()) * b.rate, flows: int(all.Seconds()) * b.rate / 20, runaway: astray,
		from: events.StampOf(now), to: events.StampOf(now.Add(all))}
	moments := latencies{sent: map[place]time.Time{}, read: map[place]time.Time{}}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	// Only the partitions of the flows: what the agent stage says is about no event of this
	// log.
	from := map[int32]kgo.Offset{}
	for p := range b.partitions {
		from[int32(p)] = kgo.NewOffset().AtStart()
	}
	// The broker answers a fetch as soon as there is a record, so the wait is no part of
	// the times.
	reader, err := b.server.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{t.verdicts: from}), kgo.FetchMaxWait(time.Second))
	if err != nil {
		return err
	}
	defer reader.Close()
	var group sync.WaitGroup
	group.Go(func() { moments.follow(reading, reader) })
	// What the process computes is measured over the time that counts, without the start.
	used := cpuAfter(r.cmd.Process.Pid, warm, b.lasts)
	err = b.server.produce(ctx, t.events, tr, true, moments.acknowledged)
	if err != nil {
		_ = m.kill()
		return err
	}
	u := <-used
	// A verdict that comes later than this is not among the figures.
	<-time.After(time.Second) // the last verdicts
	stop()
	group.Wait()
	_, stopped := m.stop()
	late := moments.since(now.Add(warm))
	if len(late) == 0 {
		return errors.Join(errors.New("live: there were no verdicts"), stopped)
	}
	at := func(q float64) string { return late[int(q*float64(len(late)-1))].Round(10 * time.Microsecond).String() }
	fmt.Fprintf(b.out, "\n| live, %d events/s for %s | p50 | p99 | most | cores used | most memory |\n| --- | --- | --- | --- | --- | --- |\n", b.rate, b.lasts)
	fmt.Fprintf(b.out, "| produced to verdict readable, %d verdicts | %s | %s | %s | %.2f | %.0f MiB |\n", len(late), at(0.5), at(0.99), at(1),
		u[0].Seconds()/u[1].Seconds(), float64(costOf(0, r.cmd.ProcessState).rss)/(1<<20))
	return stopped
}

// cpuAfter measures, after a time, what a process computes within another: CPU time and time.
func cpuAfter(pid int, warm, lasts time.Duration) <-chan [2]time.Duration {
	used := make(chan [2]time.Duration, 1)
	go func() {
		<-time.After(warm)
		began, before := time.Now(), cpuOf(pid)
		<-time.After(lasts)
		used <- [2]time.Duration{cpuOf(pid) - before, time.Since(began)}
	}()
	return used
}

// place names an event, and a verdict by its event: both have the same partition.
type place struct {
	partition int32
	offset    int64
}

// latencies are the moments at which events were acknowledged and their verdicts read.
type latencies struct {
	mu         sync.Mutex
	sent, read map[place]time.Time
}

// acknowledged notes an event that the broker has acknowledged, which may be after the verdict was read.
func (l *latencies) acknowledged(r *kgo.Record, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[place{r.Partition, r.Offset}] = at
}

// follow notes verdicts until ctx ends.
func (l *latencies) follow(ctx context.Context, reader *kgo.Client) {
	for ctx.Err() == nil {
		fetched := reader.PollFetches(ctx)
		// All records of one fetch were readable now, and not before as far as a reader
		// can see.
		at := time.Now()
		l.mu.Lock()
		fetched.EachRecord(func(r *kgo.Record) {
			trigger, err := strconv.ParseInt(header(r, "weir-trigger"), 10, 64)
			// The first verdict of an event is the one that a dispatcher waits for.
			if k := (place{r.Partition, trigger}); err == nil && l.read[k].IsZero() {
				l.read[k] = at
			}
		})
		l.mu.Unlock()
	}
}

// since returns how long verdicts took, sorted. Those of ticks, and of events sent before from, are left out.
func (l *latencies) since(from time.Time) (late []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, at := range l.read {
		if s, ok := l.sent[k]; ok && !s.Before(from) {
			// Both moments are of one clock, that of this process.
			late = append(late, at.Sub(s))
		}
	}
	slices.Sort(late)
	return late
}

// cpuOf is the time that a process has computed, in ticks of 10 ms.
// It may be asked of a process that runs; 0 when there is none.
func cpuOf(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	var user, system int64
	// The times in user and in system mode are the 14th and the 15th field; behind the name
	// eleven others come before them.
	after := text[slices.Index(text, ')')+2:] // the name may have blanks
	_, _ = fmt.Sscanf(string(after), "%s %d %d %d %d %d %d %d %d %d %d %d %d", new(string), new(int), new(int), new(int), new(int), new(int), new(int),
		new(int), new(int), new(int), new(int), &user, &system)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// values are one figure of each round, the least first.
func values(list []cost, of func(cost) float64) (out []float64) {
	for _, c := range list {
		out = append(out, of(c))
	}
	slices.Sort(out)
	return out
}

// median is the upper one of an even number of rounds.
func median(list []cost, of func(cost) float64) float64 { return values(list, of)[len(list)/2] }

// span is the median with the range, in units of unit.
func span(list []cost, of func(cost) float64, unit float64) string {
	v := values(list, of)
	return fmt.Sprintf("%.0f (%.0f to %.0f)", v[len(v)/2]/unit, v[0]/unit, v[len(v)-1]/unit)
}

// thousands is span in thousands, as rates are printed.
func thousands(list []cost, of func(cost) float64) string { return span(list, of, 1000) + " k" }
