package operate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/spf13/pflag"

	"weir/cmd/internal/cli"
	"weir/cmd/internal/group"
	"weir/cmd/internal/pump"
	"weir/events/kafka"
)

// LagCommand is weir lag: how far a group is behind the topics that it folds.
//
// It works when no weir answers, which is when one wants to know most.
func LagCommand() cli.Command {
	return cli.Command{
		Name: "lag", Short: "print the lag of a group, by partition",
		Long: `Asks the brokers: the committed offsets of the group against the end of the topic of
events. It does the same for the group of the agent stage (its name ends in -agents) and
the topic of activity. BEHIND is the age of the oldest record that is not done. OWNER is
the address of a weir (--advertise), or its host.`,
		Examples: []string{"weir lag --brokers kafka-1:9092", "weir lag --brokers kafka-1:9092 --group canary -o json"},
		Setup: func(fs *pflag.FlagSet) cli.Run {
			b := NewBrokerFlags(fs)
			return func(ctx context.Context, env *cli.Env, _ []string) error {
				if err := b.Load(env); err != nil {
					return err
				}
				return showLag(ctx, env, b)
			}
		},
	}
}

// partitionLag is how far one partition is.
//
// Lag counts from what is committed, or from the first record where nothing is.
// It is one line of the output for programs; Seconds is 0 where nothing waits.
type partitionLag struct {
	Topic     string  `json:"topic"`
	Partition int     `json:"partition"`
	Committed *int64  `json:"committed"` // null: nothing yet
	First     int64   `json:"first"`     // oldest record that is still there
	End       int64   `json:"end"`
	Lag       int64   `json:"lag"` // records
	Seconds   float64 `json:"seconds_behind"`
	Owner     string  `json:"owner,omitempty"`
}

// LagBound is how long asking for the lag may take in all.
// Each partition is asked for by itself, and for those that lag a record is read.
const LagBound = 30 * time.Second

// showLag prints the partitions of both groups, that of the flows first.
func showLag(ctx context.Context, env *cli.Env, b *BrokerFlags) error {
	c, err := b.Reach(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, LagBound)
	defer cancel()
	// Both are asked before anything is printed, so an error leaves no half of a table.
	groups := make([]*groupLag, 0, len(stages))
	for _, stage := range stages {
		g, err := lagOf(ctx, c, b, stage, env.Now)
		if err != nil {
			return err
		}
		groups = append(groups, g)
	}
	lines := cli.NewLines(env, func(l *partitionLag) []cli.Cell {
		n := func(n int64) cli.Cell { return cli.Cell{Text: cli.Grouped(n), Right: true} }
		committed, owner := cli.Cell{Text: "-", Right: true, Paint: cli.Faint}, cli.Cell{Text: l.Owner}
		if l.Committed != nil {
			committed = n(*l.Committed)
		}
		if l.Owner == "" {
			owner = cli.Cell{Text: "nobody", Paint: cli.Bad}
		}
		// Finer figures would be about the clocks of two machines.
		behind := time.Duration(l.Seconds * float64(time.Second)).Round(time.Second)
		return []cli.Cell{{Text: l.Topic}, {Text: strconv.Itoa(l.Partition), Right: true}, committed, n(l.End), n(l.Lag), {Text: behind.String(), Right: true}, owner}
	}, "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "BEHIND", "OWNER")
	for _, g := range groups {
		for i := range g.partitions {
			if err := lines.Print(&g.partitions[i]); err != nil {
				return err
			}
		}
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	for _, g := range groups {
		// Sums are for people, on the other output: programs add up themselves.
		env.Notice("group %s is %s: %s behind", g.name, g.state, cli.Count(g.records(), "record"))
	}
	return nil
}

// stages are those that a group of weirs takes part in, each as a group of its own.
var stages = [...]pump.Stage{pump.FlowStage, pump.AgentStage}

// groupLag is how far the group of one stage is.
// state is the broker's word for it: Stable, Empty, PreparingRebalance and so on.
type groupLag struct {
	name, state string
	partitions  []partitionLag
}

// records is how many are not done.
//
// Marks of transactions count as records here, because offsets do not distinguish them.
func (g *groupLag) records() (n int64) {
	for i := range g.partitions {
		n += g.partitions[i].Lag
	}
	return n
}

// lagOf asks how far each partition of the topic of a stage is, and how its group is.
// While a group settles or a leader changes brokers refuse to answer; such questions are
// asked again until ctx ends.
func lagOf(ctx context.Context, c *kafka.Cluster, b *BrokerFlags, stage pump.Stage, now func() time.Time) (g *groupLag, err error) {
	topic := b.Topics.Events
	if stage == pump.AgentStage {
		topic = b.Topics.Activity
	}
	err = Settled(ctx, func(ctx context.Context) (err error) {
		g, err = askLag(ctx, c, group.NameOf(b.Group, stage), topic, now)
		return err
	})
	return g, err
}

// askLag asks for one group and one topic. It is tried again as a whole, so it keeps nothing.
// The places are read before the ends, so the lag may be too large for a moment and is never
// too small.
func askLag(ctx context.Context, c *kafka.Cluster, name, topic string, now func() time.Time) (*groupLag, error) {
	// kafka.ErrNoTopic when there is none.
	partitions, err := c.Partitions(ctx, topic)
	if err != nil {
		return nil, err
	}
	g, err := kafka.NewGroup(kafka.GroupOptions{Cluster: c, Group: name, Topic: topic})
	if err != nil {
		return nil, err
	}
	committed, err := g.Committed(ctx)
	if err != nil && !errors.Is(err, kafkago.GroupIdNotFound) { // no weir was ever in it
		return nil, err
	}
	// A group without members has a state, too.
	members, state, err := g.Members(ctx)
	if err != nil {
		return nil, err
	}
	// Partitions are in the order of their numbers. Partitions without a commit are
	// among them.
	out := &groupLag{name: name, state: state}
	for n := range partitions {
		l := partitionLag{Topic: topic, Partition: n, Owner: ownerOf(members, n)}
		if l.First, l.End, err = c.Bounds(ctx, topic, n); err != nil {
			return nil, err
		}
		// What retention has dropped cannot be behind any more.
		next := l.First
		if at, ok := committed[n]; ok {
			l.Committed, next = &at, max(next, at)
		}
		// An end below the place is that of a topic that was made anew.
		if l.Lag = max(0, l.End-next); l.Lag > 0 {
			if l.Seconds, err = age(ctx, c, topic, n, next, now); err != nil {
				return nil, err
			}
		}
		out.partitions = append(out.partitions, l)
	}
	return out, nil
}

// ownerOf returns where the owner of a partition is, as well as it is known.
//
// "" when it has no owner. Members give their address with --advertise; else it is the name
// and host that the brokers know.
func ownerOf(members []kafka.Member, partition int) string {
	for _, m := range members {
		for _, p := range m.Partitions {
			switch {
			case p != partition:
			case m.Address != "":
				return m.Address
			case m.Host != "":
				return fmt.Sprintf("%s (%s)", m.ID, m.Host)
			default:
				return m.ID
			}
		}
	}
	return ""
}

// age returns how many seconds ago the log took the record at the offset, or the one
// that comes after it.
//
// It goes by the time at which the broker took the record, and by the own clock: clocks
// that differ show here. 0 when there is nothing to read yet.
func age(ctx context.Context, c *kafka.Cluster, topic string, partition int, offset int64, now func() time.Time) (float64, error) {
	// One record is wanted, so little is asked for; a batch is sent whole in any case.
	r := kafka.NewReader(c, topic, partition, offset, kafka.ReaderOptions{Bytes: 64 << 10})
	defer r.Close()
	records, err := r.Fetch(ctx, nil)
	// Records that are gone or cannot be read have no known time. The number of waiting records is
	// known all the same.
	if _, ok := kafka.Behind(err); ok {
		return 0, nil
	}
	if err != nil || len(records) == 0 {
		return 0, err
	}
	return max(0, now().Sub(records[0].Time.Time()).Seconds()), nil
}
