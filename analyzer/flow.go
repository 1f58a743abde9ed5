package analyzer

import (
	"slices"
	"time"

	"weir/analyzer/record"
	"weir/analyzer/rules"
	"weir/analyzer/standing"
	"weir/events"
)

// Bounds of what is remembered of one flow. Together they keep an encoded flow
// below 8 KiB whatever its producers send.
const (
	maxParties     = 32
	maxPartyBytes  = 1536 // names of parties, together
	maxTools       = 32
	maxToolBytes   = 768 // names of tools, together
	maxCalls       = 32  // calls of one party that are compared
	maxWindowCalls = 64  // calls of all parties that are compared, together
	maxSeen        = 64  // calls of one party by which new calls differ from old ones
	maxSeenTotal   = 128 // of all parties, together
	maxPeriod      = 16  // of a cycle of tool calls
	maxRing        = 8   // hops, and the longest cycle of agents
	// A pair that finds no room takes the place of the one that was used least lately, see
	// openRound.
	maxPairs        = 12
	maxAnswers      = 8 // of one pair
	maxAnswersTotal = 24
	// The rounds of a pair are the bits of one uint32, see pair.stale.
	maxRounds      = 20 // of one pair
	maxDelegations = 12
	maxRuns        = 6 // tools of one party whose results are followed in a row
	maxRunsTotal   = 24
	// No rate above this can be measured, so limits beyond it are rejected when they are read
	// (see hopTimesKept).
	maxRateStamps = 128
	// Kept in two halves of which the older is dropped as a whole, so between 32 and 64 are
	// known (see decision 6).
	maxIDs           = 64
	maxOrders        = 12
	maxOrderCalls    = 32 // calls or edges that one order names: as many as a window holds
	maxOffences      = 12
	maxIncidents     = 12
	maxConversations = 8
	maxTasks         = 12
	maxTurnIDs       = 16
	maxOverrides     = 8
	maxService       = 64
	// It is stored as one byte, see partyHasDone.
	maxSpan = 255 // events from a call to its result

	// Index 255, which no list reaches: parties, tools and calls are named by their place in a
	// slice, so that records stay small. Code that uses an index has to check for none first.
	none = record.None // no party, no tool
)

// Flow is all that is remembered of one correlation id. The zero Flow is a flow
// of which nothing was seen yet. Every slice has a cap.
//
// Strings of a decoded Flow alias the record that it was decoded from.
// A Flow belongs to the one goroutine that steps it; nothing in it is locked. Parties and tools
// are named by their index. Code that removes one from its list has to remove its index from
// everything else as well (see forgetParty and forgetTool).
type Flow struct {
	identity
	hopWindow
	recentIDs
	callStack
	talk
	counts
	sanctions
	flags flowFlags
	aged  uint8 // how far max_flow_duration has spoken in this episode
}

// identity is what the flow is called, and what it belongs to.
type identity struct {
	key  string
	hash uint64 // of the key; 0 until it is first needed
	// The first source that reported the flow, as people call the program, cut to maxService bytes.
	// It is the kind of run that forecasts are looked up for, and changes nothing else.
	service      string
	root, parent string // of the tree that it belongs to; a root's own is its key. The parent is empty when it is the root
	// Tags of the flow, its agents and its tools, by which limits may exempt.
	marks rules.Marks
	// The payers of its events that name none, see payer.
	payers []payer
	// The least trusted of all sources that named the flow, see trace. It decides whether the
	// flow may be stopped at all (Limits.WarnOnly).
	source events.CorrelationSource
	// Hashes of source names; 0 is a free place. Four suffice: a fifth source is never
	// believed to report, which makes its hops count as unknown and not as idle.
	reporting sources // sources that were seen to report tools
}

// times are when the flow did something. Windows are relative to them.
type times struct {
	clock events.Stamp // latest time folded; never runs backwards
	last  events.Stamp // latest event, ticks not counted
	start events.Stamp // when the episode began
	// waited is how long it was held for a person in this episode. Its age, and times within the episode, count
	// from begun.
	waited events.Stamp
}

// begun is when the episode would have begun if it had never been held: for a flow that waits, time stands still.
func (f *times) begun() events.Stamp { return f.start + f.waited }

// rates are the times of hops.
type rates struct {
	times
	// Sorted by true event time, which is not the order of arrival. What is older than ten
	// minutes goes.
	rate []rateStamp // hops of the rate window
}

// hopWindow is the last hops, by which agents that call each other in circles are found.
type hopWindow struct {
	rates
	ring []hop // last hops that came without work
	// For each period d from 1 to maxRing: for how many hops in a row each hop was between the
	// same parties as the one d hops before it. sameRun asks for the same content, too. Index
	// 0 is not used. rounds makes rounds of it.
	pairRun  [maxRing + 1]uint16
	sameRun  [maxRing + 1]uint16
	streak   uint16   // hops in a row without work
	streakAt []uint32 // when, in milliseconds since the episode began
}

// recentIDs are the ids of the last events, by which repeats are found.
type recentIDs struct {
	// These two keep an event from being counted twice although its id was forgotten; see
	// repeated.
	forgotAt events.Stamp // nothing older can be distinguished from a repeat
	forgotID uint64       // the last id that was forgotten, which may be as old
	// A hash of id and source, in order of arrival. The first half of the list has its newest
	// time in idTimes[0], the second in idTimes[1].
	ids     []uint64        // (source, id) of the last events, in two halves
	idTimes [2]events.Stamp // newest time in each half
}

// cast is the parties of the flow with the calls that each made, and the names of tools.
type cast struct {
	parties []party
	tools   []string
}

// callStack is where control is: the parents of the parties make the stack.
type callStack struct {
	cast
	// unreported are, within a step, the parties to report to the agent stage, a bit each.
	// They change no verdict of the flow: the receivers of reports must not matter to judging.
	unreported uint32
	// Parties that took part in this episode, humans not counted. It is counted on arrival and
	// not from the list, because parties give way when the list is full.
	unique uint16
	pos    uint8 // where control is: a party, or none
}

// talk is what parties said to each other: rounds of questions and answers, and work that was given away.
type talk struct {
	pairs       []pair
	delegations []delegation
	briefs      briefs // kept where the rule about them is on
}

// counts is what the flow did and spent, in this episode where nothing else is said.
type counts struct {
	events    uint32 // folded, over all episodes
	hops      uint32
	toolCalls uint32
	// Counted from 0; people are shown one more.
	episode uint16
	turns   uint16
	// Subagents started, and those of them in the background, where a rule counts them.
	spawned, behind uint16
	// Answers of agents that match no call, see stray.
	strays uint16
	turnID string
	// Hashes of the last turn ids, so that a turn that comes back is not a new one.
	turnSeen []uint32
	tokens   [3]int64 // input, output, total: for each the larger of the sums below
	cost     int64    // millionths of a US dollar, likewise
	// What was spent as reported in parts, and as whole figures: tokens as above, then the cost.
	// Both are about the same calls, so they are never added up.
	parts, wholes [4]int64
	// Messages by hash of the conversation id; the one that was begun first gives way.
	conversations []counter
	tasks         []task
}

// sanctions are the orders about the flow, and what came before them.
type sanctions struct {
	orders    []order
	offences  []offence
	incidents []incident // of this episode
	// What a person set or granted for this flow alone; each has its own end.
	overrides []flowOverride
	// It grows by at least one with each verdict and never falls, also through a new episode:
	// guards take what has a lower one for a replay.
	revision int64        // of the last verdict
	released events.Stamp // nothing stops the flow before: a person released it
}

type flowFlags uint16

const (
	flagDelta       flowFlags = 1 << iota // usage was reported in parts: aggregates add nothing new
	flagIncomplete                        // the first event seen was not a start
	flagEnded                             // at rest: the flow ended, or gave its answer to the person who began it
	flagTurnOpen                          // the call that opens the turn was seen
	flagWorkUnknown                       // it is unknown whether the last hop came without work
	flagService                           // in a record alone: the service stands in it
	flagCalled                            // in a record alone: how often each party was called stands in it
	flagChecked                           // a dispatcher checked a call, so that only checks say by what the flow is known
	flagBegun                             // the agent stage knows the brief that began the flow; it stands behind headHasBegun
)

// party is one session or agent of the flow and what is remembered of its tool calls. Windows
// are per party because windows over all parties are diluted where several work at once.
type party struct {
	// As Identity gives it: the session where there is one, else the agent.
	name string
	// Who called it last, unless that call was a return; none for one that stands at the root.
	// The parents of all parties make the collapsed stack.
	parent   uint8
	flags    partyFlags
	open     uint8        // tool calls without a result
	lastSeen uint32       // ordinal, to choose which party to forget
	did      events.Stamp // when it did something last; 0 for never
	agent    string       // stable id; empty when it is the name, or not known
	revisits uint16
	called   uint16 // by agents, in this episode
	chain    uint16 // tool calls in this turn
	points   uint16 // of circling
	context  uint32 // input tokens of its last model call, where a rule counts them
	course   course // of these, from call to call
	job      job    // what it has used as a subagent, where a rule counts it
	cache    cache  // what the provider's cache keeps of the last of them, where flows may be held
	calls    window
	// As Flow.pairRun, of tool calls with their results; index is the period.
	cycleRun [maxPeriod + 1]uint16
	// Keys of the calls that the party ever made in the episode, see callKey. It outlasts the
	// window of calls.
	seen []uint32
	// For each tool how often in a row it brought the same, for rules that do not look at
	// arguments.
	runs []run
	sums []sum // last figures of sources that add up by themselves
}

// sum is what a source last reported a session to have spent since it began. Only what goes
// beyond it counts.
type sum struct {
	by   uint32   // hash of source and session; 0 for one that an older weir wrote
	told [4]int64 // tokens of input, of output and in total, and millionths of a US dollar
}

type partyFlags uint8

const (
	partyActive partyFlags = 1 << iota // in this episode
	partyHuman
	partyWorked // since it was called
	partyUsage  // of records of an older weir, which kept three figures, of tokens
	partyPlaced // called or was called, so that its parent means something
	partyHanded // handed control on or back, and expects no return
	partyDone   // gave control back: nothing is expected of it
	partyBeside // was sent out beside another, and is no further party in the count of them
)

// shortResult is the most bytes of a result, such as "ok" or "[]", that proves nothing when
// another call brings it too. Half of the honest sessions that were stopped wrongly were
// stopped for such results.
const shortResult = 200

// fewWords is the most bytes of a result that may be alike for unlike calls by chance, such as "ok"
// or "not found: 404". A longer text that is the same whatever is asked for is an error or a usage
// note.
const fewWords = 64

// call is one tool call of a party, with its result when that is known.
type call struct {
	tool  uint8
	flags callFlags
	// Hash of the arguments; it means something only with callArgs, and the algorithm stands
	// in the upper byte of the flags (see algorithmFlags).
	args uint64
	// Mixed with its algorithm, so that hashes of two algorithms are never equal by chance. It
	// means something only with callHashed.
	result uint64
	// Fingerprint of the result; near results differ in few bits. It means something only with
	// callSim.
	sim     uint64
	argsSim uint64 // of the arguments; 0 when not known
	// Hash of the call id by which a result finds its call; 0 when the producer gives none.
	id   uint32 // of the call id
	at   uint32 // milliseconds since the episode began
	n    uint32 // ordinal
	done uint32 // ordinal of its result, at most maxSpan after its own; 0 while there is none
}

// doneResult is the result of a call that was only acknowledged.
var doneResult = mix(events.DoneContent)

// sizedResult stands for a result of which only the size in bytes is known: a call without
// callHashed has it. Equal calls that return equally many bytes, and more than a few words, return
// the same; of unlike calls it proves nothing.
func sizedResult(size int64) uint64 { return uint64(size) }

// emptyResult is the result of a call that is known to be empty.
var emptyResult = mix(events.EmptyContent)

type callFlags uint16

const (
	callResult callFlags = 1 << iota // a result came
	callHashed                       // and its content is known
	// The three below are about the result.
	callSim
	callError
	callRetry  // legally repeats another call
	callScored // circling counted it
	callArgs   // the arguments are known
	callShort  // the result says so little that unlike calls may have it alike
)

// The flags above the algorithm of the arguments, which takes three bits. Records of an older weir
// have none of them.
const (
	callCanned callFlags = 1 << (iota + 11) // short, but longer than a few words, of a tool that is not known to look or to change anything
	callLooks                               // short, of a call that only looks
	callWrote                               // the outcome says that it changed something; the result is the state, where that is known
	callTests                               // the result is the figures of tests of which some fail
	callBeside                              // one message made it with the call before it
)

// run is how often in a row one tool of a party brought the same; of no tool, how many calls of
// any tool did in a row (see followTurns).
type run struct {
	tool   uint8
	failed bool // the same error, not the same result
	n      uint16
	hash   uint64 // 0 only in a storm, whose calls may fail in several ways
}

// storm reports whether the run is one of calls that a busy provider failed, see followStorm.
func (r *run) storm() bool { return r.failed && r.hash == 0 }

// rateStamp is the time and the caller of one hop. The caller is none when that party has been
// forgotten since; the hop still counts for the flow.
type rateStamp struct {
	at     uint32 // milliseconds since the episode began
	caller uint8
}

// hop is one call between agents that came without work. The ring of them is what cycles are
// shown by.
type hop struct {
	from, to uint8
	content  uint64 // 0 when not known
	n        uint32
}

// pair is a caller and its callee, and how the last rounds between them went.
type pair struct {
	from, to uint8
	open     bool
	// The two below are reset when a round begins and weighed when it ends.
	fresh bool   // the callee made a call in this round that it had not made before
	used  bool   // the callee used a tool in this round
	stale uint32 // last rounds, newest in bit 0: nothing new was done
	same  uint32 // and the answer was an old one, too
	// The ordinal of the event that began the last round; the least gives way when there are
	// too many pairs.
	lastSeen uint32
	answers  []answer
}

// answer is what a round brought: the hash of it and its fingerprint, 0 for what is not known.
type answer struct {
	hash uint64
	sim  uint64
}

// delegation is one message from one party to another and how often it was sent. The algorithm
// is kept beside the content because the order about it names the hash to dispatchers.
type delegation struct {
	from, to  uint8
	content   uint64
	algorithm events.HashAlgorithm
	count     uint16
	answer    uint64       // last answer; 0 when none is known
	answered  events.Stamp // when an answer last said something new without work; 0 for never
	n         uint32
}

// counter counts what has an id, which is kept as a hash.
type counter struct {
	id uint32
	n  uint32
}

// task counts the iterations of one task as the flow sees them; callers may report a larger
// figure.
type task struct {
	id       uint32
	loops    uint16
	reflects uint16
}

// offence is what a flow was stopped for. It outlives the episode: silence is no amnesty.
type offence struct {
	rule  RuleID
	count uint16
	last  events.Stamp
}

// flowOverride is another limit that a person gave one row of this flow. Warn and stop that
// are not set leave those of the limits file; the mode always counts.
type flowOverride struct {
	rule    RuleID
	mode    rules.Mode
	warn    events.Optional
	stop    events.Optional
	more    bool         // granted: it lowers no limit
	given   events.Stamp // 0 where an older weir wrote it
	expires events.Stamp
}

// anyGiven reports whether it is known of some limit of a person when it was given.
func (f *sanctions) anyGiven() bool {
	return slices.ContainsFunc(f.overrides, func(o flowOverride) bool { return o.given != 0 })
}

// Key returns the correlation id, or what stands for it (see events.Event.FlowKey).
func (f *identity) Key() string { return f.key }

// ServiceOf returns the service that a flow keeps for the source of its first event: the source, cut to
// 64 bytes.
func ServiceOf(source string) string { return record.Cut(source, maxService) }

// Events returns how many events were folded, over all episodes.
func (f *counts) Events() int64 { return int64(f.events) }

// Last returns the time of the latest event.
func (f *times) Last() events.Stamp { return f.last }

// Standing is how a flow stands by the strictest of its orders, but that Held comes first.
type Standing uint8

// The standings.
const (
	Free    Standing = iota // of orders
	Warned                  // by a warning, or by an order that waits for a limit to be passed
	Stopped                 // some call is refused
	Held                    // every call is refused until a person decides
	StandingCount
)

// Standing returns whether the flow is stopped, and how.
// An order in shadow mode stops no call and counts as a warning. It looks at no time: orders
// that have ended are dropped at their deadlines.
func (f *sanctions) Standing() Standing {
	s := Free
	for i := range f.orders {
		switch o := &f.orders[i]; {
		// Where the work going on lifts an order, nothing waits before a call was refused.
		case o.holdsFlow(), o.waits() && (o.Attempts > 0 || !Rules[o.rule].Lifts):
			return Held
		case o.Phase == standing.Stop && !o.Shadow:
			s = Stopped
		case o.Phase != 0:
			s = max(s, Warned)
		}
	}
	return s
}

// Spent returns what was spent in the episode that is counted by the first figure: tokens and
// millionths of a US dollar.
func (f *counts) Spent() (episode, tokens, cost int64) {
	return int64(f.episode), f.tokens[2], f.cost
}

// Calls returns how many calls of agents and tools the episode has made.
func (f *counts) Calls() int64 { return int64(f.hops) + int64(f.toolCalls) }

// Judged returns the reasons for which the flow was warned and stopped first, as far as it
// remembers: its orders end, and a user's message takes offences away. "" for none.
// The first of the offences is the oldest that is remembered. Who was stopped counts as warned
// for the same reason.
func (f *sanctions) Judged() (warned, stopped events.Reason) {
	if len(f.offences) > 0 {
		stopped = Rules[f.offences[0].rule].Reason
		return stopped, stopped
	}
	for i := range f.orders {
		if o := &f.orders[i]; o.Phase != 0 && !o.Shadow {
			return Rules[o.rule].Reason, ""
		}
	}
	return "", ""
}

// Reset forgets everything but keeps the memory of its slices.
// A pump decodes one flow after the other into the same Flow, so what one left behind in its
// slices is used by the next.
func (f *Flow) Reset(key string) {
	// What has no memory to keep is set to zero where it stands: to build a Flow and copy it here
	// would write all of it twice, for each event.
	ids, parties, tools, rate, ring, streakAt := f.ids, f.parties, f.tools, f.rate, f.ring, f.streakAt
	pairs, delegations, turnSeen, conversations, tasks := f.pairs, f.delegations, f.turnSeen, f.conversations, f.tasks
	orders, offences, incidents, overrides, marks, payers := f.orders, f.offences, f.incidents, f.overrides, f.marks, f.payers
	given := f.briefs
	*f = Flow{}
	f.key, f.pos = key, none
	// The parties behind the length keep their own slices; addParty finds them there.
	f.ids, f.parties, f.tools, f.rate, f.ring, f.streakAt = ids[:0], parties[:0], tools[:0], rate[:0], ring[:0], streakAt[:0]
	f.pairs, f.delegations, f.turnSeen, f.conversations, f.tasks = pairs[:0], delegations[:0], turnSeen[:0], conversations[:0], tasks[:0]
	f.orders, f.offences, f.incidents, f.overrides, f.marks, f.payers = orders[:0], offences[:0], incidents[:0], overrides[:0], marks[:0], payers[:0]
	f.briefs = given[:0]
}

// addParty makes room for one more party in the slice, reusing what an earlier
// flow left behind in it. Like Reset it builds nothing that is then copied.
func (f *cast) addParty() *party {
	n := len(f.parties)
	if n < cap(f.parties) {
		f.parties = f.parties[:n+1]
		p := &f.parties[n]
		calls, seen, runs, sums := p.calls, p.seen, p.runs, p.sums
		*p = party{}
		p.calls, p.seen, p.runs, p.sums = calls[:0], seen[:0], runs[:0], sums[:0]
		return p
	}
	f.parties = append(f.parties, party{})
	return &f.parties[n]
}

// addPair makes room for one more pair as addParty does for a party. The caller has looked at
// maxPairs.
func (f *talk) addPair() *pair {
	n := len(f.pairs)
	if n < cap(f.pairs) {
		f.pairs = f.pairs[:n+1]
		p := &f.pairs[n]
		answers := p.answers
		*p = pair{}
		p.answers = answers[:0]
		return p
	}
	f.pairs = append(f.pairs, pair{})
	return &f.pairs[n]
}

// newEpisode clears the counters. Orders stay active until they expire. Offences, repeated
// delegations and the data that identifies repeats stay.
// The parties stay, since orders and delegations name them by index.
func (f *Flow) newEpisode(at events.Stamp) {
	f.episode++
	f.start, f.waited = at, 0
	f.pos = none
	f.unique, f.hops, f.toolCalls, f.turns, f.cost, f.aged = 0, 0, 0, 0, 0, 0
	f.spawned, f.behind, f.strays = 0, 0, 0
	f.tokens, f.parts, f.wholes = [3]int64{}, [4]int64{}, [4]int64{}
	f.turnID = ""
	f.flags &^= flagDelta | flagEnded | flagTurnOpen | flagWorkUnknown
	f.rate, f.turnSeen, f.incidents = f.rate[:0], f.turnSeen[:0], f.incidents[:0]
	f.conversations, f.tasks = f.conversations[:0], f.tasks[:0]
	for i := range f.parties {
		p := &f.parties[i]
		p.parent = none
		p.flags &^= partyActive | partyWorked | partyPlaced | partyBeside
		p.revisits, p.called, p.chain, p.open = 0, 0, 0, 0
		p.course, p.job = course{}, job{}
	}
	f.clearPatterns(false)
}

// clearPatterns forgets windows, points, rounds and briefs. A user's event also clears
// the delegations, which silence does not.
func (f *Flow) clearPatterns(delegations bool) {
	f.clearHops()
	for i := range f.parties {
		p := &f.parties[i]
		p.calls, p.seen, p.runs, p.points = p.calls[:0], p.seen[:0], p.runs[:0], 0
		p.cycleRun = [maxPeriod + 1]uint16{}
	}
	f.pairs, f.briefs = f.pairs[:0], f.briefs[:0]
	if delegations {
		f.delegations = f.delegations[:0]
	}
}

// clearHops begins cycles, streaks and bursts of hops again. They go together, because all of
// them are about one run of hops.
func (f *hopWindow) clearHops() {
	f.ring, f.streak, f.streakAt = f.ring[:0], 0, f.streakAt[:0]
	f.pairRun, f.sameRun = [maxRing + 1]uint16{}, [maxRing + 1]uint16{}
}

// party returns the index of the party called name, adding it when it is new.
// It counts the party as one that takes part in the episode. To look up only, use findParty.
func (f *Flow) party(name string, human bool) uint8 {
	i := f.findParty(name)
	if i == none {
		i = f.makeParty(name)
	}
	p := &f.parties[i]
	p.lastSeen = f.events
	if human {
		p.flags |= partyHuman
	}
	if p.flags&partyActive == 0 {
		p.flags |= partyActive
		if p.flags&partyHuman == 0 && f.unique < 1<<15 {
			f.unique++
		}
	}
	return i
}

// placed reports whether the party called or was called in this episode.
func (f *cast) placed(i uint8) bool {
	return int(i) < len(f.parties) && f.parties[i].flags&partyPlaced != 0
}

// findParty returns the index of the party called name; none when the flow has not seen it, or
// has forgotten it. A walk over at most 32 names is quicker than a map that has to be built
// for each event.
func (f *cast) findParty(name string) uint8 {
	for i := range f.parties {
		if f.parties[i].name == name {
			return uint8(i)
		}
	}
	return none
}

// makeParty adds a party, which takes no part in the episode yet. Names are bounded together
// and not each for itself, because most are short and a record must not exceed MaxRecord. The
// memory of its slices is that of the party which gave way.
func (f *Flow) makeParty(name string) uint8 {
	total := len(name)
	for i := range f.parties {
		total += len(f.parties[i].name)
	}
	if len(f.parties) < maxParties && total <= maxPartyBytes {
		p := f.addParty()
		p.name, p.parent = name, none
		f.trimAgents()
		return uint8(len(f.parties) - 1)
	}
	// Full: the parties that were silent longest give way, those that control
	// passes through last of all.
	var victim uint8
	for {
		victim = f.silentParty()
		p := &f.parties[victim]
		// A report due for the party that goes must not be sent for the one that takes its index.
		f.unreported &^= 1 << victim
		f.forgetParty(victim)
		total -= len(p.name)
		*p = party{parent: none, calls: p.calls[:0], seen: p.seen[:0], runs: p.runs[:0], sums: p.sums[:0]}
		if total <= maxPartyBytes {
			p.name = name
			f.trimAgents()
			return victim
		}
	}
}

// silentParty chooses the party to forget next: of those off the stack the one silent longest,
// and one on the stack only when all are on it. Removing a party from the stack would shorten
// the depth.
func (f *callStack) silentParty() uint8 {
	victim, onStack := none, true
	for i := range f.parties {
		p := &f.parties[i]
		if p.name == "" {
			continue // gave way a moment ago
		}
		on := f.onStack(uint8(i))
		if victim == none || onStack && !on || onStack == on && p.lastSeen < f.parties[victim].lastSeen {
			victim, onStack = i, on
		}
	}
	return uint8(victim)
}

// forgetParty removes every mention of party i from the flow.
// It has to visit everything that names parties: a forgotten index soon belongs to another
// party, which would inherit orders and cycles.
func (f *Flow) forgetParty(i uint8) {
	for j := range f.parties {
		if f.parties[j].parent == i {
			// The stack closes over the gap, so that those below keep their way to the root.
			f.parties[j].parent = f.parties[i].parent
		}
	}
	if f.pos == i {
		f.pos = f.parties[i].parent
	}
	// uniqueSessions subtracts each party with this flag; without it the count has to fall
	// here.
	if f.parties[i].flags&partyBeside != 0 {
		f.unique--
	}
	f.clearHopsOf(i)
	for j := range f.rate {
		if f.rate[j].caller == i {
			f.rate[j].caller = none
		}
	}
	f.dropPairs(func(p *pair) bool { return p.from == i || p.to == i })
	n := 0
	for _, d := range f.delegations {
		if d.from != i && d.to != i {
			f.delegations[n] = d
			n++
		}
	}
	f.delegations = f.delegations[:n]
	f.briefs.forget(i)
	n = 0
	for j := range f.orders {
		if !f.orders[j].mentions(i) {
			f.orders[n], f.orders[j] = f.orders[j], f.orders[n] // no two may share the memory of their slices
			n++
		}
	}
	f.orders = f.orders[:n]
}

// clearHopsOf begins cycles and streaks again if the party stands in the ring. Others' work
// does not hide a cycle that the party is no part of.
func (f *hopWindow) clearHopsOf(i uint8) {
	for j := range f.ring {
		if f.ring[j].from == i || f.ring[j].to == i {
			f.clearHops()
			return
		}
	}
}

// dropPairs takes pairs out and keeps those that go behind the end, because their slices of
// answers are used again (see addPair).
func (f *talk) dropPairs(drop func(*pair) bool) {
	n := 0
	for j := range f.pairs {
		if drop(&f.pairs[j]) {
			continue
		}
		if n != j {
			f.pairs[n], f.pairs[j] = f.pairs[j], f.pairs[n]
		}
		n++
	}
	f.pairs = f.pairs[:n]
}

// tool returns the index of the tool called name, adding it when it is new. When
// the table is full, tools that stand in no window give way, then the first ones.
// As with parties, the names are bounded together, so more than one tool may have to go for a
// long name.
func (f *Flow) tool(name string) uint8 {
	total := len(name)
	for i := range f.tools {
		if f.tools[i] == name {
			return uint8(i)
		}
		total += len(f.tools[i])
	}
	if len(f.tools) < maxTools && total <= maxToolBytes {
		f.tools = append(f.tools, name)
		return uint8(len(f.tools) - 1)
	}
	for {
		victim := f.idleTool()
		f.forgetTool(victim)
		total -= len(f.tools[victim])
		f.tools[victim] = ""
		if total <= maxToolBytes {
			f.tools[victim] = name
			return victim
		}
	}
}

// idleTool chooses which tool is forgotten next: the first that stands in no window, else the
// first. Names that were just taken away are empty and are passed over.
func (f *cast) idleTool() uint8 {
	first := none
	for i := range f.tools {
		if f.tools[i] == "" {
			continue
		}
		if !f.toolInUse(uint8(i)) {
			return uint8(i)
		}
		if first == none {
			first = i
		}
	}
	return uint8(first)
}

// toolInUse reports whether a call that rules compare is of the tool.
func (f *cast) toolInUse(t uint8) bool {
	for i := range f.parties {
		for j := range f.parties[i].calls {
			if f.parties[i].calls[j].tool == t {
				return true
			}
		}
	}
	return false
}

// forgetTool takes every mention of the tool out of the flow. Its calls stay in their windows
// without a name, so that ordinals and paces go on; they are like no other call (see
// sameCall).
func (f *Flow) forgetTool(t uint8) {
	for i := range f.parties {
		p := &f.parties[i]
		for j := range p.calls {
			if p.calls[j].tool == t {
				p.calls[j].tool = none
			}
		}
		n := 0
		for _, r := range p.runs {
			if r.tool != t {
				p.runs[n] = r
				n++
			}
		}
		p.runs = p.runs[:n]
	}
	for i := range f.orders {
		f.orders[i].forgetTool(t)
	}
}

// episodeEnds returns when the episode is over if nothing more comes.
// The first event after that time begins another one; the flow itself has no deadline for it.
func (f *times) episodeEnds(l *Limits) events.Stamp { return f.last.Add(l.Flow.Idle) }

// ageOf is how old the episode is. For a flow that waits for a person, time stands still.
func (f *sanctions) ageOf(start, at events.Stamp) time.Duration {
	for i := range f.orders {
		if o := &f.orders[i]; o.holdsFlow() || o.lapsed {
			// Time does not pass from when the wait began, for a flow that waits and for one
			// that was halted because no person decided.
			at = min(at, max(o.Begun, start))
		}
	}
	return at.Sub(start)
}

// since is a time as the flow keeps it: milliseconds since the episode began.
// It is clamped to 0 before the start, where late events are, and to 49 days.
func (f *times) since(at events.Stamp) uint32 {
	return uint32(min(max(0, at-f.begun()), 1<<32-1))
}

// Clone returns a copy that shares nothing with f but its strings.
func (f *Flow) Clone() *Flow {
	c := new(Flow)
	f.copyTo(c)
	return c
}

// copyTo makes dst equal to f, keeping the memory of dst's slices.
// The two share no slice afterwards, so that either may be stepped. It is called for each ask
// (decision 9), which is why it must not allocate in the long run.
func (f *Flow) copyTo(dst *Flow) {
	old := *dst
	*dst = *f
	dst.ids = append(old.ids[:0], f.ids...)
	dst.tools = append(old.tools[:0], f.tools...)
	dst.rate = append(old.rate[:0], f.rate...)
	dst.ring = append(old.ring[:0], f.ring...)
	dst.streakAt = append(old.streakAt[:0], f.streakAt...)
	dst.delegations = append(old.delegations[:0], f.delegations...)
	dst.briefs = append(old.briefs[:0], f.briefs...)
	dst.turnSeen = append(old.turnSeen[:0], f.turnSeen...)
	dst.conversations = append(old.conversations[:0], f.conversations...)
	dst.tasks = append(old.tasks[:0], f.tasks...)
	dst.offences = append(old.offences[:0], f.offences...)
	dst.incidents = append(old.incidents[:0], f.incidents...)
	dst.overrides = append(old.overrides[:0], f.overrides...)
	dst.marks = append(old.marks[:0], f.marks...)
	dst.payers = append(old.payers[:0], f.payers...)
	dst.parties, dst.pairs, dst.orders = old.parties[:0], old.pairs[:0], old.orders[:0]
	for i := range f.parties {
		p, q := dst.addParty(), &f.parties[i]
		calls, seen, runs, sums := append(p.calls, q.calls...), append(p.seen, q.seen...), append(p.runs, q.runs...), append(p.sums, q.sums...)
		*p = *q
		p.calls, p.seen, p.runs, p.sums = calls, seen, runs, sums
	}
	for i := range f.pairs {
		p, q := dst.addPair(), &f.pairs[i]
		answers := append(p.answers, q.answers...)
		*p = *q
		p.answers = answers
	}
	for i := range f.orders {
		o, q := dst.addOrder(), &f.orders[i]
		edges, calls := append(o.edges, q.edges...), append(o.calls, q.calls...)
		*o = *q
		o.edges, o.calls = edges, calls
	}
}
