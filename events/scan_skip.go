package events

// skip reads over a value of any type and checks it. What is ignored is read as strictly as
// the rest, since an event that is broken in a field that nobody wants may have been cut off
// or stitched together.
func (s *scanner) skip() bool {
	switch c := s.peek(); c {
	case '"':
		return s.skipString()
	case '{':
		return s.skipObject()
	case '[':
		return s.skipArray()
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		_, _, ok := s.number()
		return ok
	}
	return s.fail(CodeSyntax, s.i, "want a value here")
}

// skipObject looks for names given twice, too: a value that is passed through raw is read by
// others, who may take the one or the other.
func (s *scanner) skipObject() bool {
	o := object{known: anyFields}
	if !s.open(&o) {
		return false
	}
	for s.nextAny(&o) {
		if !s.skip() {
			return s.in(&o)
		}
	}
	return s.err == nil
}

// skipArray reads over an array, element by element.
func (s *scanner) skipArray() bool {
	if !s.deeper() {
		return false
	}
	// The path of a fault names the array and not its element.
	for begun := false; s.element(begun); begun = true {
		if !s.skip() {
			return false
		}
	}
	return s.err == nil
}

// element reads what stands before the next element of an array: nothing before the first, a
// comma before the others. It is false at the end, which it reads, and at a fault.
func (s *scanner) element(begun bool) bool {
	switch c := s.peek(); {
	case c == ']':
		s.i++
		s.depth--
		return false
	case begun && c != ',':
		return s.fail(CodeSyntax, s.i, "want a comma or the end of the array here")
	case begun:
		s.i++
		if s.peek() == ']' {
			return s.fail(CodeSyntax, s.i, "want a value after the comma")
		}
	}
	return true
}

// word reads true, false or null. What follows it is seen by who reads on, who wants a comma
// or an end.
func (s *scanner) word(w string) bool {
	if end := s.i + len(w); end <= len(s.p) && string(s.p[s.i:end]) == w {
		s.i = end
		return true
	}
	return s.fail(CodeSyntax, s.i, "want "+w+" here")
}

// raw reads over a value of any type and returns its text, which is not copied. Its capacity
// is its length, so that an append to it does not write over the event.
func (s *scanner) raw() ([]byte, bool) {
	s.peek()
	start := s.i
	if !s.skip() {
		return nil, false
	}
	return s.p[start:s.i:s.i], true
}
