package simulate

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/pump"
	"weir/events"
)

// Faults are kinds of faults, as a set. It is a flag of the tests as well: to find a cause, leave out
// one kind at a time.
type Faults uint32

// The kinds of faults.
const (
	Kill      Faults = 1 << iota // a process ends at once
	Power                        // a killed process's disk loses writes that it said were safe
	Lose                         // a killed process's disk is lost
	Rebalance                    // a partition changes its owner, which is notified
	Freeze                       // a partition changes its owner, which is not notified and continues
	Sink                         // brokers fail, before or after they have taken a batch
	Wire                         // brokers take a batch long after its sender has given up
	Twice                        // activity is taken twice
	Full                         // too little free space
	Disk                         // a checkpoint fails, before or after it is on the disk
	Back                         // a reader goes back
	Late                         // a producer's request is taken, its answer lost, and it tries again
	// end is one more than the last bit; kinds that are added go before it, and get a name
	// below.
	end
	None Faults = 0
	All         = end - 1
)

var faultNames = []string{"kill", "power", "lose", "rebalance", "freeze", "sink", "wire", "twice", "full", "disk", "back", "late"}

// Plan is a run: the same plan is the same run.
// It is small enough to be printed as a command.
type Plan struct {
	Seed    uint64
	Steps   int    // of trouble; after them everything heals
	Without Faults // that do not happen
}

// Violation says which invariant did not hold.
// It is found in the step that made it, unless only the end shows it.
type Violation struct {
	Step      int
	Invariant string
	Detail    string
	Trace     []string // the last steps
}

// Error says what was broken and how.
func (v *Violation) Error() string {
	return fmt.Sprintf("step %d: broken: %s\n%s", v.Step, v.Invariant, v.Detail)
}

// Stats is what happened in runs.
// It adds up over all runs that are given the same Stats. The goroutine that runs a plan owns it,
// but Commits, which pumps count.
type Stats struct {
	Runs, Steps, Events, Verdicts, Activity, Commits, Owners int
	PassedUp                                                 int    // records of activity by trees to those above
	Settled                                                  [2]int // asks that trees allowed, and refused
	Injected, RefusedAlone                                   int    // events of the adversary, and checks in its targets that are refused without them
	Faults                                                   map[string]int
}

// world is one run. But for what mu guards it is touched only by the one goroutine whose turn it
// is: the one that runs the plan, or an owner while all others wait.
type world struct {
	chance
	diary
	topics

	clock *clock.Fake
	// Returns when every other goroutine waits, by testing/synctest or alike.
	settle func()
	parked []*call // guarded by mu

	processes []*process
	owners    []*owner // by partition: its current owner, as the group knows
	ghosts    []*owner // who had a partition and goes on
	born      int

	// Which budget the pumps have, and how large a checkpoint may be, both in bytes.
	memory, maxCheckpoint int64
	unwritten             int64 // most that cannot leave memory, because no checkpoint holds it yet
	checkpointEvery       time.Duration
	exact                 bool // a checkpoint never has to pass in the middle of a record
	// The most records of a fetch.
	batch   int
	traffic traffic
	guard   watcher
	// It sends into flows of others.
	adversary *adversary
}

// chance decides which faults happen.
type chance struct {
	plan Plan
	// The only source of chance. Whatever is drawn from it must be drawn in the same order each time.
	rand  *rand.Rand
	stats *Stats
	// No fault happens while it is false: at the end, when everything heals.
	faulty bool
}

// diary is what has happened: the last steps, and the first violation.
type diary struct {
	step  int
	trace []string

	// mu guards what owners change while others may run, too: broken, and parked of the world.
	mu     sync.Mutex
	broken *Violation
}

// Run runs a plan. settle returns when all goroutines wait.
// It leaves no goroutine behind, whatever came of the run: the next one would wait for it.
func Run(plan Plan, settle func(), stats *Stats) *Violation {
	w := newWorld(plan, settle, stats)
	defer w.end()
	for w.step = range plan.Steps {
		w.turn()
		if w.broken != nil {
			return w.broken
		}
	}
	w.heal()
	return w.broken
}

// newWorld draws what a run is like: how many partitions, processes and flows, and how
// small memory, batches and checkpoints are. Small ones bring in a few steps what takes
// days elsewhere.
func newWorld(plan Plan, settle func(), stats *Stats) *world {
	// 29 is any number: it makes the stream this simulation's own.
	c := clock.NewFake()
	w := &world{chance: chance{plan: plan, rand: rand.New(rand.NewPCG(plan.Seed, 29)), stats: stats, faulty: true}, topics: topics{clock: c}, clock: c, settle: settle}
	// How many partitions the events and the activity have.
	sources, agents := 1+w.rand.IntN(3), 1+w.rand.IntN(2)
	w.agentPartitions = agents
	w.memory, w.batch = int64(4000+w.rand.IntN(30_000)), 1+w.rand.IntN(40)
	w.checkpointEvery = time.Duration(50+w.rand.IntN(600)) * time.Millisecond
	w.maxCheckpoint, w.unwritten, w.exact = 1<<20, 2<<20, true
	// In a third of the runs a checkpoint is so small that states have to be written in parts.
	if w.rand.IntN(3) == 0 {
		room := int64(6000 + w.rand.IntN(12_000)) // beside that for the state of the partition
		w.maxCheckpoint, w.unwritten, w.exact = pump.PartitionRoom+room, 3*room+4096, false
	}
	place := func(key string) int { return w.place(key, agents) }
	var alone []*plainFlows
	for n := range sources {
		w.flows = append(w.flows, newPlainFlows(n, firstLimits(), place))
		alone = append(alone, newPlainFlows(n, firstLimits(), place))
		// What is taken is folded plainly at once, and checked.
		w.events = append(w.events, &partition{taken: w.eventTaken(n)})
	}
	for n := range agents {
		w.agents = append(w.agents, newPlainAgents(sources+n, sources, agents, firstLimits()))
		w.activity = append(w.activity, &partition{taken: w.activityTaken(n)})
	}
	// Each output partition belongs to one partition of a source, as in the Kafka form.
	for n := range sources + agents {
		w.verdicts = append(w.verdicts, &partition{taken: w.verdictTaken(n)})
		w.deadLetters = append(w.deadLetters, &partition{taken: w.deadLetterTaken(n)})
	}
	// Two processes at least, so that partitions can change hands.
	for n := range 2 + w.rand.IntN(2) {
		w.processes = append(w.processes, &process{n, newDisk(), pump.NewTurn()})
	}
	// No partition has an owner yet; assign gives them away.
	w.owners = make([]*owner, sources+agents)
	w.traffic.flows = 6 + w.rand.IntN(50)
	w.adversary = newAdversary(plan.Seed, alone)
	stats.Runs++
	return w
}

// sourceOf is the log that a partition folds.
func (t *topics) sourceOf(partition int) (p *partition, agents bool) {
	if partition < len(t.events) {
		return t.events[partition], false
	}
	return t.activity[partition-len(t.events)], true
}

// fold is the plain fold of a partition.
func (t *topics) fold(partition int) *plain {
	if partition < len(t.flows) {
		return &t.flows[partition].plain
	}
	return &t.agents[partition-len(t.flows)].plain
}

// allowed reports whether faults of a kind may happen now.
func (c *chance) allowed(f Faults) bool { return c.faulty && c.plan.Without&f == 0 }

// fault reports whether a fault of a kind happens, which it does with a chance of one in once.
func (c *chance) fault(f Faults, once int) bool {
	// A kind that is left out is rolled for like the others, so that the rest of the run
	// stays what it was as far as that can be.
	if hit := c.rand.IntN(once) == 0; !hit || !c.allowed(f) {
		return false
	}
	c.stats.fault(f)
	return true
}

// fault counts one. A kind that never happened in many runs is one that tries nothing.
func (s *Stats) fault(f Faults) {
	if s.Faults == nil {
		s.Faults = make(map[string]int)
	}
	s.Faults[f.String()]++
}

// park is called by goroutines of owners; which of them come first is left to the scheduler, see
// waiting.
func (w *world) park(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parked = append(w.parked, c)
}

// violate keeps the first violation. Those that follow are mostly of the same cause.
func (d *diary) violate(invariant, format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken == nil {
		d.broken = &Violation{d.step, invariant, fmt.Sprintf(format, args...), slices.Clone(d.trace)}
	}
}

// mostTraced is how many of the last steps of a failed run are reported.
const mostTraced = 40

// note remembers what has happened, for the trace of a violation.
func (d *diary) note(format string, args ...any) {
	if len(d.trace) == mostTraced {
		d.trace = slices.Delete(d.trace, 0, 1)
	}
	d.trace = append(d.trace, fmt.Sprintf("%6d  ", d.step)+fmt.Sprintf(format, args...))
}

// waiting returns who waits, in an order that does not depend on who came first.
func (w *world) waiting() []*call {
	slices.SortFunc(w.parked, func(a, b *call) int {
		return cmp.Or(cmp.Compare(a.owner.number, b.owner.number), cmp.Compare(a.what, b.what))
	})
	return w.parked
}

// answer lets one who waits go on, until everybody waits again.
func (w *world) answer(c *call) {
	w.parked = slices.DeleteFunc(w.parked, func(x *call) bool { return x == c })
	// What it waited for happens here, in the goroutine of the world, while all others
	// wait.
	err := c.run()
	if c.what != "fetch" || w.faulty {
		w.note("%v: %s %v", c.owner, c.what, err)
	}
	c.answer <- err
	w.settle()
}

// turn is one step of a run. Mostly it lets a waiting owner continue; otherwise it lets something
// happen in the world. Shares are per cent of what is drawn.
func (w *world) turn() {
	w.stats.Steps++
	// In the rest of the turns those who wait go on waiting, which is how things overtake
	// each other.
	if waiting := w.waiting(); len(waiting) > 0 && w.rand.IntN(100) < 75 {
		w.answer(waiting[w.rand.IntN(len(waiting))])
		return
	}
	switch x := w.rand.IntN(100); {
	case x < 35:
		w.produce()
	case x < 45:
		w.adversary.turn(w)
		w.settle()
	case x < 60:
		w.pass(time.Duration(w.rand.IntN(2500)) * time.Millisecond)
	case x < 63:
		// Twenty minutes at most: episodes end, orders expire and agents are found stuck.
		w.pass(time.Duration(w.rand.IntN(1200)) * time.Second)
		w.tick()
	case x < 68:
		w.tick()
	// They are rare, since each takes orders back and moves deadlines.
	case x < 70:
		w.setLimits()
	case x < 76 && len(w.wire) > 0:
		n := w.rand.IntN(len(w.wire))
		w.note("a request of before arrives")
		w.arrive(w.wire[n])
		w.wire = slices.Delete(w.wire, n, n+1)
	case x < 80:
		p := w.processes[w.rand.IntN(len(w.processes))]
		// A disk gets its space back by the same roll, so that no owner waits forever.
		p.disk.full = !p.disk.full && w.allowed(Full) && w.rand.IntN(3) == 0
	case x < 84:
		if w.allowed(Kill) {
			w.kill(w.processes[w.rand.IntN(len(w.processes))])
		}
	case x < 88:
		w.guard.turn(w)
	default:
		w.assign(w.rand.IntN(len(w.owners)))
	}
}

// pass lets time pass, in which timers of pumps fire.
// Amid the trouble only this and produce, by moments, make time pass.
func (w *world) pass(d time.Duration) {
	w.note("%v passes", d)
	w.clock.Advance(d)
	w.settle()
}

// tick reports to a partition of the events how late it is.
func (w *world) tick() {
	now := events.StampOf(w.clock.Now())
	n := w.rand.IntN(len(w.events))
	// The fold has to believe no more than the log itself says of the time.
	if w.rand.IntN(8) == 0 { // by a clock that is ahead
		now = now.Add(time.Duration(w.rand.IntN(3000)) * time.Second)
	}
	tick := pump.TickRecord(now)
	if w.rand.IntN(8) == 0 { // as the owner of another partition may know
		tick = pump.ReportingRecord(now)
	}
	w.append(w.events[n], entry{value: string(tick)})
}

// setLimits puts other limits into the logs.
func (w *world) setLimits() {
	value := string(pump.LimitsRecord(limits[w.rand.IntN(len(limits))], events.StampOf(w.clock.Now())))
	for _, p := range w.events {
		w.append(p, entry{value: value})
	}
	// From no source: limits are not dropped as repeats.
	for _, p := range w.activity {
		w.append(p, entry{value: value, from: pump.Position{Source: -1}})
	}
}

// assign gives a partition to a process. The previous owner is notified, or continues.
func (w *world) assign(partition int) {
	p := w.processes[w.rand.IntN(len(w.processes))]
	for _, o := range append(slices.Clone(w.ghosts), w.owners[partition]) {
		if o != nil && o.partition == partition && o.process == p && !o.ended {
			// A process never folds a partition twice at once; in the program the group sees to that.
			return // it has not let go yet
		}
	}
	if old := w.owners[partition]; old != nil && !old.ended {
		switch {
		case w.fault(Freeze, 2):
			w.note("%v freezes", old)
		case w.fault(Rebalance, 1):
			w.note("%v is told to end", old)
			old.revoke()
		default:
			return
		}
		// An owner that was frozen or notified continues beside the next owner until it notices.
		w.ghosts = append(w.ghosts, old)
	}
	w.give(partition, p)
}

// give makes an owner and lets it run until it waits for the first time.
func (w *world) give(partition int, p *process) {
	o := &owner{world: w, process: p, partition: partition, number: w.born}
	w.born++
	w.stats.Owners++
	// It has no parent context: a run ends by killing all remaining owners.
	o.hard, o.abort = context.WithCancel(context.Background())
	o.leaving, o.revoke = context.WithCancel(o.hard)
	w.owners[partition] = o
	w.note("%v takes over", o)
	go o.own()
	w.settle()
}

// kill ends all owners of a process at once.
func (w *world) kill(p *process) {
	w.note("process %d is killed", p.name)
	w.stats.fault(Kill)
	w.ghosts = slices.DeleteFunc(w.ghosts, func(o *owner) bool { return o.ended })
	for _, o := range append(slices.Clone(w.ghosts), w.owners...) {
		if o != nil && o.process == p {
			w.endOwner(o)
		}
	}
	// The disk is lost, or loses its last writes, only after its owners have ended: what they had
	// under way may have reached it before.
	switch {
	case w.fault(Lose, 8):
		w.note("and its disk is lost")
		p.disk = newDisk()
	case w.fault(Power, 3):
		n := 1 + w.rand.IntN(mostLies)
		w.note("and its disk forgets %d writes", n)
		p.disk.losePower(n)
	}
}

// endOwner ends an owner where it is. What it has under way may still be done.
func (w *world) endOwner(o *owner) {
	o.mu.Lock()
	o.killed = true
	o.mu.Unlock()
	var calls []*call
	for _, c := range w.waiting() {
		if c.owner == o {
			calls = append(calls, c)
		}
	}
	// Taken out before they are answered, since an answer lets goroutines run that park again.
	w.parked = slices.DeleteFunc(w.parked, func(c *call) bool { return c.owner == o })
	// A last write is done or not, by a coin: that is where crashes find the faults.
	for _, c := range calls {
		if c.dying != nil && w.faulty && w.rand.IntN(2) == 0 {
			w.note("%v: its last %s is done", o, c.what)
			c.dying()
		}
		c.answer <- errKilled
	}
	o.abort()
	w.settle()
}

// end ends all goroutines.
// Goroutines end only when whatever they wait for has answered.
func (w *world) end() {
	w.faulty = false
	for _, o := range append(slices.Clone(w.ghosts), w.owners...) {
		if o != nil {
			w.endOwner(o)
		}
	}
	// Ten hours in steps, since who wakes may wait again before it sees that it was killed.
	for range 10 { // who waits for free space
		w.clock.Advance(time.Hour)
		w.settle()
	}
}
