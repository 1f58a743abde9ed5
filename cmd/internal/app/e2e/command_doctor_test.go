package e2e

import (
	"fmt"
	"strings"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
)

// many are events of as many flows.
func many(t *testing.T, flows int) (list []kafkago.Message) {
	t.Helper()
	for i := range flows {
		list = append(list, recordOf(t, fmt.Appendf(nil,
			`{"id":"e%d","source":"test","time":"2026-03-02T11:00:00Z","kind":"agent.call","correlation_id":"flow-%d","from":{"agent":"a"},"to":{"agent":"b"}}`, i, i)))
	}
	return list
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	b, n := startBroker(t), newNames(t)
	f := func(code int, wants []string, args ...string) {
		t.Helper()
		out := expects(t, code, wants, n.flags("doctor --state state", b, args...)...)
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "fail") && code == 0 {
				t.Errorf("%s", line)
			}
		}
	}
	f(3, []string{"ok   brokers", n.events + ": there is no such topic", "create it: weir topics create"})
	n.create(t, b, 4)
	f(0, []string{"ok   settings", "ok   limits", "topics     " + n.events + ": 4 partitions", "ok   keys       there are no events yet",
		"ok   verdicts   a record went through " + n.verdicts, "ok   clocks", "warn group      no weir is in the group " + n.group, "weir run --brokers"})
	b.produce(t, n.events, nil, many(t, 100)...)
	f(0, []string{"the 100 newest records are where murmur2 puts them"}, "--no-probe")
	f(0, []string{`"check":"keys","state":"ok"`}, "-o", "json")
	_, out, _ := weir(t, []string{"WEIR_BROKRES=kafka:9092", "WEIR_SERVER=http://x"}, n.flags("doctor --state state --no-probe", b)...)
	if !strings.Contains(out, "warn settings   WEIR_BROKRES is set, and there is no such setting; did you mean WEIR_BROKERS") || strings.Contains(out, "WEIR_SERVER") {
		t.Errorf("a variable that is misspelled is not seen:\n%s", out)
	}
}

func TestDoctorFindsProducersThatDiffer(t *testing.T) {
	b := startBroker(t)
	f := func(code int, wants []string, balancer kafkago.Balancer, list ...kafkago.Message) {
		t.Helper()
		n := newNames(t)
		n.create(t, b, 6)
		b.produce(t, n.events, nil, many(t, 50)...)
		b.produce(t, n.events, balancer, list...)
		expects(t, code, wants, n.flags("doctor --in-memory --no-probe", b)...)
	}
	list := many(t, 90)
	f(3, []string{"fail keys", "CRC32", "librdkafka", "partitioner=murmur2_random"}, kafkago.CRC32Balancer{Consistent: true}, list...)
	f(3, []string{"fail keys", "FNV-1a", "Sarama"}, &kafkago.Hash{}, list...)
	f(3, []string{"fail keys", "no partitioner that is known"}, &kafkago.RoundRobin{}, list...)
	f(3, []string{"fail keys", "murmur2 puts them among 4 partitions"}, kafkago.BalancerFunc(func(m kafkago.Message, _ ...int) int {
		return kafkago.Murmur2Balancer{Consistent: true}.Balance(m, 0, 1, 2, 3)
	}), list...)
	f(3, []string{"fail keys", "too few to say"}, kafkago.BalancerFunc(func(m kafkago.Message, numbers ...int) int {
		return (kafkago.Murmur2Balancer{Consistent: true}.Balance(m, numbers...) + 1) % len(numbers)
	}), list[0])
	keyless, strange := list[0], list[1]
	keyless.Key, strange.Key = nil, []byte("agent-7")
	f(3, []string{"fail keys", "1 of the 51 newest records have no key"}, nil, keyless)
	f(0, []string{"warn keys", `such as "agent-7" for the flow "flow-1"`}, nil, strange)
}
