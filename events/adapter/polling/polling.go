// Package polling recognises calls that look again at work in progress. Such a call is no repetition, however often
// it brings the same, and Event.Tool.RetryOf says so. Nor does the first look at each thing show a loss of memory.
//
// A call is a repeated look if the same was looked at before, some seconds passed in
// between, and one of these holds:
//
//   - the result of the look before says that it goes on ("status": "running");
//   - the caller waited in between, by a sleep of its own or within the call;
//   - it names something that the caller started in the background;
//   - the caller is looking at something else that goes on, in the calls around it.
//
// If a result says that the work is over, later calls do not count as waiting. If results say neither,
// up to patience looks with the same result count as waiting.
package polling

import (
	"encoding/binary"
	"slices"
	"strings"

	"weir/events"
	"weir/events/adapter"
)

// pause is the shortest wait of a caller before it looks again, in milliseconds.
const pause = 5_000

// patience is how many looks in a row that bring the same, and do not say whether anything
// goes on, are waiting.
const patience = 20

// attention is the number of calls for which a caller waits for running work after a look at it.
const attention = 4

// maxStarted bounds what one caller started in the background and may still look at.
const maxStarted = 8

// Looks remembers what callers look at. It is for one goroutine.
type Looks struct {
	// Least is how far apart looks at work that goes on are at least, in milliseconds, to be waiting.
	Least   int64
	last    *adapter.Recent[look]    // by caller and subject
	open    *adapter.Recent[string]  // key of a look, by the id of its call
	callers *adapter.Recent[*caller] // by the id of the caller
}

// look is the last one at a subject.
type look struct {
	id      string // of the call
	at      events.Stamp
	n       uint64 // ordinal among the calls of its caller
	state   State
	content events.Hash // that it brought
	// still counts the looks before it that brought the same and did not say whether anything
	// goes on.
	still        int
	reads, shell bool
	lists        int // as in Subject
}

// caller is what is known of one caller.
type caller struct {
	n       uint64   // calls so far
	waited  uint64   // ordinal of the last call that waits; 0 for none
	saw     uint64   // of the last that brought that something goes on
	forgot  uint64   // of the last before the caller forgot what it had seen; 0 for never
	started []string // what runs in the background: ids, and files that it writes to
}

// New returns a memory of at most most looks.
func New(most int) *Looks {
	return &Looks{last: adapter.NewRecent[look](most), open: adapter.NewRecent[string](most), callers: adapter.NewRecent[*caller](most)}
}

// group is the key of what all callers of a session have looked at, given the key of a caller whose name
// is the session and, behind a zero byte, its own; "" for other names. A new agent that is sent to look
// at what goes on repeats the look of the one before it.
func group(key string) string {
	session, rest, ok := strings.Cut(key, "\x00")
	if !ok || len(rest) < 9 {
		return ""
	}
	return session + "\x00\x00" + rest[len(rest)-8:]
}

// Call takes a call, and returns the id of the one that it rightly repeats; "" when it is
// none that does.
func (l *Looks) Call(who, id string, at events.Stamp, s Subject) (again string) {
	key := string(binary.BigEndian.AppendUint64([]byte(who+"\x00"), s.hash))
	by, ok := l.callers.Get(who)
	if !ok {
		by = &caller{}
		l.callers.Put(who, by)
	}
	by.n++
	before, known := l.last.Get(key)
	now := look{id: id, at: at, n: by.n, content: before.content, still: before.still, reads: s.reads, shell: s.shell, lists: s.lists}
	if known && !s.acts && before.n <= by.forgot {
		again = before.id // what is not known any more is looked at as if for the first time
	} else if known && (s.idles || !s.acts && before.state == GoesOn && at.Sub(before.at).Milliseconds() >= l.Least) {
		// A call that only waits is never evidence of a loop, however often it is made, and
		// neither is a look at what reports that it goes on, however soon it comes. The rule
		// hot_polling slows the latter.
		again = before.id
	} else if known && !s.acts && at.Sub(before.at).Milliseconds() >= pause {
		switch {
		case before.state == Over:
		case before.still < patience && (s.waits || by.waited > before.n || by.attends() || slices.ContainsFunc(s.names, by.hasStarted)):
			again = before.id
			now.still++
		}
	}
	if !known && !s.acts {
		if other, ok := l.last.Get(group(key)); ok && other.state == GoesOn {
			again = other.id
		}
	}
	if s.waits {
		by.waited = by.n
	}
	if s.starts != "" {
		by.start(s.starts)
	}
	l.last.Put(key, now)
	l.open.Put(id, key)
	return again
}

// Forget takes that a caller goes on with no more than a summary of what it has seen, so that
// it rightly looks at all things once more.
func (l *Looks) Forget(who string) {
	if by, ok := l.callers.Get(who); ok {
		by.forgot = by.n
	}
}

// attends reports whether the caller is waiting for something that goes on. A caller that looks at
// workers looks in between at what they have done.
func (c *caller) attends() bool { return c.saw > 0 && c.n-c.saw <= attention }

// start notes something that the caller started in the background; what was first gives way.
func (c *caller) start(name string) {
	c.started = append(c.started[max(0, len(c.started)+1-maxStarted):], name)
}

func (c *caller) hasStarted(name string) bool { return slices.Contains(c.started, name) }

// Result takes the result of a call.
func (l *Looks) Result(who, id string, said Said, failed bool, content events.Hash) {
	key, called := l.open.Get(id)
	by, known := l.callers.Get(who)
	if !called || !known {
		return
	}
	l.open.Delete(id)
	if said.started != "" {
		by.start(said.started)
	}
	v, ok := l.last.Get(key)
	if !ok || v.id != id {
		return // it was looked at again meanwhile
	}
	switch v.state = said.State; {
	case v.reads:
		v.state = Unknown // what stands in a file is no word of the tool
	case v.lists > 0 && !failed && said.lines >= v.lists:
		v.state = GoesOn
	case v.state == Unknown && failed && !v.shell:
		v.state = Over // it cannot be looked at
	}
	if v.state == GoesOn {
		by.saw = by.n
	}
	if content != v.content {
		v.content, v.still = content, 0
	}
	l.last.Put(key, v)
	if g := group(key); g != "" {
		l.last.Put(g, v)
	}
}
