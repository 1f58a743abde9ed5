package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/events"
	sinkkafka "weir/sink/kafka"
)

// BenchmarkSinkEmit measures what it takes to publish verdicts, so many at a time. The
// processor time is that of this process, so with a kfake it is the broker's as well.
func BenchmarkSinkEmit(b *testing.B) {
	br := startBroker(b)
	f := func(n int) {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := openProducer(b, br, "g", br.topic(b, 1, "retention.bytes=100000000"), 0)
			v := sinkkafka.NewVerdicts(p, time.Now)
			verdicts := make([]events.Emitted, n)
			for i := range verdicts {
				verdicts[i] = benchVerdict(i)
			}
			took := make([]time.Duration, 0, b.N)
			cpu := cpuTime(b)
			for b.Loop() {
				start := time.Now()
				if _, err := v.Emit(b.Context(), verdicts); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			cpu = cpuTime(b) - cpu
			slices.Sort(took)
			all := float64(len(took) * n)
			b.ReportMetric(all/b.Elapsed().Seconds(), "verdicts/s")
			b.ReportMetric(all/cpu.Seconds(), "verdicts/cpu-s")
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
		})
	}
	f(1)
	f(100)
	f(4096)
}

func benchVerdict(i int) events.Emitted {
	limit, observed := 10.0, 11.0
	id := fmt.Sprintf("%016x", i*7919)
	return events.Emitted{Offset: int64(i), Verdict: events.Verdict{
		SchemaVersion: 1, ID: id + "-1700000000000", Time: 1_700_000_000_000, Revision: 1_700_000_000_000, Mode: "enforce",
		Scope: events.Scope{Kind: "flow", ID: "flow-" + id}, Action: "deny", Effective: "next", Reason: events.RepeatedDelegation, RuleID: "repeated_delegation",
		ConfigVersion: "0123456789abcdef", Limit: &limit, Observed: &observed, Unit: events.UnitRepeats, Message: strings.Repeat("told for people ", 5),
		AgentMessage: "stopped: the same delegation for the eleventh time", TTLS: 900, ExpiresAt: 1_700_000_900_000, HTTPStatus: 429, Confidence: "exact",
		CorrelationID: "flow-" + id, From: "planner", To: "researcher", TraceID: strings.Repeat("ab", 16), Trigger: &events.Trigger{EventID: "event-" + id, Ordinal: 42},
	}}
}

// cpuTime is the processor time that this process has used.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
