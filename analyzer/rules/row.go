package rules

import (
	"time"

	"weir/events"
)

// Bounds of what a setting may say.
const (
	// MaxThreshold leaves room for the factors of pace and load, and is a number that
	// JSON readers hold exactly.
	MaxThreshold = 1_000_000_000_000_000
	// MaxDuration is the longest that anything about a flow or an agent may last.
	MaxDuration = 366 * 24 * time.Hour
	// MaxCount is where the counters of a flow stop counting.
	MaxCount = 1 << 15
)

// Need is a set of things that a log must report before a rule can judge. An unknown value never counts
// as no.
type Need uint16

// The things. Only times are made up where a log has none.
const (
	NeedTools   Need = 1 << iota // calls of tools
	NeedArgs                     // their arguments
	NeedResults                  // results of tools, answers of agents
	NeedCaller                   // who called an agent
	NeedWork                     // whether a hop came without work
	NeedTurn                     // goal turns
	NeedTokens                   // tokens and money
	NeedTime                     // when things happened
	NeedTasks                    // tasks
	NeedMessage                  // what an agent sent to another one
	NeedPrice                    // what tokens cost
)

// Row describes a rule: its names, its sentences, what its orders do, what a log must report for it, and
// what its setting may contain. The table that holds the row defines how the rule is measured.
type Row struct {
	Name   string        // key in the limits file
	Reason events.Reason // reason code of its verdicts
	Cause  string        // of its incidents, see CauseOf; "" for the reason
	Unit   events.Unit
	About  string // one sentence for people
	// Text is the sentence of its verdicts, with Words in it. Without one, see Sentence.
	Text   string
	Advice string        // advice to the model, in place of the general advice
	Hint   string        // hint in the answers to checks while the model is warned; "" for none
	Action events.Action // of a stop
	Armed  bool          // a budget: the order goes out when it is used up
	Status int           // HTTP status of a refusal
	From   string        // where the rule comes from
	Needs  Need          // what a log must report
	// OnlyWarns is what it can judge without, though later and never to a stop; a part of Needs.
	OnlyWarns Need
	Window    string // what Setting.Window means; "" when the row has none
	Span      Span   // how long a window may be that is not of calls
	Most      Reach  // the greatest value that can be observed; none for as much as can be written
	Smells    int64  // a limit above it is a design smell; 0 for none
	Fixed     bool   // nothing about it can be set: it is a person's word
	// It only warns: what it measures is no ground to refuse a call.
	WarnsOnly bool
	Tells     bool // answers report the remaining budget to the caller
	Paced     bool // the pace of the party widens the limit
	Extend    bool // the budget may count from the last evidence of progress

	// What the setting may say.
	Blind       bool // that results do not count
	Delegations bool // that calls count that are no delegations
	Returns     bool // that turns count again that come back
	Beginning   bool // that only what the episode began with counts
	Unknown     bool // that hops count of which it is unknown whether they brought work
	Newcomers   bool // that hops count to agents that were new to the conversation
	Shares      bool // how much is set aside for each child of a tree
	Silence     bool // it is about silence: the value is seconds, the threshold a deadline

	Default Setting
}

// Reach is the greatest value that a row can observe, and why it is not more.
type Reach struct {
	Most int64
	Why  string
}

// Span is the shortest and the longest window of a row, and why they are so.
type Span struct {
	Least, Most int64
	Why         string
}

// InUnit is how much one of the unit is in the fold, which has no fractions.
func InUnit(u events.Unit) float64 {
	if u == events.UnitUSD {
		return 1e6
	}
	return 1
}

// OneByOne reports whether each call or turn adds one to what is measured.
func OneByOne(u events.Unit) bool {
	switch u {
	case events.UnitSeconds, events.UnitTokens, events.UnitUSD, events.UnitPercent:
		return false
	}
	return true
}

// Words are what a text of limits may name, and what each stands for.
var Words = [...][2]string{
	{"{head}", "what was done, such as \"Tool call rejected: \", \"Warning: \" or that the limit is used up"},
	{"{rejected}", "the same, but a call that has to wait is rejected, too"},
	{"{warning}", "\"Warning: \" where nothing was refused, else nothing"},
	{"{n}", "what was observed"},
	{"{limit}", "the limit"},
	{"{minutes}", "the limit in minutes, of limits in seconds"},
	{"{over}", "how what was observed is to the limit, as the predicate of a sentence"},
	{"{bound}", "the limit in brackets: when it stops, where it only warns so far"},
	{"{asked}", "that the call at hand is counted and has not been made, where it was refused at its check"},
	{"{window}", "the length of the window, in seconds or calls"},
	{"{period}", "the length of what repeats"},
	{"{before}", "how many calls before the one at hand the window has"},
	{"{task}", "the task"},
	{"{from}", "who calls"},
	{"{to}", "who is called"},
	{"{tool}", "the tool"},
	{"{args}", "the first eight digits of the hash of the arguments"},
}

// Sentence is the sentence that describes a row's orders to people, with Words in it. A row without a
// text reports only what it counted.
func (r *Row) Sentence() string {
	switch {
	case r.Text != "":
		return r.Text
	case r.Silence, r.Unit == events.UnitNone:
		return ""
	}
	return "{head}{n} " + string(r.Unit) + " in the flow {bound}"
}

// CounterView is one counter of the flow against its limit. A limit of 0 is off.
type CounterView struct {
	Rule     string      `json:"rule"`
	Unit     events.Unit `json:"unit"`
	Observed float64     `json:"observed"`
	Warn     float64     `json:"warn,omitempty"`
	Limit    float64     `json:"limit,omitempty"`
	Max      bool        `json:"max,omitempty"` // the limit itself is allowed, see Setting.Max
	Near     float64     `json:"near"`          // observed / limit, 0 when off
	// Left is the remaining budget, as answers to checks report it. It is nil for a rule that
	// reports none, and for one without a limit.
	Left *float64 `json:"left,omitempty"`
}

// GrantView is another limit that a person set or granted for one flow, or for one tree.
type GrantView struct {
	Rule  string         `json:"rule"`
	Unit  events.Unit    `json:"unit"`
	Limit float64        `json:"limit,omitempty"` // 0 when nothing stops
	Given events.RFC3339 `json:"given,omitzero"`  // not known of trees
	Until events.RFC3339 `json:"until"`
	More  bool           `json:"more"` // more was granted; else the limit was set
}

// CauseLoop is the cause of all rules that find the same thing: agents that go in circles. Several
// of them find one loop, each by its own measure, and people have one thing to look at.
const CauseLoop = "loop"

// CauseOf is what incidents of the row are about: verdicts of one flow, one episode and one cause
// are one incident.
func (r *Row) CauseOf() string {
	if r.Cause != "" {
		return r.Cause
	}
	return string(r.Reason)
}
