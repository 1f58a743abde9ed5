package events

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// text reads a string of at most most characters.
func (s *scanner) text(most int) (v string, escaped, ok bool) {
	if v, ok = s.plain(most); ok {
		return v, false, true
	}
	c := s.peek()
	start := s.i
	if c != '"' {
		return "", false, s.unexpected(c, "a string")
	}
	if v, escaped, ok = s.quoted(); !ok {
		return "", false, false
	}
	if len(v) > most {
		if n := utf8.RuneCountInString(v); n > most {
			return "", false, s.fail(CodeTooLong, start, fmt.Sprintf("has %d characters; want at most %d", n, most))
		}
	}
	return v, escaped, true
}

// prose reads what people write, with line breaks and all.
func (s *scanner) prose(dst *string, most int) bool {
	v, _, ok := s.text(most)
	*dst = v
	return ok
}

// reason reads prose that must say something.
func (s *scanner) reason(dst *string) bool {
	s.peek()
	start := s.i
	if !s.prose(dst, MaxReason) {
		return false
	}
	if *dst == "" {
		return s.fail(CodeInvalidValue, start, "must not be empty; say why, for those who look into it later")
	}
	return true
}

// line reads a text without control characters, which could only come as escapes.
// Ids, names and words end up in keys, log lines and terminals.
func (s *scanner) line(dst *string, most int) bool {
	s.peek()
	start := s.i
	v, escaped, ok := s.text(most)
	*dst = v
	if escaped && ok {
		for i := 0; i < len(v); i++ {
			if v[i] < ' ' {
				return s.fail(CodeInvalidValue, start, "must not hold control characters")
			}
		}
	}
	return ok
}

// id reads a line that is not empty.
func (s *scanner) id(dst *string) bool {
	if v, ok := s.plain(MaxID); ok {
		*dst = v
		return true
	}
	return s.filled(dst, MaxID)
}

func (s *scanner) filled(dst *string, most int) bool {
	s.peek()
	start := s.i
	if !s.line(dst, most) {
		return false
	}
	if *dst == "" {
		return s.fail(CodeInvalidValue, start, "must not be empty; leave the field out instead")
	}
	return true
}

// hex reads exactly n lower-case hex digits.
func (s *scanner) hex(dst *string, n int) bool {
	s.peek()
	start := s.i
	v, _, ok := s.text(n)
	if ok && (len(v) != n || !lowerHex(v)) {
		return s.fail(CodeInvalidValue, start, fmt.Sprintf("want %d lower-case hex digits", n))
	}
	*dst = v
	return ok
}

// maxHash is the length of the longest hash with its algorithm.
const maxHash = 160

func (s *scanner) hash(dst *Hash) bool {
	s.peek()
	start := s.i
	v, _, ok := s.text(maxHash)
	if !ok {
		return false
	}
	var err error
	if *dst, err = ParseHash(v); err != nil {
		return s.fail(CodeInvalidValue, start, err.Error())
	}
	return true
}

func (s *scanner) fingerprint(dst *Fingerprint) bool {
	s.peek()
	start := s.i
	v, _, ok := s.text(maxHash)
	if !ok {
		return false
	}
	var err error
	if *dst, err = ParseFingerprint(v); err != nil {
		return s.fail(CodeInvalidValue, start, err.Error())
	}
	return true
}

// time reads a time after the first instant of 1970, for the zero Stamp means that
// no time is given.
func (s *scanner) time(dst *Stamp) bool {
	s.peek()
	start := s.i
	v, _, ok := s.text(MaxID)
	if !ok {
		return false
	}
	if *dst, ok = ParseStamp(v); !ok || *dst == 0 {
		return s.fail(CodeInvalidValue, start, "want an RFC 3339 time from 1970 to 9999, for example 2026-11-20T14:00:00.250Z")
	}
	return true
}

func (s *scanner) kind(dst *Kind) bool {
	s.peek()
	start := s.i
	v, _, ok := s.text(MaxID)
	if !ok {
		return false
	}
	if *dst = Kind(kindIndex.exact.find(v)); *dst == KindUnset {
		return s.notOneOf(start, v, kindNames[1:LimitsSet]) // the rest is written by weir alone
	}
	return true
}

var kindIndex = newFields(kindNames[:])

// oneOf reads a word of the list and gives its place.
func (s *scanner) oneOf(dst *uint8, words []string) bool {
	s.peek()
	start := s.i
	v, _, ok := s.text(MaxID)
	if !ok {
		return false
	}
	if *dst, ok = indexOf(words, v); !ok || v == "" {
		return s.notOneOf(start, v, words)
	}
	return true
}

// choice is oneOf for a field that keeps the word itself.
func (s *scanner) choice(dst *string, words []string) bool {
	place := uint8(0)
	if !s.oneOf(&place, words) {
		return false
	}
	*dst = words[place]
	return true
}

func (s *scanner) notOneOf(at int, v string, words []string) bool {
	if words[0] == "" {
		words = words[1:]
	}
	return s.fail(CodeInvalidValue, at, fmt.Sprintf("%q is not known; want one of %s", cut(v), strings.Join(words, ", ")))
}

func (s *scanner) bool(dst *bool) bool {
	switch c := s.peek(); c {
	case 't':
		*dst = true
		return s.word("true")
	case 'f':
		*dst = false
		return s.word("false")
	default:
		return s.unexpected(c, "true or false")
	}
}

func (s *scanner) tri(dst *Tri) bool {
	yes := false
	if !s.bool(&yes) {
		return false
	}
	*dst = No
	if yes {
		*dst = Yes
	}
	return true
}

// rawObject reads over an object and gives its text.
func (s *scanner) rawObject(dst *[]byte) (ok bool) {
	if c := s.peek(); c != '{' {
		return s.unexpected(c, "an object")
	}
	*dst, ok = s.raw()
	return ok
}
