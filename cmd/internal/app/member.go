package app

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/analyzer"
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
	group      *kafka.Group
	mirror     *mirror
	partitions []int  // of the topic of events
	activity   int    // partitions of the topic of activity
	token      []byte // that other members want; nil for none
	owners     owners

	mu     sync.Mutex
	owned  map[int]*owned
	taking map[int]time.Time // partitions that are being taken over, and since when

	generation  int // of the group, that was seen last
	generations int64

	troubles [prom.TroubleCount]atomic.Int64 // times that reading failed
	commits  [2]atomic.Int64                 // of offsets; at 1 those that failed
}

func newMember(a *App) (*member, error) {
	m := &member{app: a, o: *a.o.Kafka, owned: make(map[int]*owned), taking: make(map[int]time.Time)}
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

func (m *member) start(ctx context.Context) (err error) {
	a := m.app
	n, err := m.checkTopics(ctx)
	if err != nil {
		return err
	}
	for i := range n {
		m.partitions = append(m.partitions, i)
	}
	options := kafka.GroupOptions{Cluster: m.o.Cluster, Group: m.o.Group, Topic: m.o.Topics.Events, Partitions: n, Holds: m.holds,
		Address: m.o.Advertise, Logger: a.logger, SessionTimeout: m.o.SessionTimeout, Heartbeat: heartbeat, JoinBackoff: heartbeat}
	if a.o.StateDir != "" {
		options.MemberFile = filepath.Join(a.o.StateDir, "member")
	}
	if m.group, err = kafka.NewGroup(options); err != nil {
		return err
	}
	m.mirror = newMirror(m)
	a.run(a.pumping, "consumer group "+m.o.Group, func(ctx context.Context) error {
		return m.group.Run(ctx, m.fold)
	})
	a.run(a.pumping, "health", m.turn)
	a.run(a.intake, "verdicts of the group", m.mirror.run)
	return nil
}

// checkTopics returns how many partitions the events have, when the other topics fit
// and the state in the store is of the same topic.
func (m *member) checkTopics(ctx context.Context) (int, error) {
	t := m.o.Topics
	n, err := m.o.Cluster.Partitions(ctx, t.Events)
	if err != nil {
		return 0, err
	}
	if n > 1<<16 {
		return 0, fmt.Errorf("topic %s has %d partitions; weir numbers at most %d", t.Events, n, 1<<16)
	}
	for _, name := range []string{t.Verdicts, t.DeadLetters} {
		other, err := m.o.Cluster.Partitions(ctx, name)
		if err != nil {
			return 0, err
		}
		if other < n {
			return 0, fmt.Errorf("topic %s has %d partitions and %s has %d: a partition of events has its verdicts and dead letters in the one of the same number; see weir topics plan",
				name, other, t.Events, n)
		}
	}
	if m.activity, err = m.o.Cluster.Partitions(ctx, t.Activity); err != nil {
		return 0, err
	}
	cursor := "partitions:" + t.Events
	was, ok, err := m.app.store.Cursor(cursor)
	if err != nil {
		return 0, err
	}
	if !ok {
		return n, m.app.store.SetCursor(cursor, strconv.AppendInt(nil, int64(n), 10))
	}
	if before, err := strconv.Atoi(string(was)); err != nil || before != n {
		return 0, fmt.Errorf("the state in %s: %w", m.app.o.StateDir, &kafka.PartitionsChangedError{Topic: t.Events, Was: before, Now: n})
	}
	return n, nil
}

// holds tells the group of which partitions the store has the state.
func (m *member) holds() (out []kafka.Hold) {
	store := m.app.store
	partitions, err := store.Partitions()
	if err != nil {
		m.app.logger.Warn("the store does not say of which partitions it has the state; others may get them", "error", err)
	}
	for _, p := range partitions {
		if meta, ok, err := store.Meta(p); err == nil && ok {
			out = append(out, kafka.Hold{Partition: int(p), Next: meta.Next})
		}
	}
	return out
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
	slices.SortFunc(out, func(a, b *owned) int { return a.number - b.number })
	return out
}

func (m *member) pumps() (out []*Pump) {
	for _, p := range m.own() {
		out = append(out, p.pump)
	}
	return out
}

// partitionOf is where all producers put the events of a flow.
func (m *member) partitionOf(key string) int {
	return kafkago.Murmur2Balancer{Consistent: true}.Balance(kafkago.Message{Key: []byte(key)}, m.partitions...)
}

func (m *member) ownerHere(number int) *owned {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owned[number]
}

func (m *member) pumpOf(key string) (*Pump, error) {
	number := m.partitionOf(key)
	if p := m.ownerHere(number); p != nil {
		return p.pump, nil
	}
	return nil, m.elsewhere(number)
}

func (m *member) append(ctx context.Context, entries []state.Entry) error {
	byPartition := make(map[int][]sinkkafka.Message)
	var ev events.Event
	for i := range entries {
		if err := events.Decode(entries[i].Value, &ev); err != nil {
			return err
		}
		key := ev.FlowKey()
		n := m.partitionOf(key)
		byPartition[n] = append(byPartition[n], m.message(key, entries[i].Value))
	}
	for n, messages := range byPartition {
		if err := m.appendTo(ctx, n, messages...); err != nil {
			return err
		}
	}
	return nil
}

func (m *member) message(key string, value []byte) sinkkafka.Message {
	return sinkkafka.Message{Key: []byte(key), Value: value}
}

func (m *member) appendTo(ctx context.Context, number int, messages ...sinkkafka.Message) error {
	if _, err := sinkkafka.AppendTo(ctx, m.o.Cluster, m.o.Topics.Events, number, messages); err != nil {
		return fmt.Errorf("append to %s: %w", m.o.Topics.Events, err)
	}
	return nil
}

// setLimits does nothing: the owner of each partition looks what is wanted.
func (m *member) setLimits(analyzer.Limits) error { return nil }

func (m *member) eventsOf(ctx context.Context, key string, since events.Stamp, fn func(line []byte) bool) error {
	cluster, topic, number := m.o.Cluster, m.o.Topics.Events, m.partitionOf(key)
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
	if since, err := m.group.Trouble(); err != nil {
		out.Why = append(out.Why, fmt.Sprintf("not a member of group %s since %s: %v", m.o.Group, since.UTC().Format(time.RFC3339), err))
	}
	for _, p := range m.own() {
		p.ready(out)
	}
	m.mirror.ready(out)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, number := range slices.Sorted(maps.Keys(m.taking)) {
		out.Why = append(out.Why, fmt.Sprintf("partition %d is being taken over since %s", number, m.taking[number].UTC().Format(time.RFC3339)))
	}
}

// measure tells of the partitions that this process folds.
func (m *member) measure(r *prom.Reading) {
	now := m.app.clock.Now()
	for _, p := range m.own() {
		s := prom.Source{Topic: m.o.Topics.Events, Partition: p.number, LagRecords: p.behind()}
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
