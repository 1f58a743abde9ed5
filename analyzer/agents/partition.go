package agents

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/analyzer/record"
	"weir/events"
)

// Partition is what is folded over all agents of one partition of the activity log. It holds up to
// which time everything was reported, the possible reviewers of a stuck agent, and the number of agents.
// The zero Partition is one of which nothing was seen.
// It is written with each checkpoint and owned by the goroutine that folds the agents of the
// partition.
type Partition struct {
	Watermark  events.Stamp // everything up to here was reported; runs backwards only when a log is turned back
	candidates []candidate
	gauge      gaugeDays
}

// candidate is an agent that said that it is active and healthy.
// It holds no agent: the agent may not be in memory when another one needs a reviewer.
type candidate struct {
	id      uint64       // hash of the name
	name    []byte       // memory is used again by who takes the place
	at      events.Stamp // of the report; 0 when it has said otherwise since
	reviews uint32       // that it was chosen for
}

const (
	// maxCandidates is how many agents are remembered that could review.
	// All of them are looked at with each choice.
	maxCandidates = 64
	// candidateAge is how old a report may be for its agent to be asked for a review.
	candidateAge = 30 * time.Minute
)

// offer remembers that the agent said at that time whether it is fit to review another.
// When all places are taken, the one whose report is oldest gives way, unless it is younger
// than this one.
func (p *Partition) offer(name string, at events.Stamp, fit bool) {
	id := xxhash.Sum64String(name)
	oldest := -1
	for i := range p.candidates {
		c := &p.candidates[i]
		if c.id == id {
			c.at = at
			if !fit {
				c.at = 0 // how often it was chosen stays known while there is room
			}
			return
		}
		if oldest < 0 || c.at < p.candidates[oldest].at {
			oldest = i
		}
	}
	if !fit {
		return
	}
	if len(p.candidates) < maxCandidates {
		oldest = len(p.candidates)
		// The candidate behind the end keeps the memory of its name.
		p.candidates = slices.Grow(p.candidates, 1)[:oldest+1]
	} else if p.candidates[oldest].at > at {
		return
	}
	c := &p.candidates[oldest]
	*c = candidate{id: id, name: append(c.name[:0], name...), at: at}
}

// choose picks the reviewer of the agent at that time, and counts the review. Of the candidates that
// reported lately it picks the one with the fewest reviews, then the latest report, then the first name.
// It is empty when there is no candidate. The agent itself is never chosen.
// It must give the same answer in each fold, which is why the name decides at last.
func (p *Partition) choose(agent string, at events.Stamp) string {
	var best *candidate
	for i := range p.candidates {
		c := &p.candidates[i]
		if c.at == 0 || at.Sub(c.at) > candidateAge || string(c.name) == agent {
			continue
		}
		if best == nil || c.before(best) {
			best = c
		}
	}
	if best == nil {
		return ""
	}
	best.reviews++
	return string(best.name)
}

// before reports whether c is rather to be asked than o.
func (c *candidate) before(o *candidate) bool {
	switch {
	case c.reviews != o.reviews:
		return c.reviews < o.reviews
	case c.at != o.at:
		return c.at > o.at
	}
	return string(c.name) < string(o.name)
}

// Version 1 did not contain the number of rows, see firstAgentRules.
const partitionVersion = 2

// firstAgentRules is how many rows about agents there were when the version was 1: the counts
// of stuck agents by row were as many then.
const firstAgentRules = 12

// AppendBinary appends the record of the partition to dst. It never fails.
func (p *Partition) AppendBinary(dst []byte) ([]byte, error) {
	dst = append(dst, partitionVersion, byte(len(p.candidates)))
	dst = binary.AppendVarint(dst, int64(p.Watermark))
	for i := range p.candidates {
		c := &p.candidates[i]
		dst = binary.AppendVarint(dst, int64(c.at))
		dst = binary.AppendUvarint(dst, uint64(c.reviews))
		dst = binary.AppendUvarint(dst, uint64(len(c.name)))
		dst = append(dst, c.name...)
	}
	return p.gauge.appendBinary(binary.AppendUvarint(dst, uint64(RuleCount))), nil
}

// UnmarshalBinary reads a record that AppendBinary wrote. An empty record is the zero
// Partition. It fails on a record that is cut short or of another version.
// The counts of rows that were added since begin at 0.
func (p *Partition) UnmarshalBinary(b []byte) error {
	*p = Partition{}
	if len(b) == 0 {
		return nil
	}
	d := record.NewReader(b)
	h := d.Take(2)
	if h[0] != partitionVersion && h[0] != 1 {
		return errors.New("state of the agents was written by another version of weir: delete the state to fold the log again")
	}
	p.Watermark = events.Stamp(d.Varint())
	p.candidates = make([]candidate, d.Most(h[1], maxCandidates))
	for i := range p.candidates {
		c := &p.candidates[i]
		c.at = events.Stamp(d.Varint())
		c.reviews = uint32(d.Uvarint())
		c.name = []byte(d.String())
		c.id = xxhash.Sum64(c.name)
	}
	kept := uint64(firstAgentRules)
	if h[0] != 1 {
		kept = min(d.Uvarint(), uint64(RuleCount))
	}
	p.gauge.read(&d, kept)
	return d.End("state of the agents")
}
