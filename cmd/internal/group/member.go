package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"weir/analyzer"
	"weir/cmd/internal/clock"
	"weir/cmd/internal/peer"
	"weir/cmd/internal/phase"
	"weir/cmd/internal/pump"
	"weir/cmd/internal/retry"
	"weir/events"
	"weir/events/kafka"
	sinkkafka "weir/sink/kafka"
	"weir/sink/prom"
	"weir/state"
)

// Host is what a member is given of the program that it runs in. All are required.
type Host struct {
	// Pump is what the pumps of all partitions have in common. The budget of memory is that
	// of all. Answer and Metrics are for flows alone.
	Pump  pump.Options
	Store *state.Store

	StateDir      string        // where the id of the member is kept; "" forgets it
	Peer          *peer.Peer    // calls other members
	Tick          time.Duration // silence of a partition after which a tick is appended
	AnswerTimeout time.Duration // how long another member may take to answer an ask
	KeepVerdicts  time.Duration // how far back the verdicts of the group are copied

	// Limits are those that are wanted.
	// Limits may change while the program runs; owners put new ones into the log of each partition.
	Limits func() *analyzer.Limits
	// Hold withholds the answer that a flow has allowed until Settle brings the answer of its tree.
	// Settle gets an event with the source, id and flow of the check request. Hold returns false if no
	// request waits.
	Hold   func(ev *events.Event, v *events.Verdict) bool
	Settle func(ev *events.Event, v *events.Verdict)
	// Sign returns the signature of a verdict on its way into the topic; "" leaves it unsigned.
	Sign func(verdict []byte) string
	// Recall gets the last records of each partition in their order when this process takes it over, and Recalled
	// is how many of all partitions.
	Recall   func(record []byte)
	Recalled int64
	// CaughtUp is called when a partition of events is folded to its end for the first time.
	CaughtUp func()
	// Fail is called with an error after which the program cannot continue.
	Fail func(error)
}

// Member is one process of a group whose members share the partitions of a topic. Make it
// with New, then Start, then Stop.
type Member struct {
	*topicLog
	*peers
	*treeAsks

	host   *Host
	o      *Options
	clock  clock.Clock
	logger *slog.Logger
	store  *state.Store

	// folding has the loops of both groups and the asks of trees, copying the replicator.
	folding, copying *phase.Phase

	sets       *topicSets
	replicator *replicator
	// All owners of this process send by it.
	activity *sinkkafka.ActivityTopic

	owners *owners // of the partitions that this process folds

	counts memberCounts
}

// memberCounts is what the loops of all partitions count and know together.
type memberCounts struct {
	troubles [prom.TroubleCount]atomic.Int64 // times that reading failed
	commits  [2]atomic.Int64                 // of offsets; at 1 those that failed
	backlogs atomic.Int64                    // partitions of flows that are far behind, see lags

	reporting atomic.Bool // some agent reports of itself, by whatever partition
}

// New returns a member that has not joined its group yet.
func New(o Options, host Host) *Member {
	o.Group = cmp.Or(o.Group, DefaultGroup)
	t, names := &o.Topics, DefaultTopics()
	*t = Topics{Events: cmp.Or(t.Events, names.Events), Verdicts: cmp.Or(t.Verdicts, names.Verdicts),
		Activity: cmp.Or(t.Activity, names.Activity), DeadLetters: cmp.Or(t.DeadLetters, names.DeadLetters), Orders: cmp.Or(t.Orders, names.Orders)}
	// Errors of the brokers are distinguished by their codes, which the pump does not know.
	host.Pump.Trouble = troubleOf
	logger := host.Pump.Logger
	c := host.Pump.Clock
	sets, owners, folding := &topicSets{o: &o, host: &host, logger: logger, store: host.Store}, newOwners(c), phase.New(host.Fail)
	w := &peers{o: &o, host: &host, clock: c, logger: logger, sets: sets, owners: owners}
	return &Member{
		topicLog: &topicLog{o: &o, clock: c, logger: logger, sets: sets},
		peers:    w,
		treeAsks: &treeAsks{host: &host, clock: c, logger: logger, sets: sets, owners: owners, peers: w, running: folding, words: newTreeWords()},
		host:     &host, o: &o, clock: c, logger: logger, store: host.Store, sets: sets, owners: owners,
		folding: folding, copying: phase.New(host.Fail),
	}
}

// heartbeat is the interval at which a member polls the group for news and retries to join. The other
// members may need this long to notice a new one. Meanwhile the partitions that change owner are not
// folded.
const heartbeat = 250 * time.Millisecond

// startTries is how often a member looks for its topics, a second apart, before it gives up.
const startTries = 15

// Start looks whether the topics fit, joins the group and begins to fold what it is
// given.
// Its errors are those that waiting does not heal: topics that are missing or too small, a
// password that is wrong, a state that is of other topics.
func (m *Member) Start(ctx context.Context) error {
	if err := m.findTopics(ctx); err != nil {
		return err
	}
	m.replicator = newReplicator(m)
	m.activity = sinkkafka.NewActivityTopic(m.o.Cluster, m.o.Topics.Activity, len(m.sets.agents.partitions))
	m.activity.Gather = m.counts.manyBacklogs
	for _, l := range []*partitionSet{m.sets.flows, m.sets.agents} {
		m.folding.Run("consumer group "+l.name, func(ctx context.Context) error { return m.run(ctx, l) })
	}
	m.copying.Run("verdicts of the group", m.replicator.run)
	return nil
}

// findTopics checks the topics. The start of a member has waited until brokers were reachable. If one
// is unreachable meanwhile, it is back soon, and the member does not exit. The member has joined
// nothing yet, so an error here affects no other member.
func (m *Member) findTopics(ctx context.Context) error {
	for tries := 1; ; tries++ {
		err := m.sets.check(ctx)
		if !errors.Is(err, kafka.ErrUnreachable) || tries == startTries {
			return err
		}
		m.logger.Warn("the topics cannot be looked at, trying on", "err", err)
		if err := retry.Pause(ctx, m.clock, time.Second); err != nil {
			return err
		}
	}
}

// memory is what one partition may take.
// Every partition gets the same part, of all that there are and not of those that it owns: what it owns
// changes, and to take memory away from a pump that runs would need a checkpoint.
func (m *Member) memory(l *partitionSet) int64 {
	flows, agents := pump.SplitMemory(m.host.Pump.Memory)
	if l.stage == pump.AgentStage {
		return agents / int64(len(l.partitions))
	}
	return flows / int64(len(l.partitions))
}

// Turned is when the loop of a partition turned last, of the one that stands still for
// the longest. One that waits for a broker does not stand still: to start the process
// anew would not help it.
func (m *Member) Turned() time.Time {
	oldest := m.clock.Now()
	for _, p := range m.owners.all() {
		if at := time.UnixMilli(p.shown.turned.Load()); at.Before(oldest) && p.trouble() == nil {
			oldest = at
		}
	}
	return oldest
}

// Pumps are those that fold a stage now.
func (m *Member) Pumps(stage pump.Stage) (out []*pump.Pump) {
	l := m.sets.of(stage)
	for _, p := range m.owners.all() {
		if p.set == l {
			out = append(out, p.pump)
		}
	}
	return out
}

// PumpOf returns the pump that folds a flow, an agent or a project, or an error that names the member
// that does.
func (m *Member) PumpOf(stage pump.Stage, key string) (*pump.Pump, error) {
	l := m.sets.of(stage)
	partition := l.partitionOf(key)
	if p := m.owners.at(l, partition); p != nil {
		return p.pump, nil
	}
	return nil, m.elsewhere(l, partition)
}

// SetLimits does nothing: the owner of each partition looks what is wanted.
func (m *Member) SetLimits(analyzer.Limits) error { return nil }

// Ready reports what is wrong, and how many records the fold is behind. It reports no difference of
// clocks: the clock of the log is that of the brokers, and weir doctor compares it.
func (m *Member) Ready() (why []string, lag int64, clock string) {
	// A member that has lost one of its groups folds nothing of it, whatever its partitions
	// look like.
	for _, l := range []*partitionSet{m.sets.flows, m.sets.agents} {
		if since, err := l.group.Trouble(); err != nil {
			why = append(why, fmt.Sprintf("not a member of group %s since %s: %v", l.name, since.UTC().Format(time.RFC3339), err))
		}
	}
	for _, p := range m.owners.all() {
		lag += p.behind()
		why = append(why, p.ready()...)
	}
	why = append(why, m.replicator.ready()...)
	return append(why, m.owners.beingTaken()...), lag, ""
}

// Progress reports how far this process has folded its partitions of events. Partitions of other
// processes are left out, because this process does not know their progress. Progress is for callers
// that decide whether the fold is behind (decision 73). Records that were read and not published count
// as not folded.
func (m *Member) Progress() (out []pump.Progress) {
	for _, p := range m.owners.all() {
		if p.set == m.sets.flows {
			out = append(out, pump.Progress{Partition: p.partition, Next: p.shown.folded.Load(), End: max(p.reader.Next(), p.reader.HighWatermark())})
		}
	}
	return out
}

// Measure reports on the partitions that this process folds.
func (m *Member) Measure(r *prom.Reading) {
	now := m.clock.Now()
	for _, p := range m.owners.all() {
		s := prom.Source{Agents: p.set.stage == pump.AgentStage, Topic: p.set.topic, Partition: p.partition, LagRecords: p.behind()}
		// By when the log took the last record that was read: nothing newer is folded.
		if at := p.shown.newest.Load(); s.LagRecords > 0 && at > 0 {
			s.Lag = max(0, now.Sub(time.UnixMilli(at)))
		}
		r.Sources = append(r.Sources, s)
	}
	// What follows is counted for both groups together.
	r.Rebalances = m.owners.rebalances()
	for i := range m.counts.troubles {
		r.FetchTrouble[i] = m.counts.troubles[i].Load()
	}
	for i := range m.counts.commits {
		r.Commits[i] = m.counts.commits[i].Load()
	}
}

// drainTime is how long a partition that is given up may take to end. It is well below the time that
// the group waits for a member. While the partition drains, the next owner cannot begin, and check
// requests for its flows get no answer.
const drainTime = 5 * time.Second

// Stop folds what is under way to its end, publishes it, takes last checkpoints and
// leaves the group.
// A member that ends in order lets others take over at once, without the session timeout, and
// with checkpoints that leave nothing to fold again.
func (m *Member) Stop(ctx context.Context) error {
	err := m.copying.End(ctx)
	for _, p := range m.owners.all() {
		p.pump.Hurry()
	}
	err = errors.Join(err, m.folding.End(ctx))
	if m.activity != nil {
		m.activity.Close()
	}
	return err
}
