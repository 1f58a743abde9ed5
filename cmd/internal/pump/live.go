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

// Live returns at most so many flows that weir heard of within the time of silence that
// ends an episode and that no person has stopped, those used last first, and whether
// there are more. Any goroutine may call it.
//
// The times of events may be up to analyzer.MaxSkew behind the log, and that of the partition as
// far ahead of it: both are allowed for. heard finds flows of slower clocks. Doubtful returns those that
// stay in doubt.
func (p *Pump) Live(most int) (out []LiveFlow, more bool, err error) {
	var f analyzer.Flow
	p.mu.Lock()
	now, idle, outside := p.stage.seen(), p.engine.Limits().Flow.Idle, p.cache.outside
	recent := func(key string, last events.Stamp) bool {
		return last.Add(idle+2*analyzer.MaxSkew) > now || p.heard.alive(key, last, idle)
	}
	seen := make(map[string]bool)
	for r := p.cache.ends.older; r != &p.cache.ends; r = r.older {
		// One that a deadline has loaded has no time.
		if len(r.record) == 0 || r.last != 0 && !recent(r.key, r.last) {
			continue
		}
		take, last := r.live && r.standing != analyzer.Stopped && r.last != 0, r.last
		if !take { // a stop may be a person's
			if err = f.UnmarshalBinary(r.key, r.record); err != nil {
				err = fmt.Errorf("flow %q: %w", r.key, err)
				break
			}
			last = f.Last()
			take = recent(r.key, last) && !f.Halted(now)
		}
		// Also when it is not taken: what the store has of it is older.
		seen[r.key] = true
		if take && !r.own {
			if more = len(out) == most; more {
				break
			}
			out = append(out, LiveFlow{r.key, last})
		}
	}
	p.mu.Unlock()
	if err != nil || more || !outside {
		return out, more, err
	}
	// Without the lock, so that folding goes on. What is heard meanwhile is in memory.
	err = p.o.Store.Records(p.o.Partition, state.FlowSubject, func(key string, record []byte) error {
		if seen[key] || selftest.OwnFlow(key) {
			return nil
		}
		if err := f.UnmarshalBinary(key, record); err != nil {
			return fmt.Errorf("flow %q: %w", key, err)
		}
		p.mu.Lock()
		live := recent(key, f.Last()) && !f.Halted(now)
		p.mu.Unlock()
		if !live {
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
