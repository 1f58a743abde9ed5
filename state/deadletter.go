package state

import (
	"encoding/binary"
	"fmt"

	"weir/events"
)

// MaxRaw is how many bytes of a dead letter are kept.
// A sender decides how large what cannot be read is, so it must not decide what is kept of it.
const MaxRaw = 64 << 10

// DeadLetter is input that could not be read.
type DeadLetter struct {
	Sequence int64        // its number, from 0; set by DeadLetters, ignored by DeadLetter
	Source   string       // where it came from
	Position int64        // offset or byte position in the source
	Code     string       // of the decoding error
	Reason   string       // for people
	Appended events.Stamp // when weir took it
	Raw      []byte       // as it came, cut to MaxRaw bytes
	Size     int64        // of what came, in bytes; 0 means that Raw is all of it
}

// DeadLetter stores letters, in order, and returns when they are durable. They expire
// as journal entries do. A source that is read again after a crash may store the same
// letter twice, with equal Source and Position.
// The caller may reuse the letters afterwards.
func (t *logTable) DeadLetter(deadLetters ...DeadLetter) error {
	entries := make([]Entry, len(deadLetters))
	for i := range deadLetters {
		entries[i] = Entry{Appended: deadLetters[i].Appended, Value: deadLetters[i].encode()}
	}
	_, err := t.deadLetters().Append(entries)
	if err != nil {
		return fmt.Errorf("keep dead letter: %w", err)
	}
	return nil
}

// DeadLetters appends to dst at most limit letters from a sequence number on, and
// returns the extended slice. Its errors are those of Log.Read.
func (t *logTable) DeadLetters(from int64, limit int, dst []DeadLetter) ([]DeadLetter, error) {
	entries, err := t.deadLetters().Read(from, limit, nil)
	for i := range entries {
		d, derr := decodeDeadLetter(&entries[i])
		if derr != nil {
			return dst, damaged(fmt.Sprintf("dead letter %d", entries[i].Offset), derr)
		}
		dst = append(dst, d)
	}
	return dst, err
}

// DeadLetterCount returns how many letters there have ever been, expired ones
// included: the sequence number of the next.
func (t *logTable) DeadLetterCount() int64 { return t.deadLetters().End() }

// deadLetters is one log for all partitions and intakes, since people read it as one list.
func (t *logTable) deadLetters() *Log { return t.log([]byte{deadKind}) }

// encode is the value of the log's entry. When it came is not in it: that is the entry's own
// time.
func (d *DeadLetter) encode() []byte {
	size, raw := d.Size, d.Raw
	// A caller that cuts the input reports its size; otherwise it is complete.
	if size == 0 {
		size = int64(len(raw))
	}
	raw = raw[:min(len(raw), MaxRaw)]
	p := make([]byte, 0, len(d.Source)+len(d.Code)+len(d.Reason)+len(raw)+6*binary.MaxVarintLen64)
	p = appendBytes(p, d.Source)
	p = binary.AppendVarint(p, d.Position)
	p = appendBytes(p, d.Code)
	p = appendBytes(p, d.Reason)
	p = binary.AppendVarint(p, size)
	return appendBytes(p, raw)
}

// decodeDeadLetter reads what encode has written. Raw is not copied: the entry is the caller's.
func decodeDeadLetter(e *Entry) (DeadLetter, error) {
	c := decoder{rest: e.Value}
	d := DeadLetter{
		Sequence: e.Offset,
		Appended: e.Appended,
		Source:   string(c.bytes("source")),
		Position: c.int("position"),
		Code:     string(c.bytes("code")),
		Reason:   string(c.bytes("reason")),
		Size:     c.int("size"),
		Raw:      c.bytes("raw"),
	}
	return d, c.err
}
