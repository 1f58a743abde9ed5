package fingerprint

import (
	"bytes"
	"encoding/binary"
)

// hexRun matches eight and more hex digits of which at least one is decimal and one a letter.
//
// A run of decimal digits may be an amount, and one of letters a word.
func hexRun(p []byte, i int) int {
	n, decimal, letter := 0, false, false
	// With 0x before it is a hex number also without a letter.
	if byteAt(p, i) == '0' && byteAt(p, i+1)|0x20 == 'x' {
		n, letter = 2, true
	}
	start := n
	for ; ; n++ {
		c := byteAt(p, i+n)
		if !isHex(c) {
			break
		}
		if c-'0' <= 9 {
			decimal = true
		} else {
			letter = true
		}
	}
	if n-start < 8 || !decimal || !letter || wordAt(p, i+n) {
		return 0
	}
	return n
}

// labelled matches an id that says of itself that it is one: by its prefix
// (call_bb923d07ce), or by the name before it ("request_id": "q-7"). The name is
// part of the match.
//
// The name goes with the value, so that it does not matter how the name is spelled.
func labelled(p []byte, i int) int {
	if !beginsLabel[p[i]] || !mayLabel(p, i) {
		return 0
	}
	// A prefix needs no name before it.
	if n := prefixed(p, i); n > 0 {
		return n
	}
	n := 0
	for n < 24 && i+n < len(p) && (isWord(p[i+n]) && p[i+n] < 0x80 || p[i+n] == '-') {
		n++
	}
	if n < 5 || !idName(p[i:i+n]) {
		return 0
	}
	// At most a quote, a colon or equals sign, a space and a quote lie between name and value.
	// Quotes are escaped in JSON that stands in a string.
	gap, assigned := 0, false
	for gap < 5 {
		c := byteAt(p, i+n+gap)
		if c == ':' || c == '=' {
			assigned = true
		} else if c != '"' && c != '\'' && c != ' ' && c != '\\' {
			break
		}
		gap++
	}
	// Shorter values are numbers of a list rather than ids.
	k := idLength(p, i+n+gap)
	if !assigned || k < 3 {
		return 0
	}
	return n + gap + k
}

// beginsLabel is true for the letters that names and prefixes below begin with.
//
// It is a table because it is asked for each word of each text.
var beginsLabel = [256]bool{'a': true, 'c': true, 'm': true, 'r': true, 's': true, 't': true, 'x': true,
	'A': true, 'C': true, 'M': true, 'R': true, 'S': true, 'T': true, 'X': true}

// mayLabel reports whether a name or prefix below may begin at i, by its first four
// letters, which spares most words a closer look.
//
// It lets some words through that are no label, and keeps back none that is.
func mayLabel(p []byte, i int) bool {
	switch {
	case p[i]|0x20 == 'x':
		return true
	case len(p)-i < 4:
		return false // the shortest is longer
	}
	first := binary.LittleEndian.Uint32(p[i:]) | 0x20202020
	if labels[first*labelsFactor>>28] == first {
		return true
	}
	const ones, tops = 0x01010101, 0x80808080
	isZero := func(x uint32) bool { return (x-ones)&^x&tops != 0 }
	return isZero(first^('_'|0x20)*ones) || isZero(first^'-'*ones) // which names may hold anywhere
}

// labels are the first four letters that names and prefixes below begin with, where they have
// neither dash nor underscore, each at the place that its number times labelsFactor gives.
var labels = func() (table [16]uint32) {
	for _, word := range [...]string{"aitx", "call", "chat", "corr", "requ", "resp", "runi", "span", "tool", "trac"} {
		first := binary.LittleEndian.Uint32([]byte(word))
		table[first*labelsFactor>>28] = first
	}
	return table
}()

// labelsFactor gives each of labels a place of its own.
const labelsFactor = 0x1e2feb89

// idName reports whether a name is that of an id that is new for every request.
//
// Names of other ids, such as user_id or order_id, stay: their values are content.
func idName(name []byte) bool {
	var room [24]byte
	plain := room[:0]
	for _, c := range name {
		if c != '_' && c != '-' {
			plain = append(plain, c|0x20)
		}
	}
	plain = bytes.TrimPrefix(plain, []byte("x"))
	switch string(plain) {
	case "requestid", "traceid", "spanid", "correlationid", "toolcallid", "callid", "responseid", "runid":
		return true
	}
	return false
}

// Those of the services that agents talk to; each is followed by an id that is new for each
// call.
var idPrefixes = [...]string{"call_", "toolu_", "req_", "req-", "msg_", "resp_", "chatcmpl-", "run_", "run-", "trace_", "span_", "adk-", "aitxt-"}

// prefixed matches ids as services mint them: a known prefix and at least eight
// letters and digits, a digit among them.
//
// Without a digit it may be a word, as in run_tests.
func prefixed(p []byte, i int) int {
	for _, prefix := range idPrefixes {
		if p[i] != prefix[0] || len(p)-i < len(prefix) || string(p[i:i+len(prefix)]) != prefix {
			continue
		}
		n := idLength(p, i+len(prefix))
		id := p[i+len(prefix) : i+len(prefix)+n]
		if n >= 8 && bytes.ContainsAny(id, "0123456789") {
			return len(prefix) + n
		}
	}
	return 0
}

// idLength counts letters, digits, underscores and dashes of ASCII.
func idLength(p []byte, i int) int {
	n := 0
	for i+n < len(p) && (isWord(p[i+n]) && p[i+n] < 0x80 || p[i+n] == '-') {
		n++
	}
	return n
}

func isHex(c byte) bool { return c-'0' <= 9 || c|0x20-'a' < 6 }
