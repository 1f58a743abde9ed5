package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"weir/events"
)

// traffic is a log of agents made of a seed: most flows are honest and short, some run
// away, each in a way of its own, so that many rules speak. The same traffic gives the
// same records in the same order.
//
// Nothing of it is kept: records are made while they are produced, so a million of them
// take no memory but that of the plan.
type traffic struct {
	seed          uint64
	name          string // begins the ids of flows and events, to distinguish traffics
	events, flows int
	from, to      events.Stamp // all events happen in between
	bad           int          // further records that are no events
	reporters     int          // agents that say how they are, at most 100; they come on top of events
	runaway       float64      // share of the flows that run away, at most; 0 leaves it at a sixth
}

// record is one record for the topic of events.
// The key is that of the flow, as producers have to choose it. each uses one record for all
// of them; key and value are made anew.
type record struct {
	key, value []byte
	at         events.Stamp // when it happens, and when it is to be produced
	bad        bool
}

// step is one event of a flow, the n-th bad record when flow is -1, or what a reporter
// says when it is less.
// Only this is sorted, and the event is made of it later: it is small, and there are many.
type step struct {
	at   events.Stamp
	flow int32
	n    int32
}

// script is what happens in one flow.
// All that chance decides about a flow is decided when the plan is made.
type script struct {
	kind    int // of the flow; 0 is honest
	length  int
	gap     events.Stamp // mean time between events
	session bool         // parties are named by session and agent, else by agent alone
}

// The ways to run away, each a function of the number of the event.
// They are asked for n from 1 on; event 0 is always the user's. Kind k of a script is the
// one with index k-1.
var runaways = [...]func(f *flow, n int) events.Event{
	// Two agents that hand the same words, or other ones, to and fro.
	func(f *flow, n int) events.Event { return f.call(n, n%2, 1-n%2, uint64(n%2), events.No) },
	func(f *flow, n int) events.Event { return f.call(n, n%2, 1-n%2, uint64(n), events.No) },
	// The same task given away again and again, and answered.
	func(f *flow, n int) events.Event {
		if n%2 == 0 {
			return f.back(n, 1, 0, 7)
		}
		return f.call(n, 0, 1, 7, events.Unknown)
	},
	// A tool called with the same arguments for the same result.
	func(f *flow, n int) events.Event { return f.tool(n, 0, 5, 6, events.StatusOK) },
	// The same without results in the log.
	func(f *flow, n int) events.Event {
		ev := f.tool(2*n+1, 0, 5, 6, events.StatusOK)
		ev.ID = f.id(n)
		return ev
	},
	// Three tool calls in turn.
	func(f *flow, n int) events.Event {
		k := uint64(n+1) / 2 % 3
		return f.tool(n, int(k), k, k, events.StatusOK)
	},
	// A tool that brings the same error whatever it is asked.
	func(f *flow, n int) events.Event { return f.tool(n, 1, uint64(n+1)/2+100, 9, events.StatusError) },
	// A chain that grows deeper with each call.
	func(f *flow, n int) events.Event {
		ev := f.call(n, n-1, n, uint64(n), events.Yes)
		ev.TransferMode = events.ReturnToCaller // else it may be a pipeline that hands over
		return ev
	},
	// One agent that calls ever more others.
	func(f *flow, n int) events.Event {
		if n%2 == 0 {
			return f.back(n, n/2, 0, uint64(n))
		}
		return f.call(n, 0, n/2+1, uint64(n), events.Yes)
	},
	// An agent that calls itself at times.
	func(f *flow, n int) events.Event {
		if n%7 == 3 {
			ev := f.call(n, 1, 1, uint64(n), events.Unknown)
			ev.TransferMode = events.ReturnToCaller // else it may be a speaker who goes on
			return ev
		}
		return f.honest(n)
	},
	// Work given to one agent faster than anybody works.
	func(f *flow, n int) events.Event { return f.call(n, 0, 1, uint64(n), events.Yes) },
	// A burst of hops without work among four agents.
	func(f *flow, n int) events.Event { return f.call(n, (n-1)%4, n%4, uint64(n), events.No) },
	// One turn with ever more tool calls, all different.
	func(f *flow, n int) events.Event {
		ev := f.tool(n, 2, uint64(n+1)/2+1000, uint64(n+1)/2+1000, events.StatusOK)
		ev.TurnID = "1"
		return ev
	},
	// Calls without a correlation id, a few at a time.
	func(f *flow, n int) events.Event {
		ev := f.honest(n)
		if n%5 == 4 && ev.Kind == events.AgentCall {
			ev.CorrelationID = ""
		}
		return ev
	},
}

// each calls fn with the records in the order of time.
// The record is good until fn returns, whose error ends it.
func (t *traffic) each(fn func(r *record) error) error {
	scripts, steps := t.plan()
	var r record
	for _, s := range steps {
		var ev events.Event
		switch {
		case s.flow == -1:
			r = t.badRecord(int(s.n), s.at)
		case s.flow < 0:
			ev = t.report(int(reporter(0)-s.flow), int(s.n))
			ev.Time = s.at
			r = record{key: []byte(ev.FlowKey()), value: ev.AppendJSON(nil), at: s.at}
		default:
			f := flow{t: t, n: int(s.flow), script: scripts[s.flow]}
			ev = f.event(int(s.n))
			ev.Time = s.at
			if mix(t.seed, uint64(s.flow), uint64(s.n))%2000 == 0 {
				// One event in two thousand. It is produced in its turn all the same; the
				// fold has to bound what it says.
				ev.Time += 600_000 // a clock that is ten minutes ahead
			}
			r = record{key: []byte(ev.FlowKey()), value: ev.AppendJSON(nil), at: s.at}
		}
		if err := fn(&r); err != nil {
			return err
		}
	}
	return nil
}

// It is how many events one has on average.
const runawayLength = 45

// plan says which events of which flows happen when.
// The numbers add up: exactly t.events events in exactly t.flows flows, each of at least
// one, and what chance left over is dealt out one by one.
func (t *traffic) plan() ([]script, []step) {
	random := rand.New(rand.NewPCG(t.seed, 1))
	mean := float64(t.events) / float64(t.flows)
	// With few events for each flow there is not room for as many runaways.
	share := min(0.15, mean/4/runawayLength) // of flows that run away: a quarter of the events, at most
	if t.runaway > 0 {
		share = min(share, t.runaway)
	}
	// The length of the other flows, so that the mean over all comes out.
	honest := (mean - share*runawayLength) / (1 - share)
	scripts := make([]script, t.flows)
	left := t.events
	for i := range scripts {
		// The mean pauses are in ms: rules about rates and about silence need both ends.
		s := script{gap: []events.Stamp{300, 2000, 9000}[random.IntN(3)], session: random.IntN(2) == 0}
		if random.Float64() < share {
			s.kind, s.length = 1+random.IntN(len(runaways)), runawayLength/2+random.IntN(runawayLength)
		} else {
			s.length = max(1, int(honest/2+honest*random.Float64()+0.5))
		}
		s.length = min(s.length, max(0, left-(t.flows-i-1))) // one event each for those that follow
		scripts[i], left = s, left-s.length
	}
	for i := 0; left > 0; i, left = (i+1)%t.flows, left-1 {
		scripts[i].length++
	}
	steps := make([]step, 0, t.events+t.bad)
	for i := range scripts {
		s := &scripts[i]
		// A flow has to fit into the time of the traffic, and goes faster if it does not.
		length := min(float64(s.gap)*float64(s.length), 0.9*float64(t.to-t.from))
		start := float64(t.from) + random.Float64()*(float64(t.to-t.from)-length)
		at := start
		for n := range s.length {
			steps = append(steps, step{min(events.Stamp(at), t.to), int32(i), int32(n)})
			at += 2 * random.Float64() * length / float64(s.length)
		}
	}
	for n := range t.bad {
		steps = append(steps, step{t.from + events.Stamp(random.Int64N(int64(t.to-t.from))), -1, int32(n)})
	}
	steps = append(steps, t.reporterSteps(random)...)
	// Flow and number decide between steps of the same millisecond, so the order is the
	// same wherever the traffic is made.
	slices.SortFunc(steps, func(a, b step) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.flow, b.flow), cmp.Compare(a.n, b.n))
	})
	return scripts, steps
}

// flow makes the events of one flow.
// It is made anew for each event; what an event says follows from the seed and the numbers.
type flow struct {
	t *traffic
	n int
	script
}

// event is the n-th event of the flow, without its time.
func (f *flow) event(n int) events.Event {
	repeat := n > 3 && mix(f.t.seed+1, uint64(f.n), uint64(n))%1000 == 0
	if repeat { // a producer that sent an event again
		// The same id again, with the same bytes but for the time: the fold has to drop it.
		n--
	}
	var ev events.Event
	switch {
	case n == 0:
		ev = f.begin(0, events.AgentCall)
		ev.Origin, ev.To = events.OriginUser, f.party(0)
		ev.Content = hash(mix(f.t.seed, uint64(f.n), 0))
	case f.kind > 0:
		ev = runaways[f.kind-1](f, n)
	// Half of the honest flows say that they end; the others fall silent, as many programs
	// do.
	case n == f.length-1 && f.n%2 == 0:
		ev = f.begin(n, events.FlowEnd)
	default:
		ev = f.honest(n)
	}
	return ev
}

// honest is delegation to one of three workers, which use tools, think and answer.
// It repeats after six events. Questions and answers are new each time, so that no rule
// triggers.
func (f *flow) honest(n int) events.Event {
	worker, fresh := 1+n/6%3, mix(f.t.seed, uint64(f.n), uint64(n+1)/2)
	switch n % 6 {
	case 1:
		return f.call(n, 0, worker, fresh, events.Yes)
	case 3, 4:
		return f.tool(n, int(fresh%5), fresh, fresh, events.StatusOK)
	case 2:
		ev := f.begin(n, events.LLMCall)
		ev.From, ev.Model, ev.Provider, ev.Status, ev.DurationMS = f.party(worker), "large-2", "lab", events.StatusOK, float64(fresh%5000)
		ev.Usage = events.Usage{Known: true, Input: int64(fresh % 4000), Output: int64(fresh % 700)}
		return ev
	case 5:
		return f.back(n, worker, 0, fresh)
	}
	ev := f.begin(n, events.TurnStart)
	ev.From, ev.TurnID = f.party(0), fmt.Sprint(n/6)
	return ev
}

// begin is what all events of a flow have.
func (f *flow) begin(n int, kind events.Kind) events.Event {
	return events.Event{ID: f.id(n), Source: "urn:agents:trial", Kind: kind, CorrelationID: f.key(), Origin: events.OriginAgent}
}

// key is the id of the flow: unlike those of its neighbors, so that flows that begin
// together stand in all partitions.
func (f *flow) key() string { return fmt.Sprintf("%s-%016x", f.t.name, mix(f.t.seed, uint64(f.n))) }

// id is the id of its n-th event, by which a repeat is recognized.
func (f *flow) id(n int) string { return fmt.Sprintf("%s-%d-%d", f.t.name, f.n, n) }

// party is the i-th one of the flow. There are 500 agents, so one takes part in many flows,
// which is what rules about agents need; sessions are the flow's own.
func (f *flow) party(i int) events.Party {
	i = max(i, 0)
	p := events.Party{Agent: fmt.Sprintf("agent-%d", (f.n*7+i)%500)}
	if f.session {
		p.Session = fmt.Sprintf("session-%d-%d", f.n, i)
	}
	return p
}

// call is one agent calling another with some words; equal content is equal words, within
// this flow only. worked says whether work was done since, if the producer says it.
func (f *flow) call(n, from, to int, content uint64, worked events.Tri) events.Event {
	ev := f.begin(n, events.AgentCall)
	ev.From, ev.To, ev.MessageID = f.party(from), f.party(to), ev.ID
	ev.Content, ev.HadWork = hash(content+uint64(f.n)<<20), worked
	return ev
}

// back is the answer to a call.
func (f *flow) back(n, from, to int, content uint64) events.Event {
	ev := f.begin(n, events.AgentReturn)
	ev.From, ev.To, ev.Status, ev.Content = f.party(from), f.party(to), events.StatusOK, hash(content+uint64(f.n)<<20)
	return ev
}

// tool is a call when n is odd or its result when n is even, of the worker.
func (f *flow) tool(n, which int, args, result uint64, status events.Status) events.Event {
	kind := events.ToolCall
	if n%2 == 0 {
		kind = events.ToolResult
	}
	ev := f.begin(n, kind)
	ev.From = f.party(1)
	ev.Tool = events.Tool{Name: [...]string{"search", "edit", "run_tests", "fetch", "query"}[which%5], CallID: fmt.Sprintf("call-%d", (n+1)/2), ArgsHash: hash(args + 1)}
	if kind == events.ToolResult {
		ev.Status, ev.Content, ev.DurationMS = status, hash(result+uint64(f.n)<<20), float64(n%50)
		if status == events.StatusError {
			ev.ErrorType = "not_found"
		}
	}
	return ev
}

// hash stands for the hash of a text: no text is made.
func hash(v uint64) events.Hash { return events.Hash{Algorithm: events.XXH64, Value: mix(v, 3)} }

// badRecord is a record that cannot be decoded; its number stands in it.
// Six ways not to be an event, in turn: no JSON, JSON that breaks off, a field that is
// missing, a time that is none, a kind that is none, and JSON that is no object.
func (t *traffic) badRecord(n int, at events.Stamp) record {
	mark := t.mark(n)
	text := [...]string{
		`%s is not JSON`,
		`{"id":%q,"kind":"agent.call"`,
		`{"id":%q,"time":"2026-11-20T14:00:00Z","kind":"agent.call","correlation_id":"x"}`,
		`{"id":%q,"time":"yesterday","kind":"tool.call"}`,
		`{"id":%q,"time":"2026-11-20T14:00:00Z","kind":"no.such.kind"}`,
		`["%s"]`,
	}[n%6]
	return record{key: []byte(mark), value: fmt.Appendf(nil, text, mark), at: at, bad: true}
}

// mark is the text by which the n-th bad record is known.
func (t *traffic) mark(n int) string { return fmt.Sprintf("bad-%s-%06d", t.name, n) }

// mix is a hash of its arguments (the finalizer of splitmix64, chained).
// Unlike a generator it needs no state, so any event can be made without those before it.
func mix(values ...uint64) (h uint64) {
	for _, v := range values {
		h += v + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}
