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

// The intakes count all their dead letters, and keep them up to a bound. Otherwise any sender could
// fill the disk with rejected records, and delay accepted ones. The number that was not kept is a
// metric, a line in the log, and in the answer of /v1/deadletters. The dead letters from the pumps are
// not sampled, because another fold of the same log has to make the same ones.

// DeadLetters is the dead-letter queue of the intakes. Any goroutine may use it.
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

// take reports whether a letter of size bytes may be kept. dropped is the number that could not be
// kept, if it has to be logged now. A clock that was set back empties nothing.
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

// Keep counts a rejected record and reports whether to make a dead letter of its size bytes. Call it
// once for each record that is rejected, also if several are rejected for one reason.
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
