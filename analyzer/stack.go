package analyzer

// The collapsed stack. Every party has a parent; the stack is the path from the
// root to where control is. For a chain of calls without parallel branches it is
// the list that one gets by cutting the chain back at every return to a member;
// for parallel calls it is the depth of the branch and not of the whole tree.

// moveTo moves control from one party to another and reports whether it returned to
// a party that it had come through.
// A call to a party on the way to the root is a return, whatever the producer calls it. The
// steps are counted because damaged or odd parents must not make a loop of the walk.
func (f *callStack) moveTo(from, to uint8) (returned bool) {
	if from == none {
		f.parties[to].parent = none
		f.pos = to
		return false
	}
	for i, steps := from, 0; i != none && steps < maxParties; i, steps = f.parties[i].parent, steps+1 {
		if i == to {
			f.pos = to
			return from != to
		}
	}
	// A party that is called again from elsewhere moves there, with all parties that it called.
	f.parties[to].parent = from
	f.pos = to
	return false
}

// Depth returns the length of the collapsed call stack.
func (f *callStack) Depth() int { return int(f.depth()) }

// depth is the length of the stack.
func (f *callStack) depth() int64 { return f.depthOf(f.pos) }

// heldDepth is the length of the stack without those that handed control on: they expect no
// return, so nothing is nested in them.
func (f *callStack) heldDepth() (n int64) {
	for i, steps := f.pos, 0; int(i) < len(f.parties) && steps < maxParties; i, steps = f.parties[i].parent, steps+1 {
		if f.parties[i].flags&partyHanded == 0 {
			n++
		}
	}
	return n
}

// depthOf is the length of the path from the root to the party.
// It is 0 for none. Steps are counted, see moveTo.
func (f *cast) depthOf(party uint8) int64 {
	n := int64(0)
	for i := party; int(i) < len(f.parties) && n < maxParties; i = f.parties[i].parent {
		n++
	}
	return n
}

// cameThrough reports whether control came to the party through the other one.
// Every party came through itself.
func (f *cast) cameThrough(party, other uint8) bool {
	for i, n := party, 0; int(i) < len(f.parties) && n < maxParties; i, n = f.parties[i].parent, n+1 {
		if i == other {
			return true
		}
	}
	return false
}

// onStack reports whether the party is on the path from the root to where control is.
func (f *callStack) onStack(party uint8) bool { return f.cameThrough(f.pos, party) }

// Stack returns the names on the collapsed stack, root first.
func (f *callStack) Stack() []string {
	// Filled from its end, since parents are known and children are not.
	out := make([]string, f.depth())
	i := f.pos
	for n := len(out) - 1; n >= 0; n-- {
		out[n] = f.parties[i].name
		i = f.parties[i].parent
	}
	return out
}
