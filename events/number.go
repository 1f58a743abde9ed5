package events

import (
	"strconv"
	"unsafe"
)

// MaxNumber bounds all numbers of an event: up to 2^53 every JSON reader holds the
// same whole number.
const MaxNumber = 1 << 53

// No number of an event may be negative.
const notNegative = "must not be negative"

// count reads a whole number from least to MaxNumber. The bound is looked at with each digit,
// so v cannot overflow however long the number is.
func (s *scanner) count(dst *int64, least int64) bool {
	c := s.peek()
	// The subtraction wraps, so one comparison covers everything that is no digit.
	if c-'0' > 9 {
		return s.notCount(c)
	}
	start, v := s.i, int64(0)
	for ; s.i < len(s.p) && s.p[s.i]-'0' <= 9; s.i++ {
		if v = v*10 + int64(s.p[s.i]-'0'); v > MaxNumber {
			return s.fail(CodeOutOfRange, start, "want a number of at most 2^53")
		}
	}
	if c == '0' && s.i-start > 1 {
		return s.fail(CodeSyntax, start, "a number must not begin with 0")
	}
	if s.i < len(s.p) && (s.p[s.i] == '.' || s.p[s.i]|0x20 == 'e') {
		return s.fail(CodeWrongType, start, "want a whole number, without fraction and exponent")
	}
	if v < least {
		return s.fail(CodeOutOfRange, start, "want a number of at least "+strconv.FormatInt(least, 10))
	}
	*dst = v
	return true
}

// notCount has words of its own for a negative number: it is a whole number.
func (s *scanner) notCount(c byte) bool {
	if c == '-' {
		return s.fail(CodeOutOfRange, s.i, notNegative)
	}
	return s.unexpected(c, "a whole number")
}

// decimal is a number as it is written: digits times ten to the power of exp. Of the digits
// that find no room it is enough to know whether all are 0, since they matter for rounding
// alone.
type decimal struct {
	digits  uint64 // the first 19 that count
	exp     int
	dropped bool // further digits are not all 0
}

// number reads a number of any size, by the grammar of JSON: no leading zeros, and digits on
// both sides of a point. The text is not copied. skip reads numbers by it, too.
func (s *scanner) number() (text string, d decimal, ok bool) {
	p, start := s.p, s.i
	i := start
	if i < len(p) && p[i] == '-' {
		i++
	}
	// The digits begin behind the sign.
	whole := i
	for ; i < len(p) && p[i]-'0' <= 9; i++ {
		// A digit of the whole part that finds no room still makes the number ten times
		// larger.
		if !d.add(p[i]) {
			d.exp++
		}
	}
	if i == whole || p[whole] == '0' && i-whole > 1 {
		return "", d, s.fail(CodeSyntax, start, "want a number that JSON allows")
	}
	if i < len(p) && p[i] == '.' {
		i++
		// A digit behind the point that finds room makes all digits ten times as many; one
		// that finds none is too small to count.
		fraction := i
		for ; i < len(p) && p[i]-'0' <= 9; i++ {
			if d.add(p[i]) {
				d.exp--
			}
		}
		if i == fraction {
			return "", d, s.fail(CodeSyntax, start, "want digits after the point")
		}
	}
	if i < len(p) && p[i]|0x20 == 'e' {
		i++
		sign := 1
		if i < len(p) && (p[i] == '+' || p[i] == '-') {
			if p[i] == '-' {
				sign = -1
			}
			i++
		}
		exponent, e := i, 0
		for ; i < len(p) && p[i]-'0' <= 9; i++ {
			// It saturates, so that an exponent of a million digits cannot overflow.
			e = min(e*10+int(p[i]-'0'), maxExponent)
		}
		if i == exponent {
			return "", d, s.fail(CodeSyntax, start, "want digits after the e")
		}
		// It comes on top of what the point did.
		d.exp += sign * e
	}
	s.i = i
	return unsafe.String(&p[start], i-start), d, true
}

// maxExponent is beyond what any number of MaxEventBytes digits can make up for.
const maxExponent = 1 << 30

// add appends a digit if there is room for it.
//
// With room for one more digit below 1e18 there are at most 19 of them, which a uint64 holds.
func (d *decimal) add(c byte) bool {
	const room = 1e18
	if d.digits >= room {
		d.dropped = d.dropped || c != '0'
		return false
	}
	d.digits = d.digits*10 + uint64(c-'0')
	return true
}

// float reads a number from 0 to most.
//
// The bounds are of the field: MaxNumber for milliseconds, 1 for shares.
func (s *scanner) float(dst *float64, most float64) bool {
	c := s.peek()
	if c-'0' > 9 {
		return s.notFloat(c)
	}
	start := s.i
	text, d, ok := s.number()
	if !ok {
		return false
	}
	v := 0.0
	// Clinger's quick path: a whole number up to 2^53 and a power of ten up to 10^22.
	if n := -d.exp; 0 <= n && n < len(powers) && d.digits <= MaxNumber && !d.dropped {
		v = float64(d.digits) / powers[n] // both are exact, so the quotient is rounded once
	} else {
		var err error
		if v, err = strconv.ParseFloat(text, 64); err != nil {
			v = 2 * most // only a number that is too large has an error
		}
	}
	if v > most {
		return s.fail(CodeOutOfRange, start, "want a number of at most "+strconv.FormatFloat(most, 'f', -1, 64))
	}
	*dst = v
	return true
}

// notFloat is notCount where a fraction is allowed.
func (s *scanner) notFloat(c byte) bool {
	if c == '-' {
		return s.fail(CodeOutOfRange, s.i, notNegative)
	}
	return s.unexpected(c, "a number")
}

// powers are the powers of ten that a float64 holds exactly.
var powers = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
	1e18, 1e19, 1e20, 1e21, 1e22}

// MaxCostUSD is the largest cost of one event, in US dollars.
const MaxCostUSD = 1_000_000_000

// dollars reads an amount of US dollars from 0 to MaxCostUSD as millionths. It is read as the
// decimal that is written, never as a float, and half a millionth is rounded up: sums of whole
// millionths do not depend on their order.
func (s *scanner) dollars(dst *int64) bool {
	c := s.peek()
	if c-'0' > 9 {
		return s.notFloat(c)
	}
	start := s.i
	_, d, ok := s.number()
	if !ok {
		return false
	}
	if *dst, ok = d.millionths(); !ok {
		return s.fail(CodeOutOfRange, start, "want at most 1000000000 US dollars")
	}
	return true
}

// millionths is false when d is more than MaxCostUSD.
func (d decimal) millionths() (int64, bool) {
	const most = MaxCostUSD * 1_000_000
	// In millionths the point stands six digits further to the right.
	v, exp, rest := d.digits, d.exp+6, d.dropped
	if v == 0 {
		return 0, true
	}
	// Both loops end early, by most or when nothing is left, so an exponent of a billion costs
	// no time.
	for ; exp > 0; exp-- {
		if v > most/10 { // asked before, since digits times ten may be more than a uint64 holds
			return 0, false
		}
		v *= 10
	}
	// last is the digit that was cut off last, and rest whether any behind it was not 0.
	last := uint64(0)
	for ; exp < 0 && v|last != 0; exp++ {
		rest = rest || last != 0
		v, last = v/10, v%10
	}
	if v > most || v == most && (last != 0 || rest) {
		return 0, false
	}
	// rest is not asked: at half and above it is rounded up in any case.
	if last >= 5 {
		v++
	}
	return int64(v), true
}
