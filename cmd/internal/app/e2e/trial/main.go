// Command trial runs weir as its users do, as processes beside a Kafka broker, and
// holds what comes out against what must.
//
//	trial storm   kill, freeze, join and drop members and kill the broker, then compare
//	trial soak    the same for long, with what the members take
//	trial bench   catch-up and latency
//	trial peers   catch-up beside a program on Kafka Streams, over flows of several kinds
//	trial profile FILE          write where the time of these goes, for go build -pgo
//	trial growth  what one process costs as flows and partitions become more
//	trial answers check calls by all guards beside kills, and hold each answer to be the check's own
//	trial budgets spend a daily budget of a team in a group of three, through kills
//	trial switch  stop all calls by hand in a group of three, through kills and partitions
//	trial heartbeats  measure what guards cost that only send heartbeats
//	trial lines   make the mistakes that users make and print what they see
//	trial judge BROKER          compare once more, with a broker whose data a storm left
//	trial on-kafka COMMAND...   run a command with KAFKA_ADDR naming an Apache Kafka
//	trial broker, trial read    processes that the others start
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// main ends with 1 when the trial could not be made or has shown a fault.
func main() {
	// Who interrupts a trial leaves no broker and no folder behind: what is deferred still
	// runs.
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "trial:", err)
		os.Exit(1)
	}
}

// command runs one of the commands. Each reads its own flags; an error is printed, and
// makes the exit status 1, so that make stops.
func command(ctx context.Context, args []string) error {
	usage := errors.New("usage: trial storm|soak|bench|peers|profile|growth|answers|budgets|switch|heartbeats|lines [FLAGS]; -h lists them")
	if len(args) == 0 {
		return usage
	}
	// "read" and "broker" are for this program itself: processes that can be measured and
	// killed.
	switch args[0] {
	case "storm":
		return stormCommand(ctx, args[1:])
	case "soak":
		return soakCommand(ctx, args[1:])
	case "bench":
		return benchCommand(ctx, args[1:])
	case "peers":
		return peersCommand(ctx, args[1:])
	case "profile":
		return profileCommand(ctx, args[1:])
	case "growth":
		return growthCommand(ctx, args[1:])
	case "answers":
		return answersCommand(ctx, args[1:])
	case "budgets":
		return budgetsCommand(ctx, args[1:])
	case "switch":
		return switchCommand(ctx, args[1:])
	case "heartbeats":
		return heartbeatsCommand(ctx, args[1:])
	case "judge":
		return judgeCommand(ctx, args[1:])
	case "lines":
		return linesCommand(ctx, args[1:])
	case "read":
		return readRaw(ctx, args[1:])
	case "on-kafka":
		return onKafka(ctx, args[1:])
	case "broker":
		return serveFake(args[1:])
	}
	return usage
}

// onKafka runs a command beside an Apache Kafka that lasts as long.
// Tests that want a real broker are run by it, as make does. The broker and its data are
// removed at the end, whatever the command said; its error is that of the command.
func onKafka(ctx context.Context, args []string) (err error) {
	if len(args) == 0 {
		return errors.New("usage: trial on-kafka COMMAND...")
	}
	dir, err := os.MkdirTemp("", "weir-kafka-")
	if err != nil {
		return err
	}
	// Its ports are free ones, so that several commands may have a broker each at one time.
	s, err := newServer(true, filepath.Join(dir, "broker"))
	if err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdout, os.Stderr, append(os.Environ(), "KAFKA_ADDR="+s.addr)
	err = cmd.Run()
	return errors.Join(err, s.stop(), os.RemoveAll(dir))
}

// stormCommand reads the flags of a storm. Fewer events and faults make a quick try.
func stormCommand(ctx context.Context, args []string) error {
	// Each fault has a flag of its own below, so that one kind can be tried alone.
	s := &storm{out: os.Stdout, soak: &soak{away: 2 * time.Second}, faults: faults{hardExits: 30, joins: 10, brokerDowns: 2, loseStates: 1, freezes: 1}}
	fs := flag.NewFlagSet("trial storm", flag.ExitOnError)
	fs.BoolVar(&s.real, "real", false, "Apache Kafka by kafka.sh instead of kfake")
	fs.IntVar(&s.events, "events", 1_000_000, "how many")
	fs.IntVar(&s.flows, "flows", 50_000, "how many flows they belong to")
	fs.IntVar(&s.partitions, "partitions", 6, "of the topics")
	fs.DurationVar(&s.gap, "gap", 4*time.Second, "mean time between faults")
	// The report prints it, for the same storm again.
	fs.Uint64Var(&s.seed, "seed", 1, "of the traffic and the faults")
	fs.BoolVar(&s.keep, "keep", false, "leave logs and data, also when all is well")
	fs.IntVar(&s.faults.hardExits, "kills", s.faults.hardExits, "hard exits of members")
	fs.IntVar(&s.faults.joins, "joins", s.faults.joins, "members that join, and leave again")
	fs.IntVar(&s.faults.brokerDowns, "broker-kills", s.faults.brokerDowns, "hard exits of the broker")
	fs.IntVar(&s.faults.loseStates, "losses", s.faults.loseStates, "state folders lost")
	fs.IntVar(&s.faults.freezes, "freezes", s.faults.freezes, "members frozen for longer than their session")
	if err := fs.Parse(args); err != nil {
		return err
	}
	// An error is that of the trial; that weir did something wrong is one, too, only here,
	// for the exit status.
	well, err := s.blow(ctx)
	if err == nil && !well {
		err = errors.New("the storm shows: see above")
	}
	return err
}

// benchCommand reads the flags of a bench, which uses a real broker by default.
func benchCommand(ctx context.Context, args []string) error {
	b := &bench{real: true, out: os.Stdout}
	fs := flag.NewFlagSet("trial bench", flag.ExitOnError)
	fs.BoolVar(&b.real, "real", true, "Apache Kafka by kafka.sh instead of kfake")
	fs.IntVar(&b.events, "events", 1_000_000, "how many to catch up with")
	fs.IntVar(&b.rounds, "rounds", 3, "how often, in turn with the raw read")
	fs.IntVar(&b.partitions, "partitions", 4, "of the topics")
	fs.IntVar(&b.rate, "rate", 2000, "live events in a second")
	fs.DurationVar(&b.lasts, "live", 30*time.Second, "how long live traffic is measured")
	if err := fs.Parse(args); err != nil {
		return err
	}
	return b.run(ctx)
}

// peersCommand reads the flags of the comparison with Kafka Streams.
func peersCommand(ctx context.Context, args []string) error {
	b := &bench{real: true, out: os.Stdout}
	fs := flag.NewFlagSet("trial peers", flag.ExitOnError)
	fs.IntVar(&b.events, "events", 1_000_000, "of each kind of flows")
	fs.IntVar(&b.rounds, "rounds", 3, "how often, in turn")
	fs.IntVar(&b.partitions, "partitions", 8, "of the topics")
	seed := fs.Uint64("seed", 1, "of the flows")
	if err := fs.Parse(args); err != nil {
		return err
	}
	return b.peers(ctx, *seed)
}

// profileCommand reads the flags of a profile, and the file that it is written to.
func profileCommand(ctx context.Context, args []string) error {
	b := &bench{out: os.Stdout}
	fs := flag.NewFlagSet("trial profile", flag.ExitOnError)
	fs.IntVar(&b.events, "events", 3_000_000, "how many to catch up with")
	fs.IntVar(&b.rounds, "rounds", 6, "how often")
	fs.IntVar(&b.partitions, "partitions", 8, "of the topics")
	seed := fs.Uint64("seed", 1, "of the flows")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() != 1 {
		return errors.New("usage: trial profile [FLAGS] FILE")
	}
	return b.profileOf(ctx, fs.Arg(0), *seed)
}

// growthCommand reads the flags of the growth. By default it is beside kfake: what one
// process costs by flow and by partition is its own matter.
func growthCommand(ctx context.Context, args []string) error {
	b := &bench{out: os.Stdout}
	fs := flag.NewFlagSet("trial growth", flag.ExitOnError)
	fs.BoolVar(&b.real, "real", false, "Apache Kafka by kafka.sh instead of kfake")
	fs.IntVar(&b.rounds, "rounds", 1, "how often each")
	least := fs.Int("least", 0, "leave out the rows of fewer live flows")
	most := fs.Int("flows", 1_000_000, "live flows at most; the rows go from 10,000 to 5,000,000")
	if err := fs.Parse(args); err != nil {
		return err
	}
	return b.grow(ctx, *least, *most)
}

// linesCommand reads the flags of the mistakes.
func linesCommand(ctx context.Context, args []string) error {
	l := &lines{out: os.Stdout}
	fs := flag.NewFlagSet("trial lines", flag.ExitOnError)
	fs.BoolVar(&l.real, "real", false, "Apache Kafka by kafka.sh instead of kfake")
	fs.DurationVar(&l.away, "away", time.Minute, "how long the broker goes away")
	if err := fs.Parse(args); err != nil {
		return err
	}
	return l.run(ctx)
}

// judgeCommand compares as a storm does at its end, with a broker that runs again on the
// data that a storm has kept (-keep). It says what it found and does not fail for it: a
// fault is looked for here that is known already.
func judgeCommand(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: trial judge BROKER")
	}
	// It is not started: it runs already.
	s := &server{addr: args[0]}
	c, err := s.client()
	if err != nil {
		return err
	}
	defer c.Close()
	t := defaultTopics()
	ends, err := endOffsets(ctx, c, t.events)
	if err != nil {
		return err
	}
	// As many partitions of events as there are; those of the agent stage come behind them.
	flows := int32(len(ends))
	p, err := readPublished(ctx, s, t, flows)
	if err != nil {
		return err
	}
	ofFlows, ofAgents := p.stages(flows)
	// What the members had committed when they ended is up to where they owe verdicts.
	folded, err := committed(ctx, c, groupName, t.events)
	if err != nil {
		return err
	}
	o, err := foldLog(ctx, s, t.events)
	if err != nil {
		return err
	}
	// The two stages are compared apart, each by the topic that it folds.
	compare(o, ofFlows, folded).print("flows")
	if folded, err = committed(ctx, c, agentGroup, t.activity); err != nil {
		return err
	}
	if o, err = foldActivity(ctx, s, t.activity, flows); err != nil {
		return err
	}
	compare(o, ofAgents, outputsOf(folded, flows)).print("agents")
	return nil
}

// print says the examples first and then the counters, without the examples.
func (d *difference) print(stage string) {
	for _, line := range d.first {
		fmt.Println(line)
	}
	d.first = nil
	fmt.Printf("%s: %+v\n", stage, *d)
}
