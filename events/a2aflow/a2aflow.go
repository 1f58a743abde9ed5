// Package a2aflow reads and writes the extension of A2A: flow, hop count, tree and remaining budget of a message.
// EXTENSION.md describes it, and testdata/cases.json has the cases that every implementation passes.
//
// What a message says is a claim of its sender. Implementations only ever lower what remains.
package a2aflow

import (
	"encoding/json"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"weir/events"
	"weir/events/adapter/jsonwalk"
)

// URI names the extension in agent cards, in the extensions of a message, in the header
// A2A-Extensions, and as the key in the metadata of a message.
const URI = "urn:weir:a2a:flow:v1"

// Hop is what a message says.
type Hop struct {
	Flow   string // correlation id
	Parent string // the flow that opened this one
	Root   string // the first flow of the tree
	// Hops is the number of agents that have handed work on before this message was sent, its sender
	// included: 0 in the message of a person, 1 in one that an agent sends for it.
	Hops    int64
	MaxHops int64 // the most that Hops may be; negative for no limit
	Left    Left
}

// Left is what the receiver and all that it calls may still use. NaN and the zero time say nothing.
type Left struct {
	Calls, Tokens, USD float64
	Until              time.Time
}

// New returns the Hop of a message that a person sends: no limits, no hops.
func New(flow string) Hop {
	return Hop{Flow: flow, MaxHops: -1, Left: allLeft()}
}

// allLeft says nothing of what remains.
func allLeft() Left { return Left{Calls: math.NaN(), Tokens: math.NaN(), USD: math.NaN()} }

// Refusal says which part of a Hop forbids a message; empty for none.
type Refusal string

// The refusals, by the member of the extension that they are about.
const (
	Hops   Refusal = "hops"
	Calls  Refusal = "calls"
	Tokens Refusal = "tokens"
	USD    Refusal = "usd"
	Until  Refusal = "until"
)

// Read reads the value that metadata have under URI; false where it is no object. Values that cannot be read count
// as missing, each for itself.
func Read(value []byte) (Hop, bool) {
	c := jsonwalk.New(value)
	if c.Peek() != '{' {
		return Hop{}, false
	}
	h := New("")
	for c.Object(); c.Member(); {
		switch string(c.Key()) {
		case "flow":
			h.Flow = word(c.Raw())
		case "parent":
			h.Parent = word(c.Raw())
		case "root":
			h.Root = word(c.Raw())
		case "hops":
			h.Hops = count(c.Raw(), 0)
		case "max_hops":
			h.MaxHops = count(c.Raw(), -1)
		case "remaining":
			h.Left = readLeft(c)
		}
	}
	return h, c.Err() == nil
}

// readLeft reads what remains.
func readLeft(c *jsonwalk.Cursor) Left {
	l := allLeft()
	for c.MaybeObject(); c.Member(); {
		switch string(c.Key()) {
		case "calls":
			l.Calls = figure(c.Raw())
		case "tokens":
			l.Tokens = figure(c.Raw())
		case "usd":
			l.USD = figure(c.Raw())
		case "until":
			l.Until = time.Time{}
			if at, err := time.Parse(time.RFC3339Nano, word(c.Raw())); err == nil {
				l.Until = at.UTC().Truncate(time.Millisecond)
			}
		}
	}
	return l
}

// FromMetadata reads the extension from the metadata of a message.
func FromMetadata(metadata map[string]any) (Hop, bool) {
	value, err := json.Marshal(metadata[URI])
	if err != nil {
		return Hop{}, false
	}
	return Read(value)
}

// word reads an id: 1 to 256 bytes without control characters.
func word(raw []byte) string {
	var s string
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil || len(s) > events.MaxID || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' }) {
		return ""
	}
	return s
}

// most is the most that a count may be, as in 32 signed bits.
const most = 1<<31 - 1

// count reads a whole number that is not negative; missing for anything else.
func count(raw []byte, missing int64) int64 {
	f := number(raw)
	if !(f >= 0 && f <= most) || f != math.Trunc(f) {
		return missing
	}
	return int64(f)
}

// figure reads what remains; less than nothing is nothing.
func figure(raw []byte) float64 {
	f := number(raw)
	if f < 0 {
		return 0
	}
	return f
}

// number reads a number, NaN for anything else.
func number(raw []byte) float64 {
	var f *float64
	if len(raw) == 0 || json.Unmarshal(raw, &f) != nil || f == nil {
		return math.NaN()
	}
	return *f
}

// Refused says why an agent must not work on a message that it received.
func (h *Hop) Refused(now time.Time) Refusal {
	switch {
	case h.MaxHops >= 0 && h.Hops > h.MaxHops:
		return Hops
	case h.Left.Tokens <= 0:
		return Tokens
	case h.Left.USD <= 0:
		return USD
	case !h.Left.Until.IsZero() && !now.Before(h.Left.Until):
		return Until
	}
	return ""
}

// Next returns the Hop for a message that an agent sends while it works on h, or why it must not send
// one. remaining are those of the decision about that message (guard.Decision.Remaining); card is
// max_hops of the card of its receiver, negative for none.
func (h *Hop) Next(remaining []events.Remaining, card int64, now time.Time) (Hop, Refusal) {
	next := *h
	next.Hops++
	if card >= 0 && (next.MaxHops < 0 || card < next.MaxHops) {
		next.MaxHops = card
	}
	if h.Left.Calls < 1 {
		return Hop{}, Calls
	}
	next.Left.Calls-- // this message is one of them
	for _, r := range remaining {
		next.Left.lower(r)
	}
	if refusal := next.Refused(now); refusal != "" {
		return Hop{}, refusal
	}
	return next, ""
}

// lower takes in what remains of one limit.
func (l *Left) lower(r events.Remaining) {
	var to *float64
	switch r.Unit {
	case events.UnitCalls:
		to = &l.Calls
	case events.UnitTokens:
		to = &l.Tokens
	case events.UnitUSD:
		to = &l.USD
	default:
		if until := events.Stamp(r.Until); until != 0 && (l.Until.IsZero() || until.Time().Before(l.Until)) {
			l.Until = until.Time().UTC()
		}
		return
	}
	if left := max(0, r.Left); math.IsNaN(*to) || left < *to {
		*to = left
	}
}

// Value returns what metadata get under URI.
func (h *Hop) Value() map[string]any {
	value := map[string]any{"hops": h.Hops}
	for name, word := range map[string]string{"flow": h.Flow, "parent": h.Parent, "root": h.Root} {
		if word != "" {
			value[name] = word
		}
	}
	if h.MaxHops >= 0 {
		value["max_hops"] = h.MaxHops
	}
	left := map[string]any{}
	for name, figure := range map[string]float64{"calls": h.Left.Calls, "tokens": h.Left.Tokens, "usd": h.Left.USD} {
		if !math.IsNaN(figure) {
			left[name] = figure
		}
	}
	if !h.Left.Until.IsZero() {
		left["until"] = h.Left.Until.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	}
	if len(left) > 0 {
		value["remaining"] = left
	}
	return value
}

// Put writes the extension into the metadata of a message.
func (h *Hop) Put(metadata map[string]any) { metadata[URI] = h.Value() }
