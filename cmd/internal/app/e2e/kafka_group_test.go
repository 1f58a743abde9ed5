package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/events/kafka"
)

// process stands for one that takes part in a group: it notes what it owns.
type process struct {
	t      testing.TB
	among  *processes
	group  *kafka.Group
	end    context.CancelFunc
	ended  chan error
	mu     sync.Mutex
	owns   map[int]kafka.Assignment
	starts int
	states map[int]int64 // what it has state of
}

// processes are several, over the same topic and group.
type processes struct {
	t     testing.TB
	b     *broker
	topic string
	group string
	mu    sync.Mutex
	owner map[int]*process
}

func newProcesses(t testing.TB, b *broker, partitions int) *processes {
	return &processes{t: t, b: b, topic: b.topic(t, partitions), group: unique(t), owner: make(map[int]*process)}
}

// run starts a process; change may change its options.
func (ps *processes) run(change func(*kafka.GroupOptions)) *process {
	ps.t.Helper()
	p := &process{t: ps.t, among: ps, ended: make(chan error, 1), owns: make(map[int]kafka.Assignment), states: make(map[int]int64)}
	o := kafka.GroupOptions{
		Cluster: ps.b.cluster(ps.t), Group: ps.group, Topic: ps.topic,
		SessionTimeout: 10 * time.Second, RebalanceTimeout: 10 * time.Second, Heartbeat: 50 * time.Millisecond, JoinBackoff: 100 * time.Millisecond,
		Holds: func() (holds []kafka.Hold) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if len(p.owns) != 0 {
				p.t.Errorf("asked for states while functions run")
			}
			for partition, next := range p.states {
				holds = append(holds, kafka.Hold{Partition: partition, Next: next})
			}
			return holds
		},
	}
	if change != nil {
		change(&o)
	}
	g, err := kafka.NewGroup(o)
	if err != nil {
		ps.t.Fatal(err)
	}
	p.group = g
	ctx, cancel := context.WithCancel(context.Background())
	p.end = cancel
	go func() { p.ended <- g.Run(ctx, p.work) }()
	ps.t.Cleanup(func() { p.stop() })
	return p
}

func (p *process) work(ctx context.Context, a kafka.Assignment) {
	p.among.mu.Lock()
	if p.among.owner[a.Partition] != nil {
		p.t.Errorf("partition %d is owned twice at a time", a.Partition)
	}
	p.among.owner[a.Partition] = p
	p.among.mu.Unlock()
	p.mu.Lock()
	p.owns[a.Partition] = a
	p.states[a.Partition]++
	p.starts++
	p.mu.Unlock()
	<-ctx.Done()
	p.among.mu.Lock()
	delete(p.among.owner, a.Partition)
	p.among.mu.Unlock()
	p.mu.Lock()
	delete(p.owns, a.Partition)
	p.mu.Unlock()
}

func (p *process) stop() error {
	p.end()
	select {
	case err, ok := <-p.ended:
		if ok {
			close(p.ended)
		}
		return err
	case <-time.After(time.Minute):
		p.t.Fatal("a process does not end")
		return nil
	}
}

func (p *process) partitions() (ids []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.owns {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// assignment returns that of one partition that the process owns.
func (p *process) assignment() kafka.Assignment {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.owns {
		return a
	}
	p.t.Fatal("owns nothing")
	return kafka.Assignment{}
}

// generation is that in which the process owns something, or -1.
func (p *process) generation() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.owns {
		return a.Generation
	}
	return -1
}

// settle waits until the processes own all n partitions, one owner each, in shares that
// differ by one at most.
func settle(t testing.TB, n int, ps ...*process) {
	t.Helper()
	eventually(t, func() error {
		count, least, most := 0, n, 0
		seen := make(map[int]bool)
		generation := -1
		for _, p := range ps {
			own := p.partitions()
			count += len(own)
			least, most = min(least, len(own)), max(most, len(own))
			for _, id := range own {
				seen[id] = true
			}
			p.mu.Lock()
			for _, a := range p.owns {
				if generation == -1 {
					generation = a.Generation
				}
				if a.Generation != generation {
					count = -1
				}
			}
			p.mu.Unlock()
		}
		if count == n && len(seen) == n && most-least <= 1 {
			return nil
		}
		_, trouble := ps[0].group.Trouble()
		return fmt.Errorf("%d of %d partitions are owned, %d by different processes, shares from %d to %d; trouble: %v", count, n, len(seen), least, most, trouble)
	})
}

// eventually waits until f has no error any more.
func eventually(t testing.TB, f func() error) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(time.Minute)
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatal(err)
		}
	}
}

// TestGroupJoinsAndLeaves lets processes come and go, and holds that partitions stay
// where their state is.
func TestGroupJoinsAndLeaves(t *testing.T) {
	b := startBroker(t)
	ps := newProcesses(t, b, 12)
	first := ps.run(nil)
	settle(t, 12, first)
	second := ps.run(nil)
	settle(t, 12, first, second)
	before := [2][]int{first.partitions(), second.partitions()}
	third := ps.run(nil)
	settle(t, 12, first, second, third)
	kept := 0
	for i, p := range []*process{first, second} {
		for _, id := range p.partitions() {
			if slices.Contains(before[i], id) {
				kept++
			}
		}
	}
	if kept != 8 {
		t.Errorf("a third process came, and %d partitions stayed with their owners, want 8", kept)
	}
	stay := [2][]int{first.partitions(), second.partitions()}
	if err := third.stop(); err != nil {
		t.Fatal(err)
	}
	settle(t, 12, first, second)
	for i, p := range []*process{first, second} {
		for _, id := range stay[i] {
			if !slices.Contains(p.partitions(), id) {
				t.Errorf("partition %d moved when another process left", id)
			}
		}
	}
	if _, err := first.group.Trouble(); err != nil {
		t.Errorf("trouble of a member: %v", err)
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	settle(t, 12, second)
	if err := second.stop(); err != nil {
		t.Fatal(err)
	}
	members, state, err := second.group.Members(t.Context())
	if err != nil || len(members) != 0 || state != "Empty" {
		t.Errorf("%d members are left, state %s, %v", len(members), state, err)
	}
}

// TestGroupStorm lets processes come and go without waiting for anything, and holds that
// no partition ever has two owners, and that all have one in the end.
func TestGroupStorm(t *testing.T) {
	b := startBroker(t)
	ps := newProcesses(t, b, 12)
	members := []*process{ps.run(nil)}
	random := rand.New(rand.NewPCG(5, 6))
	for range 60 {
		if at := random.IntN(len(members)); len(members) == 4 || len(members) > 1 && random.IntN(2) == 0 {
			if err := members[at].stop(); err != nil {
				t.Fatal(err)
			}
			members = slices.Delete(members, at, at+1)
		} else {
			members = append(members, ps.run(nil))
		}
	}
	settle(t, 12, members...)
}

// TestGroupOwners holds that others find the owner of a partition, and how far it is.
func TestGroupOwners(t *testing.T) {
	b := startBroker(t)
	ps := newProcesses(t, b, 4)
	watch, err := kafka.NewGroup(kafka.GroupOptions{Cluster: b.cluster(t), Group: ps.group, Topic: ps.topic})
	if err != nil {
		t.Fatal(err)
	}
	if owners, err := watch.Owners(t.Context()); err != nil || len(owners) != 0 {
		t.Errorf("owners of a group that nobody joined: %v, %v", owners, err)
	}
	if offsets, err := watch.Committed(t.Context()); err != nil || len(offsets) != 0 {
		t.Errorf("offsets of a group that nobody joined: %v, %v", offsets, err)
	}
	a := ps.run(func(o *kafka.GroupOptions) { o.Address = "http://a:8080" })
	z := ps.run(func(o *kafka.GroupOptions) { o.Address = "" }) // it does not say
	settle(t, 4, a, z)
	owners, err := watch.Owners(t.Context())
	if err != nil || len(owners) != 4 {
		t.Fatalf("%v, %v", owners, err)
	}
	for id, who := range owners {
		p := map[string]*process{"http://a:8080": a, "": z}[who]
		if p == nil || !slices.Contains(p.partitions(), id) {
			t.Errorf("partition %d: %s", id, who)
		}
	}
	members, state, err := watch.Members(t.Context())
	if err != nil || len(members) != 2 || state != "Stable" || len(members[0].Partitions) != 2 || members[0].Host == "" {
		t.Errorf("%+v %s %v", members, state, err)
	}

	own := a.assignment()
	if own.Committed != -1 {
		t.Errorf("committed %d before the first", own.Committed)
	}
	if err := own.Commit(42); err != nil {
		t.Fatal(err)
	}
	offsets, err := watch.Committed(t.Context())
	if err != nil || len(offsets) != 1 || offsets[own.Partition] != 42 {
		t.Errorf("%v, %v", offsets, err)
	}
	z.stop()
	settle(t, 4, a)
	a.mu.Lock()
	again := a.owns[own.Partition]
	a.mu.Unlock()
	if again.Committed != 42 || again.Generation <= own.Generation {
		t.Errorf("%+v after %+v", again, own)
	}
	if err := own.Commit(43); err == nil {
		t.Error("an assignment of an old generation commits")
	}
}

// TestGroupAfterCrash lets a process come back whose former self is still a member: it
// must not wait for the session to end, which takes longer than the test waits.
func TestGroupAfterCrash(t *testing.T) {
	b := startBroker(t)
	ps := newProcesses(t, b, 4)
	file := filepath.Join(t.TempDir(), "state", "member")
	// The crash: one that joins by the bare library and never says a word again.
	dead, err := kafkago.NewConsumerGroup(kafkago.ConsumerGroupConfig{
		ID: ps.group, Brokers: []string{b.Addr}, Topics: []string{ps.topic}, GroupBalancers: []kafkago.GroupBalancer{silent{}},
		SessionTimeout: 5 * time.Minute, RebalanceTimeout: 5 * time.Minute, HeartbeatInterval: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dead.Close() })
	gen, err := dead.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(ps.group+"\n"+gen.MemberID+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := ps.run(func(o *kafka.GroupOptions) {
		o.MemberFile = file
		o.SessionTimeout, o.RebalanceTimeout = 5*time.Minute, 5*time.Minute
	})
	settle(t, 4, p)
	text, err := os.ReadFile(file)
	if err != nil || string(text) != ps.group+"\n"+p.assignment().MemberID+"\n" {
		t.Errorf("the member file holds %q, %v", text, err)
	}
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the member file is left after an orderly end: %v", err)
	}
}

// silent is a balancer of the same name as weir's that has nothing to tell.
type silent struct{ kafkago.RangeGroupBalancer }

func (silent) ProtocolName() string { return "weir-holds" }

// TestGroupFunctionEnds gives partitions up by returning.
func TestGroupFunctionEnds(t *testing.T) {
	b := startBroker(t)
	ps := newProcesses(t, b, 3)
	g, err := kafka.NewGroup(kafka.GroupOptions{Cluster: b.cluster(t), Group: ps.group, Topic: ps.topic, Heartbeat: 50 * time.Millisecond, JoinBackoff: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	generations := make(map[int]int) // functions that ran in each
	running := 0
	err = g.Run(ctx, func(ctx context.Context, a kafka.Assignment) {
		mu.Lock()
		running++
		generations[a.Generation]++
		if len(generations) == 4 {
			cancel()
		}
		mu.Unlock()
		if a.Partition != 1 {
			<-ctx.Done()
		}
		mu.Lock()
		running--
		mu.Unlock()
	})
	if err != nil || running != 0 || len(generations) != 4 {
		t.Errorf("%v, %d functions run, generations %v", err, running, generations)
	}
}

// TestGroupPartitionsChange adds partitions while the group works.
func TestGroupPartitionsChange(t *testing.T) {
	b := startBroker(t)
	ps := newProcesses(t, b, 2)
	p := ps.run(func(o *kafka.GroupOptions) { o.Watch = 20 * time.Millisecond })
	settle(t, 2, p)
	req := kmsg.NewPtrCreatePartitionsRequest()
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count, req.TimeoutMillis = ps.topic, 3, 10_000
	req.Topics = append(req.Topics, rt)
	answer, err := req.RequestWith(t.Context(), b.franz(t))
	if err != nil || answer.Topics[0].ErrorCode != 0 {
		t.Fatal(answer, err)
	}
	var changed *kafka.PartitionsChangedError
	if err := <-p.ended; !errors.As(err, &changed) || changed.Was != 2 || changed.Now != 3 {
		t.Fatal(err)
	}
	close(p.ended)
	if own := p.partitions(); len(own) != 0 {
		t.Errorf("still owns %v", own)
	}
	// One that knows how many there must be does not even begin.
	again := ps.run(func(o *kafka.GroupOptions) { o.Partitions = 2 })
	if err := <-again.ended; !errors.As(err, &changed) || again.starts != 0 {
		t.Fatal(err)
	}
	close(again.ended)
}

// TestGroupWithoutTopic fails instead of waiting for what does not come.
func TestGroupWithoutTopic(t *testing.T) {
	b := startBroker(t)
	ps := newProcesses(t, b, 1)
	ps.topic = unique(t)
	p := ps.run(func(o *kafka.GroupOptions) { o.JoinBackoff = time.Millisecond })
	if err := <-p.ended; !errors.Is(err, kafka.ErrNoTopic) || !strings.Contains(err.Error(), ps.topic) {
		t.Fatal(err)
	}
	close(p.ended)
	// Nobody created it by asking.
	if _, err := b.cluster(t).Topic(t.Context(), ps.topic); !errors.Is(err, kafka.ErrNoTopic) {
		t.Error(err)
	}
}

// TestGroupBrokerAway stops the broker and starts it again; no former self may hold the
// group up for the session timeout, which is longer than the test waits.
func TestGroupBrokerAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := startFake(t, kfake.DataDir(dir))
	ps := newProcesses(t, b, 4)
	long := func(o *kafka.GroupOptions) { o.SessionTimeout, o.RebalanceTimeout = 4*time.Minute, 4*time.Minute }
	first, second := ps.run(long), ps.run(long)
	settle(t, 4, first, second)
	b.Fake.Close()
	eventually(t, func() error {
		for _, p := range []*process{first, second} {
			if own := p.partitions(); len(own) != 0 {
				return fmt.Errorf("still owns %v while the broker is away", own)
			}
			if _, err := p.group.Trouble(); err == nil {
				return errors.New("no trouble while the broker is away")
			}
		}
		return nil
	})
	restart(t, b, dir)
	settle(t, 4, first, second)
}

// TestGroupFaults lets the coordinator answer with errors.
func TestGroupFaults(t *testing.T) {
	t.Parallel()
	b := startFake(t)
	ps := newProcesses(t, b, 4)
	first, second := ps.run(nil), ps.run(nil)
	settle(t, 4, first, second)
	const findCoordinator, join, heartbeat, sync = 10, 11, 12, 14
	for _, fault := range []struct {
		key   int16
		codes []int16
	}{
		{heartbeat, []int16{15, 16, 22, 25, 27, -1}}, {join, []int16{14, 15, 16, 25}}, {sync, []int16{16, 22, 25, 27}}, {findCoordinator, []int16{15}},
	} {
		for _, code := range fault.codes {
			before := first.generation()
			hit := make(chan struct{})
			b.Fake.ControlKey(fault.key, func(q kmsg.Request) (kmsg.Response, error, bool) {
				close(hit)
				a := q.ResponseKind()
				switch a := a.(type) {
				case *kmsg.HeartbeatResponse:
					a.ErrorCode = code
				case *kmsg.JoinGroupResponse:
					a.ErrorCode = code
				case *kmsg.SyncGroupResponse:
					a.ErrorCode = code
				case *kmsg.FindCoordinatorResponse:
					a.ErrorCode = code
				}
				return a, nil, true
			})
			if fault.key != heartbeat { // these come only when the group changes
				third := ps.run(nil)
				<-hit
				settle(t, 4, first, second, third)
				third.stop()
			}
			<-hit
			eventually(t, func() error {
				if first.generation() <= before {
					return fmt.Errorf("no new generation after code %d of request %d", code, fault.key)
				}
				return nil
			})
			settle(t, 4, first, second)
		}
	}
}

// TestGroupLeavesInTime holds that a process ends though the coordinator does not answer
// any more, and that its next self is let in at once.
func TestGroupLeavesInTime(t *testing.T) {
	b := startFake(t)
	ps := newProcesses(t, b, 4)
	options := func(o *kafka.GroupOptions) {
		o.LeaveTimeout = 10 * time.Millisecond
		o.MemberFile = ps.topic + ".member"
		o.SessionTimeout, o.RebalanceTimeout = 4*time.Minute, 4*time.Minute
	}
	t.Chdir(t.TempDir())
	p := ps.run(options)
	settle(t, 4, p)
	const leave = 13
	b.Fake.ControlKey(leave, func(kmsg.Request) (kmsg.Response, error, bool) { return nil, nil, true }) // no answer to one
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	if own := p.partitions(); len(own) != 0 {
		t.Errorf("still owns %v", own)
	}
	settle(t, 4, ps.run(options))
}
