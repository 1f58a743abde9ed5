// Package ledger adds up what a tree of flows has spent. The sums are exact in whatever order the flows report. A
// reserve for a child is released when the child ends or falls silent. A ledger is small: it keeps only the children
// with the latest reports one by one.
package ledger

import (
	"encoding/binary"
	"slices"

	"weir/analyzer/record"
	"weir/events"
)

// What is counted of a tree.
const (
	Calls = iota // of agents and tools
	Tokens
	Cost // millionths of a US dollar
	Amounts
)

// Amount is so much of each thing that is counted.
type Amount [Amounts]int64

// MaxChildren is how many children are remembered one by one. When there are more, the one
// that was silent longest gives way: what it spent stays in the sum, what was set aside for
// it comes back.
const MaxChildren = 384

// maxGone is of how many children that are remembered no more it is known that they started before.
// One that comes back later counts as another one.
const maxGone = 512

// most keeps sums of sums from overflowing.
const most = 1 << 60

// Ledger is what one tree has spent since it began. The zero Ledger is one that has not begun.
type Ledger struct {
	Start events.Stamp // 0 before anything was spent
	Last  events.Stamp // when something was spent, or tried, last
	Spent Amount       // by all flows of the tree, the root's own included
	// Started is how many flows below the root have appeared so far, those that ended included.
	Started int64
	// A list and no map: it is looked through often and is never long, and its order is part of
	// the record.
	children []Child  // in the order in which they appeared
	gone     []uint32 // what short makes of those that are remembered no more, the last maxGone
}

// Child is a flow below the root that was heard of lately.
type Child struct {
	// flow is a hash of the flow's key; parent is what short makes of that of the flow above, 0
	// for the root.
	flow       uint64
	parent     uint32
	Seen       events.Stamp // when it was heard of last
	NotifiedAt events.Stamp // when its flow was last notified that the tree has no room for it; 0 for never
	Spent      Amount
	Nth        int64 // which of all that started it is, from 1; 0 where an older record does not say
}

// Reset forgets everything but keeps the memory.
func (l *Ledger) Reset() { *l = Ledger{children: l.children[:0], gone: l.gone[:0]} }

// Began reports whether the tree has any report.
func (l *Ledger) Began() bool { return l.Start != 0 }

// Begin begins the tree anew at a time.
func (l *Ledger) Begin(at events.Stamp) {
	l.Reset()
	l.Start, l.Last = at, at
}

// Child returns the child with a flow of that hash; nil for one that is not remembered.
// The pointer is good until a child is added or taken out.
func (l *Ledger) Child(flow uint64) *Child {
	for i := range l.children {
		if l.children[i].flow == flow {
			return &l.children[i]
		}
	}
	return nil
}

// Hear notes that a flow below the root was heard of at a time, and returns it. The parent is
// 0 for a flow that the root itself opened.
func (l *Ledger) Hear(flow, parent uint64, at events.Stamp) *Child {
	c := l.Child(flow)
	if c == nil {
		if len(l.children) == MaxChildren {
			l.ForgetOldest()
		}
		l.children = append(l.children, Child{flow: flow})
		c = &l.children[len(l.children)-1]
		if !l.Known(flow) {
			l.Started++
		}
		c.Nth = l.Started
	}
	// A reported parent stays: an event that names no parent does not contradict it.
	if parent != 0 {
		c.parent = short(parent)
	}
	c.Seen = max(c.Seen, at)
	return c
}

// Spend adds to what the tree has spent; c is the child that spent it, nil for the root.
// Figures come from producers, which may report anything. Negative figures count as zero, and
// sums stop at a bound.
func (l *Ledger) Spend(c *Child, n Amount) {
	for i := range n {
		l.Spent[i] = min(most, l.Spent[i]+max(0, n[i]))
		if c != nil {
			c.Spent[i] = min(most, c.Spent[i]+max(0, n[i]))
		}
	}
}

// End takes a child out that has ended: nothing is set aside for it any more.
// What it has spent stays in the sum.
func (l *Ledger) End(flow uint64) {
	for i := range l.children {
		if l.children[i].flow == flow {
			l.leave(i)
			return
		}
	}
}

// leave takes a child out, and remembers that it started.
func (l *Ledger) leave(i int) {
	l.goes(l.children[i].flow)
	l.children = slices.Delete(l.children, i, i+1)
}

// goes notes that a child started, in the place of the first of too many.
func (l *Ledger) goes(flow uint64) {
	if len(l.gone) == maxGone {
		l.gone = l.gone[:copy(l.gone, l.gone[1:])]
	}
	l.gone = append(l.gone, short(flow))
}

// Known reports whether a flow below the root has started before, as far as that is remembered.
func (l *Ledger) Known(flow uint64) bool { return slices.Contains(l.gone, short(flow)) }

// Forget takes those children out that were not heard of since a time.
// The order of the others stays.
func (l *Ledger) Forget(since events.Stamp) {
	n := 0
	for i := range l.children {
		if l.children[i].Seen > since {
			if n != i {
				l.children[n] = l.children[i]
			}
			n++
			continue
		}
		l.goes(l.children[i].flow)
	}
	l.children = l.children[:n]
}

// ForgetOldest lets the child give way that was silent longest.
func (l *Ledger) ForgetOldest() {
	oldest := 0
	for i := range l.children {
		if l.children[i].Seen < l.children[oldest].Seen {
			oldest = i
		}
	}
	l.leave(oldest)
}

// Living is how many children are remembered.
func (l *Ledger) Living() int64 { return int64(len(l.children)) }

// Before is how many of the children that are remembered appeared before one.
// It is -1 for one that is not remembered.
func (l *Ledger) Before(c *Child) int64 {
	return int64(slices.IndexFunc(l.children, func(o Child) bool { return o.flow == c.flow }))
}

// Freed is when the next child falls silent, if a silence of so long ends it; 0 without
// children.
func (l *Ledger) Freed(silence events.Stamp) (at events.Stamp) {
	for i := range l.children {
		if end := l.children[i].Seen + silence; at == 0 || end < at {
			at = end
		}
	}
	return at
}

// Reserved is how much is set aside for the children but not spent by them, when each may
// count on a share of it. What is set aside for the one flow does not count.
func (l *Ledger) Reserved(of int, share int64, but uint64) (n int64) {
	if share == 0 {
		return 0
	}
	for i := range l.children {
		if c := &l.children[i]; c.flow != but {
			// A child that has spent more than its share has no reserve, and takes nothing from the
			// shares of others.
			n = min(most, n+max(0, share-c.Spent[of]))
		}
	}
	return n
}

// Depth is how far below the root a flow is: 1 for one that the root opened. The parent is 0
// where it is not reported. A flow below one that is not remembered is treated as opened by the
// root.
func (l *Ledger) Depth(flow, parent uint64) int64 {
	above := short(parent)
	if parent == 0 {
		c := l.Child(flow)
		if c == nil {
			return 1
		}
		above = c.parent
	}
	n := int64(1)
	for n <= int64(len(l.children)) { // a circle ends there
		i := slices.IndexFunc(l.children, func(c Child) bool { return above != 0 && short(c.flow) == above })
		if i < 0 {
			break
		}
		n, above = n+1, l.children[i].parent
	}
	return n
}

// short is by what a child knows its parent.
// Half of a hash halves what a link takes; 0 stays free to say that there is none.
func short(flow uint64) uint32 {
	if flow == 0 {
		return 0
	}
	return max(1, uint32(flow))
}

// AppendBinary appends the record of the ledger, in which times are relative to a clock.
func (l *Ledger) AppendBinary(b []byte, clock events.Stamp) []byte {
	// Small numbers take few bytes, and nearly all times are near the clock.
	b = binary.AppendVarint(b, int64(l.Start-clock))
	b = binary.AppendVarint(b, int64(l.Last-clock))
	b = l.Spent.append(b)
	b = binary.AppendUvarint(b, uint64(len(l.children)))
	for i := range l.children {
		c := &l.children[i]
		b = binary.LittleEndian.AppendUint64(b, c.flow)
		b = binary.LittleEndian.AppendUint32(b, c.parent)
		b = binary.AppendVarint(b, int64(c.Seen-clock))
		notified := int64(0) // none; a notice is never before the first
		if c.NotifiedAt != 0 {
			notified = int64(c.NotifiedAt-clock)<<1 | 1
		}
		b = c.Spent.append(binary.AppendVarint(b, notified))
	}
	return b
}

// AppendStarted appends what a record of before does not have: which children started, and when those
// that are remembered no more did.
func (l *Ledger) AppendStarted(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(l.Started))
	for i := range l.children {
		b = binary.AppendUvarint(b, uint64(l.children[i].Nth))
	}
	b = binary.AppendUvarint(b, uint64(len(l.gone)))
	for _, g := range l.gone {
		b = binary.LittleEndian.AppendUint32(b, g)
	}
	return b
}

// ReadStarted reads what AppendStarted wrote, behind Read.
func (l *Ledger) ReadStarted(d *record.Reader) {
	l.Started = d.Count(most)
	for i := range l.children {
		l.children[i].Nth = d.Count(most)
	}
	for range d.Count(maxGone) {
		l.gone = append(l.gone, binary.LittleEndian.Uint32(d.Take(4)))
	}
	if d.Bad() {
		l.Reset()
	}
}

// append writes the amounts, which are never below 0.
func (n *Amount) append(b []byte) []byte {
	for _, v := range n {
		b = binary.AppendUvarint(b, uint64(v))
	}
	return b
}

// Read reads what AppendBinary wrote. Of a ledger that is damaged, which the reader knows
// then, nothing is kept.
func (l *Ledger) Read(d *record.Reader, clock events.Stamp) {
	l.Reset()
	l.Start, l.Last = d.Stamp(clock), d.Stamp(clock)
	l.Spent.read(d)
	// A count above the maximum is damage, and is reported before anything is allocated.
	n := d.Count(MaxChildren)
	for range n {
		var c Child
		c.flow, c.parent = binary.LittleEndian.Uint64(d.Take(8)), binary.LittleEndian.Uint32(d.Take(4))
		c.Seen = d.Stamp(clock)
		if notified := d.Varint(); notified&1 != 0 {
			c.NotifiedAt = clock + events.Stamp(notified>>1)
		}
		c.Spent.read(d)
		l.children = append(l.children, c)
	}
	l.Started = int64(len(l.children)) // as a record of before does not say
	if d.Bad() || l.Start <= 0 {
		d.Fail()
		l.Reset()
	}
}

// read reads what append wrote, none of it above the bound of sums.
func (n *Amount) read(d *record.Reader) {
	for i := range n {
		n[i] = d.Count(most)
	}
}
