package rules

import (
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"weir/events"
)

// Exemption has some rows say less of flows, agents and tools that are tagged.
type Exemption struct {
	Tags    []string // any of them, whatever their case
	Rules   []string // names of rows, of both tables
	Mode    Mode     // off, shadow or warn: what the rows may still do
	Reason  string
	Expires events.Stamp // 0 for never
}

// Weaken returns the weaker one of the mode of a row and that of the exemption: an exemption
// turns nothing on.
func (m Mode) Weaken(x Mode) Mode {
	// Enforce is the zero value, and the strongest.
	if strength := func(m Mode) Mode { return (m - 1) % 4 }; strength(x) < strength(m) {
		return x
	}
	return m
}

// Marks are hashes of tags, each mixed with what it is of. They are what a state keeps of them,
// so that tags as long as producers like take eight bytes each.
type Marks []uint64

// MostMarks is how many tags of one flow or one agent are kept. More are passed over: the first
// ones are those that a flow begins with.
const MostMarks = 16

// Marked is what tags are of. The name of a flow, and of an agent in its own state, is empty.
type Marked uint64

// OfAgent returns what the tags of an agent of a flow are of.
func OfAgent(name string) Marked { return Marked(xxhash.Sum64String(name) * 0x9e3779b97f4a7c15) }

// OfTool returns what the tags of a tool of a flow are of; an agent may have its name.
func OfTool(name string) Marked { return Marked(xxhash.Sum64String(name) * 0xff51afd7ed558ccd) }

// Mark returns the mark of a tag, in whatever case it is written.
func Mark(tag string) uint64 { return xxhash.Sum64String(strings.ToLower(tag)) }

// Add keeps the tags of what is marked.
func (m *Marks) Add(of Marked, tags []string) {
	for _, tag := range tags {
		if mark := Mark(tag) ^ uint64(of); len(*m) < MostMarks && !slices.Contains(*m, mark) {
			*m = append(*m, mark)
		}
	}
}

// Has reports whether one of the marks of tags is there, of any of those.
func (m Marks) Has(tags []uint64, of ...Marked) bool {
	for _, tag := range tags {
		for _, o := range of {
			if slices.Contains(m, tag^uint64(o)) {
				return true
			}
		}
	}
	return false
}

// Exempt is what the exemptions say of one row.
type Exempt []exempt

type exempt struct {
	marks   []uint64
	mode    Mode
	expires events.Stamp
}

// ExemptOf returns what the exemptions say of the row.
func ExemptOf(row string, list []Exemption) (out Exempt) {
	for i := range list {
		x := &list[i]
		if !slices.Contains(x.Rules, row) {
			continue
		}
		e := exempt{mode: x.Mode, expires: x.Expires}
		for _, tag := range x.Tags {
			e.marks = append(e.marks, Mark(tag))
		}
		out = append(out, e)
	}
	return out
}

// Mode returns the mode of the row at a time for parties with the marks. mode is the row's mode without
// exemptions.
func (x Exempt) Mode(mode Mode, at events.Stamp, m Marks, of ...Marked) Mode {
	for i := range x {
		if e := &x[i]; (e.expires == 0 || at < e.expires) && m.Has(e.marks, of...) {
			mode = mode.Weaken(e.mode)
		}
	}
	return mode
}
