package intake

import (
	"log/slog"
	"sync"
	"time"

	"weir/cmd/internal/clock"
	"weir/cmd/internal/pump"
	"weir/events"
	"weir/sink/prom"
	"weir/state"
)

// Dead letters of the intakes are all counted, and kept as long as there are not too
// many: whoever may send could fill the disk with what is refused, and hold up what is
// not. How many were not kept is a metric, a line in the log, and in the answer of
// /v1/deadletters. Those of the pumps are not sampled, for a fold from the same log has to
// make the same.

// DeadLetters are the dead letters of the intakes. Any goroutine may use them.
type DeadLetters struct {
	// What is refused is counted there by its code, whether it is kept or not.
	Counts *pump.Counts
	Clock  clock.Clock
	Logger *slog.Logger

	// The bounds of what is kept, for each way that letters come.
	HTTP, Receiver, Files DeadLetterBound
}

// What may be kept: at first burst bytes, then rate a second.
const (
	burst = 4 << 20
	rate  = 16 << 10
	// In bytes. 16 KiB a second are 1.4 GB a day at most, for each way.
	overhead = 256 // of each, beside what came
)

// DeadLetterBound says which dead letters are kept. The zero value is fit for use.
// It is a bucket: what is kept fills it up to burst, and it empties by rate.
type DeadLetterBound struct {
	mu    sync.Mutex
	spent float64 // of burst
	at    time.Time
	// logged is when it was last said that some were not kept, once a minute at most.
	logged  time.Time
	dropped int64 // since logged
}

// take reports whether a letter of so many bytes may be kept; dropped is how many could not
// be, when that is to be said.
// A clock that was set back empties nothing.
func (b *DeadLetterBound) take(now time.Time, size int) (kept bool, dropped int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.spent = max(0, b.spent-passed*rate)
	}
	b.at = now
	if cost := float64(overhead + size); b.spent+cost <= burst {
		b.spent += cost
		return true, 0
	}
	b.dropped++
	if now.Sub(b.logged) >= time.Minute {
		dropped, b.logged, b.dropped = b.dropped, now, 0
	}
	return false, dropped
}

// Keep counts what was not accepted and reports whether a dead letter of so many bytes
// is to be made of it.
// Call it once for each record that is refused, also of those that are refused for one
// reason.
func (l *DeadLetters) Keep(bound *DeadLetterBound, code events.Code, size int) bool {
	kept, dropped := bound.take(l.Clock.Now(), min(size, state.MaxRaw))
	l.Counts.Count(func(n *prom.Counters) {
		n.Reject(code)
		if !kept {
			n.NotKept++
		}
	})
	if dropped > 0 {
		l.Logger.Warn("so much is refused that it is counted and not all of it kept as dead letters", "not_kept", dropped, "last_code", code)
	}
	return kept
}

// New makes a dead letter of what was not accepted.
// Source and position say where it came from: a path and an offset, or the way in by HTTP
// and the line or place there. It keeps raw, of which the caller gives a copy of at most
// state.MaxRaw bytes, and sets Size when that is not all.
func (l *DeadLetters) New(source string, position int64, code events.Code, reason string, raw []byte) state.DeadLetter {
	return state.DeadLetter{Source: source, Position: position, Code: string(code), Reason: reason, Appended: events.StampOf(l.Clock.Now()), Raw: raw}
}
