package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"weir/analyzer"
	"weir/cmd/internal/app"
	"weir/cmd/internal/cli"
	"weir/cmd/internal/group"
	"weir/cmd/internal/pump"
	"weir/events/kafka"
)

// TopicsCommand is weir topics, which makes the topics that weir needs and checks them.
//
// plan changes nothing and create only adds: weir never alters or deletes a topic, since
// records of others may be in it.
func TopicsCommand() cli.Command {
	command := func(c cli.Command, run func(context.Context, *cli.Env, *TopicFlags) error) cli.Command {
		c.Setup = func(fs *pflag.FlagSet) cli.Run {
			// Both commands take the same flags, so that create makes what plan has said.
			t := NewTopicFlags(fs)
			return func(ctx context.Context, env *cli.Env, _ []string) error {
				if err := t.Load(env); err != nil {
					return err
				}
				return run(ctx, env, t)
			}
		}
		return c
	}
	return cli.Command{Name: "topics", Short: "plan and create the Kafka topics", Commands: []cli.Command{
		command(cli.Command{
			Name: "plan", Short: "list missing topics and wrong settings",
			Long: `Changes nothing. The topics of verdicts and of dead letters need as many partitions as
those of events and activity together. Output of event partition 7 is in partition 7;
output of activity partition 7 is in the seventh behind those of the events. Records
must last at least as long as an episode of a flow can last by the limits, and those of
the activity a day. Topics use LogAppendTime, no compaction and no compression, and
small segment indexes where brokers allow it (segment.index.bytes).

The exit code is 3 if something has to be done.`,
			Examples: []string{"weir topics plan --brokers kafka-1:9092", "weir topics plan --brokers kafka-1:9092 --limits limits.yaml -o json"},
		}, planTopics),
		command(cli.Command{
			Name: "create", Short: "create missing topics",
			Long: `Creates missing topics and changes no existing ones. Differences are printed, with exit
code 3.

Choose as many partitions as you will ever want machines. Changing the number later
means new topics, because flows would move to other partitions. The topic of activity
gets the same number, at most 16 by default. More of them cost every partition of events
(see PERFORMANCE.md). Topics of verdicts and dead letters get as many as both together.`,
			Examples: []string{"weir topics create --brokers kafka-1:9092 --partitions 12 --replication 3"},
		}, createTopics),
	}}
}

// TopicFlags set which topics there have to be, and what they have to hold.
//
// judging are the limits, by which it is known how long records are needed. 0 of partitions
// and replication means that no number is given.
type TopicFlags struct {
	*BrokerFlags
	judging                           *LimitFlags
	partitions, activity, replication int
	retention                         time.Duration
}

// NewTopicFlags declares the flags.
// The flags of limits are among them, because limits say how long records are needed.
func NewTopicFlags(fs *pflag.FlagSet) *TopicFlags {
	t := &TopicFlags{BrokerFlags: NewBrokerFlags(fs), judging: NewLimitFlags(fs)}
	fs.IntVar(&t.partitions, "partitions", 0, "partitions of events (`MANY`); default: those that exist, or "+strconv.Itoa(defaultPartitions))
	fs.IntVar(&t.activity, "activity-partitions", 0, "partitions of activity (`MANY`); default: those that exist, or as of events, at most "+strconv.Itoa(mostActivity))
	fs.IntVar(&t.replication, "replication", 0, "replicas of each partition (`MANY`); default: that of the brokers")
	fs.DurationVar(&t.retention, "retention", app.DefaultRetention, "keep records for this `DURATION`, and at least as long as the limits need")
	return t
}

// defaultPartitions is how many partitions topics get by default.
//
// Many numbers of machines divide it.
const defaultPartitions = 12

// mostActivity is how many partitions the topic of activity gets at most by default.
//
// Each partition of events reports the activity of its flows to each partition of activity, once in
// agents.report. So the number of records grows with the product of both. The activity is a tenth of
// the events.
const mostActivity = 16

// topicNeeds is what weir wants of one topic.
//
// A topic may have more partitions than it needs; the number of those of events decides in
// which one a flow is, and is never changed.
type topicNeeds struct {
	Name       string
	partitions int // at least
	settings   []settingNeed
}

// settingNeed is what weir wants of one setting of a topic.
//
// want is what the topic is created with, and good what passes on one that is there: more
// than is wanted mostly does. Nil for good is a setting that only makes brokers work less:
// any other passes, and the topic is created without where they refuse it.
type settingNeed struct {
	name, want string
	good       func(is string) bool
}

// topicGap is one thing that has to be done about a topic, or that nothing has.
//
// Fix is a command to type, or a sentence where there is none.
type topicGap struct {
	Topic   string `json:"topic"`
	State   string `json:"state"` // ok, missing, differs
	Setting string `json:"setting,omitempty"`
	Is      string `json:"is,omitempty"`
	Want    string `json:"want"`
	Fix     string `json:"fix,omitempty"`
}

// States of topics.
const (
	topicOK      = "ok"
	topicMissing = "missing"
	TopicDiffers = "differs"
)

// TopicPlan is what has to be done about all topics.
//
// Gaps has a line for each topic that is as it should be, too. Missing is what create would
// create.
type TopicPlan struct {
	Gaps    []topicGap
	Missing []kafka.NewTopic
	Differs int
}

// plan compares what is there with what weir needs.
//
// Topics that are there say more than flags: partitions of events are counted before
// --partitions is looked at, because the others have to fit those.
func (t *TopicFlags) plan(ctx context.Context, c *kafka.Cluster) (*TopicPlan, error) {
	limits, err := t.judging.Limits()
	if err != nil {
		return nil, err
	}
	// A topic that is not there is no error here; it is what the plan is about.
	p := new(TopicPlan)
	there := map[string]kafka.TopicInfo{}
	for _, name := range []string{t.Topics.Events, t.Topics.Verdicts, t.Topics.Activity, t.Topics.DeadLetters, t.Topics.Orders} {
		var info kafka.TopicInfo
		err := Settled(ctx, func(ctx context.Context) (err error) {
			info, err = c.Topic(ctx, name)
			return err
		})
		if err != nil && !errors.Is(err, kafka.ErrNoTopic) {
			return nil, err
		}
		if err == nil {
			there[name] = info
		}
	}
	// The first that is not 0.
	events := cmp.Or(there[t.Topics.Events].Partitions, t.partitions, there[t.Topics.Activity].Partitions, defaultPartitions)
	// Both numbers are those that are there, so verdicts and dead letters get a place for
	// each.
	activity := cmp.Or(there[t.Topics.Activity].Partitions, t.activity, min(events, mostActivity))
	for _, n := range t.Needs(limits, events, activity) {
		info, ok := there[n.Name]
		if !ok {
			p.Lacks(n, t.replication)
			continue
		}
		p.Compare(n, info)
	}
	// More partitions would give keys to others, so there is no command for it.
	for _, n := range []struct {
		topic, subjects string
		want            int
	}{{t.Topics.Events, "flows", t.partitions}, {t.Topics.Activity, "agents", t.activity}} {
		if is := there[n.topic].Partitions; is != 0 && n.want != 0 && is != n.want {
			p.differ(topicGap{Topic: n.topic, Setting: "partitions", Is: strconv.Itoa(is), Want: strconv.Itoa(n.want),
				Fix: n.subjects + " would be in other partitions: create topics under new names, with --events-topic and the others"})
		}
	}
	return p, nil
}

// Needs returns what weir wants of each of its topics, by how many partitions those of
// events and of activity have.
func (t *TopicFlags) Needs(limits analyzer.Limits, events, activity int) []topicNeeds {
	// A weir that takes a partition over without a state folds so far back, see decision 24.
	lookback := func(s pump.Stage) time.Duration { return group.Lookback(s, &limits) + skew }
	both := max(lookback(pump.FlowStage), lookback(pump.AgentStage))
	// The names are those of Kafka's settings of topics.
	same := func(name, want string) settingNeed {
		return settingNeed{name, want, func(is string) bool { return is == want }}
	}
	atLeast := func(name string, least, want int64) settingNeed {
		return settingNeed{name, strconv.FormatInt(want, 10), func(is string) bool {
			n, err := strconv.ParseInt(is, 10, 64)
			// Below 0 means without end.
			return err == nil && (n >= least || n < 0)
		}}
	}
	settings := func(least time.Duration, bytes int64) []settingNeed {
		return []settingNeed{
			same("cleanup.policy", "delete"),
			atLeast("retention.ms", least.Milliseconds(), max(least, t.retention).Milliseconds()),
			same("message.timestamp.type", "LogAppendTime"),
			same("compression.type", "uncompressed"),
			atLeast("max.message.bytes", bytes, bytes),
			{"segment.index.bytes", strconv.Itoa(indexBytes), nil},
		}
	}
	// A topic that takes less refuses batches that producers take for normal.
	const usual = 1048588 // what brokers take by default
	return []topicNeeds{
		{t.Topics.Events, events, settings(lookback(pump.FlowStage), usual)},
		// Orders have to outlast what is folded again, and themselves.
		{t.Topics.Verdicts, events + activity, settings(max(both, limits.Order.TTL), usual)},
		{t.Topics.Activity, activity, settings(lookback(pump.AgentStage), usual)},
		// A dead letter is a whole record, and what is wrong with it.
		{t.Topics.DeadLetters, events + activity, settings(0, usual+64<<10)},
		// The newest record of each order by hand is kept for as long as the topic.
		{t.Topics.Orders, 1, []settingNeed{same("cleanup.policy", "compact"), same("compression.type", "uncompressed")}},
	}
}

// indexBytes is how large brokers make each of the two indexes of a segment, which they map
// into memory whole and empty (decision 103). With Kafka's other settings it is full, and
// begins a new segment, after 170 MB of small batches or 1 GiB of large ones.
const indexBytes = 512 << 10

// skew is how much longer records are kept than they are needed by the clocks of brokers
// that differ.
const skew = 5 * time.Minute

// Lacks adds a topic that is missing.
//
// replication is 0 for what brokers do by default.
func (p *TopicPlan) Lacks(n topicNeeds, replication int) {
	config, optional := map[string]string{}, map[string]string{}
	want := cli.Count(int64(n.partitions), "partition")
	for _, s := range n.settings {
		if s.good == nil {
			optional[s.name] = s.want
		} else {
			config[s.name] = s.want
		}
		want += ", " + s.name + "=" + s.want
	}
	if replication >= 3 {
		// So that what was acknowledged is on two machines.
		config["min.insync.replicas"] = "2"
	}
	if replication > 0 {
		want += ", " + cli.Count(int64(replication), "replica")
	}
	// What is printed and what is created come from the same needs.
	p.Missing = append(p.Missing, kafka.NewTopic{Name: n.Name, Partitions: n.partitions, Replication: replication, Config: config, Optional: optional})
	p.Gaps = append(p.Gaps, topicGap{Topic: n.Name, State: topicMissing, Want: want, Fix: "weir topics create"})
}

// Compare adds what is not as it should be of a topic that is there.
//
// A setting that the broker does not report is not judged. More partitions than are needed
// are no fault.
func (p *TopicPlan) Compare(n topicNeeds, is kafka.TopicInfo) {
	before := p.Differs
	// Needs asks of the topics of events and activity what they have, so this is about the
	// other two.
	if is.Partitions < n.partitions {
		p.differ(topicGap{Topic: n.Name, Setting: "partitions", Is: strconv.Itoa(is.Partitions), Want: strconv.Itoa(n.partitions),
			Fix: fmt.Sprintf("kafka-topics.sh --alter --topic %s --partitions %d", n.Name, n.partitions)})
	}
	for _, s := range n.settings {
		// Some services keep settings to themselves.
		value, known := is.Config[s.name]
		if known && s.good != nil && !s.good(value) {
			p.differ(topicGap{Topic: n.Name, Setting: s.name, Is: value, Want: s.want,
				Fix: fmt.Sprintf("kafka-configs.sh --alter --topic %s --add-config %s=%s", n.Name, s.name, s.want)})
		}
	}
	if p.Differs == before {
		p.Gaps = append(p.Gaps, topicGap{Topic: n.Name, State: topicOK, Want: cli.Count(int64(is.Partitions), "partition")})
	}
}

// differ adds a gap that the operator has to close by hand.
func (p *TopicPlan) differ(g topicGap) {
	p.Differs++
	g.State = TopicDiffers
	p.Gaps = append(p.Gaps, g)
}

// newGapLines prints gaps: for people with what to type, for programs as they are.
func newGapLines(env *cli.Env) *cli.Lines[topicGap] {
	return cli.NewLines(env, func(g *topicGap) []cli.Cell {
		state := cli.Cell{Text: g.State, Paint: cli.Good}
		text := g.Want
		switch g.State {
		case topicMissing:
			state.Paint = cli.Bad
		case TopicDiffers:
			state.Paint = cli.Caution
			text = fmt.Sprintf("%s is %s, want %s: %s", g.Setting, g.Is, g.Want, g.Fix)
		}
		return []cli.Cell{{Text: g.Topic}, state, {Text: text}}
	}, "TOPIC", "STATE", "WANT")
}

// planTopics is weir topics plan. It needs no more than the right to look.
func planTopics(ctx context.Context, env *cli.Env, t *TopicFlags) error {
	c, err := t.Reach(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := t.plan(ctx, c)
	if err != nil {
		return err
	}
	if err := p.print(env); err != nil {
		return err
	}
	// It is the one remedy that weir has itself.
	if len(p.Missing) > 0 {
		env.Notice("weir topics create creates what is missing")
	}
	if len(p.Missing)+p.Differs > 0 {
		return cli.Exit(cli.CodeFinding)
	}
	return nil
}

// print writes a line for each gap.
func (p *TopicPlan) print(env *cli.Env) error {
	lines := newGapLines(env)
	return lines.All(p.Gaps)
}

// awaitLeaders returns when all partitions of new topics are served: the brokers know
// of a topic a moment before they do.
func awaitLeaders(ctx context.Context, c *kafka.Cluster, created []kafka.NewTopic) error {
	for _, topic := range created {
		for n := range topic.Partitions {
			err := Settled(ctx, func(ctx context.Context) error {
				_, _, err := c.Bounds(ctx, topic.Name, n)
				return err
			})
			if err != nil {
				return fmt.Errorf("%s was created, and is not served: %w", topic.Name, err)
			}
		}
	}
	return nil
}

// createTopics is weir topics create. It plans a second time after it has created, so what it
// prints is what the brokers have, and may be run again until nothing is missing: what it
// created before an error stays.
func createTopics(ctx context.Context, env *cli.Env, t *TopicFlags) error {
	c, err := t.Reach(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := t.plan(ctx, c)
	if err != nil {
		return err
	}
	// The created topics are reported also when a later one was refused.
	created, err := c.CreateTopics(ctx, p.Missing...)
	for _, name := range created {
		env.Notice("created %s", name)
	}
	if err == nil {
		err = awaitLeaders(ctx, c, p.Missing)
	}
	if err != nil {
		return err
	}
	if p, err = t.plan(ctx, c); err != nil {
		return err
	}
	if err := p.print(env); err != nil || len(p.Missing)+p.Differs == 0 {
		return err
	}
	return cli.Exit(cli.CodeFinding)
}
