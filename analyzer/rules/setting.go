package rules

import (
	"math"

	"weir/events"
)

// Mode says what a rule may do.
type Mode uint8

// The modes, from nothing to orders. A shadow verdict is judged, counted and
// published, marked so that no dispatcher honors it.
const (
	ModeEnforce Mode = iota
	ModeOff
	ModeShadow
	ModeWarn
)

var modeNames = [...]string{"enforce", "off", "shadow", "warn"}

// String returns the mode as the limits file spells it.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return "invalid"
}

// ParseMode returns the mode that the limits file spells so.
func ParseMode(s string) (Mode, bool) {
	for i, n := range modeNames {
		if n == s {
			return Mode(i), true
		}
	}
	return 0, false
}

// Off as a threshold means never.
const Off = math.MaxInt64

// Setting is the limit of one rule row.
type Setting struct {
	Warn int64 // observed value from which the rule warns; Off for never
	Stop int64 // observed value from which it stops; Off for never
	// The remaining budget from which answers report it to the model; 0 for never. Only rows
	// that report the remaining budget use it.
	Tell int64
	// Reserve is how much of a tree's budget each living child may count on; 0 for nothing. No other
	// flow can spend the unspent part. Only rows that share a budget use it.
	Reserve int64
	Window  int64 // of the rows that have one; seconds or calls, see Row.Window

	Mode Mode
	// Max says that the file gave the stop as the highest allowed value: verdicts
	// then report Stop-1 as the limit, and the order goes out armed (effective next)
	// when that value is used up. Otherwise the limit reported is Stop itself.
	Max bool
	// Hold has the whole flow wait for a person where the row would refuse calls.
	Hold bool
	// IgnoreResults makes repetition_blind count calls whatever their results were,
	// as guards do that never look at results.
	IgnoreResults bool
	// All widens or narrows what a rule counts:
	// agent_message_rate counts every message, not only those that escaped;
	// self_call counts every call of a party to itself, not only delegations;
	// max_turns counts every change of the turn id, not only distinct ids;
	// call_rate_per_flow counts only the calls of the first window of an episode.
	// With All on ping_pong_same, every rule about hops without work treats hops with unknown work as idle.
	All bool
	// Extends makes a budget count from the last evidence of progress instead of from the
	// beginning. It is of the rows that extend.
	Extends bool
	// Unpaced keeps the pace of the party from widening the thresholds of a paced
	// row, as guards do that know no pace.
	Unpaced bool
}

// Mute reports whether the row says nothing at all: it is off, or has no threshold.
func (s *Setting) Mute() bool { return s.Mode == ModeOff || s.Warn == Off && s.Stop == Off }

// Limit is the figure to report for the stop threshold.
func (s Setting) Limit() int64 {
	if s.Max && s.Stop != Off {
		return s.Stop - 1
	}
	return s.Stop
}

// Widen multiplies both thresholds, as the pace of a party does.
func (s *Setting) Widen(x int64) {
	if s.Warn != Off {
		s.Warn *= x
	}
	if s.Stop != Off {
		s.Stop *= x
	}
}

// Scale returns the setting with its thresholds reduced to the given percentage, as load does. A
// threshold never falls below one.
func (s Setting) Scale(percent int64) Setting {
	shrink := func(v int64) int64 {
		if v == Off {
			return v
		}
		if s.Max {
			return max(1, (v-1)*percent/100) + 1
		}
		return max(1, v*percent/100)
	}
	s.Stop = shrink(s.Stop)
	if s.Warn != Off {
		s.Warn = max(1, s.Warn*percent/100)
	}
	return s
}

// Stop is the setting that warns and stops at these values.
func Stop(warn, at int64) Setting { return Setting{Warn: warn, Stop: at} }

// Most is the setting that warns at the one and allows at most the other.
func Most(warn, n int64) Setting { return Setting{Warn: warn, Stop: n + 1, Max: true} }

// Extending is the setting of which the budget counts from the last evidence of progress.
func Extending(s Setting) Setting {
	s.Extends = true
	return s
}

// Window returns the setting with a window of w seconds, calls or gaps.
func Window(w int64, s Setting) Setting {
	s.Window = w
	return s
}

// StampOf converts a threshold or a window from seconds to a Stamp. The result is bounded, so that adding
// it to a time does not overflow; such a bound is as good as no limit.
func StampOf(s int64) events.Stamp {
	if s > 1<<40 {
		return 1 << 50
	}
	return events.Stamp(s * 1000)
}
