package app

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/analyzer"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/events/kafka"
	sinkkafka "weir/sink/kafka"
	"weir/sink/prom"
	"weir/state"
)

// member is the Kafka form: one process of a group.
type member struct {
	app        *App
	o          KafkaOptions
	flowLanes  *lanes
	agentLanes *lanes
	mirror     *mirror
	token      []byte // that other members want; nil for none

	mu     sync.Mutex
	owned  map[int]*owned // by lane
	taking map[int]taking // by lane

	generations int64 // of both groups

	troubles [prom.TroubleCount]atomic.Int64 // times that reading failed
	commits  [2]atomic.Int64                 // of offsets; at 1 those that failed
}

// taking is a partition that is being taken over.
type taking struct {
	what  string
	since time.Time
}

func newMember(a *App) (*member, error) {
	m := &member{app: a, o: *a.o.Kafka, owned: make(map[int]*owned), taking: make(map[int]taking)}
	m.o.Group = cmp.Or(m.o.Group, DefaultGroup)
	t, names := &m.o.Topics, DefaultTopics()
	*t = Topics{Events: cmp.Or(t.Events, names.Events), Verdicts: cmp.Or(t.Verdicts, names.Verdicts),
		Activity: cmp.Or(t.Activity, names.Activity), DeadLetters: cmp.Or(t.DeadLetters, names.DeadLetters)}
	token, err := readSecret(cmp.Or(a.o.IntakeTokenFile, a.o.AdminTokenFile))
	if err != nil {
		return nil, err
	}
	m.token = token
	return m, nil
}

// heartbeat is how often a member asks the group for news, and how soon it tries again to
// join. So long may it take the others to hear that one has joined, and nobody folds
// meanwhile what changes hands.
const heartbeat = 250 * time.Millisecond

func (m *member) start(ctx context.Context) error {
	a := m.app
	if err := m.checkTopics(ctx); err != nil {
		return err
	}
	m.mirror = newMirror(m)
	for _, l := range []*lanes{m.flowLanes, m.agentLanes} {
		a.run(a.pumping, "consumer group "+l.name, func(ctx context.Context) error { return m.run(ctx, l) })
	}
	a.run(a.pumping, "health", m.turn)
	a.run(a.intake, "verdicts of the group", m.mirror.run)
	return nil
}

// lanes is how many lanes both stages have together.
func (m *member) lanes() int { return len(m.flowLanes.partitions) + len(m.agentLanes.partitions) }

// memory is what one lane may take.
func (m *member) memory(l *lanes) int64 {
	agents := m.app.o.Memory / agentShare
	if l.stage == pump.AgentStage {
		return agents / int64(len(l.partitions))
	}
	return (m.app.o.Memory - agents) / int64(len(l.partitions))
}

// turn tells when the loop of a partition turned last, of the one that stands still for
// the longest. One that waits for a broker does not stand still: to start the process
// anew would not help it.
func (m *member) turn(ctx context.Context) error {
	for {
		oldest := m.app.clock.Now()
		for _, p := range m.own() {
			if at := time.UnixMilli(p.turned.Load()); at.Before(oldest) && p.trouble() == nil {
				oldest = at
			}
		}
		m.app.turned.Store(oldest.UnixMilli())
		if err := m.app.pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

func (m *member) own() []*owned {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*owned, 0, len(m.owned))
	for _, p := range m.owned {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *owned) int { return a.lane - b.lane })
	return out
}

func (m *member) pumps() []*pump.Pump { return m.pumpsOf(m.flowLanes) }

func (m *member) agents() []*pump.Pump { return m.pumpsOf(m.agentLanes) }

func (m *member) pumpsOf(l *lanes) (out []*pump.Pump) {
	for _, p := range m.own() {
		if p.lanes == l {
			out = append(out, p.pump)
		}
	}
	return out
}

func (m *member) ownerHere(l *lanes, partition int) *owned {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owned[l.lane(partition)]
}

func (m *member) pumpOf(key string) (*pump.Pump, error) { return m.pumpIn(m.flowLanes, key) }

func (m *member) agentsOf(key string) (*pump.Pump, error) { return m.pumpIn(m.agentLanes, key) }

func (m *member) pumpIn(l *lanes, key string) (*pump.Pump, error) {
	partition := l.partitionOf(key)
	if p := m.ownerHere(l, partition); p != nil {
		return p.pump, nil
	}
	return nil, m.elsewhere(l, partition)
}

func (m *member) append(ctx context.Context, entries []state.Entry) error {
	byPartition := make(map[int][]sinkkafka.Message)
	var ev events.Event
	for i := range entries {
		if err := events.Decode(entries[i].Value, &ev); err != nil {
			return err
		}
		key := ev.FlowKey()
		n := m.flowLanes.partitionOf(key)
		byPartition[n] = append(byPartition[n], m.message(key, entries[i].Value))
	}
	for n, messages := range byPartition {
		if err := m.appendTo(ctx, m.o.Topics.Events, n, messages...); err != nil {
			return err
		}
	}
	return nil
}

func (m *member) message(key string, value []byte) sinkkafka.Message {
	return sinkkafka.Message{Key: []byte(key), Value: value}
}

func (m *member) appendTo(ctx context.Context, topic string, partition int, messages ...sinkkafka.Message) error {
	if _, err := sinkkafka.AppendTo(ctx, m.o.Cluster, topic, partition, messages); err != nil {
		return fmt.Errorf("append to %s: %w", topic, err)
	}
	return nil
}

// setLimits does nothing: the owner of each partition looks what is wanted.
func (m *member) setLimits(analyzer.Limits) error { return nil }

func (m *member) eventsOf(ctx context.Context, key string, since events.Stamp, fn func(line []byte) bool) error {
	cluster, topic, number := m.o.Cluster, m.o.Topics.Events, m.flowLanes.partitionOf(key)
	from, err := cluster.OffsetAt(ctx, topic, number, time.UnixMilli(int64(since)))
	if err != nil {
		return err
	}
	_, end, err := cluster.Bounds(ctx, topic, number)
	if err != nil {
		return err
	}
	find := newFinder(key)
	r := kafka.NewReader(cluster, topic, number, from, kafka.ReaderOptions{})
	defer r.Close()
	var records []kafka.Record
	for r.Next() < end {
		records, err = r.Fetch(ctx, records)
		if next, ok := kafka.Behind(err); ok {
			r.SkipTo(next)
			continue
		}
		if err != nil {
			return err
		}
		for i := range records {
			if find.has(records[i].Value) && !fn(records[i].Value) {
				return nil
			}
		}
	}
	return nil
}

func (m *member) ready(out *readyAnswer) {
	for _, l := range []*lanes{m.flowLanes, m.agentLanes} {
		if since, err := l.group.Trouble(); err != nil {
			out.Why = append(out.Why, fmt.Sprintf("not a member of group %s since %s: %v", l.name, since.UTC().Format(time.RFC3339), err))
		}
	}
	for _, p := range m.own() {
		p.ready(out)
	}
	m.mirror.ready(out)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, lane := range slices.Sorted(maps.Keys(m.taking)) {
		t := m.taking[lane]
		out.Why = append(out.Why, fmt.Sprintf("%s is being taken over since %s", t.what, t.since.UTC().Format(time.RFC3339)))
	}
}

// measure tells of the partitions that this process folds.
func (m *member) measure(r *prom.Reading) {
	now := m.app.clock.Now()
	for _, p := range m.own() {
		s := prom.Source{Agents: p.lanes.stage == pump.AgentStage, Topic: p.lanes.topic, Partition: p.partition, LagRecords: p.behind()}
		if at := p.newest.Load(); s.LagRecords > 0 && at > 0 {
			s.Lag = max(0, now.Sub(time.UnixMilli(at)))
		}
		r.Sources = append(r.Sources, s)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Rebalances = m.generations
	for i := range m.troubles {
		r.FetchTrouble[i] = m.troubles[i].Load()
	}
	for i := range m.commits {
		r.Commits[i] = m.commits[i].Load()
	}
}

// drainTime is how long a partition that is given up may take to end: well below what
// the group waits for a member.
const drainTime = 5 * time.Second

func (m *member) stop(ctx context.Context) error {
	for _, p := range m.own() {
		p.pump.Hurry()
	}
	return m.app.pumping.end(ctx)
}
