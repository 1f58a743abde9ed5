package scenario

import (
	"fmt"
	"strings"
	"time"

	"weir/analyzer"
	"weir/events"
)

// Case is one case of a file: what happened, and what is expected to be said. Its parts stay
// as they were written, so that Format gives them back, beside what they were expanded to.
type Case struct {
	File  string   // as given to Parse
	Line  int      // of its first line
	Notes []string // comment lines before the events; the first is the title
	Want  []string // lines of the expected outcome

	// As they stand in the file, in its order.
	settings []setting
	// Comments between events included.
	lines      [][]item
	limits     *analyzer.Limits // what the settings say; nil when they say nothing
	deliveries []delivery
	// Later than the last event where the case ends with "+5m".
	end events.Stamp
}

// Title is the first comment line, or where the case stands when it has none.
func (c *Case) Title() string {
	if len(c.Notes) > 0 {
		return c.Notes[0]
	}
	return fmt.Sprintf("%s:%d", c.File, c.Line)
}

// Limits is what the case is judged by: base, unless its settings say otherwise. What its
// settings say replaces base as a whole: a case that names a rule is judged by the balanced
// profile with that rule.
func (c *Case) Limits(base analyzer.Limits) analyzer.Limits {
	if c.limits != nil {
		return *c.limits
	}
	return base
}

// Events returns the events of the case in the order of delivery; an event that is
// delivered twice is there twice. The caller may change them. Acknowledgements
// name no verdict, since only a run knows the verdicts.
func (c *Case) Events() []events.Event {
	out := make([]events.Event, len(c.deliveries))
	for i := range out {
		out[i] = c.deliveries[i].event()
	}
	return out
}

// Start is the time of the first event of every case. A fixed time, so that outcomes hold the
// same figures whenever they are run.
const Start events.Stamp = 1_767_225_600_000 // 2026-01-01T00:00:00Z

// End is when the case is over: the time of its last event, or later when it ends
// with time that passes.
func (c *Case) End() events.Stamp { return c.end }

// setting is a line of settings: its first word and the rest.
type setting struct {
	word  string
	value string
	line  int
}

// delivery is one event as it comes in, and what the clock shows then. An event that is delivered
// late has a time before now, so both are kept.
type delivery struct {
	ev  events.Event
	now events.Stamp
	ack string // an acknowledgement of the latest order for this reason, or of any
}

// event returns a copy that shares nothing that a fold may change.
func (d *delivery) event() events.Event {
	ev := d.ev
	if ev.Ack != nil {
		ack := *ev.Ack
		ev.Ack = &ack
	}
	return ev
}

// itemKind says what stands in a line of events.
type itemKind uint8

const (
	itemEvent   itemKind = iota
	itemComment          // a whole line
	itemOpen             // (
	itemClose            // )*n
	itemWait             // +5m
	itemFields           // brackets that stand alone
)

// item is one thing in a line of events. Which of the fields mean something says the kind.
type item struct {
	kind    itemKind
	comment string
	times   int
	wait    time.Duration
	act     action
	fields  []field
	line    int
}

// verb is what an event says.
type verb uint8

const (
	verbUser verb = iota
	verbCall
	verbReturn
	verbTool
	verbResult
	verbOutput
	verbModel
	verbStatus
	verbNote
	verbWord
)

// action is one event as it was written. Names and texts may still hold {i}, which expansion
// fills in.
type action struct {
	ask    bool
	verb   verb
	word   string // of verbWord; the status of verbStatus
	from   name
	to     name
	tags   []string // of verbNote
	text   text     // message, answer, arguments, or what follows a word
	result text
	ended  byte // '=' a result follows, '?' an error; 0 neither
}

// name is a party or a tool. The zero name was left out.
type name struct {
	session, agent string
}

func (n name) isZero() bool { return n == name{} }

// text is what stands for a message or result; when it is not given no hash is known. Given
// and empty are two things: "" has a hash, and what was left out has none.
type text struct {
	given bool
	s     string
	near  string // fingerprint group; "" for none
	bits  int    // in which the fingerprint differs from the group's
}

// field is a key in brackets. One without an equals sign only has to be there; one with an
// empty value takes back what brackets before it set.
type field struct {
	key   string
	value string
	has   bool // an equals sign was there
}

// String returns the case as Format writes it.
func (c *Case) String() string {
	var b strings.Builder
	c.format(&b)
	return b.String()
}
