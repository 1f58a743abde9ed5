package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"weir/events"
)

// peerMix is traffic of one kind, of which each program gets the same records.
// What a program is good at depends on the flows, so one kind would prove nothing.
type peerMix struct {
	name          string
	events, flows int
	runaway       float64
	seed          uint64
}

// honestOnly is a share of runaways that no flow has; 0 would leave the share to the traffic.
// See traffic.runaway.
const honestOnly = 1e-12

// mixes are those that the programs are compared on, with this number of events each.
// One hot flow has a tenth of them, since all of it is in one partition.
func mixes(events int, seed uint64) []peerMix {
	return []peerMix{
		{"a fiftieth of the flows runs away", events, events / 20, astray, seed},
		{"a tenth runs away and nobody stops them", events, events / 20, 0.1, seed + 1},
		{"honest flows alone", events, events / 20, honestOnly, seed + 2},
		{"one hot flow", events / 10, 1, honestOnly, seed + 3},
		{"flows of three events", events, events / 3, honestOnly, seed + 4},
	}
}

// peers runs weir and Kafka Streams in turn over the same topics and prints their ratios.
// The broker is always Apache Kafka.
func (b *bench) peers(ctx context.Context, seed uint64) (err error) {
	b.real = true
	down, err := b.up(ctx, buildOptimized)
	defer func() { err = errors.Join(err, down()) }()
	if err != nil {
		return err
	}
	streams, err := b.compileStreams(ctx)
	if err != nil {
		return err
	}
	// The two do not do the same, and the report says in which way: weir does more in each
	// event.
	fmt.Fprintf(b.out, "weir: all rules of the default profile, both stages, synced. Kafka Streams: five rules, RocksDB and changelog, at least once. %d partitions, medians of %d.\n\n", b.partitions, b.rounds)
	fmt.Fprintln(b.out, "| flows | weir: events per CPU second, most memory | Kafka Streams | weir : Kafka Streams per CPU second, per second, memory |")
	fmt.Fprintln(b.out, "| --- | --- | --- | --- |")
	for i, m := range mixes(b.events, seed) {
		if err := b.compareOn(ctx, fmt.Sprint("mix-", i), m, streams); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// produce makes topics of a name with the traffic of a mix, as of the last hour.
func (b *bench) produce(ctx context.Context, name string, m peerMix) (topics, error) {
	t, _, err := b.topics(ctx, name)
	if err != nil {
		return t, err
	}
	now := events.StampOf(time.Now())
	tr := &traffic{seed: m.seed, name: name, events: m.events, flows: m.flows, runaway: m.runaway, from: now - 3_600_000, to: now}
	return t, b.server.produce(ctx, t.events, tr, false, nil)
}

// compareOn measures one kind. The two take turns, so that what else the machine does falls
// on both.
func (b *bench) compareOn(ctx context.Context, name string, m peerMix, streams []string) error {
	t, err := b.produce(ctx, name, m)
	if err != nil {
		return err
	}
	var weir, other []cost
	var warned int
	for range b.rounds {
		c, _, err := b.fold(ctx, name)
		if err != nil {
			return err
		}
		weir = append(weir, c)
		if c, warned, err = b.stream(ctx, t.events, m.events, streams); err != nil {
			return err
		}
		other = append(other, c)
	}
	n := float64(m.events)
	// Both are held against the events of the topic, whatever each makes of one.
	cpu := func(c cost) float64 { return n / c.cpu.Seconds() }
	wall := func(c cost) float64 { return n / c.wall.Seconds() }
	rss := func(c cost) float64 { return float64(c.rss) / (1 << 20) }
	fmt.Fprintf(b.out, "| %s: %d events, %d flows | %s, %s MiB | %s, %s MiB, %d verdicts | %.2f, %.2f, %.2f |\n", m.name, m.events, m.flows,
		// Above 1 weir needs less time, and more memory.
		thousands(weir, cpu), span(weir, rss, 1), thousands(other, cpu), span(other, rss, 1), warned,
		median(weir, cpu)/median(other, cpu), median(weir, wall)/median(other, wall), median(weir, rss)/median(other, rss))
	return nil
}

// compileStreams fetches Kafka Streams, compiles what runs on it and returns how to start that.
// The jars come by Maven, once (see kafka.sh). It needs a JDK.
func (b *bench) compileStreams(ctx context.Context) ([]string, error) {
	var jars bytes.Buffer
	root, err := module("weir/cmd/internal/app/e2e")
	if err != nil {
		return nil, err
	}
	// What Maven says on the way goes to stderr; stdout has the folder of the jars alone.
	fetch := exec.CommandContext(ctx, filepath.Join(root, "kafka.sh"), "streams")
	fetch.Stdout, fetch.Stderr = &jars, os.Stderr
	if err := fetch.Run(); err != nil {
		return nil, fmt.Errorf("fetch Kafka Streams: %w", err)
	}
	// The peer is compiled anew each time.
	libs, classes := string(bytes.TrimSpace(jars.Bytes())), filepath.Join(b.dir, "classes")
	compile := exec.CommandContext(ctx, "javac", "-cp", libs+"/*", "-d", classes, filepath.Join(root, "kstreams", "Peer.java"))
	if out, err := compile.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("javac: %w\n%s", err, out)
	}
	// Its heap is bounded, since a Java machine takes what it may have, which would be
	// measured.
	return []string{"java", "-Xmx2g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", classes + ":" + libs + "/*", "Peer"}, nil
}

// stream runs the program on Kafka Streams over the whole topic. Its time is that of the
// process, with the start of the Java machine, as weir's is. It returns how many verdicts
// there were, too.
// The program ends by itself when it has processed n events, and says how many.
func (b *bench) stream(ctx context.Context, topic string, n int, command []string) (used cost, warned int, err error) {
	b.serial++
	c, err := b.server.client()
	if err != nil {
		return cost{}, 0, err
	}
	defer c.Close()
	out := fmt.Sprint("streams-", b.serial)
	if _, err := kadm.NewClient(c).CreateTopic(ctx, int32(b.partitions), 1, nil, out); err != nil {
		return cost{}, 0, err
	}
	// Its state lies beside that of weir, on the same disk.
	folder := filepath.Join(b.dir, out)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], b.server.addr, topic, out, folder, fmt.Sprint(n))...)
	// What it says at its end is one JSON object; a Java machine says more on stderr.
	var said, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &complaint
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return cost{}, 0, fmt.Errorf("the program on Kafka Streams: %w\n%s", err, tail(complaint.String(), 2000))
	}
	var result struct{ Processed, Warned int }
	// It may process some twice, since it promises at least once.
	if err := json.Unmarshal(said.Bytes(), &result); err != nil || result.Processed < n {
		return cost{}, 0, fmt.Errorf("the program on Kafka Streams processed %d of %d events: %w\n%s", result.Processed, n, err, said.Bytes())
	}
	return costOf(time.Since(began), cmd.ProcessState), result.Warned, os.RemoveAll(folder)
}
