package events

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// text reads a string of at most most characters. Bytes are looked at first: a text has never
// more characters than bytes, so nearly none has to be counted. escaped tells whether it had
// escapes, which is the only way in which a control character comes in.
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
//
// Control characters are let through; whoever shows prose in a terminal or a page escapes it.
func (s *scanner) prose(dst *string, most int) bool {
	v, _, ok := s.text(most)
	*dst = v
	return ok
}

// reason reads prose that must say something.
// An empty reason would pass for a given one in every list that people look at later.
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

// line reads a text without control characters. Ids, names and words end up in keys, log lines
// and terminals, where a line break or an escape sequence would forge others.
func (s *scanner) line(dst *string, most int) bool {
	// A fault is told where the value begins, and text moves s.i on.
	s.peek()
	start := s.i
	v, escaped, ok := s.text(most)
	*dst = v
	// A control character that was not escaped was refused already, by plain and by
	// skipString.
	if escaped && ok {
		for i := 0; i < len(v); i++ {
			if v[i] < ' ' {
				return s.fail(CodeInvalidValue, start, "must not hold control characters")
			}
		}
	}
	return ok
}

// id reads a line that is not empty. An empty id is refused and not taken for an absent one:
// it is nearly always a variable that the producer forgot to set.
func (s *scanner) id(dst *string) bool {
	// Whatever plain reads passes all the checks below: it is not empty, has no escapes, and
	// no more bytes than MaxID.
	if v, ok := s.plain(MaxID); ok {
		*dst = v
		return true
	}
	return s.filled(dst, MaxID)
}

// filled is id with a length of its own, and the slow way of id.
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

// hex reads exactly n lower-case hex digits. Upper-case digits are refused, because ids are
// compared as text and two spellings would be two ids.
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
// The longest hash is 128 digits behind a name and a colon; the rest is room for a message
// that shows what was sent.
const maxHash = 160

// hash reads algorithm:hex. What is wrong with it is said by ParseHash, which adapters call as
// well.
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

// fingerprint reads a similarity hash, of which there is one algorithm. It has fewer digits
// than maxHash; ParseFingerprint counts them.
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

// kind reads also the kinds that only weir writes, for it reads its own log by the same
// function; FromProducer refuses them from others, and the message here does not offer them.
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

// kindIndex finds a kind as fields find their names: each event has one, and the list is too
// long to be compared word by word.
var kindIndex = newFields(kindNames[:])

// oneOf reads a word of the list and gives its place.
//
// An empty word is refused, although most lists have "" at place 0, where it stands for
// absent: that is said by leaving the field out.
func (s *scanner) oneOf(dst *uint8, words []string) bool {
	// A fault is told where the word begins.
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

// notOneOf names what would have been right. The empty word that most lists begin with stands
// for absent and is not offered.
func (s *scanner) notOneOf(at int, v string, words []string) bool {
	if words[0] == "" {
		words = words[1:]
	}
	if i := slices.IndexFunc(words, func(w string) bool { return nearWord(v, w) }); i >= 0 {
		return s.fail(CodeInvalidValue, at, fmt.Sprintf("%q is not known; did you mean %s?", cut(v), words[i]))
	}
	return s.fail(CodeInvalidValue, at, fmt.Sprintf("%q is not known; want one of %s", cut(v), strings.Join(words, ", ")))
}

// plain leaves out the signs between the parts of a word.
var plain = strings.NewReplacer("_", "", "-", "", ".", "")

// nearWord reports whether v is probably meant as the word: a slip away, or with other signs between
// its parts.
func nearWord(v, word string) bool {
	return len(v) <= maxFolded && (slip(v, word) || strings.EqualFold(plain.Replace(v), plain.Replace(word)))
}

// bool reads true or false, and no number or text in their place.
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

// tri never gives Unknown, which is what an absent field is.
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
//
// The text aliases the event's bytes. What is inside is checked as JSON and nothing else; who
// folds a limits.set reads it strictly.
func (s *scanner) rawObject(dst *[]byte) (ok bool) {
	if c := s.peek(); c != '{' {
		return s.unexpected(c, "an object")
	}
	*dst, ok = s.raw()
	return ok
}
