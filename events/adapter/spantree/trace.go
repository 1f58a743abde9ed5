package spantree

import (
	"cmp"
	"maps"
	"slices"
	"weir/events/adapter"
)

// Without these bounds a log could make each span cost as much as all before it.
const (
	maxUp      = 256 // spans above each other
	maxParties = 256 // agents of one trace of which more than their name is remembered
)

// trace is what is held back and remembered of one trace.
type trace struct {
	id    string
	place int64 // of the record with its first span
	reach int64 // that of the oldest trace that it depends on, which is place if there is none
	// names are the first of each kind in any record.
	names Names
	// spans are all remembered spans, emitted or not, since later ones lie below them.
	spans map[string]*node
	// An entry without marks says that the parent is missed: the trace is complete when there
	// is none.
	awaited map[string]mark // parents that have not come, and what lies below them
	pending []moment        // not emitted yet
	// pending is in the order of time.
	sorted  bool
	newest  int64 // of all moments whose time is borne out, see adapter.Elapsed
	oldest  int64 // of those that were not emitted
	blocked int64 // the moment that waits for its span to be decided; 0 for none
	// For traces that are silent, see bound.
	seen int64 // how much time had passed when the last span came, in ms
	// It is in Tree.touched.
	touched bool
	begun   bool // an agent was called
	opens   bool // another trace, which descends from this one

	// The next four are state that emitted moments leave for later ones.
	worked  adapter.Work     // agents that did work since they were called, or called another agent
	said    map[string]*node // by group: the handoff that no agent has followed yet
	last    map[string]*node // by group: the agent that ran last
	current *node            // the agent that was called last
}

// moment is the beginning or the end of a span.
//
// A span has two moments, of which the second comes when its end is known.
type moment struct {
	at    int64
	begin bool
	node  *node
}

// add takes a span, or more of one that is known.
func (t *trace) add(r Span) {
	n, again := t.spans[r.ID]
	if again {
		// Both ends were reported: a repeated record changes nothing.
		if n.ended && n.begun {
			return
		}
		// What a span is may show only at its end.
		before := n.Kind
		n.learn(&r)
		if before != n.Kind {
			t.spread(n)
		}
	} else {
		// A span that is its own parent would be climbed for ever.
		if r.Parent == r.ID {
			r.Parent = ""
		}
		n = &node{Span: r}
		n.Start = cmp.Or(r.Start, r.End)
		t.spans[r.ID] = n
		// Both moments are pending until Settle allows them.
		t.push(n.Start, true, n)
		// Its children came before it, and said what they are.
		if below, ok := t.awaited[r.ID]; ok {
			delete(t.awaited, r.ID)
			t.spreadMark(n, n.take(below))
		}
		if _, ok := t.spans[r.Parent]; !ok && r.Parent != "" {
			t.awaited[r.Parent] |= 0
		}
		t.spread(n)
	}
	if n.End != 0 && !n.ended {
		// Clocks of two machines may put the end first.
		n.End = max(n.End, n.Start)
		n.ended = true
		t.push(n.End, false, n)
	}
}

// push adds a moment; sort puts it into its place before events are emitted.
//
// oldest is kept separately, so that Settle can find the longest wait without a sort.
func (t *trace) push(at int64, begin bool, n *node) {
	t.pending = append(t.pending, moment{at, begin, n})
	t.sorted = false
	if len(t.pending) == 1 || at < t.oldest {
		t.oldest = at
	}
}

// spread marks the spans above with the kind of the span.
func (t *trace) spread(n *node) {
	switch n.Kind {
	case Agent:
		t.spreadMark(n, hosts)
	case Inference:
		t.spreadMark(n, asks)
	}
}

// spreadMark gives the spans above a mark. A cycle of parents ends at maxUp.
func (t *trace) spreadMark(n *node, m mark) {
	for i := 0; i < maxUp && m != 0; i++ {
		p := t.spans[n.Parent]
		if p == nil {
			if n.Parent != "" {
				t.awaited[n.Parent] |= m
			}
			return
		}
		n, m = p, p.take(m)
	}
}

// sort puts the moments into the order of time. At one instant what ends makes room
// for what begins, an outer span begins before and ends after an inner one.
func (t *trace) sort() {
	if t.sorted {
		return
	}
	class := func(m moment) int {
		switch {
		case m.begin:
			return 1
		case m.node.Start < m.at:
			return 0
		}
		return 2 // it began at this instant, too
	}
	slices.SortStableFunc(t.pending, func(a, b moment) int {
		if a.at != b.at {
			return cmp.Compare(a.at, b.at)
		}
		by := cmp.Compare(class(a), class(b))
		switch {
		case by != 0:
		case a.begin:
			by = cmp.Compare(t.depth(a.node), t.depth(b.node))
		default:
			by = cmp.Compare(t.depth(b.node), t.depth(a.node))
		}
		// The id decides in the end, so that the order is the same for all batches.
		return cmp.Or(by, cmp.Compare(a.node.Start, b.node.Start), cmp.Compare(a.node.ID, b.node.ID))
	})
	t.sorted = true
}

// depth is how many spans lie above one. A span whose parents have not come is taken for an
// outer one.
func (t *trace) depth(n *node) int {
	depth := 0
	for ; depth < maxUp; depth++ {
		if n = t.spans[n.Parent]; n == nil {
			break
		}
	}
	return depth
}

// above is what lies above a span, up to the next agent.
// It is worked out anew each time, since parents may come late.
type above struct {
	agent   *node
	carrier *node // the first tool on the way
	top     *node // the span at which the way ended
}

// above walks up from a span, at most maxUp steps.
func (t *trace) above(n *node) (a above) {
	for range maxUp {
		a.top = n
		p := t.spans[n.Parent]
		if p == nil {
			return a
		}
		switch p.Kind {
		case Agent:
			a.agent = p
			return a
		case Tool, Handoff:
			a.carrier = cmp.Or(a.carrier, p)
		}
		n = p
	}
	return a
}

// group is the span below which agents follow each other: the parent, unless that is
// the node of a graph in which only this agent runs.
//
// It is "" for the root.
func (t *trace) group(n *node) string {
	for range maxUp {
		p := t.spans[n.Parent]
		if p == nil || p.Kind != Node {
			break
		}
		n = p
	}
	return n.Parent
}

// shrink forgets the spans of a trace that ended first, until most remain, and returns how
// many it forgot. All moments must have been emitted.
// It keeps half of the bound, so that it does not run for each span of a long trace.
func (t *Tree) shrink(tr *trace, most int) int {
	// A span without an end counts from its start.
	end := func(n *node) int64 { return cmp.Or(n.End, n.Start) }
	ordered := slices.SortedFunc(maps.Values(tr.spans), func(a, b *node) int {
		return cmp.Or(cmp.Compare(end(a), end(b)), cmp.Compare(a.ID, b.ID))
	})
	forgotten := ordered[:max(0, len(ordered)-most)]
	for _, n := range forgotten {
		delete(tr.spans, n.ID)
		t.lose(tr, n.ID)
	}
	// What was awaited for half the spans is not waited for any more.
	for id := range tr.awaited {
		t.lose(tr, id)
	}
	clear(tr.awaited)
	clear(tr.said)
	clear(tr.last)
	return len(forgotten)
}
