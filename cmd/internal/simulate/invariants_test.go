package simulate

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"weir/analyzer"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/state"
)

// eventTaken folds what comes into the log, at once.
// The plain fold is thereby always at the end of the log, ahead of every pump: whatever a pump
// says can be looked up at once.
func (w *world) eventTaken(n int) func(*entry) {
	return func(e *entry) {
		w.flows[n].fold(w.events[n].end()-1, e.appended, []byte(e.value))
		w.adversary.taken(w, n, e)
	}
}

// activityTaken folds what comes into the log of activity, and holds it against what the
// plain fold of the events passes on: all of it, in its order, and nothing else.
func (w *world) activityTaken(n int) func(*entry) {
	// next is by source how far its list was compared for this partition.
	next := make([]int, len(w.flows)+w.agentPartitions) // of what the plain folds pass on
	return func(e *entry) {
		p := w.agents[n]
		w.stats.Activity++
		if fresh := p.fold(w.activity[n].end()-1, e.key, e.from, []byte(e.value)); !fresh {
			// What a record says that came before is dropped by the agent stage, and is no more to compare.
			return
		}
		if e.from.Source >= len(w.flows) {
			w.stats.PassedUp++
		}
		if said := p.settled[e.from]; strings.Contains(said, `"action":"allow"`) {
			w.stats.Settled[0]++
		} else if said != "" {
			w.stats.Settled[1]++
		}
		// The tree's own count is held against one made beside it: no more asks are allowed than calls.
		if tree, n := p.mostAllowed(); n > treeLimit {
			w.violate("a tree allows no more asks than its root may make calls", "%s: %d of %d", tree, n, treeLimit)
		}
		want := w.fold(e.from.Source).activity
		i := next[e.from.Source]
		// Others of the list go to other partitions; those without a key go to each.
		for i < len(want) && want[i].key != "" && w.place(want[i].key, len(w.activity)) != n {
			i++
		}
		next[e.from.Source] = i + 1
		got := activityRecord{e.key, e.from, e.value}
		if i >= len(want) || want[i] != got {
			w.violate("activity is what the plain fold passes on", "partition %d:\n got %+v\nwant %+v", n, got, want[min(i, len(want)):min(i+1, len(want))])
		}
	}
}

// verdictTaken holds each verdict against the one of the plain fold.
// It is called while the partition appends, so p.real counts the entry already: the verdict is
// the p.real-th that the plain fold has given.
func (w *world) verdictTaken(partition int) func(*entry) {
	return func(e *entry) {
		p := w.verdicts[partition]
		// The mark of the next owner has raised it: whatever comes with another one is
		// late.
		if e.epoch != p.epoch {
			w.violate("nobody publishes behind the mark of a next owner", "partition %d: epoch %d after the mark of %d", partition, e.epoch, p.epoch)
		}
		if e.value == "" {
			return
		}
		w.stats.Verdicts++
		want, i := w.fold(partition).verdicts, p.real-1
		if i >= len(want) || want[i].line != e.value || want[i].trigger != e.trigger {
			w.violate("verdicts equal the plain fold", "partition %d, verdict %d:\n got %s @%d\nwant %+v\n%s", partition, i, e.value, e.trigger, want[min(i, len(want)):min(i+1, len(want))], p.tail())
		}
	}
}

// tail says what the last records of a partition are about.
// A verdict that differs is mostly one too many or one too few before it.
func (p *partition) tail() string {
	var b strings.Builder
	for i := max(0, len(p.entries)-12); i < len(p.entries); i++ {
		e := &p.entries[i]
		fmt.Fprintf(&b, "%d: epoch %d, %s @%d\n", i, e.epoch, e.id, e.trigger)
	}
	return b.String()
}

// deadLetterTaken holds each dead letter against those of the plain fold: the same records in the
// same order, each once.
// What is compared is which record became one; its bytes are a matter of the pump's own
// tests.
func (w *world) deadLetterTaken(partition int) func(*entry) {
	return func(e *entry) {
		p := w.deadLetters[partition]
		if e.value == "" {
			return
		}
		want, i := w.fold(partition).deadLetters, p.real-1
		if i >= len(want) || want[i] != e.trigger {
			w.violate("dead letters equal the plain fold", "partition %d, letter %d about %d (%s), want %v", partition, i, e.trigger, e.value, want[min(i, len(want)):min(i+1, len(want))])
		}
	}
}

// checkCheckpoint holds a checkpoint against the plain fold and the logs before it may be
// written.
// It runs in the goroutine of a pump that writes in the background, hence the lock.
// Other goroutines may run beside it, but none of them changes a log.
func (w *world) checkCheckpoint(o *owner, c *state.Checkpoint) {
	w.mu.Lock()
	w.stats.Commits++
	w.mu.Unlock()
	partition, fold := o.partition, w.fold(o.partition)
	// The verdicts of a record are due before a checkpoint that goes past it. With small
	// checkpoints (not exact) one may be cut in the middle of a record whose deadlines fire one by
	// one, and then the verdicts of that last record need not all be there.
	due := func(trigger int64) bool { return trigger < c.Next-1 || trigger == c.Next-1 && w.exact }
	const ahead = "a checkpoint is never ahead of what was published"
	n := 0
	// Verdicts stand in the order of their records, so it is enough to count.
	for n < len(fold.verdicts) && due(fold.verdicts[n].trigger) {
		n++
	}
	if have := w.verdicts[partition].real; have < n {
		w.violate(ahead, "partition %d: the checkpoint at %d holds %d verdicts, the log %d", partition, c.Next, n, have)
	}
	n = 0
	// A record that cannot be read fires no deadlines, so its dead letter is due with the
	// record.
	for n < len(fold.deadLetters) && fold.deadLetters[n] < c.Next {
		n++
	}
	if have := w.deadLetters[partition].real; have < n {
		w.violate(ahead, "partition %d: the checkpoint at %d holds %d dead letters, the log %d", partition, c.Next, n, have)
	}
	for _, a := range fold.activity {
		// The list is in the order of the offsets.
		if !due(a.at.Offset) {
			break
		}
		for p := range w.activity {
			if a.key != "" && w.place(a.key, len(w.activity)) != p {
				continue
			}
			// The partition's activity of this offset is due in every partition that its key belongs to.
			if s := &w.agents[p].sources[partition]; !s.any || s.last.Offset < a.at.Offset || s.last.Offset == a.at.Offset && s.last.Part < a.at.Part {
				w.violate(ahead, "partition %d: the checkpoint at %d is ahead of the activity %+v, the log has %+v", partition, c.Next, a.at, s.last)
			}
		}
	}
	// Who starts at this checkpoint reads the verdicts from Published on to know what need not be
	// said again (decision 16). One that stands before that place would be published twice.
	for i := range w.verdicts[partition].entries {
		if e := &w.verdicts[partition].entries[i]; int64(i) < c.Published && e.trigger >= c.Next && e.value != "" {
			w.violate("who recovers reads all that may come again", "partition %d: the checkpoint at %d begins to read verdicts at %d, behind one of record %d", partition, c.Next, c.Published, e.trigger)
		}
	}
	// A part of a checkpoint is of no single place of the log.
	if !w.exact {
		return
	}
	// A record without a value is a deletion; the plain fold has "" for it.
	for i := range c.Records {
		r := &c.Records[i]
		if want := fold.at(r.Key, c.Next); string(r.Value) != want {
			w.violate("a checkpoint equals the plain fold of its prefix", "partition %d, checkpoint at %d, %s %q:\n got %x\nwant %x", partition, c.Next, r.Subject, r.Key, r.Value, want)
		}
	}
}

// heal ends all trouble, lets everything be folded, and looks at what is there then. It is
// called once. After it no invariant may hold only because a fault has kept something from
// being done.
func (w *world) heal() {
	w.faulty = false
	w.note("everything heals")
	// Processes that wait for free space find it.
	for _, p := range w.processes {
		p.disk.full = false
	}
	// Frozen owners are ended, too, if nothing else ends them first.
	for _, o := range w.ghosts {
		o.revoke()
	}
	w.settle()
	now := events.StampOf(w.clock.Now())
	// An hour ends every episode and most orders.
	w.clock.Advance(time.Hour)
	w.settle()
	// There are two ticks, so that the deadlines of an hour fire and the flows report them to the
	// agents. Before that the world is idle, and no pump would see the time pass.
	for _, at := range []events.Stamp{now, now.Add(time.Hour)} {
		for _, p := range w.events {
			w.append(p, entry{value: string(pump.TickRecord(at))})
		}
	}
	// Far more rounds than any plan needs: who is not done by then hangs.
	const rounds = 5000
	for round := 0; !w.done(); round++ {
		if w.broken != nil {
			return
		}
		if round == rounds {
			w.violate("everything is folded when all faults end", "%s", w.state())
			return
		}
		w.giveAll()
		w.round()
	}
	// The last checkpoints are taken on the way out, which is what checkEnd looks at.
	for _, o := range w.owners {
		o.revoke()
	}
	// Ghosts end as well: one that hangs would hang in a process, too.
	for round := 0; w.alive() > 0 && w.broken == nil; round++ {
		if round == rounds {
			w.violate("who is told to end ends", "%s", w.state())
			return
		}
		w.round()
	}
	if w.broken == nil {
		w.checkEnd()
	}
}

// giveAll assigns the partitions that no owner folds. Without it, partitions whose owner has ended
// during the faults would have no owner.
func (w *world) giveAll() {
	for partition, o := range w.owners {
		if o == nil || o.ended {
			p := w.processes[w.rand.IntN(len(w.processes))]
			free := true
			// A process that still has an owner of the partition, one that was frozen, cannot have a second.
			for _, g := range w.ghosts {
				free = free && (g.partition != partition || g.process != p || g.ended)
			}
			if free {
				w.give(partition, p)
			}
		}
	}
}

// round lets every waiting owner continue once. A second passes after it, so that owners that wait for
// time continue, too.
func (w *world) round() {
	// A copy, since answer changes the list.
	waiting := append([]*call(nil), w.waiting()...)
	for _, c := range waiting {
		w.answer(c)
	}
	w.clock.Advance(time.Second)
	w.settle()
}

// alive is how many owners have not ended, those that were replaced included.
func (w *world) alive() (n int) {
	for _, o := range append(append([]*owner(nil), w.ghosts...), w.owners...) {
		if o != nil && !o.ended {
			n++
		}
	}
	return n
}

// done reports whether everything is folded and published.
// It looks at what pumps show to everybody, while all goroutines wait.
func (w *world) done() bool {
	for partition, o := range w.owners {
		source, _ := w.sourceOf(partition)
		if o == nil || o.ended || o.pump == nil || o.pump.Next() < source.end() || w.verdicts[partition].real < len(w.fold(partition).verdicts) {
			return false
		}
	}
	for _, g := range w.ghosts {
		if !g.ended {
			return false
		}
	}
	// A fetch that waits is an owner with nothing to read; anything else is work under way.
	for _, c := range w.parked { // or something is on its way still
		if c.what != "fetch" {
			return false
		}
	}
	return true
}

// state says how far everything is.
// It is the detail of a run that does not come to rest.
func (w *world) state() string {
	var b strings.Builder
	for partition, o := range w.owners {
		source, _ := w.sourceOf(partition)
		fmt.Fprintf(&b, "partition %d: the log ends at %d, %d of %d verdicts, %d of %d dead letters", partition, source.end(), w.verdicts[partition].real, len(w.fold(partition).verdicts),
			w.deadLetters[partition].real, len(w.fold(partition).deadLetters))
		if o != nil && o.pump != nil {
			fmt.Fprintf(&b, ", %v is at %d, ended: %v", o, o.pump.Next(), o.ended)
		}
		b.WriteByte('\n')
	}
	// Who hangs is mostly found by what he waits for.
	for _, c := range w.waiting() {
		fmt.Fprintf(&b, "%v waits for: %s\n", c.owner, c.what)
	}
	return b.String()
}

// checkEnd compares the disks of the last owners with the plain folds.
// The disks are all that is left of a run, and what the next one would begin with.
func (w *world) checkEnd() {
	for partition, o := range w.owners {
		fold, kept := w.fold(partition), o.process.disk.partitions[uint16(partition)]
		if got, want := w.deadLetters[partition].real, len(fold.deadLetters); got != want {
			w.violate("dead letters equal the plain fold", "partition %d: %d, want %d", partition, got, want)
		}
		// A partition of which nothing came has no checkpoint.
		if kept == nil {
			if len(fold.records) > 0 {
				w.violate("the last checkpoint holds everything", "partition %d: there is none", partition)
			}
			continue
		}
		// Every state of the plain fold is on disk with its deadline, and no deadline more.
		for key, want := range fold.records {
			// The plain folds keep keys alone; what they are about follows from the stage.
			subject := state.FlowSubject
			if partition >= len(w.flows) {
				subject = state.AgentSubject
			}
			x := subjectKey{subject, key}
			if got := kept.records[x]; got.value != want {
				w.violate("the last checkpoint holds everything", "partition %d, %q:\n got %x\nwant %x", partition, key, got.value, want)
			}
			if due := fold.due[key]; due != 0 && !kept.due[dueKey{x, due}] {
				w.violate("the last checkpoint holds everything", "partition %d, %q: no deadline at %d", partition, key, due)
			}
		}
		// With the check above this means that they are the same.
		if len(kept.due) != len(fold.due) {
			w.violate("the last checkpoint holds everything", "partition %d: %d deadlines, want %d", partition, len(kept.due), len(fold.due))
		}
	}
	w.checkOnce()
	w.adversary.checkEnd(w)
}

// checkOnce compares what was folded with the events that were confirmed to producers: each of them
// counts once, however often it came. It checks from the producers' side. All comparisons with the
// plain fold would not notice an event that is missing in the log itself.
func (w *world) checkOnce() {
	missing := maps.Clone(w.traffic.acked)
	for n, p := range w.events {
		flows := make(map[string]map[string]bool) // ids by flow
		for i := range p.entries {
			var ev events.Event
			// Neither ticks nor limits are of a producer.
			if events.Decode([]byte(p.entries[i].value), &ev) != nil || ev.Kind == events.Tick || ev.Kind == events.LimitsSet {
				continue
			}
			delete(missing, ev.ID)
			key := ev.FlowKey()
			if flows[key] == nil {
				flows[key] = make(map[string]bool)
			}
			flows[key][ev.ID] = true
		}
		kept := w.owners[n].process.disk.partitions[uint16(n)]
		if kept == nil {
			continue
		}
		for x, record := range kept.records {
			var f analyzer.Flow
			must(f.UnmarshalBinary(x.key, []byte(record.value)))
			// The events of a flow without a correlation id go to the agents, and are no flow of their
			// own.
			if x.subject == state.FlowSubject && f.Events() != int64(len(flows[x.key])) && !strings.HasPrefix(x.key, "agent:") && !w.adversary.touches(x.key) {
				w.violate("what was acknowledged is folded once", "partition %d, flow %q: %d events folded, %d in the log", n, x.key, f.Events(), len(flows[x.key]))
			}
		}
	}
	if len(missing) > 0 {
		w.violate("what was acknowledged is folded once", "not in the log: %v", missing)
	}
}
