package orders

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"weir/events"
)

// Word is what one process knows of a guard about an order. A guard that goes from one member of a group
// to another is known to both, and the word of the one that heard it last counts.
type Word struct {
	Key   string `json:"key"`           // of the principal, the guard and the instance
	AgeMS int64  `json:"age_ms"`        // since it was heard last
	New   bool   `json:"new,omitempty"` // it has sent no heartbeat to this process
	// Since is when it was first heard to enforce the order; 0 if it has not confirmed, or of a release.
	Since   events.RFC3339 `json:"since,omitzero"`
	Missing *GuardSeen     `json:"missing,omitempty"` // if it has not confirmed
	Flights *Flights       `json:"in_flight,omitempty"`
}

// keyOf is the key of a guard. Its length does not depend on names, and no other name has the same key.
func keyOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

// Words returns what is known of each guard about the order of a verdict, at a time. With stops false the
// order was released: then a guard that does not hold any verdict of it has confirmed. more is how many
// guards are not known at least, because there was no room for them.
func (g *Guards) Words(verdict string, stops bool, now events.Stamp) (words []Word, more int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forget(now)
	if g.full != 0 && now.Sub(g.full) <= forgotten {
		more = 1
	}
	words = make([]Word, 0, len(g.byName))
	for name, s := range g.byName {
		if s.key == "" {
			s.key = keyOf(name)
		}
		w := Word{Key: s.key, AgeMS: now.Sub(s.seen).Milliseconds(), New: s.beat.Language == "", Since: events.RFC3339(s.since[verdict])}
		if why := s.missing(verdict, stops, now); why != "" {
			w.Since = 0
			w.Missing = &GuardSeen{Guard: s.beat.Guard, Instance: s.beat.Instance, Seen: events.RFC3339(s.seen), Why: why}
		}
		w.Flights = s.flights(verdict, now)
		words = append(words, w)
	}
	return words, more
}

// Confirm returns who enforces the order of a verdict, and who does not, at a time, see Words.
func (g *Guards) Confirm(verdict string, stops bool, now events.Stamp) Confirmed {
	words, more := g.Words(verdict, stops, now)
	return confirmedBy(words, more)
}

// later reports whether a word counts before another one about the same guard. One that has heard what the
// guard enforces counts before one that has only seen it come.
func (w *Word) later(o *Word) bool {
	if w.New != o.New {
		return o.New
	}
	return w.AgeMS < o.AgeMS
}

// confirmedBy returns what words of all processes mean together.
func confirmedBy(words []Word, more int) Confirmed {
	out := Confirmed{Missing: []GuardSeen{}, More: more, Flights: Flights{Open: []OpenSeen{}}}
	last := make(map[string]*Word, len(words))
	for i := range words {
		if w := &words[i]; last[w.Key] == nil || w.later(last[w.Key]) {
			last[w.Key] = w
		}
	}
	for _, w := range last {
		if w.Flights != nil {
			out.Flights.add(w.Flights)
		}
		if w.Missing != nil {
			out.Missing = append(out.Missing, *w.Missing)
			continue
		}
		out.Guards++
		out.Last = max(out.Last, w.Since)
	}
	out.cut()
	return out
}

// Moved forgets guards that are silent here, and that another process has heard later: they follow that
// one now. It takes the words of this process and of the others.
func (g *Guards) Moved(own, others []Word, now events.Stamp) {
	at := make(map[string]*Word, len(others))
	for i := range others {
		if w := &others[i]; !w.New && (at[w.Key] == nil || w.later(at[w.Key])) {
			at[w.Key] = w
		}
	}
	gone := make(map[string]bool)
	for i := range own {
		if w := at[own[i].Key]; w != nil && w.later(&own[i]) {
			gone[own[i].Key] = true
		}
	}
	if len(gone) == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, s := range g.byName {
		if gone[s.key] && now.Sub(s.seen) > Silent { // it may have come back meanwhile
			g.drop(name)
		}
	}
}

// cut puts the missing guards in an order, and keeps the lists of names short.
func (c *Confirmed) cut() {
	slices.SortFunc(c.Missing, func(a, b GuardSeen) int {
		return cmp.Or(cmp.Compare(a.Guard, b.Guard), cmp.Compare(a.Instance, b.Instance))
	})
	c.Flights.cut()
	if more := len(c.Missing) - MostMissing; more > 0 {
		c.Missing, c.More = c.Missing[:MostMissing], c.More+more
	}
}
