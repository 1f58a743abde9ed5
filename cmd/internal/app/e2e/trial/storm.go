package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"weir/cmd/internal/group"
	"weir/cmd/internal/pump"
	"weir/events"
)

// storm is one run of all faults against one broker.
// The faults fall while events are produced and folded. Then the content of the topics is
// compared with folds without faults: byte for byte the same verdicts, in order, none
// of them twice. The same type serves the soak, which has faults of its own plan.
type storm struct {
	real          bool
	events, flows int
	partitions    int
	seed          uint64
	gap           time.Duration // mean time between faults
	faults        faults
	// soak is never nil; with lasts 0 it is a storm with a fixed number of faults.
	soak *soak
	dir  string
	keep bool // the folder, also when all is well
	out  io.Writer

	server *server
	topics topics
	binary string
	// random decides what the schedule leaves open, such as which member is struck. Only
	// the goroutine of blow uses it.
	random *rand.Rand

	members  []*member // that run
	resting  []*member // that have left, with their state
	serial   int
	problems []string
	counts   map[fault]int
	after    map[fault][]figure // what was measured after faults of this kind
	// An outage goes on beside further faults, and is waited for at the end.
	outage sync.WaitGroup // of the broker and of frozen members
	// mu guards problems, after and what follows.
	mu   sync.Mutex
	away bool // the broker
	back []time.Duration
}

// figure is how long something took.
// The times are read from the run when they are printed, since it may not be ready yet when
// the next fault falls.
type figure struct {
	member  *member
	run     *run
	partial bool // the broker was away meanwhile: it says nothing about weir
}

// It is the same in all storms: each has a broker of its own.
const groupName = "weir-trial"

// agentGroup is the group of the agent stage behind it.
var agentGroup = group.NameOf(groupName, pump.AgentStage)

// talkers is how many agents report in a storm.
// They give the agent stage something to judge; flows alone say too little of agents.
const talkers = 60

// frozenFor is longer than a session of the group, so that the frozen member is replaced.
// When it wakes it still believes that it owns its partitions.
const frozenFor = 14 * time.Second

// blow runs the storm and reports whether all was well.
// An error is that the trial itself could not go on; that weir did something wrong is
// ok=false and stands in the report. The folder is kept then.
func (s *storm) blow(ctx context.Context) (ok bool, err error) {
	began := time.Now()
	if s.dir, err = os.MkdirTemp("", "weir-storm-"); err != nil {
		return false, err
	}
	defer func() {
		if err != nil {
			for _, p := range s.problems {
				fmt.Fprintln(s.out, "PROBLEM:", p)
			}
		}
		// After a fault everything stays: trial judge can compare once more.
		if ok && !s.keep {
			err = errors.Join(err, os.RemoveAll(s.dir))
		} else {
			fmt.Fprintf(s.out, "logs and data are in %s\n", s.dir)
		}
	}()
	if err = s.startServer(ctx); err != nil {
		return false, err
	}
	// Deferred calls run backwards: the members go before the broker does.
	defer func() { err = errors.Join(err, s.server.stop()) }()
	defer s.abandon()
	if err = s.createTopics(ctx); err != nil {
		return false, err
	}
	// The plan is made before anything runs, for the time that it takes decides how long
	// the live events have to go on.
	plan := s.faults.schedule(s.seed, s.gap)
	if s.soak.lasts > 0 {
		plan = s.soak.schedule(s.seed)
		if err = s.begin(ctx); err != nil {
			return false, err
		}
	}
	past, live, err := s.traffic(ctx, plan)
	if err != nil {
		return false, err
	}
	produced := make(chan error, 1)
	go func() { produced <- s.server.produce(ctx, s.topics.events, live, true, nil) }()
	// The first members of a storm join while events come in; those of a soak are there
	// already.
	for len(s.members) < 2 {
		if err = s.join(); err != nil {
			return false, err
		}
	}
	if err = s.strikeAll(ctx, plan, produced); err != nil {
		return false, err
	}
	// From here on nothing goes wrong any more but what calm does on purpose.
	r := result{storm: s, asked: past.events + live.events, planted: past.bad + live.bad}
	if err = s.verify(ctx, &r); err != nil {
		return false, err
	}
	r.took = time.Since(began)
	r.print(s.out)
	return r.ok(), nil
}

// startServer builds weir and starts the broker.
func (s *storm) startServer(ctx context.Context) (err error) {
	// Streams 1 and 2 of the seed are those of the traffic and of the schedule.
	s.random = rand.New(rand.NewPCG(s.seed, 3))
	s.counts, s.after, s.topics = map[fault]int{}, map[fault][]figure{}, defaultTopics()
	if s.binary, err = build(s.dir); err != nil {
		return err
	}
	if s.server, err = newServer(s.real, filepath.Join(s.dir, "broker")); err != nil {
		return err
	}
	return s.server.start(ctx)
}

// traffic makes the events of a plan, and produces those that lie in the past.
func (s *storm) traffic(ctx context.Context, plan []moment) (past, live *traffic, err error) {
	var lasts time.Duration
	for _, m := range plan {
		lasts += m.pause
	}
	// Half of the events of a storm lie in the past and are caught up with, all others happen now.
	// What was produced before a member starts has to be caught up with amid faults; what
	// happens now has to be reported in time.
	past, now := &traffic{}, time.Now()
	if s.soak.lasts == 0 {
		past = &traffic{seed: s.seed, name: "past", events: s.events / 2, flows: s.flows / 2, bad: s.events / 20_000, reporters: talkers, from: events.StampOf(now.Add(-time.Hour)), to: events.StampOf(now)}
		if err = s.server.produce(ctx, s.topics.events, past, false, nil); err != nil {
			return nil, nil, err
		}
	}
	// Producing the past has taken a while, and the live events must not begin late.
	now = time.Now()
	live = &traffic{seed: s.seed + 1, name: "live", events: s.events - past.events, flows: s.flows - past.flows, bad: s.events / 20_000, reporters: talkers,
		// A quarter longer than the plan, for faults take time themselves.
		from: events.StampOf(now), to: events.StampOf(now.Add(max(lasts+lasts/4, 10*time.Second)))}
	return past, live, nil
}

// strikeAll strikes by the plan, and waits until the live events were produced.
func (s *storm) strikeAll(ctx context.Context, plan []moment, produced <-chan error) error {
	// A soak looks at what the members take while it lasts, and no longer: their end is not
	// of interest.
	watching, seen := context.WithCancel(ctx)
	defer seen()
	var watchers sync.WaitGroup
	if s.soak.lasts > 0 {
		watchers.Go(func() { s.soak.watch(watching) })
		watchers.Go(func() { s.soak.follow(watching) })
	}
	for _, m := range plan {
		select {
		// Each fault is struck by this goroutine, one after the other; what lasts goes on
		// in others.
		case <-time.After(m.pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := s.strike(ctx, m.fault); err != nil {
			return fmt.Errorf("%s: %w", m.fault, err)
		}
	}
	s.outage.Wait()
	// Producing lasts until every event was acknowledged, also those of an outage.
	if err := <-produced; err != nil {
		return err
	}
	seen()
	watchers.Wait()
	if s.soak.lasts > 0 {
		s.problems = append(s.problems, s.soak.judge(s.out)...)
	}
	return nil
}

// verify waits until all is folded, and compares what was published with a replay.
func (s *storm) verify(ctx context.Context, r *result) (err error) {
	// First the members catch up with the storm; only then is calm what is measured in
	// calm.
	if r.caught, r.settled, err = s.folded(ctx); err != nil {
		return err
	}
	if err = s.calm(ctx, r); err != nil {
		return err
	}
	// The members have to have ended before the topics are compared, or they would still
	// grow.
	if err = s.settle(ctx, r); err != nil {
		return err
	}
	return s.judge(ctx, r)
}

// startBroker starts the broker in the folder of the trial and creates the topics. The caller stops
// the server if there is one, also after an error.
func (s *storm) startBroker(ctx context.Context) (err error) {
	if s.server, err = newServer(s.real, filepath.Join(s.dir, "broker")); err != nil {
		return err
	}
	if err = s.server.start(ctx); err != nil {
		return err
	}
	return s.createTopics(ctx)
}

// createTopics lets weir make its topics, as users do.
func (s *storm) createTopics(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, s.binary, "topics", "create", "--brokers", s.server.addr, "--partitions", fmt.Sprint(s.partitions), "--replication", "1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("weir topics create: %w\n%s", err, out)
	}
	return nil
}

// abandon ends whatever members are left, without grace.
// It is for a storm that ends by an error; after one that went to its end there are none
// left.
func (s *storm) abandon() {
	for _, m := range s.members {
		if m.isFrozen() {
			_ = m.thaw()
		}
		_ = m.kill()
	}
}

// pick is a member that runs and is not frozen.
// As long as one is frozen at most there is always one, since two members or three run.
func (s *storm) pick() *member {
	var awake []*member
	for _, m := range s.members {
		if !m.isFrozen() {
			awake = append(awake, m)
		}
	}
	return awake[s.random.IntN(len(awake))]
}

// join starts a member: now one that was there before and has state, now a new one.
// One that comes back finds a state that others have gone beyond meanwhile.
func (s *storm) join() error {
	var m *member
	if len(s.resting) > 0 && s.random.IntN(2) == 0 {
		m, s.resting = s.resting[0], s.resting[1:]
	} else {
		s.serial++
		flags, err := s.soak.flags(s.dir)
		if err != nil {
			return err
		}
		// All members are of one group and differ by their state folders.
		if m, err = newMember(s.binary, s.dir, fmt.Sprintf("member-%d", s.serial), s.server.addr, groupName, flags...); err != nil {
			return err
		}
		m.away = s.isAway
	}
	s.soak.add(m)
	s.members = append(s.members, m)
	return m.start()
}

// measure notes the run that began after a fault, of which the times come later.
func (s *storm) measure(f fault, m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after[f] = append(s.after[f], figure{m, m.current(), s.away})
}

// strike lets one fault happen.
// An error is that it could not happen. Who is struck is picked by chance, from the seed.
func (s *storm) strike(ctx context.Context, f fault) error {
	s.counts[f]++
	switch f {
	case hardExit, loseState:
		return s.exit(f)
	case join:
		if err := s.join(); err != nil {
			return err
		}
		s.measure(f, s.members[len(s.members)-1])
	// It ends in order. That it needs too long, or ends with an error, is a fault of
	// weir's.
	case leave:
		m := s.pick()
		if _, err := m.stop(); err != nil {
			s.problem("%v", err)
		}
		// It may come back by a later join, with the state that it has now.
		s.members = slices.DeleteFunc(s.members, func(o *member) bool { return o == m })
		s.resting = append(s.resting, m)
	case freeze:
		m := s.pick()
		if err := m.freeze(); err != nil {
			return err
		}
		// Meanwhile the schedule goes on, so other faults fall while it is frozen.
		s.outage.Go(func() {
			<-time.After(frozenFor)
			if err := m.thaw(); err != nil {
				s.problem("go on after SIGSTOP: %v", err)
			}
		})
	case otherLimits:
		return s.otherLimits()
	case brokerDown:
		return s.cutBroker(ctx)
	}
	return nil
}

// exit ends a member hard and starts it again.
func (s *storm) exit(f fault) error {
	m := s.pick()
	if err := m.kill(); err != nil {
		return err
	}
	// As if the machine were gone with its disk: the next start has to begin with what
	// can still matter of the log (see decision 24).
	if f == loseState {
		if err := m.lose(); err != nil {
			return err
		}
	}
	// At once, as by whatever watches over services; the group may not have noticed
	// yet.
	if err := m.start(); err != nil {
		return err
	}
	s.measure(f, m)
	return nil
}

// cutBroker ends the broker, and starts it again while other faults fall.
func (s *storm) cutBroker(ctx context.Context) error {
	// A broker that is away cannot be killed. Who is frozen is waited for as well.
	s.outage.Wait() // one at a time
	if err := s.server.kill(); err != nil {
		return err
	}
	s.setAway(true)
	s.outage.Go(func() {
		// Members wait for it meanwhile, and must not end (see decision 31).
		<-time.After(s.soak.away)
		began := time.Now()
		if err := s.server.start(ctx); err != nil {
			s.problem("start the broker again: %v", err)
		}
		s.mu.Lock()
		s.back = append(s.back, time.Since(began))
		s.mu.Unlock()
		s.setAway(false)
	})
	return nil
}

// setAway notes that the broker goes or is back, and that what is being measured is
// not about weir alone.
// A run that was ready before is left as it is.
func (s *storm) setAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
	for _, list := range s.after {
		for i := range list {
			// How long such a run takes is a matter of the broker.
			if _, ready := list[i].run.times(); ready == 0 {
				list[i].partial = true
			}
		}
	}
}

// isAway reports whether the broker is away.
func (s *storm) isAway() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away
}

// problem notes something that must not have been. It may be called by any goroutine.
func (s *storm) problem(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

// calm measures, with nothing else going wrong, how long it takes until a member that
// was killed folds again, and until one has caught up that has lost its state.
// There is some traffic, since a group without any would show nothing. A member that is not
// ready within a minute is a problem, and the storm goes on.
func (s *storm) calm(ctx context.Context, r *result) error {
	now := time.Now()
	// Another seed than those of the traffics before, so that its flows are others.
	t := &traffic{seed: s.seed + 2, name: "calm", events: 6000, flows: 300, from: events.StampOf(now), to: events.StampOf(now.Add(30 * time.Second))}
	ctx, cancel := context.WithCancel(ctx)
	produced := make(chan error, 1)
	go func() { produced <- s.server.produce(ctx, s.topics.events, t, true, nil) }()
	defer func() {
		cancel()
		<-produced
	}()
	// A kill leaves the state and the place in the group; a loss leaves neither.
	again := func(f fault, list *[]figure) error {
		m := s.pick()
		end := m.kill
		if f == loseState { // a new machine in the place of one that was taken away in order
			end = func() error {
				_, err := m.stop()
				return errors.Join(err, m.lose())
			}
		}
		// The time is that of the run, from the start of its process.
		if err := errors.Join(end(), m.start()); err != nil {
			return err
		}
		*list = append(*list, figure{member: m, run: m.current()})
		err := eventually(ctx, time.Minute, "a member to catch up", func() (bool, error) {
			_, ready := m.current().times()
			return ready > 0, nil
		})
		if err != nil {
			s.problem("after a %s, with nothing else going wrong: %v\n%s", f, err, m.lastLines(8))
		}
		return nil
	}
	// A median of seven; a member without state takes long and is measured once.
	for range calmKills {
		if err := again(hardExit, &r.kills); err != nil {
			return err
		}
	}
	return again(loseState, &r.losses)
}

const calmKills = 7

// folded waits until the groups of both stages have committed everything that their
// topics hold, and says how much that is of the events and how long it took.
// When it takes too long that is a problem and no error, with where each partition stands.
func (s *storm) folded(ctx context.Context) (ends map[int32]int64, took time.Duration, err error) {
	c, err := s.server.client()
	if err != nil {
		return nil, 0, err
	}
	defer c.Close()
	began := time.Now()
	if ends, err = s.reached(ctx, c, groupName, s.topics.events); err != nil {
		return nil, 0, err
	}
	// What is committed has passed on its activity.
	_, err = s.reached(ctx, c, agentGroup, s.topics.activity)
	return ends, time.Since(began), err
}

// reached waits until a group has committed everything that its topic holds now.
// The members go on committing about once a second (see decision 23), so it takes that long
// at least.
func (s *storm) reached(ctx context.Context, c *kgo.Client, group, topic string) (ends map[int32]int64, err error) {
	if ends, err = endOffsets(ctx, c, topic); err != nil {
		return nil, err
	}
	// state is where it hangs, for the problem.
	state := ""
	err = eventually(ctx, 90*time.Second, "all of topic "+topic+" to be folded", func() (bool, error) {
		at, err := committed(ctx, c, group, topic)
		if err != nil {
			return false, err
		}
		// Each look begins anew.
		state = ""
		for p, end := range ends {
			if at[p] < end {
				state += fmt.Sprintf(" partition %d at %d of %d;", p, at[p], end)
			}
		}
		return state == "", nil
	})
	if err != nil {
		s.problem("%v:%s", err, state)
		for _, m := range s.members {
			s.problem("%s is not ready: %s\n%s", m.name, m.current().why, m.lastLines(8))
		}
	}
	return ends, nil
}

// settle waits until everything that was produced is folded, and ends the members in order.
// What they have committed then is up to where verdicts are due: ticks that came after that
// are not folded.
func (s *storm) settle(ctx context.Context, r *result) error {
	if _, _, err := s.folded(ctx); err != nil {
		return err
	}
	for _, m := range s.members {
		took, err := m.stop()
		if err != nil {
			s.problem("%v", err)
		}
		// All are ended one after the other, so each but the last hands its partitions over
		// first.
		r.stopped = append(r.stopped, took)
	}
	c, err := s.server.client()
	if err != nil {
		return err
	}
	defer c.Close()
	if r.folded, err = committed(ctx, c, groupName, s.topics.events); err != nil {
		return err
	}
	if r.agentsFolded, err = committed(ctx, c, agentGroup, s.topics.activity); err != nil {
		return err
	}
	// Members that have left may have failed before.
	for _, m := range append(slices.Clone(s.members), s.resting...) {
		r.vain += m.vain
		for _, f := range m.failures {
			s.problem("%s", f)
		}
	}
	// None is left for abandon.
	s.members = nil
	return nil
}

// judge compares what was published with undisturbed folds of both stages and with
// `weir replay`.
//
// Our own folds share the engine with the members and no code that reads Kafka, keeps state
// or takes over. `weir replay` is the third, as a user would check it.
func (s *storm) judge(ctx context.Context, r *result) error {
	var err error
	// Verdicts of the agent stage stand in the partitions behind those of the flows.
	flows := int32(s.partitions)
	if r.oracle, err = foldLog(ctx, s.server, s.topics.events); err != nil {
		return err
	}
	// The agent stage's limits come with the activity; each stage is folded from its own
	// topic.
	if r.agents, err = foldActivity(ctx, s.server, s.topics.activity, flows); err != nil {
		return err
	}
	published, err := readPublished(ctx, s.server, s.topics, flows)
	if err != nil {
		return err
	}
	r.published, r.ofAgents = published.stages(flows)
	r.difference = compare(r.oracle, r.published, r.folded)
	r.agentDifference = compare(r.agents, r.ofAgents, outputsOf(r.agentsFolded, flows))
	// It begins with the events alone and makes the activity itself.
	replay := exec.CommandContext(ctx, s.binary, "replay", "--brokers", s.server.addr, "--from", "beginning", "--until", "end", "-o", "jsonl")
	var lines, complaints strings.Builder
	replay.Stdout, replay.Stderr = &lines, &complaints
	began := time.Now()
	if err := replay.Run(); err != nil {
		s.problem("weir replay: %v\n%s", err, tail(complaints.String(), 1000))
		return nil
	}
	r.replayed = time.Since(began)
	// Both folds are over the whole topics, also what stands behind the last commit.
	r.onlyFold, r.onlyReplay = sameAs(slices.Concat(r.oracle.verdicts, r.agents.verdicts), lines.String())
	return nil
}

// tail is the last n bytes.
func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// result is what a storm has shown.
// It embeds the storm, which has the problems and the figures.
type result struct {
	*storm
	asked, planted int // events and bad records
	// By caught is counted what a member without state had to fold again.
	caught  map[int32]int64 // ends of the partitions before the calm
	settled time.Duration
	stopped []time.Duration
	vain    int // starts of members that ended because the broker was away
	// folded is up to where each partition of the events was folded when the members had
	// ended.
	folded     map[int32]int64
	oracle     *oracle
	published  *published
	difference *difference

	agentsFolded    map[int32]int64 // partitions of the activity
	agents          *oracle
	ofAgents        *published
	agentDifference *difference

	replayed, took time.Duration
	onlyFold       int // verdicts of our own fold that the replay does not have
	onlyReplay     int
	kills, losses  []figure // with nothing else going wrong
}

// ok reports whether all was well. Bad records were planted: with fewer dead letters than
// those the trial itself would be wrong.
func (r *result) ok() bool {
	return len(r.problems) == 0 && !r.difference.any() && !r.agentDifference.any() && r.onlyFold+r.onlyReplay == 0 && len(r.oracle.deadLetters) >= r.planted
}

// print writes a table in Markdown, of which the rows that decide are bold, and behind it
// the first differences and all problems.
func (r *result) print(w io.Writer) {
	records, activity := r.oracle.sum(), r.agents.sum()
	rows := [][2]string{
		{"broker", r.server.kind()},
		{"events, flows, partitions, seed", fmt.Sprintf("%d, %d, %d, %d", r.asked, r.flows, r.partitions, r.seed)},
		{"records in the log (ticks)", fmt.Sprintf("%d (%d)", records, r.oracle.ticks)},
		{"records of activity (repeats, told times), for each of the log", fmt.Sprintf("%d (%d, %d), %.3f", activity, r.agents.repeats, r.agents.ticks,
			float64(activity-r.agents.repeats)/float64(records))},
	}
	for _, f := range []fault{hardExit, join, leave, brokerDown, loseState, freeze, otherLimits} {
		rows = append(rows, [2]string{string(f), fmt.Sprint(r.counts[f])})
	}
	for _, stage := range []struct {
		name string
		want *oracle
		got  *published
		d    *difference
	}{{"flows", r.oracle, r.published, r.difference}, {"agents", r.agents, r.ofAgents, r.agentDifference}} {
		d := stage.d
		rows = append(rows,
			[2]string{stage.name + ": verdicts of the fold / published", fmt.Sprintf("%d / %d", len(stage.want.verdicts), len(stage.got.verdicts))},
			[2]string{"**" + stage.name + ": missing; doubled by id; not in the fold; other bytes**", fmt.Sprintf("%d; %d; %d; %d", d.missing, d.doubled, d.extra, d.changed)},
			[2]string{stage.name + ": out of the order of the log; wrong partition, key or trigger", fmt.Sprintf("%d; %d", d.backwards, d.misplaced)},
			[2]string{stage.name + ": dead letters, missing, doubled, wrong", fmt.Sprintf("%d, %d, %d, %d", len(stage.got.deadLetters), d.deadLettersMissing, d.deadLettersTwice, d.deadLettersExtra)},
		)
	}
	// Marks and late records are counted with the flows, see published.stages.
	d := r.difference
	rows = append(rows,
		[2]string{"**by a former owner; unreadable**", fmt.Sprintf("%d; %d", d.former, d.strange)},
		[2]string{"bad records planted", fmt.Sprint(r.planted)},
		[2]string{"takeovers (marks in the topic)", fmt.Sprint(r.published.marks)},
		[2]string{"only in our fold / only in `weir replay`", fmt.Sprintf("%d / %d (%s)", r.onlyFold, r.onlyReplay, r.replayed.Round(time.Millisecond))},
		[2]string{"**kill -9, from process start to the first partition taken over; to caught up**", figures(r.kills)},
		[2]string{"hand-over to a node without state, the same", figures(r.losses) + r.refolded(r.losses)},
		[2]string{"kill -9 amid the other faults, the same", figures(r.after[hardExit])},
		[2]string{"join amid the other faults, the same", figures(r.after[join])},
		[2]string{"broker back after; starts that ended because it was away", fmt.Sprintf("%v; %d", rounded(r.back), r.vain)},
		[2]string{"caught up after the last event; members ended after SIGTERM within", fmt.Sprintf("%s; %s", r.settled.Round(time.Millisecond), slices.Max(append(r.stopped, 0)).Round(time.Millisecond))},
		[2]string{"all of it took", fmt.Sprintf("%s on %d cores", r.took.Round(time.Second), runtime.NumCPU())},
	)
	fmt.Fprintf(w, "\n| %s | |\n| --- | --- |\n", "storm")
	for _, row := range rows {
		fmt.Fprintf(w, "| %s | %s |\n", row[0], row[1])
	}
	fmt.Fprintln(w)
	for _, line := range append(d.first, r.agentDifference.first...) {
		fmt.Fprintln(w, line)
	}
	for _, p := range r.problems {
		fmt.Fprintln(w, "PROBLEM:", p)
	}
	if r.ok() {
		fmt.Fprintln(w, "all is well")
	} else {
		fmt.Fprintln(w, "NOT WELL: see above; the same storm again: -seed", r.seed)
	}
}

// figures are median and maximum of the runs that began while the broker was there. Runs that were
// killed before they had caught up are left out.
// The first of the two is how long the partitions were not folded; it comes from the member's
// own log.
func figures(list []figure) string {
	var folds, readies []time.Duration
	for _, fig := range list {
		_, ready := fig.run.times()
		if fig.partial || ready == 0 {
			continue
		}
		readies = append(readies, ready)
		moments, err := fig.member.takeovers()
		if err != nil {
			continue
		}
		i := slices.IndexFunc(moments, func(t takeover) bool { return t.Time.After(fig.run.started) })
		// A member may be ready without a partition: then there was no takeover in this
		// run.
		if i >= 0 && moments[i].Time.Sub(fig.run.started) <= ready {
			folds = append(folds, moments[i].Time.Sub(fig.run.started))
		}
	}
	return fmt.Sprintf("%s; %s (%d of %d runs)", spread(folds), spread(readies), len(readies), len(list))
}

// refolded says how fast a member without state folded again what it took over.
// It counts partitions that were taken over from offset 0, between the first takeover and
// being ready.
func (r *result) refolded(list []figure) string {
	for _, fig := range list {
		_, ready := fig.run.times()
		moments, err := fig.member.takeovers()
		if err != nil || ready == 0 {
			continue
		}
		var first time.Duration
		var records int64
		for _, t := range moments {
			// A partition that is taken over from a later offset had less to fold, and is
			// left out.
			if at := t.Time.Sub(fig.run.started); at > 0 && at <= ready && t.Next == 0 {
				records += r.caught[t.Partition]
				if first == 0 {
					first = at
				}
			}
		}
		if first > 0 && ready > first {
			return fmt.Sprintf("; %d records again at %.0f k/s", records, float64(records)/(ready-first).Seconds()/1000)
		}
	}
	return ""
}

// spread is the median and the maximum.
func spread(list []time.Duration) string {
	if len(list) == 0 {
		return "-"
	}
	slices.Sort(list)
	return fmt.Sprintf("median %s, most %s", ms(list[len(list)/2]), ms(list[len(list)-1]))
}

// ms is a time to the millisecond: finer figures would claim more than watch can see.
func ms(d time.Duration) string { return d.Round(time.Millisecond).String() }

// rounded is how outages are printed: to a tenth of a second.
func rounded(list []time.Duration) (out []time.Duration) {
	for _, d := range list {
		out = append(out, d.Round(100*time.Millisecond))
	}
	return out
}
