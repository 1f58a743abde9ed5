package otlp

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"weir/events"
	"weir/events/adapter"
)

// trace is what is held back and remembered of one trace.
// It belongs to one reader, and is for its goroutine.
//
// It lives from its first span until it was silent for Options.Hold, and while others may go
// on with it for longer.
type trace struct {
	// An id that was joined has no trace of its own, see reader.partOf.
	id    string // 32 lower-case hex digits
	place int64  // of the record with its first span
	reach int64  // that of the oldest trace that it depends on
	// spans are all that are remembered, also those that were emitted, as parents of what comes.
	spans   map[uint64]*span
	pending []*span // not emitted yet
	newest  int64   // end of the span that ended last, of those whose time is borne out
	oldest  int64   // end of the first span of those not emitted

	seen    int64               // how much time had passed when the last span came, in ms
	touched bool                // spans came with the record that is read
	rooted  bool                // the root has come
	emitted bool                // and was emitted, with all below it that had come
	begun   bool                // something was emitted
	awaited map[uint64]struct{} // parents that have not come
	cause   *span               // a root that is linked to another trace
	joined  []string            // ids of the traces that became part of this one
	parent  string              // the flow that a trace descends from which became no part of that one's
	opens   bool                // another trace descends from this one

	// alone is the conversation of a trace whose root is a call of a tool or a request to a model.
	// Where the run around the calls is not traced, each call is a trace, and only the conversation
	// connects those that belong together.
	alone string

	// goesOn is the trace whose flow this one goes on with, see dialogue.
	goesOn string

	baggage string // what the flow may be called, as far as any span said
	session string
	talk    string
	turn    string
	tags    []string

	// What was found out while events were emitted, in the order of time.
	runs    []*span            // the last runs of agents without an agent above them, by start
	answers []*span            // runs whose answer no agent took yet: it goes to the user
	worked  adapter.Work       // agents that did work, or may have, since they were called, or called another agent
	said    map[string]*span   // the last handoff of an agent
	passed  map[string][]*span // handoffs that were emitted although no agent had followed them, by agent
}

// Bounds of what is remembered of one trace, whatever its spans say.
const (
	maxRuns    = 32  // runs that one may follow on
	maxParties = 256 // agents of one trace of which more than their name is remembered
	maxUp      = 256 // spans above each other
)

// call is how an agent came to run.
// It is kept with the run, whose answer needs it.
//
// agent is "" for the user and the program, which have no name within the trace.
type call struct {
	from    events.Party
	origin  events.Origin
	mode    events.TransferMode
	agent   string // caller, as it is named within the trace; empty for none
	returns bool   // the answer goes back to the caller
	silent  bool   // it is the run before, continued
}

// above is what lies above a span, up to the next agent.
// It is worked out anew each time, because parents come late.
//
// It ends at the nearest visit: what lies above that is its own.
type above struct {
	visit    *span
	carrier  *span // the first tool on the way
	executor *span // the first executor on the way
	workflow bool  // a workflow lies on the way
	missing  bool  // a span on the way has not come
}

// above walks up from a span, at most maxUp steps, so that a circle of parents ends.
func (t *trace) above(s *span) (a above) {
	for range maxUp {
		p := t.spans[s.parent]
		if p == nil {
			// A parent in another process may never come: many programs are called
			// by one that is not traced here.
			a.missing = s.parent != 0 && !s.remote
			return a
		}
		s = p
		switch s.kind {
		case visit:
			a.visit = s
			return a
		case toolUse:
			a.carrier = cmp.Or(a.carrier, s)
		case executor:
			a.executor = cmp.Or(a.executor, s)
		case workflow:
			a.workflow = true
		}
	}
	return a
}

// isLinked reports whether another trace may go on with this one.
// Such traces are remembered for longer, see patience.
func (t *trace) isLinked() bool { return t.cause != nil || len(t.joined) > 0 }

// container is the span below which runs follow each other: the parent, unless that
// is only the wrapper of a single run.
//
// Runs in one container are those of one workflow; 0 is the root.
func (t *trace) container(s *span) uint64 {
	for range maxUp {
		p := t.spans[s.parent]
		if p == nil || p.kind != executor && p.kind != node {
			break
		}
		s = p
	}
	return s.parent
}

// prepare finds the facts that need a look at several spans. It may be called
// again when more spans have come.
//
// It works on all spans of the trace, so it is called once for each round of emitting. Emitted
// spans keep the kind and the name that they were emitted with.
func (t *trace) prepare() {
	ordered := slices.SortedFunc(maps.Values(t.spans), byStart)

	// The order of the steps matters: names before places, and both before tools.
	t.straighten(ordered)
	t.nameSpeakers(ordered)
	t.dropUnnamed(ordered)
	for _, s := range ordered {
		if s.kind == inference {
			t.promote(s)
		}
	}
	var agents []string
	for _, s := range ordered {
		if s.kind == visit {
			t.nameByPlace(s)
			agents = append(agents, s.agent)
			// One run that two libraries report is one visit.
			if up := t.above(s); up.visit != nil && up.carrier == nil && up.visit.agent == s.agent {
				// Of two the one that was not emitted gives way.
				if s.emitted {
					s = up.visit
				}
				s.kind = plain
			}
		}
	}
	// Sorted and once each, for sortOut.
	slices.Sort(agents)
	agents = slices.Compact(agents)
	for _, s := range ordered {
		switch s.kind {
		// A tool that ran an agent is reported by the run.
		case visit:
			if up := t.above(s); up.carrier != nil {
				up.carrier.carrier = true
			}
		case toolUse:
			t.sortOut(s, agents)
		case inference:
			// Of two nested spans for one request the one with tokens counts.
			// Else its tokens would count twice.
			if p := t.spans[s.parent]; p != nil && p.kind == inference && s.usage.Known {
				p.kind = plain
			}
		}
	}
	t.nestUsage(ordered)
}

// byStart orders spans by their beginnings. An outer span goes before an inner one that begins
// with it.
//
// The last resort is the id, so that the order depends on nothing else.
func byStart(a, b *span) int {
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end), cmp.Compare(a.id, b.id))
}

// straighten moves the ends of spans behind those of the spans within, where clocks
// of milliseconds have them the other way round.
//
// It goes from the inside to the outside, so that a parent's own end is moved before its
// parent's.
func (t *trace) straighten(ordered []*span) {
	// Two milliseconds: more is no rounding.
	const inexact = 2e6 // ns
	for _, s := range slices.Backward(ordered) {
		for p, n := t.spans[s.parent], 0; p != nil && n < maxUp; p, n = t.spans[p.parent], n+1 {
			if p.end >= s.end || s.end-p.end > inexact {
				break
			}
			p.end = s.end
		}
	}
}

// dropUnnamed takes spans that look like an agent, but are only called like one,
// for what they are where the same library names its agents: the run as a whole.
// See frameworks: without a name the agent was called as its span.
//
// The scope is the library's name: where one of its spans names an agent, all its agents do.
func (t *trace) dropUnnamed(ordered []*span) {
	names := map[string]bool{}
	for _, s := range ordered {
		if s.kind == visit && s.named || s.kind == node {
			names[s.scope] = true
		}
	}
	for _, s := range ordered {
		if s.kind == visit && !s.named && s.agent != "" && names[s.scope] {
			s.kind = plain
		}
	}
}

// nameByPlace gives a run without a name that of its component or tool (Haystack). Only a run
// below another such run needs one, to be distinct.
//
// A run that was emitted keeps its name.
func (t *trace) nameByPlace(s *span) {
	if s.agent != "" || s.emitted {
		return
	}
	if p := t.spans[s.parent]; p != nil && p.kind == plain && p.named {
		s.agent = p.agent
		return
	}
	switch up := t.above(s); {
	case up.carrier != nil:
		s.agent = up.carrier.tool.Name
	case up.visit != nil && up.visit.scope == s.scope && isHaystack(s.scope):
		s.agent = adapter.Word([]byte(agentOf(up.visit)+"/agent"), events.MaxID)
	}
}

// promote makes a node of a graph an agent when it asks a model itself.
// The nearest node counts, and an agent on the way has the request for itself.
//
// The node's own span cannot show it, because it ends after the request.
func (t *trace) promote(s *span) {
	for range maxUp {
		if s = t.spans[s.parent]; s == nil || s.kind == visit {
			return
		}
		if s.kind == node {
			s.kind = visit
			return
		}
	}
}

// nameSpeakers names the steps of a workflow without names of agents (see llamaIndex). A step gets
// the name before it, or that of another step with the same system prompt.
//
// LlamaIndex alone needs it. Steps are gone through twice: first each prompt gets a name, then
// each step the name of its prompt.
func (t *trace) nameSpeakers(ordered []*span) {
	type step struct{ name, cut string }
	var before step
	// prompts is by the hash of the prompt, and prompt by the step.
	prompts := map[events.Hash]step{}
	prompt := map[*span]events.Hash{}
	steps := []*span(nil)
	for _, s := range ordered {
		if s.scope != scopeLlamaIndex {
			continue
		}
		// The first request of a step has its prompt.
		if s.kind == inference && !s.prompt.IsZero() {
			if up := t.above(s); up.visit != nil && up.visit.speaks && prompt[up.visit].IsZero() {
				prompt[up.visit] = s.prompt
			}
		}
		switch {
		case s.speaks:
			steps = append(steps, s)
			if !s.emitted {
				s.agent = s.speaker
			}
			if s.agent == "" {
				s.agent, s.cut = before.name, cmp.Or(s.cut, before.cut)
			}
			// A name counts for the step behind it alone.
			before = step{}
		case s.kind == plain && (s.speaker != "" || s.cut != ""):
			before = step{s.speaker, s.cut}
		}
	}
	for _, s := range steps {
		if p := prompt[s]; !p.IsZero() {
			known := prompts[p]
			prompts[p] = step{cmp.Or(known.name, s.agent), cmp.Or(known.cut, s.cut)}
		}
	}
	for _, s := range steps {
		known := prompts[prompt[s]]
		workflow, _, _ := strings.Cut(s.name, ".")
		// The last resort is the name of the workflow.
		s.agent = cmp.Or(s.agent, known.name, s.cut, known.cut, workflow)
	}
}

// sortOut decides whether a tool passes control to one of the agents, and whether
// it is a call of its own.
// agents are the names of all agents of the trace, sorted.
//
// It is called each time more spans have come, so an agent that comes late still makes a
// handoff of the tool.
func (t *trace) sortOut(s *span, agents []string) {
	s.passes = s.surely
	if s.handoff != "" {
		for _, agent := range agents {
			if alike(agent, s.handoff) {
				s.handoff, s.passes = agent, true
				break
			}
		}
	}
	// Only up to the next agent: beyond it, an equal name is another call.
	p := t.spans[s.parent]
	for n := 0; p != nil && p.kind != visit && n < maxUp; n++ {
		if p.kind == toolUse && p.tool.Name == s.tool.Name {
			s.kind = plain // the same call, reported by the client of the tool's server
			return
		}
		p = t.spans[p.parent]
	}
}

// shrink forgets the spans that ended first, until most are left, and returns how
// many it forgot. All spans must have been emitted.
// Those that come later and name a forgotten parent are emitted as if it had not come.
//
// It is called for a trace that holds more than its share of all spans.
func (t *trace) shrink(most int) int {
	ordered := slices.SortedFunc(maps.Values(t.spans), func(a, b *span) int {
		return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.id, b.id))
	})
	forgotten := max(0, len(ordered)-most)
	for _, s := range ordered[:forgotten] {
		delete(t.spans, s.id)
	}
	// No span waits any more, or the trace would never be complete.
	clear(t.awaited)
	return forgotten
}
