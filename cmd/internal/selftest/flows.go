package selftest

import (
	"bytes"
	"strings"
	"time"

	"weir/analyzer"
	"weir/analyzer/limitfile"
	"weir/analyzer/rules"
	"weir/events"
)

// Source is the source of weir's own events. If another sender puts events into weir's flows, past the
// intake, they are dead letters. So no sender can hide there.
const Source = "weir"

// OwnFlow reports whether a flow is weir's own.
func OwnFlow(key string) bool { return strings.HasPrefix(key, events.SelfTestFlows) }

// OwnVerdict reports whether a verdict, as it stands in the log, is about one. In a text
// that producers sent the quotes would be escaped.
func OwnVerdict(line []byte) bool {
	return bytes.Contains(line, []byte(`"correlation_id":"`+events.SelfTestFlows))
}

// Forgets is how long anything of a loop is remembered: nothing is left of it when the
// next one is made.
const Forgets = 5 * time.Second

// Limits judge weir's own flows, whatever limits are in force for all others. They have no
// rules but those that a loop is to be stopped by: what loops of processes that were started again and
// again add up to within Forgets, which a release does not take back, would stop the next one first.
func Limits() analyzer.Limits {
	l := limitfile.Default()
	l.Version = "selftest"
	l.Flow = analyzer.FlowLimits{Idle: Forgets, MaxAge: Forgets}
	l.Order.TTL = Forgets
	for r := range l.Rules {
		if analyzer.Rules[r].Reason != proved {
			l.Rules[r].Mode = rules.ModeOff
		}
	}
	return l
}
