package pump

import (
	"errors"
	"sync/atomic"
	"time"

	"weir/analyzer"
	"weir/events"
	"weir/events/adapter"
	"weir/sink/prom"
	"weir/state"
)

// Counts is what the pumps that share it have done since it was made. Any goroutine
// may read it; all figures are monotonic. What weir does to test itself is in none of them.
type Counts struct {
	Records    atomic.Int64 // taken from the log, bad ones included
	Events     atomic.Int64 // folded
	Duplicates atomic.Int64 // dropped because they had been folded before
	TooLate    atomic.Int64 // dropped because nobody can tell whether they were folded
	Clamped    atomic.Int64 // stamped later than they were appended
	Ticks      atomic.Int64
	Asks       atomic.Int64
	Refused    atomic.Int64 // asks that were refused
	Attempts   atomic.Int64 // calls tried against an order
	Leaked     atomic.Int64 // calls that were in flight when an order went out
	Episodes   atomic.Int64
	Deadlines  atomic.Int64 // fired by the watermark
	Bytes      atomic.Int64 // of records

	Misnamed       atomic.Int64 // events that lack what stands under a name a slip away
	LettersDropped atomic.Int64 // dead letters that were counted and not kept

	// Of agent stages, which count in none of the above but Refused, Attempts, Leaked and
	// Deadlines.
	Activity         atomic.Int64 // records folded
	ActivityRepeated atomic.Int64 // records dropped because they had been seen before

	coverage sourceCoverage // by source
	spending spending

	silent [adapter.SilenceCount]atomic.Int64 // spans that gave no event

	kinds    [prom.KindCount][prom.OutcomeCount]atomic.Int64
	calls    [prom.OriginCount]atomic.Int64
	depths   [prom.MaxDepth + 1]atomic.Int64
	acks     [analyzer.RuleCount + 1][2]atomic.Int64
	granted  [events.ReasonCount]atomic.Int64
	defied   [events.ReasonCount]atomic.Int64
	refused  [events.ReasonCount]atomic.Int64
	leaked   [events.ReasonCount]atomic.Int64
	verdicts [events.ReasonCount][events.ActionCount][2]verdictCount

	deadLetters [len(letterCodes)]atomic.Int64
	unpublished [prom.TroubleCount]atomic.Int64

	opened  atomic.Int64
	closed  [prom.ClosingCount]atomic.Int64
	longest atomic.Int64 // greatest so far

	Checkpoints    atomic.Int64
	uncheckpointed atomic.Int64 // records that would be folded again after a crash
	Waits          atomic.Int64 // times that a pump waited for a checkpoint
}

// verdictCount is how many verdicts of one sort there were.
type verdictCount struct {
	n    atomic.Int64
	last atomic.Pointer[prom.Example]
}

// Standing is how one pump stands now. Any goroutine may read it.
type Standing struct {
	Flows        atomic.Int64 // in memory; agents of an agent stage
	FlowBytes    atomic.Int64 // that they take
	Live         [analyzer.StandingCount]atomic.Int64
	Unsent       atomic.Int64 // verdicts that are not published
	Watermark    atomic.Int64 // latest event time seen, Unix milliseconds
	Next         atomic.Int64 // first offset not folded
	CheckpointMS atomic.Int64 // how long the last checkpoint took
	DiskLow      atomic.Bool  // a write waits for free space
	Busy         atomic.Bool  // limits have shrunk, because everything together is busy
}

// Codes of dead letters beside those of events.Code.
const (
	CodePanic  events.Code = "panic"  // a fault in weir itself while folding the record
	CodeLimits events.Code = "limits" // a limits.set whose document this weir does not accept
	CodeLost   events.Code = "lost"   // records that expired before they were read
	CodeCrash  events.Code = "crash"  // a record at which the process ended again and again

	CodeUnreadable events.Code = "unreadable" // records that cannot be taken out of their batch
)

var letterCodes = [...]events.Code{events.CodeSyntax, events.CodeTooLong, events.CodeTooDeep, events.CodeDuplicateField,
	events.CodeMisspelledField, events.CodeWrongType, events.CodeOutOfRange, events.CodeInvalidValue, events.CodeMissingField,
	events.CodeInvalidUTF8, events.CodeTrailingData, events.CodeReservedKind, CodePanic, CodeLimits, adapter.CodeFormat, CodeLost, CodeCrash, CodeUnreadable, "other"}

// Verdicts returns how many verdicts with the action were published.
func (c *Counts) Verdicts(a events.Action) (n int64) {
	for r := range c.verdicts {
		x := &c.verdicts[r][a.Place()]
		n += x[0].n.Load() + x[1].n.Load()
	}
	return n
}

// DeadLetters returns how many records became dead letters, by code. The codes are a
// closed list; those with no letters are there too.
func (c *Counts) DeadLetters() map[events.Code]int64 {
	out := make(map[events.Code]int64, len(letterCodes))
	for i, code := range letterCodes {
		out[code] = c.deadLetters[i].Load()
	}
	return out
}

// DeadLetter counts a record that became a dead letter. A code that is not in the list is
// counted as another.
func (c *Counts) DeadLetter(code events.Code) {
	for i := range letterCodes {
		if letterCodes[i] == code || i == len(letterCodes)-1 {
			c.deadLetters[i].Add(1)
			return
		}
	}
}

// Silent counts a span that gave no event.
func (c *Counts) Silent(why adapter.Silence) { c.silent[why].Add(1) }

// verdict counts one that is published. flow is the hash of its flow's key; 0 when it is
// about no flow.
func (c *Counts) verdict(v *events.Verdict, flow uint64, now time.Time) {
	reason, action, shadow := v.Reason.Place(), v.Action.Place(), 0
	if reason < 0 {
		return
	}
	if v.Mode == events.ModeShadow {
		shadow = 1
	}
	x := &c.verdicts[reason][action][shadow]
	if flow != 0 {
		x.last.Store(&prom.Example{Flow: flow, At: now})
	}
	x.n.Add(1)
}

// TroubleOf tells what an exchange failed of, as far as that does not depend on whom it
// is with.
func TroubleOf(err error) prom.Trouble {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, state.ErrDiskLow):
		return prom.TroubleDisk
	case errors.As(err, &timeout) && timeout.Timeout():
		return prom.TroubleTimeout
	}
	return prom.TroubleOther
}

// add takes over what the fold has counted.
func (c *Counts) add(n *analyzer.Counts) {
	if n.Events == 0 && n.Duplicates == 0 && n.TooLate == 0 {
		return
	}
	c.Events.Add(n.Events)
	c.Duplicates.Add(n.Duplicates)
	c.TooLate.Add(n.TooLate)
	c.Clamped.Add(n.Clamped)
	c.Asks.Add(n.Asks)
	c.Refused.Add(n.Refused)
	c.Attempts.Add(n.Attempts)
	c.Leaked.Add(n.Leaked)
	c.Episodes.Add(n.Episodes)
	for r := range n.Acks {
		for applied, acks := range n.Acks[r] {
			if acks > 0 {
				c.acks[r][applied].Add(acks)
			}
		}
	}
	for r, grants := range n.Granted {
		if grants > 0 {
			c.granted[analyzer.Rules[r].Reason.Place()].Add(grants)
		}
	}
	c.addBroken(n)
}

// addAgents takes over what the fold of an agent stage has counted.
func (c *Counts) addAgents(n *analyzer.Counts) {
	c.Refused.Add(n.Refused)
	c.Attempts.Add(n.Attempts)
	c.Leaked.Add(n.Leaked)
	for r, grants := range n.GrantedAgents {
		if grants > 0 {
			c.granted[analyzer.AgentRules[r].Reason.Place()].Add(grants)
		}
	}
	c.addBroken(n)
}

// addBroken takes over the calls that were made against orders.
func (c *Counts) addBroken(n *analyzer.Counts) {
	if n.Attempts+n.Leaked == 0 {
		return
	}
	for r := range n.Defied {
		at := analyzer.Rules[r].Reason.Place()
		c.defied[at].Add(n.Defied[r])
		c.leaked[at].Add(n.LeakedBy[r])
		c.refused[at].Add(n.RefusedBy[r])
	}
	for r := range n.DefiedAgents {
		at := analyzer.AgentRules[r].Reason.Place()
		c.defied[at].Add(n.DefiedAgents[r])
		c.leaked[at].Add(n.LeakedAgents[r])
		c.refused[at].Add(n.RefusedAgents[r])
	}
}

// Read fills in what the counters stand at.
func (c *Counts) Read(r *prom.Reading) {
	for k := range c.kinds {
		for o := range c.kinds[k] {
			r.Events[k][o] = c.kinds[k][o].Load()
		}
	}
	load(r.Calls[:], c.calls[:])
	load(r.Depths[:], c.depths[:])
	for row := range c.acks {
		at := events.ReasonCount
		if row < len(analyzer.Rules) {
			at = analyzer.Rules[row].Reason.Place()
		}
		r.Acks[at][0] += c.acks[row][0].Load()
		r.Acks[at][1] += c.acks[row][1].Load()
	}
	load(r.Granted[:], c.granted[:])
	load(r.Defied[:], c.defied[:])
	load(r.Leaked[:], c.leaked[:])
	load(r.Refused[:], c.refused[:])
	load(r.Unpublished[:], c.unpublished[:])
	load(r.Closed[:], c.closed[:])
	for reason := range c.verdicts {
		for a := range c.verdicts[reason] {
			for shadow := range c.verdicts[reason][a] {
				from, to := &c.verdicts[reason][a][shadow], &r.Verdicts[reason][a][shadow]
				to.N = from.n.Load()
				if last := from.last.Load(); last != nil {
					to.Last = *last
				}
			}
		}
	}
	r.Told = c.coverage.sum()
	c.spending.read(r)
	load(r.Silent[:], c.silent[:])
	r.Misnamed = c.Misnamed.Load()
	r.Rejected, r.NotKept = c.DeadLetters(), c.LettersDropped.Load()
	r.Activity = [2]int64{c.Activity.Load(), c.ActivityRepeated.Load()}
	r.Clamped, r.Bytes = c.Clamped.Load(), c.Bytes.Load()
	r.Opened, r.Longest, r.CheckpointWaits = c.opened.Load(), c.longest.Load(), c.Waits.Load()
}

func load(to []int64, from []atomic.Int64) {
	for i := range to {
		to[i] = from[i].Load()
	}
}
