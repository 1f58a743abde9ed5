package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// misplaced returns what GET /readyz says of records that are not where their flow is looked for.
func (r *running) misplaced() map[string]int64 {
	r.t.Helper()
	_, body := r.get("/readyz")
	var ready struct {
		Misplaced []struct {
			Reason, Fix string
			Records     int64
		} `json:"misplaced_records"`
	}
	if err := json.Unmarshal([]byte(body), &ready); err != nil {
		r.t.Fatal(err)
	}
	out := map[string]int64{}
	for _, m := range ready.Misplaced {
		if m.Fix == "" {
			r.t.Errorf("%s has no fix", m.Reason)
		}
		out[m.Reason] = m.Records
	}
	return out
}

// Records that split a flow over partitions are counted by what is wrong with them, logged once
// with the fix, and reported by /readyz. Those of weir itself and those with the right key are not.
func TestMemberKeys(t *testing.T) {
	t.Parallel()
	g := newGroup(t, startBroker(t), 4)
	m := g.start(g.options(t.TempDir()))
	g.produce(loops("right", 5, 12)...)
	g.folded(m)
	if got := m.misplaced(); len(got) != 0 {
		t.Errorf("records with the right key are reported: %v", got)
	}

	none, wrong := loops("none", 1, 12), loops("wrong", 1, 14)
	for i := range none {
		none[i].Key = nil
	}
	for i := range wrong {
		wrong[i].Key = []byte("one and the same")
	}
	g.produce(none...)
	g.produce(wrong...)
	elsewhere := loops("elsewhere", 1, 10)
	right := int32(kafkago.Murmur2Balancer{Consistent: true}.Balance(elsewhere[0], 0, 1, 2, 3))
	for _, r := range elsewhere {
		g.b.send(t, &kgo.Record{Topic: g.topics.Events, Partition: (right + 1) % 4, Key: r.Key, Value: r.Value})
	}
	g.folded(m)
	got := m.misplaced()
	if got["no_key"] != 12 || got["other_key"] != 14 || got["other_partition"] != 10 || len(got) != 3 {
		t.Errorf("%v, want 12 without a key, 14 with another one, and 10 in another partition", got)
	}
	for _, say := range []string{"the record has no key", "the key of the record is not the correlation_id", "the record is not in the partition of its key"} {
		if n := strings.Count(m.log.String(), say); n != 1 {
			t.Errorf("%q is logged %d times, want once", say, n)
		}
	}
	m.stop()
}

// A plain consumer of dead letters meets no record without a value: neither the marks of owners
// nor letters of records that had none. A mark is a JSON object, and named by a header.
func TestMemberDeadLetterValues(t *testing.T) {
	t.Parallel()
	g := newGroup(t, startBroker(t), 1)
	dir := t.TempDir()
	for _, flow := range []string{"before", "after"} {
		m := g.start(g.options(dir))
		g.produce(append(loops(flow, 1, 14), kafkago.Message{Key: []byte("nothing")})...)
		g.folded(m)
		m.stop()
	}
	marks, letters := 0, 0
	for n := range int32(2) {
		for _, r := range g.b.records(t, g.topics.DeadLetters, n) {
			if r.Value == nil {
				t.Errorf("partition %d offset %d has no value: %v", n, r.Offset, r.Headers)
			}
			h := headersOf(r)
			if h["weir-mark"] == "" {
				letters++
				if h["weir-error"] == "" {
					t.Errorf("partition %d offset %d has no reason: %v", n, r.Offset, r.Headers)
				}
				continue
			}
			marks++
			var value map[string]string
			if err := json.Unmarshal(r.Value, &value); err != nil || value["weir_mark"] != h["weir-mark"] || h["weir-owner"] == "" {
				t.Errorf("a mark is %q with %v: %v", r.Value, h, err)
			}
		}
	}
	if marks != 4 || letters != 4 { // each start takes over both partitions
		t.Errorf("%d marks and %d letters, want 4 of each", marks, letters)
	}
}

// The verdicts of weir's own loop prove that the fold stops loops, and reach no consumer of the topic.
func TestMemberSelfTest(t *testing.T) {
	t.Parallel()
	g := newGroup(t, startBroker(t), 2)
	o := g.options(t.TempDir())
	o.SelfTest = time.Hour
	m := g.start(o)
	g.until("weir's own loop is stopped", func() bool {
		_, body := m.get("/readyz")
		return strings.Contains(body, `"self_test":{"ok":true,"last_stopped"`)
	})
	g.produce(loops("theirs", 3, 14)...)
	g.folded(m)
	m.stop()
	theirs := 0
	for _, v := range g.verdicts() {
		if strings.Contains(v, "weir-selftest/") {
			t.Errorf("the topic has a verdict of the self-test: %s", v)
		}
		if strings.Contains(v, `"correlation_id":"theirs-`) {
			theirs++
		}
	}
	if theirs == 0 {
		t.Error("the topic has no verdict about other flows")
	}
}
