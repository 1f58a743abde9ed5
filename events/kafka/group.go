package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// GroupOptions are how a process takes part in a consumer group. Cluster, Group and
// Topic are needed; the other zero values are good.
//
// Brokers bound SessionTimeout by group.min.session.timeout.ms and group.max.session.timeout.ms.
type GroupOptions struct {
	Cluster    *Cluster
	Group      string
	Topic      string
	Partitions int           // how many the topic must have; 0: as many as it has when Run begins
	MemberFile string        // where the own member id is kept, so that the next Run takes a crashed one out of the group at once; empty: nowhere
	Holds      func() []Hold // what this process has the state of, asked at each joining while no function of Run runs; nil: nothing
	Address    string        // where others find this process, see Owners; at most 1024 bytes
	Logger     *slog.Logger  // logs joining, leaving and trouble; nil: none

	// Within RebalanceTimeout functions publish and checkpoint for the last time; who takes
	// longer is taken for dead, and its partitions are folded by others.
	SessionTimeout   time.Duration // silence after which a member counts as dead; default 10 s
	RebalanceTimeout time.Duration // how long a member has to end its functions; default 10 s
	Heartbeat        time.Duration // default 1 s
	// JoinBackoff is also how long a function that returned too early is held, see start.
	JoinBackoff  time.Duration // pause after a failed joining; default 1 s
	Watch        time.Duration // how often the number of partitions is looked at; default 30 s
	LeaveTimeout time.Duration // how long Run tries to leave when all functions have returned; default 8 s
}

// Group is a consumer group over one topic: Run takes part in it, the other methods
// only look at it and need no Run. Its methods are safe for concurrent use, but Run runs
// once at a time.
//
// It is built on the library's ConsumerGroup for joining, heartbeats and generations. What the
// library leaves open is done here: taking out the member of a crash, leaving in the middle of
// a change, and offsets.
type Group struct {
	o GroupOptions
	// trouble is set from the beginning of Run to the first generation, and again while the
	// coordinator is away.
	trouble trouble
	commits commits
}

// NewGroup checks the options. Nothing is connected before Run or a question.
func NewGroup(o GroupOptions) (*Group, error) {
	if o.Cluster == nil || len(o.Cluster.Brokers) == 0 || o.Group == "" || o.Topic == "" {
		return nil, errors.New("a group needs brokers, a name and a topic")
	}
	if len(o.Address) > maxAddress {
		return nil, fmt.Errorf("the address of this process is longer than %d bytes", maxAddress)
	}
	o.SessionTimeout = cmp.Or(o.SessionTimeout, 10*time.Second)
	o.RebalanceTimeout = cmp.Or(o.RebalanceTimeout, 10*time.Second)
	o.Heartbeat = cmp.Or(o.Heartbeat, time.Second)
	o.JoinBackoff = cmp.Or(o.JoinBackoff, time.Second)
	o.Watch = cmp.Or(o.Watch, 30*time.Second)
	o.LeaveTimeout = cmp.Or(o.LeaveTimeout, 8*time.Second)
	// A healthy member would count as dead between two heartbeats.
	if o.Heartbeat >= o.SessionTimeout {
		return nil, fmt.Errorf("a heartbeat every %v is too rare for a session timeout of %v", o.Heartbeat, o.SessionTimeout)
	}
	if o.Holds == nil {
		o.Holds = func() []Hold { return nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Logger = o.Logger.With("group", o.Group, "topic", o.Topic)
	g := &Group{o: o}
	g.commits.send = g.commit
	return g, nil
}

// Assignment is a partition that this process owns during one generation of the group.
//
// It may be copied, and is of no use after the context of its fn has ended: the coordinator
// refuses what an old generation commits.
type Assignment struct {
	Partition  int
	Generation int    // rises with each change of the group
	MemberID   string // of this process
	// Committed is not from where fn reads, which its store knows better; it says to an owner
	// without a state as of when to begin (decision 23).
	Committed int64 // the offset that was committed last; -1: none
	commit    func(next int64) error
}

// Commit commits offset next for the group: everything before it is done. It serves tools
// that show lag; weir reads nothing from it. It fails when the coordinator is lost, does
// not answer within 5 s, or considers this process dead. It does not retry.
func (a Assignment) Commit(next int64) error { return a.commit(next) }

// coordinatorTimeout is how long an answer of the coordinator may take.
const coordinatorTimeout = 5 * time.Second

// Run takes part in the group until ctx ends, and then leaves it and returns nil. For
// each partition that this process owns it calls fn in a goroutine. The context of fn
// ends when the group changes, when the coordinator is lost, or when ctx ends; fn must
// then return well within RebalanceTimeout, for the group waits for it. When fn returns
// before, all partitions of this process are given up and shared out again after
// JoinBackoff.
//
// A broker that is away is no error, see Trouble. Run fails when Final is true for an
// error or the topic is not there (ErrNoTopic) at the beginning, and when the number of
// partitions is not what it was (*PartitionsChangedError), for then keys move. It
// returns when all functions have returned, and LeaveTimeout later at most.
func (g *Group) Run(ctx context.Context, fn func(ctx context.Context, a Assignment)) error {
	// The cause of the end distinguishes a changed number of partitions from a caller's stop.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer g.trouble.clear()
	// Trouble has an answer from the first moment on: not yet joined is not well.
	g.setBack(errors.New("not joined yet"))
	partitions, err := g.begin(ctx)
	if err != nil {
		// A caller who gives up while brokers are away has ended in order.
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	// side holds the watch and the retirements, which end with ctx; it is waited for so that
	// nothing of Run goes on behind it.
	var side sync.WaitGroup
	defer side.Wait()
	// Deferred after the wait and so called before it, which would never end otherwise.
	defer cancel(nil)
	side.Go(func() { g.watch(ctx, partitions, cancel) })
	retire := func(id string) {
		if id != "" {
			side.Go(func() { g.retire(ctx, id) })
		}
	}
	// A process that crashed and is back at once would wait for its former self to time out,
	// since the group waits for all members when it changes.
	retire(g.lastMember())

	group, err := kafkago.NewConsumerGroup(g.config())
	if err != nil {
		return fmt.Errorf("group %s: %w", g.o.Group, err)
	}
	// working counts the functions that run, over all generations.
	var working sync.WaitGroup
	// member is the id of this process as the coordinator knows it; empty when it has none.
	member := ""
	for {
		// Next blocks until the next generation and ends with an error when ctx does.
		gen, err := group.Next(ctx)
		switch {
		case ctx.Err() != nil:
			g.leave(group, member, &working)
			var changed *PartitionsChangedError
			if errors.As(context.Cause(ctx), &changed) {
				return changed
			}
			return nil
		case errors.Is(err, kafkago.RebalanceInProgress):
			// The group changed again while this process joined; the library goes on.
		case err != nil:
			g.setBack(explain(strings.Join(g.o.Cluster.Brokers, ","), err))
			// The library joins again under a new id without leaving under the old one, and the
			// group would wait for that until it counts as dead.
			retire(member)
			member = ""
		default:
			// The library joins under the old id as long as it can, so another one means that
			// the old one is left behind.
			if member != gen.MemberID {
				retire(member)
				member = gen.MemberID
				g.keepMember(member)
			}
			g.start(ctx, gen, &working, fn)
		}
	}
}

// begin finds the number of partitions, waiting for a broker as long as it takes.
//
// A number that is not the one in GroupOptions is an error at once: the states of the store
// were folded with other keys.
func (g *Group) begin(ctx context.Context) (int, error) {
	for missing := 0; ; {
		n, err := g.o.Cluster.Partitions(ctx, g.o.Topic)
		switch {
		case err == nil && g.o.Partitions != 0 && n != g.o.Partitions:
			return 0, &PartitionsChangedError{Topic: g.o.Topic, Was: g.o.Partitions, Now: n}
		case err == nil:
			return n, nil
		case Final(err):
			return 0, err
		case errors.Is(err, ErrNoTopic):
			// A broker that comes up may not know it yet.
			if missing++; missing == 3 {
				return 0, err
			}
		}
		g.setBack(err)
		if err := pause(ctx, g.o.JoinBackoff); err != nil {
			return 0, err
		}
	}
}

// setBack notes why this process is no member. It is logged once for a stretch of trouble and
// not for each attempt; Trouble has the newest reason.
func (g *Group) setBack(err error) {
	if g.trouble.set(err) {
		g.o.Logger.Warn("not a member of the group, trying on", "err", err)
	}
}

// config is the library's configuration. Connections are dialed by open, so that they end
// and report errors as all others do; the library logs in over them.
func (g *Group) config() kafkago.ConsumerGroupConfig {
	c := g.o.Cluster
	return kafkago.ConsumerGroupConfig{
		ID:      g.o.Group,
		Brokers: c.Brokers,
		Topics:  []string{g.o.Topic},
		Dialer: &kafkago.Dialer{ClientID: c.clientID(), Timeout: coordinatorTimeout, SASLMechanism: c.SASL,
			DialFunc: func(ctx context.Context, _, addr string) (net.Conn, error) { return c.open(ctx, addr) }},
		GroupBalancers: []kafkago.GroupBalancer{&balancer{topic: g.o.Topic, mine: func() profile {
			return profile{address: g.o.Address, holds: g.o.Holds()}
		}}},
		SessionTimeout:    g.o.SessionTimeout,
		RebalanceTimeout:  g.o.RebalanceTimeout,
		HeartbeatInterval: g.o.Heartbeat,
		JoinGroupBackoff:  g.o.JoinBackoff,
		Timeout:           coordinatorTimeout,
		// The library logs each step, which is useful only for debugging.
		Logger: kafkago.LoggerFunc(func(f string, v ...any) { g.o.Logger.Debug(fmt.Sprintf(f, v...)) }),
	}
}

// leave waits for the functions and leaves the group. With an unresponsive coordinator the
// library takes long, which an ending process cannot afford. Unfinished work then ends by
// itself a little later, or with the process.
//
// The wait for the functions has no bound of its own: their contexts have ended, and
// RebalanceTimeout is the caller's promise.
func (g *Group) leave(group *kafkago.ConsumerGroup, member string, working *sync.WaitGroup) {
	left := make(chan struct{})
	// Leaving goes on beside the functions: their generation ends only when they return, and
	// Close waits for it.
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), g.o.LeaveTimeout)
		defer cancel()
		// When closed while the group changes, the library does not leave. Until it has
		// reported this process's id, only the library can.
		for err := error(kafkago.RebalanceInProgress); member == "" && errors.Is(err, kafkago.RebalanceInProgress); {
			_, err = group.Next(ctx)
		}
		group.Close()
		// Close leaves by itself when nothing is in its way; a second time does no harm, since
		// the coordinator then knows no such member.
		if member != "" {
			g.retire(ctx, member)
		}
		close(left)
	}()
	working.Wait()
	// The clock starts when the functions have returned, for only then leaving can end.
	late := time.NewTimer(g.o.LeaveTimeout)
	defer late.Stop()
	select {
	case <-left:
		// What was left in order needs no retirement at the next start.
		g.forgetMember()
		g.o.Logger.Info("left the group")
	case <-late.C:
		g.o.Logger.Warn("the coordinator does not answer: gone without leaving, the group waits until this process counts as dead", "session_timeout", g.o.SessionTimeout.String())
	}
}

// start runs fn for each partition of a generation.
//
// The library ends the context of a generation as soon as one of its functions returns, which
// is how a fn that gives up gives up all partitions.
func (g *Group) start(ctx context.Context, gen *kafkago.Generation, working *sync.WaitGroup, fn func(context.Context, Assignment)) {
	assigned := gen.Assignments[g.o.Topic]
	// The log says how long this process was away, or else only that shares have moved.
	if since, was := g.trouble.clear(); was != nil {
		g.o.Logger.Info("joined the group", "member", gen.MemberID, "generation", gen.ID, "partitions", len(assigned), "after", time.Since(since).Round(time.Millisecond).String())
	} else {
		g.o.Logger.Info("the group changed", "member", gen.MemberID, "generation", gen.ID, "partitions", len(assigned))
	}
	for _, p := range assigned {
		// Where nothing was committed the library says its own start offset, which is -2.
		a := Assignment{Partition: p.ID, Generation: int(gen.ID), MemberID: gen.MemberID, Committed: max(-1, p.Offset)}
		a.commit = func(next int64) error {
			if err := g.commits.commit(a, next); err != nil {
				return fmt.Errorf("commit offset %d of topic %s partition %d in group %s: %w", next, g.o.Topic, a.Partition, g.o.Group, err)
			}
			return nil
		}
		working.Add(1)
		gen.Start(func(ended context.Context) {
			defer working.Done()
			if ended.Err() != nil {
				return // fn would have no waiting caller
			}
			// The library's context knows neither the caller's values nor its end.
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(ended, cancel)()
			fn(ctx, a)
			// A function that gives up at once, repeatedly, must not keep the group from work.
			_ = pause(ctx, g.o.JoinBackoff)
		})
	}
}

// commit commits the offsets of partitions for the group. It does not use the connection of
// the heartbeats, as the library's generation would. A caller that waits there for its answer
// while another answer is next spins for as long as the broker takes.
func (g *Group) commit(ctx context.Context, of Assignment, offsets []kafkago.OffsetCommit) (map[int]error, error) {
	// The client finds the coordinator by itself. Generation and member let it refuse an owner
	// that is no longer one.
	answer, err := g.o.Cluster.Client().OffsetCommit(ctx, &kafkago.OffsetCommitRequest{GroupID: g.o.Group, GenerationID: of.Generation, MemberID: of.MemberID,
		Topics: map[string][]kafkago.OffsetCommit{g.o.Topic: offsets}})
	if err != nil {
		return nil, err
	}
	answered := map[int]error{}
	for _, p := range answer.Topics[g.o.Topic] {
		answered[p.Partition] = p.Error
	}
	return answered, nil
}

// watch ends Run when the number of partitions changes.
//
// Keys move to other partitions with such a change, and a state that was folded from some of
// them would go on with the rest. ctx ends Run by its cause.
func (g *Group) watch(ctx context.Context, was int, end context.CancelCauseFunc) {
	for pause(ctx, g.o.Watch) == nil {
		now, err := g.o.Cluster.Partitions(ctx, g.o.Topic)
		// A missing topic is a broker that does not know it yet, or a mistake that shows at the
		// first read.
		if err == nil && now != was {
			end(&PartitionsChangedError{Topic: g.o.Topic, Was: was, Now: now})
			return
		}
	}
}

// Trouble returns since when this process is not a member of the group, and why. The
// error is nil while it is a member, and when Run does not run.
//
// While brokers are away it has an error and Run goes on trying (decision 31).
func (g *Group) Trouble() (since time.Time, err error) { return g.trouble.get() }

// PartitionsChangedError says that the topic has not as many partitions as it had.
type PartitionsChangedError struct {
	Topic    string
	Was, Now int
}

// Error says what follows from it.
func (e *PartitionsChangedError) Error() string {
	return fmt.Sprintf("topic %s has %d partitions, not %d as before: keys are in other partitions now, and the states do not fit: go back to %d with a new topic, or begin with an empty state in a new group",
		e.Topic, e.Now, e.Was, e.Was)
}
