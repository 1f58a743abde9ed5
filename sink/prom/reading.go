package prom

import (
	"iter"
	"time"

	"weir/analyzer"
	"weir/analyzer/agents"
	"weir/analyzer/budgets"
	"weir/analyzer/coverage"
	"weir/events"
)

// Outcome is what became of an event that was read from the log.
type Outcome uint8

// The outcomes.
const (
	Folded    Outcome = iota // in the order of time
	Late                     // folded at the time of its flow, behind which it came
	Duplicate                // dropped because it had been folded before
	Expired                  // dropped because it is unknown whether it had been folded
	OutcomeCount
)

// The names of values of labels are in the order of the constants, here and below.
var outcomes = [OutcomeCount]string{"folded", "late", "duplicate", "expired"}

// The sizes of what is counted by kind and origin of events.
const (
	// One more than the last value, so that a value is its index.
	KindCount   = events.AgentActivity + 1
	OriginCount = events.OriginSystem + 1
)

// Closing is why a flow counts as live no more.
type Closing uint8

// The reasons.
const (
	ClosedIdle    Closing = iota // it was silent for as long as ends an episode
	ClosedEnded                  // the same, after a flow.end
	ClosedStopped                // the same, under an order that stops
	ClosedEvicted                // it made room in memory for others
	ClosingCount
)

var closings = [ClosingCount]string{"idle", "ended", "stopped", "evicted"}

// Misplacement is what is wrong with the key or the partition of a record of events, by which its flow may be
// split over partitions.
type Misplacement uint8

// The misplacements.
const (
	NoKey          Misplacement = iota // the record has no key
	OtherKey                           // its key is not the correlation id
	OtherPartition                     // it is not in the partition of its key
	MisplacementCount
)

var misplacements = [MisplacementCount]string{"no_key", "other_key", "other_partition"}

// String is the value of the label.
func (m Misplacement) String() string { return misplacements[m] }

// Fix is what the operator of the producer has to change.
func (m Misplacement) Fix() string {
	if m == OtherPartition {
		return "let the producer use murmur2: partitioner=murmur2_random (librdkafka), kafka.Murmur2Balancer{Consistent: true} (kafka-go)"
	}
	return "let the producer set the key of each record to its correlation_id"
}

// Trouble is what an exchange with a broker or a disk failed of.
type Trouble uint8

// The troubles.
const (
	TroubleTimeout Trouble = iota
	TroubleAuth            // the other side refuses the caller
	TroubleLeader          // the partition has moved, or has no leader
	TroubleDisk            // too little free space
	TroubleOther
	TroubleCount
)

var troubles = [TroubleCount]string{"timeout", "auth", "leader", "disk", "other"}

// Troubles counts failures by what they failed of.
type Troubles [TroubleCount]int64

// MaxDepth is the greatest call depth with a count of its own.
// The depths beyond it are counted with it.
const MaxDepth = 64

// VerdictCount is how many verdicts of one sort were published.
type VerdictCount struct {
	N    int64
	Last Example // of them
}

// Example is a flow to look at. The zero Example is none.
// Flow is shown in hexadecimal, see exemplarLabels.
type Example struct {
	Flow uint64    // hash of the flow's key, by which the flow is found
	At   time.Time // when it was counted
}

// Intake is how the bytes stand that requests hold while they are taken in.
type Intake struct {
	Held, Limit int64 // bytes, now
	Refused     int64 // requests for which there was no room
}

// VerdictCounts is how many verdicts were published; the last index is 1 for shadow verdicts.
// Dense, so that counting one costs an index and no look into a map.
type VerdictCounts [events.ReasonCount][events.ActionCount][2]VerdictCount

// Reading is where everything stands when Prometheus asks. The counters are monotonic over
// the life of the process; what follows them is of now.
// It is filled in by the program for each scrape, from what its parts have counted so far.
//
// It is large, so there is one that is used again, see collector.
type Reading struct {
	Counters
	Verdicts VerdictCounts
	// Names are labels here, and so the list is bounded; see the package comment for all others.
	Waste    []Waste           // what was spent after a warning or a stop, at most MostSpenders and one for each Spender
	Coverage coverage.Coverage // what the events of all sources report
	Longest  int64             // calls of the longest flow that was never stopped

	// What follows is not added up: each figure is as it is at the time of the scrape.
	Intake Intake
	Panics int64 // of requests, so far
	// A gauge by standing, so the sum of it is the number of live flows.
	Live       [analyzer.StandingCount]int64 // flows: without orders, warned, stopped, held
	FlowMemory int64                         // bytes of flows in memory
	Unsent     int64                         // verdicts that wait to be published

	Agents       agents.Gauge
	AgentsBehind time.Duration // how far behind the clock the low watermark of the agent stage is
	AgentMemory  int64         // bytes of agents in memory
	HasAgents    bool          // part of the agent stage is folded here; else AgentsBehind says nothing

	// Budgets are accounts that are folded here, the fullest first, at most MostAccounts.
	Budgets []budgets.View

	Sources []Source // that are folded
	// Of a group alone; 0 in the embedded form.
	Rebalances   int64    // so far
	FetchTrouble Troubles // so far
	Commits      [2]int64 // of offsets to the broker, so far; at 1 those that failed

	Posted []Posted // to endpoints of others, one for each

	// In the order of the label part: lsm, vlog.
	StoreBytes          [2]int64      // of the state on disk: tables, value log
	DiskFree, DiskFloor int64         // bytes; nothing is written below the floor
	Restored            time.Duration // from the last start until the log was caught up with; 0 before that

	Limits     *analyzer.Limits // in force; nil when they are not known yet
	Reloaded   bool             // the last reading of the limits went well
	ReloadedAt time.Time        // when one last did
	Ready      bool
	// On says whether there is one.
	SelfTest SelfTest
	Degraded Degraded
	// OrdersByHand is how many are in force, and OrdersConfirmed the least share of the guards that
	// follow this process which have confirmed one of them; 1 without any.
	OrdersByHand    int64
	OrdersConfirmed float64
}

// Posted is what became of the verdicts for one endpoint, so far.
type Posted struct {
	To                 string // webhook or otlp
	Delivered, Dropped int64
	Failures           int64 // requests that failed; their verdicts are sent again
}

// SpentPhases is the number of phases by which spending is counted: before flows were warned, after
// that, and after they were stopped.
const SpentPhases = 3

var spentAfter = [SpentPhases]string{"nothing", "warning", "stop"}

// Price says where the price of tokens is from.
type Price uint8

// The prices: that of the log, that of a file, and none.
// A price of the log goes before one of the file.
const (
	PriceReported Price = iota
	PriceOfFile
	PriceUnknown
	PriceCount
)

var prices = [PriceCount]string{"reported", "file", "unknown"}

// Spent is how much was spent.
type Spent struct {
	Calls  int64             // of agents and tools
	Tokens [PriceCount]int64 // by where their price is from
	// In millionths of a dollar; tokens without a price have none.
	MicroUSD [PriceUnknown]int64
}

// Add adds o to s.
// o is only read.
func (s *Spent) Add(o *Spent) {
	s.Calls += o.Calls
	for price, n := range o.Tokens {
		s.Tokens[price] += n
	}
	for price, n := range o.MicroUSD {
		s.MicroUSD[price] += n
	}
}

// Spender is a dimension by which waste is counted.
type Spender uint8

// The spenders.
const (
	ByService Spender = iota
	ByAgent
	ByTool
	ByTenant
	ByRule // that warned or stopped the flow first
	SpenderCount
)

var spenders = [SpenderCount]string{"service", "agent", "tool", "tenant", "rule"}

// MostSpenders is how many names of each Spender have series of their own, those that came first; the
// rest are one.
// See decision 77.
const MostSpenders = 20

// MostAccounts is how many accounts of budgets have series of their own. Their names come from events,
// so the list is bounded.
const MostAccounts = 200

// Waste is what one spender spent in flows after they were judged.
type Waste struct {
	By                      Spender
	Name                    string // "" where events do not say
	AfterWarning, AfterStop Spent
}

// wasted yields the waste by one kind of spender. Rules are known before they judge any flow. So all
// rules in the limits that judge flows or trees are there from the start, and a rate sees the first
// wasted call. The names of other spenders are known when they come.
func (r *Reading) wasted(by Spender) iter.Seq[Waste] {
	return func(yield func(Waste) bool) {
		var told [events.ReasonCount]bool
		for _, w := range r.Waste {
			if w.By != by {
				continue
			}
			if at := events.Reason(w.Name).Place(); at >= 0 {
				told[at] = true
			}
			if !yield(w) {
				return
			}
		}
		if by != ByRule {
			return
		}
		expected := expectedVerdicts(r.Limits)
		for _, reason := range judging() {
			if !told[reason.Place()] && !expected.silent(reason) && !yield(Waste{By: by, Name: string(reason)}) {
				return
			}
		}
	}
}

// Degraded is how things stand with the modes that are not those of quiet times.
type Degraded struct {
	Busy, Behind int64    // partitions of events that are in such a mode, now: because of load, because the fold is behind
	Begun        int64    // times that a partition was found to be behind
	Answers      [2]int64 // calls that were answered while it was; at 1 those that were refused
	Unlogged     int64    // of them those that could not be logged
}

// Source is one partition that is folded. The topics of the embedded form are "journal"
// and "activity".
type Source struct {
	Agents     bool // the agent stage folds it
	Topic      string
	Partition  int
	LagRecords int64         // in the log and not folded
	Lag        time.Duration // since the oldest of them was appended
}

// stage is the value of the label stage.
func (s *Source) stage() string {
	if s.Agents {
		return "agents"
	}
	return "flows"
}

// SelfTest is how weir's own loops went.
type SelfTest struct {
	On     bool
	Passed time.Time // when one was last stopped as expected; zero when none was
	Runs   [2]int64  // at 1 those that were not stopped
	Took   time.Duration
}
