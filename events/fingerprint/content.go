package fingerprint

import (
	"bytes"
	"unicode"

	"github.com/cespare/xxhash/v2"

	"weir/events"
)

// Content returns the xxh64 of a message, an answer or a result after its volatile
// parts were folded: UUIDs, ids of requests and calls, timestamps with a time of
// day, memory addresses and measured durations (12.3 ms, 0.8s). Whatever else
// changes in the text changes the hash; a number, a date or a countdown in whole
// seconds is content, so an honest poll whose answer moves is seen to move.
//
// White space around the text is not content. An empty text gives the zero Hash:
// not known.
//
// What is folded is what differs between two answers that say the same. Whether an answer
// moved decides between a poll and a loop, so too little is folded rather than too much.
func Content(text []byte) events.Hash {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return events.Hash{}
	}
	// Hashed piece by piece, so that the folded text is never written down.
	var digest xxhash.Digest
	digest.Reset()
	rest := pieces(text, false, func(before []byte, name string) {
		_, _ = digest.Write(before) // which never fails
		_, _ = digest.WriteString(name)
	})
	_, _ = digest.Write(rest)
	return events.Hash{Algorithm: events.XXH64, Value: digest.Sum64()}
}

// maxError is the length of a normalised error, in bytes.
const maxError = 256

// Error returns the text of an error, with the differences between two occurrences of the same
// error folded. It folds the same as Content. It also folds durations of any form, times of day,
// hex numbers and runs of five digits and more. Short numbers stay, because they distinguish
// errors (status codes, exit codes). Colours are omitted, white space and control characters are
// collapsed. The result is UTF-8 and at most 256 bytes long.
//
// It folds more than Content: an error that comes again is the same, with any duration or count.
func Error(text []byte) string {
	// Folding may shorten the text considerably, yet a bound is needed: the first 16 KiB contain
	// the parts that distinguish errors.
	// The bound splits at most one character, which ToValidUTF8 fixes.
	text = text[:min(len(text), 16<<10)]
	words := bytes.FieldsFunc(withoutColours(text), func(r rune) bool { return r <= ' ' || unicode.IsSpace(r) })
	text = bytes.ToValidUTF8(bytes.Join(words, []byte(" ")), []byte(replacement))
	folded := fold(nil, text, true)
	if len(folded) <= maxError {
		return string(folded)
	}
	// Half a character at the cut goes.
	return string(bytes.TrimSpace(bytes.ToValidUTF8(folded[:maxError], nil)))
}

// withoutColours removes the escape sequences by which programs colour what they
// write to a terminal.
//
// What follows ESC [ is read up to the letter that ends it; a sequence without end is cut at
// the next control character.
func withoutColours(text []byte) []byte {
	const begin = "\x1b["
	if !bytes.Contains(text, []byte(begin)) {
		return text
	}
	out := make([]byte, 0, len(text))
	for {
		before, after, found := bytes.Cut(text, []byte(begin))
		out = append(out, before...)
		if !found {
			return out
		}
		n := 0
		for n < len(after) && (after[n] < '@' || after[n] > '~') && after[n] >= ' ' {
			n++
		}
		text = after[min(n+1, len(after)):]
	}
}
