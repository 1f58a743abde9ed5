package pump

import (
	"fmt"
	"slices"

	"weir/analyzer/activity"
	"weir/analyzer/agents"
	"weir/analyzer/record"
	"weir/events"
	"weir/events/adapter"
	"weir/state"
)

// agentStage folds activity by the agent, project or tree that it concerns.
type agentStage struct {
	fold *fold
	// sources records what was folded already. Activity is delivered at least once, and some of it is
	// repeated after a crash or a hand-over (decision 27).
	sources   sources
	partition agents.Partition
	// scratch is what is at hand; its strings alias the record, as in the flow stage.
	scratch agents.Agent

	// Most reports are about agents that never report their own state. These two fields make those
	// reports cheap: key is reused memory, and the store is not read again for agents in the set of
	// unknown ones.
	key    []byte              // of the agent that a report is about
	nobody map[string]struct{} // agents of which neither memory nor store has anything

	reports []activity.Report // of a batch, which they alias
	board   board
}

func (s *agentStage) traits() traits {
	return traits{subject: state.AgentSubject, keyed: true, reports: true}
}

// fresh reports whether the record has not been folded before; an error makes it a dead letter.
func (s *agentStage) fresh(r *Record) (bool, error) {
	// Sources from want on are the partitions of the activity itself, which pass on to the trees
	// above. A number beyond both means that the topics had other numbers of partitions, or a
	// stranger's record.
	if most := s.sources.want + max(1, s.fold.o.AgentPartitions); r.From.Source < 0 || r.From.Source >= most {
		return false, &unfit{adapter.CodeFormat, fmt.Sprintf("activity of source %d, of %d partitions of events and activity together", r.From.Source, most)}
	}
	if !s.sources.take(r.From) {
		s.fold.meter.counted.Activity[1]++
		return false, nil
	}
	return true, nil
}

// admit applies what the sources report about time. It returns the key of the agent, project or tree
// that another event concerns.
func (s *agentStage) admit(ev *events.Event, r *Record) (string, error) {
	if fresh, err := s.fresh(r); !fresh {
		return "", err
	}
	if ev.Kind == events.Tick {
		if ev.Observed > ev.Time {
			// Only ticks of a flow stage that was turned back say so, see flowStage.turnBack.
			// The watermark goes back with the least of the sources, and not at all while
			// another source is behind the new time.
			s.sources.turnBack(r.From.Source, ev.Time)
			s.partition.Watermark = min(s.partition.Watermark, s.sources.lowWatermark())
		}
		// The flag is kept for as long as this process runs. Each such tick repeats it.
		if slices.Contains(ev.Tags, reporting) {
			s.fold.meter.standing.Reporting.Store(true)
		}
		// A source that stands still holds the watermark back and with it all deadlines: silence
		// is not judged by a part of what happened (decision 38).
		s.sources.raise(r.From.Source, ev.Time)
		s.partition.Watermark = max(s.partition.Watermark, s.sources.lowWatermark())
		return "", nil
	}
	if r.Key == "" {
		return "", &unfit{events.CodeMissingField, "activity that does not say whom it concerns: only weir may write to this log"}
	}
	ev.Appended = 0 // its time was held against the log that it comes from
	return r.Key, nil
}

func (s *agentStage) decode(r *cachedRecord) error {
	if len(r.record) == 0 {
		s.scratch.Reset(r.key)
		return nil
	}
	return s.scratch.UnmarshalBinary(r.key, r.record)
}

func (s *agentStage) encode(dst []byte) ([]byte, error) {
	dst, err := s.scratch.AppendBinary(dst)
	if err != nil {
		return nil, err
	}
	// What reports may skip follows what was kept last, see mayWatch.
	r := s.fold.open
	r.unwatched = !s.fold.engine.Agents().Watched(&s.scratch)
	if len(r.record) == 0 {
		delete(s.nobody, r.key)
	}
	return dst, nil
}

// empty: what has taken no event needs no record.
func (s *agentStage) empty() bool { return s.scratch.Events() == 0 }

func (s *agentStage) step(ev *events.Event) {
	was := treeJudgedBy(&s.scratch)
	s.fold.engine.Agents().Step(&s.partition, &s.scratch, ev, &s.fold.fx.Effects)
	s.fold.meter.counted.Activity[0]++
	s.spend(ev, was)
	s.noteAccount()
}

func (s *agentStage) advance(now events.Stamp) {
	s.fold.engine.Agents().Advance(&s.partition, &s.scratch, now, &s.fold.fx.Effects)
	s.noteAccount()
}

// noteAccount keeps how the account of a budget stands, and reports it where it is wanted.
func (s *agentStage) noteAccount() {
	v := s.board.note(&s.partition, s.fold.engine.Agents(), &s.scratch)
	if v != nil && s.fold.o.Account != nil {
		s.fold.o.Account(v)
	}
}

// due is when the agent has to be looked at; it may be set later than it is known, see postponed.
func (s *agentStage) due() events.Stamp { return s.fold.engine.Agents().Due(&s.scratch) }

// postponed leaves a deadline that is earlier where it is: it fires early once, does nothing, and is
// set anew then. An agent moves its deadline with each thing that it says, and two writes in the store
// would come of each.
func (s *agentStage) postponed(before events.Stamp) events.Stamp {
	due := s.due()
	if before != 0 && (due == 0 || due > before) {
		return before
	}
	return due
}

func (s *agentStage) answer(r *Record, ev *events.Event, v *events.Verdict, asked bool, told []activity.Activity) {
	o := s.fold.o
	switch {
	// Here asked means that the parent tree decides. A request that waits for this tree waits for the
	// parent from now on.
	case asked:
		for i := range told {
			if a := &told[i]; a.Event.Ask && o.PassedOn != nil {
				o.PassedOn(r.From, a.Key, r.Offset)
			}
		}
	case v != nil && o.Settled != nil:
		o.Settled(r.From, ev, v)
	}
}

// publishLowWatermark: what trees pass on has the low watermarks of the flow stage.
func (s *agentStage) publishLowWatermark() {}

// announce: admit has done so.
func (s *agentStage) announce() {}

// tally: the records of agents are those of the flows once more.
func (s *agentStage) tally(int64) {
	n := &s.fold.meter.counted
	n.Bytes, n.Fold.Events, n.Fold.Duplicates, n.Fold.TooLate, n.Fold.Late, n.Fold.Clamped, n.Fold.Asks, n.Fold.Episodes = 0, 0, 0, 0, 0, 0, 0, 0
}

// counted: the events of agents are those of the flows.
func (s *agentStage) counted(n *activity.Counts) Counted { return Counted{Refused: n.Refused} }

// watermark and seen are the same here: the flow stages have already subtracted the grace for late
// events from the low watermarks that they publish.
func (s *agentStage) watermark() events.Stamp { return s.partition.Watermark }

func (s *agentStage) seen() events.Stamp { return s.partition.Watermark }

// The state is what is known of the sources, then that of the fold.
func (s *agentStage) appendState(dst []byte) ([]byte, error) {
	return s.partition.AppendBinary(s.sources.appendBinary(dst))
}

func (s *agentStage) restoreState(b []byte) error {
	d := record.NewReader(b)
	s.sources.read(&d)
	if d.Bad() {
		return errState
	}
	return s.partition.UnmarshalBinary(d.Rest())
}
