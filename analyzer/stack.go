package analyzer

// The collapsed stack. Every party has a parent; the stack is the path from the
// root to where control is. For a chain of calls without parallel branches it is
// the list that one gets by cutting the chain back at every return to a member;
// for parallel calls it is the depth of the branch and not of the whole tree.

// moveTo moves control from one party to another and reports whether it returned to
// a party that it had come through.
func (f *Flow) moveTo(from, to uint8) (returned bool) {
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
	f.parties[to].parent = from
	f.pos = to
	return false
}

// depth is the length of the stack.
func (f *Flow) depth() int64 {
	n := int64(0)
	for i := f.pos; int(i) < len(f.parties) && n < maxParties; i = f.parties[i].parent {
		n++
	}
	return n
}

func (f *Flow) onStack(party uint8) bool {
	n := 0
	for i := f.pos; i != none && n < maxParties; i = f.parties[i].parent {
		if i == party {
			return true
		}
		n++
	}
	return false
}

// Stack returns the names on the collapsed stack, root first.
func (f *Flow) Stack() []string {
	out := make([]string, f.depth())
	i := f.pos
	for n := len(out) - 1; n >= 0; n-- {
		out[n] = f.parties[i].name
		i = f.parties[i].parent
	}
	return out
}
