package pump

import (
	"errors"
	"fmt"
	"strings"

	"weir/analyzer"
	"weir/cmd/internal/selftest"
	"weir/events"
	"weir/state"
)

// LiveFlow is a flow that is live, and the time of its last event.
type LiveFlow struct {
	Key  string
	Last events.Stamp
}

// Live returns at most so many flows that had an event within the time of silence that
// ends an episode and that no person has stopped, those used last first, and whether
// there are more. Any goroutine may call it.
func (p *Pump) Live(most int) (out []LiveFlow, more bool, err error) {
	var f analyzer.Flow
	p.mu.Lock()
	now, idle, outside := p.stage.seen(), p.engine.Limits().Flow.Idle, p.cache.outside
	// lives is about the flow in f, for those of which what stands beside the record is not
	// enough.
	lives := func() bool { return f.Last().Add(idle) > now && !f.Halted(now) }
	seen := make(map[string]bool)
	// Flows stand in the order of use, and beyond fading none is live: the turn of fading is the
	// last one, and the rest of a full memory is not touched.
	for r := p.cache.ends.older; p.cache.fading != &p.cache.ends; r = r.older {
		take := r.live && r.standing != analyzer.Stopped && r.last.Add(idle) > now
		last := r.last
		if !take && len(r.record) > 0 { // a stop may be a person's; and one that a deadline has loaded has no time
			if err = f.UnmarshalBinary(r.key, r.record); err != nil {
				err = fmt.Errorf("flow %q: %w", r.key, err)
				break
			}
			take, last = lives(), f.Last()
		}
		// Also when it is not taken: what the store has of it is older.
		seen[r.key] = true
		if take && !r.own {
			if more = len(out) == most; more {
				break
			}
			out = append(out, LiveFlow{r.key, last})
		}
		if r == p.cache.fading {
			break
		}
	}
	p.mu.Unlock()
	if err != nil || more || !outside {
		return out, more, err
	}
	// Without the lock, so that folding goes on.
	err = p.o.Store.Records(p.o.Partition, state.FlowSubject, func(key string, record []byte) error {
		if seen[key] || selftest.OwnFlow(key) {
			return nil
		}
		if err := f.UnmarshalBinary(key, record); err != nil {
			return fmt.Errorf("flow %q: %w", key, err)
		}
		if !lives() {
			return nil
		}
		if more = len(out) == most; more {
			return errEnough
		}
		// The key may be in memory of the store.
		out = append(out, LiveFlow{strings.Clone(key), f.Last()})
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return out, more, err
}
