// Package adapter defines an adapter: a reader that turns the records of one log format into events. The adapters
// themselves lie below, one package per format; package registry lists them.
//
// Adapters are pure: bytes in, events out. They do no I/O, read no clock and start
// no goroutine, so the same records give the same events, ids included, whenever
// they are read. They give away no content: arguments, messages and results leave
// them as hashes and fingerprints.
package adapter

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"weir/events"
)

// MaxRecord is the length of the longest record that adapters take, in bytes.
//
// A record holds a whole batch of an exporter, so it may be longer than an event.
const MaxRecord = 8 << 20

// MaxItems is how many spans, log records or runs may be in one record. Those of 8 MiB
// have fewer, unless most of them are empty: and what is empty takes many times its room
// once it is read.
const MaxItems = 1 << 16

// TooMany is the fault of a record that has more than MaxItems of what.
func TooMany(what string) (code events.Code, field, reason string) {
	return events.CodeTooLong, what, fmt.Sprintf("more than %d %s in one batch: lower the batch size of the exporter", MaxItems, what)
}

// Adapter turns the records of one log format into events. It may hold records
// back to pair or to order them, within the bounds that its Options set. It is for
// one goroutine.
//
// All records that a caller gives to one adapter are one log; see Branching for
// several inputs.
type Adapter interface {
	// Decode reads one record (a line or a document, as the Framing of the format
	// says) and hands over the events that are complete now, in the order of their
	// times as far as the format allows. The event that emit gets, its strings
	// included, holds until emit returns. A record that cannot be read is an error,
	// a *events.DecodeError where a place in the record can be named; the adapter
	// goes on with the next record.
	Decode(record []byte, emit func(*events.Event)) error

	// Flush hands over what was held back. It is called at the end of the input and
	// may be called before; what comes later is then taken for late.
	Flush(emit func(*events.Event)) error
}

// Parser is implemented by adapters that can read a record before its turn, because reading it
// does not depend on the records before it.
//
// So the readers of a backtest read ahead on several cores, while events are emitted in order.
type Parser interface {
	// Parse reads a record, and returns a function that emits its events; nil when there are none.
	// The caller calls it after the events of all earlier records were emitted. The error is the
	// same as that of Decode; a record with an error may still have events. Several goroutines may
	// call Parse at once, and the returned function holds nothing of record.
	Parse(record []byte) (deliver func(emit func(*events.Event)), err error)
}

// Options are the settings of an adapter. The zero value is fit for use.
//
// They are of one adapter, so that two inputs may be read by different ones.
type Options struct {
	// Source is the source of events whose records name none.
	Source string

	// IgnoreArgs returns the arguments that do not distinguish calls. The adapter calls it for each
	// call, so its answer may change.
	IgnoreArgs IgnoreArgs

	// Silent is called for each span that gives no event, with the reason; may be nil.
	Silent func(Silence)

	// Unread is called by Flush with what a mapping could not read; may be nil.
	Unread func(Unread)

	// Own is called for each event of weir's own format, with its record; may be nil.
	Own func(record []byte, ev *events.Event)

	// Correlation lists what the correlation id may be taken from, first hit first.
	// Empty means the order of the format.
	Correlation []events.CorrelationSource

	// Hold is for formats whose records come at the end of the span that they describe. It is how
	// long, in event time, a record may be held back for the records that explain it. 0
	// means the default of the format, a negative value no limit.
	Hold time.Duration

	// MaxHeld is how many records (spans, open calls) may be held back or remembered
	// in all. 0 means the default of the format.
	MaxHeld int
}

// Unread is what a mapping made nothing of, so that who wrote it sees what is missing in it.
type Unread struct {
	Records int64            // that were read, with and without an event
	Kinds   map[string]int64 // of records that are no event, by what stands there for the kind; "" where nothing does
	Never   []string         // fields of the mapping that no record has
}

// IgnoreArgs names, for a tool, the top-level arguments that are left out of their hash,
// such as cursors and request ids.
type IgnoreArgs func(tool string) []string

// Of returns the ignored arguments of a tool; none where IgnoreArgs is nil.
func (f IgnoreArgs) Of(tool string) []string {
	if f == nil {
		return nil
	}
	return f(tool)
}

// HeldOr returns MaxHeld, or most where it is not set.
// A negative one counts as not set.
func (o Options) HeldOr(most int) int { return cmp.Or(max(o.MaxHeld, 0), most) }

// CorrelationOr returns Correlation, or the order of the format where it is not set.
func (o Options) CorrelationOr(order ...events.CorrelationSource) []events.CorrelationSource {
	if len(o.Correlation) > 0 {
		return o.Correlation
	}
	return order
}

// CheckSize refuses a record that is longer than MaxRecord.
//
// Readers refuse such records themselves; records that come by HTTP or from a topic are met
// here.
func CheckSize(record []byte) error {
	if len(record) <= MaxRecord {
		return nil
	}
	return &events.DecodeError{Code: events.CodeTooLong, Offset: MaxRecord,
		Reason: fmt.Sprintf("the record has %d bytes; want at most %d: lower the batch size of the exporter", len(record), MaxRecord)}
}

// CheckText rejects an input that does not begin as a text that adapters read, and says what to
// do. It rejects a database, a compression that NewReader does not undo, and text in another
// encoding than UTF-8.
//
// Otherwise the bytes of such an input would be reported as lines that are no JSON.
func CheckText(head []byte) error {
	reason := ""
	switch packed := packing(head); {
	// It takes more to read one than all adapters together, and the program that comes with
	// it prints rows as JSON.
	case bytes.HasPrefix(head, []byte("SQLite format 3\x00")):
		reason = "a SQLite database is not read itself: sqlite3 -readonly -json FILE 'SELECT * FROM messages ORDER BY id' | weir replay --format tinyagi -"
	case packed != "":
		reason = "it is packed with " + packed + "; gzip and zstd are unpacked, all else has to be unpacked first"
	case kind(head) != "":
		reason = "it is " + kind(head)
	case isWide(head):
		reason = "it is UTF-16 or UTF-32, as some programs on Windows write; want UTF-8: iconv -f UTF-16 -t UTF-8 FILE | weir replay -"
	default:
		return nil
	}
	return &events.DecodeError{Code: events.CodeSyntax, Offset: 0, Reason: reason}
}

// packing names what something was packed with; "" for nothing, or for what NewReader unpacks.
func packing(head []byte) string {
	for magic, name := range map[string]string{
		"\xfd7zXZ\x00": "xz", "BZh91AY&SY": "bzip2", "\x04\x22\x4d\x18": "lz4", "PK\x03\x04": "zip", "7z\xbc\xaf\x27\x1c": "7-Zip", "LZIP": "lzip",
		"\xff\x06\x00\x00sNaPpY": "snappy", "\x1f\x9d": "compress",
	} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return name
		}
	}
	// A zlib stream with the usual window; its second byte is no text but in one case, of which
	// the first two bytes are those of a word.
	if len(head) > 1 && head[0] == 'x' && (head[1] == 0x01 || head[1] == 0x9c || head[1] == 0xda) {
		return "zlib"
	}
	return ""
}

// kind names a file that holds no log, or one that another program has to write anew; "" for none.
func kind(head []byte) string {
	for magic, name := range map[string]string{
		"PAR1": "Parquet; write it as JSON lines: duckdb -c \"COPY 'FILE' TO 'FILE.jsonl'\"", "Obj\x01": "Avro; write it as JSON lines",
		"\x89PNG": "an image", "\xff\xd8\xff": "an image", "GIF8": "an image", "%PDF": "a PDF",
	} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return name
		}
	}
	const at = 257 // where tar has its name
	if len(head) > at && bytes.HasPrefix(head[at:], []byte("ustar")) {
		return "a tar archive; unpack it"
	}
	return ""
}

// isWide reports whether a text has two or four bytes for each character: by its mark, or
// because every second byte is 0 as in ASCII that was widened.
func isWide(head []byte) bool {
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) || bytes.HasPrefix(head, []byte("\x00\x00\xfe\xff")) {
		return true
	}
	const look = 8
	if len(head) < look {
		return false
	}
	zeros := [2]int{}
	for i, b := range head[:look] {
		if b == 0 {
			zeros[i%2]++
		}
	}
	return zeros[0]+zeros[1] >= look/2 && (zeros[0] == 0 || zeros[1] == 0)
}

// Missing is the fault of a record that lacks a field without which it cannot be
// read.
func Missing(field, reason string) *events.DecodeError {
	return &events.DecodeError{Code: events.CodeMissingField, Field: field, Offset: -1, Reason: reason}
}

// CodeFormat is the code of a record that cannot be read for a reason without a code of its own.
//
// It stands beside the codes of events, which say what is wrong with an event.
const CodeFormat events.Code = "format"

// CodeOf is the code of what Decode says of a record.
func CodeOf(err error) events.Code {
	if e, ok := errors.AsType[*events.DecodeError](err); ok {
		return e.Code
	}
	return CodeFormat
}

// YesNo returns Yes for true and No for false: a value that a log reports for sure.
func YesNo(yes bool) events.Tri {
	if yes {
		return events.Yes
	}
	return events.No
}

// ID returns p as an id from which ids of events can be made: half of their room is
// left for what is put before it and behind it.
func ID(p []byte) string { return Word(p, events.MaxID/2) }

// Word returns p as an event may carry it as id, name or other short text: at most
// most characters of UTF-8, without control characters.
//
// What is longer is cut and not refused: a long name is still a name. Control characters
// become spaces, and what is not UTF-8 becomes U+FFFD.
func Word(p []byte, most int) string {
	clean, n := true, 0
	for _, b := range p {
		if b < ' ' || b >= utf8.RuneSelf {
			clean = false
			break
		}
		n++
	}
	if clean && n <= most {
		return string(p)
	}
	out := make([]byte, 0, min(len(p), 4*most))
	for n = 0; n < most && len(p) > 0; n++ {
		r, size := utf8.DecodeRune(p)
		if r < ' ' {
			r = ' '
		}
		out = utf8.AppendRune(out, r)
		p = p[size:]
	}
	return string(out)
}
